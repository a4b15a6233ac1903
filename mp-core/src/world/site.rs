//! The identity of calls of `run`: the place in the source, the thread, and the call's number there. Also the results
//! of earlier calls.
//!
//! A process rank executes the program again, and must know which of its `run` calls is the intended one. Calls before
//! that one return the same results in the rank as in the caller, so that the program takes the same path. Threads are
//! identified by their names, which are the same in every execution, in whatever order the threads start.
//!
//! Results of worlds of threads are kept as well, as long as there is room. Such worlds could be run again, but might
//! return something else then, and every rank would write their output again. Calls from one place by threads of the
//! same name can't be distinguished: if the caller sees two of them at the same time, it refuses both.

use std::{
    cell::RefCell,
    collections::HashMap,
    os::fd::{AsFd, BorrowedFd},
    panic::Location,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::ThreadId,
};

use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::error::{Error, ErrorKind, Result};

/// A place in the source.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub(crate) struct Site {
    file: String,
    line: u32,
    column: u32,
}

impl Site {
    pub(crate) fn new(location: &Location<'_>) -> Self {
        let (file, line) = (location.file().to_owned(), location.line());
        Self { file, line, column: location.column() }
    }
}

impl std::fmt::Display for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// The origin of calls: a place, and the name of a thread. Calls are counted for each origin.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub(crate) struct Origin {
    pub(crate) site: Site,
    /// Empty for a thread without a name.
    pub(crate) thread: String,
}

/// One call of `run`: its origin, and its number among the calls from there (from 0).
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Call {
    pub(crate) origin: Origin,
    pub(crate) nth: u32,
}

/// The number of calls that are not counted. It differs from that of every counted call.
const NOT_COUNTED: u32 = u32::MAX;

/// A call that is over, with its encoded result.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Past {
    pub(crate) call: Call,
    #[serde(with = "bytes")]
    pub(crate) result: Vec<u8>,
}

/// Serializes a vector as bytes, and not element by element.
pub(super) mod bytes {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(bytes)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        // The bytes can be borrowed, because they lie in one piece in the segment.
        Ok(<&[u8]>::deserialize(from)?.to_vec())
    }
}

/// The largest number of bytes of results that are kept for worlds of threads. Worlds whose results do not fit are run
/// again.
const ROOM: usize = 16 << 20;

#[derive(Default)]
struct Journal {
    counts: HashMap<Origin, u32>,
    running: HashMap<Origin, Arc<Running>>,
    past: Vec<Past>,
    /// The number of bytes of results that are kept for worlds of threads.
    kept: usize,
}

/// A call that is running a world of processes now.
#[derive(Debug)]
struct Running {
    thread: ThreadId,
    disturbed: AtomicBool,
    /// Becomes readable when the call is disturbed.
    bell: EventFd,
}

static JOURNAL: Mutex<Option<Journal>> = Mutex::new(None);

fn with_journal<T>(act: impl FnOnce(&mut Journal) -> T) -> T {
    // A poisoned lock does no harm, because no code panics between two changes of the journal.
    let mut journal = JOURNAL.lock().unwrap_or_else(PoisonError::into_inner);
    act(journal.get_or_insert_default())
}

/// The code that a thread runs.
#[derive(Clone, Debug)]
pub(crate) enum Within {
    /// The program's own code.
    Program,
    /// The code of a rank that is a thread. The name distinguishes the rank and its world from others in the program.
    Thread(String),
    /// The code of a rank that is a process.
    Process,
}

thread_local! {
    static WITHIN: RefCell<Within> = const { RefCell::new(Within::Program) };
}

/// Returns which code this thread runs.
pub(crate) fn within() -> Within {
    WITHIN.with_borrow(Clone::clone)
}

/// Sets which code this thread runs from now on. Returns which code it ran before. In functions that the C library calls
/// at exit, the thread's variables are gone: no other code comes then.
pub(crate) fn set_within(now: Within) -> Within {
    WITHIN.try_with(|within| within.replace(now)).unwrap_or(Within::Program)
}

/// Returns the code that a rank of a world of threads runs, if this call makes the world.
pub(crate) fn within_rank(call: &Call, rank: u32) -> Within {
    match within() {
        Within::Process => Within::Process,
        _ => Within::Thread(format!("rank {rank} of {call}")),
    }
}

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Origin { site, thread } = &self.origin;
        match self.nth {
            NOT_COUNTED => write!(f, "{site} in the thread {thread:?}"),
            nth => write!(f, "call {} of {site} in the thread {thread:?}", u64::from(nth) + 1),
        }
    }
}

/// Returns the identity of a call at this place. With `counted`, the call gets a number, so that ranks can identify it.
/// Other calls get none, because some programs make any number of them, each in a thread of another name, and the
/// counts would take up memory.
pub(crate) fn call(location: &Location<'_>, counted: bool) -> Call {
    let thread = match within() {
        Within::Thread(name) => name,
        _ => std::thread::current().name().unwrap_or_default().to_owned(),
    };
    let origin = Origin { site: Site::new(location), thread };
    if !counted {
        return Call { origin, nth: NOT_COUNTED };
    }
    with_journal(|journal| {
        let count = journal.counts.entry(origin.clone()).or_default();
        let nth = *count;
        *count += 1;
        Call { origin, nth }
    })
}

/// Keeps the result of a call for later process ranks.
pub(crate) fn remember(call: Call, result: Vec<u8>) {
    with_journal(|journal| journal.past.push(Past { call, result }));
}

/// [`remember`]s the result of a world of threads, if there is room. Otherwise ranks run the world again.
pub(crate) fn remember_if_small(call: Call, result: Vec<u8>) {
    with_journal(|journal| {
        let bytes = size_of::<Past>() + result.len();
        if journal.kept + bytes <= ROOM {
            journal.kept += bytes;
            journal.past.push(Past { call, result });
        }
    });
}

/// Returns the results of earlier calls that ranks of this call may reach. In a test, these are the calls of this test.
pub(crate) fn past(call: &Call, test: bool) -> Vec<Past> {
    let concerns = |past: &&Past| !test || past.call.origin.thread == call.origin.thread;
    with_journal(|journal| journal.past.iter().filter(concerns).cloned().collect())
}

/// The right to make a world of processes from an origin. Only one thread has it at a time, because ranks can't
/// distinguish the calls of two threads of the same name.
#[derive(Debug)]
pub(crate) struct Turn {
    origin: Origin,
    running: Arc<Running>,
}

impl Turn {
    /// Takes the turn. If another thread has it, both calls are refused, because ranks of either call may take the
    /// other call for the intended one.
    pub(crate) fn take(origin: &Origin) -> Result<Self> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let bell = EventFd::from_value_and_flags(0, flags).map_err(Error::os("eventfd"))?;
        let thread = std::thread::current().id();
        let mine = Arc::new(Running { thread, disturbed: AtomicBool::new(false), bell });
        with_journal(|journal| {
            if let Some(other) = journal.running.get(origin).filter(|o| o.thread != thread) {
                other.disturbed.store(true, Ordering::Relaxed);
                other.bell.write(1).map_err(Error::os("write"))?;
                return Err(origin.ambiguous());
            }
            journal.running.insert(origin.clone(), Arc::clone(&mine));
            Ok(Self { origin: origin.clone(), running: mine })
        })
    }

    /// Returns a descriptor that becomes readable when another thread calls from the same origin.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.running.bell.as_fd()
    }

    /// Returns an error if another thread has called from the same origin in the meantime.
    pub(crate) fn check(&self) -> Result<()> {
        // Relaxed: the flag orders no other memory.
        match self.running.disturbed.load(Ordering::Relaxed) {
            true => Err(self.origin.ambiguous()),
            false => Ok(()),
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        with_journal(|journal| journal.running.remove(&self.origin));
    }
}

impl Origin {
    /// Returns the error for two threads that have called from here.
    pub(crate) fn ambiguous(&self) -> Error {
        let names = match self.thread.as_str() {
            "" => "without names".to_owned(),
            name => format!("named {name:?}"),
        };
        Error::from(ErrorKind::BadWorld(format!(
            "two threads {names} run worlds of processes at {} at the same time, and the ranks \
             can't tell their calls apart: give each thread a name of its own",
            self.site
        )))
    }
}
