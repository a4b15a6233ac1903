//! `mprun explain`: which shape a collective operation has on this machine, what the cache-line-aware
//! model predicts for it, and what it takes.

use std::{
    fmt::Write as _,
    io::{self, Write},
    process::ExitCode,
    time::{Duration, Instant},
};

use mp_model::cla::barrier::best_barrier_on;
use mp_model::cla::{
    Barrier, Bounds, Graph, Machine, Pattern, Program, Rules, Tree, best_tree, patterns,
};
use onchip::barrier::Barriers;
use onchip::calibration::recall;
use onchip::reduce::{self, Order, Reductions, Sum};
use onchip::topology::Topology;
use onchip::{Bind, Rank, World, broadcast, mpb};

use super::{Shown, USAGE, calibrate};

/// The search for trees takes time that grows with the ranks: seconds beyond.
const MOST_RANKS: i64 = 256;
/// A message that every rank has memory for.
const MOST_BYTES: u64 = 1 << 30;
/// More ranks than this are not started to measure.
const MOST_MEASURED: usize = 64;
/// Nor more memory taken for their messages.
const MOST_MEMORY: usize = 1 << 28;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which operation
    collective: Collective,
    /// How many ranks
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MOST_RANKS))]
    ranks: u32,
    /// The message's length
    #[arg(long, value_name = "B", default_value = "8", value_parser = clap::value_parser!(u64).range(..=MOST_BYTES))]
    bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Collective {
    Barrier,
    Broadcast,
    Reduce,
    AllReduce,
}

pub fn run(args: &Args) -> Shown {
    let recalled = recall(&Topology::read()?, false);
    calibrate::warn(&recalled);
    let calibration = recalled.calibration;
    let ranks = args.ranks as usize;
    let Some(placement) = calibration.placement(ranks) else {
        eprintln!("mprun: no ranks");
        return Ok(ExitCode::from(USAGE));
    };
    // A loop of operations, as is measured here, finds its flags in caches.
    let parameters = calibration.parameters.with_cached_flags();
    let machine = Machine { parameters, placement };
    let (cores, bytes) = (calibration.cores(), args.bytes as usize);
    let crowded = ranks > cores;
    let known = broadcast::Machine { ranks, cores, payload: mpb::PAYLOAD_BYTES };
    let mut text = String::new();
    match args.collective {
        Collective::Barrier => barrier(&mut text, &machine, cores),
        Collective::Broadcast => {
            let choice = broadcast::choose(known, bytes, None);
            writeln!(text, "chosen: {choice}")?;
            if choice.algorithm == broadcast::Algorithm::Lines && bytes <= mpb::PAYLOAD_BYTES {
                let tree = Tree::k_ary(0, known.degree(), &machine.placement)?;
                pushed(&mut text, &machine, &tree, &patterns::pushed_broadcast(&tree), crowded)?;
            }
            let lines = args.bytes.div_ceil(64).max(1);
            tree(&mut text, &machine, Pattern::Broadcast { lines }, crowded)?;
        }
        Collective::Reduce => {
            // No vector that is short is too long for the lines that there are.
            let choice = reduce::choose_reduce(known, bytes, usize::MAX, None);
            writeln!(text, "chosen: {choice}")?;
            if choice.algorithm == reduce::Reduce::Lines && bytes <= mpb::PAYLOAD_BYTES {
                let tree = Tree::flat(0, &machine.placement)?;
                pushed(&mut text, &machine, &tree, &patterns::pushed_reduction(&tree), crowded)?;
            }
            if bytes > 64 {
                writeln!(text, "of one line: the model has no more")?;
            }
            tree(&mut text, &machine, Pattern::Reduction, crowded)?;
        }
        Collective::AllReduce => {
            let order = Order::default();
            let choice = reduce::choose_all_reduce(known, bytes, usize::MAX, order, None);
            writeln!(text, "chosen: {choice}")?;
            writeln!(text, "predicted: nothing, the model has no all-reduce")?;
        }
    }
    if ranks > MOST_MEASURED {
        writeln!(text, "measured: not, for more than {MOST_MEASURED} ranks")?;
    } else if ranks * bytes > MOST_MEMORY {
        writeln!(text, "measured: not, for messages of more than 256 MiB in all")?;
    } else {
        writeln!(text, "{}", Took::of(args.collective, ranks, bytes)?)?;
    }
    io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn barrier(text: &mut String, machine: &Machine, cores: usize) {
    let chosen = onchip::barrier::choose(machine.ranks(), cores, Some(machine.parameters), None);
    let _ = writeln!(text, "chosen: {chosen}");
    match &chosen.barrier {
        Barrier::Central => {
            let _ = writeln!(text, "rank 0 counts the others in and wakes them all");
        }
        barrier => {
            for (rank, rounds) in barrier.rounds(&machine.placement).iter().enumerate() {
                let read = |round: &mp_model::cla::barrier::Round| format!("{:?}", round.reads);
                let reads: Vec<String> = rounds.iter().map(read).collect();
                let reads = if reads.is_empty() { "nobody".into() } else { reads.join(", then ") };
                let _ = writeln!(text, "  {rank} waits for {reads}");
            }
        }
    }
    let crowded = machine.ranks() > cores;
    predicted(text, (!crowded).then(|| chosen.barrier.predicted(machine)));
    let best = best_barrier_on(machine, cores);
    if best.barrier != chosen.barrier {
        let _ = writeln!(text, "with what was measured here the model would take {}", best.barrier);
        predicted(text, best.predicted);
    }
}

/// What is done with one line.
fn pushed(
    text: &mut String,
    machine: &Machine,
    tree: &Tree,
    program: &Program,
    crowded: bool,
) -> Result<(), Error> {
    draw(text, tree);
    let bounds = Graph::new(program, machine)?.bounds(Rules::default());
    predicted(text, (!crowded).then_some(bounds));
    Ok(())
}

fn tree(
    text: &mut String,
    machine: &Machine,
    pattern: Pattern,
    crowded: bool,
) -> Result<(), Error> {
    let choice = best_tree(machine, 0, pattern)?;
    let crowd = if crowded { ", had each rank a core" } else { "" };
    let _ = writeln!(text, "the model's best tree with acknowledgements{crowd}:");
    draw(text, &choice.tree);
    predicted(text, (!crowded).then_some(choice.predicted));
    Ok(())
}

type Error = Box<dyn std::error::Error>;

fn predicted(text: &mut String, bounds: Option<Bounds>) {
    let _ = match bounds {
        Some(Bounds { min, max }) => writeln!(text, "predicted: {min} to {max}"),
        None => writeln!(text, "predicted: nothing, for ranks that share cores"),
    };
}

/// Each rank under its parent.
fn draw(text: &mut String, tree: &Tree) {
    // A rank, and what stands before it and before its children.
    let mut open = vec![(tree.root(), String::new(), String::new())];
    while let Some((rank, before, below)) = open.pop() {
        let _ = writeln!(text, "  {before}{rank}");
        let children: Vec<usize> = tree.children(rank).collect();
        for (index, &child) in children.iter().enumerate().rev() {
            let last = index + 1 == children.len();
            let (branch, on) = if last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            open.push((child, format!("{below}{branch}"), format!("{below}{on}")));
        }
    }
}

/// What calls took: from when the last rank began to when the last one was done.
struct Took {
    low: Duration,
    median: Duration,
    high: Duration,
    rounds: usize,
}

impl Took {
    fn of(collective: Collective, ranks: usize, bytes: usize) -> Result<Took, Error> {
        // Doubles are what is added most.
        const DOUBLE: usize = size_of::<f64>();
        let rounds = (1 << 24) / bytes.clamp(1 << 17, 1 << 24) + 1;
        let start = Instant::now();
        let said = World::threads(ranks).bind(Bind::Auto).run(|rank| match collective {
            Collective::Barrier => {
                let mut barriers = barriers(rank, "explained")?;
                timed(rank, rounds, start, || barriers.wait())
            }
            Collective::Broadcast => {
                let settings = broadcast::Settings::default();
                let mut broadcasts = broadcast::Broadcasts::open(rank, "explained", settings)?;
                let mut message = vec![0u8; bytes];
                timed(rank, rounds, start, || broadcasts.broadcast(&mut message, 0))
            }
            Collective::Reduce | Collective::AllReduce => {
                let mut reductions = Reductions::open(rank, "explained", Default::default())?;
                let to_all = collective == Collective::AllReduce;
                let mut doubles = vec![0.0; bytes / DOUBLE];
                let mut rest = vec![0u8; if bytes.is_multiple_of(DOUBLE) { 0 } else { bytes }];
                timed(rank, rounds, start, || match (rest.is_empty(), to_all) {
                    (true, true) => reductions.all_reduce(&mut doubles, Sum),
                    (true, false) => reductions.reduce(&mut doubles, Sum, 0),
                    (false, true) => reductions.all_reduce(&mut rest, Sum),
                    (false, false) => reductions.reduce(&mut rest, Sum, 0),
                })
            }
        })?;
        let mut took: Vec<Duration> = (0..rounds)
            .filter_map(|round| {
                let begin = said.iter().map(|times| times[round].0).max()?;
                let end = said.iter().map(|times| times[round].1).max()?;
                Some(end.saturating_sub(begin))
            })
            .collect();
        took.sort_unstable();
        let last = took.len().checked_sub(1).ok_or("no call was timed")?;
        let at = |quarter: usize| took[last * quarter / 4];
        Ok(Took { low: at(1), median: at(2), high: at(3), rounds })
    }
}

fn barriers(rank: &Rank, name: &str) -> onchip::Result<Barriers> {
    Barriers::open(rank, name, Default::default())
}

/// When this rank began and ended each call; nobody begins before all have ended the one before.
fn timed(
    rank: &Rank,
    rounds: usize,
    start: Instant,
    mut call: impl FnMut() -> onchip::Result<()>,
) -> onchip::Result<Vec<(Duration, Duration)>> {
    let mut apart = barriers(rank, "apart")?;
    let mut times = Vec::with_capacity(rounds);
    // The first ones find no memory yet.
    for round in 0..rounds + 3 {
        apart.wait()?;
        let begin = start.elapsed();
        call()?;
        if round >= 3 {
            times.push((begin, start.elapsed()));
        }
    }
    Ok(times)
}

impl std::fmt::Display for Took {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let micros = |time: Duration| time.as_nanos() as f64 / 1e3;
        let Took { low, median, high, rounds } = self;
        write!(f, "measured: {:.3} µs, quartiles ", micros(*median))?;
        write!(f, "{:.3} and {:.3} µs, {rounds} rounds on threads", micros(*low), micros(*high))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_are_drawn_as_such() {
        let waves = vec![vec![vec![2], vec![1]], vec![], vec![vec![3, 4]], vec![], vec![]];
        let mut text = String::new();
        draw(&mut text, &Tree::new(0, waves).unwrap());
        assert_eq!(text, "  0\n  ├─ 2\n  │  ├─ 3\n  │  └─ 4\n  └─ 1\n");
    }
}
