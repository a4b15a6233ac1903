//! Collective operations that go on while the rank does something else.

use onchip::Result;
use onchip::prelude::*;
use onchip::reduce::Sum;

use super::Work;
use super::blocking::{LENGTHS, are_of_all, is_sum, of_all, small};

type Finish<'a> = Box<dyn FnOnce() -> Result<()> + 'a>;

pub(super) fn run(mut work: Work<'_>) -> Result<()> {
    work.call()?;
    let threads = work.random.percent(50).then(|| CommThreads::start(1)).transpose()?;
    let progress = threads.as_ref().map_or(onchip::nonblocking::Progress::InCalls, |t| t.into());
    work.call()?;
    work.world().set_nonblocking(progress)?;
    let choices: Vec<_> = (0..1 + work.random.below(16))
        .map(|_| (work.random.below(6), work.random.pick(&LENGTHS), work.random.number()))
        .collect();
    let (window, mut own) = (1 + work.random.index(6), work.own_random());
    let work = &work;
    let mut under_way: Vec<Finish<'_>> = Vec::new();
    for (number, &(which, len, root)) in (0..).zip(&choices) {
        work.call()?;
        under_way.push(begin(work, which, number, len, (root % work.ranks() as u64) as usize)?);
        if under_way.len() >= window {
            work.call()?;
            under_way.swap_remove(own.index(under_way.len()))()?;
        }
    }
    while !under_way.is_empty() {
        work.call()?;
        under_way.swap_remove(own.index(under_way.len()))()?;
    }
    Ok(())
}

/// Begins one operation, and returns what ends and checks it.
fn begin<'a>(
    work: &'a Work<'_>,
    which: u64,
    number: u64,
    len: usize,
    root: usize,
) -> Result<Finish<'a>> {
    let (me, ranks) = (work.me(), work.ranks());
    let mut nonblocking = work.world().nonblocking()?;
    Ok(match which {
        0 => {
            let request = nonblocking.barrier();
            Box::new(move || Ok(request.wait()?))
        }
        1 => {
            let label = work.label(root, number);
            let message = if me == root { label.words(len) } else { vec![0; len] };
            let request = nonblocking.broadcast(message, root);
            Box::new(move || label.check(&request.wait()?, len))
        }
        2 => {
            let request = nonblocking.all_reduce(small(me, number, len), Sum);
            Box::new(move || is_sum(&request.wait()?, 0..ranks, number))
        }
        3 => {
            let request = nonblocking.scan(small(me, number, len), Sum);
            Box::new(move || is_sum(&request.wait()?, 0..me + 1, number))
        }
        4 => {
            let own = work.label(me, number).words(len);
            let request = nonblocking.all_gather(own, vec![0u64; len * ranks]);
            Box::new(move || are_of_all(work, &request.wait()?.1, number, len))
        }
        _ => {
            let all = if me == root { of_all(work, number, len) } else { Vec::new() };
            let request = nonblocking.scatter(all, vec![0u64; len], root);
            Box::new(move || work.label(me, number).check(&request.wait()?.1, len))
        }
    })
}
