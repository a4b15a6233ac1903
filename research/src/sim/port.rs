//! The order in which waiting accesses get their turn at an MPB.

use std::collections::VecDeque;

use super::machine::Port;
use mp_model::Time;

/// The port of one MPB: a server of lines, with a queue for each input of the router in front of it.
///
/// The router takes the waiting accesses from its inputs in turn. Cores that share an input with many others therefore
/// wait longer, as on the SCC, where contention “does not equally affect all cores” (thesis, section 4.1.3).
#[derive(Default)]
pub(super) struct Turns {
    /// The time at which the port has finished its work.
    busy: Time,
    waiting: Option<Box<Inputs>>,
}

/// The inputs of a router: its own tile, and four neighbours.
pub(super) const INPUTS: usize = 5;

#[derive(Default)]
struct Inputs {
    queues: [VecDeque<(usize, Time)>; INPUTS],
    /// The input after the one that had the last turn.
    next: usize,
}

impl Turns {
    /// Takes the port if the access need not wait.
    pub(super) fn take(&mut self, port: Port, now: Time, service: Time) -> bool {
        let free = self.waiting.is_none() && self.busy.saturating_sub(port.slack) <= now;
        if free {
            self.busy = self.busy.max(now) + service;
        }
        free
    }

    /// Lets the access of a core wait at an input. Returns when the next turn is if no other access waits.
    pub(super) fn wait(
        &mut self,
        port: Port,
        input: usize,
        core: usize,
        service: Time,
    ) -> Option<Time> {
        let first = self.waiting.is_none();
        self.waiting.get_or_insert_default().queues[input].push_back((core, service));
        first.then(|| self.busy.saturating_sub(port.slack))
    }

    /// Gives the next waiting access its turn. Returns its core, and when the next turn is if more accesses wait.
    pub(super) fn next(&mut self, port: Port) -> Option<(usize, Option<Time>)> {
        let inputs = self.waiting.as_mut()?;
        let queue = (0..INPUTS).map(|after| (inputs.next + after) % INPUTS);
        let input = queue.into_iter().find(|&input| !inputs.queues[input].is_empty())?;
        let (core, service) = inputs.queues[input].pop_front()?;
        inputs.next = (input + 1) % INPUTS;
        self.busy += service;
        if inputs.queues.iter().all(VecDeque::is_empty) {
            self.waiting = None;
        }
        let next = self.waiting.is_some().then(|| self.busy.saturating_sub(port.slack));
        Some((core, next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_have_turns_and_each_is_first_come_first_served() {
        let nanos = Time::from_nanos;
        let port = Port { read: nanos(10), write: nanos(10), slack: nanos(20) };
        let mut turns = Turns::default();
        // Two accesses are within the slack, and the third begins when it is.
        for _ in 0..3 {
            assert!(turns.take(port, nanos(0), nanos(10)));
        }
        assert!(!turns.take(port, nanos(0), nanos(10)));
        assert_eq!(turns.wait(port, 3, 7, nanos(10)), Some(nanos(10)));
        for (input, core) in [(3, 8), (3, 9), (0, 1)] {
            assert!(!turns.take(port, nanos(50), nanos(10)));
            assert_eq!(turns.wait(port, input, core, nanos(10)), None);
        }
        let turns: Vec<_> = std::iter::from_fn(|| turns.next(port)).collect();
        let at = |time| Some(nanos(time));
        assert_eq!(turns, [(1, at(20)), (7, at(30)), (8, at(40)), (9, None)]);
    }
}
