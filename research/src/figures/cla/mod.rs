//! Cache-line-aware design: Ramos and Hoefler, *Cache Line Aware Algorithm Design for Cache-Coherent Architectures*.

mod barriers;
mod collectives;
mod curve;
mod notifications;
mod transfers;

use super::{Entry, Group};

/// The figures of this paper.
pub const GROUP: Group = Group {
    name: "cla",
    title: "Cache-line-aware design",
    about: "S. Ramos and T. Hoefler, “Cache Line Aware Algorithm Design for Cache-Coherent Architectures”. The machines \
            are the paper's, by the costs of tables 1 to 4: up to 16 cores of two sockets (Sandy Bridge), filled one \
            after the other, and up to 60 cores of a Xeon Phi. Nothing is fitted except where a figure says so. T_min \
            and T_max are by the paper's graph rules. “Here” is a program in virtual time, in which ranks poll and steal \
            lines, and each line serves the ranks in the order in which they come; dots are orders at random. All ranks \
            begin together, with flags in memory and data in caches, as in the paper. Of libraries, the lines that their \
            algorithms would move are simulated, and none of their software. The same programs run on real lines between \
            threads and between processes (`research/tests/cla/on_lines.rs`).",
    figures: &[
        Entry { id: "CLa 2", make: transfers::figure_2 },
        Entry { id: "CLa 3", make: transfers::figure_3 },
        Entry { id: "CLa 6", make: notifications::figure_6 },
        Entry { id: "CLa 7", make: notifications::figure_7 },
        Entry { id: "CLa 11", make: barriers::figure_11 },
        Entry { id: "CLa 14", make: collectives::figure_14 },
        Entry { id: "CLa 15", make: collectives::figure_15 },
    ],
};
