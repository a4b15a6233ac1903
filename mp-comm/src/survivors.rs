//! What the ranks of a communicator that live do about those that were lost (User Level Failure Mitigation).

use crate::communicator::Communicator;

impl Communicator {
    /// Returns the ranks that are known to be lost: they panicked or died (`MPI_Comm_get_failed`). In
    /// ascending order. Who has ended in order, with an error too, is not lost.
    pub fn failed_ranks(&self) -> Vec<usize> {
        let engine = self.engine.borrow();
        let world = self.members.all().iter().enumerate();
        let lost = world.filter(|&(_, &world)| engine.rank.is_lost(world as usize));
        lost.map(|(rank, _)| rank).collect()
    }

    /// Acknowledges all [lost ranks](Self::failed_ranks), and returns them (`MPI_Comm_ack_failed`): from now
    /// on receives and probes of this rank from any source wait in this communicator for the others.
    ///
    /// As long as a rank of the communicator is lost and was not acknowledged, each receive from any source
    /// fails with [`PeerLost`](crate::Error::PeerLost) that no message has come for: it may be the one that
    /// was to come from there. What the lost rank had sent is received before. A receive that was posted
    /// before fails when it is waited for or tested, and gives its buffer back. It takes no message then, so
    /// that none is lost: the next receive gets it.
    ///
    /// ```
    /// use mp_comm::{ANY_SOURCE, Communicator, Error};
    ///
    /// let ran = mp_core::World::threads(3).run(|rank| {
    ///     let world = Communicator::world(rank);
    ///     match world.rank() {
    ///         0 => {
    ///             let first = world.receive::<u8>(ANY_SOURCE, 1);
    ///             assert!(matches!(first, Err(Error::PeerLost { rank: 2, .. })));
    ///             assert_eq!(world.acknowledge(), [2]);
    ///             // So that rank 1 does not send before.
    ///             world.send(&[0u8], 1, 0)?;
    ///             assert_eq!(world.receive::<u8>(ANY_SOURCE, 1)?.0, 7);
    ///         }
    ///         1 => {
    ///             world.receive::<u8>(0, 0)?;
    ///             world.send(&[7u8], 0, 1)?;
    ///         }
    ///         _ => panic!("on purpose"),
    ///     }
    ///     Ok(())
    /// });
    /// assert!(ran.unwrap_err().to_string().contains("on purpose"));
    /// ```
    pub fn acknowledge(&self) -> Vec<usize> {
        let lost = self.failed_ranks();
        let world: Vec<u32> = lost.iter().filter_map(|&rank| self.members.world(rank)).collect();
        self.members.acknowledge(&world);
        lost
    }
}
