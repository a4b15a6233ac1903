//! How an object is protected: which algorithm, and its parameters.

/// Which algorithm executes operations in mutual exclusion.
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
    /// CC-Synch of Fatourou and Kallimanis: whoever is at the head of a list executes the
    /// operations of those behind.
    CcSynch,
    /// H-Synch: CC-Synch within each group of ranks that share a memory, and a lock between the
    /// groups.
    HSynch,
    /// HYBCOMB, algorithm 4: whoever executes operations gets them as messages.
    HybComb,
    /// Algorithm 5: a [`Server`](super::Server) that looks at lines of shared memory.
    SlotServer,
    /// MP-SERVER, section 6.1.2: a [`Server`](super::Server) at the other end of channels, which is
    /// this rank, until it is gone and another one has stood by.
    MpServer(usize),
}

impl Scheme {
    /// All of them; rank 0 is the server.
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

    /// Whether a rank has to serve.
    pub const fn needs_server(self) -> bool {
        matches!(self, Self::SlotServer | Self::MpServer(_))
    }

    /// Whether it is a lock, which [`Protected::lock`](super::Protected::lock) takes.
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

/// How long a client of a [`SlotServer`](Scheme::SlotServer) looks away between two looks for its
/// response (section 7.1.3). Looking takes the line away from the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backoff {
    /// Not at all.
    #[default]
    None,
    /// So many times the processor's pause: 20 to 100 cycles each.
    Fixed(u32),
    /// Tuned while running, so that the second look finds the response.
    Tuned,
}

/// How an object is protected; all ranks must say the same, but for the backoff.
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
    pub(super) groups: Option<usize>,
}

impl Section {
    /// With the usual parameters.
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
            groups: None,
        }
    }

    /// Which algorithm.
    pub const fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Elements of the value, where it is a slice.
    pub const fn len(self, len: usize) -> Self {
        Self { len, ..self }
    }

    /// How many handles of a rank have a seat of their own; 1 unless this says otherwise. Further
    /// ones share one more seat and take turns. It costs memory only.
    pub const fn seats(self, seats: usize) -> Self {
        Self { seats, ..self }
    }

    /// The most operations that a combiner executes for others before it hands over: MAX_OPS of
    /// the thesis. 64 unless this says otherwise.
    pub const fn max_ops(self, max_ops: usize) -> Self {
        Self { max_ops, ..self }
    }

    /// At least so many operations of a handle can be in flight at a server; more where several
    /// share a cache line. 32 unless this says otherwise.
    pub const fn in_flight(self, operations: usize) -> Self {
        Self { in_flight: operations, ..self }
    }

    /// Whether an operation that panics, or in the middle of which its rank dies, leaves the value
    /// poisoned, so that later ones are refused. It does unless this says otherwise.
    pub const fn poison(self, poison: bool) -> Self {
        Self { poison, ..self }
    }

    /// Of this handle, and of those made from it.
    pub const fn backoff(self, backoff: Backoff) -> Self {
        Self { backoff, ..self }
    }

    /// Responses of a [`SlotServer`](Scheme::SlotServer) go past the server's caches (section 7.1.3),
    /// so that it does not wait for lines; results have 4 bytes at most then, since each must fit
    /// into one word with its flag.
    ///
    /// Streaming stores are not in order with others: a client may have its response before other
    /// memory that the operation has written is seen. An object's own value is seen by nobody but
    /// its server; what else operations write, two servers' common data above all, must not be
    /// streamed.
    pub const fn streaming(self, streaming: bool) -> Self {
        Self { streaming, ..self }
    }

    /// Of an [`HSynch`](Scheme::HSynch): rank `r` is in group `r % groups`. Unless this says
    /// otherwise there is a group for each memory of the machine, and a handle belongs to the one
    /// on whose core it was opened.
    pub const fn groups(self, groups: usize) -> Self {
        Self { groups: Some(groups), ..self }
    }
}

impl From<Scheme> for Section {
    fn from(scheme: Scheme) -> Self {
        Self::new(scheme)
    }
}
