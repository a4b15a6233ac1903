//! Runs a program in virtual time.

use std::collections::VecDeque;

use thiserror::Error;

use super::{ChannelId, Micros, Program, Sharing, Step};

/// Threads wait for each other, and none works.
#[derive(Clone, Copy, Debug, Error, PartialEq)]
#[error("after {after} µs, no thread works and not all have ended")]
pub struct Stuck {
    /// When that came about.
    pub after: Micros,
}

/// Runs each thread for so many rounds. Returns, for each, when it ended each round.
///
/// # Errors
/// [`Stuck`].
pub fn run(program: &Program, sharing: Sharing, rounds: usize) -> Result<Vec<Vec<Micros>>, Stuck> {
    let mut run = Run::new(program, sharing, rounds);
    while run.ends.iter().any(|ends| ends.len() < rounds) {
        run.go_on()?;
    }
    Ok(run.ends)
}

/// What is in a channel.
#[derive(Clone, Copy, Default)]
struct Fill {
    /// Rooms that are empty.
    room: usize,
    /// Messages that have not been received.
    ready: usize,
    /// Delegated messages that have not been copied.
    delegated: usize,
}

/// What a thread works at, and how much of it remains.
#[derive(Clone, Copy)]
struct Work {
    remaining: Micros,
    copies: Option<ChannelId>,
}

struct Run<'a> {
    program: &'a Program,
    sharing: Sharing,
    rounds: usize,
    now: Micros,
    fills: Vec<Fill>,
    /// The messages of each communication thread, the oldest first.
    queues: Vec<VecDeque<ChannelId>>,
    /// The next step of each thread.
    next: Vec<usize>,
    /// Of all threads, and then of all communication threads.
    work: Vec<Option<Work>>,
    /// How many threads work on each core.
    working: Vec<usize>,
    ends: Vec<Vec<Micros>>,
}

impl<'a> Run<'a> {
    fn new(program: &'a Program, sharing: Sharing, rounds: usize) -> Run<'a> {
        let cores = program.threads.iter().map(|thread| thread.core).chain(program.kts.clone());
        let fill = |degree| Fill { room: degree, ..Fill::default() };
        Run {
            program,
            sharing,
            rounds,
            now: 0.0,
            fills: program.channels.iter().map(|channel| fill(channel.degree)).collect(),
            queues: vec![VecDeque::new(); program.kts.len()],
            next: vec![0; program.threads.len()],
            work: vec![None; program.threads.len() + program.kts.len()],
            working: vec![0; cores.max().map_or(0, |core| core + 1)],
            ends: vec![Vec::new(); program.threads.len()],
        }
    }

    fn core(&self, thread: usize) -> usize {
        let threads = &self.program.threads;
        threads.get(thread).map_or_else(|| self.program.kts[thread - threads.len()], |t| t.core)
    }

    fn begin(&mut self, thread: usize, remaining: Micros, copies: Option<ChannelId>) {
        self.work[thread] = Some(Work { remaining, copies });
        let core = self.core(thread);
        self.working[core] += 1;
    }

    fn begin_copy(&mut self, thread: usize, channel: ChannelId) {
        self.fills[channel].room -= 1;
        self.begin(thread, self.program.channels[channel].copy, Some(channel));
    }

    /// Lets all threads go until each works or waits, and then time until one has done its work.
    fn go_on(&mut self) -> Result<(), Stuck> {
        let mut any = true;
        while any {
            any = false;
            for thread in 0..self.work.len() {
                any |= self.advance(thread);
            }
        }
        let speeds: Vec<f64> =
            self.working.iter().map(|&working| self.sharing.speed(working.max(1))).collect();
        let speed = |run: &Self, thread| speeds[run.core(thread)];
        let all = self.work.iter().enumerate();
        let left = all.filter_map(|(t, work)| Some(work.as_ref()?.remaining / speed(self, t)));
        let step = left.fold(f64::INFINITY, f64::min);
        if step.is_infinite() {
            let ended = self.ends.iter().all(|ends| ends.len() == self.rounds);
            return if ended { Ok(()) } else { Err(Stuck { after: self.now }) };
        }
        self.now += step;
        for thread in 0..self.work.len() {
            let done = step * speed(self, thread);
            let Some(work) = &mut self.work[thread] else { continue };
            work.remaining -= done;
            // A thousandth of a nanosecond is a rounding error.
            if work.remaining < 1e-6 {
                self.end(thread);
            }
        }
        Ok(())
    }

    fn end(&mut self, thread: usize) {
        let core = self.core(thread);
        self.working[core] -= 1;
        let copied = self.work[thread].take().and_then(|work| work.copies);
        if let Some(channel) = copied {
            self.fills[channel].ready += 1;
        }
        match (thread.checked_sub(self.next.len()), copied) {
            (Some(_), Some(channel)) => self.fills[channel].delegated -= 1,
            _ => self.pass(thread),
        }
    }

    /// Goes to a thread's next step.
    fn pass(&mut self, thread: usize) {
        self.next[thread] += 1;
        if self.next[thread] == self.program.threads[thread].steps.len() {
            self.next[thread] = 0;
            self.ends[thread].push(self.now);
        }
    }

    /// Lets a thread take steps until it works or waits. Returns whether it took any.
    fn advance(&mut self, thread: usize) -> bool {
        if self.work[thread].is_some() {
            return false;
        }
        if let Some(kt) = thread.checked_sub(self.next.len()) {
            let found = self.queues[kt].iter().position(|&channel| self.fills[channel].room > 0);
            let channel = found.and_then(|place| self.queues[kt].remove(place));
            if let Some(channel) = channel {
                self.begin_copy(thread, channel);
            }
            return channel.is_some();
        }
        let mut any = false;
        while self.work[thread].is_none() && self.ends[thread].len() < self.rounds {
            match self.program.threads[thread].steps[self.next[thread]] {
                Step::Work(time) => self.begin(thread, time, None),
                Step::Send(channel) if self.fills[channel].room > 0 => {
                    self.begin_copy(thread, channel);
                }
                Step::Delegate(channel, kt) => {
                    self.queues[kt].push_back(channel);
                    self.fills[channel].delegated += 1;
                    self.pass(thread);
                }
                Step::Wait(channel) if self.fills[channel].delegated == 0 => self.pass(thread),
                Step::Receive(channel) if self.fills[channel].ready > 0 => {
                    self.fills[channel].ready -= 1;
                    self.pass(thread);
                }
                Step::Release(channel) => {
                    self.fills[channel].room += 1;
                    self.pass(thread);
                }
                _ => break,
            }
            any = true;
        }
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARING: Sharing = Sharing { demand: 0.5 };

    /// Returns when the last round ends for a sender that works for 10 and sends, with a copy of 3.
    fn sender(degree: usize, kt: Option<usize>, receiver: Micros) -> Micros {
        let mut program = Program::default();
        let channel = program.channel(degree, 3.0);
        let send = match kt {
            Some(core) => vec![
                Step::Work(10.0),
                Step::Wait(channel),
                Step::Delegate(channel, program.kt(core)),
            ],
            None => vec![Step::Work(10.0), Step::Send(channel)],
        };
        program.thread(0, send);
        let receive = [Step::Receive(channel), Step::Work(receiver), Step::Release(channel)];
        program.thread(1, receive.to_vec());
        run(&program, SHARING, 5).unwrap()[0][4]
    }

    #[test]
    fn copies_are_hidden_by_communication_threads() {
        assert_eq!(sender(1, None, 0.0), 5.0 * 13.0);
        assert_eq!(sender(1, Some(2), 0.0), 5.0 * 10.0);
        // On the same core, each of four copies costs 1 more.
        assert!((sender(1, Some(0), 0.0) - 54.0).abs() < 1e-6);
    }

    #[test]
    fn a_slow_receiver_stops_senders_by_degree() {
        // The receiver has messages from 13 on, and releases every 20.
        assert_eq!(sender(1, None, 20.0), 13.0 + 4.0 * 23.0);
        assert_eq!(sender(2, None, 20.0), 13.0 + 3.0 * 20.0 + 3.0);
    }

    #[test]
    fn threads_that_wait_for_each_other_are_stuck() {
        let mut program = Program::default();
        let channel = program.channel(1, 1.0);
        program.thread(0, vec![Step::Work(2.0), Step::Receive(channel)]);
        assert_eq!(run(&program, SHARING, 1), Err(Stuck { after: 2.0 }));
    }
}
