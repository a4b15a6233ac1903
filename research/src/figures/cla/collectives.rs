//! Broadcasts and reductions (sections 4 and 5).

use mp_model::cla::{Machine, Pattern, Tree, best_barrier, best_tree};

use super::barriers::SOFTWARE;
use super::curve::{Curve, PHI, SANDY, greatest, logarithmic, over_ranks, phi, sandy, where_true};
use crate::cla::{baselines, patterns};
use crate::figures::{Check, Figure, Plot, Result, Series};

/// The length of long broadcasts: 8 KB. Long reductions have half of it.
const LONG: u64 = 128;

/// The algorithms of one of the four parts of a figure: first the paper's, then what it is compared with.
struct Part {
    ours: Curve,
    others: Vec<Curve>,
}

impl Part {
    fn broadcast(machines: &[Machine], lines: u64) -> Result<Part> {
        let ours = Curve::new("chosen tree", machines, |machine| {
            along_best(machine, Pattern::Broadcast { lines })
        })?;
        let flat = Curve::new("flat, with barriers (HMPI)", machines, |machine| {
            let barrier = best_barrier(machine).barrier;
            Ok(baselines::broadcast_between_barriers(&machine.placement, 0, lines, &barrier))
        })?;
        let messages = Curve::new("messages (MPI)", machines, |machine| {
            Ok(baselines::two_sided_broadcast(&machine.placement, 0, lines)?)
        })?;
        let mut others = vec![messages, flat];
        if lines > 1 {
            others.push(Curve::new("own trees for flags", machines, |machine| {
                let told = best_tree(machine, 0, Pattern::OneToMany)?.tree;
                let gathered = best_tree(machine, 0, Pattern::ManyToOne)?.tree;
                Ok(patterns::pulled_broadcast(&told, &gathered, &machine.placement, lines))
            })?);
        }
        Ok(Part { ours, others })
    }

    fn reduction(machines: &[Machine]) -> Result<Part> {
        let ours =
            Curve::new("chosen tree", machines, |machine| along_best(machine, Pattern::Reduction))?;
        let messages = Curve::new("messages (MPI)", machines, |machine| {
            Ok(baselines::two_sided_reduction(&machine.placement, 0, 1)?)
        })?;
        let atomic = Curve::new("atomic place (OpenMP)", machines, |machine| {
            Ok(baselines::accumulation(&machine.placement, 0))
        })?;
        let locked = Curve::new("locked place (OpenMP)", machines, |machine| {
            Ok(baselines::locked_accumulation(&machine.placement, 0))
        })?;
        let binary = Curve::new("binary tree (HMPI)", machines, |machine| {
            let tree = Tree::k_ary(0, 2, &machine.placement)?;
            Ok(patterns::reduction(&tree, &machine.placement))
        })?;
        Ok(Part { ours, others: vec![messages, atomic, locked, binary] })
    }

    fn long_reduction(machines: &[Machine]) -> Result<Part> {
        let ours = Curve::new("binomial", machines, |machine| {
            Ok(patterns::binomial_reduction(&machine.placement, 0, LONG / 2))
        })?;
        let messages = Curve::new("messages (MPI)", machines, |machine| {
            Ok(baselines::two_sided_reduction(&machine.placement, 0, LONG / 2)?)
        })?;
        Ok(Part { ours, others: vec![messages] })
    }

    fn plot(&self, part: &'static str, caption: &str) -> Plot {
        let mut series: Vec<Series> = [self.ours.with_dots(), self.ours.model()].concat();
        series.extend(self.others.iter().map(Curve::series));
        logarithmic(over_ranks(part, caption, series))
    }

    /// Returns how many times as long one of the others takes.
    fn times(&self, other: usize) -> Vec<(usize, f64)> {
        self.ours.times(&self.others[other])
    }

    /// Returns the check of a speed-up.
    fn speedup(&self, what: &str, other: usize, published: f64, within: f64) -> Check {
        let (ranks, most) = greatest(&self.times(other));
        Check::value(format!("{what} (here with {ranks} threads)"), "×", published, most, within)
    }

    /// Returns the numbers of ranks for which one of the others takes less time.
    fn slower(&self, other: usize) -> String {
        where_true(&self.times(other), |times| times < 1.0)
    }
}

fn along_best(machine: &Machine, pattern: Pattern) -> Result<mp_model::cla::Program> {
    let tree = best_tree(machine, 0, pattern)?.tree;
    Ok(pattern.program(&tree, &machine.placement))
}

struct Parts {
    line: Part,
    lines: Part,
    reduced: Part,
    reduced_lines: Part,
}

impl Parts {
    fn new(machines: &[Machine]) -> Result<Parts> {
        Ok(Parts {
            line: Part::broadcast(machines, 1)?,
            lines: Part::broadcast(machines, LONG)?,
            reduced: Part::reduction(machines)?,
            reduced_lines: Part::long_reduction(machines)?,
        })
    }

    fn plots(&self, machine: &str) -> Vec<Plot> {
        [
            ("a", "broadcast of one line", &self.line),
            ("b", "broadcast of 128 lines", &self.lines),
            ("c", "reduction of one line", &self.reduced),
            ("d", "reduction of 64 lines", &self.reduced_lines),
        ]
        .map(|(part, what, of)| of.plot(part, &format!("{what}, {machine}")))
        .to_vec()
    }
}

const ABOUT: &str = "The trees are those that the model finds; the programs are algorithms 6 and 7, section 4.2, and \
                     section 5.2. Messages go along binomial trees, through cells, with flags on both sides. OpenMP's \
                     reduction adds in one place: by an atomic instruction, which is enough for one number, or under a \
                     lock, which a line of several numbers needs.";

/// Figure 14: Sandy Bridge.
pub(super) fn figure_14() -> Result<Figure> {
    let machines: Vec<Machine> = SANDY.map(sandy).collect();
    let parts = Parts::new(&machines)?;
    let Parts { line, lines, reduced, reduced_lines } = &parts;
    let depths = |lines| -> Result<Vec<usize>> {
        machines[7..]
            .iter()
            .map(|machine| Ok(best_tree(machine, 0, Pattern::Broadcast { lines })?.tree.depth()))
            .collect()
    };
    let (short, long) = (depths(1)?, depths(LONG)?);
    let flat = |depths: &[usize]| depths.iter().filter(|&&depth| depth == 1).count();
    let by_model = |part: &Part, other: usize| {
        let bounds = part.ours.bounds.iter().zip(&part.others[other].bounds);
        let times = bounds
            .map(|(ours, other)| (ours.0 as usize, other.1.min.as_nanos() / ours.1.min.as_nanos()));
        greatest(&times.collect::<Vec<_>>())
    };
    let (ranks, most) = by_model(line, 1);
    let checks = vec![
        Check::statement(
            "the best dual-socket trees for Sandy Bridge are almost always flat",
            format!("{} of 8", flat(&short)),
            flat(&short) >= 7,
        ),
        Check::value(
            format!("14a, over a flat tree with barriers, by T_min ({ranks} threads)"), "×", 1.8, most, 0.05,
        ),
        line.speedup("14a, over a flat tree with barriers", 1, 1.8, 0.10).limit(format!(
            "threads that poll steal more from acknowledgements than from a barrier, so the tree is slower for {}",
            line.slower(1)
        )),
        line.speedup("14a, over Open MPI", 0, 14.0, 0.10).limit(SOFTWARE),
        line.speedup("14a, over Intel MPI", 0, 8.0, 0.10).limit(SOFTWARE),
        Check::statement(
            "our optimization also proposes flat trees in most cases",
            format!("128 lines: {} of 8", flat(&long)),
            flat(&long) > 4,
        ),
        lines.speedup("14b, over a flat tree with barriers", 1, 1.3, 0.10),
        Check::statement(
            "the speedup is lower (up to 1.3x) because the cost is driven by data copies",
            format!("128 lines: slower for {}", lines.slower(1)),
            lines.times(1).iter().all(|&(_, times)| times >= 1.0),
        ),
        lines.speedup("14b, over MPI", 0, 7.3, 0.10).limit(
            "each of four steps copies a message twice, as a library would not for 8 KB",
        ),
        reduced.speedup("14c, over MPI", 0, 16.0, 0.10).limit(SOFTWARE),
        reduced.speedup("14c, over a binary tree", 3, 1.3, 0.10),
        reduced.speedup("14c, over OpenMP, an atomic place", 1, 5.6, 0.10).limit("OpenMP's barrier at the end is not simulated"),
        reduced.speedup("14c, over OpenMP, a locked place", 2, 5.6, 0.10).limit("OpenMP's barrier at the end is not simulated"),
        privatized(reduced, "12–16", "4–16"),
        reduced_lines.speedup("14d, over MPI", 0, 4.33, 0.10).limit(SOFTWARE),
    ];
    Ok(Figure {
        title: "broadcasts and reductions on Sandy Bridge".to_owned(),
        about: ABOUT.to_owned(),
        plots: parts.plots("Sandy Bridge"),
        checks,
    })
}

/// Section 5.1: private buffers against one place.
fn privatized(reduced: &Part, atomic: &str, locked: &str) -> Check {
    let wins = |other| where_true(&reduced.times(other), |times| times > 1.0);
    Check::statement(
        "although privatization forces the root to read multiple buffers, it compensates the serialization",
        format!("faster than a locked place for {}, than an atomic one for {}", wins(2), wins(1)),
        wins(1) == wins(2),
    )
    .limit(format!(
        "one place costs R_R for each thread if one instruction adds all, and buffers cost 2 R_R for each child. So it holds \
         for {locked} threads if a lock is needed, and else for {atomic}"
    ))
}

/// Figure 15: Xeon Phi.
pub(super) fn figure_15() -> Result<Figure> {
    let machines: Vec<Machine> = PHI.map(phi).collect();
    let parts = Parts::new(&machines)?;
    let Parts { line, lines, reduced, reduced_lines } = &parts;
    let own = lines.others[2].times(&lines.others[1]);
    let peak = |curve: &Curve| {
        let fall = curve.points.windows(2).find(|pair| pair[1].1 < pair[0].1);
        fall.map_or_else(|| "none".to_owned(), |pair| pair[0].0.to_string())
    };
    let checks = vec![
        line.speedup("15a, over MPI", 0, 4.7, 0.25),
        lines.speedup("15b, over MPI", 0, 44.6, 0.10).limit(SOFTWARE),
        Check::statement(
            "it is most efficient if children copy data directly from the original location",
            format!(
                "over a flat tree with barriers: slower for {}; with trees of their own for flags, slower for {}, and up to \
                 {:.2} times as fast",
                lines.slower(1),
                where_true(&own, |times| times < 1.0),
                greatest(&own).1
            ),
            lines.times(1).iter().all(|&(_, times)| times >= 1.0),
        )
        .limit("children acknowledge one after the other; the paper has no such comparison on Xeon Phi"),
        Check::statement(
            "The cause of the peak for 45 threads is that we optimize for the best case",
            format!("the first peak is at {} threads", peak(&lines.ours)),
            peak(&lines.ours) == "45",
        )
        .limit("the paper's trees change there; the ones here change at another number of threads"),
        reduced.speedup("15c, over MPI", 0, 41.0, 0.10).limit(SOFTWARE),
        reduced.speedup("15c, over OpenMP, an atomic place", 1, 3.3, 0.10)
            .limit("the paper's value is between an atomic place and a locked one"),
        reduced.speedup("15c, over OpenMP, a locked place", 2, 3.3, 0.10)
            .limit("the paper's value is between an atomic place and a locked one"),
        privatized(reduced, "19–60", "4–60"),
        reduced_lines.speedup("15d, over MPI", 0, 20.0, 0.10).limit(SOFTWARE),
    ];
    Ok(Figure {
        title: "broadcasts and reductions on Xeon Phi".to_owned(),
        about: ABOUT.to_owned(),
        plots: parts.plots("Xeon Phi"),
        checks,
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn collectives_on_sandy_bridge_are_as_stated() {
        super::figure_14().unwrap().assert();
    }
}
