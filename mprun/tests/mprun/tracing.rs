//! `mprun trace-svg` on traces of Onchip and of other tools.

use std::{fs, path::Path};

use onchip::trace::{Detail, Kind, Recording, Trace, Track};

use super::harness::{Done, mprun};

super::trials![
    a_recorded_trace_becomes_a_picture,
    a_part_of_a_trace_can_be_drawn,
    files_that_are_no_traces_are_named_with_the_reason,
    traces_of_other_tools_are_drawn,
    the_picture_must_have_a_place,
];

/// Records a trace of two ranks in separate processes, and of the communication thread of one of them.
fn recorded() -> Trace {
    let part = |rank: usize| {
        let recording = Recording::trace();
        let recorder = recording.recorder(Track::rank(rank).in_process_of(rank));
        let start = 1_000_000_000;
        let flow = recorder.flow();
        let message = Detail::message(rank, 1 - rank, 1 << 20).on(recording.name("frames"));
        recorder.span(Kind::Compute, start, start + 200_000, Detail::default());
        recorder.span(Kind::Delegate, start + 200_000, start + 201_000, message.of(flow));
        if rank == 0 {
            let kt = recording.recorder(Track::kt(0).in_process_of(rank));
            kt.span(Kind::Copy, start + 202_000, start + 300_000, message.of(flow));
        }
        recording.take_trace()
    };
    Trace::merge([part(0), part(1)])
}

fn draw(file: &Path, options: &[&str]) -> Done {
    mprun(&[&["trace-svg", file.to_str().unwrap()], options].concat()).done()
}

fn a_recorded_trace_becomes_a_picture() {
    let folder = tempfile::tempdir().unwrap();
    let (json, svg) = (folder.path().join("farm.json"), folder.path().join("farm.svg"));
    recorded().write_chrome(fs::File::create(&json).unwrap()).unwrap();
    let done = draw(&json, &[]).expect_code(0);
    assert!(done.out.starts_with("<svg ") && done.out.ends_with("</svg>\n"), "{done:#?}");
    for text in [
        "process of rank 0",
        "rank 0",
        "KT 0",
        "rank 1",
        "compute",
        "delegate",
        "copy",
        "time (µs)",
    ] {
        assert!(done.out.contains(&format!(">{text}</text>")), "no {text} in {done:#?}");
    }
    assert!(!done.out.contains(">send<"), "not in the trace");

    let options = ["-o", svg.to_str().unwrap(), "--arrows", "--title", "A & B", "--width", "700"];
    let quiet = draw(&json, &options).expect_code(0);
    assert!(quiet.out.is_empty() && quiet.err.is_empty(), "{quiet:#?}");
    let svg = fs::read_to_string(svg).unwrap();
    assert!(svg.contains("width=\"700\"") && svg.contains(">A &amp; B</text>"), "{svg}");
    assert_eq!(svg.matches("x2=").count(), done.out.matches("x2=").count() + 1, "one arrow");
}

fn a_part_of_a_trace_can_be_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("farm.json");
    recorded().write_chrome(fs::File::create(&json).unwrap()).unwrap();
    let done = draw(&json, &["--from", "0.25", "--to", "9"]).expect_code(0);
    assert!(done.out.contains(">copy<") && !done.out.contains(">compute<"), "{done:#?}");
    let done = draw(&json, &["--from", "5"]).expect_code(2);
    assert!(done.out.is_empty());
    done.expect_err("farm.json is 0.3 ms long");
    draw(&json, &["--from", "0.2", "--to", "0.1"]).expect_code(2);
    for wrong in [["--from", "-1"], ["--to", "soon"], ["--width", "10"], ["--to", "NaN"]] {
        draw(&json, &wrong).expect_code(2);
    }
}

fn files_that_are_no_traces_are_named_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let whole = {
        let mut json = Vec::new();
        recorded().write_chrome(&mut json).unwrap();
        json
    };
    for (name, content, reason) in [
        ("empty", &b""[..], "empty"),
        ("short", &whole[..whole.len() / 2], "truncated: "),
        ("binary", &b"\x1f\x8b\x08\x00\xff"[..], "no trace: not even text"),
        ("text", &b"rank 0: 3 ms"[..], "no JSON: "),
        ("foreign", &b"{\"frames\": [1, 2]}"[..], "no trace: an object without \"traceEvents\""),
        ("idle", &b"{\"traceEvents\": []}"[..], "has no spans to draw"),
        ("broken", &b"[{\"ph\":\"X\",\"ts\":true}]"[..], "event 0 has a \"ts\" that is no time"),
    ] {
        let file = folder.path().join(name);
        fs::write(&file, content).unwrap();
        let out = folder.path().join("out.svg");
        let done = draw(&file, &["-o", out.to_str().unwrap()]).expect_code(125);
        assert!(done.out.is_empty() && !out.exists(), "{done:#?}");
        done.expect_err(&format!("mprun: {}: {reason}", file.display()));
    }
    let missing = folder.path().join("missing");
    draw(&missing, &[]).expect_code(125).expect_err("missing: No such file");
    draw(folder.path(), &[]).expect_code(125).expect_err("directory");
    mprun(&["trace-svg"]).done().expect_code(2);
}

fn traces_of_other_tools_are_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("other.json");
    // The format of programs that may be stopped at any time while they write.
    let events = r#"[
{"name":"parse","cat":"compiler","ph":"B","ts":1716239022000000,"pid":4711,"tid":"main"},
{"name":"memory","ph":"C","ts":1716239022000010,"pid":4711,"args":{"bytes":7}},
{"name":"parse","ph":"E","ts":1716239022000900,"pid":4711,"tid":"main"},
{"name":"link","ph":"X","ts":1716239022000900,"dur":2500,"pid":4711,"tid":"main"},
"#;
    fs::write(&file, events).unwrap();
    let done = draw(&file, &[]).expect_code(0);
    for text in ["thread main", "parse", "link", "time (µs)"] {
        assert!(done.out.contains(&format!(">{text}</text>")), "no {text} in {done:#?}");
    }
}

fn the_picture_must_have_a_place() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("farm.json");
    recorded().write_chrome(fs::File::create(&json).unwrap()).unwrap();
    draw(&json, &["-o", "/no/such/folder/farm.svg"])
        .expect_code(125)
        .expect_err("mprun: /no/such/folder/farm.svg: No such file");
}
