//! Overlap against what looking at every instant says.

use super::*;
use crate::trace::{Detail, Kind, Span, Track};
use proptest::prelude::*;

const HORIZON: u64 = 50;

fn span(kind: Kind, start: u64, end: u64, from: Option<u32>) -> Span {
    Span { kind, start, end, detail: Detail { from, ..Detail::default() } }
}

fn units(start: u64, end: u64, units: f64) -> Span {
    let detail = Detail { units: Some(units), ..Detail::default() };
    Span { kind: Kind::Compute, start, end, detail }
}

fn report(threads: &[(Track, Vec<Span>)]) -> OverlapReport {
    cut(threads, &[])
}

/// Returns the report of a meter that adds up at these moments, and at the end.
fn cut(threads: &[(Track, Vec<Span>)], moments: &[u64]) -> OverlapReport {
    let mut meter = Meter::default();
    let pieces = |spans: &[Span]| spans.iter().map(Piece::of).collect::<Vec<_>>();
    let mut rest: Vec<(Track, Vec<Piece>)> =
        threads.iter().map(|(track, spans)| (*track, pieces(spans))).collect();
    for &moment in moments.iter().chain(&[u64::MAX]) {
        let later = meter.add(moment, std::mem::take(&mut rest));
        rest = threads.iter().map(|(track, _)| *track).zip(later).collect();
    }
    meter.report(0)
}

fn own_kinds() -> Vec<Kind> {
    Kind::ALL.into_iter().filter(|kind| !matches!(kind, Kind::Copy | Kind::Idle)).collect()
}

/// Returns what one rank does on one thread, and two communication threads do for it and for another.
fn scenes() -> impl Strategy<Value = Vec<(Track, Vec<Span>)>> {
    let times = || (0..HORIZON, 0..HORIZON).prop_map(|(a, b)| (a.min(b), a.max(b)));
    let own = prop::collection::vec((prop::sample::select(own_kinds()), times()), 0..10);
    let works = prop::sample::select(&[Kind::Copy, Kind::Collective, Kind::Messages]);
    let copies =
        move || prop::collection::vec((works.clone(), prop::option::of(0..2u32), times()), 0..8);
    (own, copies(), copies()).prop_map(|(own, one, two)| {
        let own = own.into_iter().map(|(kind, (a, b))| span(kind, a, b, Some(0))).collect();
        let copies = |copies: Vec<(Kind, Option<u32>, (u64, u64))>| {
            copies.into_iter().map(|(kind, from, (a, b))| span(kind, a, b, from)).collect()
        };
        vec![(Track::rank(0), own), (Track::kt(0), copies(one)), (Track::kt(1), copies(two))]
    })
}

/// Returns the same figures, found by looking at each instant.
fn sampled(threads: &[(Track, Vec<Span>)]) -> RankOverlap {
    let mut figures = RankOverlap::default();
    let mut hidden = 0;
    for at in 0..HORIZON {
        let is = |spans: &[Span], kind: Kind, from: Option<u32>| {
            let mut wanted = spans.iter().filter(|span| span.kind == kind);
            wanted.any(|span| (span.start..span.end).contains(&at) && span.detail.from == from)
        };
        let own = |kind| is(&threads[0].1, kind, Some(0));
        let lost = [Kind::Send, Kind::Delegate, Kind::Wait, Kind::Collective, Kind::Messages];
        let lost = lost.into_iter().any(own);
        let communicates = lost || own(Kind::Receive);
        let computes = own(Kind::Compute) && !communicates;
        figures.inline_ns += u64::from(own(Kind::Send));
        figures.waited_ns += u64::from(own(Kind::Wait));
        figures.exposed_ns += u64::from(lost);
        figures.messages_in_calls_ns += u64::from(own(Kind::Messages));
        figures.computing_ns += u64::from(computes);
        for (_, spans) in &threads[1..] {
            let works = [Kind::Copy, Kind::Collective, Kind::Messages];
            let copies = u64::from(works.iter().any(|&kind| is(spans, kind, Some(0))));
            figures.messages_delegated_ns += u64::from(is(spans, Kind::Messages, Some(0)));
            figures.delegated_ns += copies;
            hidden += copies * u64::from(computes);
        }
    }
    figures.hidden_ns = (figures.computing_ns > 0).then_some(hidden);
    figures
}

proptest! {
    #[test]
    fn figures_are_what_sampling_says(
        scene in scenes(),
        moments in prop::collection::btree_set(0..HORIZON + 5, 0..5),
    ) {
        let expected = sampled(&scene);
        let moments: Vec<u64> = moments.into_iter().collect();
        let figures = cut(&scene, &moments);
        prop_assert_eq!(&figures.ranks, &[expected], "added up at {:?}", moments);
        let rank = &figures.ranks[0];
        prop_assert!(rank.hidden_ns <= Some(rank.delegated_ns) && rank.waited_ns <= rank.exposed_ns);
    }

    #[test]
    fn rates_are_found_whatever_part_of_an_interval_was_busy(
        lengths in prop::collection::vec((1u64..2_000_000, 0u64..2_000_000), 4..30),
        slowed in -0.5f64..0.9,
    ) {
        let (idle_rate, busy_rate) = (1e6, 1e6 * (1.0 - slowed));
        let (mut own, mut copies, mut now) = (Vec::new(), Vec::new(), 0);
        for (idle, busy) in lengths.into_iter().chain([(1_000_000, 0), (0, 1_000_000)]) {
            let work = idle_rate * idle as f64 / 1e9 + busy_rate * busy as f64 / 1e9;
            own.push(units(now, now + idle + busy, work));
            copies.push(span(Kind::Copy, now + idle, now + idle + busy, None));
            now += idle + busy;
        }
        let found = report(&[(Track::rank(3), own), (Track::kt(0), copies)]);
        let slowdown = found.ranks[0].slowdown.unwrap();
        prop_assert!((slowdown.slowed() - slowed).abs() < 1e-6, "{:?}", slowdown);
    }
}

#[test]
fn a_slowdown_needs_both_sides() {
    let busy = |until| (Track::kt(0), vec![span(Kind::Copy, 0, until, None)]);
    let slowdown = |computing: Vec<Span>, until| {
        report(&[(Track::rank(0), computing), busy(until)]).ranks[0].slowdown
    };
    let two = || vec![units(0, 1000, 10.0), units(1000, 2000, 20.0)];
    assert_eq!(slowdown(two(), 0), None, "never busy");
    assert_eq!(slowdown(two(), 2000), None, "always busy");
    assert_eq!(slowdown(vec![units(0, 1000, 10.0)], 500), None, "one interval, two unknowns");
    let found = slowdown(two(), 1000).unwrap();
    assert!((found.slowed() - 0.5).abs() < 1e-9 && found.seconds_busy == 1e-6, "{found:?}");
    // Work that makes no sense gives no rates.
    assert_eq!(slowdown(vec![units(0, 1000, -1.0), units(1000, 2000, 2.0)], 1000), None);
    // Time of the rank's own sends within an interval is not computation.
    let mut computing = two();
    computing.push(span(Kind::Send, 1500, 2000, None));
    let found = slowdown(computing, 1000).unwrap();
    assert!((found.units_per_second_idle - 20.0 / 500e-9).abs() < 1.0, "{found:?}");
}

#[test]
fn a_send_hidden_behind_computation() {
    let rank = vec![
        span(Kind::Delegate, 100, 110, Some(2)),
        span(Kind::Compute, 110, 1100, Some(2)),
        span(Kind::Wait, 1100, 1200, Some(2)),
    ];
    let kt = vec![span(Kind::Copy, 200, 1200, Some(2)), span(Kind::Idle, 0, 200, None)];
    let report = report(&[(Track::rank(2), rank), (Track::kt(0), kt)]);
    let found = &report.ranks[0];
    assert_eq!((found.rank, found.delegated_ns, found.hidden_ns), (2, 1000, Some(900)));
    assert_eq!((found.exposed_ns, found.waited_ns, found.inline_ns), (110, 100, 0));
    assert_eq!(found.hidden_part(), Some(0.9));
    let table = report.to_string();
    let rows: Vec<&str> = table.lines().collect();
    let heads = "rank  sending  inline  tagged by threads  tagged in calls  hidden         exposed  waiting  computing slowed";
    let figures = "   2   1.0 µs    0 ns               0 ns             0 ns  900 ns  90.0%   110 ns   100 ns                 -";
    assert_eq!(rows, [heads, figures]);
}

#[test]
fn only_what_a_processor_computed_hides() {
    let kt = || (Track::kt(0), vec![span(Kind::Copy, 0, 1000, Some(0))]);
    let waited = vec![span(Kind::Wait, 0, 1000, None)];
    let silent = report(&[(Track::rank(0), waited), kt()]);
    assert_eq!((silent.ranks[0].hidden_ns, silent.ranks[0].hidden_part()), (None, None));
    let row = silent.to_string();
    let cells: Vec<&str> = row.lines().nth(1).unwrap().split("  ").map(str::trim).collect();
    let cells: Vec<&str> = cells.into_iter().filter(|cell| !cell.is_empty()).collect();
    assert_eq!(cells, ["0", "1.0 µs", "0 ns", "0 ns", "0 ns", "-", "-", "1.0 µs", "1.0 µs", "-"]);
    // The thread had a processor for half of the time, and waited within.
    let mut computing = span(Kind::Compute, 0, 1000, None);
    computing.detail.cpu_ns = Some(500);
    let own = vec![span(Kind::Wait, 800, 1000, None), computing];
    let scene = [(Track::rank(0), own), kt()];
    for moments in [&[][..], &[100, 900]] {
        let report = cut(&scene, moments);
        let found = &report.ranks[0];
        assert_eq!((found.hidden_ns, found.computing_ns, found.waited_ns), (Some(400), 400, 200));
    }
}

#[test]
fn reports_are_merged_and_carried() {
    let one = report(&[(Track::rank(1), vec![span(Kind::Send, 0, 5, None)])]);
    let two = OverlapReport { lost_spans: 3, ..report(&[(Track::rank(0), vec![])]) };
    let merged = OverlapReport::merge([one, two]);
    assert_eq!(merged.ranks.iter().map(|rank| rank.rank).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(merged.ranks[1].sending_ns(), 5);
    assert!(merged.to_string().ends_with("\n3 spans are not counted"));
    let json = serde_json::to_string(&merged).unwrap();
    assert_eq!(serde_json::from_str::<OverlapReport>(&json).unwrap(), merged);
    let bytes = postcard::to_stdvec(&merged).unwrap();
    assert_eq!(postcard::from_bytes::<OverlapReport>(&bytes).unwrap(), merged);
    assert_eq!(OverlapReport::default().to_string().lines().count(), 1);
}
