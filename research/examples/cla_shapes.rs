//! The shapes that the cache-line-aware model chooses on the paper's two machines, its predictions, and their times in
//! virtual time, beside those of the paper's baselines. Also the choices of this library for larger machines, beside
//! those for unknown machines.
//!
//! ```text
//! cargo run --release -p onchip-research --example cla_shapes [-- RANKS]
//! ```
//!
//! With a number of ranks, the trees for that number are drawn. Otherwise those for 10 and 16 cores of the dual-socket
//! machine, and for 30 cores of the Xeon Phi, are drawn.

use std::error::Error;
use std::{env, iter};

use mp_model::Time;
use mp_model::cla::barrier::{
    best_mixed_ways, best_ways, pushed_barrier, pushed_program, pushed_time,
};
use mp_model::cla::outward::{Fan, Outward};
use mp_model::cla::schedule::By;
use mp_model::cla::search::{
    LambdaChoice, Load, best_lambda, best_outward, outward_time, reduction_along,
};
use mp_model::cla::{
    Barrier, Graph, Machine, Parameters, Pattern, Placement, Program, best_barrier, best_tree,
    patterns,
};
use mp_model::in_order::Shape;
use onchip_research::cla::run::{Options, Order, run};
use onchip_research::cla::{baselines, certain};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let asked = env::args().nth(1).map(|ranks| ranks.parse::<usize>()).transpose()?;
    ways();
    barriers()?;
    trees(Pattern::Broadcast { lines: 1 }, "Broadcast of one line")?;
    trees(Pattern::Broadcast { lines: 128 }, "Broadcast of 128 lines")?;
    trees(Pattern::Reduction, "Reduction of one line")?;
    in_order()?;
    in_groups()?;
    speedups()?;
    match asked {
        Some(ranks) => {
            Machine::sandy_bridge(ranks)
                .iter()
                .try_for_each(|machine| draw("Sandy Bridge", machine))?;
            draw("Xeon Phi", &Machine::xeon_phi(ranks)?)
        }
        None => {
            for ranks in [10, 16] {
                draw("Sandy Bridge", &Machine::sandy_bridge(ranks)?)?;
            }
            draw("Xeon Phi", &Machine::xeon_phi(30)?)
        }
    }
}

/// Returns the machines, by number of ranks in use.
fn machines() -> Result<Vec<(&'static str, Machine)>> {
    let sandy = [2, 4, 8, 10, 12, 16];
    let phi = [2, 4, 8, 16, 30, 45, 60];
    let sandy = sandy.map(|ranks| Machine::sandy_bridge(ranks).map(|m| ("Sandy Bridge", m)));
    let phi = phi.map(|ranks| Machine::xeon_phi(ranks).map(|m| ("Xeon Phi", m)));
    Ok(sandy.into_iter().chain(phi).collect::<std::result::Result<_, _>>()?)
}

fn ways() {
    println!("Dissemination: m and r for n ranks in one group (equations 27 and 29)\n");
    println!(
        "{:>4}  {:<14} {:<18} {:<18} multi-m, without contention",
        "n", "Sandy Bridge", "Phi, no contention", "Phi, contention"
    );
    for ranks in [2, 3, 4, 8, 9, 12, 16, 24, 27, 32, 40, 48, 60] {
        let text = |parameters| {
            let placement = Placement::one_group(ranks).expect("there are ranks");
            let (ways, rounds) = best_ways(&Machine { parameters, placement }, ranks);
            format!("m = {ways}, r = {rounds}")
        };
        let (sandy, phi) = (Parameters::SANDY_BRIDGE, Parameters::XEON_PHI);
        let placement = Placement::one_group(ranks).expect("there are ranks");
        let apart = Machine { parameters: phi.without_contention(), placement };
        let mixed = best_mixed_ways(&apart, ranks);
        let (none, some) = (text(phi.without_contention()), text(phi));
        println!("{ranks:>4}  {:<14} {none:<18} {some:<18} {mixed:?}", text(sandy));
    }
    println!(
        "\nPaper: \"the use of contention tends to provide m = 2 or m = 1, increasing the number of rounds\"."
    );
    println!(
        "Multi-m: \"speedups of up to 1.28x over dissemination, but contention limits its benefits\".\n"
    );
}

fn barriers() -> Result<()> {
    println!(
        "Barriers, ns: certain bounds, T_min, simulated (least to most of 20), times as long as that\n"
    );
    println!(
        "{:<14}{:>4}  {:<44}{:>7}{:>8}{:>7}{:>13}  {:>7} {:>6} {:>10}",
        "",
        "n",
        "chosen",
        "least",
        "T_min",
        "T_max",
        "simulated",
        "central",
        "m = 1*",
        "tournament"
    );
    for (name, machine) in machines()? {
        let placement = &machine.placement;
        let barrier = best_barrier(&machine).barrier;
        let program = barrier.program(placement);
        let row = Row::new(&machine, &program)?;
        let times =
            |program: Program| -> Result<f64> { Ok(simulated(&machine, &program)?.1 / row.mean) };
        println!(
            "{name:<14}{:>4}  {:<44}{row}  {:>7.2} {:>6.2} {:>10.2}",
            machine.ranks(),
            barrier.to_string(),
            times(Barrier::Central.program(placement))?,
            times(baselines::plain_dissemination(placement))?,
            times(baselines::tournament_barrier(placement)?)?,
        );
    }
    println!(
        "\n* without single-use flags. Paper, Sandy Bridge: up to 1.93x over that, 1.7x and 3.8x over OpenMP, 12x and 26.5x over MPI."
    );
    println!("Paper, Xeon Phi: up to 3x over OpenMP, 11x over MPI.\n");
    Ok(())
}

/// Prints the choices of this library: messages without acknowledgements, combined in the order of ranks.
fn in_order() -> Result<()> {
    println!(
        "Reductions in the order of ranks, T_min in ns: the best λ of the postal model's trees\n"
    );
    println!("{:<14}{:>4}  {:<10}{:>4}{:>9}{:>10}", "", "n", "", "λ", "tree", "flat");
    for (name, machine) in machines()? {
        let ranks = machine.ranks();
        let chunks = By::Buffers { lines: 64, piece: 32, buffers: 4 };
        for (what, by) in [("one line", By::Lines { lines: 1 }), ("4 KB", chunks)] {
            let LambdaChoice { lambda, predicted } = best_lambda(&machine, by);
            let flat = reduction_along(&machine, Shape::new(ranks, ranks), 0, by);
            let [tree, flat] = [predicted, flat].map(Time::as_nanos);
            println!("{name:<14}{ranks:>4}  {what:<10}{lambda:>4}{tree:>9.0}{flat:>10.0}");
        }
    }
    println!();
    Ok(())
}

/// Prints the choices of this library if it knows which ranks are near each other, beside 7-ary trees and rounds for
/// one group.
fn in_groups() -> Result<()> {
    println!(
        "Broadcasts and barriers of this library, ns, flags in caches: T_min and simulated, of 7-ary trees and\nrounds for one group, and of those that are chosen for groups\n"
    );
    println!("{:<14}{:<9}{:>24}{:>26}{:>24}", "", "ranks", "line", "2 chunks of 64 KB", "barrier");
    let (sandy, phi) = (Parameters::SANDY_BRIDGE, Parameters::XEON_PHI);
    for (name, parameters, groups, each) in [
        ("Sandy Bridge", sandy, 1, 48),
        ("Xeon Phi", phi, 1, 48),
        ("Sandy Bridge", sandy, 4, 4),
        ("Sandy Bridge", sandy, 2, 8),
        ("Sandy Bridge", sandy, 2, 64),
        ("Sandy Bridge", sandy, 8, 16),
    ] {
        let placement = Placement::packed(groups * each, &vec![each; groups])?;
        let machine = Machine { parameters: parameters.with_cached_flags(), placement };
        let (near, one) = (&machine.placement, Placement::one_group(groups * each)?);
        let before = Outward::new(&one, Fan::Degree(7), Fan::Degree(7));
        let in_turn = |program: &Program| -> Result<f64> {
            let options = Options { congestion: true, ..Options::default() };
            Ok(run(program, &machine, options)?.end().as_nanos())
        };
        let broadcast = |load, most| -> Result<String> {
            let best = best_outward(&machine, near, load, most);
            let mut text = Vec::new();
            for tree in [&before, &Outward::new(near, best.between, best.within)] {
                let min = outward_time(&machine, tree, 0, load).as_nanos();
                let tree = tree.tree(0)?;
                let simulated = in_turn(&match load {
                    Load::Line => patterns::pushed_broadcast(&tree),
                    Load::Chunks { lines, chunks } => {
                        patterns::chunked_broadcast(&tree, lines, chunks)
                    }
                })?;
                text.push(format!("{min:.0}, {simulated:.0}"));
            }
            Ok(text.join(" → "))
        };
        let mut barriers = Vec::new();
        for groups in [&one, near] {
            let rounds = pushed_barrier(groups).rounds(groups);
            let min = pushed_time(&machine, &rounds).as_nanos();
            barriers.push(format!("{min:.0}, {:.0}", in_turn(&pushed_program(&rounds))?));
        }
        println!(
            "{name:<14}{:<9}{:>24}{:>34}{:>24}",
            format!("{groups} × {each}"),
            broadcast(Load::Line, usize::MAX)?,
            broadcast(Load::Chunks { lines: 1024, chunks: 2 }, 7)?,
            barriers.join(" → "),
        );
    }
    println!();
    Ok(())
}

fn trees(pattern: Pattern, title: &str) -> Result<()> {
    println!("{title}, ns\n");
    let other = match pattern {
        Pattern::Reduction => "accumulated",
        _ => "barriers",
    };
    println!(
        "{:<14}{:>4}  {:<26}{:>7}{:>8}{:>7}{:>13}  {:>9} {:>11}",
        "", "n", "tree", "least", "T_min", "T_max", "simulated", "messages", other
    );
    for (name, machine) in machines()? {
        let placement = &machine.placement;
        let tree = best_tree(&machine, 0, pattern)?.tree;
        let row = Row::new(&machine, &pattern.program(&tree, placement))?;
        let times =
            |program: Program| -> Result<f64> { Ok(simulated(&machine, &program)?.1 / row.mean) };
        let (messages, other) = match pattern {
            Pattern::Broadcast { lines } => {
                let barrier = best_barrier(&machine).barrier;
                (
                    baselines::two_sided_broadcast(placement, 0, lines)?,
                    baselines::broadcast_between_barriers(placement, 0, lines, &barrier),
                )
            }
            _ => (
                baselines::two_sided_reduction(placement, 0, 1)?,
                baselines::accumulation(placement, 0),
            ),
        };
        let children: Vec<_> = tree.waves(0).iter().map(Vec::len).collect();
        let shape = format!("depth {}, root {children:?}", tree.depth());
        println!(
            "{name:<14}{:>4}  {shape:<26}{row}  {:>9.2} {:>11.2}",
            machine.ranks(),
            times(messages)?,
            times(other)?
        );
    }
    println!(
        "\n{}\n",
        match pattern {
            Pattern::Broadcast { lines: 1 } =>
                "Paper, Sandy Bridge: \"the best dual-socket trees are almost always flat\"; up to 14x and 8x over MPI, 1.8x over flat with barriers.\nPaper, Xeon Phi: up to 4.7x over MPI.",
            Pattern::Broadcast { .. } =>
                "Paper, Sandy Bridge (8 KB): flat \"in most cases\"; up to 7.3x over MPI, 1.3x over flat with barriers.\nPaper, Xeon Phi: up to 44.6x over MPI.",
            _ =>
                "Paper, Sandy Bridge: up to 16x over MPI, 5.6x over OpenMP. Paper, Xeon Phi: up to 41x over MPI, 3.3x over OpenMP.",
        }
    );
    Ok(())
}

/// Returns how many times as long a baseline takes in virtual time as the model's choice.
type Speedup = fn(&Machine) -> Result<f64>;

/// Prints the greatest speed-ups over all numbers of ranks, beside those that the paper reports.
fn speedups() -> Result<()> {
    let rows: [(&str, Speedup, [&str; 2]); 9] = [
        (
            "barrier: m = 1 without single-use flags",
            |machine| over_barrier(machine, baselines::plain_dissemination(&machine.placement)),
            ["1.93", ""],
        ),
        (
            "barrier: central, as OpenMP's",
            |machine| over_barrier(machine, Barrier::Central.program(&machine.placement)),
            ["1.7 GNU, 3.8 Intel", "3"],
        ),
        (
            "barrier: tournament, as of messages",
            |machine| over_barrier(machine, baselines::tournament_barrier(&machine.placement)?),
            ["12 and 26.5 MPI", "11 MPI"],
        ),
        (
            "broadcast of one line: flat between barriers",
            |machine| over_flat(machine, 1),
            ["1.8", ""],
        ),
        (
            "broadcast of one line: messages",
            |machine| over_messages(machine, 1),
            ["8 and 14 MPI", "4.7 MPI"],
        ),
        (
            "broadcast of 128 lines: flat between barriers",
            |machine| over_flat(machine, 128),
            ["1.3", ""],
        ),
        (
            "broadcast of 128 lines: messages",
            |machine| over_messages(machine, 128),
            ["7.3 MPI", "44.6 MPI"],
        ),
        (
            "reduction of one line: messages",
            |machine| {
                over_reduction(machine, baselines::two_sided_reduction(&machine.placement, 0, 1)?)
            },
            ["16 MPI", "41 MPI"],
        ),
        (
            "reduction of one line: accumulated in one place",
            |machine| over_reduction(machine, baselines::accumulation(&machine.placement, 0)),
            ["5.6 OpenMP", "3.3 OpenMP"],
        ),
    ];
    println!(
        "Greatest speed-ups over all numbers of ranks: simulated, and measured by the paper\n"
    );
    println!("{:<50}{:>12}  {:<20}{:>10}  paper", "", "Sandy Bridge", "paper", "Xeon Phi");
    for (title, speedup, [sandy, phi]) in rows {
        let greatest = |name| -> Result<String> {
            let mut greatest = (0.0, 0);
            for (_, machine) in machines()?.iter().filter(|(of, _)| *of == name) {
                let times = speedup(machine)?;
                if times > greatest.0 {
                    greatest = (times, machine.ranks());
                }
            }
            Ok(format!("{:.2}, n = {}", greatest.0, greatest.1))
        };
        let [simulated_sandy, simulated_phi] = [greatest("Sandy Bridge")?, greatest("Xeon Phi")?];
        let row =
            format!("{title:<48}{simulated_sandy:>14}  {sandy:<18}{simulated_phi:>14}  {phi}");
        println!("{}", row.trim_end());
    }
    println!(
        "\nOf libraries the lines that they move are simulated, and none of their software.\n"
    );
    Ok(())
}

fn over(machine: &Machine, baseline: &Program, chosen: &Program) -> Result<f64> {
    Ok(simulated(machine, baseline)?.1 / simulated(machine, chosen)?.1)
}

fn over_barrier(machine: &Machine, baseline: Program) -> Result<f64> {
    let chosen = best_barrier(machine).barrier.program(&machine.placement);
    over(machine, &baseline, &chosen)
}

fn over_reduction(machine: &Machine, baseline: Program) -> Result<f64> {
    let chosen = chosen_tree(machine, Pattern::Reduction)?;
    over(machine, &baseline, &chosen)
}

fn over_flat(machine: &Machine, lines: u64) -> Result<f64> {
    let barrier = best_barrier(machine).barrier;
    let flat = baselines::broadcast_between_barriers(&machine.placement, 0, lines, &barrier);
    over(machine, &flat, &chosen_tree(machine, Pattern::Broadcast { lines })?)
}

fn over_messages(machine: &Machine, lines: u64) -> Result<f64> {
    let messages = baselines::two_sided_broadcast(&machine.placement, 0, lines)?;
    over(machine, &messages, &chosen_tree(machine, Pattern::Broadcast { lines })?)
}

fn chosen_tree(machine: &Machine, pattern: Pattern) -> Result<Program> {
    Ok(pattern.program(&best_tree(machine, 0, pattern)?.tree, &machine.placement))
}

fn draw(name: &str, machine: &Machine) -> Result<()> {
    for (title, pattern) in [
        ("broadcast of one line", Pattern::Broadcast { lines: 1 }),
        ("reduction of one line", Pattern::Reduction),
    ] {
        let choice = best_tree(machine, 0, pattern)?;
        println!(
            "{name}, {} ranks, {title}: {}\n{}",
            machine.ranks(),
            choice.predicted,
            choice.tree
        );
    }
    if machine.placement.groups().len() > 1 {
        let program = patterns::broadcast(
            &best_tree(machine, machine.ranks() - 1, Pattern::Broadcast { lines: 1 })?.tree,
            &machine.placement,
            1,
        );
        let bounds = Graph::new(&program, machine)?.bounds(Default::default());
        println!("With the root in the other socket: {bounds}\n");
    }
    Ok(())
}

/// The results for a program.
struct Row {
    least: Time,
    min: Time,
    max: Time,
    fastest: f64,
    slowest: f64,
    mean: f64,
}

impl Row {
    fn new(machine: &Machine, program: &Program) -> Result<Row> {
        let certain = certain(program, machine)?;
        let min = Graph::new(program, machine)?.bounds(Default::default()).min;
        let (fastest, mean, slowest) = simulated(machine, program)?;
        Ok(Row { least: certain.min, min, max: certain.max, fastest, slowest, mean })
    }
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [least, min, max] = [self.least, self.min, self.max].map(Time::as_nanos);
        let simulated = format!("{:.0}–{:.0}", self.fastest, self.slowest);
        write!(f, "{least:>7.0}{min:>8.0}{max:>7.0}{simulated:>13}")
    }
}

/// Returns the least, the mean and the greatest time of runs in which waiting accesses are served in order, or at
/// random.
fn simulated(machine: &Machine, program: &Program) -> Result<(f64, f64, f64)> {
    let orders = iter::once(Order::Fifo).chain((1..20).map(Order::Random));
    let ends = orders.map(|order| {
        let options = Options { order, congestion: true, ..Options::default() };
        run(program, machine, options).map(|run| run.end().as_nanos())
    });
    let ends = ends.collect::<std::result::Result<Vec<_>, _>>()?;
    let least = ends.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ends.iter().copied().fold(0.0, f64::max);
    Ok((least, ends.iter().sum::<f64>() / ends.len() as f64, most))
}
