//! The critical sections that this thread is in the middle of. An operation that asks for another one which would wait
//! for it gets an error instead of waiting forever.

use std::cell::{Cell, RefCell};

/// The number of nested sections that need no allocation.
const DEPTH: usize = 16;
/// Set beside an object's number if a server executes the operation, which does nothing else meanwhile.
const SERVED: u64 = 1 << 63;
/// Set beside an object's number, which is even, by a handle that shares its seat, from when it has its turn on.
pub(super) const SHARED: u64 = 1;

/// The sections of a thread.
struct Sections {
    deep: Cell<usize>,
    at_hand: [Cell<u64>; DEPTH],
}

thread_local! {
    static SECTIONS: Sections =
        const { Sections { deep: Cell::new(0), at_hand: [const { Cell::new(0) }; DEPTH] } };
    static FURTHER: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// Looks at the sections of this thread. `LocalKey`'s own `get` and `set` may become calls, each of which takes as long
/// as the rest of an uncontended operation.
#[inline(always)]
fn here<T: Default>(look: impl FnOnce(&Sections) -> T) -> T {
    // It has no destructor, so that there always is one.
    SECTIONS.try_with(look).unwrap_or_default()
}

/// Returns whether this thread is in the middle of any operation.
#[inline(always)]
pub(super) fn is_deep() -> bool {
    here(|sections| sections.deep.get() != 0)
}

/// Returns whether an operation on the object would wait for one that this thread is in the middle of. A wait for
/// `served` objects can last as long as the server needs for all of its objects.
#[cold]
pub(super) fn refuses(object: u64, served: bool) -> bool {
    let within = |section: u64| section & !SERVED == object || served && section & SERVED != 0;
    here(|sections| {
        let at_hand = sections.deep.get().min(DEPTH);
        sections.at_hand[..at_hand].iter().any(|section| within(section.get()))
    }) || FURTHER.with_borrow(|further| further.iter().any(|&section| within(section)))
}

/// Marks the thread as inside an operation on an object until this is dropped.
#[derive(Debug)]
pub(super) struct Inside {
    section: u64,
    /// The count belongs to the thread.
    _not_send: std::marker::PhantomData<*const ()>,
}

impl Inside {
    #[inline(always)]
    pub(super) fn enter(object: u64, served: bool) -> Self {
        let section = if served { object | SERVED } else { object };
        here(|sections| {
            let deep = sections.deep.get();
            match sections.at_hand.get(deep) {
                // It is mostly the same section as the last time, which saves a store.
                Some(last) if last.get() == section => {}
                Some(last) => last.set(section),
                None => enter_further(section),
            }
            sections.deep.set(deep + 1);
        });
        Self { section, _not_send: std::marker::PhantomData }
    }
}

#[cold]
#[inline(never)]
fn enter_further(section: u64) {
    FURTHER.with_borrow_mut(|further| further.push(section));
}

impl Drop for Inside {
    #[inline(always)]
    fn drop(&mut self) {
        leave(self.section);
    }
}

/// Leaves a section. After an [`Inside`] that was forgotten, this is the object's number.
#[inline(always)]
pub(super) fn leave(section: u64) {
    here(|sections| {
        let last = sections.deep.get().wrapping_sub(1);
        // Nearly always the last one; guards of locks can be dropped in any order.
        if sections.at_hand.get(last).is_some_and(|s| s.get() == section) {
            sections.deep.set(last);
        } else {
            leave_another(sections, section);
        }
    });
}

#[cold]
#[inline(never)]
fn leave_another(Sections { deep, at_hand }: &Sections, section: u64) {
    let Some(last) = deep.get().checked_sub(1) else { return };
    let left = FURTHER.with_borrow_mut(|further| {
        if let Some(at) = further.iter().rposition(|&s| s == section) {
            further.remove(at);
            return true;
        }
        let at_hand = &at_hand[..DEPTH.min(last + 1)];
        let Some(at) = at_hand.iter().rposition(|s| s.get() == section) else { return false };
        at_hand[at..].windows(2).for_each(|pair| pair[0].set(pair[1].get()));
        if !further.is_empty() {
            at_hand[DEPTH - 1].set(further.remove(0));
        }
        true
    });
    if left {
        deep.set(last);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_would_wait_for_itself_is_refused() {
        assert!(!refuses(1, true));
        let one = Inside::enter(1, false);
        assert!(refuses(1, false) && !refuses(2, false) && !refuses(2, true));
        let two = Inside::enter(2, true);
        assert!(refuses(1, false) && refuses(2, true) && refuses(3, true) && !refuses(3, false));
        drop(one);
        assert!(!refuses(1, false) && refuses(2, false));
        drop(two);
        assert!(!refuses(2, true));
    }

    #[test]
    fn all_are_known_however_many() {
        const MANY: u64 = 3 * DEPTH as u64;
        // Left in the same order, backwards, and in another.
        for step in [1, MANY - 1, 5, 7] {
            let mut all: Vec<_> = (0..MANY).map(|n| Some(Inside::enter(n, false))).collect();
            assert!(!refuses(MANY, true));
            let mut left = vec![false; all.len()];
            for n in (1..=MANY).map(|n| n * step % MANY) {
                assert!((0..MANY).all(|other| refuses(other, false) != left[other as usize]));
                drop(all[n as usize].take());
                left[n as usize] = true;
            }
            assert!((0..MANY).all(|other| !refuses(other, false)) && !is_deep());
        }
    }
}
