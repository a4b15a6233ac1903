//! Atomics whose user can be made to die at any store, for tests of what a killed rank leaves
//! behind.
//!
//! A dead thread unwinds, since a test must go on; but it is a ghost: nothing that it still stores
//! arrives, so that shared memory stays as a kill would have left it.

use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::atomic::{self, Ordering},
};

#[derive(Clone, Copy)]
enum Life {
    Immortal,
    /// Dies at the store after so many.
    Left(u64),
    Ghost,
}

thread_local! {
    static LIFE: Cell<Life> = const { Cell::new(Life::Immortal) };
}

struct Death;

/// Runs `act` and kills it instead of its store number `stores` (from 0). Whether it lived to its
/// end.
pub(crate) fn live_for(stores: u64, act: impl FnOnce()) -> bool {
    LIFE.set(Life::Left(stores));
    let ended = catch_unwind(AssertUnwindSafe(act));
    LIFE.set(Life::Immortal);
    match ended {
        Ok(()) => true,
        Err(payload) if payload.is::<Death>() => false,
        Err(payload) => resume_unwind(payload),
    }
}

/// Whether a store may arrive.
fn arrives() -> bool {
    match LIFE.get() {
        Life::Immortal => true,
        Life::Left(0) => {
            LIFE.set(Life::Ghost);
            // Not `panic!`: nothing is to be printed.
            resume_unwind(Box::new(Death))
        }
        Life::Left(more) => {
            LIFE.set(Life::Left(more - 1));
            true
        }
        Life::Ghost => false,
    }
}

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
                    // A ghost waits for nobody.
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
