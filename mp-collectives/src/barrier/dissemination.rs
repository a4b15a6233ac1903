//! Dissemination barriers (Ramos & Hoefler, section 3.3): in each round a rank tells m others that it has got that far,
//! and waits until m others have told it the same.
//!
//! The pattern of which rank tells which is plain data ([`Round`]): m-way with the same m in all rounds, another m in
//! each ("multi-m"), or barriers within groups and an exchange between them. With two ranks there is one round, in
//! which each rank sets a flag of the other.
//!
//! An MPB has a line for each flag that its rank waits for, in the order of the rounds, from the first line on that the
//! barrier may use. Each line has one rank that sets it and one that waits for it, and belongs to one round: a rank
//! that tells m others in a round sets m flags. That is `flag[n][r][m]`, which the paper sets aside because of the
//! memory that it takes; its own *single-use lines*, `flag[n][r]`, are written once in a round and read by m others.
//! Here a rank waits in its own buffer, where the rank that sets a flag finds the rank that it may have to wake, and a
//! line moves between two ranks only. The rounds are chosen for this form, with few flags in each
//! ([`mp_model::cla::barrier`]); with m = 1 the two forms are the same.
//!
//! A flag holds the number of the barrier, in 64 bits, which do not wrap around. The next barrier uses the same lines,
//! no line needs a reset, and it does no harm when a rank that is one barrier ahead sets a flag again.

use std::mem;

use mp_core::mpb::{Line, MpbAccess, NEWS};
use mp_model::cla::barrier::Round;
use mp_model::cla::{Barrier, Placement};
use thiserror::Error;

/// The reason why a barrier is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BarrierError {
    /// A rank would tell no other rank in a round, or would tell itself.
    #[error(
        "a round of a barrier sends {ways} flags, which {ranks} ranks don't need: m must be from 1 to the ranks − 1"
    )]
    Ways {
        /// The requested m.
        ways: usize,
        /// The number of ranks.
        ranks: usize,
    },
    /// The barrier is for another number of ranks.
    #[error(
        "the rounds of the barrier are for {given} ranks, but there are {ranks}: plan them for the ranks that take part"
    )]
    Ranks {
        /// The number of ranks that it is for.
        given: usize,
        /// The number of ranks that there are.
        ranks: usize,
    },
    /// The barrier is for another number of groups.
    #[error(
        "the rounds of the barrier are for {given} groups of ranks, but there are {groups}: plan one list for each group"
    )]
    Groups {
        /// The number of groups that it is for.
        given: usize,
        /// The number of groups that there are.
        groups: usize,
    },
    /// A rank would continue although another rank may not have arrived.
    #[error(
        "these rounds are no barrier: after all of them, rank {rank} does not know that rank {of} has come; add a round"
    )]
    Unaware {
        /// The rank that would continue.
        rank: usize,
        /// The rank that may not have arrived.
        of: usize,
    },
    /// The flags do not fit into the MPB.
    #[error(
        "{flags} flags do not fit into an MPB of {lines} lines, from line {first_line} on: open the MPBs with more lines"
    )]
    NoRoom {
        /// The number of lines for flags.
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
    /// Creates this rank's part, with these m for each round. The lines from `first_line` on belong to the barrier and
    /// are initially zero.
    ///
    /// # Errors
    /// [`BarrierError`].
    pub fn new<M: MpbAccess>(
        mpb: &M,
        ways: &[usize],
        first_line: usize,
    ) -> Result<Dissemination, BarrierError> {
        let ranks = mpb.ranks();
        let placement = Placement::one_group(ranks).expect("there are ranks");
        let rounds = rounds(&Barrier::Dissemination(ways.to_vec()), &placement)?;
        Dissemination::with_rounds(mpb, &rounds, first_line)
    }

    /// Creates this rank's part, with these rounds of each rank, as [`Barrier::rounds`] gives them: a rank's `reads`
    /// are the ranks that tell it.
    ///
    /// # Errors
    /// [`BarrierError`].
    pub fn with_rounds<M: MpbAccess>(
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

    /// Returns the number of lines that these rounds take of each MPB.
    pub fn lines(rounds: &[Vec<Round>]) -> usize {
        let flags = |rounds: &Vec<Round>| rounds.iter().map(|round| round.reads.len()).sum();
        rounds.iter().map(flags).max().unwrap_or(0)
    }

    /// Returns whether this rank has announced its arrival and has not waited since.
    #[inline]
    pub fn has_arrived(&self) -> bool {
        self.arrived
    }

    /// Announces that this rank has arrived, without waiting. If it has already announced that and not waited, it now
    /// waits for the barrier at which it arrived, and then announces its arrival at the next one.
    ///
    /// This does the first round; the other rounds follow when the rank waits.
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
        if let Some(first) = self.rounds.first() {
            for &flag in &first.sets {
                mpb.announce_news(flag, self.number).await?;
            }
        }
        Ok(())
    }

    /// Waits until all ranks have arrived; this announces this rank's arrival if it has not done so.
    ///
    /// Each rank compares its calls with those of another rank in the first round. If two ranks made different calls,
    /// one of them did not repeat its last call, so it announces in this barrier and in the next one what it has
    /// called. The other rank sees the flag of one of these two.
    ///
    /// # Errors
    /// The errors of the MPBs; after one of these, this rank is out of step with the others.
    #[inline]
    pub async fn wait<M: MpbAccess>(&mut self, mpb: &mut M) -> Result<(), M::Error> {
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

/// Returns each rank's rounds in this barrier.
pub(crate) fn rounds(
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

/// Checks that after all rounds every rank knows that all ranks have arrived.
///
/// For each rank, it follows the reads from the last round back to the first. In a barrier that hardly tells a rank
/// anything twice, that is as many reads as there are ranks.
fn check(rounds: &[Vec<Round>], ranks: usize) -> Result<(), BarrierError> {
    let wrong = |given| BarrierError::Ranks { given, ranks };
    if rounds.len() != ranks {
        return Err(wrong(rounds.len()));
    }
    let mut reads = rounds.iter().flatten().flat_map(|round| &round.reads);
    if let Some(&setter) = reads.find(|&&setter| setter >= ranks) {
        return Err(wrong(setter.saturating_add(1)));
    }
    let most = rounds.iter().map(Vec::len).max().unwrap_or(0);
    // By rank: the last rank that was found to know of it. And all that the present rank knows of.
    let (mut known_to, mut known) = (vec![ranks; ranks], Vec::with_capacity(ranks));
    for rank in 0..ranks {
        known.clear();
        known.push(rank);
        known_to[rank] = rank;
        for number in (0..most).rev() {
            for index in 0..known.len() {
                let Some(round) = rounds[known[index]].get(number) else { continue };
                for &setter in &round.reads {
                    if known_to[setter] != rank {
                        known_to[setter] = rank;
                        known.push(setter);
                    }
                }
            }
        }
        if let Some(of) = known_to.iter().position(|&to| to != rank) {
            return Err(BarrierError::Unaware { rank, of });
        }
    }
    Ok(())
}
