//! Rounds of computing and sending, timed.

use std::time::{Duration, Instant};

use onchip::prelude::*;
use onchip::threads::Spare;
use onchip_benches::work::Work;

/// The parameters of the rounds.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    pub grain: Duration,
    /// A multiple of 8, and at least 8.
    pub bytes: usize,
    pub kt: Kt,
    /// How often each kind is timed. The kinds are timed in turn.
    pub batches: usize,
}

/// Where the communication thread runs, and how it waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kt {
    pub spare: Spare,
    pub policy: WaitPolicy,
}

impl Kt {
    /// On the other core, always awake.
    pub const AWAKE: Kt = Kt { spare: Spare::Core, policy: WaitPolicy::Spin };
    /// On the other core. It sleeps if it has nothing to do for a while.
    pub const ADAPTIVE: Kt = Kt { spare: Spare::Core, policy: WaitPolicy::Adaptive };
    /// On the rank's own core.
    pub const BESIDE: Kt = Kt { spare: Spare::None, policy: WaitPolicy::Adaptive };
}

/// Nanoseconds for each round. They are lower quartiles, because disturbances only add to times.
#[derive(Clone, Copy, Default, Debug)]
pub struct Times {
    pub computing: f64,
    pub inline: f64,
    pub delegated: f64,
    /// The time of the calls in a delegated round: sending, accepting, and waiting for the request.
    pub calls: f64,
    /// By how much the computation takes longer in a delegated round than alone: the median of the differences within
    /// each batch.
    pub slowed: f64,
}

/// The approximate time of a batch.
const BATCH: Duration = Duration::from_millis(2);
const FEWEST: u32 = 8;
const MOST: u32 = 2000;

/// Times rounds with computation alone, with inline sends and with delegated sends in turn, in a world of one rank on
/// the first CPU.
pub fn take(rounds: Rounds, cpus: [usize; 2]) -> onchip::Result<Times> {
    let run = |rank: &Rank| in_world(rank, rounds, cpus);
    let world = World::threads(1).bind(Bind::List(vec![cpus[0]]));
    let results = world.wait(WaitPolicy::Adaptive).run(run)?;
    let [computing, inline, delegated, calls, slowed] = results[0];
    Ok(Times { computing, inline, delegated, calls, slowed })
}

fn in_world(rank: &Rank, rounds: Rounds, cpus: [usize; 2]) -> onchip::Result<[f64; 5]> {
    let Kt { spare, policy } = rounds.kt;
    let cpu = if spare == Spare::None { cpus[0] } else { cpus[1] };
    let threads = CommThreads::builder(1).cpus([cpu]).wait(policy).start()?;
    let none = CommThreads::start(0)?;
    let mut inline = Sending::open(rank, "inline", &none, rounds)?;
    let mut delegated = Sending::open(rank, "delegated", &threads, rounds)?;
    let mut work = Work::new();
    let lines = work.lines_in(rounds.grain);
    let about = rounds.grain + Duration::from_nanos(500 + rounds.bytes as u64 / 20);
    let count = (BATCH.as_nanos() / about.as_nanos()).clamp(FEWEST.into(), MOST.into()) as u32;
    let mut took: [Vec<f64>; 4] = Default::default();
    for batch in 0..=rounds.batches {
        let start = Instant::now();
        for _ in 0..count {
            work.run(lines);
        }
        let mut times = [start.elapsed(), Duration::ZERO, Duration::ZERO, Duration::ZERO];
        (times[1], _) = inline.rounds(count, || work.run(lines))?;
        (times[2], times[3]) = delegated.rounds(count, || work.run(lines))?;
        // The first batch warms up.
        if batch > 0 {
            for (took, time) in took.iter_mut().zip(times) {
                took.push(time.as_nanos() as f64 / f64::from(count));
            }
        }
    }
    let [computing, _, delegated, calls] = &took;
    let mut slowed: Vec<f64> = (0..rounds.batches)
        .map(|batch| delegated[batch] - calls[batch] - computing[batch])
        .collect();
    slowed.sort_by(f64::total_cmp);
    let slowed = slowed[slowed.len() / 2];
    let [computing, inline, delegated, calls] = took.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 4]
    });
    Ok([computing, inline, delegated, calls, slowed])
}

/// A rank that sends to itself.
struct Sending {
    to: Delegated<[u64]>,
    from: Receiver<[u64]>,
    spare: Vec<Vec<u64>>,
    under_way: Option<threads::Request<Vec<u64>>>,
    number: u64,
}

impl Sending {
    fn open(
        rank: &Rank,
        name: &str,
        threads: &CommThreads,
        rounds: Rounds,
    ) -> onchip::Result<Sending> {
        let words = rounds.bytes / 8;
        let channel = Channel::degree(2).max_len(words);
        Ok(Sending {
            to: threads.delegate(rank.sender::<[u64]>(name, rank.id(), channel)?),
            from: rank.receiver::<[u64]>(name, rank.id(), channel)?,
            spare: vec![vec![0; words]; 2],
            under_way: None,
            number: 0,
        })
    }

    /// Returns the time of so many rounds, and of the calls in them. The send before the first round is not timed, nor
    /// is the wait for the last message.
    fn rounds(
        &mut self,
        count: u32,
        mut compute: impl FnMut(),
    ) -> onchip::Result<(Duration, Duration)> {
        self.send()?;
        let mut calls = Duration::ZERO;
        let start = Instant::now();
        for _ in 0..count {
            compute();
            let begin = Instant::now();
            self.send()?;
            calls += begin.elapsed();
        }
        let took = start.elapsed();
        self.accept()?;
        Ok((took, calls))
    }

    /// Accepts the previous message, and sends the next one.
    fn send(&mut self) -> onchip::Result<()> {
        self.accept()?;
        // The buffer that was not used for the previous message.
        let mut message = self.spare.remove(0);
        self.number += 1;
        message[0] = self.number;
        self.under_way = Some(self.to.send(message));
        Ok(())
    }

    fn accept(&mut self) -> onchip::Result<()> {
        if let Some(request) = self.under_way.take() {
            if self.from.receive()?[0] != self.number {
                return Err(onchip::Error::other("a message arrived wrong"));
            }
            self.spare.push(request.wait()?);
        }
        Ok(())
    }
}
