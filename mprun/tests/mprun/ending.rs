//! Ends of all kinds: the exit status, the messages, and that nothing is left behind (`done` waits for that in every
//! test).

use std::{
    fs,
    io::Read,
    process::Stdio,
    time::{Duration, Instant},
};

use super::harness::{Signal, kill, launch, marked, mprun, start, this_program, unread, until};

super::trials![
    the_first_failed_rank_gives_the_status,
    a_failure_in_rank_code_is_told_with_its_words,
    a_failure_is_told_by_one_rank,
    a_failure_in_rank_code_ends_those_that_compute_or_wait,
    a_rank_whose_code_has_ended_reports_what_happened_to_the_others,
    a_failure_that_all_come_to_know_in_time_is_the_programs,
    a_rank_that_leaves_in_the_middle_is_named,
    ranks_are_seen_to_end_by_an_mprun_whose_parent_ignores_children,
    ranks_that_ignore_sigterm_are_killed,
    a_rank_that_is_killed_at_any_moment_ends_the_others,
    survivors_may_end_by_themselves_and_then_must,
    the_time_limit_ends_with_124_and_says_who_waits,
    signals_are_passed_on,
    a_stopped_mprun_stops_its_ranks,
    a_killed_mprun_takes_its_ranks_along,
    a_reader_that_does_not_read_holds_nothing_up,
    a_reader_that_leaves_ends_the_output,
];

fn the_first_failed_rank_gives_the_status() {
    for who in ["0", "2"] {
        let end = |how| launch(&["-n", "3"], &["end", how, who]).done();
        end("exit")
            .expect_code(7)
            .expect_err(&format!("mprun: rank {who} ended with exit status 7"));
        end("kill")
            .expect_code(137)
            .expect_err(&format!("mprun: rank {who} was killed by SIGKILL"));
        end("abort").expect_code(134).expect_err(&format!("rank {who} was killed by SIGABRT"));
        end("real-time")
            .expect_code(168)
            .expect_err(&format!("rank {who} was killed by signal 40"));
        end("nothing").expect_code(1).expect_err("nobody is left at the other end of");
    }
    let failing = |script: &str| mprun(&["-n", "2", "sh", "-c", script]).done();
    failing("exit 3").expect_code(3).expect_err("exit status 3, before it entered the world");
    failing("exit 255").expect_code(255);
}

fn a_failure_in_rank_code_is_told_with_its_words() {
    for who in ["0", "1"] {
        // The process fails with 1 because its main returns the error of `run`.
        let end = |how| launch(&["-n", "2"], &["end", how, who]).done();
        end("panic")
            .expect_code(1)
            .expect_err(&format!("mprun: rank {who} panicked (exit status 1): so be it"));
        end("error")
            .expect_code(1)
            .expect_err(&format!("mprun: rank {who} failed (exit status 1): no such picture"));
        end("panic-outside").expect_code(101).expect_err(&format!(
            "mprun: rank {who} panicked (exit status 101), before it entered the world"
        ));
    }
}

fn a_failure_is_told_by_one_rank() {
    for who in ["0", "2"] {
        for how in ["error", "panic", "exit-0"] {
            let done = launch(&["-n", "4"], &["end", how, who]).done().expect_code(1);
            assert_eq!(done.err.matches("the program failed: ").count(), 1, "{done:#?}");
        }
    }
    // In the next world, all ranks' output is heard again.
    let done = launch(&["-n", "3"], &["heard"]).done().expect_code(0);
    for rank in 0..3 {
        assert_eq!(done.err.matches(&format!("rank {rank} in the next world")).count(), 1);
    }
    assert_eq!(done.err.matches("another rank has failed").count(), 1, "{done:#?}");
}

fn a_rank_that_is_killed_at_any_moment_ends_the_others() {
    for round in 0..24 {
        let mut run = launch(&["-n", "3"], &["churn"]);
        run.await_out("begun");
        std::thread::sleep(Duration::from_micros(round * 977));
        let ranks: Vec<i32> =
            until("the ranks", || Some(run.processes()).filter(|all| all.len() == 4))
                .into_iter()
                .filter(|&pid| pid != run.pid() as i32)
                .collect();
        kill(ranks[round as usize % 3], Signal::SIGKILL);
        let done = run.done().expect_code(137).expect_err("was killed by SIGKILL");
        assert!(!done.err.contains("mprun: ended"), "the others ended by themselves: {done:#?}");
    }
}

fn a_failure_in_rank_code_ends_those_that_compute_or_wait() {
    for (how, words) in [("panic", "panicked: so be it"), ("error", "failed: no such picture")] {
        for others in ["compute", "wait"] {
            for who in ["0", "2"] {
                let run = launch(&["-n", "3", "--grace", "0.3"], &["among", how, others, who]);
                let ended = match (others, who) {
                    ("compute", "0") => "ended ranks 1 and 2\n",
                    ("compute", _) => "ended ranks 0 and 1\n",
                    // If two ranks wait, the second may hear that the first is gone, and end by itself.
                    _ => "ended rank",
                };
                run.done()
                    .expect_code(1)
                    .expect_err(&format!("mprun: rank {who} {words}\n"))
                    .expect_err(&format!("mprun: {ended}"))
                    // The failed rank's `run` returns, and says what happened to the others.
                    .expect_err("was killed by SIGTERM");
            }
        }
    }
}

fn a_rank_whose_code_has_ended_reports_what_happened_to_the_others() {
    // The first of the ranks whose code has ended reports, which is rank 0 here.
    for (others, signal) in [
        ("return, compute", "SIGTERM"),
        ("return, ignore", "SIGKILL"),
        ("fail, compute", "SIGTERM"),
    ] {
        let run = launch(&["-n", "3", "--grace", "0.3"], &["among", "panic", others, "2"]);
        run.done()
            .expect_code(1)
            .expect_err("rank 2 panicked: so be it\n")
            .expect_err("mprun: ended rank 1\n")
            .expect_err(&format!("rank 1 was killed by {signal}\n"));
    }
}

fn a_failure_that_all_come_to_know_in_time_is_the_programs() {
    let done = launch(&["-n", "3", "--grace", "60"], &["mended"]).done().expect_code(0);
    assert_eq!(done.out, "3 rounds\n");
    assert!(!done.err.contains("mprun"), "{done:#?}");
}

fn a_rank_that_leaves_in_the_middle_is_named() {
    for who in ["0", "1"] {
        let done = launch(&["-n", "3"], &["end", "exit-0", who]).done().expect_code(1);
        let done = done.expect_err(&format!("mprun: rank {who} ended with exit status 0 in the"));
        // The results of the other ranks say so as well.
        done.expect_err(&format!("rank {who} ended early with exit status 0"));
    }
}

fn ranks_are_seen_to_end_by_an_mprun_whose_parent_ignores_children() {
    let ignoring = |command: &[&str]| {
        let args = [&["--ignore-signal=CHLD"], command].concat();
        start("env", &args, Stdio::null()).done()
    };
    if !ignoring(&["true"]).status.success() {
        return; // an old `env`
    }
    let run = |program: &[&str]| {
        let launched = [env!("CARGO_BIN_EXE_mprun"), "-n", "3", this_program(), "--program"];
        ignoring(&[&launched, program].concat())
    };
    let done = run(&["lines", "1"]).expect_code(0);
    assert!(!done.err.contains("mprun:"), "{done:#?}");
    run(&["end", "exit", "1"]).expect_code(7).expect_err("rank 1 ended with exit status 7");
    run(&["end", "kill", "2"]).expect_code(137).expect_err("rank 2 was killed by SIGKILL");
}

fn ranks_that_ignore_sigterm_are_killed() {
    let stubborn = format!("trap '' TERM; echo ready; {FOR_EVER}");
    let run = |option: &str| mprun(&["-n", "2", "--grace=0.2", option, "sh", "-c", &stubborn]);
    run("--timeout=0.5").done().expect_code(124).expect_err("mprun: ended ranks 0 and 1");
    let mut asked = run("--timeout=60");
    // From both of them.
    asked.await_out("ready\nready\n");
    asked.signal(Signal::SIGTERM);
    asked.done().expect_code(137).expect_err("mprun: ended ranks 0 and 1");
    // The same with a failure in Rust code, in a world whose rank has failed.
    launch(&["-n", "3", "--grace=0.2"], &["among", "panic", "ignore", "1"])
        .done()
        .expect_code(1)
        .expect_err("mprun: ended ranks 0 and 2");
}

/// A script for ranks 0 and 1.
fn script(zero: &str, one: &str) -> String {
    format!("case $ONCHIP_RANK in 0:*) {zero};; *) {one};; esac")
}

const FOR_EVER: &str = "while :; do sleep 0.02; done";

fn survivors_may_end_by_themselves_and_then_must() {
    let run = |grace: &str, zero: &str, one: &str| {
        mprun(&["-n", "2", "--grace", grace, "sh", "-c", &script(zero, one)])
    };
    let done = run("30", "exit 5", "sleep 0.3; exit 6").done().expect_code(5);
    assert!(!done.err.contains("ended rank"), "{done:#?}");
    let start = Instant::now();
    let stubborn = format!("trap '' TERM; {FOR_EVER}");
    run("0.1", "exit 5", FOR_EVER).done().expect_code(5).expect_err("mprun: ended rank 1");
    run("0.1", &stubborn, "sleep 0.2; exit 6").done().expect_code(6).expect_err("ended rank 0");
    run("0", "exit 5", "kill -STOP $$").done().expect_code(5);
    assert!(start.elapsed() < Duration::from_secs(20));
}

fn the_time_limit_ends_with_124_and_says_who_waits() {
    launch(&["-n", "3", "--timeout", "0.5"], &["cycle", "processes", "3", "receive"])
        .done()
        .expect_code(124)
        .expect_err("the time limit of 0.5 s is over")
        .expect_err(
            "deadlock: rank 0 waits for rank 1, which waits for rank 2, which waits for rank 0",
        )
        .expect_err("mprun: ended ranks 0, 1 and 2");
    launch(&["-n", "2", "--timeout", "30"], &["lines", "1"]).done().expect_code(0);
}

/// Returns whether this process ignores the signal, as under `nohup`. The processes it starts ignore it as well.
fn ignored(signal: Signal) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() >> (signal as u32 - 1) & 1 == 1
}

fn signals_are_passed_on() {
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGINT, 130), (Signal::SIGHUP, 129)] {
        if ignored(signal) {
            continue;
        }
        let mut run = launch(&["-n", "3"], &["hang"]);
        run.await_out("rank 0 of");
        run.signal(signal);
        run.done().expect_code(code).expect_err(&format!("was killed by {signal}"));
    }
    for signal in [Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGTERM, Signal::SIGQUIT] {
        // A shell can't trap a signal that was ignored when it started.
        if ignored(signal) {
            continue;
        }
        let name = signal.as_str().trim_start_matches("SIG");
        let mut run = mprun(&[
            "-n",
            "1",
            "sh",
            "-c",
            &format!("trap 'echo got {name}; exit 9' {name}; echo ready; {FOR_EVER}"),
        ]);
        run.await_out("ready");
        run.signal(signal);
        let done = run.done().expect_code(9);
        assert_eq!(done.out, format!("ready\ngot {name}\n"));
    }
}

/// Returns the letter of a process's state.
fn state(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

fn a_stopped_mprun_stops_its_ranks() {
    let mut run = launch(&["-n", "2", "--timeout", "30"], &["hang"]);
    run.await_out("rank 0 of");
    run.await_out("rank 1 of");
    let all = run.processes();
    assert_eq!(all.len(), 3);
    run.signal(Signal::SIGTSTP);
    until("a stop", || all.iter().all(|&pid| state(pid) == Some('T')).then_some(()));
    run.signal(Signal::SIGCONT);
    until("a start", || all.iter().all(|&pid| state(pid) == Some('S')).then_some(()));
    run.signal(Signal::SIGTERM);
    run.done().expect_code(143);
}

fn a_killed_mprun_takes_its_ranks_along() {
    let mut run = launch(&["-n", "3"], &["hang"]);
    for rank in 0..3 {
        run.await_out(&format!("rank {rank} of"));
    }
    assert_eq!(run.processes().len(), 4);
    run.signal(Signal::SIGKILL);
    run.done();
}

fn a_reader_that_does_not_read_holds_nothing_up() {
    let (mut child, mark) = unread(&["-n", "2", "--timeout", "1"], &["lines", "2000000"]);
    until("the ranks", || (marked(&mark).len() == 3).then_some(()));
    // The ranks end in time, while their launcher still holds lines that were not read.
    until("the ranks' end", || (marked(&mark) == [child.id() as i32]).then_some(()));
    let mut out = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut out).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(124));
    assert!(out.len() > 100_000 && out.len() < 10_000_000, "{}", out.len());
}

fn a_reader_that_leaves_ends_the_output() {
    let (mut child, mark) = unread(&["-n", "1"], &["lines", "1000000000"]);
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0; 100]).unwrap();
    drop(out);
    until("the end", || child.try_wait().unwrap());
    assert!(marked(&mark).is_empty());
}
