//! What the relays of two nodes send each other.
//!
//! Several frames go in one message of the interconnect. A frame about a channel names it by the number that the sender
//! of the frame has given to it.

use mp_core::bridge::{Crossing, Left, Taken};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Frame {
    /// A channel to or from a rank of the receiving node was made. It is the one of this turn among those with its name
    /// and ranks.
    Open { line: u32, turn: u32, crossing: Crossing },
    /// A message, whose bytes follow the frame.
    Message { line: u32, taken: Taken, bytes: u64 },
    /// The receiver has given back the slots of so many messages.
    Returned { line: u32, messages: u64 },
    /// The receiver has left this number for the sender.
    Notice { line: u32, notice: u64 },
    /// The rank at the end of the sending node has left.
    Closed { line: u32, left: Left },
    /// The rank of the sending node asks for this instead.
    Differs { line: u32, crossing: Crossing },
    /// A rank of the sending node has ended.
    Ended { rank: u32, left: Left },
}

impl Frame {
    /// Adds the frame, and the bytes of a message, to a message of the interconnect.
    pub(crate) fn add(&self, bytes: &[u8], to: &mut Vec<u8>) {
        match postcard::to_extend(self, std::mem::take(to)) {
            Ok(extended) => *to = extended,
            Err(error) => unreachable!("frames have only values that can be encoded: {error}"),
        }
        to.extend_from_slice(bytes);
    }

    /// Takes the next frame, and the bytes of its message, off a message of the interconnect. Returns `None` if it is
    /// no frame.
    pub(crate) fn next<'a>(from: &mut &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (frame, rest) = postcard::take_from_bytes::<Self>(from).ok()?;
        let bytes = match frame {
            Self::Message { bytes, .. } => usize::try_from(bytes).ok()?,
            _ => 0,
        };
        let (bytes, rest) = rest.split_at_checked(bytes)?;
        *from = rest;
        Some((frame, bytes))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frames() -> impl Strategy<Value = (Frame, Vec<u8>)> {
        let left = any::<bool>().prop_map(|lost| if lost { Left::Lost } else { Left::Closed });
        let (bytes, line) = (proptest::collection::vec(any::<u8>(), 0..300), any::<u32>());
        let taken = (any::<u64>(), any::<bool>());
        prop_oneof![
            (line, taken, bytes).prop_map(|(line, (elements, moved), bytes)| {
                let taken = Taken { elements, moved };
                (Frame::Message { line, taken, bytes: bytes.len() as u64 }, bytes)
            }),
            (line, any::<u64>())
                .prop_map(|(line, messages)| (Frame::Returned { line, messages }, vec![])),
            (line, any::<u64>())
                .prop_map(|(line, notice)| (Frame::Notice { line, notice }, vec![])),
            (line, left.clone()).prop_map(|(line, left)| (Frame::Closed { line, left }, vec![])),
            (line, left).prop_map(|(rank, left)| (Frame::Ended { rank, left }, vec![])),
        ]
    }

    proptest! {
        #[test]
        fn frames_come_out_as_they_went_in(sent in proptest::collection::vec(frames(), 0..20)) {
            let mut message = Vec::new();
            for (frame, bytes) in &sent {
                frame.add(bytes, &mut message);
            }
            let mut rest = &message[..];
            for (frame, bytes) in &sent {
                prop_assert_eq!(Frame::next(&mut rest), Some((frame.clone(), &bytes[..])));
            }
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn bytes_that_are_no_frames_are_refused_or_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut rest = &bytes[..];
            while let Some((_, message)) = Frame::next(&mut rest) {
                prop_assert!(message.len() <= bytes.len());
            }
        }
    }
}
