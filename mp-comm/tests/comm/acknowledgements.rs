//! Acknowledgements of synchronous sends, on a way that other messages are under way on.

use std::time::Duration;

use mp_comm::{Communicator, wait_all};

use crate::{messages::numbers, support::on_all};

/// Bytes of a message: between what is one line and what goes in chunks, and a chunk's neighbours.
const BYTES: [usize; 8] = [40, 41, 80, 136, 300, 472, 473, 70_000];

fn content(bytes: usize, number: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i * 7 + number * 13) as u8).collect()
}

/// Rank 0 fills the channel to rank 1 and waits in the middle of a message, when what rank 1 sends
/// synchronously meets the receive that rank 0 posted.
#[test]
fn a_posted_receive_is_matched_in_the_middle_of_a_blocking_send() {
    for bytes in BYTES {
        on_all(2, |rank| {
            let world = Communicator::world(rank);
            let other = 1 - world.rank();
            let count = 128 + 9;
            if world.rank() == 0 {
                let posted = world.immediate_receive(vec![0u8; 1], other, 5);
                for number in 0..count {
                    world.send(&content(bytes, number), other, 1)?;
                }
                ensure!(posted.wait()?.0 == [7], "another message");
                return Ok(());
            }
            // The channel is full by then. If it is not, the test shows less, and passes.
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

/// The same where several borrowed messages are under way at once.
#[test]
fn a_posted_receive_is_matched_in_the_middle_of_an_exchange() {
    for bytes in BYTES {
        on_all(2, |rank| {
            let world = Communicator::world(rank);
            let other = 1 - world.rank();
            let contents: Vec<_> = (0..128 + 9).map(|number| content(bytes, number)).collect();
            if world.rank() == 0 {
                let posted = world.immediate_receive(vec![0u8; 1], other, 5);
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

/// More acknowledgements than there are lines become due while one long message is sent.
#[test]
fn many_acknowledgements_become_due_during_one_send() {
    on_all(2, |rank| {
        let world = Communicator::world(rank);
        let other = 1 - world.rank();
        let long = numbers(400_000, 1);
        if world.rank() == 0 {
            let mut posted: Vec<_> =
                (0..400).map(|_| world.immediate_receive([0u32], other, 5)).collect();
            world.send(&long, other, 1)?;
            wait_all(&mut posted)?;
            for (number, posted) in posted.into_iter().enumerate() {
                ensure!(posted.wait()?.0 == [number as u32], "another message than {number}");
            }
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
        let mut sent: Vec<_> =
            (0..400u32).map(|i| world.immediate_synchronous_send([i], other, 5)).collect();
        wait_all(&mut sent)?;
        ensure!(world.receive_vec::<u64>(other, 1)?.0 == long, "damaged");
        Ok(())
    });
}
