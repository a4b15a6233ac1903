//! Critical sections: Petrović's thesis, chapters 6 and 7.

mod curve;
mod delegation;
mod locks;
mod objects;
mod optimizations;
mod structures;
mod turning_points;
mod x86;

use super::{Check, Entry, Group};
use crate::critical::{Chip, Experiment, Task, Way};
use mp_delegate::critical::{Scheme, Section};
use mp_model::Time;

/// The figures of these chapters.
pub const GROUP: Group = Group {
    name: "critical",
    title: "Critical sections",
    about: "Petrović's thesis, chapters 6 and 7. The library's own algorithms run on simulated machines: 36 tiles of a \
            TILE-Gx, 160 hardware threads of eight Xeons, and 48 cores of four Opterons. The thesis prints no costs of \
            cache lines. They are those that David, Guerraoui and Trigonakis measured on such machines (SOSP 2013, \
            table 2), quoted without a copy at hand. Two constants are fitted: the instructions of an operation, 8 \
            cycles, on the 88 Mops of figure 6.6a; and how long the memory of a socket is busy with each request for a \
            line, 25 cycles, on the “about 20 Mops/sec” that the best server reaches on both machines of figure 7.5. \
            Everything else follows from the algorithms. The thesis' curves exist only as pictures, so published \
            values are from its sentences.",
    figures: &[
        Entry { id: "Thesis 6.4", make: locks::figure_6_4 },
        Entry { id: "Thesis 6.5", make: delegation::figure_6_5 },
        Entry { id: "Thesis 6.6", make: delegation::figure_6_6 },
        Entry { id: "Thesis 6.7", make: delegation::figure_6_7 },
        Entry { id: "Thesis 6.8", make: objects::figure_6_8 },
        Entry { id: "Thesis 7.5", make: optimizations::figure_7_5 },
        Entry { id: "Thesis 7.6", make: optimizations::figure_7_6 },
        Entry { id: "Thesis 7.7", make: optimizations::figure_7_7 },
        Entry { id: "Thesis 7.8", make: optimizations::figure_7_8 },
        Entry { id: "Thesis 7.9", make: structures::figure_7_9 },
        Entry { id: "Thesis 7.10", make: structures::figure_7_10 },
        Entry { id: "Thesis 7.11", make: structures::figure_7_11 },
        Entry { id: "Guide 8", make: turning_points::turning_points },
    ],
};

const MOPS: &str = "Mops/s";
const NANOS: &str = "ns";
const CLIENTS: &str = "threads that ask for operations";
const INCREMENTS: &str = "increments in the critical section";

/// The most operations of a combiner (T 6.2.2).
const MAX_OPS: usize = 200;
/// Up to 50 empty iterations at 1.2 GHz (T 6.2.2).
const PAUSE: Time = Time::from_nanos(42);
const ON_TILES: [usize; 16] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 35];

/// Returns an experiment on the TILE-Gx.
fn on_tiles(way: impl Into<Way>, clients: usize, task: Task) -> super::Result<Experiment> {
    let experiment = Experiment::new(Chip::tiles(36)?, way, clients).task(task).between(PAUSE);
    Ok(experiment.time(Time::from_nanos(300_000)))
}

/// Returns SHM-SERVER, and srv-base of chapter 7: the slot server with a line for each client.
fn slots() -> Section {
    Section::new(Scheme::SlotServer).in_flight(1)
}

fn combiner(scheme: Scheme) -> Section {
    Section::new(scheme).max_ops(MAX_OPS)
}

/// Returns the check of a statement, and says where it does not hold if there are such places.
fn everywhere(quote: &str, all: &str, exceptions: &[String]) -> Check {
    let ours = match exceptions {
        [] => all.to_owned(),
        some => format!("not with {}", some.join(", ")),
    };
    Check::statement(quote, ours, exceptions.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The others take longer, and the command asserts them.
    #[test]
    fn figures_of_few_threads_come_out_as_stated() {
        delegation::figure_6_7().unwrap().assert();
        optimizations::figure_7_7().unwrap().assert();
    }
}
