//! Any sequence of calls has the same effects on a channel as on a model, a queue of the same length.

use std::collections::VecDeque;

use mp_core::{Channel, Endpoints, Error, ErrorKind, Guard, Receiver, Sender, SharedBuffer, World};
use proptest::prelude::*;

const MAX: usize = 5;

#[derive(Clone, Debug)]
enum Call {
    Send(Vec<u32>),
    /// Reserves a slot, writes it, and publishes it or not.
    Fill(Vec<u32>, bool),
    SendBuffer(Vec<u32>),
    /// Receives a message and keeps it.
    Keep,
    ReceiveBuffer,
    /// Drops one of the kept messages.
    Drop(prop::sample::Index),
    CloseSender,
}

fn call() -> impl Strategy<Value = Call> {
    let message = || prop::collection::vec(any::<u32>(), 0..MAX + 3);
    prop_oneof![
        3 => message().prop_map(Call::Send),
        2 => (message(), any::<bool>()).prop_map(|(message, publish)| Call::Fill(message, publish)),
        3 => prop::collection::vec(any::<u32>(), 0..20).prop_map(Call::SendBuffer),
        4 => Just(Call::Keep),
        3 => Just(Call::ReceiveBuffer),
        4 => any::<prop::sample::Index>().prop_map(Call::Drop),
        1 => prop::bool::weighted(0.1).prop_map(|close| if close { Call::CloseSender } else { Call::Keep }),
    ]
}

/// A message that the test keeps, and the contents that it should have.
enum Kept<'a> {
    Guard(Guard<'a, [u32]>, Vec<u32>),
    Buffer(SharedBuffer<u32>, Vec<u32>),
}

/// A channel as a queue, with a slot for each message. The slots are used in a circle.
struct Model {
    shared: bool,
    /// For each slot, whether it is taken.
    slots: Vec<bool>,
    sent: usize,
    received: usize,
    /// In a channel between two ranks, slots come back only in order. This is the number of slots that have come back.
    head: usize,
    queue: VecDeque<(Vec<u32>, bool)>,
}

impl Model {
    fn full(&self) -> bool {
        let count = self.slots.len();
        if self.shared { self.slots[self.sent % count] } else { self.sent - self.head >= count }
    }

    fn all_held(&self) -> bool {
        !self.shared && self.received - self.head >= self.slots.len()
    }

    fn send(&mut self, message: Vec<u32>, moved: bool) {
        let slot = self.sent % self.slots.len();
        self.slots[slot] = true;
        self.sent += 1;
        self.queue.push_back((message, moved));
    }

    fn release(&mut self, position: usize) {
        let count = self.slots.len();
        self.slots[position % count] = false;
        while self.head < self.received && !self.slots[self.head % count] {
            self.head += 1;
        }
    }
}

fn check(shared: bool, degree: usize, calls: Vec<Call>) -> Result<(), TestCaseError> {
    let rank = World::solo().unwrap();
    drop(rank.buffer::<u8>(1).unwrap());
    let start = rank.memory().in_use;
    let channel = Channel::degree(degree as u32).max_len(MAX);
    let endpoints = Endpoints::new([0], [0]);
    let (sender, receiver): (Sender<[u32]>, Receiver<[u32]>) = if shared {
        let sender = rank.shared_sender("x", &endpoints, channel).unwrap();
        (sender, rank.shared_receiver("x", &endpoints, channel).unwrap())
    } else {
        (rank.sender("x", 0, channel).unwrap(), rank.receiver("x", 0, channel).unwrap())
    };
    let mut sender = Some(sender);
    let mut model = Model {
        shared,
        slots: vec![false; degree],
        sent: 0,
        received: 0,
        head: 0,
        queue: VecDeque::new(),
    };
    let mut kept: Vec<(usize, Kept)> = Vec::new();
    for call in calls {
        match call {
            Call::Send(message) => {
                let Some(sender) = &mut sender else { continue };
                match sender.try_send(&message).map_err(Error::into_kind) {
                    Err(ErrorKind::TooLong { len, max: MAX, .. }) => {
                        prop_assert!(len == message.len() && len > MAX);
                    }
                    Err(ErrorKind::Full { .. }) => prop_assert!(model.full()),
                    Ok(()) => {
                        prop_assert!(!model.full() && message.len() <= MAX);
                        model.send(message, false);
                    }
                    Err(error) => prop_assert!(false, "{error}"),
                }
            }
            Call::Fill(message, publish) => {
                let Some(sender) = &mut sender else { continue };
                // A slot that is given up in a shared channel must be passed. Other tests cover that.
                let publish = publish || shared;
                match sender.try_reserve(message.len()).map_err(Error::into_kind) {
                    Err(ErrorKind::TooLong { .. }) => prop_assert!(message.len() > MAX),
                    Err(ErrorKind::Full { .. }) => prop_assert!(model.full()),
                    Ok(mut slot) => {
                        prop_assert!(!model.full());
                        slot.copy_from_slice(&message);
                        if publish {
                            slot.publish().unwrap();
                            model.send(message, false);
                        }
                    }
                    Err(error) => prop_assert!(false, "{error}"),
                }
            }
            Call::SendBuffer(message) => {
                let Some(sender) = &mut sender else { continue };
                match sender.try_send_buffer(rank.buffer_from(&message).unwrap()) {
                    Err(back) => {
                        let full = matches!(back.error.kind(), ErrorKind::Full { .. });
                        prop_assert!(full && model.full(), "{back}");
                        prop_assert_eq!(&*back.message, &*message);
                    }
                    Ok(()) => {
                        prop_assert!(!model.full());
                        model.send(message, true);
                    }
                }
            }
            Call::Keep => match receiver.try_receive() {
                Ok(Some(guard)) => {
                    let Some((message, moved)) = model.queue.pop_front() else {
                        return Err(TestCaseError::fail("a message from nowhere"));
                    };
                    prop_assert_eq!(&*guard, &*message);
                    let position = model.received;
                    model.received += 1;
                    if moved {
                        // A moved buffer's slot was given back at once.
                        model.release(position);
                    }
                    let position = if moved { usize::MAX } else { position };
                    kept.push((position, Kept::Guard(guard, message)));
                }
                other => nothing(other.map(drop), &model, sender.is_none())?,
            },
            Call::ReceiveBuffer => match receiver.try_receive_buffer() {
                Ok(Some(buffer)) => {
                    let Some((message, _)) = model.queue.pop_front() else {
                        return Err(TestCaseError::fail("a message from nowhere"));
                    };
                    prop_assert_eq!(&*buffer, &*message);
                    let position = model.received;
                    model.received += 1;
                    model.release(position);
                    kept.push((usize::MAX, Kept::Buffer(buffer, message)));
                }
                other => nothing(other.map(drop), &model, sender.is_none())?,
            },
            Call::Drop(which) if !kept.is_empty() => {
                let (position, message) = kept.swap_remove(which.index(kept.len()));
                if position != usize::MAX {
                    model.release(position);
                }
                drop(message);
            }
            Call::Drop(_) => {}
            Call::CloseSender => sender = None,
        }
        for (_, kept) in &mut kept {
            match kept {
                Kept::Guard(guard, message) => prop_assert_eq!(&**guard, &**message),
                Kept::Buffer(buffer, message) => {
                    prop_assert_eq!(&**buffer, &**message);
                    // The buffer belongs to the test, so writing to it must change nothing else.
                    buffer.iter_mut().for_each(|element| *element = !*element);
                    message.iter_mut().for_each(|element| *element = !*element);
                }
            }
        }
    }
    drop(kept);
    drop((sender, receiver));
    prop_assert_eq!(rank.memory().in_use, start, "memory is left");
    Ok(())
}

/// Checks a receive call that returned no message against the model.
fn nothing(result: mp_core::Result<()>, model: &Model, closed: bool) -> Result<(), TestCaseError> {
    prop_assert!(model.queue.is_empty(), "{} messages wait", model.queue.len());
    match result.map_err(Error::into_kind) {
        Ok(()) => prop_assert!(!closed && !model.all_held()),
        Err(ErrorKind::Disconnected { .. }) => prop_assert!(closed && !model.all_held()),
        Err(ErrorKind::GuardsHeld { .. }) => prop_assert!(model.all_held()),
        Err(error) => prop_assert!(false, "{error}"),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("PROPTEST_CASES").map_or(200, |cases| cases.parse().unwrap()),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_channel_between_two_is_a_queue(
        degree in 1usize..6,
        calls in prop::collection::vec(call(), 0..80),
    ) {
        check(false, degree, calls)?;
    }

    #[test]
    fn a_shared_channel_is_a_queue(
        degree in 1usize..6,
        calls in prop::collection::vec(call(), 0..80),
    ) {
        check(true, degree, calls)?;
    }
}
