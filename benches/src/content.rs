//! The content of large messages: another one every time, and checked by its sum.
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

/// What [`sum`] gives for `len` words filled with `seed`.
pub fn expected_sum(len: usize, seed: u64) -> u64 {
    let n = len as u64;
    let of_indices = if n.is_multiple_of(2) {
        (n / 2).wrapping_mul(n.wrapping_sub(1))
    } else {
        n.wrapping_mul((n - 1) / 2)
    };
    n.wrapping_mul(seed).wrapping_add(of_indices)
}

/// Whether `words`, all of them read, are what [`fill`] wrote for `seed`.
pub fn is_filled(words: &[u64], seed: u64) -> bool {
    sum(words) == expected_sum(words.len(), seed)
}
