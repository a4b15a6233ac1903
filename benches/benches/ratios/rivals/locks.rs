//! Locks as programs usually use them, and an atomic number without a lock: a value that threads change in turn.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crossbeam_utils::CachePadded;
use onchip_benches::clock::monotonic_ns;
use onchip_benches::cpus;
use onchip_benches::load::{Done, INTEGERS, Load, increment};

use crate::row::{Setup, Side, Trouble};

/// More time than all threads need to begin.
const AHEAD_NS: u64 = 200_000;

/// A number that any thread can add 1 to. The result is the number after that.
trait Adds: Default + Sync {
    fn add(&self) -> u64;
}

macro_rules! guarded {
    ($($mutex:ty, |$it:ident| $lock:expr;)*) => {$(
        impl Adds for $mutex {
            #[inline(always)]
            fn add(&self) -> u64 {
                let $it = self;
                let mut count = $lock;
                *count += 1;
                *count
            }
        }
    )*};
}

guarded! {
    parking_lot::Mutex<u64>, |it| it.lock();
    Mutex<u64>, |it| it.lock().unwrap_or_else(PoisonError::into_inner);
    spin::Mutex<u64>, |it| it.lock();
}

impl Adds for AtomicU64 {
    #[inline(always)]
    fn add(&self) -> u64 {
        self.fetch_add(1, Ordering::AcqRel) + 1
    }
}

struct ManyNumbers(parking_lot::Mutex<[u64; INTEGERS]>);

impl Default for ManyNumbers {
    fn default() -> Self {
        Self(parking_lot::Mutex::new([0; INTEGERS]))
    }
}

impl Adds for ManyNumbers {
    #[inline(always)]
    fn add(&self) -> u64 {
        increment(&mut self.0.lock(), INTEGERS as u64)
    }
}

/// The lock that protects the value.
#[derive(Clone, Copy, Debug)]
pub enum Lock {
    ParkingLot,
    /// The same, around [`INTEGERS`] increments.
    ParkingLotIncrements,
    Std,
    Spin,
    FetchAdd,
}

impl Lock {
    pub fn name(self) -> &'static str {
        match self {
            Lock::ParkingLot | Lock::ParkingLotIncrements => "parking_lot",
            Lock::Std => "std Mutex",
            Lock::Spin => "spin",
            Lock::FetchAdd => "fetch_add",
        }
    }

    /// Returns a side that runs `threads` threads, and whose value is `figure` of what they have done. The threads are
    /// pinned if each has its own CPU.
    pub fn side(
        self,
        threads: usize,
        load: Load,
        figure: impl Fn(&[Done]) -> f64 + 'static,
    ) -> Side {
        let waits = if matches!(self, Lock::Spin | Lock::FetchAdd) { "spin" } else { "adaptive" };
        Side::new(self.name(), waits, move |setup| {
            let run = match self {
                Lock::ParkingLot => run::<parking_lot::Mutex<u64>>,
                Lock::ParkingLotIncrements => run::<ManyNumbers>,
                Lock::Std => run::<Mutex<u64>>,
                Lock::Spin => run::<spin::Mutex<u64>>,
                Lock::FetchAdd => run::<AtomicU64>,
            };
            Ok(figure(&run(setup, threads, load)?).into())
        })
    }
}

#[inline(never)]
fn run<A: Adds>(setup: &Setup, threads: usize, load: Load) -> Result<Vec<Done>, Trouble> {
    let value = CachePadded::new(A::default());
    let begin = monotonic_ns() + AHEAD_NS;
    let work = |_: usize| {
        while monotonic_ns() < begin {}
        let mut highest = 0;
        let done = load.run(begin, || -> Result<(), Trouble> {
            highest = value.add();
            Ok(())
        });
        done.map(|done| (done, highest))
    };
    let ran: Vec<(Done, u64)> = if threads == setup.cpus.len() {
        let (left, right) = cpus::side_by_side(setup.cpus, || work(0), || work(1));
        vec![left?, right?]
    } else {
        let cpus = if threads == 1 { &setup.cpus[..1] } else { &setup.cpus[..] };
        cpus::confined(cpus, || {
            std::thread::scope(|scope| {
                let work = &work;
                let threads: Vec<_> =
                    (0..threads).map(|me| scope.spawn(move || work(me))).collect();
                threads
                    .into_iter()
                    .map(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                    .collect::<Result<Vec<_>, Trouble>>()
            })
        })?
    };
    let all: u64 = ran.iter().map(|(done, _)| done.all).sum();
    match ran.iter().map(|&(_, highest)| highest).max() {
        Some(highest) if highest == all => Ok(ran.into_iter().map(|(done, _)| done).collect()),
        highest => Err(Trouble::Failed(format!("{all} additions made {highest:?}"))),
    }
}
