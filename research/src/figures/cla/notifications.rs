//! One thread notifies many, and many notify one (sections 3.1 and 3.2).

use mp_model::cla::{Machine, Parameters, Pattern, best_tree};

use super::curve::{Curve, PHI, SANDY, greatest, over_ranks, phi, sandy, where_true};
use crate::cla::patterns::{self, Flags};
use crate::figures::{Check, Figure, Plot, Result, Series};

const SAME: &str = "same line";
const DIFFERENT: &str = "different lines";

struct Notified {
    same: Curve,
    different: Curve,
}

/// Runs both ways to notify: many to one, or one to many.
fn notified(machines: &[Machine], one_to_many: bool) -> Result<Notified> {
    let of = |name, flags| {
        Curve::new(name, machines, |machine| {
            let placement = &machine.placement;
            Ok(match one_to_many {
                true => patterns::one_to_many(placement, 0, flags),
                false => patterns::many_to_one(placement, 0, flags),
            })
        })
    };
    Ok(Notified {
        same: of(SAME, Flags::SameLine)?,
        different: of(DIFFERENT, Flags::DifferentLines)?,
    })
}

impl Notified {
    fn plot(&self, part: &'static str, caption: &str, further: Vec<Series>) -> Plot {
        let named = |curve: &Curve| {
            let names = [format!("{}, T_min", curve.name), format!("{}, T_max", curve.name)];
            curve.model().into_iter().zip(names).map(|(series, name)| Series { name, ..series })
        };
        let mut series = [self.same.with_dots(), self.different.with_dots()].concat();
        series.extend(named(&self.same).chain(named(&self.different)));
        series.extend(further);
        over_ranks(part, caption, series)
    }
}

fn last(curve: &Curve) -> f64 {
    curve.points[curve.points.len() - 1].1
}

/// Figure 6: Sandy Bridge.
pub(super) fn figure_6() -> Result<Figure> {
    let machines: Vec<Machine> = SANDY.map(sandy).collect();
    let (to_one, to_many) = (notified(&machines, false)?, notified(&machines, true)?);
    let per_socket = Curve::new("a line for each socket", &machines, |machine| {
        Ok(patterns::many_to_one(&machine.placement, 0, Flags::LinePerGroup))
    })?;
    let p = Parameters::SANDY_BRIDGE;
    let prefetched = |ranks: usize| {
        let (near, far) = (ranks.min(8) as u64 - 1, ranks.saturating_sub(8) as u64);
        let start = if far > 0 { p.far.lines.start } else { p.near.lines.start };
        (start + near * p.near.lines.line + far * p.far.lines.line).as_nanos()
    };
    let fetched = SANDY.map(|ranks| (ranks as f64, prefetched(ranks)));
    let better = to_one.different.times(&to_one.same);
    let (within, across) = better.split_at(7);
    let least = per_socket.times(&to_one.different);
    let told = to_many.same.times(&to_many.different);
    let less = to_one
        .different
        .points
        .iter()
        .zip(fetched.clone())
        .all(|(here, fetched)| fetched.1 < here.1);
    let checks = vec![
        Check::statement(
            "the single-line approach is faster for intra-socket transfers",
            format!("different / same line: {:.2} for 2–8 threads; T_max {:.0} and {:.0} ns with 8",
                1.0 / within[6].1,
                to_one.different.bounds[6].1.max.as_nanos(),
                to_one.same.bounds[6].1.max.as_nanos()),
            within.iter().all(|&(_, times)| times < 1.0),
        )
        .limit("both cost R_R for each thread, by the paper's equations 6 and 10 as well; only T_max tells them apart"),
        Check::statement(
            "the different-lines approach is the best for inter-socket transfers",
            format!("same / different lines: {:.2} to {:.2}, faster for {}", across[7].1, greatest(across).1, where_true(across, |times| times > 1.0)),
            across.iter().all(|&(_, times)| times > 1.0),
        ),
        Check::statement(
            "the use of one line per socket to isolate polling from separate sockets",
            format!("different lines / a line for each socket: {:.2} with 16 threads; faster for {}", least[14].1, where_true(&least, |times| times > 1.0)),
            least.iter().all(|&(ranks, times)| if ranks > 9 { times > 1.0 } else { times >= 1.0 }),
        ),
        Check::statement(
            "When using multiple lines, the real cost is lower than the prediction",
            format!("T_m(1, n): {:.0} ns with 16 threads; here {:.0} ns", prefetched(16), last(&to_one.different)),
            !less,
        )
        .limit("flags are not fetched ahead here, so runs follow table 5; the curve of equation 4 is in the plot"),
        Check::statement(
            "the use of one line is faster due to the multiple writes required by the different lines scenario",
            format!("different / same line: up to {:.1}; faster for {}", greatest(&told).1, where_true(&told, |times| times > 1.0)),
            told.iter().all(|&(ranks, times)| if ranks > 2 { times > 1.0 } else { times >= 1.0 }),
        ),
    ];
    let fetched = Series::line("different, T_m(1, n)", fetched);
    Ok(Figure {
        title: "synchronization on Sandy Bridge".to_owned(),
        about: "T_min and T_max are those of tables 5 and 6.".to_owned(),
        plots: vec![
            to_one.plot("a", "many to one", vec![fetched]),
            to_many.plot("b", "one to many", Vec::new()),
            over_ranks(
                "c",
                "many to one: a line for each socket",
                [per_socket.with_dots(), per_socket.model(), vec![to_one.different.series()]]
                    .concat(),
            ),
        ],
        checks,
    })
}

/// Figure 7: Xeon Phi.
pub(super) fn figure_7() -> Result<Figure> {
    let machines: Vec<Machine> = PHI.map(phi).collect();
    let (to_one, to_many) = (notified(&machines, false)?, notified(&machines, true)?);
    let tree = |name, pattern: Pattern| {
        Curve::new(name, &machines, |machine| {
            let tree = best_tree(machine, 0, pattern)?.tree;
            Ok(pattern.program(&tree, &machine.placement))
        })
    };
    let gathered = tree("tree", Pattern::ManyToOne)?;
    let told = tree("tree", Pattern::OneToMany)?;
    let flat = gathered.times(&to_one.same);
    let width = |curve: &Curve, at: usize| {
        let bounds = curve.bounds[at].1;
        (bounds.max - bounds.min).as_nanos()
    };
    let narrower: Vec<(usize, f64)> = PHI
        .enumerate()
        .map(|(at, ranks)| (ranks, width(&to_one.same, at) - width(&gathered, at)))
        .collect();
    let lines = to_many.same.times(&to_many.different);
    let faster = told.times(&to_many.same);
    let most = greatest(&faster);
    let peak =
        told.points.windows(2).find(|pair| pair[1].1 < pair[0].1).map(|pair| pair[0].0 as usize);
    let checks = vec![
        Check::statement(
            "Latency and variability are lower than in the basic versions",
            format!(
                "many to one: {:.1} times as fast with 60 threads; faster for {}, T_max − T_min smaller for {}",
                flat[58].1,
                where_true(&flat, |times| times > 1.0),
                where_true(&narrower, |width| width > 0.0)
            ),
            flat.iter().zip(&narrower).all(|(flat, width)| match flat.0 {
                2..=6 => flat.1 >= 0.999 && width.1 >= 0.0,
                _ => flat.1 > 1.0 && width.1 > 0.0,
            }),
        ),
        Check::statement(
            "the use of one line is faster […]. The same happens for Xeon Phi",
            format!("different / same line: up to {:.1}; faster for {}", greatest(&lines).1, where_true(&lines, |times| times > 1.0)),
            lines.iter().all(|&(ranks, times)| if ranks > 2 { times > 1.0 } else { times >= 1.0 }),
        ),
        Check::value("one to many: “latency is almost 3 times smaller”", "×", 3.0, most.1, 0.10).limit(format!(
            "at {} threads; contention is all that a flat notification suffers from here, 56.2 ns for each reader",
            most.0
        )),
        Check::statement(
            "the peak for less than 20 threads appears because we optimize for T_min",
            format!("the first peak is at {} threads", peak.unwrap_or_default()),
            peak.is_some_and(|ranks| ranks < 20),
        )
        .limit("the search finds trees with the same T_min as the paper's or less, whose runs have their peak later"),
    ];
    Ok(Figure {
        title: "synchronization on Xeon Phi".to_owned(),
        about: "The paper's trees are the best of a restricted kind; the search here also moves ranks and subtrees."
            .to_owned(),
        plots: vec![
            to_one.plot("a", "many to one", Vec::new()),
            over_ranks("b", "many to one, along a tree", [gathered.with_dots(), gathered.model()].concat()),
            to_many.plot("c", "one to many", Vec::new()),
            over_ranks("d", "one to many, along a tree", [told.with_dots(), told.model()].concat()),
        ],
        checks,
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn synchronization_on_sandy_bridge() {
        super::figure_6().unwrap().assert();
    }
}
