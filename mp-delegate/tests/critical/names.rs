//! Names that a program opens never give access to the parts of objects.

use mp_core::{Channel, mpb::Mpbs};
use mp_delegate::critical::{Protected, Scheme, Section, Server, objects::TwoLockQueue};

use crate::{
    objects::{Counter, expect},
    support::{Together, on_all},
};

/// The names under which the parts of an object were once opened.
#[test]
fn a_program_reaches_no_part_of_an_object() {
    on_all(3, |rank| {
        for name in ["critical/count", "count", "count/ask", "count/in"] {
            for lines in [1, 2, 8] {
                drop(rank.mpb(name, Mpbs::lines(lines))?);
            }
        }
        // These stay open. If an object used one of them as its part, it would not work.
        let (mut mpbs, mut senders, mut receivers) = (Vec::new(), Vec::new(), Vec::new());
        for name in ["critical/count", "count"] {
            mpbs.push(rank.mpb(name, Mpbs::lines(40))?);
        }
        for peer in (0..3).filter(|&peer| peer != rank.id()) {
            for name in ["count/ask", "count/tell", "critical/0/ask", "critical/0/tell"] {
                senders.push(rank.sender::<[u64]>(name, peer, Channel::degree(32).max_len(7))?);
                receivers.push(rank.receiver::<[u64]>(
                    name,
                    peer,
                    Channel::degree(32).max_len(7),
                )?);
            }
        }
        for sender in &mut senders {
            sender.send(&[1_000_000])?;
        }
        let mut others = Together::new(rank)?;
        let count = Protected::<Counter>::open(rank, "count", Scheme::MpServer(0), |_| ())?;
        if rank.id() == 0 {
            let mut server = Server::new();
            server.add(count)?;
            server.serve()?;
        } else {
            for _ in 0..100 {
                expect(count.apply(1)? < 200, true)?;
            }
            drop(count);
        }
        others.wait()?;
        for receiver in &receivers {
            expect(receiver.receive()?.to_vec(), vec![1_000_000])?;
        }
        Ok(())
    });
}

/// The parts of a queue with two ends are no objects that a program can open.
#[test]
fn parts_of_an_object_are_no_other_object() {
    on_all(2, |rank| {
        let mut before = ["jobs", "jobs/in", "jobs/out"]
            .map(|name| Protected::<Counter>::open(rank, name, Scheme::Mcs, |count| *count = 7));
        let jobs = TwoLockQueue::open(rank, "jobs", Section::new(Scheme::Mcs).len(4))?;
        let mut others = Together::new(rank)?;
        if rank.id() == 0 {
            for job in 0..3 {
                expect(jobs.enqueue(job)?.is_ok(), true)?;
            }
        }
        others.wait()?;
        if rank.id() == 1 {
            for job in 0..3 {
                expect(jobs.dequeue()?, Some(job))?;
            }
            expect(jobs.dequeue()?, None)?;
        }
        for count in &mut before {
            let count = count.as_mut().map_err(|error| mp_core::Error::other(error.to_string()))?;
            expect(count.apply(0)?, 7)?;
        }
        Ok(())
    });
}
