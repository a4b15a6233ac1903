//! Lines of shared memory: flags with payloads, and copies of many lines.
//!
//! The interface does not prevent a program from putting and getting the same lines at the same time. The result is
//! then any mixture of old and new bytes, but it must not be a data race. So every copy accesses the shared side by
//! atomic words, or by machine instructions that the compiler does not look into. The caller borrows the private side,
//! so that nobody else can use it.

use crate::sync::{AtomicU64, Ordering, fence};

const WORD: usize = size_of::<u64>();
/// Lines are short under the model checker, because it explores every word.
const WORDS: usize = if cfg!(loom) { 2 } else { 8 };
/// Bytes in a line.
pub(crate) const LINE_BYTES: usize = WORDS * WORD;
/// The largest number of bytes that a flag's line holds beside the flag.
pub(crate) const PAYLOAD: usize = LINE_BYTES - WORD;

/// A line. Used as a flag, it has a value and a payload.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Line([AtomicU64; WORDS]);

#[cfg(not(loom))]
const _: () = assert!(size_of::<Line>() == LINE_BYTES);

impl Line {
    pub(crate) fn new() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    #[inline(always)]
    pub(crate) fn flag(&self) -> u64 {
        // Acquire: pairs with the Release in `set_flag`.
        self.0[0].load(Ordering::Acquire)
    }

    #[inline(always)]
    pub(crate) fn set_flag(&self, value: u64) {
        // Release: pairs with the Acquire in `flag`: a rank that sees the value sees everything that this rank put
        // before, and its later stores come after all loads that this rank made before.
        self.0[0].store(value, Ordering::Release);
    }

    /// Adds to the flag, and returns its previous value. Ranks that read the flag or add to it afterwards see what this
    /// rank put before.
    #[inline(always)]
    pub(crate) fn add_to_flag(&self, value: u64) -> u64 {
        // Release as in `set_flag`, because an addition may set a flag. Acquire: pairs with the Release in
        // `add_to_flag` of a rank that added before.
        self.0[0].fetch_add(value, Ordering::AcqRel)
    }

    /// Writes up to [`PAYLOAD`] bytes beside the flag. Must be called before `set_flag`.
    #[inline]
    pub(crate) fn set_payload(&self, payload: &[u8]) {
        store(payload, &self.0[1..]);
    }

    #[inline]
    pub(crate) fn payload(&self, target: &mut [u8]) {
        load(&self.0[1..], target);
    }
}

/// Stores as many words as the bytes need. The rest of the last word is filled with zeros.
#[inline(always)]
fn store(source: &[u8], to: &[AtomicU64]) {
    let (words, rest) = source.as_chunks::<WORD>();
    for (word, to) in words.iter().zip(to) {
        to.store(u64::from_ne_bytes(*word), Ordering::Relaxed);
    }
    if let Some(to) = to.get(words.len()).filter(|_| !rest.is_empty()) {
        let mut last = [0; WORD];
        last[..rest.len()].copy_from_slice(rest);
        to.store(u64::from_ne_bytes(last), Ordering::Relaxed);
    }
}

#[inline(always)]
fn load(from: &[AtomicU64], target: &mut [u8]) {
    let (words, rest) = target.as_chunks_mut::<WORD>();
    let whole = words.len();
    for (from, word) in from.iter().zip(words) {
        *word = from.load(Ordering::Relaxed).to_ne_bytes();
    }
    if let Some(from) = from.get(whole).filter(|_| !rest.is_empty()) {
        let last = from.load(Ordering::Relaxed).to_ne_bytes();
        let len = rest.len();
        rest.copy_from_slice(&last[..len]);
    }
}

/// Copies private memory to lines, which must have room for it.
///
/// Other ranks see the puts of one rank in their order, even without a flag, because the fences of this function and of
/// [`get`] synchronize. They cost nothing on x86.
#[inline]
pub(crate) fn put(source: &[u8], to: &[Line]) {
    put_by(source, to, bulk::store);
}

/// Copies as [`put`] does, but past the caches if the processor can. Afterwards, the whole lines are in no cache.
pub(crate) fn put_past_caches(source: &[u8], to: &[Line]) {
    put_by(source, to, bulk::store_past_caches);
}

#[inline(always)]
fn put_by(source: &[u8], to: &[Line], store_lines: impl FnOnce(&[u8], &[Line])) {
    fence(Ordering::Release);
    let (whole, rest) = source.split_at(source.len() / LINE_BYTES * LINE_BYTES);
    // The rest, which is less than a line, goes first, because the processor looks ahead from ordinary instructions
    // into a string instruction, but not out of it.
    if let Some(last) = to.get(whole.len() / LINE_BYTES) {
        store(rest, &last.0);
    }
    store_lines(whole, to);
}

/// Copies lines to private memory, as many bytes as `target` has.
#[inline]
pub(crate) fn get(from: &[Line], target: &mut [u8]) {
    let (whole, rest) = target.split_at_mut(target.len() / LINE_BYTES * LINE_BYTES);
    // The rest goes first, as in `put`, so that all lines are on their way at the same time.
    if let Some(last) = from.get(whole.len() / LINE_BYTES) {
        load(&last.0, rest);
    }
    bulk::load(from, whole);
    fence(Ordering::Acquire);
}

/// Copies lines to as many other lines, beginning with the first. The two ranges may overlap.
#[inline]
pub(crate) fn copy(from: &[Line], to: &[Line]) {
    fence(Ordering::Release);
    bulk::copy(from, to);
    fence(Ordering::Acquire);
}

/// Copies of whole lines by machine instructions.
///
/// The instructions have the effect on shared memory that loads and stores of relaxed atomic bytes would have, one
/// after another, and callers rely on no more than that. So they are no data race, whatever other ranks do at the same
/// time. The compiler must assume that they access memory, so it neither drops them nor moves them over a fence or a
/// flag. Loops of atomic words are no alternative, because the compiler does not join them into wider accesses.
#[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
mod bulk {
    use super::{LINE_BYTES, Line};
    use crate::copy::{
        LONG_COPY, STRING_STEP, is_string, move_lines, move_lines_past_caches, move_string,
    };

    #[inline(always)]
    pub(super) fn store(source: &[u8], to: &[Line]) {
        let bytes = source.len().min(size_of_val(to));
        // SAFETY: both the source and the lines have at least `bytes` bytes. The lines consist of atomics, so they do
        // not overlap the borrowed source.
        unsafe { copy_apart(source.as_ptr(), to.as_ptr().cast(), bytes) };
    }

    #[inline(always)]
    pub(super) fn store_past_caches(source: &[u8], to: &[Line]) {
        let lines = source.len().min(size_of_val(to)) / LINE_BYTES;
        // SAFETY: both the source and the lines have at least that many bytes, and lines are aligned.
        unsafe { move_lines_past_caches(source.as_ptr(), to.as_ptr().cast(), lines) };
    }

    #[inline(always)]
    pub(super) fn load(from: &[Line], target: &mut [u8]) {
        let bytes = target.len().min(size_of_val(from));
        // SAFETY: both the lines and the target have at least `bytes` bytes. The target is borrowed exclusively, so
        // they do not overlap.
        unsafe { copy_apart(from.as_ptr().cast(), target.as_mut_ptr(), bytes) };
    }

    #[inline(always)]
    pub(super) fn copy(from: &[Line], to: &[Line]) {
        let bytes = size_of_val(from).min(size_of_val(to));
        // SAFETY: both ranges have at least `bytes` bytes, and consist of atomics.
        unsafe { copy_forward(from.as_ptr().cast(), to.as_ptr().cast(), bytes) };
    }

    /// Copies whole lines, in any order.
    ///
    /// # Safety
    /// Same as [`copy_forward`]; the ranges do not overlap.
    #[inline(always)]
    unsafe fn copy_apart(from: *const u8, to: *const u8, bytes: usize) {
        let steps = if bytes < LONG_COPY { 0 } else { bytes / STRING_STEP * STRING_STEP };
        // SAFETY: the conditions of the caller hold for both parts of the ranges.
        unsafe {
            copy_forward(from.add(steps), to.add(steps), bytes - steps);
            copy_forward(from, to, steps);
        }
    }

    /// Copies whole lines, the first one first.
    ///
    /// # Safety
    /// Both ranges are valid for `bytes` bytes, which are whole lines. The target is either borrowed exclusively or
    /// made of atomics. If others may write the source at the same time, it is made of atomics.
    #[inline(always)]
    unsafe fn copy_forward(from: *const u8, to: *const u8, bytes: usize) {
        if is_string(bytes) {
            // SAFETY: the caller guarantees what `move_string` requires of both ranges.
            return unsafe { move_string(from, to, bytes) };
        }
        // SAFETY: the caller guarantees what `move_lines` requires of both ranges.
        unsafe { move_lines(from, to, bytes / LINE_BYTES) };
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri), not(loom))))]
use words as bulk;

/// Copies of whole lines word by word.
#[cfg(any(test, not(target_arch = "x86_64"), miri, loom))]
mod words {
    use super::{LINE_BYTES, Line, Ordering};

    #[inline]
    pub(super) fn store(source: &[u8], to: &[Line]) {
        for (bytes, line) in source.as_chunks::<LINE_BYTES>().0.iter().zip(to) {
            super::store(bytes, &line.0);
        }
    }

    /// Stores as [`store`] does, because there is no way past the caches here.
    #[inline]
    pub(super) fn store_past_caches(source: &[u8], to: &[Line]) {
        store(source, to);
    }

    #[inline]
    pub(super) fn load(from: &[Line], target: &mut [u8]) {
        for (line, bytes) in from.iter().zip(target.as_chunks_mut::<LINE_BYTES>().0) {
            super::load(&line.0, bytes);
        }
    }

    #[inline]
    pub(super) fn copy(from: &[Line], to: &[Line]) {
        for (from, to) in from.iter().zip(to) {
            for (from, to) in from.0.iter().zip(&to.0) {
                to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn lines(count: usize) -> Vec<Line> {
        (0..count).map(|_| Line::new()).collect()
    }

    fn bytes(count: usize) -> Vec<u8> {
        (0..count).map(|index| (index % 251) as u8 + 1).collect()
    }

    #[test]
    fn what_was_put_is_got_at_every_length() {
        let lengths = if cfg!(miri) { 0..=2 * LINE_BYTES } else { 0..=50 * LINE_BYTES };
        for length in lengths {
            let source = bytes(length + 1);
            for put in [put, put_past_caches] {
                let there = lines(52);
                // Sources and targets need no alignment.
                put(&source[1..], &there[1..]);
                let mut target = vec![0xee; length + 2];
                get(&there[1..], &mut target[1..=length]);
                assert_eq!(target[1..=length], source[1..]);
                assert_eq!((target[0], target[length + 1]), (0xee, 0xee));
                // No other lines are written.
                let used = length.div_ceil(LINE_BYTES);
                let untouched = [0].into_iter().chain(used + 1..52);
                assert!(untouched.into_iter().all(|line| there[line].flag() == 0));
            }
        }
    }

    #[test]
    fn word_by_word_is_the_same() {
        for count in [0, 1, 2, 31, 32, 33] {
            let (there, source) = (lines(40), bytes(count * LINE_BYTES));
            words::store_past_caches(&source, &there[1..]);
            let mut target = vec![0; source.len()];
            get(&there[1..], &mut target);
            assert_eq!(target, source);
            words::copy(&there[1..=count], &there[2..]);
            bulk::load(&there[2..], &mut target);
            assert!(count == 0 || target == source[..LINE_BYTES].repeat(count));
            bulk::store(&source, &there);
            words::load(&there, &mut target);
            assert_eq!(target, source);
        }
    }

    #[test]
    fn lines_are_copied_the_first_one_first() {
        for (count, distance) in [(1, 1), (5, 9), (40, 50), (5, 1), (70, 1), (70, 3)] {
            for back in [false, true] {
                let there = lines(count + distance);
                put(&bytes(size_of_val(&there[..])), &there);
                let (from, to) = if back { (distance, 0) } else { (0, distance) };
                let mut expected = vec![0; size_of_val(&there[..])];
                get(&there, &mut expected);
                for byte in 0..count * LINE_BYTES {
                    expected[to * LINE_BYTES + byte] = expected[from * LINE_BYTES + byte];
                }
                copy(&there[from..from + count], &there[to..to + count]);
                let mut got = vec![0; expected.len()];
                get(&there, &mut got);
                assert!(got == expected, "{count} lines from {from} to {to}");
            }
        }
    }

    #[test]
    fn a_payload_goes_beside_its_flag() {
        let line = Line::new();
        line.set_flag(7);
        for length in 0..=PAYLOAD {
            let payload = bytes(length);
            line.set_payload(&payload);
            let mut got = vec![0; length];
            line.payload(&mut got);
            assert_eq!(got, payload);
            assert_eq!(line.flag(), 7);
        }
    }

    /// Under Miri, this test would report a data race.
    #[test]
    fn puts_and_gets_of_the_same_lines_are_no_race() {
        let there = lines(3);
        std::thread::scope(|scope| {
            for writer in 1..3u8 {
                let there = &there;
                scope.spawn(move || (0..50).for_each(|_| put(&[writer; 150], there)));
            }
            scope.spawn(|| (0..50).for_each(|_| copy(&there[..2], &there[1..])));
            for _ in 0..50 {
                let mut got = [9; 170];
                get(&there, &mut got);
                assert!(got.iter().all(|byte| *byte < 3));
                there[0].set_flag(0);
            }
        });
    }
}
