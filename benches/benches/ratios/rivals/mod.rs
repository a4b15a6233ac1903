//! The other sides of the comparisons. A rival that is not available here says so, and its figure is never guessed.

pub mod channels;
pub mod contest;
pub mod crossbeam;
pub mod farm;
pub mod futex;
pub mod iceoryx2;
pub mod lines;
pub mod locks;
pub mod mpi;
pub mod native;
pub mod openmp;
mod pairs;
pub mod raw;
pub mod robust;
pub mod rtrb;
pub mod run;
pub mod spin_yield;
pub mod staged;
pub mod std_sync;
pub mod stencil;
pub mod sums;

pub use example_support::peers::{failed, last_words};

use crate::row::Trouble;

/// A check that costs the measured loop one comparison, and fails the run at the end.
#[derive(Default)]
pub struct Checked {
    wrong: u64,
}

impl Checked {
    pub fn equal(&mut self, got: u64, expected: u64) {
        self.wrong += u64::from(got != expected);
    }

    pub fn holds(&mut self, right: bool) {
        self.wrong += u64::from(!right);
    }

    pub fn finish(self) -> Result<(), Trouble> {
        match self.wrong {
            0 => Ok(()),
            wrong => Err(Trouble::Failed(format!("{wrong} messages arrived wrong"))),
        }
    }
}
