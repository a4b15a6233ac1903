//! The constants of the model on this machine.

use std::time::Duration;

use onchip::threads::pays::{Copying, Costs};

use crate::rounds::{Kt, Rounds, Times, take};

const SMALL: usize = 8;
const KNEE: usize = Copying::KNEE;
const LARGE: usize = 1 << 20;
/// Longer than any copy here, so that a copy is hidden completely.
const LONG: Duration = Duration::from_micros(200);
/// Long enough for a small message, and short enough for a KT to stay awake.
const SHORT: Duration = Duration::from_micros(5);

/// Measures all costs except those of a KT on another hardware thread of the core, which keep their defaults.
pub fn measure(cpus: [usize; 2], quick: bool) -> onchip::Result<Costs> {
    let batches = if quick { 3 } else { 25 };
    let at = |grain, bytes, kt| take(Rounds { grain, bytes, kt, batches }, cpus);
    let sent = |times: Times| times.inline - times.computing;
    let copying = |small: f64, knee: f64, large: f64| Copying {
        fixed: small.max(0.0),
        per_kib: (knee - small) * 1024.0 / (KNEE - SMALL) as f64,
        per_kib_beyond: (large - knee) * 1024.0 / (LARGE - KNEE) as f64,
    };
    let inline = copying(
        sent(at(SHORT, SMALL, Kt::AWAKE)?),
        sent(at(SHORT, KNEE, Kt::AWAKE)?),
        sent(at(SHORT, LARGE, Kt::AWAKE)?),
    );
    let delegating = at(SHORT, SMALL, Kt::AWAKE)?.calls;
    // Without computation, a round consists of the delegation and the whole way of the message.
    let whole = |bytes| {
        Ok::<_, onchip::Error>(at(Duration::ZERO, bytes, Kt::AWAKE)?.delegated - delegating)
    };
    let delegated = copying(whole(SMALL)?, whole(KNEE)?, whole(LARGE)?);
    let hidden = at(LONG, LARGE, Kt::AWAKE)?;
    let slowed = hidden.slowed / delegated.at(LARGE);
    let waking = at(LONG, SMALL, Kt::ADAPTIVE)?.calls - delegating;
    let beside = at(LONG, SMALL, Kt::BESIDE)?;
    let switching = beside.delegated - beside.computing - delegating - delegated.fixed;
    Ok(Costs {
        inline,
        delegated,
        delegating,
        waking: waking.max(0.0),
        slowed: slowed.clamp(0.0, 1.0),
        switching: switching.max(0.0),
        ..Costs::default()
    })
}

pub fn show(costs: &Costs) -> String {
    let Costs { inline, delegated, delegating, waking, coming, slowed, switching, .. } = costs;
    let from = |break_even: Option<onchip::threads::pays::BreakEven>| match break_even {
        Some(from) => {
            format!("{} B to a KT that is awake, {} B to one that sleeps", from.awake, from.asleep)
        }
        None => "never".to_owned(),
    };
    format!(
        "inline send        L = {:.0} ns + {:.2} ns/KiB, {:.2} past 256 KiB\n\
         delegated message  K = {:.0} ns + {:.2} ns/KiB, {:.2} past 256 KiB\n\
         delegating         D = {delegating:.0} ns\n\
         waking             W = {waking:.0} ns, and V = {coming:.0} ns (not measured here)\n\
         slowed down        s = {slowed:.3}\n\
         switching          X = {switching:.0} ns\n\
         delegating pays behind a long grain from {}",
        inline.fixed,
        inline.per_kib,
        inline.per_kib_beyond,
        delegated.fixed,
        delegated.per_kib,
        delegated.per_kib_beyond,
        from(costs.break_even(onchip::threads::Spare::Core)),
    )
}
