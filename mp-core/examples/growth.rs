//! What the memory of a world costs as more and more of it is held: each row with a number and with a
//! thousand times that number. Constant or logarithmic is right; what grows with the number is not.
//!
//! ```sh
//! cargo run --release -p mp-core --example growth
//! ```

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use mp_core::{Channel, Rank, Result, SharedBuffer, World};

type Buffers = Vec<SharedBuffer<u64>>;

fn take(rank: &Rank, count: usize) -> Result<Buffers> {
    (0..count).map(|_| rank.buffer(12)).collect()
}

fn each(began: Instant, count: usize) -> Duration {
    began.elapsed() / count as u32
}

/// To take a buffer where so many are held.
fn held(number: usize) -> Result<Duration> {
    let rank = World::solo()?;
    let _held = take(&rank, number)?;
    let began = Instant::now();
    let _more = take(&rank, 1000)?;
    Ok(each(began, 1000))
}

/// To give back each of so many buffers while a panic unwinds.
fn unwound(number: usize) -> Result<Duration> {
    let rank = World::solo()?;
    let buffers = take(&rank, number)?;
    let began = Instant::now();
    let _ = catch_unwind(AssertUnwindSafe(|| {
        let _dropped = buffers;
        resume_unwind(Box::new(()));
    }));
    Ok(each(began, number))
}

/// To open and close a channel where so many are open.
fn opened(number: usize) -> Result<Duration> {
    let rank = World::solo()?;
    let open = |name: String| rank.sender::<u64>(&name, 0, Channel::degree(1));
    let _open = (0..number).map(|n| open(format!("open {n}"))).collect::<Result<Vec<_>>>()?;
    let began = Instant::now();
    for n in 0..1000 {
        drop(open(format!("more {n}"))?);
    }
    Ok(each(began, 1000))
}

/// To make one large buffer of so many small ones that were freed, for each of them.
fn merged(number: usize) -> Result<Duration> {
    let rank = World::solo()?;
    drop(take(&rank, number)?);
    let began = Instant::now();
    drop(rank.buffer::<u64>(60 * number)?);
    Ok(each(began, number))
}

/// The longest that a rank takes for a small buffer while another one opens a channel of so many MiB.
fn beside(mebibytes: usize) -> Result<Duration> {
    let over = AtomicBool::new(false);
    let took = World::threads(2).segment_size(4 << 30).run(|rank| {
        if rank.id() == 0 {
            let channel = Channel::degree(1).max_len(mebibytes << 20);
            let sender = rank.sender::<[u8]>("large", 1, channel);
            over.store(true, Ordering::Relaxed);
            return sender.map(|_| Duration::ZERO);
        }
        let mut longest = Duration::ZERO;
        while !over.load(Ordering::Relaxed) {
            let began = Instant::now();
            drop(rank.buffer::<u8>(100)?);
            longest = longest.max(began.elapsed());
        }
        Ok(longest)
    })?;
    Ok(took.into_iter().max().unwrap_or_default())
}

/// How much of the memory a buffer has in the end that grows by an eighth as long as it can.
fn grown() -> Result<f64> {
    const SIZE: u64 = 64 << 20;
    let parts = World::threads(1).segment_size(SIZE).run(|rank| {
        let mut buffer = rank.buffer::<u8>(1000)?;
        while let Ok(longer) = rank.buffer::<u8>(buffer.len() + buffer.len() / 8) {
            buffer = longer;
        }
        Ok(buffer.len() as f64 / SIZE as f64)
    })?;
    Ok(parts[0])
}

type Row = (&'static str, usize, fn(usize) -> Result<Duration>);

fn main() -> Result<()> {
    let rows: [Row; 5] = [
        ("take a buffer, so many held", 32, held),
        ("give a buffer back in a panic, of so many", 8, unwound),
        ("open and close a channel, so many open", 32, opened),
        ("merge a freed buffer, of so many", 32, merged),
        ("longest wait for a buffer beside a channel of so many MiB", 1, beside),
    ];
    println!("{:60} {:>6} {:>12} {:>8} {:>12}", "", "n", "", "1000 n", "");
    for (name, number, row) in rows {
        let (few, many) = (row(number)?, row(1000 * number)?);
        println!("{name:60} {number:6} {few:>12.1?} {:8} {many:>12.1?}", 1000 * number);
    }
    println!("a buffer that grows by an eighth ends with {:.0} % of the memory", 100.0 * grown()?);
    Ok(())
}
