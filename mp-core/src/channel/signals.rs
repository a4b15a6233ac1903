//! The two words through which the ends of a channel call each other.
//!
//! | bit | raised by | means to the end that looks |
//! |---|---|---|
//! | `PARKED` | the other end, before it sleeps | ring its doorbell after your next move |
//! | `GONE` | the rank that closes or buries the other end | nothing more comes: see the descriptor |
//! | `MISMATCH` | the other end, when it opens | types or degrees differ: see the descriptor |
//!
//! Each word has its own pair of lines and is almost never written, so that looking costs a hit
//! in the first-level cache. Beside it lies a number that the other end leaves there: its *notice*.

use std::ptr::NonNull;

use crossbeam_utils::CachePadded;

use crate::{
    sync::{AtomicU32, AtomicU64, Ordering, compiler_fence},
    wait::{Asymmetry, Flag},
};

const PARKED: u32 = 1;
const GONE: u32 = 2;
const MISMATCH: u32 = 4;

/// The word of one end, and what the other end has left for it. See the [module](self).
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Signal {
    word: AtomicU32,
    notice: AtomicU64,
}

/// What an end looks at after each message. It is the end's own word, and only the compiler is kept from reordering the
/// look. In a world whose fences are ordinary ones it is a word that is never quiet. So the fence is on the path of the
/// ends that have something to attend to, and costs the others nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Glance(NonNull<Signal>);

impl Glance {
    /// # Safety
    /// The signal stays where it is as long as the value is used.
    pub(crate) unsafe fn at(signal: &Signal, asymmetry: Asymmetry) -> Self {
        Self(if asymmetry.uses_membarrier() { NonNull::from(signal) } else { loud() })
    }

    /// Returns whether there is certainly nothing to attend to. If there may be something, the end looks at its signal,
    /// behind [`Asymmetry::light`].
    #[inline(always)]
    pub(crate) fn quiet(self) -> bool {
        compiler_fence(Ordering::SeqCst);
        // SAFETY: valid by the promise of `at`, or a static.
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

    /// Returns what the other end has left here, or 0.
    #[inline(always)]
    pub(crate) fn notice(&self) -> u64 {
        // Relaxed: it says nothing of other memory. A sender that takes a slot which the receiver gave
        // back after the notice sees it: the slot's Acquire in `Ring::room` brings it along.
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

    /// Returns whether the channel can't be used any further.
    #[inline(always)]
    pub(crate) fn ended(&self) -> bool {
        // Acquire: pairs with the Release in `raise_gone`, so that what the other end published
        // before it went is seen by a look after this one.
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
        // Release: pairs with the Acquire in `mismatched` and `ended`: the other end's
        // specification is in the descriptor before the bit.
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

/// The word of a channel with several ranks at the other end. A rank that stops waiting must not lower the flag for the
/// others: a flag that is left up costs one needless ring.
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

#[cfg(all(test, loom))]
impl Signals {
    pub(crate) fn new() -> Self {
        Self {
            for_sender: CachePadded::new(Signal::new()),
            for_receiver: CachePadded::new(Signal::new()),
        }
    }
}
