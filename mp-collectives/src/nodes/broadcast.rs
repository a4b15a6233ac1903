//! Broadcasts between nodes: along a tree of leaders, piece by piece.

use mp_core::{Plain, Result};
use mp_model::nodes::leaders::{PIECE, above, below};

use super::Nodes;
use super::waiting::Waiting;

impl<M: Waiting> Nodes<M> {
    /// Sends the root's message to all ranks.
    pub(crate) async fn broadcast<T: Plain>(
        &mut self,
        message: &mut [T],
        root: usize,
    ) -> Result<()> {
        let message: &mut [u8] = bytemuck::cast_slice_mut(message);
        let (from, place) = self.place(root)?;
        self.begin()?;
        for piece in message.chunks_mut(PIECE) {
            if self.mine != from {
                if self.leads() {
                    self.receive_along(piece, from).await?;
                    self.send_along(piece, from).await?;
                }
                self.here.broadcast(piece, 0).await?;
                continue;
            }
            if self.me == root && self.leads() {
                self.send_along(piece, from).await?;
                self.here.broadcast(piece, 0).await?;
                continue;
            }
            self.here.broadcast(piece, place).await?;
            if self.leads() {
                self.send_along(piece, from).await?;
            }
        }
        Ok(())
    }

    /// Sends a piece to the leaders below this one in the tree from a group.
    async fn send_along(&mut self, piece: &[u8], from: usize) -> Result<()> {
        let groups = self.groups.len();
        for child in below((self.mine + groups - from) % groups, groups) {
            self.link((child + from) % groups)?.send(piece).await?;
        }
        Ok(())
    }

    /// Receives a piece from the leader above this one in the tree from another group, if there is one.
    async fn receive_along(&mut self, piece: &mut [u8], from: usize) -> Result<()> {
        let groups = self.groups.len();
        let Some(parent) = above((self.mine + groups - from) % groups) else { return Ok(()) };
        self.link((parent + from) % groups)?.receive(piece).await
    }
}
