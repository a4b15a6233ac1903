//! Several threads of a rank, and the guards of locks.

use std::{
    cell::RefCell,
    sync::{Mutex, mpsc},
    thread,
    time::Duration,
};

use mp_core::{Channel, Error, ErrorKind, World};
use mp_delegate::critical::{Protected, Scheme, Section, Server};

use crate::{
    objects::{Counter, Wide, expect},
    support::{Together, Watchdog, on_all, parts},
};

/// More handles than seats: some have their own seat, and the others share one.
#[test]
fn handles_of_a_rank_take_turns() {
    for scheme in Scheme::ALL.into_iter().filter(|scheme| !matches!(scheme, Scheme::MpServer(_))) {
        for seats in [1, 2] {
            on_all(2, |rank| {
                let section = Section::new(scheme).seats(seats);
                let counter = Protected::<Counter>::open(rank, "counter", section, |_| ())?;
                if scheme.needs_server() && rank.id() == 0 {
                    let mut server = Server::new();
                    server.add(counter)?;
                    return server.serve();
                }
                let handles = (0..4).map(|_| counter.another()).collect::<Result<Vec<_>, _>>()?;
                std::thread::scope(|scope| {
                    for handle in handles {
                        scope.spawn(move || {
                            for _ in 0..50 {
                                let request = handle.submit(1).unwrap();
                                assert!(request.wait().unwrap() < 400);
                                handle.apply(0).unwrap();
                            }
                        });
                    }
                });
                let counter = counter;
                let seen = counter.apply(0)?;
                expect((200..=400).contains(&seen), true)
            });
        }
    }
}

/// A seat that was given up is taken again, with the old content of its words.
#[test]
fn seats_are_used_again() {
    for scheme in Scheme::ALL.into_iter().filter(|scheme| !matches!(scheme, Scheme::MpServer(_))) {
        on_all(2, |rank| {
            let section = Section::new(scheme).seats(2).in_flight(2);
            let counter = Protected::<Counter>::open(rank, "counter", section, |_| ())?;
            if scheme.needs_server() && rank.id() == 0 {
                let mut server = Server::new();
                server.add(counter)?;
                return server.serve();
            }
            for _ in 0..30 {
                let other = counter.another()?;
                for _ in 0..7 {
                    drop(other.submit(1)?);
                }
                drop(other);
                counter.apply(1)?;
            }
            Ok(())
        });
    }
}

#[test]
fn guards_protect_the_value() {
    for scheme in Scheme::ALL {
        on_all(3, |rank| {
            let wide = Protected::<Wide>::open(rank, "wide", Section::new(scheme).len(50), |_| ())?;
            if !scheme.is_lock() {
                return expect(
                    matches!(
                        wide.lock().as_ref().map_err(Error::kind),
                        Err(ErrorKind::BadObject { .. })
                    ),
                    true,
                );
            }
            for _ in 0..100 {
                let mut value = wide.lock()?;
                let before = value[0];
                expect(value.iter().all(|element| *element == before), true)?;
                value.fill(before + 1);
                drop(value);
                wide.apply([0; 20])?;
            }
            Ok(())
        });
    }
}

/// Nested locks, unlocked in any order.
#[test]
fn locks_nest() {
    let locks = Scheme::ALL.into_iter().filter(|scheme| scheme.is_lock());
    for scheme in locks {
        let sums = World::threads(3).run(|rank| {
            let _watchdog = Watchdog::start();
            let open = |name| Protected::<Counter>::open(rank, name, scheme, |_| ());
            let (a, b, c) = (open("a")?, open("b")?, open("c")?);
            for round in 0..200 {
                let mut first = a.lock()?;
                let mut second = b.lock()?;
                *first += 1;
                *second += 1;
                let mut third = c.lock()?;
                *third += *first + *second;
                if round % 2 == 0 {
                    drop(first);
                    drop(third);
                } else {
                    drop(second);
                }
            }
            Ok(a.apply(0)?.min(b.apply(0)?))
        });
        assert_eq!(sums.unwrap().into_iter().max(), Some(600), "{scheme}");
    }
}

#[test]
fn a_guard_that_a_panic_drops_poisons() {
    for poison in [true, false] {
        let rank = World::solo().unwrap();
        let section = Section::new(Scheme::HybLock).poison(poison);
        let counter = Protected::<Counter>::open(&rank, "counter", section, |_| ()).unwrap();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut value = counter.lock().unwrap();
            *value = 7;
            panic!("in the middle");
        }));
        assert!(panicked.is_err());
        assert_eq!(counter.is_poisoned(), poison);
        assert_eq!(counter.lock().is_err(), poison);
        counter.clear_poison();
        assert_eq!(*counter.lock().unwrap(), 7);
    }
}

/// A second lock of the same value by the same thread would wait for the first, so it is refused.
#[test]
fn a_lock_within_itself_is_refused() {
    let rank = World::solo().unwrap();
    for scheme in Scheme::ALL.into_iter().filter(|scheme| scheme.is_lock()) {
        let counter =
            Protected::<Counter>::open(&rank, "counter", Section::new(scheme).seats(2), |_| ())
                .unwrap();
        let again = counter.another().unwrap();
        let guard = counter.lock().unwrap();
        assert!(matches!(
            again.apply(1).as_ref().map_err(Error::kind),
            Err(ErrorKind::NestedOperation { .. })
        ));
        assert!(matches!(
            again.lock().as_ref().map_err(Error::kind),
            Err(ErrorKind::NestedOperation { .. })
        ));
        drop(guard);
        assert_eq!(again.apply(1).unwrap(), 0);
    }
}

/// The panicking thread has changed the value. A rank that waited for the lock is refused.
#[test]
fn who_waits_for_a_value_that_is_poisoned_meanwhile_is_refused() {
    let _watchdog = Watchdog::start();
    for scheme in Scheme::ALL.into_iter().filter(|scheme| scheme.is_lock()) {
        let result = World::threads(2).run(|rank| {
            let counter = Protected::<Counter>::open(rank, "counter", scheme, |_| ())?;
            let mut others = Together::new(rank)?;
            if rank.id() == 1 {
                others.wait()?;
                let refused = matches!(
                    counter.lock().as_ref().map_err(Error::kind),
                    Err(ErrorKind::Poisoned { .. })
                );
                others.wait()?;
                return expect(refused, true);
            }
            let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let mut value = counter.lock().unwrap();
                *value = 7;
                others.wait().unwrap();
                // The other rank joins the queue.
                std::thread::sleep(Duration::from_millis(50));
                panic!("in the middle");
            }));
            expect(panicked.is_err(), true)?;
            others.wait()?;
            // The refused call must not keep the lock.
            counter.clear_poison();
            let again = counter.lock();
            expect(again.is_ok_and(|value| *value == 7), true)
        });
        result.unwrap();
    }
}

/// A lock is taken and unlocked while an unrelated panic unwinds.
#[test]
fn a_guard_of_a_thread_that_panics_already_does_not_poison() {
    struct Cleanup<'a>(&'a mut Protected<Counter>);
    impl Drop for Cleanup<'_> {
        fn drop(&mut self) {
            *self.0.lock().unwrap() += 1;
        }
    }
    let rank = World::solo().unwrap();
    let mut counter = Protected::<Counter>::open(&rank, "counter", Scheme::Mcs, |_| ()).unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _cleanup = Cleanup(&mut counter);
        panic!("elsewhere");
    }));
    assert!(panicked.is_err() && !counter.is_poisoned());
    assert_eq!(counter.apply(0).unwrap(), 1);
}

/// One guard is used for several accesses at the same time.
#[test]
fn a_guard_is_looked_through_more_than_once() {
    let rank = World::solo().unwrap();
    let section = Section::new(Scheme::Mcs).len(3);
    let wide = Protected::<Wide>::open(&rank, "wide", section, |_| ()).unwrap();
    let mut value = wide.lock().unwrap();
    value.copy_from_slice(&[1, 2, 3]);
    let (first, second): (&[u64], &[u64]) = (&value, &value);
    assert_eq!((first[0], second[2], first[1]), (1, 3, 2));
}

/// The thread may end at any time, in the middle of an operation. No rank waits for it.
#[test]
fn a_thread_that_outlives_its_ranks_code_is_not_waited_for() {
    let _watchdog = Watchdog::start();
    let (told, tell) = (mpsc::channel(), mpsc::channel());
    let ends = Mutex::new(Some((told.1, tell.0)));
    let (go, begun) = (told.0, Mutex::new(tell.1));
    let result = World::threads(2).run(|rank| {
        let section = Section::new(Scheme::Mcs).seats(2);
        let counter = Protected::<Counter>::open(rank, "counter", section, |_| ())?;
        if rank.id() == 0 {
            std::mem::forget(rank.sender::<u8>("here", 1, Channel::degree(1))?);
            let (told, tell) = ends.lock().unwrap().take().unwrap();
            std::thread::spawn(move || {
                told.recv().unwrap();
                let guard = counter.lock().unwrap();
                tell.send(()).unwrap();
                told.recv().unwrap();
                drop(guard);
            });
            return Ok(());
        }
        let ended = rank.receiver::<u8>("here", 0, Channel::degree(1))?.receive().map(drop);
        expect(
            matches!(
                ended.as_ref().map_err(Error::kind),
                Err(mp_core::ErrorKind::Disconnected { .. })
            ),
            true,
        )?;
        // This call waits for the lock, and must not take rank 0 for lost.
        let another = counter.another()?;
        let (held, holds) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let guard = another.lock().unwrap();
                held.send(()).unwrap();
                std::thread::sleep(Duration::from_millis(20));
                drop(guard);
            });
            holds.recv().unwrap();
            counter.apply(1)
        })?;
        go.send(()).unwrap();
        begun.lock().unwrap().recv().unwrap();
        let lost = counter.apply(1);
        go.send(()).unwrap();
        expect(
            matches!(lost.as_ref().map_err(Error::kind), Err(ErrorKind::PeerLost { rank: 0, .. })),
            true,
        )
    });
    result.unwrap();
}

/// More locks than a thread has room for without allocation.
#[test]
fn a_thread_holds_as_many_locks_as_it_likes() {
    let _watchdog = Watchdog::start();
    let rank = World::solo().unwrap();
    let open = |number: usize| {
        Protected::<Counter>::open(&rank, &format!("{number}"), Scheme::Mcs, |_| ()).unwrap()
    };
    let mut locks: Vec<_> = (0..40).map(open).collect();
    let more: Vec<_> = (0..40).map(open).collect();
    let mut again: Vec<_> = locks.iter().map(|lock| lock.another().unwrap()).collect();
    let guards: Vec<_> = locks.iter_mut().map(|lock| lock.lock().unwrap()).collect();
    for lock in &mut again {
        assert!(matches!(
            lock.apply(1).as_ref().map_err(Error::kind),
            Err(ErrorKind::NestedOperation { .. })
        ));
    }
    assert_eq!(more[17].apply(1).unwrap(), 0);
    drop(guards);
    for lock in &mut again {
        assert_eq!(lock.apply(1).unwrap(), 0);
    }
}

/// Objects of two worlds are separate, although their memories begin in the same way.
#[test]
fn objects_of_two_worlds_do_not_exclude_each_other() {
    let _watchdog = Watchdog::start();
    for scheme in Scheme::ALL.into_iter().filter(|scheme| scheme.is_lock()) {
        let worlds = [World::solo().unwrap(), World::solo().unwrap()];
        let [one, other] = worlds
            .each_ref()
            .map(|rank| Protected::<Counter>::open(rank, "counter", scheme, |_| ()).unwrap());
        let mut guard = one.lock().unwrap();
        *guard += other.apply(7).unwrap() + 1;
        drop(guard);
        assert_eq!((one.apply(0).unwrap(), other.apply(0).unwrap()), (1, 7));
    }
}

/// Two threads of a client share a seat. One waits for the server, and the other waits for the seat. The server begins
/// only when it gets a message that the second thread has pending.
#[test]
fn who_waits_for_a_turn_brings_on_what_it_has_under_way() {
    on_all(2, |rank| {
        let section = Section::new(Scheme::SlotServer).seats(1);
        let counter = Protected::<Counter>::open(rank, "counter", section, |_| ())?;
        let channel = Channel::degree(1);
        if rank.id() == 0 {
            let begin = rank.receiver::<u8>("begin", 1, channel)?;
            let mut server = Server::new();
            server.add(counter)?;
            begin.receive()?;
            return server.serve();
        }
        let begin = RefCell::new(Some(rank.sender::<u8>("begin", 0, channel)?));
        let [first, second] = [counter.another()?, counter.another()?];
        let first = thread::spawn(move || first.apply(1));
        // Most likely the first thread has the seat by now.
        thread::sleep(Duration::from_millis(20));
        let part = parts::calling(move || {
            if let Some(mut begin) = begin.take() {
                begin.send(&1).unwrap();
            }
        });
        let second = parts::beside(rank, part, || second.apply(1))?;
        let first = first.join().map_err(|_| Error::other("a panic"))??;
        expect(first + second, 1)
    });
}

/// Of the handles that share a seat, one waits for a first server, or for the seat, and another one becomes the server.
#[test]
fn each_handle_that_shares_a_seat_may_serve() {
    for waiting in [1, 2, 3] {
        let _watchdog = Watchdog::start();
        let rank = World::solo().unwrap();
        let section = Section::new(Scheme::SlotServer).seats(1);
        let own = Protected::<Counter>::open(&rank, "counter", section, |_| ()).unwrap();
        let mut handles: Vec<_> = (0..3).map(|_| own.another().unwrap()).collect();
        handles.insert(0, own);
        let served = handles.split_off(waiting);
        thread::scope(|scope| {
            let clients: Vec<_> = handles
                .into_iter()
                .map(|handle| scope.spawn(move || handle.apply(1).map(drop)))
                .collect();
            // Most likely they sleep by now.
            thread::sleep(Duration::from_millis(20));
            assert!(clients.iter().all(|client| !client.is_finished()), "told too early");
            let mut server = Server::new();
            served.into_iter().for_each(|handle| server.add(handle).unwrap());
            server.serve().unwrap();
            clients.into_iter().for_each(|client| client.join().unwrap().unwrap());
        });
    }
}

#[test]
fn handles_that_share_a_seat_hear_that_nobody_serves() {
    for handles in [2, 3, 5] {
        let _watchdog = Watchdog::start();
        let rank = World::solo().unwrap();
        let section = Section::new(Scheme::SlotServer).seats(1);
        let own = Protected::<Counter>::open(&rank, "counter", section, |_| ()).unwrap();
        let mut all: Vec<_> = (1..handles).map(|_| own.another().unwrap()).collect();
        all.push(own);
        thread::scope(|scope| {
            let clients: Vec<_> =
                all.into_iter().map(|handle| scope.spawn(move || handle.apply(1))).collect();
            for client in clients {
                let ended = client.join().unwrap();
                assert!(
                    matches!(
                        ended.as_ref().map_err(Error::kind),
                        Err(ErrorKind::OutcomeUnknown { .. })
                    ),
                    "{ended:?}"
                );
            }
        });
    }
}
