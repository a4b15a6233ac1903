//! Traces of many kinds, read and drawn.

use proptest::prelude::*;

use super::{
    draw::Picture,
    read::{Bar, Timeline, timeline},
};

fn read(text: &str) -> Timeline {
    timeline(text.as_bytes()).unwrap()
}

fn refused(text: &str) -> String {
    timeline(text.as_bytes()).unwrap_err()
}

fn draw(timeline: &Timeline) -> String {
    let picture = Picture {
        timeline,
        from: 0,
        to: timeline.length(),
        width: 800,
        arrows: true,
        title: Some("<a & \"b\">"),
    };
    picture.to_string()
}

/// The bars of all rows: `thread:name start-end depth`.
fn bars(timeline: &Timeline) -> Vec<String> {
    let bar = |row: &str, Bar { name, start, end, depth }: &Bar| {
        format!("{row}:{name} {start}-{end} {depth}")
    };
    let rows = timeline.rows.iter();
    rows.flat_map(|row| row.bars.iter().map(|of| bar(&row.name, of))).collect()
}

/// Checks that every tag is closed in order, every attribute is quoted, and nothing is left unescaped.
#[track_caller]
fn assert_well_formed(svg: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = svg;
    while let Some(at) = rest.find('<') {
        assert_text(&rest[..at]);
        let end = at + rest[at..].find('>').expect("a tag has an end");
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
            continue;
        }
        let name = tag.split([' ', '/']).next().unwrap();
        let quoted: Vec<&str> = tag.split('"').collect();
        assert!(quoted.len() % 2 == 1 && !tag.contains(['\n', '<']), "{tag}");
        quoted.iter().skip(1).step_by(2).for_each(|value| {
            assert_text(value);
            assert!(!value.contains("NaN") && !value.contains("inf"), "{tag}");
        });
        if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty() && rest == "\n", "{open:?} {rest:?}");
}

#[track_caller]
fn assert_text(text: &str) {
    assert!(!text.contains('>'));
    assert!(text.chars().all(|letter| letter >= ' ' || letter == '\n'), "{text:?}");
    for (at, _) in text.match_indices('&') {
        let entities = ["&amp;", "&lt;", "&gt;", "&quot;"];
        assert!(entities.iter().any(|entity| text[at..].starts_with(entity)), "{text:?}");
    }
}

#[test]
fn both_forms_and_both_kinds_of_spans() {
    let events = r#"
        {"ph":"X","name":"a","pid":1,"tid":1,"ts":10,"dur":4},
        {"ph":"B","name":"b","pid":1,"tid":2,"ts":11},
        {"ph":"X","name":"inner","pid":1,"tid":1,"ts":12,"dur":1.5},
        {"ph":"B","name":"c","pid":1,"tid":2,"ts":11.5},
        {"ph":"E","pid":1,"tid":2,"ts":12},
        {"ph":"E","pid":1,"tid":2,"ts":13}"#;
    let expected = [
        "thread 1:a 0-4000 0",
        "thread 1:inner 2000-3500 1",
        "thread 2:b 1000-3000 0",
        "thread 2:c 1500-2000 1",
    ];
    for text in [
        format!("[{events}]"),
        format!("{{\"traceEvents\":[{events}],\"displayTimeUnit\":\"ns\"}}"),
        format!("\u{feff}[{events}]\n"),
        format!("[{events}"),
        format!("[{events},\n"),
    ] {
        let timeline = read(&text);
        assert_eq!(bars(&timeline), expected, "{text}");
        assert_eq!(timeline.length(), 4000);
        assert_well_formed(&draw(&timeline));
    }
}

#[test]
fn spans_without_a_beginning_or_an_end() {
    let timeline = read(
        r#"[{"ph":"E","pid":1,"tid":1,"ts":1},
            {"ph":"B","name":"open","pid":1,"tid":1,"ts":5},
            {"ph":"X","name":"last","pid":1,"tid":2,"ts":6,"dur":3},
            {"ph":"X","pid":1,"tid":3,"ts":7}]"#,
    );
    let expected =
        ["thread 1:open 0-4000 0", "thread 2:last 1000-4000 0", "thread 3:(unnamed) 2000-2000 0"];
    assert_eq!(bars(&timeline), expected);
}

#[test]
fn threads_in_order_and_by_name() {
    let timeline = read(
        r#"[{"ph":"X","name":"x","pid":10,"tid":2,"ts":0,"dur":1},
            {"ph":"X","name":"x","pid":9,"tid":"worker","ts":0,"dur":1},
            {"ph":"X","name":"x","pid":9,"tid":10,"ts":0,"dur":1},
            {"ph":"X","name":"x","pid":9,"tid":9,"ts":0,"dur":1},
            {"ph":"X","name":"x","pid":8,"tid":1,"ts":0,"dur":1},
            {"ph":"X","name":"x","ts":"2.5","dur":1},
            {"ph":"M","name":"process_sort_index","pid":8,"args":{"sort_index":5}},
            {"ph":"M","name":"process_name","pid":8,"args":{"name":"eight"}},
            {"ph":"M","name":"thread_sort_index","pid":9,"tid":10,"args":{"sort_index":-1}},
            {"ph":"M","name":"thread_name","pid":9,"tid":10,"args":{"name":"ten"}},
            {"ph":"M","name":"thread_name","pid":9,"tid":99,"args":{"name":"idle"}},
            {"ph":"M","name":"thread_name","pid":9,"tid":9,"args":{}},
            {"ph":"C","name":"counter","pid":9,"tid":9,"ts":"soon"},
            {"ph":"i"}]"#,
    );
    let rows: Vec<(&str, &str)> =
        timeline.rows.iter().map(|row| (row.process.as_str(), row.name.as_str())).collect();
    assert_eq!(
        rows,
        [
            ("process ", "thread "),
            ("process 9", "ten"),
            ("process 9", "thread worker"),
            ("process 9", "thread 9"),
            ("process 10", "thread 2"),
            ("eight", "thread 1"),
        ]
    );
    let svg = draw(&timeline);
    assert!(svg.contains(">process 9</text>") && svg.contains(">eight</text>"), "{svg}");
    assert_well_formed(&svg);
}

#[test]
fn flows_are_arrows() {
    let timeline = read(
        r#"[{"ph":"X","name":"x","pid":0,"tid":1,"ts":0,"dur":9},
            {"ph":"X","name":"y","pid":0,"tid":2,"ts":0,"dur":9},
            {"ph":"f","id":1,"pid":0,"tid":2,"ts":1},
            {"ph":"s","id":1,"pid":0,"tid":1,"ts":2},
            {"ph":"s","id":"1","pid":0,"tid":2,"ts":3},
            {"ph":"t","id":1,"pid":0,"tid":2,"ts":4},
            {"ph":"f","id":1,"pid":0,"tid":1,"ts":5},
            {"ph":"f","id":1,"pid":7,"tid":7,"ts":6},
            {"ph":"f","id":1,"cat":"other","pid":0,"tid":1,"ts":7}]"#,
    );
    let arrows: Vec<_> = timeline.arrows.iter().map(|arrow| (arrow.from, arrow.to)).collect();
    assert_eq!(arrows, [((0, 2000), (1, 4000)), ((1, 4000), (0, 5000))]);
    let lines = |svg: &str| svg.matches("<line").count();
    let with = draw(&timeline);
    let without =
        Picture { timeline: &timeline, from: 0, to: 9000, width: 800, arrows: false, title: None };
    assert_eq!(lines(&with), lines(&without.to_string()) + 2);
    assert_well_formed(&with);
}

#[test]
fn what_is_no_trace_is_refused_with_the_reason() {
    for (text, reason) in [
        ("", "empty"),
        (" \n", "empty"),
        ("{}", "no trace: an object without \"traceEvents\""),
        ("{\"traceEvents\":7}", "no trace: \"traceEvents\" is no array"),
        ("3", "no trace: neither an array nor an object"),
        ("\"[]\"", "no trace: neither an array nor an object"),
        ("[]", "has no spans to draw"),
        ("[", "has no spans to draw"),
        ("[{\"ph\":\"M\",\"name\":\"thread_name\"}]", "has no spans to draw"),
        ("[7]", "event 0 is no object"),
        ("[{\"ph\":\"i\"},{\"name\":\"Ann\",\"age\":30}]", "event 1 has no \"ph\""),
        ("[{\"ph\":\"X\",\"dur\":1}]", "event 0 has no \"ts\""),
        ("[{\"ph\":\"X\",\"ts\":[]}]", "event 0 has a \"ts\" that is no time: []"),
        ("[{\"ph\":\"X\",\"ts\":1e300}]", "event 0 has a \"ts\" that is no time: 1e+300"),
        ("[{\"ph\":\"X\",\"ts\":\"NaN\"}]", "event 0 has a \"ts\" that is no time: \"NaN\""),
        ("[{\"ph\":\"X\",\"ts\":1,\"dur\":-1}]", "event 0 has a negative \"dur\""),
        ("[{\"ph\":\"X\",\"ts\":1,\"dur\":null}]", "event 0 has a \"dur\" that is no time: null"),
        ("pid,tid,ts\n1,2,3", "no JSON: "),
        ("<svg/>", "no JSON: "),
        ("[{\"ph\":\"X\",\"ts\":1,", "truncated: "),
        ("{\"traceEvents\":[{\"ph\":\"X\",\"ts\":1}", "truncated: "),
        ("{\"traceEvents\":[{\"name\":\"caf", "truncated: "),
    ] {
        let found = refused(text);
        assert!(found.starts_with(reason), "{text}: {found}");
        assert!(!reason.ends_with(|last: char| last != ' ') || found == reason, "{text}: {found}");
    }
    assert!(timeline(b"[{\"ph\":\"\xff\xfe\"}]").unwrap_err().contains("not even text"));
    assert!(
        timeline("[{\"ph\":\"é".as_bytes().split_last().unwrap().1)
            .unwrap_err()
            .starts_with("truncated")
    );
    assert!(refused(&"[".repeat(1000)).starts_with("no JSON: recursion limit"));
}

#[test]
fn the_category_is_drawn_if_it_is_a_kind() {
    let text = r#"[{"ph":"X","name":"MPI_Send","cat":"send","ts":1,"dur":2},
        {"ph":"B","name":"MPI_Wait","cat":"wait","ts":3},{"ph":"E","ts":5},
        {"ph":"X","name":"parse","cat":"compiler","ts":5,"dur":1}]"#;
    assert_eq!(
        bars(&read(text)),
        ["thread :send 0-2000 0", "thread :wait 2000-4000 0", "thread :parse 4000-5000 0"]
    );
}

#[test]
fn ends_of_ranks_are_marked() {
    let text = r#"[{"ph":"X","name":"send","ts":1,"dur":2,"tid":1},
        {"ph":"i","s":"t","cat":"end","name":"killed <by> a signal","ts":5,"tid":1},
        {"ph":"i","cat":"end","name":"early","ts":2,"tid":1},
        {"ph":"i","s":"t","cat":"end","name":"of nobody","ts":2,"tid":2},
        {"ph":"i","cat":"frame","name":"of another tool","ts":2,"tid":1},
        {"ph":"i"}]"#;
    let timeline = read(text);
    let marks: Vec<_> = timeline.marks.iter().map(|mark| (mark.at, &*mark.text)).collect();
    assert_eq!(marks, [((0, 1000), "early"), ((0, 4000), "killed <by> a signal")]);
    assert_eq!(timeline.length(), 4000);
    let svg = draw(&timeline);
    assert_well_formed(&svg);
    assert!(svg.contains(">early</text>") && svg.contains("killed &lt;by&gt; a signal"), "{svg}");
    assert!(!svg.contains("of another tool") && !svg.contains("of nobody"), "{svg}");
}

#[test]
fn what_is_left_out_is_said() {
    let text = r#"{"traceEvents":[{"ph":"X","name":"send","ts":1,"dur":1}],
        "otherData":{"dropped_spans":{"world, rank 0":7,"world, rank 1":1}}}"#;
    assert!(draw(&read(text)).contains("8 spans were not kept"));
}

#[test]
fn known_kinds_have_their_colours_and_others_get_some() {
    let event = |name: &str, length: usize| {
        format!("{{\"ph\":\"X\",\"name\":\"{name}\",\"ts\":{length},\"dur\":{length}}}")
    };
    let mut events = vec![event("collective", 1), event("copy", 1), event("compute", 1)];
    let svg = draw(&read(&format!("[{}]", events.join(","))));
    let place = |name: &str| svg.find(&format!(">{name}<")).unwrap();
    assert!(place("compute") < place("copy") && place("copy") < place("collective"), "{svg}");
    assert!(["#009e73", "#0072b2", "#332288"].iter().all(|colour| svg.contains(colour)), "{svg}");
    assert!(!svg.contains(">other<"));
    events.extend((1..20).map(|index| event(&format!("foreign {index}"), index)));
    let svg = draw(&read(&format!("[{}]", events.join(","))));
    assert!(
        svg.contains(">foreign 19<") && svg.contains(">foreign 12<") && svg.contains(">other<")
    );
    assert!(!svg.contains(">foreign 11<"), "the shorter ones share a colour");
    assert_well_formed(&svg);
}

#[test]
fn names_are_escaped_and_cut() {
    let name = r#"<script>\"&\u0001'\n"#;
    let text = format!(
        "[{{\"ph\":\"X\",\"name\":\"{name}\",\"pid\":0,\"tid\":0,\"ts\":1}},\
         {{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":0,\"tid\":0,\"args\":{{\"name\":\"{}\"}}}}]",
        "ü".repeat(300)
    );
    let svg = draw(&read(&text));
    assert_well_formed(&svg);
    assert!(svg.contains("&lt;script&gt;&quot;&amp;\u{fffd}' "), "{svg}");
    assert!(svg.contains(&format!(">{}…</text>", "ü".repeat(27))), "{svg}");
}

#[test]
fn a_long_trace_is_no_large_picture() {
    let events: Vec<String> = (0..100_000)
        .map(|at| {
            let name = ["send", "compute", "wait"][at % 3];
            format!("{{\"ph\":\"X\",\"name\":\"{name}\",\"ts\":{at},\"dur\":0.5}}")
        })
        .collect();
    let svg = draw(&read(&format!("[{}]", events.join(","))));
    assert!(svg.len() < 200_000, "{}", svg.len());
}

#[test]
fn the_axis_has_round_numbers_and_a_unit() {
    let svg = |length: &str, from: i64, to: i64| {
        let timeline =
            read(&format!("[{{\"ph\":\"X\",\"name\":\"x\",\"ts\":0,\"dur\":{length}}}]"));
        let to = to.min(timeline.length());
        let picture =
            Picture { timeline: &timeline, from, to, width: 800, arrows: false, title: None };
        picture.to_string()
    };
    for (length, tick, unit) in [
        ("0", ">1<", "(ns)"),
        ("0.001", ">1<", "(ns)"),
        ("9", ">2000<", "(ns)"),
        ("120", ">20<", "(µs)"),
        ("45000", ">10<", "(ms)"),
        ("10000000", ">2<", "(s)"),
        ("1e15", ">200000000<", "(s)"),
    ] {
        let svg = svg(length, 0, i64::MAX);
        assert!(svg.contains(tick) && svg.contains(unit), "{length}: {svg}");
        let ticks = svg.matches("stroke=\"#e4e4e4\"").count();
        assert!((2..=13).contains(&ticks), "{length}: {ticks}");
    }
    let part = svg("45000", 12_000_000, 12_500_000);
    assert!(
        part.contains(">12.1<") && part.contains(">12.5<") && !part.contains(">11.9<"),
        "{part}"
    );
}

fn event() -> impl Strategy<Value = String> {
    let phase = prop::sample::select(vec!["X", "B", "E", "M", "s", "t", "f", "i", ""]);
    let number = || {
        prop_oneof![
            (0i64..50).prop_map(|number| number.to_string()),
            any::<f64>().prop_map(|number| format!("\"{number}\"")),
            (-3e15f64..3e15).prop_map(|number| format!("{number:e}")),
            Just("null".to_owned()),
        ]
    };
    (phase, number(), number(), 0..3, 0..3, "\\PC{0,3}").prop_map(
        |(phase, ts, dur, pid, tid, name)| {
            let name = serde_json::to_string(&name).unwrap();
            format!(
                "{{\"ph\":\"{phase}\",\"ts\":{ts},\"dur\":{dur},\"pid\":{pid},\"tid\":{tid},\
                 \"id\":1,\"name\":{name},\"args\":{{\"name\":{name}}}}}"
            )
        },
    )
}

proptest! {
    #[test]
    fn any_events_are_drawn_or_refused(events in prop::collection::vec(event(), 0..12)) {
        if let Ok(timeline) = timeline(format!("[{}]", events.join(",")).as_bytes()) {
            for row in &timeline.rows {
                let sound = |bar: &Bar| 0 <= bar.start && bar.start <= bar.end;
                prop_assert!(row.bars.iter().all(sound), "{:?}", row);
            }
            assert_well_formed(&draw(&timeline));
        }
    }

    #[test]
    fn any_part_of_a_file_is_drawn_or_refused(
        is_object: bool,
        cut in 0usize..300,
        changed in prop::option::of((0usize..300, any::<u8>())),
    ) {
        let events = r#"[{"ph":"X","name":"send","pid":0,"tid":1,"ts":10.5,"dur":4},
            {"ph":"B","name":"naïve","pid":0,"tid":2,"ts":11},
            {"ph":"E","pid":0,"tid":2,"ts":12}]"#;
        let mut bytes = if is_object {
            format!("{{\"traceEvents\":{events}}}").into_bytes()
        } else {
            events.as_bytes().to_vec()
        };
        if let Some((at, byte)) = changed {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        bytes.truncate(cut);
        if let Ok(timeline) = timeline(&bytes) {
            assert_well_formed(&draw(&timeline));
        }
    }
}

/// The times are as far apart as 64 bits of nanoseconds allow.
#[test]
fn the_longest_traces_are_drawn() {
    let longest = r#"[
        {"ph":"X","ts":2.878e15,"dur":2.868e15,"pid":0,"tid":0,"name":"late"},
        {"ph":"X","ts":-2.915e15,"dur":0,"pid":0,"tid":0,"name":"early"}
    ]"#;
    assert_well_formed(&draw(&read(longest)));
}
