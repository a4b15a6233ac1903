//! The two machines of chapter 7.

use super::curve::Curve;
use super::experiments::slots;
use crate::critical::{Chip, Experiment, Task, Way};
use crate::figures::{Plot, Result, Series};
use mp_delegate::critical::{Backoff, Section};
use mp_model::Time;

/// A machine of section 7.2.1.
pub struct X86 {
    /// The part of a figure that shows it.
    pub part: &'static str,
    /// Its name.
    pub name: &'static str,
    make: fn() -> Result<Chip>,
    mhz: u64,
    /// Numbers of clients. The last leaves a thread for one server.
    pub clients: [usize; 12],
    /// Backoffs in cycles. The thesis chooses the last one for figures 7.7 to 7.11.
    pub backoffs: [u64; 3],
    /// The backoff that it chooses on top of streaming stores, 0 for none.
    pub streaming_backoff: u64,
}

/// Eight Xeons. On the server's core no other thread runs, so 158 clients are left.
pub const XEON: X86 = X86 {
    part: "a",
    name: "Xeon",
    make: || Ok(Chip::xeon(160)?),
    mhz: 2130,
    clients: [1, 2, 4, 8, 16, 24, 40, 60, 80, 100, 130, 158],
    backoffs: [1000, 3000, 5000],
    streaming_backoff: 3000,
};

/// Four Opterons.
pub const OPTERON: X86 = X86 {
    part: "b",
    name: "Opteron",
    make: || Ok(Chip::opteron(48)?),
    mhz: 2300,
    clients: [1, 2, 4, 6, 8, 12, 16, 20, 26, 32, 40, 47],
    backoffs: [500, 1000, 1500],
    streaming_backoff: 0,
};

impl X86 {
    /// Returns a picture of what was measured on this machine.
    pub fn plot(
        &self,
        what: &str,
        across: &'static str,
        unit: &'static str,
        series: Vec<Series>,
    ) -> Plot {
        Plot::new(self.part, format!("{what}, {}", self.name), across, unit, series)
    }

    /// Returns how long so many cycles take.
    pub fn cycles(&self, cycles: u64) -> Time {
        Time::from_picos(cycles * 1_000_000 / self.mhz)
    }

    /// Returns the simulated machine.
    pub fn chip(&self) -> Result<Chip> {
        (self.make)()
    }

    /// Returns an experiment with pauses of up to 1000 cycles (T 7.2.1).
    pub fn on(&self, way: impl Into<Way>, clients: usize, task: Task) -> Result<Experiment> {
        Ok(self.with(self.chip()?, way, clients, task))
    }

    /// Returns the same on a machine with other costs.
    pub fn with(&self, chip: Chip, way: impl Into<Way>, clients: usize, task: Task) -> Experiment {
        let experiment = Experiment::new(chip, way, clients).task(task);
        let experiment = experiment.between(self.cycles(1000)).pause(self.cycles(PAUSE));
        experiment.time(Time::from_nanos(if clients < 20 { 300_000 } else { 800_000 }))
    }

    /// Returns the curve of an object by the number of clients.
    pub fn curve(
        &self,
        name: impl Into<String>,
        way: impl Into<Way> + Copy,
        task: Task,
    ) -> Result<Curve> {
        Curve::new(name, &self.clients, |clients| self.on(way, clients, task))
    }

    /// Returns the most clients that leave a thread for one server.
    pub fn most(&self) -> usize {
        self.clients[self.clients.len() - 1]
    }

    /// Returns the servers that the thesis chooses: without optimizations, with backoff, and with streaming stores.
    pub fn servers(&self) -> [(String, Section); 3] {
        let chosen = self.backoffs[2];
        let streaming = match self.streaming_backoff {
            0 => ("srv-SS".to_owned(), slots().streaming(true)),
            cycles => (format!("srv-B{cycles}-SS"), backoff(cycles).streaming(true)),
        };
        [("srv-base".to_owned(), slots()), (format!("srv-B{chosen}"), backoff(chosen)), streaming]
    }
}

/// The length of a pause in cycles.
const PAUSE: u64 = 50;

/// Returns a server whose clients look every so many cycles.
pub fn backoff(cycles: u64) -> Section {
    slots().backoff(Backoff::Fixed((cycles / PAUSE) as u32))
}
