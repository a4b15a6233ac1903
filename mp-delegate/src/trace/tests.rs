//! Recordings from inside and from outside.

use super::{
    store::{On, lock},
    *,
};
use crate::overlap::OverlapReport;
use mp_core::{Channel, World};
use serde_json::Value;
use std::thread;
use std::time::Duration;

fn chrome(trace: &Trace) -> Value {
    let mut json = Vec::new();
    trace.write_chrome(&mut json).unwrap();
    serde_json::from_slice(&json).unwrap()
}

fn events<'a>(file: &'a Value, phase: &str) -> Vec<&'a Value> {
    let events = file["traceEvents"].as_array().unwrap();
    events.iter().filter(|event| event["ph"] == phase).collect()
}

#[test]
fn off_nothing_is_kept_and_no_clock_is_read() {
    let recording = Recording::off();
    let recorder = recording.recorder(Track::rank(0));
    let before = clock::READINGS.with(std::cell::Cell::get);
    for _ in 0..1000 {
        recorder.begin(Kind::Send).end(Detail::message(0, 1, 8));
        recorder.span(Kind::Copy, 0, 10, Detail::default());
        assert_eq!(recorder.compute(1.0, || 7), 7);
        assert!(recorder.flow().is_none() && recording.name("frames").is_none());
    }
    assert_eq!(clock::READINGS.with(std::cell::Cell::get), before);
    assert!(recording.take_trace().is_empty() && recording.overlap().ranks.is_empty());
    // The test whether it is on is that of one pointer.
    assert_eq!(size_of::<Option<On>>(), size_of::<On>());
    assert!(!Recorder::default().is_on() && !Recording::default().is_on());
}

#[test]
fn measuring_keeps_no_spans() {
    let recording = Recording::measure();
    let recorder = recording.recorder(Track::rank(4));
    recorder.span(Kind::Send, now(), now() + 10, Detail::default());
    drop(recorder.begin(Kind::Send));
    assert!(recorder.flow().is_none());
    let trace = recording.take_trace();
    assert!(trace.is_empty());
    assert_eq!(trace.dropped(), 0);
    assert_eq!(recording.overlap().ranks[0].rank, 4);
}

#[test]
fn a_full_track_counts_what_it_drops() {
    let recording = Recording::keeping(3);
    let recorder = recording.recorder(Track::rank(0));
    for at in 0..5 {
        recorder.span(Kind::Send, at, at + 1, Detail::default());
    }
    let trace = recording.take_trace();
    assert_eq!((trace.tracks[0].spans.len(), trace.tracks[0].dropped), (3, 2));
    assert_eq!(chrome(&trace)["otherData"]["dropped_spans"]["world, rank 0"], 2);
    recorder.span(Kind::Send, 9, 10, Detail::default());
    assert_eq!(recording.take_trace().tracks[0].spans.len(), 1, "new room");
}

#[test]
fn spans_end_in_every_way_and_nest() {
    let recording = Recording::trace();
    let recorder = recording.recorder(Track::rank(0));
    let sum = recorder.compute(2.0, || {
        recorder.begin(Kind::Send).end(Detail::message(0, 1, 8));
        drop(recorder.begin(Kind::Wait));
        5
    });
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        recorder.compute(f64::NAN, || panic!("in the middle"))
    }));
    assert!(sum == 5 && panicked.is_err());
    recorder.span(Kind::Send, 20, 10, Detail::default());
    let trace = recording.take_trace();
    let spans = &trace.tracks[0].spans;
    let kinds: Vec<Kind> = spans.iter().map(|span| span.kind).collect();
    assert_eq!(kinds, [Kind::Send, Kind::Wait, Kind::Compute, Kind::Compute, Kind::Send]);
    assert!(spans[2].start <= spans[0].start && spans[1].end <= spans[2].end);
    assert_eq!((spans[2].detail.units, spans[3].detail.units), (Some(2.0), None));
    assert_eq!((spans[4].start, spans[4].end), (20, 20));
    assert!(spans.iter().all(|span| span.start <= span.end));
    assert!(lock(&recorder.0.unwrap().thread).open.is_empty(), "also after a panic");
}

#[test]
fn what_is_added_up_under_way_is_what_the_whole_trace_says() {
    let recording = Recording::keeping(1 << 20);
    let mut parts = Vec::new();
    thread::scope(|scope| {
        for rank in 0..2 {
            let recorder = recording.recorder(Track::rank(rank));
            scope.spawn(move || {
                for _ in 0..6000 {
                    recorder.compute(1.0, || drop(recorder.begin(Kind::Delegate)));
                    drop(recorder.begin(Kind::Wait));
                }
            });
        }
        let kt = recording.recorder(Track::kt(0));
        scope.spawn(move || {
            for message in 0..12_000 {
                kt.begin(Kind::Copy).end(Detail::message(message % 3, 1, 8));
            }
        });
        for _ in 0..20 {
            recording.overlap();
            parts.push(recording.take_trace());
            thread::yield_now();
        }
    });
    let report = recording.overlap();
    parts.push(recording.take_trace());
    let trace = Trace::merge(parts);
    let spans: Vec<usize> = trace.tracks.iter().map(|track| track.spans.len()).collect();
    assert_eq!(spans, [18_000, 18_000, 12_000]);
    let whole = OverlapReport::of(&trace);
    for (one, other) in report.ranks.iter().zip(&whole.ranks) {
        // Rates are fitted to the pieces, which differ.
        let exact = |rank: &crate::overlap::RankOverlap| {
            let mut rank = rank.clone();
            rank.slowdown = None;
            rank
        };
        assert_eq!(exact(one), exact(other));
    }
    assert_eq!((report.ranks.len(), report.lost_spans), (2, 0));
}

#[test]
fn an_open_span_holds_back_only_what_it_can_change() {
    let recording = Recording::measure();
    let (rank, kt) = (recording.recorder(Track::rank(0)), recording.recorder(Track::kt(0)));
    rank.begin(Kind::Send).end(Detail::default());
    let before = recording.overlap().ranks[0].exposed_ns;
    assert!(before > 0);
    let copying = kt.begin(Kind::Copy);
    let computing = rank.begin(Kind::Compute);
    for _ in 0..10_000 {
        drop(rank.begin(Kind::Wait));
    }
    drop(computing);
    assert_eq!(recording.overlap().ranks[0].exposed_ns, before, "the copy may have hidden it");
    copying.end(Detail::message(0, 1, 8));
    let report = recording.overlap();
    let found = &report.ranks[0];
    assert!(found.waited_ns > 0 && found.hidden_ns > Some(0) && report.lost_spans == 0, "{report}");
    assert!(found.hidden_ns.unwrap() + found.waited_ns <= found.delegated_ns);
}

#[test]
fn waits_are_recorded_once_and_only_with_a_recorder() {
    let world = World::solo().unwrap();
    let from = world.receiver::<u8>("bytes", 0, Channel::degree(1)).unwrap();
    let wait = || assert!(from.receive_timeout(Duration::from_millis(1)).is_err());
    let recording = Recording::trace();
    let recorder = recording.recorder(Track::rank(0));
    wait();
    recorder.compute(1.0, wait);
    let sending = recorder.begin(Kind::Send);
    wait();
    drop(sending);
    wait();
    let trace = recording.take_trace();
    let spans = &trace.tracks[0].spans;
    let kinds: Vec<Kind> = spans.iter().map(|span| span.kind).collect();
    assert_eq!(kinds, [Kind::Receive, Kind::Compute, Kind::Send, Kind::Receive]);
    assert!(spans[1].detail.cpu_ns.unwrap() < spans[1].end - spans[1].start, "{:?}", spans[1]);
    assert!(lock(&recorder.0.as_ref().unwrap().thread).open.is_empty());
    // Another recorder of the thread takes the place of the first.
    let other = recording.recorder(Track::rank(1));
    drop(other.begin(Kind::Send));
    wait();
    drop((recorder, other));
    wait();
    let spans: Vec<usize> = recording.take_trace().tracks.iter().map(|t| t.spans.len()).collect();
    assert_eq!(spans, [0, 2]);
    drop(recording);
    wait();
}

#[test]
fn parts_of_processes_are_merged() {
    let part = |rank: usize, channels: &[&str]| {
        let recording = Recording::trace();
        let recorder = recording.recorder(Track::rank(rank).in_process_of(rank));
        let kt = recording.recorder(Track::kt(0).in_process_of(rank));
        let start = 1000 * (2 - rank as u64);
        for channel in channels {
            let detail = Detail::message(rank, 1 - rank, 64).on(recording.name(channel));
            recorder.span(Kind::Send, start, start + 500, detail);
        }
        kt.span(Kind::Idle, start, start + 1, Detail::default());
        // The trace goes through bytes, as a rank's result does.
        let bytes = postcard::to_stdvec(&recording.take_trace()).unwrap();
        postcard::from_bytes::<Trace>(&bytes).unwrap()
    };
    let merged = Trace::merge([part(1, &["b", "a"]), part(0, &["a"]), part(0, &["c"])]);
    let lanes: Vec<String> =
        merged.tracks.iter().map(|track| track.track.lane.to_string()).collect();
    assert_eq!(lanes, ["rank 0", "KT 0", "rank 1", "KT 0"]);
    let file = chrome(&merged);
    let sends: Vec<&Value> =
        events(&file, "X").into_iter().filter(|event| event["name"] == "send").collect();
    let channels: Vec<&str> =
        sends.iter().map(|event| event["args"]["channel"].as_str().unwrap()).collect();
    assert_eq!(channels, ["a", "c", "b", "a"]);
    // Rank 1 began first: times count from there.
    assert_eq!((&sends[0]["ts"], &sends[2]["ts"]), (&1.0.into(), &0.0.into()));
    assert_eq!(sends[2]["dur"], 0.5);
    let names: Vec<&str> = events(&file, "M")
        .into_iter()
        .filter(|event| event["name"] == "process_name")
        .map(|event| event["args"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names[0], "process of rank 0");
    assert!(Trace::merge([]).is_empty());
}

#[test]
fn a_delegation_is_an_arrow() {
    let recording = Recording::trace();
    let (rank, kt) = (recording.recorder(Track::rank(0)), recording.recorder(Track::kt(0)));
    let name = recording.name("a \"quoted\"\nname \u{1}");
    assert_eq!(name, recording.name("a \"quoted\"\nname \u{1}"));
    let (one, two) = (rank.flow(), rank.flow());
    assert_ne!(one, two);
    rank.span(Kind::Delegate, 5, 6, Detail::message(0, 1, 8).on(name).of(one));
    rank.span(Kind::Compute, 0, 100, Detail::default());
    kt.span(Kind::Copy, 7, 9, Detail::message(0, 1, 8).of(one));
    let file = chrome(&recording.take_trace());
    let (from, to) = (events(&file, "s"), events(&file, "f"));
    assert_eq!((from.len(), to.len()), (1, 1));
    assert_eq!(from[0]["id"], to[0]["id"]);
    assert_eq!((&from[0]["ts"], &to[0]["ts"]), (&0.005.into(), &0.007.into()));
    assert_eq!(to[0]["bp"], "e");
    let spans = events(&file, "X");
    assert_eq!(spans[0]["name"], "compute", "the outer span first");
    assert_eq!(spans[1]["args"]["channel"], "a \"quoted\"\nname \u{1}");
    assert_eq!(spans[1]["args"]["bytes"], 8);
}

#[test]
fn an_empty_trace_is_a_file_too() {
    let file = chrome(&Trace::default());
    assert!(file["traceEvents"].as_array().unwrap().is_empty());
}

#[test]
fn writing_reports_its_errors() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let error = Trace::default().write_chrome(Full).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
}
