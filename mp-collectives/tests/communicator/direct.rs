//! Messages that lie in the world's memory, and that their receivers copy from there.

use std::{mem, time::Duration};

use mp_collectives::communicator::Communicator;
use mp_core::{Error, ErrorKind, Rank, Result, SharedBuffer, World};

use crate::{
    messages::{numbers, pause, receive_by_turns},
    support::{Watchdog, on_all},
};

/// Elements of 8 bytes: lengths around the shortest message that is copied in this way, and a long one.
const LENGTHS: [usize; 5] = [1000, 2047, 2048, 2049, 300_001];

fn world(rank: &Rank) -> Communicator {
    let world = Communicator::world(rank);
    world.set_direct();
    world
}

fn check(got: &[u64], seed: usize) -> Result<()> {
    ensure!(got == numbers(got.len(), seed as u64), "round {seed}: {} came otherwise", got.len());
    Ok(())
}

/// With every way to send and to receive, and sometimes one of them is late. When a send is over, its buffer is
/// overwritten.
#[test]
fn whatever_both_ends_do() {
    for limit in [usize::MAX, 0] {
        on_all(2, |rank| {
            let world = world(rank);
            world.set_unexpected_limit(limit);
            let other = 1 - world.rank();
            let mut buffer = rank.buffer_zeroed::<u64>(LENGTHS[4])?;
            for round in 0..2 * 5 * 7 * LENGTHS.len() {
                let len = LENGTHS[round % LENGTHS.len()];
                if round % 2 == world.rank() {
                    pause(round % 5 == 4);
                    buffer[..len].copy_from_slice(&numbers(len, round as u64));
                    match round / 2 % 5 {
                        0 => world.send(&buffer[..len], other, 3)?,
                        1 => world.synchronous_send(&buffer[..len], other, 3)?,
                        2 => {
                            let sent = rank.buffer_from(&buffer[..len])?;
                            let mut back = world.nonblocking_send(sent, other, 3).wait()?;
                            check(&back, round)?;
                            back.fill(u64::MAX);
                        }
                        3 => {
                            let sent = rank.buffer_from(&buffer[..len])?;
                            let request = world.nonblocking_synchronous_send(sent, other, 3);
                            request.wait()?.fill(u64::MAX);
                        }
                        // The request is dropped, and the send goes on.
                        _ => drop(world.nonblocking_send(
                            rank.buffer_from(&buffer[..len])?,
                            other,
                            3,
                        )),
                    }
                    buffer.fill(u64::MAX);
                    continue;
                }
                pause(round % 3 == 2);
                check(&receive_by_turns(&world, (round, len), other)?, round)?;
            }
            world.barrier()
        });
    }
}

/// Each rank sends to all others at once, before it receives, and receives in another order.
#[test]
fn all_at_once() {
    for ranks in [2, 3, 5] {
        on_all(ranks, |rank| {
            let world = world(rank);
            let others: Vec<_> = (0..ranks).filter(|&other| other != world.rank()).collect();
            for (round, len) in LENGTHS.into_iter().cycle().take(20).enumerate() {
                let seed = |from: usize, to: usize| round * 100 + from * 10 + to;
                let send = |&to: &usize| {
                    let elements = numbers(len, seed(world.rank(), to) as u64);
                    Ok(world.nonblocking_send(rank.buffer_from(&elements)?, to, 1))
                };
                let sends: Vec<_> = others.iter().map(send).collect::<Result<_>>()?;
                let receives: Vec<_> = others
                    .iter()
                    .rev()
                    .map(|&from| world.nonblocking_receive(vec![0; len], from, 1))
                    .collect();
                for (posted, &from) in receives.into_iter().zip(others.iter().rev()) {
                    check(&posted.wait()?.0, seed(from, world.rank()))?;
                }
                for sent in sends {
                    sent.wait()?;
                }
                // The same as one call.
                let right = (world.rank() + 1) % ranks;
                let left = (world.rank() + ranks - 1) % ranks;
                let elements = rank.buffer_from(&numbers(len, seed(world.rank(), right) as u64))?;
                let mut got = vec![0; len];
                world.send_receive(&elements, right, 2, &mut got, left, 2)?;
                check(&got, seed(left, world.rank()))?;
            }
            Ok(())
        });
    }
}

/// A receive that is too short, or of another type, leaves the message where it is. Other messages may overtake it.
#[test]
fn what_is_looked_past_or_refused_stays() {
    on_all(2, |rank| {
        let world = world(rank);
        if world.rank() == 0 {
            let sent = world.nonblocking_send(rank.buffer_from(&numbers(50_000, 1))?, 1, 1);
            world.send(&numbers(100, 2), 1, 2)?;
            sent.wait()?;
            return Ok(());
        }
        let mut short = vec![0u64; 100];
        world.receive_into(&mut short, 0, 2)?;
        check(&short, 2)?;
        let refused = world.receive_into(&mut short, 0, 1).err().ok_or_else(crate::missing)?;
        ensure!(matches!(refused.kind(), ErrorKind::Truncated { .. }), "{refused}");
        let refused = world.receive_vec::<u32>(0, 1).err().ok_or_else(crate::missing)?;
        ensure!(matches!(refused.kind(), ErrorKind::WrongElements { .. }), "{refused}");
        check(&world.receive_vec::<u64>(0, 1)?.0, 1)
    });
}

/// Buffers that receive may be the world's memory as well, and what is short or lies elsewhere goes as ever.
#[test]
fn both_buffers_in_the_worlds_memory() {
    on_all(3, |rank| {
        let world = world(rank);
        let mut buffers: [SharedBuffer<u64>; 2] =
            [rank.buffer_zeroed(40_000)?, rank.buffer_zeroed(40_000)?];
        for round in 0..30 {
            let [from, into] = &mut buffers;
            from.copy_from_slice(&numbers(40_000, (round + world.rank()) as u64));
            let (right, left) = ((world.rank() + 1) % 3, (world.rank() + 2) % 3);
            world.send_receive(from, right, 0, into, left, 0)?;
            check(into, round + left)?;
        }
        Ok(())
    });
}

/// The sender is lost while its message is still with it. The receiver gets an error, and not what is left of it.
#[test]
fn a_sender_that_is_lost() {
    let _watchdog = Watchdog::start();
    for seed in 0..20 {
        let ran = World::processes(2).run(|rank| {
            let world = world(rank);
            if world.rank() == 0 {
                let sent = world.nonblocking_send(rank.buffer_from(&numbers(100_000, 5))?, 1, 0);
                world.send(&[1u8], 1, 1)?;
                std::thread::sleep(Duration::from_micros(seed * 50));
                mem::forget(sent);
                std::process::abort();
            }
            world.receive::<u8>(0, 1)?;
            std::thread::sleep(Duration::from_micros((seed % 5) * 200));
            match world.receive_vec::<u64>(0, 0) {
                Ok((got, _)) => check(&got, 5),
                Err(error) if matches!(error.kind(), ErrorKind::PeerLost { rank: 0, .. }) => Ok(()),
                Err(error) => Err(Error::other(format!("another error: {error}"))),
            }
        });
        let error = ran.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("rank 0") && !error.contains("rank 1"), "{error}");
    }
}
