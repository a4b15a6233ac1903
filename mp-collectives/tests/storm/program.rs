//! The parts of programs that MPI's rules allow, independent of how much a send is buffered.

use std::fmt;

use mp_delegate::critical::Scheme;

/// The kind of receives in a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Each receive names its source, so the model predicts its message.
    Direct,
    /// Receives take messages from any source with one tag.
    ByTag,
    /// Receives take messages from any source with any tag.
    ByNothing,
}

/// The communicators at the beginning.
pub const FIRST: [Kind; 4] = [Kind::Direct, Kind::Direct, Kind::ByTag, Kind::ByNothing];

/// Bytes of the longest message in a communicator in which receives take any source.
pub const ANY_LONGEST: usize = 5000;
/// Bytes of the longest message in an additional channel.
pub const BESIDE_LONGEST: usize = 3000;
/// The results of each rank that a counter keeps.
pub const IN_FLIGHT: usize = 4;

#[derive(Clone, Debug)]
pub struct Comm {
    pub kind: Kind,
    /// The ranks of the communicator, by their numbers in the world.
    pub members: Vec<usize>,
    /// Whether the ranks go on in another communicator instead.
    pub revoked: bool,
}

/// A message. Ranks are numbers in the world.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    pub comm: usize,
    pub from: usize,
    pub to: usize,
    pub tag: u32,
    pub len: usize,
}

#[derive(Clone, Copy, Debug)]
pub struct Receive {
    pub comm: usize,
    pub at: usize,
    pub source: Option<usize>,
    pub tag: Option<u32>,
    /// The message that it gets, if the model predicts that.
    pub gets: Option<usize>,
}

/// A channel between two ranks, outside of all communicators.
#[derive(Clone, Copy, Debug)]
pub struct Beside {
    pub from: usize,
    pub to: usize,
    pub degree: u32,
    /// Whether a communication thread sends.
    pub delegated: bool,
    /// Whether sends are cancelled and repeated. A cancelled send keeps its place for a while.
    pub cancels: bool,
}

/// The kind of a send that waits for no other rank.
#[derive(Clone, Copy, Debug)]
pub enum Later {
    Nonblocking,
    Synchronous,
    Persistent,
    /// Nonblocking, with a request that is dropped.
    Dropped,
    Buffered,
    /// Nonblocking, cancelled, and sent again if the cancellation was in time.
    Again,
}

/// The kind of a send that may wait for its receive.
#[derive(Clone, Copy, Debug)]
pub enum Blocking {
    Send,
    Synchronous,
    Moved,
}

/// The way in which a receive is posted.
#[derive(Clone, Copy, Debug)]
pub enum Posted {
    Nonblocking,
    Persistent,
    /// Nonblocking, cancelled, and posted again if the cancellation was in time.
    Again,
}

/// The kind of a blocking receive.
#[derive(Clone, Copy, Debug)]
pub enum Taken {
    Into,
    Vec,
    Buffer,
    Timeout,
    Probed,
    TriedProbe,
}

/// A collective operation. Its number determines its elements. The root is a rank of the communicator.
#[derive(Clone, Copy, Debug)]
pub enum Collective {
    Barrier,
    Broadcast { root: usize, len: usize, number: usize },
    AllReduce { len: usize, number: usize },
}

/// The way in which requests are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    Each,
    All,
    Any,
    Some,
    Tested,
    TestedAll,
    TestedAny,
    TestedSome,
    Timed,
    /// As futures, which are polled after they have woken their task.
    Awaited,
}

impl Waited {
    /// Returns whether the call ends as soon as some of the requests are done.
    pub fn for_some(self) -> bool {
        matches!(self, Self::Any | Self::Some | Self::TestedAny | Self::TestedSome)
    }
}

/// The way in which a rank sends in an additional channel.
#[derive(Clone, Copy, Debug)]
pub enum Put {
    /// By the rank itself, which waits for room.
    Here,
    /// By its thread, with this request.
    Delegated(usize),
    /// By its thread, cancelled, and sent again if the cancellation was in time.
    Again(usize),
}

/// The way in which a rank adds 1 to a counter.
#[derive(Clone, Copy, Debug)]
pub enum Added {
    At1,
    /// The rank asks for the result later.
    Submitted,
    /// Between locking and unlocking. For other schemes the same as [`At1`](Self::At1).
    Locked,
}

/// The way in which a rank learns that a communicator was revoked.
#[derive(Clone, Copy, Debug)]
pub enum Heard {
    Revokes,
    Receive,
    Send,
    Probe,
    Barrier,
    Split,
    Asks,
    /// Only from the next joint call of the others.
    Shrink,
}

/// An action of a rank. Requests are numbered by rank, and everything else by program.
#[derive(Clone, Debug)]
pub enum Act {
    Delay(u64),
    SendLater {
        message: usize,
        how: Later,
        request: usize,
    },
    Send {
        message: usize,
        how: Blocking,
    },
    Post {
        receive: usize,
        how: Posted,
        request: usize,
    },
    /// Starts persistent sends and receives in one call. Each has the number of its message or receive, and its
    /// request.
    Start {
        sends: Vec<(usize, usize)>,
        receives: Vec<(usize, usize)>,
    },
    Receive {
        receive: usize,
        how: Taken,
    },
    Exchange {
        sends: Vec<usize>,
        receives: Vec<usize>,
    },
    /// Waits for requests that are `sure` to be done. The call may contain `more` requests.
    Wait {
        how: Waited,
        sure: Vec<usize>,
        more: Vec<usize>,
    },
    /// A blocking collective operation of all ranks of a communicator.
    Together {
        comm: usize,
        operation: Collective,
    },
    /// A nonblocking one, which is pending until its request is waited for.
    Begin {
        comm: usize,
        operation: Collective,
        request: usize,
    },
    /// Posts a receive that gets no message, and cancels it.
    Cancel {
        comm: usize,
        source: usize,
    },
    /// Duplicates the communicator. The copy gets number `to`, or is used once and dropped.
    Duplicate {
        comm: usize,
        to: Option<usize>,
    },
    /// Splits the communicator. The part of this rank's color gets number `to`.
    Split {
        comm: usize,
        color: Option<u64>,
        key: i64,
        to: Option<usize>,
    },
    /// Lets all ranks agree on the flags of all.
    Agree {
        comm: usize,
        flag: u64,
        together: u64,
    },
    /// Acknowledges losses, of which there are none.
    Acknowledge {
        comm: usize,
    },
    /// All ranks come here. One revokes the communicator, the others learn of it, and all go on in number `to`. The
    /// requests that are `void` may fail because of that.
    Revoke {
        comm: usize,
        heard: Heard,
        to: usize,
        void: Vec<usize>,
    },
    /// Sends the message of this number in an additional channel.
    Put {
        channel: usize,
        number: usize,
        how: Put,
    },
    Take {
        channel: usize,
        number: usize,
    },
    Add {
        counter: usize,
        how: Added,
    },
}

#[derive(Debug, Default)]
pub struct Program {
    pub comms: Vec<Comm>,
    pub messages: Vec<Message>,
    pub receives: Vec<Receive>,
    pub channels: Vec<Beside>,
    /// For each counter its scheme, and the number of additions.
    pub counters: Vec<(Scheme, u64)>,
    /// The actions of each rank, in order.
    pub acts: Vec<Vec<Act>>,
}

impl Program {
    /// Returns the communicator of all ranks that has replaced the first one at the end.
    pub fn last_of_all(&self) -> usize {
        let mut last = 0;
        for act in self.acts.iter().flatten() {
            if let Act::Revoke { comm, to, .. } = *act
                && comm == last
            {
                last = to;
            }
        }
        last
    }
}

/// Prints the whole program, for a person who looks for the cause of a failure.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn list<T: fmt::Debug>(f: &mut fmt::Formatter<'_>, what: &str, all: &[T]) -> fmt::Result {
            all.iter()
                .enumerate()
                .try_for_each(|(number, it)| writeln!(f, "{what} {number}: {it:?}"))
        }
        list(f, "communicator", &self.comms)?;
        list(f, "channel", &self.channels)?;
        list(f, "counter", &self.counters)?;
        list(f, "message", &self.messages)?;
        list(f, "receive", &self.receives)?;
        for (rank, acts) in self.acts.iter().enumerate() {
            list(f, &format!("rank {rank}, act"), acts)?;
        }
        Ok(())
    }
}
