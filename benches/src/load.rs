//! The load on a critical section: clients that ask for one operation after the other, and count their operations in
//! windows of time that are the same for all clients.

use std::hint::black_box;

use onchip::Result;
use onchip::critical::{Object, Protected, Request};
use serde::{Deserialize, Serialize};

use crate::clock::monotonic_ns;
use crate::stats::median;

/// The number of integers of [`Increments`].
pub const INTEGERS: usize = 64;

/// A number that an operation adds to. The result is the new number.
#[derive(Debug)]
pub struct Counter;

impl Object for Counter {
    type State = u64;
    type Op = u64;
    type Ret = u64;

    #[inline(always)]
    fn apply(count: &mut u64, by: u64) -> u64 {
        *count += by;
        *count
    }
}

/// A [`Counter`] whose result can be streamed.
#[derive(Debug)]
pub struct ShortCounter;

impl Object for ShortCounter {
    type State = u32;
    type Op = u32;
    type Ret = u32;

    #[inline(always)]
    fn apply(count: &mut u32, by: u32) -> u32 {
        *count = count.wrapping_add(by);
        *count
    }
}

/// An array of integers. The argument of an operation is its number of increments, which go to one integer after the
/// other. The result is the last integer that was incremented.
#[derive(Debug)]
pub struct Increments;

impl Object for Increments {
    type State = [u64; INTEGERS];
    type Op = u64;
    type Ret = u64;

    #[inline(always)]
    fn apply(integers: &mut [u64; INTEGERS], increments: u64) -> u64 {
        increment(integers, increments)
    }
}

/// Executes an operation on [`Increments`]. Rivals use it as well.
#[inline(always)]
pub fn increment(integers: &mut [u64; INTEGERS], increments: u64) -> u64 {
    let mut last = 0;
    for index in 0..increments as usize {
        let integer = &mut integers[index % INTEGERS];
        *integer += 1;
        last = *integer;
    }
    last
}

/// Returns the last result of so many operations on [`Increments`].
pub fn last_of(operations: u64, increments: u64) -> u64 {
    operations * increments.div_ceil(INTEGERS as u64)
}

/// How clients ask for operations, and for how long.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Load {
    /// Operations that a client has in flight; 1 means one after the other.
    pub in_flight: usize,
    /// The most turns of an empty loop between two operations. Their number is random.
    pub idling: u32,
    /// Operations between two readings of the clock.
    pub every: u64,
    /// The time before the first window, in microseconds.
    pub warm_up_us: u64,
    /// The length of a window, in microseconds.
    pub window_us: u64,
    /// The number of windows.
    pub windows: usize,
}

/// The number of operations that a client has finished.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Done {
    /// Operations in each window.
    pub windows: Vec<u64>,
    /// Operations altogether.
    pub all: u64,
}

impl Load {
    /// Calls `operate`, which executes an operation, from the moment `begin` on (see [`monotonic_ns`]).
    ///
    /// # Errors
    /// The first error of `operate` ends the run.
    #[inline(always)]
    pub fn run<E>(
        &self,
        begin: u64,
        mut operate: impl FnMut() -> std::result::Result<(), E>,
    ) -> std::result::Result<Done, E> {
        let mut done = Done { windows: vec![0; self.windows], all: 0 };
        let first = begin + 1000 * self.warm_up_us;
        let mut idling = Idling::new(begin ^ (&raw const done).addr() as u64, self.idling);
        loop {
            for _ in 0..self.every {
                operate()?;
                idling.idle();
            }
            done.all += self.every;
            let window = monotonic_ns().checked_sub(first).map(|ns| ns / (1000 * self.window_us));
            match window {
                None => {}
                Some(window) => match done.windows.get_mut(window as usize) {
                    Some(window) => *window += self.every,
                    None => return Ok(done),
                },
            }
        }
    }

    /// Returns the average time of [`idling`](Self::idling), in nanoseconds.
    pub fn idling_ns(&self) -> f64 {
        const TIMES: u32 = 10_000;
        let mut idling = Idling::new(1, self.idling);
        let start = monotonic_ns();
        (0..TIMES).for_each(|_| idling.idle());
        (monotonic_ns() - start) as f64 / f64::from(TIMES)
    }

    /// Returns the operations of all clients together in a second, in the median window.
    pub fn rate(&self, clients: &[Done]) -> f64 {
        let all = |window: usize| clients.iter().map(|client| client.windows[window]).sum::<u64>();
        let windows: Vec<f64> = (0..self.windows).map(|window| all(window) as f64).collect();
        median(&windows) * 1e6 / self.window_us as f64
    }
}

/// Returns the highest number of operations of a client, divided by the lowest.
pub fn unfairness(clients: &[Done]) -> f64 {
    let sums = clients.iter().map(|client| client.windows.iter().sum::<u64>());
    let (least, most) =
        sums.fold((u64::MAX, 0), |(least, most), sum| (least.min(sum), most.max(sum)));
    // A client without any operation counts as if it had done one. The result is then great, but not infinite.
    most as f64 / least.max(1) as f64
}

/// Runs the operations of one client on an object. `next` makes each operation, and `look` gets each result.
///
/// # Errors
/// The errors of the operations.
#[inline(always)]
pub fn client<O: Object>(
    load: Load,
    object: &Protected<O>,
    begin: u64,
    mut next: impl FnMut() -> O::Op,
    mut look: impl FnMut(O::Ret),
) -> Result<Done> {
    if load.in_flight <= 1 {
        return load.run(begin, || object.apply(next()).map(&mut look));
    }
    let mut window: Vec<Option<Request<'_, O>>> = Vec::new();
    window.resize_with(load.in_flight, || None);
    let mut oldest = 0;
    let done = load.run(begin, || -> Result<()> {
        let place = &mut window[oldest];
        if let Some(request) = place.take() {
            look(request.wait()?);
        }
        *place = Some(object.submit(next())?);
        oldest = if oldest + 1 == load.in_flight { 0 } else { oldest + 1 };
        Ok(())
    })?;
    for place in 0..load.in_flight {
        if let Some(request) = window[(oldest + place) % load.in_flight].take() {
            look(request.wait()?);
        }
    }
    Ok(done)
}

/// The idle loop of a client between two operations.
struct Idling {
    most: u32,
    random: u64,
}

impl Idling {
    fn new(seed: u64, most: u32) -> Idling {
        Idling { most, random: seed | 1 }
    }

    #[inline(always)]
    fn idle(&mut self) {
        if self.most == 0 {
            return;
        }
        // Xorshift by Marsaglia.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let turns = ((self.random >> 32) * (u64::from(self.most) + 1)) >> 32;
        for turn in 0..turns {
            black_box(turn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_counted_in_their_windows() {
        let load = Load {
            in_flight: 1,
            idling: 3,
            every: 2,
            warm_up_us: 100,
            window_us: 1000,
            windows: 3,
        };
        let mut executed = 0;
        let done = load.run(monotonic_ns(), || -> std::result::Result<(), ()> {
            executed += 1;
            Ok(())
        });
        let done = done.unwrap();
        assert_eq!(done.all, executed);
        assert!(done.windows.iter().all(|&count| count > 0));
        assert!(done.windows.iter().sum::<u64>() < done.all, "what warms up counts");
        assert_eq!(load.run(0, || Err(7)).unwrap_err(), 7);
    }

    #[test]
    fn of_several_clients() {
        let load =
            Load { in_flight: 1, idling: 0, every: 1, warm_up_us: 0, window_us: 1000, windows: 3 };
        let clients = [[10, 20, 30], [20, 20, 20]]
            .map(|windows| Done { windows: windows.to_vec(), all: 100 });
        assert_eq!(load.rate(&clients), 40_000.0);
        assert_eq!(unfairness(&clients), 1.0);
        assert_eq!(unfairness(&[clients[0].clone(), Done { windows: vec![20], all: 20 }]), 3.0);
    }

    #[test]
    fn increments_go_round() {
        let mut integers = [0; INTEGERS];
        for operation in 1..4 {
            assert_eq!(increment(&mut integers, 70), last_of(operation, 70));
        }
        assert_eq!((integers[5], integers[6], integers[63]), (6, 3, 3));
        assert_eq!(increment(&mut [0; INTEGERS], 64), last_of(1, 64));
        assert_eq!(increment(&mut [0; INTEGERS], 0), last_of(9, 0));
    }
}
