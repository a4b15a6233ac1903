//! What the relays of two nodes send each other.
//!
//! Several frames go in one message of the interconnect. A frame about a channel names it by the number that the sender
//! of the frame has given to it.

use mp_core::bridge::{
    BallotTitle, Crossing, Ended, Failed, Gone, Left, Step, Taken, Tidings, Withdrawal,
};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Frame {
    /// A channel to or from a rank of the receiving node was made. It is the one of this turn among those with its name
    /// and ranks.
    Open { line: u32, turn: u32, crossing: Box<Crossing> },
    /// A message. `bytes` is its length.
    Message { line: u32, taken: Taken, bytes: u64 },
    /// A long message, which comes next, and alone, in a message of the interconnect.
    Apart { line: u32, taken: Taken },
    /// The receiver has given back this number of slots.
    Returned { line: u32, messages: u64 },
    /// The ends of a channel of degree 0, or of a shared one, come closer to a meeting, or do not.
    Meets { line: u32, step: Step },
    /// The receiver has left this number for the sender.
    Notice { line: u32, notice: u64 },
    /// The rank at the end of the sending node has left.
    Closed { line: u32, left: Left },
    /// The rank of the sending node asks for this instead.
    Differs { line: u32, crossing: Box<Crossing> },
    /// A rank of the sending node opens no more channels of a name.
    Withdrawn(Withdrawal),
    /// Something has happened in a ballot, in the round of the ranks that begins after this many.
    Ballot { rounds: u32, ballot: Box<BallotTitle>, tidings: Tidings },
    /// A rank of the sending node has ended, with an outcome of this length; 0 if it has posted none.
    Ended { ended: Ended, bytes: u64 },
    /// The process of a rank of the sending node has ended.
    Gone(Gone),
    /// The code of this rank has failed in this round, first as far as the sending node knows.
    Failing { rank: u32 },
    /// A process has failed, first as far as the sending node knows.
    Failed(Failed),
    /// All ranks of the sending node have left this many rounds.
    Left { rounds: u32 },
}

/// What goes to one node in one message of the interconnect: the bytes of messages and outcomes, the frames, and the number
/// of bytes of the frames. So messages are copied here straight from their slots.
///
/// Each frame begins with a [`Head`]. It is all there is to the two frames that go with every message. The others follow
/// theirs in the format of postcard.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    frames: Vec<u8>,
}

/// A kind, a channel and two numbers, little-endian. The channel has the upper half of the first word.
type Head = [[u8; 8]; 3];

/// [`Frame::Message`], of a message that is copied: the number of its elements, and of its bytes.
const COPIED: u32 = 0;
/// The same of a buffer that moves.
const MOVED: u32 = 1;
/// [`Frame::Returned`]: the number of slots.
const RETURNED: u32 = 2;
/// Another frame: its length in bytes.
const OTHER: u32 = 3;

fn head(kind: u32, line: u32, first: u64, second: u64) -> Head {
    [u64::from(line) << 32 | u64::from(kind), first, second].map(u64::to_le_bytes)
}

/// Room for some frames behind the bytes of a message.
const BESIDE: usize = 64;

impl Batch {
    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len() + self.frames.len()
    }

    pub(crate) fn add(&mut self, frame: &Frame) {
        let (head, body) = match *frame {
            Frame::Message { line, taken: Taken { elements, moved }, bytes } => {
                (head(if moved { MOVED } else { COPIED }, line, elements, bytes), Vec::new())
            }
            Frame::Returned { line, messages } => (head(RETURNED, line, messages, 0), Vec::new()),
            _ => match postcard::to_allocvec(frame) {
                Ok(body) => (head(OTHER, 0, body.len() as u64, 0), body),
                Err(error) => unreachable!("frames have only values that can be encoded: {error}"),
            },
        };
        self.frames.extend_from_slice(head.as_flattened());
        self.frames.extend_from_slice(&body);
    }

    /// Adds the bytes of a message or an outcome, before its frame is added.
    pub(crate) fn add_bytes(&mut self, bytes: &[u8]) {
        self.bytes.reserve(bytes.len() + BESIDE);
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the message of the interconnect, and leaves an empty batch.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        let len = self.frames.len();
        let mut message = std::mem::take(&mut self.bytes);
        message.reserve(len + size_of::<u64>());
        message.append(&mut self.frames);
        message.extend_from_slice(&(len as u64).to_le_bytes());
        message
    }
}

/// The frames of a message that has arrived, each with the bytes of its message or outcome.
#[derive(Debug)]
pub(crate) struct Frames<'a> {
    bytes: &'a [u8],
    frames: &'a [u8],
}

impl<'a> Frames<'a> {
    /// Returns `None` if it is no message of a relay.
    pub(crate) fn of(message: &'a [u8]) -> Option<Self> {
        let (rest, len) = message.split_last_chunk()?;
        let len = usize::try_from(u64::from_le_bytes(*len)).ok()?;
        let (bytes, frames) = rest.split_at_checked(rest.len().checked_sub(len)?)?;
        Some(Self { bytes, frames })
    }
}

impl<'a> Iterator for Frames<'a> {
    /// `None` is something that is no frame, after which nothing comes.
    type Item = Option<(Frame, &'a [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.frames.is_empty() {
            return None;
        }
        let frames = std::mem::take(&mut self.frames);
        let Some((frame, rest)) = first_of(frames) else { return Some(None) };
        let len = match frame {
            Frame::Message { bytes, .. } | Frame::Ended { bytes, .. } => {
                usize::try_from(bytes).unwrap_or(usize::MAX)
            }
            _ => 0,
        };
        let Some((message, bytes)) = self.bytes.split_at_checked(len) else { return Some(None) };
        (self.bytes, self.frames) = (bytes, rest);
        Some(Some((frame, message)))
    }
}

/// Returns the first frame, and what follows it.
fn first_of(frames: &[u8]) -> Option<(Frame, &[u8])> {
    let (head, rest) = frames.split_at_checked(size_of::<Head>())?;
    let (words, _) = head.as_chunks();
    let word = |place: usize| words.get(place).map(|&word| u64::from_le_bytes(word));
    let (first, second, third) = (word(0)?, word(1)?, word(2)?);
    let (kind, line) = (first as u32, (first >> 32) as u32);
    let message = |moved| {
        let taken = Taken { elements: second, moved };
        Frame::Message { line, taken, bytes: third }
    };
    let frame = match kind {
        COPIED => message(false),
        MOVED => message(true),
        RETURNED => Frame::Returned { line, messages: second },
        OTHER => {
            let (body, rest) = rest.split_at_checked(usize::try_from(second).ok()?)?;
            return Some((postcard::from_bytes(body).ok()?, rest));
        }
        _ => return None,
    };
    Some((frame, rest))
}

#[cfg(test)]
mod tests {
    use mp_core::bridge::Want;
    use proptest::prelude::*;

    use super::*;

    fn frames() -> impl Strategy<Value = (Frame, Vec<u8>)> {
        let left = prop_oneof![Just(Left::Closed), any::<u32>().prop_map(Left::Lost)];
        let (bytes, line) = (proptest::collection::vec(any::<u8>(), 0..300), any::<u32>());
        let step = prop_oneof![
            Just(Step::Offered),
            Just(Step::Recalled),
            Just(Step::GivenBack),
            Just(Step::Kept),
            Just(Step::Refused),
            Just(Step::Looks),
            prop_oneof![Just(Want::No), Just(Want::Waits), Just(Want::Asks)].prop_map(Step::Wanted),
        ];
        let taken = (any::<u64>(), any::<bool>());
        let outcome = (any::<u32>(), proptest::collection::vec(any::<u8>(), 0..300));
        prop_oneof![
            (line, taken, bytes).prop_map(|(line, (elements, moved), bytes)| {
                let taken = Taken { elements, moved };
                (Frame::Message { line, taken, bytes: bytes.len() as u64 }, bytes)
            }),
            (line, taken).prop_map(|(line, (elements, moved))| {
                (Frame::Apart { line, taken: Taken { elements, moved } }, vec![])
            }),
            (line, any::<u64>())
                .prop_map(|(line, messages)| (Frame::Returned { line, messages }, vec![])),
            (line, any::<u64>())
                .prop_map(|(line, notice)| (Frame::Notice { line, notice }, vec![])),
            (line, left).prop_map(|(line, left)| (Frame::Closed { line, left }, vec![])),
            (line, step).prop_map(|(line, step)| (Frame::Meets { line, step }, vec![])),
            outcome.prop_map(|(rank, outcome)| {
                let ended = Ended::lost(rank);
                (Frame::Ended { ended, bytes: outcome.len() as u64 }, outcome)
            }),
            line.prop_map(|rounds| (Frame::Left { rounds }, vec![])),
        ]
    }

    proptest! {
        #[test]
        fn frames_come_out_as_they_went_in(sent in proptest::collection::vec(frames(), 0..20)) {
            let mut batch = Batch::default();
            for (frame, bytes) in &sent {
                batch.add_bytes(bytes);
                batch.add(frame);
            }
            prop_assert_eq!(batch.is_empty(), sent.is_empty());
            let message = batch.finish();
            prop_assert!(batch.is_empty());
            let mut frames = Frames::of(&message).unwrap();
            for (frame, bytes) in &sent {
                prop_assert_eq!(frames.next(), Some(Some((frame.clone(), &bytes[..]))));
            }
            prop_assert_eq!(frames.next(), None);
        }

        #[test]
        fn bytes_that_are_no_frames_are_refused_or_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let frames = Frames::of(&bytes).into_iter().flatten();
            let read: Vec<_> = frames.collect();
            // Nothing comes behind what is no frame.
            let wrong = read.iter().position(Option::is_none);
            prop_assert!(wrong.is_none_or(|at| at + 1 == read.len()));
            let all: usize = read.iter().flatten().map(|(_, message)| message.len()).sum();
            prop_assert!(all <= bytes.len());
        }
    }
}
