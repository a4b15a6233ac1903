//! An open end of a channel.
//!
//! The end that is opened first makes the channel, and the other end finds it. Each end states its specification. If
//! the two differ, both ends report both specifications.

use std::{ptr::NonNull, sync::Arc};

use super::{
    agreement::{Agreement, Apart, End, Means},
    descriptor::{self, Descriptor, Middle, block_len},
    farewell,
    rendezvous::Meeting,
    ring::Ring,
    roll,
    shared_ring::{SharedRing, SharedSlotHeader},
    signals::{Glance, Signal, Signals},
    slots::{Geometry, SlotHeader, Slots},
    spec::ChannelSpec,
    spec_words::SpecWords,
};
use crate::{
    ErrorKind,
    context::Context,
    error::Error,
    named::{Leaving, NAME, Object, find_or_make},
    segment::{BlockKey, LockedHeap, Offset, SegmentError},
    sync::{AtomicU32, Ordering},
};

/// An open end: the channel's parts in this process's memory.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) context: Arc<Context>,
    pub(crate) agreement: Agreement,
    pub(crate) end: End,
    block: BlockKey,
    middle: NonNull<Middle>,
    slots: NonNull<u8>,
    geometry: Geometry,
    /// One more than the rank that was lost at this end, or 0. Another thread may drop the end.
    lost: AtomicU32,
}

// SAFETY: the pointers lead into the segment, which `context` keeps mapped. The memory behind them is atomic, or is
// handed over by the ring's protocol.
unsafe impl Send for Opened {}

impl Opened {
    /// Opens this rank's end, and makes the channel if the other end has not.
    pub(crate) fn open(
        context: Arc<Context>,
        mut agreement: Agreement,
        end: End,
    ) -> Result<Self, Error> {
        if !agreement.name().is_valid() {
            let reason = format!("its name must have 1 to {NAME} bytes, none of them zero");
            return Err(ErrorKind::BadChannel { channel: agreement.name, reason }.into());
        }
        SpecWords::cut(&mut agreement.spec);
        let geometry = agreement.geometry(agreement.means())?;
        let (mut heap, channel, _) = find_or_make(
            &context,
            false,
            |heap| descriptor::of(&context, heap, &agreement, end),
            || make(&context, &agreement, geometry),
            |heap, new| publish(heap, new, &agreement),
        )?;
        let middle = channel.middle()?;
        let theirs = channel.whole_spec()?;
        if agreement.spec != theirs {
            channel.other.write(&agreement.spec);
            // SAFETY: the control words are in range and aligned, and were formatted when the channel was made.
            unsafe { &middle.as_ref().signals }.raise_mismatch();
            let place = (end as usize, context.me);
            channel.take_out(&mut heap, place, Leaving::CLOSED, None)?;
            drop(heap);
            for rank in agreement.senders.iter().chain(&agreement.receivers) {
                context.ring(*rank);
            }
            let (ours, theirs) = (Box::new(agreement.spec), Box::new(theirs));
            return Err(ErrorKind::Mismatch { channel: agreement.name, ours, theirs }.into());
        }
        channel.check_room(&geometry)?;
        let me = context.me;
        agreement.stood_for(end, &me).iter().for_each(|&r| channel.side(end).opened.insert(r));
        let (block, slots) = (channel.key, channel.slots(&geometry)?);
        drop(heap);
        let lost = AtomicU32::new(0);
        Ok(Self { context, agreement, end, block, middle, slots, geometry, lost })
    }

    /// Returns by what the ends pass on messages.
    pub(super) fn means(&self) -> Means {
        self.agreement.means()
    }

    /// Returns whether this is an end of a shared channel whose slots are on another node.
    pub(super) fn is_apart(&self) -> bool {
        self.agreement.apart.is_some_and(|apart| apart.end == self.end)
    }

    fn middle(&self) -> &Middle {
        // SAFETY: `open` has placed the control words in the segment, which `context` keeps mapped.
        unsafe { self.middle.as_ref() }
    }

    pub(crate) fn signals(&self) -> &Signals {
        &self.middle().signals
    }

    fn signal_for(&self, end: End) -> &Signal {
        self.middle().signal_for(end)
    }

    /// Returns the word at which this end looks after each message.
    ///
    /// # Safety
    /// The caller keeps `self` as long as it uses the value.
    pub(crate) unsafe fn glance(&self, end: End) -> Glance {
        // SAFETY: the signal lies in the segment, which `self` keeps mapped.
        unsafe { Glance::at(self.signal_for(end), self.context.waiting.asymmetry) }
    }

    /// Wakes the other end if it sleeps. Each end must call this after each of its moves, unless its [`Glance`] is
    /// quiet.
    pub(crate) fn attend(&self, end: End) {
        self.context.waiting.asymmetry.light();
        let signal = self.signal_for(end);
        if !signal.quiet() && signal.take_parked() {
            self.ring_peers();
            if let Some(carrier) = self.context.carrier().filter(|_| self.leads_elsewhere()) {
                carrier.dispatch();
            }
        }
    }

    pub(crate) fn meeting(&self) -> &Meeting {
        &self.middle().meeting
    }

    /// Returns the ring between two ranks.
    pub(crate) fn ring(&self) -> Ring {
        // SAFETY: the control words and the slots are formatted, and stay valid as long as `self` is kept. The ends
        // keep `self` as long as they use the ring.
        unsafe {
            let slots = Slots::new(self.slots, self.geometry);
            Ring::new(NonNull::from(&self.middle().ring), slots)
        }
    }

    /// Returns a ring without slots, for a channel that does not use the ring between two ranks.
    pub(crate) fn no_ring(&self) -> Ring {
        // SAFETY: as in `ring`, and the blank slot is never freed.
        unsafe { Ring::new(NonNull::from(&self.middle().ring), Slots::blank()) }
    }

    /// Returns the ring among several ranks.
    pub(crate) fn shared_ring(&self) -> SharedRing {
        // SAFETY: as in `ring`.
        unsafe {
            let slots = Slots::new(self.slots, self.geometry);
            SharedRing::new(NonNull::from(&self.middle().shared), slots)
        }
    }

    fn descriptor(&self) -> Result<&Descriptor, SegmentError> {
        self.context.segment.at(self.descriptor_offset())
    }

    pub(crate) fn descriptor_offset(&self) -> Offset<Descriptor> {
        Offset::new(self.block.payload())
    }

    /// Returns the ranks at the other end.
    pub(crate) fn peers(&self) -> &[u32] {
        self.agreement.peers(self.end)
    }

    /// Returns the error for an impossible position in a control word of the shared ring.
    #[cold]
    pub(crate) fn corrupt_position(&self, position: u64) -> Error {
        let offset = self.descriptor_offset().bytes();
        self.context.segment.corrupt("a shared channel's position", offset, position).into()
    }

    /// Returns whether the rank can't touch this channel at that end any more, because it has closed the end or its
    /// process has ended. (A rank that is merely lost may be a thread that still unwinds, or may have left other
    /// threads behind.) The slots of a shared channel that the rank held then belong to the other ranks.
    pub(crate) fn released(&self, end: End, rank: u32) -> bool {
        self.descriptor().is_ok_and(|descriptor| descriptor.side(end).released.contains(rank))
    }

    /// Wakes the ranks at the other end. No thread of this node sleeps for a rank of another node.
    #[cold]
    pub(crate) fn ring_peers(&self) {
        for &rank in self.peers().iter().filter(|&&rank| self.context.is_here(rank)) {
            self.context.ring(rank);
        }
    }

    /// Returns how often to look for a message before the actual wait begins. Returns 0 if the message comes from another
    /// node and the wait itself carries it.
    pub(crate) fn looks(&self) -> u32 {
        match self.leads_elsewhere() && self.context.carrier().is_some() {
            true => 0,
            false => self.context.looks(),
        }
    }

    /// Returns whether the other end is on another node.
    pub(crate) fn leads_elsewhere(&self) -> bool {
        self.is_apart() || self.peers().iter().any(|&peer| !self.context.is_here(peer))
    }

    /// Returns the reason why the channel can't be used any more.
    #[cold]
    pub(crate) fn why_ended(&self, operation: crate::wait::Operation) -> Error {
        let channel = self.agreement.name.clone();
        let descriptor = match self.descriptor() {
            Ok(descriptor) => descriptor,
            Err(error) => return error.into(),
        };
        if self.signal_for(self.end).mismatched() {
            let ours = self.agreement.spec.clone();
            let theirs = Box::new(descriptor.other.read());
            return ErrorKind::Mismatch { channel, ours: Box::new(ours), theirs }.into();
        }
        match descriptor.side(self.end.other()).lost.first() {
            Some(rank) => {
                let (rank, place) =
                    (rank as usize, crate::Place::Named { operation, name: channel });
                Error::from(ErrorKind::PeerLost { rank, world_rank: rank, place })
            }
            None => ErrorKind::Disconnected { channel }.into(),
        }
    }

    /// Notes that the channel's other part, on another node, has a different specification.
    pub(crate) fn disagree(&self, theirs: &ChannelSpec) -> Result<(), SegmentError> {
        let heap = self.context.lock_heap()?;
        self.descriptor()?.other.write(theirs);
        self.signals().raise_mismatch();
        drop(heap);
        self.ring_peers();
        Ok(())
    }

    /// Returns what the other end asked for, if it is something else.
    pub(crate) fn differs(&self) -> Option<ChannelSpec> {
        let differs = self.signal_for(self.end).mismatched();
        differs.then(|| self.descriptor().ok()).flatten().map(|descriptor| descriptor.other.read())
    }

    /// Returns the channel's place in the segment.
    pub(crate) fn key(&self) -> BlockKey {
        self.block
    }

    /// Notes that the thread that sent through this end has panicked. Another thread may drop the end.
    pub(crate) fn break_off(&self) {
        self.lose(self.context.me);
    }

    /// Notes that a rank was lost at this end.
    pub(crate) fn lose(&self, rank: u32) {
        self.lost.store(rank + 1, Ordering::Relaxed);
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        let closed = || -> Result<(), SegmentError> {
            let mut heap = self.context.lock_heap()?;
            let channel = Object::<Descriptor>::at(&self.context, self.block)?;
            // Relaxed: the drop of the last reference was synchronized with the other threads that shared the end.
            let lost = self.lost.load(Ordering::Relaxed).checked_sub(1);
            let ranks = self.agreement.stood_for(self.end, &self.context.me);
            // A rank that was lost with the node of the slots may be one of the other end.
            for &rank in lost.iter().chain(ranks.iter().filter(|&&rank| Some(rank) != lost)) {
                let leaving = Leaving::by_drop(Some(rank) == lost);
                let place = (self.end as usize, rank);
                if channel.take_out(&mut heap, place, leaving, Some(&self.agreement))? {
                    break;
                }
            }
            Ok(())
        };
        // If the heap is broken, the next allocation reports it.
        let _ = closed();
    }
}

/// Makes a complete channel that no other rank can find yet.
fn make<'a>(
    context: &'a Context,
    agreement: &Agreement,
    geometry: Geometry,
) -> Result<Object<'a, Descriptor>, SegmentError> {
    let new = Object::<Descriptor>::new(context, agreement.full_name(), block_len(&geometry))?;
    new.write(agreement);
    let (middle, first) = (new.middle()?, new.slots(&geometry)?);
    // SAFETY: no other thread knows the new block, and the places are in its range and aligned. Zeros are the control words
    // of a channel in which nothing has happened yet.
    unsafe {
        // This writes zeros and not a value, because the padding of a value would be uninitialized bytes for a buffer
        // that later takes this place.
        middle.write_bytes(0, 1);
        match agreement.means() {
            Means::SharedRing => Slots::new(first, geometry).format(SharedSlotHeader::new),
            _ => Slots::new(first, geometry).format(|_| SlotHeader::new()),
        }
    }
    Ok(new)
}

/// Puts a new channel where the other ranks find it. Also enters this rank in the receiver's roll, if there is one.
fn publish(
    heap: &mut LockedHeap<'_>,
    new: &Object<'_, Descriptor>,
    agreement: &Agreement,
) -> Result<(), SegmentError> {
    let (context, name) = (new.context, agreement.name());
    let farewell = match agreement.shared {
        true => None,
        false => farewell::of(context, heap, name)?,
    };
    if let Some(Apart { end, rank }) = agreement.apart {
        // The others at this end have parts for themselves. They were not lost here.
        for &other in agreement.side(end).iter().filter(|&&other| other != rank) {
            new.take_out(heap, (end as usize, other), Leaving::CLOSED, None)?;
        }
    }
    let withdrawn = |rank| farewell.as_ref().is_some_and(|farewell| farewell.contains(rank));
    new.publish(heap, agreement.full_name(), withdrawn)?;
    if let (false, &[receiver]) = (agreement.shared, &agreement.receivers[..])
        && receiver != context.me
        && let Some(roll) = roll::of(context, heap, name, receiver)?
    {
        roll.enter(context.me);
        context.ring(receiver);
    }
    Ok(())
}
