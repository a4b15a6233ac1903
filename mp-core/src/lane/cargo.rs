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
    /// What the submitter gets back when the cargo was sent.
    type Sent;
    /// What the submitter gets back when the cargo was not sent.
    type Unsent;

    const VERBS: &'static Verbs;

    /// Checks whether the cargo can go through this channel at all.
    fn check(&self, outlet: &Outlet<M>) -> Result<()>;

    /// Returns the number of bytes that the server will copy.
    fn weight(&self) -> usize;

    /// Sends the cargo if that is possible now. After [`Filled::Yes`], `cargo` holds a `Sent`, and only
    /// [`sent`](Self::sent) may use it.
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

/// What the server can do with the cargo at an address.
pub(super) struct Verbs {
    /// Sends the cargo at the first address through the outlet at the second address.
    ///
    /// # Safety
    /// The cargo is as `load` left it, and the outlet is that of the cargo's lane.
    pub(super) fill: unsafe fn(NonNull<u8>, NonNull<()>, Position, &mut u64) -> Filled,
    /// Drops what is left of the cargo after it was sent.
    ///
    /// # Safety
    /// The cargo was sent, and nobody has taken what was left of it.
    pub(super) drop_sent: unsafe fn(NonNull<u8>),
    /// Drops the cargo.
    ///
    /// # Safety
    /// The cargo was not sent, and nobody has taken it.
    pub(super) drop_unsent: unsafe fn(NonNull<u8>),
}

/// A cargo that is sent by copying the message that it lends.
#[repr(transparent)]
pub(super) struct Copied<B>(pub(super) B);

/// A buffer that is sent by moving it.
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
        // SAFETY: `fill_moved` calls this at most once, and then answers `Yes`. After `Yes` nobody takes the buffer out
        // of the cargo again.
        outlet.fill_moved(position, room, || unsafe { ManuallyDrop::take(cargo) }.0)
    }

    unsafe fn sent(_cargo: ManuallyDrop<Self>) {}

    fn unsent(self) -> SharedBuffer<T> {
        self.0
    }
}

/// Returns the address of the value that `load` put into the node's cargo at `at`.
///
/// # Safety
/// `load` has put a value of type `C` there.
unsafe fn place<C>(at: NonNull<u8>) -> NonNull<C> {
    if fits::<C>() {
        at.cast()
    } else {
        // SAFETY: the caller guarantees that `load` wrote there. For a `C` that does not fit, `load` wrote the address
        // of a box.
        unsafe { at.cast::<NonNull<C>>().read() }
    }
}

/// Puts a value into a node, or into a box whose address it puts into the node.
///
/// # Safety
/// `at` is the cargo of a node to which the caller has exclusive access.
#[inline(always)]
pub(super) unsafe fn load<C>(at: NonNull<u8>, cargo: C) {
    // SAFETY: the caller has exclusive access to the cargo. `fits` guarantees room and alignment for `C`, and an
    // address always fits.
    unsafe {
        if fits::<C>() {
            at.cast::<C>().write(cargo);
        } else {
            at.cast::<NonNull<C>>().write(NonNull::from(Box::leak(Box::new(cargo))));
        }
    }
}

/// Takes the value out of a node.
///
/// # Safety
/// `load` put a value of this type there, or one of which a `C` is left after the send. The caller has exclusive access
/// to the node, and nobody takes the value again.
#[inline(always)]
pub(super) unsafe fn unload<C>(at: NonNull<u8>) -> C {
    // SAFETY: the caller guarantees that `load` put such a value there and that this takes it for the only time. If `C`
    // does not fit, `load` wrote the address of a box that it had leaked.
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
    // SAFETY: the caller guarantees that `load` put a `C` there, which has the layout of `ManuallyDrop<C>`, and that
    // `outlet` leads to an `Outlet<M>`. The caller has exclusive access to the cargo.
    let (cargo, outlet) =
        unsafe { (place::<ManuallyDrop<C>>(at).as_mut(), outlet.cast::<Outlet<M>>().as_ref()) };
    C::fill(cargo, outlet, position, room)
}

/// # Safety
/// Same as `Verbs::drop_unsent`.
unsafe fn drop_at<C>(at: NonNull<u8>) {
    // SAFETY: the caller guarantees that a `C` is there and that nobody has taken it.
    drop(unsafe { unload::<C>(at) });
}

/// Returns whether a value of this type fits into the node itself. Otherwise it lies in a box.
const fn fits<T>() -> bool {
    size_of::<T>() <= 8 * WORDS && align_of::<T>() <= align_of::<u64>()
}
