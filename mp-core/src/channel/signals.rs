//! The two words through which the ends of a channel call each other.
//!
//! | bit | raised by | means to the end that looks |
//! |---|---|---|
//! | `PARKED` | the other end, before it sleeps | ring its doorbell after your next move |
//! | `GONE` | the rank that closes or buries the other end | nothing more comes: see the descriptor |
//! | `MISMATCH` | the other end, when it opens | types or degrees differ: see the descriptor |
//!
//! Each word has its own pair of lines and is almost never written, so that a look costs one hit in the first-level
//! cache. Beside the word lies a number that the other end leaves there: its *notice*.

use std::ptr::NonNull;

use crossbeam_utils::CachePadded;

use crate::{
    sync::{AtomicU32, AtomicU64, Ordering, compiler_fence},
    wait::{Asymmetry, Flag},
};

const PARKED: u32 = 1;
const GONE: u32 = 2;
const MISMATCH: u32 = 4;

/// The word of one end, and the notice that the other end has left for it. See the [module](self).
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Signal {
    word: AtomicU32,
    notice: AtomicU64,
}

/// The word that an end looks at after each message. With asymmetric fences it is the end's own word, and only the
/// compiler is kept from reordering the look. With ordinary fences it is a word that is never quiet, so that the end
/// always takes the path that has the fence. So the common path needs no fence of the processor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Glance(NonNull<Signal>);

impl Glance {
    /// # Safety
    /// The signal stays valid at this address as long as the value is used.
    pub(crate) unsafe fn at(signal: &Signal, asymmetry: Asymmetry) -> Self {
        Self(if asymmetry.uses_membarrier() { NonNull::from(signal) } else { loud() })
    }

    /// Returns true if there is certainly nothing to attend to. Otherwise the end must look at its signal, after
    /// [`Asymmetry::light`].
    #[inline(always)]
    pub(crate) fn quiet(self) -> bool {
        compiler_fence(Ordering::SeqCst);
        // SAFETY: the caller of `at` guarantees that the signal is valid, or it is a static one.
        unsafe { self.0.as_ref() }.quiet()
    }
}

#[cfg(not(loom))]
fn loud() -> NonNull<Signal> {
    static LOUD: Signal = Signal { word: AtomicU32::new(PARKED), notice: AtomicU64::new(0) };
    NonNull::from(&LOUD)
}

#[cfg(loom)]
fn loud() -> NonNull<Signal> {
    let loud = Signal::new();
    loud.raise();
    NonNull::from(Box::leak(Box::new(loud)))
}

impl Signal {
    pub(crate) fn new() -> Self {
        Self { word: AtomicU32::new(0), notice: AtomicU64::new(0) }
    }

    /// Returns the number that the other end has left here, or 0.
    #[inline(always)]
    pub(crate) fn notice(&self) -> u64 {
        // Relaxed: the notice orders no other memory. A sender that takes a slot which the receiver gave back after the
        // notice also sees the notice, because of the Acquire in `Ring::room`.
        self.notice.load(Ordering::Relaxed)
    }

    /// Sets the [`notice`](Self::notice).
    pub(crate) fn set_notice(&self, notice: u64) {
        self.notice.store(notice, Ordering::Relaxed);
    }

    /// Returns whether there is nothing to attend to.
    #[inline(always)]
    pub(crate) fn quiet(&self) -> bool {
        self.word.load(Ordering::Relaxed) == 0
    }

    /// Returns whether the other end has asked to be woken, for reports.
    pub(crate) fn is_parked(&self) -> bool {
        self.word.load(Ordering::Relaxed) & PARKED != 0
    }

    /// Returns whether the channel can't be used any further.
    #[inline(always)]
    pub(crate) fn ended(&self) -> bool {
        // Acquire: pairs with the Release in `raise_gone`: a look after this one sees all that the other end published
        // before it was gone.
        self.word.load(Ordering::Acquire) & (GONE | MISMATCH) != 0
    }

    pub(crate) fn mismatched(&self) -> bool {
        self.word.load(Ordering::Acquire) & MISMATCH != 0
    }

    pub(crate) fn raise_gone(&self) {
        // Release: pairs with the Acquire in `ended`.
        self.word.fetch_or(GONE, Ordering::Release);
    }

    pub(crate) fn raise_mismatch(&self) {
        // Release: pairs with the Acquire in `mismatched` and `ended`: an end that sees the bit sees the other end's
        // specification in the descriptor.
        self.word.fetch_or(MISMATCH, Ordering::Release);
    }

    /// Lowers `PARKED`. Returns whether it was raised, so that the other end must be rung.
    #[cold]
    pub(crate) fn take_parked(&self) -> bool {
        self.word.load(Ordering::Relaxed) & PARKED != 0
            && self.word.fetch_and(!PARKED, Ordering::Relaxed) & PARKED != 0
    }
}

impl Flag for Signal {
    fn raise(&self) {
        self.word.fetch_or(PARKED, Ordering::Relaxed);
    }

    fn lower(&self) {
        self.word.fetch_and(!PARKED, Ordering::Relaxed);
    }
}

/// The flag of a channel end that several ranks or threads share. One that stops waiting must not lower the flag for
/// the others. A flag that stays up costs only one needless ring.
#[derive(Debug)]
pub(crate) struct Sticky<'a>(pub(crate) &'a Signal);

impl Flag for Sticky<'_> {
    fn raise(&self) {
        self.0.raise();
    }

    fn lower(&self) {}
}

/// Both words of a channel.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Signals {
    /// The word at which senders look.
    pub(crate) for_sender: CachePadded<Signal>,
    /// The word at which receivers look.
    pub(crate) for_receiver: CachePadded<Signal>,
}

impl Signals {
    #[cfg(all(test, loom))]
    pub(crate) fn new() -> Self {
        Self {
            for_sender: CachePadded::new(Signal::new()),
            for_receiver: CachePadded::new(Signal::new()),
        }
    }

    /// Tells both ends that their specifications differ.
    pub(crate) fn raise_mismatch(&self) {
        self.for_sender.raise_mismatch();
        self.for_receiver.raise_mismatch();
    }
}
