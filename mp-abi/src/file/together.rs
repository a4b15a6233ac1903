//! What the ranks of a file agree on, in messages that no others come between.

use std::ffi::c_int;

use mp_collectives::communicator::Communicator;

use crate::{
    constants::MPI_SUCCESS,
    error::{Class, Error},
    words::{TAGS, receive, send_to_others},
};

type Result<T> = std::result::Result<T, Error>;

/// The ranks of a file, with a communicator for them alone.
pub(super) struct Together(pub Communicator);

impl Together {
    /// Waits until all ranks call this, and has them come to one result. Each gives words that are to be the same
    /// everywhere, or an error. If all is right, the first rank acts, and all get its answer.
    pub fn agree<const N: usize>(
        &self,
        mine: Result<[u64; N]>,
        act: impl FnOnce() -> Result<u64>,
    ) -> Result<u64> {
        let (comm, code) = (&self.0, mine.as_ref().map_or_else(Error::code, |_| MPI_SUCCESS));
        let mut words = vec![code as u64];
        words.extend(mine.as_ref().map_or([0; N], |&words| words));
        if comm.rank() > 0 {
            send_to_others(comm, &words, &[0], TAGS)?;
            let verdict = receive(comm, 3, 0, TAGS)?;
            mine?;
            return match verdict[0] as c_int {
                MPI_SUCCESS => Ok(verdict[1]),
                code => Err(of_rank(code, verdict[2])),
            };
        }
        // A rank that has failed, with what it says.
        let mut wrong = (code != MPI_SUCCESS).then_some((code, 0));
        for rank in 1..comm.size() {
            let theirs = receive(comm, words.len(), rank, TAGS)?;
            let code = match theirs[0] as c_int {
                MPI_SUCCESS if theirs != words => Class::NotSame as c_int,
                code => code,
            };
            if code != MPI_SUCCESS && wrong.is_none() {
                wrong = Some((code, rank as u64));
            }
        }
        let answer = match (mine, wrong) {
            (Err(error), _) => Err(error),
            (_, Some((code, rank))) => Err(of_rank(code, rank)),
            _ => act(),
        };
        let verdict = match &answer {
            Ok(answer) => [MPI_SUCCESS as u64, *answer, 0],
            Err(error) => [error.code() as u64, 0, wrong.map_or(0, |(_, rank)| rank)],
        };
        send_to_others(comm, &verdict, &(0..comm.size()).collect::<Vec<_>>(), TAGS)?;
        answer
    }

    /// Shares out a range among all ranks, each of which wants a part of this length: the parts lie in the order of
    /// ranks. Returns where that of this rank begins. The first rank takes the range.
    pub fn share_out(&self, length: u64, take: impl FnOnce(u64) -> u64) -> Result<u64> {
        let comm = &self.0;
        if comm.rank() > 0 {
            send_to_others(comm, &[length], &[0], TAGS)?;
            return Ok(receive(comm, 1, 0, TAGS)?[0]);
        }
        let others: Result<Vec<_>> =
            (1..comm.size()).map(|rank| Ok(receive(comm, 1, rank, TAGS)?[0])).collect();
        let others = others?;
        let first = take(length + others.iter().sum::<u64>());
        let mut next = first + length;
        for (other, length) in others.into_iter().enumerate() {
            send_to_others(comm, &[next], &[other + 1], TAGS)?;
            next += length;
        }
        Ok(first)
    }
}

fn of_rank(code: c_int, rank: u64) -> Error {
    let text = match code {
        _ if code == Class::NotSame as c_int => {
            format!("rank {rank} has given something else than rank 0")
        }
        _ => format!("it failed at rank {rank}"),
    };
    Error::of_program(code, text)
}
