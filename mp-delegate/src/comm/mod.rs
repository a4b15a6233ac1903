//! Communication threads: sends that other threads carry out, while the caller goes on computing.
//!
//! ```
//! use onchip::{Channel, World};
//! use onchip::comm::CommThreads;
//!
//! World::threads(2).run(|rank| {
//!     let channel = Channel::degree(4).max_len(1000);
//!     if rank.id() == 0 {
//!         let threads = CommThreads::start(1)?;
//!         let mut rows = threads.delegate(rank.sender::<[f64]>("rows", 1, channel)?);
//!         let request = rows.send(vec![1.5; 1000]); // returns at once
//!         let sum: u64 = (0..1000).sum(); // meanwhile
//!         let row = request.wait()?; // the vector is ours again
//!         assert_eq!((sum, row.len()), (499_500, 1000));
//!     } else {
//!         let rows = rank.receiver::<[f64]>("rows", 0, channel)?;
//!         assert_eq!(rows.receive()?[999], 1.5);
//!     }
//!     Ok(())
//! })?;
//! # Ok::<(), onchip::Error>(())
//! ```
//!
//! Only sends are delegated: a receive just looks whether a message is there. A delegated send
//! returns a [`Request`] at once, which owns what is sent until that is done, and gives it back,
//! also when the message could not be sent. Within a [`scope`] it can be borrowed instead.
//!
//! | file | what it is |
//! |---|---|
//! | `threads` | the threads: how many, where, switched on and off, ended |
//! | `worker` | what one of them does |
//! | `delegated` | a sending end that they serve |
//! | `choice` | which of them |
//! | `pays` | whether it pays: the model, and the rule of [`Choice::Auto`] |
//! | `request` | what the caller holds meanwhile |
//! | `scope` | sends of what is only borrowed |
//! | `errand` | what goes on in steps, in a thread or in the rank's calls: collective operations |
//! | `distribute` | scatter and multicast over several channels |
//! | `record` | what a [trace](crate::trace) shows of all this |
//!
//! **Order.** Messages arrive in the order of the calls, even when several threads fill slots of
//! one channel at once, and whether they were delegated or sent by the caller.
//!
//! **Cost.** A call hands over one cache line, whatever the message's size, and allocates nothing.
//!
//! **Where they run.** In the process of the ranks they serve. Several ranks that are threads of
//! one process can share them: start them before [`World::run`](mp_core::World::run), or hand out
//! clones.
//!
//! **End.** Dropping a [`Delegated`] sender waits until what was delegated is sent, as sends
//! without help would have. Nothing ends silently: a request whose message can't be sent any more
//! says why.
//!
//! Source: Buono et al., sections III.A (overlap), III.B (distribution) and IV.B (delegation).

mod choice;
mod delegated;
mod distribute;
mod errand;
pub mod pays;
mod record;
mod request;
mod scope;
mod threads;
mod worker;

pub use choice::Choice;
pub use delegated::Delegated;
pub use distribute::{Distribution, Part, Undistributed, multicast, scatter};
pub use errand::{Awaiting, Errand, Errands, Progress, Step};
pub use pays::Spare;
pub use record::About;
pub use request::{DelegatedSend, Request};
pub use scope::{Scope, ScopedRequest, ScopedSend, scope};
pub use threads::{Builder, CommThreads};
