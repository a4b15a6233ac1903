//! A campaign against worlds of processes.
//!
//! A run is a world of two to eight ranks that do a mix of everything the library has, while one process is hurt: a
//! rank, the launcher, or the launcher's parent. A seed determines a run: what each rank does, which process is hurt,
//! how and when. Afterwards the campaign judges the reports of all processes: the survivors finished or got an error
//! that names the dead, no message was torn, came twice or is missing before one that came, and no process, file,
//! descriptor or memory is left.
//!
//! ```text
//! campaign            starts the parent, collects what all say, judges, counts
//!   parent            starts the launcher, waits for it
//!     launcher        runs the world
//!       rank 0, 1, …  do the steps of the plan
//! ```
//!
//! | part | what it is |
//! |---|---|
//! | [`random`] | numbers from a seed |
//! | [`plan`] | what a seed says |
//! | [`life`] | how a process comes to its injury |
//! | [`record`], [`told`] | what processes tell the campaign, and what errors tell them |
//! | [`content`] | messages that show when they are torn, or not the expected ones |
//! | [`operations`] | what ranks do, one file for each |
//! | [`rank`], [`launcher`], [`parent`] | the processes of a run |
//! | [`run`], [`outcome`] | one run, seen from outside, and what came of it |
//! | [`processes`] | the processes below the campaign |
//! | [`judge`] | what must hold afterwards |
//! | [`campaign`] | many runs, some at the same time |
//! | [`report`] | the tables |
//! | [`cli`] | the command line |
#![forbid(unsafe_code)]

pub mod campaign;
pub mod cli;
pub mod content;
pub mod judge;
pub mod launcher;
pub mod life;
pub mod operations;
pub mod outcome;
pub mod parent;
pub mod plan;
pub mod processes;
pub mod random;
pub mod rank;
pub mod record;
pub mod report;
pub mod run;
pub mod told;
