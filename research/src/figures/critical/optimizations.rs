//! Backoff and streaming stores (section 7.2.2).

use super::curve::{Curve, latency, rate, series};
use super::experiments::{CLIENTS, INCREMENTS, MOPS, NANOS, everywhere, slots};
use super::x86::{OPTERON, X86, XEON, backoff};
use crate::critical::Task;
use crate::figures::{Check, Figure, Result};

fn gain(better: &Curve, base: &Curve) -> f64 {
    better.most_over(base, rate)
}

/// Figure 7.5: the impact of backoff.
pub(super) fn figure_7_5() -> Result<Figure> {
    let (mut plots, mut checks) = (Vec::new(), Vec::new());
    for (machine, published) in [(&XEON, 6.0), (&OPTERON, 2.0)] {
        let name = machine.name;
        let base = machine.curve("srv-base", slots(), Task::Counter)?;
        let shuffled = machine.curve("srv-base-shuf", slots().shuffled(true), Task::Counter)?;
        let with = |cycles| machine.curve(format!("srv-B{cycles}"), backoff(cycles), Task::Counter);
        let backoffs = machine.backoffs.into_iter().map(with).collect::<Result<Vec<_>>>()?;
        let longest = machine.backoffs[2];
        let longer = machine.curve("longer", backoff(2 * longest), Task::Counter)?;
        let best_shuffled = machine.curve(
            format!("srv-B{longest}-shuf"),
            backoff(longest).shuffled(true),
            Task::Counter,
        )?;
        let best = &backoffs[2];
        let most = machine.most();
        let shuffle: Vec<f64> = shuffled
            .values(rate)
            .zip(base.values(rate))
            .map(|((_, shuffled), (_, base))| shuffled / base)
            .collect();
        let (least, greatest) = (
            shuffle.iter().copied().fold(f64::MAX, f64::min),
            shuffle.iter().copied().fold(0.0, f64::max),
        );
        let gain = gain(best, &base);
        let check =
            Check::value(format!("{name}: backoff / none, at most"), "", published, gain, 0.15);
        checks.extend([
            Check::value(format!("{name}: the best server (fitted)"), MOPS, 20.0, best.most(rate), 0.15),
            check.limit(match machine.part {
                "a" => "without backoff a server does 6.1 Mops here; the thesis' does 3.3, 640 cycles for each request, \
                        which is two transfers one after the other. Here the store of one overlaps the load of the next",
                _ => "without backoff a server does 8.2 Mops here; by the thesis it does 10",
            }),
            Check::statement(
                "Increasing the backoff duration above a certain value does not increase the throughput further",
                format!("{name}: {:.1} Mops at most, {:.1} with twice the backoff", best.most(rate), longer.most(rate)),
                longer.most(rate) < 1.05 * best.most(rate),
            ),
            Check::statement(
                "shuffling of client slots greatly reduces performance when backoff is used",
                format!("{name}: {:.1} to {:.1} Mops", best.at(most, rate), best_shuffled.at(most, rate)),
                best_shuffled.at(most, rate) < 0.6 * best.at(most, rate),
            ),
        ]);
        let little = Check::statement(
            "shuffling has little or no effect when backoff is not employed",
            format!("{name}: {least:.2} to {greatest:.2} times the throughput"),
            least > 0.85 && greatest < 1.15,
        );
        checks.push(match machine.part {
            "a" => little,
            _ => little
                .limit("with few clients some requests are fetched ahead if they are in order"),
        });
        let mut curves = vec![&base, &shuffled];
        curves.extend(&backoffs);
        curves.push(&best_shuffled);
        plots.push(machine.plot("throughput with backoff", CLIENTS, MOPS, series(&curves, rate)));
    }
    Ok(Figure {
        title: "the impact of backoff on a server's throughput".to_owned(),
        about: "A counter. Bx is a backoff of x cycles; with “shuf” the server reads lines in another order than that in \
                memory. The library's server has separate lines for requests and responses, and the thesis' has one for \
                both."
            .to_owned(),
        plots,
        checks,
    })
}

/// Figure 7.6: the impact of streaming stores.
pub(super) fn figure_7_6() -> Result<Figure> {
    let (mut plots, mut checks) = (Vec::new(), Vec::new());
    for (machine, published) in [(&XEON, 3.5), (&OPTERON, 1.7)] {
        let name = machine.name;
        let base = machine.curve("srv-base", slots(), Task::Counter)?;
        let streaming = machine.curve("srv-SS", slots().streaming(true), Task::Counter)?;
        let both = |cycles| {
            let section = backoff(cycles).streaming(true);
            machine.curve(format!("srv-B{cycles}-SS"), section, Task::Counter)
        };
        let both = machine.backoffs.into_iter().map(both).collect::<Result<Vec<_>>>()?;
        let gain = gain(&streaming, &base);
        let check =
            Check::value(format!("{name}: streaming / ordinary stores"), "", published, gain, 0.15);
        let tops: Vec<f64> = both.iter().map(|curve| curve.most(rate)).collect();
        let ours = format!("{:.1} Mops at most, {tops:.1?} with backoff", streaming.most(rate));
        if machine.part == "a" {
            checks.push(check);
            checks.push(Check::statement(
                "adding local backoff helps even on top of streaming stores",
                format!("{name}: {ours}"),
                tops.iter().any(|&top| top > 1.05 * streaming.most(rate)),
            ));
        } else {
            checks.push(
                check.limit("the baseline is slower here than in the thesis; see figure 7.5"),
            );
            checks.push(Check::statement(
                "On the Opteron, backoff on top of streaming stores does not result in a further performance increase",
                format!("{name}: {ours}"),
                tops.iter().all(|&top| top < 1.05 * streaming.most(rate)),
            ));
        }
        let mut curves = vec![&base, &streaming];
        curves.extend(&both);
        plots.push(machine.plot(
            "throughput with streaming stores (SS)",
            CLIENTS,
            MOPS,
            series(&curves, rate),
        ));
    }
    Ok(Figure {
        title: "the impact of streaming stores on a server's throughput".to_owned(),
        about: "A counter. That a streaming store takes about three times as long on the Xeon if a client spins on its \
                line is from the thesis (section 7.2.2)."
            .to_owned(),
        plots,
        checks,
    })
}

/// Figure 7.7: latency with few clients.
pub(super) fn figure_7_7() -> Result<Figure> {
    let few = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20];
    let (mut plots, mut checks) = (Vec::new(), Vec::new());
    for machine in [&XEON, &OPTERON] {
        let curve = |(name, section): (String, _)| {
            Curve::new(name, &few, |clients| machine.on(section, clients, Task::Counter))
        };
        let curves = machine.servers().into_iter().map(curve).collect::<Result<Vec<_>>>()?;
        let alone: Vec<f64> = curves.iter().map(|curve| curve.at(1, latency)).collect();
        let name = machine.name;
        let quickest = Check::statement(
            "the baseline implementation performs best in the lowest concurrency levels",
            format!("{name}: {alone:.0?} ns with one client"),
            alone[1..].iter().all(|&other| other > alone[0]),
        );
        checks.push(match machine.part {
            "a" => quickest,
            _ => quickest
                .limit("a streaming store takes 136 cycles to the memory, and an ordinary one 274"),
        });
        let within: Vec<f64> = match machine.part {
            "a" => vec![alone[2] / alone[0]],
            _ => vec![alone[1] / alone[0], alone[2] / alone[0]],
        };
        checks.push(
            Check::statement(
                "With the exception of srv-B5000, they are within 1.6x of the latency of srv-base even with only one \
                 client thread",
                format!("{name}: {within:.2?} times"),
                within.iter().all(|&ratio| ratio < 1.6),
            )
            .limit("a request takes four transfers alone, 1500 cycles on the Xeon and 1000 on the Opteron; less than a \
                    backoff"),
        );
        let curves: Vec<&Curve> = curves.iter().collect();
        plots.push(machine.plot("latency", CLIENTS, NANOS, series(&curves, latency)));
    }
    Ok(Figure {
        title: "latency with backoff and streaming stores".to_owned(),
        about: "A counter with few clients.".to_owned(),
        plots,
        checks,
    })
}

/// Figure 7.8: longer critical sections.
pub(super) fn figure_7_8() -> Result<Figure> {
    const TIMES: [usize; 9] = [0, 1, 5, 10, 20, 50, 100, 150, 200];
    let (mut plots, mut checks) = (Vec::new(), Vec::new());
    for (machine, published) in [(&XEON, 1.84), (&OPTERON, 1.19)] {
        let curve = |(name, section): (String, _)| {
            Curve::new(name, &TIMES, |times| {
                machine.on(section, machine.most(), Task::Counters { times: times as u32 })
            })
        };
        let curves = machine.servers().into_iter().map(curve).collect::<Result<Vec<_>>>()?;
        let [base, backed_off, streaming] = &curves[..] else { continue };
        let name = machine.name;
        let ratio = streaming.last(rate) / base.last(rate);
        let nanos = |curve: &Curve, times| 1e3 / curve.at(times, rate);
        let check = Check::value(
            format!("{name}: streaming / ordinary stores, 200 increments"),
            "",
            published,
            ratio,
            0.15,
        );
        checks.push(match machine.part {
            "a" => check.limit(format!(
                "the baseline's requests are too fast (figure 7.5), and the increments take the same time with both \
                 servers. If a request took the thesis' 640 cycles, and 200 increments as much as here on top of that, \
                 it would be {:.2}",
                (machine.cycles(640).as_nanos() + nanos(base, 200) - nanos(base, 0))
                    / nanos(streaming, 200)
            )),
            _ => check,
        });
        let gains = |times| {
            [backed_off, streaming].map(|curve| curve.at(times, rate) / base.at(times, rate))
        };
        let (first, last) = (gains(0), gains(200));
        checks.push(Check::statement(
            "As the critical section size increases, it starts dominating the synchronization overhead and optimizations \
             become less and less relevant",
            format!("{name}: {first:.2?} times the throughput without increments, {last:.2?} with 200"),
            last.iter().zip(first).all(|(&last, first)| last < first),
        ));
        plots.push(machine.plot(
            "throughput",
            INCREMENTS,
            MOPS,
            series(&curves.iter().collect::<Vec<_>>(), rate),
        ));
    }
    Ok(Figure {
        title: "throughput with long critical sections".to_owned(),
        about: format!(
            "An array of 64 counters, with {} clients on the Xeon and {} on the Opteron.",
            XEON.most(),
            OPTERON.most()
        ),
        plots,
        checks,
    })
}

/// Returns the check of a claim that the optimized servers beat others from a number of clients on.
pub(super) fn ahead(
    quote: &str,
    machine: &X86,
    best: &[&Curve],
    others: &[&Curve],
    from: usize,
) -> Check {
    let worse: Vec<String> = best
        .iter()
        .flat_map(|best| others.iter().flat_map(|other| best.not_above(other, from)))
        .collect();
    everywhere(
        quote,
        &format!("{}: with each number of clients from {from} on", machine.name),
        &worse,
    )
}
