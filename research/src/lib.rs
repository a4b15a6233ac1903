//! Research outside of the library: the papers' models, machines in virtual time, the papers' experiments and figures,
//! and rivals to compare with. Programs that use the library need none of this. Tests, benches and figures do.
//!
//! | module | what it is | source |
//! |---|---|---|
//! | [`sim`] | cores, mesh and message passing buffers in virtual time, with the library's algorithms on them | thesis, section 4.1 |
//! | [`scc`] | the analytical model of the Intel SCC and of broadcasts on it | thesis, chapter 4 |
//! | `experiments` | the thesis' experiments with broadcasts, on simulated machines | thesis, chapters 3 and 4 |
//! | `figures` | the papers' figures, published and simulated | all five papers |
//! | [`two_sided`] | send and receive over MPBs, and the broadcasts on them | thesis, sections 3.3.2 and 4.2 |
//! | [`served`] | asynchronous broadcasts of a rank that has a single thread | thesis, section 3.2 |
//! | [`cla`] | cache-line-aware design: programs in virtual time, the printed equations, and baselines | Ramos and Hoefler |
//! | [`coherent`] | cache-coherent memory in virtual time, access by access | thesis, chapter 6; Ramos and Hoefler, section 2.3 |
//! | `critical` | the library's critical sections on simulated machines | thesis, chapters 6 and 7 |
//! | [`smt`] | cores with several hardware threads in virtual time, and programs with communication threads on them | Buono et al., section V |
//! | [`nonblocking`] | lock-free structures, as rivals of critical sections | Treiber; Morrison and Afek |
#![forbid(unsafe_code)]
#![cfg_attr(loom, allow(dead_code, unused_imports))]

pub mod cla;
pub mod coherent;
#[cfg(not(loom))]
pub mod critical;
#[cfg(not(loom))]
pub mod experiments;
#[cfg(not(loom))]
pub mod figures;
pub mod nonblocking;
pub mod scc;
#[cfg(not(loom))]
pub mod served;
pub mod sim;
pub mod smt;
pub mod two_sided;
