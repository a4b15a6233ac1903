//! Counts of accesses.

use mp_model::Time;

/// The counts of a core's accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Remote memory references by loads: the core had no copy, and waited for one.
    pub loads: u64,
    /// Remote memory references by stores: the core was not the only one with the line, and waited for that.
    pub stores: u64,
    /// Waits for lines that had been fetched ahead, and were not there yet.
    pub late: u64,
    /// Lines fetched ahead.
    pub fetched: u64,
    /// Streaming stores.
    pub streamed: u64,
    /// Words of messages.
    pub sent: u64,
    /// The time that the core waited for all of these. Waits of R_L are not included.
    pub stalled: Time,
}

impl Counts {
    /// Returns the number of remote memory references (T 5.2).
    pub fn remote(&self) -> u64 {
        self.loads + self.stores
    }
}

impl std::ops::Sub for Counts {
    type Output = Counts;
    /// Returns what was done since `earlier`.
    fn sub(self, earlier: Counts) -> Counts {
        Counts {
            loads: self.loads - earlier.loads,
            stores: self.stores - earlier.stores,
            late: self.late - earlier.late,
            fetched: self.fetched - earlier.fetched,
            streamed: self.streamed - earlier.streamed,
            sent: self.sent - earlier.sent,
            stalled: self.stalled - earlier.stalled,
        }
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.loads += other.loads;
        self.stores += other.stores;
        self.late += other.late;
        self.fetched += other.fetched;
        self.streamed += other.streamed;
        self.sent += other.sent;
        self.stalled += other.stalled;
    }
}
