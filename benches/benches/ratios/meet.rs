//! How ranks begin together.

use onchip::mpb::{Line, Mpb, Mpbs};
use onchip::prelude::*;
use onchip_benches::clock::monotonic_ns;

/// Returns on all ranks when all have called it.
pub fn line_up(rank: &Rank) -> onchip::Result<()> {
    let channel = Channel::degree(1);
    if rank.id() > 0 {
        rank.sender::<u32>("here", 0, channel)?.send(&0)?;
        rank.receiver::<u32>("go", 0, channel)?.receive()?;
        return Ok(());
    }
    for peer in 1..rank.size() {
        rank.receiver::<u32>("here", peer, channel)?.receive()?;
    }
    for peer in 1..rank.size() {
        rank.sender::<u32>("go", peer, channel)?.send(&0)?;
    }
    Ok(())
}

/// Ranks begin at a moment that they have agreed on. After a barrier one of them is always the
/// first, and which one decides what is then measured.
pub struct Start {
    /// Two for each rank, in turn: a rank may be one start ahead of another, and not two.
    flags: Mpb,
    turn: usize,
    /// The last one.
    at: u64,
}

impl Start {
    /// So much later than now, in nanoseconds: all know of it by then.
    const AHEAD: u64 = 1000;

    pub fn open(rank: &Rank) -> onchip::Result<Start> {
        Ok(Start { flags: rank.mpb("start", Mpbs::lines(2 * rank.size()))?, turn: 0, at: 0 })
    }

    /// Every rank proposes a moment, and all begin at the latest.
    pub fn together(&mut self) -> onchip::Result<()> {
        self.together_at().map(drop)
    }

    /// The same; which moment it was.
    pub fn together_at(&mut self) -> onchip::Result<u64> {
        let me = self.flags.rank();
        let ranks = self.flags.ranks();
        let others = || (0..ranks).filter(|&peer| peer != me);
        self.turn ^= 1;
        let line = |rank: usize| 2 * rank + self.turn;
        let mut at = monotonic_ns() + Self::AHEAD;
        for peer in others() {
            self.flags.set_flag(Line { rank: peer, line: line(me) }, at)?;
        }
        for peer in others() {
            let proposed = self.flags.wait_flag_from(peer, line(peer), |value| value > self.at)?;
            at = at.max(proposed);
        }
        self.at = at;
        while monotonic_ns() < at {}
        Ok(at)
    }
}

/// Lines up all ranks again and again, and costs little more than one flag does: each sets one at
/// every other.
pub struct Barrier {
    flags: Mpb,
    passed: u64,
}

impl Barrier {
    pub fn open(rank: &Rank) -> onchip::Result<Barrier> {
        Ok(Barrier { flags: rank.mpb("barrier", Mpbs::lines(rank.size()))?, passed: 0 })
    }

    pub fn wait(&mut self) -> onchip::Result<()> {
        self.passed += 1;
        let me = self.flags.rank();
        let others = || (0..self.flags.ranks()).filter(|&peer| peer != me);
        for peer in others() {
            self.flags.set_flag(Line { rank: peer, line: me }, self.passed)?;
        }
        for peer in others() {
            // A peer may be one ahead already, but not two.
            self.flags.wait_flag_from(peer, peer, |passed| passed >= self.passed)?;
        }
        Ok(())
    }
}
