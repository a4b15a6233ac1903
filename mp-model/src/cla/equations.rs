//! The printed equations with which searches begin: what is best in one group.
//!
//! The graph rules ([`graph`](super::graph)) are used for everything else. `near` is the paper's s, or n if there is one
//! group; `far` is its q. Without ranks the time is 0. The other equations, and where the paper disagrees with itself,
//! are in `research/src/cla/equations.rs`.

use super::graph::Bounds;
use super::parameters::Parameters;
use crate::Time;

impl Parameters {
    /// Returns R_I within a group.
    pub fn r_i(&self) -> Time {
        self.near.memory
    }

    /// Returns R_R.
    pub fn r_r(&self) -> Time {
        self.near.transfer
    }

    /// Returns R_Q.
    pub fn r_q(&self) -> Time {
        self.far.transfer
    }

    /// Returns R_Q if any rank is far, or else R_R.
    pub fn farthest(&self, far: u64) -> Time {
        if far > 0 { self.r_q() } else { self.r_r() }
    }
}

/// Equations 6 to 9: ranks notify one by adding to one flag.
pub fn many_to_one_same_line(p: &Parameters, near: u64, far: u64) -> Bounds {
    if near + far == 0 {
        return Bounds::default();
    }
    Bounds {
        min: p.r_i() + near * p.r_r() + far * p.r_q(),
        max: p.r_i() + 2 * (near + far) * p.farthest(far),
    }
}

/// r = ⌈log_{m+1} n⌉: rounds of the m-way dissemination barrier. m is at least 1.
pub fn rounds(ranks: u64, ways: u64) -> u64 {
    let (mut rounds, mut known) = (0, 1_u64);
    while known < ranks {
        known = known.saturating_mul(ways.max(1).saturating_add(1));
        rounds += 1;
    }
    rounds
}

/// Equations 27 and 28, and 29 where there is contention: the m-way dissemination barrier.
pub fn dissemination(p: &Parameters, rounds: u64, ways: u64) -> Bounds {
    mixed_dissemination(p, &vec![ways; rounds as usize])
}

/// The same with an m for each round (section 3.3.1).
pub fn mixed_dissemination(p: &Parameters, ways: &[u64]) -> Bounds {
    let round = |&m: &u64| Bounds {
        min: p.r_i() + m * p.contended(true, m),
        max: (m + 1) * (p.r_i() + 2 * p.r_r()),
    };
    ways.iter().map(round).fold(Bounds::default(), |sum, round| sum + round)
}

/// T_lev of equation 32 within one group (section 4.1): one-to-many by (14) or (16), R_L to copy,
/// many-to-one by (6). A message of several lines is copied from the parent (section 4.2).
pub fn broadcast_level(p: &Parameters, children: u64, lines: u64) -> Time {
    let data = if lines <= 1 { p.local } else { p.copy(true, children, lines) };
    let told = p.r_i() + p.read(true, children);
    told + data + many_to_one_same_line(p, children, 0).min
}

/// Equation 33: a level of a reduction tree of one line, in one group.
pub fn reduction_level(p: &Parameters, children: u64) -> Bounds {
    let all_but = |reads: u64| p.r_i() + 2 * p.local + 2 * reads * p.r_r();
    Bounds { min: all_but(children + 1), max: all_but(2 * children + 1) }
}
