//! All waits of a rank make progress for everything else that it has pending: tagged messages during collective
//! operations and critical sections, and nonblocking collective operations during messages.
//!
//! Each program here is legal MPI. Each hung while a call made progress only for its own kind of operations. The
//! comments name the cycle of waits that `mprun report` showed then.

use mp_collectives::communicator::{ANY_SOURCE, Communicator};
use mp_collectives::{
    collectives::{Check, Settings},
    reduce::Sum,
};
use mp_core::{Channel, Pending, Rank, Result, wait_all, wait_some};
use mp_delegate::{
    critical::{Scheme, Server, objects::Counter},
    threads::Progress,
};

use crate::support::on_all;

/// Elements of a message that does not fit into the channels: 2.1 MB.
const LONG: usize = (64 << 12) + 1;

/// Runs a program of two ranks on all pairs of neighbours, each with a function for the even rank and one for the odd
/// rank, with and without the full comparison of calls.
fn pairs(
    even: impl Fn(&Rank, &Communicator, usize) -> Result<()> + Sync,
    odd: impl Fn(&Rank, &Communicator, usize) -> Result<()> + Sync,
) {
    for check in [Check::Off, Check::On] {
        for ranks in [2, 4, 8] {
            on_all(ranks, |rank| {
                let world = Communicator::world(rank);
                world.set_collectives(Settings { check, ..Settings::default() })?;
                let other = rank.id() ^ 1;
                match rank.id() % 2 {
                    0 => even(rank, &world, other),
                    _ => odd(rank, &world, other),
                }
            });
        }
    }
}

fn numbers(from: usize) -> Vec<u64> {
    (0..LONG as u64).map(|number| number * 10 + from as u64).collect()
}

fn received(got: &[u64], from: usize) -> Result<()> {
    ensure!(got == numbers(from), "not what rank {from} has sent");
    Ok(())
}

/// The odd rank's part if the even one sends: it receives before it comes to the barrier.
fn receives_first(_: &Rank, world: &Communicator, other: usize) -> Result<()> {
    let mut got = vec![0u64; LONG];
    world.receive_into(&mut got, other, 3)?;
    received(&got, other)?;
    world.barrier()
}

/// Cycle: the even rank waits for a flag of the odd one, which waits for a message of the even one.
#[test]
fn a_nonblocking_send_goes_on_in_a_barrier() {
    pairs(
        |rank, world, other| {
            let sending = world.nonblocking_send(numbers(rank.id()), other, 3);
            world.barrier()?;
            sending.wait()?;
            Ok(())
        },
        receives_first,
    );
}

/// Cycle: the even rank waits for a flag of the odd one, which waits for room in the channel to the even one.
#[test]
fn a_nonblocking_receive_goes_on_in_a_barrier() {
    for any in [false, true] {
        pairs(
            |rank, world, other| {
                let from = if any { ANY_SOURCE } else { other.into() };
                let receiving = world.nonblocking_receive(vec![0u64; LONG], from, 3);
                world.barrier()?;
                let (got, status) = receiving.wait()?;
                ensure!(status.source == rank.id() ^ 1, "from {}", status.source);
                received(&got, other)
            },
            |rank, world, other| {
                world.send(&numbers(rank.id()), other, 3)?;
                world.barrier()
            },
        );
    }
}

/// Cycle: the even rank waits for a flag of the odd one, which waits until the even one has matched 8 bytes.
#[test]
fn a_synchronous_send_is_matched_in_a_barrier() {
    pairs(
        |_, world, other| {
            let receiving = world.nonblocking_receive([0u64], other, 3);
            world.barrier()?;
            ensure!(receiving.wait()?.0 == [7], "another number");
            Ok(())
        },
        |_, world, other| {
            world.synchronous_send(&[7u64], other, 3)?;
            world.barrier()
        },
    );
}

/// Cycle: the even rank waits for a flag of the odd one, which waits for a message of the even one.
#[test]
fn a_buffered_send_goes_on_in_a_barrier() {
    pairs(
        |rank, world, other| {
            world.buffered_send(&numbers(rank.id()), other, 3)?;
            world.barrier()
        },
        receives_first,
    );
}

/// Cycle: the even rank waits for a flag of the odd one, which waits for a message of the even one.
#[test]
fn a_nonblocking_send_goes_on_in_the_wait_for_an_nonblocking_barrier() {
    for progress in [Progress::InCalls, Progress::Automatic] {
        pairs(
            |rank, world, other| {
                world.set_nonblocking(progress.clone())?;
                let sending = world.nonblocking_send(numbers(rank.id()), other, 3);
                let barrier = world.nonblocking()?.barrier();
                barrier.wait()?;
                sending.wait()?;
                Ok(())
            },
            |_, world, other| {
                world.set_nonblocking(progress.clone())?;
                let mut got = vec![0u64; LONG];
                world.receive_into(&mut got, other, 3)?;
                received(&got, other)?;
                let barrier = world.nonblocking()?.barrier();
                barrier.wait()?;
                Ok(())
            },
        );
    }
}

/// Cycle: the last rank waits in a blocking call for the others, which wait for flags of its part in the nonblocking
/// operation.
#[test]
fn a_nonblocking_all_reduce_goes_on_in_blocking_calls() {
    for (ranks, length) in [(2, 1), (4, 1), (4, 100_000), (5, 3_000)] {
        for blocking in ["receive", "receive from any source", "barrier", "all-reduce"] {
            on_all(ranks, |rank| {
                let world = Communicator::world(rank);
                let none = Settings { check: Check::Off, ..Settings::default() };
                world.set_collectives(none)?;
                world.set_nonblocking(Progress::InCalls)?;
                let sum = world.nonblocking()?.all_reduce(vec![1 + rank.id() as u64; length], Sum);
                let total = (ranks * (ranks + 1) / 2) as u64;
                let last = ranks - 1;
                let meet = || -> Result<()> {
                    match blocking {
                        "barrier" => world.barrier()?,
                        "all-reduce" => {
                            let mut one = [1u64];
                            world.all_reduce(&mut one, Sum)?;
                            ensure!(one == [ranks as u64], "a sum of {one:?}");
                        }
                        any if rank.id() == last => {
                            for from in 0..last {
                                let from = match any {
                                    "receive" => from.into(),
                                    _ => ANY_SOURCE,
                                };
                                world.receive_into(&mut [0u8], from, 5)?;
                            }
                        }
                        _ => world.send(&[1u8], last, 5)?,
                    }
                    Ok(())
                };
                if rank.id() == last {
                    meet()?;
                }
                let sums: Vec<u64> = sum.wait()?;
                ensure!(sums == vec![total; length], "another sum");
                if rank.id() < last {
                    meet()?;
                }
                Ok(())
            });
        }
    }
}

/// Cycle: the even rank waits for the odd one, on a channel of the program or for a lock, and the odd one waits for a
/// message of the even one.
#[test]
fn a_message_goes_on_while_its_rank_waits_on_a_channel_or_for_a_critical_section() {
    pairs(
        |rank, world, other| {
            let from = rank.receiver::<u8>("own", other, Channel::degree(1))?;
            let sending = world.nonblocking_send(numbers(rank.id()), other, 3);
            ensure!(*from.receive()? == 1, "another byte");
            sending.wait()?;
            Ok(())
        },
        |rank, world, other| {
            let mut to = rank.sender::<u8>("own", other, Channel::degree(1))?;
            let mut got = vec![0u64; LONG];
            world.receive_into(&mut got, other, 3)?;
            received(&got, other)?;
            to.send(&1)
        },
    );
    on_all(2, |rank| {
        let world = Communicator::world(rank);
        let hits = Counter::open(rank, "hits", Scheme::SlotServer)?;
        if rank.id() == 0 {
            let sending = world.nonblocking_send(numbers(0), 1, 3);
            // No rank serves before rank 1 has received.
            hits.fetch_add(1)?;
            sending.wait()?;
            return Ok(());
        }
        let mut got = vec![0u64; LONG];
        world.receive_into(&mut got, 0, 3)?;
        received(&got, 0)?;
        let mut server = Server::new();
        server.add(hits)?;
        server.serve()
    });
}

/// A message, a sum of all ranks and an operation on a value, each of which waits for another rank. They are waited for
/// all together, or one by one as they are done.
#[test]
fn messages_collectives_and_critical_sections_are_waited_for_together() {
    for (scheme, ranks) in [
        (Scheme::SlotServer, 3),
        (Scheme::SlotServer, 6),
        (Scheme::MpServer(0), 3),
        (Scheme::MpServer(0), 6),
        (Scheme::HybComb, 4),
    ] {
        on_all(ranks, |rank| {
            let hits = Counter::open(rank, "hits", scheme)?;
            let serves = scheme.needs_server() && rank.id() == 0;
            let clients = Communicator::world(rank).split((!serves).then_some(0), 0)?;
            let Some(world) = clients else {
                let mut server = Server::new();
                server.add(hits)?;
                return server.serve();
            };
            let (me, size) = (world.rank(), world.size());
            let (next, before) = ((me + 1) % size, (me + size - 1) % size);
            for round in 0..20u64 {
                let mut hit = hits.submit(1)?;
                let mut receiving = world.nonblocking_receive([0u64], before, 3);
                let mut sending = world.nonblocking_send([round], next, 3);
                let mut sum = world.nonblocking()?.all_reduce([1u64], Sum);
                let mut all: [&mut dyn Pending; 4] =
                    [&mut hit, &mut receiving, &mut sending, &mut sum];
                if round % 2 == 0 {
                    wait_all(&mut all)?;
                } else {
                    while wait_some(&mut all)?.len() < all.len() {}
                }
                ensure!(hit.is_done(), "it is not done");
                let hit = hit.wait()?;
                ensure!(hit >= round && hit < 20 * size as u64, "{hit} in round {round}");
                ensure!(receiving.wait()?.0 == [round], "another number");
                sending.wait()?;
                ensure!(sum.wait()? == [size as u64], "another sum");
            }
            Ok(())
        });
    }
}

/// Two sets of communicators: each rank waits in one of them for progress in the other, which includes receives.
#[test]
fn calls_of_one_set_of_communicators_bring_on_the_receives_of_another() {
    pairs(
        |rank, world, other| {
            let second = Communicator::world(rank);
            let receiving = second.nonblocking_receive(vec![0u64; LONG], other, 3);
            world.receive_into(&mut [0u8], other, 4)?;
            received(&receiving.wait()?.0, other)
        },
        |rank, world, other| {
            let second = Communicator::world(rank);
            second.send(&numbers(rank.id()), other, 3)?;
            world.send(&[1u8], other, 4)
        },
    );
}
