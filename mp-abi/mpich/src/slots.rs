//! The objects of one kind that a program has handles of, each at an index.

use std::{
    ffi::c_void,
    ptr::{null_mut, without_provenance_mut},
    sync::{
        OnceLock,
        atomic::{AtomicPtr, AtomicU32, Ordering::Relaxed},
    },
};

/// The first part has this many slots, and each further one twice as many as the one before.
const FIRST: u32 = 64;
const PARTS: usize = 20;

/// A slot has the address of an object, or an odd number, which is that of the next free slot, or null.
type Slot = AtomicPtr<c_void>;

/// Slots. They are read at any time. One thread at a time changes them.
#[derive(Debug)]
pub struct Slots {
    parts: [OnceLock<Box<[Slot]>>; PARTS],
    /// How many slots were ever used.
    used: AtomicU32,
    /// The free slot that is used next, as it is in a slot, or null.
    free: Slot,
}

/// Returns the part that has an index, and the index in that.
#[inline]
fn part(index: u32) -> (usize, usize) {
    let place = index + FIRST;
    let part = place.ilog2() - FIRST.ilog2();
    (part as usize, (place - (FIRST << part)) as usize)
}

impl Slots {
    /// The number of indices.
    pub const COUNT: u32 = 1 << 26;

    /// Makes slots, none of which is used.
    pub const fn new() -> Self {
        Self {
            parts: [const { OnceLock::new() }; PARTS],
            used: AtomicU32::new(0),
            free: AtomicPtr::new(null_mut()),
        }
    }

    /// Returns the object at an index, if there is one.
    #[inline]
    pub fn get(&self, index: u32) -> Option<*mut c_void> {
        let (part, place) = part(index);
        let object = self.parts.get(part)?.get()?.get(place)?.load(Relaxed);
        (object.addr() & 1 == 0 && !object.is_null()).then_some(object)
    }

    /// Gives an object an index.
    #[inline]
    pub fn insert(&self, object: *mut c_void) -> u32 {
        let free = self.free.load(Relaxed);
        if free.is_null() {
            return self.insert_new(object);
        }
        let index = (free.addr() >> 1) as u32;
        let slot = self.slot(index);
        self.free.store(slot.load(Relaxed), Relaxed);
        slot.store(object, Relaxed);
        index
    }

    #[cold]
    fn insert_new(&self, object: *mut c_void) -> u32 {
        let index = self.used.load(Relaxed);
        assert!(
            index < Self::COUNT - FIRST,
            "the program has more objects than handles can tell apart"
        );
        self.used.store(index + 1, Relaxed);
        self.slot(index).store(object, Relaxed);
        index
    }

    /// Frees an index that has an object.
    #[inline]
    pub fn remove(&self, index: u32) {
        let slot = self.slot(index);
        slot.store(self.free.load(Relaxed), Relaxed);
        self.free.store(without_provenance_mut((index as usize) << 1 | 1), Relaxed);
    }

    fn slot(&self, index: u32) -> &Slot {
        let (part, place) = part(index);
        let slots = self.parts[part]
            .get_or_init(|| (0..FIRST << part).map(|_| AtomicPtr::new(null_mut())).collect());
        &slots[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other() {
        let mut next = (0, 0);
        for index in 0..1000 {
            let (at, place) = part(index);
            if (at, place) != next {
                assert_eq!((at, place), (next.0 + 1, 0));
            }
            next = (at, place + 1);
        }
        assert_eq!(part(Slots::COUNT - FIRST - 1), (PARTS - 1, (1 << 25) - 1));
    }

    #[test]
    fn indices_are_used_again_and_have_their_objects() {
        let (slots, objects) = (Slots::new(), [0u64; 200]);
        let address = |at: usize| (&raw const objects[at]).cast_mut().cast::<c_void>();
        let indices: Vec<_> = (0..200).map(|at| slots.insert(address(at))).collect();
        assert_eq!(indices, (0..200).collect::<Vec<_>>());
        for at in [7, 3, 150] {
            slots.remove(at);
            assert_eq!(slots.get(at), None);
        }
        assert_eq!([1, 2].map(|at| slots.insert(address(at))), [150, 3]);
        assert_eq!((slots.get(150), slots.get(3)), (Some(address(1)), Some(address(2))));
        assert_eq!((slots.get(7), slots.get(200), slots.get(1 << 25)), (None, None, None));
        assert_eq!([slots.insert(address(3)), slots.insert(address(4))], [7, 200]);
    }
}
