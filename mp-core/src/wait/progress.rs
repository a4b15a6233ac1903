//! The progress engine of a rank: it advances pending operations in a thread that waits for something else.
//!
//! The crates above add *parts* to it while they have pending operations: messages to be sent, posted receives, and
//! non-blocking collective operations. Every wait of a thread advances all parts of the rank for which the thread
//! waits, and sleeps until either the wait can end or a part can continue. If there is no part, a wait costs only one
//! look at a counter of its thread.
//!
//! A part is added when it has something pending. When it has not, it is removed, or rests until it has again. A part that
//! is already running, such as a message engine whose own call waits, skips itself. For reports, an event for which a part
//! waits can also end the rank's wait. So reports name a cycle of waits only if no part can break it.

use std::{
    cell::{Cell, RefCell},
    mem::{self, ManuallyDrop},
    rc::Rc,
    time::Duration,
};

use crate::error::Error;

/// A pending operation of a rank that continues while the rank's thread waits for something else.
///
/// A wait calls [`advance`](Self::advance) until nothing moves. Then it calls [`is_ready`](Self::is_ready) again and
/// again, and once more after [`raise`](Self::raise), before it sleeps. It does not call `advance` between `raise` and
/// [`lower`](Self::lower).
pub trait Part {
    /// Continues as far as it can without waiting.
    fn advance(&self) -> Advanced;

    /// Returns whether [`advance`](Self::advance) may move something.
    fn is_ready(&self) -> bool;

    /// Asks for the rank's doorbell to be rung when the part may be ready.
    fn raise(&self);

    /// Withdraws the request of [`raise`](Self::raise).
    fn lower(&self);

    /// Notes the end of a wait, which began with its first [`advance`](Self::advance).
    fn pause(&self) {}

    /// Returns the error of an operation that the program has begun and that has failed, if no call has returned it
    /// yet. Returns it only once, because it ends the wait for a channel, a flag or a request. That wait may be for the
    /// answer to the failed operation.
    fn failure(&self) -> Option<Error> {
        None
    }

    /// Returns whether the object to which this part belongs was dropped, so that another part with the same key
    /// replaces this one.
    fn is_gone(&self) -> bool;

    /// Returns whether the part has nothing pending, and stays for the time when it has. It says so by [`rest`] and
    /// [`resume`], which take much less time than to remove a part and to add it again.
    fn is_resting(&self) -> bool {
        false
    }

    /// Notes that the part was removed.
    fn left(&self) {}

    /// Returns the time after which a sleeping thread must look at the part again, even if the doorbell was not rung.
    fn tick(&self) -> Option<Duration> {
        None
    }

    /// Returns what the part waits for, for reports. See [`Select::awaits`](crate::Select::awaits) and
    /// [`Polled::awaits`](crate::mpb::Polled::awaits).
    fn awaits(&self) -> Vec<u64>;
}

/// The result of advancing a [`Part`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advanced {
    /// It continued, so that the rank's wait may be over.
    Moved,
    /// It waits.
    Waits,
    /// It has nothing more to do. Unless it [rests](Part::is_resting), it is no longer part of the engine.
    Over,
}

/// The identity of a rank. It distinguishes the rank's parts from those of other ranks in the same thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Whose {
    /// The address of the segment of the rank's world.
    pub(crate) segment: usize,
    pub(crate) rank: u32,
}

struct Entry {
    whose: Whose,
    /// Distinguishes the part from other parts of the rank.
    key: usize,
    part: Rc<dyn Part>,
}

thread_local! {
    /// The number of parts that do not rest. Every wait that does not end at once looks at it.
    static COUNT: Cell<usize> = const { Cell::new(0) };
    // A process that is a rank may wait in functions that the C library calls at exit, when variables with destructors
    // are gone. So this variable and `FAILURE` have none: `ENDING` drops what nobody needs then.
    static PARTS: ManuallyDrop<RefCell<Vec<Entry>>> = const { ManuallyDrop::new(RefCell::new(Vec::new())) };
    /// Whether a part is being advanced. Waits in its code then do not advance other parts.
    static ADVANCING: Cell<bool> = const { Cell::new(false) };
    /// The failure that ended this thread's last wait, until the call that waited returns it.
    static FAILURE: ManuallyDrop<RefCell<Option<Error>>> = const { ManuallyDrop::new(RefCell::new(None)) };
    /// The rank whose code this thread runs.
    static RUNS: Cell<Option<Whose>> = const { Cell::new(None) };
    static ENDING: Ending = const { Ending };
}

/// Removes the parts of a thread that ends, but for those of a rank whose code still runs.
struct Ending;

impl Drop for Ending {
    fn drop(&mut self) {
        let runs = RUNS.get();
        remove_where(|entry| Some(entry.whose) != runs);
    }
}

/// Says of which rank this thread runs the code from now on. Returns the one of which it did before.
pub(crate) fn set_runs(now: Option<Whose>) -> Option<Whose> {
    RUNS.replace(now)
}

/// Returns the [failure](Part::failure) that ended a wait of this thread without an answer, if there was one.
pub(crate) fn take_failure() -> Option<Error> {
    FAILURE.with(|failure| failure.take())
}

/// Returns how many parts this thread has to advance.
#[inline(always)]
pub(crate) fn count() -> usize {
    COUNT.get()
}

/// Counts a part no longer, which rests from now on.
pub fn rest() {
    COUNT.set(COUNT.get().saturating_sub(1));
}

/// Counts a part again, which rests no longer.
pub fn resume() {
    COUNT.set(COUNT.get() + 1);
}

/// The time in which a part itself waits, and is not counted. If it is the only one, its wait is one without parts.
#[derive(Debug)]
pub struct Apart(());

impl Apart {
    /// Begins the time of a part that works.
    #[inline]
    pub fn begin() -> Self {
        rest();
        Self(())
    }
}

impl Drop for Apart {
    #[inline]
    fn drop(&mut self) {
        PARTS.with(|parts| count_again(&parts.borrow()));
    }
}

fn count_again(parts: &[Entry]) {
    COUNT.set(parts.iter().filter(|entry| !entry.part.is_resting()).count());
}

/// Adds a part, unless there is already one with this key.
pub(crate) fn add(whose: Whose, key: usize, part: impl FnOnce() -> Rc<dyn Part>) {
    let same = |entry: &&mut Entry| entry.whose == whose && entry.key == key;
    // If the variable is gone, the thread ends already, and the rank's end removes the part.
    let _ = ENDING.try_with(|_| ());
    let replaced = PARTS.with(|parts| {
        let mut parts = parts.borrow_mut();
        match parts.iter_mut().find(same) {
            Some(entry) if entry.part.is_gone() => Some(mem::replace(&mut entry.part, part())),
            Some(_) => None,
            None => {
                parts.push(Entry { whose, key, part: part() });
                None
            }
        }
    });
    PARTS.with(|parts| count_again(&parts.borrow()));
    drop(replaced);
}

/// Removes the part with this key.
pub(crate) fn remove(whose: Whose, key: usize) {
    // The removed part is dropped outside the borrow, because its destructor may call this function.
    let removed = PARTS.with(|parts| {
        let mut parts = parts.borrow_mut();
        let place = parts.iter().position(|entry| entry.whose == whose && entry.key == key)?;
        let removed = parts.swap_remove(place);
        count_again(&parts);
        Some(removed)
    });
    if let Some(removed) = removed {
        removed.part.left();
    }
}

/// Removes all parts of a rank whose code has ended in this thread.
pub(crate) fn remove_all(whose: Whose) {
    remove_where(|entry| entry.whose == whose);
}

fn remove_where(is_removed: impl Fn(&Entry) -> bool) {
    let removed: Vec<_> = PARTS.with(|parts| {
        let mut parts = parts.borrow_mut();
        let removed = parts.extract_if(.., |entry| is_removed(entry)).collect();
        parts.shrink_to_fit();
        count_again(&parts);
        removed
    });
    removed.iter().for_each(|entry| entry.part.left());
}

/// A guard for the time in which a part is advanced. It restores `ADVANCING`, even if the part panics.
struct Advancing {
    before: bool,
}

impl Advancing {
    fn begin() -> Self {
        Self { before: ADVANCING.replace(true) }
    }
}

impl Drop for Advancing {
    fn drop(&mut self) {
        ADVANCING.set(self.before);
    }
}

/// Does the work of a part outside of [`Part::advance`]: waits in its code do not advance other parts.
#[inline]
pub fn as_part<T>(work: impl FnOnce() -> T) -> T {
    let _advancing = Advancing::begin();
    work()
}

/// Advances all parts of a rank once, unless one of them is making this call. Returns whether any moved.
pub(crate) fn advance(whose: Whose) -> bool {
    Parts::of(whose).is_some_and(|mut parts| parts.advance())
}

/// The parts of a thread, on their way to another thread. A rank whose calls come from several threads, one at a time,
/// takes its parts out of the thread at the end of a call, and puts them into the next one at the beginning.
#[must_use = "nothing advances the parts until they are put into a thread"]
pub struct Parked(Vec<Entry>);

// SAFETY: the caller of `take` sees to it that one thread at a time uses what the parts share.
unsafe impl Send for Parked {}

impl Parked {
    /// Takes all parts of this thread.
    ///
    /// # Safety
    /// Until the result is dropped or put into a thread, no thread uses the objects to which the parts belong. Afterwards
    /// only that thread does, which sees all that this one has done.
    pub unsafe fn take() -> Self {
        COUNT.set(0);
        Self(PARTS.with(|parts| parts.take()))
    }

    /// Makes this thread's waits advance the parts.
    pub fn put(self) {
        PARTS.with(|parts| {
            let mut parts = parts.borrow_mut();
            parts.extend(self.0);
            count_again(&parts);
        });
    }
}

/// The parts of a rank, during one wait of its thread.
pub(crate) struct Parts {
    whose: Whose,
    /// The parts, with their keys.
    parts: Vec<(usize, Rc<dyn Part>)>,
}

impl Parts {
    /// Returns the parts of a rank, if it has any. While a part is being advanced, returns `None`.
    pub(crate) fn of(whose: Whose) -> Option<Self> {
        if ADVANCING.get() {
            return None;
        }
        let parts: Vec<_> = PARTS.with(|parts| {
            let parts = parts.borrow();
            let works = |entry: &&Entry| entry.whose == whose && !entry.part.is_resting();
            let own = parts.iter().filter(works);
            own.map(|entry| (entry.key, Rc::clone(&entry.part))).collect()
        });
        (!parts.is_empty()).then_some(Self { whose, parts })
    }

    /// Advances each part once. Returns whether any moved.
    pub(crate) fn advance(&mut self) -> bool {
        let _advancing = Advancing::begin();
        let mut moved = false;
        let whose = self.whose;
        self.parts.retain(|(key, part)| {
            let advanced = part.advance();
            moved |= advanced == Advanced::Moved;
            let over = advanced == Advanced::Over;
            if over {
                part.pause();
                if !part.is_resting() {
                    remove(whose, *key);
                }
            }
            !over
        });
        moved
    }

    /// Keeps the failure of a part for [`take_failure`]. Returns whether there is one.
    pub(crate) fn fail(&self) -> bool {
        let failure = self.all().find_map(|part| part.failure());
        failure.is_some_and(|failure| {
            FAILURE.with(|place| place.replace(Some(failure)));
            true
        })
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.all().any(|part| part.is_ready())
    }

    pub(crate) fn raise(&self) {
        self.all().for_each(|part| part.raise());
    }

    pub(crate) fn lower(&self) {
        self.all().for_each(|part| part.lower());
    }

    pub(crate) fn tick(&self) -> Option<Duration> {
        self.all().filter_map(|part| part.tick()).min()
    }

    pub(crate) fn awaits(&self) -> Vec<u64> {
        self.all().flat_map(|part| part.awaits()).collect()
    }

    fn all(&self) -> impl Iterator<Item = &dyn Part> {
        self.parts.iter().map(|(_, part)| &**part)
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        self.all().for_each(|part| part.pause());
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Moves at each call.
    struct Moves;

    impl Part for Moves {
        fn advance(&self) -> Advanced {
            Advanced::Moved
        }

        fn is_ready(&self) -> bool {
            true
        }

        fn raise(&self) {}

        fn lower(&self) {}

        fn is_gone(&self) -> bool {
            false
        }

        fn awaits(&self) -> Vec<u64> {
            Vec::new()
        }
    }

    #[test]
    fn parts_go_to_another_thread_and_back() {
        let whose = Whose { segment: 1, rank: 0 };
        add(whose, 7, || Rc::new(Moves));
        // SAFETY: nothing else has a reference to the part.
        let parked = unsafe { Parked::take() };
        assert!(count() == 0 && !advance(whose));
        let back = std::thread::spawn(move || {
            parked.put();
            assert!(count() == 1 && advance(whose));
            // SAFETY: as above.
            unsafe { Parked::take() }
        });
        back.join().unwrap().put();
        assert!(count() == 1 && advance(whose));
        remove_all(whose);
        assert_eq!(count(), 0);
    }
}
