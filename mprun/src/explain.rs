//! `mprun explain`: which shape a collective operation has on this machine, what the cache-line-aware model predicts
//! for it, and how long it takes.

use std::{
    fmt::Write as _,
    io::{self, Write},
    process::ExitCode,
    time::{Duration, Instant},
};

use mp_model::cla::barrier::best_barrier_on;
use mp_model::cla::{Barrier, Bounds, Machine, Pattern, Schedule, Tree, best_tree};
use mp_model::in_order::Shape;
use onchip::barrier::Barriers;
use onchip::broadcast::Broadcasts;
use onchip::calibration::recall;
use onchip::collectives::{Algorithm, Collective, Explanation, Settings};
use onchip::exchange::Exchanges;
use onchip::near::Places;
use onchip::reduce::{Number, Reduce, Reductions, Sum};
use onchip::topology::{Plan, Topology};
use onchip::{Bind, Rank, World};

use crate::{
    calibrate,
    drawn::draw,
    nodes::Nodes,
    shown::{Shown, USAGE},
};

/// The most ranks: what all of them send to all fits into some 500 MB of memory.
const MOST_RANKS: i64 = 4096;
/// The most ranks for which the paper's shapes are searched, beside the library's. The time of the search grows with the
/// ranks: more ranks would take seconds.
const MOST_SEARCHED: usize = 256;
/// The longest message. Every rank has memory for it.
const MOST_BYTES: u64 = 1 << 30;
/// The most ranks that are started to measure.
const MOST_MEASURED: usize = 64;
/// The most memory that is taken for the messages of these ranks.
const MOST_MEMORY: usize = 1 << 28;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which operation: barrier, broadcast, reduce, all-reduce, scan, reduce-scatter, gather, scatter, all-gather,
    /// all-to-all
    #[arg(value_parser = collective)]
    collective: Collective,
    /// How many ranks; with several nodes, on each node
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MOST_RANKS))]
    ranks: u32,
    /// The message's length; of what has a block for each rank, a block's
    #[arg(long, value_name = "B", default_value = "8", value_parser = clap::value_parser!(u64).range(..=MOST_BYTES))]
    bytes: u64,
    #[command(flatten)]
    nodes: Nodes,
}

/// Returns the operation of this name, in which words are joined by hyphens.
fn collective(name: &str) -> Result<Collective, String> {
    let names = || Collective::ALL.map(|of| of.name().replace('_', "-"));
    let at = names().iter().position(|of| of == name);
    at.map(|at| Collective::ALL[at]).ok_or_else(|| format!("it is one of {}", names().join(", ")))
}

pub fn run(args: &Args) -> Shown {
    if let Err(why) = args.nodes.check(args.collective, args.ranks) {
        eprintln!("mprun: {why}");
        return Ok(ExitCode::from(USAGE));
    }
    let topology = Topology::read()?;
    let recalled = recall(&topology, false);
    calibrate::warn(&recalled);
    let calibration = recalled.calibration;
    let ranks = args.ranks as usize;
    let places = places(&topology, ranks)?;
    // In a loop of operations, such as the one measured here, ranks find their flags in caches.
    let parameters = calibration.parameters.with_cached_flags();
    let machine = Machine { parameters, placement: places.finest() };
    let (cores, bytes) = (calibration.cores(), args.bytes as usize);
    if let Some(text) = args.nodes.simulated(args.collective, args.bytes, &machine, cores)? {
        io::stdout().write_all(text.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let (known, settings) = (Some(calibration.parameters), Settings::default());
    let choice = Explanation::of(args.collective, bytes, &places, cores, known, &settings);
    let mut text = String::new();
    chosen(&mut text, &machine, &places, &choice)?;
    if ranks > MOST_MEASURED {
        writeln!(text, "measured: not, for more than {MOST_MEASURED} ranks")?;
    } else if elements_of_all(args.collective, ranks).saturating_mul(bytes) > MOST_MEMORY {
        writeln!(text, "measured: not, for messages of more than 256 MiB in all")?;
    } else {
        writeln!(text, "{}", Took::of(args.collective, ranks, bytes)?)?;
    }
    io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Returns how many elements the messages of all ranks have together.
fn elements_of_all(collective: Collective, ranks: usize) -> usize {
    match collective {
        Collective::Barrier => 0,
        Collective::Broadcast | Collective::Reduce | Collective::AllReduce | Collective::Scan => {
            ranks
        }
        Collective::Gather | Collective::Scatter => 2 * ranks,
        Collective::ReduceScatter | Collective::AllGather => ranks * (ranks + 1),
        Collective::AllToAll => 2 * ranks * ranks,
    }
}

/// Returns the places of ranks that are bound in the same way as the ranks measured here.
fn places(topology: &Topology, ranks: usize) -> Result<Places, Error> {
    let plan = Plan::for_ranks(topology, ranks, &Bind::Auto)?;
    let seat = |cpu: Option<usize>| topology.seat(cpu?);
    let seats: Vec<_> = plan.places().iter().map(|place| seat(place.cpu)).collect();
    Ok(Places::of_seats(&seats))
}

/// Writes the choice, and draws how the chosen algorithm goes.
fn chosen(
    text: &mut String,
    machine: &Machine,
    places: &Places,
    choice: &Explanation,
) -> Result<(), Error> {
    writeln!(text, "chosen: {choice}")?;
    let (bytes, crowded) = (choice.bytes, choice.machine.crowded());
    match &choice.algorithm {
        Algorithm::Barrier(Barrier::Central, _) => {
            writeln!(text, "rank 0 counts the others in and wakes them all")?;
        }
        Algorithm::Barrier(barrier, near) => {
            for (rank, rounds) in barrier.rounds(&places.groups(*near)).iter().enumerate() {
                let read = |round: &mp_model::cla::barrier::Round| format!("{:?}", round.reads);
                let reads: Vec<String> = rounds.iter().map(read).collect();
                let reads = if reads.is_empty() { "nobody".into() } else { reads.join(", then ") };
                writeln!(text, "  {rank} waits for {reads}")?;
            }
            if machine.ranks() > MOST_SEARCHED {
                let few = MOST_SEARCHED;
                writeln!(
                    text,
                    "with flags that several ranks read: not searched, for more than {few} ranks"
                )?;
            } else if !crowded {
                let best = best_barrier_on(machine, choice.machine.cores);
                let barrier = best.barrier;
                writeln!(text, "with flags that several ranks read, as in the paper: {barrier}")?;
                predicted(text, best.predicted);
            }
        }
        Algorithm::Broadcast(_, shape, _) => {
            draw(text, &shape.outward(places).tree(0)?);
            let lines = bytes.div_ceil(64).max(1) as u64;
            tree(text, machine, Pattern::Broadcast { lines }, crowded)?;
        }
        Algorithm::Reduce(by) => {
            match *by {
                Reduce::Lines if bytes <= choice.machine.payload => {
                    draw(text, &Tree::flat(0, &machine.placement)?);
                }
                Reduce::LineTree { lambda } | Reduce::ChunkTree { lambda } => {
                    let places = Shape::new(machine.ranks(), lambda).places(0).unwrap_or_default();
                    choice.schedule().map_or(Ok(()), |schedule| pieces(text, &schedule))?;
                    draw(text, &Tree::in_order(0, &places)?);
                }
                _ => choice.schedule().map_or(Ok(()), |all| schedule(text, &all))?,
            }
            if bytes > 64 {
                writeln!(text, "of one line:")?;
            }
            tree(text, machine, Pattern::Reduction, crowded)?;
        }
        _ => choice.schedule().map_or(Ok(()), |all| schedule(text, &all))?,
    }
    Ok(())
}

fn tree(
    text: &mut String,
    machine: &Machine,
    pattern: Pattern,
    crowded: bool,
) -> Result<(), Error> {
    if machine.ranks() > MOST_SEARCHED {
        let few = MOST_SEARCHED;
        writeln!(text, "the model's best tree: not searched, for more than {few} ranks")?;
        return Ok(());
    }
    let choice = best_tree(machine, 0, pattern)?;
    let crowd = if crowded { ", had each rank a core" } else { "" };
    let _ = writeln!(text, "the model's best tree with acknowledgements{crowd}:");
    draw(text, &choice.tree);
    predicted(text, (!crowded).then_some(choice.predicted));
    Ok(())
}

/// Draws which rank sends to which.
fn schedule(text: &mut String, schedule: &Schedule) -> std::fmt::Result {
    pieces(text, schedule)?;
    let several = schedule.rounds().len() > 1;
    for (number, round) in (1..).zip(schedule.rounds()) {
        if several {
            writeln!(text, "round {number}")?;
        }
        draw_round(text, round.messages());
    }
    Ok(())
}

fn pieces(text: &mut String, schedule: &Schedule) -> std::fmt::Result {
    match schedule.pieces() {
        1 => Ok(()),
        pieces => writeln!(text, "in {pieces} pieces, each by"),
    }
}

/// Draws one line if all send to one rank, and otherwise a line for each rank that sends.
fn draw_round(text: &mut String, messages: &[(usize, usize)]) {
    let Some(&(_, first)) = messages.first() else {
        let _ = writeln!(text, "  nobody sends anything");
        return;
    };
    if messages.len() > 1 && messages.iter().all(|&(_, to)| to == first) {
        let senders = messages.iter().map(|&(from, _)| from);
        let _ = writeln!(text, "  {} → {first}", list(senders));
        return;
    }
    let mut messages = messages.to_vec();
    messages.sort_by_key(|&(from, _)| from);
    for of_one in messages.chunk_by(|one, next| one.0 == next.0) {
        let targets = of_one.iter().map(|&(_, to)| to);
        let _ = writeln!(text, "  {} → {}", of_one[0].0, list(targets));
    }
}

/// Returns the ranks in this order, separated by commas. Of four or more in a row, the first and the last.
fn list(ranks: impl Iterator<Item = usize>) -> String {
    let ranks: Vec<usize> = ranks.collect();
    let runs = ranks.chunk_by(|one, next| one + 1 == *next);
    let written = runs.map(|run| match run {
        [first, _, _, .., last] if run.len() > 3 => format!("{first} to {last}"),
        _ => run.iter().map(usize::to_string).collect::<Vec<_>>().join(", "),
    });
    written.collect::<Vec<_>>().join(", ")
}

type Error = Box<dyn std::error::Error>;

fn predicted(text: &mut String, bounds: Option<Bounds>) {
    let _ = match bounds {
        Some(Bounds { min, max }) => writeln!(text, "predicted: {min} to {max}"),
        None => writeln!(text, "predicted: nothing, for ranks that share cores"),
    };
}

/// The time that calls took, from when the last rank began to when the last one was done.
struct Took {
    low: Duration,
    median: Duration,
    high: Duration,
    rounds: usize,
}

impl Took {
    fn of(collective: Collective, ranks: usize, bytes: usize) -> Result<Took, Error> {
        // Doubles are the elements that programs add most often.
        const DOUBLE: usize = size_of::<f64>();
        let rounds = (1 << 24) / bytes.clamp(1 << 13, 1 << 24) + 1;
        let reading = reading();
        let start = Instant::now();
        let said = World::threads(ranks).bind(Bind::Auto).run(|rank| match collective {
            Collective::Barrier => {
                let mut barriers = barriers(rank, "explained")?;
                timed(rank, rounds, start, || barriers.wait())
            }
            Collective::Broadcast => {
                let mut broadcasts = Broadcasts::open(rank, "explained", Default::default())?;
                let mut message = vec![0u8; bytes];
                timed(rank, rounds, start, || broadcasts.broadcast(&mut message, 0))
            }
            Collective::Reduce
            | Collective::AllReduce
            | Collective::Scan
            | Collective::ReduceScatter => match bytes.is_multiple_of(DOUBLE) {
                true => reduction::<f64>(rank, rounds, start, collective, bytes / DOUBLE),
                false => reduction::<u8>(rank, rounds, start, collective, bytes),
            },
            Collective::Gather
            | Collective::Scatter
            | Collective::AllGather
            | Collective::AllToAll => exchange(rank, rounds, start, collective, bytes),
        })?;
        let mut took: Vec<Duration> = (0..rounds)
            .filter_map(|round| {
                let begin = said.iter().map(|times| times[round].0).max()?;
                let end = said.iter().map(|times| times[round].1).max()?;
                Some(end.saturating_sub(begin).saturating_sub(reading))
            })
            .collect();
        took.sort_unstable();
        let last = took.len().checked_sub(1).ok_or("no call was timed")?;
        let at = |quarter: usize| took[last * quarter / 4];
        Ok(Took { low: at(1), median: at(2), high: at(3), rounds })
    }
}

fn reduction<T: Number + Default>(
    rank: &Rank,
    rounds: usize,
    start: Instant,
    collective: Collective,
    elements: usize,
) -> onchip::Result<Vec<(Duration, Duration)>> {
    let mut reductions = Reductions::open(rank, "explained", Default::default())?;
    let mut own = vec![T::default(); elements];
    let each = if collective == Collective::ReduceScatter { rank.size() } else { 0 };
    let vector = vec![T::default(); elements * each];
    timed(rank, rounds, start, || match collective {
        Collective::AllReduce => reductions.all_reduce(&mut own, Sum),
        Collective::Scan => reductions.scan(&mut own, Sum),
        Collective::ReduceScatter => reductions.reduce_scatter(&vector, &mut own, Sum),
        _ => reductions.reduce(&mut own, Sum, 0),
    })
}

fn exchange(
    rank: &Rank,
    rounds: usize,
    start: Instant,
    collective: Collective,
    bytes: usize,
) -> onchip::Result<Vec<(Duration, Duration)>> {
    let mut exchanges = Exchanges::open(rank, "explained", Default::default())?;
    let (to_all, here) = (bytes * rank.size(), rank.id() == 0);
    let (mut own, mut all) = match collective {
        Collective::AllToAll => (vec![0u8; to_all], vec![0u8; to_all]),
        Collective::AllGather => (vec![0u8; bytes], vec![0u8; to_all]),
        _ => (vec![0u8; bytes], vec![0u8; if here { to_all } else { 0 }]),
    };
    timed(rank, rounds, start, || match collective {
        Collective::AllToAll => exchanges.all_to_all(&own, &mut all),
        Collective::AllGather => exchanges.all_gather(&own, &mut all),
        Collective::Scatter => exchanges.scatter(&all, &mut own, 0),
        _ => exchanges.gather(&own, &mut all, 0),
    })
}

/// Returns the time of one clock reading. The time between the readings of beginning and end contains one such reading.
fn reading() -> Duration {
    const READINGS: u32 = 1000;
    let took = (0..9).map(|_| {
        let start = Instant::now();
        let last = (0..READINGS).fold(start, |_, _| Instant::now());
        (last - start) / READINGS
    });
    // Disturbances only add to the time.
    took.min().unwrap_or_default()
}

fn barriers(rank: &Rank, name: &str) -> onchip::Result<Barriers> {
    Barriers::open(rank, name, Default::default())
}

/// Returns when this rank began and ended each call. No rank begins a call before all have ended the one before.
fn timed(
    rank: &Rank,
    rounds: usize,
    start: Instant,
    mut call: impl FnMut() -> onchip::Result<()>,
) -> onchip::Result<Vec<(Duration, Duration)>> {
    let mut apart = barriers(rank, "apart")?;
    let mut times = Vec::with_capacity(rounds);
    // In the first rounds, memory is not yet available.
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
    use mp_model::cla::Parameters;
    use onchip::topology::Seat;

    use super::*;

    #[test]
    fn rounds_are_drawn_by_who_sends() {
        let drawn = |messages: &[(usize, usize)]| {
            let mut text = String::new();
            draw_round(&mut text, messages);
            text
        };
        assert_eq!(drawn(&[]), "  nobody sends anything\n");
        assert_eq!(drawn(&[(1, 0), (2, 0)]), "  1, 2 → 0\n");
        assert_eq!(drawn(&[(0, 1), (1, 0)]), "  0 → 1\n  1 → 0\n");
        assert_eq!(drawn(&[(0, 1), (1, 2), (2, 0), (0, 2)]), "  0 → 1, 2\n  1 → 2\n  2 → 0\n");
    }

    #[test]
    fn ranks_in_a_row_are_written_by_the_first_and_the_last() {
        let written = |ranks: &[usize]| list(ranks.iter().copied());
        assert_eq!(written(&[1, 2, 3]), "1, 2, 3");
        assert_eq!(written(&[7, 8, 9, 10, 0, 1, 5]), "7 to 10, 0, 1, 5");
        assert_eq!(written(&[3, 2, 1, 0]), "3, 2, 1, 0");
        assert_eq!(written(&[]), "");
        let mut text = String::new();
        let all = (0..4096).flat_map(|from| (1..4096).map(move |far| (from, (from + far) % 4096)));
        draw_round(&mut text, &all.collect::<Vec<_>>());
        assert!(
            text.starts_with("  0 → 1 to 4095\n  1 → 2 to 4095, 0\n")
                && text.ends_with("  4095 → 0 to 4094\n")
        );
    }

    /// Of 4,096 ranks on as many cores, in eight groups, every rank is drawn.
    #[test]
    fn all_of_4096_ranks_are_drawn() {
        let groups: Vec<usize> = (0..4096).map(|rank| rank / 512).collect();
        let seats = groups.iter().map(|&group| Some(Seat { cache: group, package: group }));
        let places = Places::of_seats(&seats.collect::<Vec<_>>());
        let parameters = Parameters::SANDY_BRIDGE.with_cached_flags();
        let machine = Machine { parameters, placement: places.finest() };
        for (of, last) in [
            (Collective::Barrier, "  4095 waits for ["),
            (Collective::Broadcast, "─ 4095\n"),
            (Collective::Reduce, "─ 4095\n"),
            (Collective::Scan, "  4094 → 4095\n"),
        ] {
            let text = explained(of, 8, (&machine, &places), &Settings::default());
            assert!(text.contains(last), "{of:?}: {text}");
            assert!(of == Collective::Scan || text.contains("not searched"), "{of:?}");
        }
    }

    fn explained(
        collective: Collective,
        bytes: usize,
        (machine, places): (&Machine, &Places),
        settings: &Settings,
    ) -> String {
        let (known, cores) = (Some(Parameters::SANDY_BRIDGE), machine.ranks());
        let choice = Explanation::of(collective, bytes, places, cores, known, settings);
        let mut text = String::new();
        chosen(&mut text, machine, places, &choice).unwrap();
        text
    }

    #[test]
    fn reductions_along_trees_are_drawn_and_predicted() {
        let machine = Machine::sandy_bridge(8).unwrap();
        for (algorithm, bytes, pieces) in [
            (Reduce::LineTree { lambda: 1 }, 8, false),
            (Reduce::ChunkTree { lambda: 1 }, 100_000, true),
        ] {
            let settings = Settings { reduce: Some(algorithm), ..Settings::default() };
            let on = (&machine, &Places::unknown(8));
            let text = explained(Collective::Reduce, bytes, on, &settings);
            let drawn =
                "  0\n  ├─ 1\n  ├─ 2\n  │  └─ 3\n  └─ 4\n     ├─ 5\n     └─ 6\n        └─ 7\n";
            assert!(text.contains(drawn) && text.contains("predicted: "), "{text}");
            assert_eq!(text.contains("pieces, each by"), pieces, "{text}");
        }
    }

    #[test]
    fn broadcasts_and_barriers_are_those_of_groups() {
        let machine = Machine::sandy_bridge(16).unwrap();
        let machine = Machine { parameters: machine.parameters.with_cached_flags(), ..machine };
        let seat = |rank: usize| Some(Seat { cache: rank / 8, package: rank / 8 });
        let places = Places::of_seats(&(0..16).map(seat).collect::<Vec<_>>());
        let (on, settings) = ((&machine, &places), Settings::default());
        let text = explained(Collective::Barrier, 0, on, &settings);
        for fact in ["2 of m = 1, r = 3", "  0 waits for [1], then [2], then [4], then [8]\n"] {
            assert!(text.contains(fact), "{text}");
        }
        for (bytes, facts) in
            [(8, ["lines", "λ = 4 for ranks of a cache"]), (1 << 20, ["OC-Bcast", "degree 7 for"])]
        {
            let text = explained(Collective::Broadcast, bytes, on, &settings);
            // The head of the other group is first.
            for fact in facts.into_iter().chain(["  0\n  ├─ 8\n", "predicted: "]) {
                assert!(text.contains(fact), "{fact}: {text}");
            }
        }
    }

    #[test]
    fn operations_are_named_with_hyphens() {
        assert_eq!(collective("all-to-all"), Ok(Collective::AllToAll));
        assert!(collective("gossip").unwrap_err().contains("all-reduce, scan"));
    }
}
