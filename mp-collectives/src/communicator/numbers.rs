//! Communicators that some ranks make without the others.
//!
//! The numbers of communicators have two halves. The ranks agree on those of the lower half. Those of the upper half
//! are shared out among the ranks of the world: one rank takes a number of its own for a new communicator, and tells it
//! to the other members.

use mp_core::Result;

use crate::communicator::{
    agreement::joint::Joint, members::Members, point_to_point::Communicator,
};
use crate::errors::bad_call;

/// The first number of the upper half.
pub(crate) const FIRST: u32 = 1 << 30;
/// The number of the communicator of everyone, at the end of the upper half. A number has one more bit in messages, which
/// distinguishes the streams.
const END: u32 = (1 << 31) - 1;

impl Joint<'_> {
    /// Returns a number that no communicator of the world has or will have, for a [new
    /// communicator](Self::communicator_of).
    ///
    /// # Errors
    /// [`BadCall`](mp_core::ErrorKind::BadCall) when this rank has used up its numbers.
    pub fn number(self) -> Result<u32> {
        let engine = &self.communicator().engine;
        let taken = engine.numbers.get();
        let number =
            u64::from(FIRST) + u64::from(taken) * engine.rank.room() as u64 + u64::from(engine.me);
        match u32::try_from(number) {
            Ok(number @ FIRST..END) => {
                engine.numbers.set(taken + 1);
                Ok(number)
            }
            _ => Err(bad_call(
                "this rank has no numbers for further communicators: reuse communicators",
            )),
        }
    }

    /// Makes a communicator of all ranks that the world has or will have, by their numbers in the world, over the channels
    /// of this communicator. Each rank may make it once, when it wants to, and others that make it can send to it and
    /// receive from it. It is for ranks that have no other communicator in common yet.
    #[doc(hidden)]
    pub fn everyone(self) -> Communicator {
        let communicator = self.communicator();
        let (size, me) = (communicator.engine.rank.room(), communicator.engine.me);
        let all = (0..size as u32).collect();
        communicator.of(Members::new(all, me, "everyone"), END)
    }

    /// Makes a communicator of these ranks of the world, in this order, over the channels of this communicator. Only
    /// they call this, each of them, with a number that one of them has got from [`number`](Self::number) for this
    /// communicator. Nothing is sent, so that ranks may use the communicator before others have made it.
    ///
    /// ```
    /// use onchip::Communicator;
    ///
    /// onchip::World::threads(3).run(|rank| {
    ///     let world = Communicator::world(rank);
    ///     let joint = world.joint();
    ///     let mut number = [0];
    ///     match world.rank() {
    ///         // Rank 0 takes no part.
    ///         0 => return Ok(()),
    ///         1 => drop(world.receive_into(&mut number, 2, 0)?),
    ///         _ => {
    ///             number = [joint.number()?];
    ///             world.send(&number, 1, 0)?;
    ///         }
    ///     }
    ///     let pair = joint.communicator_of(&[2, 1], number[0], "pair")?;
    ///     assert_eq!((pair.rank(), pair.size()), (2 - world.rank(), 2));
    ///     pair.barrier()?;
    ///     Ok(())
    /// })?;
    /// # Ok::<(), onchip::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`BadCall`](mp_core::ErrorKind::BadCall) when this rank is not among the ranks, or when there is no such rank or
    /// number.
    pub fn communicator_of(
        self,
        world_ranks: &[usize],
        number: u32,
        name: &str,
    ) -> Result<Communicator> {
        let communicator = self.communicator();
        let (size, me) = (communicator.engine.rank.room(), communicator.engine.me);
        let is_there = world_ranks.iter().all(|&rank| rank < size);
        if !is_there || !world_ranks.contains(&(me as usize)) || !(FIRST..END).contains(&number) {
            return Err(bad_call(format!(
                "rank {me} can't make communicator {number} of the ranks {world_ranks:?} of {size}"
            )));
        }
        let world = world_ranks.iter().map(|&rank| rank as u32).collect();
        Ok(communicator.of(Members::new(world, me, name), number))
    }
}
