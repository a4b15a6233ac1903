//! Worlds from start to end.

use std::time::Duration;

use mp_core::{
    Bind, Cause, Channel, Endpoints, Error, ErrorKind, Rank, RanksFailed, Result, WaitPolicy, World,
};

use crate::support::{SIZES, Together, Watchdog, on_all, on_all_with, run_on_all_with};

fn failures<T: std::fmt::Debug>(result: Result<Vec<T>>) -> Vec<(usize, Cause)> {
    match result.map_err(Error::into_kind) {
        Err(ErrorKind::RanksFailed(RanksFailed { failures })) => {
            failures.into_iter().map(|failure| (failure.rank, failure.cause)).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn results_come_in_the_order_of_the_ranks() {
    for size in SIZES {
        let results = on_all(size, |rank| {
            std::thread::sleep(Duration::from_millis((rank.size() - rank.id()) as u64));
            Ok((rank.id(), rank.size(), "text".repeat(rank.id()), vec![rank.id(); 3]))
        });
        let expected: Vec<_> =
            (0..size).map(|id| (id, size, "text".repeat(id), vec![id; 3])).collect();
        assert_eq!(results, expected);
    }
}

#[test]
fn long_results_and_many_worlds_in_one_test() {
    for round in 0..4u8 {
        let results = on_all(2, |rank| Ok(vec![round ^ rank.id() as u8; 3 << 20]));
        for (rank, result) in results.iter().enumerate() {
            assert!(result.len() == 3 << 20 && result.iter().all(|&b| b == round ^ rank as u8));
        }
    }
}

#[test]
fn every_error_comes_back_with_its_rank() {
    let all = run_on_all_with(
        5,
        |world| world,
        |rank| match rank.id() {
            1 => Err(Error::other("the second fails")),
            3 => Err(std::io::Error::other("the fourth fails").into()),
            4 => panic!("the fifth panics with {}", 5),
            _ => Ok(rank.id()),
        },
    );
    for (kind, result) in all.each() {
        let text = result.as_ref().map_err(|error| error.to_string()).err();
        let expected = [
            (1, Cause::Error("the second fails".to_owned())),
            (3, Cause::Error("the fourth fails".to_owned())),
            (4, Cause::Panic("the fifth panics with 5".to_owned())),
        ];
        assert_eq!(failures(result), expected, "{kind}");
        assert_eq!(
            text.as_deref(),
            Some(
                "3 ranks failed:\n  rank 1: the second fails\n  rank 3: the fourth fails\n  \
                 rank 4 panicked: the fifth panics with 5"
            ),
            "{kind}"
        );
    }
}

/// Results of threads need not be serializable, because they stay in the process.
#[test]
fn threads_return_what_serde_does_not_know() {
    let _watchdog = Watchdog::start();
    let shared = std::sync::Arc::new(7);
    for world in [World::threads(4), World::threads_on_heap(4)] {
        let each = world.run_threads(|rank| match rank.id() {
            1 => Err(Error::other("no such picture")),
            2 => panic!("on purpose"),
            _ => Ok(std::sync::Arc::clone(&shared)),
        });
        let each = each.unwrap();
        let pointers =
            [0, 3].map(|rank| std::sync::Arc::ptr_eq(each[rank].as_ref().unwrap(), &shared));
        assert_eq!(pointers, [true; 2]);
        assert_eq!(each[1], Err(Cause::Error("no such picture".to_owned())));
        assert_eq!(each[2].as_ref().unwrap_err().to_string(), "panicked: on purpose");
    }
    let error = World::processes(2).run_threads(|_| Ok(())).unwrap_err();
    assert!(error.to_string().contains("World::run_each"), "{error}");
    // Ranks that are processes reach that call, and run the world of threads again.
    let ids = World::processes(2).run(|rank| Ok(rank.id())).unwrap();
    assert_eq!(ids, [0, 1]);
}

/// Rank 0 ends in a way that runs code of the program, which panics. The other ranks wait for rank 0.
fn ends_of_rank_0<T>(end: impl Fn() -> Result<T> + Sync) -> Vec<(&'static str, Vec<(usize, Cause)>)>
where
    T: serde::Serialize + serde::de::DeserializeOwned + Send + Clone + Default + std::fmt::Debug,
{
    let all = run_on_all_with(
        3,
        |world| world,
        |rank| {
            if rank.id() == 0 {
                return end();
            }
            let from = rank.receiver::<u64>("never", 0, Channel::degree(1))?;
            match from.receive().map_err(Error::into_kind) {
                Err(ErrorKind::PeerLost { rank: 0, .. } | ErrorKind::Disconnected { .. }) => {
                    Ok(T::default())
                }
                other => Err(Error::other(format!("{other:?}"))),
            }
        },
    );
    all.each().map(|(kind, result)| (kind, failures(result))).into()
}

#[test]
fn an_error_that_panics_when_it_is_displayed_is_a_panic() {
    #[derive(Debug)]
    struct Unspeakable;
    impl std::fmt::Display for Unspeakable {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            panic!("no words for it")
        }
    }
    impl std::error::Error for Unspeakable {}
    for (kind, failures) in ends_of_rank_0::<()>(|| Err(Error::other(Unspeakable))) {
        assert_eq!(failures, [(0, Cause::Panic("no words for it".to_owned()))], "{kind}");
    }
}

/// Panics when it is dropped, with another bomb as the payload.
struct Bomb(u32);

impl Drop for Bomb {
    fn drop(&mut self) {
        if self.0 > 0 {
            std::panic::panic_any(Self(self.0 - 1));
        }
    }
}

#[test]
fn a_panic_whose_payload_panics_is_a_panic() {
    for (kind, failures) in ends_of_rank_0::<()>(|| std::panic::panic_any(Bomb(3))) {
        let cause = Cause::Panic("(a panic without a message)".to_owned());
        assert_eq!(failures, [(0, cause)], "{kind}");
    }
}

#[test]
fn an_error_that_panics_when_it_is_dropped_is_a_panic() {
    #[derive(Debug)]
    struct Sticky;
    impl std::fmt::Display for Sticky {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("stays")
        }
    }
    impl std::error::Error for Sticky {}
    impl Drop for Sticky {
        fn drop(&mut self) {
            panic!("it would not go")
        }
    }
    for (kind, failures) in ends_of_rank_0::<()>(|| Err(Error::other(Sticky))) {
        assert_eq!(failures, [(0, Cause::Panic("it would not go".to_owned()))], "{kind}");
    }
}

#[test]
fn a_result_that_panics_when_it_is_encoded_is_a_panic() {
    #[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
    struct Secret(bool);
    impl serde::Serialize for Secret {
        fn serialize<S: serde::Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
            assert!(!self.0, "not for others");
            to.serialize_newtype_struct("Secret", &self.0)
        }
    }
    let _watchdog = Watchdog::start();
    // This needs processes, because results of threads are not encoded.
    let result = World::processes(3).run(|rank| match rank.id() {
        0 => Ok(Secret(true)),
        _ => {
            let from = rank.receiver::<u64>("never", 0, Channel::degree(1))?;
            match from.receive().map_err(Error::into_kind) {
                Err(ErrorKind::PeerLost { .. } | ErrorKind::Disconnected { .. }) => {
                    Ok(Secret(false))
                }
                other => Err(Error::other(format!("{other:?}"))),
            }
        }
    });
    assert_eq!(failures(result), [(0, Cause::Panic("not for others".to_owned()))]);
}

fn send_until_refused(to: &mut mp_core::Sender<u64>) -> Option<Error> {
    std::iter::repeat_with(|| to.send(&0)).find_map(Result::err)
}

/// Waits for rank 0 in every way, and checks how each wait ends.
fn wait_for_rank_0(rank: &Rank) -> Result<()> {
    let lost = |error: Option<Error>, how: &str| -> Result<()> {
        match error.map(Error::into_kind) {
            Some(ErrorKind::PeerLost { rank: 0, .. }) => Ok(()),
            other => Err(Error::other(format!("{how}: {other:?}"))),
        }
    };
    let receiver = rank.receiver::<u64>("messages", 0, Channel::degree(4))?;
    let meeting = rank.receiver::<u64>("meeting", 0, Channel::degree(0))?;
    let mut full = rank.sender::<u64>("full", 0, Channel::degree(1))?;
    let mut never_met = rank.sender::<u64>("never met", 0, Channel::degree(0))?;
    let shared = Endpoints::new([0], 1..rank.size());
    let shared = rank.shared_receiver::<u64>("shared", &shared, Channel::degree(1))?;
    // These messages were published before the end, so they are delivered.
    for expected in 0..3 {
        ensure!(*receiver.receive()? == expected, "what was published");
    }
    match rank.id() {
        1 => lost(receiver.receive().err(), "receive")?,
        2 => lost(meeting.receive().err(), "rendezvous")?,
        3 => lost(send_until_refused(&mut full), "send")?,
        4 => lost(never_met.send(&0).err(), "send of a rendezvous")?,
        5 => lost(shared.receive().err(), "shared")?,
        _ => {
            let mut select = mp_core::Select::new();
            select.add(&receiver);
            select.add(&meeting);
            let which = select.ready()?;
            let error =
                if which == 0 { receiver.try_receive().err() } else { meeting.try_receive().err() };
            lost(error, "select")?;
        }
    }
    // From now on, all calls fail. But channels are told of the loss one after another, so a channel with room may
    // still take a message.
    lost(receiver.receive().err(), "receive afterwards")?;
    lost(receiver.try_receive().err(), "try_receive afterwards")?;
    lost(meeting.receive().err(), "rendezvous afterwards")?;
    lost(meeting.try_receive().err(), "rendezvous afterwards, without waiting")?;
    lost(shared.receive().err(), "shared afterwards")?;
    lost(never_met.send(&0).err(), "send of a rendezvous afterwards")?;
    lost(send_until_refused(&mut full), "send afterwards")?;
    lost(full.send(&0).err(), "send after a send was refused")?;
    lost(rank.receiver::<u8>("new", 0, Channel::degree(1))?.receive().err(), "a new receiver")?;
    lost(rank.sender::<u8>("new", 0, Channel::degree(1))?.send(&0).err(), "a new sender")
}

/// Rank 0 sends messages to all ranks, which then wait for it.
fn speak_before_the_end(rank: &Rank) -> Result<()> {
    for to in 1..rank.size() {
        let mut sender = rank.sender::<u64>("messages", to, Channel::degree(4))?;
        (0..3).try_for_each(|i| sender.send(&i))?;
        // The sender stays open until the rank ends.
        std::mem::forget(sender);
    }
    std::thread::sleep(Duration::from_millis(20));
    Ok(())
}

#[test]
fn a_panic_is_told_to_all_who_wait() {
    for policy in [WaitPolicy::Adaptive, WaitPolicy::Park, WaitPolicy::Spin] {
        let all = run_on_all_with(
            7,
            |world| world.wait(policy),
            |rank| {
                if rank.id() > 0 {
                    return wait_for_rank_0(rank);
                }
                speak_before_the_end(rank)?;
                panic!("so be it")
            },
        );
        for (kind, result) in all.each() {
            assert_eq!(
                failures(result),
                [(0, Cause::Panic("so be it".to_owned()))],
                "{kind}, {policy}"
            );
        }
    }
}

/// Unwinding drops the ends that the rank's code holds, before other ranks can know of the panic.
#[test]
fn ends_that_a_panic_drops_are_lost_and_not_closed() {
    let channel = Channel::degree(1);
    let both = Endpoints::new([0], [1, 2]);
    let all = run_on_all_with(
        3,
        |world| world,
        |rank| {
            if rank.id() == 0 {
                let mut sender = rank.sender::<u8>("there", 1, channel)?;
                let _receiver = rank.receiver::<u8>("back", 1, channel)?;
                let _queue = rank.shared_sender::<u8>("queue", &both, channel)?;
                sender.send(&1)?;
                std::panic::resume_unwind(Box::new("it goes without saying"));
            }
            let lost = |result: Result<()>| match result.map_err(Error::into_kind) {
                Err(ErrorKind::PeerLost { rank: 0, .. }) => Ok(()),
                other => Err(Error::other(format!("{other:?}"))),
            };
            let queue = rank.shared_receiver::<u8>("queue", &both, channel)?;
            lost(queue.receive().map(drop))?;
            if rank.id() == 1 {
                let receiver = rank.receiver::<u8>("there", 0, channel)?;
                let mut sender = rank.sender::<u8>("back", 0, channel)?;
                receiver.receive()?;
                lost(receiver.receive().map(drop))?;
                lost((0..3).try_for_each(|n| sender.send(&n)))?;
            }
            Ok(())
        },
    );
    for (kind, result) in all.each() {
        let cause = Cause::Panic("it goes without saying".to_owned());
        assert_eq!(failures(result), [(0, cause)], "{kind}");
    }
}

fn end_by(how: fn() -> std::convert::Infallible) -> Vec<(usize, Cause)> {
    let _watchdog = Watchdog::start();
    failures(World::processes(7).run(|rank| {
        if rank.id() > 0 {
            return wait_for_rank_0(rank);
        }
        speak_before_the_end(rank)?;
        match how() {}
    }))
}

#[test]
fn a_process_that_exits_is_told_to_all_who_wait() {
    assert_eq!(end_by(|| std::process::exit(3)), [(0, Cause::Exit(3))]);
}

#[test]
fn a_process_that_aborts_is_told_to_all_who_wait() {
    assert_eq!(end_by(|| std::process::abort()), [(0, Cause::Signal(6))]);
}

#[test]
fn a_process_that_is_killed_is_told_to_all_who_wait() {
    let kill = || loop {
        let me = nix::unistd::Pid::this();
        let _ = nix::sys::signal::kill(me, nix::sys::signal::Signal::SIGKILL);
    };
    assert_eq!(end_by(kill), [(0, Cause::Signal(9))]);
}

/// A rank that returns is not lost, and its channels are closed.
#[test]
fn a_rank_that_returns_closes_what_it_left_open() {
    on_all(3, |rank| {
        if rank.id() == 0 {
            for to in 1..3 {
                let mut sender = rank.sender::<u8>("leaked", to, Channel::degree(1))?;
                sender.send(&1)?;
                std::mem::forget(sender);
                std::mem::forget(rank.receiver::<u8>("leaked back", to, Channel::degree(0))?);
            }
            return Ok(());
        }
        let receiver = rank.receiver::<u8>("leaked", 0, Channel::degree(1))?;
        let mut back = rank.sender::<u8>("leaked back", 0, Channel::degree(0))?;
        ensure!(*receiver.receive()? == 1, "what was published");
        let never = rank.receiver::<u8>("never opened there", 0, Channel::degree(1))?;
        for error in [receiver.receive().err(), never.receive().err(), back.send(&0).err()] {
            ensure!(
                matches!(error.as_ref().map(Error::kind), Some(ErrorKind::Disconnected { .. })),
                "{error:?}"
            );
        }
        Ok(())
    });
}

#[test]
fn a_rank_can_have_a_world_of_threads_of_its_own() {
    let sums = on_all(2, |rank| {
        let inner = World::threads(3).run(|inner| {
            if inner.id() == 0 {
                let from: Vec<_> = (1..3)
                    .map(|peer| inner.receiver::<u64>("inner", peer, Channel::degree(1)))
                    .collect::<Result<_>>()?;
                return from.iter().map(|receiver| receiver.receive().map(|m| *m)).sum();
            }
            let value = (100 * rank.id() + inner.id()) as u64;
            inner.sender::<u64>("inner", 0, Channel::degree(1))?.send(&value)?;
            Ok(value)
        })?;
        let failed = World::threads(2).run(|inner| match inner.id() {
            0 => Ok(()),
            _ => Err(Error::other("inside")),
        });
        ensure!(failed.is_err(), "an error inside");
        Ok(inner)
    });
    assert_eq!(sums, [[3, 1, 2], [203, 101, 102]]);
}

#[test]
fn a_process_can_not_have_processes() {
    let _watchdog = Watchdog::start();
    let result = World::processes(2).run(|rank| {
        let error = World::processes(2).run(|inner| Ok(inner.id())).err();
        ensure!(
            matches!(error.as_ref().map(Error::kind), Some(ErrorKind::BadWorld(_))),
            "{error:?}"
        );
        Ok(rank.id())
    });
    assert_eq!(result.unwrap(), [0, 1]);
}

/// Ranks of a test execute only that test. A thread that the test has started does not know which test it is.
#[test]
fn processes_are_refused_away_from_the_tests_own_thread() {
    let _watchdog = Watchdog::start();
    let run = || World::processes(2).run(|rank| Ok(rank.id()));
    let unnamed = std::thread::spawn(run).join().unwrap().unwrap_err().to_string();
    assert!(unnamed.contains("run it in the test's own thread"), "{unnamed}");
    let named = std::thread::Builder::new().name("tokio-rt-worker".to_owned()).spawn(run).unwrap();
    let named = named.join().unwrap().unwrap_err().to_string();
    assert!(named.contains("run it in the test's own thread"), "{named}");
    assert_eq!(run().unwrap(), [0, 1]);
}

/// Ranks of later worlds of processes get the results of worlds of threads, and do not run these worlds again, because
/// the results may differ.
#[test]
fn ranks_have_the_results_of_the_callers_threads() {
    let _watchdog = Watchdog::start();
    let pids = World::threads(2).run(|_| Ok(std::process::id())).unwrap();
    assert_eq!(pids[0], pids[1]);
    let seen = World::processes(2).run(|_| Ok((pids.clone(), std::process::id()))).unwrap();
    for (seen, own) in seen {
        assert!(seen == pids && own != pids[0], "{seen:?} {own}");
    }
}

/// Ranks of a later world see the result of an earlier world, even if it is an error.
#[test]
fn worlds_of_processes_follow_one_another() {
    let _watchdog = Watchdog::start();
    let first = World::processes(2).run(|rank| Ok(rank.id() as u64 * 10)).unwrap();
    let failed = World::processes(2).run(|rank| match rank.id() {
        0 => Ok(0),
        _ => Err(Error::other(format!("after {first:?}"))),
    });
    let failed = failed.unwrap_err().to_string();
    let mut last = Vec::new();
    for round in 0..3 {
        last = World::processes(3)
            .run(|rank| Ok(format!("{round} {} {first:?} {failed}", rank.id())))
            .unwrap();
    }
    let expected: Vec<_> =
        (0..3).map(|id| format!("2 {id} [0, 10] rank 1: after [0, 10]")).collect();
    assert_eq!(last, expected);
}

/// Each process computes captured values itself, but the caller makes the input.
#[test]
fn an_input_is_made_once_and_handed_to_all_ranks() {
    let _watchdog = Watchdog::start();
    let me = std::process::id();
    // The world of processes comes first, because its ranks would otherwise reach the other worlds with process ids of
    // their own.
    for (world, is_process) in [
        (World::processes(3), true),
        (World::threads(3), false),
        (World::threads_on_heap(3), false),
    ] {
        let made = std::sync::atomic::AtomicUsize::new(0);
        let make = || {
            made.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Ok((std::process::id(), "words".repeat(100_000)))
        };
        let got = world.run_with(make, |rank, (given, words)| {
            ensure!(words.len() == 500_000 && words.ends_with("words"), "other words");
            Ok((rank.id(), *given, me))
        });
        for (at, (rank, given, captured)) in got.unwrap().into_iter().enumerate() {
            assert_eq!((rank, given, captured != me), (at, me, is_process));
        }
        assert_eq!(made.into_inner(), 1);
    }
}

#[test]
fn an_input_that_cannot_be_made_is_the_callers_error() {
    let _watchdog = Watchdog::start();
    for world in [World::threads(2), World::processes(2)] {
        let make = || -> Result<u8> { Err(Error::other("no such picture")) };
        let error = world.run_with(make, |_, _| -> Result<()> { unreachable!() }).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Other(_)), "{error}");
        assert_eq!(error.to_string(), "no such picture");
    }
}

#[test]
fn more_ranks_than_cores() {
    for size in [16, 40] {
        let sums = on_all(size, |rank| {
            let (me, size) = (rank.id(), rank.size());
            let mut to = rank.sender::<u64>("ring", (me + 1) % size, Channel::degree(1))?;
            let from = rank.receiver::<u64>("ring", (me + size - 1) % size, Channel::degree(1))?;
            let mut sum = 0;
            let mut value = me as u64;
            for _ in 0..10 {
                to.send(&value)?;
                value = *from.receive()?;
                sum += value;
            }
            Ok(sum)
        });
        for (me, sum) in sums.iter().enumerate() {
            let expected: u64 = (1..=10).map(|step| ((me + size - step) % size) as u64).sum();
            assert_eq!(*sum, expected);
        }
    }
}

#[test]
fn every_policy_does_the_same() {
    for policy in [WaitPolicy::Spin, WaitPolicy::Adaptive, WaitPolicy::Park] {
        for size in [2, 5] {
            let sums = on_all_with(
                size,
                |world| world.wait(policy),
                |rank| {
                    let endpoints = Endpoints::new(1..size, [0]);
                    if rank.id() > 0 {
                        let mut to =
                            rank.shared_sender::<u64>("sum", &endpoints, Channel::degree(2))?;
                        for i in 0..100 {
                            to.send_with(&i, WaitPolicy::Park)?;
                        }
                        return Ok(0);
                    }
                    let from =
                        rank.shared_receiver::<u64>("sum", &endpoints, Channel::degree(2))?;
                    from.iter().map(|i| Ok(*i?)).sum()
                },
            );
            assert_eq!(sums[0], 4950 * (size as u64 - 1));
        }
    }
}

/// Returns the processor time of this process.
fn cpu_time() -> Duration {
    use nix::sys::resource::{UsageWho, getrusage};
    use nix::sys::time::TimeValLike;
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("getrusage fails for no one");
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Duration::from_micros(micros.unsigned_abs())
}

#[test]
fn blocked_ranks_use_no_processor_time() {
    let _watchdog = Watchdog::start();
    let blocked = Duration::from_secs(1);
    let used = World::processes(8)
        .run(|rank| {
            let mut together = Together::new(rank)?;
            let before = cpu_time();
            let error = if rank.id() % 2 == 0 {
                let receiver =
                    rank.receiver::<u64>("silence", rank.id() + 1, Channel::degree(1))?;
                receiver.receive_timeout(blocked).err()
            } else {
                let mut sender = rank.sender::<u64>("full", rank.id() - 1, Channel::degree(0))?;
                sender.send_timeout(&0, blocked).err()
            };
            let used = cpu_time() - before;
            ensure!(
                matches!(error.as_ref().map(Error::kind), Some(ErrorKind::Timeout { .. })),
                "{error:?}"
            );
            // No rank ends before this, because that would wake the others.
            together.wait()?;
            Ok(used)
        })
        .unwrap();
    let all: Duration = used.iter().sum();
    // A rank that spins would use the whole time.
    assert!(all < blocked / 10, "{all:?} of processor time in {blocked:?}");
}

#[test]
fn worlds_that_can_not_be_are_errors() {
    for size in [0, 1025, usize::MAX] {
        for world in [World::threads(size), World::processes(size), World::threads_on_heap(size)] {
            let error = world.run(|_| Ok(())).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::BadWorld(_)), "{error}");
        }
    }
    for bytes in [u64::MAX, u64::MAX / 2 + 1, i64::MAX as u64] {
        for world in [World::threads(1), World::processes(1), World::threads_on_heap(1)] {
            let error = world.segment_size(bytes).run(|_| Ok(())).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Segment(_)), "{bytes}: {error}");
        }
    }
}

#[test]
fn a_tiny_segment_is_as_large_as_it_must_be() {
    on_all_with(
        3,
        |world| world.segment_size(0),
        |rank| {
            let next = (rank.id() + 1) % 3;
            rank.sender::<u64>("ring", next, Channel::degree(1))?.send(&1)?;
            Ok(*rank.receiver::<u64>("ring", (rank.id() + 2) % 3, Channel::degree(1))?.receive()?)
        },
    );
    // A segment that is too small for so many ranks is an error.
    let error = World::threads_on_heap(1000).segment_size(0).run(|_| Ok(())).unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Segment(mp_core::SegmentError::Full { .. })),
        "{error}"
    );
}

#[test]
fn a_world_of_one_needs_no_run() {
    let rank = World::solo().unwrap();
    assert_eq!((rank.id(), rank.size()), (0, 1));
    let mut sender = rank.sender::<[u8]>("self", 0, Channel::degree(2).max_len(5)).unwrap();
    let receiver = rank.receiver::<[u8]>("self", 0, Channel::degree(2).max_len(5)).unwrap();
    sender.send(b"hello").unwrap();
    sender.send_buffer(rank.buffer_from(b"longer than five").unwrap()).unwrap();
    drop(sender);
    let got =
        receiver.iter().map(|message| Ok(message?.to_vec())).collect::<Result<Vec<_>>>().unwrap();
    assert_eq!(got, [b"hello".to_vec(), b"longer than five".to_vec()]);
}

/// Parts of a rank that are taken out of its world stay valid, because the world's memory stays mapped.
#[test]
fn what_is_taken_out_of_a_world_stays_good() {
    let taken = std::sync::Mutex::new(Vec::new());
    World::threads(2)
        .run(|rank| {
            taken.lock().unwrap().push(rank.buffer_from(&[rank.id() as u64; 1000])?);
            Ok(())
        })
        .unwrap();
    let taken = taken.into_inner().unwrap();
    assert_eq!(taken.iter().map(|buffer| buffer.iter().sum::<u64>()).sum::<u64>(), 1000);
}

#[test]
fn bound_ranks_run_where_they_were_put() {
    let topology = mp_core::topology::Topology::read().unwrap();
    // The CPUs are in descending order, which the system would hardly choose by chance.
    let cpus: Vec<usize> = topology.usable_cpus().iter().collect();
    let cpus: Vec<usize> = cpus.into_iter().rev().take(3).collect();
    let places = on_all_with(
        cpus.len(),
        |world| world.bind(Bind::List(cpus.clone())),
        |_| {
            let set = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0))
                .map_err(|errno| Error::other(errno.desc()))?;
            let cpus = nix::sched::CpuSet::count();
            Ok((0..cpus).filter(|&cpu| set.is_set(cpu).unwrap_or(false)).collect::<Vec<_>>())
        },
    );
    assert_eq!(places, cpus.iter().map(|&cpu| vec![cpu]).collect::<Vec<_>>());
    on_all_with(2, |world| world.bind(Bind::Auto), |rank| Ok(rank.id()));
    for world in [World::threads(2), World::processes(2)] {
        let error = world.bind(Bind::List(vec![cpus[0], 99_999])).run(|_| Ok(())).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Topology(_)), "{error}");
    }
}

/// An object that ranks make together has the same number in all of them.
#[test]
fn ranks_count_what_they_make() {
    let counted = on_all(3, |rank| {
        let again = rank.clone();
        ensure!((again.id(), again.size()) == (rank.id(), rank.size()), "another rank");
        Ok([rank.ordinal(), again.ordinal(), rank.ordinal()])
    });
    assert_eq!(counted, [[0, 1, 2]; 3]);
}
