//! A barrier at one rank: all ranks tell rank 0 that they have arrived, and rank 0 tells all to continue.
//!
//! Where ranks share cores, the cost lies in waking sleeping ranks. Here each rank except the first is woken at most
//! once for a barrier, whereas each round of a dissemination may wake it. The sleeping ranks are woken by a single
//! system call for all of them ([`MpbAccess::set_flags`]). On two cores, that takes two thirds of the time needed to
//! wake 31 ranks one by one.
//!
//! The lines of an MPB, from the first on that the barrier may use:
//!
//! ```text
//! 1        at all but rank 0: how many barriers are passed          set by rank 0
//! P − 1    at rank 0: how many barriers rank i has come to          set by rank i
//! ```
//!
//! Barriers are counted in 64 bits, which do not wrap around.

use std::mem;

use mp_core::mpb::{Line, MpbAccess};

use super::BarrierError;

/// One rank's part in a series of barriers at rank 0.
#[derive(Debug)]
pub struct Central {
    first_line: usize,
    number: u64,
    arrived: bool,
}

impl Central {
    /// Creates this rank's part, with the MPBs of these ranks. The lines from `first_line` on belong to the barrier and
    /// are initially zero.
    ///
    /// # Errors
    /// [`BarrierError::NoRoom`].
    pub fn new<M: MpbAccess>(mpb: &M, first_line: usize) -> Result<Central, BarrierError> {
        let (flags, lines) = (Central::lines(mpb.ranks()), mpb.lines());
        BarrierError::check_room(flags, first_line, lines)?;
        Ok(Central { first_line, number: 0, arrived: false })
    }

    /// Returns the number of lines that this takes of each MPB with this many ranks.
    pub fn lines(ranks: usize) -> usize {
        ranks
    }

    /// Returns whether this rank has announced its arrival and has not waited since.
    #[inline]
    pub fn has_arrived(&self) -> bool {
        self.arrived
    }

    /// Announces that this rank has arrived, without waiting. If it has already announced that and not waited, it now
    /// waits for the barrier at which it arrived, and then announces its arrival at the next one.
    ///
    /// # Errors
    /// The errors of the MPBs; after one of these, this rank is out of step with the others.
    #[inline]
    pub async fn arrive<M: MpbAccess>(&mut self, mpb: &mut M) -> Result<(), M::Error> {
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

    /// Waits until all ranks have arrived; this announces this rank's arrival if it has not done so.
    ///
    /// # Errors
    /// The errors of the MPBs; after one of these, this rank is out of step with the others.
    #[inline]
    pub async fn wait<M: MpbAccess>(&mut self, mpb: &mut M) -> Result<(), M::Error> {
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
