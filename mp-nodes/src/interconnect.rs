//! What the nodes of a world need of what connects them.

use crate::error::{Error, Result};

/// The highest tag of a message. All MPI libraries have tags up to this one.
pub const MAX_TAG: u32 = 32767;

/// What keeps the bytes of a message: a `Vec<u8>`, for example.
pub trait Keeper: AsRef<[u8]> + Send + std::fmt::Debug {}

impl<K: AsRef<[u8]> + Send + std::fmt::Debug> Keeper for K {}

/// The bytes of a message to send. They stay at one address.
pub type Bytes = Box<dyn Keeper>;

/// A message that has arrived and was not received yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// The node that has sent it.
    pub from: usize,
    /// The tag that it was sent with.
    pub tag: u32,
    /// Its length in bytes.
    pub len: usize,
}

/// A node's connection to all other nodes. One process of each node has one, and uses it in one thread at a time. With
/// [`run`](crate::run), ranks use it, too, while they wait or send.
///
/// Messages from one node to another arrive in the order in which they were sent. A long message may be sent only while
/// its sender calls [`progress`](Self::progress) and its receiver receives. So a node must not wait for the end of its
/// sends before it calls [`all_gather`](Self::all_gather) or [`end`](Self::end): their receiver may be in such a call
/// already.
///
/// After an error of a call that all nodes make, other nodes may still wait in it. The caller should then
/// [`abort`](Self::abort).
pub trait Interconnect: Send + std::fmt::Debug {
    /// Returns the number of this node.
    fn node(&self) -> usize;

    /// Returns the number of nodes.
    fn nodes(&self) -> usize;

    /// Begins to send bytes to another node, or to this one. They belong to the interconnect until they are sent.
    ///
    /// # Errors
    /// [`NoSuchNode`](Error::NoSuchNode), [`BadTag`](Error::BadTag); [`Engine`](Error::Engine) or
    /// [`NodeLost`](Error::NodeLost), if the message can't be sent.
    fn send(&mut self, to: usize, tag: u32, bytes: Bytes) -> Result<()>;

    /// Brings on what was sent. Returns the number of messages that still belong to the interconnect.
    ///
    /// # Errors
    /// [`Engine`](Error::Engine) or [`NodeLost`](Error::NodeLost) for a message that can't be sent.
    fn progress(&mut self) -> Result<usize>;

    /// Returns the next message that has arrived, from any node and with any tag, if there is one. Until it is
    /// [received](Self::receive_into), every call returns the same one.
    ///
    /// # Errors
    /// [`Engine`](Error::Engine); [`NodeLost`](Error::NodeLost), once for each node, when all that it has sent was received.
    fn probe(&mut self) -> Result<Option<Arrived>>;

    /// Receives the message that [`probe`](Self::probe) has returned, into a buffer of its length. If the message is long,
    /// this may wait until its sender brings it on.
    ///
    /// # Errors
    /// [`NothingArrived`](Error::NothingArrived) if `probe` has returned none since the last one was received;
    /// [`WrongLength`](Error::WrongLength), after which the message can still be received; [`Engine`](Error::Engine).
    fn receive_into(&mut self, buffer: &mut [u8]) -> Result<()>;

    /// Returns the words of all nodes, in the order of the nodes. All nodes must call this, with the same number of words.
    /// It waits for them, and brings on meanwhile what this node has sent.
    ///
    /// # Errors
    /// [`DifferentLengths`](Error::DifferentLengths), at all nodes; [`Engine`](Error::Engine),
    /// [`NodeLost`](Error::NodeLost).
    fn all_gather(&mut self, words: &[u64]) -> Result<Vec<u64>>;

    /// Ends the processes of all nodes. With an MPI library, this one ends within the call.
    ///
    /// # Errors
    /// [`Engine`](Error::Engine), if the library refuses.
    fn abort(&mut self, status: i32) -> Result<()>;

    /// Ends the connection, when all nodes have called this. Messages that were not received are lost. The thread that has
    /// made the connection must call it. If a node drops its connection without this, the others may wait for ever.
    ///
    /// # Errors
    /// [`Engine`](Error::Engine), [`NodeLost`](Error::NodeLost).
    fn end(self: Box<Self>) -> Result<()>;
}

/// Checks the receiver and the tag of a message.
pub(crate) fn check(to: usize, nodes: usize, tag: u32) -> Result<()> {
    match () {
        () if to >= nodes => Err(Error::NoSuchNode { node: to, nodes }),
        () if tag > MAX_TAG => Err(Error::BadTag { tag, highest: MAX_TAG }),
        () => Ok(()),
    }
}

/// Checks that all nodes gather the same number of words. `lengths` has these numbers, by node.
pub(crate) fn check_lengths(own: usize, lengths: &[u64]) -> Result<()> {
    let ours = lengths[own];
    // All nodes name the same two, so that their errors agree.
    match lengths.iter().position(|&theirs| theirs != lengths[0]) {
        None => Ok(()),
        Some(other) => {
            let node = if ours == lengths[0] { other } else { 0 };
            let (ours, theirs) = (ours as usize, lengths[node] as usize);
            Err(Error::DifferentLengths { own, ours, node, theirs })
        }
    }
}
