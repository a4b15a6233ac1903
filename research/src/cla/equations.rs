//! Equations 1, 2 and 6 to 35, as printed.
//!
//! The computations use the graph rules ([`graph`](mp_model::cla::graph)). The equations are here for comparison, and
//! the tests say for each how the two are related. `near` is the paper's s, or n if there is one group; `far` is its q.
//! Without ranks the time is 0.
//!
//! # Where the paper disagrees with itself
//!
//! - **Rule 1** of section 2.4 says that a first access to a flag "in memory" costs R_L. All of the equations, and
//!   section 3.1, use R_I.
//! - **Equation 2**: b = R_L + R_R − c is 188.2 ns with table 1, but table 2 has 320.5 ns, which is fitted.
//!   [`with_contention_of_equation_2`] uses the equation's value.
//! - **Equation 4** is T_m(p, N), but contains an n. The p is the n, as its uses show.
//! - **Equation 7** charges R_Q for each writer of the other group, while section 2.4 chooses "the reordering with less
//!   QPI transfers", which has one. The equation is right if the line's home is in the group of the waiting rank, and
//!   [`Machine`](mp_model::cla::Machine) assumes that.
//! - **Equations 17 and 19** lack the second read of the readers. With n = 1 they are the minimum, and (19) is even
//!   less than that, while the same program as many-to-one (8), with separate lines (12, 23), or across groups (18) has
//!   R_R or R_Q more. The maximum of the reduction (33) also has it.
//! - **Equations 16, 26 and 29** have T_C(n) for n readers, and (6) and (10) have R_R for the one reader on the same
//!   machine, while T_C(1) has another value: 376.7 ns instead of 235.8 ns with tables 1 and 2. The rules here assume
//!   that contention needs two readers.
//! - **Equations 23 and 25** charge R_I once, and (24) for each line, for the same program. If R_I > 2 R_R, (23) is
//!   less than the minimum (20) from n = 2 on. (24) is a bound.
//! - **Equation 26** has R_R for the write of the flag, and (16) has R_I. No rank has a flag of single use in its
//!   cache, so it should be R_I.
//! - **Equation 28** counts "one interference per operation", but not one for each of the m readers.
//! - **Equation 32** is general, and section 4.1 says in words what a level consists of. T_data is R_L here: the cost
//!   for the child to put the line into its own place. The next copy of that place, to the child's own children, is
//!   consecutive (rule 3). The root pays R_L once to read its data.
//! - **Equation 33** has one R_I for two flags. It is the cost of a level above another one: the parent's own flag was
//!   written long ago, and private buffers are still in the cache of the parent, which was the last to read them. The
//!   lowest level costs R_I more.
//! - **Algorithm 7** is printed with its second block inside the first, so leaves would do nothing. In the text they
//!   are one after the other.
//! - **Equation 35** counts each stage until the partner has left, although the next stage does not wait for that. The
//!   difference is R_R for each stage but the last.
//! - **Contended minima** (16, 29) are no lower bounds, because readers may come at different times. They are values to
//!   optimize for. The same holds for R_I in all minima in which a rank that polls early brings the line from memory
//!   for the rank that writes it later, and for the writes joined by E3, of which the early ones overlap with other
//!   work ("we still get an upper bound for T_min", section 5.1). True bounds:
//!   [`certain`](super::certain()).

use mp_model::Time;
pub use mp_model::cla::equations::{
    broadcast_level, dissemination, many_to_one_same_line, mixed_dissemination, reduction_level,
    rounds,
};
use mp_model::cla::{Bounds, Parameters, State};

/// Equation 1: returns half of a ping-pong of one line. The sender reads its buffer, copies it into the receiver's, and
/// the receiver reads that.
pub fn half_round_trip(p: &Parameters, send_buffer: State, near: bool) -> Time {
    let own = match send_buffer {
        State::Exclusive => p.local,
        State::Invalid => p.near.memory,
    };
    own + 2 * p.link(near).transfer
}

/// Returns the machine with equation 2 as its first half has it, b = R_L + R_R − c, where table 2 has a fitted b.
///
/// The two differ: with table 1's values this b is 188.2 ns, and the table says 320.5 ns.
#[must_use]
pub fn with_contention_of_equation_2(mut p: Parameters) -> Parameters {
    if let Some(contention) = &mut p.contention {
        let one = p.local + p.near.transfer;
        contention.start = one.saturating_sub(contention.reader);
        contention.saved = Time::ZERO;
    }
    p
}

/// Equations 10 to 13: ranks notify one rank, each with its own flag.
pub fn many_to_one_lines(p: &Parameters, near: u64, far: u64) -> Bounds {
    if near + far == 0 {
        return Bounds::default();
    }
    let moved = near * p.r_r() + far * p.r_q();
    Bounds { min: p.r_i() + moved, max: (near + far) * p.r_i() + 2 * moved }
}

/// Equations 14 to 19: one notifies ranks by one flag.
pub fn one_to_many_same_line(p: &Parameters, near: u64, far: u64) -> Bounds {
    let ranks = near + far;
    if ranks == 0 {
        return Bounds::default();
    }
    let crossing = if far > 0 { p.r_q() } else { Time::ZERO };
    Bounds {
        min: p.r_i() + p.contended(far == 0, ranks),
        max: p.r_i() + ranks * p.r_r() + crossing,
    }
}

/// Equations 20 to 25: one rank notifies others, each with its own flag.
pub fn one_to_many_lines(p: &Parameters, near: u64, far: u64) -> Bounds {
    let ranks = near + far;
    if ranks == 0 {
        return Bounds::default();
    }
    let max = match far {
        0 => p.r_i() + 2 * near * p.r_r(),
        _ => ranks * p.r_i() + 2 * (near * p.r_r() + far * p.r_q()),
    };
    Bounds { min: ranks * p.r_i() + p.farthest(far), max }
}

/// Equation 26: one step of a notification tree, by a flag that `readers` read.
pub fn notification_step(p: &Parameters, readers: u64) -> Bounds {
    Bounds { min: p.r_r() + p.contended(true, readers), max: p.r_r() + 2 * readers * p.r_r() }
}

/// Equation 30: a barrier in each of two groups of n₀ and n₁ ranks, of which the slower takes `within`,
/// then each rank exchanges flags with one of the other group.
pub fn pairwise_exchange(p: &Parameters, within: Bounds, ranks: [u64; 2]) -> Bounds {
    let [n0, n1] = ranks;
    let max = 2 * (p.r_i() + 2 * p.far.lines.cost(n0 + n1, 1)) + n0.abs_diff(n1) * p.r_q();
    within + Bounds { min: p.r_i() + p.r_q(), max }
}

/// Equation 31: the same, but one rank of each group writes a flag that all of the other read.
pub fn root_exchange(p: &Parameters, within: Bounds, ranks: [u64; 2]) -> Bounds {
    let [n0, n1] = ranks;
    within + Bounds { min: p.r_i() + p.r_q(), max: 2 * p.r_i() + (n0 + n1) * p.r_q() }
}

/// The first approach of section 3.3.2: one m-way dissemination over all ranks, `far` of whose
/// ranks·r·m reads are of another group; an estimate with the average over the ranks.
pub fn dissemination_with_far_reads(
    p: &Parameters,
    ranks: u64,
    rounds: u64,
    ways: u64,
    far: u64,
) -> Time {
    let reads = ranks * rounds * ways;
    rounds * p.r_i() + (reads.saturating_sub(far) * p.r_r() + far * p.r_q()) / ranks.max(1)
}

/// Equation 35: binomial reduction of long vectors, with as many ranks in the root's group (it
/// included) and in the other.
pub fn binomial_reduction(p: &Parameters, near: u64, far: u64, lines: u64) -> Time {
    let stages = u64::from(near.max(far).max(1).next_power_of_two().ilog2());
    let stage = 2 * (p.r_i() + p.r_r()) + p.near.lines.cost(1, lines);
    let inter = 2 * (p.r_i() + p.r_q()) + p.far.lines.cost(1, lines);
    if far > 0 { stages * stage + inter } else { stages * stage }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Equation 1 by hand.
    #[test]
    fn ping_pong_by_hand() {
        let sandy = &Parameters::SANDY_BRIDGE;
        assert_eq!(half_round_trip(sandy, State::Exclusive, true).as_nanos(), 72.3);
        assert_eq!(half_round_trip(sandy, State::Invalid, false).as_nanos(), 258.0);
    }

    /// Equation 2 by hand.
    #[test]
    fn contention_of_equation_2_by_hand() {
        let anchored = with_contention_of_equation_2(Parameters::XEON_PHI);
        let of_one = anchored.contention.unwrap().cost(1);
        assert_eq!(of_one, anchored.local + anchored.near.transfer);
        assert_eq!(anchored.contention.unwrap().start.as_nanos(), 188.2);
        for parameters in [Parameters::SANDY_BRIDGE, Parameters::XEON_PHI] {
            assert_eq!(with_contention_of_equation_2(parameters).check(), Ok(()));
        }
    }
}
