//! Adding up overlap, window by window, so that memory stays bounded.

use super::intervals::Times;
use super::report::{OverlapReport, RankOverlap, Slowdown};
use crate::trace::{Kind, Lane, Span, Trace, Track};
use std::collections::{BTreeMap, BTreeSet};

/// The part of a span that the meter needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    kind: Kind,
    start: u64,
    end: u64,
    from: Option<u32>,
    units: Option<f64>,
    /// For a computation: the part of it for which the thread had a processor, in parts of [`WHOLE`].
    cpu: u64,
}

/// The number of parts that make up a whole computation.
const WHOLE: u64 = 64;

impl Piece {
    pub(crate) fn of(span: &Span) -> Self {
        let Span { kind, start, end, ref detail } = *span;
        let all = end.saturating_sub(start).max(1);
        let cpu = detail.cpu_ns.map_or(WHOLE, |cpu| (WHOLE * cpu.min(all)).div_ceil(all));
        Self { kind, start, end, from: detail.from, units: detail.units, cpu }
    }

    /// Returns the part of the piece in an interval, with its share of the work.
    fn within(self, start: u64, end: u64) -> Option<Self> {
        let (from, to) = (self.start.max(start), self.end.min(end));
        if from >= to {
            return None;
        }
        let share = (to - from) as f64 / (self.end - self.start) as f64;
        let units = self.units.map(|units| units * share);
        Some(Self { start: from, end: to, units, ..self })
    }
}

/// Sums over all time before a moment.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    until: u64,
    ranks: BTreeMap<u32, Sums>,
}

#[derive(Debug, Default)]
struct Sums {
    delegated: u64,
    sent: u64,
    exposed: u64,
    waited: u64,
    /// A part of [`delegated`](Self::delegated).
    messages_delegated: u64,
    messages_in_calls: u64,
    /// In parts of [`WHOLE`] of a nanosecond, like the next field.
    computed: u64,
    /// Copies while the rank computed.
    hidden: u64,
    rates: Rates,
}

impl Meter {
    /// Adds everything before `until`, and returns the rest, thread by thread.
    ///
    /// Pieces that come later, but lie before `until`, are cut off.
    pub(crate) fn add(&mut self, until: u64, threads: Vec<(Track, Vec<Piece>)>) -> Vec<Vec<Piece>> {
        let since = self.until;
        let until = until.max(since);
        self.until = until;
        let (mut window, mut later) = (Vec::new(), Vec::new());
        for (track, pieces) in threads {
            let cut = |from, to| pieces.iter().filter_map(move |piece| piece.within(from, to));
            window.push((track, cut(since, until).collect::<Vec<_>>()));
            later.push(cut(until, u64::MAX).collect());
        }
        self.add_window(&window);
        later
    }

    fn add_window(&mut self, window: &[(Track, Vec<Piece>)]) {
        const WORKS: &[Kind] = &[Kind::Copy, Kind::Collective, Kind::Messages];
        let works = |kinds: &'static [Kind], of: Option<u32>| {
            window.iter().map(move |(track, pieces)| {
                let is_kt = matches!(track.lane, Lane::Kt(_));
                let wanted = pieces.iter().filter(move |piece| {
                    let works = kinds.contains(&piece.kind);
                    is_kt && works && (of.is_none() || piece.from == of)
                });
                wanted.map(|piece| (piece.start, piece.end))
            })
        };
        let busy = Times::any_of(works(WORKS, None).flatten());
        let ranks: BTreeSet<u32> = window
            .iter()
            .filter_map(|(track, _)| match track.lane {
                Lane::Rank(rank) => Some(rank),
                Lane::Kt(_) => None,
            })
            .collect();
        for rank in ranks {
            let own = || {
                let threads =
                    window.iter().filter(move |(track, _)| track.lane == Lane::Rank(rank));
                threads.flat_map(|(_, pieces)| pieces)
            };
            let during = |kinds: &[Kind]| {
                let wanted = own().filter(|piece| kinds.contains(&piece.kind));
                Times::any_of(wanted.map(|piece| (piece.start, piece.end)))
            };
            const EXPOSED: [Kind; 5] =
                [Kind::Send, Kind::Delegate, Kind::Wait, Kind::Collective, Kind::Messages];
            let exposed = during(&EXPOSED);
            let communicating = during(&[&EXPOSED[..], &[Kind::Receive, Kind::Idle]].concat());
            let computing = during(&[Kind::Compute]).without(&communicating);
            let computing_beside_busy = computing.and(&busy);
            let parts = parts(own().filter(|piece| piece.kind == Kind::Compute));
            let had_processor = |times: &Times| {
                let of = |&(start, end, cpu): &_| cpu * times.length_within(start, end);
                parts.iter().map(of).sum::<u64>()
            };

            let sums = self.ranks.entry(rank).or_default();
            sums.sent += during(&[Kind::Send]).length();
            sums.waited += during(&[Kind::Wait]).length();
            sums.messages_in_calls += during(&[Kind::Messages]).length();
            for messages in works(&[Kind::Messages], Some(rank)) {
                sums.messages_delegated += Times::any_of(messages).length();
            }
            sums.exposed += exposed.length();
            sums.computed += had_processor(&computing);
            // Thread by thread: two copies at a time hide twice as much.
            for copies in works(WORKS, Some(rank)) {
                let copies = Times::any_of(copies);
                sums.delegated += copies.length();
                sums.hidden += had_processor(&copies.and(&computing));
            }
            for piece in own().filter(|piece| piece.kind == Kind::Compute) {
                let Some(units) = piece.units else { continue };
                let all = computing.length_within(piece.start, piece.end);
                let busy = computing_beside_busy.length_within(piece.start, piece.end);
                sums.rates.add(units, all - busy, busy);
            }
        }
    }

    /// Returns the sums so far.
    pub(crate) fn report(&self, lost: u64) -> OverlapReport {
        let ranks = self.ranks.iter().map(|(&rank, sums)| RankOverlap {
            rank: rank as usize,
            delegated_ns: sums.delegated,
            inline_ns: sums.sent,
            hidden_ns: (sums.computed > 0).then_some(sums.hidden / WHOLE),
            exposed_ns: sums.exposed,
            waited_ns: sums.waited,
            messages_delegated_ns: sums.messages_delegated,
            messages_in_calls_ns: sums.messages_in_calls,
            computing_ns: sums.computed / WHOLE,
            slowdown: sums.rates.slowdown(),
        });
        OverlapReport { ranks: ranks.collect(), lost_spans: lost }
    }
}

/// Returns the computations one after the other, each with the part of it for which the thread had a processor. Of two
/// at the same time, the first counts.
fn parts<'a>(computations: impl Iterator<Item = &'a Piece>) -> Vec<(u64, u64, u64)> {
    let mut computations: Vec<&Piece> = computations.collect();
    computations.sort_by_key(|piece| piece.start);
    let mut until = 0;
    let after_the_others = computations.into_iter().map(|piece| {
        let start = piece.start.max(until);
        until = until.max(piece.end);
        (start, piece.end, piece.cpu)
    });
    after_the_others.filter(|(start, end, _)| start < end).collect()
}

/// Rates of computation by least squares. They are the two rates that best explain how much was done in intervals
/// during parts of which a communication thread was at work.
#[derive(Debug, Default)]
struct Rates {
    idle: f64,
    busy: f64,
    idle_idle: f64,
    idle_busy: f64,
    busy_busy: f64,
    units_idle: f64,
    units_busy: f64,
}

impl Rates {
    fn add(&mut self, units: f64, idle_ns: u64, busy_ns: u64) {
        let (idle, busy) = (idle_ns as f64 / 1e9, busy_ns as f64 / 1e9);
        self.idle += idle;
        self.busy += busy;
        self.idle_idle += idle * idle;
        self.idle_busy += idle * busy;
        self.busy_busy += busy * busy;
        self.units_idle += units * idle;
        self.units_busy += units * busy;
    }

    /// Returns `None` if there was too little of either, or always the same part of both.
    fn slowdown(&self) -> Option<Slowdown> {
        let scale = self.idle_idle * self.busy_busy;
        let determinant = scale - self.idle_busy * self.idle_busy;
        if scale <= 0.0 || determinant < 1e-6 * scale {
            return None;
        }
        let solve =
            |one: f64, its: f64, other: f64| (one * its - other * self.idle_busy) / determinant;
        let rate_idle = solve(self.units_idle, self.busy_busy, self.units_busy);
        let rate_busy = solve(self.units_busy, self.idle_idle, self.units_idle);
        let are_rates = rate_idle > 0.0 && rate_busy > 0.0 && rate_idle.is_finite();
        (are_rates && rate_busy.is_finite()).then_some(Slowdown {
            units_per_second_idle: rate_idle,
            units_per_second_busy: rate_busy,
            seconds_idle: self.idle,
            seconds_busy: self.busy,
        })
    }
}

impl OverlapReport {
    /// Returns the overlap in a trace. After [`Trace::merge`], this is the overlap of several processes with all their
    /// communication threads. Dropped spans are missing in it.
    pub fn of(trace: &Trace) -> Self {
        let mut meter = Meter::default();
        let pieces = trace
            .tracks
            .iter()
            .map(|row| (row.track, row.spans.iter().map(Piece::of).collect::<Vec<_>>()));
        meter.add(u64::MAX, pieces.collect());
        meter.report(trace.dropped())
    }
}
