//! Communicators: groups of ranks that exchange tagged messages, as in MPI.
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
//! Channels ([`Rank::sender`](mp_core::Rank::sender)) remain the faster and simpler way to connect two ranks that agree
//! on what they send, because nothing is matched there. Communicators are for programs in which tags and wildcards say
//! which message is meant, and for programs that come from MPI.
//!
//! | MPI | here |
//! |---|---|
//! | `MPI_COMM_WORLD`, `MPI_COMM_SELF` | [`Communicator::world`], [`Communicator::comm_self`] |
//! | `MPI_Comm_rank`, `_size`, `_group` | [`rank`](Communicator::rank), [`size`](Communicator::size), [`group`](Communicator::group) |
//! | `MPI_Comm_set_name`, `_get_name` | [`set_name`](Communicator::set_name), [`name`](Communicator::name) |
//! | `MPI_Comm_split`, `_split_type`, `_dup`, `_create` | [`split`](Communicator::split), [`split_shared`](Communicator::split_shared), [`duplicate`](Communicator::duplicate), [`create`](Communicator::create) |
//! | `MPI_Send`, `MPI_Ssend`, `MPI_Bsend` | [`send`](Communicator::send), [`synchronous_send`](Communicator::synchronous_send), [`buffered_send`](Communicator::buffered_send) |
//! | `MPI_Comm_flush_buffer` | [`flush`](Communicator::flush) |
//! | `MPI_Rsend` | [`send`](Communicator::send): it would not be faster |
//! | `MPI_Recv` | [`receive_into`](Communicator::receive_into), [`receive_vec`](Communicator::receive_vec), [`receive`](Communicator::receive) |
//! | `MPI_Sendrecv` | [`send_receive`](Communicator::send_receive) |
//! | `MPI_Probe`, `MPI_Iprobe`, `MPI_Get_count` | [`probe`](Communicator::probe), [`try_probe`](Communicator::try_probe), [`Status::count`] |
//! | `MPI_ANY_SOURCE`, `MPI_ANY_TAG`, `MPI_PROC_NULL` | [`ANY_SOURCE`], [`ANY_TAG`], `None` where there is no neighbour |
//! | `MPI_Isend`, `MPI_Issend`, `MPI_Irecv` | [`nonblocking_send`](Communicator::nonblocking_send), [`nonblocking_synchronous_send`](Communicator::nonblocking_synchronous_send), [`nonblocking_receive`](Communicator::nonblocking_receive); [`exchange`](Communicator::exchange) of what is borrowed |
//! | `MPI_Wait`, `MPI_Test`, `MPI_Cancel` | [`Request::wait`], [`test`](Request::test), [`cancel`](Request::cancel) |
//! | `MPI_Waitall`, `any`, `some`; `MPI_Testall`, `any`, `some` | [`wait_all`], [`wait_any`], [`wait_some`]; [`test_all`], [`test_any`], [`test_some`] |
//! | `MPI_Send_init`, `MPI_Recv_init`, `MPI_Start`, `MPI_Startall` | [`persistent_send`](Communicator::persistent_send), [`persistent_receive`](Communicator::persistent_receive), [`start`](PersistentSend::start), [`start_all`] |
//! | `MPI_Group_*` | [`Group`] |
//! | `MPI_Barrier`, `MPI_Bcast`, `MPI_Reduce`, `MPI_Gather` and the other collective operations | methods of [`Communicator`], see [`collectives`](crate::collectives) |
//! | `MPI_Comm_get_failed`, `_ack_failed` | [`failed_ranks`](Communicator::failed_ranks), [`acknowledge`](Communicator::acknowledge) |
//! | `MPI_Comm_revoke`, `_is_revoked`, `_agree`, `_shrink` | [`revoke`](Communicator::revoke), [`is_revoked`](Communicator::is_revoked), [`agree`](Communicator::agree), [`shrink`](Communicator::shrink) |
//! | `MPI_ERR_PROC_FAILED`, `MPI_ERR_REVOKED` | [`PeerLost`](mp_core::ErrorKind::PeerLost), [`Revoked`](mp_core::ErrorKind::Revoked) |
//! | `MPI_Cart_*`, `MPI_Dims_create` | [`Cartesian`], [`dims_create`] |
//!
//! Two features are not in MPI: [buffers that move](Communicator::send_buffer) instead of being copied, and the
//! exchange of [borders](Halo) between the blocks of a grid.
//!
//! # Guarantees
//!
//! **Order.** If a receive could take either of two messages between the same ranks in the same communicator, it takes
//! the one that was sent first. Their sizes do not matter, nor whether they were probed. Posted receives get messages
//! in the order in which they were posted.
//!
//! **Collective calls.** Calls that all ranks must make, such as [`duplicate`](Communicator::duplicate) and
//! [`split`](Communicator::split), compare what the ranks call. If the calls differ, all ranks get
//! [`CallsDiffer`](mp_core::ErrorKind::CallsDiffer), which names the ranks and their calls. [`Joint::check`] does the
//! same for other operations. Where [checks](Check) are on, it is done for all collective operations.
//!
//! **Contexts.** Every communicator has a number that its members agree on and that every message carries. A message
//! that is sent in one communicator is never received in another.
//!
//! **Types and lengths.** Every message states the type of its elements. A receive of another type, or with a buffer
//! that is too short, gets an [error](mp_core::Error) that shows both sides. The message stays for another receive.
//!
//! **Deaths.** If a rank died or ended, the ranks that depend on it get an error, after they have received everything
//! it had sent. No rank waits for it forever. A receive from any source fails as long as any rank is lost that was not
//! [acknowledged](Communicator::acknowledge). After that it goes on as long as any other rank can send. A rank that
//! gives up a communicator because of a death [revokes](Communicator::revoke) it, so that no other rank waits for it
//! there. The remaining ranks go on in a [smaller](Communicator::shrink) communicator.
//!
//! **Progress.** Pending operations make progress while the thread that began them waits in any call of the library
//! (for a message, a collective operation, a channel or a critical section), and while it tests requests. A rank that
//! computes makes no progress with messages. For that there are communication threads, which serve channels and carry
//! on collective operations. Messages that are still to be sent when the last communicator is dropped are sent during
//! other calls. When the rank's code has returned, the rank waits until they are sent. If the code returns an error or
//! panics, they are given up. [`flush`](Communicator::flush) waits for them earlier.
//!
//! **Memory.** Channels are opened when the first message goes from one rank to another, or is asked for. They take 9
//! KiB, and another 258 KiB for messages of more than 472 bytes or buffers that move; more in a world of few ranks, up
//! to four times a core's second-level cache for all that lead to one rank. The sender waits when they are full. An
//! unexpected message stays in the channel, unless a receive looks for something behind it. It is then moved to the
//! receiver's own memory. That memory has a [limit](Communicator::set_unexpected_limit). Beyond the limit, the payload
//! stays with the sender.
//!
//! **Copies.** A message goes through its channel in two copies, in pieces that overlap. Where ranks are threads and
//! there is a core for each, [`send`](Communicator::send) offers a slice of 4 KiB or more to the receiver for a few
//! hundred nanoseconds. A receiver that is waiting for the message copies it directly from the slice, and the sender
//! returns when that copy is complete. After an offer that came too early, the next messages are not offered.

mod agreement;
mod cartesian;
mod digest;
pub(crate) mod error;
mod group;
mod halo;
mod members;
mod messages;
#[cfg(doctest)]
mod must_not_compile;
mod numbers;
mod point_to_point;
mod requests;
mod shelf;
mod sides;
mod split;
mod status;
mod stream;
mod title;

pub use agreement::check::{CHECK_VARIABLE, Check};
pub use agreement::joint::Joint;
pub(crate) use agreement::joint::Revocation;
pub use agreement::ledger::{Entered, Ledger, Missing};
pub use agreement::survivors::Agreement;
pub use cartesian::{Cartesian, dims_create, share};
pub use group::Group;
pub use halo::Halo;
pub use messages::eager::{UNEXPECTED_VARIABLE, Unexpected};
pub use mp_core::{
    Buffer, BufferMut, Call, Callers, Calls, ElementType, Pending, Request, test_all, test_any,
    test_some, wait_all, wait_any, wait_some,
};
pub use point_to_point::Communicator;
pub use requests::exchange::Exchange;
pub use requests::persistent::{PersistentReceive, PersistentSend, Start, start_all};
pub use requests::request::{ReceiveOperation, ReceiveRequest, SendOperation, SendRequest};
pub use split::Shared;
pub use status::{ANY_SOURCE, ANY_TAG, Source, Status, Tag};
pub(crate) use title::Title;
