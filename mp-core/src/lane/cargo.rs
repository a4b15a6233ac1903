//! The contents of a node: something that lends the message, or a buffer that moves.
//!
//! The server knows a cargo by its [`Verbs`]; the holder of the request knows its type.

use std::{borrow::Borrow, mem::ManuallyDrop, ptr::NonNull};

use crate::{
    buffer::SharedBuffer,
    channel::{Filled, Outlet, Position},
    error::Result,
    plain::{Message, Plain},
};

/// Number of words of cargo in a node: as many as its line has room for.
pub(super) const WORDS: usize = 5;

/// Something that can be sent as an `M`.
pub(super) trait Cargo<M: Message + ?Sized>: Sized {
    /// What the submitter gets back when it was sent.
    type Sent;
    /// What the submitter gets back when it was not.
    type Unsent;

    const VERBS: &'static Verbs;

    /// Checks whether it can go through this channel at all.
    fn check(&self, outlet: &Outlet<M>) -> Result<()>;

    /// Returns the number of bytes that the server will copy.
    fn weight(&self) -> usize;

    /// Sends it if that is possible now. When the answer is [`Filled::Yes`], `cargo` is a `Sent` from then on, and only
    /// [`sent`](Self::sent) may touch it.
    fn fill(
        cargo: &mut ManuallyDrop<Self>,
        outlet: &Outlet<M>,
        position: Position,
        room: &mut u64,
    ) -> Filled;

    /// # Safety
    /// `fill` has sent it.
    unsafe fn sent(cargo: ManuallyDrop<Self>) -> Self::Sent;

    fn unsent(self) -> Self::Unsent;
}

/// What the server does with the cargo at an address.
pub(super) struct Verbs {
    /// Sends it through the outlet at the second address.
    ///
    /// # Safety
    /// Both are what they were when the cargo was loaded.
    pub(super) fill: unsafe fn(NonNull<u8>, NonNull<()>, Position, &mut u64) -> Filled,
    /// Drops what is left of it after it was sent.
    ///
    /// # Safety
    /// It was sent, and nobody took what was left.
    pub(super) drop_sent: unsafe fn(NonNull<u8>),
    /// Drops it.
    ///
    /// # Safety
    /// It was not sent, and nobody took it.
    pub(super) drop_unsent: unsafe fn(NonNull<u8>),
}

/// A cargo that is sent by copying what it lends.
#[repr(transparent)]
pub(super) struct Copied<B>(pub(super) B);

/// A cargo that is sent by moving it.
#[repr(transparent)]
pub(super) struct Moved<T: Plain>(pub(super) SharedBuffer<T>);

impl<M: Message + ?Sized, B: Borrow<M>> Cargo<M> for Copied<B> {
    type Sent = B;
    type Unsent = B;

    const VERBS: &'static Verbs =
        &Verbs { fill: fill::<M, Self>, drop_sent: drop_at::<B>, drop_unsent: drop_at::<B> };

    fn check(&self, outlet: &Outlet<M>) -> Result<()> {
        outlet.check_len(self.0.borrow().elements().len())
    }

    fn weight(&self) -> usize {
        size_of_val(self.0.borrow().elements())
    }

    #[inline]
    fn fill(
        cargo: &mut ManuallyDrop<Self>,
        outlet: &Outlet<M>,
        position: Position,
        room: &mut u64,
    ) -> Filled {
        outlet.fill(position, room, cargo.0.borrow())
    }

    unsafe fn sent(cargo: ManuallyDrop<Self>) -> B {
        ManuallyDrop::into_inner(cargo).0
    }

    fn unsent(self) -> B {
        self.0
    }
}

impl<T: Plain> Cargo<[T]> for Moved<T> {
    type Sent = ();
    type Unsent = SharedBuffer<T>;

    const VERBS: &'static Verbs =
        &Verbs { fill: fill::<[T], Self>, drop_sent: |_| (), drop_unsent: drop_at::<Self> };

    fn check(&self, outlet: &Outlet<[T]>) -> Result<()> {
        outlet.check_buffer(&self.0)
    }

    fn weight(&self) -> usize {
        0
    }

    #[inline]
    fn fill(
        cargo: &mut ManuallyDrop<Self>,
        outlet: &Outlet<[T]>,
        position: Position,
        room: &mut u64,
    ) -> Filled {
        // SAFETY: whenever it is called the answer is `Yes`, and the cargo not touched any more.
        outlet.fill_moved(position, room, || unsafe { ManuallyDrop::take(cargo) }.0)
    }

    unsafe fn sent(_cargo: ManuallyDrop<Self>) {}

    fn unsent(self) -> SharedBuffer<T> {
        self.0
    }
}

/// Returns where a value lies that `load` put at the address.
///
/// # Safety
/// `load` put one there.
unsafe fn place<C>(at: NonNull<u8>) -> NonNull<C> {
    if fits::<C>() {
        at.cast()
    } else {
        // SAFETY: the caller's.
        unsafe { at.cast::<NonNull<C>>().read() }
    }
}

/// Puts a value into a node, or into a box whose address goes into the node.
///
/// # Safety
/// `at` is the cargo of a node to which the caller has exclusive access.
#[inline(always)]
pub(super) unsafe fn load<C>(at: NonNull<u8>, cargo: C) {
    // SAFETY: the caller's; `fits` says that there is room.
    unsafe {
        if fits::<C>() {
            at.cast::<C>().write(cargo);
        } else {
            at.cast::<NonNull<C>>().write(NonNull::from(Box::leak(Box::new(cargo))));
        }
    }
}

/// Takes a value out.
///
/// # Safety
/// `load` put a value of this type there, or one of which this is what is left. The caller has exclusive access to the
/// node, and nobody takes the value again.
#[inline(always)]
pub(super) unsafe fn unload<C>(at: NonNull<u8>) -> C {
    // SAFETY: the caller's; in the second case `load` made the box.
    unsafe {
        if fits::<C>() {
            at.cast::<C>().read()
        } else {
            *Box::from_raw(at.cast::<NonNull<C>>().read().as_ptr())
        }
    }
}

/// # Safety
/// Same as `Verbs::fill`.
unsafe fn fill<M: Message + ?Sized, C: Cargo<M>>(
    at: NonNull<u8>,
    outlet: NonNull<()>,
    position: Position,
    room: &mut u64,
) -> Filled {
    // SAFETY: the caller's; `ManuallyDrop` is laid out as what it holds.
    let (cargo, outlet) =
        unsafe { (place::<ManuallyDrop<C>>(at).as_mut(), outlet.cast::<Outlet<M>>().as_ref()) };
    C::fill(cargo, outlet, position, room)
}

/// # Safety
/// Same as `Verbs::drop_unsent`.
unsafe fn drop_at<C>(at: NonNull<u8>) {
    // SAFETY: the caller's.
    drop(unsafe { unload::<C>(at) });
}

/// Returns whether a value of this type lies in the node itself and not in a box.
const fn fits<T>() -> bool {
    size_of::<T>() <= 8 * WORDS && align_of::<T>() <= align_of::<u64>()
}
