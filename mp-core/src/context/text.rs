//! Names in shared memory, the namespaces that they belong to, and the hashes by which named objects are found.

use crate::sync::{AtomicU64, Ordering};

/// Text of up to eight bytes for each word. Longer text is cut off.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Text<const WORDS: usize>([AtomicU64; WORDS]);

impl<const WORDS: usize> Text<WORDS> {
    #[cfg(all(test, loom))]
    pub(crate) fn new() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }

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

/// A set of names. An object is found only by ranks that open its name in the same namespace. So an object of the
/// program is never mistaken for one that the library opens for itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Namespace(u64);

impl Namespace {
    /// The namespace of the names that programs give.
    pub(crate) const PROGRAM: Self = Self(0);

    /// Makes a namespace of the library's own, with a name of 1 to 8 bytes.
    ///
    /// # Panics
    /// Panics if the name is longer or empty. For a constant, this happens at compile time.
    pub const fn new(name: &str) -> Self {
        let mut word = [0; 8];
        let bytes = name.as_bytes();
        assert!(!bytes.is_empty() && bytes.len() <= word.len(), "a name of 1 to 8 bytes");
        let (start, _) = word.split_at_mut(bytes.len());
        start.copy_from_slice(bytes);
        Self(u64::from_ne_bytes(word))
    }

    pub(crate) const fn word(self) -> u64 {
        self.0
    }

    pub(crate) const fn from_word(word: u64) -> Self {
        Self(word)
    }
}

/// Hashes words with FNV-1a. The hash goes over words instead of bytes, and mixes in the upper bits.
pub(crate) fn hash(words: impl Iterator<Item = u64>) -> u64 {
    words.fold(0xcbf2_9ce4_8422_2325, |hash, word| {
        let mixed = (hash ^ word).wrapping_mul(0x0100_0000_01b3);
        mixed ^ (mixed >> 29)
    })
}
