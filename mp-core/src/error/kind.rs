//! The kinds of errors.

use std::{io, sync::Arc, time::Duration};

use super::{Call, Calls, ElementType, Place, RanksFailed, Recipient, place};
use crate::{channel::ChannelSpec, mpb::spec::Mpbs, segment::SegmentError, topology};

/// What went wrong: see [`Error::kind`](super::Error::kind).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A rank panicked or died. What it had sent before was delivered. If the call waited for a flag, the rank can be
    /// any rank of the MPBs. In a critical section, the operation was not executed, because the rank held the section
    /// or was to make the object's value.
    #[error("{}", place::lost(*rank, *world_rank, place))]
    PeerLost {
        /// The lost rank: its number in the communicator of the call, or in the world if the call has no communicator.
        rank: usize,
        /// Its number in the world.
        world_rank: usize,
        /// Where the call failed.
        place: Place,
    },
    /// The rank has returned, or has closed its communicators: it no longer takes or sends anything. What it had sent
    /// before was delivered.
    #[error(
        "rank {rank} of the communicator has ended: it has returned, or has closed its communicators, so that it takes \
         and sends nothing more"
    )]
    PeerEnded {
        /// The rank.
        rank: usize,
    },
    /// The data from the rank is invalid, its channels can't be used, or it has no memory to send more.
    #[error("nothing more can be received from rank {rank}: {reason}")]
    PeerBroken {
        /// The rank.
        rank: usize,
        /// What is wrong.
        reason: String,
    },
    /// The other end was closed and all its messages were received, or no rank is left that could set a flag. For
    /// collective operations, a rank that is waited for has returned, or has closed the communicator.
    #[error(
        "nobody is left at the other end of {channel:?}: the other rank has dropped its end or has returned, so that \
         nothing more will be sent or received there"
    )]
    Disconnected {
        /// The name of the channel, the MPBs or the communicator.
        channel: Arc<str>,
    },
    /// A receive from any source failed because every possible source has ended, or was lost and acknowledged.
    #[error(
        "nobody is left to receive from: all other ranks of the communicator have ended, or were lost and acknowledged"
    )]
    NobodyLeft,
    /// A rank has revoked the [MPBs](crate::Rank::revoke_mpbs) or the communicator. In a communicator, nothing can be
    /// sent or received any more, and no collective operation can be called, except `shrink` and `agree`.
    #[error("{}", place::revoked(place))]
    Revoked {
        /// The MPBs or the communicator that was revoked.
        place: Place,
    },
    /// The time limit of the call has expired. An operation of a critical section was not executed, and never will be.
    #[error("{}", place::timeout(place, *limit))]
    Timeout {
        /// The call that took too long.
        place: Place,
        /// The limit.
        limit: Duration,
    },
    /// The call waits for something that only this same rank could do.
    #[error(
        "this rank would wait for ever for a message that only it could send or receive: start one of the two with a \
         nonblocking call"
    )]
    WaitsForItself,
    /// All slots of the channel are taken. At degree 0: no receiver is waiting.
    #[error(
        "channel {channel:?} of degree {degree} is full: {}; try again, or send with a call that waits",
        if *degree == 0 { "no receiver is waiting" } else { "its receivers have not taken what was sent" },
    )]
    Full {
        /// The channel's name.
        channel: Arc<str>,
        /// Its asynchrony degree.
        degree: u64,
    },
    /// The call would need the memory of a rank that runs on another node.
    #[error(
        "rank {rank} is on another node, and {what} work only among the ranks of one node; use channels between two \
         ranks, one for each pair, or shared ones, tagged messages, or a communicator's collective \
         operations (`Communicator::all_reduce`, `Communicator::nonblocking` and others)"
    )]
    OnAnotherNode {
        /// The rank.
        rank: usize,
        /// What was asked for.
        what: &'static str,
    },
    /// Guards of this receiver hold every slot of the channel, so that no message can arrive.
    #[error(
        "all {held} slots of channel {channel:?} are held by guards of this receiver: drop one before the next \
         receive, or open the channel with a higher degree"
    )]
    GuardsHeld {
        /// The channel's name.
        channel: Arc<str>,
        /// How many guards there are.
        held: u64,
    },
    /// The message is longer than the channel's slots.
    #[error(
        "a message of {len} elements is too long for channel {channel:?}, which takes up to {max}: allow more by \
         Channel::max_len, or send it by send_buffer"
    )]
    TooLong {
        /// The channel's name.
        channel: Arc<str>,
        /// The message's length in elements.
        len: usize,
        /// The longest length allowed, in elements.
        max: usize,
    },
    /// The message is longer than the buffer. It was not received, and can still be received.
    #[error(
        "a message of {count} elements from rank {source_rank} with tag {tag} is too long for the buffer of {room}: \
         receive it into a longer one, or with receive_vec"
    )]
    Truncated {
        /// The sender.
        source_rank: usize,
        /// The message's tag.
        tag: u32,
        /// Its length in elements.
        count: usize,
        /// The length of the buffer in elements.
        room: usize,
    },
    /// A block of a collective operation is longer than the place for it.
    #[error(
        "the block of {bytes} bytes that rank {source_rank} sends is too long for the place of {room} bytes: all ranks \
         must agree on the length of a block"
    )]
    BlockTooLong {
        /// The sender, as a rank of the communicator.
        source_rank: usize,
        /// The length of the block, in bytes.
        bytes: usize,
        /// The length of the place, in bytes.
        room: usize,
    },
    /// The message is of another type, or has another number of elements where one is expected. It was not received,
    /// and can still be received.
    #[error(
        "a message of {count} × {theirs} from rank {source_rank} with tag {tag} does not fit a receive of {ours}: \
         receive what the sender sends"
    )]
    WrongElements {
        /// The sender.
        source_rank: usize,
        /// The message's tag.
        tag: u32,
        /// Its length in elements.
        count: usize,
        /// The type of the receiving call.
        ours: Box<ElementType>,
        /// The type of the sending call.
        theirs: Box<ElementType>,
    },
    /// A send that continued in the background has failed. Either a communication thread did not send what was
    /// delegated to it, or a nonblocking or buffered send failed for a reason that lies in this rank, usually for lack
    /// of memory.
    ///
    /// The request of the send returns this error. If no request has returned it, the next call of this rank that waits
    /// does, because this call may be waiting for an answer to that message. It can be any call of the library,
    /// including one for a channel, a flag or a collective operation. Exceptions are the wait of a critical section,
    /// and [`wait`](crate::Request::wait) of a collective request, whose operation owns its buffer.
    #[error("a message {to} was not sent: {reason}")]
    NotSent {
        /// The channel or the rank to which the message was to be sent.
        to: Recipient,
        /// The reason.
        reason: String,
    },
    /// The two ends of a channel were opened with different types, degrees or lengths.
    #[error(
        "the ends of channel {channel:?} differ, and must be opened alike: here {ours}; there {theirs}"
    )]
    Mismatch {
        /// The channel's name.
        channel: Arc<str>,
        /// This end.
        ours: Box<ChannelSpec>,
        /// The other end.
        theirs: Box<ChannelSpec>,
    },
    /// A channel can't be made with these parameters.
    #[error("channel {channel:?} can't be opened or used in this way: {reason}")]
    BadChannel {
        /// The channel's name.
        channel: Arc<str>,
        /// What is wrong.
        reason: String,
    },
    /// Ranks asked for message passing buffers of different lengths.
    #[error(
        "the MPBs {mpbs:?} of the ranks differ, and must be opened alike: here {ours}; there {theirs}"
    )]
    MpbMismatch {
        /// The name of the MPBs.
        mpbs: Arc<str>,
        /// What this rank asked for.
        ours: Box<Mpbs>,
        /// What another rank asked for.
        theirs: Box<Mpbs>,
    },
    /// Ranks named different sets of ranks for the same message passing buffers.
    #[error(
        "the MPBs {mpbs:?} are of ranks {ours:?} here, of ranks {theirs:?} there: all must name the same ranks in the \
         same order"
    )]
    MpbRanksMismatch {
        /// The name of the MPBs.
        mpbs: Arc<str>,
        /// The ranks that this rank named, by their numbers in the world.
        ours: Box<[usize]>,
        /// The ranks that another rank named. They are in the order of that rank only for the rank that opened the MPBs
        /// later. If both lists have the same ranks, these ranks were named in different orders.
        theirs: Box<[usize]>,
    },
    /// Message passing buffers can't be made with these parameters.
    #[error("the MPBs {mpbs:?} can't be opened or used in this way: {reason}")]
    BadMpbs {
        /// The name of the MPBs.
        mpbs: Arc<str>,
        /// What is wrong.
        reason: String,
    },
    /// The lines named are beyond the end of a message passing buffer.
    #[error(
        "{count} lines from line {first} on are beyond the end of MPBs {mpbs:?}, which have {lines} lines each"
    )]
    NoSuchLines {
        /// The name of the MPBs.
        mpbs: Arc<str>,
        /// The first line named.
        first: usize,
        /// How many lines were named.
        count: usize,
        /// How many lines each MPB has.
        lines: usize,
    },
    /// The payload has more bytes than a flag's line holds beside the flag.
    #[error(
        "a payload of {bytes} bytes is too long to be beside a flag of MPBs {mpbs:?}, where up to {most} fit: put it \
         into lines of its own"
    )]
    PayloadTooLong {
        /// The name of the MPBs.
        mpbs: Arc<str>,
        /// How many bytes the payload has.
        bytes: usize,
        /// The most bytes allowed.
        most: usize,
    },
    /// The named rank does not exist.
    #[error("there is no rank {rank}: there are {size}, numbered from 0")]
    NoSuchRank {
        /// The rank named.
        rank: usize,
        /// How many ranks there are.
        size: usize,
    },
    /// The ranks did not all call the same collective operation. No rank went on.
    #[error("all ranks must make the same call, but {0}")]
    CallsDiffer(Box<Calls>),
    /// A rank did not come to a collective operation within the limit.
    #[error(
        "rank {rank} of the communicator has not come within {limit:?} to {call}: find out what it does instead, or \
         raise the limit of the check"
    )]
    RankMissing {
        /// The rank. If several are missing, it is the lowest.
        rank: usize,
        /// What this rank called.
        call: Box<Call>,
        /// The limit.
        limit: Duration,
    },
    /// The call can't be made in this way: its arguments contradict each other, or something that it needs is in use.
    #[error("this call is not possible: {reason}")]
    BadCall {
        /// What is wrong.
        reason: String,
    },
    /// A collective operation can't be opened with these settings.
    #[error("these settings of a collective operation are not possible: {reason}")]
    BadSettings {
        /// What is wrong.
        reason: String,
    },
    /// An earlier operation has failed, so that no further ones are possible here.
    #[error("nothing more is possible here, because an earlier operation failed: {reason}")]
    FailedBefore {
        /// Why the earlier operation failed.
        reason: String,
    },
    /// Code of the program panicked in an operation: an operation on an object, the function of a reduction, or the
    /// handler of asynchronous broadcasts. An object keeps the changes that the operation had made until then.
    #[error("code of the program panicked in {place}: {message}")]
    OperationPanicked {
        /// Which operation.
        place: Place,
        /// The beginning of the panic's message.
        message: String,
    },
    /// The operation was not executed, because an earlier one panicked, or because the rank that executed an earlier
    /// one died in the middle of it.
    #[error(
        "object {object:?} is poisoned: an operation on it did not come to its end; repair the value, and clear the \
         poison"
    )]
    Poisoned {
        /// The object's name.
        object: Arc<str>,
    },
    /// The operation was not executed, because it was requested in the middle of an operation that excludes it, and
    /// would wait for itself.
    #[error(
        "an operation on object {object:?} was asked for in the middle of one that it would wait for: ask for it after \
         that one"
    )]
    NestedOperation {
        /// The object's name.
        object: Arc<str>,
    },
    /// The rank that executed the operation died in the middle of it, or left. Or a server is gone, with the requests
    /// that were on their way to it. The operation was executed once or not at all, and it is unknown which.
    #[error(
        "an operation on object {object:?} may have been executed, or not: the rank that was to execute it is gone; look \
         at the object before you repeat it"
    )]
    OutcomeUnknown {
        /// The object's name.
        object: Arc<str>,
    },
    /// The result was requested too late: since the operation, as many others were submitted as results are kept.
    #[error(
        "the result of an operation on object {object:?} is no longer kept: only the last {kept} are; wait for it \
         earlier"
    )]
    ResultForgotten {
        /// The object's name.
        object: Arc<str>,
        /// How many results are kept.
        kept: usize,
    },
    /// Ranks opened an object in different ways.
    #[error(
        "object {object:?} was opened by another rank as something else: open it with the same type, scheme and length \
         at all ranks"
    )]
    ObjectMismatch {
        /// The object's name.
        object: Arc<str>,
    },
    /// An object can't be created, or used, in this way.
    #[error("object {object:?} can't be opened or used in this way: {reason}")]
    BadObject {
        /// The object's name.
        object: Arc<str>,
        /// What is wrong.
        reason: String,
    },
    /// An object has no room for the value that was to be put in.
    #[error("an object is full: {reason}; open it with more room, or take something out before")]
    ObjectFull {
        /// What there is no room for.
        reason: String,
    },
    /// Other ranks are using the object. The operation was not executed, and never will be.
    #[error(
        "other ranks are using the object, and the operation was not executed: try again, or call apply, which waits"
    )]
    ObjectBusy,
    /// This process has no memory for an arriving message.
    #[error("there is no memory for a message of {bytes} bytes: free some, or receive it in parts")]
    OutOfMemory {
        /// The message's length.
        bytes: usize,
    },
    /// Ranks of the world failed.
    #[error(transparent)]
    RanksFailed(#[from] RanksFailed),
    /// A world can't be made with these parameters.
    #[error("{0}")]
    BadWorld(String),
    /// An error of the shared memory.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// An error in reading the machine's description, or in pinning.
    #[error(transparent)]
    Topology(#[from] topology::Error),
    /// A result could not be carried from one process to another.
    #[error(
        "a rank's result or input could not be carried between processes: {0} (postcard, which carries it, does not \
         describe types: it can't read back a serde_json::Value or an untagged enum)"
    )]
    Encoding(#[from] postcard::Error),
    /// The operating system refused a call.
    #[error("{call} failed: {source}")]
    Os {
        /// The system call.
        call: &'static str,
        /// Its error.
        source: io::Error,
    },
    /// This process may not open as many files as the processes of a world need.
    #[error(
        "the world's processes take {needed} open files, and this process may have no more than \
         {allowed}: raise its limit (ulimit -Hn), or run fewer ranks"
    )]
    OpenFiles {
        /// How many open files are needed, including those that are open already.
        needed: u64,
        /// The hard limit.
        allowed: u64,
    },
    /// An error of the program.
    #[error(transparent)]
    Other(Box<dyn std::error::Error + Send + Sync>),
}
