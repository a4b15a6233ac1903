//! Ways in which safe programs could try to break a world without dying: they leak values that should be dropped, drop
//! them in other threads or in another order, and write into slots what the library itself has written there.

use std::{mem::forget, sync::Mutex, time::Duration};

use mp_core::{Channel, Endpoints, Error, ErrorKind, Select, Wait, WaitPolicy, World};

const LONG: Duration = Duration::from_secs(10);

#[test]
fn a_buffer_received_behind_a_leaked_guard_stays_the_receivers() {
    let rank = World::solo().unwrap();
    let channel = Channel::degree(4).max_len(4);
    let mut sender = rank.sender::<[u64]>("mixed", 0, channel).unwrap();
    let receiver = rank.receiver::<[u64]>("mixed", 0, channel).unwrap();
    sender.send(&[1]).unwrap();
    sender.send_buffer(rank.buffer_from(&[2u64; 100]).unwrap()).unwrap();
    forget(receiver.receive().unwrap());
    let mine = receiver.receive_buffer().unwrap();
    drop((sender, receiver));
    let other = rank.buffer_from(&[3u64; 100]).unwrap();
    assert_ne!(mine.as_ptr(), other.as_ptr());
    assert_eq!(*mine, [2; 100]);
}

#[test]
fn what_a_program_writes_into_a_slot_is_never_taken_for_a_moved_buffer() {
    let rank = World::solo().unwrap();
    let channel = Channel::degree(1).max_len(4);
    let mut sender = rank.sender::<[u64]>("mixed", 0, channel).unwrap();
    let receiver = rank.receiver::<[u64]>("mixed", 0, channel).unwrap();
    sender.send_buffer(rank.buffer_from(&[2u64; 100]).unwrap()).unwrap();
    let mine = receiver.receive_buffer().unwrap();
    // The slot still contains the record of the moved buffer: its key, its length, and its number.
    let mut slot = sender.reserve(4).unwrap();
    slot[2] ^= 1;
    drop(slot);
    drop((sender, receiver));
    let other = rank.buffer_from(&[3u64; 100]).unwrap();
    assert_ne!(mine.as_ptr(), other.as_ptr());
    assert_eq!(*mine, [2; 100]);
}

#[test]
fn a_leaked_slot_of_a_shared_channel_is_used_by_the_next_send() {
    let rank = World::solo().unwrap();
    let endpoints = Endpoints::new([0], [0]);
    let mut sender = rank.shared_sender::<u64>("queue", &endpoints, Channel::degree(2)).unwrap();
    let receiver = rank.shared_receiver::<u64>("queue", &endpoints, Channel::degree(2)).unwrap();
    for message in 0..10 {
        forget(sender.reserve().unwrap());
        sender.send(&message).unwrap();
        assert_eq!(*receiver.try_receive().unwrap().expect("a message was sent"), message);
    }
    forget(sender.reserve().unwrap());
    drop(sender);
    assert!(matches!(
        receiver.receive_timeout(LONG).as_ref().map_err(Error::kind),
        Err(ErrorKind::Disconnected { .. })
    ));
}

#[test]
fn a_leaked_slot_of_a_rendezvous_is_used_by_the_next_send() {
    World::threads(2)
        .run(|rank| {
            if rank.id() == 0 {
                let mut sender = rank.sender::<u64>("meet", 1, Channel::degree(0))?;
                forget(sender.reserve_with(LONG)?);
                sender.send_timeout(&7, LONG)
            } else {
                let receiver = rank.receiver::<u64>("meet", 0, Channel::degree(0))?;
                assert_eq!(*receiver.receive()?, 7);
                Ok(())
            }
        })
        .unwrap();
}

#[test]
fn slots_that_are_given_up_leave_a_shared_channel_empty() {
    let rank = World::solo().unwrap();
    let endpoints = Endpoints::new([0], [0]);
    let mut sender = rank.shared_sender::<u64>("queue", &endpoints, Channel::degree(2)).unwrap();
    let receiver = rank.shared_receiver::<u64>("queue", &endpoints, Channel::degree(2)).unwrap();
    for round in 0..5 {
        for _ in 0..5 {
            drop(sender.try_reserve().expect("the channel is empty"));
        }
        sender.try_send(&round).unwrap();
        assert_eq!(*receiver.try_receive().unwrap().expect("a message was sent"), round);
    }
}

#[test]
fn closing_wakes_the_other_end_in_the_same_rank() {
    let rank = World::solo().unwrap();
    let sender = rank.sender::<u64>("self", 0, Channel::degree(1)).unwrap();
    let receiver = rank.receiver::<u64>("self", 0, Channel::degree(1)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // The receiver sleeps by the time the sender is dropped.
            std::thread::sleep(Duration::from_millis(100));
            drop(sender);
        });
        let receiver = receiver;
        let started = std::time::Instant::now();
        let answer = receiver.receive_with(Wait::from(WaitPolicy::Park).limit(LONG));
        assert!(
            matches!(answer.as_ref().map_err(Error::kind), Err(ErrorKind::Disconnected { .. })),
            "{answer:?}"
        );
        assert!(started.elapsed() < LONG / 2, "woken by the limit only");
    });
}

#[test]
fn ends_and_buffers_can_outlive_their_ranks_and_their_world() {
    let smuggled = Mutex::new(None);
    let (sender, receiver, buffer) = {
        World::threads(2)
            .run(|rank| {
                if rank.id() == 0 {
                    let sender = rank.sender::<[u64]>("late", 1, Channel::degree(2).max_len(2))?;
                    let receiver = rank.receiver::<u64>("self", 0, Channel::degree(2))?;
                    *smuggled.lock().unwrap() =
                        Some((sender, receiver, rank.buffer_from(&[5u64])?));
                } else {
                    let late = rank.receiver::<[u64]>("late", 0, Channel::degree(2).max_len(2))?;
                    assert!(matches!(
                        late.receive().as_ref().map_err(Error::kind),
                        Err(ErrorKind::Disconnected { .. })
                    ));
                }
                Ok(())
            })
            .unwrap();
        smuggled.lock().unwrap().take().unwrap()
    };
    let mut sender = sender;
    assert_eq!(*buffer, [5]);
    assert!(sender.send_buffer(buffer).is_err());
    assert!(receiver.try_receive().is_err());
}

#[test]
fn ranks_of_different_worlds_are_not_selected_from_together() {
    let (one, two) = (World::solo().unwrap(), World::solo().unwrap());
    let first = one.receiver::<u64>("x", 0, Channel::degree(1)).unwrap();
    let second = two.receiver::<u64>("x", 0, Channel::degree(1)).unwrap();
    let mut select = Select::new();
    select.add(&first);
    select.add(&second);
    assert!(matches!(
        select.ready_with(LONG).as_ref().map_err(Error::kind),
        Err(ErrorKind::BadWorld(_))
    ));
}

#[test]
fn alignments_that_the_heap_does_not_have_are_refused_by_name() {
    #[derive(Clone, Copy, Debug, bytemuck::Zeroable, bytemuck::Pod)]
    #[repr(C, align(256))]
    struct Wide([u8; 256]);
    let rank = World::solo().unwrap();
    let before = rank.memory().in_use;
    let error = rank.buffer::<Wide>(1).unwrap_err();
    assert!(error.to_string().contains("256"), "{error}");
    assert_eq!(rank.memory().in_use, before);
}
