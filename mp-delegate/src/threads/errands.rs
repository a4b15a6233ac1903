//! The errands of a rank, which communication threads carry on, or the rank itself.

use std::sync::Arc;

use mp_core::{Rank, Result, Wait, mpb::Polled};

use super::{
    errand::Errand,
    home::{Awaiting, Carrier, Home},
    pool::CommThreads,
    progress::Progress,
    task::Task,
};

/// The errands of one rank, all carried on in the same way. Clones refer to the same errands.
#[derive(Clone, Debug)]
pub struct Errands {
    home: Arc<Home>,
    /// The threads that carry the errands on, and the thread that new errands go to.
    threads: Option<(CommThreads, usize)>,
}

impl Errands {
    /// Returns the errands of a rank.
    ///
    /// # Errors
    /// The same as those of [`Builder::start`](super::Builder::start), for an automatic thread.
    pub fn of(rank: &Rank, progress: impl Into<Progress>) -> Result<Self> {
        let threads = progress.into().threads(rank)?;
        let home = Home::of(rank)?;
        Ok(Self { home, threads: threads.map(|threads| (threads.clone(), threads.turn())) })
    }

    /// Returns the threads that carry the errands on, or `None` if the rank does.
    pub fn threads(&self) -> Option<&CommThreads> {
        self.threads.as_ref().map(|(threads, _)| threads)
    }

    /// Returns whether the errands make progress only in calls of the rank, by design or because their threads were
    /// stopped.
    pub fn are_in_calls(&self) -> bool {
        self.threads.as_ref().is_none_or(|(threads, _)| !threads.any_open())
    }

    /// Registers a task to be woken when a thread gives an errand back to the rank.
    pub fn wake_when_left(&self, awaiting: &Arc<Awaiting>) {
        let mut state = self.home.lock();
        let known = &mut state.awaiting;
        if known.len() == known.capacity() {
            known.retain(|awaiting| awaiting.strong_count() > 0);
        }
        known.push(Arc::downgrade(awaiting));
    }

    /// Returns whether any errand is left to the rank. This is also the case if the threads are switched off.
    pub fn are_left_to_rank(&self) -> bool {
        let state = self.home.lock();
        state.led || !state.idle.is_empty()
    }

    /// Returns the rank whose errands these are.
    pub fn rank(&self) -> &Rank {
        &self.home.rank
    }

    /// Makes the rank's waits in this thread carry on the errands that the rank must carry on itself.
    pub fn join(&self) {
        Carrier::join(&self.home);
    }

    /// Begins an errand. A thread that is switched off or was stopped gets nothing new. In that case another thread of
    /// its set gets the errand, or the rank itself does, which at once advances it as far as possible without waiting.
    pub fn begin(&self, errand: Box<dyn Errand>) {
        let given = match &self.threads {
            None => Err(errand),
            Some((threads, turn)) => {
                match threads.take_errand(Task::errand(errand, &self.home), *turn) {
                    Some(mut task) => task.taken_back().map_or(Ok(()), Err),
                    None => Ok(()),
                }
            }
        };
        Carrier::join(&self.home);
        if let Err(errand) = given {
            self.home.add(errand);
            self.advance();
        }
    }

    /// Begins an errand that was advanced and waits, and that the rank carries on itself.
    pub fn hold(&self, errand: Box<dyn Errand>) {
        Carrier::join(&self.home);
        self.home.add(errand);
    }

    /// Makes what carries on the errands at home look at what an errand waits for, which another thread has advanced.
    pub fn renew(&self, polled: &Polled) {
        Carrier::join(&self.home);
        self.home.renew(polled);
    }

    /// Does some work for an errand at home while no other thread carries that on. Returns `None` if one does. Waits in
    /// this work advance nothing else.
    pub fn while_leading<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        self.home.while_leading(work)
    }

    /// Advances the rank's pending operations in this thread as far as possible without waiting.
    pub fn advance(&self) {
        Carrier::join(&self.home);
        self.home.rank.progress(0);
    }

    /// Waits until `done` returns true at a moment after `polled` was [rung](Polled::ring). Returns false if the limit
    /// of `wait` was over before that. Meanwhile it advances what the rank must carry on itself. A report shows this
    /// wait as a wait for the flag of `polled`.
    ///
    /// # Errors
    /// [`Segment`](mp_core::ErrorKind::Segment) when the world's memory is broken.
    pub fn wait(&self, polled: &Polled, wait: Wait, done: &dyn Fn() -> bool) -> Result<bool> {
        Carrier::join(&self.home);
        polled.wait_until(wait, self.are_in_calls(), "nonblocking operations", done)
    }
}
