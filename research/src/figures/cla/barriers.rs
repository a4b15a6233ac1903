//! Barriers (section 3.3).

use mp_model::cla::barrier::{Exchange, best_mixed_ways, best_ways};
use mp_model::cla::{Barrier, Machine};

use super::curve::{
    Curve, PHI, SANDY, chosen_barrier, greatest, least, logarithmic, mean, over_ranks, phi, sandy,
    where_true,
};
use crate::cla::run::{Begin, Options, run_from};
use crate::cla::{baselines, equations};
use crate::figures::{Check, Figure, Plot, Result, Series};

/// What the paper's barriers are compared with.
struct Others {
    plain: Curve,
    central: Curve,
    tournament: Curve,
}

impl Others {
    fn new(machines: &[Machine]) -> Result<Others> {
        Ok(Others {
            plain: Curve::new("m = 1, flags used again", machines, |machine| {
                Ok(baselines::plain_dissemination(&machine.placement))
            })?,
            central: Curve::new("central counter (OpenMP)", machines, |machine| {
                Ok(Barrier::Central.program(&machine.placement))
            })?,
            tournament: Curve::new("tournament (MPI)", machines, |machine| {
                Ok(baselines::tournament_barrier(&machine.placement)?)
            })?,
        })
    }

    fn series(&self) -> Vec<Series> {
        [&self.plain, &self.central, &self.tournament].map(Curve::series).to_vec()
    }
}

/// Returns the m-way dissemination with the best m.
fn uniform(machine: &Machine) -> Barrier {
    let (ways, rounds) = best_ways(machine, machine.ranks());
    Barrier::Dissemination(vec![ways; rounds])
}

/// Returns the m-way dissemination over both sockets whose m is best by the average of the reads from the other socket
/// (section 3.3.2, the first variant).
fn uniform_across(machine: &Machine) -> Barrier {
    let placement = &machine.placement;
    let by_average = |ways: usize| {
        let (ranks, m) = (machine.ranks() as u64, ways as u64);
        let rounds = equations::rounds(ranks, m);
        let barrier = Barrier::Dissemination(vec![ways; rounds as usize]);
        let of_ranks = barrier.rounds(placement).into_iter().enumerate();
        let far = of_ranks.flat_map(|(rank, rounds)| {
            let reads = rounds.into_iter().flat_map(|round| round.reads);
            reads.filter(move |&other| !placement.near(rank, other))
        });
        let far = far.count() as u64;
        let p = &machine.parameters;
        (equations::dissemination_with_far_reads(p, ranks, rounds, m, far), barrier)
    };
    let best = (1..machine.ranks()).map(by_average).min_by_key(|&(time, _)| time);
    best.expect("one way at least").1
}

fn uniform_on(name: &'static str, machines: &[Machine]) -> Result<Curve> {
    Curve::new(name, machines, |machine| Ok(uniform(machine).program(&machine.placement)))
}

fn mixed_on(name: &'static str, machines: &[Machine]) -> Result<Curve> {
    Curve::new(name, machines, |machine| {
        let ways = best_mixed_ways(machine, machine.ranks());
        Ok(Barrier::Dissemination(ways).program(&machine.placement))
    })
}

/// Figure 11: barriers on both machines.
pub(super) fn figure_11() -> Result<Figure> {
    let sandy: Vec<Machine> = SANDY.map(sandy).collect();
    let phi: Vec<Machine> = PHI.map(phi).collect();
    let (mut checks, on_sandy, other) = (Vec::new(), chosen(&sandy)?, Others::new(&sandy)?);
    let mut first = [on_sandy.with_dots(), on_sandy.model()].concat();
    first.extend(other.series());
    sandy_checks(&mut checks, &on_sandy, &other);

    let across: Vec<Machine> = sandy[7..].to_vec();
    let grouped = |name, exchange: Exchange| {
        Curve::new(name, &across, move |machine| {
            let groups = machine.placement.groups();
            let within = groups.iter().map(|group| best_mixed_ways(machine, group.len())).collect();
            let barrier = Barrier::Grouped { within, exchange: exchange.clone() };
            Ok(barrier.program(&machine.placement))
        })
    };
    let sockets = [
        Curve::new("dissemination", &across, |machine| {
            Ok(uniform_across(machine).program(&machine.placement))
        })?,
        grouped("pair-wise", Exchange::Pairs)?,
        grouped("socket-root", Exchange::Roots)?,
    ];
    let differs = |machine: &&Machine| uniform(machine) != uniform_across(machine);
    let different = across.iter().filter(differs).count();
    checks.push(Check::here(
        "11b, the best m “by estimating the average of QPI transfers” is that of one socket (equation 27)",
        format!("another m for {different} of {} numbers of threads", across.len()),
        different == 0,
    ));
    socket_checks(&mut checks, &sockets);
    let mut second: Vec<Series> = sockets.iter().flat_map(Curve::with_dots).collect();
    second.push(Series::line(other.plain.name, other.plain.points[7..].iter().copied()));

    let (ways, mixed) = (uniform_on("m-way", &phi)?, mixed_on("multi-m", &phi)?);
    let apart = |machine: &Machine| Machine {
        parameters: machine.parameters.without_contention(),
        ..machine.clone()
    };
    // Chosen without contention, and run with it.
    let ways_apart = Curve::new("m-way, chosen without contention", &phi, |machine| {
        Ok(uniform(&apart(machine)).program(&machine.placement))
    })?;
    // Chosen without contention, and run without.
    let phi_alone: Vec<Machine> = phi.iter().map(apart).collect();
    let ways_alone = uniform_on("m-way, no contention", &phi_alone)?;
    let mixed_alone = mixed_on("multi-m, no contention", &phi_alone)?;
    let others = Others::new(&phi)?;
    let curves = [&ways, &mixed, &ways_apart, &ways_alone, &mixed_alone, &chosen(&phi)?];
    phi_checks(&mut checks, &phi, curves, &others);
    let third = [ways.with_dots(), ways.model(), others.series()].concat();
    let fourth = [&ways, &mixed, &ways_alone, &mixed_alone].map(Curve::with_dots).concat();
    Ok(Figure {
        title: "barriers".to_owned(),
        about: "The libraries' barriers are a central counter for OpenMP and a tournament for MPI. “m = 1, flags used \
                again” is the paper's dissemination without parameter optimization and single-use flags. 11e, which the \
                paper does not have, shows when that matters."
            .to_owned(),
        plots: vec![
            logarithmic(over_ranks("a", "the chosen barrier, Sandy Bridge", first)),
            over_ranks("b", "barriers for two sockets, Sandy Bridge", second),
            logarithmic(over_ranks("c", "dissemination, Xeon Phi", third)),
            over_ranks("d", "multi-m dissemination, Xeon Phi", fourth),
            Plot::new(
                "e",
                "flags used again, to flags of single use, m = 1",
                "threads come within so many R_R",
                "times as long",
                again_by_spread()?,
            ),
        ],
        checks,
    })
}

/// Returns how many times as long flags that are used again take as flags of single use, both with m = 1, if threads
/// come within so many R_R at random.
fn again(machine: &Machine, spread: u64) -> Result<f64> {
    let (ranks, placement) = (machine.ranks(), &machine.placement);
    let rounds = ranks.next_power_of_two().ilog2() as usize;
    let programs = [
        baselines::plain_dissemination(placement),
        Barrier::Dissemination(vec![1; rounds]).program(placement),
    ];
    let mut times = [0.0; 2];
    for seed in 0..40 {
        let begin = Begin::at_random(ranks, spread * machine.parameters.near.transfer, seed);
        for (times, program) in times.iter_mut().zip(&programs) {
            let options = Options { congestion: true, ..Options::default() };
            let end = run_from(program, machine, options, &begin)?.end();
            *times += (end - begin.last()).as_nanos();
        }
    }
    Ok(times[0] / times[1])
}

/// Returns the curves of that for some machines.
fn again_by_spread() -> Result<Vec<Series>> {
    let machines = [
        ("Sandy Bridge, 8", sandy(8)),
        ("Sandy Bridge, 16", sandy(16)),
        ("Xeon Phi, 16", phi(16)),
        ("Xeon Phi, 60", phi(60)),
    ];
    let of = |(name, machine): (&str, Machine)| {
        let point = |spread| Ok((spread as f64, again(&machine, spread)?));
        let points = [0, 1, 2, 3, 5, 7, 10, 15, 20, 30].map(point);
        Ok(Series::line(name, points.into_iter().collect::<Result<Vec<_>>>()?))
    };
    machines.into_iter().map(of).collect()
}

fn chosen(machines: &[Machine]) -> Result<Curve> {
    Curve::new("chosen", machines, |machine| Ok(chosen_barrier(machine)))
}

fn sandy_checks(checks: &mut Vec<Check>, chosen: &Curve, others: &Others) {
    let plain = chosen.times(&others.plain);
    let (ranks, most) = greatest(&plain);
    checks.push(Check::value(
        format!("11a, over m = 1 without single-use flags (here with {ranks} threads)"),
        "×",
        1.93,
        most,
        0.02,
    ));
    let (within, across) = plain.split_at(7);
    let mean = mean(across);
    checks.push(
        Check::statement(
            "it almost doubles the latency of our optimized barriers",
            format!("two sockets: {mean:.2} times as long on average, {:.2} at least", least(across)),
            mean > 1.8,
        )
        .limit("it does with 9 threads; all numbers of threads in two sockets take longer, but less than twice as long"),
    );
    checks.push(
        Check::statement(
            "single-use synchronization lines form the best tradeoff between stealing and memory overhead",
            format!(
                "one socket: faster for {}, slower for {}",
                where_true(within, |times| times > 1.0),
                where_true(within, |times| times < 1.0)
            ),
            within.iter().all(|&(_, times)| times >= 1.0),
        )
        .limit(
            "among threads that come together nothing is stolen, and a flag used again comes from a cache (R_R) instead of \
             memory (R_I). If threads come within 30 R_R at random, single use wins for 3–16 threads",
        ),
    );
    let (ranks, most) = greatest(&chosen.times(&others.central));
    checks.push(Check::value(
        format!("11a, over Intel OpenMP (central counter, {ranks} threads)"),
        "×",
        3.8,
        most,
        0.10,
    ));
    let (ranks, most) = greatest(&chosen.times(&others.tournament));
    for (library, published) in [("Intel MPI", 12.0), ("Open MPI", 26.5)] {
        let what = format!("11a, over {library} (tournament, {ranks} threads)");
        checks.push(Check::value(what, "×", published, most, 0.10).limit(SOFTWARE));
    }
}

/// The limit of comparisons with libraries of messages.
pub(super) const SOFTWARE: &str = "only the lines that messages move are simulated";

fn socket_checks(checks: &mut Vec<Check>, [pure, pairs, roots]: &[Curve; 3]) {
    let (by_pairs, by_roots) = (pairs.times(pure), roots.times(pure));
    checks.push(Check::statement(
        "When the difference in the number of threads per socket is high […] these approaches perform better than the pure \
         dissemination",
        format!(
            "pair-wise for {}, socket-root for {}",
            where_true(&by_pairs, |times| times > 1.0),
            where_true(&by_roots, |times| times > 1.0)
        ),
        [&by_pairs, &by_roots].iter().all(|times| times[..3].iter().all(|&(_, times)| times > 1.0)),
    ));
    let both = roots.times(pairs);
    checks.push(
        Check::statement(
            "when increasing the number of threads in both sockets, the pair-wise approach suffers from a higher overhead",
            format!(
                "pair-wise / socket-root: {:.2} with 10 threads, {:.2} with 16; slower for {}",
                both[1].1,
                both[7].1,
                where_true(&both, |times| times > 1.0)
            ),
            both[4..].iter().all(|&(_, times)| times > 1.0),
        )
        .limit(
            "3 ns for each line that crosses (table 3) is little compared with taking a line from eight threads; the paper's \
             maxima (30, 31) say the same as the runs here",
        ),
    );
}

fn phi_checks(
    checks: &mut Vec<Check>,
    machines: &[Machine],
    [ways, mixed, ways_apart, ways_alone, mixed_alone, chosen]: [&Curve; 6],
    others: &Others,
) {
    let central = ways.times(&others.central);
    checks.push(
        Check::value("11c, over OpenMP (central counter, 60 threads)", "×", 3.0, greatest(&central).1, 0.10).limit(format!(
            "OpenMP must have something better than a counter; a counter is more than 3 times as slow for {}",
            where_true(&central, |times| times > 3.01)
        )),
    );
    let tournament = greatest(&ways.times(&others.tournament));
    checks.push(
        Check::value("11c, over MPI (tournament, 60 threads)", "×", 11.0, tournament.1, 0.10)
            .limit(SOFTWARE),
    );
    let best: Vec<usize> =
        machines.iter().map(|machine| best_ways(machine, machine.ranks()).0).collect();
    checks.push(Check::statement(
        "the use of contention tends to provide m = 2 or m = 1",
        format!(
            "m = 1 for {} numbers of threads, m = 2 for {}",
            best.iter().filter(|&&ways| ways == 1).count(),
            best.iter().filter(|&&ways| ways == 2).count()
        ),
        best.iter().all(|&ways| ways <= 2),
    ));
    let change = ways.times(ways_apart);
    checks.push(Check::statement(
        "the average of latency is not significantly affected",
        format!(
            "m of the model without contention / with: {:.2} on average, {:.2} to {:.2}",
            mean(&change),
            least(&change),
            greatest(&change).1
        ),
        (0.9..1.1).contains(&mean(&change)),
    ));
    let with = mixed.times(ways);
    let (ranks, most) = greatest(&with);
    let what = format!("11d, multi-m over m-way (here with {ranks} threads)");
    checks.push(Check::value(what, "×", 1.28, most, 0.02));
    let without = mixed_alone.times(ways_alone);
    checks.push(
        Check::statement(
        "contention limits its benefits",
        format!(
            "{:.3} on average, faster for {}; if readers did not contend, {:.3}, faster for {}",
            mean(&with),
            where_true(&with, |times| times > 1.0),
            mean(&without),
            where_true(&without, |times| times > 1.0)
        ),
        mean(&with) < mean(&without),
    )
    .limit("contention makes one m for all rounds small, and with it the gain of a round with a larger one is greater"),
    );
    let plain = chosen.times(&others.plain);
    checks.push(
        Check::statement(
            "single-use synchronization lines form the best tradeoff",
            format!(
                "Xeon Phi: faster than flags used again for {}, slower for {}",
                where_true(&plain, |times| times > 1.0),
                where_true(&plain, |times| times < 1.0)
            ),
            plain.iter().all(|&(_, times)| times >= 1.0),
        )
        .limit(
            "as within a socket above: up to 7% slower if threads come together, and faster for all numbers of threads if \
             they come within 30 R_R. The paper compares this only on Sandy Bridge",
        ),
    );
}

#[cfg(test)]
mod tests {
    #[test]
    fn barriers_are_as_stated() {
        super::figure_11().unwrap().assert();
    }
}
