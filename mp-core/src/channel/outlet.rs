//! A sending end that was taken apart, so that several threads of a process can send through one channel, while the
//! receiver still gets the messages in one order.
//!
//! To send a message, the sending thread takes the next **position** from a counter, which fixes the order. Later, any
//! thread may fill the position's slot, as soon as the slot is free:
//!
//! ```text
//! one thread      position 0   1   2   3   4        (a counter)
//! threads A, B        slot 0:A 1:B 2:A 3:B 4:A      each filled when head + slots > position,
//!                                                   and published by its own sequence word
//! receiver                 0   1   2   3   4        looks at one sequence word after another
//! ```
//!
//! Every position is filled once or *given up*. A position that was given up must not stop the messages after it, so
//! its slot gets a tombstone: a sequence word that is no message's number. The receiver looks for tombstones only when
//! there seems to be no message, so that its fast path need not check for them. A rank that dies between two positions
//! leaves a gap. The receiver stops there: a message behind the gap is never received without the one before it.
//! Buffers behind the gap are freed with the channel.
//!
//! Messages that the sending thread sends itself take positions, too. A position that was given up takes up a slot like
//! a message, until the receiver has passed it. So after a send was cancelled, a channel can be full with fewer
//! messages than its degree.
//!
//! A rendezvous has no room for several messages at a time, and in a shared channel slots are claimed one after
//! another. In both, a position is filled only when it is its turn.
//!
//! Source: Buono et al., section IV.B.

use std::{
    collections::BTreeSet,
    marker::PhantomData,
    ptr::NonNull,
    sync::{Arc, PoisonError},
};

use crossbeam_utils::CachePadded;

use super::{
    agreement::{End, Means},
    opened::Opened,
    ring::{CorruptHead, Ring, RingReceiver},
    shared_ring::{Held, Look, SharedRing},
    signals::{Signal, Sticky},
};
use crate::{
    buffer::SharedBuffer,
    context::Context,
    copy::copy_bytes,
    error::{Error, ErrorKind, Result},
    plain::{Message, Plain},
    segment::BlockKey,
    sync::{AtomicU32, AtomicU64, Mutex, Ordering, fence},
    wait::{ARRIVED, Asymmetry, Doing, Flag, Operation, Wait},
};

/// Returns the sequence word of a slot whose message will never come. It is no message's number: two message numbers in
/// one slot differ by a multiple of the number of slots, which is less than 2³¹.
fn tombstone(position: u64) -> u32 {
    (position as u32).wrapping_add(1) ^ (1 << 31)
}

impl Ring {
    /// Writes the length of the message, if it has one (see `write_len`), and returns the payload of the position's
    /// slot, to be written (step 2).
    pub(crate) fn payload_at(&self, position: u64, len: Option<u32>) -> NonNull<u8> {
        let slot = self.slot_of(position);
        if let Some(len) = len {
            self.write_len(slot, len);
        }
        // SAFETY: this is one of the ring's slots.
        let (header, payload) = unsafe { (self.slots.header(slot), self.slots.payload(slot)) };
        header.race.writing();
        payload
    }

    /// Records a moved buffer as the message at this position: see `write_moved`.
    pub(crate) fn write_moved_at(&self, position: u64, key: BlockKey, len: u64) {
        self.write_moved(self.slot_of(position), position, key, len);
    }

    /// Publishes the message at this position (step 3).
    pub(crate) fn publish_at(&self, position: u64) {
        // SAFETY: this is one of the ring's slots.
        let header = unsafe { self.slots.header(self.slot_of(position)) };
        // Release: pairs with the Acquire in `RingReceiver::peek`.
        header.seq.store((position as u32).wrapping_add(1), Ordering::Release);
    }

    /// Puts a tombstone into the position's slot: there will be no message at this position.
    pub(crate) fn bury_at(&self, position: u64) {
        // SAFETY: this is one of the ring's slots.
        let header = unsafe { self.slots.header(self.slot_of(position)) };
        header.race.writing();
        // Removes the mark of a buffer that moved through the slot earlier, so that the buffer does not seem stranded.
        header.len.store(0, Ordering::Relaxed);
        // Release: pairs with the Acquire in `pass_tombstone`.
        header.seq.store(tombstone(position), Ordering::Release);
    }
}

impl RingReceiver {
    /// Gives back the next slot if there is a tombstone in it. Returns whether there was.
    pub(crate) fn pass_tombstone(&self) -> bool {
        let received = self.upcoming();
        // SAFETY: this is one of the ring's slots.
        let header = unsafe { self.ring().slots.header(received.slot) };
        // Acquire: pairs with the Release in `bury_at`: its stores to the slot come before those of the slot's next
        // user.
        let passes = header.seq.load(Ordering::Acquire) == tombstone(received.position);
        if passes {
            self.take(received, self.place().stride);
            self.release(received);
        }
        passes
    }
}

/// A sending end whose slots several threads fill: see the [module](self). All these threads share the outlet. The
/// channel's end is closed when the last of them drops it.
pub(crate) struct Outlet<M: Message + ?Sized> {
    opened: Opened,
    way: Way,
    asymmetry: Asymmetry,
    /// The position whose turn it is, where positions take turns.
    turn: CachePadded<AtomicU64>,
    /// The flag of threads of this process that wait for the turn of their position.
    for_turn: CachePadded<Signal>,
    given_up: GivenUp,
    message: PhantomData<fn(&M)>,
}

/// Positions that were given up and not passed yet.
#[derive(Debug)]
pub(super) struct GivenUp {
    positions: Mutex<BTreeSet<u64>>,
    any: AtomicU32,
}

impl GivenUp {
    pub(super) fn new() -> Self {
        Self { positions: Mutex::new(BTreeSet::new()), any: AtomicU32::new(0) }
    }

    #[inline(always)]
    pub(super) fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed) != 0
    }

    pub(super) fn add(&self, position: u64) {
        // Relaxed: the lock orders the accesses to the set, and the callers' fences order those to `any`.
        self.change(|positions| positions.insert(position));
    }

    fn change<T>(&self, change: impl FnOnce(&mut BTreeSet<u64>) -> T) -> T {
        let mut positions = self.positions.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut positions);
        self.any.store((!positions.is_empty()).into(), Ordering::Relaxed);
        result
    }

    /// Puts tombstones into the free slots of positions that were given up. Returns whether there was any.
    #[cold]
    pub(super) fn bury(&self, ring: &Ring) -> bool {
        self.change(|positions| {
            let mut buried = false;
            while let Some(&first) = positions.first()
                && let Ok(room) = ring.room(first, 0)
                && first < room
            {
                positions.remove(&first);
                ring.bury_at(first);
                buried = true;
            }
            buried
        })
    }
}

enum Way {
    Pair(Ring),
    Rendezvous {
        ring: Ring,
        /// The number of messages published. Only the thread whose turn it is changes this.
        published: AtomicU64,
    },
    Shared(SharedRing),
}

// SAFETY: the rings' pointers lead into the segment that `opened` keeps mapped. A slot is written only by the thread
// that has its position (see `Position`), and only at the position's turn if positions share a slot. All other state is
// atomic, under a lock, or never changes.
unsafe impl<M: Message + ?Sized> Send for Outlet<M> {}
// SAFETY: as for `Send`: the argument also holds for several threads at the same time.
unsafe impl<M: Message + ?Sized> Sync for Outlet<M> {}

/// A slot that the thread with this position may write.
#[derive(Clone, Copy)]
enum Claim {
    Pair,
    /// The field is the message's number in the ring.
    Rendezvous(u64),
    Shared(Held),
}

/// The right to fill one position. Its holder must fill the position or give it up, once.
#[derive(Debug)]
#[must_use = "a position that nobody fills stops the channel"]
pub(crate) struct Position(u64);

impl Position {
    /// # Safety
    /// The number belongs to a position of the outlet with which this is used. It comes from the outlet's counter or
    /// from a `Position`, and nobody else has it.
    pub(crate) unsafe fn from_number(number: u64) -> Self {
        Self(number)
    }

    pub(crate) fn number(&self) -> u64 {
        self.0
    }
}

/// The result of an attempt to fill a position. If the position was not filled, the caller still has it.
#[derive(Debug)]
#[must_use]
pub(crate) enum Filled {
    Yes,
    /// Not possible now: the slot is taken, no receiver waits, or it is not the position's turn.
    NotYet,
    /// Never possible, because of this error.
    No(Error),
}

impl<M: Message + ?Sized> Outlet<M> {
    /// Takes over an end through which `sent` messages were already sent. The positions begin at `sent`.
    pub(super) fn new(opened: Opened, sent: u64) -> Self {
        let way = match opened.means() {
            Means::SharedRing => Way::Shared(opened.shared_ring()),
            Means::Meeting | Means::Asking => {
                Way::Rendezvous { ring: opened.ring(), published: AtomicU64::new(sent) }
            }
            Means::Ring => Way::Pair(opened.ring()),
        };
        let asymmetry = opened.context.waiting.asymmetry;
        Self {
            opened,
            way,
            asymmetry,
            turn: CachePadded::new(AtomicU64::new(sent)),
            for_turn: CachePadded::new(Signal::new()),
            given_up: GivenUp::new(),
            message: PhantomData,
        }
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.opened.context
    }

    /// Notes that the sending thread has left this end by a panic. Other threads still hold the end.
    pub(crate) fn break_off(&self) {
        self.opened.break_off();
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.opened.agreement.name
    }

    /// Returns where the channel's descriptor lies.
    pub(crate) fn channel(&self) -> u64 {
        self.opened.descriptor_offset().bytes()
    }

    /// Checks that a message of this length fits.
    pub(crate) fn check_len(&self, len: usize) -> Result<()> {
        let max = self.opened.agreement.spec.max_len;
        if M::SLICE && len > max {
            return Err(ErrorKind::TooLong { channel: self.name().clone(), len, max }.into());
        }
        Ok(())
    }

    /// Copies a message into the slot of a position and publishes it, if that is possible now. `room` is what the
    /// caller knows: the slots of positions below it are free.
    pub(crate) fn fill(&self, position: Position, room: &mut u64, message: &M) -> Filled {
        let elements = message.elements();
        if let Err(error) = self.check_len(elements.len()) {
            return Filled::No(error);
        }
        let claim = match self.claim(&position, room) {
            Ok(Some(claim)) => claim,
            Ok(None) => return Filled::NotYet,
            Err(error) => return Filled::No(error),
        };
        let len = M::SLICE.then_some(elements.len() as u32);
        let to = match (&self.way, claim) {
            (Way::Pair(ring), _) => ring.payload_at(position.0, len),
            (Way::Rendezvous { ring, .. }, Claim::Rendezvous(number)) => {
                ring.payload_at(number, len)
            }
            (Way::Shared(ring), Claim::Shared(held)) => {
                ring.writing(held);
                ring.write_len(held, elements.len() as u32);
                ring.payload(held)
            }
            _ => unreachable!("a claim is of its channel's kind"),
        };
        // SAFETY: the slot belongs to the caller until it is published. Its payload has room for `max_len` elements,
        // which was checked, and their alignment (`Geometry::of`). It does not overlap memory that the caller can
        // borrow.
        unsafe { copy_bytes(NonNull::from(elements).cast(), to, size_of_val(elements)) };
        self.publish(position, claim);
        Filled::Yes
    }

    /// Claims the slot of a position (step 1, reserve).
    fn claim(&self, position: &Position, room: &mut u64) -> Result<Option<Claim>> {
        let signal = &self.opened.signals().for_sender;
        if !signal.quiet() && signal.ended() {
            return Err(self.opened.why_ended(Operation::Send));
        }
        match &self.way {
            Way::Pair(ring) => {
                if position.0 >= *room {
                    // Positions before this one that were given up need their tombstones, or this slot may never become
                    // free.
                    self.bury_given_up(ring);
                    *room = self.room(ring, position.0, *room)?;
                }
                Ok((position.0 < *room).then_some(Claim::Pair))
            }
            _ if !self.is_turn_of(position) => Ok(None),
            Way::Rendezvous { ring, published } => {
                let meeting = self.opened.meeting();
                if !meeting.claim() {
                    if !meeting.wanted() {
                        meeting.want(true);
                        self.attend();
                    }
                    return Ok(None);
                }
                if meeting.wanted() {
                    meeting.want(false);
                    // A receiver that made its offer only because this sender wanted one may sleep until `wanted`
                    // changes.
                    self.attend();
                }
                let number = published.load(Ordering::Relaxed);
                // A receiver gives the only slot back before it makes an offer.
                *room = self.room(ring, number, *room)?;
                Ok((number < *room).then_some(Claim::Rendezvous(number)))
            }
            Way::Shared(ring) => Ok(self.claim_shared(ring)?.map(Claim::Shared)),
        }
    }

    /// Returns whether the slot of a position is free. `room` is the same as in [`fill`](Self::fill). An error counts
    /// as no room; `fill` reports it.
    pub(crate) fn has_room(&self, position: u64, room: &mut u64) -> bool {
        let Way::Pair(ring) = &self.way else { return false };
        if position >= *room
            && let Ok(now) = self.room(ring, position, *room)
        {
            *room = now;
        }
        position < *room
    }

    fn room(&self, ring: &Ring, position: u64, known: u64) -> Result<u64> {
        ring.room(position, known).map_err(|CorruptHead { head, .. }| {
            let segment = &self.opened.context.segment;
            segment.corrupt("a channel's count of slots given back", self.channel(), head).into()
        })
    }

    fn claim_shared(&self, ring: &SharedRing) -> Result<Option<Held>> {
        let context = &self.opened.context;
        loop {
            let receiver_gone = |rank| self.opened.released(End::Receiver, rank);
            let sender_gone = |rank| self.opened.released(End::Sender, rank);
            match ring.reserve(context.me, receiver_gone, sender_gone) {
                Look::Got(held) => return Ok(Some(held)),
                Look::Nothing => return Ok(None),
                Look::Corrupt(position) => return Err(self.opened.corrupt_position(position)),
                Look::Orphan(held) => {
                    if let Some(key) = ring.buffer_in(held) {
                        context.free(key);
                    }
                    ring.release(held);
                }
            }
        }
    }

    /// Publishes the message in a claimed slot (step 3).
    fn publish(&self, position: Position, claim: Claim) {
        match (&self.way, claim) {
            (Way::Pair(ring), _) => {
                ring.publish_at(position.0);
                self.attend();
                // A position before this one may have been given up when there was no room yet for its tombstone. The
                // fence in `attend` pairs with the fence in `give_up`: either this thread sees that the position was
                // given up, or `give_up` sees the room.
                return self.bury_given_up(ring);
            }
            (Way::Rendezvous { ring, published }, Claim::Rendezvous(number)) => {
                ring.publish_at(number);
                published.store(number + 1, Ordering::Relaxed);
                self.end_turn(position);
            }
            (Way::Shared(ring), Claim::Shared(held)) => {
                ring.publish(held);
                self.end_turn(position);
            }
            _ => unreachable!("a claim is of its channel's kind"),
        }
        self.attend();
    }

    /// Wakes the receiver if it sleeps.
    fn attend(&self) {
        self.opened.attend(End::Sender);
    }

    fn is_turn_of(&self, position: &Position) -> bool {
        // Acquire: pairs with the Release in `end_turn` and `pass_given_up`: all that was done at the previous turn
        // comes first.
        self.turn.load(Ordering::Acquire) == position.0
    }

    fn end_turn(&self, position: Position) {
        // Release: pairs with the Acquire in `is_turn_of`.
        self.turn.store(position.0 + 1, Ordering::Release);
        // This fence orders the store above before the load below, and `give_up` has a fence between its own store and
        // load. So either this thread sees that the next position was given up, or the thread in `give_up` sees that it
        // is the turn of that position.
        fence(Ordering::SeqCst);
        if self.given_up.any() {
            self.pass_given_up();
        }
        self.attend_turn();
    }

    /// Wakes threads that wait for the turn of their position. They sleep at this rank's doorbell.
    fn attend_turn(&self) {
        self.asymmetry.light();
        if !self.for_turn.quiet() && self.for_turn.take_parked() {
            self.opened.context.ring(self.opened.context.me);
        }
    }

    /// Gives a position up: it will never be filled.
    pub(crate) fn give_up(&self, position: Position) {
        let number = position.0;
        self.given_up.add(number);
        if let Way::Pair(ring) = &self.way {
            // After this fence, either this thread sees that there is room for the tombstone, or a thread that
            // publishes a later position sees that this one was given up: see `publish`.
            if !self.asymmetry.heavy_here() {
                std::thread::sleep(ARRIVED);
            }
            return self.bury_given_up(ring);
        }
        fence(Ordering::SeqCst);
        let waited = matches!(self.way, Way::Rendezvous { .. })
            && self.turn.load(Ordering::Acquire) == number
            && self.opened.meeting().wanted();
        if waited {
            self.opened.meeting().want(false);
            self.attend();
        }
        self.pass_given_up();
        self.attend_turn();
    }

    /// Passes the turns of positions that were given up to the positions after them.
    fn pass_given_up(&self) {
        self.given_up.change(|given_up| {
            // Only this code moves the turn away from a position that was given up.
            let mut turn = self.turn.load(Ordering::Acquire);
            while given_up.remove(&turn) {
                turn += 1;
                // Release: pairs with the Acquire in `is_turn_of`.
                self.turn.store(turn, Ordering::Release);
            }
        });
    }

    /// Puts tombstones into the free slots of positions that were given up.
    #[inline(always)]
    fn bury_given_up(&self, ring: &Ring) {
        if self.given_up.any() && self.given_up.bury(ring) {
            self.attend();
        }
    }

    /// Gives a position its turn, as if all positions before it were filled.
    #[cfg(all(test, not(loom), not(miri)))]
    pub(crate) fn skip_to(&self, position: u64) {
        self.turn.store(position, Ordering::Relaxed);
    }

    /// Raises the flags of a thread that is going to sleep because it can't fill a position yet. The flags are not
    /// lowered afterwards, because other threads may need them. A flag that stays up costs only one needless ring.
    pub(crate) fn raise(&self) {
        Sticky(&self.opened.signals().for_receiver).raise();
        if !matches!(self.way, Way::Pair(_)) {
            self.for_turn.raise();
        }
    }

    /// Waits on this rank's doorbell until `poll` answers. The wait counts as a send on this channel.
    pub(crate) fn wait<T>(
        &self,
        wait: Wait,
        line: *const (),
        flag: &dyn Flag,
        poll: impl FnMut() -> Option<T>,
    ) -> Result<Option<T>> {
        let doing = Doing { operation: Operation::Send, channel: self.channel() };
        Ok(self.opened.context.wait(wait, doing, line, flag, poll)?)
    }

    pub(crate) fn timed_out(&self, wait: Wait) -> Error {
        self.opened.context.gave_up(Operation::Send, self.name(), wait)
    }
}

impl<T: Plain> Outlet<[T]> {
    /// Checks that the buffer can go through this channel.
    pub(crate) fn check_buffer(&self, buffer: &SharedBuffer<T>) -> Result<()> {
        if buffer.belongs_to(&self.opened.context) {
            return Ok(());
        }
        let reason =
            "the buffer belongs to another world: allocate it by a rank of this one".to_owned();
        Err(ErrorKind::BadChannel { channel: self.name().clone(), reason }.into())
    }

    /// Moves a checked buffer into the slot of a position and publishes it, if that is possible now. Calls `buffer`,
    /// which returns the buffer, only in that case.
    pub(crate) fn fill_moved(
        &self,
        position: Position,
        room: &mut u64,
        buffer: impl FnOnce() -> SharedBuffer<T>,
    ) -> Filled {
        let claim = match self.claim(&position, room) {
            Ok(Some(claim)) => claim,
            Ok(None) => return Filled::NotYet,
            Err(error) => return Filled::No(error),
        };
        let buffer = buffer();
        let (key, len) = (buffer.key(), buffer.len() as u64);
        match (&self.way, claim) {
            (Way::Pair(ring), _) => ring.write_moved_at(position.0, key, len),
            (Way::Rendezvous { ring, .. }, Claim::Rendezvous(number)) => {
                ring.write_moved_at(number, key, len);
            }
            (Way::Shared(ring), Claim::Shared(held)) => ring.write_moved(held, key, len),
            _ => unreachable!("a claim is of its channel's kind"),
        }
        let let_go = buffer.let_go();
        self.publish(position, claim);
        drop(let_go);
        Filled::Yes
    }
}

/// The flags that [`Outlet::raise`] raises, as one [`Flag`].
pub(crate) struct Outward<'a, M: Message + ?Sized>(pub(crate) &'a Outlet<M>);

impl<M: Message + ?Sized> Flag for Outward<'_, M> {
    fn raise(&self) {
        self.0.raise();
    }

    fn lower(&self) {}
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::channel::{
        ring::RingControl,
        slots::{Geometry, SlotHeader, Slots},
        test_memory::TestMemory,
    };

    fn ring(degree: u64) -> (Ring, RingReceiver, TestMemory<RingControl>) {
        let geometry = Geometry { stride: 16, payload: 0, header: 8, count: degree };
        let memory = TestMemory::new(RingControl::new(), degree as usize);
        // SAFETY: the memory is large enough, is aligned for these headers, and is kept by the caller. Nobody else uses
        // it.
        let ring = || unsafe { Ring::new(memory.control, Slots::new(memory.slots(), geometry)) };
        let (sending, receiver) = (ring(), RingReceiver::new(ring()));
        // SAFETY: the memory is formatted once, before any other use of the slots.
        unsafe { sending.slots.format(|_| SlotHeader::new()) };
        (sending, receiver, memory)
    }

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Fate {
        Filled,
        GivenUp,
        Left,
    }

    /// Returns the number in the next message, after passing any tombstones.
    fn next(receiver: &RingReceiver) -> Option<u64> {
        loop {
            if let Some(received) = receiver.receive() {
                // SAFETY: `fill` has written a `u64` there.
                let number = unsafe { receiver.payload(received.slot).cast().read() };
                receiver.release(received);
                return Some(number);
            }
            if !receiver.pass_tombstone() {
                return None;
            }
        }
    }

    fn fill(ring: &Ring, position: u64) {
        let payload = ring.payload_at(position, None).cast::<u64>();
        // SAFETY: the slot is free, and has room for a `u64`.
        unsafe { payload.write(position) };
        ring.publish_at(position);
    }

    #[test]
    fn a_count_that_can_not_be_is_an_error() {
        let (ring, _receiver, _memory) = ring(3);
        assert_eq!(ring.room(0, 0), Ok(3));
        ring.head().store(5, Ordering::Relaxed);
        assert_eq!(ring.room(6, 3), Ok(8));
        assert_eq!(ring.room(4, 3), Err(CorruptHead { head: 5, tail: 4 }), "not received yet");
        assert_eq!(ring.room(6, 9), Err(CorruptHead { head: 5, tail: 6 }), "it goes back");
        ring.head().store(u64::MAX, Ordering::Relaxed);
        assert!(ring.room(u64::MAX - 1, 3).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

        /// Positions are filled in any order, in rounds of as many positions as there are slots.
        #[test]
        fn what_was_filled_arrives_in_order(
            degree in 1u64..6,
            rounds in prop::collection::vec(prop::collection::vec((any::<bool>(), any::<u32>()), 6), 1..6),
        ) {
            let (ring, receiver, _memory) = ring(degree);
            let mut first = 0;
            for round in rounds {
                let mut order: Vec<u64> = (0..degree).collect();
                order.sort_by_key(|&i| round[i as usize].1);
                let filled = |i: u64| round[i as usize].0;
                for i in order {
                    prop_assert!(first + i < ring.room(first + i, 0).unwrap());
                    if filled(i) { fill(&ring, first + i) } else { ring.bury_at(first + i) }
                }
                for i in (0..degree).filter(|&i| filled(i)) {
                    prop_assert_eq!(next(&receiver), Some(first + i));
                }
                prop_assert_eq!(next(&receiver), None);
                first += degree;
                prop_assert_eq!(ring.room(first, 0), Ok(first + degree));
            }
        }

        /// A rank dies while its last positions are in any state.
        #[test]
        fn what_was_filled_arrives_up_to_the_first_gap(
            degree in 1u64..9,
            before in 0u64..9,
            fates in prop::collection::vec(
                prop_oneof![Just(Fate::Filled), Just(Fate::GivenUp), Just(Fate::Left)], 8),
        ) {
            let (ring, receiver, _memory) = ring(degree);
            for position in 0..before {
                fill(&ring, position);
                prop_assert_eq!(next(&receiver), Some(position));
            }
            let fates = &fates[..degree as usize];
            for (position, fate) in (before..).zip(fates) {
                match fate {
                    Fate::Filled => fill(&ring, position),
                    Fate::GivenUp => ring.bury_at(position),
                    Fate::Left => {}
                }
            }
            let arrived: Vec<u64> = std::iter::from_fn(|| next(&receiver)).collect();
            let up_to_gap = (before..).zip(fates).take_while(|&(_, &fate)| fate != Fate::Left);
            let filled = up_to_gap.filter(|&(_, &fate)| fate == Fate::Filled);
            prop_assert_eq!(arrived, filled.map(|(position, _)| position).collect::<Vec<_>>());
        }
    }
}
