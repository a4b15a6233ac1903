//! Sends that are delegated only where that pays.

use std::time::Duration;

use mp_core::{Channel, WaitPolicy};
use mp_delegate::comm::{Choice, CommThreads, Spare, pays::BreakEven};

use crate::support::{Watchdog, on_all};

const LONG: Duration = Duration::from_secs(8);
const WORDS: usize = 100;
const BYTES: usize = 8 * WORDS;

fn from(bytes: usize) -> Option<BreakEven> {
    Some(BreakEven { awake: bytes, asleep: bytes })
}

/// A request of a send that the caller carried out is done when the call returns, also if the
/// thread was off the processor all the time; one that was delegated is not, if the channel is full.
#[test]
fn small_messages_are_sent_at_once_and_full_channels_delegate() {
    let _watchdog = Watchdog::start();
    on_all(2, |rank| {
        let channel = Channel::degree(2).max_len(WORDS);
        let ready = Channel::degree(1);
        if rank.id() == 0 {
            let threads = CommThreads::start(1)?;
            let sender = rank.sender::<[u64]>("auto", 1, channel)?;
            let mut to = threads.delegate_to(sender, &[0], Choice::Auto);
            to.set_break_even(from(BYTES + 1));
            let first = to.send(vec![0; WORDS]);
            let second = to.send(vec![1; WORDS]);
            ensure!(first.test() && second.test(), "sent by the caller");
            let third = to.send(vec![2; WORDS]);
            ensure!(!third.test(), "there is no room");
            rank.sender::<u32>("go", 1, ready)?.send(&0)?;
            for (n, request) in (0..).zip([first, second, third]) {
                ensure!(request.wait()? == [n; WORDS], "message {n}");
            }
            return Ok(());
        }
        let from = rank.receiver::<[u64]>("auto", 0, channel)?;
        rank.receiver::<u32>("go", 0, ready)?.receive_timeout(LONG)?;
        for n in 0..3 {
            ensure!(*from.receive_timeout(LONG)? == [n; WORDS], "message {n}");
        }
        Ok(())
    });
}

/// Sizes around the break-even, so that messages of a channel are sent by both in turn.
#[test]
fn the_order_is_that_of_the_calls() {
    let _watchdog = Watchdog::start();
    for degree in [0, 1, 4, 64] {
        on_all(2, |rank| {
            let channel = Channel::degree(degree).max_len(WORDS + 1);
            let len = |n: u64| WORDS - 1 + n as usize % 3;
            let count = 2000;
            if rank.id() == 0 {
                let threads = CommThreads::builder(2).wait(WaitPolicy::Adaptive).start()?;
                let sender = rank.sender::<[u64]>("auto", 1, channel)?;
                let mut to = threads.delegate_to(sender, &[0, 1], Choice::Auto);
                to.set_break_even(from(BYTES));
                for n in 0..count {
                    match n % 7 {
                        0 => drop(to.send_buffer(rank.buffer_from(&vec![n; len(n)])?)),
                        _ => drop(to.send(vec![n; len(n)])),
                    }
                }
                return Ok(());
            }
            let from = rank.receiver::<[u64]>("auto", 0, channel)?;
            for n in 0..count {
                ensure!(*from.receive_timeout(LONG)? == vec![n; len(n)], "message {n}");
            }
            Ok(())
        });
    }
}

#[test]
fn without_a_spare_thread_nothing_is_delegated() {
    let _watchdog = Watchdog::start();
    on_all(2, |rank| {
        let channel = Channel::degree(4).max_len(1 << 17);
        if rank.id() == 0 {
            let threads = CommThreads::builder(1).spare(Spare::None).start()?;
            let sender = rank.sender::<[u64]>("auto", 1, channel)?;
            let mut to = threads.delegate_to(sender, &[0], Choice::Auto);
            ensure!(to.break_even().is_none(), "{:?}", to.break_even());
            let request = to.send(vec![7; 1 << 17]);
            ensure!(request.test(), "sent by the caller");
            return Ok(());
        }
        let from = rank.receiver::<[u64]>("auto", 0, channel)?;
        ensure!(from.receive_timeout(LONG)?.len() == 1 << 17, "a megabyte");
        Ok(())
    });
}
