//! Names in shared memory, and the hashes by which what bears them is found.

use crate::sync::{AtomicU64, Ordering};

/// Up to eight times as many bytes; what is longer is cut.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Text<const WORDS: usize>([AtomicU64; WORDS]);

impl<const WORDS: usize> Text<WORDS> {
    pub(crate) fn write(&self, text: &str) {
        let mut bytes = text.bytes().chain(std::iter::repeat(0));
        for word in &self.0 {
            let chunk: [u8; 8] = std::array::from_fn(|_| bytes.next().unwrap_or(0));
            word.store(u64::from_ne_bytes(chunk), Ordering::Relaxed);
        }
    }

    pub(crate) fn read(&self) -> String {
        let bytes: Vec<u8> =
            self.0.iter().flat_map(|w| w.load(Ordering::Relaxed).to_ne_bytes()).collect();
        let len = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    }
}

/// FNV-1a, over words instead of bytes, with the upper bits mixed in.
pub(crate) fn hash(words: impl Iterator<Item = u64>) -> u64 {
    words.fold(0xcbf2_9ce4_8422_2325, |hash, word| {
        let mixed = (hash ^ word).wrapping_mul(0x0100_0000_01b3);
        mixed ^ (mixed >> 29)
    })
}
