//! Coherent memory, access by access. It is for algorithms that can't be written as programs of `run`, because their
//! next step depends on the values that they read.
//!
//! The cost of each access depends on the state of its line: R_L if the core has it in the state that it needs, R_I
//! from memory, R_R or R_Q from another core, and the costs that readers and sharers of a line cause each other, all as
//! in `run`. A line serves one write, or several reads, at a time, and later accesses wait until that is done. Memory
//! is sequentially consistent, and every access is waited for, as in Petrović's model (T 5.2). An access to the line of
//! the previous access costs nothing more (rule 3 of section 2.4). Nothing is ever evicted. A line's home is where it
//! is used first.
//!
//! The values of memory are kept elsewhere. This module computes how long accesses take and which copies they end, and
//! counts what Petrović calls remote memory references.
//!
//! Four features are not in the descriptions of the paper's machines. Each exists only if a [`Chip`] has it:
//!
//! - [`Messages`]: lines that are written into other cores' message queues, as on a chip with message passing hardware
//!   (T 6.2.1). A sender goes on at once, and the message arrives later. Its reader has it locally.
//! - a [`Prefetcher`], which predicts from the distances of accesses what its core will access next (T 7.1.3). The
//!   method of real prefetchers is not published. This one recognizes three accesses of a kind at equal distances.
//! - streaming stores, which go to memory while the core goes on (T 7.1.3).
//! - atomic instructions that are [executed at the line's home](Chip::atomics_at_home), as on that chip (T 6.2.3). The
//!   core waits as long as for the line, but the line is busy only for a moment.
//!
//! Left out on purpose: caches that are too small, the work of a processor while it waits (it may have ten misses under
//! way, and stores in a buffer), the cost of atomic instructions in addition to their line, and the load on the link
//! between groups.

mod access;
mod prefetch;
#[cfg(test)]
mod tests;

use thiserror::Error;

pub use self::access::Access;
pub use self::prefetch::Prefetcher;
use self::prefetch::Streams;
use mp_model::Time;
use mp_model::cla::{Implausible, Invalidation, Parameters};
use mp_model::cla::{Machine, Placement, PlacementError};

/// The most cores of a [`Chip`].
pub const MOST_CORES: usize = 128;
/// The most streaming stores that a core has under way unless a chip says otherwise: the number of fill buffers of the
/// paper's Sandy Bridge.
const WRITE_BUFFERS: usize = 10;

/// A machine, and what its cores have in addition to caches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chip {
    /// The costs, and the places of the cores.
    pub machine: Machine,
    /// Hardware that passes messages.
    pub messages: Option<Messages>,
    /// Hardware that fetches lines ahead.
    pub prefetcher: Option<Prefetcher>,
    /// The most streaming stores of a core that can be under way. A core waits with the next one.
    pub write_buffers: usize,
    /// For atomic instructions that are executed at the line's home: for how long each keeps the line busy. With `None`
    /// the line is brought to the core instead.
    pub atomics_at_home: Option<Time>,
}

/// The costs of messages that hardware passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Messages {
    /// The time until the sender goes on.
    pub send: Time,
    /// The time from then until the message has arrived.
    pub delivery: Time,
}

/// The reason why a chip can't be simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ChipError {
    /// Too many cores.
    #[error("{cores} cores: there can be {MOST_CORES}")]
    Cores {
        /// The number of cores.
        cores: usize,
    },
    /// Implausible costs.
    #[error(transparent)]
    Costs(#[from] Implausible),
    /// An invalid placement.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// There are no write buffers, so streaming stores are impossible.
    #[error("no buffer for streaming stores")]
    WriteBuffers,
}

impl Chip {
    /// Creates a chip with caches and nothing else, as the paper's machines and others.
    pub fn new(machine: Machine) -> Chip {
        let write_buffers = WRITE_BUFFERS;
        Chip { machine, messages: None, prefetcher: None, write_buffers, atomics_at_home: None }
    }

    /// Creates a chip with so many of the 16 cores of [`Machine::sandy_bridge`].
    ///
    /// # Errors
    /// [`PlacementError`].
    pub fn sandy_bridge(cores: usize) -> Result<Chip, PlacementError> {
        Machine::sandy_bridge(cores).map(Chip::new)
    }

    /// Creates a chip with so many of the 60 cores of [`Machine::xeon_phi`].
    ///
    /// # Errors
    /// [`PlacementError`].
    pub fn xeon_phi(cores: usize) -> Result<Chip, PlacementError> {
        Machine::xeon_phi(cores).map(Chip::new)
    }

    /// Creates a chip whose cores are dealt out to the sockets one after another, as T 7.2.1 does with its threads.
    /// Lines cost as much as on Sandy Bridge, because nobody has measured the thesis' machines like this.
    ///
    /// # Errors
    /// [`PlacementError`].
    pub fn sockets(cores: usize, sockets: usize) -> Result<Chip, PlacementError> {
        let groups: Vec<usize> = (0..cores).map(|core| core % sockets.max(1)).collect();
        let placement = Placement::new(groups)?;
        Ok(Chip::new(Machine { parameters: Parameters::SANDY_BRIDGE, placement }))
    }

    /// Creates a chip of so many tiles, like the one of T 6.2.1: one group, a directory, atomic instructions at home,
    /// and messages in hardware. The costs of its lines were never measured. Here they are those within a socket of
    /// Sandy Bridge.
    ///
    /// # Errors
    /// [`PlacementError`].
    pub fn tiles(cores: usize) -> Result<Chip, PlacementError> {
        let placement = Placement::one_group(cores)?;
        let parameters =
            Parameters { invalidation: Invalidation::Once, ..Parameters::SANDY_BRIDGE };
        let chip = Chip::new(Machine { parameters, placement }).with_messages();
        Ok(Chip { atomics_at_home: Some(2 * parameters.local), ..chip })
    }

    /// Adds hardware for messages: a message takes as long as a line, R_R, and costs its sender R_L.
    #[must_use]
    pub fn with_messages(self) -> Chip {
        let Parameters { local, near, .. } = self.machine.parameters;
        Chip { messages: Some(Messages { send: local, delivery: near.transfer }), ..self }
    }

    /// Adds hardware that fetches lines ahead.
    #[must_use]
    pub fn with_prefetcher(self, prefetcher: Prefetcher) -> Chip {
        Chip { prefetcher: Some(prefetcher), ..self }
    }

    /// Returns the number of cores.
    pub fn cores(&self) -> usize {
        self.machine.ranks()
    }

    /// Checks whether the chip can be simulated.
    ///
    /// # Errors
    /// The first problem that is found.
    pub fn check(&self) -> Result<(), ChipError> {
        if self.cores() > MOST_CORES {
            return Err(ChipError::Cores { cores: self.cores() });
        }
        if self.write_buffers == 0 {
            return Err(ChipError::WriteBuffers);
        }
        Ok(self.machine.parameters.check()?)
    }
}

/// The course of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The time at which the core goes on.
    pub at: Time,
    /// The time at which the written word arrives, if it is a message. Until then readers see the old value. See
    /// [`Memory::deliver`].
    pub arrives: Option<Time>,
}

/// The line is busy until this time. The access must be tried again then, in turn with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy(pub Time);

/// The counts of a core's accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Remote memory references by loads: the core had no copy, and waited for one.
    pub loads: u64,
    /// Remote memory references by stores: the core was not the only one with the line, and waited for that.
    pub stores: u64,
    /// Waits for lines that had been fetched ahead, and were not there yet.
    pub late: u64,
    /// Lines fetched ahead.
    pub fetched: u64,
    /// Streaming stores.
    pub streamed: u64,
    /// Words of messages.
    pub sent: u64,
    /// The time that the core waited for all of these. Waits of R_L are not included.
    pub stalled: Time,
}

impl Counts {
    /// Returns the number of remote memory references (T 5.2).
    pub fn remote(&self) -> u64 {
        self.loads + self.stores
    }
}

impl std::ops::Sub for Counts {
    type Output = Counts;
    /// Returns what was done since `earlier`.
    fn sub(self, earlier: Counts) -> Counts {
        Counts {
            loads: self.loads - earlier.loads,
            stores: self.stores - earlier.stores,
            late: self.late - earlier.late,
            fetched: self.fetched - earlier.fetched,
            streamed: self.streamed - earlier.streamed,
            sent: self.sent - earlier.sent,
            stalled: self.stalled - earlier.stalled,
        }
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.loads += other.loads;
        self.stores += other.stores;
        self.late += other.late;
        self.fetched += other.fetched;
        self.streamed += other.streamed;
        self.sent += other.sent;
        self.stalled += other.stalled;
    }
}

/// A set of cores, as bits.
type Cores = u128;

#[derive(Clone, Debug, Default)]
struct Line {
    holders: Cores,
    /// The core that last had the line alone. Other cores get their copies from it.
    owner: Option<u8>,
    /// The core that used the line first. The line's memory is in its socket.
    home: Option<u8>,
    /// The time at which the last write ends.
    written: Time,
    /// The time at which the last read ends.
    read: Time,
    /// Copies under way to cores that fetched them ahead.
    coming: Vec<(u8, Time)>,
    /// The times at which the current reads end.
    reads: Vec<Time>,
    /// Whether the line is in no core's cache, but in the cache at its home.
    at_home: bool,
    /// Cores that poll the line. They see nothing new until their copies are taken away.
    watchers: Vec<u8>,
    /// How often copies were taken away, or messages arrived.
    version: u64,
    message: Option<Queue>,
}

/// A line that contains message queues.
#[derive(Clone, Copy, Debug)]
struct Queue {
    /// The core that also writes the line without sending messages.
    owner: Option<usize>,
}

#[derive(Clone, Debug, Default)]
struct Core {
    /// The line of the previous access.
    line: Option<usize>,
    streams: Streams,
    /// The times at which its streaming stores end.
    streaming: Vec<Time>,
    counts: Counts,
}

/// The lines of a chip's memory, and which cores have copies of them.
#[derive(Clone, Debug)]
pub struct Memory {
    chip: Chip,
    lines: Vec<Line>,
    cores: Vec<Core>,
    woken: Vec<(usize, Time)>,
}

fn bit(core: usize) -> Cores {
    1 << core
}

impl Memory {
    /// Creates so many lines, which no cache holds.
    ///
    /// # Errors
    /// [`ChipError`].
    pub fn new(chip: Chip, lines: usize) -> Result<Memory, ChipError> {
        chip.check()?;
        let cores = vec![Core::default(); chip.cores()];
        Ok(Memory { chip, lines: vec![Line::default(); lines], cores, woken: Vec::new() })
    }

    /// Returns the chip of this memory.
    pub fn chip(&self) -> &Chip {
        &self.chip
    }

    /// Makes a line part of message queues, if the chip has messages. From then on, each write to the line is a message
    /// to its reader, except for writes of `owner`.
    ///
    /// # Panics
    /// If there is no such line.
    pub fn pass_messages(&mut self, line: usize, owner: Option<usize>) {
        if self.chip.messages.is_some() {
            self.lines[line].message = Some(Queue { owner });
        }
    }

    /// Makes a core access a line. Accesses must be made in order of their times. The core has wanted this one since
    /// `since`.
    ///
    /// # Errors
    /// [`Busy`].
    ///
    /// # Panics
    /// If there is no such core or line.
    pub fn access(
        &mut self,
        core: usize,
        line: usize,
        access: Access,
        since: Time,
        now: Time,
    ) -> Result<Done, Busy> {
        let again = self.cores[core].line == Some(line);
        // Rule 3.
        let local = if again { Time::ZERO } else { self.chip.machine.parameters.local };
        if let (Some(queue), Some(costs)) = (self.lines[line].message, self.chip.messages) {
            self.cores[core].line = Some(line);
            if access == Access::Load || queue.owner == Some(core) {
                return Ok(Done { at: now + local, arrives: None });
            }
            self.cores[core].counts.sent += 1;
            let at = if again { now } else { now + costs.send };
            return Ok(Done { at, arrives: Some(at + costs.delivery) });
        }
        let has = self.has(core, line, access);
        let state = &self.lines[line];
        let free = match access {
            Access::Load => state.written,
            Access::Store | Access::Change => state.written.max(state.read),
            Access::Stream => now,
        };
        if !has && free > now {
            return Err(Busy(free));
        }
        self.cores[core].line = Some(line);
        let at = match (access, self.chip.atomics_at_home) {
            _ if has => self.at_hand(core, line, now) + local,
            (Access::Load, _) => self.bring(core, line, now),
            (Access::Change, Some(busy)) => self.change_at_home(line, now, busy),
            (Access::Store | Access::Change, _) => self.own(core, line, now),
            (Access::Stream, _) => self.stream(core, line, now) + local,
        };
        if access != Access::Stream {
            let counts = &mut self.cores[core].counts;
            counts.loads += u64::from(!has && access == Access::Load);
            counts.stores += u64::from(!has && access != Access::Load);
            counts.stalled += if has { now - since } else { at - since };
            if !again {
                self.fetch_ahead(core, line, access, now);
            }
        }
        Ok(Done { at, arrives: None })
    }

    /// Returns whether the core has the line in the state that the access needs, or has fetched it ahead.
    fn has(&self, core: usize, line: usize, access: Access) -> bool {
        let state = &self.lines[line];
        match access {
            Access::Load => state.holders & bit(core) != 0,
            Access::Store => state.holders == bit(core),
            Access::Change => state.holders == bit(core) && self.chip.atomics_at_home.is_none(),
            // A streaming store always waits in a buffer.
            Access::Stream => false,
        }
    }

    /// Returns whether an access would touch only the core's own cache, or its messages.
    ///
    /// # Panics
    /// If there is no such core or line.
    pub fn is_local(&self, core: usize, line: usize, access: Access) -> bool {
        let state = &self.lines[line];
        if let Some(queue) = state.message {
            return access == Access::Load || queue.owner == Some(core);
        }
        let comes = || state.coming.iter().any(|&(who, _)| usize::from(who) == core);
        self.has(core, line, access) && !comes()
    }

    /// Accesses a line that the core has, or that is on its way to it. Returns when the line is there.
    fn at_hand(&mut self, core: usize, line: usize, now: Time) -> Time {
        let coming = &mut self.lines[line].coming;
        let found = coming.iter().position(|&(who, _)| usize::from(who) == core);
        let there = found.map_or(now, |at| coming.swap_remove(at).1);
        if there > now {
            let counts = &mut self.cores[core].counts;
            counts.late += 1;
            counts.stalled += there - now;
        }
        there.max(now)
    }

    /// Gets a copy. Returns when it is there.
    fn bring(&mut self, core: usize, line: usize, now: Time) -> Time {
        let Chip { machine, .. } = &self.chip;
        let p = &machine.parameters;
        let state = &mut self.lines[line];
        let home = usize::from(*state.home.get_or_insert(core as u8));
        let start = now.max(state.written);
        state.reads.retain(|&done| done > start);
        let ahead = match &p.contention {
            Some(contention) => state.reads.len() as u64 * contention.reader,
            None => Time::ZERO,
        };
        let cost = match state.owner {
            _ if state.at_home => p.near.transfer,
            _ if state.holders == 0 => p.near.memory,
            Some(owner) => machine.transfer(usize::from(owner), core, home),
            None => p.near.transfer,
        };
        let done = start + cost + ahead;
        if p.contention.is_some() {
            state.reads.push(done);
        }
        state.read = state.read.max(done);
        state.holders |= bit(core);
        done
    }

    /// Takes the line away from all other cores. Returns when that is done.
    fn own(&mut self, core: usize, line: usize, now: Time) -> Time {
        let state = &mut self.lines[line];
        state.home.get_or_insert(core as u8);
        let start = now.max(state.written).max(state.read);
        let done = start + self.price(core, line);
        self.take_away(line, done);
        let state = &mut self.lines[line];
        state.holders = bit(core);
        state.owner = Some(core as u8);
        state.at_home = false;
        done
    }

    /// Executes an atomic instruction at the line's home. Returns when its result is there.
    fn change_at_home(&mut self, line: usize, now: Time, busy: Time) -> Time {
        let transfer = self.chip.machine.parameters.near.transfer;
        let taken_back = if self.lines[line].holders == 0 { Time::ZERO } else { transfer };
        self.take_away(line, now + taken_back + busy);
        let state = &mut self.lines[line];
        (state.holders, state.owner, state.at_home) = (0, None, true);
        now + taken_back + busy + transfer
    }

    /// Returns the cost of getting a line alone, as in [`run`](crate::cla::run()).
    fn price(&self, core: usize, line: usize) -> Time {
        let Chip { machine, .. } = &self.chip;
        let p = &machine.parameters;
        let state = &self.lines[line];
        let home = usize::from(state.home.unwrap_or(core as u8));
        if state.holders == 0 {
            return if state.at_home { p.near.transfer } else { p.near.memory };
        }
        let others = || holders(state.holders & !bit(core));
        let dearest = others().map(|other| machine.transfer(other, core, home)).max();
        let dearest = dearest.unwrap_or(p.local);
        match p.invalidation {
            Invalidation::Once => dearest,
            Invalidation::EachSharer => {
                let sharers = others().filter(|&other| state.owner != Some(other as u8)).count();
                (sharers as u64 * p.near.transfer).max(dearest)
            }
        }
    }

    /// Ends all copies by a write that is done at `done`.
    fn take_away(&mut self, line: usize, done: Time) {
        let state = &mut self.lines[line];
        state.written = done;
        state.coming.clear();
        state.version += 1;
        self.woken.extend(state.watchers.drain(..).map(|core| (usize::from(core), done)));
    }

    /// Executes a streaming store. Returns when the core goes on.
    fn stream(&mut self, core: usize, line: usize, now: Time) -> Time {
        let streaming = &mut self.cores[core].streaming;
        streaming.retain(|&done| done > now);
        let mut at = now;
        if streaming.len() >= self.chip.write_buffers {
            streaming.sort_unstable();
            at = streaming.remove(0);
        }
        let state = &self.lines[line];
        let start = at.max(state.written).max(state.read);
        let cost = self.price(core, line).max(self.chip.machine.parameters.near.memory);
        let done = start + cost;
        self.take_away(line, done);
        let state = &mut self.lines[line];
        state.home.get_or_insert(core as u8);
        (state.holders, state.owner, state.at_home) = (0, None, false);
        let core = &mut self.cores[core];
        core.streaming.push(done);
        core.counts.streamed += 1;
        core.counts.stalled += at - now;
        at
    }

    fn fetch_ahead(&mut self, core: usize, line: usize, access: Access, now: Time) {
        let Some(prefetcher) = self.chip.prefetcher else { return };
        let mut streams = std::mem::take(&mut self.cores[core].streams);
        for ahead in streams.follow(line, access, prefetcher) {
            let Some(state) = self.lines.get(ahead) else { break };
            let (has, writes) = (state.holders & bit(core) != 0, access != Access::Load);
            if state.message.is_some() || has && !(writes && state.holders != bit(core)) {
                continue;
            }
            let done =
                if writes { self.own(core, ahead, now) } else { self.bring(core, ahead, now) };
            self.lines[ahead].coming.push((core as u8, done));
            self.cores[core].counts.fetched += 1;
        }
        self.cores[core].streams = streams;
    }

    /// Delivers a message.
    ///
    /// # Panics
    /// If there is no such line.
    pub fn deliver(&mut self, line: usize, now: Time) {
        let state = &mut self.lines[line];
        state.version += 1;
        self.woken.extend(state.watchers.drain(..).map(|core| (usize::from(core), now)));
    }

    /// Returns a number that changes when copies of the line are taken away, or a message arrives. Until it changes, a
    /// core that reads the line again sees nothing new.
    ///
    /// # Panics
    /// If there is no such line.
    pub fn version(&self, line: usize) -> u64 {
        self.lines[line].version
    }

    /// Notes that the core polls the line in its own copy. When that copy is taken away, the core is among the
    /// [`woken`](Self::woken), once for each line that it watches.
    ///
    /// # Panics
    /// If there is no such core or line.
    pub fn watch(&mut self, core: usize, line: usize) {
        let watchers = &mut self.lines[line].watchers;
        if !watchers.contains(&(core as u8)) {
            watchers.push(core as u8);
        }
    }

    /// Notes that the core no longer polls the line.
    ///
    /// # Panics
    /// If there is no such line.
    pub fn unwatch(&mut self, core: usize, line: usize) {
        self.lines[line].watchers.retain(|&watcher| usize::from(watcher) != core);
    }

    /// Returns the cores that must read again, and when, since the previous call.
    pub fn woken(&mut self) -> std::vec::Drain<'_, (usize, Time)> {
        self.woken.drain(..)
    }

    /// Returns what a core did.
    ///
    /// # Panics
    /// If there is no such core.
    pub fn counts(&self, core: usize) -> Counts {
        self.cores[core].counts
    }
}

fn holders(mut cores: Cores) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let first = cores.trailing_zeros() as usize;
        cores &= cores.checked_sub(1)?;
        Some(first)
    })
}
