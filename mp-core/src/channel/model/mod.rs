//! The channels' protocols under a model checker that tries all interleavings and, for every load, all values that the
//! memory model allows.
//!
//! Messages are ordinary memory, in which the checker can't see races. The race markers of the slots stand for them.
//! The threads of a model run on one thread of the system, so `Rc` is enough.

mod callers;
mod outlet;
mod rendezvous;
mod ring;
mod shared_ring;
mod signals;

use std::{ptr::NonNull, rc::Rc};

use super::{
    signals::{Signal, Signals},
    slots::{Geometry, MovedBuffer, Slots},
};
use crate::{
    sync::{Futex, yield_now},
    wait::{Asymmetry, Flag, parked},
};

/// Room for a channel's words and slots, as a segment would provide it.
struct Arena<C, H> {
    control: Box<C>,
    memory: Box<[u128]>,
    slots: Slots<H>,
}

impl<C, H> Arena<C, H> {
    fn new(control: C, count: u64, header: impl FnMut(u64) -> H) -> Rc<Self> {
        const GRAIN: usize = size_of::<u128>();
        let payload = size_of::<H>().next_multiple_of(GRAIN);
        let stride = payload + size_of::<MovedBuffer>().next_multiple_of(GRAIN);
        let geometry = Geometry { stride, payload, header: 0, count };
        let mut memory = vec![0u128; geometry.bytes() / GRAIN].into_boxed_slice();
        let first = NonNull::from(&mut *memory).cast();
        // SAFETY: the memory is as large as the geometry says, is aligned for the checker's words, and does not move.
        // Nobody else uses it yet.
        let slots = unsafe {
            let slots = Slots::new(first, geometry);
            slots.format(header);
            for index in 0..count {
                slots.payload(slots.slot(index)).cast::<MovedBuffer>().write(MovedBuffer::new());
            }
            slots
        };
        Rc::new(Self { control: Box::new(control), memory, slots })
    }

    fn control(&self) -> NonNull<C> {
        NonNull::from(&*self.control)
    }
}

/// How the ends wait in a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// They look again and again. Then no fence of a wake-up helps the protocol under test, but the checker terminates
    /// only if no two threads do this at the same time.
    Spinning,
    /// They sleep, as in real use.
    Parked,
}

/// The means by which the two ends call each other.
struct Bells {
    waits: Waits,
    signals: Signals,
    sender: Futex,
    receiver: Futex,
}

impl Bells {
    fn new(waits: Waits) -> Rc<Self> {
        let (sender, receiver) = (Futex::new(), Futex::new());
        Rc::new(Self { waits, signals: Signals::new(), sender, receiver })
    }

    /// Does what a sender does after each of its moves.
    fn attend_receiver(&self) {
        attend(self.waits, &self.signals.for_sender, &[&self.receiver]);
    }

    /// Does what a receiver does after each of its moves.
    fn attend_sender(&self) {
        attend(self.waits, &self.signals.for_receiver, &[&self.sender]);
    }

    fn receiver_waits<T>(&self, poll: impl FnMut() -> Option<T>) -> T {
        wait(self.waits, &self.receiver, &*self.signals.for_sender, poll)
    }

    fn sender_waits<T>(&self, poll: impl FnMut() -> Option<T>) -> T {
        wait(self.waits, &self.sender, &*self.signals.for_receiver, poll)
    }
}

/// Does what `Sender::attend` and `Receiver::attend` do.
fn attend(waits: Waits, signal: &Signal, bells: &[&Futex]) {
    if waits == Waits::Spinning {
        return;
    }
    Asymmetry::Ordinary.light();
    if !signal.quiet() && signal.take_parked() {
        for bell in bells {
            bell.advance_and_wake();
        }
    }
}

fn wait<T>(waits: Waits, bell: &Futex, flag: &dyn Flag, mut poll: impl FnMut() -> Option<T>) -> T {
    while waits == Waits::Spinning {
        match poll() {
            Some(answer) => return answer,
            None => yield_now(),
        }
    }
    parked(bell, flag, poll)
}
