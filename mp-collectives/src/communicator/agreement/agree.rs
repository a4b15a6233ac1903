//! Agreement of all ranks of a communicator, for all calls that every rank must make.
//!
//! The ranks agree through rank 0, which receives from all ranks before it answers any. Each rank's part identifies its
//! call. Since every rank gets the parts of all, each rank sees whether the calls differ. Only in that case do the
//! ranks exchange descriptions of their calls. The context of a new communicator is the highest of the ranks' first
//! unused numbers. The lowest bit of the context in a message distinguishes the program's messages from those of joint
//! operations.

use crate::communicator::{
    agreement::together::Together,
    error::lost,
    numbers,
    point_to_point::{Communicator, OWN_TAGS, Stream},
    status::Tag,
};
use crate::errors::bad_call;
use mp_core::{Call, Calls, Error, ErrorKind, Result};

/// The number of words that each rank contributes.
pub(crate) const WORDS: usize = 3;
/// The number of words in a row: those words, the call, and the first unused context.
const ROW: usize = WORDS + 2;
type Row = [u64; ROW];

/// Used instead of a call if a rank is missing. The rank and the reason follow.
const MISSING: u64 = 0;
const LOST: u64 = 0;
const ENDED: u64 = 1;

/// The first of the tags of these calls in the stream of joint operations. Each call has the next tag, so that a late
/// message of a call that was given up is not taken for a message of another call.
const TAGS: u32 = OWN_TAGS + (1 << 30);

/// The result of an agreement, the same for every rank.
pub(crate) struct Agreed {
    /// What each rank contributed.
    pub(crate) rows: Vec<[u64; WORDS]>,
    /// A context that none of the ranks has used.
    pub(crate) context: u32,
}

impl Communicator {
    /// Gives every rank what all ranks contribute, and reserves a context for a new communicator.
    pub(crate) fn decide_together(&self, call: Together, mine: [u64; WORDS]) -> Result<Agreed> {
        self.joint().check_if_set(|| call.call())?;
        let _calling = self.members.title.calls(call.name());
        let (tag, mut row) = self.row(call as u64);
        row[2..].copy_from_slice(&mine);
        let told = call.call();
        let rows = self.exchange_rows(tag, row)?;
        let context = rows.iter().map(|row| row[1]).max().unwrap_or(0);
        // The numbers of the upper half belong to the ranks: see `numbers`.
        let Some(context) = u32::try_from(context).ok().filter(|&context| context < numbers::FIRST)
        else {
            return Err(bad_call(
                "no numbers for further communicators are left in this world: drop or reuse communicators earlier",
            ));
        };
        // This happens also if the calls differ, so that no rank uses this number, whatever it was meant for.
        self.engine.work().next_context = context + 1;
        self.compare(tag, &rows, &told)?;
        Ok(Agreed { rows: rows.iter().map(|row| [row[2], row[3], row[4]]).collect(), context })
    }

    /// Returns the next call's tag, and this rank's row for it.
    fn row(&self, call: u64) -> (u32, Row) {
        let number = self.agreements.get();
        self.agreements.set(number.wrapping_add(1));
        let unused = self.engine.work().next_context;
        (TAGS + number % (1 << 30), [call, u64::from(unused), 0, 0, 0])
    }

    /// Exchanges the rows of all ranks through rank 0, which receives from every rank before it answers any. So either
    /// all ranks go on, or all learn which rank is missing.
    fn exchange_rows(&self, tag: u32, row: Row) -> Result<Vec<Row>> {
        if self.rank() == 0 { self.collect(tag, row) } else { self.contribute(tag, row) }
    }

    fn collect(&self, tag: u32, row: Row) -> Result<Vec<Row>> {
        let mut rows = vec![row];
        let mut failed = None;
        for rank in 1..self.size() {
            match self.receive_row(rank, tag) {
                Ok(row) => rows.push(row),
                Err(error) => drop(failed.get_or_insert((rank, error))),
            }
        }
        let answer = match &failed {
            Some((rank, error)) => {
                let why = match error.kind() {
                    ErrorKind::PeerEnded { .. } => ENDED,
                    _ => LOST,
                };
                vec![[MISSING, *rank as u64, why, 0, 0]]
            }
            None => rows.clone(),
        };
        for rank in 1..self.size() {
            // Each row is sent as one line, so that this opens no channel of chunks.
            let mut rows = answer.iter();
            let sent = rows.try_for_each(|row| self.send_in(Stream::Together, row, rank, tag));
            match sent.map_err(Error::into_kind) {
                // All other ranks go on, and find that this rank is missing when they need it.
                Ok(()) | Err(ErrorKind::PeerLost { .. } | ErrorKind::PeerEnded { .. }) => {}
                Err(error) => drop(failed.get_or_insert((rank, error.into()))),
            }
        }
        match failed {
            None => Ok(rows),
            Some((_, error)) => Err(error),
        }
    }

    fn contribute(&self, tag: u32, row: Row) -> Result<Vec<Row>> {
        self.send_in(Stream::Together, &row, 0, tag)?;
        let mut rows = Vec::with_capacity(self.size());
        for _ in 0..self.size() {
            let row = self.receive_row(0, tag)?;
            if row[0] == MISSING {
                let rank = row[1] as usize;
                let world_rank = self.to_world(rank)? as usize;
                return Err(self.localized(match row[2] {
                    LOST => lost(rank, world_rank),
                    _ => ErrorKind::PeerEnded { rank: world_rank }.into(),
                }));
            }
            rows.push(row);
        }
        Ok(rows)
    }

    fn receive_row(&self, from: usize, tag: u32) -> Result<Row> {
        let mut row = [0; ROW];
        let (from, tag) = (from.into(), Tag::Is(tag));
        self.receive_within(Stream::Together, &mut row, from, tag, true, None)?;
        Ok(row)
    }

    /// Returns an error, at all ranks, if they do not all make the same call.
    fn compare(&self, tag: u32, rows: &[Row], call: &Call) -> Result<()> {
        if rows.iter().all(|row| row[0] == rows[0][0]) {
            return Ok(());
        }
        Err(ErrorKind::CallsDiffer(Box::new(Calls::new(self.all_calls(tag, call)?))).into())
    }

    /// Exchanges the descriptions of the calls of all ranks.
    fn all_calls(&self, tag: u32, mine: &Call) -> Result<Vec<Call>> {
        let unreadable = |error: postcard::Error| {
            Error::from(ErrorKind::PeerBroken { rank: 0, reason: error.to_string() })
        };
        if self.rank() > 0 {
            let call = postcard::to_stdvec(mine).map_err(unreadable)?;
            self.send_in(Stream::Together, &call, 0, tag)?;
            let (all, _) = self.receive_vec_in::<u8>(Stream::Together, 0.into(), Tag::Is(tag))?;
            return postcard::from_bytes(&all).map_err(unreadable);
        }
        let mut calls = vec![mine.clone()];
        for rank in 1..self.size() {
            let (call, _) =
                self.receive_vec_in::<u8>(Stream::Together, rank.into(), Tag::Is(tag))?;
            let broken = |error: postcard::Error| {
                Error::from(ErrorKind::PeerBroken { rank, reason: error.to_string() })
            };
            calls.push(postcard::from_bytes(&call).map_err(broken)?);
        }
        let all = postcard::to_stdvec(&calls).map_err(unreadable)?;
        for rank in 1..self.size() {
            match self.send_in(Stream::Together, &all, rank, tag).map_err(Error::into_kind) {
                Ok(()) | Err(ErrorKind::PeerLost { .. } | ErrorKind::PeerEnded { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(calls)
    }
}
