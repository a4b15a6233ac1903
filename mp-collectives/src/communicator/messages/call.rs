//! What a call lends to the engine while it lasts.

use mp_core::{Error, requests::Landing};

use crate::communicator::messages::{matching::Matching, store::Pattern};

/// What a call provides to the engine that brings messages in while the call lasts.
pub(crate) struct Call<'c, 'b> {
    /// Where the messages of its own receives can be written directly: see [`Matching::expect`].
    pub(crate) landings: &'c mut [(usize, &'b mut dyn Landing)],
    /// The messages that it looks for without taking them.
    pub(crate) probe: Option<Pattern>,
    /// Whether the only work left is to wait for the message that is coming.
    pub(crate) alone: bool,
}

impl Call<'_, '_> {
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
