//! Formulas 4.1–4.12 (figure 4.1): one line to or from an MPB or off-chip memory, and put and get of several lines.
//!
//! A core of the SCC has one memory transaction at a time, so a line is read and then written, and
//! m lines take m times as long (section 4.1.1).

use super::Parameters;
use mp_model::Time;

/// The distance of a core's own MPB. Because of a bug in the hardware, it too is reached through the tile's router.
pub(super) const OWN: u64 = 1;

impl Parameters {
    /// 4.1, L_mpb_w(d): the time until a line is in an MPB `hops` away.
    pub fn mpb_write_latency(&self, hops: u64) -> Time {
        self.mpb + hops * self.hop
    }

    /// 4.2, C_mpb_w(d): the time until the acknowledgment is back.
    pub fn mpb_write(&self, hops: u64) -> Time {
        self.mpb + 2 * hops * self.hop
    }

    /// 4.3, L_mpb_r(d) = C_mpb_r(d): the time to read a line from an MPB.
    pub fn mpb_read(&self, hops: u64) -> Time {
        self.mpb + 2 * hops * self.hop
    }

    /// 4.4, L_mem_w(d): the time until a line is in off-chip memory whose controller is `hops` away.
    pub fn mem_write_latency(&self, hops: u64) -> Time {
        self.mem_write + hops * self.hop
    }

    /// 4.5, C_mem_w(d): the time until the acknowledgment is back.
    pub fn mem_write(&self, hops: u64) -> Time {
        self.mem_write + 2 * hops * self.hop
    }

    /// 4.6, L_mem_r(d) = C_mem_r(d): the time to read a line from off-chip memory.
    pub fn mem_read(&self, hops: u64) -> Time {
        self.mem_read + 2 * hops * self.hop
    }

    /// 4.7, C_mpb_put(m, d_dst): the time until a put from the core's own MPB returns.
    pub fn put_from_mpb(&self, lines: u64, to_hops: u64) -> Time {
        self.mpb_put + lines * self.mpb_read(OWN) + lines * self.mpb_write(to_hops)
    }

    /// 4.8, C_mem_put(m, d_src, d_dst): the time until a put from off-chip memory returns.
    pub fn put_from_mem(&self, lines: u64, mem_hops: u64, to_hops: u64) -> Time {
        self.mem_put + lines * self.mem_read(mem_hops) + lines * self.mpb_write(to_hops)
    }

    /// 4.9, L_mpb_put(m, d_dst): the time until the last line of a put from the core's own MPB has arrived. It is 0 for
    /// no lines.
    pub fn put_from_mpb_latency(&self, lines: u64, to_hops: u64) -> Time {
        self.without_last_acknowledgment(lines, to_hops, self.put_from_mpb(lines, to_hops))
    }

    /// 4.10, L_mem_put(m, d_src, d_dst): the time until the last line of a put from off-chip memory has arrived.
    pub fn put_from_mem_latency(&self, lines: u64, mem_hops: u64, to_hops: u64) -> Time {
        let completion = self.put_from_mem(lines, mem_hops, to_hops);
        self.without_last_acknowledgment(lines, to_hops, completion)
    }

    /// 4.11, L_mpb_get(m, d_src) = C_mpb_get(m, d_src): a get into the core's own MPB.
    pub fn get_to_mpb(&self, lines: u64, from_hops: u64) -> Time {
        self.mpb_get + lines * self.mpb_read(from_hops) + lines * self.mpb_write(OWN)
    }

    /// 4.12, L_mem_get(m, d_src, d_dst) = C_mem_get(m, d_src, d_dst): a get into off-chip memory.
    pub fn get_to_mem(&self, lines: u64, from_hops: u64, mem_hops: u64) -> Time {
        self.mem_get + lines * self.mpb_read(from_hops) + lines * self.mem_write(mem_hops)
    }

    /// The time to read a flag of the core's own MPB: C_mpb_r(1), and the software's cost.
    pub fn read_flag(&self) -> Time {
        self.flag_read + self.mpb_read(OWN)
    }

    /// The time to set a flag in an MPB: C_mpb_put(1, d).
    pub fn set_flag(&self, hops: u64) -> Time {
        self.put_from_mpb(1, hops)
    }

    /// The time until a flag that is being set can be seen: L_mpb_put(1, d).
    pub fn set_flag_latency(&self, hops: u64) -> Time {
        self.put_from_mpb_latency(1, hops)
    }

    fn without_last_acknowledgment(&self, lines: u64, hops: u64, completion: Time) -> Time {
        match lines {
            0 => Time::ZERO,
            _ => completion - (self.mpb_write(hops) - self.mpb_write_latency(hops)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCC: Parameters = Parameters::TABLE_4_1;

    #[track_caller]
    fn nanos(time: Time, expected: u64) {
        assert_eq!(time, Time::from_nanos(expected));
    }

    #[test]
    fn single_lines_by_hand() {
        nanos(SCC.mpb_write_latency(9), 126 + 45);
        nanos(SCC.mpb_write(9), 126 + 90);
        nanos(SCC.mpb_read(1), 136);
        nanos(SCC.mem_write_latency(4), 461 + 20);
        nanos(SCC.mem_write(4), 461 + 40);
        nanos(SCC.mem_read(4), 208 + 40);
    }

    #[test]
    fn puts_and_gets_by_hand() {
        nanos(SCC.put_from_mpb(3, 2), 69 + 3 * 136 + 3 * 146);
        nanos(SCC.put_from_mpb_latency(3, 2), 69 + 3 * 136 + 2 * 146 + 136);
        nanos(SCC.put_from_mem(3, 4, 2), 190 + 3 * 248 + 3 * 146);
        nanos(SCC.put_from_mem_latency(3, 4, 2), 190 + 3 * 248 + 2 * 146 + 136);
        nanos(SCC.get_to_mpb(3, 2), 330 + 3 * 146 + 3 * 136);
        nanos(SCC.get_to_mem(3, 2, 4), 95 + 3 * 146 + 3 * 501);
        nanos(SCC.put_from_mpb_latency(0, 5), 0);
    }

    #[test]
    fn the_farthest_core_costs_about_30_percent_more() {
        // Section 4.1.2, for 128 lines from MPB to MPB.
        let near = SCC.get_to_mpb(128, 1).as_nanos();
        let far = SCC.get_to_mpb(128, 9).as_nanos();
        assert!((1.25..1.35).contains(&(far / near)), "{}", far / near);
    }
}
