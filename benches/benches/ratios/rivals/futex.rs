//! A bare futex: the sender stores a number and wakes, the receiver notes when it runs again.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use onchip_benches::clock::{monotonic_ns, spin_for};
use onchip_benches::cpus;
use rustix::thread::futex;

use crate::plan::Wakes;
use crate::rivals::failed;
use crate::row::{Setup, Side, Trouble};
use crate::stats::median;

pub fn wake(plan: Wakes) -> Side {
    Side::new("bare futex", "futex", move |setup| take(setup, plan).map(Into::into))
}

fn take(setup: &Setup, plan: Wakes) -> Result<f64, Trouble> {
    let word = AtomicU32::new(0);
    let sent_ns = AtomicU64::new(0);
    let send = || -> rustix::io::Result<()> {
        for _ in 0..plan.count {
            spin_for(Duration::from_micros(plan.pause_us));
            sent_ns.store(monotonic_ns(), Ordering::Relaxed);
            word.fetch_add(1, Ordering::Release);
            futex::wake(&word, futex::Flags::PRIVATE, 1)?;
        }
        Ok(())
    };
    let receive = || {
        let mut took = Vec::with_capacity(plan.count);
        for seen in 0..plan.count as u32 {
            while word.load(Ordering::Acquire) == seen {
                // The wake-up may be spurious, or the word had changed before: the loop reads it again.
                let _ = futex::wait(&word, futex::Flags::PRIVATE, seen, None);
            }
            took.push((monotonic_ns() - sent_ns.load(Ordering::Relaxed)) as f64);
        }
        took
    };
    let (sent, took) = cpus::side_by_side(setup.cpus, send, receive);
    sent.map_err(failed)?;
    Ok(median(&took))
}
