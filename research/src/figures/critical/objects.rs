//! Queues and stacks on the TILE-Gx (section 6.2.4).

use super::curve::{Curve, rate, series};
use super::experiments::{CLIENTS, MOPS, ON_TILES, combiner, everywhere, on_tiles, slots};
use crate::critical::{Task, Way};
use crate::figures::{Check, Figure, Plot, Result};
use mp_delegate::critical::{Scheme, Section};

/// Two of the 36 cores are servers.
const MOST: usize = 34;

fn object(name: &str, way: impl Into<Way> + Copy, task: Task) -> Result<Curve> {
    let mut clients = ON_TILES;
    clients[ON_TILES.len() - 1] = MOST;
    Curve::new(name, &clients, |clients| on_tiles(way, clients, task))
}

/// Figure 6.8: queues and stacks.
pub(super) fn figure_6_8() -> Result<Figure> {
    let server = Section::new(Scheme::MpServer(0));
    let (hyb_comb, cc_synch) = (combiner(Scheme::HybComb), combiner(Scheme::CcSynch));
    let queues = [
        object("MP-SERVER-1", server, Task::Queue)?,
        object("HYBCOMB-1", hyb_comb, Task::Queue)?,
        object("SHM-SERVER-1", slots(), Task::Queue)?,
        object("CC-SYNCH-1", cc_synch, Task::Queue)?,
        object("HYBLOCK-2", Scheme::HybLock, Task::TwoLockQueue)?,
        object("MP-SERVER-2", server, Task::TwoLockQueue)?,
        object("LCRQ", Way::Lcrq, Task::Queue)?,
    ];
    let stacks = [
        object("MP-SERVER", server, Task::Stack)?,
        object("HYBCOMB", hyb_comb, Task::Stack)?,
        object("SHM-SERVER", slots(), Task::Stack)?,
        object("CC-SYNCH", cc_synch, Task::Stack)?,
        object("HYBLOCK", Scheme::HybLock, Task::Stack)?,
        object("Treiber", Way::Treiber, Task::Stack)?,
    ];
    let homed = Curve::new("LCRQ, one home", &[MOST], |clients| {
        Ok(on_tiles(Way::Lcrq, clients, Task::Queue)?.one_home())
    })?;
    let one_lock = object("HYBLOCK-1", Scheme::HybLock, Task::Queue)?;
    let plot = |part, caption: &str, curves: &[Curve]| {
        let curves: Vec<&Curve> = curves.iter().collect();
        Plot::new(part, caption, CLIENTS, MOPS, series(&curves, rate))
    };
    let plots = vec![plot("a", "queues", &queues), plot("b", "stacks", &stacks)];
    let mut checks = queue_checks(&queues, &one_lock, &homed);
    checks.extend(stack_checks(&queues, &stacks));
    Ok(Figure {
        title: "queues and stacks on the TILE-Gx".to_owned(),
        about: "Every thread alternates between putting a value in and taking one out. The number after a name is that of \
                the critical sections."
            .to_owned(),
        plots,
        checks,
    })
}

const RINGS: &str = "the thesis speculates that atomic instructions collide at homes. Here the lines of LCRQ have different \
                     homes, and each end takes an instruction every 5 ns. See LCRQ with one home";

fn queue_checks(queues: &[Curve; 7], one_lock: &Curve, homed: &Curve) -> Vec<Check> {
    let [server, hyb, shm, cc, lock, two_servers, lcrq] = queues;
    let third = |at| shm.at(at, rate).max(cc.at(at, rate));
    let over_third = |curve: &Curve| {
        let ratios = curve.values(rate).filter(|&(at, _)| at > 8);
        ratios.map(|(at, value)| value / third(at)).fold(0.0, f64::max)
    };
    let worse: Vec<String> = [server, hyb]
        .into_iter()
        .flat_map(|best| [shm, cc, lock, two_servers, lcrq].map(|other| best.not_above(other, 16)))
        .flatten()
        .collect();
    let long = "an operation on a list costs little here: its lines are in the cache, and allocation is free";
    vec![
        everywhere(
            "The single-lock MS-Queues […] perform best. Among them, MP-SERVER and HYBCOMB are most efficient",
            "with each number of threads from 16 on",
            &worse,
        )
        .limit(RINGS),
        Check::value("MP-SERVER-1 / third best, at most", "", 2.0, over_third(server), 0.2)
            .limit(long),
        Check::value("HYBCOMB-1 / third best, at most", "", 1.5, over_third(hyb), 0.2).limit(long),
        Check::statement(
            "LCRQ, as well as the two-lock versions of MS-Queue, level off sooner than the rest",
            format!(
                "at most {:.1}, {:.1} and {:.1} Mops (LCRQ, MP-SERVER-2, HYBLOCK-2); MP-SERVER-1 {:.1}",
                lcrq.most(rate),
                two_servers.most(rate),
                lock.most(rate),
                server.most(rate)
            ),
            [lcrq, two_servers, lock].iter().all(|curve| curve.most(rate) < server.most(rate)),
        )
        .limit(RINGS),
        Check::statement(
            "HYBLOCK-2 yields an almost twofold performance increase over HYBLOCK-1",
            format!("{:.2}", lock.last(rate) / one_lock.last(rate)),
            (1.6..2.0).contains(&(lock.last(rate) / one_lock.last(rate))),
        ),
        Check::statement(
            "LCRQ is less efficient on the TILE-Gx, and achieves performance similar to that of the HYBLOCK queue",
            format!(
                "{:.1} and {:.1} Mops; LCRQ {:.1} if one tile is the home of all its lines",
                lcrq.last(rate),
                lock.last(rate),
                homed.last(rate)
            ),
            (0.7..1.4).contains(&(lcrq.last(rate) / lock.last(rate))),
        )
        .limit(RINGS),
    ]
}

fn stack_checks(queues: &[Curve; 7], stacks: &[Curve; 6]) -> Vec<Check> {
    let [server, hyb, shm, cc, lock, treiber] = stacks;
    let worse: Vec<String> = [server, hyb]
        .into_iter()
        .flat_map(|best| [shm, cc, lock, treiber].map(|other| best.not_above(other, 16)))
        .flatten()
        .collect();
    let ratios = [server.last(rate) / queues[0].last(rate), hyb.last(rate) / queues[1].last(rate)];
    let below = |others: &[&Curve]| -> Vec<String> {
        others.iter().flat_map(|other| other.not_above(treiber, 16)).collect()
    };
    vec![
        everywhere(
            "MP-SERVER and HYBCOMB stacks are again the best performers",
            "with each number of threads from 16 on",
            &worse,
        ),
        Check::statement(
            "the numbers nearly match those given in Figure 6.8a for the single-lock MS queue",
            format!("{ratios:.2?} of the queue's: MP-SERVER, HYBCOMB"),
            ratios.iter().all(|ratio| (0.8..1.25).contains(ratio)),
        ),
        everywhere(
            "Treiber stack performance is inferior to that of the other implementations",
            "with each number of threads from 16 on",
            &below(&[server, hyb, shm, cc, lock]),
        )
        .limit(format!(
            "HYBLOCK's stack does {:.1} Mops with {MOST} threads, and Treiber's {:.1}: a compare-and-swap that fails and \
             its load keep the top's home busy for 53 cycles, and a lock is handed over in {:.0} ns, by an atomic \
             instruction and two fences. It stays so if a home needs 3 cycles for each copy of the top that it ends",
            lock.last(rate),
            treiber.last(rate),
            1e3 / lock.last(rate)
        )),
        Check::here(
            "the same without HYBLOCK",
            "with each number of threads from 16 on",
            below(&[server, hyb, shm, cc]).is_empty(),
        ),
    ]
}
