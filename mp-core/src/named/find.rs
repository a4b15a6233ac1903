//! How a rank finds a named object, or makes it.

use super::{
    object::{Named, Object},
    title::Name,
};
use crate::{
    context::Context,
    segment::{LockedHeap, SegmentError},
};

/// Returns the oldest object of this name that suits this rank. The order of the heap's lists does not matter.
pub(crate) fn find<'a, T: Named>(
    context: &'a Context,
    heap: &LockedHeap<'_>,
    name: Name<'_>,
    suits: impl Fn(&T) -> bool,
) -> Result<Option<Object<'a, T>>, SegmentError> {
    let mut oldest: Option<Object<'a, T>> = None;
    for block in heap.by_hash(name.hash)?.iter().filter(|block| block.kind == T::KIND) {
        let found = Object::<T>::at(context, block.key)?;
        let older = |than: &Object<'_, T>| found.title().serial() < than.title().serial();
        if suits(&found) && found.title().is(name) && oldest.as_ref().is_none_or(older) {
            oldest = Some(found);
        }
    }
    Ok(oldest)
}

/// What [`find_or_make`] returns: the locked heap, the object, and whether it was made just now.
type FoundOrMade<'a, T> = (LockedHeap<'a>, Object<'a, T>, bool);

/// Returns the object that `find` finds, or else the object that `make` makes. In both cases, the heap's lock is held
/// at the end. `make` runs without the lock, because filling the pages of a large block takes long; `publish` then lets
/// other ranks find the object. With `alone`, one rank makes the object while the others sleep until they find it. This
/// is for large objects that all ranks need at the same time.
pub(crate) fn find_or_make<'a, T>(
    context: &'a Context,
    alone: bool,
    find: impl Fn(&LockedHeap<'_>) -> Result<Option<Object<'a, T>>, SegmentError>,
    make: impl FnOnce() -> Result<Object<'a, T>, SegmentError>,
    publish: impl FnOnce(&mut LockedHeap<'_>, &Object<'a, T>) -> Result<(), SegmentError>,
) -> Result<FoundOrMade<'a, T>, SegmentError> {
    let heap = context.lock_heap()?;
    if let Some(found) = find(&heap)? {
        return Ok((heap, found, false));
    }
    drop(heap);
    if alone {
        let _alone = context.make_alone()?;
        return find_or_make(context, false, find, make, publish);
    }
    let made = make()?;
    let mut heap = context.lock_heap()?;
    match find(&heap) {
        Ok(None) => publish(&mut heap, &made)?,
        // Another rank was faster, or the heap is broken.
        other => {
            heap.free(made.key)?;
            if let Some(found) = other? {
                return Ok((heap, found, false));
            }
        }
    }
    Ok((heap, made, true))
}
