//! Tests that kill a rank at every store of an operation. The other ranks must find a world that works and that has
//! lost no memory.

use std::{cell::Cell, sync::Arc, time::Duration};

use super::{Endpoints, Rank, burial, outcome};
use crate::{
    buffer::SharedBuffer,
    channel::{Channel, Receiver, Sender},
    context::{Context, Namespace, RankState},
    error::{Error, ErrorKind, Result},
    mpb::{Line, Mpb, Mpbs, Notifier, consensus::Consensus, region::Region},
    segment::{BlockKind, Segment},
    sync::{Ordering, life::live_for},
    wait::{Asymmetry, LineWait, WaitPolicy, Waiting},
};

const SURVIVOR: u32 = 0;
const VICTIM: u32 = 1;
/// A rank that dies before the victim does.
const OTHER: u32 = 2;
const DEGREE: u32 = 2;
/// A limit that is longer than any wait here, so that a test that would hang fails instead.
const LONG: Duration = Duration::from_secs(10);

fn channel() -> Channel {
    Channel::degree(DEGREE).max_len(8)
}

struct Stage {
    launcher: Context,
}

impl Stage {
    fn new() -> Self {
        let segment = Segment::on_heap(1 << 20, false, 0).unwrap();
        let waiting = Waiting {
            policy: WaitPolicy::Park,
            asymmetry: Asymmetry::Ordinary,
            line_wait: LineWait::Pause,
            spare: 0,
        };
        let launcher = Context::create(Arc::new(segment), (3, 3), true, waiting).unwrap();
        for rank in [SURVIVOR, VICTIM, OTHER] {
            assert!(launcher.rank(rank).unwrap().claim());
        }
        Self { launcher }
    }

    fn rank(&self, rank: u32) -> Rank {
        Rank::new(Arc::new(self.launcher.as_rank(rank)))
    }

    /// Checks that all blocks except the world's and the survivor's table are free.
    fn assert_empty(&self) {
        let heap = self.launcher.lock_heap().unwrap();
        let left: Vec<_> = heap
            .blocks()
            .unwrap()
            .into_iter()
            .filter(|block| block.kind != BlockKind::World)
            .filter(|block| block.kind != BlockKind::Table || block.owner != SURVIVOR)
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// Buffers of the survivor, each with different contents.
struct Mine(Vec<(u64, SharedBuffer<u64>)>);

impl Mine {
    fn make(&mut self, rank: &Rank) {
        let number = 1000 + self.0.len() as u64;
        self.0.push((number, buffer(rank, number)));
    }

    fn assert_whole(&self) {
        for (number, buffer) in &self.0 {
            assert_eq!(**buffer, [*number; 100]);
        }
        let mut places: Vec<_> = self.0.iter().map(|(_, buffer)| buffer.as_ptr()).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), self.0.len(), "two buffers in one place");
    }
}

fn buffer(rank: &Rank, number: u64) -> SharedBuffer<u64> {
    rank.buffer_from(&[number; 100]).unwrap()
}

/// Channels of the survivor to itself, which are in the same tree of names as the channels that the victim opens and
/// closes.
struct Neighbours(Vec<(String, Ends)>);

impl Neighbours {
    fn add(&mut self, rank: &Rank, name: &str) {
        let to = rank.sender(name, SURVIVOR as usize, channel()).unwrap();
        let from = rank.receiver(name, SURVIVOR as usize, channel()).unwrap();
        self.0.push((name.to_owned(), (to, from)));
    }

    /// Checks that one end receives what the other sends.
    fn assert_whole(&mut self) {
        for (name, (to, from)) in &mut self.0 {
            to.try_send(&[7; 4]).unwrap();
            assert_eq!(*from.try_receive().unwrap().expect(name), [7; 4]);
        }
    }

    /// Closes the channels. Those that were opened before the victim lived are closed in the order of opening.
    fn close(mut self) {
        while !self.0.is_empty() {
            drop(self.0.remove(0));
            self.assert_whole();
        }
    }
}

/// Kills `victim` at every store. `prepare` runs before it as the survivor. `aftermath` runs afterwards, with the
/// result of `prepare`.
fn at_every_store<P>(
    prepare: impl Fn(&Rank, &Stage) -> P,
    victim: impl Fn(&Rank, &Stage),
    aftermath: impl Fn(&Rank, &Stage, P, &mut Mine),
) {
    for stores in 0.. {
        let stage = Stage::new();
        let survivor = stage.rank(SURVIVOR);
        let prepared = prepare(&survivor, &stage);
        let mut mine = Mine(Vec::new());
        mine.make(&survivor);
        let mut neighbours = Neighbours(Vec::new());
        neighbours.add(&survivor, "older");
        neighbours.add(&survivor, "old");
        let lived = live_for(stores, || {
            let rank = stage.rank(VICTIM);
            victim(&rank, &stage);
            // The rank is not dropped, because a process that is killed runs no destructors.
            std::mem::forget(rank);
        });
        // The kernel shows that the victim is dead, but the survivor acts before the burial.
        stage.launcher.rank(VICTIM).unwrap().set_dead();
        mine.make(&survivor);
        neighbours.add(&survivor, "dead");
        mine.make(&survivor);
        burial::bury(&stage.launcher, VICTIM).unwrap();
        mine.make(&survivor);
        neighbours.add(&survivor, "buried");
        mine.assert_whole();
        aftermath(&survivor, &stage, prepared, &mut mine);
        mine.make(&survivor);
        neighbours.add(&survivor, "new");
        mine.assert_whole();
        drop(mine);
        neighbours.assert_whole();
        neighbours.close();
        stage.assert_empty();
        if lived {
            assert!(stores > 10, "died {stores} times only");
            return;
        }
    }
}

/// Receives all messages of a channel whose other end is dead or closed: moved buffers, whose contents must be intact,
/// short messages, and then the end.
fn drain(from: &Receiver<[u64]>, mine: &mut Mine) {
    loop {
        match from.receive_timeout(LONG).map_err(Error::into_kind) {
            Ok(message) if message.len() == 100 => {
                let number = message[0];
                assert_eq!(*message, [number; 100]);
                mine.0.push((number, message.into_buffer().unwrap()));
            }
            Ok(message) => assert_eq!(*message, [7; 4]),
            Err(ErrorKind::PeerLost { .. } | ErrorKind::Disconnected { .. }) => return,
            Err(error) => panic!("{error}"),
        }
    }
}

fn refused<T>(result: Result<T>) {
    match result.map_err(Error::into_kind) {
        Ok(_) => panic!("nobody is there to receive it"),
        Err(ErrorKind::Timeout { .. }) => panic!("nobody said that the other end is gone"),
        Err(_) => {}
    }
}

type Ends = (Sender<[u64]>, Receiver<[u64]>);

fn open(rank: &Rank) -> Ends {
    let peer = 1 - rank.id();
    (rank.sender("x", peer, channel()).unwrap(), rank.receiver("x", peer, channel()).unwrap())
}

fn fill(rank: &Rank, (mut to, from): Ends) -> Ends {
    to.send_buffer(buffer(rank, 1)).unwrap();
    to.send(&[7; 4]).unwrap();
    (to, from)
}

fn after_pair(_: &Rank, _: &Stage, (mut to, from): Ends, mine: &mut Mine) {
    drain(&from, mine);
    refused(to.send_timeout(&[7; 4], LONG));
}

#[test]
fn while_it_sends_and_receives() {
    at_every_store(
        |rank, _| fill(rank, open(rank)),
        |rank, _| {
            let (mut to, from) = open(rank);
            to.send_buffer(buffer(rank, 2)).unwrap();
            let first = from.receive_buffer().unwrap();
            assert_eq!(*from.receive().unwrap(), [7; 4]);
            to.try_send_buffer(first).unwrap();
        },
        after_pair,
    );
}

#[test]
fn while_its_slots_carry_now_elements_and_now_buffers() {
    at_every_store(
        |rank, _| rank.receiver::<[u64]>("x", 1, channel()).unwrap(),
        |rank, _| {
            let mut to = rank.sender::<[u64]>("x", 0, channel()).unwrap();
            to.send_buffer(buffer(rank, 2)).unwrap();
            to.send(&[7; 4]).unwrap();
            let mut to = rank.sender::<[u64]>("self", 1, channel()).unwrap();
            let from = rank.receiver::<[u64]>("self", 1, channel()).unwrap();
            for number in 3..5 {
                to.send_buffer(buffer(rank, number)).unwrap();
                drop(from.receive_buffer().unwrap());
            }
            // These elements could be taken for a moved buffer, but name no block.
            let could_be = [3 << 40 | 0x41; 8];
            let mut slot = to.reserve(8).unwrap();
            slot.copy_from_slice(&could_be);
            drop(slot);
            for _ in 0..2 {
                to.send(&could_be).unwrap();
                drop(from.receive().unwrap());
            }
            for number in 5..7 {
                to.send_buffer(buffer(rank, number)).unwrap();
            }
        },
        |_, _, from, mine| drain(&from, mine),
    );
}

#[test]
fn while_it_forwards_a_buffer_from_behind_an_older_message() {
    at_every_store(
        |rank, _| {
            let (mut to, from) = open(rank);
            to.send(&[7; 4]).unwrap();
            to.send_buffer(buffer(rank, 1)).unwrap();
            (to, from)
        },
        |rank, _| {
            let (mut to, from) = open(rank);
            let _older = from.receive().unwrap();
            to.send_buffer(from.receive_buffer().unwrap()).unwrap();
        },
        |_, _, (to, from), mine| {
            drain(&from, mine);
            // This frees the channel, and the buffers that seem stranded in it.
            drop(to);
        },
    );
}

#[test]
fn while_it_opens_and_closes() {
    at_every_store(
        |_, _| (),
        |rank, _| {
            let (to, from) = open(rank);
            drop(to);
            drop(from);
        },
        |rank, stage, (), mine| after_pair(rank, stage, open(rank), mine),
    );
}

#[test]
fn while_it_withdraws() {
    at_every_store(
        |rank, _| rank.receiver::<[u64]>("x", 1, channel()).unwrap(),
        |rank, _| rank.withdraw("x", channel()).unwrap(),
        |rank, stage, from, mine| {
            drain(&from, mine);
            // A sender that is opened later is refused, too.
            refused(rank.sender("x", 1, channel()).unwrap().send_timeout(&[7; 4], LONG));
            drop(from);
            // The note of the withdrawal is freed when no rank is left that could ask about it.
            forget_name(rank, stage);
        },
    );
}

/// Withdraws from the name, so that no rank is left that could ask about it.
fn forget_name(rank: &Rank, stage: &Stage) {
    rank.withdraw("x", channel()).unwrap();
    stage.launcher.rank(OTHER).unwrap().set_dead();
    burial::bury(&stage.launcher, OTHER).unwrap();
}

#[test]
fn while_it_calls() {
    at_every_store(
        |rank, _| rank.callers("x", channel()).unwrap(),
        |rank, _| {
            let mut to = rank.sender::<[u64]>("x", 0, channel()).unwrap();
            to.send_buffer(buffer(rank, 2)).unwrap();
            to.send(&[7; 4]).unwrap();
        },
        |rank, stage, callers, mine| {
            let called = callers.has_called(1);
            assert_eq!(callers.absent(1), (!called).then_some(true));
            assert_eq!((callers.has_called(2), callers.absent(2)), (false, None));
            if called {
                drain(&rank.receiver("x", 1, channel()).unwrap(), mine);
            }
            drop(callers);
            forget_name(rank, stage);
        },
    );
}

#[test]
fn while_it_listens() {
    at_every_store(
        |rank, _| rank.sender::<[u64]>("x", 1, channel()).unwrap(),
        |rank, _| {
            let callers = rank.callers("x", channel()).unwrap();
            assert!(callers.has_called(0) && callers.has_news());
            callers.await_call(2);
        },
        |rank, stage, mut to, _| {
            refused(to.send_timeout(&[7; 4], LONG));
            drop(to);
            refused(rank.sender("x", 1, channel()).unwrap().send_timeout(&[7; 4], LONG));
            // Callers can be opened beside the dead rank's note.
            let callers = rank.callers("x", channel()).unwrap();
            assert_eq!(callers.absent(1), Some(true));
            drop(callers);
            forget_name(rank, stage);
        },
    );
}

#[test]
fn while_it_listens_no_more() {
    at_every_store(
        |_, _| (),
        |rank, _| {
            drop(rank.callers("x", channel()).unwrap());
            rank.withdraw("x", channel()).unwrap();
        },
        |rank, stage, (), _| {
            let callers = rank.callers("x", channel()).unwrap();
            assert!(callers.absent(1).is_some());
            drop(callers);
            forget_name(rank, stage);
        },
    );
}

#[test]
fn while_it_closes_what_is_full() {
    at_every_store(
        |rank, _| fill(rank, open(rank)),
        |rank, _| drop(fill(rank, open(rank))),
        after_pair,
    );
}

#[test]
fn while_it_takes_the_last_of_a_closed_channel() {
    at_every_store(
        |rank, _| drop(fill(rank, open(rank))),
        |rank, _| {
            let from = rank.receiver::<[u64]>("x", 0, channel()).unwrap();
            let older = from.receive().unwrap();
            assert_eq!(*from.receive().unwrap(), [7; 4]);
            drop(older);
            assert!(from.receive().is_err());
        },
        |rank, _, (), _| drop(open(rank)),
    );
}

#[test]
fn while_it_makes_a_channel_to_one_who_has_ended() {
    at_every_store(
        |_, stage| burial::end(&stage.launcher, SURVIVOR, RankState::Finished).unwrap(),
        |rank, _| drop(open(rank)),
        |_, _, (), _| (),
    );
}

#[test]
fn while_it_ends() {
    at_every_store(
        |rank, _| fill(rank, open(rank)),
        |rank, stage| {
            std::mem::forget(fill(rank, open(rank)));
            let context = &stage.launcher.as_rank(VICTIM);
            outcome::post(context, &Ok(outcome::encode(5u64).unwrap())).unwrap();
            burial::end(context, VICTIM, RankState::Finished).unwrap();
        },
        |rank, stage, ends, mine| {
            let posted = outcome::read::<u64>(&stage.launcher, VICTIM).unwrap();
            assert!(posted.is_none_or(|value| value == Ok(5)));
            outcome::forget(&stage.launcher, VICTIM).unwrap();
            after_pair(rank, stage, ends, mine);
        },
    );
}

#[test]
fn while_it_opens_what_does_not_fit() {
    at_every_store(
        |rank, _| rank.receiver::<[u64]>("x", 1, channel()).unwrap(),
        |rank, _| assert!(rank.sender::<u8>("x", 0, channel()).is_err()),
        |_, _, from, _| refused(from.receive_timeout(LONG)),
    );
}

#[test]
fn while_it_allocates_and_frees() {
    at_every_store(
        |_, _| (),
        |rank, _| {
            let first = rank.buffer::<u64>(100).unwrap();
            let second = rank.buffer::<u64>(100).unwrap();
            drop(first);
            let third = rank.buffer::<u64>(100).unwrap();
            drop((second, third));
        },
        |_, _, (), _| (),
    );
}

/// Ends the third rank, which takes no part.
fn without_other(stage: &Stage) {
    burial::end(&stage.launcher, OTHER, RankState::Finished).unwrap();
}

fn mpb(rank: &Rank) -> Mpb {
    // The line of the victim's last flag is made only when it is first used, and so are the last two lines.
    let mut mpb = rank.mpb("mpb", Mpbs::lines(5).growing_from(1, 2).growing_from(3, 0)).unwrap();
    mpb.set_wait(LONG);
    mpb
}

/// The value to which the victim sets its last flag.
const SET: u64 = 9;

/// Checks that the victim's last flag was set and everything before it is visible, or that the victim is lost.
fn after_mpb(_: &Rank, _: &Stage, mpb: Mpb, _: &mut Mine) {
    match mpb.wait_flag_from(VICTIM as usize, 1, |value| value == SET).map_err(Error::into_kind) {
        Ok(_) => {
            for (line, content) in [(1, [7; 100]), (3, [8; 100])] {
                let mut got = [0; 100];
                mpb.get(Line { rank: VICTIM as usize, line }, &mut got).unwrap();
                assert_eq!(got, content, "the flag came before the data");
            }
            let mut payload = [0; 3];
            mpb.flag_payload(1, &mut payload).unwrap();
            assert_eq!(payload, *b"abc");
        }
        Err(ErrorKind::PeerLost { rank, .. }) => assert_eq!(rank, VICTIM as usize),
        Err(error) => panic!("{error}"),
    }
    assert!(mpb.set_flag(Line { rank: VICTIM as usize, line: 0 }, 1).is_ok());
    refused(mpb.wait_flag(0, |value| value == SET));
}

fn use_mpb(rank: &Rank) {
    let mpb = mpb(rank);
    let to = Line { rank: SURVIVOR as usize, line: 1 };
    mpb.set_flag_with(to, 1, b"a").unwrap();
    mpb.put(&[7; 100], Line { rank: VICTIM as usize, line: 1 }).unwrap();
    mpb.put(&[8; 100], Line { rank: VICTIM as usize, line: 3 }).unwrap();
    mpb.set_flag_with(to, SET, b"abc").unwrap();
}

#[test]
fn while_it_uses_message_passing_buffers() {
    let prepare = |rank: &Rank, stage: &Stage| {
        without_other(stage);
        mpb(rank)
    };
    at_every_store(prepare, |rank, _| use_mpb(rank), after_mpb);
}

#[test]
fn while_it_makes_message_passing_buffers() {
    at_every_store(
        |_, stage| without_other(stage),
        |rank, _| use_mpb(rank),
        |rank, stage, (), mine| {
            // The buffers are those of the victim, or new ones.
            let mpb = mpb(rank);
            if mpb.flag(1).unwrap() == SET {
                after_mpb(rank, stage, mpb, mine);
            } else {
                refused(mpb.wait_flag(1, |value| value == SET));
            }
        },
    );
}

/// The namespace of the tests' regions.
const NAMES: Namespace = Namespace::new("tests");
const BOTH: [usize; 2] = [SURVIVOR as usize, VICTIM as usize];

/// Opens a region of both ranks, and returns it with its first words.
fn region(rank: &Rank) -> Region {
    let words = 1 + Consensus::words(2, 1, 1);
    Region::open_of(rank, NAMES, "part: region", &BOTH, words, 0).unwrap()
}

fn consensus(region: &Region) -> Consensus<'_> {
    Consensus::new(&region.words()[1..], (2, region.rank()), 1, 1).unwrap()
}

fn union(contributions: &[Option<Vec<u64>>]) -> Vec<u64> {
    vec![contributions.iter().flatten().map(|words| words[0]).sum()]
}

#[test]
fn while_it_revokes_and_decides() {
    at_every_store(
        |rank, _| {
            let mut mpb = rank.mpb_of("part: flags", &BOTH, Mpbs::lines(3)).unwrap();
            mpb.set_wait(LONG);
            let region = region(rank);
            consensus(&region).contribute(1, &[1]);
            (mpb, region)
        },
        |rank, _| {
            let region = region(rank);
            region.words()[0].store(1);
            rank.revoke_mpbs("part: ").unwrap();
            region.words()[0].store(2);
            let consensus = consensus(&region);
            consensus.contribute(1, &[2]);
            assert_eq!(consensus.decide(1, |_| false, union), Some(vec![3]));
        },
        |rank, _, (mpb, region), _| {
            assert!(region.is_gone(1) && !region.is_gone(0));
            let waited = mpb.wait_flag(1, |value| value == SET);
            match region.words()[0].load() {
                2 => assert!(
                    matches!(waited.as_ref().map_err(Error::kind), Err(ErrorKind::Revoked { .. })),
                    "{waited:?}"
                ),
                _ => refused(waited),
            }
            // A rank that finds a revocation half done completes it.
            rank.revoke_mpbs("part: ").unwrap();
            let waited = mpb.wait_flag(1, |value| value == SET);
            assert!(
                matches!(waited.as_ref().map_err(Error::kind), Err(ErrorKind::Revoked { .. })),
                "{waited:?}"
            );
            let decided = consensus(&region).decide(1, |member| region.is_gone(member), union);
            assert!(matches!(decided.as_deref(), Some([1 | 3])), "{decided:?}");
            assert_eq!(consensus(&region).decision(1), decided);
        },
    );
}

/// A thread of the survivor sleeps until interrupts come, and always expects an answer of the victim.
#[test]
fn while_it_interrupts() {
    at_every_store(
        |rank, stage| {
            let mpb = Arc::new(mpb(rank));
            let other = self::mpb(&stage.rank(OTHER));
            other.say_farewell();
            drop(other);
            without_other(stage);
            let attending = std::thread::spawn({
                let mpb = Arc::clone(&mpb);
                move || {
                    let mut attendant = mpb.attendant(Notifier::Futex).unwrap();
                    let mut sources = Vec::new();
                    loop {
                        mpb.expect_answer(VICTIM as usize).unwrap();
                        match attendant.wait(|| false) {
                            Ok(_) => mpb.take_interrupts(&mut sources),
                            Err(error) => return (sources, error),
                        }
                    }
                }
            });
            std::thread::sleep(Duration::from_micros(300));
            (mpb, attending)
        },
        |rank, _| {
            let mpb = mpb(rank);
            mpb.put(&[7; 100], Line { rank: VICTIM as usize, line: 1 }).unwrap();
            mpb.interrupt([SURVIVOR as usize].into_iter()).unwrap();
            mpb.answer(Line { rank: SURVIVOR as usize, line: 1 }, SET).unwrap();
        },
        |_, _, (mpb, attending), _| {
            let (sources, error) = attending.join().unwrap();
            refused::<()>(Err(error));
            if !sources.is_empty() {
                assert_eq!(sources, [VICTIM as usize]);
                let mut got = [0; 100];
                mpb.get(Line { rank: VICTIM as usize, line: 1 }, &mut got).unwrap();
                assert_eq!(got, [7; 100], "the interrupt came before the data");
            }
        },
    );
}

#[test]
fn while_it_wants_other_message_passing_buffers() {
    at_every_store(
        |rank, stage| {
            without_other(stage);
            mpb(rank)
        },
        |rank, _| assert!(rank.mpb("mpb", Mpbs::lines(4)).is_err()),
        |_, _, mpb, _| refused(mpb.wait_flag(1, |value| value == SET)),
    );
}

fn shared(rank: &Rank) -> Ends {
    let endpoints = Endpoints::new([0, 1], [0, 1]);
    (
        rank.shared_sender("queue", &endpoints, channel()).unwrap(),
        rank.shared_receiver("queue", &endpoints, channel()).unwrap(),
    )
}

fn after_shared(_: &Rank, _: &Stage, (mut to, from): Ends, mine: &mut Mine) {
    let mut take = |count: &mut u32| {
        while let Some(message) = from.try_receive().unwrap() {
            if message.len() == 100 {
                let number = message[0];
                mine.0.push((number, message.into_buffer().unwrap()));
            } else {
                *count += 1;
            }
        }
    };
    take(&mut 0);
    // The ring must be empty and intact: exactly as many messages as it has slots can be sent.
    for _ in 0..DEGREE {
        to.try_send(&[7; 4]).unwrap();
    }
    assert!(matches!(
        to.try_send(&[7; 4]).as_ref().map_err(Error::kind),
        Err(ErrorKind::Full { .. })
    ));
    let mut count = 0;
    take(&mut count);
    assert_eq!(count, DEGREE);
}

#[test]
fn while_it_uses_a_shared_channel() {
    at_every_store(
        |rank, _| fill(rank, shared(rank)),
        |rank, _| {
            let (mut to, from) = shared(rank);
            let first = from.receive_buffer().unwrap();
            to.send_buffer(first).unwrap();
            assert_eq!(*from.receive().unwrap(), [7; 4]);
            drop(to.reserve(8).unwrap());
            drop(from.receive_buffer().unwrap());
            to.send(&[7; 4]).unwrap();
        },
        after_shared,
    );
}

#[test]
fn while_it_only_sends_into_a_shared_channel() {
    let endpoints = Endpoints::new([0, 1], [0]);
    let sender = |rank: &Rank| rank.shared_sender::<[u64]>("queue", &endpoints, channel()).unwrap();
    at_every_store(
        |rank, _| (sender(rank), rank.shared_receiver("queue", &endpoints, channel()).unwrap()),
        |rank, _| {
            let mut to = sender(rank);
            // No rank receives, so the sender clears the slots that it has given up.
            for _ in 0..=2 * DEGREE {
                drop(to.try_reserve(8).unwrap());
            }
            to.send(&[7; 4]).unwrap();
        },
        after_shared,
    );
}

#[test]
fn while_others_wait_behind_its_slot() {
    at_every_store(
        |rank, _| shared(rank),
        |rank, _| {
            let (mut to, from) = shared(rank);
            to.send_buffer(buffer(rank, 2)).unwrap();
            let held = from.receive().unwrap();
            to.send_buffer(buffer(rank, 3)).unwrap();
            drop(held);
        },
        after_shared,
    );
}

#[test]
fn while_it_clears_the_slot_of_another_dead_rank() {
    let endpoints = Endpoints::new([0, 1, 2], [0, 1]);
    let sender = |rank: &Rank| rank.shared_sender::<[u64]>("queue", &endpoints, channel()).unwrap();
    let receiver =
        |rank: &Rank| rank.shared_receiver::<[u64]>("queue", &endpoints, channel()).unwrap();
    for stores in 0.. {
        let lived = Cell::new(false);
        at_every_store(
            |rank, stage| {
                let other = stage.rank(OTHER);
                let mut to = sender(&other);
                let moved = buffer(&other, 9);
                lived.set(live_for(stores, || to.send_buffer(moved).unwrap()));
                std::mem::forget(to);
                burial::bury(&stage.launcher, OTHER).unwrap();
                (sender(rank), receiver(rank))
            },
            |rank, _| {
                let mut to = sender(rank);
                let from = receiver(rank);
                drop(from.try_receive().unwrap());
                to.try_send(&[7; 4]).unwrap();
            },
            after_shared,
        );
        if lived.get() {
            return;
        }
    }
}

#[test]
fn a_rank_that_panicked_keeps_the_lock_until_its_process_is_gone() {
    let stage = Stage::new();
    let victim = stage.launcher.as_rank(VICTIM);
    let survivor = stage.launcher.as_rank(SURVIVOR);
    let held = victim.lock_heap().unwrap();
    stage.launcher.rank(VICTIM).unwrap().set_state(RankState::Lost);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| drop(survivor.lock_heap().unwrap()));
        std::thread::sleep(Duration::from_millis(50));
        assert!(!waiting.is_finished(), "two ranks in the heap");
        drop(held);
    });
}

#[test]
fn a_lock_held_at_death_is_taken_over_whatever_the_rank_said_before() {
    for state in [RankState::Running, RankState::Finished, RankState::Lost] {
        let stage = Stage::new();
        let victim = stage.launcher.as_rank(VICTIM);
        stage.launcher.rank(VICTIM).unwrap().set_state(state);
        std::mem::forget(victim.lock_heap().unwrap());
        burial::bury(&stage.launcher, VICTIM).unwrap();
    }
}

/// A launcher that buries one rank waits for the heap's lock, which another rank held when it died. Only the launcher
/// itself can notice that death.
#[test]
#[cfg(not(miri))]
fn a_launcher_sees_a_death_while_it_waits_for_the_lock() {
    let stage = Stage::new();
    let mut child = std::process::Command::new("true").spawn().unwrap();
    stage.launcher.rank(VICTIM).unwrap().pid.store(child.id(), Ordering::Relaxed);
    let victim = stage.launcher.as_rank(VICTIM);
    std::mem::forget(victim.lock_heap().unwrap());
    burial::bury(&stage.launcher, OTHER).unwrap();
    assert!(child.wait().unwrap().success());
}
