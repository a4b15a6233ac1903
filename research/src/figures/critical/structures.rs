//! Concurrent objects on x86 (section 7.2.3).

use super::curve::{Curve, rate, series};
use super::experiments::{CLIENTS, MOPS, combiner};
use super::optimizations::ahead;
use super::x86::{OPTERON, X86, XEON};
use crate::critical::{Measured, Task, Way};
use crate::figures::{Check, Figure, Result};
use mp_delegate::critical::Scheme;

/// Returns the curves of the three servers and the two combiners.
fn sections(machine: &X86, task: Task) -> Result<Vec<Curve>> {
    let servers =
        machine.servers().into_iter().map(|(name, section)| machine.curve(name, section, task));
    let combiners = [("CC-Synch", Scheme::CcSynch), ("H-Synch", Scheme::HSynch)]
        .map(|(name, scheme)| machine.curve(name, combiner(scheme), task));
    servers.chain(combiners).collect()
}

/// From which number of clients on there is “high concurrency”.
fn many(machine: &X86) -> usize {
    machine.clients[7]
}

/// Figure 7.9: counters.
pub(super) fn figure_7_9() -> Result<Figure> {
    let (mut plots, mut checks) = (Vec::new(), Vec::new());
    for machine in [&XEON, &OPTERON] {
        let all = sections(machine, Task::Counter)?;
        let add = machine.curve("FetchAdd", Way::FetchAdd, Task::Counter)?;
        let [base, backed_off, streaming, cc, h] = &all[..] else { continue };
        let name = machine.name;
        // H-Synch is not in the thesis' figure of the Opteron.
        let others: &[&Curve] = if machine.part == "a" { &[cc, h, &add] } else { &[cc, &add] };
        let best = backed_off.most(rate).max(streaming.most(rate));
        checks.extend([
            Check::value(format!("{name}: the best counter"), MOPS, 20.0, best, 0.15),
            ahead(
                "In high concurrency levels, our optimized srv implementations consistently outperform all other counters",
                machine,
                &[backed_off, streaming],
                others,
                many(machine),
            ),
            Check::statement(
                "CC-Synch achieves performance similar to that of srv-base",
                format!("{name}: {:.1} and {:.1} Mops", cc.last(rate), base.last(rate)),
                (0.8..1.25).contains(&(cc.last(rate) / base.last(rate))),
            ),
            Check::statement(
                "even the fetch-and-add counter reaches far lower throughput than srv",
                format!("{name}: {:.1} Mops at most", add.most(rate)),
                add.most(rate) < 0.67 * backed_off.most(rate).min(streaming.most(rate)),
            ),
        ]);
        if machine.part == "a" {
            checks.extend([
                Check::statement(
                    "H-Synch gives a significant performance improvement over CC-Synch because of its NUMA-awareness",
                    format!("{:.1} and {:.1} Mops", h.last(rate), cc.last(rate)),
                    h.last(rate) > 1.5 * cc.last(rate),
                ),
                Check::statement(
                    "fetch-and-add performance, after a period of stability, suddenly grows again with more than 80 \
                     threads",
                    format!("{:.1} Mops with 80, {:.1} with 158", add.at(80, rate), add.at(158, rate)),
                    add.at(158, rate) > 1.1 * add.at(80, rate),
                )
                .limit("two threads of a core have caches of their own here"),
            ]);
        }
        let mut curves: Vec<&Curve> =
            all.iter().take(if machine.part == "a" { 5 } else { 4 }).collect();
        curves.push(&add);
        plots.push(machine.plot("counters", CLIENTS, MOPS, series(&curves, rate)));
    }
    Ok(Figure {
        title: "counters on x86".to_owned(),
        about: "The thesis does not show H-Synch on the Opteron.".to_owned(),
        plots,
        checks,
    })
}

/// Figure 7.10: stacks.
pub(super) fn figure_7_10() -> Result<Figure> {
    let (mut plots, mut checks) = (Vec::new(), Vec::new());
    for machine in [&XEON, &OPTERON] {
        let (all, counters) = (sections(machine, Task::Stack)?, sections(machine, Task::Counter)?);
        let treiber = machine.curve("Treiber", Way::Treiber, Task::Stack)?;
        let name = machine.name;
        let shown = if machine.part == "a" { 5 } else { 4 };
        let ratios: Vec<f64> = all
            .iter()
            .zip(&counters)
            .take(shown)
            .map(|(s, c)| s.most(rate) / c.most(rate))
            .collect();
        checks.extend([
            Check::statement(
                "The results with CC-Synch, H-Synch, and a server are very similar to those in Figure 7.9 […] There is \
                 only a small difference in the peak throughput: […] the server can execute fewer operations",
                format!("{name}: {ratios:.2?} times the counters' peaks"),
                ratios.iter().all(|ratio| (0.7..=1.02).contains(ratio)),
            ),
            ahead(
                "concurrent counters, stacks, and queues implemented with our optimized delegation solution outperform \
                 [others] in most cases, especially under heavy contention",
                machine,
                &[&all[1], &all[2]],
                &[&all[3], &treiber],
                many(machine),
            ),
        ]);
        let mut curves: Vec<&Curve> = all.iter().take(shown).collect();
        curves.push(&treiber);
        plots.push(machine.plot("stacks", CLIENTS, MOPS, series(&curves, rate)));
    }
    Ok(Figure {
        title: "stacks on x86".to_owned(),
        about: "Every thread alternates between push and pop. The thesis does not show H-Synch on the Opteron.".to_owned(),
        plots,
        checks,
    })
}

/// Figure 7.11: queues.
pub(super) fn figure_7_11() -> Result<Figure> {
    let (mut plots, mut checks) = (Vec::new(), Vec::new());
    for machine in [&XEON, &OPTERON] {
        let [(_, base), (_, backed_off), (_, streaming)] = machine.servers();
        let (cc, h) = (combiner(Scheme::CcSynch), combiner(Scheme::HSynch));
        // The last number of clients leaves a thread for one server only, and the thesis leaves another.
        let queue = |name: &str, section, task| {
            Curve::new(name, &machine.clients, |clients| {
                let servers = if task == Task::TwoLockQueue { 2 } else { 1 };
                let threads = if machine.part == "a" { 160 } else { 48 };
                machine.on(section, clients.min(threads - servers), task)
            })
        };
        let one = [
            queue("srv-base-1", base, Task::Queue)?,
            queue("srv-B-1", backed_off, Task::Queue)?,
            queue("srv-SS-1", streaming, Task::Queue)?,
            queue("CC-Synch-1", cc, Task::Queue)?,
            queue("H-Synch-1", h, Task::Queue)?,
        ];
        let two = [
            queue("srv-base-2", base, Task::TwoLockQueue)?,
            queue("srv-B-2", backed_off, Task::TwoLockQueue)?,
            queue("CC-Synch-2", cc, Task::TwoLockQueue)?,
            queue("H-Synch-2", h, Task::TwoLockQueue)?,
        ];
        let lcrq = machine.curve("LCRQ", Way::Lcrq, Task::Queue)?;
        let grouped = |cycles| {
            Curve::new("LCRQ+H", &machine.clients, |clients| {
                let way = Way::LcrqInGroups(machine.cycles(cycles));
                // Long enough for the turns of all sockets.
                Ok(machine.on(way, clients, Task::Queue)?.time(machine.cycles(20 * cycles)))
            })
        };
        let lcrq_h = grouped(400_000)?;
        let name = machine.name;
        let gains = [(0, 0), (2, 3), (3, 4)]
            .map(|(two_at, one_at)| two[two_at].most(rate) / one[one_at].most(rate));
        let optimized = two[1].most(rate) / one[1].most(rate);
        let shown = if machine.part == "a" { 3 } else { 2 };
        let others = [&two[2], &lcrq, &lcrq_h];
        checks.extend([
            Check::statement(
                "Fine-grained locking significantly improves the performance of the srv-base, CC-Synch and H-Synch queues",
                format!("{name}: {:.2?} times", &gains[..shown]),
                gains[..shown].iter().all(|&gain| gain > 1.3),
            ),
        ]);
        let highest = ahead(
            "In high concurrency levels, they reach the highest throughput on the Opteron, and are only outperformed by \
             LCRQ+H on the Xeon",
            machine,
            &[&one[1], &one[2]],
            &others[..if machine.part == "a" { 2 } else { 3 }],
            many(machine),
        );
        checks.push(match machine.part {
            "a" => highest,
            _ => highest.limit("each of LCRQ's ends takes an instruction every 88 ns, the mean way between two dies, and a server is bounded \
                        by its home"),
        });
        if machine.part == "a" {
            let last = machine.most();
            let measured = |cycles, pauses| -> Result<Measured> {
                let way = Way::LcrqInGroups(machine.cycles(cycles));
                let experiment = machine.on(way, last, Task::Queue)?;
                Ok(experiment.time(machine.cycles(pauses * cycles)).run()?)
            };
            let (short, patient) = (measured(1_000_000, 20)?, measured(1_000_000, 60)?);
            let usual = measured(400_000, 60)?;
            let best = one[1].last(rate).max(one[2].last(rate)).max(two[1].last(rate));
            checks.extend([
                Check::statement(
                    "they […] are only outperformed by LCRQ+H on the Xeon",
                    format!("{:.1} Mops; LCRQ+H {:.1}", best, lcrq_h.last(rate)),
                    lcrq_h.last(rate) > best,
                ),
                Check::value(
                    "LCRQ+H, 400 Kcycles: most / fewest operations of a thread",
                    "",
                    1.4,
                    usual.unfairness(),
                    0.3,
                ),
                Check::statement(
                    "With a 1 Mcycle pause, maximum throughput grows over 30 Mops/sec",
                    format!("{:.1} Mops", rate(&patient)),
                    rate(&patient) > 30.0 && rate(&patient) > lcrq_h.last(rate),
                ),
                Check::value(
                    "LCRQ+H, 1 Mcycle: most / fewest operations of a thread",
                    "",
                    4.0,
                    patient.unfairness(),
                    0.3,
                )
                .limit(format!(
                    "all threads pause equally long, so sockets take turns here, and the ratio falls with the time of \
                     the run: {:.2} in 20 pauses, {:.2} in 60. The thesis says that “some nodes are increasingly likely \
                     to starve”, and does not say which",
                    short.unfairness(),
                    patient.unfairness()
                )),
            ]);
        }
        let less = Check::statement(
            "but has a much less pronounced impact on the optimized server implementations",
            format!("{name}: {optimized:.2} times with backoff"),
            gains[..shown].iter().all(|&gain| optimized - 1.0 < 0.5 * (gain - 1.0)),
        );
        checks.push(match machine.part {
            "a" => less.limit("two servers on different sockets share the load of the homes, which bounds one server"),
            _ => less,
        });
        let mut curves = vec![&two[0], &one[1], &two[1], &one[2], &two[2], &lcrq];
        curves.push(if machine.part == "a" { &lcrq_h } else { &one[0] });
        plots.push(machine.plot("queues", CLIENTS, MOPS, series(&curves, rate)));
    }
    Ok(Figure {
        title: "queues on x86".to_owned(),
        about: "Every thread alternates between enqueue and dequeue. The number after a name is that of the critical \
                sections. The fairness of LCRQ+H is measured over 60 of its pauses."
            .to_owned(),
        plots,
        checks,
    })
}
