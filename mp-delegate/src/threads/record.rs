//! The recording of delegated sends, by the thread that delegates them and by the communication threads.
//!
//! While a recording is on, the submitter puts the details of each send into a queue beside the lane, and the server,
//! which carries out the sends of a lane in order, takes one entry out with each. So nodes need no room for this, and
//! when nothing is recorded, each side looks at one field of its own.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use mp_core::Rank;
use mp_core::delegate::{Attempt, Submitted, Watch};

use crate::trace::{Detail, Kind, Open, Recorder, now};

/// A description of an [`Errand`](super::Errand) for a [trace](crate::trace).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The rank whose errand it is.
    pub rank: Option<usize>,
    /// The operation.
    pub operation: &'static str,
    /// How many bytes the rank contributes.
    pub bytes: usize,
}

/// The details of the sends in one lane, in their order. The submitter adds them, and the server removes them.
#[derive(Clone, Debug, Default)]
pub(super) struct Details(Arc<Mutex<VecDeque<Detail>>>);

impl Details {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Detail>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The recording of a delegated sender.
#[derive(Debug, Default)]
pub(super) struct Tape {
    /// The recorder of the thread that delegates.
    recorder: Recorder,
    /// The details that all messages share.
    detail: Detail,
    /// The details by lane; empty if the serving threads record nothing.
    lanes: Vec<Details>,
}

impl Tape {
    /// Returns `None` if there is nothing to record.
    pub(super) fn new(lanes: Vec<Details>) -> Option<Box<Self>> {
        (!lanes.is_empty()).then(|| Box::new(Self { lanes, ..Self::default() }))
    }

    pub(super) fn record(&mut self, recorder: Recorder, detail: Detail) {
        (self.recorder, self.detail) = (recorder, detail);
    }

    /// Records a send by this thread.
    pub(super) fn send<T>(&self, bytes: usize, send: impl FnOnce() -> T) -> T {
        let open = self.recorder.begin(Kind::Send);
        let sent = send();
        open.end(self.detail(bytes));
        sent
    }

    /// Records a submission to a lane.
    pub(super) fn submit<S, U>(
        &self,
        lane: usize,
        bytes: usize,
        submit: impl FnOnce() -> Submitted<S, U>,
    ) -> Submitted<S, U> {
        let details = self.lanes.get(lane);
        let alone = self.detail(bytes);
        let detail = alone.of(details.and_then(|_| self.recorder.flow()));
        if let Some(details) = details {
            // The entry must be there before the server can look for it.
            details.lock().push_back(detail);
        }
        let open = self.recorder.begin(Kind::Delegate);
        let submitted = submit();
        match &submitted {
            Submitted::Pending(_) => open.end(detail),
            Submitted::Here(_) => {
                if let Some(details) = details {
                    details.lock().pop_back();
                }
                open.end(alone);
            }
        }
        submitted
    }

    fn detail(&self, bytes: usize) -> Detail {
        Detail { bytes: Some(bytes as u64), ..self.detail }
    }
}

/// The recording of a communication thread.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) recorder: Recorder,
    /// The time since which the thread has had nothing to do.
    rests: Mutex<Option<u64>>,
}

impl Log {
    pub(super) fn new(recorder: Recorder) -> Arc<Self> {
        Arc::new(Self { recorder, rests: Mutex::default() })
    }

    fn rests(&self) -> MutexGuard<'_, Option<u64>> {
        self.rests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a rest, which ends with the first message sent during it.
    #[inline]
    pub(super) fn resting(&self, rest: impl FnOnce()) {
        if !self.recorder.is_on() {
            return rest();
        }
        *self.rests() = Some(now());
        rest();
        self.rested(now());
    }

    /// Records the operation that the thread carries on for a rank, until the returned span is dropped.
    #[inline]
    pub(super) fn collective(&self, about: impl FnOnce() -> About) -> Open<'_> {
        let mut open = self.recorder.begin(Kind::Collective);
        if self.recorder.is_on() {
            let About { rank, operation, bytes } = about();
            let from = rank.and_then(|rank| u32::try_from(rank).ok());
            let channel = self.recorder.name(operation);
            open.say(Detail { from, channel, bytes: Some(bytes as u64), ..Detail::default() });
        }
        open
    }

    /// Records that the thread advances a rank's tagged messages, until the returned span is dropped.
    #[inline]
    pub(super) fn messages(&self, rank: &Rank) -> Open<'_> {
        let mut open = self.recorder.begin(Kind::Messages);
        open.say(Detail { from: u32::try_from(rank.id()).ok(), ..Detail::default() });
        open
    }

    fn rested(&self, until: u64) {
        if let Some(since) = self.rests().take() {
            // The rest is not an open span while it lasts, because a long one would keep others from being added up.
            self.recorder.span(Kind::Idle, since, until, Detail::default());
        }
    }

    /// Returns a watch that is shown what this thread carries out in a lane.
    pub(super) fn watch(self: &Arc<Self>, details: &Details) -> Box<dyn Watch> {
        Box::new(Copies { log: Arc::clone(self), details: details.clone() })
    }
}

struct Copies {
    log: Arc<Log>,
    details: Details,
}

impl Watch for Copies {
    fn attempt(&mut self, carry: &mut dyn FnMut() -> Attempt) {
        let began = now();
        let open = self.log.recorder.begin(Kind::Copy);
        match carry() {
            Attempt::NotYet => open.cancel(),
            Attempt::Failed => {
                self.details.lock().pop_front();
                open.cancel();
            }
            Attempt::Sent => {
                open.end(self.details.lock().pop_front().unwrap_or_default());
                self.log.rested(began);
            }
        }
    }
}
