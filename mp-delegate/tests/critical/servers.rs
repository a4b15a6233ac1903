//! Servers: several objects, and which rank serves.

use mp_core::{Channel, Error, ErrorKind, World};
use mp_delegate::critical::{Protected, Scheme, Section, Server};

use crate::{
    objects::{Counter, Small, expect},
    support::{Together, Watchdog, on_all},
};

#[test]
fn a_server_serves_several_objects() {
    let sums = on_all(3, |rank| {
        let mut counters = ["a", "b"]
            .into_iter()
            .zip([Scheme::SlotServer, Scheme::MpServer(0)])
            .map(|(name, scheme)| Protected::<Counter>::open(rank, name, scheme, |_| ()))
            .collect::<Result<Vec<_>, _>>()?;
        let small = Protected::<Small>::open(rank, "c", Scheme::SlotServer, |_| ())?;
        if rank.id() == 0 {
            let mut server = Server::new();
            counters.drain(..).try_for_each(|counter| server.add(counter))?;
            server.add(small)?;
            server.serve()?;
            return Ok(0);
        }
        // The two clients tell each other when they are done.
        let (me, peer) = (rank.id(), 3 - rank.id());
        let mut tell = rank.sender::<u8>("done", peer, Channel::degree(1))?;
        let told = rank.receiver::<u8>("done", peer, Channel::degree(1))?;
        for _ in 0..100 {
            for counter in &mut counters {
                counter.apply(2)?;
            }
            small.apply(3)?;
        }
        tell.send(&(me as u8))?;
        drop(told.receive()?);
        Ok(counters[0].apply(0)? + counters[1].apply(0)? + u64::from(small.apply(0)?))
    });
    assert_eq!(sums, [0, 1400, 1400]);
}

/// A rank serves for a while and leaves, and another one takes over. Requests without an answer wait.
#[test]
fn servers_follow_each_other() {
    for scheme in [Scheme::SlotServer, Scheme::MpServer(1)] {
        on_all(3, |rank| follow_each_other(rank, scheme));
    }
}

fn follow_each_other(rank: &mp_core::Rank, scheme: Scheme) -> mp_core::Result<()> {
    let counter = Protected::<Counter>::open(rank, "counter", scheme, |_| ())?;
    let mut others = Together::new(rank)?;
    match rank.id() {
        0 => {
            others.wait()?;
            // This call waits for the first server.
            let (mut sum, mut unknown) = (0, 0);
            for _ in 0..100 {
                match counter.apply(1).map_err(Error::into_kind) {
                    Ok(before) => {
                        expect((sum..=sum + unknown).contains(&before), true)?;
                        sum = before + 1;
                    }
                    // With messages, one operation may have been under way when the first server left.
                    Err(ErrorKind::OutcomeUnknown { .. }) if scheme != Scheme::SlotServer => {
                        unknown += 1;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            expect(unknown <= 1, true)
        }
        1 => {
            let mut server = Server::new();
            server.add(counter)?;
            others.wait()?;
            let mut left = 10;
            server.serve_while(|| {
                left -= 1;
                left > 0
            })?;
            Ok(())
        }
        _ => {
            let mut server = Server::new();
            server.add(counter)?;
            others.wait()?;
            Ok(server.serve()?)
        }
    }
}

#[test]
fn clients_of_a_server_that_left_are_told() {
    for scheme in [Scheme::SlotServer, Scheme::MpServer(0)] {
        on_all(2, |rank| {
            let counter = Protected::<Counter>::open(rank, "counter", scheme, |_| ())?;
            let mut others = Together::new(rank)?;
            if rank.id() == 0 {
                let mut server = Server::new();
                server.add(counter)?;
                while !server.round()? {
                    std::thread::yield_now();
                }
                drop(server);
                return others.wait();
            }
            expect(counter.apply(1)?, 0)?;
            others.wait()?;
            match counter.apply(1).map_err(Error::into_kind) {
                Err(ErrorKind::OutcomeUnknown { .. }) => Ok(()),
                other => expect(format!("{other:?}"), "unknown".to_owned()),
            }
        });
    }
}

#[test]
fn nobody_waits_for_a_server_that_can_not_come() {
    let _watchdog = Watchdog::start();
    let result = World::threads(2).run(|rank| {
        let counter = Protected::<Counter>::open(rank, "counter", Scheme::SlotServer, |_| ())?;
        if rank.id() == 0 {
            return Ok(());
        }
        match counter.apply(1).map_err(Error::into_kind) {
            Err(ErrorKind::OutcomeUnknown { .. }) => Ok(()),
            other => expect(format!("{other:?}"), "unknown".to_owned()),
        }
    });
    result.unwrap();
}

/// A server finds all its clients in every order of polls, although the other ranks set another order.
#[test]
fn a_server_finds_all_its_clients() {
    on_all(5, |rank| {
        let section = Section::new(Scheme::SlotServer).seats(3).shuffled(rank.id() == 0);
        let counter = Protected::<Counter>::open(rank, "counter", section, |_| ())?;
        if rank.id() == 0 {
            let mut server = Server::new();
            server.add(counter)?;
            return server.serve();
        }
        let second = counter.another()?;
        for _ in 0..100 {
            counter.apply(1)?;
            second.apply(1)?;
        }
        // Waits until all clients have added.
        while counter.apply(0)? < 4 * 200 {}
        expect(counter.apply(0)?, 4 * 200)
    });
}

#[test]
fn only_what_is_served_can_be_served() {
    let rank = World::solo().unwrap();
    for scheme in Scheme::ALL.into_iter().filter(|scheme| !scheme.needs_server()) {
        let counter = Protected::<Counter>::open(&rank, "counter", scheme, |_| ()).unwrap();
        let added = Server::new().add(counter);
        assert!(
            matches!(added.as_ref().map_err(Error::kind), Err(ErrorKind::BadObject { .. })),
            "{added:?}"
        );
    }
    // Serving without objects ends soon.
    Server::new().serve().unwrap();
    let own = Protected::<Counter>::open(&rank, "own", Scheme::MpServer(0), |_| ()).unwrap();
    assert!(matches!(own.apply(1).as_ref().map_err(Error::kind), Err(ErrorKind::BadObject { .. })));
    assert!(own.another().is_err());
}

#[test]
fn a_result_that_was_not_fetched_in_time_is_forgotten() {
    for scheme in [Scheme::SlotServer, Scheme::MpServer(0)] {
        on_all(2, |rank| {
            let section = Section::new(scheme).in_flight(4);
            let counter = Protected::<Counter>::open(rank, "counter", section, |_| ())?;
            if rank.id() == 0 {
                let mut server = Server::new();
                server.add(counter)?;
                return server.serve();
            }
            let old = counter.submit(1)?;
            for _ in 0..100 {
                drop(counter.submit(1)?);
            }
            let late = counter.submit(0)?;
            expect(late.wait()?, 101)?;
            match old.wait().map_err(Error::into_kind) {
                Err(ErrorKind::ResultForgotten { kept: 4, .. }) => Ok::<(), Error>(()),
                other => expect(format!("{other:?}"), "forgotten".to_owned()),
            }
        });
    }
}

/// After a request that is under way, further ones are gathered into a message. They are not lost with the server.
#[test]
fn what_was_not_sent_goes_to_the_one_who_follows() {
    on_all(3, |rank| {
        let scheme = Scheme::MpServer(1);
        let counter = Protected::<Counter>::open(rank, "counter", scheme, |_| ())?;
        let mut others = Together::new(rank)?;
        if rank.id() > 0 {
            let mut server = Server::new();
            server.add(counter)?;
            others.wait()?;
            while rank.id() == 1 && !server.round()? {
                std::thread::yield_now();
            }
            others.wait()?;
            others.wait()?;
            return if rank.id() == 1 { Ok(()) } else { Ok(server.serve()?) };
        }
        others.wait()?;
        expect(counter.apply(1)?, 0)?;
        others.wait()?;
        let sent = counter.submit(10)?;
        let kept = [counter.submit(100)?, counter.submit(1000)?];
        others.wait()?;
        match sent.wait().map_err(Error::into_kind) {
            Err(ErrorKind::OutcomeUnknown { .. }) => {}
            other => expect(format!("{other:?}"), "unknown".to_owned())?,
        }
        let results = kept.map(|request| request.wait());
        let [first, second] = results;
        expect([first?, second?, counter.apply(0)?], [1, 101, 1101])
    });
}

/// Groups of operations that fit into one message, one operation more, and operations that fill a message alone.
#[test]
fn messages_have_as_many_operations_as_they_have_room_for() {
    struct Longer;
    impl mp_delegate::critical::Object for Longer {
        type State = [u64; 5];
        type Op = [u64; 5];
        type Ret = [u64; 5];

        fn apply(state: &mut [u64; 5], op: [u64; 5]) -> [u64; 5] {
            *state = std::array::from_fn(|at| state[at] + op[at]);
            *state
        }
    }

    struct Ticks;
    impl mp_delegate::critical::Object for Ticks {
        type State = u64;
        type Op = ();
        type Ret = ();

        fn apply(ticks: &mut u64, (): ()) {
            *ticks += 1;
        }
    }

    on_all(2, |rank| {
        let scheme = Scheme::MpServer(0);
        let counter = Protected::<Counter>::open(rank, "counter", scheme, |_| ())?;
        let longer = Protected::<Longer>::open(rank, "longer", scheme, |_| ())?;
        let ticks = Protected::<Ticks>::open(rank, "ticks", scheme, |_| ())?;
        if rank.id() == 0 {
            let mut server = Server::new();
            server.add(counter)?;
            server.add(longer)?;
            server.add(ticks)?;
            return server.serve();
        }
        let (mut sum, mut sums) = (0, [0; 5]);
        for count in 1..40 {
            let one = |at: u64| [at, 2 * at, 3, 4, count];
            let few = (0..count).map(|at| counter.submit(at)).collect::<Result<Vec<_>, _>>()?;
            let long =
                (0..count).map(|at| longer.submit(one(at))).collect::<Result<Vec<_>, _>>()?;
            let tick = (0..count).map(|_| ticks.submit(())).collect::<Result<Vec<_>, _>>()?;
            for (at, request) in (0..).zip(few) {
                expect(request.wait()?, sum)?;
                sum += at;
            }
            for (at, request) in (0..).zip(long) {
                sums = std::array::from_fn(|place| sums[place] + one(at)[place]);
                expect(request.wait()?, sums)?;
            }
            tick.into_iter().try_for_each(|request| request.wait())?;
        }
        Ok::<(), Error>(())
    });
}

/// Returns whether this server alone serves the counter now.
fn serves(server: &mut Server) -> mp_core::Result<bool> {
    let mut worked = false;
    for _ in 0..10 {
        worked |= server.round()?;
    }
    Ok(worked)
}

/// Two servers of one rank, of which one only stands by. When that one ends, the other still serves, and no rank takes
/// over.
#[test]
fn one_who_stood_by_takes_nothing_away() {
    on_all(3, |rank| {
        let counter = Protected::<Counter>::open(rank, "counter", Scheme::SlotServer, |_| ())?;
        let mut others = Together::new(rank)?;
        if rank.id() == 2 {
            others.wait()?;
            others.wait()?;
            let request = counter.submit(1)?;
            others.wait()?;
            others.wait()?;
            request.wait()?;
            return Ok(());
        }
        let mut server = Server::new();
        if rank.id() == 0 {
            let mut second = Server::new();
            second.add(counter.another()?)?;
            server.add(counter)?;
            expect(serves(&mut server)?, false)?;
            expect(serves(&mut second)?, false)?;
            others.wait()?;
            drop(second);
            others.wait()?;
        } else {
            server.add(counter)?;
            others.wait()?;
            others.wait()?;
        }
        others.wait()?;
        if rank.id() == 1 {
            expect(serves(&mut server)?, false)?;
            return others.wait();
        }
        others.wait()?;
        expect(serves(&mut server)?, true)
    });
}

/// A client sleeps until a server takes over. When the last rank that could do so leaves, the client gets an error.
#[test]
fn clients_hear_of_the_last_who_stood_by() {
    for scheme in [Scheme::SlotServer, Scheme::MpServer(0)] {
        on_all(3, |rank| {
            let counter = Protected::<Counter>::open(rank, "counter", scheme, |_| ())?;
            let mut others = Together::new(rank)?;
            if rank.id() == 2 {
                others.wait()?;
                let ended = counter.apply(1);
                others.wait()?;
                return match ended.map_err(Error::into_kind) {
                    Err(ErrorKind::OutcomeUnknown { .. }) => Ok(()),
                    other => expect(format!("{other:?}"), "unknown".to_owned()),
                };
            }
            // If there can be two handles, one of them stays.
            let more = counter.another();
            let mut server = Server::new();
            server.add(counter)?;
            if rank.id() == 0 {
                server.round()?;
                drop(server);
                others.wait()?;
            } else {
                others.wait()?;
                std::thread::sleep(std::time::Duration::from_millis(50));
                drop(server);
            }
            others.wait()?;
            drop(more);
            Ok(())
        });
    }
}

/// The server is a thread of the client's own rank, and has not begun yet.
#[test]
fn a_rank_waits_for_its_own_server() {
    let _watchdog = Watchdog::start();
    let rank = World::solo().unwrap();
    let counter = Protected::<Counter>::open(&rank, "counter", Scheme::SlotServer, |_| ()).unwrap();
    let mut server = Server::new();
    server.add(counter.another().unwrap()).unwrap();
    std::thread::scope(|scope| {
        let client = scope.spawn(move || counter.apply(7));
        std::thread::sleep(std::time::Duration::from_millis(20));
        while !client.is_finished() {
            server.round().unwrap();
        }
        assert_eq!(client.join().unwrap().unwrap(), 0);
    });
}

/// The rank that should serve never does. Another one does, if it stands by.
#[test]
fn who_never_serves_is_not_waited_for() {
    for followed in [false, true] {
        on_all(3, |rank| {
            let scheme = Scheme::MpServer(0);
            let counter = Protected::<Counter>::open(rank, "counter", scheme, |_| ())?;
            let mut others = Together::new(rank)?;
            if rank.id() == 1 && followed {
                let mut server = Server::new();
                server.add(counter)?;
                others.wait()?;
                server.serve()?;
                return others.wait();
            }
            others.wait()?;
            if rank.id() < 2 {
                drop(counter);
                return others.wait();
            }
            // The first operation is sent to the rank that leaves, perhaps after it has left.
            let first = counter.apply(1);
            let second = counter.apply(1);
            drop(counter);
            others.wait()?;
            match (first.map_err(Error::into_kind), second.map_err(Error::into_kind)) {
                (Ok(0), Ok(1)) | (Err(ErrorKind::OutcomeUnknown { .. }), Ok(0)) if followed => {
                    Ok(())
                }
                (Err(ErrorKind::OutcomeUnknown { .. }), Err(ErrorKind::OutcomeUnknown { .. }))
                    if !followed =>
                {
                    Ok(())
                }
                other => expect(format!("{other:?}"), format!("{followed}")),
            }
        });
    }
}

/// The last handle that could have served is dropped while all others wait, one of them in its own rank.
#[test]
fn a_handle_that_is_dropped_was_the_last_that_could_serve() {
    on_all(2, |rank| {
        let section = Section::new(Scheme::SlotServer);
        let mut counter = Protected::<Counter>::open(rank, "counter", section, |_| ())?;
        let mut others = Together::new(rank)?;
        let unserved =
            |counter: &Protected<Counter>| match counter.apply(1).map_err(Error::into_kind) {
                Err(ErrorKind::OutcomeUnknown { .. }) => Ok(()),
                other => expect(format!("{other:?}"), "unknown".to_owned()),
            };
        others.wait()?;
        if rank.id() == 1 {
            return unserved(&mut counter);
        }
        let mut another = counter.another()?;
        let waiting = std::thread::spawn(move || unserved(&mut another));
        // Most likely both are asleep by now.
        std::thread::sleep(std::time::Duration::from_millis(50));
        drop(counter);
        waiting.join().map_err(|_| Error::other("a panic"))?
    });
}

#[test]
fn an_object_opened_again_gets_no_operation_of_the_one_before() {
    on_all(3, |rank| {
        let open =
            || Protected::<Counter>::open(rank, "counter", Scheme::MpServer(0), |count| *count = 5);
        let mut others = Together::new(rank)?;
        // Rank 2 asks, and stands by, before the other rank opens its channels.
        let mut server = Server::new();
        if rank.id() == 2 {
            let counter = open()?;
            drop(counter.submit(1000)?);
            server.add(counter)?;
        }
        others.wait()?;
        let first = if rank.id() == 2 { None } else { Some(open()?) };
        others.wait()?;
        drop((first, server));
        others.wait()?;
        let counter = open()?;
        if rank.id() == 0 {
            let mut server = Server::new();
            server.add(counter)?;
            return server.serve();
        }
        expect((5..7).contains(&counter.apply(1)?), true)
    });
}

/// The rank that should serve never does: it leaves when it was about to begin, or without a sign. Another one can
/// still serve.
#[test]
fn nobody_waits_for_a_first_server_that_leaves() {
    let schemes = [Scheme::SlotServer, Scheme::MpServer(0)];
    for (scheme, was_added) in schemes.into_iter().flat_map(|of| [(of, true), (of, false)]) {
        on_all(3, |rank| {
            let counter = Protected::<Counter>::open(rank, "counter", scheme, |_| ())?;
            let mut others = Together::new(rank)?;
            if rank.id() == 0 {
                let mut server = Server::new();
                if was_added {
                    server.add(counter)?;
                } else {
                    drop(counter);
                }
                others.wait()?;
                drop(server);
                return others.wait();
            }
            others.wait()?;
            // If any rank may be the first server, calls end only after all remaining ranks wait, so rank 2 waits as
            // well. If a rank is named as the server, that is not necessary.
            if rank.id() == 1 || scheme == Scheme::SlotServer {
                match counter.apply(1).map_err(Error::into_kind) {
                    Err(ErrorKind::OutcomeUnknown { .. }) => {}
                    other => return expect(format!("{other:?}"), "unknown".to_owned()),
                }
            }
            others.wait()?;
            if rank.id() == 2 {
                let mut server = Server::new();
                server.add(counter)?;
                return server.serve();
            }
            while counter.apply(1).is_err() {
                std::thread::yield_now();
            }
            expect((0..1000).contains(&counter.apply(0)?), true)
        });
    }
}

#[test]
fn serving_ends_with_the_last_handle_of_the_own_rank() {
    on_all(1, |rank| {
        let counter = Protected::<Counter>::open(rank, "counter", Scheme::SlotServer, |_| ())?;
        let client = counter.another()?;
        let mut server = Server::new();
        server.add(counter)?;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                (0..10).for_each(|_| _ = client.apply(1).unwrap());
                // The server sleeps by then.
                std::thread::sleep(std::time::Duration::from_millis(100));
                drop(client);
            });
            server.serve()
        })
    });
}

#[test]
fn a_server_that_rests_is_woken_to_ask_whether_to_go_on() {
    for scheme in [Scheme::SlotServer, Scheme::MpServer(0)] {
        on_all(2, |rank| {
            let counter = Protected::<Counter>::open(rank, "counter", scheme, |_| ())?;
            let mut others = Together::new(rank)?;
            if rank.id() == 1 {
                counter.apply(1)?;
                return others.wait();
            }
            let mut server = Server::new();
            server.add(counter)?;
            let (waker, go_on) = (server.waker(), std::sync::Mutex::new(true));
            let (waker, go_on) = (&waker, &go_on);
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    std::thread::sleep(std::time::Duration::from_millis(100));
                    // It goes on after the first wake-up.
                    waker.wake();
                    std::thread::sleep(std::time::Duration::from_millis(20));
                    *go_on.lock().unwrap() = false;
                    waker.wake();
                });
                server.serve_while(|| *go_on.lock().unwrap())
            })?;
            drop(server);
            waker.wake();
            others.wait()
        });
    }
}

/// A client waits for the first server when a handle becomes a server's. It never gets the error that there is no
/// server.
#[test]
fn who_waits_as_a_server_begins_is_served() {
    let _watchdog = Watchdog::start();
    let rank = World::solo().unwrap();
    for round in 0..1000u64 {
        let section = Section::new(Scheme::SlotServer).seats(2);
        let counter = Protected::<Counter>::open(&rank, "counter", section, |_| ()).unwrap();
        let served = counter.another().unwrap();
        let client = std::thread::spawn(move || counter.apply(7));
        // Waits until the client waits, or is about to.
        std::thread::sleep(std::time::Duration::from_micros(round % 200));
        let mut server = Server::new();
        server.add(served).unwrap();
        server.serve().unwrap();
        let answer = client.join().unwrap();
        assert!(matches!(answer, Ok(0)), "round {round}: {answer:?}");
    }
}
