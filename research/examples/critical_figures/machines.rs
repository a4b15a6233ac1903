//! The simulated machines, and the experiments on them.

use mp_delegate::critical::{Scheme, Section};
use onchip_research::critical::{Chip, Experiment, Task, Time, Way};

use crate::figure::Result;

/// The most operations of a combiner, as in T 6.2.2.
pub const MAX_OPS: usize = 200;

/// Returns the chip of T 6.2.1, with messages in hardware.
pub fn tiles() -> Result<Chip> {
    Ok(Chip::tiles(36)?)
}

/// Returns the machine of T 7.2.1, with eight sockets of ten cores.
pub fn sockets() -> Result<Chip> {
    Ok(Chip::xeon(80)?)
}

/// Returns a table of the costs of lines on each machine.
pub fn table() -> Result<String> {
    let mut out = format!(
        "{:<34}{:>6}{:>8}{:>8}{:>8}{:>8}{:>8}{:>10}{:>9}{:>12}\n",
        "machine (ns)",
        "cores",
        "R_L",
        "R_R",
        "R_Q",
        "R_I",
        "c",
        "messages",
        "atomics",
        "prefetcher"
    );
    let all = [
        ("Sandy Bridge (C)", Chip::sandy_bridge(16)?),
        ("Xeon Phi (C)", Chip::xeon_phi(60)?),
        ("tiles, after TILE-Gx (T 6.2.1)", tiles()?),
        ("8 sockets, after Xeon (T 7.2.1)", sockets()?),
    ];
    for (name, chip) in all {
        let costs = chip.machine.parameters;
        let reader = costs.contention.map_or(0.0, |contention| contention.reader.as_nanos());
        let messages = chip.messages.map_or("none".to_owned(), |messages| {
            format!("{:.1}", (messages.send + messages.delivery).as_nanos())
        });
        let atomics = if chip.atomics_at_home.is_some() { "at home" } else { "cached" };
        let ahead =
            chip.prefetcher.map_or("none".to_owned(), |fetch| format!("{} ahead", fetch.ahead));
        let (near, far) = (costs.near, costs.far);
        let [local, near, far, memory] =
            [costs.local, near.transfer, far.transfer, near.memory].map(Time::as_nanos);
        out += &format!(
            "{name:<34}{:>6}{local:>8.1}{near:>8.1}{far:>8.1}{memory:>8.1}{reader:>8.1}{messages:>10}\
             {atomics:>9}{ahead:>12}\n",
            chip.cores()
        );
    }
    out += "The last two are the thesis' in shape; their lines cost what Sandy Bridge's do, for nobody has\n\
            measured theirs like this. c: of each further reader of a line at the same time.\n";
    Ok(out)
}

/// Returns the slot server of the thesis, with a line for each client.
pub fn slots() -> Section {
    Section::new(Scheme::SlotServer).in_flight(1)
}

/// Returns a combiner as in T 6.2.2.
pub fn combiner(scheme: Scheme) -> Section {
    Section::new(scheme).max_ops(MAX_OPS)
}

/// Returns an experiment that is long enough for some tens of operations of each client.
pub fn experiment(chip: &Chip, way: impl Into<Way>, clients: usize, task: Task) -> Experiment {
    let costs = chip.machine.parameters;
    let inside = match task {
        Task::Counters { times } => u64::from(times) * (costs.local + Time::from_nanos(1)),
        _ => Time::ZERO,
    };
    let time = 40 * clients as u64 * (inside + 2 * costs.far.transfer);
    let least = Time::from_nanos(50_000);
    Experiment::new(chip.clone(), way, clients).task(task).time(time.max(least))
}
