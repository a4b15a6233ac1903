//! A word of shared memory for use by other crates of the library.

#[cfg(loom)]
use crate::sync::life::arrives;
use crate::sync::{AtomicU64, Ordering, compiler_fence};

/// Returns whether a store has its effect. In models, a thread may die at any store.
#[cfg(not(loom))]
const fn arrives() -> bool {
    true
}

#[cfg(loom)]
loom::thread_local! {
    /// Stores that this thread has streamed and not settled. They become visible as late as possible.
    static STREAMED: std::cell::RefCell<Vec<(*const Word, u64)>> = Default::default();
}

/// A word that several ranks read and write, from which other crates of the library build algorithms. A zeroed word is
/// valid.
#[derive(Debug)]
#[repr(transparent)]
pub struct Word(AtomicU64);

impl Word {
    /// Makes a word that lies in no world.
    pub fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    /// Reads the word. The caller then sees everything that was done before the [`store`](Self::store) of the value
    /// read.
    #[inline(always)]
    pub fn load(&self) -> u64 {
        // Acquire: pairs with the Release in `store`, and in the methods that change the word.
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
            // Release: pairs with the Acquire in `load`, and in the methods that change the word.
            self.0.store(value, Ordering::Release);
        }
    }

    /// Writes the word, after everything that was done before. A rank that finds this rank dead, and sees something
    /// that this rank did afterwards, also sees this write.
    #[inline(always)]
    pub fn note(&self, value: u64) {
        self.store(value);
        // If a thread is killed, the processor does not lose a store while it keeps a later one. So only the compiler
        // must be kept from reordering the two.
        compiler_fence(Ordering::SeqCst);
    }

    /// Writes the word, without ordering.
    #[inline(always)]
    pub fn store_relaxed(&self, value: u64) {
        if arrives() {
            self.0.store(value, Ordering::Relaxed);
        }
    }

    /// Writes the word past the caches, and leaves its line in none of them. On processors that have such a store, the
    /// write is not ordered with other writes, and [`settle`] must be called to make it visible. On other processors,
    /// this is an ordinary store. In models, the write does not happen before [`settle`].
    #[inline(always)]
    pub fn stream(&self, value: u64) {
        // SAFETY: this is an aligned word, which everyone accesses by single instructions only. The compiler must
        // assume that the assembly accesses it in any way.
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

    /// Swaps the word, and returns its old value. The caller then sees everything that was done before that value was
    /// written. The write comes after everything that the caller did before. The same holds for the other methods that
    /// change the word.
    #[inline(always)]
    pub fn swap(&self, value: u64) -> u64 {
        if arrives() { self.0.swap(value, Ordering::AcqRel) } else { self.load_relaxed() }
    }

    /// Adds to the word, and returns its old value.
    #[inline(always)]
    pub fn fetch_add(&self, value: u64) -> u64 {
        if arrives() { self.0.fetch_add(value, Ordering::AcqRel) } else { self.load_relaxed() }
    }

    /// Sets the word to `new` if its value is `current`.
    ///
    /// # Errors
    /// The value that the word had instead.
    #[inline(always)]
    pub fn compare_exchange(&self, current: u64, new: u64) -> Result<(), u64> {
        if !arrives() {
            // A dead thread must unwind and not wait, so its exchange seems to succeed.
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
        // SAFETY: a model keeps the words to which it has streamed until it settles.
        unsafe { &*word }.store(value);
    }
    // SAFETY: the instruction only orders and completes this core's stores.
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
