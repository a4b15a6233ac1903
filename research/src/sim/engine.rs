//! Virtual time: the order of events, and the memory that they access.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::machine::Machine;
use super::port::Turns;
use mp_model::Time;

/// The common state of all simulated cores.
pub(super) struct Engine {
    pub(super) machine: Machine,
    /// The current instant. No core can do anything before it any more.
    now: Time,
    /// The times at which cores go on. The number makes events of one instant happen in the order in which they were
    /// planned, so that a run is the same every time.
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    planned: u64,
    buffers: Vec<Buffer>,
    /// The time at which the interrupt controller has finished its work.
    controller_busy: Time,
    statuses: Vec<Status>,
}

/// What goes on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The algorithm on a core.
    Core(usize),
    /// The queue at the port of this core's MPB.
    Port(usize),
}

/// What a core waits for.
#[derive(Default)]
struct Status {
    /// Whether its access waits for a turn at a port.
    queued: bool,
    /// Interrupts that the core has not taken: their times of arrival, and their senders.
    sent: Vec<(Time, usize)>,
    /// Whether the core sleeps until an interrupt arrives.
    asleep: bool,
}

/// One core's MPB.
struct Buffer {
    bytes: Vec<u8>,
    turns: Turns,
    /// The flag that its owner polls while it sleeps.
    watch: Option<Watch>,
}

/// A core that polls a flag of its own MPB. Its reads are not simulated one by one: it sleeps until something is
/// written, and then goes on at the time of the read that sees it.
#[derive(Clone, Copy)]
pub(super) struct Watch {
    pub(super) line: usize,
    /// The time of one of the reads.
    pub(super) look: Time,
    /// The time between two reads.
    pub(super) period: Time,
}

impl Watch {
    /// Returns the time of the first read at or after `time`.
    fn next_look(&self, time: Time) -> Time {
        let since = time.saturating_sub(self.look).as_picos();
        // With a period of 0, the core reads all the time.
        let looks = since.div_ceil(self.period.as_picos().max(1));
        if self.period == Time::ZERO { time } else { self.look + looks * self.period }
    }
}

impl Engine {
    pub(super) fn new(machine: Machine) -> Engine {
        let bytes = machine.lines * machine.line_bytes;
        let buffer = || Buffer { bytes: vec![0; bytes], turns: Turns::default(), watch: None };
        let buffers = (0..machine.cores()).map(|_| buffer()).collect();
        let statuses = (0..machine.cores()).map(|_| Status::default()).collect();
        Engine {
            machine,
            now: Time::ZERO,
            events: BinaryHeap::new(),
            planned: 0,
            buffers,
            controller_busy: Time::ZERO,
            statuses,
        }
    }

    pub(super) fn plan(&mut self, time: Time, core: usize) {
        self.plan_event(time, Event::Core(core));
    }

    fn plan_event(&mut self, time: Time, event: Event) {
        self.planned += 1;
        self.events.push(Reverse((time, self.planned, event)));
    }

    /// Goes on to the next event. Returns its core.
    pub(super) fn advance(&mut self) -> Option<usize> {
        let Reverse((time, _, event)) = self.events.pop()?;
        self.now = time;
        match event {
            Event::Core(core) => Some(core),
            Event::Port(owner) => {
                let (core, next) = self.buffers[owner].turns.next(self.machine.port)?;
                if let Some(next) = next {
                    self.plan_event(next, event);
                }
                self.statuses[core].queued = false;
                Some(core)
            }
        }
    }

    pub(super) fn now(&self) -> Time {
        self.now
    }

    /// Returns whether this instant is the current one, or past.
    pub(super) fn has_come(&self, time: Time) -> bool {
        self.now >= time
    }

    /// Goes on to `time` at once if nothing else happens until then. Returns whether it did.
    pub(super) fn skip_to(&mut self, time: Time) -> bool {
        let free = self.events.peek().is_none_or(|Reverse((next, ..))| *next > time);
        if free {
            self.now = time;
        }
        free
    }

    /// Takes the port of an MPB at the current instant, or queues the core's access there.
    pub(super) fn take_port(&mut self, owner: usize, core: usize, service: Time) {
        let (port, now) = (self.machine.port, self.now);
        if self.buffers[owner].turns.take(port, now, service) {
            return;
        }
        self.statuses[core].queued = true;
        let input = self.machine.input(core, owner);
        if let Some(next) = self.buffers[owner].turns.wait(port, input, core, service) {
            self.plan_event(next, Event::Port(owner));
        }
    }

    /// Returns whether the core's access still waits for its turn at a port.
    pub(super) fn is_queued(&self, core: usize) -> bool {
        self.statuses[core].queued
    }

    pub(super) fn read(&self, owner: usize, line: usize, target: &mut [u8]) {
        let start = line * self.machine.line_bytes;
        target.copy_from_slice(&self.buffers[owner].bytes[start..start + target.len()]);
    }

    pub(super) fn write(&mut self, owner: usize, line: usize, source: &[u8]) {
        let start = line * self.machine.line_bytes;
        let buffer = &mut self.buffers[owner];
        buffer.bytes[start..start + source.len()].copy_from_slice(source);
        if let Some(watch) = buffer.watch.take_if(|watch| watch.line == line) {
            let look = watch.next_look(self.now);
            self.plan(look, owner);
        }
    }

    pub(super) fn flag(&self, owner: usize, line: usize) -> u64 {
        let mut bytes = [0; size_of::<u64>()];
        self.read(owner, line, &mut bytes);
        u64::from_le_bytes(bytes)
    }

    pub(super) fn watch(&mut self, owner: usize, watch: Watch) {
        self.buffers[owner].watch = Some(watch);
    }

    /// Notes that a core does not sleep on a flag any more.
    pub(super) fn unwatch(&mut self, core: usize) {
        self.buffers[core].watch = None;
    }

    /// Accesses the interrupt controller at the current instant. Returns when the access gets its turn.
    pub(super) fn take_controller(&mut self) -> Time {
        let costs = self.machine.interrupts;
        let turn = self.controller_busy.saturating_sub(costs.slack).max(self.now);
        self.controller_busy = self.controller_busy.max(self.now) + costs.access;
        turn
    }

    /// Sends an interrupt that arrives at `time`.
    pub(super) fn send_interrupt(&mut self, time: Time, source: usize, target: usize) {
        let status = &mut self.statuses[target];
        status.sent.push((time, source));
        if status.asleep {
            self.plan(time, target);
        }
    }

    /// Returns whether an interrupt has arrived for this core.
    pub(super) fn is_interrupted(&self, core: usize) -> bool {
        self.statuses[core].sent.iter().any(|&(time, _)| self.has_come(time))
    }

    /// Returns the sources of the interrupts that have arrived, in order of rank, each once.
    pub(super) fn take_interrupts(&mut self, core: usize, sources: &mut Vec<usize>) {
        let now = self.now;
        let before = sources.len();
        self.statuses[core].sent.retain(|&(time, source)| {
            let there = time <= now;
            if there && !sources[before..].contains(&source) {
                sources.push(source);
            }
            !there
        });
        sources[before..].sort_unstable();
    }

    /// Notes whether the core sleeps until an interrupt arrives.
    pub(super) fn sleep(&mut self, core: usize, asleep: bool) {
        let status = &mut self.statuses[core];
        status.asleep = asleep;
        if asleep {
            for time in status.sent.iter().map(|&(time, _)| time).collect::<Vec<_>>() {
                self.plan(time, core);
            }
        }
    }

    /// Returns whether a core sleeps until an interrupt arrives.
    pub(super) fn sleeps(&self, core: usize) -> bool {
        self.statuses[core].asleep
    }

    /// Returns the flag that a core sleeps on.
    pub(super) fn watched(&self, core: usize) -> Option<usize> {
        self.buffers[core].watch.map(|watch| watch.line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_a_period_apart() {
        let watch = |period| Watch { line: 0, look: Time::from_picos(100), period };
        let every_30 = watch(Time::from_picos(30));
        for (time, look) in [(0, 100), (100, 100), (101, 130), (130, 130), (131, 160)] {
            assert_eq!(every_30.next_look(Time::from_picos(time)), Time::from_picos(look));
        }
        let always = watch(Time::ZERO);
        assert_eq!(always.next_look(Time::from_picos(150)), Time::from_picos(150));
    }
}
