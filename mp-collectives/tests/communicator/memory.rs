//! Messages for which there is no memory. Neither side waits for ever.

use mp_collectives::communicator::{ANY_SOURCE, Communicator, wait_all};
use mp_core::{
    Channel, Error, ErrorKind, Recipient, Result, Select, World,
    mpb::{Line, Mpbs},
};

use crate::{
    messages::numbers,
    support::{on_all_with, starve},
};

fn names_the_memory<T>(result: Result<T, impl Into<Error>>, unsent: bool) -> Result<()> {
    let error = match result.map_err(Into::into) {
        Ok(_) => return Err(mp_core::Error::other("a message that could not be sent")),
        Err(error) => error,
    };
    let kind = match error.kind() {
        ErrorKind::NotSent { to: Recipient::Rank(rank), .. } => unsent && *rank == 1,
        ErrorKind::PeerBroken { .. } => !unsent,
        _ => false,
    };
    ensure!(kind && error.to_string().contains("the segment is full"), "another error: {error:?}");
    Ok(())
}

/// Rank 0 has no memory for long messages to rank 1, which waits for one. Small messages are sent before.
fn starved(ranks: usize, sender: impl Fn(&Communicator) -> Result<()> + Sync) {
    let configure = |world: World| world.segment_size(8 << 20);
    on_all_with(ranks, configure, |rank| {
        let world = Communicator::world(rank);
        // Ranks 0 and 1 end together, because the end of one would be another error.
        let mut end = match rank.id() {
            me @ (0 | 1) => Some((
                rank.sender::<u8>("end", 1 - me, Channel::degree(1))?,
                rank.receiver::<u8>("end", 1 - me, Channel::degree(1))?,
            )),
            _ => None,
        };
        let mut meet = || match &mut end {
            Some((here, there)) => here.send(&1).and_then(|()| there.receive().map(drop)),
            None => Ok(()),
        };
        match rank.id() {
            0 => {
                for other in 1..ranks {
                    world.send(&[1u64], other, 0)?;
                    ensure!(world.receive::<u64>(other, 0)?.0 == 2, "another message");
                }
                let taken = starve(rank);
                world.send(&[3u64], 1, 0)?;
                let sent = sender(&world).and_then(|()| meet());
                drop(taken);
                for other in 2..ranks {
                    world.send(&[4u64], other, 1)?;
                }
                sent
            }
            1 => {
                world.receive::<u64>(0, 0)?;
                world.send(&[2u64], 0, 0)?;
                ensure!(world.receive::<u64>(0, 0)?.0 == 3, "what was sent before");
                names_the_memory(world.receive_vec::<u64>(0, 1), false)?;
                // The same error ends receives that are posted later, synchronous sends, and receives from any source
                // if there is no other rank.
                names_the_memory(world.nonblocking_receive([0u64], 0, 2).wait(), false)?;
                names_the_memory(world.probe(0, 3), false)?;
                names_the_memory(world.synchronous_send(&[1u64], 0, 9), false)?;
                // If others are left, receives from any source fail until it is acknowledged that nothing comes from
                // rank 0.
                names_the_memory(world.nonblocking_receive([0u64], ANY_SOURCE, 4).wait(), false)?;
                names_the_memory(world.receive_vec::<u64>(ANY_SOURCE, 1), false)?;
                ensure!(world.acknowledge().is_empty(), "nobody is lost");
                let any = world.nonblocking_receive([0u64], ANY_SOURCE, 4);
                match ranks {
                    2 => {
                        let nobody = any.wait().map_err(|failed| failed.error);
                        ensure!(
                            matches!(
                                nobody.as_ref().map_err(Error::kind),
                                Err(ErrorKind::NobodyLeft)
                            ),
                            "{nobody:?}"
                        );
                    }
                    _ => ensure!(any.cancel().is_ok() && world.rank() == 1, "nothing was sent"),
                }
                meet()
            }
            _ => {
                world.receive::<u64>(0, 0)?;
                world.send(&[2u64], 0, 0)?;
                ensure!(world.receive::<u64>(0, 1)?.0 == 4, "rank 0 hears and speaks still");
                Ok(())
            }
        }
    });
}

#[test]
fn a_wait_for_the_answer_to_what_could_not_be_sent_fails() {
    for ranks in [2, 3] {
        starved(ranks, |world| {
            let request = world.nonblocking_send(numbers(30_000, 1), 1, 1);
            names_the_memory(world.receive::<u64>(1, 5), true)?;
            let failed = request.wait().unwrap_err();
            ensure!(failed.buffer == numbers(30_000, 1), "another buffer came back");
            names_the_memory(Err::<(), _>(failed), false)
        });
    }
}

#[test]
fn so_does_one_that_waits_for_all() {
    starved(2, |world| {
        let mut request = world.nonblocking_send(numbers(30_000, 1), 1, 1);
        let mut answer = world.nonblocking_receive([0u64], 1, 5);
        names_the_memory(
            wait_all::<&mut dyn mp_collectives::communicator::Pending>(&mut [
                &mut request,
                &mut answer,
            ]),
            true,
        )?;
        names_the_memory(request.wait(), false)
    });
}

/// The error ends any wait of the rank, because the awaited event may depend on the message that can't be sent.
#[test]
fn so_does_a_wait_outside_of_communicators() {
    for wait in 0..4 {
        starved(3, |world| {
            let rank = world.joint().rank();
            let mut full = rank.sender::<u8>("full", 1, Channel::degree(1))?;
            full.send(&1)?;
            let empty = rank.receiver::<u8>("empty", 1, Channel::degree(1))?;
            let request = world.nonblocking_send(numbers(30_000, 1), 1, 1);
            let waited = match wait {
                0 => full.send(&2),
                1 => empty.receive().map(drop),
                2 => {
                    let mut select = Select::new();
                    select.add(&empty);
                    select.ready().map(drop)
                }
                _ => {
                    let line = rank.mpb("flag", Mpbs::lines(1))?;
                    line.wait_flag(0, |value| value > 0).map(drop)
                }
            };
            names_the_memory(waited, true)?;
            // The error is returned only once.
            let limit = std::time::Duration::from_millis(1);
            let late = empty.receive_timeout(limit).err();
            ensure!(
                matches!(
                    late.as_ref().map(mp_core::Error::kind),
                    Some(mp_core::ErrorKind::Timeout { .. })
                ),
                "told again: {late:?}"
            );
            names_the_memory(request.wait(), false)
        });
    }
}

#[test]
fn a_request_that_was_let_go_of_is_told_of() {
    starved(2, |world| {
        drop(world.nonblocking_synchronous_send(numbers(30_000, 1), 1, 1));
        names_the_memory(world.probe(ANY_SOURCE, 5), true)
    });
}

/// An error that the request has returned does not make another call fail.
#[test]
fn it_is_told_once() {
    starved(3, |world| {
        names_the_memory(world.nonblocking_send(numbers(30_000, 1), 1, 1).wait(), false)?;
        names_the_memory(world.send(&numbers(30_000, 1), 1, 1), false)?;
        names_the_memory(world.send(&[1u64], 1, 1), false)?;
        let mut one = world.nonblocking_receive([0u64], 2, 5);
        ensure!(!one.wait_timeout(std::time::Duration::from_millis(1))?, "nothing was sent");
        Ok(())
    });
}

#[test]
fn an_exchange_does_not_wait_for_the_answer() {
    starved(2, |world| {
        let (long, mut answer) = (numbers(30_000, 1), [0u64]);
        let mut exchange = world.exchange();
        exchange.send(&long, 1, 1).receive(&mut answer, 1, 5);
        names_the_memory(exchange.run(), false)
    });
}

/// A send to another rank, of which a part has gone, continues.
#[test]
fn what_is_half_sent_to_another_rank_goes_on() {
    let configure = |world: World| world.segment_size(8 << 20);
    on_all_with(3, configure, |rank| {
        let world = Communicator::world(rank);
        let flags = rank.mpb("go", Mpbs::lines(1))?;
        match rank.id() {
            0 => {
                for other in [1, 2] {
                    world.send(&[1u64], other, 0)?;
                    world.receive::<u64>(other, 0)?;
                }
                let half = world.nonblocking_send(numbers(200_000, 5), 2, 7);
                let taken = starve(rank);
                drop(world.nonblocking_send(numbers(30_000, 1), 1, 1));
                let failed = half.wait().unwrap_err();
                ensure!(failed.buffer == numbers(200_000, 5), "another buffer came back");
                names_the_memory(Err::<(), _>(failed), true)?;
                drop(taken);
                world.send(&[8u64], 2, 8)
            }
            1 => {
                world.receive::<u64>(0, 0)?;
                world.send(&[2u64], 0, 0)?;
                let named = names_the_memory(world.receive_vec::<u64>(0, 1), false);
                flags.set_flag(Line { rank: 2, line: 0 }, 1)?;
                named
            }
            _ => {
                world.receive::<u64>(0, 0)?;
                world.send(&[2u64], 0, 0)?;
                // Rank 0 has heard that it can't send to rank 1. Reading a flag takes no part of the messages to this
                // rank.
                while flags.flag(0)? == 0 {
                    std::thread::yield_now();
                }
                let (half, _) = world.receive_vec::<u64>(0, 7)?;
                ensure!(half == numbers(200_000, 5), "another message");
                ensure!(world.receive::<u64>(0, 8)?.0 == 8, "the way is whole");
                Ok(())
            }
        }
    });
}
