//! A record of what ranks and communication threads did, and when. It is for pictures, and for the report of
//! [overlap](crate::overlap).
//!
//! A [`Recording`] belongs to a process, and each thread of the process writes through a [`Recorder`] of its own. At
//! the end, [`Recording::take_trace`] returns a [`Trace`], which is plain data that a rank of a process world returns
//! as its result. [`Trace::merge`] puts such parts together. [`Trace::write_chrome`] writes what Perfetto and
//! `chrome://tracing` show, and what `mprun trace-svg` draws.
//!
//! ```
//! use onchip::trace::{Detail, Kind, Recording, Track};
//!
//! let recording = Recording::trace();
//! let rank = recording.recorder(Track::rank(0));
//! let kt = recording.recorder(Track::kt(0));
//!
//! let flow = rank.flow();
//! let delegating = rank.begin(Kind::Delegate);
//! // ... into the queue of a communication thread ...
//! delegating.end(Detail::message(0, 1, 1 << 20).of(flow));
//! let sum: u64 = rank.compute(1000.0, || (0..1000).sum());
//!
//! // In the other thread:
//! let copying = kt.begin(Kind::Copy);
//! // ... from the rank's buffer into the channel ...
//! copying.end(Detail::message(0, 1, 1 << 20).of(flow));
//!
//! let mut json = Vec::new();
//! recording.take_trace().write_chrome(&mut json)?;
//! println!("{}", recording.overlap());
//! # assert_eq!(sum, 499500);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! The waits of a rank's thread, for messages, room or requests or in collective operations, are recorded
//! automatically, from the first span that a recorder of the rank begins in that thread. A wait within another span of
//! communication is a part of that span. Computation is not recorded automatically: the program must say when it
//! computes.
//!
//! # What it costs
//!
//! When recording is off, which is the default, each span costs one look at a field of the recorder that is in the
//! cache, and no clock is read. When it is on, each span and each wait of more than some microseconds costs two clock
//! readings and two locks. No other thread wants these locks except in the moments in which results are gathered. A
//! computation costs two more readings, of the thread's clock.
//!
//! Memory is bounded: a track keeps its first [`SPANS`](Recording::SPANS) spans, and counts those that it drops. The
//! times for the overlap are summed up as they come, so that they stay exact however long a program runs.

mod chrome;
mod clock;
mod span;
#[cfg(test)]
mod tests;
mod waits;

pub use clock::now;
pub use span::{Detail, Flow, Kind, Lane, Name, Span, Trace, Track, TrackSpans};

use crate::overlap::{Meter, OverlapReport, Piece};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A recording of what the threads of a process do. Clones are the same recording.
#[derive(Clone, Debug, Default)]
pub struct Recording(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    /// The number of spans that a track keeps; 0 if only the overlap is measured.
    spans: usize,
    threads: Mutex<Vec<Arc<Mutex<Thread>>>>,
    names: Mutex<Vec<String>>,
    meter: Mutex<Meter>,
    flows: Mutex<u64>,
}

/// The data that one thread has recorded.
#[derive(Debug)]
struct Thread {
    track: Track,
    spans: Vec<Span>,
    dropped: u64,
    /// The spans that have not ended: when they began, and what they are.
    open: Vec<(u64, Kind)>,
    /// The pieces that the meter has not seen.
    pieces: Vec<Piece>,
    /// How many pieces there must be before the meter is asked to take them.
    enough: usize,
    /// The number of pieces for which there was no room.
    lost: u64,
}

impl Thread {
    /// Removes the start of a span from those of the open spans.
    fn close(&mut self, opened: u64) {
        if let Some(at) = self.open.iter().rposition(|&(start, _)| start == opened) {
            self.open.remove(at);
        }
    }
}

/// The number of pieces from which it is worthwhile to add them up.
const ENOUGH: usize = 4096;

/// The number of further pieces after which the meter is asked again.
const STEP: usize = 256;

/// The most pieces that a thread keeps while an open span keeps them from being added up.
const MOST: usize = 1 << 20;

/// Locks a mutex, also when a thread panicked while it held the lock. All of a thread's data is written in steps that
/// leave it sound.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Recording {
    /// The number of spans that a track keeps by default: seven megabytes of them.
    pub const SPANS: usize = 1 << 16;

    /// Creates a recording that records nothing. This is the default.
    pub fn off() -> Self {
        Self(None)
    }

    /// Creates a recording that measures the overlap of communication and computation, but keeps no spans.
    pub fn measure() -> Self {
        Self::keeping(0)
    }

    /// Creates a recording that measures the overlap, and keeps spans for a trace.
    pub fn trace() -> Self {
        Self::keeping(Self::SPANS)
    }

    /// Creates a recording like [`trace`](Self::trace), with room for `spans` spans on each track.
    pub fn keeping(spans: usize) -> Self {
        Self(Some(Arc::new(Shared {
            spans,
            threads: Mutex::default(),
            names: Mutex::default(),
            meter: Mutex::default(),
            flows: Mutex::default(),
        })))
    }

    /// Returns whether anything is recorded.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Returns a recorder for a thread. Several recorders of one track are several threads that a trace shows as one.
    pub fn recorder(&self, track: Track) -> Recorder {
        Recorder(self.0.as_ref().map(|shared| {
            let thread = Arc::new(Mutex::new(Thread {
                track,
                spans: Vec::new(),
                dropped: 0,
                open: Vec::new(),
                pieces: Vec::new(),
                enough: ENOUGH,
                lost: 0,
            }));
            lock(&shared.threads).push(Arc::clone(&thread));
            On { thread, shared: Arc::clone(shared) }
        }))
    }

    /// Returns a name to use in [`Detail`], or `None` if nothing is recorded. Call this once for a channel, not for
    /// every message.
    pub fn name(&self, name: &str) -> Option<Name> {
        let shared = self.0.as_ref()?;
        Some(Name(span::intern(&mut lock(&shared.names), name)))
    }

    /// Takes the spans that have ended. Recording continues, with new room.
    pub fn take_trace(&self) -> Trace {
        let Some(shared) = &self.0 else { return Trace::default() };
        let threads = lock(&shared.threads);
        let parts = threads.iter().map(|thread| {
            let mut thread = lock(thread);
            let spans = std::mem::take(&mut thread.spans);
            let dropped = std::mem::take(&mut thread.dropped);
            let tracks = vec![TrackSpans { track: thread.track, spans, dropped }];
            Trace { tracks, names: Vec::new() }
        });
        // Names are read after spans, because the name of a span is known before the span.
        let mut tracks: Vec<Trace> = parts.collect();
        let names = lock(&shared.names).clone();
        tracks.iter_mut().for_each(|part| part.names.clone_from(&names));
        Trace::merge(tracks)
    }

    /// Returns how much communication was hidden behind computation since the beginning. Only spans that have ended
    /// count.
    pub fn overlap(&self) -> OverlapReport {
        let Some(shared) = &self.0 else { return OverlapReport::default() };
        let mut meter = lock(&shared.meter);
        shared.add_up(&mut meter);
        let lost = lock(&shared.threads).iter().map(|thread| lock(thread).lost).sum();
        meter.report(lost)
    }
}

impl Shared {
    /// Gives the meter everything that no open span can change any more.
    fn add_up(&self, meter: &mut Meter) {
        // Spans that begin after this has looked at their thread, or on a thread that is not known yet, begin after
        // this moment.
        let mut until = clock::now();
        let threads = lock(&self.threads).clone();
        let mut taken: Vec<(Track, Vec<Piece>)> = Vec::new();
        for thread in threads.iter() {
            let mut thread = lock(thread);
            until = thread.open.iter().map(|&(start, _)| start).fold(until, u64::min);
            taken.push((thread.track, std::mem::take(&mut thread.pieces)));
        }
        let later = meter.add(until, taken);
        for (thread, mut pieces) in threads.iter().zip(later) {
            let mut thread = lock(thread);
            thread.pieces.append(&mut pieces);
            thread.enough = ENOUGH.max(2 * thread.pieces.len());
        }
    }
}

/// The writer of one thread's part of a recording. It does nothing when the recording is [off](Recording::off). Clones
/// write to the same track.
#[derive(Clone, Debug, Default)]
pub struct Recorder(Option<On>);

#[derive(Clone, Debug)]
struct On {
    thread: Arc<Mutex<Thread>>,
    shared: Arc<Shared>,
}

impl Recorder {
    /// Creates a recorder that records nothing.
    pub fn off() -> Self {
        Self(None)
    }

    /// Returns whether anything is recorded.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Begins a span, which ends with [`Open::end`] or when the [`Open`] is dropped. Spans may be nested.
    #[inline]
    pub fn begin(&self, kind: Kind) -> Open<'_> {
        let on = self.0.as_ref().map(|on| (on, on.begin(kind)));
        Open { on, kind, detail: Detail::default() }
    }

    /// Records a span after the fact, with times of [`now`].
    ///
    /// If the span began long before this call, the overlap of that time may have been added up already. That part of
    /// the span is then left out of the report. [`begin`](Self::begin) prevents this.
    pub fn span(&self, kind: Kind, start: u64, end: u64, detail: Detail) {
        if let Some(on) = &self.0 {
            on.record(None, Span { kind, start, end: end.max(start), detail });
        }
    }

    /// Runs `work`, and records it as a computation of `units` units, whatever a unit is to the program: frames, rows,
    /// steps. The units are used to compare the rates of computation beside communication threads at work and beside
    /// idle ones ([`Slowdown`](crate::overlap::Slowdown)).
    pub fn compute<T>(&self, units: f64, work: impl FnOnce() -> T) -> T {
        let mut open = self.begin(Kind::Compute);
        open.detail.units = units.is_finite().then_some(units);
        work()
    }

    /// The same as [`Recording::name`].
    pub fn name(&self, name: &str) -> Option<Name> {
        Recording(Some(Arc::clone(&self.0.as_ref()?.shared))).name(name)
    }

    /// Returns a new tie between a delegation and its execution, or `None` if there is no trace to show it.
    #[inline]
    pub fn flow(&self) -> Option<Flow> {
        let on = self.0.as_ref().filter(|on| on.shared.spans > 0)?;
        // With the process's number, it differs from those of the world's other processes.
        let process = u64::from(std::process::id()) << 32;
        let mut flows = lock(&on.shared.flows);
        *flows += 1;
        Some(Flow(process + *flows))
    }
}

impl On {
    #[cold]
    fn begin(&self, kind: Kind) -> Begun {
        let mut thread = lock(&self.thread);
        if matches!(thread.track.lane, Lane::Rank(_)) {
            waits::record(self);
        }
        let cpu = (kind == Kind::Compute).then(clock::of_thread);
        let start = clock::now();
        thread.open.push((start, kind));
        Begun { start, cpu }
    }

    #[cold]
    fn end(&self, Begun { start, cpu }: Begun, kind: Kind, mut detail: Detail) {
        let end = clock::now();
        if let Some(cpu) = cpu {
            detail.cpu_ns = Some(clock::of_thread().saturating_sub(cpu));
        }
        self.record(Some(start), Span { kind, start, end, detail });
    }

    fn forget(&self, opened: u64) {
        lock(&self.thread).close(opened);
    }

    #[cold]
    fn record(&self, opened: Option<u64>, span: Span) {
        let mut thread = lock(&self.thread);
        if let Some(opened) = opened {
            thread.close(opened);
        }
        if thread.spans.len() < self.shared.spans {
            thread.spans.push(span);
        } else if self.shared.spans > 0 {
            thread.dropped += 1;
        }
        if thread.pieces.len() < MOST {
            thread.pieces.push(Piece::of(&span));
        } else {
            thread.lost += 1;
        }
        let is_enough =
            thread.pieces.len() >= thread.enough && thread.pieces.len().is_multiple_of(STEP);
        // Adding up takes all threads' locks, this one's too.
        drop(thread);
        // If another thread is adding up, this one does not wait for that.
        if is_enough && let Ok(mut meter) = self.shared.meter.try_lock() {
            self.shared.add_up(&mut meter);
        }
    }
}

/// How a span began.
#[derive(Clone, Copy)]
struct Begun {
    start: u64,
    /// The reading of the thread's own clock, for a computation.
    cpu: Option<u64>,
}

/// A span that has not ended. It ends when this is dropped.
#[must_use = "dropped at once, it is a span of no length"]
pub struct Open<'a> {
    on: Option<(&'a On, Begun)>,
    kind: Kind,
    detail: Detail,
}

impl Open<'_> {
    /// Sets the details of the span.
    #[inline]
    pub fn say(&mut self, detail: Detail) {
        self.detail = detail;
    }

    /// Ends the span, with these details.
    #[inline]
    pub fn end(mut self, detail: Detail) {
        self.detail = detail;
    }

    /// Discards the span: nothing is recorded.
    pub fn cancel(mut self) {
        if let Some((on, begun)) = self.on.take() {
            on.forget(begun.start);
        }
    }
}

impl Drop for Open<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some((on, begun)) = self.on {
            on.end(begun, self.kind, self.detail);
        }
    }
}

impl fmt::Debug for Open<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Open").field("kind", &self.kind).finish_non_exhaustive()
    }
}
