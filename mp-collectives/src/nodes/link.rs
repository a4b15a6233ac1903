//! The channels between two ranks of different nodes.

use mp_core::{Channel, Error, ErrorKind, Rank, Receiver, Result, Sender, Wait};

use crate::communicator::error::lost;
use crate::members::names;

/// The number of bytes in a piece of a long message.
pub(super) const PIECE: usize = 64 << 10;
/// See the [module](super).
const PENDING: u32 = 4;

/// The channels to and from another rank.
pub(super) struct Link {
    /// The other rank, by its number in the communicator.
    other: usize,
    to: Sender<[u8]>,
    from: Receiver<[u8]>,
    /// Tells why this rank closes its ends: the rank of the world that was lost.
    tell: Sender<u64>,
    told: Receiver<u64>,
}

impl Link {
    /// Opens the channels to and from rank `other` of the communicator, which is rank `there` of the world. Does not wait
    /// until that rank opens its ends.
    pub(super) fn open(
        rank: &Rank,
        name: &str,
        (other, there): (usize, usize),
        wait: Wait,
    ) -> Result<Self> {
        let channel = |degree| names::COMMUNICATORS.channel(Channel::degree(degree));
        let (pieces, tells) = (channel(PENDING).max_len(PIECE), channel(1));
        let why = format!("{name}, lost");
        // These come first, because the other rank looks for them when it finds the others closed.
        let (tell, told) = (rank.sender(&why, there, tells)?, rank.receiver(&why, there, tells)?);
        let mut to = rank.sender(name, there, pieces)?;
        let from = rank.receiver(name, there, pieces)?;
        to.set_wait(wait);
        from.set_wait(wait);
        told.set_wait(wait);
        Ok(Self { other, to, from, tell, told })
    }

    /// Sends a piece.
    pub(super) fn send(&mut self, piece: &[u8]) -> Result<()> {
        self.to.send(piece).map_err(|error| self.why(error))
    }

    /// Receives a piece of the same length.
    pub(super) fn receive(&mut self, into: &mut [u8]) -> Result<()> {
        let piece = self.from.receive().map_err(|error| self.why(error))?;
        if piece.len() != into.len() {
            let (source_rank, bytes, room) = (self.other, piece.len(), into.len());
            return Err(ErrorKind::BlockTooLong { source_rank, bytes, room }.into());
        }
        into.copy_from_slice(&piece);
        Ok(())
    }

    /// Sends a message of any length. The receiver need not know the length.
    pub(super) fn send_all(&mut self, message: &[u8]) -> Result<()> {
        self.send(&(message.len() as u64).to_le_bytes())?;
        message.chunks(PIECE).try_for_each(|piece| self.send(piece))
    }

    /// Receives a message of any length.
    pub(super) fn receive_all(&mut self) -> Result<Vec<u8>> {
        let mut message = vec![0; self.receive_length()?];
        message.chunks_mut(PIECE).try_for_each(|piece| self.receive(piece))?;
        Ok(message)
    }

    /// Receives the length of a message.
    pub(super) fn receive_length(&mut self) -> Result<usize> {
        let mut length = [0; 8];
        self.receive(&mut length)?;
        Ok(u64::from_le_bytes(length) as usize)
    }

    /// Tells the other rank that a rank was lost.
    pub(super) fn tell(&mut self, lost: usize) {
        // This is the only message, so there is room. If the other rank is gone, it need not know.
        let _ = self.tell.try_send(&(lost as u64));
    }

    /// Returns what the other rank has told of the loss for which it has closed its ends.
    #[cold]
    fn why(&self, error: Error) -> Error {
        match error.kind() {
            // It closes all its ends together.
            ErrorKind::Disconnected { .. } | ErrorKind::PeerEnded { .. } => {
                match self.told.receive() {
                    Ok(rank) => lost(*rank as usize, *rank as usize),
                    Err(_) => error,
                }
            }
            _ => error,
        }
    }
}
