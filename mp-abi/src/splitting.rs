//! Communicators that all ranks of another one make together.

use mp_collectives::communicator::Communicator;

use crate::{comm::Comm, error::Error, words::all_gather};

/// The words of a rank: its color and 1, or 0 without one; its key; and a number for a communicator.
const ROW: usize = 3;

/// Makes a communicator of the same ranks.
pub(crate) fn duplicate(comm: &Comm) -> Result<Communicator, Error> {
    if !comm.has_threads() {
        return Ok(comm.communicator.duplicate()?);
    }
    split_by_words(&comm.communicator, Some(0), 0)?.ok_or_else(|| {
        Error::new(crate::error::Class::Intern, "a split by one color has made no communicator")
    })
}

/// Makes a communicator of all ranks with this color, in the order of their keys.
pub(crate) fn split(
    comm: &Comm,
    color: Option<u64>,
    key: i64,
) -> Result<Option<Communicator>, Error> {
    match comm.has_threads() {
        true => split_by_words(&comm.communicator, color, key),
        false => Ok(comm.communicator.split(color, key)?),
    }
}

/// Splits while other threads of the ranks split other communicators: the ranks agree on no number, but each new
/// communicator has one that belongs to its lowest rank.
fn split_by_words(
    communicator: &Communicator,
    color: Option<u64>,
    key: i64,
) -> Result<Option<Communicator>, Error> {
    let joint = communicator.joint();
    let mine = [color.map_or(0, |color| color + 1), key as u64, joint.number()?.into()];
    let rows = all_gather(communicator, &mine)?;
    if color.is_none() {
        return Ok(None);
    }
    let rows = rows.chunks_exact(ROW).zip(joint.world_ranks());
    let mut alike: Vec<_> = rows.filter(|(row, _)| row[0] == mine[0]).collect();
    let number = alike.first().map_or(mine[2], |(row, _)| row[2]);
    alike.sort_by_key(|(row, _)| row[1] as i64);
    let ranks: Vec<_> = alike.into_iter().map(|(_, rank)| rank).collect();
    Ok(Some(joint.communicator_of(&ranks, number as u32, "split")?))
}
