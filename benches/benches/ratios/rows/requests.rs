//! Many requests at a time: what one of them costs, by the number that are under way.

use std::rc::Rc;
use std::time::Instant;

use onchip::communicator::ReceiveRequest;
use onchip::prelude::*;

use crate::ours::{self, Job, Ranks, Task, Waits};
use crate::party::BOTH;
use crate::plan::{Requests, Tagged, timed};
use crate::rivals::contest::Contest;
use crate::rivals::{Checked, mpi};
use crate::row::{Bound, Row, Side, Unit};
use crate::stats::median;

/// Beside the MPIs. Not more: Open MPI takes minutes for 100,000.
const WINDOWS: [u64; 3] = [10, USUAL, 1000];
const USUAL: u64 = 64;

/// How much more than in a window of 64 a request may cost: larger ones leave the near caches. What looks at all
/// requests for each of them costs hundreds of times more.
const GROWS: [(u64, f64); 2] = [(1000, 2.0), (100_000, 5.0)];

/// Windows of nonblocking sends to posted receives, all of them waited for together.
pub fn together(ranks: Ranks, window: u64) -> Side {
    let job = Job::Requests(Requests::of(window));
    ours::side(ranks, Task::pinned(Waits::Spin, job), |results| median(&results[0]))
}

/// The same messages by blocking calls.
pub fn blocking(ranks: Ranks, window: u64) -> Side {
    let job = Job::TaggedRate(Requests::of(window).blocking());
    ours::side(ranks, Task::pinned(Waits::Spin, job), |results| median(&results[0]))
        .named("blocking calls")
}

/// What a wait for any one of a window takes.
fn one_of(ranks: Ranks, window: u64) -> Side {
    let job = Job::Any(Requests::of(window));
    ours::side(ranks, Task::pinned(Waits::Spin, job), |results| median(&results[1]))
}

pub fn rows() -> Vec<Row> {
    let row = |name: String, what, ours, reference, bound| Row {
        name: format!("requests.{name}"),
        what,
        unit: Unit::Nanoseconds,
        ours,
        reference,
        bound,
        by_distance: true,
    };
    let mut rows = Vec::new();
    for window in WINDOWS {
        let contest = Rc::new(mpi::requests(Requests::of(window)));
        let bound = if window == USUAL { Bound::ahead(1.5) } else { Bound::ahead(1.0) };
        rows.extend(BOTH.map(|ranks| {
            row(
                format!("{window}.{}", ranks.name()),
                "nonblocking sends of 8 bytes to posted receives, so many before all are waited for, time of one, \
                 beside the best of the MPIs",
                together(ranks, window),
                Contest::side(&contest, 0),
                bound,
            )
        }));
        let contest = Rc::new(mpi::any(Requests::of(window)));
        rows.push(row(
            format!("any.{window}.processes"),
            "a wait for any one of so many posted receives of 8 bytes, beside the best of the MPIs",
            one_of(Ranks::Processes, window),
            Contest::side(&contest, 0),
            Bound::Context,
        ));
    }
    rows.extend([10, USUAL, 1000, 100_000].map(|window| {
        row(
            format!("{window}.blocking"),
            "the same between threads, beside blocking sends and receives",
            together(Ranks::Threads, window),
            blocking(Ranks::Threads, window),
            Bound::Context,
        )
    }));
    for (window, most) in GROWS {
        rows.push(row(
            format!("{window}.grows"),
            "what one of so many requests costs between threads, beside one of 64",
            together(Ranks::Threads, window),
            together(Ranks::Threads, USUAL).named("window of 64"),
            Bound::at_most(most),
        ));
        rows.push(row(
            format!("any.{window}.grows"),
            "a wait for any one of so many posted receives between threads, beside one of 64",
            one_of(Ranks::Threads, window),
            one_of(Ranks::Threads, USUAL).named("any of 64"),
            Bound::Context,
        ));
    }
    rows
}

/// One rank's part; rank 0, which sends, gives what a message took, the wait for the answer included.
#[inline(never)]
pub fn all(rank: &Rank, plan: Requests) -> onchip::Result<Vec<f64>> {
    let world = Communicator::world(rank);
    let peer = 1 - rank.id();
    if rank.id() == 1 {
        windows_received(&world, peer, plan, |requests, _| wait_all(requests))?;
        return Ok(Vec::new());
    }
    let took = windows_sent(&world, peer, plan)?;
    Ok(took.into_iter().map(|ns| ns / plan.window as f64).collect())
}

/// One rank's part; rank 1, which receives, gives what a wait for any one took.
#[inline(never)]
pub fn any(rank: &Rank, plan: Requests) -> onchip::Result<Vec<f64>> {
    let world = Communicator::world(rank);
    let peer = 1 - rank.id();
    if rank.id() == 0 {
        windows_sent(&world, peer, plan)?;
        return Ok(Vec::new());
    }
    let calls = Requests::ANYS.min(plan.window);
    let mut each = Vec::new();
    windows_received(&world, peer, plan, |requests, sum| {
        let start = Instant::now();
        for _ in 0..calls {
            let done = wait_any(requests)?;
            let ([number], _) = requests.swap_remove(done).wait()?;
            *sum = sum.wrapping_add(number);
        }
        each.push(start.elapsed().as_nanos() as f64 / calls as f64);
        wait_all(requests)
    })?;
    // One figure a batch; the first batch warms up.
    Ok(each.chunks(plan.windows as usize).skip(1).map(median).collect())
}

/// Nanoseconds of a window, one figure a batch.
fn windows_sent(world: &Communicator, peer: usize, plan: Requests) -> onchip::Result<Vec<f64>> {
    let mut checked = Checked::default();
    let mut requests = Vec::with_capacity(plan.window as usize);
    let mut number = 0u64;
    let took = timed(plan.batches, plan.windows, || -> onchip::Result<()> {
        for _ in 0..plan.window {
            requests.push(world.nonblocking_send([number], peer, Tagged::TAG));
            number += 1;
        }
        wait_all(&mut requests)?;
        for request in requests.drain(..) {
            request.wait()?;
        }
        let mut answer = [0u64];
        world.receive_into(&mut answer, peer, Tagged::TAG)?;
        checked.equal(answer[0], !number);
        Ok(())
    })?;
    checked.finish().map_err(onchip::Error::other)?;
    Ok(took)
}

/// Posts the receives of each window, has `wait` wait for them, and answers. `wait` may take some of them out, and
/// adds what they received to a sum.
fn windows_received(
    world: &Communicator,
    peer: usize,
    plan: Requests,
    mut wait: impl FnMut(&mut Vec<ReceiveRequest<[u64; 1]>>, &mut u64) -> onchip::Result<()>,
) -> onchip::Result<()> {
    let mut checked = Checked::default();
    let mut requests = Vec::with_capacity(plan.window as usize);
    let mut number = 0u64;
    for _ in 0..plan.all_windows() {
        for _ in 0..plan.window {
            requests.push(world.nonblocking_receive([0u64], peer, Tagged::TAG));
        }
        let mut sum = 0u64;
        wait(&mut requests, &mut sum)?;
        for request in requests.drain(..) {
            let ([number], _) = request.wait()?;
            sum = sum.wrapping_add(number);
        }
        let wanted: u64 = (number..number + plan.window).sum();
        checked.equal(sum, wanted);
        number += plan.window;
        world.send(&[!number], peer, Tagged::TAG)?;
    }
    checked.finish().map_err(onchip::Error::other)
}
