//! The progress engine of a rank: what goes on in one of its threads while that thread waits for
//! something else.
//!
//! The crates above add *parts* to it while they have something under way: messages to be sent and posted
//! receives, collective operations that do not block. Every wait of a thread brings on all parts of the
//! rank that it waits for, and sleeps until either what it waits for is there or a part can go on. Where no
//! part was added, a wait looks at one flag of its thread.

use std::{
    cell::{Cell, RefCell},
    mem,
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use crate::{error::Error, world::Rank};

/// Something of a rank that goes on while the rank's thread waits for something else.
///
/// A wait calls [`advance`](Self::advance) until nothing moves. Then it looks at
/// [`is_ready`](Self::is_ready) again and again, and before it sleeps once more after
/// [`raise`](Self::raise). Nothing is advanced between `raise` and [`lower`](Self::lower).
pub trait Part {
    /// Goes on as far as it can without waiting.
    fn advance(&self) -> Advanced;

    /// Returns whether [`advance`](Self::advance) may move something.
    fn is_ready(&self) -> bool;

    /// Asks to have the rank's doorbell rung when it may be ready.
    fn raise(&self);

    /// Takes that back.
    fn lower(&self);

    /// Ends what the first [`advance`](Self::advance) of a wait has begun: the wait is over.
    fn pause(&self) {}

    /// Returns why something has failed that the program has begun, and that no call has told it. Once: the
    /// wait of a channel, a flag or a request ends with it. What that waits for may be the answer.
    fn failure(&self) -> Option<Error> {
        None
    }

    /// Returns whether what it is a part for is dropped, so that another one of its key takes its place.
    fn is_gone(&self) -> bool;

    /// After how long a sleep it is to be looked at again, whether the doorbell was rung or not.
    fn tick(&self) -> Option<Duration> {
        None
    }

    /// Returns what it waits for, for reports: see [`Select::awaits`](crate::Select::awaits) and
    /// [`Polled::awaits`](crate::mpb::Polled::awaits).
    fn awaits(&self) -> Vec<u64>;
}

/// What became of a [`Part`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advanced {
    /// It went on, so that what the rank waits for may be there.
    Moved,
    /// It waits.
    Waits,
    /// It has nothing more to do, and is no part of the engine any more.
    Over,
}

/// What a rank lends to a communication thread of its process when a call of it ends, and takes back with its next
/// call: the thread brings it on in between.
///
/// The thread calls [`advance`](Self::advance) when it [is ready](Self::is_ready). Before it sleeps it calls
/// [`raise`](Self::raise) and looks once more, and afterwards it calls [`lower`](Self::lower). The rank may take
/// it back at any moment.
pub trait Lent: Send + Sync {
    /// The rank whose it is.
    fn rank(&self) -> &Rank;

    /// Goes on as far as it can without waiting. [`Advanced::Over`]: the rank has it back, or there is nothing
    /// more to do; then the thread drops it, and gets it anew from [`Helper::carry_on`].
    fn advance(&self) -> Advanced;

    /// Returns whether [`advance`](Self::advance) may move something, or would say that it is over.
    fn is_ready(&self) -> bool;

    /// Asks to have the rank's doorbell rung when it may be ready.
    fn raise(&self);

    /// Takes that back.
    fn lower(&self);

    /// The thread has ended, and no other has taken it: it stays as it is until the rank's next call.
    fn leave(&self);
}

/// Communication threads, for those who lend them something.
pub trait Helper {
    /// Returns whether a thread carries it on from now on, until it is over.
    fn carry_on(&self, lent: Arc<dyn Lent>) -> bool;
}

/// Has all threads of the rank that sleep on its doorbell look again.
pub fn ring(rank: &Rank) {
    let context = rank.context();
    context.ring(context.me);
}

/// A rank, as parts of it are told from those of other ranks in the same thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Whose {
    /// The address of its world's segment.
    pub(crate) segment: usize,
    pub(crate) rank: u32,
}

struct Entry {
    whose: Whose,
    /// Tells the part from the others of the rank.
    key: usize,
    part: Rc<dyn Part>,
}

thread_local! {
    /// How many parts there are: looked at by every wait that does not end at once.
    static COUNT: Cell<usize> = const { Cell::new(0) };
    static PARTS: RefCell<Vec<Entry>> = const { RefCell::new(Vec::new()) };
    /// Whether a part is being advanced: what it calls does not advance the others in turn.
    static ADVANCING: Cell<bool> = const { Cell::new(false) };
    /// Why this thread's last wait was ended, between its end and the call that returns it.
    static FAILURE: RefCell<Option<Error>> = const { RefCell::new(None) };
}

/// Returns why a wait of this thread that had no answer was [ended](Part::failure), if it was.
pub(crate) fn take_failure() -> Option<Error> {
    FAILURE.take()
}

/// Returns how many parts this thread has to bring on.
#[inline(always)]
pub(crate) fn count() -> usize {
    COUNT.get()
}

/// Adds a part, unless there is one of this key.
pub(crate) fn add(whose: Whose, key: usize, part: impl FnOnce() -> Rc<dyn Part>) {
    let same = |entry: &&mut Entry| entry.whose == whose && entry.key == key;
    let replaced = PARTS.with_borrow_mut(|parts| match parts.iter_mut().find(same) {
        Some(entry) if entry.part.is_gone() => Some(mem::replace(&mut entry.part, part())),
        Some(_) => None,
        None => {
            parts.push(Entry { whose, key, part: part() });
            COUNT.set(parts.len());
            None
        }
    });
    drop(replaced);
}

/// Removes the part of this key.
pub(crate) fn remove(whose: Whose, key: usize) {
    // In a thread that is about to end there are none any more. What is removed is dropped outside of the
    // borrow: it may call this in turn.
    let removed = PARTS.try_with(|parts| {
        let mut parts = parts.borrow_mut();
        let place = parts.iter().position(|entry| entry.whose == whose && entry.key == key)?;
        let removed = parts.swap_remove(place);
        COUNT.set(parts.len());
        Some(removed)
    });
    drop(removed);
}

/// Removes all parts of a rank, whose code has ended in this thread.
pub(crate) fn remove_all(whose: Whose) {
    let removed: Result<Vec<_>, _> = PARTS.try_with(|parts| {
        let mut parts = parts.borrow_mut();
        let removed = parts.extract_if(.., |entry| entry.whose == whose).collect();
        COUNT.set(parts.len());
        removed
    });
    drop(removed);
}

/// Advances all parts of a rank once, unless one of them is calling this. Returns whether any moved.
pub(crate) fn advance(whose: Whose) -> bool {
    Parts::of(whose).is_some_and(|mut parts| parts.advance())
}

/// The parts of a rank, during one wait of its thread.
pub(crate) struct Parts {
    whose: Whose,
    /// With their keys.
    parts: Vec<(usize, Rc<dyn Part>)>,
}

impl Parts {
    /// Returns those of a rank, if it has any. Where one of them is being advanced, there are none for what
    /// it calls.
    pub(crate) fn of(whose: Whose) -> Option<Self> {
        if ADVANCING.get() {
            return None;
        }
        let parts: Vec<_> = PARTS.with_borrow(|parts| {
            let own = parts.iter().filter(|entry| entry.whose == whose);
            own.map(|entry| (entry.key, Rc::clone(&entry.part))).collect()
        });
        (!parts.is_empty()).then_some(Self { whose, parts })
    }

    /// Advances each part once. Returns whether any moved.
    pub(crate) fn advance(&mut self) -> bool {
        /// Ends also where a part panics.
        struct Advancing;
        impl Drop for Advancing {
            fn drop(&mut self) {
                ADVANCING.set(false);
            }
        }
        ADVANCING.set(true);
        let _advancing = Advancing;
        let mut moved = false;
        let whose = self.whose;
        self.parts.retain(|(key, part)| {
            let advanced = part.advance();
            moved |= advanced == Advanced::Moved;
            let over = advanced == Advanced::Over;
            if over {
                part.pause();
                remove(whose, *key);
            }
            !over
        });
        moved
    }

    /// Keeps the failure of a part for [`take_failure`]. Returns whether there is one.
    pub(crate) fn fail(&self) -> bool {
        let failure = self.all().find_map(|part| part.failure());
        failure.is_some_and(|failure| {
            FAILURE.set(Some(failure));
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
