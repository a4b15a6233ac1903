//! Scatter and multicast.

use mp_core::{Channel, Error, ErrorKind, Rank, Result};
use mp_delegate::threads::{CommThreads, Delegated, multicast, scatter};

use crate::support::on_all;

fn senders(rank: &Rank, threads: &CommThreads, channel: Channel) -> Result<Vec<Delegated<[u64]>>> {
    (1..rank.size()).map(|to| Ok(threads.delegate(rank.sender("part", to, channel)?))).collect()
}

#[test]
fn every_element_once_in_chunks_as_equal_as_can_be() {
    for receivers in [1, 2, 3, 5] {
        for len in [0, 1, receivers - 1, receivers, receivers + 1, 100] {
            let parts = on_all(receivers + 1, |rank| {
                let channel = Channel::degree(1).max_len(100);
                if rank.id() == 0 {
                    let threads = CommThreads::start(2)?;
                    let mut to = senders(rank, &threads, channel)?;
                    let data: Vec<u64> = (0..len as u64).collect();
                    let back = scatter(&mut to, data.clone()).wait()?;
                    ensure!(back == data, "other data came back");
                    return Ok(Vec::new());
                }
                Ok(rank.receiver::<[u64]>("part", 0, channel)?.receive()?.to_vec())
            });
            assert_eq!(parts.concat(), (0..len as u64).collect::<Vec<_>>());
            let lens = || parts[1..].iter().map(Vec::len);
            assert!(lens().max().unwrap() - lens().min().unwrap() <= 1, "{parts:?}");
        }
    }
}

#[test]
fn all_of_it_to_everybody() {
    on_all(4, |rank| {
        let channel = Channel::degree(2).max_len(1000);
        if rank.id() == 0 {
            let threads = CommThreads::start(3)?;
            let mut to = senders(rank, &threads, channel)?;
            for round in 0..20 {
                multicast(&mut to, rank.buffer_from(&vec![round; 1000])?).wait()?;
            }
            // The request is dropped.
            drop(multicast(&mut to, [20; 1000]));
            return Ok(());
        }
        let from = rank.receiver::<[u64]>("part", 0, channel)?;
        for round in 0..=20 {
            ensure!(*from.receive()? == vec![round; 1000], "round {round}");
        }
        Ok(())
    });
}

#[test]
fn parts_that_can_not_be_sent_are_named() {
    on_all(4, |rank| {
        let channel = Channel::degree(1).max_len(3);
        let ready = Channel::degree(1);
        if rank.id() == 0 {
            let threads = CommThreads::start(2)?;
            let mut to = senders(rank, &threads, channel)?;
            rank.receiver::<u8>("closed", 2, ready)?.receive()?;
            let failed = scatter(&mut to, vec![7; 9]).wait().expect_err("one is closed");
            ensure!(failed.data == [7; 9], "other data came back");
            let [(1, error)] = &failed.failures[..] else {
                return Err(Error::other(format!("{failed:?}")));
            };
            ensure!(matches!(error.kind(), ErrorKind::Disconnected { .. }), "{failed:?}");
            return Ok(());
        }
        let from = rank.receiver::<[u64]>("part", 0, channel)?;
        if rank.id() == 2 {
            drop(from);
            return rank.sender::<u8>("closed", 0, ready)?.send(&0);
        }
        ensure!(*from.receive()? == [7; 3], "another part");
        Ok(())
    });
}
