//! Sends that can't continue: receivers that stop, ranks that die, messages that panic.

use std::{
    borrow::Borrow,
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use mp_core::{Cause, Channel, Endpoints, Error, ErrorKind, Rank, Result, Select, Sender, World};
use mp_delegate::threads::{Choice, CommThreads};

use crate::{
    stray::{Stray, until},
    support::{
        Watchdog, on_all,
        scenarios::{self, die},
    },
    wait_each,
};

const LONG: Duration = Duration::from_secs(8);

/// A receiver takes some messages and closes its end, while many more are delegated.
#[test]
fn a_receiver_that_stops() {
    for degree in [0, 1, 4] {
        for taken in [0, 1, 5] {
            on_all(2, |rank| {
                let channel = Channel::degree(degree).max_len(10);
                if rank.id() == 0 {
                    let threads = CommThreads::start(2)?;
                    let mut to = threads.delegate(rank.sender::<[u64]>("few", 1, channel)?);
                    let vectors: Vec<_> = (0..40).map(|n| to.send(vec![n; 10])).collect();
                    let buffer = to.send_buffer(rank.buffer_from(&[7; 100])?);
                    let mut sent = 0;
                    for (n, answer) in wait_each(vectors).into_iter().enumerate() {
                        let vector = match answer {
                            Ok(vector) => {
                                sent += 1;
                                vector
                            }
                            Err(unsent) => {
                                closed(&unsent.error)?;
                                unsent.message
                            }
                        };
                        ensure!(vector == [n as u64; 10], "not the vector that was given");
                    }
                    ensure!((taken..=taken + degree.max(1)).contains(&sent), "{sent} were sent");
                    let unsent = buffer.wait().expect_err("nobody takes it");
                    closed(&unsent.error)?;
                    ensure!(*unsent.message == [7; 100], "not the buffer that was given");
                    // All later sends fail as well, at once.
                    closed(&to.send([1]).wait().expect_err("nobody takes it").error)
                } else {
                    let from = rank.receiver::<[u64]>("few", 0, channel)?;
                    for n in 0..taken {
                        ensure!(*from.receive()? == [u64::from(n); 10], "message {n}");
                    }
                    Ok(())
                }
            });
        }
    }
}

fn closed(error: &Error) -> Result<()> {
    ensure!(matches!(error.kind(), ErrorKind::Disconnected { .. }), "{error:?}");
    Ok(())
}

#[test]
fn a_receiver_that_dies() {
    for degree in [0, 1, 4] {
        let _watchdog = Watchdog::start();
        let result = World::processes(2).run(|rank| {
            let channel = Channel::degree(degree).max_len(10);
            let ready = Channel::degree(1);
            if rank.id() == 0 {
                let threads = CommThreads::start(2)?;
                let mut to = threads.delegate(rank.sender::<[u64]>("lost", 1, channel)?);
                let vectors: Vec<_> = (0..30).map(|n| to.send(vec![n; 10])).collect();
                let buffer = to.send_buffer(rank.buffer_from(&[7; 100])?);
                rank.sender::<u8>("ready", 1, ready)?.send(&0)?;
                let mut lost = 0;
                for answer in wait_each(vectors) {
                    if let Err(unsent) = answer {
                        peer_lost(&unsent.error, 1)?;
                        ensure!(unsent.message.len() == 10, "the vector is not whole");
                        lost += 1;
                    }
                }
                ensure!(lost >= 30 - 1 - degree, "only {lost} were not sent");
                let unsent = buffer.wait().expect_err("nobody takes it");
                peer_lost(&unsent.error, 1)?;
                ensure!(*unsent.message == [7; 100], "not the buffer that was given");
                Ok(())
            } else {
                let from = rank.receiver::<[u64]>("lost", 0, channel)?;
                rank.receiver::<u8>("ready", 0, ready)?.receive()?;
                from.receive()?;
                match die() {}
            }
        });
        scenarios::check(result, 1).unwrap();
    }
}

/// A rank that is a thread is lost when it panics. Messages that were delegated for it come back.
#[test]
fn a_receiver_that_panics() {
    for degree in [0, 1, 4] {
        let _watchdog = Watchdog::start();
        let result = World::threads(2).run(|rank| {
            let channel = Channel::degree(degree).max_len(10);
            if rank.id() == 0 {
                let threads = CommThreads::start(2)?;
                let mut to = threads.delegate(rank.sender::<[u64]>("lost", 1, channel)?);
                let vectors: Vec<_> = (0..30).map(|n| to.send(vec![n; 10])).collect();
                let buffer = to.send_buffer(rank.buffer_from(&[7; 100])?);
                rank.sender::<u8>("ready", 1, Channel::degree(1))?.send(&0)?;
                let mut lost = 0;
                for (n, answer) in (0..).zip(wait_each(vectors)) {
                    match answer {
                        Ok(vector) => ensure!(vector == [n; 10], "another vector"),
                        Err(unsent) => {
                            peer_lost(&unsent.error, 1)?;
                            ensure!(unsent.message == [n; 10], "another vector");
                            lost += 1;
                        }
                    }
                }
                ensure!(lost >= 30 - 1 - degree, "only {lost} were not sent");
                let unsent = buffer.wait().expect_err("nobody takes it");
                peer_lost(&unsent.error, 1)?;
                ensure!(*unsent.message == [7; 100], "not the buffer that was given");
                return Ok(());
            }
            let from = rank.receiver::<[u64]>("lost", 0, channel)?;
            rank.receiver::<u8>("ready", 0, Channel::degree(1))?.receive()?;
            from.receive()?;
            // The panic must not close the receiver, as in a thread that is stuck elsewhere.
            std::mem::forget(from);
            std::panic::resume_unwind(Box::new("as planned"));
        });
        let Err(ErrorKind::RanksFailed(failed)) = result.as_ref().map_err(Error::kind) else {
            panic!("{result:?}")
        };
        assert_eq!(failed.failures.len(), 1, "{failed}");
        assert!(matches!(failed.failures[0].cause, Cause::Panic(_)), "{failed}");
    }
}

fn peer_lost(error: &Error, lost: usize) -> Result<()> {
    ensure!(matches!(error.kind(), ErrorKind::PeerLost { rank, .. } if *rank == lost), "{error:?}");
    Ok(())
}

/// A rank dies while one of its threads has not filled a slot and others have filled later ones. No message is received
/// without the ones before it.
#[test]
fn a_sender_that_dies_between_two_messages() {
    for moved in [false, true] {
        let _watchdog = Watchdog::start();
        let result = World::processes(2).run(|rank| {
            let channel = Channel::degree(7).max_len(2);
            if rank.id() == 0 {
                let threads = CommThreads::start(2)?;
                let mut to = threads.delegate(rank.sender::<[u64]>("gap", 1, channel)?);
                to.send([0]).wait()?;
                let stays = Some(Arc::new(AtomicBool::new(true)));
                to.set_choice(Choice::Fixed(0));
                let stuck = to.send(Stray { stays, ..Stray::new([1]) });
                to.set_choice(Choice::Fixed(1));
                for n in 2..5 {
                    if moved {
                        to.send_buffer(rank.buffer_from(&[n])?).wait()?;
                    } else {
                        to.send(vec![n]).wait()?;
                    }
                }
                ensure!(!stuck.is_done(), "it can't be lent");
                match die() {}
            }
            let from = rank.receiver::<[u64]>("gap", 0, channel)?;
            ensure!(*from.receive_timeout(LONG)? == [0], "message 0");
            for _ in 0..2 {
                let Err(error) = from.receive_timeout(LONG) else {
                    return Err(Error::other("a message came without the one before it"));
                };
                peer_lost(&error, 0)?;
            }
            peer_lost(&from.try_receive().map(|_| ()).expect_err("no more"), 0)
        });
        scenarios::check(result, 0).unwrap();
    }
}

/// Opens one channel of each kind.
fn kinds(rank: &Rank) -> Result<Vec<Sender<[u64]>>> {
    let all = Endpoints::new([0], [1]);
    Ok(vec![
        rank.sender("kind 0", 1, Channel::degree(0).max_len(4))?,
        rank.sender("kind 1", 1, Channel::degree(1).max_len(4))?,
        rank.sender("kind 2", 1, Channel::degree(5).max_len(4))?,
        rank.shared_sender("kind 3", &all, Channel::degree(2).max_len(4))?,
    ])
}

fn receive_kinds(rank: &Rank) -> Result<Vec<mp_core::Receiver<[u64]>>> {
    let all = Endpoints::new([0], [1]);
    Ok(vec![
        rank.receiver("kind 0", 0, Channel::degree(0).max_len(4))?,
        rank.receiver("kind 1", 0, Channel::degree(1).max_len(4))?,
        rank.receiver("kind 2", 0, Channel::degree(5).max_len(4))?,
        rank.shared_receiver("kind 3", &all, Channel::degree(2).max_len(4))?,
    ])
}

/// A message that panics when it is lent is not sent, and does not stop the others.
#[test]
fn a_message_that_can_not_be_lent() {
    on_all(2, |rank| {
        if rank.id() == 0 {
            let threads = CommThreads::start(2)?;
            for sender in kinds(rank)? {
                let mut to = threads.delegate(sender);
                let requests: Vec<_> = (0..60u64)
                    .map(|n| {
                        let panics = n % 3 == 1 || (30..40).contains(&n);
                        to.send(Stray { panics, ..Stray::new([n]) })
                    })
                    .collect();
                for (n, answer) in wait_each(requests).into_iter().enumerate() {
                    match answer {
                        Ok(stray) => ensure!(!stray.panics, "{n} was sent"),
                        Err(unsent) => {
                            ensure!(unsent.message.elements == [n as u64], "another one");
                            let text = unsent.error.to_string();
                            ensure!(text.contains("can't be lent"), "{n}: {text}");
                        }
                    }
                }
                // These are the last messages: only the end comes after the tombstone.
                let last = Stray { panics: true, ..Stray::new([60]) };
                ensure!(to.send(last).wait().is_err(), "it was sent");
            }
            return Ok(());
        }
        for (kind, from) in receive_kinds(rank)?.into_iter().enumerate() {
            for n in (0..60u64).filter(|n| n % 3 != 1 && !(30..40).contains(n)) {
                // The select polls in another way.
                if n % 2 == 0 {
                    let mut select = Select::new();
                    select.add(&from);
                    select.ready()?;
                }
                ensure!(*from.receive_timeout(LONG)? == [n], "kind {kind}, message {n}");
            }
            closed(&from.receive_timeout(LONG).expect_err("no more"))?;
        }
        Ok(())
    });
}

/// A message whose request was dropped panics when it is dropped. It was sent nevertheless, and the thread goes on.
#[test]
fn a_message_that_can_not_be_dropped() {
    on_all(2, |rank| {
        let channel = Channel::degree(2).max_len(1);
        if rank.id() == 0 {
            let threads = CommThreads::start(1)?;
            let mut to = threads.delegate(rank.sender::<[u64]>("drop", 1, channel)?);
            let dropped = Arc::new(AtomicUsize::new(0));
            for n in 0..50 {
                let mut stray = Stray::counted([n], &dropped);
                stray.end.panics = n % 4 == 0;
                drop(to.send(stray));
            }
            to.send([50]).wait()?;
            drop(to);
            drop(threads);
            ensure!(dropped.load(Ordering::Relaxed) == 50, "{dropped:?} were dropped");
            return Ok(());
        }
        let from = rank.receiver::<[u64]>("drop", 0, channel)?;
        for n in 0..=50 {
            std::thread::sleep(Duration::from_micros(n * 5));
            ensure!(*from.receive_timeout(LONG)? == [n], "message {n}");
        }
        Ok(())
    });
}

/// The same in the thread that drops the request: that thread gets the panic, and the message is dropped once.
#[test]
fn a_message_that_can_not_be_dropped_by_who_gave_it() {
    struct Fragile(Vec<u64>, Arc<AtomicUsize>);
    impl Borrow<[u64]> for Fragile {
        fn borrow(&self) -> &[u64] {
            &self.0
        }
    }
    impl Drop for Fragile {
        fn drop(&mut self) {
            self.1.fetch_add(1, Ordering::Relaxed);
            std::panic::resume_unwind(Box::new("a message that can't be dropped"));
        }
    }
    let dropped = Arc::new(AtomicUsize::new(0));
    let _watchdog = Watchdog::start();
    let done = World::threads(1).run(|rank| {
        let channel = Channel::degree(4).max_len(1);
        let threads = CommThreads::start(1)?;
        let mut to = threads.delegate(rank.sender::<[u64]>("self", 0, channel)?);
        let from = rank.receiver::<[u64]>("self", 0, channel)?;
        // More messages than a lane has at first.
        for n in 0..100 {
            let request = to.send(Fragile(vec![n], Arc::clone(&dropped)));
            until("it is sent", || request.is_done());
            let drop = catch_unwind(AssertUnwindSafe(|| drop(request)));
            ensure!(drop.is_err(), "the panic is gone");
            ensure!(*from.receive()? == [n], "message {n}");
        }
        Ok(())
    });
    done.unwrap();
    assert_eq!(dropped.load(Ordering::Relaxed), 100);
}

/// A message that panics the second time it is lent, which may be while its size is determined.
#[test]
fn a_message_that_is_lent_once() {
    struct Once(Cell<bool>);
    impl Borrow<[u64]> for Once {
        fn borrow(&self) -> &[u64] {
            if self.0.replace(true) {
                std::panic::resume_unwind(Box::new("a message that is lent once"));
            }
            &[7]
        }
    }
    let _watchdog = Watchdog::start();
    let done = World::threads(1).run(|rank| {
        let channel = Channel::degree(4).max_len(1);
        let threads = CommThreads::start(1)?;
        let sender = rank.sender::<[u64]>("self", 0, channel)?;
        let mut to = threads.delegate_to(sender, &[0], Choice::LeastLoaded);
        let from = rank.receiver::<[u64]>("self", 0, channel)?;
        for n in 0..10 {
            let sent = catch_unwind(AssertUnwindSafe(|| to.send(Once(Cell::new(false)))));
            if let Ok(request) = sent {
                ensure!(request.wait().is_err(), "it was lent twice");
            }
            let mut request = to.send(vec![n]);
            ensure!(request.wait_timeout(LONG)?, "message {n} is stuck");
            ensure!(*from.receive()? == [n], "message {n}");
        }
        Ok(())
    });
    done.unwrap();
}

/// Delegated messages that were not sent are given up when their rank panics.
#[test]
fn a_rank_that_panics_does_not_wait() {
    let _watchdog = Watchdog::start();
    let channel = Channel::degree(1).max_len(1);
    let unsent = Arc::new(AtomicUsize::new(0));
    let result = World::threads(2).run(|rank| {
        if rank.id() == 0 {
            let threads = CommThreads::start(1)?;
            let mut to = threads.delegate(rank.sender::<[u64]>("panic", 1, channel)?);
            for n in 0..10 {
                drop(to.send(Stray::counted([n], &unsent)));
            }
            std::panic::resume_unwind(Box::new("as planned"));
        }
        // This rank waits for another message, so that only the panic can end the wait.
        let other = rank.receiver::<u8>("never", 0, Channel::degree(1))?;
        peer_lost(&other.receive_timeout(LONG).expect_err("nobody sends"), 0)
    });
    let Err(ErrorKind::RanksFailed(failed)) = result.as_ref().map_err(Error::kind) else {
        panic!("{result:?}")
    };
    assert_eq!(failed.failures.len(), 1, "{failed}");
    assert!(matches!(failed.failures[0].cause, Cause::Panic(_)), "{failed}");
    assert_eq!(unsent.load(Ordering::Relaxed), 10, "everything was dropped");
}

/// The same if one of the panicking rank's communication threads is the last to hold the end of the channel.
#[test]
fn a_channel_that_a_panic_leaves_is_lost() {
    let done = World::threads(2).run(|rank| {
        let one = Channel::degree(1);
        let threads = if rank.id() == 0 { Some(CommThreads::start(2)?) } else { None };
        for round in 0..500 {
            let name = format!("left {round}");
            let Some(threads) = &threads else {
                let from = rank.receiver::<u64>(&name, 0, one)?;
                let end = (0..).find_map(|_| from.receive().err()).expect("an end");
                peer_lost(&end, 0)?;
                continue;
            };
            let mut to = threads.delegate(rank.sender::<u64>(&name, 1, one)?);
            (0..10).for_each(|n| drop(to.send(n)));
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
                let _to = to;
                std::panic::resume_unwind(Box::new("as planned"));
            }));
            ensure!(caught.is_err(), "no panic");
        }
        Ok(())
    });
    done.unwrap();
}

#[test]
fn what_is_cancelled_comes_back() {
    on_all(2, |rank| {
        let channel = Channel::degree(2).max_len(1);
        let (go, sent) = (Channel::degree(1), Channel::degree(1));
        if rank.id() == 0 {
            let threads = CommThreads::start(2)?;
            let mut to = threads.delegate(rank.sender::<[u64]>("some", 1, channel)?);
            let requests: Vec<_> = (0..20).map(|n| to.send(vec![n])).collect();
            until("two are sent", || requests[..2].iter().all(|request| request.is_done()));
            to.cancel();
            let answers = wait_each(requests);
            for (n, answer) in answers.iter().enumerate() {
                match answer {
                    Ok(_) => ensure!(n < 2, "message {n} was sent"),
                    Err(unsent) => {
                        ensure!(unsent.message == [n as u64], "another one");
                        let error = &unsent.error;
                        ensure!(matches!(error.kind(), ErrorKind::NotSent { .. }), "{error:?}");
                    }
                }
            }
            rank.sender::<u8>("go", 1, go)?.send(&0)?;
            // The sender itself sends these, after the messages that were given up.
            to.send([100]).wait()?;
            to.send([101]).wait()?;
            to.send([102]).wait()?;
            rank.sender::<u64>("sent", 1, sent)?
                .send(&(answers.iter().flatten().count() as u64))?;
            return Ok(());
        }
        let from = rank.receiver::<[u64]>("some", 0, channel)?;
        rank.receiver::<u8>("go", 0, go)?.receive()?;
        for n in [0, 1, 100, 101, 102] {
            ensure!(*from.receive_timeout(LONG)? == [n], "message {n}");
        }
        ensure!(*rank.receiver::<u64>("sent", 0, sent)?.receive()? == 2, "not two");
        closed(&from.receive_timeout(LONG).expect_err("no more"))
    });
}

#[test]
fn what_can_not_be_sent_at_all_says_so_at_once() {
    let _watchdog = Watchdog::start();
    let done = World::threads(1).run(|rank| {
        let threads = CommThreads::start(1)?;
        let channel = Channel::degree(4).max_len(3);
        let mut to = threads.delegate(rank.sender::<[u64]>("self", 0, channel)?);
        let from = rank.receiver::<[u64]>("self", 0, channel)?;
        let long = to.send(vec![1; 4]);
        ensure!(long.is_done(), "it is known at once");
        let unsent = long.wait().expect_err("too long");
        ensure!(
            matches!(unsent.error.kind(), ErrorKind::TooLong { len: 4, max: 3, .. }),
            "{unsent:?}"
        );
        ensure!(unsent.message == [1; 4], "not what was given");
        let foreign = World::solo()?.buffer_from(&[1u64])?;
        let unsent = to.send_buffer(foreign).wait().expect_err("of another world");
        ensure!(matches!(unsent.error.kind(), ErrorKind::BadChannel { .. }), "{unsent:?}");
        // The refused messages took no places.
        to.send([5]).wait()?;
        ensure!(*from.receive()? == [5], "another message");
        Ok(())
    });
    done.unwrap();
}
