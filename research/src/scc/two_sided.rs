//! RCCE's send and receive (section 4.2): the sender puts a chunk into its own MPB, the receiver gets it from there,
//! and two flags are set, read and reset.
//!
//! Both ends are assumed to begin at the same time, and distances to be 1 (section 4.3).

use super::primitives::OWN;
use super::{Parameters, RCCE_BUFFER_LINES};
use mp_model::Time;

/// d_mem: the distance of off-chip memory that section 4.3 assumes.
pub(super) const NEAR_MEMORY: u64 = 1;

impl Parameters {
    /// C_sr: the time of a message from one core's off-chip memory to another's.
    pub fn send_receive(&self, lines: u64) -> Time {
        in_chunks(lines, |chunk| {
            self.put_from_mem(chunk, NEAR_MEMORY, OWN) + self.receive_chunk(chunk)
        })
    }

    /// C_sr_cache: the same if the sender has just received the message, so that it reads the message from its cache
    /// without cost.
    pub fn send_receive_cached(&self, lines: u64) -> Time {
        in_chunks(lines, |chunk| {
            self.mem_put + chunk * self.mpb_write(OWN) + self.receive_chunk(chunk)
        })
    }

    fn receive_chunk(&self, lines: u64) -> Time {
        let set = self.mpb_write_latency(OWN);
        let reset = self.mpb_write(OWN);
        self.get_to_mem(lines, OWN, NEAR_MEMORY) + 2 * (set + self.read_flag() + reset)
    }
}

/// Returns the cost of all full chunks of RCCE's buffer, and of the rest if there is one.
fn in_chunks(lines: u64, cost: impl Fn(u64) -> Time) -> Time {
    let rest = match lines % RCCE_BUFFER_LINES {
        0 => Time::ZERO,
        rest => cost(rest),
    };
    lines / RCCE_BUFFER_LINES * cost(RCCE_BUFFER_LINES) + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCC: Parameters = Parameters::TABLE_4_1;
    /// 2 (L_mpb_w + C_mpb_r + C_mpb_w).
    const FLAGS: u64 = 2 * (131 + 136 + 136);

    #[test]
    fn chunks_by_hand() {
        let copied = |lines: u64| (190 + lines * 354) + (95 + lines * 607) + FLAGS;
        let cached = |lines: u64| (190 + lines * 136) + (95 + lines * 607) + FLAGS;
        for (lines, chunks) in [(0, &[][..]), (1, &[1]), (251, &[251]), (252, &[251, 1])] {
            let sum = |cost: &dyn Fn(u64) -> u64| chunks.iter().map(|&lines| cost(lines)).sum();
            assert_eq!(SCC.send_receive(lines), Time::from_nanos(sum(&copied)));
            assert_eq!(SCC.send_receive_cached(lines), Time::from_nanos(sum(&cached)));
        }
    }
}
