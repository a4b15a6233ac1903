//! The shapes that the cache-line-aware model chooses on the paper's two machines, and the choices of this library for
//! larger machines, beside those for unknown machines. The paper's figures are made by the package's command `figures`.
//!
//! ```text
//! cargo run --release -p onchip-research --example cla_shapes [-- RANKS]
//! ```
//!
//! With a number of ranks, the trees for that number are drawn. Otherwise those for 10 and 16 cores of the dual-socket
//! machine, and for 30 cores of the Xeon Phi, are drawn.

use std::env;
use std::error::Error;

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
    Graph, Machine, Parameters, Pattern, Placement, Program, best_barrier, best_tree, patterns,
};
use mp_model::in_order::Shape;
use onchip_research::cla::run::{Options, run};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let asked = env::args().nth(1).map(|ranks| ranks.parse::<usize>()).transpose()?;
    ways()?;
    in_order()?;
    in_groups()?;
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

/// Prints the barriers within a group, and the barrier of each machine.
fn ways() -> Result<()> {
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
    println!("\nBarriers\n");
    for (name, machine) in machines()? {
        println!("{name:<14}{:>4}  {}", machine.ranks(), best_barrier(&machine).barrier);
    }
    println!();
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
