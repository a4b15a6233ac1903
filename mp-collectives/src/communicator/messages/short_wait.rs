//! The short way of a wait for a posted receive.
//!
//! The [general wait](Engine::work) asks all streams and the rank's other pending operations, and prepares to sleep.
//! That takes longer than a message that is already on its way. So a wait first looks, for a short time, only at the
//! stream from which the message comes. The look has a limit, because the message may come only after others that the
//! general wait takes. A caller that waits for nothing else needs no limit.

use std::iter;

use mp_core::{BufferMut, Result};

use crate::communicator::{
    messages::call::Call,
    messages::engine::{Engine, Handle},
    messages::owner::Working,
    messages::posted::Posted,
    messages::store::Pattern,
};

/// The source, the tag and the number of elements of a message that was received.
type Received = (u32, u32, usize);

impl Working<'_> {
    /// Receives the message of the receive that is posted in this place and has this buffer, if the message is there,
    /// or comes within a short time. `last` says that the caller waits for nothing else. Returns `None` if it is not
    /// that simple, or if the receive has already ended.
    #[inline]
    pub(crate) fn receive_posted<B: BufferMut>(
        &mut self,
        place: usize,
        last: bool,
        buffer: &mut B,
    ) -> Option<Result<Received>> {
        let receives = &self.matching.receives;
        let posted = receives.get(place)?;
        if posted.has_ended() {
            return None;
        }
        let (pattern, pending) = (posted.pattern(), receives.len());
        let source = pattern.source()?;
        if !self.is_alone(pending) {
            return None;
        }
        let is_next = receives.first_from(source).is_some_and(|(first, _)| first == place);
        if !(is_next && last && pending == 1) {
            return self.look_for_posted(place, pattern, is_next, buffer);
        }
        // This wait is for all that is pending here.
        let joined = std::mem::take(&mut self.joined);
        self.register();
        let received = self.await_posted(place, pattern, buffer);
        self.joined = joined && (received.is_none() || self.is_under_way());
        received
    }
}

impl Engine {
    /// Waits for the message of the only posted receive. Returns `None` if other work is needed for it.
    fn await_posted<B: BufferMut>(
        &mut self,
        place: usize,
        pattern: Pattern,
        buffer: &mut B,
    ) -> Option<Result<Received>> {
        let into = buffer.elements_mut();
        let received = match self.receive_line(pattern, false, true, into) {
            Some(line) => Ok(line),
            None => self.receive_rest(pattern, false, into)?,
        };
        self.matching.receives.remove(place);
        let source = pattern.source()?;
        Some(received.map(|(tag, count)| (source, tag, count)))
    }

    /// Looks for the message of a posted receive, for a short time before each piece. `is_next` says that the next
    /// message from its source is for this receive or for none that is posted.
    fn look_for_posted<B: BufferMut>(
        &mut self,
        place: usize,
        pattern: Pattern,
        is_next: bool,
        buffer: &mut B,
    ) -> Option<Result<Received>> {
        let source = pattern.source()?;
        let appears = |engine: &Self| {
            engine.receive_stream[source as usize].as_ref()?.appears().then_some(())
        };
        if is_next {
            appears(self)?;
            let into = buffer.elements_mut();
            if let Some((tag, count)) = self.receive_line(pattern, false, false, into) {
                self.matching.receives.remove(place);
                return Some(Ok((source, tag, count)));
            }
        }
        self.matching.expect(iter::once(place));
        loop {
            appears(self)?;
            let landings = &mut [(Handle::Receive(place).number(), &mut *buffer as _)];
            let mut call = Call { landings, only: Some(place), ..Call::of_nothing() };
            let moved = self.bring_in_from(source, &mut call);
            if self.matching.receives.get(place).is_none_or(Posted::has_ended) {
                // The caller takes it.
                return None;
            }
            moved.then_some(())?;
        }
    }
}
