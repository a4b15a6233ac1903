//! Acknowledgements of synchronous sends, sent through a channel that also carries other messages.

use std::time::Duration;

use mp_collectives::communicator::{Communicator, wait_all};
use mp_core::{Rank, Result, World};

use crate::{
    messages::numbers,
    support::{Watchdog, on_all},
};

/// Bytes of a message: lengths around one line, around the change from lines to chunks, and around a chunk.
const BYTES: [usize; 8] = [40, 41, 80, 136, 300, 472, 473, 70_000];

fn content(bytes: usize, number: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i * 7 + number * 13) as u8).collect()
}

/// Rank 0 fills the channel to rank 1 and waits in the middle of a message. Meanwhile a synchronous send of rank 1
/// matches the receive that rank 0 has posted.
#[test]
fn a_posted_receive_is_matched_in_the_middle_of_a_blocking_send() {
    for bytes in BYTES {
        on_all(2, |rank| {
            let world = Communicator::world(rank);
            let other = 1 - world.rank();
            let count = 128 + 9;
            if world.rank() == 0 {
                let posted = world.nonblocking_receive(vec![0u8; 1], other, 5);
                for number in 0..count {
                    world.send(&content(bytes, number), other, 1)?;
                }
                ensure!(posted.wait()?.0 == [7], "another message");
                return Ok(());
            }
            // The channel is full by then. If it is not, the test checks less, but passes.
            std::thread::sleep(Duration::from_millis(20));
            world.synchronous_send(&[7u8], other, 5)?;
            for number in 0..count {
                let (got, _) = world.receive_vec::<u8>(other, 1)?;
                ensure!(got == content(bytes, number), "{bytes} bytes, message {number}: damaged");
            }
            Ok(())
        });
    }
}

/// The same while several borrowed messages are under way.
#[test]
fn a_posted_receive_is_matched_in_the_middle_of_an_exchange() {
    for bytes in BYTES {
        on_all(2, |rank| {
            let world = Communicator::world(rank);
            let other = 1 - world.rank();
            let contents: Vec<_> = (0..128 + 9).map(|number| content(bytes, number)).collect();
            if world.rank() == 0 {
                let posted = world.nonblocking_receive(vec![0u8; 1], other, 5);
                let mut exchange = world.exchange();
                for content in &contents {
                    exchange.send(content, other, 1);
                }
                exchange.run()?;
                ensure!(posted.wait()?.0 == [7], "another message");
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
            world.synchronous_send(&[7u8], other, 5)?;
            for (number, content) in contents.iter().enumerate() {
                let (got, _) = world.receive_vec::<u8>(other, 1)?;
                ensure!(got == *content, "{bytes} bytes, message {number}: damaged");
            }
            Ok(())
        });
    }
}

/// More acknowledgements than the channel has lines become due while one long message is sent.
#[test]
fn many_acknowledgements_become_due_during_one_send() {
    on_all(2, |rank| {
        let world = Communicator::world(rank);
        let other = 1 - world.rank();
        let long = numbers(400_000, 1);
        if world.rank() == 0 {
            let mut posted: Vec<_> =
                (0..400).map(|_| world.nonblocking_receive([0u32], other, 5)).collect();
            world.send(&long, other, 1)?;
            wait_all(&mut posted)?;
            for (number, posted) in posted.into_iter().enumerate() {
                ensure!(posted.wait()?.0 == [number as u32], "another message than {number}");
            }
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
        let mut sent: Vec<_> =
            (0..400u32).map(|i| world.nonblocking_synchronous_send([i], other, 5)).collect();
        wait_all(&mut sent)?;
        ensure!(world.receive_vec::<u64>(other, 1)?.0 == long, "damaged");
        Ok(())
    });
}

/// Rank 0 makes more synchronous sends than 16 bits can number before the first is received.
#[test]
fn synchronous_sends_have_no_limit() {
    for world in [World::processes(2), World::threads(2), World::threads_on_heap(2)] {
        let _watchdog = Watchdog::start();
        world.run(send_many_synchronously).unwrap();
    }
}

fn send_many_synchronously(rank: &Rank) -> Result<()> {
    const COUNT: u64 = (1 << 16) + 1000;
    let world = Communicator::world(rank);
    let other = 1 - world.rank();
    if world.rank() == 0 {
        // There are messages of one line and of several. The numbers above 16 bits belong to both kinds.
        let mut short: Vec<_> =
            (0..COUNT).map(|i| world.nonblocking_synchronous_send([i], other, 0)).collect();
        let mut long: Vec<_> =
            (0..100).map(|i| world.nonblocking_synchronous_send([i as u64; 9], other, 1)).collect();
        let chunks = world.nonblocking_synchronous_send(numbers(20_000, 1), other, 2);
        // A send that does not wait for its receiver is not delayed.
        world.send(&[1u8], other, 3)?;
        ensure!(!short[COUNT as usize - 1].test()?, "nobody has received it");
        world.send(&[2u8], other, 3)?;
        wait_all(&mut short)?;
        wait_all(&mut long)?;
        chunks.wait()?;
        for request in short {
            request.wait()?;
        }
        for request in long {
            request.wait()?;
        }
        // The numbers are free again.
        return world.synchronous_send(&[3u8], other, 4);
    }
    for number in 1..=2 {
        ensure!(world.receive::<u8>(other, 3)?.0 == number, "another message");
    }
    ensure!(world.receive_vec::<u64>(other, 2)?.0 == numbers(20_000, 1), "damaged");
    for number in 0..100 {
        let mut got = [0u64; 9];
        world.receive_into(&mut got, other, 1)?;
        ensure!(got == [number; 9], "another message than {number}: {got:?}");
    }
    for number in 0..COUNT {
        ensure!(world.receive::<u64>(other, 0)?.0 == number, "another message than {number}");
    }
    ensure!(world.receive::<u8>(other, 4)?.0 == 3, "another message");
    Ok(())
}
