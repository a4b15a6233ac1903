//! Closures as operations, on a value of any type, for ranks that are threads of one process.
//!
//! A closure stays with its caller. The rank that executes operations gets the number of a *record* of this process,
//! and which of the record's turns is meant. A caller that can't wait any longer takes the turn back, so that no other
//! thread calls its closure afterwards. If the closure has begun, the caller waits for its end. Numbers that come from
//! elsewhere lead to no closure.
#![allow(unsafe_code, reason = "a closure is called by another thread than its caller's")]

mod records;

use std::{
    cell::Cell,
    fmt,
    marker::PhantomData,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use mp_core::{Error, Rank, Result, delegate::Backoff, memory::Word};

use self::records::{Own, Record};
use super::{
    error::bad, object::Object, place::OBJECTS, protected::Protected, section::Section,
    server::Server,
};

/// A value of any type, protected for the threads of a process. A rank gets access by [`open`](Self::open); operations
/// are closures.
///
/// ```
/// use onchip::World;
/// use onchip::critical::{AnyValue, Scheme};
///
/// let names = AnyValue::new(Vec::new());
/// World::threads(3).run(|rank| {
///     let caller = names.open(rank, "names", Scheme::HybComb)?;
///     let name = format!("rank {}", rank.id());
///     let len = caller.run(|names| {
///         names.push(name);
///         names.len()
///     })?;
///     assert!(len <= 3);
///     Ok(())
/// })?;
/// assert_eq!(names.into_inner().map(|names| names.len()), Some(3));
/// # Ok::<(), onchip::Error>(())
/// ```
pub struct AnyValue<T>(Arc<Shared<T>>);

/// The value, and the object by which it is reached, as long as a caller has that open.
struct Shared<T> {
    value: Value<T>,
    object: Mutex<Weak<Bound>>,
}

/// A value that is reached by its address.
struct Value<T> {
    at: *mut T,
    owns: PhantomData<T>,
}

/// What the callers of a value have in common: the [key](Protected::key) of their object.
struct Bound {
    key: u64,
}

impl<T> Shared<T> {
    /// Binds the value to an object, if no caller has it open as another one.
    fn bind(&self, key: u64) -> Option<Arc<Bound>> {
        let mut object = self.object.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bound) = object.upgrade() {
            return (bound.key == key).then_some(bound);
        }
        let bound = Arc::new(Bound { key });
        *object = Arc::downgrade(&bound);
        Some(bound)
    }
}

impl<T> Value<T> {
    fn new(value: T) -> Self {
        Self { at: Box::into_raw(Box::new(value)), owns: PhantomData }
    }

    fn into_inner(self) -> T {
        let at = std::mem::ManuallyDrop::new(self).at;
        // SAFETY: `new` made the pointer from a box, and `ManuallyDrop` keeps `self` from dropping it.
        *unsafe { Box::from_raw(at) }
    }
}

// SAFETY: the algorithms let in one thread at a time, and a `T` may go from thread to thread.
unsafe impl<T: Send> Send for Value<T> {}
// SAFETY: a shared `Value` gives access to its pointer only, and the algorithms let in one thread at a time.
unsafe impl<T: Send> Sync for Value<T> {}

impl<T> Drop for Value<T> {
    fn drop(&mut self) {
        // SAFETY: `new` made the pointer from a box, and no caller has the value any more.
        drop(unsafe { Box::from_raw(self.at) });
    }
}

impl<T: Send> AnyValue<T> {
    /// Protects a value.
    pub fn new(value: T) -> Self {
        Self(Arc::new(Shared { value: Value::new(value), object: Mutex::default() }))
    }

    /// Opens the value as [`Protected::open`] does. The name belongs to this value alone. The value is reached by one
    /// name at a time, and opened once by each rank. When all callers are dropped, it can be opened again, also in
    /// another world.
    ///
    /// # Errors
    /// Those of `Protected::open`; [`ObjectMismatch`](mp_core::ErrorKind::ObjectMismatch) also if the name stands for
    /// another value; [`BadObject`](mp_core::ErrorKind::BadObject) in a world of processes, and if callers have the
    /// value open as another object.
    pub fn open(&self, rank: &Rank, name: &str, section: impl Into<Section>) -> Result<Caller<T>> {
        let me = Arc::as_ptr(&self.0) as usize as u64;
        let section = section.into();
        let make = |object: &mut u64| *object = me;
        let object = Protected::<Calls>::open_as(rank, (OBJECTS, name), section, me, None, make)?;
        let Some(key) = object.key() else {
            return Err(bad(name, "closures can't go to another process"));
        };
        let Some(bound) = self.0.bind(key) else {
            return Err(bad(name, "the value is open as another object"));
        };
        Caller::new(object, Arc::clone(&self.0), bound)
    }

    /// Returns the value, if no caller has it open any more.
    pub fn into_inner(self) -> Option<T> {
        Some(Arc::into_inner(self.0)?.value.into_inner())
    }
}

impl<T> fmt::Debug for AnyValue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyValue").finish_non_exhaustive()
    }
}

/// A rank's handle of a value of any type: see [`AnyValue`].
pub struct Caller<T> {
    object: Protected<Calls>,
    cell: Arc<Shared<T>>,
    bound: Arc<Bound>,
    own: Own,
    /// The record's turn.
    turn: Cell<u64>,
    /// Whether a closure is pending.
    runs: Cell<bool>,
}

impl<T: Send> Caller<T> {
    fn new(object: Protected<Calls>, cell: Arc<Shared<T>>, bound: Arc<Bound>) -> Result<Self> {
        let too_many = || bad(&object.name(), "there are too many callers in this process");
        let own = Own::take().ok_or_else(too_many)?;
        own.record.object.store_relaxed(Arc::as_ptr(&cell) as usize as u64);
        // The turns of earlier callers are over.
        let turn = own.record.turn.load() >> STATE_BITS;
        Ok(Self { object, cell, bound, own, turn: Cell::new(turn), runs: Cell::new(false) })
    }

    /// Executes a closure in mutual exclusion, possibly in another thread. Returns what the closure returns.
    ///
    /// # Errors
    /// As [`Protected::apply`]. After an error the closure is not executed later.
    pub fn run<R, F>(&self, closure: F) -> Result<R>
    where
        R: Send,
        F: FnOnce(&mut T) -> R + Send,
    {
        // The record has room for one closure at a time.
        if self.runs.replace(true) {
            return Err(self.object.nested());
        }
        let _runs = Runs(&self.runs);
        let mut task = Task { closure: Some(closure), value: self.cell.value.at, result: None };
        let number = self.turn.get() + 1;
        self.turn.set(number);
        let Record { turn, code, task: at, .. } = self.own.record;
        code.store_relaxed(call::<T, R, F> as fn(*mut ()) as usize as u64);
        at.store_relaxed((&raw mut task).expose_provenance() as u64);
        turn.store(number << STATE_BITS | READY);
        // When `end` is dropped, no other thread has the task's address any more, whatever happened before.
        let end = End(&self.own.record.turn, number);
        let applied = self.object.apply([self.own.number, number]);
        drop(end);
        match (task.result.take(), applied) {
            (Some(result), _) => Ok(result),
            (None, Err(error)) => Err(error),
            (None, Ok(())) => Err(self.vanished()),
        }
    }

    #[cold]
    fn vanished(&self) -> Error {
        bad(&self.object.name(), "a closure was not executed")
    }

    /// Returns another caller, for another thread of the rank: see [`Protected::another`].
    ///
    /// # Errors
    /// As `Protected::another`.
    pub fn another(&self) -> Result<Self> {
        Self::new(self.object.another()?, Arc::clone(&self.cell), Arc::clone(&self.bound))
    }

    /// Lets this rank serve the value: see [`Server::add`].
    ///
    /// # Errors
    /// As `Server::add`.
    pub fn serve(self, server: &mut Server) -> Result<()> {
        server.add(self.object)
    }
}

impl<T> fmt::Debug for Caller<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller").field("object", &self.object).finish_non_exhaustive()
    }
}

/// Marks a closure as pending until this is dropped.
struct Runs<'a>(&'a Cell<bool>);

impl Drop for Runs<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// The state of a turn is in these bits, below its number.
const STATE_BITS: u32 = 2;
const READY: u64 = 0;
const RUNNING: u64 = 1;
const OVER: u64 = 2;

/// The end of a turn. The turn is taken back, unless it has begun; then its end is waited for.
struct End<'a>(&'a Word, u64);

impl Drop for End<'_> {
    fn drop(&mut self) {
        let Self(turn, mine) = *self;
        let mine = mine << STATE_BITS;
        if turn.load() == mine | OVER {
            return;
        }
        // A thread that gets to the operation after that finds its turn over.
        if turn.compare_exchange(mine | READY, mine | OVER).is_err() {
            let mut backoff = Backoff::new();
            while turn.load() != mine | OVER {
                backoff.pause();
            }
        }
    }
}

/// A closure, the value that it is for, and what it returns.
struct Task<T, R, F> {
    closure: Option<F>,
    value: *mut T,
    result: Option<R>,
}

/// Calls the task's closure. The caller is the thread that has the value.
fn call<T, R, F: FnOnce(&mut T) -> R>(task: *mut ()) {
    // SAFETY: `Calls::apply` has the task from the record of the caller, who made it with these types and waits for its
    // end. It has the value from there, too, and the algorithm lets in one thread at a time.
    unsafe {
        let task = &mut *task.cast::<Task<T, R, F>>();
        if let Some(closure) = task.closure.take() {
            task.result = Some(closure(&mut *task.value));
        }
    }
}

/// The kind of object whose operations are closures: an operation is the number of a record, and the turn. The state
/// says which object it is.
struct Calls;

impl Object for Calls {
    type State = u64;
    type Op = [u64; 2];
    type Ret = ();

    fn apply(object: &mut u64, [number, turn]: [u64; 2]) {
        let Some(record) = records::find(number) else { return };
        if record.object.load_relaxed() != *object {
            return;
        }
        let mine = turn << STATE_BITS;
        if record.turn.compare_exchange(mine | READY, mine | RUNNING).is_err() {
            return;
        }
        /// Ends the turn, also when the closure panics.
        struct Over<'a>(&'a Word, u64);
        impl Drop for Over<'_> {
            fn drop(&mut self) {
                self.0.store(self.1);
            }
        }
        let _over = Over(&record.turn, mine | OVER);
        let code = std::ptr::with_exposed_provenance::<()>(record.code.load_relaxed() as usize);
        // SAFETY: the turn was ready, and before that `Caller::run` wrote a function of this type.
        let code = unsafe { std::mem::transmute::<*const (), fn(*mut ())>(code) };
        code(std::ptr::with_exposed_provenance_mut(record.task.load_relaxed() as usize));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Covers a caller that could not wait any longer, and operations that were made up.
    #[test]
    fn only_a_turn_that_is_ready_is_called() {
        fn never(_: *mut ()) {
            panic!("called");
        }
        let own = Own::take().unwrap();
        let Record { turn, object, code, .. } = own.record;
        object.store_relaxed(3);
        code.store_relaxed(never as fn(*mut ()) as usize as u64);
        let next = 1 + (turn.load() >> STATE_BITS);
        turn.store(next << STATE_BITS | OVER);
        Calls::apply(&mut 3, [own.number, next]);
        turn.store((next + 1) << STATE_BITS | READY);
        for made_up in [next, next + 2, 0, u64::MAX] {
            Calls::apply(&mut 3, [own.number, made_up]);
        }
        // The turn is right, but the object is another one, or the record does not exist.
        Calls::apply(&mut 4, [own.number, next + 1]);
        for number in [u64::MAX, 1 << 40, std::ptr::from_ref(code) as u64] {
            Calls::apply(&mut 3, [number, next + 1]);
        }
        assert_eq!(turn.load(), (next + 1) << STATE_BITS | READY);
        turn.store((next + 1) << STATE_BITS | OVER);
    }

    #[test]
    fn a_record_goes_on_with_the_turns_of_the_caller_before() {
        let value = AnyValue::new(0);
        let rank = mp_core::World::solo().unwrap();
        for round in 1..=3 {
            let caller = value.open(&rank, "value", super::super::Scheme::Mcs).unwrap();
            let before = caller.turn.get();
            assert_eq!(
                caller
                    .run(|value| {
                        *value += 1;
                        *value
                    })
                    .unwrap(),
                round
            );
            assert_eq!(caller.own.record.turn.load(), (before + 1) << STATE_BITS | OVER);
        }
    }
}
