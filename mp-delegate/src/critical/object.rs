//! What is protected, and how operations and results become words of shared memory.

use bytemuck::Zeroable;
use mp_core::{Message, Plain};

use super::site::{AnyWord, Word};

/// A kind of value, and the operations on it: what is registered for all ranks by naming it.
///
/// Operations and results are plain data, as is the value, so that an operation can be executed by
/// another thread or another process than the one that asks for it. An operation is mostly an
/// opcode and its arguments:
///
/// ```
/// use onchip::critical::Object;
///
/// struct Account;
///
/// impl Object for Account {
///     type State = i64;
///     type Op = i64;
///     type Ret = i64;
///
///     fn apply(balance: &mut i64, amount: i64) -> i64 {
///         *balance += amount;
///         *balance
///     }
/// }
/// ```
pub trait Object: 'static {
    /// The value: a [`Plain`] type, or a slice of one whose length is chosen when it is
    /// [opened](super::Section::len).
    type State: Message + ?Sized;
    /// An operation with its arguments.
    type Op: Plain;
    /// Its result.
    type Ret: Plain;

    /// Executes an operation: in mutual exclusion, in whatever rank and thread it is that does so.
    /// It must do the same everywhere. The shorter it is, the more a delegation is worth.
    fn apply(state: &mut Self::State, op: Self::Op) -> Self::Ret;

    /// Makes the value good again after a rank was killed that had it: one that had the lock, or combined,
    /// or served. Called by the rank that follows, before anything else is executed. Whether it is good:
    /// then operations go on, else the value is poisoned if its [section](super::Section::poison) wants
    /// that. Unless an object says otherwise nobody knows how to, and it is not.
    ///
    /// Whoever had asked for the operation that was cut short gets [`Unknown`](super::ErrorKind::Unknown),
    /// unless it [is idempotent](Self::is_idempotent).
    ///
    /// It may be called where the value is whole: one who has the lock may be killed before it writes, or
    /// when it has written all. Who repairs can be killed as well, and is followed: so it is called again, on
    /// what that has left.
    fn repair(_state: &mut Self::State) -> bool {
        false
    }

    /// Whether it is harmless to execute an operation again that a rank was killed in the middle of, or
    /// just after. Then whoever follows does so, once the value is [repaired](Self::repair) and before
    /// anything else is executed, and its result goes to the rank that had asked for it; else that one
    /// gets [`Unknown`](super::ErrorKind::Unknown).
    ///
    /// To read, or to set something whatever it was, is harmless. To add is not. The result must do as
    /// well when the operation had been executed already.
    ///
    /// With an [`MpServer`](super::Scheme::MpServer) it is not asked: what was on its way to the server
    /// is unknown as a whole.
    fn is_idempotent(_op: &Self::Op) -> bool {
        false
    }

    /// [`apply`](Self::apply) as it is called: with words that the object has in common with others,
    /// which protect them together. Only objects of this library have any.
    #[doc(hidden)]
    #[inline(always)]
    fn apply_beside(state: &mut Self::State, op: Self::Op, _common: &[Word]) -> Self::Ret {
        Self::apply(state, op)
    }

    /// [`repair`](Self::repair) as it is called, with those words.
    #[doc(hidden)]
    fn repair_beside(state: &mut Self::State, _common: &[Word]) -> bool {
        Self::repair(state)
    }
}

const WORD: usize = size_of::<u64>();

/// Words that a value takes, at least one.
pub(super) const fn words_of<T>() -> usize {
    let words = size_of::<T>().div_ceil(WORD);
    if words == 0 { 1 } else { words }
}

/// Writes a value into words that are published later.
#[inline(always)]
pub(super) fn put<T: Plain>(value: &T, to: &[impl AnyWord]) {
    let (whole, rest) = bytemuck::bytes_of(value).as_chunks::<WORD>();
    for (bytes, word) in whole.iter().zip(to) {
        word.set(u64::from_ne_bytes(*bytes));
    }
    if let Some(word) = to.get(whole.len()).filter(|_| !rest.is_empty()) {
        let mut last = [0; WORD];
        last[..rest.len()].copy_from_slice(rest);
        word.set(u64::from_ne_bytes(last));
    }
}

/// Reads a value from words that were published before.
#[inline(always)]
pub(super) fn get<T: Plain>(from: &[impl AnyWord]) -> T {
    let mut value = T::zeroed();
    let (whole, rest) = bytemuck::bytes_of_mut(&mut value).as_chunks_mut::<WORD>();
    let last = whole.len();
    for (bytes, word) in whole.iter_mut().zip(from) {
        *bytes = word.peek().to_ne_bytes();
    }
    if let Some(word) = from.get(last).filter(|_| !rest.is_empty()) {
        let len = rest.len();
        rest.copy_from_slice(&word.peek().to_ne_bytes()[..len]);
    }
    value
}

/// How an operation went, as it is told to whoever asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Fate {
    Done = 0,
    /// It panicked; the message is beside the seat.
    Panicked = 1,
    /// It was not executed: an earlier one had panicked.
    Poisoned = 2,
    /// Whoever executed it died meanwhile.
    Unknown = 3,
}

impl Fate {
    pub(super) fn from_bits(bits: u64) -> Self {
        match bits & 3 {
            0 => Self::Done,
            1 => Self::Panicked,
            2 => Self::Poisoned,
            _ => Self::Unknown,
        }
    }
}

/// A result, which means something only if the operation is done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome<Ret> {
    pub(super) fate: Fate,
    pub(super) ret: Ret,
}

impl<Ret: Zeroable> Outcome<Ret> {
    pub(super) fn done(ret: Ret) -> Self {
        Self { fate: Fate::Done, ret }
    }

    pub(super) fn without(fate: Fate) -> Self {
        Self { fate, ret: Ret::zeroed() }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use mp_core::memory::Word;

    use super::*;

    fn there_and_back<T: Plain + PartialEq + std::fmt::Debug>(value: T) {
        let words: Vec<Word> = (0..=words_of::<T>()).map(|_| Word::new(!0)).collect();
        put(&value, &words);
        assert_eq!(get::<T>(&words), value);
        assert_eq!(words[words_of::<T>()].peek(), !0, "a word too much");
    }

    #[test]
    fn values_of_every_length_go_through_words() {
        there_and_back(());
        there_and_back(7u8);
        there_and_back([1u8, 2, 3]);
        there_and_back(u64::MAX);
        there_and_back([1u32, 2, 3]);
        there_and_back([9u8; 64]);
        there_and_back([5u16; 31].map(|n| n * 1000));
        there_and_back([u64::MAX - 1; 17]);
        assert_eq!([words_of::<()>(), words_of::<u8>(), words_of::<[u8; 9]>()], [1, 1, 2]);
    }

    #[test]
    fn fates_are_told_in_two_bits() {
        for fate in [Fate::Done, Fate::Panicked, Fate::Poisoned, Fate::Unknown] {
            assert_eq!(Fate::from_bits(fate as u64 | 4), fate);
        }
    }
}
