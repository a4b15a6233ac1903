//! Storms: random programs over all that ranks can do together, which MPI's rules allow, run by real ranks and
//! compared with a sequential model: tagged messages in every way, collective operations, communicators that
//! are made, revoked and shrunk in the middle of all that, and beside them channels, delegated sends and
//! critical sections.
//!
//! - `program.rs` contains the parts of a program.
//! - `draft.rs` draws a program: one order of events for all ranks, from which each rank takes its own.
//! - `run.rs` executes one rank's part and compares the received messages with the model.
//! - `requests.rs` contains a rank's pending requests.
//! - `beside.rs` contains its operations outside of communicators.

mod beside;
mod draft;
mod program;
mod requests;
mod run;

pub use run::{LIMITS, Limit, run};

/// When a test fails, prints the program, and how to run it again.
#[derive(Clone, Debug)]
pub struct Told {
    seed: u64,
    ranks: usize,
    limit: Limit,
}

impl Told {
    pub fn new(seed: u64, ranks: usize, limit: Limit) -> Self {
        Self { seed, ranks, limit }
    }

    /// Returns the program, and how to run it again.
    pub fn text(&self) -> String {
        let Self { seed, ranks, limit } = *self;
        let place = LIMITS.iter().position(|other| *other == limit).unwrap_or(0);
        let program = program::Program::new(seed, ranks);
        format!(
            "{program}\nThis was seed {seed} for {ranks} ranks, with the limit {limit:?}. To run it again:\n\
             cargo run --release -p mp-collectives --example storm -- 0 {seed} {ranks} {place}\n"
        )
    }
}

/// Prints only while a failure unwinds.
impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.text());
        }
    }
}
