//! Cores with several hardware threads, in virtual time, and programs that pass messages through channels on them.
//!
//! A thread that works asks for its core's issue in a part u of the cycles, at random. The core serves one of those
//! that ask. So each of n threads that work on a core has the speed
//!
//! ```text
//! (1 − (1 − u)ⁿ) / (n·u)
//! ```
//!
//! of a thread that is alone. A sibling takes the share s = u / 2. A thread that waits takes nothing, as one that spins
//! with the Xeon Phi's `delay` instruction. Caches and the memory's bandwidth are not shared in this model.
//!
//! Source of the programs: Buono et al., section V.

pub mod farm;
mod run;
pub mod stencil;

pub use run::{Stuck, run};

/// The time of anything here, in microseconds.
pub type Micros = f64;

/// How the threads of a core share it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sharing {
    /// u: the part of the cycles in which a thread that works asks for the issue.
    pub demand: f64,
}

impl Sharing {
    /// Returns the demand with which a calculation takes the time `beside` if its sibling makes a copy meanwhile.
    ///
    /// `calculation` and `copy` are what each takes alone.
    pub fn fitted(calculation: Micros, copy: Micros, beside: Micros) -> Sharing {
        // The copy takes copy / (1 − s), in which the calculation loses the part s.
        let lost = (beside - calculation) / copy;
        Sharing { demand: 2.0 * lost / (1.0 + lost) }
    }

    /// Returns s: the part of its speed that a thread loses to one sibling that works.
    pub fn share(self) -> f64 {
        1.0 - self.speed(2)
    }

    /// Returns the speed of each of so many threads that work on one core.
    pub fn speed(self, working: usize) -> f64 {
        let served = 1.0 - (1.0 - self.demand).powi(working as i32);
        served / (working as f64 * self.demand)
    }
}

/// A channel between two threads.
#[derive(Clone, Copy, Debug)]
pub struct Channel {
    /// The degree of asynchrony: how many messages it stores. At least 1.
    pub degree: usize,
    /// What it takes to copy a message into it, for a thread that is alone on its core.
    pub copy: Micros,
}

/// The place of a channel in [`Program::channels`].
pub type ChannelId = usize;

/// The place of a communication thread in [`Program::kts`].
pub type KtId = usize;

/// What a thread does next.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// It works for so long, if it is alone on its core.
    Work(Micros),
    /// It waits for room in a channel, and copies a message into it.
    Send(ChannelId),
    /// It tells a communication thread to send a message. This takes no time.
    Delegate(ChannelId, KtId),
    /// It waits until its delegated messages of a channel have been copied.
    Wait(ChannelId),
    /// It waits for a message, which stays in the channel.
    Receive(ChannelId),
    /// It gives the room of a received message back.
    Release(ChannelId),
}

/// A thread that repeats its steps.
#[derive(Clone, Debug)]
pub struct Thread {
    /// Its core.
    pub core: usize,
    /// What it does in a round.
    pub steps: Vec<Step>,
}

/// Threads, and the channels between them.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The channels.
    pub channels: Vec<Channel>,
    /// The threads.
    pub threads: Vec<Thread>,
    /// The core of each communication thread. It sends the oldest of its messages for which there is room.
    pub kts: Vec<usize>,
}

impl Program {
    /// Adds a channel.
    pub fn channel(&mut self, degree: usize, copy: Micros) -> ChannelId {
        self.channels.push(Channel { degree, copy });
        self.channels.len() - 1
    }

    /// Adds a communication thread on a core.
    pub fn kt(&mut self, core: usize) -> KtId {
        self.kts.push(core);
        self.kts.len() - 1
    }

    /// Adds a thread.
    pub fn thread(&mut self, core: usize, steps: Vec<Step>) {
        self.threads.push(Thread { core, steps });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_share_a_core() {
        let sharing = Sharing { demand: 0.5 };
        assert_eq!([1, 2, 3].map(|n| n as f64 * sharing.speed(n)), [1.0, 1.5, 1.75]);
        assert_eq!(sharing.share(), 0.25);
        // A copy of 3 takes 4 beside the calculation, which loses 1 in this time.
        assert!((Sharing::fitted(10.0, 3.0, 11.0).demand - 0.5).abs() < 1e-12);
    }
}
