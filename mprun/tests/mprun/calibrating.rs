//! `mprun calibrate` and `mprun explain`.

use std::fs;

use serde_json::Value;

use super::harness::{Done, mprun_with};

super::trials![
    values_are_measured_once_and_kept,
    files_that_are_no_good_are_replaced,
    collectives_are_explained,
    several_nodes_are_simulated,
    nonsense_is_refused,
];

struct Here(tempfile::TempDir);

impl Here {
    fn new() -> Here {
        Here(tempfile::tempdir().unwrap())
    }

    fn file(&self) -> std::path::PathBuf {
        self.0.path().join("cache/lines.json")
    }

    fn mprun(&self, args: &[&str]) -> Done {
        let file = self.file();
        mprun_with(&[("ONCHIP_CALIBRATION", file.to_str().unwrap())], args).done()
    }

    fn json(&self, args: &[&str]) -> Value {
        let args = [&["calibrate", "--json"], args].concat();
        serde_json::from_str(&self.mprun(&args).expect_code(0).out).unwrap()
    }
}

fn values_are_measured_once_and_kept() {
    let here = Here::new();
    let first = here.json(&[]);
    assert_eq!(first["origin"], "measured now");
    assert_eq!(first["file"], here.file().to_str().unwrap());
    let names: Vec<&str> =
        first["values"].as_array().unwrap().iter().map(|v| v["name"].as_str().unwrap()).collect();
    for name in ["R_L", "R_R", "R_Q", "R_I", "R_QI", "q", "o", "p", "b", "c", "a"] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    if first["implausible"] == false {
        let second = here.json(&[]);
        assert_eq!(
            (&second["origin"], &second["values"]),
            (&"measured before".into(), &first["values"])
        );
    }
    assert_eq!(here.json(&["--again"])["origin"], "measured now");
    let text = here.mprun(&["calibrate"]).expect_code(0).out;
    assert!(text.contains("R_L") && text.contains(here.file().to_str().unwrap()), "{text}");
}

fn files_that_are_no_good_are_replaced() {
    let here = Here::new();
    fs::create_dir_all(here.file().parent().unwrap()).unwrap();
    for content in ["", "{}", "\u{0}\u{1}", "[1, 2"] {
        fs::write(here.file(), content).unwrap();
        let done = here.mprun(&["calibrate"]).expect_code(0).expect_err("not a calibration");
        assert!(done.out.contains("measured now"), "{done:#?}");
    }
    // A folder can't be replaced by the file. The values are printed anyway.
    let folder = here.file().parent().unwrap().to_str().unwrap().to_owned();
    let done = mprun_with(&[("ONCHIP_CALIBRATION", &folder)], &["calibrate"]).done();
    let done = done.expect_code(0).expect_err("not kept");
    assert!(done.out.contains("; not kept"), "{done:#?}");
}

fn collectives_are_explained() {
    let here = Here::new();
    // With two cores, the model has a prediction for two ranks.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let within = if cores > 1 { "predicted: " } else { "share cores" }.to_owned();
    for (collective, ranks, bytes, wanted) in [
        ("barrier", "1", "0", &["dissemination", "predicted: ", "measured: "][..]),
        ("barrier", "2", "0", &["1 waits for [0]", "predicted: ", "rounds on threads"]),
        ("barrier", "200", "0", &["central", "predicted: nothing", "not, for more than 64"]),
        ("broadcast", "1", "0", &["chosen: ", "measured: "]),
        ("broadcast", "2", "8", &["lines with the payload", "└─ 1", "predicted: ", "µs"]),
        ("broadcast", "3", "5000", &["OC-Bcast", "rounds on threads"]),
        ("broadcast", "65", "8", &["not, for more than 64"]),
        ("reduce", "2", "8", &["lines straight", "└─ 1", "predicted: ", "rounds on threads"]),
        ("reduce", "3", "1001", &["1001 bytes", "1, 2 → 0", "of one line", "rounds on threads"]),
        ("all-reduce", "2", "8", &["doubling", "0 → 1", "1 → 0", &within, "rounds on threads"]),
        ("all-reduce", "2", "4096", &["everything to all", &within, "rounds on threads"]),
        ("all-reduce", "2", "40000", &["all-gather", "round 2", &within, "rounds on threads"]),
        (
            "all-reduce",
            "100",
            "8",
            &["rank 0", "round 2", "0 → 1 to 99", "share cores", "not, for"],
        ),
        ("scan", "2", "8", &["lines by doubling", "0 → 1", &within, "rounds on threads"]),
        ("scan", "3", "500001", &["next", "in 12 pieces", "1 → 2", "rounds on threads"]),
        ("reduce-scatter", "2", "8", &["straight to each", "1 → 0", &within, "rounds on threads"]),
        ("reduce-scatter", "2", "70000", &["buffers of all", "pieces", "rounds on threads"]),
        ("gather", "2", "8", &["lines", "1 → 0", &within, "rounds on threads"]),
        ("gather", "4", "0", &["1, 2, 3 → 0", "rounds on threads"]),
        ("scatter", "2", "100000", &["in 4 pieces", "0 → 1", &within, "rounds on threads"]),
        ("all-gather", "2", "8", &["lines", "0 → 1", "1 → 0", &within, "rounds on threads"]),
        ("all-gather", "3", "2000", &["0 → 1, 2", "2 → 0, 1", "rounds on threads"]),
        ("all-to-all", "2", "8", &["lines", "1 → 0", &within, "rounds on threads"]),
        ("all-to-all", "256", "1000", &["0 → 1 to 255\n", "not, for more than 64"]),
        ("all-gather", "300", "8", &["1 → 2 to 299, 0\n", "not, for more than 64"]),
        ("gather", "4096", "8", &["1 to 4095 → 0\n", "not, for more than 64"]),
        ("all-to-all", "1", "8", &["nobody sends", &within, "rounds on threads"]),
    ] {
        let done = here.mprun(&["explain", collective, "--ranks", ranks, "--bytes", bytes]);
        let done = done.expect_code(0);
        for text in wanted {
            assert!(done.out.contains(text), "no {text:?} in {done:#?}");
        }
    }
}

fn several_nodes_are_simulated() {
    let here = Here::new();
    for (collective, args, wanted) in [
        (
            "all-reduce",
            "-n 64 --nodes 64 --bytes 8",
            &[
                "64 nodes of 64 ranks",
                "among the leaders, recursive doubling",
                "infiniband-hdr",
                "among all 4096 ranks",
            ][..],
        ),
        (
            "broadcast",
            "-n 2 --nodes 4096 --bytes 67108864 --network slingshot-10",
            &[
                "slingshot-10",
                "in 1024 pieces of 65536 bytes",
                "chunks of",
                "leader broadcasts",
                "└─ 1",
                "among all 8192 ranks",
            ],
        ),
        ("all-reduce", "-n 1 --nodes 1", &["nobody sends", "simulated: 0.000 µs"]),
    ] {
        let args: Vec<&str> = ["explain", collective].into_iter().chain(args.split(' ')).collect();
        let done = here.mprun(&args).expect_code(0);
        assert!(done.out.starts_with("simulated: "), "{done:#?}");
        assert!(!done.out.contains("rounds on threads"), "{done:#?}");
        for text in wanted {
            assert!(done.out.contains(text), "no {text:?} in {done:#?}");
        }
    }
}

fn nonsense_is_refused() {
    let here = Here::new();
    for args in [
        &["explain", "barrier", "--ranks", "0"][..],
        &["explain", "barrier", "--ranks", "4097"],
        &["explain", "barrier"],
        &["explain", "gossip", "--ranks", "2"],
        &["explain", "broadcast", "--ranks", "2", "--bytes", "-1"],
        &["explain", "broadcast", "--ranks", "2", "--bytes", "99999999999999"],
        &["explain", "scan", "--ranks", "2", "--nodes", "2"],
        &["explain", "broadcast", "--ranks", "4096", "--nodes", "4096"],
        &["explain", "broadcast", "--ranks", "2", "--nodes", "0"],
        &["explain", "broadcast", "--ranks", "2", "--nodes", "2", "--network", "avian"],
        &["explain", "broadcast", "--ranks", "2", "--network", "slingshot-10"],
        &["calibrate", "now"],
    ] {
        here.mprun(args).expect_code(2);
    }
    assert!(!here.file().exists());
}
