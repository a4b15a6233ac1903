//! Many ranks on few cores: they start, meet in a barrier, add eight bytes each, and end. Prints what that
//! takes of time and memory. With `farm` the first rank hands out tasks instead: each of the others
//! asks for one when it is ready, and all receive from any source.
//!
//! ```text
//! cargo run --release -p mp-collectives --example many_ranks -- 1024 threads
//! cargo run --release -p mp-collectives --example many_ranks -- 1024 processes
//! cargo run --release -p mp-collectives --example many_ranks -- 1024 threads farm
//! ```
//!
//! As many processes need as many descriptors in the one that starts them (`ulimit -n`).

use std::time::Instant;

use mp_collectives::collectives::{Check, Settings};
use mp_collectives::communicator::{ANY_SOURCE, ANY_TAG, Communicator};
use mp_collectives::reduce::Sum;
use mp_core::{Error, Rank, Result, World};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let ranks = arguments.next().and_then(|ranks| ranks.parse().ok()).unwrap_or(1024);
    let kind = arguments.next().unwrap_or("threads".to_owned());
    let world = match kind.as_str() {
        "threads" => World::threads(ranks),
        "processes" => World::processes(ranks),
        other => return Err(Error::other(format!("{other} are neither threads nor processes"))),
    };
    let began = Instant::now();
    if arguments.next().is_some_and(|what| what == "farm") {
        let told = world.run(farm)?;
        let took = began.elapsed().as_secs_f64();
        if let Some([tasks, memory]) = told.into_iter().flatten().next() {
            println!("{ranks} {kind}: {took:.2} s in all; farm {tasks:.3} s; {memory:.0} MB");
        }
        return Ok(());
    }
    let told = world.run(meet)?;
    let took = began.elapsed().as_secs_f64();
    if let Some([barrier, sum, memory]) = told.into_iter().flatten().next() {
        println!(
            "{ranks} {kind}: {took:.2} s in all; barrier {barrier:.3} s, all-reduce {sum:.3} s; {memory:.0} MB"
        );
    }
    Ok(())
}

/// Rank 0's figures: seconds, and megabytes while all are there.
fn meet(rank: &Rank) -> Result<Option<[f64; 3]>> {
    let world = Communicator::world(rank);
    world.set_collectives(Settings { check: Check::Off, ..Default::default() })?;
    world.barrier()?;
    let began = Instant::now();
    world.barrier()?;
    let barrier = began.elapsed().as_secs_f64();
    let began = Instant::now();
    let mut sum = [rank.id() as u64];
    world.all_reduce(&mut sum, Sum)?;
    let reduced = began.elapsed().as_secs_f64();
    let ranks = rank.size() as u64;
    if sum[0] != ranks * (ranks - 1) / 2 {
        return Err(Error::other(format!("{} is not the sum", sum[0])));
    }
    let memory = if rank.id() == 0 { megabytes()? } else { 0.0 };
    world.barrier()?;
    Ok((rank.id() == 0).then_some([barrier, reduced, memory]))
}

/// Rank 0's figures: seconds, and megabytes while all are there.
fn farm(rank: &Rank) -> Result<Option<[f64; 2]>> {
    let world = Communicator::world(rank);
    let began = Instant::now();
    if rank.id() > 0 {
        let mut task = 1;
        while task != 0 {
            world.send(&[task], 0, 1)?;
            (task, _) = world.receive::<u64>(ANY_SOURCE, ANY_TAG)?;
        }
        return world.receive::<u64>(ANY_SOURCE, ANY_TAG).map(|_| None);
    }
    let (workers, mut tasks) = (rank.size() - 1, 8 * rank.size() as u64);
    for _ in 0..tasks as usize + workers {
        let (_, status) = world.receive::<u64>(ANY_SOURCE, ANY_TAG)?;
        world.send(&[tasks], status.source, 2)?;
        tasks = tasks.saturating_sub(1);
    }
    let figures = [began.elapsed().as_secs_f64(), megabytes()?];
    (1..=workers).try_for_each(|worker| world.send(&[0u64], worker, 2))?;
    Ok(Some(figures))
}

/// Of this process, and of those that have the same parent: what each has of its own, and its share of what
/// they share.
fn megabytes() -> Result<f64> {
    let parent = std::os::unix::process::parent_id();
    // Any thread of the launcher may have started them.
    let threads = std::fs::read_dir(format!("/proc/{parent}/task"))?.flatten();
    let siblings = threads.map(|thread| std::fs::read_to_string(thread.path().join("children")));
    let siblings: String = siblings.map(Result::unwrap_or_default).collect();
    let program = std::fs::read_link("/proc/self/exe")?;
    let mut kilobytes = 0;
    for process in siblings.split_whitespace() {
        let here = |what: &str| format!("/proc/{process}/{what}");
        if std::fs::read_link(here("exe")).is_ok_and(|other| other == program)
            && let Ok(memory) = std::fs::read_to_string(here("smaps_rollup"))
        {
            let share = memory.lines().find_map(|line| line.strip_prefix("Pss:"));
            let number = share.and_then(|share| share.split_whitespace().next()?.parse().ok());
            kilobytes += number.unwrap_or(0);
        }
    }
    Ok(f64::from(kilobytes) / 1e3)
}
