//! The recorded data: spans of time on tracks.
//!
//! They are not spans of the crate `tracing`: a span here costs two looks at the clock, and one of `tracing` costs a
//! walk over its subscribers.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What a thread did during a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Kind {
    /// A rank computed. Communication is to be hidden behind this.
    Compute,
    /// A rank sent by itself: it copied, or waited for room in the channel.
    Send,
    /// A rank handed a send to a communication thread.
    Delegate,
    /// A rank waited for sends that it had delegated, for room, or for other ranks in a collective operation.
    Wait,
    /// A rank waited for a message.
    Receive,
    /// A communication thread carried out a delegated send.
    Copy,
    /// A communication thread carried on a collective operation as far as it could without waiting, or a rank was in
    /// such an operation.
    Collective,
    /// A communication thread advanced a rank's pending tagged messages. Or a call of the rank did so, and may have
    /// waited for something else meanwhile.
    Messages,
    /// A communication thread slept because it had nothing to do.
    Idle,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 9] = [
        Self::Compute,
        Self::Send,
        Self::Delegate,
        Self::Wait,
        Self::Receive,
        Self::Copy,
        Self::Collective,
        Self::Messages,
        Self::Idle,
    ];

    /// Returns the name that a trace shows, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Send => "send",
            Self::Delegate => "delegate",
            Self::Wait => "wait",
            Self::Receive => "receive",
            Self::Copy => "copy",
            Self::Collective => "collective",
            Self::Messages => "messages",
            Self::Idle => "idle",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A thread, as a row of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Track {
    /// The process within the world: 0 if ranks are threads, the rank if they are processes.
    pub process: u32,
    /// The thread within the process.
    pub lane: Lane,
}

/// A thread of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Lane {
    /// The thread of a rank, by the rank's number.
    Rank(u32),
    /// A communication thread, by its number in the process.
    Kt(u32),
}

impl Track {
    /// Returns the track of a rank in a world of threads.
    pub fn rank(rank: usize) -> Self {
        Self { process: 0, lane: Lane::Rank(small(rank)) }
    }

    /// Returns the track of a communication thread in a world of threads.
    pub fn kt(kt: usize) -> Self {
        Self { process: 0, lane: Lane::Kt(small(kt)) }
    }

    /// Returns the same track in the process of a rank.
    pub fn in_process_of(self, rank: usize) -> Self {
        Self { process: small(rank), ..self }
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rank(rank) => write!(f, "rank {rank}"),
            Self::Kt(kt) => write!(f, "KT {kt}"),
        }
    }
}

/// Converts the number of a rank or thread. There are never so many of them that the limit matters.
fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// A name that a recording knows, for example that of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Name(pub(super) u32);

/// A tie between a delegation and its execution, drawn as an arrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Flow(pub(super) u64);

/// The details of a span. All of them are optional.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Detail {
    /// The rank whose message or operation it is. A communication thread's span without it hides no
    /// rank's communication.
    pub from: Option<u32>,
    /// The rank it is for.
    pub to: Option<u32>,
    /// The channel; for a collective operation, the operation.
    pub channel: Option<Name>,
    /// How much was sent; for a collective operation, what the rank contributed.
    pub bytes: Option<u64>,
    /// The delegation, in the span that delegates and in the span that executes it.
    pub flow: Option<Flow>,
    /// How much was computed, in units of the program's choice.
    pub units: Option<f64>,
    /// For a computation: how long its thread had a processor, in nanoseconds. Without this value, the thread is taken
    /// to have had a processor all the time.
    pub cpu_ns: Option<u64>,
}

impl Detail {
    /// Creates the details of a message between two ranks.
    pub fn message(from: usize, to: usize, bytes: usize) -> Self {
        Self {
            from: Some(small(from)),
            to: Some(small(to)),
            bytes: Some(bytes as u64),
            ..Self::default()
        }
    }

    /// Returns the same details, with the channel.
    #[must_use]
    pub fn on(self, channel: Option<Name>) -> Self {
        Self { channel, ..self }
    }

    /// Returns the same details, as a part of a delegation.
    #[must_use]
    pub fn of(self, flow: Option<Flow>) -> Self {
        Self { flow, ..self }
    }
}

/// A stretch of a thread's time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// What the thread did.
    pub kind: Kind,
    /// When it began, in nanoseconds of the machine's monotonic clock, which all processes share.
    pub start: u64,
    /// When it ended, on the same clock.
    pub end: u64,
    /// The details of the span.
    pub detail: Detail,
}

/// The spans of one thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrackSpans {
    /// The thread.
    pub track: Track,
    /// Its spans, in the order of their ends.
    pub spans: Vec<Span>,
    /// How many more spans there were after the track's limit was reached.
    pub dropped: u64,
}

/// The recorded spans of this process or, after [`merge`](Self::merge), of all processes.
///
/// It is plain data: a rank can return it from `World::run`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// The threads.
    pub tracks: Vec<TrackSpans>,
    pub(super) names: Vec<String>,
}

impl Trace {
    /// Puts the parts of several processes together. Parts of the same track are joined.
    pub fn merge(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut merged = Self::default();
        for part in parts {
            let names: Vec<Name> = part.names.iter().map(|name| merged.intern(name)).collect();
            for mut track in part.tracks {
                for span in &mut track.spans {
                    let name = span.detail.channel.and_then(|Name(at)| names.get(at as usize));
                    span.detail.channel = name.copied();
                }
                match merged.tracks.iter_mut().find(|known| known.track == track.track) {
                    Some(known) => {
                        known.spans.append(&mut track.spans);
                        known.dropped += track.dropped;
                    }
                    None => merged.tracks.push(track),
                }
            }
        }
        merged.tracks.sort_by_key(|track| track.track);
        merged
    }

    fn intern(&mut self, name: &str) -> Name {
        Name(intern(&mut self.names, name))
    }

    /// Returns the text of a name of this trace. The name must be of the same recording: for a name of another one,
    /// this returns some other text, or `None`.
    pub fn name(&self, name: Name) -> Option<&str> {
        self.names.get(name.0 as usize).map(String::as_str)
    }

    /// Returns whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.tracks.iter().all(|track| track.spans.is_empty())
    }

    /// Returns how many spans were not kept, on all tracks together.
    pub fn dropped(&self) -> u64 {
        self.tracks.iter().map(|track| track.dropped).sum()
    }
}

/// Returns the place of a name in a list of names. A new name is added to the list.
pub(super) fn intern(names: &mut Vec<String>, name: &str) -> u32 {
    let at = names.iter().position(|known| known == name).unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    });
    small(at)
}
