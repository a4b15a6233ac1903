//! Runs the built example as a user does, and compares with algorithm 1 in its own words.

use std::fs;
use std::path::Path;

use example_support::program;
use stencil::init::Init;
use stencil::report::Report;

/// Every mode with every kind of ranks it works with.
const MODES: [(&str, &str); 6] = [
    ("sh-mem", "threads"),
    ("no-kt", "threads"),
    ("no-kt", "processes"),
    ("kt-w", "threads"),
    ("kt-w", "processes"),
    ("skt", "threads"),
];

/// Runs a command that must succeed, and returns standard output.
fn run_well(arguments: &[&str]) -> String {
    String::from_utf8(program::run_well("stencil", arguments).stdout).unwrap()
}

/// Algorithm 1 on one worker, with zeros around; stops when nothing changes by more than
/// `tolerance`. Returns the matrix as a file, and the number of steps.
fn reference(cells: &[f64], size: usize, steps: usize, tolerance: f64) -> (Vec<u8>, usize) {
    let mut a = cells.to_vec();
    let mut taken = 0;
    while taken < steps {
        let at = |i: usize, j: usize| {
            // From 1; 0 and size + 1 are outside.
            let inside = (1..=size).contains(&i) && (1..=size).contains(&j);
            if inside { a[(i - 1) * size + j - 1] } else { 0.0 }
        };
        let mut next = Vec::with_capacity(a.len());
        for i in 1..=size {
            for j in 1..=size {
                let sum = at(i, j) + at(i - 1, j) + at(i + 1, j) + at(i, j - 1) + at(i, j + 1);
                next.push(sum / 5.0);
            }
        }
        taken += 1;
        let changed = a.iter().zip(&next).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        a = next;
        if changed <= tolerance {
            break;
        }
    }
    (bytes(&a), taken)
}

fn bytes(cells: &[f64]) -> Vec<u8> {
    cells.iter().flat_map(|cell| cell.to_le_bytes()).collect()
}

fn pattern(size: usize) -> Vec<f64> {
    Init::pattern(size).block(0..size, 0..size).unwrap()
}

/// Returns numbers of both signs, large and small, whose sum depends on the order of adding.
fn rough(size: usize) -> Vec<f64> {
    let cell = |i: usize| ((i * 7919 + 13) % 1009) as f64 - 504.0;
    (0..size * size).map(|i| cell(i) * 10f64.powi((i % 17) as i32 - 8)).collect()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn every_mode_gives_the_bits_of_algorithm_1() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    for (size, steps) in [(1, 3), (2, 1), (7, 0), (7, 5), (37, 11)] {
        let cells = rough(size);
        fs::write(&input, bytes(&cells)).unwrap();
        let (expected, _) = reference(&cells, size, steps, -1.0);
        let steps = steps.to_string();
        let same = |how: &[&str]| {
            let what = ["--init", text(&input), "--steps", &steps, "--output", text(&output)];
            run_well(&[&what, how].concat());
            assert!(fs::read(&output).unwrap() == expected, "{size} by {size}, {steps}: {how:?}");
            fs::remove_file(&output).unwrap();
        };
        same(&["--mode", "sequential"]);
        for (mode, ranks) in MODES {
            // Twelve are two groups of mode skt.
            for workers in ["1", "2", "3", "12"] {
                same(&["--mode", mode, "--ranks", ranks, "--workers", workers]);
            }
        }
        for grid in ["1x1", "2x1", "1x2", "2x2", "3x2", "2x4"] {
            for ranks in ["threads", "processes"] {
                let parts = grid.split('x').map(|part| part.parse::<usize>().unwrap());
                if parts.max().unwrap() <= size {
                    same(&["--grid", grid, "--ranks", ranks]);
                }
            }
        }
    }
}

/// Workers are killed; the others go on, and the matrix is that of an undisturbed run.
#[test]
fn survivors_of_lost_workers_finish_with_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let [input, output] = ["in", "out"].map(|name| folder.path().join(name));
    let size = 37;
    let cells = rough(size);
    fs::write(&input, bytes(&cells)).unwrap();
    for steps in [0, 1, 25] {
        let (expected, _) = reference(&cells, size, steps, -1.0);
        let steps_text = steps.to_string();
        let same = |how: &[&str]| {
            let what = ["-i", text(&input), "-t", &steps_text, "-o", text(&output)];
            let said = run_well(&[&what[..], &["-m", "survivors"], how].concat());
            assert!(fs::read(&output).unwrap() == expected, "{steps} steps: {how:?}");
            fs::remove_file(&output).unwrap();
            said
        };
        for workers in ["1", "2", "5", "40"] {
            same(&["-w", workers, "-r", "threads"]);
        }
        same(&["-w", "3", "-r", "processes"]);
        if steps < 25 {
            continue;
        }
        // Before and after checkpoints, the first worker too, one after the other, and two neighbours at
        // once, with whom their rows are lost.
        for (lose, workers, told) in [
            ("1@0", "2", "1 of 2 workers are left, and go on after step 0"),
            ("1@7", "3", "2 of 3 workers are left, and go on after step 0"),
            ("0@10", "4", "3 of 4 workers are left, and go on after step 10"),
            ("2@24", "3", "2 of 3 workers are left, and go on after step 20"),
            ("2@12,0@21", "4", "2 of 4 workers are left, and go on after step 20"),
            ("0@5,2@5", "4", "2 of 4 workers are left, and go on after step 0"),
            ("1@15,2@15", "4", "2 of 4 workers are left, and go on after step 0"),
            ("1@3,2@13,5@24", "6", "3 of 6 workers are left, and go on after step 20"),
            ("1@3,5@22,6@23", "8", "5 of 8 workers are left, and go on after step 0"),
        ] {
            let said = same(&["-w", workers, "--lose", lose]);
            assert!(said.contains(told), "{lose}: {said}");
            assert!(said.contains("25 steps of 37 by 37"), "{lose}: {said}");
        }
        let said = same(&["-w", "5", "--lose", "3@17", "--checkpoint", "4"]);
        assert!(said.contains("4 of 5 workers are left, and go on after step 16"), "{said}");
    }
}

#[test]
fn rows_wider_than_vectors() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out");
    let (expected, _) = reference(&pattern(203), 203, 9, -1.0);
    for how in [&["-m", "sequential"][..], &["-m", "no-kt", "-w", "2"], &["--grid", "2x3"]] {
        let what = ["--size", "203", "--steps", "9", "--output", text(&output)];
        run_well(&[&what, how].concat());
        assert!(fs::read(&output).unwrap() == expected, "{how:?}");
    }
}

#[test]
fn small_changes_end_every_mode_after_the_same_step() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out");
    let (size, tolerance) = (13, 0.004);
    let (expected, steps) = reference(&pattern(size), size, 1000, tolerance);
    assert!((2..1000).contains(&steps));
    let what = ["-s", "13", "-t", "1000", "--tolerance", "0.004", "-o", text(&output)];
    let mut ways = vec![vec!["-m", "sequential"]];
    ways.extend(MODES.map(|(mode, ranks)| vec!["-m", mode, "-r", ranks, "-w", "3"]));
    ways.push(vec!["-m", "no-kt", "-w", "15"]);
    ways.push(vec!["--grid", "2x3"]);
    ways.push(vec!["--grid", "3x2", "-r", "processes"]);
    for how in ways {
        let said = run_well(&[&what[..], &how].concat());
        assert!(said.contains(&format!(" {steps} steps of 13 by 13 ")), "{said}");
        assert!(fs::read(&output).unwrap() == expected, "{how:?}");
    }
    // A matrix that does not change any more takes no further steps.
    fs::write(&output, bytes(&[0.0; 25])).unwrap();
    let said = run_well(&["-m", "sh-mem", "-i", text(&output), "--tolerance", "0"]);
    assert!(said.contains(" 1 step of 5 by 5 "), "{said}");
}

#[test]
fn all_compares_measures_and_draws() {
    let folder = tempfile::tempdir().unwrap();
    let [output, png, json] =
        ["out", "heat.png", "table.json"].map(|name| folder.path().join(name));
    let files = ["-o", text(&output), "--png", text(&png), "--json", text(&json)];
    let said =
        run_well(&[&["-s", "21", "-t", "6", "-w", "1,2,4", "--rounds", "2"], &files[..]].concat());
    assert!(
        said.contains("21 by 21") && said.contains("the sequential one, bit for bit"),
        "{said}"
    );
    // One alone, and for each number of workers five by threads and three by processes.
    let rows = said.lines().filter(|line| line.starts_with('|') && line.contains("threads"));
    assert_eq!(rows.count(), 15, "{said}");
    assert!(said.contains("grid 2x2, processes"), "{said}");
    let report: Report = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert_eq!((report.rows.len(), report.steps, report.rounds), (25, 6, 2));
    assert!(report.compared && report.rows.iter().all(|row| row.time_ms > 0.0));
    assert!(report.rows.iter().all(|row| row.scalability.is_some_and(|s| s > 0.0)));
    let (expected, _) = reference(&pattern(21), 21, 6, -1.0);
    assert!(fs::read(&output).unwrap() == expected);
    let picture = image::open(&png).unwrap();
    assert_eq!((picture.width(), picture.height()), (21, 21));
    // The heat map in letters is as wide as the matrix.
    assert!(said.lines().filter(|line| line.len() == 21).count() > 5, "{said}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);

    let said =
        run_well(&["-s", "3", "-t", "0", "-w", "1,5", "--rounds", "1", "-r", "threads", "-q"]);
    assert!(said.contains("From N = 5 on there are more workers than rows"), "{said}");
    assert!(!said.contains("processes") && !said.contains('@'), "{said}");
}

/// The programs in C come to the same matrix, which the example checks itself.
#[test]
fn other_programs_are_measured_where_they_are_installed() {
    let folder = tempfile::tempdir().unwrap();
    let (empty, json) = (folder.path().join("empty"), folder.path().join("table.json"));
    fs::create_dir(&empty).unwrap();
    let how = ["--peers", "-s", "20", "-t", "3", "-w", "2,21", "--rounds", "1", "-q", "-r"];
    let report = |path: Option<&Path>| -> Report {
        let mut command = program::command("stencil");
        command.args(how).args(["threads", "--json", text(&json)]);
        if let Some(path) = path {
            command.env("PATH", path).env("ONCHIP_PEERS", path);
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&fs::read(&json).unwrap()).unwrap()
    };
    // With an empty path and an empty folder of libraries, all are missing, with the reason.
    let without = report(Some(&empty));
    let missing = |report: &Report| {
        report.remarks.iter().filter(|remark| remark.starts_with("Not measured: ")).count()
    };
    assert!(without.rows.iter().all(|row| row.peer.is_none()) && missing(&without) == 6);
    assert!(without.remarks.iter().any(|remark| remark.contains("OpenMP: not installed (no gcc)")));

    // Those that are here have a row for each number of workers up to that of rows.
    let with = report(None);
    let peers: Vec<_> = with.rows.iter().filter(|row| row.peer.is_some()).collect();
    assert_eq!(peers.len(), 6 - missing(&with));
    assert!(peers.iter().all(|row| row.workers <= 20 && row.time_ms > 0.0));
    assert_eq!(with.rows.len(), without.rows.len() + peers.len());
}

#[test]
fn pictures_diffuse() {
    let folder = tempfile::tempdir().unwrap();
    let [input, output, png] = ["in.png", "out", "out.png"].map(|name| folder.path().join(name));
    let mut picture = image::GrayImage::new(5, 5);
    picture.put_pixel(2, 2, [255].into());
    picture.save(&input).unwrap();
    let cross = |fifth: f64| {
        let mut cells = [0.0; 25];
        for at in [12, 7, 11, 13, 17] {
            cells[at] = fifth;
        }
        bytes(&cells)
    };
    let files = ["-i", text(&input), "-o", text(&output), "--png", text(&png), "-t", "1"];
    run_well(&[&files[..], &["-m", "no-kt", "-w", "2", "-r", "processes"]].concat());
    assert!(fs::read(&output).unwrap() == cross(0.2));
    let heat = image::open(&png).unwrap().into_rgb8();
    assert_eq!((heat.get_pixel(2, 1).0, heat.get_pixel(0, 0).0), ([255; 3], [0; 3]));
    let said = run_well(&[&files[..], &["-m", "no-kt", "-s", "9"]].concat());
    assert!(said.contains("9 by 9") && fs::read(&output).unwrap().len() == 8 * 81, "{said}");
}

#[test]
fn a_trace_shows_who_did_what() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.json");
    let kinds = ["compute", "send", "receive", "delegate", "copy", "wait"];
    let expected = |mode| match mode {
        "sequential" => &kinds[..1],
        "sh-mem" => &["compute", "wait"],
        "no-kt" => &kinds[..3],
        _ => &["compute", "receive", "delegate", "copy"],
    };
    for (mode, ranks) in [("sequential", "threads")].into_iter().chain(MODES) {
        let how = ["-m", mode, "-r", ranks, "-w", if mode == "sequential" { "1" } else { "3" }];
        run_well(&[&["-s", "40", "-t", "4", "--trace", text(&trace)], &how[..]].concat());
        let spans: serde_json::Value = serde_json::from_slice(&fs::read(&trace).unwrap()).unwrap();
        let spans = spans.to_string();
        for kind in expected(mode) {
            assert!(spans.contains(&format!("\"name\":\"{kind}\"")), "{mode}, {ranks}: no {kind}");
        }
        let kts = (0..9).filter(|kt| spans.contains(&format!("\"KT {kt}\""))).count();
        assert_eq!(kts, if mode == "kt-w" { 3 } else { usize::from(mode == "skt") }, "{mode}");
    }
    run_well(&["-s", "9", "--grid", "2x2", "-r", "processes", "--trace", text(&trace)]);
    assert!(fs::read_to_string(&trace).unwrap().contains("\"rank 3\""));
}

#[test]
fn what_cannot_be_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        text(&path).to_owned()
    };
    let short = file("short", &[0; 24]);
    let cut = file("cut.png", b"\x89PNG\r\n\x1a\n");
    let nan = file("nan", &bytes(&[1.0, 2.0, 3.0, f64::NAN]));
    let before = fs::read_dir(folder.path()).unwrap().count();
    let out = folder.path().join("never");
    for (arguments, reason) in [
        (&["--size", "0"][..], "not a number from 1"),
        (&["--workers", "0"], "not a number from 1"),
        (&["--tolerance", "-1"], "not a number from 0"),
        (&["--tolerance", "nan"], "not a number from 0"),
        (&["--grid", "2"], "not two numbers"),
        (&["--grid", "2x2", "--mode", "no-kt"], "cannot be used with"),
        (&["--grid", "2x9", "--size", "5"], "a grid of 2x9 blocks for 5 by 5"),
        (&["--mode", "sh-mem", "--ranks", "processes"], "reads borders where they lie"),
        (
            &["--mode", "skt", "--ranks", "processes"],
            "communication threads that serve several workers",
        ),
        (&["--mode", "sequential", "--ranks", "processes"], "no other process"),
        (&["--mode", "sequential", "--workers", "2"], "has one worker"),
        (&["--mode", "no-kt", "--workers", "1,2"], "several numbers of --workers"),
        (&["--peers", "--mode", "no-kt"], "--peers is for --mode all"),
        (&["--peers", "--tolerance", "1"], "--peers goes without --tolerance"),
        (&["--lose", "1@3"], "--lose needs --mode survivors"),
        (&["--mode", "survivors", "--lose", "1"], "not a worker and a step"),
        (&["--mode", "survivors", "--lose", "2@3", "--workers", "2"], "nobody can lose 2@3"),
        (&["--mode", "survivors", "--lose", "1@100"], "nobody can lose 1@100"),
        (&["--mode", "survivors", "--lose", "1@3", "--ranks", "threads"], "--ranks processes"),
        (&["--mode", "survivors", "--tolerance", "1"], "without --tolerance"),
        (&["--trace", text(&out)], "choose one mode"),
        (&["--init", "no such file"], "no such file: "),
        (&["--init", &short], "no square of doubles"),
        (&["--init", &short, "--size", "2"], "are not the 32 of 2 by 2"),
        (&["--init", &cut], "cut.png: "),
        (&["--output", "no/such/folder/file"], "no/such/folder/file: "),
    ] {
        let said = program::run_badly("stencil", &[arguments, &["--json", text(&out)]].concat());
        assert!(said.contains(reason), "{arguments:?}: {said}");
    }
    let alone = [("sequential", "threads")];
    for (mode, ranks) in alone.into_iter().chain(MODES) {
        let how = ["--mode", mode, "--ranks", ranks, "--init", &nan, "--output", text(&out)];
        assert!(
            program::run_badly("stencil", &how).contains("nan: element 2, 2 is NaN"),
            "{mode}, {ranks}"
        );
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), before, "nothing is left behind");
}
