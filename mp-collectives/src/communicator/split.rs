//! Communicators that are made from others.

use mp_core::Result;
use mp_core::topology::{Topology, current_affinity};

use crate::communicator::{
    agreement::together::Together, digest::digest, group::Group, members::Members,
    point_to_point::Communicator,
};
use crate::errors::bad_call;

/// The hardware unit by which [`split_shared`](Communicator::split_shared) groups ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Shared {
    /// A processor package, or socket.
    Package,
    /// A last-level cache, usually an L3.
    Cache,
    /// A physical core, shared by its hardware threads.
    Core,
}

impl Communicator {
    /// Makes a communicator of the same ranks in a context of their own (`MPI_Comm_dup`). All ranks must call it.
    ///
    /// # Errors
    /// As [`split`](Self::split).
    pub fn duplicate(&self) -> Result<Self> {
        let agreed = self.decide_together(Together::Duplicate, [0; 3])?;
        Ok(self.of(self.members.anew(&self.name_of(Together::Duplicate)), agreed.context))
    }

    /// Makes a communicator for each color, of the ranks that name it, ordered by key and then by rank
    /// (`MPI_Comm_split`). All ranks must call it; a rank without a color gets no communicator (`MPI_UNDEFINED`).
    ///
    /// ```
    /// use onchip::Communicator;
    ///
    /// onchip::World::threads(5).run(|rank| {
    ///     let world = Communicator::world(rank);
    ///     // The odd ranks and the even ranks are each in reverse order.
    ///     let half = world.split(Some(world.rank() as u64 % 2), -(world.rank() as i64))?;
    ///     let half = half.expect("every rank names a color");
    ///     assert_eq!(half.world_rank(0)?, if world.rank() % 2 == 0 { 4 } else { 3 });
    ///     Ok(())
    /// })?;
    /// # Ok::<(), onchip::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`PeerLost`](mp_core::ErrorKind::PeerLost) and [`PeerEnded`](mp_core::ErrorKind::PeerEnded) for every rank when
    /// one rank can't take part; [`CallsDiffer`](mp_core::ErrorKind::CallsDiffer) for all ranks when one has called
    /// something else. When the communicator is [revoked](Self::revoke) during the call, some ranks may get their new
    /// communicator and others [`Revoked`](mp_core::ErrorKind::Revoked). The ranks that have it would wait there for
    /// the others. Therefore, if ranks may be lost, a rank whose call failed revokes the communicator, and then all
    /// ranks [agree](Self::agree) whether the call has succeeded.
    pub fn split(&self, color: impl Into<Option<u64>>, key: i64) -> Result<Option<Self>> {
        let color: Option<u64> = color.into();
        let mine = [color.is_some().into(), color.unwrap_or(0), key as u64];
        let agreed = self.decide_together(Together::Split, mine)?;
        if color.is_none() {
            return Ok(None);
        }
        let mut alike: Vec<(i64, usize)> = (agreed.rows.iter().enumerate())
            .filter(|(_, row)| row[..2] == mine[..2])
            .map(|(rank, row)| (row[2] as i64, rank))
            .collect();
        alike.sort_unstable();
        let (ranks, name) =
            (alike.into_iter().map(|(_, rank)| rank), self.name_of(Together::Split));
        self.of_ranks(ranks, agreed.context, &name).map(Some)
    }

    /// Makes a communicator for each package, cache or core, of the ranks that run there (`MPI_Comm_split_type`). All
    /// ranks must call it. Ranks that are not bound to one of these units ([`World::bind`](mp_core::World::bind)) do
    /// not certainly share one. Each of them is alone, unless the machine has only one unit.
    ///
    /// # Errors
    /// As [`split`](Self::split), and [`Topology`](mp_core::ErrorKind::Topology) when the machine can't be
    /// read.
    pub fn split_shared(&self, shared: Shared) -> Result<Self> {
        let unit = Topology::read().map(|topology| unit(&topology, shared));
        // The others must not wait for a rank that fails here, so this rank takes part before it returns the error.
        let alone = (1 << 32) + self.rank() as u64;
        let color = unit.as_ref().ok().copied().flatten().map_or(alone, |unit| unit as u64);
        let split = self.split(color, 0)?;
        unit.map_err(mp_core::Error::from)?;
        match split {
            Some(split) => Ok(split),
            None => Err(bad_call("every rank names a color")),
        }
    }

    /// Makes a communicator of a group, which is a part of this one (`MPI_Comm_create`). All ranks must call it with
    /// the same group; ranks that are not in the group get `None`.
    ///
    /// # Errors
    /// As [`split`](Self::split); [`BadCall`](mp_core::ErrorKind::BadCall) for all ranks when the groups differ, or
    /// contain ranks that this communicator does not have.
    pub fn create(&self, group: &Group) -> Result<Option<Self>> {
        let part = group.world_ranks().iter().all(|&rank| self.members.local(rank).is_some());
        let number = digest(group.world_ranks().iter().map(|&rank| rank.into()));
        let agreed = self.decide_together(Together::Create, [number, part.into(), 0])?;
        if let Some(rank) = agreed.rows.iter().position(|row| row[1] == 0) {
            return Err(bad_call(format!(
                "the group of rank {rank} has ranks of other communicators"
            )));
        }
        if let Some(rank) = agreed.rows.iter().position(|row| *row != agreed.rows[0]) {
            return Err(bad_call(format!(
                "ranks 0 and {rank} named different groups: all ranks must name the same one"
            )));
        }
        if group.rank().is_none() {
            return Ok(None);
        }
        let name = self.name_of(Together::Create);
        let members = Members::new(group.world_ranks().to_vec(), self.engine.me, &name);
        Ok(Some(self.of(members, agreed.context)))
    }

    /// Makes a communicator named `name` of some of the ranks, including this one.
    pub(crate) fn of_ranks(
        &self,
        ranks: impl IntoIterator<Item = usize>,
        context: u32,
        name: &str,
    ) -> Result<Self> {
        let world: Result<Vec<u32>> = ranks.into_iter().map(|rank| self.to_world(rank)).collect();
        Ok(self.of(Members::new(world?, self.engine.me, name), context))
    }
}

/// Returns the package, cache or core to which this thread is bound.
fn unit(topology: &Topology, shared: Shared) -> Option<usize> {
    let cpus = current_affinity().unwrap_or_else(|| topology.online().clone());
    let mut units = cpus.iter().filter_map(|cpu| {
        let core = topology.core_of(cpu)?;
        let complex = topology.cores()[core].complex;
        Some(match shared {
            Shared::Core => core,
            Shared::Cache => complex,
            Shared::Package => topology.complexes()[complex].package,
        })
    });
    let first = units.next()?;
    units.all(|unit| unit == first).then_some(first)
}
