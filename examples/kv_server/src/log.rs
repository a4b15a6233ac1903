//! What a client's operations did: enough to tell at the end whether the store is right.
//!
//! Every value is written once, by one client, and an operation that changes a key tells what it
//! has replaced. So each value, and each state without one, is replaced by one other operation or
//! is there at the end. For each key a client adds up what it has written and takes away what it
//! has replaced; the sums of all clients together must give what is there. A value that is lost,
//! written twice or torn makes them differ. Values that are seen must be whole, and a client's
//! values of a key can't be seen in another order than it wrote them.

use onchip::critical::objects::{MapAnswer, MapOp};
use serde::{Deserialize, Serialize};

use crate::data::{Op, Stamp, Value, key, stamp, stamp_of, value, weight, writer};
use crate::mix::Kind;

/// How many operations of a client had each outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Values asked for.
    pub gets: u64,
    /// Gets whose key was there.
    pub hits: u64,
    /// Values written.
    pub puts: u64,
    /// Values that the store had no room for.
    pub full: u64,
    /// Keys removed, or found to be gone.
    pub removes: u64,
    /// Compared, and swapped.
    pub swaps: u64,
    /// Compared, when another client was faster.
    pub missed: u64,
}

/// An operation that a client has asked for.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    kind: Kind,
    index: usize,
    /// The stamp that it writes.
    new: Stamp,
    /// The stamp that it expects to be there.
    expected: Stamp,
}

impl Asked {
    /// Returns its key, if the operation may change it.
    pub fn changes(&self) -> Option<usize> {
        (self.kind != Kind::Get).then_some(self.index)
    }
}

/// A client's knowledge of the store.
#[derive(Clone, Debug)]
pub struct Log {
    client: usize,
    value_bytes: usize,
    written: u64,
    /// For each key, the stamp that was seen or written last.
    seen: Vec<Stamp>,
    /// For each key, the sum of what was written, without what was replaced.
    sums: Vec<u64>,
    /// The numbers of outcomes.
    pub counts: Counts,
    violation: Option<String>,
}

impl Log {
    /// Creates the log of a client that knows nothing.
    pub fn new(client: usize, keys: usize, value_bytes: usize) -> Self {
        Self {
            client,
            value_bytes,
            written: 0,
            seen: vec![0; keys],
            sums: vec![0; keys],
            counts: Counts::default(),
            violation: None,
        }
    }

    /// Returns an operation on a key, and what to ask the store for.
    pub fn ask<const N: usize>(&mut self, kind: Kind, index: usize) -> (Asked, Op<N>) {
        let mut asked = Asked { kind, index, new: 0, expected: 0 };
        if let Kind::Put | Kind::Swap = kind {
            self.written += 1;
            asked.new = stamp(self.client, self.written);
        }
        let of = |stamp| value::<N>(index, stamp, self.value_bytes);
        let op = match kind {
            Kind::Get => MapOp::get(key(index)),
            Kind::Put => MapOp::insert(key(index), of(asked.new)),
            Kind::Remove => MapOp::remove(key(index)),
            Kind::Swap => {
                asked.expected = self.seen[index];
                let expected = (asked.expected != 0).then(|| of(asked.expected));
                MapOp::compare_and_swap(key(index), expected, Some(of(asked.new)))
            }
        };
        (asked, op)
    }

    /// Returns whether the operation has replaced what it had written itself: it was executed again after a rank was
    /// killed in the middle of it. What it replaced at first is unknown.
    pub fn was_repeated<const N: usize>(
        &self,
        asked: &Asked,
        answer: &MapAnswer<Value<N>>,
    ) -> bool {
        let before = || answer.before();
        asked.kind == Kind::Put
            && before().and_then(|found| stamp_of(asked.index, &found, self.value_bytes))
                == Some(asked.new)
    }

    /// Records the outcome of an operation. Those of a client are answered in their order.
    pub fn answered<const N: usize>(&mut self, asked: &Asked, answer: &MapAnswer<Value<N>>) {
        let Asked { kind, index, new, expected } = *asked;
        let before = match answer.before() {
            None => 0,
            Some(found) => match stamp_of(index, &found, self.value_bytes) {
                Some(stamp) => stamp,
                None => return self.violated(index, format!("its value was {found:?}")),
            },
        };
        let seen = self.seen[index];
        if writer(before) == writer(seen) && before < seen {
            self.violated(index, format!("{} came after {}", told(before), told(seen)));
        }
        let counts = &mut self.counts;
        let mut now = before;
        match kind {
            Kind::Get => {
                counts.gets += 1;
                counts.hits += u64::from(before != 0);
            }
            Kind::Remove => {
                counts.removes += 1;
                now = 0;
            }
            Kind::Put | Kind::Swap if answer.is_full() => counts.full += 1,
            Kind::Put => {
                counts.puts += 1;
                now = new;
            }
            Kind::Swap if answer.is_done() => {
                counts.swaps += 1;
                now = new;
            }
            Kind::Swap => counts.missed += 1,
        }
        // Without a value there is room only where one is replaced.
        let swapped =
            kind != Kind::Swap || answer.is_full() || (before == expected) == (now == new);
        if !swapped || answer.is_full() && before != 0 {
            self.violated(index, format!("{asked:?} was answered by {answer:?}"));
        }
        self.sums[index] = self.sums[index].wrapping_add(weight(now)).wrapping_sub(weight(before));
        self.seen[index] = now;
    }

    #[cold]
    fn violated(&mut self, index: usize, what: String) {
        self.violation.get_or_insert(format!("client {}, {:?}: {what}", self.client, key(index)));
    }

    /// Returns the sums, and the first thing that could not be. Nothing may be answered after this.
    pub fn finish(&mut self) -> (Vec<u64>, Option<String>) {
        (std::mem::take(&mut self.sums), self.violation.take())
    }
}

fn told(stamp: Stamp) -> String {
    match writer(stamp) {
        None => "no value".to_owned(),
        Some(client) => format!("client {client}'s value {:#x}", stamp),
    }
}

impl std::ops::Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            gets: self.gets + other.gets,
            hits: self.hits + other.hits,
            puts: self.puts + other.puts,
            full: self.full + other.full,
            removes: self.removes + other.removes,
            swaps: self.swaps + other.swaps,
            missed: self.missed + other.missed,
        }
    }
}
