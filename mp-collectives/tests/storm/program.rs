//! Programs that MPI's rules allow, however much or little a send is buffered: what there is in them.

use std::fmt;

use mp_delegate::critical::Scheme;

/// Which receives there are in a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Each names its source: the model says what it gets.
    Direct,
    /// They take any source, by a tag.
    ByTag,
    /// They take any source and tag.
    ByNothing,
}

/// The communicators that are there at the beginning.
pub const FIRST: [Kind; 4] = [Kind::Direct, Kind::Direct, Kind::ByTag, Kind::ByNothing];

/// Bytes of a message in a communicator in which receives take any source.
pub const ANY_LONGEST: usize = 5000;
/// Bytes of the longest message in a channel beside.
pub const BESIDE_LONGEST: usize = 3000;
/// Results that a counter keeps of each rank.
pub const IN_FLIGHT: usize = 4;

#[derive(Clone, Debug)]
pub struct Comm {
    pub kind: Kind,
    /// Its ranks, by their numbers in the world.
    pub members: Vec<usize>,
    /// Its ranks go on in another one.
    pub revoked: bool,
}

/// Ranks are those of the world.
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
    /// The message that it gets, where the model knows.
    pub gets: Option<usize>,
}

/// A channel between two ranks, beside all communicators.
#[derive(Clone, Copy, Debug)]
pub struct Beside {
    pub from: usize,
    pub to: usize,
    pub degree: u32,
    /// Whether a communication thread sends.
    pub delegated: bool,
    /// Whether sends are taken back, and sent again. What was taken back has its place for a while.
    pub cancels: bool,
}

/// How something is sent that waits for nobody.
#[derive(Clone, Copy, Debug)]
pub enum Later {
    Nonblocking,
    Synchronous,
    Persistent,
    /// Nonblocking, and nobody asks what became of it.
    Dropped,
    Buffered,
    /// Nonblocking, taken back, and sent again if that was in time.
    Again,
}

/// How something is sent that may wait for its receive.
#[derive(Clone, Copy, Debug)]
pub enum Blocking {
    Send,
    Synchronous,
    Moved,
}

/// How a receive is posted.
#[derive(Clone, Copy, Debug)]
pub enum Posted {
    Nonblocking,
    Persistent,
    /// Nonblocking, taken back, and posted again if that was in time.
    Again,
}

/// How a message is received at once.
#[derive(Clone, Copy, Debug)]
pub enum Taken {
    Into,
    Vec,
    Buffer,
    Timeout,
    Probed,
    TriedProbe,
}

/// A collective operation. Its elements are made of its number. The root is a rank of the communicator.
#[derive(Clone, Copy, Debug)]
pub enum Collective {
    Barrier,
    Broadcast { root: usize, len: usize, number: usize },
    AllReduce { len: usize, number: usize },
}

/// How requests are waited for.
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
    /// As futures, which are polled when they have woken their task.
    Awaited,
}

impl Waited {
    /// Whether it ends when some of the requests are done.
    pub fn for_some(self) -> bool {
        matches!(self, Self::Any | Self::Some | Self::TestedAny | Self::TestedSome)
    }
}

/// How a rank sends in a channel beside.
#[derive(Clone, Copy, Debug)]
pub enum Put {
    /// By itself; it waits for room.
    Here,
    /// By its thread, as this request.
    Delegated(usize),
    /// By its thread, taken back, and sent again if that was in time.
    Again(usize),
}

/// How a rank adds 1 to a counter.
#[derive(Clone, Copy, Debug)]
pub enum Added {
    At1,
    /// It asks for the result later.
    Submitted,
    /// Between taking the lock and giving it back; in other schemes as [`At1`](Self::At1).
    Locked,
}

/// How a rank hears that a communicator was revoked.
#[derive(Clone, Copy, Debug)]
pub enum Heard {
    Revokes,
    Receive,
    Send,
    Probe,
    Barrier,
    Split,
    Asks,
    /// Only by what the others call next.
    Shrink,
}

/// What a rank does. Requests have numbers of their rank; all else, of the program.
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
    /// Starts persistent sends, of these messages and requests, and receives, all in one call.
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
    /// Waits for those that are `sure` to be done; others can be in the same call.
    Wait {
        how: Waited,
        sure: Vec<usize>,
        more: Vec<usize>,
    },
    /// A collective operation of all ranks of a communicator, which waits for it.
    Together {
        comm: usize,
        operation: Collective,
    },
    /// One that goes on until the request is waited for.
    Begin {
        comm: usize,
        operation: Collective,
        request: usize,
    },
    /// A receive that nothing comes for is posted and taken back.
    Cancel {
        comm: usize,
        source: usize,
    },
    /// A copy: number `to`, or one that is used once and dropped.
    Duplicate {
        comm: usize,
        to: Option<usize>,
    },
    /// Parts: of this rank the one of the color, which is number `to`.
    Split {
        comm: usize,
        color: Option<u64>,
        key: i64,
        to: Option<usize>,
    },
    /// All ranks agree on the flags of all.
    Agree {
        comm: usize,
        flag: u64,
        together: u64,
    },
    /// Nobody was lost.
    Acknowledge {
        comm: usize,
    },
    /// All ranks come here; one revokes the communicator, the others hear of it, and all go on in number
    /// `to`. The requests that are `void` may fail because of that.
    Revoke {
        comm: usize,
        heard: Heard,
        to: usize,
        void: Vec<usize>,
    },
    /// Sends the message of this number in a channel beside.
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
    /// Of each counter how it is protected, and how often it is added to.
    pub counters: Vec<(Scheme, u64)>,
    /// Of each rank, in its order.
    pub acts: Vec<Vec<Act>>,
}

impl Program {
    /// The communicator that goes on in the place of the first one at the end: of all ranks.
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

/// All of it, for whoever looks why it failed.
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
