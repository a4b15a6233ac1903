//! Sends that communication threads carry out.

use onchip::Result;
use onchip::prelude::*;

use super::Work;

pub(super) fn run(mut work: Work<'_>) -> Result<()> {
    let (me, ranks) = (work.me(), work.ranks());
    let (next, before) = ((me + 1) % ranks, (me + ranks - 1) % ranks);
    let longest = work.random.pick(&[1, 5, 100, 5000]);
    let degree = work.random.pick(&[0, 1, 4, 32]);
    let lengths: Vec<_> =
        (0..1 + work.random.below(40)).map(|_| work.random.index(longest + 1)).collect();
    let (threads, window) = (1 + work.random.index(2), 1 + work.random.index(8));
    let moved = work.random.percent(30);
    let (name, channel) = (work.name("delegated"), Channel::degree(degree).max_len(longest));
    work.call()?;
    let threads = CommThreads::start(threads)?;
    work.call()?;
    let mut sender = threads.delegate(work.rank.sender::<[u64]>(&name, next, channel)?);
    work.call()?;
    let receiver = work.rank.receiver::<[u64]>(&name, before, channel)?;
    let mut sends = std::collections::VecDeque::new();
    let mut moves = std::collections::VecDeque::new();
    for (number, &len) in (0..).zip(&lengths) {
        work.call()?;
        if moved {
            let mut buffer = work.rank.buffer(len)?;
            work.label(me, number).write(&mut buffer);
            moves.push_back(sender.send_buffer(buffer));
        } else {
            sends.push_back(sender.send(work.label(me, number).words(len)));
        }
        work.call()?;
        work.label(before, number).check(&receiver.receive()?, len)?;
        if sends.len() + moves.len() >= window {
            work.call()?;
            if let Some(send) = sends.pop_front() {
                send.wait()?;
            }
            if let Some(send) = moves.pop_front() {
                send.wait()?;
            }
        }
    }
    work.call()?;
    sends.into_iter().try_for_each(|send| send.wait().map(drop))?;
    moves.into_iter().try_for_each(|send| send.wait())?;
    Ok(())
}
