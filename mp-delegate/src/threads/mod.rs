//! Communication threads, which carry out sends while the caller goes on computing.
//!
//! ```
//! use onchip::{Channel, World};
//! use onchip::threads::CommThreads;
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
//! Only sends are delegated: a receive only checks whether a message is there. A delegated send returns a [`Request`]
//! at once. The request owns the message until the send is done, and then returns it, also when the message could not
//! be sent. Within a [`scope`] the message can be borrowed instead.
//!
//! | file | what it is |
//! |---|---|
//! | `pool` | the threads: their number and placement, switching them on and off, ending them |
//! | `worker` | the work of one of these threads |
//! | `station` | what the others know of it, and ask it to do |
//! | `delegated` | a sender that the threads serve |
//! | `choice` | the choice of a thread for each send |
//! | `pays` | when delegating pays: the model, and the rule of [`Choice::Auto`] |
//! | `request` | the request that the caller holds meanwhile |
//! | `scope` | sends of borrowed messages |
//! | `errand`, `errands` | work that proceeds in steps, in a thread or in the rank's calls, such as collective operations |
//! | `progress` | who carries a rank's errands on |
//! | `task`, `home` | errands in a thread, and in the rank's calls |
//! | `distribute` | scatter and multicast over several channels |
//! | `record` | what a [trace](crate::trace) shows of all this |
//!
//! **Order.** Messages arrive in the order of the calls, even when several threads fill slots of one channel at once.
//! This holds for delegated messages and for those that the caller sends.
//!
//! **Cost.** A call hands over one cache line, whatever the message's size, and allocates nothing.
//!
//! **Where they run.** The threads run in the process of the ranks that they serve. Several ranks that are threads of
//! one process can share them: start them before [`World::run`](mp_core::World::run), or hand out clones.
//!
//! **End.** Dropping a [`Delegated`] sender waits until all delegated messages are sent, as sends without help would
//! have. No request ends silently: a request whose message can't be sent any more returns the reason.
//!
//! Source: Buono et al., sections III.A (overlap), III.B (distribution) and IV.B (delegation).

mod choice;
mod delegated;
mod distribute;
mod errand;
mod errands;
mod home;
pub mod pays;
mod pool;
mod progress;
mod record;
mod request;
mod scope;
mod station;
mod task;
mod worker;

pub use choice::Choice;
pub use delegated::Delegated;
pub use distribute::{Distribution, Part, Undistributed, multicast, scatter};
pub use errand::{Errand, Step};
pub use errands::Errands;
pub use home::Awaiting;
pub use pays::Spare;
pub use pool::{Builder, CommThreads};
pub use progress::Progress;
pub use record::About;
pub use request::{DelegatedSend, Request};
pub use scope::{Scope, ScopedRequest, ScopedSend, scope};
