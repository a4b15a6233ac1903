//! Progress while ranks compute and call nothing: with a communication thread, everything they have begun makes
//! progress.
//!
//! A rank that computes reads flags in its message passing buffer, which others set. Reading a flag is a load, and
//! makes no progress.

use std::{mem, time::Duration};

use mp_collectives::communicator::{ANY_SOURCE, Communicator};
use mp_core::{
    Channel, Error, ErrorKind, Rank, Result, World,
    mpb::{Line, Mpb, Mpbs},
};
use mp_delegate::{
    threads::{CommThreads, Progress},
    trace::{Recording, Track},
};

use crate::support::{Watchdog, on_all, run_on_all_with};

/// Elements of a message that does not fit into the channels: 2.1 MB.
const LONG: usize = (64 << 12) + 1;
/// Elements of messages: none, a line, several lines, a chunk, many chunks.
const LENGTHS: [usize; 5] = [0, 5, 40, 4_000, LONG];

fn numbers(from: usize, len: usize) -> Vec<u64> {
    (0..len as u64).map(|number| number * 10 + from as u64).collect()
}

/// A rank that computes, and the flags by which others tell it to stop.
struct Computing {
    rank: Rank,
    flags: Mpb,
}

impl Computing {
    fn new(rank: &Rank) -> Result<Self> {
        Ok(Self { rank: rank.clone(), flags: rank.mpb("told", Mpbs::lines(2 * rank.size()))? })
    }

    /// Tells a rank for the `round`th time that it may stop.
    fn tell(&self, rank: usize, round: u64) -> Result<()> {
        self.flags.set_flag(Line { rank, line: self.rank.id() }, round)
    }

    /// Computes until all of these ranks have told this one for the `round`th time. Fails if one of them has ended
    /// without doing so.
    fn until_told(&self, ranks: impl IntoIterator<Item = usize>, round: u64) -> Result<()> {
        for rank in ranks {
            loop {
                // This flag is read first, because a rank tells before it ends.
                let has_ended = self.flags.flag(self.rank.size() + rank)? > 0;
                if self.flags.flag(rank)? >= round {
                    break;
                }
                ensure!(!has_ended, "rank {rank} has ended before it told for the {round}th time");
                compute();
            }
        }
        Ok(())
    }
}

impl Drop for Computing {
    fn drop(&mut self) {
        let size = self.rank.size();
        for rank in 0..size {
            let _ = self.flags.set_flag(Line { rank, line: size + self.rank.id() }, 1);
        }
    }
}

fn compute() {
    std::hint::black_box((0..1_000u64).map(|number| number * number).sum::<u64>());
    std::thread::yield_now();
}

/// Runs the code on ranks of all kinds, in several numbers. Each rank has a communication thread.
fn with_threads(code: impl Fn(&Rank, &Communicator, &Computing) -> Result<()> + Sync) {
    for ranks in [2, 3, 5, 8] {
        on_all(ranks, |rank| {
            let world = Communicator::world(rank);
            world.set_progress(CommThreads::start(1)?)?;
            code(rank, &world, &Computing::new(rank)?)
        });
    }
}

/// Rank 0 begins sends to all others with `begin`, and computes until all of them have received everything.
fn sent<R>(
    limit: Option<usize>,
    begin: impl Fn(&Communicator, Vec<u64>, usize, u32) -> R + Sync,
    end: impl Fn(R) -> Result<()> + Sync,
) {
    with_threads(|rank, world, computing| {
        if let Some(bytes) = limit {
            world.set_unexpected_limit(bytes);
        }
        for round in 1..3 {
            if rank.id() == 0 {
                let mut under_way = Vec::new();
                for (tag, len) in LENGTHS.into_iter().enumerate() {
                    for to in 1..rank.size() {
                        under_way.push(begin(world, numbers(to, len), to, tag as u32));
                    }
                }
                computing.until_told(1..rank.size(), round)?;
                under_way.into_iter().try_for_each(&end)?;
            } else {
                for (tag, len) in LENGTHS.into_iter().enumerate() {
                    let (got, _) = world.receive_vec::<u64>(0, tag as u32)?;
                    ensure!(got == numbers(rank.id(), len), "message {tag} is another one");
                }
                computing.tell(0, round)?;
            }
        }
        Ok(())
    });
}

#[test]
fn nonblocking_sends_go_on_while_their_rank_computes() {
    for limit in [None, Some(0)] {
        sent(
            limit,
            |world, numbers, to, tag| world.nonblocking_send(numbers, to, tag),
            |sending| sending.wait().map(drop).map_err(Into::into),
        );
    }
}

#[test]
fn many_short_sends_go_on_while_their_rank_computes() {
    with_threads(|rank, world, computing| {
        // More messages than the channel has lines.
        let count = 1_000u64;
        if rank.id() == 0 {
            let all = || (0..count).flat_map(|number| (1..rank.size()).map(move |to| (number, to)));
            let sent: Vec<_> =
                all().map(|(number, to)| world.nonblocking_send([number], to, 0)).collect();
            computing.until_told(1..rank.size(), 1)?;
            sent.into_iter().try_for_each(|sent| sent.wait().map(drop))?;
        } else {
            for number in 0..count {
                ensure!(world.receive::<u64>(0, 0)?.0 == number, "not in order");
            }
            computing.tell(0, 1)?;
        }
        Ok(())
    });
}

#[test]
fn nonblocking_synchronous_sends_go_on_while_their_rank_computes() {
    sent(
        None,
        |world, numbers, to, tag| world.nonblocking_synchronous_send(numbers, to, tag),
        |sending| sending.wait().map(drop).map_err(Into::into),
    );
}

#[test]
fn buffered_sends_go_on_while_their_rank_computes() {
    for limit in [None, Some(0)] {
        sent(limit, |world, numbers, to, tag| world.buffered_send(&numbers, to, tag), |sent| sent);
    }
}

#[test]
fn dropped_sends_go_on_while_their_rank_computes() {
    sent(
        None,
        |world, numbers, to, tag| drop(world.nonblocking_send(numbers, to, tag)),
        |()| Ok(()),
    );
}

/// A rank sends messages, drops its last communicator, and computes.
#[test]
fn what_dropped_communicators_have_to_send_goes_on_while_their_rank_computes() {
    for ranks in [2, 5] {
        on_all(ranks, |rank| {
            let computing = Computing::new(rank)?;
            let world = Communicator::world(rank);
            world.set_progress(CommThreads::start(1)?)?;
            if rank.id() == 0 {
                for to in 1..ranks {
                    world.buffered_send(&numbers(to, LONG), to, 0)?;
                }
                drop(world);
                return computing.until_told(1..ranks, 1);
            }
            let (got, _) = world.receive_vec::<u64>(0, 0)?;
            ensure!(got == numbers(rank.id(), LONG), "another message");
            computing.tell(0, 1)
        });
    }
}

/// Rank 0 posts receives from all others, by name or from any source, and computes until their synchronous sends are
/// done.
#[test]
fn posted_receives_go_on_while_their_rank_computes() {
    for any in [false, true] {
        with_threads(|rank, world, computing| {
            let size = rank.size();
            if rank.id() > 0 {
                for (tag, len) in LENGTHS.into_iter().enumerate() {
                    world.synchronous_send(&numbers(rank.id(), len), 0, tag as u32)?;
                }
                return computing.tell(0, 1);
            }
            let mut posted = Vec::new();
            for (tag, len) in LENGTHS.into_iter().enumerate() {
                for from in 1..size {
                    let source = if any { ANY_SOURCE } else { from.into() };
                    posted.push((
                        len,
                        world.nonblocking_receive(vec![0u64; len], source, tag as u32),
                    ));
                }
            }
            computing.until_told(1..size, 1)?;
            for (len, receiving) in posted {
                let (got, status) = receiving.wait()?;
                ensure!(got == numbers(status.source, len), "{status:?}: another message");
            }
            Ok(())
        });
    }
}

#[test]
fn persistent_requests_go_on_while_their_rank_computes() {
    with_threads(|rank, world, computing| {
        let others = || 1..rank.size();
        if rank.id() > 0 {
            for round in 1..4 {
                let (got, _) = world.receive_vec::<u64>(0, 0)?;
                ensure!(got == numbers(rank.id() + round, LONG), "another message");
                world.synchronous_send(&numbers(round, LONG), 0, 1)?;
                computing.tell(0, round as u64)?;
            }
            return Ok(());
        }
        let mut sends: Vec<_> =
            others().map(|to| world.persistent_send(vec![0; LONG], to, 0)).collect();
        let mut receives: Vec<_> =
            others().map(|from| world.persistent_receive(vec![0u64; LONG], from, 1)).collect();
        for round in 1..4 {
            for (send, to) in sends.iter_mut().zip(others()) {
                *send.buffer_mut()? = numbers(to + round, LONG);
                send.start()?;
            }
            receives.iter_mut().try_for_each(|receive| receive.start())?;
            computing.until_told(others(), round as u64)?;
            sends.iter_mut().try_for_each(|send| send.wait())?;
            for receive in &mut receives {
                receive.wait()?;
                ensure!(*receive.buffer_mut()? == numbers(round, LONG), "another message");
            }
        }
        Ok(())
    });
}

/// All ranks compute, and only sometimes ask whether their requests are done, which makes no progress.
#[test]
fn messages_between_ranks_that_all_compute_arrive() {
    with_threads(|rank, world, _| {
        let (me, size) = (rank.id(), rank.size());
        let others = || (0..size).filter(|&other| other != me);
        for round in 0..3 {
            let mut sends: Vec<_> = others()
                .map(|to| world.nonblocking_synchronous_send(numbers(me + round, LONG), to, 0))
                .collect();
            let receives: Vec<_> =
                others().map(|from| world.nonblocking_receive(vec![0u64; LONG], from, 0)).collect();
            while !sends.iter().all(|send| send.is_done()) {
                compute();
            }
            while !receives.iter().all(|receive| receive.is_done()) {
                compute();
            }
            for (receive, from) in receives.into_iter().zip(others()) {
                ensure!(receive.wait()?.0 == numbers(from + round, LONG), "another message");
            }
            sends.drain(..).try_for_each(|send| send.wait().map(drop))?;
        }
        Ok(())
    });
}

/// Any call may end while messages are pending. Each call takes them back from the thread, and lends them again.
#[test]
fn messages_go_on_between_many_calls() {
    with_threads(|rank, world, computing| {
        let (me, size) = (rank.id(), rank.size());
        let (left, right) = ((me + size - 1) % size, (me + 1) % size);
        for round in 1..20 {
            let sending = world.nonblocking_send(numbers(me, LONG), right, 0);
            let receiving = world.nonblocking_receive(vec![0u64; LONG], left, 0);
            let second = world.nonblocking_receive([0u64; 2], left, 2);
            for call in 0..20u64 {
                world.send(&[round, call], right, 1)?;
                let mut got = [0u64; 2];
                world.receive_into(&mut got, left, 1)?;
                ensure!(got == [round, call], "{got:?} in round {round}, call {call}");
                if call % 4 == 0 {
                    world.nonblocking()?.barrier().wait()?;
                }
                ensure!(world.try_probe(left, 3)?.is_none(), "a message that nobody sent");
                compute();
            }
            world.send(&[round, 0], right, 2)?;
            ensure!(second.wait()?.0 == [round, 0], "another second message");
            ensure!(receiving.wait()?.0 == numbers(left, LONG), "another message");
            sending.wait()?;
            computing.tell(right, round)?;
            computing.until_told([left], round)?;
        }
        // A probe for messages of a rank that has ended would be an error.
        world.barrier()
    });
}

/// The report distinguishes what a thread moved while its rank computed from what the rank's calls moved.
#[test]
fn the_overlap_report_shows_who_moved_tagged_messages() {
    on_all(2, |rank| {
        let world = Communicator::world(rank);
        let computing = Computing::new(rank)?;
        if rank.id() > 0 {
            for round in 1..3 {
                computing.until_told([0], round)?;
                let (got, _) = world.receive_vec::<u64>(0, 0)?;
                ensure!(got == numbers(0, LONG), "another message");
                computing.tell(0, round)?;
            }
            return Ok(());
        }
        let recording = Recording::measure();
        let recorder = recording.recorder(Track::rank(0));
        let builder = CommThreads::builder(1).record([recording.recorder(Track::kt(0))]);
        let threads = builder.start()?;
        world.set_progress(&threads)?;
        // The thread may move the message before the call that begins it has returned.
        let sending = recorder.compute(1.0, || {
            let sending = world.nonblocking_send(numbers(0, LONG), 1, 0);
            computing.tell(1, 1)?;
            computing.until_told([1], 1).map(|()| sending)
        })?;
        sending.wait()?;
        world.set_progress(Progress::InCalls)?;
        threads.shutdown();
        let by_thread = recording.overlap().ranks[0].clone();
        ensure!(by_thread.messages_delegated_ns > 0, "{by_thread:?}");
        ensure!(by_thread.hidden_ns.is_some_and(|hidden| hidden > 0), "{by_thread:?}");
        // The receiver takes the message later, so that the call that begins it can't send all of it.
        let sending = world.nonblocking_send(numbers(0, LONG), 1, 0);
        computing.tell(1, 2)?;
        sending.wait()?;
        let in_calls = recording.overlap().ranks[0].clone();
        let delegated = by_thread.messages_delegated_ns;
        ensure!(in_calls.messages_delegated_ns == delegated, "{in_calls:?}, {by_thread:?}");
        let calls = in_calls.messages_in_calls_ns;
        ensure!(calls > by_thread.messages_in_calls_ns, "{in_calls:?}, {by_thread:?}");
        computing.until_told([1], 2)
    });
}

/// Probes also find messages that the thread has received between two of their polls.
#[test]
fn probes_see_what_threads_bring_in() {
    with_threads(|rank, world, _| {
        let rounds = 4_000 / rank.size() as u64;
        if rank.id() > 0 {
            for round in 0..rounds {
                world.send(&[round], 0, 0)?;
                world.receive::<u64>(0, 0)?;
            }
            return world.send(&[0u64], 0, 9);
        }
        // This receive skips all other messages.
        let posted = world.nonblocking_receive([0u64], 1, 9);
        for round in 0..rounds {
            for from in 1..rank.size() {
                let status = world.probe(from, 0)?;
                ensure!(world.receive::<u64>(status.source, 0)?.0 == round, "another message");
                world.send(&[round], from, 0)?;
            }
        }
        for from in 2..rank.size() {
            world.receive::<u64>(from, 9)?;
        }
        Ok(posted.wait().map(drop)?)
    });
}

/// A rank that computes has dropped all its communicators and its last receive. Others hear that it matches no messages
/// any more.
#[test]
fn others_hear_that_a_rank_that_computes_has_let_go() {
    with_threads(|rank, _, computing| {
        let all = Communicator::world(rank);
        all.set_progress(CommThreads::start(1)?)?;
        let (me, size) = (rank.id(), rank.size());
        if me > 0 {
            ensure!(all.receive_vec::<u64>(0, 0)?.0 == numbers(me, LONG), "another message");
            computing.tell(0, 1)?;
            let ended = all.receive::<u64>(0, 1);
            ensure!(
                matches!(
                    ended.as_ref().map_err(Error::kind),
                    Err(ErrorKind::PeerEnded { rank: 0 })
                ),
                "{ended:?}"
            );
            return computing.tell(0, 2);
        }
        let posted = all.nonblocking_receive([0u64], 1, 2);
        for to in 1..size {
            drop(all.nonblocking_send(numbers(to, LONG), to, 0));
        }
        drop(all);
        computing.until_told(1..size, 1)?;
        drop(posted);
        computing.until_told(1..size, 2)
    });
}

/// A rank that has lent its messages to a thread, and waits outside of communicators, makes progress itself.
#[test]
fn lent_messages_go_on_in_waits_of_every_kind() {
    with_threads(|rank, world, _| {
        let others = || 1..rank.size();
        for round in 0..3 {
            if rank.id() > 0 {
                let (got, _) = world.receive_vec::<u64>(0, 0)?;
                ensure!(got == numbers(round, LONG), "another message");
                rank.sender::<u8>("got it", 0, Channel::degree(1))?.send(&1)?;
                world.barrier()?;
                continue;
            }
            let sent: Vec<_> =
                others().map(|to| world.nonblocking_send(numbers(round, LONG), to, 0)).collect();
            for from in others() {
                rank.receiver::<u8>("got it", from, Channel::degree(1))?.receive()?;
            }
            world.barrier()?;
            sent.into_iter().try_for_each(|sent| sent.wait().map(drop))?;
        }
        Ok(())
    });
}

/// Without a thread there is no progress, as the guide says.
#[test]
fn nothing_goes_on_in_calls_while_a_rank_computes() {
    on_all(2, |rank| {
        let world = Communicator::world(rank);
        world.set_progress(Progress::InCalls)?;
        let computing = Computing::new(rank)?;
        if rank.id() == 0 {
            let sending = world.nonblocking_send(numbers(0, LONG), 1, 0);
            computing.tell(1, 1)?;
            computing.until_told([1], 1)?;
            sending.wait()?;
            return Ok(());
        }
        // If the receiver took the message meanwhile, the call that begins it could send all of it.
        computing.until_told([0], 1)?;
        let mut receiving = world.nonblocking_receive(vec![0u64; LONG], 0, 0);
        ensure!(!receiving.wait_timeout(Duration::from_millis(30))?, "it went by itself");
        computing.tell(0, 1)?;
        ensure!(receiving.wait()?.0 == numbers(0, LONG), "another message");
        Ok(())
    });
}

/// Threads that were stopped or switched off leave everything to the rank's calls. Another thread of the set goes on.
#[test]
fn what_a_thread_leaves_goes_on() {
    for ranks in [2, 3] {
        on_all(ranks, |rank| {
            let world = Communicator::world(rank);
            let computing = Computing::new(rank)?;
            let threads = CommThreads::start(3)?;
            world.set_progress(&threads)?;
            for (round, change) in (1..).zip(["nothing", "off", "on", "stop", "stop", "shutdown"]) {
                if rank.id() > 0 {
                    let (got, _) = world.receive_vec::<u64>(0, 0)?;
                    ensure!(got == numbers(round, LONG), "another message");
                    computing.tell(0, round as u64)?;
                    continue;
                }
                let sent: Vec<_> = (1..ranks)
                    .map(|to| world.nonblocking_send(numbers(round, LONG), to, 0))
                    .collect();
                match change {
                    "off" => threads.switch(0, false),
                    "on" => threads.switch(0, true),
                    "stop" => threads.stop(round % 3),
                    "shutdown" => threads.shutdown(),
                    _ => {}
                }
                if change != "shutdown" {
                    computing.until_told(1..ranks, round as u64)?;
                }
                sent.into_iter().try_for_each(|sent| sent.wait().map(drop))?;
            }
            Ok(())
        });
    }
}

/// The threads that make progress can be changed while messages are pending.
#[test]
fn the_threads_can_be_changed_while_messages_are_under_way() {
    on_all(3, |rank| {
        let world = Communicator::world(rank);
        let computing = Computing::new(rank)?;
        for round in 1..6 {
            if rank.id() > 0 {
                let (got, _) = world.receive_vec::<u64>(0, 0)?;
                ensure!(got == numbers(round, LONG), "another message");
                computing.tell(0, round as u64)?;
                continue;
            }
            let sent: Vec<_> =
                (1..3).map(|to| world.nonblocking_send(numbers(round, LONG), to, 0)).collect();
            for _ in 0..round {
                world.set_progress(Progress::InCalls)?;
                world.set_progress(CommThreads::start(1)?)?;
            }
            computing.until_told(1..3, round as u64)?;
            sent.into_iter().try_for_each(|sent| sent.wait().map(drop))?;
        }
        Ok(())
    });
}

/// If a peer is lost while a rank computes, only the operations with that peer end.
#[test]
fn a_peer_that_is_lost_ends_what_a_computing_rank_has_begun_with_it() {
    let all = run_on_all_with(
        3,
        |world| world,
        |rank| {
            let world = Communicator::world(rank);
            world.set_progress(CommThreads::start(1)?)?;
            let computing = Computing::new(rank)?;
            match rank.id() {
                0 => {
                    let sending = world.nonblocking_send(numbers(0, LONG), 1, 0);
                    let receiving = world.nonblocking_receive(vec![0u64; LONG], 1, 0);
                    let other = world.nonblocking_send(numbers(0, LONG), 2, 0);
                    // The flags of MPBs remain readable.
                    while !rank.is_lost(1) {
                        compute();
                    }
                    let lost =
                        |error: &Error| matches!(error.kind(), ErrorKind::PeerLost { rank: 1, .. });
                    let failed = sending.wait().err();
                    ensure!(failed.as_ref().is_some_and(|f| lost(&f.error)), "{failed:?}");
                    let failed = receiving.wait().err();
                    ensure!(failed.as_ref().is_some_and(|f| lost(&f.error)), "{failed:?}");
                    other.wait()?;
                }
                1 => panic!("on purpose"),
                _ => {
                    let (got, _) = world.receive_vec::<u64>(0, 0)?;
                    ensure!(got == numbers(0, LONG), "another message");
                }
            }
            drop(computing);
            Ok(())
        },
    );
    for (kind, ran) in all.each() {
        let error = ran.expect_err("a rank that panics").to_string();
        assert!(error.contains("on purpose"), "{kind}: {error}");
        assert!(!error.contains("another message") && !error.contains("Failed"), "{kind}: {error}");
    }
}

/// If the code of a rank fails or panics while a thread has its messages, the others see that it is lost or ended, as
/// usual.
#[test]
fn a_rank_fails_while_its_messages_are_lent() {
    for panics in [false, true] {
        let all = run_on_all_with(
            2,
            |world| world,
            |rank| {
                let world = Communicator::world(rank);
                world.set_progress(CommThreads::start(1)?)?;
                if rank.id() == 0 {
                    let _sending = world.nonblocking_send(numbers(0, LONG), 1, 0);
                    let _receiving = world.nonblocking_receive(vec![0u64; LONG], 1, 0);
                    world.receive::<u64>(1, 1)?;
                    ensure!(!panics || std::hint::black_box(false), "{}", panic_or_fail(panics));
                    return Err(mp_core::Error::other("failed on purpose"));
                }
                world.send(&[1u64], 0, 1)?;
                let failed = world.receive_vec::<u64>(0, 5).err();
                match failed.map(Error::into_kind) {
                    Some(ErrorKind::PeerLost { .. }) if panics => Ok(()),
                    Some(ErrorKind::PeerEnded { .. }) if !panics => Ok(()),
                    other => Err(mp_core::Error::other(format!("rank 1 got {other:?}"))),
                }
            },
        );
        for (kind, ran) in all.each() {
            let error = ran.expect_err("a rank that fails").to_string();
            assert!(
                error.contains("on purpose") && !error.contains("rank 1 got"),
                "{kind}: {error}"
            );
        }
    }
}

fn panic_or_fail(panics: bool) -> &'static str {
    if panics {
        panic!("panicked on purpose");
    }
    "failed on purpose"
}

/// A leaked request does not prevent the end of anything.
#[test]
fn a_request_that_is_leaked_while_its_message_is_lent_does_no_harm() {
    on_all(2, |rank| {
        let threads = CommThreads::start(1)?;
        let world = Communicator::world(rank);
        world.set_progress(&threads)?;
        if rank.id() == 0 {
            mem::forget(world.nonblocking_send(numbers(0, LONG), 1, 0));
            mem::forget(world.nonblocking_receive(vec![0u64; LONG], 1, 0));
        } else {
            let (got, _) = world.receive_vec::<u64>(0, 0)?;
            ensure!(got == numbers(0, LONG), "another message");
        }
        Ok(())
    });
}

/// Threads may outlive the worlds whose messages they carry.
#[test]
fn threads_serve_one_world_after_another() {
    let _watchdog = Watchdog::start();
    let threads = CommThreads::start(2).unwrap();
    for round in 0..10 {
        let code = |rank: &Rank| {
            let world = Communicator::world(rank);
            world.set_progress(&threads)?;
            let computing = Computing::new(rank)?;
            let other = 1 - rank.id();
            let sending = world.nonblocking_send(numbers(round, LONG), other, 0);
            let receiving = world.nonblocking_receive(vec![0u64; LONG], other, 0);
            while !receiving.is_done() {
                compute();
            }
            computing.tell(other, 1)?;
            computing.until_told([other], 1)?;
            ensure!(receiving.wait()?.0 == numbers(round, LONG), "another message");
            sending.wait()?;
            Ok(())
        };
        World::threads(2).run(code).unwrap();
    }
}

/// A revocation reaches a rank that computes, and the operations that it has begun.
#[test]
fn a_revocation_ends_what_a_computing_rank_has_begun() {
    on_all(3, |rank| {
        let world = Communicator::world(rank);
        world.set_progress(CommThreads::start(1)?)?;
        let part = world.duplicate()?;
        let computing = Computing::new(rank)?;
        if rank.id() == 0 {
            let receiving = part.nonblocking_receive(vec![0u64; LONG], 1, 0);
            let sending = part.nonblocking_synchronous_send(numbers(0, LONG), 2, 0);
            let other = world.nonblocking_send(numbers(0, LONG), 2, 1);
            computing.tell(1, 1)?;
            while !(receiving.is_done() && sending.is_done()) {
                compute();
            }
            computing.until_told([2], 1)?;
            let failed = receiving.wait().err();
            ensure!(
                failed
                    .as_ref()
                    .is_some_and(|f| matches!(f.error.kind(), ErrorKind::Revoked { .. })),
                "{failed:?}"
            );
            let failed = sending.wait().err();
            ensure!(
                failed
                    .as_ref()
                    .is_some_and(|f| matches!(f.error.kind(), ErrorKind::Revoked { .. })),
                "{failed:?}"
            );
            other.wait()?;
        } else if rank.id() == 1 {
            computing.until_told([0], 1)?;
            part.revoke()?;
        } else {
            let (got, _) = world.receive_vec::<u64>(0, 1)?;
            ensure!(got == numbers(0, LONG), "another message");
            computing.tell(0, 1)?;
        }
        Ok(())
    });
}
