//! A farm whose workers fail: the tasks of a worker that is lost go to the others.
//! `cargo run --example failing_farm` starts an emitter and three workers, two of which kill themselves.

use onchip::prelude::{Communicator, World};
use onchip::{ErrorKind, Result};

const TASKS: u64 = 100;
const TASK: u32 = 1;
const RESULT: u32 = 2;

fn main() -> onchip::Result<()> {
    let outcomes = World::processes(4).run_each(|rank| {
        let world = Communicator::world(rank);
        Ok(if rank.id() == 0 { emit(&world)? } else { work(&world, rank.id())? })
    })?;
    let sum = outcomes[0].as_ref().expect("the emitter lives");
    let lost = outcomes.iter().filter(|outcome| outcome.is_err()).count();
    assert_eq!((*sum, lost), ((0..TASKS).map(|task| task * task).sum(), 2));
    println!("all {TASKS} tasks were done, and {lost} of 3 workers were lost");
    Ok(())
}

/// Hands out tasks until all are done by some worker, and returns the sum of the results.
fn emit(world: &Communicator) -> Result<u64> {
    let mut tasks: Vec<u64> = (0..TASKS).collect();
    let mut workers: Vec<usize> = (1..world.size()).collect();
    let mut sum = 0;
    while !tasks.is_empty() {
        assert!(!workers.is_empty(), "no worker is left");
        // Each worker gets a task. All of them work before the first result is waited for.
        let rest = tasks.len().saturating_sub(workers.len());
        let given: Vec<_> = workers.iter().copied().zip(tasks.split_off(rest)).collect();
        let sent: Vec<_> = given.iter().map(|(to, task)| world.send(&[*task], *to, TASK)).collect();
        for ((worker, task), sent) in given.into_iter().zip(sent) {
            match sent.and_then(|()| world.receive::<u64>(worker, RESULT)) {
                Ok((result, _)) => sum += result,
                Err(error) if matches!(error.kind(), ErrorKind::PeerLost { .. }) => {
                    tasks.push(task);
                    workers.retain(|&other| other != worker);
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(sum)
}

/// Works until the emitter has ended. Two workers kill themselves in the middle of a task.
fn work(world: &Communicator, worker: usize) -> Result<u64> {
    for done in 0.. {
        match world.receive::<u64>(0, TASK) {
            Ok(_) if done == 10 * worker && worker < 3 => std::process::abort(),
            Ok((task, _)) => world.send(&[task * task], 0, RESULT)?,
            Err(error) if matches!(error.kind(), ErrorKind::PeerEnded { .. }) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(0)
}
