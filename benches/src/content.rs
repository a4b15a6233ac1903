//! The content of large messages. It is different every time, and is checked by its sum, or by stamps if passing over
//! the whole message would be most of the measured time.
//!
//! `benches/peers/rivals.c` does the same work for the MPIs.

/// Rewrites all of `words` with the content that belongs to `seed`.
pub fn fill(words: &mut [u64], seed: u64) {
    for (word, i) in words.iter_mut().zip(0u64..) {
        *word = seed.wrapping_add(i);
    }
}

/// Reads all of `words`.
pub fn sum(words: &[u64]) -> u64 {
    words.iter().fold(0, |sum, word| sum.wrapping_add(*word))
}

/// Returns the result of [`sum`] for `len` words filled with `seed`.
pub fn expected_sum(len: usize, seed: u64) -> u64 {
    let n = len as u64;
    let of_indices = if n.is_multiple_of(2) {
        (n / 2).wrapping_mul(n.wrapping_sub(1))
    } else {
        n.wrapping_mul((n - 1) / 2)
    };
    n.wrapping_mul(seed).wrapping_add(of_indices)
}

/// Returns whether `words` are what [`fill`] wrote for `seed`. All of them are read.
pub fn is_filled(words: &[u64], seed: u64) -> bool {
    sum(words) == expected_sum(words.len(), seed)
}

/// Returns the distance between stamped words, about a quarter of the message. The last word is stamped as well.
fn stamps(len: usize) -> usize {
    (len / 4).max(1)
}

/// Marks a message, from its first element to its last.
pub fn stamp<T: Copy>(elements: &mut [T], mark: T) {
    let step = stamps(elements.len());
    elements.iter_mut().step_by(step).for_each(|element| *element = mark);
    if let Some(last) = elements.last_mut() {
        *last = mark;
    }
}

/// Returns whether `elements` were marked with `mark` by [`stamp`].
pub fn is_stamped<T: Copy + PartialEq>(elements: &[T], mark: T) -> bool {
    let first = elements.iter().step_by(stamps(elements.len()));
    first.chain(elements.last()).fold(true, |right, element| right & (*element == mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_on_both_ends_and_between() {
        for len in (0..20).chain([127, 128, 129]) {
            let mut words = vec![7; len];
            stamp(&mut words, 8);
            assert!(is_stamped(&words, 8));
            assert_eq!(is_stamped(&words, 7), len == 0);
            for missing in [0, len / 4, len / 2, len.saturating_sub(1)] {
                let mut torn = words.clone();
                let Some(word) = torn.get_mut(missing - missing % stamps(len)) else { continue };
                *word = 7;
                assert!(!is_stamped(&torn, 8), "word {missing} of {len}");
            }
            if let Some(last) = words.last_mut() {
                *last = 7;
                assert!(!is_stamped(&words, 8));
            }
        }
    }

    #[test]
    fn sums_of_any_length() {
        for len in [0, 1, 2, 3, 1000] {
            let mut words = vec![0; len];
            fill(&mut words, !5);
            assert!(is_filled(&words, !5));
            assert_eq!(is_filled(&words, 6), len == 0);
        }
    }
}
