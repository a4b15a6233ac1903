//! How much memory a rank uses for unexpected messages, and which messages come without being asked for.
//!
//! A message is sent *eagerly*, with its payload, or as a *rendezvous*: its envelope is sent, and the payload stays
//! with the sender until the receiver has a receive for it. A rank counts the bytes of unexpected messages that it
//! keeps. In each channel to it, it leaves a notice of the longest message that may come eagerly. This is a
//! [fraction](FRACTION) of its limit. From the time when it keeps more than the limit until it keeps half of that, only
//! messages of one line may come eagerly. The notice is a word beside the channel, not a line in it: a line would lie
//! behind messages that the sender has not asked for.
//!
//! ```text
//! sender                                        receiver
//!   looks at the notice: too long
//!   RENDEZVOUS: envelope, number ------------->   matched by a receive, or put among the unexpected messages
//!                                                 and matched later
//!   <------------------------------- ACK: number
//!   PAYLOAD: number, then chunks ------------->  straight into the receive's buffer
//! ```
//!
//! After the notice, a rank takes from each sender at most the contents of the channels and one eager message. To send
//! more, the sender needs a slot that was given back after the notice, and so it sees the notice.
//!
//! - What a sender waits for, an `ACK`, lies behind messages that it has not asked for, and a payload lies behind other
//!   messages of its sender. Both ranks move those messages among the unexpected ones, which are limited.
//! - The limit is looked at again when the turn of a queued message comes. So a queue that was filled while there was
//!   room does not exceed it.
//! - When a source has ended, its envelopes are dropped, and receives that have asked it for a payload fail.
//! - A joint operation that refuses a message asks for its payload and drops it, because the sender must not wait for
//!   ever.
//! - An engine whose communicators are all dropped sends `FINALIZE` when it has no posted receives left: it matches
//!   nothing any more, and no rank need wait for that. It still has the payloads that others may ask for.

#[cfg(test)]
mod model;

use crate::communicator::messages::wire::INLINE_BYTES;

/// The environment variable for the limit on unexpected messages, in bytes. A value that is not such a number is
/// ignored. See [`Communicator::set_unexpected_limit`](crate::communicator::Communicator::set_unexpected_limit).
pub const UNEXPECTED_VARIABLE: &str = "ONCHIP_UNEXPECTED";

/// The default limit.
const DEFAULT: usize = 64 << 20;
/// The ratio of the limit to the longest message that goes eagerly.
const FRACTION: usize = 8;

/// The messages that a rank keeps and that were not received yet: see
/// [`Communicator::unexpected`](crate::communicator::Communicator::unexpected).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unexpected {
    /// The number of messages, including those of which only the envelope has come.
    pub messages: usize,
    /// Bytes of their elements in this rank's memory.
    pub bytes: usize,
    /// The largest number of bytes at any time.
    pub most_bytes: usize,
    /// The number of bytes after which senders keep their messages.
    pub limit: usize,
}

/// The bytes of unexpected messages in a rank's memory, and their limit.
#[derive(Debug)]
pub(crate) struct Backlog {
    limit: usize,
    bytes: usize,
    most: usize,
    /// Whether the bytes exceeded the limit, and are still more than half of it.
    full: bool,
}

impl Default for Backlog {
    fn default() -> Self {
        let limit = limit(std::env::var(UNEXPECTED_VARIABLE).ok().as_deref());
        Self { limit, bytes: 0, most: 0, full: false }
    }
}

/// Returns the limit, given the value of the environment variable.
fn limit(told: Option<&str>) -> usize {
    told.and_then(|bytes| bytes.trim().parse().ok()).unwrap_or(DEFAULT)
}

impl Backlog {
    pub(crate) fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.most = self.most.max(self.bytes);
        self.full |= self.bytes > self.limit;
    }

    pub(crate) fn remove(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.full &= self.bytes > self.limit / 2;
    }

    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
        self.full = self.bytes > limit;
    }

    /// Returns the length in bytes of the longest message that may come eagerly while there is room.
    pub(crate) fn longest(&self) -> usize {
        (self.limit / FRACTION).max(INLINE_BYTES)
    }

    /// Returns the notice for the senders: one more than the length in bytes of the longest message that may come
    /// eagerly now.
    pub(crate) fn notice(&self) -> u64 {
        let longest = if self.full { INLINE_BYTES } else { self.longest() };
        (longest as u64).saturating_add(1)
    }

    pub(crate) fn show(&self, messages: usize) -> Unexpected {
        let Self { limit, bytes, most, .. } = *self;
        Unexpected { messages, bytes, most_bytes: most, limit }
    }
}

/// Returns whether the receiver's `notice` allows an eager send of `bytes` bytes. If the receiver has not opened the
/// channel yet, there is no notice, and the sender's own `longest` decides.
#[inline(always)]
pub(crate) fn is_eager(bytes: usize, notice: u64, longest: usize) -> bool {
    match notice {
        0 => bytes <= longest,
        notice => (bytes as u64) < notice,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notice_changes_at_the_limit_and_at_half_of_it() {
        let mut backlog = Backlog { limit: 8000, bytes: 0, most: 0, full: false };
        let longest = |backlog: &Backlog| backlog.notice() - 1;
        assert_eq!(longest(&backlog), 1000);
        backlog.add(8000);
        assert_eq!(longest(&backlog), 1000);
        backlog.add(1);
        assert_eq!(longest(&backlog), 40);
        backlog.remove(4000);
        assert_eq!(longest(&backlog), 40);
        backlog.remove(1);
        assert_eq!(longest(&backlog), 1000);
        assert_eq!(backlog.show(3).most_bytes, 8001);
        backlog.set_limit(0);
        assert_eq!(longest(&backlog), 40);
    }

    #[test]
    fn the_environment_says_bytes() {
        for (told, wanted) in [(None, DEFAULT), (Some("0"), 0), (Some(" 12 "), 12)] {
            assert_eq!(limit(told), wanted);
        }
        for nonsense in ["", "much", "-1", "4G"] {
            assert_eq!(limit(Some(nonsense)), DEFAULT);
        }
    }

    #[test]
    fn lines_always_go_and_all_goes_without_a_limit() {
        for limit in [0, 1, 300, usize::MAX] {
            let mut backlog = Backlog { limit, bytes: 0, most: 0, full: false };
            assert!(is_eager(INLINE_BYTES, backlog.notice(), 0));
            assert_eq!(
                is_eager(INLINE_BYTES + 1, backlog.notice(), usize::MAX),
                limit == usize::MAX
            );
            backlog.add(limit);
            assert!(!backlog.full);
        }
        assert!(is_eager(5, 0, 5) && !is_eager(6, 0, 5));
    }
}
