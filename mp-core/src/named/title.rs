//! The names of objects.

use crate::{
    context::{Namespace, Text, hash},
    sync::{AtomicU64, Ordering},
};

/// The most bytes of a name.
pub(crate) const NAME: usize = 64;

/// A name in a namespace, and the hash by which objects of this name are found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name<'a> {
    namespace: Namespace,
    text: &'a str,
    pub(super) hash: u64,
}

impl<'a> Name<'a> {
    pub(crate) fn new(namespace: Namespace, text: &'a str) -> Self {
        let words = std::iter::once(namespace.word()).chain(text.bytes().map(u64::from));
        Self { namespace, text, hash: hash(words) }
    }

    /// Returns the same name with a hash that also covers `words`, for objects that their names alone don't
    /// distinguish.
    pub(crate) fn of(self, words: impl Iterator<Item = u64>) -> Self {
        Self { hash: hash(std::iter::once(self.hash).chain(words)), ..self }
    }

    /// Returns whether the name has 1 to [`NAME`] bytes, none of them zero.
    pub(crate) fn is_valid(self) -> bool {
        (1..=NAME).contains(&self.text.len()) && !self.text.contains('\0')
    }
}

/// The name of an object in the segment.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Title {
    /// A [`Namespace`]'s word.
    namespace: AtomicU64,
    name: Text<{ NAME / 8 }>,
    /// The number of objects that the world made before this one.
    pub(super) serial: AtomicU64,
}

impl Title {
    #[cfg(all(test, loom))]
    pub(crate) fn new() -> Self {
        Self { namespace: AtomicU64::new(0), name: Text::new(), serial: AtomicU64::new(0) }
    }

    pub(super) fn write(&self, name: Name<'_>) {
        self.namespace.store(name.namespace.word(), Ordering::Relaxed);
        self.name.write(name.text);
    }

    pub(super) fn is(&self, name: Name<'_>) -> bool {
        self.namespace.load(Ordering::Relaxed) == name.namespace.word() && self.name() == name.text
    }

    pub(crate) fn namespace(&self) -> Namespace {
        Namespace::from_word(self.namespace.load(Ordering::Relaxed))
    }

    pub(crate) fn name(&self) -> String {
        self.name.read()
    }

    pub(crate) fn serial(&self) -> u64 {
        self.serial.load(Ordering::Relaxed)
    }
}
