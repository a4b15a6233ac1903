//! What operations are made of that all ranks of a communicator call together.

use std::any::Any;

use mp_core::{Plain, Rank};

use crate::{
    communicator::{Communicator, OWN_TAGS, Stream},
    elements::misuse,
    error::Result,
    exchange::Exchange,
    status::{Source, Status, Tag},
};

/// A communicator as an operation sees it that all its ranks call together: with a stream of
/// messages of its own, which no message of the program gets into, a name for what the ranks share
/// besides, and a place to keep it. For crates that bring further such operations.
///
/// ```
/// use mp_comm::{Communicator, Result};
///
/// /// The sum of all ranks' numbers, in every rank.
/// fn sum(communicator: &Communicator, number: u64) -> Result<u64> {
///     let joint = communicator.joint();
///     let (me, size) = (communicator.rank(), communicator.size());
///     if me > 0 {
///         joint.send(&[number], 0, 1)?;
///         let mut sum = [0];
///         joint.receive_into(&mut sum, 0, 1)?;
///         return Ok(sum[0]);
///     }
///     let mut sum = number;
///     let mut more = [0];
///     for other in 1..size {
///         joint.receive_into(&mut more, other, 1)?;
///         sum += more[0];
///     }
///     (1..size).try_for_each(|other| joint.send(&[sum], other, 1))?;
///     Ok(sum)
/// }
///
/// mp_core::World::threads(3).run(|rank| {
///     let world = Communicator::world(rank);
///     assert_eq!(sum(&world, rank.id() as u64 + 1)?, 6);
///     Ok(())
/// })?;
/// # Ok::<(), mp_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Joint<'a> {
    communicator: &'a Communicator,
}

impl Communicator {
    /// What operations are made of that all ranks call together.
    pub fn joint(&self) -> Joint<'_> {
        Joint { communicator: self }
    }
}

impl<'a> Joint<'a> {
    /// The communicator.
    pub fn communicator(self) -> &'a Communicator {
        self.communicator
    }

    /// This rank of the world, to open channels and make buffers.
    pub fn rank(self) -> Rank {
        self.communicator.engine.borrow().rank.clone()
    }

    /// The world's numbers of the ranks.
    pub fn world_ranks(self) -> Vec<usize> {
        self.communicator.members.all().iter().map(|&rank| rank as usize).collect()
    }

    /// A name for the channels of `what`: the same in all ranks of this communicator, and of no
    /// other among them.
    pub fn name(self, what: &str) -> String {
        let serial = self.communicator.engine.borrow().serial();
        format!("communicator {serial}.{}: {what}", self.communicator.context)
    }

    /// What was made for this communicator at the first call for this type, and is kept with it. To
    /// find it again costs about a nanosecond.
    ///
    /// # Errors
    /// Those of `make`, after which nothing is kept.
    #[inline]
    pub fn keep<T: Any>(self, make: impl FnOnce(Self) -> Result<T>) -> Result<&'a T> {
        match self.communicator.kept.get() {
            Some(found) => Ok(found),
            None => self.keep_new(make),
        }
    }

    #[cold]
    fn keep_new<T: Any>(self, make: impl FnOnce(Self) -> Result<T>) -> Result<&'a T> {
        let made = make(self)?;
        self.communicator.kept.push(made);
        match self.communicator.kept.get() {
            Some(found) => Ok(found),
            None => misuse("what was kept is gone"),
        }
    }

    /// [`Communicator::send`] in the stream of joint operations.
    ///
    /// # Errors
    /// As that; [`Error::Misuse`](crate::Error::Misuse) for tags from 2³¹ on.
    #[inline]
    pub fn send<T: Plain>(self, elements: &[T], to: usize, tag: u32) -> Result<()> {
        self.check_tag(tag)?;
        self.communicator.send_in(Stream::Together, elements, to, tag)
    }

    /// [`Communicator::receive_into`] in the stream of joint operations.
    ///
    /// # Errors
    /// As that.
    #[inline]
    pub fn receive_into<T: Plain>(self, into: &mut [T], source: usize, tag: u32) -> Result<Status> {
        self.check_tag(tag)?;
        let (source, tag) = (Source::Rank(source), Tag::Is(tag));
        self.communicator.receive_in(Stream::Together, into, source, tag, false)
    }

    /// [`Communicator::exchange`] in the stream of joint operations.
    pub fn exchange(self) -> Exchange<'a> {
        self.communicator.exchange_in(Stream::Together)
    }

    #[inline]
    fn check_tag(self, tag: u32) -> Result<()> {
        if tag < OWN_TAGS { Ok(()) } else { misuse(format!("tag {tag} of a joint operation")) }
    }
}
