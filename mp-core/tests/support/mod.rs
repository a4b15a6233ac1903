//! Tools that tests of worlds share: running the same code on all kinds of ranks, a watchdog, and reproducible random
//! numbers.

#![allow(dead_code, reason = "not every test program uses all of it")]

/// Makes rank code fail with a message if the condition is false.
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err(mp_core::Error::other(format!($($message)+)));
        }
    };
}

pub mod parts;
pub mod processor;
pub mod scenarios;
pub mod watchdog;

use std::{
    fmt::Debug,
    pin::pin,
    sync::{Arc, mpsc},
    task::{Context, Poll, Wake, Waker},
    time::{Duration, Instant, SystemTime},
};

use mp_core::{Channel, Rank, Receiver, Result, Sender, SharedBuffer, World};
use serde::{Serialize, de::DeserializeOwned};

pub use watchdog::Watchdog;

/// The numbers of ranks with which every pattern is tested.
pub const SIZES: [usize; 5] = [1, 2, 3, 5, 8];

/// The results of a world with ranks of each kind: processes, threads, and threads on the heap.
#[derive(Debug)]
pub struct OnAll<T> {
    pub processes: Result<Vec<T>>,
    pub threads: Result<Vec<T>>,
    pub heap: Result<Vec<T>>,
}

impl<T> OnAll<T> {
    pub fn each(self) -> [(&'static str, Result<Vec<T>>); 3] {
        [("processes", self.processes), ("threads", self.threads), ("heap", self.heap)]
    }
}

/// Runs the same code on ranks of every kind, in worlds configured by `configure`.
#[track_caller]
pub fn run_on_all_with<T, F>(ranks: usize, configure: impl Fn(World) -> World, code: F) -> OnAll<T>
where
    T: Serialize + DeserializeOwned + Send + Clone,
    F: Fn(&Rank) -> Result<T> + Sync,
{
    let _watchdog = Watchdog::start();
    // What runs it is compiled once for each type of result, and not for each test.
    let code: &(dyn Fn(&Rank) -> Result<T> + Sync) = &code;
    OnAll {
        processes: configure(World::processes(ranks)).run(code),
        threads: configure(World::threads(ranks)).run(code),
        heap: configure(World::threads_on_heap(ranks)).run(code),
    }
}

/// Runs the same code on ranks of every kind. All must succeed with the same results.
#[track_caller]
pub fn on_all<T, F>(ranks: usize, code: F) -> Vec<T>
where
    T: Serialize + DeserializeOwned + Send + Clone + PartialEq + Debug,
    F: Fn(&Rank) -> Result<T> + Sync,
{
    on_all_with(ranks, |world| world, code)
}

/// Does what [`on_all`] does, in worlds configured by `configure`.
#[track_caller]
pub fn on_all_with<T, F>(ranks: usize, configure: impl Fn(World) -> World, code: F) -> Vec<T>
where
    T: Serialize + DeserializeOwned + Send + Clone + PartialEq + Debug,
    F: Fn(&Rank) -> Result<T> + Sync,
{
    let all = run_on_all_with(ranks, configure, code);
    let processes = all.processes.unwrap_or_else(|e| panic!("{ranks} processes: {e}"));
    let threads = all.threads.unwrap_or_else(|e| panic!("{ranks} threads: {e}"));
    let heap = all.heap.unwrap_or_else(|e| panic!("{ranks} threads on the heap: {e}"));
    assert_eq!(processes, threads, "processes and threads differ");
    assert_eq!(threads, heap, "threads differ with the place of their memory");
    processes
}

/// Allocates the world's memory until there is no room for a message of 64 KiB.
pub fn starve(rank: &Rank) -> Vec<SharedBuffer<u8>> {
    let mut taken = Vec::new();
    for len in [1 << 20, 64 << 10] {
        while let Ok(buffer) = rank.buffer::<u8>(len) {
            taken.push(buffer);
        }
    }
    taken
}

/// Polls a future each time that it is woken, and sleeps in between. Returns the future's output.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Bell(mpsc::Sender<()>);
    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            let _ = self.0.send(());
        }
    }
    let _watchdog = Watchdog::start();
    let (ring, rung) = mpsc::channel();
    let waker = Waker::from(Arc::new(Bell(ring)));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        rung.recv().expect("the task has a waker");
    }
}

/// A barrier for all ranks of a world. It allocates memory only when it is made.
pub struct Together {
    first: bool,
    come: Vec<Receiver<u8>>,
    go: Vec<Sender<u8>>,
}

impl Together {
    pub fn new(rank: &Rank) -> Result<Self> {
        let one = Channel::degree(1);
        let others = if rank.id() == 0 { 1..rank.size() } else { 0..1 };
        Ok(Self {
            first: rank.id() == 0,
            come: others
                .clone()
                .map(|r| rank.receiver("together", r, one))
                .collect::<Result<_>>()?,
            go: others.map(|r| rank.sender("together", r, one)).collect::<Result<_>>()?,
        })
    }

    /// Returns when all ranks have called it.
    pub fn wait(&mut self) -> Result<()> {
        self.all(true).map(drop)
    }

    /// Waits until all ranks have called it, and returns whether all have passed `true`.
    pub fn all(&mut self, mine: bool) -> Result<bool> {
        let hear = |from: &[Receiver<u8>], all: bool| -> Result<bool> {
            from.iter().try_fold(all, |all, from| Ok(all & (*from.receive()? == 1)))
        };
        // Rank 0 receives from all ranks, and then sends the result to all.
        let mut all = if self.first { hear(&self.come, mine)? } else { mine };
        self.go.iter_mut().try_for_each(|to| to.send(&all.into()))?;
        if !self.first {
            all = hear(&self.come, true)?;
        }
        Ok(all)
    }
}

/// Calls `attempt` with longer and longer limits, until it returns at all ranks that the limit was long enough. The
/// time that the tested code needs depends on the machine's load.
pub fn with_limit_enough(mut attempt: impl FnMut(Duration) -> Result<bool>) -> Result<()> {
    for limit in [30, 300, 3_000, 30_000].map(Duration::from_millis) {
        if attempt(limit)? {
            return Ok(());
        }
    }
    Err(mp_core::Error::other("not even in half a minute"))
}

/// The main function of a soak: runs rounds for as many seconds as the first argument says, beginning with the seed
/// that the second argument says. Ends the program with the error of the first round that fails.
///
/// A process rank must go straight to its round, so its world's arguments are `0` and the seed.
pub fn soak(name: &str, round: fn(u64) -> Result<(), String>) {
    let (seconds, first) = soak_arguments(&format!("{name} [SECONDS] [SEED]"), 60);
    let started = Instant::now();
    let mut rounds = 0u64;
    loop {
        let seed = first.wrapping_add(rounds);
        // Results of the worlds of a thread are kept and passed to the ranks of its later worlds. With thousands of
        // rounds in one thread, these would become larger than the worlds themselves. A watchdog prints the thread's
        // name.
        let named = std::thread::Builder::new().name(format!("seed {seed}"));
        match named.spawn(move || round(seed)).expect("a thread").join() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                eprintln!("seed {seed}: {error}");
                std::process::exit(1);
            }
            Err(_) => std::process::exit(1),
        }
        rounds += 1;
        if started.elapsed() >= Duration::from_secs(seconds) {
            break;
        }
    }
    println!("{rounds} rounds from seed {first}, {:?}", started.elapsed());
}

/// Returns the two arguments of a soak: its length, and the first seed, which by default depends on the time. Ends the
/// program with `usage` if an argument is no number.
pub fn soak_arguments(usage: &str, much: u64) -> (u64, u64) {
    let mut args = std::env::args().skip(1);
    let mut number = |default: u64| match args.next().map(|arg| arg.parse()) {
        None => default,
        Some(Ok(number)) => number,
        Some(Err(_)) => {
            eprintln!("{usage}");
            std::process::exit(2);
        }
    };
    let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos() as u64);
    (number(much), number(now))
}

/// Random numbers from a seed (splitmix64), the same in every process of a test.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}
