//! The amount of work in one sample. Both sides of a row follow the same plan. Ranks that are processes get theirs on
//! the command line.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use onchip_benches::collective;
use onchip_benches::load::Load;
use onchip_benches::work::Work;
use serde::{Deserialize, Serialize};

use crate::stats::median;

/// Calls `work` in `batches` batches of `calls`. Returns nanoseconds for each call, one figure for each batch. One more
/// batch before them warms up and is not reported. The first error ends the measurement.
pub fn timed<E>(
    batches: usize,
    calls: u64,
    mut work: impl FnMut() -> Result<(), E>,
) -> Result<Vec<f64>, E> {
    let mut took = Vec::with_capacity(batches + 1);
    for _ in 0..=batches {
        let start = Instant::now();
        for _ in 0..calls {
            work()?;
        }
        took.push(start.elapsed().as_nanos() as f64 / calls as f64);
    }
    took.remove(0);
    Ok(took)
}

/// Times `trip`, which goes there and back. Returns half of the time, in nanoseconds.
fn one_way<E>(
    batches: usize,
    trips: u64,
    trip: impl FnMut() -> Result<(), E>,
) -> Result<Vec<f64>, E> {
    Ok(timed(batches, trips, trip)?.into_iter().map(|ns| ns / 2.0).collect())
}

/// 8 bytes to and fro. The answer to message m is !m.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct PingPong {
    pub batches: usize,
    pub trips: u64,
}

impl PingPong {
    /// Places in a channel or ring, the same for both sides. Only one message is under way at a time, but with a single
    /// place the sender would also wait until the receiver has freed it.
    pub const DEGREE: u32 = 16;
    /// About 3 ms for near cores, 15 ms for far ones.
    pub const USUAL: PingPong = PingPong { batches: 11, trips: 2000 };

    /// Times `trip`, which goes there and back. Returns half of the time, in nanoseconds.
    pub fn timed<E>(self, trip: impl FnMut() -> Result<(), E>) -> Result<Vec<f64>, E> {
        one_way(self.batches, self.trips, trip)
    }

    /// The number of trips, including those that warm up.
    pub fn all_trips(self) -> u64 {
        (self.batches as u64 + 1) * self.trips
    }
}

/// Messages sent one after the other, timed where they arrive.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Stream {
    pub degree: u32,
    pub batches: usize,
    pub messages: u64,
}

impl Stream {
    pub const USUAL: Stream = Stream { degree: 1024, batches: 11, messages: 100_000 };

    /// Times `receive`. Returns messages in a second.
    pub fn timed<E>(self, receive: impl FnMut() -> Result<(), E>) -> Result<Vec<f64>, E> {
        let took = timed(self.batches, self.messages, receive)?;
        Ok(took.into_iter().map(|ns| 1e9 / ns).collect())
    }

    /// The number of messages, including those that warm up.
    pub fn all_messages(self) -> u64 {
        (self.batches as u64 + 1) * self.messages
    }
}

/// Returns a message of a stream, with its number in every word.
pub fn numbered<const WORDS: usize>(number: u64) -> [u64; WORDS] {
    [number; WORDS]
}

/// Returns whether every word of `message` has arrived.
pub fn is_numbered<const WORDS: usize>(message: &[u64; WORDS], number: u64) -> bool {
    message.iter().fold(0, |differences, word| differences | (word ^ number)) == 0
}

/// A large message to and fro. Each time, its sender rewrites all of it, and its receiver reads all of it. The content
/// of trip t is that of seed t, and the content of its answer is that of seed !t.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Large {
    /// A multiple of 8.
    pub bytes: usize,
    pub batches: usize,
    pub trips: u64,
}

impl Large {
    pub const MEGABYTE: Large = Large { bytes: 1 << 20, batches: 7, trips: 40 };

    pub fn words(self) -> usize {
        self.bytes / 8
    }

    /// Times `trip`, which goes there and back. Returns half of the time, in nanoseconds.
    pub fn timed<E>(self, trip: impl FnMut() -> Result<(), E>) -> Result<Vec<f64>, E> {
        one_way(self.batches, self.trips, trip)
    }

    /// The number of trips, including those that warm up.
    pub fn all_trips(self) -> u64 {
        (self.batches as u64 + 1) * self.trips
    }
}

/// Waking a receiver that sleeps in the operating system.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Wakes {
    pub count: usize,
    /// How long the sender lets the receiver fall asleep, in microseconds.
    pub pause_us: u64,
}

impl Wakes {
    pub const USUAL: Wakes = Wakes { count: 200, pause_us: 150 };
}

/// How the threads that run handlers are woken.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Woken {
    ByFutex,
    BySignal,
}

/// What two ranks do with requests, half a round trip of 8 bytes.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub enum Life {
    /// A receive is posted, a send is begun, and each is waited for.
    Each,
    /// Both are waited for together.
    Together,
    /// Together with a collective operation that is under way.
    Mixed,
}

/// Pairs that ping-pong 8 bytes, all at the same time.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Pairs {
    pub pairs: usize,
    /// The trips of each pair.
    pub trips: u64,
}

impl Pairs {
    /// Places in a channel, the same for all rivals with configurable channels.
    pub const DEGREE: u32 = PingPong::DEGREE;
    pub const FOUR: Pairs = Pairs { pairs: 4, trips: 3000 };

    /// Returns half of a round trip in nanoseconds, from the start of the first pair to the end of the last.
    pub fn one_way(self, spans: &[[u64; 2]]) -> f64 {
        let first = spans.iter().map(|span| span[0]).min().unwrap_or(0);
        let last = spans.iter().map(|span| span[1]).max().unwrap_or(0);
        (last - first) as f64 / (2 * self.trips) as f64
    }
}

/// Sends of a rank to itself through a communication thread on the other CPU, a few at a time between two readings of
/// the clock.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Delegations {
    /// The size of a message; a multiple of 8, and not 0.
    pub bytes: usize,
    pub batches: usize,
    pub bursts: usize,
    /// Whether an end-to-end time includes the wait for the request.
    pub waited: bool,
}

impl Delegations {
    /// Sends between two readings of the clock, and places in the channel.
    pub const BURST: usize = 8;

    pub fn of(bytes: usize) -> Delegations {
        // About 5 ms, whatever the size.
        let bursts = (1 << 21) / (bytes + (8 << 10));
        Delegations { bytes, batches: 11, bursts: bursts.max(4), waited: false }
    }

    pub fn words(self) -> usize {
        self.bytes / 8
    }
}

/// The thread that copies the messages of a rank.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub enum Copier {
    /// The rank itself.
    Rank,
    /// A communication thread on the other CPU.
    Kt,
}

/// A rank that computes and sends a large message in turn. It accepts the message itself.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Overlap {
    /// A multiple of 8, and at least 16.
    pub bytes: usize,
    pub copier: Copier,
    /// Whether the computation writes the whole message as well.
    pub rewritten: bool,
    /// The time of the computation between two sends, in microseconds.
    pub grain_us: u64,
    pub batches: usize,
    /// Sends in a batch.
    pub sends: usize,
}

impl Overlap {
    /// How many lines of work are a grain: measured once, so that all sides do the same.
    pub fn lines(self, work: &mut Work) -> usize {
        static IN_A_MILLISECOND: OnceLock<usize> = OnceLock::new();
        let lines = *IN_A_MILLISECOND.get_or_init(|| work.lines_in(Duration::from_millis(1)));
        lines * self.grain_us as usize / 1000
    }

    pub fn megabyte(copier: Copier, rewritten: bool) -> Overlap {
        Overlap { bytes: 1 << 20, copier, rewritten, grain_us: 200, batches: 9, sends: 20 }
    }

    pub fn words(self) -> usize {
        self.bytes / 8
    }
}

/// A rank that sends large messages one after the other, and accepts them itself.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Emitting {
    /// A multiple of 8, and at least 16.
    pub bytes: usize,
    /// Whether a communication thread on the other CPU sends as well.
    pub helped: bool,
    pub batches: usize,
    pub messages: u64,
}

impl Emitting {
    /// Places in a channel, and messages in memory.
    pub const DEGREE: usize = 4;

    pub fn megabyte(helped: bool) -> Emitting {
        Emitting { bytes: 1 << 20, helped, batches: 7, messages: 200 }
    }

    pub fn words(self) -> usize {
        self.bytes / 8
    }
}

/// The three ways of timing a collective operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Timing {
    /// One call after the other: the average time of the slowest rank.
    Loop,
    /// A barrier before each call: the longest time that a rank was in it.
    Separated,
    /// A barrier before each call: the time from the last rank's entry to the last rank's exit.
    Last,
}

impl Timing {
    pub const ALL: [Timing; 3] = [Timing::Loop, Timing::Separated, Timing::Last];

    pub fn name(self) -> &'static str {
        match self {
            Timing::Loop => "loop",
            Timing::Separated => "separated",
            Timing::Last => "last",
        }
    }

    /// Returns one figure from the times of all ranks.
    pub fn figure(self, ranks: &[Vec<f64>]) -> f64 {
        match self {
            Timing::Loop => median(&collective::slowest(ranks)),
            Timing::Separated => collective::middle(&collective::longest(ranks)),
            Timing::Last => collective::middle(&collective::last_in_to_last_out(ranks)),
        }
    }
}

/// An operation that all ranks call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Operation {
    Barrier,
    Broadcast,
    Reduce,
    AllReduce,
    Scan,
    Gather,
    Scatter,
    AllGather,
    AllToAll,
}

impl Operation {
    /// Returns the name in names of rows, and for `rivals.c`.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Barrier => "barrier",
            Operation::Broadcast => "broadcast",
            Operation::Reduce => "reduce",
            Operation::AllReduce => "all-reduce",
            Operation::Scan => "scan",
            Operation::Gather => "gather",
            Operation::Scatter => "scatter",
            Operation::AllGather => "all-gather",
            Operation::AllToAll => "all-to-all",
        }
    }
}

/// The same operation again and again. Its messages are stamped with the number of the call, and the stamps are checked
/// where they arrive. Rank 0 is the root.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Collective {
    pub operation: Operation,
    /// The size of a rank's message, or of its message to each rank; a multiple of 8, and 0 for a barrier alone.
    pub bytes: usize,
    pub batches: usize,
    /// Calls in a batch.
    pub calls: u64,
}

impl Collective {
    /// The number of buffers that are used in turn, so that the next message is in other memory than the last one.
    pub const TURNS: usize = 4;

    /// Ranks with one core each. Takes less than 10 ms on near cores, whatever the size.
    pub fn of(operation: Operation, bytes: usize) -> Collective {
        Collective { operation, bytes, batches: 11, calls: Self::calls(32 << 20, bytes) }
    }

    /// Ranks that share cores. A batch takes longer than the operating system lets one rank run.
    pub fn crowd(operation: Operation, bytes: usize) -> Collective {
        Collective { operation, bytes, batches: 3, calls: Self::calls(64 << 20, bytes) }
    }

    /// At least 8, because some MPIs change to their fast way only after a few calls, and one batch warms up.
    fn calls(volume: usize, bytes: usize) -> u64 {
        (volume / (bytes + (16 << 10))).max(8) as u64
    }

    pub fn words(self) -> usize {
        self.bytes / 8
    }

    /// The number of calls that all ranks begin at the same moment.
    pub fn singles(self) -> u64 {
        self.batches as u64 * self.calls / 4
    }
}

/// Messages with a tag, stamped with their number, between two ranks.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Tagged {
    /// A multiple of 8, and not 0.
    pub bytes: usize,
    pub batches: usize,
    /// Trips there and back. For a stream, windows.
    pub trips: u64,
    /// Messages that are sent before the sender waits for an answer.
    pub window: u64,
}

impl Tagged {
    pub const TAG: u32 = 1;
    /// 8 bytes one way.
    pub const RATE: Tagged = Tagged { bytes: 8, batches: 11, trips: 1000, window: 64 };

    /// To and fro: about 3 ms for each batch on near cores, whatever the size.
    pub fn pingpong(bytes: usize) -> Tagged {
        let trips = (32 << 20) / (bytes + (16 << 10)) as u64;
        Tagged { bytes, batches: 11, trips: trips.max(8), window: 1 }
    }

    pub fn words(self) -> usize {
        self.bytes / 8
    }

    /// The number of trips, including those that warm up.
    pub fn all_trips(self) -> u64 {
        (self.batches as u64 + 1) * self.trips
    }
}

/// Nonblocking sends to posted receives. A window says how many are under way.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Requests {
    pub window: u64,
    pub batches: usize,
    /// Windows in a batch.
    pub windows: u64,
}

impl Requests {
    /// The number of timed waits for any request of a window. The remaining requests are waited for together.
    pub const ANYS: u64 = 64;

    /// A batch takes about a millisecond, which is less than the operating system lets a thread run, except for a large
    /// window.
    pub fn of(window: u64) -> Requests {
        let windows = (1 << 12) / window;
        let batches = if windows > 0 { 33 } else { 3 };
        Requests { window, batches, windows: windows.max(1) }
    }

    /// The number of windows, including those that warm up.
    pub fn all_windows(self) -> u64 {
        (self.batches as u64 + 1) * self.windows
    }

    /// The same with blocking calls.
    pub fn blocking(self) -> Tagged {
        Tagged { bytes: 8, batches: self.batches, trips: self.windows, window: self.window }
    }
}

/// What an operation in a critical section does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Guarded {
    /// Adds to a number.
    Counter,
    /// Adds to a number, by the thread that asks for it, which takes the lock itself.
    Locked,
    /// Adds 1 to each integer of an array.
    Increments,
}

/// Clients of a protected value. If the scheme has a server, it runs beside them.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Critical {
    /// The index in `Scheme::ALL`.
    pub scheme: usize,
    pub guarded: Guarded,
    pub load: Load,
}

impl Critical {
    /// Clients with one CPU each. It takes 25 ms.
    pub const USUAL: Load =
        Load { in_flight: 1, idling: 0, every: 64, warm_up_us: 4000, window_us: 3000, windows: 7 };
    /// Clients that share CPUs: a window is longer than the time for which the operating system lets one of them run.
    pub const CROWD: Load =
        Load { every: 16, warm_up_us: 20_000, window_us: 80_000, windows: 3, ..Self::USUAL };
    /// Clients beside other programs, with which the operating system lets them run in turn.
    pub const LOADED: Load = Load { windows: 5, ..Self::CROWD };
    /// The value for [`Section::in_flight`](onchip::critical::Section::in_flight).
    pub const IN_FLIGHT: usize = 32;
}

/// A buffer to and fro whose content is not written or read on the way.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Untouched {
    /// A multiple of 8.
    pub bytes: usize,
    pub pingpong: PingPong,
}

/// A farm that turns frames of 1000 × 1000 pixels gray. The frames are in memory before the clock starts, and go
/// through the farm again and again.
#[derive(Clone, Copy, Debug)]
pub struct Farm {
    pub workers: usize,
    /// Frames that may be in a channel without blocking the sender.
    pub degree: usize,
    /// Different frames in memory.
    pub held: usize,
    /// How often all of them go through the farm while the clock runs.
    pub passes: usize,
}

impl Farm {
    /// Pixels of a frame in each direction.
    pub const SIDE: usize = 1000;
    pub const TWO_WORKERS: Farm = Farm { workers: 2, degree: 4, held: 24, passes: 12 };

    /// The number of frames while the clock runs.
    pub fn measured(self) -> usize {
        self.held * self.passes
    }
}

/// The five-point stencil on a square matrix of doubles.
#[derive(Clone, Copy, Debug)]
pub struct Stencil {
    pub size: usize,
    pub steps: usize,
    pub workers: usize,
    /// The number of runs. The result is their median.
    pub runs: usize,
}

impl Stencil {
    pub const PAPER: Stencil = Stencil { size: 1080, steps: 100, workers: 2, runs: 5 };
}
