//! What a section means for an object: what is possible, how much memory its algorithm needs, and what must be the same
//! in all ranks.

use std::hash::{DefaultHasher, Hash, Hasher};

use mp_core::{Rank, Result};
use nix::sched::sched_getcpu;

use super::{
    combiners::{cc_synch::CcSynch, hyb_comb::HybComb},
    error::bad,
    locks::{MOST_SEATS, clh::Clh, hyb::Hyb, mcs::Mcs, tas::Tas},
    object::Object,
    place::Place,
    section::{Scheme, Section},
    servers::slot,
    site::BLOCK,
};

/// Checks that an object can be opened with this section.
pub(super) fn check<O: Object>(rank: &Rank, name: &str, section: &Section) -> Result<()> {
    let bad = |reason: &str| Err(bad(name, reason));
    match section.scheme {
        Scheme::MpServer(server) if server >= rank.size() => {
            return bad("its server is no rank of the world");
        }
        _ => {}
    }
    if section.streaming
        && !(section.scheme == Scheme::SlotServer && slot::Slots::streams::<O::Ret>())
    {
        return bad("results are streamed by a SlotServer, and have 4 bytes at most");
    }
    if section.seats == 0 || section.max_ops == 0 || section.in_flight == 0 {
        return bad("seats, max_ops and in_flight are at least 1");
    }
    if section.seats > 1 << 12 || section.max_ops > 1 << 20 || section.in_flight > 1 << 20 {
        return bad("seats, max_ops or in_flight are too many");
    }
    let all_seats = (section.seats + 1) * rank.size();
    if section.scheme == Scheme::SlotServer && all_seats > slot::Slots::SEATS {
        return bad("a server has not so many seats");
    }
    if all_seats > MOST_SEATS {
        return bad("a queue has not so many seats");
    }
    if section.groups == Some(0) {
        return bad("there is at least one group");
    }
    Ok(())
}

/// Returns the number of words that the algorithm needs for `seats` seats.
pub(super) fn own_words<O: Object>(section: &Section, seats: usize) -> usize {
    match section.scheme {
        Scheme::Tas => Tas::words(seats),
        Scheme::Mcs => Mcs::words(seats),
        Scheme::Clh => Clh::words(seats),
        Scheme::HybLock => Hyb::words(seats),
        Scheme::CcSynch => CcSynch::words::<O::Op, O::Ret>(seats, 1),
        Scheme::HSynch => CcSynch::words::<O::Op, O::Ret>(seats, groups(section)),
        Scheme::HybComb => HybComb::words::<O::Op, O::Ret>(seats, section.max_ops),
        Scheme::SlotServer => slots::<O>(section, seats).words(),
        // These are the words of its server: see `server.rs`.
        Scheme::MpServer(_) => BLOCK,
    }
}

/// Returns the slots of a server.
pub(super) fn slots<O: Object>(section: &Section, seats: usize) -> slot::Slots {
    let Section { in_flight, streaming, .. } = *section;
    slot::Slots::new::<O::Op, O::Ret>(Place::own(seats), seats, in_flight, streaming)
}

/// Returns the number of groups of ranks that are near each other.
pub(super) fn groups(section: &Section) -> usize {
    let nodes = || mp_core::topology::Topology::read().map_or(1, |machine| machine.nodes().len());
    section.groups.unwrap_or_else(nodes).max(1)
}

pub(super) fn group_here(section: &Section, rank: usize) -> usize {
    if let Some(groups) = section.groups {
        return rank % groups;
    }
    let (Ok(cpu), Ok(machine)) = (sched_getcpu(), mp_core::topology::Topology::read()) else {
        return 0;
    };
    machine.nodes().iter().position(|node| node.cpus.contains(cpu)).unwrap_or(0)
}

/// Returns a hash of everything that must be the same in all ranks.
pub(super) fn fingerprint<O: Object>(section: &Section, identity: u64) -> u64 {
    fn of<T: ?Sized>() -> &'static str {
        std::any::type_name::<T>()
    }
    // This hasher gives the same result in all processes, because its keys are fixed.
    let mut hasher = DefaultHasher::new();
    (of::<O>(), of::<O::State>(), of::<O::Op>(), of::<O::Ret>()).hash(&mut hasher);
    (size_of::<O::Op>(), size_of::<O::Ret>(), section.scheme.number()).hash(&mut hasher);
    let Section { len, seats, max_ops, in_flight, poison, streaming, groups, .. } = *section;
    (len, seats, max_ops, in_flight, poison, streaming, groups).hash(&mut hasher);
    identity.hash(&mut hasher);
    hasher.finish().max(1)
}
