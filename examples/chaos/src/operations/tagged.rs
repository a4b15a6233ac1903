//! Messages with tags: every rank sends to every rank.

use onchip::Result;

use super::Work;

/// Words of a message, on both sides of every border between the ways that messages travel.
const LENGTHS: [usize; 9] = [0, 1, 5, 6, 59, 60, 512, 4096, 9000];

pub(super) fn run(mut work: Work<'_>) -> Result<()> {
    let rounds = 1 + work.random.below(3);
    for round in 0..rounds {
        match work.random.below(4) {
            0 => storm(&mut work, round)?,
            1 => exchange(&mut work, round)?,
            2 => moved(&mut work, round)?,
            _ => ring(&mut work, round)?,
        }
    }
    Ok(())
}

/// All ranks send all they have at once, and receive it in an order of their own.
fn storm(work: &mut Work<'_>, round: u64) -> Result<()> {
    let (me, ranks) = (work.me(), work.ranks());
    let tags = 1 + work.random.below(4);
    let lengths: Vec<_> = (0..tags).map(|_| work.random.pick(&LENGTHS)).collect();
    let mut own = work.own_random();
    let mut all: Vec<(usize, u64)> =
        (0..ranks).filter(|&r| r != me).flat_map(|r| (0..tags).map(move |tag| (r, tag))).collect();
    let mut sends = Vec::new();
    own.shuffle(&mut all);
    for &(to, tag) in &all {
        let words = work.label(me, round * 10 + tag).words(lengths[tag as usize]);
        work.call()?;
        sends.push(work.world().nonblocking_send(words, to, tag as u32));
    }
    own.shuffle(&mut all);
    let mut receives = Vec::new();
    for &(from, tag) in &all {
        work.call()?;
        let into = vec![0u64; lengths[tag as usize]];
        receives.push((from, tag, work.world().nonblocking_receive(into, from, tag as u32)));
    }
    own.shuffle(&mut receives);
    for (from, tag, receive) in receives {
        work.call()?;
        let (words, status) = receive.wait()?;
        let len = lengths[tag as usize];
        work.label(from, round * 10 + tag).check(&words[..status.count], len)?;
    }
    for send in sends {
        work.call()?;
        send.wait()?;
    }
    Ok(())
}

/// All ranks exchange a message with the rank at a distance.
fn exchange(work: &mut Work<'_>, round: u64) -> Result<()> {
    let (me, ranks) = (work.me(), work.ranks());
    for distance in 1..ranks {
        let len = work.random.pick(&LENGTHS);
        let (to, from) = ((me + distance) % ranks, (me + ranks - distance) % ranks);
        let number = round * 10 + distance as u64;
        let (words, mut into) = (work.label(me, number).words(len), vec![0u64; len]);
        work.call()?;
        let status = work.world().send_receive(&words, to, 7, &mut into, from, 7)?;
        work.label(from, number).check(&into[..status.count], len)?;
    }
    Ok(())
}

/// Buffers move around, and come back to the ranks that they are from.
fn moved(work: &mut Work<'_>, round: u64) -> Result<()> {
    let (me, ranks) = (work.me(), work.ranks());
    let len = work.random.pick(&LENGTHS);
    let mut buffer = work.rank.buffer(len)?;
    work.label(me, round).write(&mut buffer);
    for hop in 1..=ranks {
        work.call()?;
        work.world().send_buffer(buffer, (me + 1) % ranks, 8)?;
        work.call()?;
        buffer = work.world().receive_buffer::<u64>((me + ranks - 1) % ranks, 8)?.0;
        work.label((me + ranks - hop) % ranks, round).check(&buffer, len)?;
    }
    Ok(())
}

/// A message goes around once.
fn ring(work: &mut Work<'_>, round: u64) -> Result<()> {
    let (me, ranks) = (work.me(), work.ranks());
    for lap in 0..1 + work.random.below(10) {
        let (len, number) = (work.random.pick(&LENGTHS), round * 100 + lap);
        let mut words = work.label(0, number).words(len);
        if me > 0 {
            words.fill(0);
            work.call()?;
            let (got, _) = work.world().receive_vec::<u64>(me - 1, 9)?;
            words = got;
        }
        work.call()?;
        work.world().send(&words, (me + 1) % ranks, 9)?;
        if me == 0 {
            work.call()?;
            words = work.world().receive_vec::<u64>(ranks - 1, 9)?.0;
        }
        work.label(0, number).check(&words, len)?;
    }
    Ok(())
}
