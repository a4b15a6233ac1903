//! Classic locks (section 6.2.3).

use super::curve::{Curve, latency, rate, series};
use super::experiments::{CLIENTS, INCREMENTS, MOPS, NANOS, ON_TILES, everywhere, on_tiles};
use crate::critical::Task;
use crate::figures::{Check, Figure, Plot, Result};
use mp_delegate::critical::Scheme;

/// The schemes of figure 6.4, in its order.
pub(super) const LOCKS: [Scheme; 4] = [Scheme::HybLock, Scheme::Mcs, Scheme::Clh, Scheme::Tas];
const TIMES: [usize; 11] = [0, 1, 2, 3, 4, 5, 8, 10, 15, 20, 25];

/// Figure 6.4: locks on the TILE-Gx.
pub(super) fn figure_6_4() -> Result<Figure> {
    let counter = |lock: Scheme| {
        Curve::new(lock.name(), &ON_TILES, |clients| on_tiles(lock, clients, Task::Counter))
    };
    let long = |lock: Scheme| {
        Curve::new(lock.name(), &TIMES, |times| {
            on_tiles(lock, 36, Task::Counters { times: times as u32 })
        })
    };
    let counters = LOCKS.into_iter().map(counter).collect::<Result<Vec<_>>>()?;
    let longer = LOCKS.into_iter().map(long).collect::<Result<Vec<_>>>()?;
    let [a, c] = [&counters, &longer].map(|curves| curves.iter().collect::<Vec<_>>());
    Ok(Figure {
        title: "classic locks on the TILE-Gx".to_owned(),
        about: "A counter with 1 to 35 threads, and an array of counters with 36.".to_owned(),
        plots: vec![
            Plot::new("a", "throughput of a counter", CLIENTS, MOPS, series(&a, rate)),
            Plot::new("b", "latency of a counter", CLIENTS, NANOS, series(&a, latency)),
            Plot::new("c", "longer critical sections", INCREMENTS, MOPS, series(&c, rate)),
        ],
        checks: checks(&counters, &longer),
    })
}

fn checks(counters: &[Curve], longer: &[Curve]) -> Vec<Check> {
    let ([hyb, mcs, clh, tas], [hyb_c, mcs_c, clh_c, _]) = (counters, longer) else {
        return Vec::new();
    };
    let over = |a: &Curve, b: &Curve, at| a.at(at, rate) / b.at(at, rate);
    let mut worse = hyb.not_above(mcs, 2);
    worse.extend(hyb.not_above(clh, 2));
    let alone = [hyb, mcs, clh, tas].map(|curve| curve.at(1, latency));
    let apart: Vec<f64> =
        clh.values(rate).zip(mcs.values(rate)).skip(4).map(|((_, c), (_, m))| c / m).collect();
    let falls = [hyb_c, mcs_c, clh_c].map(|curve| curve.at(1, rate) / curve.at(0, rate));
    let slower = [hyb_c, mcs_c, clh_c].map(|curve| curve.at(8, rate) / curve.at(1, rate));
    vec![
        Check::value("HYBLOCK / MCS, 35 threads (6.4a)", "", 1.35, over(hyb, mcs, 35), 0.10),
        Check::value("HYBLOCK / CLH, 35 threads (6.4a)", "", 1.35, over(hyb, clh, 35), 0.10)
            .limit("CLH's hand-over is one transfer shorter than MCS' here: who releases the lock knows its successor"),
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
            "MCS and CLH deliver nearly indistinguishable performance, except with 2-4 threads, where CLH is more robust",
            format!("CLH is {:.2} times as fast with 5 threads and more", apart[0]),
            apart.iter().all(|apart| (0.9..1.1).contains(apart)),
        )
        .limit("see HYBLOCK / CLH"),
        Check::value("HYBLOCK / MCS, no increments (6.4c)", "", 2.0, over(hyb_c, mcs_c, 0), 0.15),
        Check::value("HYBLOCK / CLH, no increments (6.4c)", "", 2.0, over(hyb_c, clh_c, 0), 0.15)
            .limit("see HYBLOCK / CLH"),
        Check::statement(
            "even only one increment, there is a sharp performance decrease […] As the number of increments increases \
             past one, the performance decreases more slowly",
            format!("with one increment {falls:.2?} of the throughput with none; with 8, {slower:.2?} of that with one"),
            falls.iter().all(|&fall| fall < 0.6) && slower.iter().all(|&slow| slow > 0.6),
        ),
        Check::value("HYBLOCK / MCS, 25 increments (6.4c)", "", 1.18, over(hyb_c, mcs_c, 25), 0.10),
        Check::value("HYBLOCK / CLH, 25 increments (6.4c)", "", 1.18, over(hyb_c, clh_c, 25), 0.10),
    ]
}
