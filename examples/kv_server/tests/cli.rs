//! Runs the built example as a user does.

use example_support::program;
use kv_server::report::{Report, Row};
use onchip::critical::Scheme;

/// Runs a command that must succeed, and returns standard output.
fn run_well(arguments: &[&str]) -> String {
    let output = program::run_well("kv_server", arguments);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a command that must succeed, and returns what was measured.
fn rows(arguments: &[&str]) -> Vec<Row> {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("json");
    run_well(&[arguments, &["--json", json.to_str().unwrap()]].concat());
    let report: Report = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    assert!(report.cores > 0 && !report.load.is_empty());
    report.rows
}

fn has_all(row: &Row, keys: usize) {
    let verdict = row.verdict.unwrap_or_else(|| panic!("{row:?}"));
    assert_eq!((verdict.verified, verdict.unknown), (keys, 0), "{row:?}");
}

#[test]
fn every_scheme_with_ranks_of_both_kinds() {
    for ranks in ["threads", "processes"] {
        let rows = rows(&["--ranks", ranks, "--operations", "300", "--keys", "50"]);
        assert_eq!(rows.len(), Scheme::ALL.len());
        for row in rows {
            has_all(&row, 50);
            assert_eq!(row.operations, 300 * row.clients as u64);
            assert!(row.fairness.unwrap() >= 1.0 && row.rate > 0.0);
            let latency = row.latency_us;
            assert!(latency.p50 > 0.0 && latency.p50 <= latency.p99_9, "{latency:?}");
            let counts = row.counts;
            let swaps = counts.swaps + counts.missed;
            let all = counts.gets + counts.puts + counts.full + counts.removes + swaps;
            assert!(all == row.operations && counts.hits < counts.gets && counts.swaps > 0);
            assert!(counts.full == 0 && row.death.is_none());
        }
    }
}

#[test]
fn the_table_shows_one_line_for_each_scheme() {
    let said = run_well(&["-s", "clh,mp-server", "-o", "100", "-k", "7", "-c", "3"]);
    assert!(said.starts_with("3 clients (processes) on "), "{said}");
    assert_eq!(said.lines().filter(|line| line.contains("7 keys as they must be")).count(), 2);
    let said = run_well(&["--csv", "-s", "clh,mp-server", "-o", "100", "-k", "7", "-c", "3"]);
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("scheme,ranks,clients,") && lines.len() == 3, "{said}");
    assert!(lines[1].starts_with("clh,processes,3,300,") && lines[1].ends_with(",7,0"), "{said}");
}

#[test]
fn stores_may_be_full() {
    // All clients write; half of the keys have no room.
    for capacity in ["1", "10"] {
        let what = ["-k", "20", "--capacity", capacity, "-o", "200", "--mix", "1,4,1,1"];
        for row in rows(&[&what[..], &["-s", "tas,hyb-comb,slot-server", "-v", "100"]].concat()) {
            has_all(&row, 20);
            assert!(row.counts.full > 0 && row.counts.puts > 0, "{row:?}");
            assert!(row.verdict.unwrap().entries <= capacity.parse().unwrap());
        }
    }
}

#[test]
fn values_of_every_length() {
    for bytes in ["8", "15", "16", "63", "64", "255"] {
        let what = ["--scheme", "cc-synch,slot-server,mp-server", "--ranks", "threads"];
        for row in rows(&[&what[..], &["-v", bytes, "-o", "100", "-k", "9"]].concat()) {
            has_all(&row, 9);
        }
    }
}

#[test]
fn the_least_and_more_than_there_are_cores() {
    let one = ["-c", "1", "-k", "1", "-o", "1", "--in-flight", "1"];
    for row in rows(&[&one[..], &["--read-percent", "100", "-d", "uniform"]].concat()) {
        has_all(&row, 1);
        assert_eq!((row.counts.gets, row.counts.hits, row.fairness), (1, 1, Some(1.0)));
    }
    let many = ["-c", "9", "-o", "60", "-k", "5", "--in-flight", "100", "--backoff", "tuned"];
    for row in rows(&[&many[..], &["--max-ops", "1", "--seed", "7"]].concat()) {
        has_all(&row, 5);
        assert_eq!(row.clients, 9);
    }
}

#[test]
fn time_ends_it_too() {
    let row = &rows(&["-s", "mcs", "--seconds", "0.05"])[0];
    has_all(row, 10_000);
    assert!(row.operations > 10);
}

#[test]
fn another_server_takes_over() {
    for seed in ["1", "2", "3", "4"] {
        let what = ["--kill", "server", "--seconds", "0.3", "-k", "100", "-v", "255"];
        let rows = rows(&[&what[..], &["--seed", seed, "--read-percent", "0"]].concat());
        assert_eq!(rows.len(), 2);
        for row in rows {
            let death = row.death.as_ref().unwrap();
            assert_eq!(death.rank, 0);
            let verdict = row.verdict.unwrap();
            assert!(death.taken_over && death.stopped == 0 && death.afterwards > 0, "{row:?}");
            // The operation that the server was executing is unknown. With channels, so are those on their way, and one
            // more of each client that learns of the death when it asks.
            let most = if row.scheme == Scheme::SlotServer { 1 } else { 9 * row.clients };
            assert!(verdict.unknown <= most, "{row:?}");
            assert_eq!(verdict.verified + verdict.unknown, 100, "{row:?}");
            let cut_short = death.repaired || row.scheme != Scheme::SlotServer;
            assert!(cut_short || verdict.unknown == 0, "{row:?}");
        }
    }
}

#[test]
fn a_client_that_dies_disturbs_no_server() {
    let what = ["--kill", "client", "--seconds", "0.2", "-k", "100", "-c", "3"];
    for row in rows(&[&what[..], &["-s", "slot-server,mp-server"]].concat()) {
        let death = row.death.as_ref().unwrap();
        assert!(death.rank == 3 && death.stopped == 0 && death.afterwards > 0, "{row:?}");
        let verdict = row.verdict.unwrap();
        // As many as were in flight, at most.
        assert!((1..=8).contains(&verdict.unknown), "{row:?}");
        assert_eq!(verdict.verified + verdict.unknown, 100);
    }
}

/// A client may die in the middle of anything. If it has the lock or combines, its successor repairs the store.
#[test]
fn a_client_that_dies_stops_nobody() {
    for row in rows(&["--kill", "client", "--seconds", "0.1", "-k", "100"]) {
        let death = row.death.as_ref().unwrap();
        assert!(death.stopped == 0 && death.afterwards > 0, "{row:?}");
        let verdict = row.verdict.unwrap();
        // As many as it had in flight, and one that it executed for another client.
        assert!((1..=9).contains(&verdict.unknown), "{row:?}");
        assert_eq!(verdict.verified + verdict.unknown, 100);
    }
}

#[test]
fn what_cannot_be_is_refused_with_the_reason() {
    for (arguments, reason) in [
        (&["--scheme", "spin"][..], "[possible values: tas, mcs,"),
        (&["--clients", "0"], "not a number from 1 to 500"),
        (&["--kill", "client", "--ranks", "threads"], "processes, not threads"),
        (&["--json", "no/such/folder/file"], "no/such/folder/file: "),
    ] {
        let output = program::run("kv_server", arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains(reason), "{arguments:?}: {said}");
        assert!(!said.contains("panicked") && output.stdout.is_empty(), "{said}");
    }
}
