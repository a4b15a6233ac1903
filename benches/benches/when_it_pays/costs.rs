//! The constants of the model on this machine.

use std::time::Duration;

use onchip::comm::pays::{Costs, Line};

use crate::rounds::{Kt, Rounds, Times, take};

const SMALL: usize = 8;
const LARGE: usize = 1 << 20;
/// Longer than any copy here, so that all of it is hidden.
const LONG: Duration = Duration::from_micros(200);
/// Long enough for a small message, and short enough for a KT to stay awake.
const SHORT: Duration = Duration::from_micros(5);

/// Measures all but what another hardware thread of the core takes: that stays what it is by
/// default.
pub fn measure(cpus: [usize; 2], quick: bool) -> onchip::Result<Costs> {
    let batches = if quick { 3 } else { 25 };
    let at = |grain, bytes, kt| take(Rounds { grain, bytes, kt, batches }, cpus);
    let sent = |times: Times| times.inline - times.computing;
    let line = |small: f64, large: f64| {
        let per_kib = (large - small) * 1024.0 / (LARGE - SMALL) as f64;
        Line { fixed: small, per_kib }
    };
    let inline =
        line(sent(at(SHORT, SMALL, Kt::AWAKE)?).max(0.0), sent(at(LONG, LARGE, Kt::AWAKE)?));
    let delegating = at(SHORT, SMALL, Kt::AWAKE)?.calls;
    // With nothing to compute a round is the delegation and the whole way of the message.
    let whole = |bytes| {
        Ok::<_, onchip::Error>(at(Duration::ZERO, bytes, Kt::AWAKE)?.delegated - delegating)
    };
    let delegated = line(whole(SMALL)?.max(0.0), whole(LARGE)?);
    let hidden = at(LONG, LARGE, Kt::AWAKE)?;
    let slowed = (hidden.delegated - hidden.calls - hidden.computing) / delegated.at(LARGE);
    let waking = at(LONG, SMALL, Kt::ADAPTIVE)?.calls - delegating;
    let beside = at(SHORT, SMALL, Kt::BESIDE)?;
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
    let from = |break_even: Option<onchip::comm::pays::BreakEven>| match break_even {
        Some(from) => {
            format!("{} B to a KT that is awake, {} B to one that sleeps", from.awake, from.asleep)
        }
        None => "never".to_owned(),
    };
    format!(
        "inline send        L = {:.0} ns + {:.2} ns/KiB\n\
         delegated message  K = {:.0} ns + {:.2} ns/KiB\n\
         delegating         D = {delegating:.0} ns\n\
         waking             W = {waking:.0} ns, and V = {coming:.0} ns (not measured here)\n\
         slowed down        s = {slowed:.3}\n\
         switching          X = {switching:.0} ns\n\
         delegating pays behind a long grain from {}",
        inline.fixed,
        inline.per_kib,
        delegated.fixed,
        delegated.per_kib,
        from(costs.break_even(onchip::comm::Spare::Core)),
    )
}
