//! Classic locks (section 6.2.3).

use super::curve::{Curve, latency, rate, series};
use super::experiments::{CLIENTS, INCREMENTS, MOPS, NANOS, ON_TILES, everywhere, on_tiles};
use crate::critical::{Task, Way};
use crate::figures::{Check, Figure, Plot, Result};
use mp_delegate::critical::Scheme;

const TIMES: [usize; 11] = [0, 1, 2, 3, 4, 5, 8, 10, 15, 20, 25];

/// Returns the locks of figure 6.4, in its order.
pub(super) fn locks() -> [(&'static str, Way); 4] {
    [
        ("HYBLOCK", Scheme::HybLock.into()),
        ("MCS", Scheme::Mcs.into()),
        ("CLH", Way::PublishedClh),
        ("TAS", Scheme::Tas.into()),
    ]
}

/// Figure 6.4: locks on the TILE-Gx.
pub(super) fn figure_6_4() -> Result<Figure> {
    let shown = || locks().into_iter().chain([("CLH of the library", Scheme::Clh.into())]);
    let counter = |(name, lock): (&str, Way)| {
        Curve::new(name, &ON_TILES, |clients| on_tiles(lock, clients, Task::Counter))
    };
    let long = |(name, lock): (&str, Way)| {
        Curve::new(name, &TIMES, |times| on_tiles(lock, 36, Task::Counters { times: times as u32 }))
    };
    let counters = shown().map(counter).collect::<Result<Vec<_>>>()?;
    let longer = shown().map(long).collect::<Result<Vec<_>>>()?;
    let [a, c] = [&counters, &longer].map(|curves| curves.iter().collect::<Vec<_>>());
    Ok(Figure {
        title: "classic locks on the TILE-Gx".to_owned(),
        about: "A counter with 1 to 35 threads, and an array of counters with 36. CLH is the published lock, whose \
                waiting threads only read. In the library's CLH a waiting thread also writes its name into its \
                predecessor's node, because it may sleep. That makes the hand-over cheaper on these tiles: a store to \
                a line that only one other core has takes 57 cycles, and one to a line that both have takes 86."
            .to_owned(),
        plots: vec![
            Plot::new("a", "throughput of a counter", CLIENTS, MOPS, series(&a, rate)),
            Plot::new("b", "latency of a counter", CLIENTS, NANOS, series(&a, latency)),
            Plot::new("c", "longer critical sections", INCREMENTS, MOPS, series(&c, rate)),
        ],
        checks: checks(&counters, &longer),
    })
}

fn checks(counters: &[Curve], longer: &[Curve]) -> Vec<Check> {
    let ([hyb, mcs, clh, tas, ours], [hyb_c, mcs_c, clh_c, ..]) = (counters, longer) else {
        return Vec::new();
    };
    let over = |a: &Curve, b: &Curve, at| a.at(at, rate) / b.at(at, rate);
    let mut worse = hyb.not_above(mcs, 2);
    worse.extend(hyb.not_above(clh, 2));
    let alone = [hyb, mcs, clh, tas].map(|curve| curve.at(1, latency));
    let ratios: Vec<f64> =
        clh.values(rate).zip(mcs.values(rate)).map(|((_, c), (_, m))| c / m).collect();
    let apart = |ratios: &[f64]| {
        let ends = ratios.iter().fold((f64::MAX, 0.0_f64), |(a, b), &r| (a.min(r), b.max(r)));
        format!("CLH / MCS: {:.2} to {:.2}", ends.0, ends.1)
    };
    let falls = [hyb_c, mcs_c, clh_c].map(|curve| curve.at(1, rate) / curve.at(0, rate));
    let slower = [hyb_c, mcs_c, clh_c].map(|curve| curve.at(8, rate) / curve.at(1, rate));
    vec![
        Check::value("HYBLOCK / MCS, 35 threads (6.4a)", "", 1.35, over(hyb, mcs, 35), 0.10),
        Check::value("HYBLOCK / CLH, 35 threads (6.4a)", "", 1.35, over(hyb, clh, 35), 0.10),
        everywhere(
            "Even in lower degrees of concurrency, HYBLOCK still performs visibly better than the other queue locks",
            "with each number of threads from 2 on",
            &worse,
        ),
        Check::statement(
            "As expected, TAS scales poorly",
            format!("{:.1} Mops with 2 threads, {:.1} with 35", tas.at(2, rate), tas.at(35, rate)),
            tas.at(35, rate) < 0.5 * tas.at(2, rate),
        ),
        Check::statement(
            "Even with one thread (no concurrency at all), HYBLOCK is more efficient than most alternatives, except for \
             TAS",
            format!("{alone:.0?} ns: HYBLOCK, MCS, CLH, TAS"),
            alone[0] < alone[1] && alone[0] < alone[2] && alone[3] < alone[0],
        ),
        Check::statement(
            "MCS and CLH deliver nearly indistinguishable performance, except with 2-4 threads",
            apart(&ratios[4..]),
            ratios[4..].iter().all(|ratio| (0.9..1.1).contains(ratio)),
        ),
        Check::statement(
            "except with 2-4 threads, where CLH is more robust",
            apart(&ratios[1..4]),
            ratios[1..4].iter().all(|&ratio| ratio > 1.0),
        )
        .limit("the thesis believes “this is architecture and implementation-dependent”"),
        Check::here(
            "the library's CLH is faster than the published one, and slower than HYBLOCK",
            format!(
                "{:.1} Mops with 35 threads; {:.1} and {:.1}",
                ours.at(35, rate),
                clh.at(35, rate),
                hyb.at(35, rate)
            ),
            clh.at(35, rate) < ours.at(35, rate) && ours.at(35, rate) < hyb.at(35, rate),
        ),
        Check::value("HYBLOCK / MCS, no increments (6.4c)", "", 2.0, over(hyb_c, mcs_c, 0), 0.15),
        Check::value("HYBLOCK / CLH, no increments (6.4c)", "", 2.0, over(hyb_c, clh_c, 0), 0.15),
        Check::statement(
            "even only one increment, there is a sharp performance decrease […] As the number of increments increases \
             past one, the performance decreases more slowly",
            format!(
                "with one increment {falls:.2?} of the throughput with none; with 8, {slower:.2?} of that with one"
            ),
            falls.iter().all(|&fall| fall < 0.6) && slower.iter().all(|&slow| slow > 0.6),
        ),
        Check::value("HYBLOCK / MCS, 25 increments (6.4c)", "", 1.18, over(hyb_c, mcs_c, 25), 0.10),
        Check::value("HYBLOCK / CLH, 25 increments (6.4c)", "", 1.18, over(hyb_c, clh_c, 25), 0.10),
    ]
}
