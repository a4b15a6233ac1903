//! Broadcasts between nodes: along a tree of leaders, piece by piece.

use mp_core::{Plain, Result};

use super::{Nodes, PIECE};

impl Nodes {
    /// Sends the root's message to all ranks.
    pub(crate) fn broadcast<T: Plain>(&mut self, message: &mut [T], root: usize) -> Result<()> {
        let message: &mut [u8] = bytemuck::cast_slice_mut(message);
        self.begin()?;
        let (from, place) = self.place(root);
        for piece in message.chunks_mut(PIECE) {
            if self.mine != from {
                if self.leads() {
                    self.receive_along(piece, from)?;
                    self.send_along(piece, from)?;
                }
                self.here.broadcast(piece, 0)?;
                continue;
            }
            if self.me == root && self.leads() {
                self.send_along(piece, from)?;
                self.here.broadcast(piece, 0)?;
                continue;
            }
            self.here.broadcast(piece, place)?;
            if self.leads() {
                self.send_along(piece, from)?;
            }
        }
        Ok(())
    }

    /// Sends a piece to the leaders below this one in the tree from a group.
    fn send_along(&mut self, piece: &[u8], from: usize) -> Result<()> {
        let groups = self.groups.len();
        let place = (self.mine + groups - from) % groups;
        for child in [2 * place + 1, 2 * place + 2].into_iter().filter(|&child| child < groups) {
            self.link((child + from) % groups)?.send(piece)?;
        }
        Ok(())
    }

    /// Receives a piece from the leader above this one in the tree from another group.
    fn receive_along(&mut self, piece: &mut [u8], from: usize) -> Result<()> {
        let groups = self.groups.len();
        let place = (self.mine + groups - from) % groups;
        self.link(((place - 1) / 2 + from) % groups)?.receive(piece)
    }
}
