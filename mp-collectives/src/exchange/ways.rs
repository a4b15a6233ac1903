//! All ways together, with each block sent by the way that suits it.

use mp_core::mpb::{MpbAccess, Mpbs};
use thiserror::Error;

use super::choice::{SHARED_LINES, Way, WayToAll, choose, choose_to_all, chunk_lines};
use super::traffic::{AllGather, Only, Traffic};
use super::{
    ChunkExchange, ChunkOptions, Extremes, LineExchange, LineOptionsError, ReduceOptionsError,
    SharedAllGather,
};
use crate::choice::{Choice, Machine};
use crate::explanation::{Collective, Explanation};
use crate::members::Members;
use crate::pairs::Pairs;
use crate::rings;
use crate::settings::Settings;

/// Returns the number of lines in a chunk for a single rank, and in a chunk for all ranks.
fn chunks(settings: &Settings, ranks: usize) -> [usize; 2] {
    [chunk_lines(ranks), SHARED_LINES].map(|usual| settings.chunk_lines.unwrap_or(usual))
}

/// The reason why the settings of exchanges are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WaysError {
    /// The settings of lines are invalid.
    #[error(transparent)]
    Lines(#[from] LineOptionsError),
    /// The settings of chunks are invalid.
    #[error(transparent)]
    Chunks(#[from] ReduceOptionsError),
}

/// One rank's part in a series of exchanges, of short and long blocks.
///
/// [`Exchanges`](super::Exchanges) use this with MPBs of their own.
#[derive(Debug)]
pub struct Ways {
    pub(super) machine: Machine,
    forced: Option<Way>,
    forced_to_all: Option<WayToAll>,
    pub(super) lines: LineExchange,
    chunks: ChunkExchange,
    shared: SharedAllGather,
}

/// The number of chunks that may be pending to another rank, and to all others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rings {
    pair: usize,
    shared: usize,
}

impl Rings {
    /// The smallest numbers, for simulated machines, whose caches are not known.
    const FEWEST: Rings = Rings { pair: rings::FEWEST_BUFFERS, shared: rings::FEWEST_BUFFERS };

    /// Returns the numbers that suit the machine that these ranks run on.
    pub(super) fn of(members: Members<'_>, settings: &Settings) -> mp_core::Result<Rings> {
        if let Some(buffers) = settings.buffers {
            return Ok(Rings { pair: buffers, shared: buffers });
        }
        let ranks = members.count();
        let pairs = ranks.saturating_mul(ranks.saturating_sub(1));
        let [pair, shared] = chunks(settings, ranks);
        Ok(Rings {
            pair: rings::buffers(members, pairs, pair)?,
            shared: rings::buffers(members, ranks, shared)?,
        })
    }
}

/// The places in the MPBs where each way has its lines.
#[derive(Clone, Copy, Debug)]
struct Rooms {
    slots: usize,
    chunks: ChunkOptions,
    shared: ChunkOptions,
    end: usize,
}

impl Rooms {
    fn new(machine: Machine, settings: &Settings, rings: Rings) -> Option<Rooms> {
        let ranks = machine.ranks;
        let [pair, shared] = chunks(settings, ranks);
        let slots = settings.slots.unwrap_or(machine.slots());
        let first_line = LineExchange::lines(slots, ranks)?;
        let chunks = ChunkOptions { chunk_lines: pair, buffers: rings.pair, first_line };
        let first_line = first_line.checked_add(chunks.lines(ranks)?)?;
        let shared = ChunkOptions { chunk_lines: shared, buffers: rings.shared, first_line };
        let end = first_line.checked_add(SharedAllGather::lines(shared, ranks)?)?;
        Some(Rooms { slots, chunks, shared, end })
    }
}

impl Ways {
    /// Creates this rank's part, with the MPBs of these ranks, on this many cores. All the lines that it takes belong
    /// to it and are initially zero.
    ///
    /// # Errors
    /// [`WaysError`].
    pub fn new<M: MpbAccess>(
        mpb: &M,
        cores: usize,
        settings: &Settings,
    ) -> Result<Ways, WaysError> {
        Ways::with_rings(mpb, cores, settings, Rings::FEWEST)
    }

    /// Does what [`new`](Self::new) does, with the given rings of chunks.
    pub(super) fn with_rings<M: MpbAccess>(
        mpb: &M,
        cores: usize,
        settings: &Settings,
        rings: Rings,
    ) -> Result<Ways, WaysError> {
        let payload = mpb.line_bytes().saturating_sub(size_of::<u64>());
        let machine = Machine { ranks: mpb.ranks(), cores, payload };
        let too_much = ReduceOptionsError::NoRoom { first_line: 0, lines: mpb.lines() };
        let Rooms { slots, chunks, shared, .. } =
            Rooms::new(machine, settings, rings).ok_or(too_much)?;
        Ok(Ways {
            machine,
            forced: settings.exchange,
            forced_to_all: settings.all_gather,
            lines: LineExchange::new(mpb, slots, 0)?,
            chunks: ChunkExchange::new(mpb, chunks)?,
            shared: SharedAllGather::new(mpb, shared)?,
        })
    }

    /// Returns the number of lines that this takes of each MPB, or `None` when they are too many to count.
    pub fn lines(machine: Machine, settings: &Settings) -> Option<usize> {
        Rooms::new(machine, settings, Rings::FEWEST).map(|rooms| rooms.end)
    }

    /// Returns the settings of MPBs for this, or `None` when they have too many lines to count. Each way gets its lines when
    /// it is first used.
    pub(super) fn mpbs(machine: Machine, settings: &Settings, rings: Rings) -> Option<Mpbs> {
        let (ranks, Rooms { chunks, shared, end, .. }) =
            (machine.ranks, Rooms::new(machine, settings, rings)?);
        let flags = ChunkOptions::flag_lines(ranks);
        let short = Mpbs::lines(end).growing_from(Pairs::near_lines(ranks), usize::MAX);
        Some(short.growing_from(chunks.first_line, flags).growing_from(shared.first_line, flags))
    }

    /// Carries out an exchange. All ranks call this with their parts of the same traffic.
    ///
    /// # Errors
    /// The errors of the MPBs, after which this rank is out of step with the others.
    pub async fn exchange<T: Traffic, M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        traffic: &mut T,
    ) -> Result<(), M::Error> {
        match self.way(traffic.extremes()) {
            Some(Way::Lines) => return self.lines.exchange(mpb, traffic).await,
            Some(Way::Chunks) => return self.chunks.exchange(mpb, traffic).await,
            None => {}
        }
        // The lines are one round: they wait for nothing that others do in this call.
        let short = self.short();
        let long = Extremes { least: short + 1, most: usize::MAX };
        let short = Extremes { least: 1, most: short };
        self.lines.send(mpb, &Only { traffic, lengths: short }, 0).await?;
        self.chunks.exchange(mpb, &mut Only { traffic, lengths: long }).await?;
        self.lines.receive(mpb, &mut Only { traffic, lengths: short }, 0).await
    }

    /// Carries out an all-gather. All ranks call this with their parts of the same all-gather.
    ///
    /// # Errors
    /// The same as for [`exchange`](Ways::exchange).
    pub async fn all_gather<M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        traffic: &mut AllGather<'_>,
    ) -> Result<(), M::Error> {
        match self.way_to_all(traffic.extremes()) {
            Some(WayToAll::Lines) => return self.lines.exchange(mpb, traffic).await,
            Some(WayToAll::Chunks) => return self.chunks.exchange(mpb, traffic).await,
            Some(WayToAll::Shared) => return self.shared.all_gather(mpb, traffic).await,
            None => {}
        }
        let short = self.short();
        let lengths = Extremes { least: 1, most: short };
        self.lines.send(mpb, &Only { traffic, lengths }, 0).await?;
        self.shared.above(mpb, traffic, short).await?;
        self.lines.receive(mpb, &mut Only { traffic, lengths }, 0).await
    }

    #[inline]
    pub(super) fn choose(&self, bytes: usize) -> Choice<Way> {
        choose(self.machine, bytes, self.lines.round_bytes(), self.forced)
    }

    #[inline]
    pub(super) fn choose_to_all(&self, bytes: usize) -> Choice<WayToAll> {
        choose_to_all(self.machine, bytes, self.lines.round_bytes(), self.forced_to_all)
    }

    /// Returns by which way a block of `bytes` bytes goes in a gather, scatter, all-gather or all-to-all, and why.
    pub fn explain(&self, collective: Collective, bytes: usize) -> Explanation {
        let choice = self.choice(collective, bytes);
        match collective {
            Collective::AllGather => choice.among(WayToAll::ALL),
            _ => choice.among(Way::ALL),
        }
    }

    /// Does what [`explain`](Self::explain) does, without candidates.
    pub(super) fn choice(&self, collective: Collective, bytes: usize) -> Explanation {
        let machine = self.machine;
        match collective {
            Collective::AllGather => {
                Explanation::new(collective, bytes, machine, self.choose_to_all(bytes))
            }
            _ => Explanation::new(collective, bytes, machine, self.choose(bytes)),
        }
    }

    /// Returns the way of all these blocks, if it is the same for all.
    #[inline]
    pub(super) fn way(&self, blocks: Extremes) -> Option<Way> {
        let way = |bytes| self.choose(bytes).algorithm;
        one(way(blocks.least), way(blocks.most))
    }

    #[inline]
    pub(super) fn way_to_all(&self, blocks: Extremes) -> Option<WayToAll> {
        let way = |bytes| self.choose_to_all(bytes).algorithm;
        one(way(blocks.least), way(blocks.most))
    }

    fn short(&self) -> usize {
        self.machine.most_in_lines(self.lines.round_bytes())
    }
}

fn one<W: PartialEq>(least: W, most: W) -> Option<W> {
    (least == most).then_some(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_of_many_ranks_take_as_much_as_those_of_few() {
        assert_eq!([1, 2, 3, 4, 5, 8, 9].map(chunk_lines), [512, 512, 512, 256, 256, 128, 128]);
        assert_eq!([64, 65, 66, 181].map(chunk_lines), [16; 4]);
        // The chunks of all ranks for each other have a limit.
        assert_eq!([300, 1_024, 10_000, usize::MAX].map(chunk_lines), [4, 1, 1, 1]);
        let lines = |ranks| {
            let machine = Machine { ranks, cores: 2, payload: 56 };
            Ways::lines(machine, &Settings::default()).unwrap()
        };
        // KiB with the fewest buffers.
        assert!([lines(2) / 16, lines(8) / 16].into_iter().eq([264, 387]));
        assert_eq!(
            Ways::lines(Machine { ranks: usize::MAX, cores: 1, payload: 56 }, &Settings::default()),
            None
        );
    }
}
