//! Buffers in the world's memory that move between ranks by ownership.
//!
//! Sending a buffer through a channel moves a key of a few bytes; the elements stay where they are. This is message
//! passing at the speed of shared memory, made safe by ownership: at any time exactly one rank can touch the elements.

use std::{
    borrow::Borrow,
    fmt,
    ops::{Deref, DerefMut},
    ptr::NonNull,
    sync::Arc,
};

use crate::{
    context::{Context, HeldAt, Reserved},
    error::Result,
    plain::Plain,
    segment::{BlockKey, BlockKind, SegmentError},
};

/// Elements in the world's shared memory, owned by this rank.
///
/// [`Rank::buffer`](crate::Rank::buffer) and its siblings make a buffer, and
/// [`Sender::send_buffer`](crate::Sender::send_buffer) moves it. It is given back to the world when it is dropped,
/// wherever that is. The buffers of a rank that dies are given back on its behalf.
///
/// ```
/// use onchip::{Channel, World};
///
/// World::threads(2).run(|rank| {
///     if rank.id() == 0 {
///         let mut pages = rank.sender::<[u32]>("pages", 1, Channel::degree(2))?;
///         let mut page = rank.buffer_zeroed(1000)?;
///         page[7] = 7;
///         pages.send_buffer(page)?;
///     } else {
///         let pages = rank.receiver::<[u32]>("pages", 0, Channel::degree(2))?;
///         let mut page = pages.receive_buffer()?;
///         assert_eq!((page.len(), page[7]), (1000, 7));
///         page[7] += 1; // it is this rank's now
///     }
///     Ok(())
/// })?;
/// # Ok::<(), onchip::Error>(())
/// ```
pub struct SharedBuffer<T: Plain> {
    context: Arc<Context>,
    parts: Parts,
    first: NonNull<T>,
}

/// A prepared place for a buffer that is going to arrive. Each of its parts costs a locked instruction, which is better
/// spent while there is nothing else to do.
#[derive(Debug)]
pub(crate) struct Berth {
    context: Arc<Context>,
    entry: Reserved,
}

impl Berth {
    pub(crate) fn new(context: &Arc<Context>) -> Result<Self> {
        Ok(Self { context: Arc::clone(context), entry: context.reserve()? })
    }

    /// Takes possession of a buffer of `len` elements that came through a channel. If the key does not name such a
    /// buffer, returns an error and leaves the block alone.
    #[inline]
    pub(crate) fn take<T: Plain>(self, key: BlockKey, len: u64) -> Result<SharedBuffer<T>> {
        let (parts, first) = Parts::adopt(&self.context, self.entry, key, len)?;
        Ok(SharedBuffer { context: self.context, parts, first })
    }

    /// Does what [`take`](Self::take) does, for a caller that has the context already.
    pub(crate) fn take_parts<T: Plain>(
        self,
        key: BlockKey,
        len: u64,
    ) -> Result<(Parts, NonNull<T>)> {
        Parts::adopt(&self.context, self.entry, key, len)
    }

    /// Gives the berth up, because no buffer will come.
    pub(crate) fn leave(self) {
        self.context.unreserve(&self.entry);
    }
}

/// What a rank knows about a buffer that it holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts {
    key: BlockKey,
    held: HeldAt,
    len: usize,
}

impl Parts {
    /// Takes possession of a buffer of `len` elements that came through a channel.
    #[inline]
    fn adopt<T: Plain>(
        context: &Context,
        entry: Reserved,
        key: BlockKey,
        len: u64,
    ) -> Result<(Self, NonNull<T>)> {
        match Self::whole(context, key, len) {
            Ok(first) => Ok((Self { key, held: entry.hold(key), len: len as usize }, first)),
            Err(error) => {
                context.unreserve(&entry);
                Err(error)
            }
        }
    }

    /// Returns where the elements lie, after checking that `key` names a buffer with room for them.
    #[inline]
    fn whole<T: Plain>(context: &Context, key: BlockKey, len: u64) -> Result<NonNull<T>> {
        let room = context.segment.heap().check(key, BlockKind::Buffer)?;
        if len.checked_mul(size_of::<T>() as u64).is_none_or(|needed| needed > room) {
            return Err(context.segment.corrupt("a moved buffer", key.payload(), len).into());
        }
        Self::first(context, key, len as usize)
    }

    /// Records a new buffer, into which `len` elements fit, in the rank's tables.
    fn hold<T: Plain>(context: &Context, key: BlockKey, len: usize) -> Result<(Self, NonNull<T>)> {
        let first = Self::first(context, key, len)?;
        Ok((Self { key, held: context.hold(key)?, len }, first))
    }

    #[inline]
    fn first<T: Plain>(context: &Context, key: BlockKey, len: usize) -> Result<NonNull<T>> {
        let bytes = (len * size_of::<T>()) as u64;
        let first = context.segment.range(key.payload(), bytes, "a buffer")?.cast::<T>();
        if !first.is_aligned() {
            return Err(context.segment.corrupt("a buffer", key.payload(), bytes).into());
        }
        Ok(first)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Gives the buffer back to the world.
    pub(crate) fn free(self, context: &Context) {
        // The order matters if this rank dies between the two calls: a stale key in the table then frees nothing. In
        // the other order, a block would be left that is in no table.
        context.free(self.key);
        context.let_go(self.held);
    }
}

// SAFETY: the buffer owns its elements like a `Box<[T]>`, and `T: Plain` is `Send`. The context is made for several
// threads.
unsafe impl<T: Plain> Send for SharedBuffer<T> {}
// SAFETY: shared access only gives a `&[T]`, and `T: Plain` is `Sync`.
unsafe impl<T: Plain> Sync for SharedBuffer<T> {}

impl<T: Plain> SharedBuffer<T> {
    /// Allocates a buffer whose elements have the values that the memory had before.
    pub(crate) fn allocate(context: &Arc<Context>, len: usize) -> Result<Self> {
        if align_of::<T>() > BlockKey::ALIGN {
            return Err(
                SegmentError::Alignment { asked: align_of::<T>(), most: BlockKey::ALIGN }.into()
            );
        }
        let asked = (len as u64).saturating_mul(size_of::<T>() as u64);
        let key = context.allocate(BlockKind::Buffer, asked)?;
        let (parts, first) = Parts::hold(context, key, len).inspect_err(|_| context.free(key))?;
        context.segment.heap().settle(key)?;
        Ok(Self::from_parts(context, parts, first))
    }

    /// Makes the owner of the buffer that `parts` describe.
    #[inline]
    pub(crate) fn from_parts(context: &Arc<Context>, parts: Parts, first: NonNull<T>) -> Self {
        Self { context: Arc::clone(context), parts, first }
    }

    pub(crate) fn key(&self) -> BlockKey {
        self.parts.key
    }

    pub(crate) fn belongs_to(&self, context: &Context) -> bool {
        std::ptr::eq(&*self.context.segment, &*context.segment)
    }

    /// Ends this rank's possession of the buffer. Must be called after the key is written into a slot and before the
    /// slot is published.
    ///
    /// Returns the context, which must be dropped after publishing: decrementing its count takes a locked instruction,
    /// which waits until the core has the slot's line.
    #[inline]
    #[must_use]
    pub(crate) fn let_go(self) -> Arc<Context> {
        let this = std::mem::ManuallyDrop::new(self);
        this.context.let_go(this.parts.held);
        // SAFETY: `this` is not used again and its destructor does not run, so the context is not dropped twice.
        unsafe { std::ptr::read(&this.context) }
    }

    /// Fills a new buffer.
    pub(crate) fn fill_with(mut self, fill: impl FnOnce(&mut [T])) -> Self {
        fill(&mut self);
        self
    }

    /// Returns the same memory as a buffer of `len` elements of another type. The bytes of the buffer keep their
    /// values.
    ///
    /// ```
    /// let rank = onchip::World::solo()?;
    /// let bytes = rank.buffer_from(&[1u32, 2])?.recast::<u8>(8).map_err(drop).unwrap();
    /// assert_eq!(bytes[..], [1u32, 2].map(u32::to_ne_bytes).concat());
    /// assert!(bytes.recast::<u32>(3).is_err());
    /// # Ok::<(), onchip::Error>(())
    /// ```
    ///
    /// # Errors
    /// The buffer itself, when its memory is too small for that many elements, or not aligned for them.
    pub fn recast<U: Plain>(self, len: usize) -> Result<SharedBuffer<U>, Self> {
        let Ok(first) = Parts::whole::<U>(&self.context, self.parts.key, len as u64) else {
            return Err(self);
        };
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: `this` is not used again and its destructor does not run, so the context is not dropped twice.
        let context = unsafe { std::ptr::read(&this.context) };
        Ok(SharedBuffer { context, parts: Parts { len, ..this.parts }, first })
    }

    /// Makes the buffer shorter. The elements past `len` are no longer reachable. The buffer's place in memory keeps
    /// its size.
    ///
    /// Does nothing when the buffer is not longer than `len`.
    pub fn truncate(&mut self, len: usize) {
        self.parts.len = self.parts.len.min(len);
    }
}

impl<T: Plain> Deref for SharedBuffer<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: `Parts::first` has checked range and alignment, and any bits are a valid `T`. Only this rank owns the
        // elements, because a sender ends its possession before it publishes the buffer.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.parts.len) }
    }
}

impl<T: Plain> DerefMut for SharedBuffer<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`. Nobody else has a reference, because `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr(), self.parts.len) }
    }
}

impl<T: Plain> Borrow<[T]> for SharedBuffer<T> {
    fn borrow(&self) -> &[T] {
        self
    }
}

impl<T: Plain> AsRef<[T]> for SharedBuffer<T> {
    fn as_ref(&self) -> &[T] {
        self
    }
}

impl<T: Plain> AsMut<[T]> for SharedBuffer<T> {
    fn as_mut(&mut self) -> &mut [T] {
        self
    }
}

impl<T: Plain> Drop for SharedBuffer<T> {
    fn drop(&mut self) {
        self.parts.free(&self.context);
    }
}

impl<T: Plain + fmt::Debug> fmt::Debug for SharedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
