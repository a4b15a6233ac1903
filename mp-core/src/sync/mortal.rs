//! Atomics whose user can be made to [die](super::life) at any store.

use std::sync::atomic::{self, Ordering};

use super::life::arrives;

macro_rules! mortal {
    ($name:ident, $word:ty) => {
        #[derive(Debug, Default)]
        #[repr(transparent)]
        pub(crate) struct $name(atomic::$name);

        #[allow(dead_code, reason = "both words have the same methods")]
        impl $name {
            pub(crate) const fn new(word: $word) -> Self {
                Self(atomic::$name::new(word))
            }

            pub(crate) fn load(&self, order: Ordering) -> $word {
                self.0.load(order)
            }

            pub(crate) fn store(&self, word: $word, order: Ordering) {
                if arrives() {
                    self.0.store(word, order);
                }
            }

            fn change(&self, order: Ordering, new: impl Fn($word) -> $word) -> $word {
                if !arrives() {
                    return self.load(Ordering::Relaxed);
                }
                let changed = self.0.fetch_update(order, Ordering::Relaxed, |old| Some(new(old)));
                changed.unwrap_or_else(|old| old)
            }

            pub(crate) fn swap(&self, word: $word, order: Ordering) -> $word {
                self.change(order, |_| word)
            }

            pub(crate) fn fetch_add(&self, more: $word, order: Ordering) -> $word {
                self.change(order, |old| old.wrapping_add(more))
            }

            pub(crate) fn fetch_sub(&self, less: $word, order: Ordering) -> $word {
                self.change(order, |old| old.wrapping_sub(less))
            }

            pub(crate) fn fetch_or(&self, bits: $word, order: Ordering) -> $word {
                self.change(order, |old| old | bits)
            }

            pub(crate) fn fetch_and(&self, bits: $word, order: Ordering) -> $word {
                self.change(order, |old| old & bits)
            }

            pub(crate) fn compare_exchange(
                &self,
                old: $word,
                new: $word,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$word, $word> {
                if arrives() {
                    self.0.compare_exchange(old, new, success, failure)
                } else {
                    // A dead thread must unwind and not wait, so its exchange seems to succeed.
                    Ok(old)
                }
            }

            pub(crate) fn compare_exchange_weak(
                &self,
                old: $word,
                new: $word,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$word, $word> {
                self.compare_exchange(old, new, success, failure)
            }

            pub(crate) fn as_ptr(&self) -> *mut $word {
                self.0.as_ptr()
            }
        }
    };
}

mortal!(AtomicU32, u32);
mortal!(AtomicU64, u64);
