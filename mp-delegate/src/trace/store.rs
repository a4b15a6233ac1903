//! What a recording keeps, and how a thread writes to it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{
    clock,
    span::{Detail, Kind, Name, Span, Track, intern},
};
use crate::overlap::{Meter, Piece};

#[derive(Debug)]
pub(super) struct Shared {
    /// The number of spans that a track keeps; 0 if only the overlap is measured.
    pub(super) spans: usize,
    pub(super) threads: Mutex<Vec<Arc<Mutex<Thread>>>>,
    pub(super) names: Mutex<Vec<String>>,
    pub(super) meter: Mutex<Meter>,
    pub(super) flows: Mutex<u64>,
}

/// The data that one thread has recorded.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) track: Track,
    pub(super) spans: Vec<Span>,
    pub(super) dropped: u64,
    /// The spans that have not ended: when they began, and what they are.
    pub(super) open: Vec<(u64, Kind)>,
    /// The pieces that the meter has not seen.
    pieces: Vec<Piece>,
    /// How many pieces there must be before the meter is asked to take them.
    enough: usize,
    /// The number of pieces for which there was no room.
    pub(super) lost: u64,
}

impl Thread {
    /// Creates what a thread has recorded before its first span.
    pub(super) fn new(track: Track) -> Self {
        let (spans, open, pieces) = (Vec::new(), Vec::new(), Vec::new());
        Self { track, spans, dropped: 0, open, pieces, enough: ENOUGH, lost: 0 }
    }

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
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Creates a recording that keeps so many spans of each track.
    pub(super) fn keeping(spans: usize) -> Self {
        let (threads, names) = (Mutex::default(), Mutex::default());
        Self { spans, threads, names, meter: Mutex::default(), flows: Mutex::default() }
    }

    /// Returns a name, which is kept once.
    pub(super) fn name(&self, name: &str) -> Name {
        Name(intern(&mut lock(&self.names), name))
    }

    /// Gives the meter everything that no open span can change any more.
    pub(super) fn add_up(&self, meter: &mut Meter) {
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

/// A thread's access to its part of a recording.
#[derive(Clone, Debug)]
pub(super) struct On {
    pub(super) thread: Arc<Mutex<Thread>>,
    pub(super) shared: Arc<Shared>,
    /// Whether it is the thread of a rank.
    pub(super) is_rank: bool,
}

impl On {
    #[cold]
    pub(super) fn begin(&self, kind: Kind) -> Begun {
        let mut thread = lock(&self.thread);
        let cpu = (kind == Kind::Compute).then(clock::of_thread);
        let start = clock::now();
        thread.open.push((start, kind));
        Begun { start, cpu }
    }

    #[cold]
    pub(super) fn end(&self, Begun { start, cpu }: Begun, kind: Kind, mut detail: Detail) {
        let end = clock::now();
        if let Some(cpu) = cpu {
            detail.cpu_ns = Some(clock::of_thread().saturating_sub(cpu));
        }
        self.record(Some(start), Span { kind, start, end, detail });
    }

    pub(super) fn forget(&self, opened: u64) {
        lock(&self.thread).close(opened);
    }

    #[cold]
    pub(super) fn record(&self, opened: Option<u64>, span: Span) {
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
pub(super) struct Begun {
    pub(super) start: u64,
    /// The reading of the thread's own clock, for a computation.
    cpu: Option<u64>,
}
