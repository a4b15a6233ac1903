//! Dissemination barriers (Ramos & Hoefler, section 3.3): in each round a rank tells m others that it
//! has come so far, and waits until it is told so by m others.
//!
//! Who tells whom is plain data ([`Round`]): m-way with the same m in all rounds, another m in each
//! ("multi-m"), or barriers within groups and an exchange between them. With two ranks it is one
//! round, in which each sets a flag of the other.
//!
//! An MPB has a line for each flag that its rank waits for, from the first on that the barrier may use, in the
//! order of the rounds. So each line has one rank that sets it and one that waits for it, and belongs to one
//! round: who tells m others in a round sets m flags. That is `flag[n][r][m]`, which the paper sets aside
//! for the memory that it takes; its own *single-use lines*, `flag[n][r]`, are written once in a round and read
//! by m others. Here a rank waits in its own buffer, where who sets a flag finds the one whom it may have to wake,
//! and a line moves between two ranks only. The rounds are chosen for this form, with few flags in each
//! ([`mp_model::cla::barrier`]); with m = 1 the two are the same.
//!
//! What a flag says is the number of the barrier, in 64 bits, which do not come
//! round: the next barrier uses the same lines, none needs a reset, and it does no harm when a rank that is one
//! barrier ahead sets one again.

use std::mem;

use mp_model::cla::barrier::Round;
use mp_model::cla::{Barrier, Placement};
use mp_model::mpb::{Line, Mpb, NEWS};
use thiserror::Error;

/// Why there can be no such barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BarrierError {
    /// A round in which a rank would tell nobody, or itself.
    #[error("a round with m = {ways} among {ranks} ranks")]
    Ways {
        /// The m asked for.
        ways: usize,
        /// The number of ranks.
        ranks: usize,
    },
    /// A barrier for other ranks.
    #[error("a barrier for {given} ranks, of which there are {ranks}")]
    Ranks {
        /// How many it is for.
        given: usize,
        /// How many there are.
        ranks: usize,
    },
    /// A barrier for other groups.
    #[error("a barrier for {given} groups of ranks, of which there are {groups}")]
    Groups {
        /// How many it is for.
        given: usize,
        /// How many there are.
        groups: usize,
    },
    /// A rank that would go on although another one may not have come.
    #[error("after all rounds rank {rank} does not know that rank {of} has come")]
    Unaware {
        /// Who goes on.
        rank: usize,
        /// Who may not have come.
        of: usize,
    },
    /// It does not fit into the MPB.
    #[error("{flags} flags do not fit into an MPB of {lines} lines, from line {first_line} on")]
    NoRoom {
        /// Lines for flags.
        flags: usize,
        /// The first line that may be used.
        first_line: usize,
        /// The lines that an MPB has.
        lines: usize,
    },
}

impl BarrierError {
    pub(super) fn check_room(flags: usize, first_line: usize, lines: usize) -> Result<(), Self> {
        match flags.checked_add(first_line) {
            Some(end) if end <= lines => Ok(()),
            _ => Err(BarrierError::NoRoom { flags, first_line, lines }),
        }
    }
}

/// One rank's part in a series of dissemination barriers.
#[derive(Debug)]
pub struct Dissemination {
    rounds: Vec<Step>,
    number: u64,
    arrived: bool,
}

/// What a rank does in one round.
#[derive(Debug, Default)]
struct Step {
    sets: Vec<Line>,
    waits: Vec<Awaited>,
}

#[derive(Clone, Copy, Debug)]
struct Awaited {
    setter: usize,
    line: usize,
}

impl Dissemination {
    /// With these m for each round. The lines from `first_line` on are the barrier's own, and zero at
    /// first.
    ///
    /// # Errors
    /// [`BarrierError`].
    pub fn new<M: Mpb>(
        mpb: &M,
        ways: &[usize],
        first_line: usize,
    ) -> Result<Dissemination, BarrierError> {
        let ranks = mpb.ranks();
        let placement = Placement::one_group(ranks).expect("there are ranks");
        let rounds = rounds(&Barrier::Dissemination(ways.to_vec()), &placement)?;
        Dissemination::with_rounds(mpb, &rounds, first_line)
    }

    /// With these rounds, of each rank, as [`Barrier::rounds`] gives them: a rank's `reads` are those
    /// who tell it.
    ///
    /// # Errors
    /// [`BarrierError`].
    pub fn with_rounds<M: Mpb>(
        mpb: &M,
        rounds: &[Vec<Round>],
        first_line: usize,
    ) -> Result<Dissemination, BarrierError> {
        check(rounds, mpb.ranks())?;
        BarrierError::check_room(Dissemination::lines(rounds), first_line, mpb.lines())?;
        let me = mpb.rank();
        let mut steps: Vec<Step> = Vec::new();
        let mut sets = Vec::new();
        // The next line of each rank's MPB.
        let mut next = vec![first_line; rounds.len()];
        for round in 0..rounds.iter().map(Vec::len).max().unwrap_or(0) {
            let mut waits = Vec::new();
            for (rank, rounds) in rounds.iter().enumerate() {
                for &setter in rounds.get(round).map_or(&[][..], |round| &round.reads) {
                    let line = next[rank];
                    next[rank] += 1;
                    if setter == me {
                        sets.push(Line { rank, line });
                    }
                    if rank == me {
                        waits.push(Awaited { setter, line });
                    }
                }
            }
            // Where nothing is waited for, the next round begins at once: with `arrive` already.
            if !waits.is_empty() {
                steps.push(Step { sets: mem::take(&mut sets), waits });
            }
        }
        if !sets.is_empty() {
            steps.push(Step { sets, waits: Vec::new() });
        }
        Ok(Dissemination { rounds: steps, number: 0, arrived: false })
    }

    /// Lines that these rounds take of each MPB.
    pub fn lines(rounds: &[Vec<Round>]) -> usize {
        let flags = |rounds: &Vec<Round>| rounds.iter().map(|round| round.reads.len()).sum();
        rounds.iter().map(flags).max().unwrap_or(0)
    }

    /// Returns whether this rank has said that it has come, and has not waited since.
    #[inline]
    pub fn has_arrived(&self) -> bool {
        self.arrived
    }

    /// Says that this rank has come, and waits for nobody. If it had said so already, and not waited,
    /// it waits now for the barrier that it had come to, and then says it of the next.
    ///
    /// That is the first round; the others go on when the rank waits.
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
        if let Some(first) = self.rounds.first() {
            for &flag in &first.sets {
                mpb.announce_news(flag, self.number).await?;
            }
        }
        Ok(())
    }

    /// Waits until all have come; this rank has, at the latest now.
    ///
    /// Each rank compares its calls with those of another one in the first round. Of two ranks that called
    /// something else, one did not repeat its last call, and so it says in this barrier and in the next one
    /// what it has called. The other one sees the flag of one of these two.
    ///
    /// # Errors
    /// Those of the MPBs; this rank is then out of step with the others.
    #[inline]
    pub async fn wait<M: Mpb>(&mut self, mpb: &mut M) -> Result<(), M::Error> {
        let mut told = mem::take(&mut self.arrived);
        self.number += u64::from(!told);
        let number = self.number;
        for Step { sets, waits } in &self.rounds {
            if !mem::take(&mut told) {
                for &flag in sets {
                    mpb.announce_news(flag, number).await?;
                }
            }
            for &Awaited { setter, line } in waits {
                let come = mpb.wait_flag_from(setter, line, |come| come & !NEWS >= number).await?;
                if come & NEWS != 0 {
                    mpb.compare(setter, line)?;
                }
            }
        }
        Ok(())
    }
}

/// Each rank's rounds in this barrier.
pub(super) fn rounds(
    barrier: &Barrier,
    placement: &Placement,
) -> Result<Vec<Vec<Round>>, BarrierError> {
    let check_ways = |ways: &[usize], ranks: usize| {
        let wrong = ways.iter().find(|&&ways| ways == 0 || ways >= ranks.max(2));
        wrong.map_or(Ok(()), |&ways| Err(BarrierError::Ways { ways, ranks }))
    };
    match barrier {
        Barrier::Dissemination(ways) => check_ways(ways, placement.ranks())?,
        Barrier::Grouped { within, .. } => {
            let groups = placement.groups();
            if within.len() != groups.len() {
                let (given, groups) = (within.len(), groups.len());
                return Err(BarrierError::Groups { given, groups });
            }
            for (ways, group) in within.iter().zip(&groups) {
                check_ways(ways, group.len())?;
            }
        }
        Barrier::Central => {}
    }
    Ok(barrier.rounds(placement))
}

/// Checks that after all rounds everybody knows that everybody has come.
fn check(rounds: &[Vec<Round>], ranks: usize) -> Result<(), BarrierError> {
    let wrong = |given| BarrierError::Ranks { given, ranks };
    if rounds.len() != ranks {
        return Err(wrong(rounds.len()));
    }
    let mut known: Vec<Vec<bool>> =
        (0..ranks).map(|me| (0..ranks).map(|r| r == me).collect()).collect();
    for round in 0..rounds.iter().map(Vec::len).max().unwrap_or(0) {
        let before = known.clone();
        for (known, rounds) in known.iter_mut().zip(rounds) {
            for &setter in rounds.get(round).map_or(&[][..], |round| &round.reads) {
                let theirs = before.get(setter).ok_or(wrong(setter.saturating_add(1)))?;
                known.iter_mut().zip(theirs).for_each(|(known, &theirs)| *known |= theirs);
            }
        }
    }
    for (rank, known) in known.iter().enumerate() {
        if let Some(of) = known.iter().position(|&known| !known) {
            return Err(BarrierError::Unaware { rank, of });
        }
    }
    Ok(())
}
