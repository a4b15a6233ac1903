//! Critical sections: Petrović's thesis, chapters 6 and 7.

mod costs;
mod curve;
mod delegation;
mod experiments;
mod locks;
mod objects;
mod optimizations;
mod structures;
mod turning_points;
mod x86;

use super::{Entry, Group};

/// The figures of these chapters.
pub const GROUP: Group = Group {
    name: "critical",
    title: "Critical sections",
    about: "Petrović's thesis, chapters 6 and 7. The library's own algorithms run on simulated machines: 36 tiles of a \
            TILE-Gx, 160 hardware threads of eight Xeons, and 48 cores of four Opterons. The thesis prints no costs of \
            cache lines. They are those that David, Guerraoui and Trigonakis measured on such machines (SOSP 2013, \
            table 2), quoted from memory of that publication. Three of them were found again, in public notes of \
            lectures that do not name their source: on a Xeon, a load takes 109 cycles from another core of the socket, \
            289 from another socket, and 355 from memory. The others could not be checked: two hops between Xeons (400), \
            stores to shared lines (116, 318 and 428), and all numbers of the Opteron and of the TILE-Gx. The rows \
            under Costs of lines show that no conclusion depends on them. Two hardware threads of a Xeon's core have \
            caches of their own here. Two constants are fitted: the instructions of an \
            operation, 8 cycles, on the 88 Mops of figure 6.6a; and how long the memory of a socket is busy with each \
            request for a line, 25 cycles, on the “about 20 Mops/sec” that the best server reaches on both machines of \
            figure 7.5. Everything else follows from the algorithms. The thesis' curves exist only as pictures, so \
            published values are from its sentences.",
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
        Entry { id: "Costs of lines", make: costs::costs },
        Entry { id: "Guide 8", make: turning_points::turning_points },
    ],
};

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
