//! Building blocks of operations that all ranks of a communicator call together.

use std::{
    any::Any,
    rc::Rc,
    sync::{Arc, Weak},
};

use mp_core::{Buffer, BufferMut, Plain, Rank, Result, progress::Helper};

use crate::communicator::{
    agreement::board::{Board, Whose},
    agreement::check::Check,
    error::revoked,
    members::Members,
    point_to_point::{Communicator, OWN_TAGS, Stream},
    requests::{
        exchange::Exchange,
        request::{ReceiveRequest, SendRequest},
    },
    status::{Source, Status, Tag},
    title::Title,
};
use crate::errors::bad_call;

/// A communicator from the point of view of an operation that all its ranks call together. It provides a stream of
/// messages that is separate from the program's messages, names for other things that the ranks share, and a place to
/// keep these things. It is for crates that add further such operations.
///
/// ```
/// use onchip::{Communicator, Result};
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
/// onchip::World::threads(3).run(|rank| {
///     let world = Communicator::world(rank);
///     assert_eq!(sum(&world, rank.id() as u64 + 1)?, 6);
///     Ok(())
/// })?;
/// # Ok::<(), onchip::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Joint<'a> {
    communicator: &'a Communicator,
}

/// See [`Joint::revocation`].
#[derive(Clone, Debug)]
pub(crate) struct Revocation {
    rank: Rank,
    members: Weak<Members>,
    whose: Whose,
}

impl Revocation {
    /// Returns an error if the communicator is revoked.
    pub(crate) fn check(&self) -> Result<()> {
        let Some(members) = self.members.upgrade() else { return Ok(()) };
        match members.is_revoked() || members.looks_revoked(&self.rank, self.whose)? {
            true => Err(revoked()),
            false => Ok(()),
        }
    }
}

impl Communicator {
    /// Returns the building blocks of operations that all ranks call together.
    pub fn joint(&self) -> Joint<'_> {
        Joint { communicator: self }
    }
}

impl<'a> Joint<'a> {
    /// Returns the communicator.
    pub fn communicator(self) -> &'a Communicator {
        self.communicator
    }

    /// Returns this rank of the world, with which channels are opened and buffers made.
    pub fn rank(self) -> Rank {
        self.communicator.engine.rank.clone()
    }

    /// Returns [`Revoked`](mp_core::ErrorKind::Revoked) if the communicator was [revoked](Communicator::revoke). This
    /// is for operations that begin with something other than messages of this stream. Ranks that have opened message
    /// passing buffers call this once more afterwards. A later revocation ends all waits in these buffers.
    ///
    /// # Errors
    /// [`Revoked`](mp_core::ErrorKind::Revoked).
    #[inline(always)]
    pub fn check_revoked(self) -> Result<()> {
        self.communicator.check_revoked()
    }

    /// Returns what tells any thread of this rank whether the communicator is revoked.
    pub(crate) fn revocation(self) -> Revocation {
        let Communicator { engine, members, .. } = self.communicator;
        let (rank, members) = (engine.rank.clone(), Arc::downgrade(members));
        Revocation { rank, members, whose: self.whose() }
    }

    pub(crate) fn whose(self) -> Whose {
        let Communicator { engine, context, .. } = self.communicator;
        Whose { serial: engine.serial, context: *context }
    }

    /// Returns the communicator's board, which is opened first if it is not open.
    pub(crate) fn board(self) -> Result<Arc<Board>> {
        let Communicator { engine, members, context, .. } = self.communicator;
        engine.work().board(*context, members)
    }

    /// Returns the ranks' numbers in the world.
    pub fn world_ranks(self) -> Vec<usize> {
        self.communicator.members.all().iter().map(|&rank| rank as usize).collect()
    }

    /// Returns a name for the channels or message passing buffers of `what`. It is the same in all ranks of this
    /// communicator, and differs from the names of all other communicators of these ranks. MPBs of such a name are
    /// revoked with the communicator.
    pub fn name(self, what: &str) -> String {
        format!("{}{what}", self.whose().prefix())
    }

    /// Returns the title by which reports describe the communicator.
    pub(crate) fn title(self) -> Arc<Title> {
        Arc::clone(&self.communicator.members.title)
    }

    /// Returns the value that was made for this communicator at the first call for this type, and that is kept with it.
    /// Finding it again costs about a nanosecond.
    ///
    /// # Errors
    /// Those of `make`. After an error, nothing is kept.
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
            None => Err(bad_call("what was just kept in the communicator is gone")),
        }
    }

    /// Stores a value, such as a setting, in this communicator. Communicators that are made from this one from now on
    /// inherit it, and so do those made from them. It replaces a value of the same type.
    pub fn hand_down<T: Any>(self, value: T) {
        let mut all = self.communicator.handed_down.borrow_mut();
        all.retain(|other| !other.is::<T>());
        all.push(Rc::new(value));
    }

    /// Returns the value of this type that was stored in this communicator, or that it inherited when it was made.
    ///
    /// ```
    /// use onchip::Communicator;
    ///
    /// onchip::World::threads(2).run(|rank| {
    ///     let world = Communicator::world(rank);
    ///     let before = world.duplicate()?;
    ///     world.joint().hand_down(7u8);
    ///     let copy = world.duplicate()?;
    ///     assert_eq!(copy.joint().handed_down::<u8>().as_deref(), Some(&7));
    ///     assert_eq!(before.joint().handed_down::<u8>(), None);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), onchip::Error>(())
    /// ```
    pub fn handed_down<T: Any>(self) -> Option<Rc<T>> {
        let all = self.communicator.handed_down.borrow();
        all.iter().find_map(|value| Rc::clone(value).downcast().ok())
    }

    /// Sets the helper that advances the tagged messages of this rank between its calls: those of all communicators
    /// made from the same [`world`](Communicator::world). With `None`, which is the initial state, they make progress
    /// only during the rank's calls.
    ///
    /// A call that ends with pending operations lends them to the helper, and the next call takes them back. That call
    /// waits at most until the helper has moved what can be moved at that moment.
    pub fn lend_messages_to(self, helper: Option<Box<dyn Helper>>) {
        self.communicator.engine.lend_to(helper);
    }

    /// Sets whether ranks compare their collective calls, from the next call on. This also applies to communicators
    /// that are made from this one from now on. All ranks must set the same value between the same calls.
    pub fn set_check(self, check: Check) {
        self.communicator.set_check(check);
    }

    /// Returns whether ranks compare their collective calls.
    #[inline(always)]
    pub fn checks(self) -> bool {
        self.communicator.checks()
    }

    /// Works like [`Communicator::send`], in the stream of joint operations.
    ///
    /// # Errors
    /// As `Communicator::send`; [`BadCall`](mp_core::ErrorKind::BadCall) for tags from 2³¹ on.
    #[inline]
    pub fn send<T: Plain>(self, elements: &[T], to: usize, tag: u32) -> Result<()> {
        self.check_tag(tag)?;
        self.communicator.send_in(Stream::Together, elements, to, tag)
    }

    /// Works like [`Communicator::receive_into`], in the stream of joint operations. A message that it refuses is
    /// dropped, so the next operation does not find it.
    ///
    /// # Errors
    /// As `Communicator::receive_into`.
    #[inline]
    pub fn receive_into<T: Plain>(self, into: &mut [T], source: usize, tag: u32) -> Result<Status> {
        self.check_tag(tag)?;
        let (source, tag) = (Source::Rank(source), Tag::Is(tag));
        self.communicator.receive_in(Stream::Together, into, source, tag, false)
    }

    /// Works like [`Communicator::nonblocking_send`], in the stream of joint operations.
    ///
    /// # Errors
    /// [`BadCall`](mp_core::ErrorKind::BadCall) for tags from 2³¹ on. The request returns all other errors.
    pub fn nonblocking_send<B: Buffer + 'static>(
        self,
        buffer: B,
        to: usize,
        tag: u32,
    ) -> Result<SendRequest<B>> {
        self.check_tag(tag)?;
        Ok(self.communicator.send_meanwhile(Stream::Together, buffer, to, tag, false))
    }

    /// Works like [`Communicator::nonblocking_receive`], in the stream of joint operations. A message that it refuses is
    /// dropped, so the next operation does not find it.
    ///
    /// # Errors
    /// [`BadCall`](mp_core::ErrorKind::BadCall) for tags from 2³¹ on. The request returns all other errors.
    pub fn nonblocking_receive<B: BufferMut>(
        self,
        buffer: B,
        source: usize,
        tag: u32,
    ) -> Result<ReceiveRequest<B>> {
        self.check_tag(tag)?;
        let (source, tag) = (Source::Rank(source), Tag::Is(tag));
        Ok(self.communicator.receive_meanwhile(Stream::Together, buffer, source, tag))
    }

    /// Works like [`Communicator::exchange`], in the stream of joint operations.
    pub fn exchange(self) -> Exchange<'a> {
        self.communicator.exchange_in(Stream::Together)
    }

    #[inline]
    fn check_tag(self, tag: u32) -> Result<()> {
        if tag < OWN_TAGS {
            Ok(())
        } else {
            Err(bad_call(format!(
                "tag {tag} is not one of a joint operation: use one below {OWN_TAGS}"
            )))
        }
    }
}
