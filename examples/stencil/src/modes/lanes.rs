//! The channels of a worker that has rows: one to and one from each neighbour.

use onchip::prelude::*;

use super::world::Seat;

/// The channels to a neighbour and from it.
pub(super) struct Neighbour<S> {
    pub(super) rank: usize,
    pub(super) to: S,
    pub(super) from: Receiver<[f64]>,
}

/// The neighbours above and below; `None` where the matrix ends.
pub(super) struct Neighbours<S> {
    pub(super) north: Option<Neighbour<S>>,
    pub(super) south: Option<Neighbour<S>>,
}

const NORTHWARD: &str = "northward";
const SOUTHWARD: &str = "southward";

impl<S> Neighbours<S> {
    /// Opens the channels. `outward` turns a sender into what the mode sends through.
    pub(super) fn open(
        seat: &Seat,
        outward: impl Fn(Sender<[f64]>, usize) -> S,
    ) -> onchip::Result<Self> {
        let (rank, size) = (seat.rank, seat.job.init.size());
        // A neighbour is ahead by one step at most, so with two slots no rank waits for room.
        let channel = Channel::degree(2).max_len(size);
        let neighbour = |other: usize, out: &str, back: &str| -> onchip::Result<_> {
            let to = outward(rank.sender(out, other, channel)?, other);
            Ok(Neighbour { rank: other, to, from: rank.receiver(back, other, channel)? })
        };
        // Where there are not enough rows for all, the first workers have one each.
        let with_rows = seat.job.workers().min(size);
        let mine = rank.id() < with_rows;
        let north = rank.id().checked_sub(1).filter(|_| mine);
        let south = Some(rank.id() + 1).filter(|&below| below < with_rows);
        Ok(Self {
            north: north.map(|above| neighbour(above, NORTHWARD, SOUTHWARD)).transpose()?,
            south: south.map(|below| neighbour(below, SOUTHWARD, NORTHWARD)).transpose()?,
        })
    }
}

/// Returns the first row of a block, and the last.
pub(super) fn borders(now: &[f64], width: usize) -> [&[f64]; 2] {
    [now.get(..width).unwrap_or_default(), &now[now.len().saturating_sub(width)..]]
}

/// Waits for the rows of the neighbours, which are zeros where there is none, and hands them over.
pub(super) fn with_received<S>(
    seat: &Seat,
    neighbours: &Neighbours<S>,
    zeros: &[f64],
    compute: impl FnOnce(&[f64], &[f64]),
) -> onchip::Result<()> {
    let north = neighbours.north.as_ref().map(|north| seat.receive(|| north.from.receive()));
    let north = north.transpose()?;
    let south = neighbours.south.as_ref().map(|south| seat.receive(|| south.from.receive()));
    let south = south.transpose()?;
    let rows = (north.as_deref().unwrap_or(zeros), south.as_deref().unwrap_or(zeros));
    seat.recorder.compute(0.0, || compute(rows.0, rows.1));
    Ok(())
}
