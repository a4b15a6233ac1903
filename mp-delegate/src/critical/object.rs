//! The protected values, and how operations and results become words of shared memory.

use mp_core::{Message, Plain};

use super::site::{AnyWord, Word};

/// A kind of value, and the operations on it. All ranks name the same type, so all have its operations.
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

    /// Executes an operation in mutual exclusion, in any rank and any thread. It must do the same everywhere.
    /// Delegation gains more from shorter operations.
    fn apply(state: &mut Self::State, op: Self::Op) -> Self::Ret;

    /// Repairs the value after a rank was killed while it had the value: as the lock holder, the combiner, or the
    /// server. The next rank that has the value calls this before anything else is executed. Returns whether the value
    /// is good. If so, operations continue; otherwise the value is poisoned if its [section](super::Section::poison)
    /// says so. The default repairs nothing and returns that the value is not good.
    ///
    /// The rank that had asked for the interrupted operation gets
    /// [`OutcomeUnknown`](mp_core::ErrorKind::OutcomeUnknown), unless the operation [is
    /// idempotent](Self::is_idempotent).
    ///
    /// This may be called on an intact value: the lock holder may be killed before it writes, or when it has written
    /// everything. The rank that repairs the value can be killed as well. Then its successor calls this again, on
    /// whatever state is left.
    fn repair(_state: &mut Self::State) -> bool {
        false
    }

    /// Returns whether it is harmless to execute an operation again if a rank was killed in the middle of it, or just
    /// after it. If so, the successor executes it once the value is [repaired](Self::repair) and before anything else
    /// is executed, and the result goes to the rank that had asked for it. Otherwise that rank gets
    /// [`OutcomeUnknown`](mp_core::ErrorKind::OutcomeUnknown).
    ///
    /// It is harmless to read, or to set something regardless of what it was. It is not harmless to add. The result
    /// must also be acceptable if the operation had already been executed.
    ///
    /// With an [`MpServer`](super::Scheme::MpServer) this is not called: everything that was on its way to the server
    /// is unknown.
    fn is_idempotent(_op: &Self::Op) -> bool {
        false
    }

    /// The form in which [`apply`](Self::apply) is called: with the words that several objects have in common, which
    /// protect these words together. Only objects of this library have such words.
    #[doc(hidden)]
    #[inline(always)]
    fn apply_beside(state: &mut Self::State, op: Self::Op, _common: &[Word]) -> Self::Ret {
        Self::apply(state, op)
    }

    /// The form in which [`repair`](Self::repair) is called, with the same words.
    #[doc(hidden)]
    fn repair_beside(state: &mut Self::State, _common: &[Word]) -> bool {
        Self::repair(state)
    }
}

const WORD: usize = size_of::<u64>();

/// Returns the number of words that a value takes, at least one.
pub(super) const fn words_of<T>() -> usize {
    let words = size_of::<T>().div_ceil(WORD);
    if words == 0 { 1 } else { words }
}

/// Writes a value into words that are published later.
#[inline(always)]
pub(super) fn put<T: Plain>(value: &T, to: &[impl AnyWord]) {
    let (whole, rest) = bytemuck::bytes_of(value).as_chunks::<WORD>();
    for (bytes, word) in whole.iter().zip(to) {
        word.store_relaxed(u64::from_ne_bytes(*bytes));
    }
    if let Some(word) = to.get(whole.len()).filter(|_| !rest.is_empty()) {
        let mut last = [0; WORD];
        last[..rest.len()].copy_from_slice(rest);
        word.store_relaxed(u64::from_ne_bytes(last));
    }
}

/// Reads a value from words that were published before.
#[inline(always)]
pub(super) fn get<T: Plain>(from: &[impl AnyWord]) -> T {
    let mut value = T::zeroed();
    let (whole, rest) = bytemuck::bytes_of_mut(&mut value).as_chunks_mut::<WORD>();
    let last = whole.len();
    for (bytes, word) in whole.iter_mut().zip(from) {
        *bytes = word.load_relaxed().to_ne_bytes();
    }
    if let Some(word) = from.get(last).filter(|_| !rest.is_empty()) {
        let len = rest.len();
        rest.copy_from_slice(&word.load_relaxed().to_ne_bytes()[..len]);
    }
    value
}

#[cfg(all(test, not(loom)))]
mod tests {
    use mp_core::memory::Word;

    use super::*;

    fn there_and_back<T: Plain + PartialEq + std::fmt::Debug>(value: T) {
        let words: Vec<Word> = (0..=words_of::<T>()).map(|_| Word::new(!0)).collect();
        put(&value, &words);
        assert_eq!(get::<T>(&words), value);
        assert_eq!(words[words_of::<T>()].load_relaxed(), !0, "a word too much");
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
}
