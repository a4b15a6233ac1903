//! What a rank of a farm holds: its place in the world, its job, who helps it, and what it writes
//! down.

use onchip::prelude::*;
use onchip::trace::{Detail, Kind, Recorder};

use super::Job;
use super::helpers::Helpers;
use super::stop::Stop;

/// One rank at its work.
pub(super) struct Seat<'a> {
    pub(super) rank: &'a Rank,
    pub(super) job: &'a Job,
    pub(super) recorder: Recorder,
    pub(super) helpers: Helpers<'a>,
}

impl Seat<'_> {
    /// Waits for a message.
    pub(super) fn receive<T>(
        &self,
        receive: impl FnOnce() -> onchip::Result<T>,
    ) -> Result<T, Stop> {
        let open = self.recorder.begin(Kind::Receive);
        let received = receive()?;
        drop(open);
        Ok(received)
    }

    /// Sends to another rank, or waits for room to do so.
    pub(super) fn send<T, E>(
        &self,
        to: usize,
        bytes: usize,
        send: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, Stop>
    where
        onchip::Error: From<E>,
    {
        let open = self.recorder.begin(Kind::Send);
        let sent = send().map_err(onchip::Error::from)?;
        open.end(Detail::message(self.rank.id(), to, bytes));
        Ok(sent)
    }

    /// Reads a frame, or writes one.
    pub(super) fn compute<T>(&self, work: impl FnOnce() -> T) -> T {
        let open = self.recorder.begin(Kind::Compute);
        let result = work();
        drop(open);
        result
    }

    /// Filters a frame, which is the same work for each.
    pub(super) fn filter<T>(&self, filter: impl FnOnce() -> T) -> T {
        self.recorder.compute(1.0, filter)
    }

    /// Makes a channel one whose sends are handed to communication threads.
    pub(super) fn delegate(
        &self,
        sender: Sender<[u8]>,
        to: usize,
        channel: &str,
    ) -> Delegated<[u8]> {
        let from = self.rank.id();
        let mut delegated = self.helpers.delegate(sender, from, to);
        let channel = self.recorder.name(channel);
        delegated.record(self.recorder.clone(), Detail::message(from, to, 0).on(channel));
        delegated
    }
}
