//! Coherent memory, access by access. It is for algorithms that can't be written as programs of `run`, because their
//! next step depends on the values that they read.
//!
//! The cost of each access depends on the state of its line: R_L if the core has it in the state that it needs, R_I
//! from memory, R_R or R_Q from another core, and the costs that readers and sharers of a line cause each other, all as
//! in `run`. A line serves one write, or several reads, at a time, and later accesses wait until that is done. The
//! values of memory are sequentially consistent. An access to the line of the previous access costs nothing more (rule
//! 3 of section 2.4). Nothing is ever evicted. A line's home is where it is used first.
//!
//! The values of memory are kept elsewhere. This module computes how long accesses take and which copies they end, and
//! counts what Petrović calls remote memory references.
//!
//! On the machines of Ramos and Hoefler every access is waited for, as in Petrović's model (T 5.2). His own machines
//! have more, and each of these features exists only if a [`Chip`] has it:
//!
//! - a store buffer: a core goes on while its [`Stores`] are done, in order or in any order. A load is always waited
//!   for.
//! - homes: a line's socket, or a tile of a [`Mesh`], answers one request [after another](Chip::home_busy).
//! - [`Messages`]: lines that are written into other cores' message queues, as on a chip with message passing hardware
//!   (T 6.2.1). A sender goes on at once, and the message arrives later. Its reader has it locally.
//! - a [`Prefetcher`], which predicts from the distances of accesses what its core will access next (T 7.1.3). The
//!   method of real prefetchers is not published. This one recognizes three accesses of a kind at equal distances.
//! - streaming stores, which go to memory while the core goes on (T 7.1.3), and [take longer](Chip::obstruction) if
//!   another core polls the line.
//! - atomic instructions that are [executed at the line's home](Chip::atomics_at_home) (T 6.2.3). The core waits as
//!   long as for the line, but the line is busy only for a moment.
//!
//! Left out on purpose: caches that are too small, loads that a processor executes out of order, two threads that share
//! a core's caches, and the load on the links between sockets and between tiles.

mod access;
mod chip;
mod core_set;
mod counts;
mod prefetch;
#[cfg(test)]
mod tests;

pub use self::access::Access;
pub use self::chip::{Chip, ChipError, Mesh, Messages, Stores, Taking};
pub use self::core_set::MOST_CORES;
pub use self::counts::Counts;
pub use self::prefetch::Prefetcher;
use self::{chip::STORE_BUFFER, core_set::CoreSet, prefetch::Streams};
use mp_model::Time;
use mp_model::cla::{Invalidation, Parameters};

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

#[derive(Clone, Debug, Default)]
struct Line {
    holders: CoreSet,
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
    /// Whether prefetchers pass over the line.
    scattered: bool,
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
    /// The times at which the stores in its store buffer end, the latest store last.
    storing: Vec<Time>,
    counts: Counts,
}

/// The lines of a chip's memory, and which cores have copies of them.
#[derive(Clone, Debug)]
pub struct Memory {
    chip: Chip,
    lines: Vec<Line>,
    cores: Vec<Core>,
    /// For each tile, or each socket: until when it is busy.
    homes: Vec<Time>,
    woken: Vec<(usize, Time)>,
}

impl Memory {
    /// Creates so many lines, which no cache holds.
    ///
    /// # Errors
    /// [`ChipError`].
    pub fn new(chip: Chip, lines: usize) -> Result<Memory, ChipError> {
        chip.check()?;
        let cores = vec![Core::default(); chip.cores()];
        let homes = vec![Time::ZERO; cores.len()];
        let mut lines = vec![Line::default(); lines];
        if let Some(mesh) = &chip.mesh {
            for (at, line) in lines.iter_mut().enumerate() {
                line.home = Some(mesh.home(at, homes.len()) as u8);
            }
        }
        Ok(Memory { chip, lines, cores, homes, woken: Vec::new() })
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

    /// Makes a core's socket or tile the home of a line. Without this, the first core that uses the line decides, or the
    /// line's address.
    ///
    /// # Panics
    /// If there is no such line.
    pub fn place(&mut self, line: usize, core: usize) {
        self.lines[line].home = Some(core as u8);
    }

    /// Makes prefetchers pass over a line, because it lies on a page of its own.
    ///
    /// # Panics
    /// If there is no such line.
    pub fn scatter(&mut self, line: usize) {
        self.lines[line].scattered = true;
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
            if access == Access::Load {
                return Ok(Done { at: now + local, arrives: None });
            }
            // The hardware frees a place when its message is read.
            if queue.owner == Some(core) {
                return Ok(Done { at: now, arrives: None });
            }
            self.cores[core].counts.sent += 1;
            let at = if again { now } else { now + costs.send };
            return Ok(Done { at, arrives: Some(at + costs.delivery) });
        }
        let has = self.has(core, line, access);
        if access == Access::Store && self.chip.stores != Stores::Waited {
            return Ok(Done { at: self.post(core, line, has, now) + local, arrives: None });
        }
        let state = &self.lines[line];
        let mut free = match access {
            _ if has => now,
            Access::Load => state.written,
            Access::Store | Access::Change => state.written.max(state.read),
            Access::Stream => now,
        };
        if access == Access::Change && self.chip.stores == Stores::InOrder {
            free = free.max(self.stored(core));
        }
        if free > now {
            return Err(Busy(free));
        }
        self.cores[core].line = Some(line);
        let at = match (access, self.chip.atomics_at_home) {
            _ if has => self.at_hand(core, line, now) + local,
            (Access::Load, _) => self.bring(core, line, now),
            (Access::Change, Some(busy)) => self.change_at_home(core, line, now, busy),
            (Access::Store | Access::Change, _) => self.own(core, line, now, now),
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

    /// Puts a store into the core's store buffer. Returns when the core goes on.
    fn post(&mut self, core: usize, line: usize, has: bool, now: Time) -> Time {
        let storing = &mut self.cores[core].storing;
        storing.retain(|&done| done > now);
        let mut at = now;
        if storing.len() >= STORE_BUFFER {
            let (first, _) =
                storing.iter().enumerate().min_by_key(|&(_, &done)| done).unwrap_or((0, &now));
            at = storing.remove(first);
        }
        let before = match self.chip.stores {
            Stores::InOrder => storing.last().map_or(at, |&last| last.max(at)),
            Stores::Waited | Stores::AnyOrder => at,
        };
        let again = self.cores[core].line.replace(line) == Some(line);
        let done = match self.chip.mesh {
            _ if !has => self.own(core, line, now, before),
            Some(Mesh { through, .. }) => {
                let (start, way) = self.ask(core, line, now, before);
                start + through + way
            }
            None => self.there(core, line).max(before),
        };
        let state = &mut self.cores[core];
        if done > at {
            state.storing.push(done);
        }
        state.counts.stores += u64::from(!has);
        state.counts.stalled += at - now;
        if !again {
            self.fetch_ahead(core, line, Access::Store, now);
        }
        at
    }

    /// Returns when all of the core's stores are done.
    fn stored(&self, core: usize) -> Time {
        self.cores[core].storing.iter().copied().max().unwrap_or_default()
    }

    /// Makes a core wait until all of its stores are done, where stores are seen in any order. Returns when it goes on.
    ///
    /// # Panics
    /// If there is no such core.
    pub fn fence(&mut self, core: usize, now: Time) -> Time {
        if self.chip.stores != Stores::AnyOrder {
            return now;
        }
        let at = self.stored(core).max(now);
        self.cores[core].counts.stalled += at - now;
        at
    }

    /// Returns whether the core has the line in the state that the access needs, or has fetched it ahead.
    fn has(&self, core: usize, line: usize, access: Access) -> bool {
        let state = &self.lines[line];
        match access {
            Access::Load => state.holders.has(core),
            Access::Store => state.holders.is_only(core),
            Access::Change => state.holders.is_only(core) && self.chip.atomics_at_home.is_none(),
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
        let there = self.there(core, line);
        if there > now {
            let counts = &mut self.cores[core].counts;
            counts.late += 1;
            counts.stalled += there - now;
        }
        there.max(now)
    }

    /// Returns when a line that the core has fetched ahead is there.
    fn there(&mut self, core: usize, line: usize) -> Time {
        let coming = &mut self.lines[line].coming;
        let found = coming.iter().position(|&(who, _)| usize::from(who) == core);
        found.map_or(Time::ZERO, |at| coming.swap_remove(at).1)
    }

    /// Returns whether a line goes from one core to another without leaving a socket.
    fn near(&self, from: usize, to: usize, home: usize) -> bool {
        let machine = &self.chip.machine;
        machine.near(from, to, home) || self.chip.inclusive && machine.placement.near(from, to)
    }

    fn transfer(&self, from: usize, to: usize, home: usize) -> Time {
        let Parameters { near, far, .. } = self.chip.machine.parameters;
        if self.near(from, to, home) { near.transfer } else { far.transfer }
    }

    /// Returns whether the core's socket answers for the line itself.
    fn has_in_socket(&self, core: usize, line: usize) -> bool {
        let holders = self.lines[line].holders;
        let placement = &self.chip.machine.placement;
        let mut others = holders.without(core);
        self.chip.inclusive
            && !holders.is_empty()
            && others.all(|other| placement.near(other, core))
    }

    /// Asks a line's home. Returns when it begins to answer, which is at `from` at the earliest, and what the way there
    /// and back adds.
    fn ask(&mut self, core: usize, line: usize, now: Time, from: Time) -> (Time, Time) {
        let first = usize::from(*self.lines[line].home.get_or_insert(core as u8));
        if self.has_in_socket(core, line) {
            return (now.max(from), Time::ZERO);
        }
        let (home, way) = match &self.chip.mesh {
            Some(mesh) => (first, mesh.way(core, first)),
            None => (self.chip.machine.placement.group(first), Time::ZERO),
        };
        let free = self.homes[home].max(now);
        self.homes[home] = free + self.chip.home_busy;
        (free.max(from), way)
    }

    /// Gets a copy. Returns when it is there.
    fn bring(&mut self, core: usize, line: usize, now: Time) -> Time {
        let (now, way) = self.ask(core, line, now, now);
        let p = self.chip.machine.parameters;
        let state = &mut self.lines[line];
        let home = usize::from(state.home.unwrap_or(core as u8));
        let start = now.max(state.written);
        state.reads.retain(|&done| done > start);
        let ahead = match &p.contention {
            Some(contention) => state.reads.len() as u64 * contention.reader,
            None => Time::ZERO,
        };
        let cost = match state.owner {
            _ if state.at_home => p.near.transfer,
            _ if state.holders.is_empty() => p.near.memory,
            Some(owner) => self.transfer(usize::from(owner), core, home),
            None => p.near.transfer,
        };
        let state = &mut self.lines[line];
        let done = start + cost + way + ahead;
        if p.contention.is_some() {
            state.reads.push(done);
        }
        // A home goes on as soon as it has sent a copy. Elsewhere a write waits until the reader has it.
        let served = self.chip.mesh.map_or(done, |_| start + self.chip.home_busy);
        state.read = state.read.max(served);
        state.holders.insert(core);
        done
    }

    /// Takes the line away from all other cores, from `from` on. Returns when that is done.
    fn own(&mut self, core: usize, line: usize, now: Time, from: Time) -> Time {
        let (asked, way) = self.ask(core, line, now, from);
        let state = &self.lines[line];
        let start = asked.max(state.written).max(state.read);
        let done = start + self.price(core, line) + way;
        self.take_away(line, done);
        let state = &mut self.lines[line];
        state.holders = CoreSet::only(core);
        state.owner = Some(core as u8);
        state.at_home = false;
        done
    }

    /// Executes an atomic instruction at the line's home. Returns when its result is there.
    fn change_at_home(&mut self, core: usize, line: usize, now: Time, busy: Time) -> Time {
        let (now, way) = self.ask(core, line, now, now);
        let transfer = self.chip.machine.parameters.near.transfer;
        let taken_back = match self.chip.taking {
            _ if self.lines[line].holders.is_empty() => Time::ZERO,
            Some(Taking { near, .. }) => near.saturating_sub(transfer),
            None => transfer,
        };
        self.take_away(line, now + taken_back + busy);
        // The home's cache can't execute another one meanwhile (T 6.2.4).
        if let (Some(_), Some(home)) = (&self.chip.mesh, self.lines[line].home) {
            self.homes[usize::from(home)] += taken_back;
        }
        let state = &mut self.lines[line];
        (state.holders, state.owner, state.at_home) = (CoreSet::default(), None, true);
        now + taken_back + busy + transfer + way
    }

    /// Returns the cost of getting a line alone, as in [`run`](crate::cla::run()) unless the chip says what
    /// [taking](Chip::taking) it from several cores costs.
    fn price(&self, core: usize, line: usize) -> Time {
        let p = &self.chip.machine.parameters;
        let state = &self.lines[line];
        let home = usize::from(state.home.unwrap_or(core as u8));
        if state.holders.is_empty() {
            return if state.at_home { p.near.transfer } else { p.near.memory };
        }
        let others = || state.holders.without(core);
        if let Some(Taking { near, far }) = self.chip.taking
            && (state.holders.has(core) || others().nth(1).is_some())
        {
            let is_near = others().all(|other| self.near(other, core, home));
            return if is_near { near } else { far };
        }
        let dearest = others().map(|other| self.transfer(other, core, home)).max();
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
        let (asked, way) = self.ask(core, line, now, at);
        let state = &self.lines[line];
        let start = asked.max(state.written).max(state.read);
        let mut cost = self.price(core, line).max(self.chip.machine.parameters.near.memory);
        if state.watchers.iter().any(|&watcher| usize::from(watcher) != core) {
            cost = self.chip.obstruction * cost;
        }
        let done = start + cost + way;
        self.take_away(line, done);
        let state = &mut self.lines[line];
        (state.holders, state.owner, state.at_home) = (CoreSet::default(), None, false);
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
            let writes = access != Access::Load;
            let has = if writes { state.holders.is_only(core) } else { state.holders.has(core) };
            if state.message.is_some() || state.scattered || has {
                continue;
            }
            let done =
                if writes { self.own(core, ahead, now, now) } else { self.bring(core, ahead, now) };
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
