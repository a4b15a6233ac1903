//! The recording of a process.

use std::sync::{Arc, Mutex};

use super::{
    recorder::Recorder,
    span::{Lane, Name, Trace, Track, TrackSpans},
    store::{On, Shared, Thread, lock},
};
use crate::overlap::OverlapReport;

/// A recording of what the threads of a process do. Clones are the same recording.
#[derive(Clone, Debug, Default)]
pub struct Recording(Option<Arc<Shared>>);

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
        Self(Some(Arc::new(Shared::keeping(spans))))
    }

    /// Returns whether anything is recorded.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Returns a recorder for a thread. Several recorders of one track are several threads that a trace shows as one.
    pub fn recorder(&self, track: Track) -> Recorder {
        Recorder(self.0.as_ref().map(|shared| {
            let thread = Arc::new(Mutex::new(Thread::new(track)));
            lock(&shared.threads).push(Arc::clone(&thread));
            let is_rank = matches!(track.lane, Lane::Rank(_));
            On { thread, shared: Arc::clone(shared), is_rank }
        }))
    }

    /// Returns a name to use in [`Detail`](super::Detail), or `None` if nothing is recorded. Call this once for a
    /// channel, not for every message.
    pub fn name(&self, name: &str) -> Option<Name> {
        self.0.as_ref().map(|shared| shared.name(name))
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
