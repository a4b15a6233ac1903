//! The tree of figure 3.1, and the SCC's hardware: interrupts (figure 3.3), put and get (figure 4.2), and contention
//! (figure 4.3).

use std::collections::BTreeSet;

use crate::experiments;
use crate::figures::{Check, Figure, Plot, Result, Series};
use crate::scc::{CORES, Parameters};
use crate::sim::{Core, InterruptCosts, Machine, Misfit, WaitForInterrupt, run};
use mp_core::mpb::{Interrupts, Line, MpbAccess};
use mp_model::Time;
use mp_model::tree::Shape;

const COSTS: Parameters = Parameters::TABLE_4_1;

/// Figure 3.1: the trees of 12 cores with k = 7.
pub(super) fn figure_3_1() -> Result<Figure> {
    let node = Shape::new(12, 7)?.rooted(0)?.node(1)?;
    let data: BTreeSet<usize> = node.children().collect();
    let notified: BTreeSet<usize> =
        node.notified_siblings().chain(node.notified_children()).collect();
    let check = |quote: &str, ours: &BTreeSet<usize>, expected: [usize; 4]| {
        Check::statement(quote, format!("{ours:?}"), ours.iter().copied().eq(expected))
    };
    Ok(Figure {
        title: "message propagation tree and notification trees, k = 7 (SPAA, figure 5)".to_owned(),
        about: "Core 1's place in the trees of 12 cores, from the library's own computation."
            .to_owned(),
        plots: Vec::new(),
        checks: vec![
            check("dataChildren_c1 = {c8, c9, c10, c11}", &data, [8, 9, 10, 11]),
            check("notifyChildren_c1 = {c3, c4, c8, c9}", &notified, [3, 4, 8, 9]),
        ],
    })
}

/// The cycle of a core, at 533 MHz, in ns.
const CYCLE: f64 = 1.876;

/// Interrupts the first `cores` cores, and returns two times for each, in cycles: when the interrupt is there, and when
/// the core has read and reset the controller's registers.
fn interrupts(cores: usize) -> Result<Vec<[f64; 2]>> {
    let machine = Machine { interrupts: InterruptCosts::SCC, ..Machine::scc() };
    let run = run(machine, async |core| {
        if core.rank() == 0 {
            core.interrupt(0..cores).await?;
        }
        if core.rank() >= cores {
            return Ok::<_, Misfit>(None);
        }
        core.wait_interrupt().await?;
        let there = core.now();
        core.take_interrupts(&mut Vec::new()).await?;
        Ok(Some([there, core.now()].map(|time| time.as_nanos() / CYCLE)))
    })?;
    let times = run.outputs.into_iter().collect::<std::result::Result<Vec<_>, Misfit>>()?;
    Ok(times.into_iter().flatten().collect())
}

/// Figure 3.3: latency of an interrupt of all cores.
pub(super) fn figure_3_3() -> Result<Figure> {
    let all = interrupts(CORES)?;
    let plot = |part, caption: &str, place: usize| {
        let points = all.iter().enumerate().map(|(core, times)| (core as f64, times[place]));
        let series = vec![Series::dots("a core", points)];
        Plot::new(part, caption, "core", "core cycles", series)
    };
    let ends = |times: &[[f64; 2]], place: usize| {
        let times = times.iter().map(|times| times[place]);
        times.fold((f64::MAX, 0.0_f64), |(a, b), time| (a.min(time), b.max(time)))
    };
    let (first, last) = ends(&all, 1);
    let (one, some) = (ends(&interrupts(1)?, 1).1, ends(&interrupts(19)?, 1).1);
    let (early, late) = (ends(&all[..32], 0), ends(&all[32..], 0));
    Ok(Figure {
        title: "latency of broadcasting an interrupt at the kernel level (MARC, figure 2)".to_owned(),
        about: "The controller's costs were taken from this figure, so that only its form is a result. Distances from \
                the controller are left out."
            .to_owned(),
        plots: vec![plot("a", "registers of the controller", 1), plot("b", "without its registers", 0)],
        checks: vec![
            Check::value("the slowest core (“almost 6000”)", "cycles", 6_000.0, last, 0.06),
            Check::value("the fastest core (“about 2000”)", "cycles", 2_000.0, first, 0.10),
            Check::statement(
                "it is barely noticeable for less than 20 cores, but then starts to increase rapidly",
                format!("last of 1, 19, 48 cores: {one:.0}, {some:.0}, {last:.0} cycles"),
                some < 1.15 * one && last > 2.0 * some,
            ),
            Check::value("48 cores / one (“only about 3 times”)", "", 3.0, last / one, 0.15),
            Check::statement(
                "it takes slightly more time for cores 32 through 47 to receive their interrupt",
                format!("without registers: up to {:.0} cycles, then {:.0} to {:.0}", early.1, late.0, late.1),
                early.1 < late.0 && late.1 < 1.1 * early.0,
            ),
        ],
    })
}

fn at(rank: usize, line: usize) -> Line {
    Line { rank, line }
}

/// Figure 4.2: put and get without contention.
pub(super) fn figure_4_2() -> Result<Figure> {
    type Formula = fn(u64, u64) -> Time;
    // No cache: the same memory is read again and again here, which the thesis avoids.
    let scc = Machine { cache_bytes: 0, ..Machine::scc() };
    // A core of the first tile whose MPB is this far from core 0.
    let rank = |hops: usize| if hops <= 6 { 2 * (hops - 1) } else { 10 + 12 * (hops - 6) };
    let simulated = |place: usize, lines: usize, hops: usize| {
        let there = at(rank(hops), 0);
        let times = experiments::repeated(&scc, 1, async |core: &mut Core| {
            let mut memory = vec![0; lines * 32];
            match place {
                0 => core.get_own(there, lines, 128).await,
                1 => core.put_own(128, lines, there).await,
                2 => core.get(there, &mut memory).await,
                _ => core.put(&memory, there).await,
            }
        })?;
        Result::Ok(times[0].as_micros())
    };
    let formulas: [(&str, &str, Formula); 4] = [
        ("a", "get, MPB to MPB", |lines, hops| COSTS.get_to_mpb(lines, hops)),
        ("b", "put, MPB to MPB", |lines, hops| COSTS.put_from_mpb(lines, hops)),
        ("c", "get, MPB to memory", |lines, hops| COSTS.get_to_mem(lines, hops, 1)),
        ("d", "put, memory to MPB", |lines, hops| COSTS.put_from_mem(lines, 1, hops)),
    ];
    let (mut plots, mut off) = (Vec::new(), 0.0_f64);
    for (place, (part, caption, formula)) in formulas.into_iter().enumerate() {
        let mut series = Vec::new();
        for lines in [1_usize, 4, 8, 16] {
            let name = format!("{lines} CL");
            let (mut line, mut dots) = (Vec::new(), Vec::new());
            for hops in 1..=9 {
                let formula = formula(lines as u64, hops as u64).as_micros();
                let ours = simulated(place, lines, hops)?;
                off = off.max((ours / formula - 1.0).abs());
                line.push((hops as f64, formula));
                dots.push((hops as f64, ours));
            }
            series.extend([Series::line(&*name, line), Series::dots(&*name, dots)]);
        }
        let caption = format!("{caption}; circles simulated, lines by formula");
        plots.push(Plot::new(part, caption, "distance (routers)", "µs", series));
    }
    let farthest = simulated(0, 128, 9)? / simulated(0, 128, 1)? - 1.0;
    Ok(Figure {
        title: "get and put performance (SPAA, figure 3)".to_owned(),
        about: "One core at a time, with the costs of table 4.1.".to_owned(),
        plots,
        checks: vec![
            Check::statement(
                "our model precisely estimates communication performance",
                format!("simulation and formulas differ by at most {:.2}%", 100.0 * off),
                off < 0.001,
            ),
            Check::value(
                "9 hops / 1 hop: “only 30%” more, 128 lines",
                "%",
                30.0,
                100.0 * farthest,
                0.05,
            ),
        ],
    })
}

/// A number of cores that access one MPB, and the time that each needs, in µs.
type Contended = (usize, Vec<f64>);

/// Returns the times for several numbers of cores.
fn contended(
    counts: &[usize],
    operation: impl AsyncFn(&mut Core) -> std::result::Result<(), Misfit>,
) -> Result<Vec<Contended>> {
    let times = |&cores: &usize| {
        let times = experiments::repeated(&Machine::scc(), cores, &operation)?;
        Ok((cores, times.into_iter().map(Time::as_micros).collect()))
    };
    counts.iter().map(times).collect()
}

/// Figure 4.3: contention for the MPB of core 0.
pub(super) fn figure_4_3() -> Result<Figure> {
    contention(&[1, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48])
}

fn contention(counts: &[usize]) -> Result<Figure> {
    let scc = Machine::scc();
    let gets = contended(counts, async |core| core.get_own(at(0, 0), 128, 128).await)?;
    let puts = contended(counts, async |core| core.put_own(200, 1, at(0, core.rank())).await)?;
    let plot = |part, caption: &str, runs: &[Contended]| {
        let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64;
        let means = runs.iter().map(|(cores, times)| (*cores as f64, mean(times)));
        let each = runs
            .iter()
            .flat_map(|(cores, times)| times.iter().map(move |&time| (*cores as f64, time)));
        let series = vec![Series::line("average", means), Series::dots("each core", each)];
        let caption = caption.to_owned();
        Plot {
            part,
            caption,
            across: "cores at the same time",
            unit: "µs",
            series,
            ..Plot::default()
        }
    };
    // How much slower than alone the slowest is, with up to 24 cores.
    let disturbed = |runs: &[Contended], alone: &dyn Fn(u64) -> Time| {
        let few = runs.iter().filter(|(cores, _)| *cores <= 24);
        let times = few.flat_map(|(_, times)| times.iter().enumerate());
        times.map(|(core, time)| time / alone(scc.hops(core, 0)).as_micros()).fold(0.0, f64::max)
    };
    let get = disturbed(&gets, &|hops| COSTS.get_to_mpb(128, hops));
    let put = disturbed(&puts, &|hops| COSTS.put_from_mpb(1, hops));
    let spread = |runs: &[Contended]| {
        let times = runs.last().map_or(&[][..], |(_, times)| times);
        let ends =
            times.iter().fold((f64::MAX, 0.0_f64), |(a, b), &time| (a.min(time), b.max(time)));
        ends.1 / ends.0
    };
    let (of_gets, of_puts) = (spread(&gets), spread(&puts));
    Ok(Figure {
        title: "MPB contention (SPAA, figure 4)".to_owned(),
        about: "The first cores repeat a get of 128 lines, or a put of one, at the MPB of core 0. The port's capacity \
                for gets was taken from the first two statements; the spread follows from the router's inputs, which \
                take turns."
            .to_owned(),
        plots: vec![plot("a", "gets of 128 lines", &gets), plot("b", "puts of one line", &puts)],
        checks: vec![
            Check::statement(
                "up to 24 cores accessing the same MPB do not create any measurable contention",
                format!("the slowest core needs {get:.3} (get) and {put:.3} (put) of its time alone"),
                get < 1.02 && put < 1.02,
            ),
            Check::statement(
                "the slowest core is more than two times slower than the fastest one for get",
                format!("{of_gets:.1} times, 48 cores"),
                of_gets > 2.0 && of_gets < 3.5,
            ),
            Check::statement(
                "and more than four times slower for a put operation",
                format!("{of_puts:.1} times, 48 cores"),
                of_puts > 4.0,
            )
            .limit(
                "only the last router's inputs take turns here. If the inputs of all routers took turns, and a core had \
                 one packet under way, cores far away would starve: the slowest would need 36 times as long as the \
                 fastest for a put, and 18 times for a get. The SCC's routers are somewhere between",
            ),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_as_stated() {
        for figure in [figure_3_1(), figure_3_3(), figure_4_2(), contention(&[1, 12, 24, 48])] {
            figure.unwrap().assert();
        }
    }
}
