//! A word of shared memory for use by other crates of the library.

#[cfg(loom)]
use crate::sync::life::arrives;
use crate::sync::{AtomicU64, Ordering, compiler_fence};

/// In models, a store may be the moment of a thread's death.
#[cfg(not(loom))]
const fn arrives() -> bool {
    true
}

#[cfg(loom)]
loom::thread_local! {
    /// Stores that this thread has streamed and not settled: they become visible as late as possible.
    static STREAMED: std::cell::RefCell<Vec<(*const Word, u64)>> = Default::default();
}

/// A word that several ranks read and write, from which other crates of the library build algorithms. A zeroed word is
/// valid.
#[derive(Debug)]
#[repr(transparent)]
pub struct Word(AtomicU64);

impl Word {
    /// Makes a word outside of every world.
    pub fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    /// Reads the word, and sees everything that was done before the [`store`](Self::store) of the value it reads.
    #[inline(always)]
    pub fn load(&self) -> u64 {
        // Acquire: pairs with the Release in `store` and in what changes.
        self.0.load(Ordering::Acquire)
    }

    /// Reads the word, without ordering.
    #[inline(always)]
    pub fn load_relaxed(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Writes the word, after everything that was done before.
    #[inline(always)]
    pub fn store(&self, value: u64) {
        if arrives() {
            // Release: pairs with the Acquire in `load` and in what changes.
            self.0.store(value, Ordering::Release);
        }
    }

    /// Writes the word, after everything that was done before. A rank that finds this rank dead, and sees something
    /// that this rank did afterwards, also sees this write.
    #[inline(always)]
    pub fn note(&self, value: u64) {
        self.store(value);
        // The processor gives up nothing of a killed thread that came before what it keeps. So it
        // is for the compiler to leave the two in order.
        compiler_fence(Ordering::SeqCst);
    }

    /// Writes the word, without ordering.
    #[inline(always)]
    pub fn store_relaxed(&self, value: u64) {
        if arrives() {
            self.0.store(value, Ordering::Relaxed);
        }
    }

    /// Writes the word past the caches, and leaves the line in none of them. On processors that have such a store, the
    /// write is not ordered after earlier writes, but happens at some time; [`settle`] makes sure of that. On other
    /// processors, this is an ordinary store. In models, it does not happen before [`settle`].
    #[inline(always)]
    pub fn stream(&self, value: u64) {
        // SAFETY: an aligned word that nobody reads or writes but by single instructions. To the
        // compiler the assembly may be any access to it.
        #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
        unsafe {
            std::arch::asm!("movnti [{0}], {1}", in(reg) self.0.as_ptr(), in(reg) value,
                options(nostack, preserves_flags));
        }
        #[cfg(not(any(all(target_arch = "x86_64", not(miri)), loom)))]
        self.store(value);
        #[cfg(loom)]
        STREAMED.with(|streamed| streamed.borrow_mut().push((std::ptr::from_ref(self), value)));
    }

    /// Swaps the word, and returns its old value. Sees everything that was done before that value was written, and
    /// comes after everything that was done before, as do the other methods that change the word.
    #[inline(always)]
    pub fn swap(&self, value: u64) -> u64 {
        if arrives() { self.0.swap(value, Ordering::AcqRel) } else { self.load_relaxed() }
    }

    /// Adds to the word, and returns its old value.
    #[inline(always)]
    pub fn fetch_add(&self, value: u64) -> u64 {
        if arrives() { self.0.fetch_add(value, Ordering::AcqRel) } else { self.load_relaxed() }
    }

    /// Sets the word if it is `current`.
    ///
    /// # Errors
    /// The value that the word had instead.
    #[inline(always)]
    pub fn compare_exchange(&self, current: u64, new: u64) -> Result<(), u64> {
        if !arrives() {
            // A ghost waits for nobody.
            return Ok(());
        }
        let exchanged = self.0.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire);
        exchanged.map(drop)
    }
}

/// Makes stores that were [streamed](Word::stream) visible soon. Without this call they need not become visible.
#[inline]
pub fn settle() {
    #[cfg(loom)]
    for (word, value) in STREAMED.with(|streamed| streamed.take()) {
        // SAFETY: a model settles while it has the words that it has streamed to.
        unsafe { &*word }.store(value);
    }
    // SAFETY: orders and completes this core's stores, and touches nothing.
    #[cfg(all(target_arch = "x86_64", not(miri), not(loom)))]
    unsafe {
        std::arch::asm!("sfence", options(nostack, preserves_flags));
    }
}

/// A full fence, for models of waits.
#[cfg(loom)]
pub fn full_fence() {
    crate::sync::fence(Ordering::SeqCst);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_what_was_written_last() {
        let word = Word::new(3);
        word.stream(4);
        settle();
        assert_eq!((word.swap(5), word.fetch_add(2), word.load_relaxed()), (4, 5, 7));
        assert_eq!((word.compare_exchange(6, 9), word.compare_exchange(7, 9)), (Err(7), Ok(())));
        word.store_relaxed(1);
        word.note(word.load() + 1);
        assert_eq!(word.load(), 2);
    }
}
