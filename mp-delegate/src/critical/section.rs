//! How an object is protected: which algorithm, and its parameters.

use std::{fmt, str::FromStr};

use mp_core::waits::Caller;

/// The algorithm that executes operations in mutual exclusion.
///
/// Each has a name, which is what it is displayed as and parsed from:
///
/// ```
/// use onchip::critical::Scheme;
///
/// assert_eq!(Scheme::HybLock.to_string(), "hyb-lock");
/// assert_eq!("slot-server".parse(), Ok(Scheme::SlotServer));
/// // Rank 0 serves, unless it says otherwise.
/// assert_eq!("mp-server".parse(), Ok(Scheme::MpServer(0)));
/// assert_eq!(Scheme::MpServer(3).to_string(), "mp-server:3");
///
/// let unknown = "spin".parse::<Scheme>().unwrap_err();
/// assert!(unknown.to_string().starts_with("there is no scheme \"spin\": there are tas, mcs, "));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scheme {
    /// A test-and-set lock: the simplest, neither fair nor scalable.
    Tas,
    /// Mellor-Crummey's and Scott's queue lock.
    Mcs,
    /// Craig's, Landin's and Hagersten's queue lock.
    Clh,
    /// HYBLOCK, algorithm 3: a queue lock that is handed over by messages.
    HybLock,
    /// CC-Synch of Fatourou and Kallimanis: the rank at the head of a list executes the operations of those behind it.
    CcSynch,
    /// H-Synch: CC-Synch within each group of ranks that share a memory, and a lock between the
    /// groups.
    HSynch,
    /// HYBCOMB, algorithm 4: the rank that executes operations gets them as messages.
    HybComb,
    /// Algorithm 5: a [`Server`](super::Server) that looks at lines of shared memory.
    SlotServer,
    /// MP-SERVER, section 6.1.2: a [`Server`](super::Server) at the other end of channels. It is this rank, until that
    /// is gone and another rank that stood by takes over.
    MpServer(usize),
}

impl Scheme {
    /// All schemes; rank 0 is the server.
    pub const ALL: [Self; 9] = [
        Self::Tas,
        Self::Mcs,
        Self::Clh,
        Self::HybLock,
        Self::CcSynch,
        Self::HSynch,
        Self::HybComb,
        Self::SlotServer,
        Self::MpServer(0),
    ];

    /// Returns the scheme's name, which is the same for every [`MpServer`](Self::MpServer).
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tas => "tas",
            Self::Mcs => "mcs",
            Self::Clh => "clh",
            Self::HybLock => "hyb-lock",
            Self::CcSynch => "cc-synch",
            Self::HSynch => "h-synch",
            Self::HybComb => "hyb-comb",
            Self::SlotServer => "slot-server",
            Self::MpServer(_) => "mp-server",
        }
    }

    /// Returns whether a rank has to serve.
    pub const fn needs_server(self) -> bool {
        matches!(self, Self::SlotServer | Self::MpServer(_))
    }

    /// Returns whether the scheme is a lock, which [`Protected::lock`](super::Protected::lock) takes.
    pub const fn is_lock(self) -> bool {
        matches!(self, Self::Tas | Self::Mcs | Self::Clh | Self::HybLock)
    }

    pub(super) fn number(self) -> u64 {
        match self {
            Self::Tas => 1,
            Self::Mcs => 2,
            Self::Clh => 3,
            Self::HybLock => 4,
            Self::CcSynch => 5,
            Self::HSynch => 6,
            Self::HybComb => 7,
            Self::SlotServer => 8,
            Self::MpServer(rank) => 9 + rank as u64,
        }
    }
}

/// Displays the [name](Scheme::name), followed by the rank that serves if that is not rank 0.
impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MpServer(rank @ 1..) => f.pad(&format!("{}:{rank}", self.name())),
            _ => f.pad(self.name()),
        }
    }
}

impl FromStr for Scheme {
    type Err = UnknownScheme;

    fn from_str(text: &str) -> Result<Self, UnknownScheme> {
        let unknown = || UnknownScheme { name: text.to_owned() };
        let named = |name: &str| Self::ALL.into_iter().find(|scheme| scheme.name() == name);
        let Some((name, rank)) = text.split_once(':') else {
            return named(text).ok_or_else(unknown);
        };
        match (named(name), rank.parse()) {
            (Some(Self::MpServer(_)), Ok(rank)) => Ok(Self::MpServer(rank)),
            _ => Err(unknown()),
        }
    }
}

/// An object as reports of waits tell it.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) name: Box<str>,
    pub(super) scheme: Scheme,
}

impl Caller for Told {
    fn call(&self, operation: Option<&str>) -> Option<String> {
        let of = operation.map_or(String::new(), |operation| format!("{operation} of "));
        Some(format!("{of}critical section \"{}\" ({})", self.name, self.scheme))
    }
}

/// No [`Scheme`] has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no scheme {name:?}: there are {}; the server's rank may follow, as in mp-server:1",
    Scheme::ALL.map(Scheme::name).join(", ")
)]
pub struct UnknownScheme {
    /// The name that was parsed.
    pub name: String,
}

/// How long a client of a [`SlotServer`](Scheme::SlotServer) pauses between two looks for its response (section 7.1.3).
/// Each look takes the line away from the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backoff {
    /// No pause.
    #[default]
    None,
    /// This many of the processor's pauses, of 10 to 140 cycles each, depending on the processor.
    Fixed(u32),
    /// Tuned while running, so that the second look finds the response.
    Tuned,
}

/// How an object is protected. All ranks must pass the same section, except for backoff and shuffling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub struct Section {
    pub(super) scheme: Scheme,
    pub(super) len: usize,
    pub(super) seats: usize,
    pub(super) max_ops: usize,
    pub(super) in_flight: usize,
    pub(super) poison: bool,
    pub(super) backoff: Backoff,
    pub(super) streaming: bool,
    pub(super) shuffled: bool,
    pub(super) groups: Option<usize>,
}

impl Section {
    /// Creates a section with the usual parameters.
    pub const fn new(scheme: Scheme) -> Self {
        Self {
            scheme,
            len: 1,
            seats: 1,
            max_ops: 64,
            in_flight: 32,
            poison: true,
            backoff: Backoff::None,
            streaming: false,
            shuffled: false,
            groups: None,
        }
    }

    /// Returns the scheme.
    pub const fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Sets the number of elements of the value, if it is a slice.
    pub const fn len(self, len: usize) -> Self {
        Self { len, ..self }
    }

    /// Sets how many handles of a rank have a seat of their own; the default is 1. Further handles share one more seat
    /// and take turns. More seats cost only memory.
    pub const fn seats(self, seats: usize) -> Self {
        Self { seats, ..self }
    }

    /// Sets the most operations that a combiner executes for others before it hands over: MAX_OPS of the thesis. The
    /// default is 64.
    pub const fn max_ops(self, max_ops: usize) -> Self {
        Self { max_ops, ..self }
    }

    /// Sets how many operations of a handle can be in flight at a server, at least; more can be where several share a
    /// cache line. The default is 32.
    pub const fn in_flight(self, operations: usize) -> Self {
        Self { in_flight: operations, ..self }
    }

    /// Sets whether the value is poisoned, so that later operations are refused, when an operation panics or the rank
    /// that executes it is killed in the middle of it. By default it is, except when the value is
    /// [repaired](super::Object::repair) after a death. If it is not poisoned, and the object cannot repair the value,
    /// later operations find what is left of it.
    pub const fn poison(self, poison: bool) -> Self {
        Self { poison, ..self }
    }

    /// Sets the backoff of this handle, and of those made from it.
    pub const fn backoff(self, backoff: Backoff) -> Self {
        Self { backoff, ..self }
    }

    /// Sets whether responses of a [`SlotServer`](Scheme::SlotServer) bypass the server's caches (section 7.1.3), so
    /// that it does not wait for lines. Results then have 4 bytes at most, since each must fit into one word with its
    /// flag.
    ///
    /// Streaming stores are not ordered with other stores: a client may have its response before it sees other memory
    /// that the operation has written. An object's own value is seen only by its server. Anything else that operations
    /// write, above all the common data of two servers, must not be streamed.
    pub const fn streaming(self, streaming: bool) -> Self {
        Self { streaming, ..self }
    }

    /// Sets whether a [`SlotServer`](Scheme::SlotServer) looks at its clients' lines in an order that no prefetcher
    /// follows, instead of the order in which they lie. This shows what prefetchers do for it (section 7.2.2). It
    /// applies to this handle, if it is the one that serves.
    pub const fn shuffled(self, shuffled: bool) -> Self {
        Self { shuffled, ..self }
    }

    /// Sets the number of groups of an [`HSynch`](Scheme::HSynch): rank `r` is in group `r % groups`. By default there
    /// is a group for each memory of the machine, and a handle belongs to the group on whose core it was opened.
    pub const fn groups(self, groups: usize) -> Self {
        Self { groups: Some(groups), ..self }
    }
}

impl From<Scheme> for Section {
    fn from(scheme: Scheme) -> Self {
        Self::new(scheme)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_schemes() {
        for scheme in Scheme::ALL.into_iter().chain([1, 9, usize::MAX].map(Scheme::MpServer)) {
            assert_eq!(scheme.to_string().parse(), Ok(scheme));
        }
        let mut names = Scheme::ALL.map(Scheme::name);
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        assert_eq!(format!("{:<5}|{:>12}", Scheme::Tas, Scheme::MpServer(2)), "tas  | mp-server:2");
    }

    #[test]
    fn what_is_no_name_is_told_which_there_are() {
        for text in
            ["", "TAS", "Tas", " mcs", "mcs:0", "mp-server:", "mp-server:-1", "mp-server:1:2", ":1"]
        {
            let error = text.parse::<Scheme>().unwrap_err();
            assert_eq!(error, UnknownScheme { name: text.to_owned() });
            let said = error.to_string();
            assert!(Scheme::ALL.iter().all(|scheme| said.contains(scheme.name())), "{said}");
        }
    }
}
