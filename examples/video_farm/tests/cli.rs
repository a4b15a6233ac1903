//! Runs the built example as a user does, and compares with a plain sequential filter.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use example_support::program;
use onchip::topology::{current_affinity, pin_current_thread};
use video_farm::clip::Clip;
use video_farm::filter::gray_reference;
use video_farm::frame::Size;
use video_farm::input::{Input, Source};
use video_farm::report::Report;

/// Every mode with every kind of ranks it works with.
const FARMS: [(&str, &str); 10] = [
    ("sh-mem", "threads"),
    ("no-kt", "threads"),
    ("no-kt", "processes"),
    ("moved", "threads"),
    ("moved", "processes"),
    ("kt-w", "threads"),
    ("kt-w", "processes"),
    ("kt-specialized", "threads"),
    ("kt-specialized", "processes"),
    ("kt-generalized", "threads"),
];

/// The options for a farm, with its communication threads on any machine.
fn farm(mode: &'static str, ranks: &'static str) -> Vec<&'static str> {
    let mut options = vec!["-m", mode, "-r", ranks];
    options.extend(mode.starts_with("kt-").then_some("--force-kts"));
    options
}

fn video_farm() -> Command {
    program::command("video_farm")
}

/// Runs a command that must succeed, and returns standard output.
fn run_well(arguments: &[&str]) -> Vec<u8> {
    program::run_well("video_farm", arguments).stdout
}

fn run_badly(arguments: &[&str]) -> String {
    program::run_badly("video_farm", arguments)
}

fn run_with_input(arguments: &[&str], bytes: &[u8]) -> Output {
    let mut child = video_farm()
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // The child may stop reading when it has found a fault.
        scope.spawn(move || drop(stdin.write_all(bytes)));
        child.wait_with_output().unwrap()
    })
}

fn size(width: u64, height: u64) -> Size {
    Size::new(width, height).unwrap()
}

/// Returns the RGB frames of an input, one after the other.
fn frames(source: &mut dyn Source, limit: usize) -> Vec<Vec<u8>> {
    let mut rgb = vec![0; source.format().size.rgb_len()];
    let mut frames = Vec::new();
    while frames.len() < limit && source.read(&mut rgb).unwrap() {
        frames.push(rgb.clone());
    }
    frames
}

fn clip(size: Size, count: usize) -> Vec<Vec<u8>> {
    frames(&mut Clip::new(size), count)
}

/// Returns what the farm should give for some frames, one after the other.
fn gray(frames: &[Vec<u8>]) -> Vec<u8> {
    let rgb = frames.concat();
    let mut gray = vec![0; rgb.len() / 3];
    gray_reference(&rgb, &mut gray);
    gray
}

/// Returns the gray frames of a mono y4m file or a folder of PNG files, through the reader of RGB.
fn read_gray(path: &Path) -> Vec<u8> {
    let mut source = Input::new(Some(path), None).unwrap().open().unwrap();
    let rgb = frames(&mut *source, usize::MAX).concat();
    let (pixels, _) = rgb.as_chunks::<3>();
    assert!(pixels.iter().all(|[r, g, b]| r == g && g == b));
    pixels.iter().map(|pixel| pixel[0]).collect()
}

fn names(folder: &Path) -> HashSet<String> {
    let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
    fs::read_dir(folder).unwrap().map(|entry| name(entry.unwrap())).collect()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn y4m(header: &str, frame_len: usize, count: usize) -> Vec<u8> {
    let mut bytes = format!("YUV4MPEG2 {header}\n").into_bytes();
    for frame in 0..count {
        bytes.extend(b"FRAME\n");
        bytes.extend((0..frame_len).map(|i| (i * 31 + frame * 17) as u8));
    }
    bytes
}

fn ppm(size: Size, rgb: &[u8]) -> Vec<u8> {
    [format!("P6\n{} {}\n255\n", size.width(), size.height()).as_bytes(), rgb].concat()
}

#[test]
fn every_farm_gives_the_same_bytes_in_order() {
    for (width, height, count) in [(37, 23, 11), (1, 1, 1), (64, 2, 3)] {
        let size = size(width, height);
        let expected = gray(&clip(size, count));
        let (size, count) = (size.to_string(), count.to_string());
        for (mode, ranks) in FARMS {
            for schedule in ["round-robin", "on-demand"] {
                for workers in ["1", "2", "3", "5"] {
                    for degree in ["0", "1", "4"] {
                        let stream = ["--size", &size, "--frames", &count, "--output", "-"];
                        let how = ["--schedule", schedule, "-w", workers, "--degree", degree];
                        let arguments = [&farm(mode, ranks)[..], &how, &stream].concat();
                        assert!(run_well(&arguments) == expected, "{arguments:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn standard_input_to_standard_output() {
    let size = size(40, 30);
    let frames = clip(size, 9);
    for (mode, ranks) in FARMS {
        let stream = ["-i", "-", "--size", "40x30", "-o", "-"];
        let arguments = [&stream[..], &farm(mode, ranks)].concat();
        let output = run_with_input(&arguments, &frames.concat());
        assert!(output.status.success());
        assert!(output.stdout == gray(&frames));
        assert!(String::from_utf8_lossy(&output.stderr).contains("9 frames of 40x30"));

        let output = run_with_input(&arguments, &frames.concat()[..9 * 3600 - 1]);
        assert!(!output.status.success());
        let complaint = String::from_utf8_lossy(&output.stderr);
        let reason = "standard input: frame 8: truncated: 3599 of 3600 bytes";
        assert!(complaint.contains(reason), "{complaint}");

        let output = run_with_input(&arguments, b"");
        assert!(!output.status.success());
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(complaint.contains("standard input: holds no frames"), "{complaint}");
    }
}

#[test]
fn y4m_in_every_form_to_y4m() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in.y4m"), folder.path().join("out.y4m"));
    for (form, len) in [
        ("Cmono", 35),
        ("C420jpeg", 35 + 2 * 12),
        ("C420 XCOLORRANGE=FULL", 35 + 2 * 12),
        ("C411", 35 + 2 * 10),
        ("C422", 35 + 2 * 20),
        ("C444", 105),
        ("C444alpha", 140),
    ] {
        fs::write(&input, y4m(&format!("W7 H5 F30:1 {form}"), len, 5)).unwrap();
        let mut source = Input::Y4m(input.clone()).open().unwrap();
        let expected = gray(&frames(&mut *source, 5));
        for (mode, ranks) in FARMS {
            let paths = ["-i", text(&input), "-o", text(&output)];
            run_well(&[&paths[..], &farm(mode, ranks)].concat());
            assert!(read_gray(&output) == expected, "{form}");
            let header = b"YUV4MPEG2 W7 H5 F30:1 Ip A1:1 Cmono XCOLORRANGE=FULL\n";
            assert!(fs::read(&output).unwrap().starts_with(header));
        }
    }
    assert_eq!(names(folder.path()).len(), 2);
}

#[test]
fn a_folder_of_pictures_to_another() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    fs::create_dir(&input).unwrap();
    let size = size(8, 6);
    let frames = clip(size, 12);
    for (number, rgb) in frames.iter().enumerate() {
        if number % 2 == 0 {
            fs::write(input.join(format!("f{number}.ppm")), ppm(size, rgb)).unwrap();
        } else {
            let path = input.join(format!("f{number}.png"));
            image::save_buffer(path, rgb, 8, 6, image::ExtendedColorType::Rgb8).unwrap();
        }
    }
    for (mode, ranks) in FARMS {
        for (limit, count) in [(12, "99"), (5, "5")] {
            let paths = ["-i", text(&input), "-o", text(&output)];
            run_well(&[&paths[..], &farm(mode, ranks), &["-f", count]].concat());
            assert!(read_gray(&output) == gray(&frames[..limit]));
            assert_eq!(names(&output).len(), limit);
            fs::remove_dir_all(&output).unwrap();
        }
    }
    assert_eq!(names(folder.path()).len(), 1);
}

#[test]
fn faults_of_the_input_are_named_and_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let whole = y4m("W7 H5 Cmono", 35, 6);
    let files: [(&str, &[u8]); 6] = [
        ("cut.y4m", &whole[..whole.len() - 1]),
        ("empty.y4m", b""),
        ("zero.y4m", b"YUV4MPEG2 W0 H5\n"),
        ("none.y4m", b"YUV4MPEG2 W7 H5\n"),
        ("deep.y4m", b"YUV4MPEG2 W7 H5 C420p10\n"),
        ("cut.rgb", &[0; 100]),
    ];
    for (name, bytes) in files {
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    let pictures = folder.path().join("pictures");
    fs::create_dir(&pictures).unwrap();
    fs::write(pictures.join("9.ppm"), ppm(size(4, 3), &[0; 36])).unwrap();
    fs::write(pictures.join("10.ppm"), ppm(size(3, 4), &[0; 36])).unwrap();
    fs::create_dir(folder.path().join("bare")).unwrap();
    let before = names(folder.path());

    for (name, more, reason) in [
        ("cut.y4m", &[][..], "cut.y4m: frame 5: truncated: 34 of 35 bytes"),
        ("empty.y4m", &[], "empty.y4m: empty"),
        ("zero.y4m", &[], "zero.y4m: a frame of 0x5 has no pixels"),
        ("none.y4m", &[], "none.y4m: holds no frames"),
        ("deep.y4m", &[], "deep.y4m: colour form `420p10` is not one of"),
        ("cut.rgb", &["--size", "4x3"], "cut.rgb: frame 2: truncated: 28 of 36 bytes"),
        ("cut.rgb", &[], "cut.rgb: raw rgb24 does not tell the size of a frame"),
        ("cut.y4m", &["--size", "4x3"], "cut.y4m: this input tells the size of its frames"),
        ("pictures", &[], "10.ppm: frame 1: 3x4, but the first frame is 4x3"),
        ("bare", &[], "bare: holds no PNG or PPM files"),
        ("absent.y4m", &[], "absent.y4m: No such file"),
        ("absent.mp4", &[], "absent.mp4: No such file"),
    ] {
        let input = folder.path().join(name);
        for (mode, ranks) in FARMS {
            for output in ["out.y4m", "out"] {
                let output = folder.path().join(output);
                let paths = ["-i", text(&input), "-o", text(&output)];
                let complaint = run_badly(&[&paths, more, &farm(mode, ranks)].concat());
                assert!(complaint.contains(reason), "{complaint} for {reason}");
                assert_eq!(names(folder.path()), before, "{name}");
            }
        }
    }
}

#[test]
fn faults_of_the_output_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "mine").unwrap();
    let full = folder.path().join("full");
    fs::create_dir(&full).unwrap();
    fs::write(full.join("mine"), "x").unwrap();
    for (output, reason) in [
        (folder.path().join("no/out.y4m"), "no/out.y4m: No such file"),
        (folder.path().join("no/out"), "no/out: No such file"),
        (file.join("out.y4m"), "out.y4m: Not a directory"),
        (file.clone(), "file: Not a directory"),
        (full.clone(), "full: the folder is not empty"),
        (folder.path().join("out.mp4"), "out.mp4: cannot write `.mp4`"),
    ] {
        for (mode, ranks) in FARMS {
            let paths = ["--size", "8x8", "-o", text(&output)];
            let complaint = run_badly(&[&paths[..], &farm(mode, ranks)].concat());
            assert!(complaint.contains(reason), "{complaint} for {reason}");
        }
    }
    for (mode, option) in [("all", "--json"), ("all", "--plot"), ("kt-w", "--trace")] {
        let path = folder.path().join("no/out");
        let complaint = run_badly(&["--size", "8x8", "-m", mode, option, text(&path)]);
        assert!(complaint.contains("no/out: No such file"), "{complaint}");
    }
    assert_eq!(fs::read(&file).unwrap(), b"mine");
    assert_eq!(names(folder.path()).len(), 2);
}

#[test]
fn a_reader_that_goes_away_ends_the_farm() {
    for (mode, ranks) in FARMS {
        let mut child = video_farm()
            .args(["--size", "100x100", "-f", "100000000", "-o", "-"])
            .args(farm(mode, ranks))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        assert!(!child.wait().unwrap().success(), "{mode} {ranks}");
    }
}

#[test]
fn options_that_do_not_go_together_are_named() {
    for (arguments, reason) in [
        (&["--mode", "quick"][..], "invalid value 'quick'"),
        (&["--ranks", "fibers"], "invalid value 'fibers'"),
        (&["--schedule", "random"], "invalid value 'random'"),
        (&["--size", "0x5"], "a frame of 0x5 has no pixels"),
        (&["--size", "ten"], "`ten` is not WIDTHxHEIGHT"),
        (&["--workers", "0"], "not a number from 1 to 512"),
        (&["--workers", "2,x"], "not a number from 1 to 512"),
        (&["--frames", "0"], "invalid value '0'"),
        (&["--degree", "-1"], "'-1'"),
        (&["--fast"], "unexpected argument '--fast'"),
        (&["--mode", "sh-mem", "--ranks", "processes"], "it needs --ranks threads"),
        (&["--mode", "sh-mem", "--workers", "1,2"], "--workers are for --mode all"),
        (&["-m", "kt-generalized", "-r", "processes"], "it needs --ranks threads"),
        (&["--mode", "kt-w", "--kts", "2"], "kt-w fixes the number of communication threads"),
        (&["--mode", "kt-generalized", "--kts", "0"], "not a number from 1 to 512"),
        (&["--mode", "no-kt", "--kts", "2"], "no-kt has no communication threads"),
        (&["--mode", "moved", "--force-kts"], "moved has no communication threads"),
        (&["--mode", "all", "--trace", "never.json"], "choose one mode"),
        (&["--mode", "all", "--overlap"], "choose one mode"),
        (&["--mode", "sh-mem", "--plot", "never.svg"], "--plot draws the results of --mode all"),
        (&["--mode", "all", "-i", "-", "--size", "4x4"], "choose one mode"),
        (&["--input", "-"], "give --size WxH"),
    ] {
        let complaint = run_badly(arguments);
        assert!(complaint.contains(reason), "{complaint} for {reason}");
    }
    assert!(!Path::new("never.svg").exists() && !Path::new("never.json").exists());
}

#[test]
fn all_modes_make_a_table_a_plot_and_a_report() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (json, plot, output) = (path("a.json"), path("a.svg"), path("a.y4m"));
    let arguments = ["-m", "all", "--size", "64x48", "-f", "20", "-w", "1,2,3", "--rounds", "2"];
    let files = ["--json", text(&json), "--plot", text(&plot), "-o", text(&output)];
    let more = ["--preload", "4", "--force-kts", "--kts", "1"];
    let stdout = run_well(&[&arguments[..], &more, &files].concat());
    let stdout = String::from_utf8(stdout).unwrap();
    let report: Report = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    let plot = fs::read_to_string(plot).unwrap();
    assert!(plot.starts_with("<svg") && plot.trim_end().ends_with("</svg>"));
    for (mode, ranks) in FARMS {
        let name = format!("{mode}, {ranks}");
        // The baseline is in both tables.
        let times = if mode == "sh-mem" { 6 } else { 3 };
        assert_eq!(stdout.matches(&name).count(), times, "{stdout}");
        assert!(plot.contains(&name));
        let rows = report.rows.iter().filter(|row| row.name() == name);
        let rows: Vec<_> = rows.inspect(|row| assert!(row.beside_sh_mem.is_some())).collect();
        assert_eq!(rows.iter().map(|row| row.workers).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(rows.iter().all(|row| row.service_time_us.lowest > 0.0));
        assert_eq!(rows[0].scalability, Some(1.0));
        let helped = mode.starts_with("kt-");
        assert!(rows.iter().all(|row| row.gain_of_kts.is_some() == helped));
        // One for each worker; one for the emitter and one for all workers, which processes cannot
        // share; one in all, since so many were asked for.
        let kts = match (mode, ranks) {
            ("kt-w", _) => [1, 2, 3],
            ("kt-specialized", "threads") => [2, 2, 2],
            ("kt-specialized", _) => [2, 3, 4],
            ("kt-generalized", _) => [1, 1, 1],
            _ => [0, 0, 0],
        };
        assert_eq!(rows.iter().map(|row| row.kts).collect::<Vec<_>>(), kts, "{name}");
    }
    let tables = stdout.split("Table ").collect::<Vec<_>>();
    assert_eq!(tables.len(), 3);
    for (table, modes, lines) in [
        (tables[1], ["sh-mem", "no-kt", "kt-w", "moved"].as_slice(), 7),
        (tables[2], &["sh-mem", "kt-specialized", "kt-generalized"], 4),
    ] {
        let rows =
            table.lines().filter(|line| line.contains(", threads") || line.contains(", proc"));
        assert_eq!(rows.clone().count(), 3 * lines, "{table}");
        assert!(modes.iter().all(|mode| rows.clone().any(|row| row.contains(mode))));
        for row in rows {
            assert_eq!(
                row.contains('%'),
                row.contains("kt-w") || row.contains("kt-s") || row.contains("kt-g"),
                "{row}"
            );
        }
    }
    assert!(report.remarks.is_empty() && report.overlap.is_none());
    assert_eq!(report.rows.len(), 3 * FARMS.len());
    assert_eq!((report.size, report.frames, report.rounds), (size(64, 48), 20, 2));
    assert!(read_gray(&output) == gray(&clip(size(64, 48), 20)));
    assert_eq!(names(folder.path()).len(), 3);
}

#[test]
fn one_mode_makes_a_report() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("a.json");
    for (mode, ranks) in FARMS {
        let arguments = ["--size", "64x48", "-f", "20", "-w", "3", "--json", text(&json)];
        run_well(&[&farm(mode, ranks)[..], &arguments].concat());
        let report: Report = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
        assert_eq!(report.rows.len(), 1);
        assert_eq!(report.rows[0].name(), format!("{mode}, {ranks}"));
        assert_eq!((report.rows[0].workers, report.frames, report.cores > 0), (3, 20, true));
    }
}

#[test]
fn without_room_for_communication_threads_ranks_send_inline() {
    // Programs started from here have this one CPU.
    let cpu = current_affinity().and_then(|cpus| cpus.first()).unwrap();
    pin_current_thread(cpu).unwrap();
    let expected = gray(&clip(size(31, 9), 7));
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("a.json");
    for (mode, ranks) in FARMS.into_iter().filter(|(mode, _)| mode.starts_with("kt-")) {
        let arguments = ["--size", "31x9", "-f", "7", "-w", "2", "-m", mode, "-r", ranks];
        let output = program::run(
            "video_farm",
            &[&arguments[..], &["-o", "-", "--json", text(&json)]].concat(),
        );
        assert!(output.status.success() && output.stdout == expected, "{mode}, {ranks}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said.matches("no spare hardware thread: 4 ranks on 1 CPU").count(), 1, "{said}");
        let report: Report = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
        assert_eq!((report.rows[0].kts, report.remarks.len()), (0, 1));
    }
    let arguments = ["-m", "all", "--size", "31x9", "-f", "7", "-w", "1,2", "--rounds", "1", "-q"];
    let stdout = String::from_utf8(run_well(&arguments)).unwrap();
    assert_eq!(stdout.matches("no spare hardware thread").count(), 1, "{stdout}");
    let inline = stdout.lines().filter(|line| line.contains("| inline |")).count();
    assert_eq!(inline, 2 * 5, "{stdout}");
}

/// Returns the spans of a trace, each as its track and what it is, and the tracks.
fn spans(path: &Path) -> (Vec<(String, String)>, HashSet<String>) {
    let trace: serde_json::Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let key = |event: &serde_json::Value| (event["pid"].as_u64(), event["tid"].as_u64());
    let mut names = HashMap::new();
    for event in events.iter().filter(|event| event["name"] == "thread_name") {
        let name = event["args"]["name"].as_str().unwrap().to_owned();
        assert!(names.insert(key(event), name).is_none(), "two names for one track");
    }
    let complete = events.iter().filter(|event| event["ph"] == "X");
    let span = |event: &serde_json::Value| {
        assert!(event["ts"].as_f64().unwrap() >= 0.0 && event["dur"].as_f64().unwrap() >= 0.0);
        (names[&key(event)].clone(), event["name"].as_str().unwrap().to_owned())
    };
    (complete.map(span).collect(), names.values().cloned().collect())
}

#[test]
fn a_trace_has_a_track_for_every_rank_and_communication_thread() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, json) = (folder.path().join("t.json"), folder.path().join("r.json"));
    for (mode, ranks) in FARMS {
        for schedule in ["round-robin", "on-demand"] {
            let clip = ["--size", "33x17", "-f", "12", "-w", "3", "-s", schedule, "--overlap"];
            let files = ["--trace", text(&trace), "--json", text(&json)];
            let stdout = run_well(&[&clip[..], &files, &farm(mode, ranks)].concat());
            let stdout = String::from_utf8(stdout).unwrap();
            let (spans, tracks) = spans(&trace);
            let what = format!("{mode}, {ranks}, {schedule}");
            let count = |track: &str, kind: &str| {
                spans.iter().filter(|(on, is)| on == track && is == kind).count()
            };
            let kts: &[(&str, usize)] = match (mode, ranks) {
                ("kt-w", _) => &[("KT 1", 4), ("KT 2", 4), ("KT 3", 4)],
                // The second one is in three processes, of one worker each, or serves all three.
                ("kt-specialized", _) => &[("KT 0", 12), ("KT 1", 12)],
                _ => &[],
            };
            for &(kt, copies) in kts.iter().filter(|_| schedule == "round-robin") {
                assert_eq!(count(kt, "copy"), copies, "{what}: {kt}");
                assert!(count(kt, "idle") > 0, "{what}: {kt}");
            }
            let copied = spans.iter().filter(|(_, kind)| kind == "copy").count();
            let delegated = spans.iter().filter(|(_, kind)| kind == "delegate").count();
            let wanted = match mode {
                "kt-w" => 12,
                "kt-specialized" | "kt-generalized" => 24,
                _ => 0,
            };
            assert_eq!((copied, delegated), (wanted, wanted), "{what}");
            let kts = tracks.iter().filter(|track| track.starts_with("KT"));
            let ranks_seen = tracks.iter().filter(|track| track.starts_with("rank"));
            assert_eq!((ranks_seen.count(), kts.count() > 0), (5, wanted > 0), "{what}");
            // The filter, in three workers; reading and, at the other end, writing.
            let filtered: usize = (1..=3).map(|w| count(&format!("rank {w}"), "compute")).sum();
            assert_eq!((filtered, count("rank 4", "compute")), (12, 12), "{what}");
            assert!((12..=13).contains(&count("rank 0", "compute")), "{what}");
            let report: Report = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
            let overlap = report.overlap.unwrap();
            assert_eq!(
                overlap.ranks.iter().map(|rank| rank.rank).collect::<Vec<_>>(),
                [0, 1, 2, 3, 4]
            );
            // On demand, one worker may get them all.
            assert!(overlap.ranks[1..4].iter().any(|rank| rank.computing_ns > 0), "{what}");
            assert_eq!(overlap.ranks[1..4].iter().any(|rank| rank.delegated_ns > 0), wanted > 0);
            assert!(stdout.contains("rank") && stdout.contains("hidden"), "{stdout}");
        }
    }
    assert_eq!(names(folder.path()).len(), 2);
}

#[test]
fn other_video_needs_ffmpeg() {
    let folder = tempfile::tempdir().unwrap();
    let video = folder.path().join("test.mp4");
    fs::write(&video, "no video").unwrap();
    for (mode, ranks) in FARMS {
        let arguments = [&["-i", text(&video)][..], &farm(mode, ranks)].concat();
        let output = video_farm().args(arguments).env("PATH", "").output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success());
        assert!(complaint.contains("test.mp4: this kind of file needs the `ffmpeg` program"));
    }

    let made = Command::new("ffmpeg")
        .args(["-loglevel", "error", "-nostdin", "-y", "-f", "lavfi"])
        .args(["-i", "testsrc=size=64x48:rate=10:duration=2", "-c:v", "mpeg4", text(&video)])
        .status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("no ffmpeg here: decoding is not tested");
        return;
    }
    let mut source = Input::Ffmpeg(video.clone()).open().unwrap();
    let frames = frames(&mut *source, usize::MAX);
    assert_eq!(frames.len(), 20);
    let output = folder.path().join("out.y4m");
    for (mode, ranks) in FARMS {
        let arguments =
            [&["-i", text(&video), "-o", text(&output)][..], &farm(mode, ranks)].concat();
        run_well(&arguments);
        assert!(read_gray(&output) == gray(&frames));
        assert!(fs::read(&output).unwrap().starts_with(b"YUV4MPEG2 W64 H48 F10:1 "));
        // Three frames are enough: the decoder is ended early.
        run_well(&[&arguments[..], &["-f", "3"]].concat());
        assert!(read_gray(&output) == gray(&frames[..3]));
        fs::remove_file(&output).unwrap();
    }

    let whole = fs::read(&video).unwrap();
    fs::write(&video, &whole[..whole.len() / 2]).unwrap();
    for (mode, ranks) in FARMS {
        let paths = ["-i", text(&video), "-o", text(&output)];
        let arguments = [&paths[..], &farm(mode, ranks)].concat();
        let complaint = run_badly(&arguments);
        assert!(complaint.contains("test.mp4: ffmpeg: exit status"), "{complaint}");
        assert_eq!(names(folder.path()).len(), 1);
    }
}

/// Returns the children of a process, in the order in which they were started.
#[cfg(target_os = "linux")]
fn children(process: u32) -> Vec<u32> {
    // Each of its threads may have started some.
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let children = threads.map(|thread| fs::read_to_string(thread.path().join("children")));
    let children: String = children.map(Result::unwrap_or_default).collect();
    children.split_whitespace().map(|child| child.parse().unwrap()).collect()
}

/// Returns the resident memory of a process and its children, in bytes.
#[cfg(target_os = "linux")]
fn resident(process: u32) -> u64 {
    let below: u64 = children(process).into_iter().map(resident).sum();
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()).unwrap_or("0");
    below + 1024 * kibibytes.parse::<u64>().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn memory_does_not_grow_with_the_stream() {
    let frame: PathBuf = "/dev/zero".into();
    let frame_len = 3 * 100 * 100;
    for (mode, ranks) in FARMS {
        for schedule in ["round-robin", "on-demand"] {
            let arguments = ["-i", "-", "--size", "100x100", "-o", "-", "-s", schedule];
            let mut child = video_farm()
                .args([&arguments[..], &farm(mode, ranks), &["-w", "2"]].concat())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let mut stdin = child.stdin.take().unwrap();
            let mut stdout = child.stdout.take().unwrap();
            let reader = std::thread::spawn(move || {
                std::io::copy(&mut stdout, &mut std::io::sink()).unwrap()
            });
            let mut feed = |count: u64| {
                let zeros = fs::File::open(&frame).unwrap();
                let mut zeros = std::io::Read::take(zeros, count * frame_len);
                std::io::copy(&mut zeros, &mut stdin).unwrap();
                resident(child.id())
            };
            // By then what is kept of output without an end of line is as long as it gets.
            let early = feed(200);
            let late = feed(350);
            drop(stdin);
            assert!(child.wait().unwrap().success());
            assert_eq!(reader.join().unwrap(), 550 * frame_len / 3);
            let grown = late.saturating_sub(early);
            assert!(grown < 60 * frame_len, "{mode} {ranks} {schedule}: {early} to {late}");
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_rank_that_is_killed_fails_the_farm_and_leaves_nothing_whole() {
    for mode in ["no-kt", "moved", "kt-w", "kt-specialized"] {
        for (victim, name) in [(0, "emitter"), (1, "worker"), (3, "collector")] {
            let folder = tempfile::tempdir().unwrap();
            let output = folder.path().join("out.y4m");
            let arguments = ["-i", "-", "--size", "20x20", "-o", text(&output), "-w", "2"];
            let mut child = video_farm()
                .args([&arguments[..], &farm(mode, "processes")].concat())
                .stdin(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            // The stream goes on for as long as the farm lives.
            let mut stdin = child.stdin.take().unwrap();
            let feed = std::thread::spawn(move || {
                while stdin.write_all(&[7; 1200]).is_ok() {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
            });
            while names(folder.path()).is_empty() {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            let ranks = children(child.id());
            assert_eq!(ranks.len(), 4);
            let kill = Command::new("kill").args(["-9", &ranks[victim].to_string()]).status();
            assert!(kill.unwrap().success());
            let ended = child.wait_with_output().unwrap();
            let complaint = String::from_utf8_lossy(&ended.stderr);
            assert!(!ended.status.success(), "{mode}, {name}");
            let reason = format!("rank {victim} was killed by SIGKILL");
            assert!(complaint.contains(&reason), "{mode}, {name}: {complaint}");
            assert!(!output.exists());
            if name != "collector" {
                assert_eq!(names(folder.path()).len(), 0, "{mode}, {name}");
            }
            feed.join().unwrap();
        }
    }
}
