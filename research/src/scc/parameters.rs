//! The measured values of the SCC (table 4.1), and its fixed sizes.

use mp_model::Time;

/// Cores of the SCC: two on each of 24 tiles (section 2.3).
pub const CORES: usize = 48;

/// Bytes of a cache line, which is what a packet carries (section 4.1.1).
pub const LINE_BYTES: u64 = 32;

/// Cache lines in one core's message passing buffer: 8 KiB (section 2.3).
pub const MPB_LINES: u64 = 256;

/// M_oc: cache lines in one of OC-Bcast's two buffers (section 3.3.1).
pub const CHUNK_LINES: u64 = 96;

/// M_rcce: cache lines in RCCE's payload buffer (section 3.3.1).
pub const RCCE_BUFFER_LINES: u64 = 251;

/// The parameters of the model (table 4.1), and one that is not in it.
///
/// The formulas are methods of this type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// L_hop: a packet through one router.
    pub hop: Time,
    /// o_mpb: core overhead of reading or writing a line of an MPB.
    pub mpb: Time,
    /// o_mem_w: overhead of writing a line to off-chip memory.
    pub mem_write: Time,
    /// o_mem_r: overhead of reading a line from off-chip memory.
    pub mem_read: Time,
    /// o_mpb_put: overhead of a put from the core's own MPB, apart from moving data.
    pub mpb_put: Time,
    /// o_mpb_get: overhead of a get into the core's own MPB.
    pub mpb_get: Time,
    /// o_mem_put: overhead of a put from off-chip memory.
    pub mem_put: Time,
    /// o_mem_get: overhead of a get into off-chip memory.
    pub mem_get: Time,
    /// The software's cost of reading a flag, in addition to C_mpb_r(1). Not in table 4.1; see the [module's
    /// documentation](super).
    pub flag_read: Time,
    /// The software's cost of a call of a broadcast, before anything is sent. Not in table 4.1.
    pub call: Time,
    /// The software's cost for each neighbour of the calling rank in the tree. Not in table 4.1.
    pub call_neighbour: Time,
}

impl Parameters {
    /// Table 4.1. Flags cost nothing except for their reading, as in the text.
    pub const TABLE_4_1: Parameters = Parameters {
        hop: Time::from_nanos(5),
        mpb: Time::from_nanos(126),
        mem_write: Time::from_nanos(461),
        mem_read: Time::from_nanos(208),
        mpb_put: Time::from_nanos(69),
        mpb_get: Time::from_nanos(330),
        mem_put: Time::from_nanos(190),
        mem_get: Time::from_nanos(95),
        flag_read: Time::ZERO,
        call: Time::ZERO,
        call_neighbour: Time::ZERO,
    };

    /// Table 4.1 with flags read by a get. It gives table 4.2's figures for OC-Bcast to the last digit.
    pub const TABLE_4_2: Parameters =
        Parameters { flag_read: Parameters::TABLE_4_1.mpb_get, ..Parameters::TABLE_4_1 };

    /// The costs of table 4.2, and what a call costs: every rank computes its place in the tree at the beginning of
    /// every broadcast (algorithm 1, line 15). On the way of a message this counts at the root alone, because the
    /// others are waiting already. The two costs are fitted to two measured values, with OC-Bcast in the simulator
    /// ([`crate::sim`]): one line to all 47 children of the root takes 44.1 µs (table 3.1), and with k = 7 16.6 µs
    /// (section 3.3.3).
    pub const FITTED: Parameters = Parameters {
        call: Time::from_nanos(5_850),
        call_neighbour: Time::from_nanos(292),
        ..Parameters::TABLE_4_2
    };
}

/// Returns megabytes (10⁶ bytes, as in table 4.2) per second if so many lines of [`LINE_BYTES`] take `time`.
pub fn megabytes_per_second(lines: u64, time: Time) -> f64 {
    (lines * LINE_BYTES) as f64 / time.as_micros()
}
