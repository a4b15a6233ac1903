//! Cells: memory for the pieces of messages that goes back and forth between two ranks.
//!
//! A rank that writes to lines that another rank has just read must first have them taken away from there. A rank that
//! has itself just read them need not. So the two ranks have a number of cells, each of which belongs to one of them.
//! The sender of a piece writes it into one of its cells, the one that it read last, and names the cell in a line. From
//! then on the cell belongs to the receiver, which sends the next piece of its own in it. No cell is ever given back in
//! another way: a rank that has none left, because it sends more than it receives, sends in chunks.
//!
//! The cells are opened by the first send of a message in pieces to a rank from which such a message has come.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mp_core::{
    Rank, Result as CoreResult,
    mpb::{Line, Mpb, Mpbs},
};

use crate::communicator::messages::channels::{NAMES, cells_name};
use crate::communicator::messages::wire::{CELL, CELLS, Place};
use crate::rings::LINE_BYTES;

const CELL_LINES: usize = CELL / LINE_BYTES;

/// The cells of this rank and another one. Both ways between the two ranks use them.
#[derive(Clone, Default)]
pub(crate) struct Cells(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// Whether a message in pieces has come from the other rank.
    heard: bool,
    /// Whether the cells could not be opened for sending.
    refused: bool,
    opened: Option<Opened>,
}

struct Opened {
    mpb: Mpb,
    /// The cells that belong to this rank. The last one was read last.
    own: Vec<u32>,
}

impl Cells {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Declares that this rank will not open the cells any more, so that their memory is freed when the other rank has
    /// closed them.
    pub(crate) fn decline(&self, rank: &Rank, other: usize, serial: u64) {
        let mut state = self.state();
        if state.opened.is_none() && !state.refused {
            state.refused = true;
            let name = cells_name(serial, pair(rank, other));
            // If this fails, the world's memory is broken.
            let _ = rank.decline_mpb(&name, NAMES.mpbs(Mpbs::lines(1)));
        }
    }

    /// Notes that a message in pieces has come from the other rank.
    pub(crate) fn hear(&self) {
        self.state().heard = true;
    }

    /// Writes the first piece of a message to rank `to` into one of this rank's cells, if there is one.
    pub(crate) fn put_first(
        &self,
        rank: &Rank,
        to: usize,
        serial: u64,
        piece: &[u8],
    ) -> Option<Place> {
        let mut state = self.state();
        if state.opened.is_none() && state.heard && !state.refused {
            // Without memory for cells, messages go in chunks.
            state.opened = Opened::open(rank, to, serial).ok();
            state.refused = state.opened.is_none();
        }
        state.opened.as_mut()?.put(piece)
    }

    /// Writes a piece into one of this rank's cells, if there is one.
    pub(crate) fn put(&self, piece: &[u8]) -> Option<Place> {
        self.state().opened.as_mut()?.put(piece)
    }

    /// Takes back the cell of a piece that was not sent.
    pub(crate) fn take_back(&self, place: Place) {
        if let Some(opened) = &mut self.state().opened {
            opened.own.push(place.cell());
        }
    }

    /// Copies a piece that has come from rank `from` to `into`, which is as long as the piece, and keeps the cell. If
    /// there is no `into`, only keeps the cell. Returns false if there is no such piece.
    pub(crate) fn take(
        &self,
        rank: &Rank,
        from: usize,
        serial: u64,
        place: Place,
        into: Option<&mut [u8]>,
    ) -> CoreResult<bool> {
        let mut state = self.state();
        let opened = match &mut state.opened {
            Some(opened) => opened,
            closed => closed.insert(Opened::open(rank, from, serial)?),
        };
        if place.cell() >= 2 * CELLS || opened.own.len() >= 2 * CELLS as usize {
            return Ok(false);
        }
        if let Some(into) = into {
            opened.mpb.get(line_of(place.cell()), into)?;
        }
        opened.own.push(place.cell());
        Ok(true)
    }
}

impl Opened {
    fn open(rank: &Rank, other: usize, serial: u64) -> CoreResult<Self> {
        let (ranks, mpbs) =
            (pair(rank, other), NAMES.mpbs(Mpbs::lines(CELLS as usize * CELL_LINES)));
        let mpb = rank.mpb_of(&cells_name(serial, ranks), &ranks, mpbs)?;
        let first = mpb.rank() as u32 * CELLS;
        let mut own = Vec::with_capacity(2 * CELLS as usize);
        own.extend(first..first + CELLS);
        Ok(Self { mpb, own })
    }

    fn put(&mut self, piece: &[u8]) -> Option<Place> {
        let cell = *self.own.last()?;
        self.mpb.put(piece, line_of(cell)).ok()?;
        self.own.pop();
        Some(Place::new(cell, piece.len()))
    }
}

/// Returns this rank and another one in ascending order.
fn pair(rank: &Rank, other: usize) -> [usize; 2] {
    let me = rank.id();
    [me.min(other), me.max(other)]
}

/// Returns the first line of a cell.
fn line_of(cell: u32) -> Line {
    Line { rank: (cell / CELLS) as usize, line: (cell % CELLS) as usize * CELL_LINES }
}

#[cfg(test)]
mod tests {
    use mp_core::{Channel, Error, World};

    use super::*;

    /// Rank 0 sends as many pieces as it has cells, and rank 1 sends them back and more.
    #[test]
    fn cells_go_back_and_forth() {
        World::threads(2)
            .run(|rank| {
                let other = 1 - rank.id();
                let channel = Channel::degree(4 * CELLS);
                let mut to = rank.sender::<u64>("places", other, channel)?;
                let from = rank.receiver::<u64>("places", other, channel)?;
                let (cells, mut last) = (Cells::default(), None);
                let piece = |number: u32| vec![number as u8 + 1; CELL - 70 * number as usize];
                let mut send = |numbers: u32| {
                    for number in 0..numbers {
                        let place = cells.put_first(rank, other, 3, &piece(number));
                        let place = place.ok_or_else(|| Error::other("no cell"))?;
                        to.send(&place.words()[0])?;
                    }
                    let more = cells.put(&[1]).is_some();
                    if more { Err(Error::other("too many cells")) } else { Ok(()) }
                };
                let mut receive = |numbers: u32| {
                    for number in 0..numbers {
                        let place = Place::of(&[*from.receive()?, 0, 0, 0, 0, 0, 0]);
                        let mut into = vec![0; place.bytes()];
                        let taken = cells.take(rank, other, 3, place, Some(&mut into))?;
                        if !taken || into != piece(number) {
                            return Err(Error::other(format!("piece {number} is another one")));
                        }
                        last = Some(place);
                    }
                    Ok(())
                };
                if rank.id() == 0 {
                    assert_eq!(cells.put_first(rank, other, 3, &[1]), None);
                    cells.hear();
                    send(CELLS)?;
                    receive(2 * CELLS)?;
                    // The cell that was read last is written first. One that was not sent is written again.
                    let place = cells.put(&[1]);
                    assert_eq!(place.map(Place::cell), last.map(Place::cell));
                    cells.take_back(Place::new(last.map_or(0, Place::cell), 1));
                    return send(2 * CELLS);
                }
                receive(CELLS)?;
                send(2 * CELLS)?;
                receive(2 * CELLS)
            })
            .unwrap();
    }

    #[test]
    fn a_cell_that_there_is_not_is_refused() {
        World::threads(2)
            .run(|rank| {
                let (cells, other) = (Cells::default(), 1 - rank.id());
                let take = |cell, bytes| {
                    let mut into = vec![0; bytes];
                    cells.take(rank, other, 3, Place::new(cell, bytes), Some(&mut into))
                };
                assert!(!take(2 * CELLS, 1)?);
                assert!(take(2 * CELLS - 1, CELL + 1).is_err());
                // Cells that never went away come back, but not more than there are.
                let taken = (0..2 * CELLS).map(|cell| take(cell, 1));
                let taken: Vec<bool> = taken.collect::<mp_core::Result<_>>()?;
                assert_eq!(taken.iter().filter(|&&taken| taken).count(), CELLS as usize);
                Ok(())
            })
            .unwrap();
    }
}
