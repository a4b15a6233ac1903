//! rtrb: the wait-free single-producer single-consumer ring, between two pinned threads that spin.

use std::time::Instant;

use onchip_benches::cpus;
use rtrb::{Consumer, Producer, PushError, RingBuffer};

use crate::plan::{PingPong, Stream, is_numbered, numbered};
use crate::rivals::Checked;
use crate::row::{Setup, Side, Trouble};
use crate::stats::median;

// Each end is moved into its thread below. If both ends were borrowed from one stack frame, their own words would share
// cache lines, and every figure would be twice as large.

pub(super) fn push<T>(ring: &mut Producer<T>, mut value: T) {
    while let Err(PushError::Full(back)) = ring.push(value) {
        value = back;
    }
}

pub(super) fn pop<T>(ring: &mut Consumer<T>) -> T {
    loop {
        if let Ok(value) = ring.pop() {
            return value;
        }
    }
}

/// 8 bytes to and fro; half of the round trip.
pub fn pingpong(plan: PingPong) -> Side {
    Side::new("rtrb", "spin", move |setup| take_pingpong(setup, plan).map(Into::into))
}

fn take_pingpong(setup: &Setup, plan: PingPong) -> Result<f64, Trouble> {
    let (mut there_in, mut there_out) = RingBuffer::<u64>::new(PingPong::DEGREE as usize);
    let (mut back_in, mut back_out) = RingBuffer::<u64>::new(PingPong::DEGREE as usize);
    let measure = move || {
        let mut checked = Checked::default();
        let mut sequence = 0;
        let took = plan.timed(|| {
            sequence += 1;
            push(&mut there_in, sequence);
            checked.equal(pop(&mut back_out), !sequence);
            Ok(())
        })?;
        checked.finish().map(|()| median(&took))
    };
    let echo = move || {
        for _ in 0..plan.all_trips() {
            let message = pop(&mut there_out);
            push(&mut back_in, !message);
        }
    };
    cpus::side_by_side(setup.cpus, measure, echo).0
}

/// Messages of `WORDS` × 8 bytes one after the other; the ring holds as many as the plan's degree.
pub fn stream<const WORDS: usize>(plan: Stream) -> Side {
    Side::new(format!("rtrb {} B", WORDS * 8), "spin", move |setup| {
        take_stream::<WORDS>(setup, plan).map(Into::into)
    })
}

fn take_stream<const WORDS: usize>(setup: &Setup, plan: Stream) -> Result<f64, Trouble> {
    let (mut ring_in, mut ring_out) = RingBuffer::<[u64; WORDS]>::new(plan.degree as usize);
    let send = move || {
        for number in 0..plan.all_messages() {
            push(&mut ring_in, numbered(number));
        }
    };
    let receive = move || {
        let mut checked = Checked::default();
        let mut number = 0;
        let rates = plan.timed(|| {
            checked.holds(is_numbered(&pop(&mut ring_out), number));
            number += 1;
            Ok(())
        })?;
        checked.finish().map(|()| median(&rates))
    };
    cpus::side_by_side(setup.cpus, send, receive).1
}

/// The time to receive a message that the same thread has sent before.
pub fn filled() -> Side {
    Side::new("rtrb", "-", |setup| cpus::confined(&setup.cpus[..1], take_filled).map(Into::into))
}

fn take_filled() -> Result<f64, Trouble> {
    const FILLED: u64 = 512;
    const TIMES: u64 = 200;
    const BATCHES: usize = 11;
    let (mut ring_in, mut ring_out) = RingBuffer::<u64>::new(1024);
    let mut checked = Checked::default();
    let mut took = Vec::new();
    let mut number = 0;
    for _ in 0..BATCHES {
        let mut receives = 0;
        for _ in 0..TIMES {
            (number..number + FILLED).for_each(|message| push(&mut ring_in, message));
            let start = Instant::now();
            for _ in 0..FILLED {
                checked.equal(pop(&mut ring_out), number);
                number += 1;
            }
            receives += start.elapsed().as_nanos();
        }
        took.push(receives as f64 / (TIMES * FILLED) as f64);
    }
    checked.finish().map(|()| median(&took))
}
