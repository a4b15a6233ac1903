//! Message passing buffers: ranks get what was put, wait for flags in every way, and get an error if a flag can't be
//! set any more.

use std::{
    fmt::Debug,
    thread::sleep,
    time::{Duration, Instant},
};

use mp_core::{
    Cause, Error, ErrorKind, Operation, Place, Plain, Rank, Result, Wait, WaitPolicy, World,
    mpb::{Line, Mpb, Mpbs},
};

use crate::support::{Random, Together, Watchdog, on_all, run_on_all_with, scenarios};

const LONG: Duration = Duration::from_secs(8);

fn line(rank: usize, line: usize) -> Line {
    Line { rank, line }
}

fn bytes(seed: usize, length: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 7 + index / 256 + seed * 31 + 1) as u8).collect()
}

/// Opens buffers with a time limit, so that a test whose wait does not end fails.
fn open(rank: &Rank, lines: usize) -> Result<Mpb> {
    let mut mpb = rank.mpb("mpb", Mpbs::lines(lines))?;
    mpb.set_wait(LONG);
    Ok(mpb)
}

/// All ranks open the buffers at the same time. One rank makes them, and no other rank allocates memory for them.
#[test]
fn buffers_that_all_open_are_made_once() {
    const LINES: usize = 8_192;
    on_all(8, |rank| {
        let before = rank.memory().touched;
        let all = (LINES * 64 * rank.size()) as u64;
        let _mpb = rank.mpb("large", Mpbs::lines(LINES))?;
        let touched = rank.memory().touched;
        ensure!(touched < before + 2 * all, "{touched} bytes, of which {all} are the buffers");
        Ok(())
    });
}

#[test]
fn facts_about_the_buffers() {
    on_all(3, |rank| {
        let mpb = rank.mpb("default", Mpbs::default())?;
        ensure!((mpb.rank(), mpb.ranks()) == (rank.id(), 3), "{mpb:?}");
        ensure!((mpb.lines(), mpb.line_bytes()) == (128, 64), "{mpb:?}");
        let shown = format!("{:?}", rank.mpb("large", Mpbs::lines(1_000))?);
        ensure!(shown.contains("large") && shown.contains("1000"), "{shown}");
        Ok(())
    });
}

/// The model keeps all bytes that were put in ordinary memory.
#[test]
fn puts_and_gets_against_a_model() {
    const LINES: usize = 90;
    on_all(3, |rank| {
        // The buffers are made several times, so that their memory was used before and is not zero.
        for _ in 0..3 {
            let mpb = open(rank, LINES)?;
            let mut together = Together::new(rank)?;
            let mut model = vec![vec![0u8; LINES * 64]; 3];
            let mut random = Random::new(5);
            for turn in 0..400 {
                // All ranks know the operation of each turn, and one rank carries it out.
                let me = turn % 3;
                let (from, to) = (random.below(3) as usize, random.below(3) as usize);
                let first = random.below(LINES as u64) as usize;
                let count = random.below((LINES - first) as u64 + 1) as usize;
                let target = random.below((LINES - count) as u64 + 1) as usize;
                let short = random.below(64).min(count as u64 * 64) as usize;
                let length = count * 64 - short;
                let source = first * 64..first * 64 + count * 64;
                match random.below(3) {
                    0 => {
                        let content = bytes(turn, length);
                        let rest = target * 64 + length..target * 64 + count * 64;
                        model[to][target * 64..][..length].copy_from_slice(&content);
                        // The rest of the last line is not determined by the put, so it is set to zero.
                        model[to][rest].fill(0);
                        if me == rank.id() {
                            mpb.put(&content, line(to, target))?;
                            let blank = vec![0; 64 * count.min(1)];
                            let mut last = blank.clone();
                            if short > 0 {
                                let at = line(to, target + count - 1);
                                mpb.get(at, &mut last)?;
                                last[64 - short..].fill(0);
                                mpb.put(&last, at)?;
                            }
                        }
                    }
                    1 => {
                        let content = model[me][source].to_vec();
                        // Overlapping lines are left out, because lines would be copied that were just written.
                        if me == to && first.abs_diff(target) < count {
                            continue;
                        }
                        model[to][target * 64..][..count * 64].copy_from_slice(&content);
                        if me == rank.id() {
                            mpb.put_own(first, count, line(to, target))?;
                        }
                    }
                    _ => {
                        let content = model[from][source].to_vec();
                        if me == from && first.abs_diff(target) < count {
                            continue;
                        }
                        model[me][target * 64..][..count * 64].copy_from_slice(&content);
                        if me == rank.id() {
                            mpb.get_own(line(from, first), count, target)?;
                        }
                    }
                }
                together.wait()?;
                let mut got = vec![0xee; length + 1];
                mpb.get(line(from, first), &mut got[..length])?;
                ensure!(got[..length] == model[from][first * 64..][..length], "turn {turn}");
                ensure!(got[length] == 0xee, "turn {turn}: more than asked for");
                together.wait()?;
            }
        }
        Ok(())
    });
}

/// Lines that are made later take no memory before they are used, and all ranks find the same lines.
#[test]
fn lines_come_when_the_first_is_used() {
    const NEAR: usize = 4;
    const MIDDLE: usize = 104;
    const LINES: usize = 2_000;
    for ranks in [1, 2, 3, 5, 8] {
        on_all(ranks, |rank| {
            let mut together = Together::new(rank)?;
            let far = (LINES * 64 * ranks) as u64;
            for round in 1..=3u64 {
                together.wait()?;
                let before = rank.memory().in_use;
                together.wait()?;
                let growing = Mpbs::lines(LINES)
                    .growing_from(NEAR, usize::MAX)
                    .growing_from(MIDDLE, usize::MAX);
                let mut mpb = rank.mpb("growing", growing)?;
                mpb.set_wait(LONG);
                let (me, next, last) =
                    (rank.id(), (rank.id() + 1) % ranks, (rank.id() + ranks - 1) % ranks);
                mpb.set_flag_with(line(next, NEAR - 1), round, &[me as u8; 56])?;
                mpb.wait_flag_from(last, NEAR - 1, |seen| seen == round)?;
                let at_once = rank.memory().in_use;
                together.wait()?;
                // Each range uses all lines that are made together.
                for (flag, part) in [NEAR..MIDDLE, MIDDLE..LINES].into_iter().enumerate() {
                    let in_use = rank.memory().in_use;
                    ensure!(in_use < before + far / 2, "{in_use} bytes, {before} before");
                    ensure!(flag == 0 || in_use > at_once, "the second part is not there");
                    together.wait()?;
                    let content = bytes(me + flag, part.len() * 64);
                    mpb.put(&content, line(me, part.start))?;
                    mpb.set_flag(line(next, flag), round)?;
                    mpb.wait_flag_from(last, flag, |seen| seen == round)?;
                    let mut got = vec![0; content.len()];
                    mpb.get(line(last, part.start), &mut got)?;
                    ensure!(got == bytes(last + flag, got.len()), "round {round}");
                    together.wait()?;
                }
                mpb.set_flag_with(line(next, LINES - 1), round, &[7; 5])?;
                mpb.wait_flag_from(last, LINES - 1, |seen| seen == round)?;
                ensure!(rank.memory().in_use >= before + far, "the lines are somewhere else");
                // A copy may go from one kind of lines to the other, but a range must not contain both kinds.
                mpb.put_own(NEAR, 1, line(me, 2))?;
                for first in [NEAR - 1, MIDDLE - 1] {
                    let straddles = mpb.get(line(last, first), &mut [0; 128]);
                    let straddles = straddles.map_err(Error::into_kind);
                    ensure!(matches!(straddles, Err(ErrorKind::BadMpbs { .. })), "{straddles:?}");
                }
                let beyond = mpb.put(&[0; 65], line(me, LINES - 1)).map_err(Error::into_kind);
                ensure!(matches!(beyond, Err(ErrorKind::NoSuchLines { .. })), "{beyond:?}");
                together.wait()?;
                drop(mpb);
                together.wait()?;
                let after = rank.memory().in_use;
                // Other ranks may have allocated other memory by now.
                ensure!(after < before + far / 2, "{after} bytes, {before} before");
            }
            Ok(())
        });
    }
}

/// Parts have their first lines in ascending order, and there are at most three.
#[test]
fn lines_that_come_later_are_in_few_parts_in_order() {
    on_all(1, |rank| {
        let parts = |lines: &[usize]| {
            let grow = |mpbs: Mpbs, &line| mpbs.growing_from(line, 1);
            rank.mpb("parts", lines.iter().fold(Mpbs::lines(50), grow))
        };
        for (lines, why) in
            [(&[1, 2, 3, 4][..], "4 parts"), (&[9, 5], "from line 9 on is named before")]
        {
            let error = parts(lines).expect_err("such parts can't be");
            ensure!(matches!(error.kind(), ErrorKind::BadMpbs { .. }), "{error}");
            ensure!(error.to_string().contains(why), "{error}");
        }
        let mpb = parts(&[10, 20, 20])?;
        mpb.set_flag(line(0, 20), 3)?;
        ensure!(mpb.flag(20)? == 3, "another line");
        // No line at the end of a part is no line of the next.
        mpb.get(line(0, 50), &mut [])
    });
}

/// Only the lines that must be zero at first are zeroed when memory is used again.
#[test]
fn lines_that_must_be_zero_are_zero() {
    const ZEROED: usize = 7;
    for ranks in [1, 2, 3] {
        on_all(ranks, |rank| {
            let mut together = Together::new(rank)?;
            for _ in 0..3 {
                let mpbs = Mpbs::lines(500).growing_from(1, ZEROED).growing_from(200, ZEROED);
                let mpb = rank.mpb("used again", mpbs)?;
                together.wait()?;
                for first in [1, 200] {
                    let mut got = [1; ZEROED * 64];
                    mpb.get(line(rank.id(), first), &mut got)?;
                    ensure!(got == [0; ZEROED * 64], "the lines from {first} on");
                }
                together.wait()?;
                mpb.put(&[0xff; 199 * 64], line(rank.id(), 1))?;
                mpb.put(&[0xff; 300 * 64], line(rank.id(), 200))?;
                drop(mpb);
                together.wait()?;
            }
            Ok(())
        });
    }
}

/// Ranks that ask for another number of lines from the beginning get an error.
#[test]
fn as_many_lines_are_wanted_at_once() {
    on_all(2, |rank| {
        let mut together = Together::new(rank)?;
        let wanted = |near| rank.mpb("growing", Mpbs::lines(50).growing_from(near, 1));
        let mpb = if rank.id() == 0 { Some(wanted(5)?) } else { None };
        together.wait()?;
        if rank.id() == 1 {
            let error = wanted(6).expect_err("rank 0 wants 5 at once").to_string();
            ensure!(
                error.contains("from line 5 on") && error.contains("from line 6 on"),
                "{error}"
            );
        }
        together.wait()?;
        let later =
            |middle| rank.mpb("grows", Mpbs::lines(50).growing_from(5, 1).growing_from(middle, 1));
        let grows = if rank.id() == 0 { Some(later(20)?) } else { None };
        together.wait()?;
        if rank.id() == 1 {
            let error = later(50).expect_err("rank 0 wants a part from 20 on").to_string();
            ensure!(
                error.contains("those from line 5 on later, those from line 20 on later"),
                "{error}"
            );
        }
        together.wait()?;
        drop(grows);
        if let Some(mpb) = mpb {
            let error =
                mpb.wait_flag_with(LONG, None, 0, |seen| seen != 0).expect_err("a mismatch");
            ensure!(matches!(error.kind(), ErrorKind::MpbMismatch { .. }), "{error}");
        }
        // All lines may be made later.
        let all_later = rank.mpb("later", Mpbs::lines(3).growing_from(0, 3))?;
        all_later.set_flag(line(rank.id(), 0), 3)?;
        ensure!(all_later.flag(0)? == 3, "another line");
        together.wait()
    });
}

#[test]
fn a_message_goes_round_with_every_policy() {
    for policy in [WaitPolicy::Spin, WaitPolicy::Adaptive, WaitPolicy::Park] {
        for ranks in [1, 2, 4] {
            on_all(ranks, |rank| {
                let mut mpb = open(rank, 40)?;
                mpb.set_wait(Wait::from(LONG).policy(policy));
                let (me, next) = (rank.id(), (rank.id() + 1) % ranks);
                let before = (me + ranks - 1) % ranks;
                for round in 1..=57u64 {
                    let content = bytes(round as usize, 2_000);
                    if me == 0 {
                        mpb.put(&content, line(0, 2))?;
                        mpb.set_flag_with(line(next, 0), round, &content[..56])?;
                    }
                    if me != 0 || ranks > 1 {
                        mpb.wait_flag_from(before, 0, |value| value == round)?;
                    }
                    ensure!(mpb.flag(0)? == round, "round {round}");
                    let mut beside = [0; 56];
                    mpb.flag_payload(0, &mut beside[..round as usize % 57])?;
                    let expected = &content[..round as usize % 57];
                    ensure!(beside.starts_with(expected), "round {round}: {beside:?}");
                    mpb.get_own(line(before, 2), 32, 2)?;
                    let mut got = vec![0; 2_000];
                    mpb.get(line(me, 2), &mut got)?;
                    ensure!(got == content, "round {round}");
                    if me != 0 {
                        mpb.set_flag_with(line(next, 0), round, &content[..56])?;
                    }
                }
                Ok(())
            });
        }
    }
}

/// Many flags, each set once, in an order that the waiting rank does not know.
#[test]
fn nobody_sleeps_through_a_flag() {
    for policy in [WaitPolicy::Adaptive, WaitPolicy::Park] {
        on_all(4, |rank| {
            let mut mpb = open(rank, 200)?;
            mpb.set_wait(Wait::from(LONG).policy(policy));
            let mut random = Random::new(rank.id() as u64);
            for round in 1..=8 {
                let mut flags: Vec<_> =
                    (0..4).flat_map(|to| (0..50).map(move |index| (to, index))).collect();
                random.shuffle(&mut flags);
                for (to, index) in flags {
                    mpb.set_flag(line(to, rank.id() * 50 + index), round)?;
                }
                let mut flags: Vec<_> = (0..200).collect();
                random.shuffle(&mut flags);
                for flag in flags {
                    // The flag may already have the value of the next round.
                    mpb.wait_flag(flag, |value| value >= round)?;
                }
            }
            Ok(())
        });
    }
}

/// Rank 0 counts the other ranks as they arrive, and lets all of them go at once. They wait in every way.
#[test]
fn all_are_let_go_together() {
    for policy in [WaitPolicy::Spin, WaitPolicy::Adaptive, WaitPolicy::Park] {
        for ranks in [1, 2, 3, 6] {
            on_all(ranks, |rank| {
                let mut mpb = rank.mpb("together", Mpbs::lines(ranks + 1))?;
                // The wait has no limit, because a rank sleeps until all are woken only without one.
                mpb.set_wait(policy);
                let me = rank.id();
                for round in 1..=150u64 {
                    if me == 0 {
                        for from in 1..ranks {
                            mpb.wait_flag_from(from, from, |come| come == round)?;
                        }
                        if round % 16 == 0 {
                            sleep(Duration::from_micros(300));
                        }
                        mpb.set_flags(0, round)?;
                        continue;
                    }
                    mpb.set_flag(line(0, me), round)?;
                    let passed = |value| value >= round;
                    let seen = match (round as usize + me) % 4 {
                        0 => mpb.wait_flag_from(0, 0, passed)?,
                        1 => mpb.wait_flag_with(LONG, Some(0), 0, passed)?,
                        _ => mpb.wait_flag_together(0, 0, passed)?,
                    };
                    ensure!(seen == round, "{seen} in round {round}");
                }
                let refused = mpb.set_flags(ranks + 1, 1).err();
                let none = matches!(
                    refused.as_ref().map(Error::kind),
                    Some(ErrorKind::NoSuchLines { .. })
                );
                ensure!(none || ranks == 1, "{refused:?}");
                Ok(())
            });
        }
    }
}

/// A thread of a rank sleeps until all ranks are let go, and another thread of it sleeps for another flag.
#[test]
fn threads_are_let_go_together_and_alone() {
    on_all(3, |rank| {
        let mut mpb = rank.mpb("threads", Mpbs::lines(4))?;
        mpb.set_wait(WaitPolicy::Park);
        let (mpb, me) = (&mpb, rank.id());
        std::thread::scope(|scope| {
            let alone = scope.spawn(move || -> Result<()> {
                for round in 1..=100 {
                    mpb.wait_flag(3, |value| value >= round)?;
                }
                Ok(())
            });
            for round in 1..=100 {
                mpb.set_flag(line((me + 1) % 3, 3), round)?;
                match me {
                    0 => {
                        mpb.wait_flag_from(1, 1, |value| value == round)?;
                        mpb.wait_flag_from(2, 2, |value| value == round)?;
                        mpb.set_flags(0, round)?;
                    }
                    _ => {
                        mpb.set_flag(line(0, me), round)?;
                        mpb.wait_flag_together(0, 0, |value| value >= round)?;
                    }
                }
            }
            alone.join().unwrap()
        })
    });
}

#[test]
fn several_threads_of_a_rank_wait() {
    on_all(2, |rank| {
        let mut mpb = open(rank, 8)?;
        mpb.set_wait(Wait::from(LONG).policy(WaitPolicy::Park));
        let (mpb, other) = (&mpb, 1 - rank.id());
        std::thread::scope(|scope| {
            let waiting: Vec<_> = (0..4)
                .map(|thread| {
                    scope.spawn(move || -> Result<()> {
                        for round in 1..=50 {
                            // Two of the threads wait for the same flag.
                            mpb.wait_flag(thread / 2 + 1, |value| value >= round)?;
                        }
                        Ok(())
                    })
                })
                .collect();
            for round in 1..=50 {
                mpb.set_flag(line(other, 1), round)?;
                mpb.set_flag(line(other, 2), round)?;
                if round % 8 == 0 {
                    sleep(Duration::from_micros(300));
                }
            }
            waiting.into_iter().try_for_each(|thread| thread.join().unwrap())
        })
    });
}

#[test]
fn places_that_do_not_exist() {
    on_all(2, |rank| {
        let mpb = open(rank, 10)?;
        let mut target = [7; 640];
        let no_rank = |result: Result<()>| match result.map_err(Error::into_kind) {
            Err(ErrorKind::NoSuchRank { rank: 2, size: 2 }) => Ok(()),
            other => Err(Error::other(format!("{other:?}"))),
        };
        no_rank(mpb.put(&[1], line(2, 0)))?;
        no_rank(mpb.put(&[], line(2, 0)))?;
        no_rank(mpb.get(line(2, 0), &mut target))?;
        no_rank(mpb.get_with(line(2, 0), None, &mut target, |own, _| own))?;
        no_rank(mpb.pass_with(line(2, 0), None, &mut target, |own, _| own, line(0, 0)))?;
        no_rank(mpb.pass_with(line(0, 0), None, &mut target, |own, _| own, line(2, 0)))?;
        no_rank(mpb.put_own(0, 1, line(2, 0)))?;
        no_rank(mpb.get_own(line(2, 0), 1, 0))?;
        no_rank(mpb.set_flag(line(2, 0), 1))?;
        no_rank(mpb.set_flag_with(line(2, 0), 1, &[]))?;
        no_rank(mpb.wait_flag_from(2, 0, |value| value == 1).map(drop))?;
        let no_lines = |result: Result<()>, first: usize, count: usize| match result
            .map_err(Error::into_kind)
        {
            Err(ErrorKind::NoSuchLines { first: f, count: c, lines: 10, .. })
                if (f, c) == (first, count) =>
            {
                Ok(())
            }
            other => Err(Error::other(format!("{first} and {count}: {other:?}"))),
        };
        for (first, length) in
            [(0, 641_usize), (9, 65), (10, 1), (11, 0), (usize::MAX, 0), (usize::MAX, 9)]
        {
            let count = length.div_ceil(64);
            let mut target = [7; 700];
            no_lines(mpb.put(&vec![1; length], line(1, first)), first, count)?;
            no_lines(mpb.get(line(0, first), &mut target[..length]), first, count)?;
            let got = mpb.get_with(line(0, first), None, &mut target[..length], |_, there| there);
            no_lines(got, first, count)?;
            let (there, target_bytes) = (line(0, first), &mut target[..length]);
            let passed = mpb.pass_with(there, None, target_bytes, |_, there| there, line(0, 0));
            no_lines(passed, first, count)?;
            if length <= 640 {
                let passed = mpb.pass_with(line(0, 0), None, target_bytes, |_, there| there, there);
                no_lines(passed, first, count)?;
            }
            ensure!(target == [7; 700], "something was got");
        }
        for (first, count) in [(0, 11), (10, 1), (3, usize::MAX), (usize::MAX, usize::MAX)] {
            no_lines(mpb.put_own(first, count, line(1, 0)), first, count)?;
            no_lines(mpb.get_own(line(1, first), count, 0), first, count)?;
        }
        no_lines(mpb.put_own(0, 3, line(1, 8)), 8, 3)?;
        no_lines(mpb.get_own(line(1, 0), 3, 8), 8, 3)?;
        no_lines(mpb.set_flag(line(1, 10), 1), 10, 1)?;
        no_lines(mpb.flag(10).map(drop), 10, 1)?;
        no_lines(mpb.wait_flag(10, |_| true).map(drop), 10, 1)?;
        no_lines(mpb.flag_payload(10, &mut [0]), 10, 1)?;
        let too_long = |result: Result<()>| match result.map_err(Error::into_kind) {
            Err(ErrorKind::PayloadTooLong { bytes: 57, most: 56, .. }) => Ok(()),
            other => Err(Error::other(format!("{other:?}"))),
        };
        too_long(mpb.set_flag_with(line(0, 0), 1, &[1; 57]))?;
        too_long(mpb.flag_payload(0, &mut [0; 57]))?;
        // These operations are at the very end of the lines, or have no bytes.
        mpb.put(&[1; 64], line(1, 9))?;
        mpb.put(&[], line(1, 10))?;
        mpb.get(line(1, 10), &mut [])?;
        mpb.put_own(10, 0, line(1, 10))?;
        mpb.get(line(0, 0), &mut target)?;
        ensure!(target[..576] == [0; 576], "something was put");
        Ok(())
    });
}

#[test]
fn buffers_that_can_not_be() {
    on_all(1, |rank| {
        let long = "x".repeat(65);
        for (name, lines) in
            [("", 1), (&long, 1), ("a\0b", 1), ("none", 0), ("all", usize::MAX), ("many", 1 << 50)]
        {
            match rank.mpb(name, Mpbs::lines(lines)).map_err(Error::into_kind) {
                Err(ErrorKind::BadMpbs { mpbs, .. }) => ensure!(*mpbs == *name, "{mpbs:?}"),
                other => return Err(Error::other(format!("{name:?}, {lines}: {other:?}"))),
            }
        }
        match rank.mpb("large", Mpbs::lines(u32::MAX as usize - 1)).map_err(Error::into_kind) {
            Err(ErrorKind::Segment(_)) => Ok(()),
            other => Err(Error::other(format!("{other:?}"))),
        }
    });
}

#[test]
fn both_sides_are_shown_where_they_differ() {
    on_all(3, |rank| {
        let mut together = Together::new(rank)?;
        let differ = |error: Error, ours, theirs| match error.into_kind() {
            ErrorKind::MpbMismatch { ours: o, theirs: t, .. }
                if (*o, *t) == (Mpbs::lines(ours), Mpbs::lines(theirs)) =>
            {
                Ok(())
            }
            error => Err(Error::other(format!("{error}"))),
        };
        if rank.id() == 2 {
            together.wait()?;
            differ(rank.mpb("mpb", Mpbs::lines(11)).err().unwrap(), 11, 10)?;
            together.wait()?;
            return Ok(());
        }
        let mpb = open(rank, 10)?;
        together.wait()?;
        differ(mpb.wait_flag(0, |value| value == 1).err().unwrap(), 10, 11)?;
        together.wait()?;
        drop(mpb);
        Ok(())
    });
}

/// The buffers of the first call are not those of the second.
#[test]
fn buffers_pair_up_in_the_order_of_opening() {
    on_all(3, |rank| {
        let first = open(rank, 4)?;
        let second = open(rank, 4)?;
        let next = line((rank.id() + 1) % 3, 0);
        first.set_flag(next, 1)?;
        second.set_flag(next, 2)?;
        ensure!(first.wait_flag(0, |value| value != 0)? == 1, "of the second");
        ensure!(second.wait_flag(0, |value| value != 0)? == 2, "of the first");
        // Other buffers, with another number of lines, exist beside these.
        let other = rank.mpb("other", Mpbs::lines(7))?;
        ensure!(other.flag(0)? == 0, "of others");
        Ok(())
    });
}

#[test]
fn what_is_got_is_combined_with_what_was_there() {
    on_all(3, |rank| {
        let mpb = open(rank, 30)?;
        let number = |rank: usize, index: usize| (rank * 1000 + index) as u32;
        let own: Vec<u32> = (0..395).map(|index| number(rank.id(), index)).collect();
        mpb.put(bytemuck::cast_slice(&own), line(rank.id(), 5))?;
        let others = [(rank.id() + 1) % 3, (rank.id() + 2) % 3];
        for other in others {
            mpb.set_flag(line(other, rank.id()), 1)?;
        }
        for other in others {
            mpb.wait_flag_from(other, other, |value| value == 1)?;
            for length in [0, 1, 15, 16, 17, 395] {
                let mut got = own[..length].to_vec();
                mpb.get_with(line(other, 5), None, &mut got, |own, there| {
                    own.wrapping_mul(3).wrapping_sub(there)
                })?;
                for (index, got) in got.into_iter().enumerate() {
                    let expected = own[index].wrapping_mul(3).wrapping_sub(number(other, index));
                    ensure!(got == expected, "{got} at {index} of {length}, not {expected}");
                }
            }
        }
        Ok(())
    });
}

/// The results are left in lines of any rank's buffer, even in the lines that are read.
fn pass<T>(rank: &Rank, name: &str, of: impl Fn(u64) -> T) -> Result<()>
where
    T: Plain + PartialEq + Debug,
{
    const LINES: usize = 60;
    let (me, ranks) = (rank.id(), rank.size());
    let mut mpb = rank.mpb(name, Mpbs::lines(1 + LINES * (ranks + 1)))?;
    mpb.set_wait(LONG);
    let mut together = Together::new(rank)?;
    let element = |rank: usize, index: usize| of((rank * 1_000 + index * 37 + 1) as u64);
    // The operation is not commutative.
    let combine = |own: T, there: T| {
        let mut bytes = bytemuck::bytes_of(&own).to_vec();
        for (byte, there) in bytes.iter_mut().zip(bytemuck::bytes_of(&there)) {
            *byte = byte.wrapping_mul(3).wrapping_sub(*there);
        }
        bytemuck::pod_read_unaligned(&bytes)
    };
    let most = LINES * 64 / size_of::<T>();
    let all: Vec<T> = (0..most).map(|index| element(me, index)).collect();
    mpb.put(bytemuck::cast_slice(&all), line(me, 1))?;
    together.wait()?;
    for length in (0..most.min(67)).chain([most - 1, most]) {
        for other in 0..ranks {
            let expected: Vec<T> =
                (0..length).map(|index| combine(all[index], element(other, index))).collect();
            for owner in 0..ranks {
                // These are lines that only this rank uses.
                let own_lines = line(owner, 1 + LINES * (me + 1));
                let mut got = all[..length].to_vec();
                mpb.pass_with(line(other, 1), None, &mut got, combine, own_lines)?;
                let mut left = vec![of(0); length];
                mpb.get(own_lines, bytemuck::cast_slice_mut(&mut left))?;
                ensure!(got == expected, "{got:?}, not {expected:?}");
                ensure!(left == expected, "{left:?} is left, not {expected:?}");
                let mut again = all[..length].to_vec();
                mpb.pass_with(own_lines, None, &mut again, combine, own_lines)?;
                mpb.get(own_lines, bytemuck::cast_slice_mut(&mut left))?;
                let expected: Vec<T> =
                    (0..length).map(|index| combine(all[index], expected[index])).collect();
                ensure!(again == expected, "{again:?}, not {expected:?}");
                ensure!(left == expected, "{left:?} is left, not {expected:?}");
            }
        }
    }
    together.wait()
}

#[test]
fn what_is_combined_is_left_in_lines() {
    on_all(3, |rank| {
        pass(rank, "of 1", |number| number as u8)?;
        pass(rank, "of 2", |number| number as i16)?;
        pass(rank, "of 4", |number| number as u32 * 70_001)?;
        pass(rank, "of 8", |number| number as f64)?;
        pass(rank, "of 16", |number| u128::from(number) << 60)?;
        pass(rank, "of 6", |number| [number as u16, 7, !number as u16])?;
        pass(rank, "of 64", |number| [number; 8])?;
        pass(rank, "of 72", |number| [number; 9])
    });
}

/// All ranks agree on the first proposal, for each pair of buffers anew.
#[test]
fn all_agree_on_what_one_has_proposed() {
    on_all(3, |rank| {
        let own = rank.id() as u64 + 1;
        let mut all = Vec::new();
        for round in 0..20 {
            let mpb = rank.mpb("mpb", Mpbs::lines(4).proposing(own << (2 * round)))?;
            let agreed = mpb.agreed() >> (2 * round);
            ensure!((1..=3).contains(&agreed), "{agreed} in round {round}");
            let next = line((rank.id() + 1) % 3, 0);
            mpb.set_flag(next, agreed)?;
            ensure!(mpb.wait_flag(0, |value| value != 0)? == agreed, "in round {round}");
            all.push(mpb);
        }
        let alone = rank.mpb(&format!("of {own}"), Mpbs::lines(1).proposing(own))?;
        ensure!(alone.agreed() == own, "{}", alone.agreed());
        ensure!(open(rank, 1)?.agreed() == 0, "without a proposal");
        Ok(())
    });
}

#[test]
fn nothing_is_left_of_closed_buffers() {
    on_all(2, |rank| {
        let mut together = Together::new(rank)?;
        let used = |together: &mut Together| -> Result<u64> {
            together.wait()?;
            let used = rank.memory().in_use;
            together.wait()?;
            Ok(used)
        };
        let before = used(&mut together)?;
        for round in 0..20 {
            let mpb = open(rank, 300 + round)?;
            // Flags are zero at first, although the memory was used before.
            ensure!(mpb.flag(round)? == 0, "round {round}");
            together.wait()?;
            mpb.set_flag(line(1 - rank.id(), round), 1)?;
            mpb.put(&[0xff; 300 * 64], line(rank.id(), 0))?;
        }
        let after = used(&mut together)?;
        ensure!(after == before, "{before} bytes before, {after} after");
        Ok(())
    });
}

#[test]
fn a_wait_has_its_limit() {
    on_all(2, |rank| {
        let mut mpb = rank.mpb("limited", Mpbs::lines(4))?;
        let mut together = Together::new(rank)?;
        for policy in [WaitPolicy::Spin, WaitPolicy::Adaptive, WaitPolicy::Park] {
            let limit = Duration::from_millis(15);
            mpb.set_wait(Wait::from(policy).limit(limit));
            let started = Instant::now();
            let waits = [
                mpb.wait_flag(0, |value| value == 1),
                mpb.wait_flag_from(1 - rank.id(), 0, |value| value == 1),
                mpb.wait_flag_with(limit, None, 0, |value| value == 1),
            ];
            for waited in waits {
                match waited.map_err(Error::into_kind) {
                    Err(ErrorKind::Timeout {
                        place: Place::Named { operation: Operation::Flag, .. },
                        limit: l,
                    }) => {
                        ensure!(l == limit, "{l:?}");
                    }
                    other => return Err(Error::other(format!("{other:?}"))),
                }
            }
            ensure!(started.elapsed() >= 3 * limit, "too early");
        }
        together.wait()?;
        // After the timeouts, the rank goes on as before.
        mpb.set_flag(line(1 - rank.id(), 0), 1)?;
        mpb.set_wait(LONG);
        mpb.wait_flag(0, |value| value == 1)?;
        Ok(())
    });
}

fn disconnected<T: std::fmt::Debug>(result: Result<T>) -> Result<()> {
    match result.map_err(Error::into_kind) {
        Err(ErrorKind::Disconnected { channel }) if &*channel == "mpb" => Ok(()),
        other => Err(Error::other(format!("not disconnected: {other:?}"))),
    }
}

/// Rank 0 goes at some time. The other ranks see the flags that it has set, do not wait for other flags of it, and go
/// on.
fn after_one_has_gone(rank: &Rank, go: impl Fn(Mpb)) -> Result<()> {
    let mpb = open(rank, 4)?;
    let me = rank.id();
    if me == 0 {
        for to in 1..rank.size() {
            mpb.set_flag(line(to, 0), 7)?;
        }
        go(mpb);
        return Ok(());
    }
    // Rank 0 may or may not be gone by now.
    disconnected(mpb.wait_flag_from(0, 3, |value| value == 9))?;
    ensure!(mpb.wait_flag_from(0, 0, |value| value == 7)? == 7, "lost");
    ensure!(mpb.wait_flag(0, |value| value == 7)? == 7, "lost");
    // The remaining ranks are not disturbed.
    for round in 1..=20 {
        if me == 1 {
            for to in 2..rank.size() {
                mpb.set_flag(line(to, 1), round)?;
            }
            (2..rank.size())
                .try_for_each(|from| mpb.wait_flag(from - 1, |value| value >= round).map(drop))?;
        } else {
            mpb.wait_flag(1, |value| value >= round)?;
            mpb.set_flag(line(1, me - 1), round)?;
        }
        if round == 10 {
            sleep(Duration::from_millis(1));
        }
    }
    // The last remaining rank gets an error.
    if me == 1 {
        disconnected(mpb.wait_flag(3, |value| value == 9))?;
    }
    Ok(())
}

#[test]
fn who_has_finished_disturbs_only_those_who_wait_for_it() {
    for ranks in [2, 3, 4] {
        on_all(ranks, |rank| after_one_has_gone(rank, drop));
        // Rank 0 forgets its buffers, and ends.
        on_all(ranks, |rank| after_one_has_gone(rank, std::mem::forget));
        // Rank 0 closes its buffers, and goes on.
        on_all(ranks, |rank| {
            after_one_has_gone(rank, |mpb| {
                drop(mpb);
                sleep(Duration::from_millis(20));
            })
        });
    }
}

/// Ranks that never open the buffers are not waited for when they are gone.
#[test]
fn who_never_comes_is_gone_in_the_end() {
    on_all(3, |rank| {
        if rank.id() == 2 {
            sleep(Duration::from_millis(5));
            return Ok(());
        }
        let mpb = open(rank, 4)?;
        disconnected(mpb.wait_flag_from(2, 0, |value| value == 1))?;
        mpb.set_flag(line(1 - rank.id(), 1), 1)?;
        mpb.wait_flag(1, |value| value == 1).map(drop)
    });
}

#[test]
fn alone_a_rank_sets_its_own_flags() {
    let rank = World::solo().unwrap();
    let mut mpb = rank.mpb("mpb", Mpbs::lines(2)).unwrap();
    mpb.set_flag(line(0, 1), 5).unwrap();
    assert_eq!(mpb.wait_flag(1, |value| value == 5).unwrap(), 5);
    // Another thread may set the flag.
    mpb.set_wait(LONG);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            sleep(Duration::from_millis(5));
            mpb.set_flag(line(0, 0), 1)
        });
        assert_eq!(mpb.wait_flag(0, |value| value == 1).unwrap(), 1);
    });
}

fn lost<T: std::fmt::Debug>(result: Result<T>, victim: usize) -> Result<()> {
    match result.map_err(Error::into_kind) {
        Err(ErrorKind::PeerLost {
            rank,
            place: Place::Named { operation: Operation::Flag, .. },
            ..
        }) if rank == victim => Ok(()),
        other => Err(Error::other(format!("not lost: {other:?}"))),
    }
}

/// Rank 0 sets a flag and dies. No other rank waits for it directly.
fn until_one_dies(rank: &Rank, die: impl Fn()) -> Result<()> {
    let mpb = open(rank, 4)?;
    let together = rank.mpb("together", Mpbs::lines(1))?;
    let ranks = rank.size();
    if rank.id() == 0 {
        for to in 1..ranks {
            mpb.set_flag(line(to, 0), 7)?;
        }
        // Some of the other ranks sleep by then.
        sleep(Duration::from_millis(1));
        die();
        return Ok(());
    }
    lost(together.wait_flag_together(0, 0, |value| value == 1), 0)?;
    // Each rank waits for the next, and no rank sets a flag.
    let next = rank.id() % (ranks - 1) + 1;
    lost(mpb.wait_flag_from(next, 1, |value| value == 1), 0)?;
    lost(mpb.wait_flag(1, |value| value == 1), 0)?;
    // The flag that rank 0 has set is visible.
    ensure!(mpb.wait_flag_from(0, 0, |value| value == 7)? == 7, "flag");
    // Buffers that are opened after the death behave in the same way.
    let mpb = open(rank, 4)?;
    lost(mpb.wait_flag(1, |value| value == 1), 0)
}

#[test]
fn everybody_hears_of_a_panic() {
    for ranks in [2, 3, 5] {
        let all = run_on_all_with(
            ranks,
            |world| world,
            |rank| until_one_dies(rank, || panic!("as it was to be")),
        );
        for (kind, result) in all.each() {
            let Err(ErrorKind::RanksFailed(failed)) = result.as_ref().map_err(Error::kind) else {
                panic!("{kind}: {result:?}")
            };
            let failures: Vec<_> =
                failed.failures.iter().map(|f| (f.rank, f.cause.clone())).collect();
            assert_eq!(failures, [(0, Cause::Panic("as it was to be".to_owned()))], "{kind}");
        }
    }
}

#[test]
fn everybody_hears_of_a_killed_process() {
    for ranks in [2, 3, 5] {
        let _watchdog = Watchdog::start();
        let result =
            World::processes(ranks).run(|rank| until_one_dies(rank, || match scenarios::die() {}));
        scenarios::check(result, 0).unwrap();
    }
}

/// An MPB keeps the world's memory mapped, even if other ranks have died or finished.
#[test]
fn what_is_taken_out_of_a_world_stays_good() {
    let taken = std::sync::Mutex::new(Vec::new());
    World::threads(2)
        .run(|rank| {
            taken.lock().unwrap().push(open(rank, 4)?);
            Ok(())
        })
        .unwrap();
    let mut taken = taken.into_inner().unwrap();
    taken.sort_by_key(Mpb::rank);
    taken[0].put(&[7; 100], line(1, 1)).unwrap();
    taken[0].set_flag(line(1, 0), 1).unwrap();
    assert_eq!(taken[1].wait_flag(0, |value| value == 1).unwrap(), 1);
    let mut got = [0; 100];
    taken[1].get(line(1, 1), &mut got).unwrap();
    assert_eq!(got, [7; 100]);
    disconnected(taken[0].wait_flag(0, |value| value == 1)).unwrap();
    drop(taken.remove(0));
    assert_eq!(taken[0].flag(0).unwrap(), 1);
}
