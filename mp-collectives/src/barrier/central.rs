//! A barrier at one rank: all tell rank 0 that they have come, and it tells all to go on.
//!
//! Where ranks share cores, what costs is to wake one that sleeps. Here each rank but the first is
//! woken at most once for a barrier, whereas each round of a dissemination may wake it; and those that
//! sleep are woken by one call to the system for all ([`Mpb::set_flags`]). That takes two thirds of the
//! time that it takes to wake 31 one by one, on two cores.
//!
//! The lines of an MPB, from the first on that the barrier may use:
//!
//! ```text
//! 1        at all but rank 0: how many barriers are passed          set by rank 0
//! P − 1    at rank 0: how many barriers rank i has come to          set by rank i
//! ```
//!
//! Barriers are counted in 64 bits, which do not come round.

use std::mem;

use mp_model::mpb::{Line, Mpb};

use super::BarrierError;

/// One rank's part in a series of barriers at rank 0.
#[derive(Debug)]
pub struct Central {
    first_line: usize,
    number: u64,
    arrived: bool,
}

impl Central {
    /// With the MPBs of these ranks. The lines from `first_line` on are the barrier's own, and zero
    /// at first.
    ///
    /// # Errors
    /// [`BarrierError::NoRoom`].
    pub fn new<M: Mpb>(mpb: &M, first_line: usize) -> Result<Central, BarrierError> {
        let (flags, lines) = (Central::lines(mpb.ranks()), mpb.lines());
        BarrierError::check_room(flags, first_line, lines)?;
        Ok(Central { first_line, number: 0, arrived: false })
    }

    /// Lines that this takes of each MPB, with so many ranks.
    pub fn lines(ranks: usize) -> usize {
        ranks
    }

    /// Returns whether this rank has said that it has come, and has not waited since.
    #[inline]
    pub fn has_arrived(&self) -> bool {
        self.arrived
    }

    /// Says that this rank has come, and waits for nobody. If it had said so already, and not waited,
    /// it waits now for the barrier that it had come to, and then says it of the next.
    ///
    /// # Errors
    /// Those of the MPBs; this rank is then out of step with the others.
    #[inline]
    pub async fn arrive<M: Mpb>(&mut self, mpb: &mut M) -> Result<(), M::Error> {
        if self.arrived {
            self.wait(mpb).await?;
        }
        self.number += 1;
        self.arrived = true;
        let rank = mpb.rank();
        if rank > 0 {
            let flag = Line { rank: 0, line: self.first_line + rank };
            mpb.announce(flag, self.number).await?;
        }
        Ok(())
    }

    /// Waits until all have come; this rank has, at the latest now.
    ///
    /// # Errors
    /// Those of the MPBs; this rank is then out of step with the others.
    #[inline]
    pub async fn wait<M: Mpb>(&mut self, mpb: &mut M) -> Result<(), M::Error> {
        let (me, ranks, line) = (mpb.rank(), mpb.ranks(), self.first_line);
        let arrived = mem::take(&mut self.arrived);
        self.number += u64::from(!arrived);
        let number = self.number;
        if me > 0 {
            if !arrived {
                mpb.announce(Line { rank: 0, line: line + me }, number).await?;
            }
            mpb.wait_flag_together(0, line, |passed| passed >= number).await?;
            return Ok(());
        }
        // The last one to be let go is likely the last one to come: with its flag the others' are
        // mostly there, and no wait is needed for each.
        for rank in (1..ranks).rev() {
            mpb.wait_flag_from(rank, line + rank, |come| come >= number).await?;
            mpb.compare(rank, line + rank)?;
        }
        mpb.set_flags(line, number).await
    }
}
