//! The guide to Onchip. `cargo doc -p onchip-guide --open` builds it, and the tests compile and run all its code.
//!
//! - [A first program](page_01_first_program)
//! - [Threads and processes](page_02_threads_and_processes)
//! - [Channels](page_03_channels)
//! - [Coming from MPI or rsmpi](page_04_from_mpi)
//! - [Collective operations](page_05_collectives)
//! - [Coming from crossbeam or rayon](page_06_from_crossbeam_and_rayon)
//! - [Communication threads](page_07_communication_threads)
//! - [Critical sections](page_08_critical_sections)
//! - [When a rank dies](page_09_when_a_rank_dies)
//! - [mprun, reports and limits](page_10_mprun)
//! - [Papers and algorithms](page_11_papers)
#![forbid(unsafe_code)]
#![doc(test(attr(deny(warnings))))]

#[doc = include_str!("guide/01-first-program.md")]
pub mod page_01_first_program {}

#[doc = include_str!("guide/02-threads-and-processes.md")]
pub mod page_02_threads_and_processes {}

#[doc = include_str!("guide/03-channels.md")]
pub mod page_03_channels {}

#[doc = include_str!("guide/04-from-mpi.md")]
pub mod page_04_from_mpi {}

#[doc = include_str!("guide/05-collectives.md")]
pub mod page_05_collectives {}

#[doc = include_str!("guide/06-from-crossbeam-and-rayon.md")]
pub mod page_06_from_crossbeam_and_rayon {}

#[doc = include_str!("guide/07-communication-threads.md")]
pub mod page_07_communication_threads {}

#[doc = include_str!("guide/08-critical-sections.md")]
pub mod page_08_critical_sections {}

#[doc = include_str!("guide/09-when-a-rank-dies.md")]
pub mod page_09_when_a_rank_dies {}

#[doc = include_str!("guide/10-mprun.md")]
pub mod page_10_mprun {}

#[doc = include_str!("guide/11-papers.md")]
pub mod page_11_papers {}

#[doc = include_str!("guide/12-mpi-programs.md")]
pub mod page_12_mpi_programs {}

#[doc = include_str!("guide/13-several-nodes.md")]
pub mod page_13_several_nodes {}
