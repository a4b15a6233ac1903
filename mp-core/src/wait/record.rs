//! The record of a blocked rank's wait, which the rank writes for readers in other processes.
//!
//! The record is a sequence lock: the version is odd while the fields change, and a reader that sees two different
//! versions reads again.

use std::borrow::Cow;

use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// What a rank can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Operation {
    /// Room in a channel, or the receiver of a rendezvous.
    Send,
    /// A message on one channel.
    Receive,
    /// A message on any of several channels.
    Select,
    /// The other ranks' results at the end of a launched world.
    Results,
    /// A flag in this rank's message passing buffer.
    Flag,
}

impl Operation {
    const ALL: [Self; 5] = [Self::Send, Self::Receive, Self::Select, Self::Results, Self::Flag];

    /// Returns what kind of object the operation works on.
    pub(crate) fn medium(self) -> &'static str {
        if self == Self::Flag { "MPBs" } else { "channel" }
    }

    fn code(self) -> u32 {
        1 + Self::ALL.iter().position(|&o| o == self).unwrap_or(0) as u32
    }

    fn from_code(code: u32) -> Option<Self> {
        Self::ALL.get((code as usize).checked_sub(1)?).copied()
    }
}

impl std::fmt::Display for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Send => "send",
            Self::Receive => "receive",
            Self::Select => "select",
            Self::Results => "wait for results",
            Self::Flag => "wait for a flag",
        })
    }
}

/// The operation of one wait, and the object that it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Doing {
    pub(crate) operation: Operation,
    /// The place of the channel's or the MPBs' descriptor in the segment; 0 for none.
    pub(crate) channel: u64,
}

/// The largest number of channels that are recorded for one wait.
const CHANNELS: usize = if cfg!(loom) { 1 } else { 64 };

/// The number of words, and of bytes, for the text of a call.
const TEXT_WORDS: usize = if cfg!(loom) { 1 } else { 32 };
const TEXT: usize = TEXT_WORDS * size_of::<u64>();

/// Stands in place of the rank that sets a flag, if the rank's own operations beside the wait complete the awaited one.
pub(crate) const NOBODY: u64 = u64::MAX;

/// In the word of an operation beside a wait, the shift of 1 + the only rank that sets the flag. The place of the MPBs
/// is below it.
const SETTER: u32 = 48;

/// Returns the word of an operation beside a wait that waits for a flag of the MPBs at this place. `setter` is the only
/// rank that sets the flag, if there is one.
pub(crate) fn beside(place: u64, setter: Option<usize>) -> u64 {
    place | setter.map_or(0, |setter| 1 + setter as u64) << SETTER
}

/// Splits such a word into the place and the rank.
pub(crate) fn beside_parts(word: u64) -> (u64, Option<usize>) {
    (word & ((1 << SETTER) - 1), (word >> SETTER).checked_sub(1).map(|setter| setter as usize))
}

/// How often a reader looks at a record that keeps changing.
const LOOKS: u32 = if cfg!(loom) { 2 } else { 100 };

/// One rank's current wait, in its control block.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct WaitRecord {
    version: AtomicU32,
    operation: AtomicU32,
    since_ns: AtomicU64,
    /// When the wait gives up; 0 for never.
    until_ns: AtomicU64,
    /// The number of words that were to be recorded, including those that have no place in `channels`. A flag has three
    /// words: the place of the MPBs, the line, and 1 + the rank that is to set the flag, 0 for any rank, or [`NOBODY`].
    count: AtomicU64,
    /// How many of these words, at the end, are those of operations beside the waiting call.
    beside: AtomicU64,
    channels: [AtomicU64; CHANNELS],
    /// The length of the text in bytes, and the text: the call that waits, in the program's words.
    text_len: AtomicU64,
    text: [AtomicU64; TEXT_WORDS],
}

/// A [`WaitRecord`] as read from outside. Times are CLOCK_MONOTONIC, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waited {
    /// Distinguishes one wait of the rank from the next.
    pub(crate) version: u32,
    pub(crate) operation: Operation,
    /// The places where the channels' descriptors are said to be. For a flag, its words as in [`WaitRecord`].
    pub(crate) channels: Vec<u64>,
    /// The words of the operations beside the waiting call.
    pub(crate) beside: Vec<u64>,
    /// The number of further channels that had no place in the record.
    pub(crate) unnamed: u64,
    /// The call that waits, in the program's words; empty if that is not known.
    pub(crate) call: String,
    pub(crate) since_ns: u64,
    pub(crate) until_ns: Option<u64>,
}

impl WaitRecord {
    #[cfg(test)]
    pub(crate) fn new() -> Self {
        Self {
            version: AtomicU32::new(0),
            operation: AtomicU32::new(0),
            since_ns: AtomicU64::new(0),
            until_ns: AtomicU64::new(0),
            count: AtomicU64::new(0),
            beside: AtomicU64::new(0),
            channels: std::array::from_fn(|_| AtomicU64::new(0)),
            text_len: AtomicU64::new(0),
            text: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Changes the record, unless another thread of the rank is changing it at the same time.
    fn change(&self, fields: impl FnOnce()) {
        let version = self.version.load(Ordering::Relaxed);
        if version % 2 == 1
            || self
                .version
                .compare_exchange(version, version + 1, Ordering::Acquire, Ordering::Relaxed)
                .is_err()
        {
            return;
        }
        // Release fence: a reader that sees a new field also sees the odd version; pairs with the Acquire fence in
        // `read`.
        fence(Ordering::Release);
        fields();
        // Release: pairs with the first Acquire load in `read`.
        self.version.store(version.wrapping_add(2), Ordering::Release);
    }

    /// Records that a wait begins for the channel in `doing` and for the `further` ones. `beside` has the words of the
    /// operations that continue during the wait. `call` is the call that waits, in the program's words.
    pub(crate) fn begin(
        &self,
        doing: Doing,
        further: &[u64],
        beside: &[u64],
        call: &str,
        now_ns: u64,
        until_ns: Option<u64>,
    ) {
        self.change(|| {
            let channels = Some(doing.channel).filter(|&c| c != 0).into_iter();
            let channels = channels.chain(further.iter().copied()).chain(beside.iter().copied());
            let mut count = 0;
            for channel in channels {
                if let Some(place) = self.channels.get(count) {
                    place.store(channel, Ordering::Relaxed);
                }
                count += 1;
            }
            self.count.store(count as u64, Ordering::Relaxed);
            self.beside.store(beside.len() as u64, Ordering::Relaxed);
            let text = shortened(call);
            for (word, bytes) in self.text.iter().zip(text.as_bytes().chunks(size_of::<u64>())) {
                let mut padded = [0; size_of::<u64>()];
                padded[..bytes.len()].copy_from_slice(bytes);
                word.store(u64::from_ne_bytes(padded), Ordering::Relaxed);
            }
            self.text_len.store(text.len() as u64, Ordering::Relaxed);
            self.since_ns.store(now_ns, Ordering::Relaxed);
            self.until_ns.store(until_ns.unwrap_or(0), Ordering::Relaxed);
            self.operation.store(doing.operation.code(), Ordering::Relaxed);
        });
    }

    pub(crate) fn end(&self) {
        self.change(|| self.operation.store(0, Ordering::Relaxed));
    }

    /// Returns the current wait, if there is one and it stays unchanged long enough to be read.
    pub(crate) fn read(&self) -> Option<Waited> {
        for _ in 0..LOOKS {
            let version = self.version.load(Ordering::Acquire);
            if version % 2 == 1 {
                std::hint::spin_loop();
                continue;
            }
            let operation = self.operation.load(Ordering::Relaxed);
            let since_ns = self.since_ns.load(Ordering::Relaxed);
            let until_ns = self.until_ns.load(Ordering::Relaxed);
            let count = self.count.load(Ordering::Relaxed);
            let beside = self.beside.load(Ordering::Relaxed);
            let named = count.min(CHANNELS as u64) as usize;
            let mut channels: Vec<u64> =
                self.channels[..named].iter().map(|c| c.load(Ordering::Relaxed)).collect();
            let own = count.saturating_sub(beside).min(named as u64) as usize;
            let beside = channels.split_off(own);
            let text_len = self.text_len.load(Ordering::Relaxed).min(TEXT as u64) as usize;
            let words = self.text[..text_len.div_ceil(size_of::<u64>())].iter();
            let mut text: Vec<u8> =
                words.flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes()).collect();
            text.truncate(text_len);
            fence(Ordering::Acquire);
            if self.version.load(Ordering::Relaxed) == version {
                return Some(Waited {
                    version,
                    operation: Operation::from_code(operation)?,
                    channels,
                    beside,
                    unnamed: count - named as u64,
                    call: String::from_utf8_lossy(&text).into_owned(),
                    since_ns,
                    until_ns: (until_ns != 0).then_some(until_ns),
                });
            }
        }
        None
    }
}

/// Returns the text, or as much of it as there is room for, with dots after it.
fn shortened(text: &str) -> Cow<'_, str> {
    const MORE: &str = "...";
    if text.len() <= TEXT {
        return Cow::Borrowed(text);
    }
    let most = TEXT.saturating_sub(MORE.len());
    let kept = (0..=most).rfind(|&end| text.is_char_boundary(end)).unwrap_or(0);
    Cow::Owned(format!("{}{MORE}", &text[..kept]))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_read_as_it_was_written() {
        let record = WaitRecord::new();
        assert_eq!(record.read(), None);
        let doing = Doing { operation: Operation::Select, channel: 7 };
        record.begin(doing, &[8, 9], &[], "", 100, Some(200));
        let first = record.read().unwrap();
        assert_eq!(first.channels, [7, 8, 9]);
        assert_eq!((first.operation, first.unnamed), (Operation::Select, 0));
        assert_eq!((first.since_ns, first.until_ns), (100, Some(200)));
        record.end();
        assert_eq!(record.read(), None);
        record.begin(doing, &[8], &[9, 10], "", 100, None);
        let beside = record.read().unwrap();
        assert_eq!((beside.channels, beside.beside), (vec![7, 8], vec![9, 10]));
        record.end();
        record.begin(doing, &[8, 9], &[], "", 100, Some(200));
        assert_ne!(record.read().unwrap().version, first.version, "another wait");
        record.begin(Doing { operation: Operation::Results, channel: 0 }, &[], &[], "", 1, None);
        let last = record.read().unwrap();
        assert!(last.channels.is_empty() && last.until_ns.is_none());
    }

    #[test]
    fn more_channels_than_have_a_place_are_counted() {
        let record = WaitRecord::new();
        let further: Vec<u64> = (2..=CHANNELS as u64 + 3).collect();
        record.begin(
            Doing { operation: Operation::Select, channel: 1 },
            &further,
            &[],
            "",
            1,
            None,
        );
        let waited = record.read().unwrap();
        assert_eq!(waited.channels, (1..=CHANNELS as u64).collect::<Vec<_>>());
        assert_eq!(waited.unnamed, 3);
    }

    #[test]
    fn the_call_is_read_as_far_as_there_was_room() {
        let record = WaitRecord::new();
        let read = |call: &str| {
            let doing = Doing { operation: Operation::Select, channel: 1 };
            record.begin(doing, &[], &[], call, 1, None);
            record.read().unwrap().call
        };
        let long = "ü".repeat(TEXT);
        for call in ["barrier on \"world\"", "", "12345678", &long[..TEXT]] {
            assert_eq!(read(call), call);
        }
        let cut = read(&long);
        let kept = cut.strip_suffix("...").unwrap();
        assert!(long.starts_with(kept) && (TEXT - 1..=TEXT).contains(&cut.len()), "{cut}");
    }

    #[test]
    fn any_bits_are_read_or_refused() {
        let record = WaitRecord::new();
        for (operation, count) in [(99, 1), (3, u64::MAX), (u32::MAX, u64::MAX)] {
            record.operation.store(operation, Ordering::Relaxed);
            record.count.store(count, Ordering::Relaxed);
            record.text_len.store(count, Ordering::Relaxed);
            record.text.iter().for_each(|word| word.store(u64::MAX, Ordering::Relaxed));
            if let Some(waited) = record.read() {
                let named = waited.channels.len() + waited.beside.len();
                assert_eq!(named as u64 + waited.unnamed, count);
                assert!(waited.call.chars().count() <= TEXT);
            }
        }
        record.version.store(1, Ordering::Relaxed);
        assert_eq!(record.read(), None, "a writer that died in the middle");
    }
}

#[cfg(all(test, loom))]
mod model {
    use std::rc::Rc;

    use loom::thread;

    use super::*;
    use crate::sync::explore;

    #[test]
    fn a_reader_never_sees_half_a_wait() {
        explore(2, || {
            let record = Rc::new(WaitRecord::new());
            let first = Doing { operation: Operation::Send, channel: 1 };
            let second = Doing { operation: Operation::Receive, channel: 2 };
            let writing = thread::spawn({
                let record = Rc::clone(&record);
                move || {
                    record.begin(first, &[], &[], "", 10, None);
                    record.end();
                    record.begin(second, &[], &[], "", 20, None);
                }
            });
            let read = || record.read().map(|w| (w.operation, w.channels, w.since_ns));
            match read() {
                None => {}
                Some((Operation::Send, channels, 10)) => assert_eq!(channels, [1]),
                Some((Operation::Receive, channels, 20)) => assert_eq!(channels, [2]),
                other => panic!("{other:?}"),
            }
            writing.join().unwrap();
            assert_eq!(read(), Some((Operation::Receive, vec![2], 20)));
        });
    }

    #[test]
    fn two_writers_do_not_mix() {
        explore(2, || {
            let record = Rc::new(WaitRecord::new());
            let doing = |n| Doing { operation: Operation::Send, channel: n };
            let writing: Vec<_> = (1..3)
                .map(|n| {
                    let record = Rc::clone(&record);
                    thread::spawn(move || record.begin(doing(n), &[], &[], "", 10 * n, None))
                })
                .collect();
            let mut seen = Vec::from_iter(record.read());
            writing.into_iter().for_each(|thread| thread.join().unwrap());
            seen.extend(record.read());
            assert!(!seen.is_empty());
            for waited in seen {
                assert_eq!(waited.channels, [waited.since_ns / 10]);
            }
        });
    }
}
