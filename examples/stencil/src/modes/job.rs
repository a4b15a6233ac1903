//! What to compute and how, and what came of it.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use clap::ValueEnum;
use example_support::display_as_on_the_command_line;
pub use example_support::options::Ranks;
use onchip::communicator::share;
use onchip::trace::{Recording, Trace};
use serde::{Deserialize, Serialize};

use crate::init::Init;

/// How a worker gets to know its neighbours' borders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// One worker
    Sequential,
    /// Read where they lie, with a barrier after each step: the baseline (threads only)
    ShMem,
    /// Sent by the workers
    NoKt,
    /// Sent by a communication thread for each worker
    KtW,
    /// Sent by one communication thread for up to ten workers (threads only)
    Skt,
    /// Rows and columns are divided: borders are halos of a Cartesian communicator
    #[value(hide = true)]
    Grid,
    /// Sent as tagged messages, by workers that go on when others are lost: see --lose
    Survivors,
}
display_as_on_the_command_line!(Mode);

impl Mode {
    /// The modes with workers, in the order of the paper's table III.
    pub const PARALLEL: [Self; 5] = [Self::ShMem, Self::NoKt, Self::Skt, Self::KtW, Self::Grid];

    /// Returns whether workers can be processes: not in modes that need one address space.
    pub fn works_with(self, ranks: Ranks) -> bool {
        ranks == Ranks::Threads
            || matches!(self, Self::NoKt | Self::KtW | Self::Grid | Self::Survivors)
    }
}

/// A worker that is to be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Which one.
    pub rank: usize,
    /// The number of steps after which it is lost.
    pub step: usize,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.rank, self.step)
    }
}

impl FromStr for Loss {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('@').map(|(rank, step)| (rank.parse(), step.parse())) {
            Some((Ok(rank), Ok(step))) => Ok(Self { rank, step }),
            _ => Err("not a worker and a step, like 1@30".to_owned()),
        }
    }
}

/// What to compute, and by how many workers.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Returns the matrix before the first step.
    pub init: Init,
    /// The most steps to take.
    pub steps: usize,
    /// The greatest change of an element in a step after which no further step is taken.
    pub tolerance: Option<f64>,
    /// The number of blocks of rows, and of columns. If there are more blocks than rows, some workers have no rows.
    pub grid: [usize; 2],
    /// Whether to record a trace.
    pub trace: bool,
    /// Whether the matrix is wanted, and not only the time.
    pub keep: bool,
    /// For mode `survivors`: after how many steps workers keep what they have.
    pub checkpoint: usize,
    /// For mode `survivors`: workers that are killed on the way.
    pub lose: Vec<Loss>,
}

impl Job {
    /// Returns the number of workers.
    pub fn workers(&self) -> usize {
        self.grid[0] * self.grid[1]
    }

    pub(super) fn recording(&self) -> Recording {
        if self.trace { Recording::trace() } else { Recording::off() }
    }

    /// Returns the rows and columns of a worker, row by row of the grid.
    pub(super) fn place(&self, worker: usize) -> [Range<usize>; 2] {
        let size = self.init.size();
        let [rows, columns] = self.grid;
        [share(size, rows, worker / columns), share(size, columns, worker % columns)]
    }

    /// Puts the blocks of all workers together.
    pub(super) fn assemble(&self, blocks: Vec<Vec<f64>>) -> Vec<f64> {
        if !self.keep {
            return Vec::new();
        }
        if self.grid[1] == 1 {
            return blocks.concat();
        }
        let size = self.init.size();
        let mut cells = vec![0.0; size * size];
        for (worker, block) in blocks.iter().enumerate() {
            let [rows, columns] = self.place(worker);
            for (i, row) in rows.zip(block.chunks_exact(columns.len().max(1))) {
                cells[i * size..][columns.clone()].copy_from_slice(row);
            }
        }
        cells
    }
}

/// The result of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// The number of steps that were taken.
    pub steps: usize,
    /// How long they took for the last worker, from when all had their blocks: the paper's `T_C`.
    pub seconds: f64,
    /// The matrix after them, row by row; empty if it is not wanted.
    pub cells: Vec<f64>,
    /// The recorded trace.
    pub trace: Trace,
}
