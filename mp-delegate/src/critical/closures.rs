//! Closures as operations, on a value of any type: for ranks that are threads of one process.
//!
//! A closure stays where it is, with its caller; what goes to whoever executes operations is the
//! address of a *record*, which outlives both, and which of its turns is meant. A caller that can't
//! wait any longer takes the turn back, so that nobody reaches for his closure afterwards; and waits
//! for its end where it has begun.
#![allow(unsafe_code, reason = "a closure goes to another thread as an address")]

use std::{fmt, marker::PhantomData, sync::Arc, thread::yield_now};

use mp_core::{Rank, memory::Word};

use super::{
    error::{Error, Result},
    object::Object,
    protected::Protected,
    section::Section,
    server::Server,
    site::OBJECTS,
};

/// A value of any type, protected for the threads of a process. A rank gets at it by
/// [`open`](Self::open); operations are closures.
///
/// ```
/// use mp_core::World;
/// use mp_delegate::critical::{AnyValue, Scheme};
///
/// let names = AnyValue::new(Vec::new());
/// World::threads(3).run(|rank| {
///     let mut caller = names.open(rank, "names", Scheme::HybComb)?;
///     let name = format!("rank {}", rank.id());
///     let len = caller.run(|names| {
///         names.push(name);
///         names.len()
///     })?;
///     assert!(len <= 3);
///     Ok(())
/// })?;
/// assert_eq!(names.into_inner().map(|names| names.len()), Some(3));
/// # Ok::<(), mp_core::Error>(())
/// ```
pub struct AnyValue<T>(Arc<Cell<T>>);

/// The value, and by which object it is reached: 0 for none yet.
struct Cell<T> {
    value: *mut T,
    object: Word,
    owns: PhantomData<T>,
}

// SAFETY: the value is reached by one thread at a time, and goes from one to another.
unsafe impl<T: Send> Send for Cell<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Cell<T> {}

impl<T> Drop for Cell<T> {
    fn drop(&mut self) {
        // SAFETY: made by `AnyValue::new`, and nobody has it any more.
        drop(unsafe { Box::from_raw(self.value) });
    }
}

impl<T: Send> AnyValue<T> {
    /// Protects a value.
    pub fn new(value: T) -> Self {
        let value = Box::into_raw(Box::new(value));
        Self(Arc::new(Cell { value, object: Word::new(0), owns: PhantomData }))
    }

    /// Opens it as [`Protected::open`] does. The name is this value's alone, and the value is reached
    /// by this name alone, once by each rank.
    ///
    /// # Errors
    /// Those of `Protected::open`, [`Error::Mismatch`] also where the name stands for another value;
    /// [`Error::Bad`] in a world of processes, and where the value was opened before as another
    /// object.
    pub fn open(&self, rank: &Rank, name: &str, section: impl Into<Section>) -> Result<Caller<T>> {
        let me = Arc::as_ptr(&self.0) as usize as u64;
        let object =
            Protected::<Calls>::open_as(rank, (OBJECTS, name), section.into(), me, None, |_| ())?;
        let Some(key) = object.key() else {
            return Err(Error::bad(name, "closures can't go to another process"));
        };
        match self.0.object.exchange(0, key) {
            Err(other) if other != key => {
                Err(Error::bad(name, "the value was opened as another object"))
            }
            _ => Ok(Caller::new(object, Arc::clone(&self.0))),
        }
    }

    /// The value, if nobody has it open any more.
    pub fn into_inner(self) -> Option<T> {
        let cell = std::mem::ManuallyDrop::new(Arc::into_inner(self.0)?);
        // SAFETY: made by `new`, and nobody has it any more; the cell does not drop it.
        Some(*unsafe { Box::from_raw(cell.value) })
    }
}

impl<T> fmt::Debug for AnyValue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyValue").finish_non_exhaustive()
    }
}

/// A rank's way to a value of any type: see [`AnyValue`].
pub struct Caller<T> {
    object: Protected<Calls>,
    cell: Arc<Cell<T>>,
    record: Arc<Record>,
    turn: u64,
}

impl<T: Send> Caller<T> {
    fn new(object: Protected<Calls>, cell: Arc<Cell<T>>) -> Self {
        Self { object, cell, record: Arc::default(), turn: 0 }
    }

    /// Executes a closure, in mutual exclusion, wherever that happens; returns what it returns.
    ///
    /// # Errors
    /// As [`Protected::apply`]. The closure is not executed later.
    pub fn run<R, F>(&mut self, closure: F) -> Result<R>
    where
        R: Send,
        F: FnOnce(&mut T) -> R + Send,
    {
        let mut task = Task { closure: Some(closure), value: self.cell.value, result: None };
        self.turn += 1;
        let Record { turn, code, task: at, .. } = &*self.record;
        code.set(call::<T, R, F> as fn(*mut ()) as usize as u64);
        at.set((&raw mut task).expose_provenance() as u64);
        turn.store(self.turn << STATE_BITS | READY);
        // Whatever happens below, nobody has the task's address afterwards.
        let end = End(&self.record, self.turn);
        let applied = self.object.apply([self.record.address(), self.turn]);
        drop(end);
        match (task.result.take(), applied) {
            (Some(result), _) => Ok(result),
            (None, Err(error)) => Err(error),
            (None, Ok(())) => Err(self.vanished()),
        }
    }

    #[cold]
    fn vanished(&self) -> Error {
        Error::bad(&self.object.name(), "a closure was not executed")
    }

    /// For another thread of the rank: see [`Protected::another`].
    ///
    /// # Errors
    /// As there.
    pub fn another(&self) -> Result<Self> {
        Ok(Self::new(self.object.another()?, Arc::clone(&self.cell)))
    }

    /// Has the value served by this rank: see [`Server::add`].
    ///
    /// # Errors
    /// As there.
    pub fn serve(self, server: &mut Server) -> Result<()> {
        server.add(self.object)
    }
}

impl<T> fmt::Debug for Caller<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller").field("object", &self.object).finish_non_exhaustive()
    }
}

/// What a turn is, below its number.
const STATE_BITS: u32 = 2;
const READY: u64 = 0;
const RUNNING: u64 = 1;
const OVER: u64 = 2;

/// What leads from an operation to a closure.
struct Record {
    turn: Word,
    /// A `fn(*mut ())`, and what it is called with: of the caller whose turn it is.
    code: Word,
    task: Word,
    /// Not 0: it is never freed.
    left: Word,
}

impl Default for Record {
    fn default() -> Self {
        let [turn, code, task, left] = [0; 4].map(Word::new);
        Self { turn, code, task, left }
    }
}

impl Record {
    fn address(self: &Arc<Self>) -> u64 {
        Arc::as_ptr(self).expose_provenance() as u64
    }
}

/// The end of a turn: it is taken back, unless it has begun; then it is waited for.
struct End<'a>(&'a Arc<Record>, u64);

impl Drop for End<'_> {
    fn drop(&mut self) {
        let Self(record, turn) = self;
        let mine = *turn << STATE_BITS;
        if record.turn.load() == mine | OVER {
            return;
        }
        if record.turn.exchange(mine | READY, mine | OVER).is_err() {
            while record.turn.load() != mine | OVER {
                yield_now();
            }
        } else if record.left.swap(1) == 0 {
            // Its address may still come to somebody, who looks whose turn it is.
            std::mem::forget(Arc::clone(record));
        }
    }
}

/// A closure, what it is for, and what it returns.
struct Task<T, R, F> {
    closure: Option<F>,
    value: *mut T,
    result: Option<R>,
}

/// The task's closure, called by whoever has the value.
fn call<T, R, F: FnOnce(&mut T) -> R>(task: *mut ()) {
    // SAFETY: `Calls::apply` has the task from the record of the caller, who waits for its end and
    // knows its type, and the value from the algorithm, which lets in one at a time.
    unsafe {
        let task = &mut *task.cast::<Task<T, R, F>>();
        if let Some(closure) = task.closure.take() {
            task.result = Some(closure(&mut *task.value));
        }
    }
}

/// Operations that are closures: the address of a record, and the turn.
struct Calls;

impl Object for Calls {
    type State = u64;
    type Op = [u64; 2];
    type Ret = ();

    fn apply(_: &mut u64, [record, turn]: [u64; 2]) {
        // SAFETY: only `Caller::run` makes such operations, in this process: the caller has the
        // record, or has left it to this.
        let record = unsafe { &*std::ptr::with_exposed_provenance::<Record>(record as usize) };
        let mine = turn << STATE_BITS;
        if record.turn.exchange(mine | READY, mine | RUNNING).is_err() {
            return;
        }
        /// Also when the closure panics.
        struct Over<'a>(&'a Word, u64);
        impl Drop for Over<'_> {
            fn drop(&mut self) {
                self.0.store(self.1);
            }
        }
        let _over = Over(&record.turn, mine | OVER);
        let code = std::ptr::with_exposed_provenance::<()>(record.code.peek() as usize);
        // SAFETY: `Caller::run` wrote it before the turn was ready.
        let code = unsafe { std::mem::transmute::<*const (), fn(*mut ())>(code) };
        code(std::ptr::with_exposed_provenance_mut(record.task.peek() as usize));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// As when the one whose turn it was could not wait any longer.
    #[test]
    fn a_closure_that_was_taken_back_is_not_called() {
        let record = Arc::new(Record::default());
        record.turn.store(7 << STATE_BITS | OVER);
        Calls::apply(&mut 0, [record.address(), 7]);
        record.turn.store(8 << STATE_BITS | READY);
        Calls::apply(&mut 0, [record.address(), 7]);
        assert_eq!(record.turn.load(), 8 << STATE_BITS | READY);
    }
}
