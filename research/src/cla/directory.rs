//! Where a line's directory is on the ring of the Xeon Phi, and what that does to the time of a transfer (section 2.2.4).
//!
//! The paper says what it sees, and a cause: a request goes to the directory of the line, which may be close to both
//! cores or far from both. So the time here has a part for each hop from the reader to the directory, and from there to
//! the owner. Directories are spread evenly over the ring. The model itself uses the mean, R_R.

use mp_model::Time;
use mp_model::cla::Parameters;

/// A ring of cores, with a directory at each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ring {
    /// The number of cores.
    pub cores: u64,
    /// The time of a transfer without hops.
    pub base: Time,
    /// The time for each hop.
    pub hop: Time,
}

impl Ring {
    /// Returns the Xeon Phi's ring of 60 cores. Its two times are fitted to two published values: the mean is R_R, and
    /// between neighbours the slowest transfer takes five times as long as the fastest ("up to a 5x variation").
    pub fn xeon_phi() -> Ring {
        let (cores, times) = (60, 5);
        let mean = Parameters::XEON_PHI.near.transfer;
        // Between neighbours a request makes 1 hop at least, and cores − 1 at most; half as many as cores on average.
        // base + (cores − 1) hop = times (base + hop), and base + cores / 2 hop = mean.
        let bases = cores - 1 - times;
        let halves = 2 * bases + cores * (times - 1);
        let hop = 2 * (times - 1) * mean / halves;
        Ring { cores, base: mean - cores / 2 * hop, hop }
    }

    /// Returns the number of hops from one core to another, by the shorter way.
    pub fn hops(&self, from: u64, to: u64) -> u64 {
        let way = from.abs_diff(to);
        way.min(self.cores - way)
    }

    /// Returns the time for a core to read a line from another one, with the directory at a third.
    pub fn transfer(&self, owner: u64, reader: u64, directory: u64) -> Time {
        self.base + (self.hops(reader, directory) + self.hops(directory, owner)) * self.hop
    }

    /// Returns the times of all directories, from the least to the greatest.
    pub fn transfers(&self, owner: u64, reader: u64) -> Vec<Time> {
        let mut times: Vec<Time> =
            (0..self.cores).map(|directory| self.transfer(owner, reader, directory)).collect();
        times.sort_unstable();
        times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_fitted_values_come_out() {
        let ring = Ring::xeon_phi();
        let times = ring.transfers(0, 1);
        let ratio = times[59].as_nanos() / times[0].as_nanos();
        assert!((ratio - 5.0).abs() < 0.01, "{ratio}");
        let mean = times.iter().copied().sum::<Time>().as_nanos() / 60.0;
        assert!((mean - 235.8).abs() < 1e-3, "{mean}");
    }

    #[test]
    fn a_directory_is_fifteen_hops_away_on_average() {
        let ring = Ring::xeon_phi();
        let all: u64 = (0..60).map(|directory| ring.hops(7, directory)).sum();
        assert_eq!(all, 15 * 60);
        assert_eq!([ring.hops(0, 59), ring.hops(3, 33), ring.hops(50, 5)], [1, 30, 15]);
    }
}
