//! Broadcasts on the Intel SCC: Petrović's thesis, chapters 3 and 4, which has all figures of the two papers
//! (“High-Performance RMA-Based Broadcast on the Intel SCC”, SPAA 2012; “Asynchronous Broadcast on the Intel SCC using
//! Interrupts”, MARC 2012).

mod asynchronous;
mod formulas;
mod hardware;
mod machine;
mod scale;
mod synchronous;

use super::{Entry, Group};

/// The figures of these chapters.
pub const GROUP: Group = Group {
    name: "scc",
    title: "Broadcasts on the Intel SCC",
    about: "Petrović's thesis, chapters 3 and 4. They contain the figures of two papers: “High-Performance RMA-Based \
            Broadcast on the Intel SCC” (SPAA 2012) and “Asynchronous Broadcast on the Intel SCC using Interrupts” \
            (MARC 2012). The library's own algorithms run on a simulated SCC. Its costs are those of table 4.1, and \
            flags are read as table 4.2 has them. Three costs of software are fitted: a call of a broadcast (5.85 µs) \
            and each neighbour in its tree (0.29 µs), to latencies of one line (44.1 µs with k = 47, 16.6 µs with \
            k = 7), and an interrupt's way to the program (25.4 µs), to the 40.2 µs of table 3.1. One is taken between \
            two published bounds: an MPB's port reads a line in 10 ns. All other values are predictions.",
    figures: &[
        Entry { id: "Thesis 3.1", make: hardware::figure_3_1 },
        Entry { id: "Thesis 3.2", make: synchronous::figure_3_2 },
        Entry { id: "Thesis 3.3", make: hardware::figure_3_3 },
        Entry { id: "Thesis 3.4", make: asynchronous::figure_3_4 },
        Entry { id: "Thesis table 3.1", make: asynchronous::table_3_1 },
        Entry { id: "Thesis 4.2", make: hardware::figure_4_2 },
        Entry { id: "Thesis 4.3", make: hardware::figure_4_3 },
        Entry { id: "Thesis 4.5", make: formulas::figure_4_5 },
        Entry { id: "Thesis table 4.2", make: formulas::table_4_2 },
        Entry { id: "Thesis 4.3.2", make: scale::many_cores },
    ],
};
