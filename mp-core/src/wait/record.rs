//! What a blocked rank says about itself, for a reader in another process.
//!
//! A sequence lock: the version is odd while the fields change, and a reader that sees two
//! different versions looks again.

use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// What a rank can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
}

impl Operation {
    const ALL: [Self; 4] = [Self::Send, Self::Receive, Self::Select, Self::Results];

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
        })
    }
}

/// What one wait is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Doing {
    pub(crate) operation: Operation,
    /// Where the channel's descriptor lies in the segment; 0 for none.
    pub(crate) channel: u64,
}

/// How often a record that changes is looked at again.
const LOOKS: u32 = if cfg!(loom) { 2 } else { 100 };

/// One rank's current wait, in its control block.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct WaitRecord {
    version: AtomicU32,
    operation: AtomicU32,
    channel: AtomicU64,
    since_ns: AtomicU64,
}

impl WaitRecord {
    pub(crate) fn new() -> Self {
        Self {
            version: AtomicU32::new(0),
            operation: AtomicU32::new(0),
            channel: AtomicU64::new(0),
            since_ns: AtomicU64::new(0),
        }
    }

    /// Writes the record, unless another thread of the rank is writing it right now.
    fn write(&self, operation: u32, channel: u64, since_ns: u64) {
        let version = self.version.load(Ordering::Relaxed);
        if version % 2 == 1
            || self
                .version
                .compare_exchange(version, version + 1, Ordering::Acquire, Ordering::Relaxed)
                .is_err()
        {
            return;
        }
        // Release fence: a reader that sees a new field also sees the odd version; pairs with
        // the Acquire fence in `read`.
        fence(Ordering::Release);
        self.operation.store(operation, Ordering::Relaxed);
        self.channel.store(channel, Ordering::Relaxed);
        self.since_ns.store(since_ns, Ordering::Relaxed);
        // Release: pairs with the first Acquire load in `read`.
        self.version.store(version.wrapping_add(2), Ordering::Release);
    }

    pub(crate) fn begin(&self, doing: Doing, now_ns: u64) {
        self.write(doing.operation.code(), doing.channel, now_ns);
    }

    pub(crate) fn end(&self) {
        self.write(0, 0, 0);
    }

    /// The current wait and since when (CLOCK_MONOTONIC, nanoseconds), if there is one and it
    /// holds still long enough to be read.
    pub(crate) fn read(&self) -> Option<(Doing, u64)> {
        for _ in 0..LOOKS {
            let before = self.version.load(Ordering::Acquire);
            if before % 2 == 1 {
                std::hint::spin_loop();
                continue;
            }
            let operation = self.operation.load(Ordering::Relaxed);
            let channel = self.channel.load(Ordering::Relaxed);
            let since = self.since_ns.load(Ordering::Relaxed);
            fence(Ordering::Acquire);
            if self.version.load(Ordering::Relaxed) == before {
                let operation = Operation::from_code(operation)?;
                return Some((Doing { operation, channel }, since));
            }
        }
        None
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
                    record.begin(first, 10);
                    record.end();
                    record.begin(second, 20);
                }
            });
            match record.read() {
                None => {}
                Some(read) => assert!(read == (first, 10) || read == (second, 20), "{read:?}"),
            }
            writing.join().unwrap();
            assert_eq!(record.read(), Some((second, 20)));
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
                    thread::spawn(move || record.begin(doing(n), 10 * n))
                })
                .collect();
            let mut seen = Vec::from_iter(record.read());
            writing.into_iter().for_each(|thread| thread.join().unwrap());
            seen.extend(record.read());
            assert!(!seen.is_empty());
            for (what, since) in seen {
                assert_eq!(since, 10 * what.channel);
            }
        });
    }
}
