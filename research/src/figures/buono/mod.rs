//! Message passing on a hardware multi-threaded processor: Buono, De Matteis, Mencagli and Vanneschi, *Optimizing
//! Message-Passing on Multicore Architectures using Hardware Multi-Threading*.

mod farm;
mod given;
mod siblings;
mod stencil;

use super::{Entry, Group};

/// The figures of this paper.
pub const GROUP: Group = Group {
    name: "buono",
    title: "Message passing on a hardware multi-threaded processor",
    about: "D. Buono, T. De Matteis, G. Mencagli and M. Vanneschi, “Optimizing Message-Passing on Multicore \
            Architectures using Hardware Multi-Threading”. The machine is a Xeon Phi of 60 cores with four hardware \
            threads, in virtual time. A thread that works asks for its core's issue in a part u of the cycles, and \
            threads of a core get what is left. u is the only fitted constant: with it, one communication thread \
            beside one worker gives the 14,022 µs of table I, row 1. That makes the share that a working sibling \
            takes 26%. The work itself is given by the same row: an image takes 13,614 µs (Sh-Mem), and its copy the \
            1,175 µs that No-KT takes longer. Of the stencil, Sh-Mem's time on one core is given. Its rows cost what \
            the model of the Xeon Phi by Ramos and Hoefler says: a copy is a transfer of several lines (their table \
            4), and a calculation that reads a row of another core fetches line by line (R_R of table 1), while its \
            stores do not wait. Which cost applies where was decided with table III in view; nothing is fitted to it. \
            All other values are predictions. Caches' sizes and the memory's bandwidth are not simulated, nor are \
            OpenMP and MPI, which are other software; their published values stand beside the times here, and \
            `cargo run --release --example stencil -- --peers` measures them on the machine at hand. Channels have the degree 2: the paper does not say its own.",
    figures: &[
        Entry { id: "Buono table 1", make: farm::table_1 },
        Entry { id: "Buono table 2", make: farm::table_2 },
        Entry { id: "Buono table 3", make: stencil::table_3 },
        Entry { id: "Buono table 4", make: stencil::table_4 },
        Entry { id: "Buono 8", make: siblings::figure_8 },
    ],
};

#[cfg(test)]
mod tests {
    use super::GROUP;

    #[test]
    fn checks_come_out_as_stated() {
        for entry in GROUP.figures {
            (entry.make)().unwrap().assert();
        }
    }
}
