//! Words that ranks send each other to agree on a new communicator.

use mp_collectives::communicator::{Communicator, Pending, SendRequest};

use crate::{error::Error, threads::wait_all};

type Result<T> = std::result::Result<T, Error>;

/// The first of the tags of these messages, which are apart from those of the program.
pub(crate) const TAGS: u32 = 1 << 30;

/// Sends words to a rank, and receives as many from it.
pub(crate) fn exchange(
    comm: &Communicator,
    words: &[u64],
    other: usize,
    tag: u32,
) -> Result<Vec<u64>> {
    let sent = begin(comm, words, other, tag)?;
    let theirs = receive(comm, words.len(), other, tag)?;
    complete(sent)?;
    Ok(theirs)
}

/// Sends lists of words to each other, of any lengths.
pub(crate) fn exchange_lists(
    comm: &Communicator,
    list: &[u64],
    other: usize,
    tag: u32,
) -> Result<Vec<u64>> {
    let length = exchange(comm, &[list.len() as u64], other, tag)?;
    let sent = begin(comm, list, other, tag)?;
    let theirs = receive(comm, length[0] as usize, other, tag)?;
    complete(sent)?;
    Ok(theirs)
}

/// Sends words to ranks, of which this one is left out.
pub(crate) fn send_to_others(
    comm: &Communicator,
    words: &[u64],
    ranks: &[usize],
    tag: u32,
) -> Result<()> {
    let others = ranks.iter().filter(|&&rank| rank != comm.rank());
    let sent: Result<Vec<_>> = others.map(|&rank| begin(comm, words, rank, tag)).collect();
    sent?.into_iter().try_for_each(complete)
}

/// Returns the words of all ranks, which each give as many, in the order of the ranks.
pub(crate) fn all_gather(comm: &Communicator, mine: &[u64]) -> Result<Vec<u64>> {
    let size = comm.size();
    if comm.rank() > 0 {
        send_to_others(comm, mine, &[0], TAGS)?;
        return receive(comm, mine.len() * size, 0, TAGS);
    }
    let mut all = mine.to_vec();
    for rank in 1..size {
        all.extend(receive(comm, mine.len(), rank, TAGS)?);
    }
    send_to_others(comm, &all, &(0..size).collect::<Vec<_>>(), TAGS)?;
    Ok(all)
}

/// Receives this many words from a rank.
pub(crate) fn receive(
    comm: &Communicator,
    count: usize,
    from: usize,
    tag: u32,
) -> Result<Vec<u64>> {
    let mut request = comm.joint().nonblocking_receive(vec![0u64; count], from, tag)?;
    wait_all(&mut [&mut request as &mut dyn Pending])?;
    Ok(request.wait().map_err(|failed| failed.error)?.0)
}

fn begin(comm: &Communicator, words: &[u64], to: usize, tag: u32) -> Result<SendRequest<Vec<u64>>> {
    Ok(comm.joint().nonblocking_send(words.to_vec(), to, tag)?)
}

/// Waits until words are sent.
pub(crate) fn complete(mut sent: SendRequest<Vec<u64>>) -> Result<()> {
    wait_all(&mut [&mut sent as &mut dyn Pending])?;
    sent.wait().map_err(|failed| failed.error)?;
    Ok(())
}
