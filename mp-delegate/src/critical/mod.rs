//! Delegated critical sections: a value that several ranks change, one at a time, wherever that
//! happens.
//!
//! There is one interface. An [`Object`] is a kind of value and the operations on it; a
//! [`Protected`] value of that kind is opened by name, and [`apply`](Protected::apply) executes an
//! operation in mutual exclusion and returns its result. Which of the [`Scheme`]s does that is a
//! word in the [`Section`] it is opened with:
//!
//! | scheme | who executes an operation | what comes to him |
//! |---|---|---|
//! | [`Tas`](Scheme::Tas), [`Mcs`](Scheme::Mcs), [`Clh`](Scheme::Clh), [`HybLock`](Scheme::HybLock) | whoever asks for it, with a lock | the lock and the value |
//! | [`CcSynch`](Scheme::CcSynch), [`HSynch`](Scheme::HSynch), [`HybComb`](Scheme::HybComb) | one of those who ask at that time, for all of them | the value, now and then, and requests |
//! | [`SlotServer`](Scheme::SlotServer), [`MpServer`](Scheme::MpServer) | a rank that does nothing else: a [`Server`] | requests |
//!
//! **Threads and processes.** Value, operations and results are plain data in the world's segment,
//! and an operation is code that every rank has because it names the same [`Object`]. So all schemes
//! are the same for ranks of either kind, and there is one implementation of each.
//!
//! In a world of threads operations can be closures as well, on a value of any type: [`AnyValue`].
//!
//! **Not to wait for long.** [`try_apply`](Protected::try_apply) executes an operation if nobody else is at the
//! object, and [`apply_with`](Protected::apply_with) waits for a time at most; locks have
//! [`try_lock`](Protected::try_lock) and [`lock_with`](Protected::lock_with). What was given up is never
//! executed. [`submit`](Protected::submit) returns a request, which is waited for together with messages and
//! collective operations, for a time, or as a future.
//!
//! **What it costs.** An uncontended lock is two locked instructions. A request to a server is two
//! transfers of a cache line, one there and one back, as a contended lock is: on two cores a thread
//! that asks for one operation after the other can't beat a lock. It can with
//! [`submit`](Protected::submit), which has several in flight, so that transfers overlap and short
//! operations share a line; and many clients can, since the value stays in one core's cache.
//!
//! With more cores, simulated ones of Sandy Bridge and Xeon Phi, a server or a combiner overtakes the
//! best queue lock as soon as the value is a cache line, which the lock would move: a server with 2
//! clients that ask for one operation after the other, a combiner with 3 or 4. With nothing in the critical
//! section neither does, because a lock is handed over with two transfers, and a request takes two on the
//! side that executes it; on Sandy Bridge a server does with 12 clients if responses are streamed, and
//! with 2 that have 32 requests in flight. `cargo run --release --example critical_figures` says more.
//!
//! **More ranks than cores.** Locks and combiners leave an object to one rank for a while and let the
//! others sleep, since every hand-over to a rank that does not run would take a switch. So a rank may
//! wait for some milliseconds, in which others have thousands of operations executed. A server
//! should have a core of its own.
//!
//! **What all schemes keep.** Operations on an object are linearizable. A handle's own are executed in the order of
//! its calls. An operation that panics does so where it is executed: whoever asked for it gets
//! [`Panicked`](crate::critical::ErrorKind::Panicked), and the others
//! [`Poisoned`](crate::critical::ErrorKind::Poisoned), unless [`Section::poison`] says otherwise. An operation that
//! would wait for itself is refused. Nobody waits for the dead, and no operation is executed twice:
//!
//! - A rank that is lost outside of all operations disturbs nobody.
//! - One that is killed while it waits for a lock or a combiner, or gives it up, does not either: the
//!   others begin again in a new queue, with what was not begun.
//! - One that is killed while it has the lock, combines, or serves may leave half a value. Whoever comes
//!   next follows it, one of those who wait for a lock or a combiner, or a server that stands by, and
//!   [repairs](Object::repair) the value before anything else. If it is good then, all go on; else it is
//!   poisoned, and [`Protected::clear_poison`] lets them go on. Who repairs can be killed as well, and is
//!   followed.
//! - Of the requests that a combiner or a server was to execute, those that it had executed have their
//!   results, and those that it had not begun are executed by whoever follows. The one that it was killed in
//!   the middle of gets [`Unknown`](crate::critical::ErrorKind::Unknown), unless it is [harmless](Object::is_idempotent) to execute it
//!   again. (With an [`MpServer`](Scheme::MpServer) all that were on their way to it are unknown, as all are
//!   where no server stands by.)
//! - A rank that is a thread never dies alone. One that ends with a guard that it has leaked ends the
//!   others' waits, with [`Lost`](crate::critical::ErrorKind::Lost), or `Unknown` where somebody else may execute what was asked for.
//!
//! A lock that is free takes no longer for that than a store. To go past the dead takes some ten
//! microseconds from when the death is known, and to hear of it some hundred:
//! `cargo run --release -p mp-delegate --example critical-handover` says how long.
//!
//! | file | what it is |
//! |---|---|
//! | `object` | what is protected, and how operations become words |
//! | `section` | which scheme, with which parameters |
//! | `protected` | a rank's handle |
//! | `request` | what a handle has submitted |
//! | `server` | a rank that serves |
//! | `site` | what algorithms see of the world; in models and simulations another one |
//! | `locks`, `combiners`, `servers` | the algorithms, a file for each |
//! | `heal` | what becomes of a lock's or a combiner's queue when a rank is killed in it |
//! | `closures` | operations that are closures |
//! | [`objects`] | objects that are ready to be protected: counter, stack, queues, map |
//! | [`nonblocking`] | what they are compared with: a stack and a queue that protect nothing |
//! | `simulated` | the same algorithms on simulated machines with many cores |
//! | `value` | the one place that takes shared memory for a value |
//! | `once` | what is done once, by whoever comes first |
//! | `turns` | ranks that share cores let each other work for a while |
//! | `nesting` | which operations this thread is in the middle of |
//!
//! A new algorithm is a file beside the others, written against `Site`, and a line in each `match`
//! of `protected`; the conformance tests take it up from [`Scheme::ALL`].
//!
//! Source: Petrović's thesis, chapters 5 to 7.

mod closures;
mod combiners;
mod error;
mod heal;
mod locks;
#[cfg(all(test, loom))]
mod model;
mod nesting;
pub mod nonblocking;
mod object;
pub mod objects;
#[cfg(all(test, not(loom)))]
mod on_heap;
mod once;
mod protected;
mod request;
mod section;
mod server;
mod servers;
#[cfg(all(feature = "simulated", not(loom)))]
pub mod simulated;
mod site;
mod turns;
mod value;

pub use closures::{AnyValue, Caller};
pub use error::{Error, ErrorKind, Result, TryApplyError};
pub use object::Object;
pub use protected::Protected;
pub use request::{CriticalOperation, Request};
pub use section::{Backoff, Scheme, Section, UnknownScheme};
pub use server::{Server, Waker};
pub use value::Guard;
