//! Messages that their receivers copy from the memory of their senders.
//!
//! The sender of a long message that lies in the world's memory sends only its envelope, with the place of the elements,
//! and keeps the elements as they are. When a receive takes the message, its rank copies the elements, and says so in its
//! answer. If it can't, because no call that lasts has the buffer of the receive, it asks for the payload, which then
//! comes in chunks.
//!
//! Where such copies are slow (`mp-core/src/direct.rs`), the next messages go in chunks again.
//!
//! A send in this way ends only when it was matched. So a program must ask for it.

use mp_core::Rank;

use crate::communicator::messages::{
    call::Call,
    matching::{Direct, Matching, NOBODY},
    wire::Envelope,
};

/// Copies the elements of a message into the buffer of its receive, or asks for them.
pub(crate) fn copy(message: Direct, rank: &Rank, matching: &mut Matching, call: &mut Call<'_, '_>) {
    let Direct { envelope, receive, place } = message;
    let Envelope { source, count, bytes, .. } = envelope;
    let copied = call
        .begin(receive, (count, bytes), matching)
        .map(|whole| rank.copy_from(source as usize, place, whole?));
    match copied {
        Ok(Some(slow)) => matching.copied(&envelope, receive, slow),
        Ok(None) => matching.invite(&envelope, receive),
        Err(error) => {
            matching.fail(receive, error);
            matching.invite(&envelope, NOBODY);
        }
    }
}
