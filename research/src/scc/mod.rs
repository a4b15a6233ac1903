//! The analytical model of the Intel SCC (thesis, chapter 4), formula by formula.
//!
//! | file | formulas | what |
//! |---|---|---|
//! | `parameters.rs` | table 4.1 | what was measured |
//! | `primitives.rs` | 4.1–4.12 | read, write, put, get |
//! | `two_sided.rs` | section 4.2 | RCCE's send and receive |
//! | `broadcast.rs` | 4.13–4.24 | latency and throughput of broadcasts |
//!
//! Sizes are in cache lines of [`LINE_BYTES`], distances in routers passed (`hops`: 1 is the
//! core's own tile, 9 the farthest), times are [`Time`](mp_model::Time). L stands for latency (when
//! the data is there), C for completion (when the operation returns).
//!
//! # What software costs
//!
//! The thesis says that "writing or reading a flag is modeled by a single MPB access" (section 4.2), and its formulas
//! read a flag for C_mpb_r(1). With these formulas, table 4.2 is 0.4 to 3% above the printed figures. If the overhead
//! of a `get` is added to every read of a flag ([`Parameters::flag_read`] = o_mpb_get), all three figures for OC-Bcast
//! agree with the printed ones to the last digit, so the table was evidently computed in this way.
//!
//! The measured latencies of one line are higher, by 20 µs with k = 47 and 8 µs with k = 7, while throughput is “very
//! close” to the table. So the cost must be one that long messages do not pay for each chunk. Algorithm 1 has such a
//! part: each call computes the rank's place in the tree ([`Parameters::call`], [`Parameters::call_neighbour`]). All
//! three variants are here: [`Parameters::TABLE_4_1`] follows the text, [`Parameters::TABLE_4_2`] the table, and
//! [`Parameters::FITTED`] the measurements.

mod broadcast;
mod parameters;
mod primitives;
mod two_sided;

pub use parameters::{
    CHUNK_LINES, CORES, LINE_BYTES, MPB_LINES, Parameters, RCCE_BUFFER_LINES, megabytes_per_second,
};
