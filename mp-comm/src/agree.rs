//! What all ranks of a communicator decide together: for all calls that every rank must make.

use crate::{
    communicator::{Communicator, OWN_TAGS, Stream},
    elements::misuse,
    error::{Error, Result},
    status::{Source, Tag},
};

/// Which of these calls it is. All ranks must make the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Together {
    Duplicate = 1,
    Split = 2,
    Create = 3,
    Cartesian = 4,
}

impl Together {
    fn name(code: u64) -> &'static str {
        match code {
            1 => "duplicate",
            2 => "split",
            3 => "create",
            4 => "cartesian",
            _ => "something else",
        }
    }
}

/// Words that each rank contributes.
pub(crate) const WORDS: usize = 3;
/// Those, the call, and the first unused context.
const ROW: usize = WORDS + 2;

/// Instead of a call: somebody is missing, who follows.
const MISSING: u64 = 0;

/// The tag of all this in the stream of joint operations.
const TAG: u32 = OWN_TAGS;

/// What came of it, for every rank.
pub(crate) struct Agreed {
    /// What each rank contributed.
    pub(crate) rows: Vec<[u64; WORDS]>,
    /// A context that none of the ranks has used.
    pub(crate) context: u32,
}

impl Communicator {
    /// Tells every rank what all contribute, and takes a context for something new.
    ///
    /// Through rank 0, which hears of everybody before it answers anybody: so either all go on,
    /// or all learn who was lost.
    pub(crate) fn agree(&self, call: Together, mine: [u64; WORDS]) -> Result<Agreed> {
        let mut row = [call as u64, u64::from(self.engine.borrow().next_context), 0, 0, 0];
        row[2..].copy_from_slice(&mine);
        let rows = if self.rank() == 0 { self.collect(row)? } else { self.contribute(row)? };
        let context = rows.iter().map(|row| row[1]).max().unwrap_or(0);
        // Twice as many are told apart: see `Stream`.
        let Some(context) = u32::try_from(context).ok().filter(|&context| context < 1 << 31) else {
            return misuse("no context is left");
        };
        // Also where the calls differ: whatever a rank takes it for, it is not used.
        self.engine.borrow_mut().next_context = context + 1;
        if let Some(other) = rows.iter().position(|row| row[0] != call as u64) {
            let (ours, theirs) = (Together::name(call as u64), Together::name(rows[other][0]));
            return misuse(format!(
                "rank {} called {ours}, and rank {other} {theirs}",
                self.rank()
            ));
        }
        Ok(Agreed { rows: rows.iter().map(|row| [row[2], row[3], row[4]]).collect(), context })
    }

    fn collect(&self, row: [u64; ROW]) -> Result<Vec<[u64; ROW]>> {
        let mut rows = vec![row];
        let mut failed = None;
        for rank in 1..self.size() {
            let mut row = [0u64; ROW];
            let (from, tag) = (Source::Rank(rank), Tag::Is(TAG));
            match self.receive_in(Stream::Together, &mut row, from, tag, true) {
                Ok(_) => rows.push(row),
                Err(error) => drop(failed.get_or_insert((rank, error))),
            }
        }
        let answer = match &failed {
            Some((rank, error)) => {
                let ended = matches!(error, Error::Ended { .. });
                vec![[MISSING, *rank as u64, ended.into(), 0, 0]]
            }
            None => rows.clone(),
        };
        for rank in 1..self.size() {
            // Each of them is one line: so that this opens no channel of chunks.
            let mut rows = answer.iter();
            let sent = rows.try_for_each(|row| self.send_in(Stream::Together, row, rank, TAG));
            match sent {
                // All others go on, and will hear of it when they need that rank.
                Ok(()) | Err(Error::PeerLost { .. } | Error::Ended { .. }) => {}
                Err(error) => drop(failed.get_or_insert((rank, error))),
            }
        }
        failed.map_or(Ok(rows), |(_, error)| Err(error))
    }

    fn contribute(&self, row: [u64; ROW]) -> Result<Vec<[u64; ROW]>> {
        self.send_in(Stream::Together, &row, 0, TAG)?;
        let mut rows = Vec::with_capacity(self.size());
        for _ in 0..self.size() {
            let mut row = [0u64; ROW];
            self.receive_in(Stream::Together, &mut row, 0.into(), TAG.into(), true)?;
            if row[0] == MISSING {
                let rank = row[1] as usize;
                let world_rank = self.to_world(rank)? as usize;
                return Err(match row[2] {
                    0 => Error::PeerLost { rank, world_rank },
                    _ => Error::Ended { rank },
                });
            }
            rows.push(row);
        }
        Ok(rows)
    }
}

/// A number for a list that all ranks must name alike. (FNV-1a.)
pub(crate) fn digest(words: impl IntoIterator<Item = u64>) -> u64 {
    words.into_iter().flat_map(u64::to_le_bytes).fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
