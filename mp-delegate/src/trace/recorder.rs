//! What a thread records with.

use std::fmt;

use super::{
    span::{Detail, Flow, Kind, Name, Span},
    store::{Begun, On, lock},
    waits,
};

/// The writer of one thread's part of a recording. It does nothing when the recording is
/// [off](super::Recording::off). Clones write to the same track.
#[derive(Clone, Debug, Default)]
pub struct Recorder(pub(super) Option<On>);

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
        let on = self.0.as_ref().map(|on| (on, begin(on, kind)));
        Open { on, kind, detail: Detail::default() }
    }

    /// Records a span after the fact, with times of [`now`](super::now).
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

    /// The same as [`Recording::name`](super::Recording::name).
    pub fn name(&self, name: &str) -> Option<Name> {
        self.0.as_ref().map(|on| on.shared.name(name))
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

/// Begins a span. From then on the thread's waits are recorded, if it is a rank's.
#[cold]
fn begin(on: &On, kind: Kind) -> Begun {
    if on.is_rank {
        waits::record(on);
    }
    on.begin(kind)
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
