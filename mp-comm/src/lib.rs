//! Communicators: groups of ranks that send each other tagged messages, as users of MPI know them.
//! Programs use it through the `onchip` crate.
//!
//! ```
//! use onchip::{ANY_SOURCE, ANY_TAG, Communicator};
//!
//! onchip::World::threads(4).run(|rank| {
//!     let world = Communicator::world(rank);
//!     if world.rank() > 0 {
//!         let squares: Vec<u64> = (0..world.rank() as u64).map(|i| i * i).collect();
//!         return Ok(world.send(&squares, 0, 7)?);
//!     }
//!     for _ in 1..world.size() {
//!         let (squares, status) = world.receive_vec::<u64>(ANY_SOURCE, ANY_TAG)?;
//!         assert_eq!((squares.len(), status.tag), (status.source, 7));
//!     }
//!     Ok(())
//! })?;
//! # Ok::<(), onchip::Error>(())
//! ```
//!
//! Channels ([`Rank::sender`](mp_core::Rank::sender)) remain the faster and the simpler way between
//! two ranks that know what they tell each other: nothing is matched there. Communicators are for
//! programs in which tags and wildcards say which message is meant, and for those that come from
//! MPI.
//!
//! | MPI | here |
//! |---|---|
//! | `MPI_COMM_WORLD`, `MPI_COMM_SELF` | [`Communicator::world`], [`Communicator::own`] |
//! | `MPI_Comm_rank`, `_size`, `_group` | [`rank`](Communicator::rank), [`size`](Communicator::size), [`group`](Communicator::group) |
//! | `MPI_Comm_split`, `_split_type`, `_dup`, `_create` | [`split`](Communicator::split), [`split_shared`](Communicator::split_shared), [`duplicate`](Communicator::duplicate), [`create`](Communicator::create) |
//! | `MPI_Send`, `MPI_Ssend`, `MPI_Bsend` | [`send`](Communicator::send), [`synchronous_send`](Communicator::synchronous_send), [`buffered_send`](Communicator::buffered_send) |
//! | `MPI_Comm_flush_buffer` | [`flush`](Communicator::flush) |
//! | `MPI_Rsend` | [`send`](Communicator::send): it would not be faster |
//! | `MPI_Recv` | [`receive_into`](Communicator::receive_into), [`receive_vec`](Communicator::receive_vec), [`receive`](Communicator::receive) |
//! | `MPI_Sendrecv` | [`send_receive`](Communicator::send_receive) |
//! | `MPI_Probe`, `MPI_Iprobe`, `MPI_Get_count` | [`probe`](Communicator::probe), [`try_probe`](Communicator::try_probe), [`Status::count`] |
//! | `MPI_ANY_SOURCE`, `MPI_ANY_TAG`, `MPI_PROC_NULL` | [`ANY_SOURCE`], [`ANY_TAG`], `None` where there is no neighbour |
//! | `MPI_Isend`, `MPI_Issend`, `MPI_Irecv` | [`immediate_send`](Communicator::immediate_send), [`immediate_synchronous_send`](Communicator::immediate_synchronous_send), [`immediate_receive`](Communicator::immediate_receive); [`exchange`](Communicator::exchange) of what is borrowed |
//! | `MPI_Wait`, `MPI_Test`, `MPI_Cancel` | [`Request::wait`], [`test`](Request::test), [`cancel`](Request::cancel) |
//! | `MPI_Waitall`, `any`, `some`; `MPI_Testall`, `any`, `some` | [`wait_all`], [`wait_any`], [`wait_some`]; [`test_all`], [`test_any`], [`test_some`] |
//! | `MPI_Send_init`, `MPI_Recv_init`, `MPI_Start`, `MPI_Startall` | [`persistent_send`](Communicator::persistent_send), [`persistent_receive`](Communicator::persistent_receive), [`start`](PersistentSend::start), [`start_all`] |
//! | `MPI_Group_*` | [`Group`] |
//! | `MPI_Barrier`, `MPI_Bcast`, `MPI_Reduce`, `MPI_Gather` and what else all ranks call together | the methods of `onchip::collectives::Collectives` |
//! | `MPI_Comm_get_failed`, `_ack_failed` | [`failed_ranks`](Communicator::failed_ranks), [`acknowledge`](Communicator::acknowledge) |
//! | `MPI_Comm_revoke`, `_is_revoked`, `_agree`, `_shrink` | [`revoke`](Communicator::revoke), [`is_revoked`](Communicator::is_revoked), [`agree`](Communicator::agree), [`shrink`](Communicator::shrink) |
//! | `MPI_ERR_PROC_FAILED`, `MPI_ERR_REVOKED` | [`PeerLost`](crate::ErrorKind::PeerLost), [`Revoked`](crate::ErrorKind::Revoked) |
//! | `MPI_Cart_*`, `MPI_Dims_create` | [`Cartesian`], [`balanced`] |
//!
//! New are [buffers that move](Communicator::send_buffer) instead of being copied, and the exchange
//! of [borders](Halo) between the blocks of a grid.
//!
//! # What holds
//!
//! **Order.** Of two messages between the same ranks in the same communicator that a receive could
//! take, it takes the one that was sent first, whatever their sizes, and whether they were probed.
//! Posted receives get messages in the order in which they were posted.
//!
//! **Together.** Calls that all ranks must make, to [`duplicate`](Communicator::duplicate),
//! [`split`](Communicator::split) and so on, compare what the ranks call: where that differs all get
//! [`CallsDiffer`](crate::ErrorKind::CallsDiffer), which names who called what. [`Joint::check`] does that for
//! other operations, and where [checks](Check) are on, for all of them together.
//!
//! **Contexts.** Every communicator has a number that its members agree on, and that goes with
//! every message: what is sent in one is never received in another.
//!
//! **Types and lengths.** Every message says what its elements are. A receive of another type, or
//! with too short a buffer, gets an [`Error`] that shows both sides, and the message stays for
//! another receive.
//!
//! **Deaths.** A rank that died, or ended, is an error for whoever counts on it, after everything
//! it had sent. Nobody waits for it for ever. A receive from any source fails as long as any rank is lost
//! that was not [acknowledged](Communicator::acknowledge), and then goes on as long as any other rank can
//! send. A rank that gives up a communicator because of a death [revokes](Communicator::revoke) it, so that
//! nobody waits for this rank there; those that are left go on in a [smaller](Communicator::shrink) one.
//!
//! **Progress.** What is under way gets further while the thread that began it waits in any call of the
//! library, for whatever: a message, a collective operation, a channel, a critical section; and in tests of
//! requests. A rank that computes makes no progress with messages; communication threads serve channels, and
//! carry on collective operations, for that. What is still to be sent when the last communicator is dropped
//! goes during other calls, and is waited for when the rank's code has returned; when that returns an error, or
//! panics, it is given up. [`flush`](Communicator::flush) waits for it before.
//!
//! **Memory.** Channels are opened when the first message goes from one rank to another, or is
//! asked for: 9 KiB, and for messages of more than 472 bytes or buffers that move another 258 KiB. What fills them
//! makes the sender wait. A message that nobody has asked for stays there, unless a receive looks
//! for something behind it: then it goes to the receiver's own memory. That has a
//! [limit](Communicator::set_unexpected_limit), past which the payload stays with the sender.
//!
//! **Copies.** A message goes through its channel in two copies, in pieces that overlap. Where ranks
//! are threads, and there is a core for each, [`send`](Communicator::send) offers a slice of 4 KiB or
//! more to the receiver for some hundred nanoseconds: one that waits for it copies it from there, and
//! the sender returns when it has. After an offer that came too early, the next messages are not
//! offered.
//!
//! **Errors** turn into [`mp_core::Error`] by `?`.
//!
#![forbid(unsafe_code)]

mod agree;
mod background;
mod board;
mod call;
mod cartesian;
mod check;
mod communicator;
mod desk;
mod digest;
mod eager;
mod elements;
mod engine;
mod error;
mod exchange;
mod group;
mod halo;
mod inward;
mod joint;
mod ledger;
mod listening;
mod loan;
mod members;
#[cfg(doctest)]
mod must_not_compile;
mod outward;
mod owner;
mod persistent;
mod posted;
mod request;
mod shelf;
mod split;
mod status;
mod store;
mod survivors;
mod wire;

pub use call::{Call, Callers, Calls};
pub use cartesian::{Cartesian, balanced, share};
pub use check::{CHECK_VARIABLE, Check};
pub use communicator::Communicator;
pub use eager::{UNEXPECTED_VARIABLE, Unexpected};
pub use elements::ElementType;
pub use error::{Error, ErrorKind, Failed, Result};
pub use exchange::Exchange;
pub use group::Group;
pub use halo::Halo;
pub use joint::Joint;
pub use ledger::{Entered, Ledger, Missing};
pub use mp_core::{
    Buffer, BufferMut, Pending, Request, test_all, test_any, test_some, wait_all, wait_any,
    wait_some,
};
pub use persistent::{PersistentReceive, PersistentSend, Start, start_all};
pub use request::{ReceiveOperation, ReceiveRequest, SendOperation, SendRequest};
pub use split::Shared;
pub use status::{ANY_SOURCE, ANY_TAG, Source, Status, Tag};
pub use survivors::Agreement;
