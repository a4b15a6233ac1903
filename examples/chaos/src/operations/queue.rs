//! A channel of several senders and receivers: every message goes to one of these.

use std::collections::BTreeSet;

use onchip::{Channel, Endpoints, Error, ErrorKind, Result};

use super::Work;
use crate::content::wrong;
use crate::plan::{Operation, Plan, Step};
use crate::random::Random;
use crate::record::Record;

/// Words before the content: the sender, the message's number, and its length.
const HEAD: usize = 3;

/// How many messages a sender sends at most.
const MOST: u64 = 40;

/// The senders of a queue, and how much they send.
#[derive(Clone, Copy, Debug)]
pub struct Queue {
    /// The ranks below this one send, the others receive.
    pub senders: usize,
    /// How many messages each sender sends.
    pub count: u64,
}

impl Queue {
    /// Returns the queue of a step, if the step has one.
    pub fn of(plan: &Plan, step: usize) -> Option<Self> {
        let Step { operation, seed } = plan.steps[step];
        (operation == Operation::Queue).then(|| Self::draw(&mut Random::new(seed), plan.ranks))
    }

    fn draw(random: &mut Random, ranks: usize) -> Self {
        Self { senders: 1 + random.index(ranks - 1), count: 1 + random.below(MOST) }
    }

    /// Returns the numbers of a sender's messages among the things that came out of the queue.
    pub fn of_sender(self, sender: usize, things: &BTreeSet<u32>) -> Vec<u64> {
        let first = sender as u32 * MOST as u32;
        things.range(first..first + MOST as u32).map(|thing| u64::from(thing - first)).collect()
    }
}

pub(super) fn run(mut work: Work<'_>) -> Result<()> {
    let (me, ranks) = (work.me(), work.ranks());
    let Queue { senders, count } = Queue::draw(&mut work.random, ranks);
    let endpoints = Endpoints::new(0..senders, senders..ranks);
    let longest = work.random.pick(&[1, 50, 2000]);
    let moved = work.random.percent(50);
    let channel = Channel::degree(work.random.pick(&[1, 2, 5, 32])).max_len(HEAD + longest);
    let name = work.name("queue");
    let mut own = work.own_random();
    work.call()?;
    if me < senders {
        let mut sender = work.rank.shared_sender::<[u64]>(&name, &endpoints, channel)?;
        for number in 0..count {
            let len = own.index(longest + 1);
            let mut message = vec![me as u64, number, len as u64];
            message.extend(work.label(me, number).words(len));
            work.call()?;
            if moved {
                let buffer = work.rank.buffer_from(&message)?;
                work.call()?;
                sender.send_buffer(buffer)?;
            } else {
                sender.send(&message)?;
            }
        }
        return Ok(());
    }
    let receiver = work.rank.shared_receiver::<[u64]>(&name, &endpoints, channel)?;
    let (mut things, mut last) = (Vec::new(), vec![None; senders]);
    let ended = loop {
        work.call()?;
        let got = receiver.receive_buffer().and_then(|message| {
            let &[from, number, len, ref content @ ..] = &*message else {
                return wrong(format!("a message of {} words", message.len()));
            };
            let (from, len) = (from as usize, len as usize);
            if from >= senders || number >= count {
                return wrong(format!("a message from {from}, number {number}"));
            }
            work.label(from, number).check(content, len)?;
            if last[from].replace(number) >= Some(number) {
                return wrong(format!("number {number} of rank {from} after {:?}", last[from]));
            }
            things.push(from as u32 * MOST as u32 + number as u32);
            Ok(())
        });
        match got.map_err(Error::into_kind) {
            Ok(()) => {}
            Err(ErrorKind::Disconnected { .. }) => break Ok(()),
            Err(error) => break Err(error.into()),
        }
    };
    Record::Got { step: work.step, rank: me, things }.tell();
    ended
}
