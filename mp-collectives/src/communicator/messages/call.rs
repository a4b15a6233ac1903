//! What a call lends to the engine while it lasts.

use mp_core::{Error, requests::Landing};

use crate::communicator::messages::{matching::Matching, posted::Posted, store::Pattern};

/// What a call provides to the engine that brings messages in while the call lasts.
pub(crate) struct Call<'c, 'b> {
    /// Where the messages of its own receives can be written directly: see [`Matching::expect`].
    pub(crate) landings: &'c mut [(usize, &'b mut dyn Landing)],
    /// The messages that it looks for without taking them.
    pub(crate) probe: Option<Pattern>,
    /// Whether the only work left is to wait for the message that is coming.
    pub(crate) alone: bool,
    /// The receive with whose message the work ends. `None` for as much work as possible.
    pub(crate) only: Option<usize>,
}

impl Call<'_, '_> {
    /// Returns a call that provides nothing.
    pub(crate) fn of_nothing() -> Self {
        Self { landings: &mut [], probe: None, alone: false, only: None }
    }

    /// Returns whether the message with which the work ends has come.
    pub(crate) fn is_over(&self, matching: &Matching) -> bool {
        let has_ended = |place| matching.receives.get(place).is_none_or(Posted::has_ended);
        self.only.is_some_and(has_ended)
    }

    pub(crate) fn landing(
        &mut self,
        place: usize,
        matching: &Matching,
    ) -> Option<&mut dyn Landing> {
        if self.landings.is_empty() {
            return None;
        }
        let (_, landing) = self.landings.get_mut(matching.landing_of(place)?)?;
        Some(&mut **landing)
    }

    /// Makes room for the message of a receive, and returns where it can be written directly.
    #[inline]
    pub(crate) fn begin<'r>(
        &'r mut self,
        place: usize,
        (count, bytes): (usize, usize),
        matching: &'r mut Matching,
    ) -> Result<Option<&'r mut [u8]>, Error> {
        if let Some(landing) = self.landing(place, matching) {
            landing.begin(count)?;
        }
        Ok(self.room(place, bytes, matching))
    }

    /// Returns where the message of a receive, of `bytes` bytes, can be written directly.
    pub(crate) fn room<'r>(
        &'r mut self,
        place: usize,
        bytes: usize,
        matching: &'r mut Matching,
    ) -> Option<&'r mut [u8]> {
        match self.landing(place, matching) {
            Some(landing) => landing.bytes().get_mut(..bytes),
            None => matching.receives.fixed(place, bytes),
        }
    }

    pub(crate) fn probes(&self, source: u32) -> bool {
        self.probe.is_some_and(|pattern| pattern.looks_at(source))
    }
}
