//! The handle of a rank, which rank code uses.

use std::{
    any::{Any, type_name},
    ops::Range,
    ptr::NonNull,
    rc::Rc,
    sync::Arc,
};

use super::at_end;
use crate::{
    buffer::SharedBuffer,
    channel::{
        self, Agreement, Apart, Callers, Channel, ChannelSpec, End, Opened, Receiver, Sender,
    },
    context::{Context, RankControl, RankState, WorldControl},
    copy::overwrites_lines,
    direct::{self, WorldMemory},
    error::{ErrorKind, Result},
    loan::{Borrower, Lender},
    mpb::{Mpb, Mpbs},
    plain::{Message, Plain},
    sync::{AtomicU64, Ordering},
    topology::{Seat, second_level_cache},
    wait::{
        News,
        progress::{self, Part},
    },
};

/// One rank of a world, for use by that rank's code. A clone is the same rank, for a structure that needs to keep it.
#[derive(Clone, Debug)]
pub struct Rank {
    context: Arc<Context>,
}

/// The ranks at the two ends of a shared channel, for [`Rank::shared_sender`] and [`Rank::shared_receiver`]. All of
/// these ranks must name the same senders and receivers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints {
    senders: Vec<usize>,
    receivers: Vec<usize>,
}

impl Endpoints {
    /// Names the ranks at both ends, in any order. Naming a rank twice is the same as naming it once.
    pub fn new(
        senders: impl IntoIterator<Item = usize>,
        receivers: impl IntoIterator<Item = usize>,
    ) -> Self {
        let sorted = |ranks: &mut Vec<usize>| {
            ranks.sort_unstable();
            ranks.dedup();
        };
        let mut endpoints = Self {
            senders: senders.into_iter().collect(),
            receivers: receivers.into_iter().collect(),
        };
        sorted(&mut endpoints.senders);
        sorted(&mut endpoints.receivers);
        endpoints
    }
}

impl Rank {
    pub(crate) fn new(context: Arc<Context>) -> Self {
        Self { context }
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Returns this rank's number, from 0.
    pub fn id(&self) -> usize {
        self.context.me as usize
    }

    /// Returns the number of ranks in the world.
    pub fn size(&self) -> usize {
        self.context.size()
    }

    /// Returns how many ranks the world can have, if ranks start all those for which it has room. Numbers of ranks are
    /// below that.
    #[doc(hidden)]
    pub fn room(&self) -> usize {
        self.context.room()
    }

    /// Returns how many ranks were started, those that have ended included.
    #[doc(hidden)]
    pub fn begun(&self) -> usize {
        self.context.begun() as usize
    }

    /// Returns a text by which the world differs from all others on the machine.
    #[doc(hidden)]
    pub fn world_name(&self) -> String {
        let number = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let of = |world: &WorldControl| {
            (world.launcher.load(Ordering::Relaxed), number(&world.since_ns))
        };
        let (launcher, since) = self.context.world().map_or((0, 0), of);
        format!("{launcher}.{since}")
    }

    /// Returns how often this was called before on this rank or a clone of it. If all ranks call it in the same order,
    /// they get the same number for an object that they make together, and can use the number in the names of its
    /// channels.
    #[doc(hidden)]
    pub fn ordinal(&self) -> u64 {
        self.context.ordinals.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the one `T` that this rank and all its clones share, for as long as any user keeps it. The first call
    /// makes it with `make`, and so does the first call after the last user has dropped it. Use this for a value that
    /// all parts of a program that work for the same rank are to share. `make` must not call this method.
    ///
    /// # Errors
    /// The errors of `make`.
    #[doc(hidden)]
    pub fn kept<T: Any + Send + Sync>(&self, make: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        self.context.kept(make)
    }

    /// Leaves `work` to be done when this rank's code has returned, in the same thread, before the other ranks are told
    /// of this rank's end. The work that was left last is done first. When the code returns an error or panics, the
    /// work is dropped instead. If the calling thread is not the one that runs the rank's code, the work is returned.
    ///
    /// ```
    /// use onchip::{Channel, World};
    ///
    /// World::threads(2).run(|rank| {
    ///     if rank.id() == 0 {
    ///         let mut last = rank.sender::<u64>("last", 1, Channel::degree(1))?;
    ///         let work = rank.at_end(move || last.send(&7).expect("a free slot"));
    ///         assert!(work.is_none());
    ///     } else {
    ///         assert_eq!(*rank.receiver::<u64>("last", 0, Channel::degree(1))?.receive()?, 7);
    ///     }
    ///     Ok(())
    /// })?;
    /// # Ok::<(), onchip::Error>(())
    /// ```
    #[doc(hidden)]
    pub fn at_end<W: FnOnce() + 'static>(&self, work: W) -> Option<W> {
        at_end::leave(&self.context, work)
    }

    /// Adds a [part](crate::progress::Part) that this rank's waits in this thread advance, unless there is already one
    /// with this key.
    #[doc(hidden)]
    pub fn progress_with(&self, key: usize, part: impl FnOnce() -> Rc<dyn Part>) {
        progress::add(self.context.whose(), key, part);
    }

    /// Removes the part with this key.
    #[doc(hidden)]
    pub fn progress_without(&self, key: usize) {
        progress::remove(self.context.whose(), key);
    }

    /// Advances this rank's pending operations in this thread as far as possible without waiting. Does nothing if there
    /// are no more than `own` parts, which are the caller's and which the caller advances itself. Returns whether
    /// anything moved.
    #[doc(hidden)]
    #[inline]
    pub fn progress(&self, own: usize) -> bool {
        progress::count() > own && progress::advance(self.context.whose())
    }

    /// Returns how many cores the ranks of the world may use in total.
    pub fn cores(&self) -> usize {
        self.context.waiting.cores(self.size())
    }

    /// Returns which cache and package the CPU of a rank belongs to, if the world has [bound](crate::World::bind) that
    /// rank to a CPU. The result is the same at all ranks. It is also `None` if there is no such rank.
    ///
    /// ```
    /// use onchip::{Bind, World, topology::Topology};
    ///
    /// let cpu = Topology::read()?.usable_cpus().first().ok_or("no CPU")?;
    /// World::threads(1).bind(Bind::List(vec![cpu])).run(|rank| {
    ///     assert!(rank.seat(0).is_some() && rank.seat(1).is_none());
    ///     Ok(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn seat(&self, rank: usize) -> Option<Seat> {
        let id = u32::try_from(rank).ok().filter(|_| rank < self.size())?;
        self.context.rank(id).ok()?.seat()
    }

    /// Returns whether the world has more working threads now than cores. If so, a waiting rank lets others run, and
    /// may have to be woken.
    pub fn is_crowded(&self) -> bool {
        self.context.crowded()
    }

    /// Returns the number of nodes of the world. It is 1, unless a program joins several machines.
    pub fn nodes(&self) -> usize {
        self.context.nodes()
    }

    /// Returns the node of this rank.
    pub fn node(&self) -> usize {
        self.context.node_of(self.context.me)
    }

    /// Returns the node of a rank. Ranks are numbered over all nodes, in the order of the nodes.
    ///
    /// # Errors
    /// [`NoSuchRank`](crate::ErrorKind::NoSuchRank).
    pub fn node_of(&self, rank: usize) -> Result<usize> {
        Ok(self.context.node_of(self.context.check_rank(rank)?))
    }

    /// Returns the ranks of this rank's node. Among them, everything works through memory. Ranks of other nodes are
    /// reached by channels and tagged messages only.
    pub fn ranks_here(&self) -> Range<usize> {
        let here = self.context.here();
        here.start as usize..here.end as usize
    }

    /// Returns whether this rank of the world was lost: it panicked or died, and the other ranks have been told.
    ///
    /// ```
    /// use onchip::{Channel, World};
    ///
    /// let ran = World::threads(2).run(|rank| {
    ///     if rank.id() == 1 {
    ///         panic!("on purpose");
    ///     }
    ///     let never = rank.receiver::<u8>("never", 1, Channel::degree(1))?;
    ///     assert!(never.receive().is_err() && rank.is_lost(1) && !rank.is_lost(0));
    ///     Ok(())
    /// });
    /// assert!(ran.is_err());
    /// ```
    pub fn is_lost(&self, rank: usize) -> bool {
        let state = |rank| self.context.rank(rank).map(RankControl::state);
        rank < self.room() && matches!(state(rank as u32), Ok(RankState::Lost))
    }

    /// Returns the news of the world: see [`News`].
    #[doc(hidden)]
    pub fn news(&self) -> News {
        News::of(&self.context)
    }

    /// Opens the sending end of a channel to rank `to`. The receiver names the same channel with
    /// [`receiver`](Self::receiver). Neither end waits for the other to open.
    ///
    /// `M` is a [`Plain`] type or a slice of one. Opening the same channel again, while the first one is open or later,
    /// makes another channel of that name: the ends are paired in the order of opening.
    ///
    /// ```
    /// use onchip::{Channel, World};
    ///
    /// World::threads(2).run(|rank| {
    ///     if rank.id() == 0 {
    ///         let mut words = rank.sender::<[u8]>("words", 1, Channel::degree(4).max_len(16))?;
    ///         words.send(b"shared memory")?;
    ///         let mut slot = words.reserve(3)?;
    ///         slot.copy_from_slice(b"ok!");
    ///         slot.publish()
    ///     } else {
    ///         let words = rank.receiver::<[u8]>("words", 0, Channel::degree(4).max_len(16))?;
    ///         assert_eq!(*words.receive()?, *b"shared memory");
    ///         assert_eq!(words.into_iter().count(), 1);
    ///         Ok(())
    ///     }
    /// })?;
    /// # Ok::<(), onchip::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Mismatch`](crate::ErrorKind::Mismatch) when the other end was opened for another type, degree or length;
    /// [`NoSuchRank`](crate::ErrorKind::NoSuchRank), [`BadChannel`](crate::ErrorKind::BadChannel), and
    /// [`Segment`](crate::ErrorKind::Segment) for lack of memory.
    pub fn sender<M: Message + ?Sized>(
        &self,
        name: &str,
        to: usize,
        channel: Channel,
    ) -> Result<Sender<M>> {
        let to = self.context.check_rank(to)?;
        let agreement = agree::<M>(name, vec![self.context.me], vec![to], false, channel);
        Ok(Sender::new(self.open(agreement, End::Sender)?))
    }

    /// Opens the receiving end of a channel from rank `from`: see [`sender`](Self::sender).
    ///
    /// # Errors
    /// As `sender`.
    pub fn receiver<M: Message + ?Sized>(
        &self,
        name: &str,
        from: usize,
        channel: Channel,
    ) -> Result<Receiver<M>> {
        let from = self.context.check_rank(from)?;
        let agreement = agree::<M>(name, vec![from], vec![self.context.me], false, channel);
        Ok(Receiver::new(self.open(agreement, End::Receiver)?))
    }

    /// Opens a sending end of a channel that several ranks may use at either end. Each message goes to one receiver,
    /// the one that takes it first, as in the queue of a task farm.
    ///
    /// ```
    /// use onchip::{Channel, Endpoints, World};
    ///
    /// let sums = World::threads(3).run(|rank| {
    ///     let queue = Endpoints::new([0], [1, 2]);
    ///     if rank.id() == 0 {
    ///         let mut tasks = rank.shared_sender::<u64>("tasks", &queue, Channel::degree(8))?;
    ///         (1..=100).try_for_each(|task| tasks.send(&task))?;
    ///         return Ok(0);
    ///     }
    ///     let tasks = rank.shared_receiver::<u64>("tasks", &queue, Channel::degree(8))?;
    ///     tasks.iter().map(|task| Ok(*task?)).sum()
    /// })?;
    /// assert_eq!(sums[1] + sums[2], 5050);
    /// # Ok::<(), onchip::Error>(())
    /// ```
    ///
    /// On several nodes, a shared channel has ranks of any node at either end. Its slots are on the node of most receivers,
    /// or the first of several such nodes. A sender or receiver on another node waits for an answer of that node for each
    /// message, even in a call that only tries.
    ///
    /// # Errors
    /// As [`sender`](Self::sender); [`BadChannel`](crate::ErrorKind::BadChannel) at degree 0, or when this rank is not
    /// among the senders.
    pub fn shared_sender<M: Message + ?Sized>(
        &self,
        name: &str,
        endpoints: &Endpoints,
        channel: Channel,
    ) -> Result<Sender<M>> {
        let agreement = self.agree_shared::<M>(name, endpoints, channel, End::Sender)?;
        self.check_member(&agreement, &agreement.senders, "senders")?;
        Ok(Sender::new(self.open(agreement, End::Sender)?))
    }

    /// Opens a receiving end of a shared channel: see [`shared_sender`](Self::shared_sender).
    ///
    /// # Errors
    /// As `shared_sender`; [`BadChannel`](crate::ErrorKind::BadChannel) when this rank is not among the receivers.
    pub fn shared_receiver<M: Message + ?Sized>(
        &self,
        name: &str,
        endpoints: &Endpoints,
        channel: Channel,
    ) -> Result<Receiver<M>> {
        let agreement = self.agree_shared::<M>(name, endpoints, channel, End::Receiver)?;
        self.check_member(&agreement, &agreement.receivers, "receivers")?;
        Ok(Receiver::new(self.open(agreement, End::Receiver)?))
    }

    fn agree_shared<M: Message + ?Sized>(
        &self,
        name: &str,
        endpoints: &Endpoints,
        channel: Channel,
        end: End,
    ) -> Result<Agreement> {
        let checked = |ranks: &[usize]| -> Result<Vec<u32>> {
            ranks.iter().map(|&rank| self.context.check_rank(rank)).collect()
        };
        let (senders, receivers) = (checked(&endpoints.senders)?, checked(&endpoints.receivers)?);
        let bad = |reason: &str| {
            Err(ErrorKind::BadChannel { channel: name.into(), reason: reason.to_owned() }.into())
        };
        if senders.is_empty() || receivers.is_empty() {
            return bad(
                "a shared channel needs a rank at either end: one that sends and one that receives",
            );
        }
        if channel.degree == 0 {
            return bad("a shared channel has no rendezvous: its degree must be at least 1");
        }
        let mut agreement = agree::<M>(name, senders, receivers, true, channel);
        if !self.context.is_here(agreement.host(&self.context)) {
            agreement.apart = Some(Apart { end, rank: self.context.me });
        }
        Ok(agreement)
    }

    fn check_member(&self, agreement: &Agreement, side: &[u32], called: &str) -> Result<()> {
        if side.contains(&self.context.me) {
            return Ok(());
        }
        let reason =
            format!("rank {} opens it and is not among its {called} {side:?}", self.context.me);
        Err(ErrorKind::BadChannel { channel: agreement.name.clone(), reason }.into())
    }

    /// Declares that this rank opens no further end of a channel between two ranks by this name, in the namespace of
    /// `channel`. A rank that has opened, or opens, the other end learns that this end is gone. The ends that this rank
    /// has open stay open.
    ///
    /// ```
    /// use onchip::{Channel, ErrorKind, World};
    ///
    /// World::threads(2).run(|rank| {
    ///     let (answers, channel) = ("answers", Channel::degree(1));
    ///     let question = rank.sender::<u8>("question", 1 - rank.id(), channel)?;
    ///     if rank.id() == 0 {
    ///         rank.withdraw(answers, channel)?;
    ///         // This waits until rank 1 has seen that there will be no answer.
    ///         let _ = rank.receiver::<u8>("question", 1, channel)?.receive();
    ///     } else {
    ///         let answers = rank.receiver::<u8>(answers, 0, channel)?;
    ///         let none = answers.receive().unwrap_err();
    ///         assert!(matches!(none.kind(), ErrorKind::Disconnected { .. }));
    ///     }
    ///     drop(question);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), onchip::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Segment`](crate::ErrorKind::Segment) for lack of memory.
    #[doc(hidden)]
    pub fn withdraw(&self, name: &str, channel: Channel) -> Result<()> {
        channel::withdraw(&self.context, channel.namespace, name)
    }

    /// Opens the callers of a name: the ranks that open channels between two ranks of this name to this one, in the
    /// namespace of `channel`. This is for a receiver that takes messages from any rank, and needs channels only from
    /// the ranks that send.
    ///
    /// ```
    /// use onchip::{Channel, Select, World};
    ///
    /// World::threads(5).run(|rank| {
    ///     let channel = Channel::degree(1);
    ///     match rank.id() {
    ///         0 => {
    ///             let callers = rank.callers("work", channel)?;
    ///             while !callers.has_called(3) {
    ///                 let mut select = Select::new();
    ///                 select.add_callers(&callers);
    ///                 select.ready()?;
    ///                 assert!(callers.has_news());
    ///             }
    ///             assert_eq!(*rank.receiver::<u8>("work", 3, channel)?.receive()?, 33);
    ///         }
    ///         3 => rank.sender::<u8>("work", 0, channel)?.send(&33)?,
    ///         _ => {}
    ///     }
    ///     Ok(())
    /// })?;
    /// # Ok::<(), onchip::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`BadChannel`](crate::ErrorKind::BadChannel) while this rank has its callers of that name;
    /// [`Segment`](crate::ErrorKind::Segment) for lack of memory.
    #[doc(hidden)]
    pub fn callers(&self, name: &str, channel: Channel) -> Result<Callers> {
        Callers::open(Arc::clone(&self.context), channel.namespace, name)
    }

    fn open(&self, agreement: Agreement, end: End) -> Result<Opened> {
        Opened::open(Arc::clone(&self.context), agreement, end)
    }

    /// Opens the message passing buffers of all ranks by this name. See [`mpb`](crate::mpb). No rank waits for the
    /// others to open them. Opening them again, while the first ones are open or later, makes other buffers of that
    /// name: they are paired in the order of opening.
    ///
    /// # Errors
    /// [`MpbMismatch`](crate::ErrorKind::MpbMismatch) when another rank asked for other buffers,
    /// [`BadMpbs`](crate::ErrorKind::BadMpbs), and [`Segment`](crate::ErrorKind::Segment) for lack of memory.
    pub fn mpb(&self, name: &str, mpbs: Mpbs) -> Result<Mpb> {
        let all: Vec<usize> = (0..self.size()).collect();
        self.mpb_of(name, &all, mpbs)
    }

    /// Opens the message passing buffers of some ranks, including this one. See [`mpb`](crate::mpb). In these buffers,
    /// the ranks are numbered by their places in `ranks`. No other rank needs to know of these buffers, and the death
    /// of another rank does not end waits on them. All of the ranks must name the same ranks in the same order.
    ///
    /// Buffers of sets of ranks that have no rank in common may have the same name. A rank that opens several buffers
    /// of one name, of whatever ranks, must do so in the same order as all other ranks that have a part in any two of
    /// them.
    ///
    /// ```
    /// use onchip::World;
    /// use onchip::mpb::{Line, Mpbs};
    ///
    /// World::threads(5).run(|rank| {
    ///     // The even ranks have one set of buffers, and the odd ranks another. Each is in descending order.
    ///     let ranks: Vec<usize> = (0..5).rev().filter(|other| other % 2 == rank.id() % 2).collect();
    ///     let mpb = rank.mpb_of("half", &ranks, Mpbs::lines(1))?;
    ///     assert_eq!(mpb.world_rank(mpb.rank())?, rank.id());
    ///     let next = (mpb.rank() + 1) % mpb.ranks();
    ///     mpb.set_flag(Line { rank: next, line: 0 }, 1 + rank.id() as u64)?;
    ///     let before = ranks[(mpb.rank() + mpb.ranks() - 1) % mpb.ranks()];
    ///     assert_eq!(mpb.wait_flag(0, |value| value != 0)?, 1 + before as u64);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), onchip::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`mpb`](Self::mpb); [`MpbRanksMismatch`](crate::ErrorKind::MpbRanksMismatch) when another rank named other
    /// ranks, [`NoSuchRank`](crate::ErrorKind::NoSuchRank); [`BadMpbs`](crate::ErrorKind::BadMpbs) when a rank is named
    /// twice, or when this rank is not named.
    pub fn mpb_of(&self, name: &str, ranks: &[usize], mpbs: Mpbs) -> Result<Mpb> {
        Mpb::open(Arc::clone(&self.context), name, ranks, mpbs)
    }

    /// Leaves MPBs of this name of which this rank is a member and that it has not opened. The effect is as if this
    /// rank had opened and closed them. Their memory is freed when all ranks have left.
    ///
    /// # Errors
    /// [`Segment`](crate::ErrorKind::Segment) when the world's memory is broken.
    #[doc(hidden)]
    pub fn decline_mpb(&self, name: &str, mpbs: Mpbs) -> Result<()> {
        Mpb::decline(&self.context, name, mpbs)
    }

    /// Revokes all MPBs whose names begin with `prefix` and of which this rank is a member, whether it has opened them
    /// or not. Every wait of a member for a flag that was not set ends with [`Revoked`](crate::ErrorKind::Revoked), now
    /// and later. MPBs that are opened after this call are not revoked; the rank that opens them sees that there are
    /// [news](Self::news). Regions go on working.
    ///
    /// ```
    /// use onchip::mpb::Mpbs;
    /// use onchip::{ErrorKind, World};
    ///
    /// World::threads(2).run(|rank| {
    ///     let mpb = rank.mpb("part one: flags", Mpbs::lines(1))?;
    ///     if rank.id() == 0 {
    ///         rank.revoke_mpbs("part one: ")?;
    ///     }
    ///     let failed = mpb.wait_flag(0, |flag| flag == 1).unwrap_err();
    ///     assert!(matches!(failed.kind(), ErrorKind::Revoked { .. }));
    ///     Ok(())
    /// })?;
    /// # Ok::<(), onchip::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Segment`](crate::ErrorKind::Segment) when the world's memory is broken.
    pub fn revoke_mpbs(&self, prefix: &str) -> Result<()> {
        Mpb::revoke(&self.context, prefix)
    }

    /// Returns whether a rank has [withdrawn](Self::withdraw) from a name, or has ended.
    ///
    /// # Errors
    /// [`Segment`](crate::ErrorKind::Segment) when the world's memory is broken;
    /// [`NoSuchRank`](crate::ErrorKind::NoSuchRank).
    #[doc(hidden)]
    pub fn has_withdrawn(&self, name: &str, channel: Channel, rank: usize) -> Result<bool> {
        let rank = self.context.check_rank(rank)?;
        channel::has_withdrawn(&self.context, channel.namespace, name, rank)
    }

    /// Returns the end by which this rank lends to rank `to`. See [`loan`](crate::loan). If the two ranks open several
    /// ends, `number` distinguishes them. Returns `None` when the ranks are processes, when there is no such rank, or
    /// when this rank has this end already.
    #[doc(hidden)]
    pub fn lender(&self, to: usize, number: u64) -> Option<Lender> {
        let to = self.context.check_rank(to).ok()?;
        Lender::open(Arc::clone(&self.context), to, number)
    }

    /// Returns the end by which this rank borrows from rank `from`. See [`lender`](Self::lender).
    #[doc(hidden)]
    pub fn borrower(&self, from: usize, number: u64) -> Option<Borrower> {
        let from = self.context.check_rank(from).ok()?;
        Borrower::open(Arc::clone(&self.context), from, number)
    }

    /// Returns the place of a slice, if it lies in the world's memory. With it, other ranks can [copy](Self::copy_from)
    /// the slice.
    #[doc(hidden)]
    #[inline]
    pub fn place_of(&self, slice: &[u8]) -> Option<u64> {
        direct::place_of(&self.context, slice)
    }

    /// Copies a slice of rank `owner` from its [place](Self::place_of). Returns whether that was slow, or `None` if what
    /// was copied may be something else, because the owner was lost or the place is none.
    #[doc(hidden)]
    pub fn copy_from(&self, owner: usize, place: u64, into: &mut [u8]) -> Option<bool> {
        let slow = direct::copy_from(&self.context, place, into).ok()?;
        (!self.is_lost(owner)).then_some(slow)
    }

    /// Allocates memory of the world that no rank [holds](WorldMemory). Returns `None` if there is no room for it.
    #[doc(hidden)]
    pub fn world_memory(&self, bytes: usize) -> Option<WorldMemory> {
        WorldMemory::allocate(&self.context, bytes)
    }

    /// Returns the address where this rank reaches `bytes` bytes at a [place](WorldMemory::place). Returns `None` if they
    /// do not lie in the world's memory.
    #[doc(hidden)]
    pub fn address_of(&self, place: u64, bytes: usize) -> Option<NonNull<u8>> {
        self.context.segment.range(place, bytes as u64, "memory of a rank").ok()
    }

    /// Allocates a shared buffer of `len` elements, which have the contents of an earlier buffer. Freed buffers are
    /// used again, the most recently freed first.
    ///
    /// # Errors
    /// [`Segment`](crate::ErrorKind::Segment) when the segment is full or the machine has no memory left.
    pub fn buffer<T: Plain>(&self, len: usize) -> Result<SharedBuffer<T>> {
        SharedBuffer::allocate(&self.context, len)
    }

    /// Allocates a shared buffer of `len` zeroed elements.
    ///
    /// # Errors
    /// As [`buffer`](Self::buffer).
    pub fn buffer_zeroed<T: Plain>(&self, len: usize) -> Result<SharedBuffer<T>> {
        Ok(self.buffer(len)?.fill_with(|elements| elements.fill(T::zeroed())))
    }

    /// Allocates a shared buffer with a copy of `elements`.
    ///
    /// # Errors
    /// As [`buffer`](Self::buffer).
    pub fn buffer_from<T: Plain>(&self, elements: &[T]) -> Result<SharedBuffer<T>> {
        Ok(self.buffer(elements.len())?.fill_with(|to| to.copy_from_slice(elements)))
    }

    /// Returns how many bytes of the world's memory are in use, and how far the memory was ever used: the bytes up to
    /// the end of the last block that was ever handed out, gaps included. In a world that frees all memory that it
    /// allocates, the second number does not grow.
    pub fn memory(&self) -> MemoryUse {
        let heap = self.context.segment.heap();
        MemoryUse { in_use: heap.used(), touched: heap.touched() }
    }

    /// Returns the number of bytes of cache for which rings of long messages are made: the size of a core's second-level
    /// cache, from which a line must be gone before it is written again. Where copies overwrite lines without fetching
    /// them, it is 512 KiB at most, so that a ring stays in the writer's cache. The first rank that asks determines the
    /// number, and all ranks get the same answer. The result is at most 1/64 of each rank's share of the world's memory.
    ///
    /// # Errors
    /// [`Segment`](crate::ErrorKind::Segment) when the world's memory was overwritten.
    #[doc(hidden)]
    pub fn cache_for_rings(&self) -> Result<usize> {
        // Relaxed: the word orders no other memory.
        let agreed = &self.context.world()?.cache;
        let known = agreed.load(Ordering::Relaxed);
        if known != 0 {
            return Ok(known as usize);
        }
        let share = self.context.segment.end() / (64 * self.size() as u64);
        let most = if overwrites_lines() { 512 << 10 } else { u64::MAX };
        let own = share.min(second_level_cache() as u64).min(most).max(1);
        let asked = agreed.compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed);
        Ok(asked.map_or_else(|known| known, |_| own) as usize)
    }
}

/// See [`Rank::memory`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct MemoryUse {
    /// Bytes in channels, buffers and the library's own tables, with rounding.
    pub in_use: u64,
    /// Bytes up to the end of the last block that was ever handed out.
    pub touched: u64,
}

fn agree<M: Message + ?Sized>(
    name: &str,
    senders: Vec<u32>,
    receivers: Vec<u32>,
    shared: bool,
    channel: Channel,
) -> Agreement {
    let spec = ChannelSpec {
        type_name: type_name::<M::Element>().to_owned(),
        element_size: size_of::<M::Element>(),
        element_align: align_of::<M::Element>(),
        slice: M::SLICE,
        degree: channel.degree,
        max_len: if M::SLICE { channel.max_len } else { 1 },
    };
    let (namespace, name) = (channel.namespace, name.into());
    Agreement { namespace, name, senders, receivers, shared, apart: None, spec }
}
