//! Formulas 4.13–4.24 (section 4.3): latency of short broadcasts, throughput of long ones.
//!
//! All distances are 1, there is no contention, and no time passes between the moment at which a flag is set and the
//! moment at which it is read.

use super::primitives::OWN;
use super::two_sided::NEAR_MEMORY;
use super::{CHUNK_LINES, LINE_BYTES, Parameters, megabytes_per_second};
use mp_model::Time;
use mp_model::tree::Shape;

impl Parameters {
    /// L_notify_children(k): the time until all children of a rank know of a chunk.
    pub fn notify_children(&self, degree: u64) -> Time {
        let level = self.set_flag(OWN) + self.set_flag_latency(OWN);
        ceil_log2(degree) * (level + self.read_flag())
    }

    /// L_polling_children(k): the time to read the done flag of each child once.
    pub fn poll_children(&self, degree: u64) -> Time {
        degree * self.read_flag()
    }

    /// 4.19, T_chunk_root(m, k).
    pub fn root_chunk(&self, lines: u64, degree: u64) -> Time {
        self.put_from_mem(lines, NEAR_MEMORY, OWN) + self.notify_children(degree)
    }

    /// 4.20, T_chunk_intermediate(m, k).
    pub fn intermediate_chunk(&self, lines: u64, degree: u64) -> Time {
        self.get_to_mpb(lines, OWN) + self.set_flag(OWN) + self.notify_children(degree)
    }

    /// T_chunk_leaf(m). It is 0 for a chunk without lines.
    pub fn leaf_chunk(&self, lines: u64) -> Time {
        match lines {
            0 => Time::ZERO,
            _ => {
                self.get_to_mpb(lines, OWN)
                    + self.set_flag(OWN)
                    + self.get_to_mem(lines, OWN, NEAR_MEMORY)
            }
        }
    }

    /// 4.21, L_OC-Bcast_short(P, m, k): from the root's call to the last core's return. The formula holds for messages
    /// of up to two chunks, `lines` ≤ 2 [`CHUNK_LINES`]. A single rank, and a message without lines, take no time.
    pub fn oc_bcast_latency(&self, shape: Shape, lines: u64) -> Time {
        if shape.ranks() == 1 || lines == 0 {
            return Time::ZERO;
        }
        let degree = shape.degree() as u64;
        let first = lines.min(CHUNK_LINES);
        let second = lines - first;
        let between = (shape.levels() - 2) as u64;
        let chunk = self.root_chunk(first, degree)
            + between * self.intermediate_chunk(first, degree)
            + self.last_to_finish(first, degree);
        match second {
            0 => chunk,
            _ => chunk + self.last_to_finish(second, degree),
        }
    }

    /// Returns the time of the last leaf, or of the last intermediate rank if it takes longer to poll its flags.
    fn last_to_finish(&self, lines: u64, degree: u64) -> Time {
        let parent = self.get_to_mem(lines, OWN, NEAR_MEMORY) + self.poll_children(degree);
        self.leaf_chunk(lines).max(parent)
    }

    /// 4.22, L_binomial(P, m): the two-sided binomial tree, with caches.
    pub fn binomial_latency(&self, ranks: u64, lines: u64) -> Time {
        match ceil_log2(ranks) {
            0 => Time::ZERO,
            levels => self.send_receive(lines) + (levels - 1) * self.send_receive_cached(lines),
        }
    }

    /// L_binomial_nocache(P, m): the same if nothing stays in a cache.
    pub fn binomial_latency_uncached(&self, ranks: u64, lines: u64) -> Time {
        ceil_log2(ranks) * self.send_receive(lines)
    }

    /// 4.13, L_critical_OC-Bcast(P, m, k): the part of 4.21 that grows with the message. O(log_k P) is taken as the
    /// depth D of formula 4.18, with which 4.13 is exactly the growth of 4.21.
    pub fn oc_bcast_critical(&self, shape: Shape, lines: u64) -> Time {
        let on_chip = self.mpb_read(OWN) + self.mpb_write(OWN);
        let off_chip = self.mem_read(NEAR_MEMORY) + self.mem_write(NEAR_MEMORY);
        lines * (shape.levels() as u64 * on_chip + off_chip)
    }

    /// 4.14, L_critical_binomial(P, m): the part of 4.22 that grows with the message, with ⌈log₂ P⌉ for O(log₂ P).
    pub fn binomial_critical(&self, ranks: u64, lines: u64) -> Time {
        let level = self.mpb_read(OWN) + self.mpb_write(OWN) + self.mem_write(NEAR_MEMORY);
        lines * (ceil_log2(ranks) * level + self.mem_read(NEAR_MEMORY))
    }

    /// 4.15, B_OC-Bcast in MB/s: the critical path's share of 4.23.
    pub fn oc_bcast_critical_mb_per_s(&self) -> f64 {
        let line = 2 * self.mpb_read(OWN) + self.mpb_write(OWN) + self.mem_write(NEAR_MEMORY);
        LINE_BYTES as f64 / line.as_micros()
    }

    /// 4.16, B_scatter_allgather in MB/s: the critical path's share of 4.24, for many ranks.
    pub fn scatter_allgather_critical_mb_per_s(&self) -> f64 {
        let line = 3 * self.mpb_read(OWN)
            + 3 * self.mpb_write(OWN)
            + self.mem_read(NEAR_MEMORY)
            + 3 * self.mem_write(NEAR_MEMORY);
        LINE_BYTES as f64 / line.as_micros()
    }

    /// C_chunk_root(k): the root's part in one chunk of a stream.
    pub fn root_period(&self, degree: u64) -> Time {
        self.poll_children(degree)
            + self.put_from_mem(CHUNK_LINES, NEAR_MEMORY, OWN)
            + 2 * self.set_flag(OWN)
    }

    /// C_chunk_intermediate(k): an intermediate rank's part in one chunk of a stream.
    pub fn intermediate_period(&self, degree: u64) -> Time {
        // Of the three puts of flags, one is the done flag, which a leaf has as well.
        self.poll_children(degree) + self.leaf_period() + 2 * self.set_flag(OWN)
    }

    /// C_chunk_leaf: a leaf's part in one chunk of a stream.
    pub fn leaf_period(&self) -> Time {
        self.read_flag() + self.leaf_chunk(CHUNK_LINES)
    }

    /// 4.23, B(k) in MB/s: the slowest kind of rank sets the pace of a long message.
    pub fn oc_bcast_mb_per_s(&self, shape: Shape) -> f64 {
        let degree = shape.degree() as u64;
        let mut period = self.root_period(degree).max(self.leaf_period());
        if shape.levels() > 2 {
            period = period.max(self.intermediate_period(degree));
        }
        megabytes_per_second(CHUNK_LINES, period)
    }

    /// C_scat(P, m_s): the root's part in the scatter phase, slices of `slice_lines`.
    pub fn scatter(&self, ranks: u64, slice_lines: u64) -> Time {
        match ranks {
            0 | 1 => Time::ZERO,
            2 => self.send_receive(slice_lines),
            _ => {
                self.send_receive(ranks / 2 * slice_lines)
                    + self.scatter(ranks.div_ceil(2), slice_lines)
            }
        }
    }

    /// C_allgath(P, m_s): the allgather phase. All its messages except the first are in a cache.
    pub fn allgather(&self, ranks: u64, slice_lines: u64) -> Time {
        match ranks {
            0 | 1 => Time::ZERO,
            _ => {
                self.send_receive(slice_lines)
                    + (2 * ranks - 3) * self.send_receive_cached(slice_lines)
            }
        }
    }

    /// 4.24, C_scat-allgath(P, m): a broadcast of `ranks` slices, each of `slice_lines`.
    pub fn scatter_allgather(&self, ranks: u64, slice_lines: u64) -> Time {
        self.scatter(ranks, slice_lines) + self.allgather(ranks, slice_lines)
    }

    /// 4.24 as throughput in MB/s.
    pub fn scatter_allgather_mb_per_s(&self, ranks: u64, slice_lines: u64) -> f64 {
        megabytes_per_second(ranks * slice_lines, self.scatter_allgather(ranks, slice_lines))
    }
}

/// ⌈log₂ n⌉, and 0 for n = 0.
fn ceil_log2(n: u64) -> u64 {
    match n {
        0 | 1 => 0,
        _ => u64::from((n - 1).ilog2() + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::super::CORES;
    use super::*;

    const TEXT: Parameters = Parameters::TABLE_4_1;
    const TABLE: Parameters = Parameters::TABLE_4_2;

    fn scc(degree: usize) -> Shape {
        Shape::new(CORES, degree).unwrap()
    }

    /// Returns the relative difference of a value from the published one.
    fn off(value: f64, published: f64) -> f64 {
        (value / published - 1.0).abs()
    }

    #[test]
    fn table_4_2_as_printed() {
        for (degree, published) in [(2, 35.22), (7, 34.30), (47, 35.88)] {
            let exact = TABLE.oc_bcast_mb_per_s(scc(degree));
            assert_eq!(format!("{exact:.2}"), format!("{published:.2}"), "k = {degree}");
            let text = TEXT.oc_bcast_mb_per_s(scc(degree));
            assert!(off(text, published) < 0.04, "k = {degree}: {text}");
        }
        for parameters in [TEXT, TABLE] {
            let both = parameters.scatter_allgather_mb_per_s(48, CHUNK_LINES);
            assert!(off(both, 13.38) < 0.04, "{both}");
        }
    }

    #[test]
    fn exact_values_of_the_formulas() {
        for (value, expected) in [
            (TEXT.oc_bcast_mb_per_s(scc(2)), 35.6214),
            (TEXT.oc_bcast_mb_per_s(scc(7)), 35.3427),
            (TEXT.oc_bcast_mb_per_s(scc(47)), 36.0200),
            (TEXT.scatter_allgather_mb_per_s(48, CHUNK_LINES), 13.1795),
            (TEXT.oc_bcast_critical_mb_per_s(), 32.0 / 0.879),
            (TEXT.scatter_allgather_critical_mb_per_s(), 32.0 / 2.447),
        ] {
            assert!(off(value, expected) < 1e-4, "{value} instead of {expected}");
        }
    }

    #[test]
    fn latency_by_hand() {
        // k = 47, one line: the root, its notifications, and its 47 done flags.
        let put = 69 + 136 + 136;
        let notify = 6 * (put + (put - 5) + 136);
        let root = 190 + 218 + 136 + notify;
        let poll = 95 + 136 + 471 + 47 * 136;
        assert_eq!(TEXT.oc_bcast_latency(scc(47), 1), Time::from_nanos(root + poll));

        // k = 2, 97 lines: six levels, and a second chunk of one line.
        let notify = put + (put - 5) + 136;
        let root = 190 + 96 * 354 + notify;
        let between = 330 + 96 * 272 + put + notify;
        let leaf = |lines: u64| 330 + lines * 272 + put + 95 + lines * 607;
        let whole = root + 4 * between + leaf(96) + leaf(1);
        assert_eq!(TEXT.oc_bcast_latency(scc(2), 97), Time::from_nanos(whole));

        let binomial = TEXT.send_receive(5) + 5 * TEXT.send_receive_cached(5);
        assert_eq!(TEXT.binomial_latency(48, 5), binomial);
        assert_eq!(TEXT.binomial_latency_uncached(48, 5), 6 * TEXT.send_receive(5));
    }

    #[test]
    fn the_full_formulas_grow_by_their_critical_paths() {
        let grown = |latency: &dyn Fn(u64) -> Time| latency(96) - latency(95);
        for degree in [2, 7] {
            assert_eq!(
                grown(&|lines| TEXT.oc_bcast_latency(scc(degree), lines)),
                TEXT.oc_bcast_critical(scc(degree), 1)
            );
        }
        assert_eq!(grown(&|lines| TEXT.binomial_latency(48, lines)), TEXT.binomial_critical(48, 1));
    }

    #[test]
    fn one_or_no_rank_and_no_line_cost_nothing() {
        assert_eq!(TEXT.oc_bcast_latency(Shape::new(1, 1).unwrap(), 9), Time::ZERO);
        assert_eq!(TEXT.oc_bcast_latency(scc(7), 0), Time::ZERO);
        for ranks in [0, 1] {
            assert_eq!(TEXT.binomial_latency(ranks, 9), Time::ZERO);
            assert_eq!(TEXT.scatter_allgather(ranks, 9), Time::ZERO);
        }
    }

    #[test]
    fn what_the_figures_show() {
        // Figure 4.5a: OC-Bcast is below the binomial tree, and more so for longer messages.
        let gain = |lines| {
            let oc = TEXT.oc_bcast_latency(scc(7), lines).as_nanos();
            TEXT.binomial_latency(48, lines).as_nanos() / oc
        };
        assert!(gain(180) > gain(20) && gain(20) > 1.0);
        // Figure 4.5b: k = 47 is the slowest for the shortest messages, because of its polling.
        let latency = |degree| TABLE.oc_bcast_latency(scc(degree), 1);
        assert!(latency(47) > latency(2) && latency(47) > latency(7));
        // 4.23: almost three times scatter-allgather.
        let ratio = TEXT.oc_bcast_mb_per_s(scc(7)) / TEXT.scatter_allgather_mb_per_s(48, 96);
        assert!((2.5..3.0).contains(&ratio), "{ratio}");
    }
}
