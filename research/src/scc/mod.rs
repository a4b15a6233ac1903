//! The analytical model of the Intel SCC (thesis, chapter 4), formula by formula.
//!
//! | file | formulas | what |
//! |---|---|---|
//! | `parameters.rs` | table 4.1 | what was measured |
//! | `primitives.rs` | 4.1–4.12 | read, write, put, get |
//! | `two_sided.rs` | section 4.2 | RCCE's send and receive |
//! | `broadcast.rs` | 4.13–4.24 | latency and throughput of broadcasts |
//! | `figures.rs` | figure 4.5, table 4.2 | the published curves and numbers |
//!
//! Sizes are in cache lines of [`LINE_BYTES`], distances in routers passed (`hops`: 1 is the
//! core's own tile, 9 the farthest), times are [`Time`](mp_model::Time). L stands for latency (when
//! the data is there), C for completion (when the operation returns).
//!
//! # The cost of flags
//!
//! The thesis says that "writing or reading a flag is modeled by a single MPB access" (section
//! 4.2), and its formulas read a flag for C_mpb_r(1). Computed so, table 4.2 comes out 0.4 to 3%
//! above the printed figures. With the overhead of a `get` added for every flag read
//! ([`Parameters::flag_read`] = o_mpb_get), all three figures for OC-Bcast come out to the last
//! printed digit: that is evidently how the table was made. The measured latencies of short
//! messages are higher still, and say what software pays for each flag. All three are here:
//! [`Parameters::TABLE_4_1`] keeps to the text, [`Parameters::TABLE_4_2`] to the table,
//! [`Parameters::FITTED`] to the measurements.

mod broadcast;
pub mod figures;
mod parameters;
mod primitives;
mod two_sided;

pub use parameters::{
    CHUNK_LINES, CORES, LINE_BYTES, MPB_LINES, Parameters, RCCE_BUFFER_LINES, megabytes_per_second,
};
