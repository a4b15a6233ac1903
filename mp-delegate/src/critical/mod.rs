//! Delegated critical sections: a value that several ranks change, one operation at a time, whichever rank executes it.
//!
//! There is one interface. An [`Object`] is a kind of value and the operations on it. A [`Protected`] value of that
//! kind is opened by name, and [`apply`](Protected::apply) executes an operation in mutual exclusion and returns its
//! result. The [`Section`] that the value is opened with names the [`Scheme`] that does this:
//!
//! | scheme | who executes an operation | what moves to the executing rank |
//! |---|---|---|
//! | [`Tas`](Scheme::Tas), [`Mcs`](Scheme::Mcs), [`Clh`](Scheme::Clh), [`HybLock`](Scheme::HybLock) | the rank that asks for it, with a lock | the lock and the value |
//! | [`CcSynch`](Scheme::CcSynch), [`HSynch`](Scheme::HSynch), [`HybComb`](Scheme::HybComb) | one of the ranks that ask at that time, for all of them | the value, now and then, and requests |
//! | [`SlotServer`](Scheme::SlotServer), [`MpServer`](Scheme::MpServer) | a rank that does nothing else: a [`Server`] | requests |
//!
//! **Threads and processes.** Value, operations and results are plain data in the world's segment. An operation is code
//! that every rank has, because all ranks name the same [`Object`]. So all schemes work the same for threads and for
//! processes, and there is one implementation of each.
//!
//! In a world of threads operations can also be closures, on a value of any type: [`AnyValue`].
//!
//! **Limited and non-blocking waits.** [`try_apply`](Protected::try_apply) executes an operation if no other rank uses
//! the object, and [`apply_with`](Protected::apply_with) waits for a limited time. Locks have
//! [`try_lock`](Protected::try_lock) and [`lock_with`](Protected::lock_with). An operation that was given up is never
//! executed. [`submit`](Protected::submit) returns a request, which is waited for together with messages and collective
//! operations, for a limited time, or as a future.
//!
//! **What it costs.** An uncontended lock is two locked instructions. A request to a server is two transfers of a cache
//! line, one there and one back, and so is a contended lock: on two cores a thread that asks for one operation after
//! the other can't beat a lock. It can with [`submit`](Protected::submit), which has several operations in flight, so
//! that transfers overlap and short operations share a line. Many clients can, too, since the value stays in one core's
//! cache.
//!
//! With more cores (simulated ones of Sandy Bridge and Xeon Phi), a server or a combiner overtakes the best queue lock
//! as soon as the value is a cache line, which the lock would move: a server with 2 clients that ask for one operation
//! after the other, a combiner with 2 or 3. With an empty critical section neither does, because a lock is handed over
//! with two transfers, and a request takes two on the side that executes it. On Sandy Bridge a server overtakes the
//! lock even then, with 12 clients if responses are streamed, and with 2 clients that have 32 requests in flight.
//! `cargo run --release -p onchip-research -- figures critical` says more.
//!
//! **More ranks than cores.** Locks and combiners leave an object to one rank for a while and let the others sleep,
//! since every hand-over to a rank that does not run would take a context switch. So a rank may wait for some
//! milliseconds, in which others have thousands of operations executed. A server should have a core of its own.
//!
//! **What all schemes guarantee.** Operations on an object are linearizable. The operations of one handle are executed
//! in the order of its calls. An operation that panics does so where it is executed: the rank that asked for it gets
//! [`OperationPanicked`](mp_core::ErrorKind::OperationPanicked), and the others
//! [`Poisoned`](mp_core::ErrorKind::Poisoned), unless [`Section::poison`] says otherwise. An operation that
//! would wait for itself is refused. No rank waits for a dead rank, and no operation is executed twice:
//!
//! - A rank that is lost outside of all operations disturbs no other rank.
//! - A rank that is killed while it waits for a lock or a combiner, or gives it up, disturbs no other rank either. The
//!   others begin again in a new queue, with the operations that were not begun.
//! - A rank that is killed while it has the lock, combines, or serves may leave a half-written value. Its successor is
//!   one of the ranks that wait for the lock or the combiner, or a server that stands by. The successor
//!   [repairs](Object::repair) the value before anything else. If the value is good then, all continue; otherwise it is
//!   poisoned, and [`Protected::clear_poison`] lets them continue. A rank that is killed while it repairs has a
//!   successor as well.
//! - Of the requests that a combiner or a server was to execute, those that it had executed have their results, and the
//!   successor executes those that it had not begun. The one that it was executing gets
//!   [`OutcomeUnknown`](mp_core::ErrorKind::OutcomeUnknown), unless it is [harmless](Object::is_idempotent) to execute
//!   it again. (With an [`MpServer`](Scheme::MpServer) all requests that were on their way to it are unknown, as all
//!   are where no server stands by.)
//! - A rank that is a thread never dies alone. If it ends with a leaked guard, the others stop waiting, with
//!   [`PeerLost`](mp_core::ErrorKind::PeerLost), or with `OutcomeUnknown` where another rank may execute the
//!   operation.
//!
//! For an uncontended lock this costs no more than a store. Recovery takes some ten microseconds from when the death is
//! known, and detecting the death takes some hundred: `cargo run --release -p mp-delegate --example critical-handover`
//! says how long.
//!
//! | file | what it is |
//! |---|---|
//! | `object` | what is protected, and how operations become words |
//! | `section` | which scheme, with which parameters |
//! | `protected` | a rank's handle |
//! | `core`, `crowd` | a seat's share of the value, and handles that share a seat |
//! | `plan` | what a section means for an object |
//! | `request` | what a handle has submitted |
//! | `server` | a rank that serves |
//! | `site` | what algorithms see of the world; models and simulations use another one |
//! | `place`, `real` | an object's memory, and real ranks as such a world |
//! | `crew` | which ranks serve an object, or may yet |
//! | `fate`, `stop` | how operations end, and why algorithms can't go on |
//! | `locks`, `combiners`, `servers` | the algorithms, a file for each |
//! | `heal` | what happens to the queue of a lock or a combiner when a rank is killed in it |
//! | `closures` | operations that are closures |
//! | [`objects`] | objects that are ready to be protected: counter, stack, queues, map |
//! | `internals` | the algorithms themselves, for research beside the library |
//! | `value` | the only place that treats shared memory as a value |
//! | `once` | what is done once, by the first rank that arrives |
//! | `turns`, `waits` | ranks that share cores let each other work for a while, and how long waits usually take |
//! | `nesting` | which operations this thread is in the middle of |
//!
//! A new algorithm is a file beside the others, written against `Site`, and a line in each `match`
//! of `core` and `plan`; the conformance tests take it up from [`Scheme::ALL`].
//!
//! Source: Petrović's thesis, chapters 5 to 7.

mod closures;
mod combiners;
mod core;
mod crew;
mod crowd;
mod error;
mod fate;
mod heal;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals;
mod locks;
#[cfg(all(test, loom))]
mod model;
mod nesting;
mod object;
pub mod objects;
#[cfg(all(test, not(loom)))]
mod on_heap;
mod once;
mod place;
mod plan;
mod protected;
mod real;
mod request;
mod section;
mod server;
mod servers;
mod site;
mod stop;
mod turns;
mod value;
mod waits;

pub use closures::{AnyValue, Caller};
pub use error::TryApplyError;
pub use object::Object;
pub use protected::Protected;
pub use request::{CriticalOperation, Request};
pub use section::{Backoff, Scheme, Section, UnknownScheme};
pub use server::{Server, Waker};
pub use value::Guard;
