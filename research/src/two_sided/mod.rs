//! Send and receive over MPBs, as in RCCE (thesis, section 4.2). The sender puts a chunk into its own MPB, the receiver
//! gets it from there, and both wait for each other. A send returns when everything has been received.
//!
//! The lines of an MPB, from `first_line` on:
//!
//! ```text
//! P      sent: how many chunks rank i has sent to this one          set by rank i
//! P      taken: how many chunks rank i has taken from this one      set by rank i
//! rest   the chunk under way
//! ```
//!
//! RCCE packs its flags more closely and resets them; counts need no reset.

mod broadcasts;

use mp_core::mpb::{Line, MpbAccess};
use thiserror::Error;

use crate::sim::Misfit;

pub use self::broadcasts::{binomial, scatter_allgather};

/// One rank's messages to and from all others.
#[derive(Debug)]
pub struct TwoSided {
    first_line: usize,
    chunk_lines: usize,
    chunk_bytes: usize,
    sent: Vec<u64>,
    taken: Vec<u64>,
}

/// The MPBs are too short for two-sided messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "{flags} flags and a chunk of {chunk_lines} lines do not fit into an MPB of {lines} lines, from line {first_line} \
     on: use shorter chunks, or open the MPBs with more lines"
)]
pub struct NoRoom {
    /// The number of lines for flags.
    pub flags: usize,
    /// The number of lines in a chunk.
    pub chunk_lines: usize,
    /// The first line that may be used.
    pub first_line: usize,
    /// The lines that an MPB has.
    pub lines: usize,
}

/// Allows rank code to return it with `?`.
impl From<NoRoom> for mp_core::Error {
    fn from(error: NoRoom) -> Self {
        Self::other(error)
    }
}

impl TwoSided {
    /// Creates two-sided messages in chunks of this many lines. The lines from `first_line` on belong to this alone and
    /// are initially zero.
    ///
    /// # Errors
    /// [`NoRoom`], also for chunks without lines.
    pub fn new<M: MpbAccess>(
        mpb: &M,
        first_line: usize,
        chunk_lines: usize,
    ) -> Result<Self, NoRoom> {
        let (ranks, lines) = (mpb.ranks(), mpb.lines());
        let flags = ranks.saturating_mul(2);
        let end = first_line.checked_add(flags).and_then(|end| end.checked_add(chunk_lines));
        match end {
            Some(end) if end <= lines && chunk_lines > 0 => Ok(TwoSided {
                first_line,
                chunk_lines,
                chunk_bytes: chunk_lines * mpb.line_bytes(),
                sent: vec![0; ranks],
                taken: vec![0; ranks],
            }),
            _ => Err(NoRoom { flags, chunk_lines, first_line, lines }),
        }
    }

    /// Returns the number of lines in a chunk.
    pub fn chunk_lines(&self) -> usize {
        self.chunk_lines
    }

    /// Sends to a rank that receives as many bytes. If there are none, nothing is sent.
    ///
    /// # Errors
    /// [`Misfit::Rank`], and the errors of the MPBs.
    pub async fn send<M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        message: &[u8],
        to: usize,
    ) -> Result<(), M::Error>
    where
        M::Error: From<Misfit>,
    {
        let (me, ranks) = (mpb.rank(), self.sent.len());
        let (sent, taken, buffer) = (self.sent_line(me), self.taken_line(to), self.buffer_line());
        let count = self.sent.get_mut(to).ok_or(Misfit::Rank { rank: to, ranks })?;
        for chunk in message.chunks(self.chunk_bytes) {
            *count += 1;
            mpb.put(chunk, Line { rank: me, line: buffer }).await?;
            mpb.set_flag(Line { rank: to, line: sent }, *count).await?;
            mpb.wait_flag_from(to, taken, |value| value == *count).await?;
        }
        Ok(())
    }

    /// Receives from a rank that sends as many bytes.
    ///
    /// # Errors
    /// [`Misfit::Rank`], and the errors of the MPBs.
    pub async fn receive<M: MpbAccess>(
        &mut self,
        mpb: &mut M,
        message: &mut [u8],
        from: usize,
    ) -> Result<(), M::Error>
    where
        M::Error: From<Misfit>,
    {
        let (me, ranks) = (mpb.rank(), self.taken.len());
        let (sent, taken, buffer) = (self.sent_line(from), self.taken_line(me), self.buffer_line());
        let count = self.taken.get_mut(from).ok_or(Misfit::Rank { rank: from, ranks })?;
        for chunk in message.chunks_mut(self.chunk_bytes) {
            *count += 1;
            mpb.wait_flag_from(from, sent, |value| value == *count).await?;
            mpb.get(Line { rank: from, line: buffer }, chunk).await?;
            mpb.set_flag(Line { rank: from, line: taken }, *count).await?;
        }
        Ok(())
    }

    fn sent_line(&self, rank: usize) -> usize {
        self.first_line.saturating_add(rank)
    }

    fn taken_line(&self, rank: usize) -> usize {
        self.sent_line(self.sent.len()).saturating_add(rank)
    }

    fn buffer_line(&self) -> usize {
        self.first_line + 2 * self.sent.len()
    }
}
