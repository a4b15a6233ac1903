//! Message passing buffers of some ranks of the world: the ranks are numbered in the order in which they are named,
//! agree on the buffers, and are not disturbed by other ranks.

use std::{thread::sleep, time::Duration};

use mp_core::{
    Error, ErrorKind, Operation, Place, Rank, Result, Wait, WaitPolicy, World,
    mpb::{Line, Mpb, Mpbs, Notifier},
};

use crate::support::{Together, Watchdog, on_all, scenarios};

const LONG: Duration = Duration::from_secs(8);

fn line(rank: usize, line: usize) -> Line {
    Line { rank, line }
}

fn open(rank: &Rank, name: &str, ranks: &[usize], lines: usize) -> Result<Mpb> {
    let mut mpb = rank.mpb_of(name, ranks, Mpbs::lines(lines))?;
    mpb.set_wait(LONG);
    Ok(mpb)
}

/// Sends data round, in the order in which the ranks are named.
fn round(mpb: &Mpb, ranks: &[usize], rounds: u64) -> Result<()> {
    let (me, size) = (mpb.rank(), mpb.ranks());
    let (next, before) = ((me + 1) % size, (me + size - 1) % size);
    for round in 1..=rounds {
        mpb.put(&[ranks[me] as u8 + round as u8; 100], line(next, 1))?;
        mpb.set_flag(line(next, 0), round)?;
        mpb.wait_flag_from(before, 0, |value| value >= round)?;
        let mut got = [0; 100];
        mpb.get(line(me, 1), &mut got)?;
        ensure!(got == [ranks[before] as u8 + round as u8; 100], "round {round}: {got:?}");
        // This tells the previous rank that its data were got.
        mpb.set_flag(line(before, 3), round)?;
        mpb.wait_flag_from(next, 3, |value| value >= round)?;
    }
    Ok(())
}

/// Returns the odd or the even ranks, in descending order.
fn half(rank: &Rank) -> Vec<usize> {
    (0..rank.size()).rev().filter(|other| other % 2 == rank.id() % 2).collect()
}

#[test]
fn numbered_as_they_are_named() {
    for ranks in [1, 2, 3, 5, 8] {
        for policy in [WaitPolicy::Adaptive, WaitPolicy::Park] {
            on_all(ranks, |rank| {
                let half = half(rank);
                let mut mpb = open(rank, "half", &half, 5)?;
                mpb.set_wait(Wait::from(LONG).policy(policy));
                let me = half.iter().position(|&other| other == rank.id());
                ensure!((Some(mpb.rank()), mpb.ranks()) == (me, half.len()), "{mpb:?}");
                for (number, &other) in half.iter().enumerate() {
                    ensure!(mpb.world_rank(number)? == other, "{number}");
                }
                for result in [
                    mpb.world_rank(half.len()).map(drop),
                    mpb.set_flag(line(half.len(), 0), 1),
                    mpb.wait_flag_from(half.len(), 4, |value| value == 1).map(drop),
                    mpb.interrupt([half.len()].into_iter()),
                    mpb.expect_answer(half.len()).map(drop),
                ] {
                    match result.map_err(Error::into_kind) {
                        Err(ErrorKind::NoSuchRank { rank, size })
                            if (rank, size) == (half.len(), half.len()) => {}
                        other => return Err(Error::other(format!("{other:?}"))),
                    }
                }
                round(&mpb, &half, 20)
            });
        }
    }
}

/// A rank uses several buffers in turn, which have ranks in common, and those of all ranks beside them.
#[test]
fn groups_overlap() {
    on_all(5, |rank| {
        let groups: [(&str, &[usize]); 5] = [
            ("a", &[0, 1, 2]),
            ("b", &[3, 2]),
            ("c", &[4, 0, 3]),
            ("d", &[4, 3, 2, 1, 0]),
            ("e", &[1]),
        ];
        let all = rank.mpb("all", Mpbs::lines(4))?;
        let mine = groups.iter().filter(|(_, ranks)| ranks.contains(&rank.id()));
        let mine: Vec<_> = mine
            .map(|(name, ranks)| Ok((open(rank, name, ranks, 4)?, ranks)))
            .collect::<Result<_>>()?;
        // Each group has a name of its own, but groups that have no rank in common share a name.
        let pair: &[usize] = [&[0, 4][..], &[1, 3][..], &[2][..]]
            .into_iter()
            .find(|ranks| ranks.contains(&rank.id()))
            .unwrap_or_default();
        let pair = (open(rank, "a pair", pair, 4)?, pair);
        for (mpb, ranks) in &mine {
            round(mpb, ranks, 5)?;
        }
        round(&pair.0, pair.1, 5)?;
        round(&all, &[0, 1, 2, 3, 4], 5)
    });
}

#[test]
fn memory_is_for_members_alone() {
    on_all(4, |rank| {
        let mut together = Together::new(rank)?;
        let mut used = || -> Result<u64> {
            together.wait()?;
            let used = rank.memory().in_use;
            together.wait()?;
            Ok(used)
        };
        let before = used()?;
        let pair = (rank.id() < 2).then(|| open(rank, "pair", &[1, 0], 10_000)).transpose()?;
        let with = used()?;
        ensure!((2 * 640_000..3 * 640_000).contains(&(with - before)), "{}", with - before);
        drop(pair);
        let after = used()?;
        ensure!(after == before, "{before} bytes before, {after} after");
        Ok(())
    });
}

#[test]
fn lists_that_can_not_be() {
    on_all(3, |rank| {
        for ranks in [&[][..], &[0, 1, 2, 0], &[(rank.id() + 1) % 3]] {
            match rank.mpb_of("none", ranks, Mpbs::lines(1)).map_err(Error::into_kind) {
                Err(ErrorKind::BadMpbs { mpbs, .. }) => ensure!(&*mpbs == "none", "{mpbs:?}"),
                other => return Err(Error::other(format!("{ranks:?}: {other:?}"))),
            }
        }
        match rank.mpb_of("none", &[rank.id(), 3], Mpbs::lines(1)).map_err(Error::into_kind) {
            Err(ErrorKind::NoSuchRank { rank: 3, size: 3 }) => Ok(()),
            other => Err(Error::other(format!("{other:?}"))),
        }
    });
}

#[test]
fn who_names_others_is_shown_both() {
    for theirs in [&[0, 1, 2][..], &[1, 0], &[1, 2]] {
        on_all(3, |rank| {
            let differ = |error: Option<Error>, mine: &[usize], others: &[usize]| match error
                .map(Error::into_kind)
            {
                Some(ErrorKind::MpbRanksMismatch { ours, theirs, .. })
                    if (&*ours, &*theirs) == (mine, others) =>
                {
                    Ok(())
                }
                other => Err(Error::other(format!("{other:?}"))),
            };
            let mut together = Together::new(rank)?;
            let mut sorted = theirs.to_vec();
            sorted.sort_unstable();
            if rank.id() == 1 {
                together.wait()?;
                differ(rank.mpb_of("mpb", theirs, Mpbs::lines(3)).err(), theirs, &[0, 1])?;
                return together.wait();
            }
            let mpb = (rank.id() == 0).then(|| open(rank, "mpb", &[0, 1], 3)).transpose()?;
            together.wait()?;
            if let Some(mpb) = &mpb {
                let waited = mpb.wait_flag(0, |value| value == 1);
                differ(waited.err(), &[0, 1], &sorted)?;
            }
            together.wait()
        });
    }
}

/// The last rank dies, panics, or ends. The other ranks, which have buffers without it, are not disturbed.
fn without_the_last(rank: &Rank, end: impl Fn()) -> Result<()> {
    let last = rank.size() - 1;
    let others: Vec<usize> = (0..last).collect();
    let mut together = Together::new(rank)?;
    if rank.id() == last {
        together.wait()?;
        end();
        return Ok(());
    }
    let before = open(rank, "before", &others, 4)?;
    let with_it = open(rank, "with it", &[&[last], &others[..]].concat(), 4)?;
    together.wait()?;
    // This waits until the last rank is gone.
    let gone = with_it.wait_flag_from(0, 0, |value| value == 9);
    match gone.map_err(Error::into_kind) {
        Err(ErrorKind::PeerLost {
            rank,
            place: Place::Named { operation: Operation::Flag, .. },
            ..
        }) if rank == last => {}
        Err(ErrorKind::Disconnected { .. }) => {}
        other => return Err(Error::other(format!("{other:?}"))),
    }
    round(&before, &others, 50)?;
    let after = open(rank, "after", &others, 4)?;
    round(&after, &others, 50)
}

#[test]
fn nobody_minds_who_is_no_member() {
    for ranks in [3, 5] {
        on_all(ranks, |rank| without_the_last(rank, || ()));
        let world = World::threads(ranks).run(|rank| without_the_last(rank, || panic!("so it is")));
        let failed = world.unwrap_err().to_string();
        assert_eq!(failed, format!("rank {} panicked: so it is", ranks - 1));
    }
}

#[test]
fn nobody_minds_a_killed_process_that_is_no_member() {
    for ranks in [3, 5] {
        let _watchdog = Watchdog::start();
        let world = World::processes(ranks);
        let result = world.run(|rank| without_the_last(rank, || match scenarios::die() {}));
        scenarios::check(result, ranks - 1).unwrap();
    }
}

/// Interrupts among some ranks, which are numbered in the order in which they are named.
#[test]
fn members_interrupt_each_other() {
    for notifier in [Notifier::Futex, Notifier::Signal] {
        on_all(5, |rank| {
            let half = half(rank);
            let mpb = open(rank, "half", &half, 4)?;
            let me = mpb.rank();
            let from = std::thread::scope(|scope| {
                let attending = scope.spawn(|| -> Result<Vec<usize>> {
                    let mut attendant = mpb.attendant(notifier)?;
                    let mut from = Vec::new();
                    while from.len() + 1 < half.len() {
                        if attendant.wait(|| false)? {
                            mpb.take_interrupts(&mut from);
                        }
                    }
                    Ok(from)
                });
                mpb.interrupt((0..half.len()).filter(|&other| other != me))?;
                attending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            let mut from = from?;
            from.sort_unstable();
            let others: Vec<_> = (0..half.len()).filter(|&other| other != me).collect();
            ensure!(from == others, "{from:?}");
            mpb.say_farewell();
            // To a thread that attends, a rank that has closed its buffers is gone.
            for other in others {
                mpb.set_flag(line(other, me % 4), 1)?;
                mpb.wait_flag_from(other, other % 4, |value| value == 1)?;
            }
            sleep(Duration::from_millis(1));
            Ok(())
        });
    }
}
