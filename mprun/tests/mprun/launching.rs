//! Launching: arguments, input, output, results.

use std::{io::Write, process::Stdio};

use super::harness::{alone, launch, launch_with_input, mprun};

super::trials![
    output_is_tagged_line_by_line,
    lines_of_different_ranks_do_not_mix,
    output_outside_the_world_is_rank_0s,
    arguments_pass_through,
    rank_0_has_the_input,
    results_are_those_of_threads,
    rank_0_makes_the_input_of_all,
    another_number_of_ranks_than_asked_for_is_an_error,
    a_program_runs_one_world_after_another,
    many_worlds_take_no_more_memory_than_some,
    a_rank_that_leaves_early_is_lost_to_the_others,
    a_program_that_is_no_rank_is_warned_about,
    wrong_usage_ends_with_2,
    numbers_too_large_are_refused_with_their_limit,
    what_cannot_be_started_ends_with_127_or_126,
    the_number_of_ranks_is_what_the_machine_can_run,
    the_size_of_the_segment_is_the_smaller_one_asked_for,
    topo_draws_the_machine,
    topo_places_communication_threads,
    subcommands_can_be_programs,
];

fn output_is_tagged_line_by_line() {
    let done = launch(&["-n", "11", "--tag-output"], &["lines", "3"]).done().expect_code(0);
    for rank in 0..11 {
        let tag = format!("[{rank:>2}] ");
        let tagged = |text: &str| -> Vec<String> {
            let lines = text.lines().filter_map(|line| line.strip_prefix(&tag));
            lines.map(str::to_owned).collect()
        };
        let expected: Vec<String> = (0..3).map(|l| format!("line {l} of rank {rank}")).collect();
        assert_eq!(tagged(&done.out), expected, "{done:#?}");
        assert_eq!(tagged(&done.err), [format!("error of rank {rank}")]);
    }
    assert_eq!(done.lines().len(), 33);
    assert_eq!(done.err.lines().count(), 11);
}

fn lines_of_different_ranks_do_not_mix() {
    for tags in [&[][..], &["--tag-output"]] {
        let done =
            launch(&[tags, &["-n", "4"]].concat(), &["long_lines", "64"]).done().expect_code(0);
        let mut lengths = vec![Vec::new(); 4];
        for line in done.lines() {
            let line = line.split_once(' ').map_or(line, |(_, line)| line);
            let first = line.as_bytes()[0];
            assert!(line.bytes().all(|byte| byte == first), "a torn line");
            lengths[usize::from(first - b'a')].push(line.len());
        }
        let expected: Vec<usize> =
            (0..64).map(|line| if line % 8 == 7 { 200_000 } else { 10 + line }).collect();
        assert_eq!(lengths, vec![expected; 4]);
    }
}

fn output_outside_the_world_is_rank_0s() {
    let done = launch(&["-n", "3"], &["muted"]).done().expect_code(0);
    let mut lines = done.lines();
    assert_eq!(lines.last(), Some(&"after"));
    lines.sort_unstable();
    let mut expected = ["before", "begun beforeinside 0", "inside 1", "inside 2", "after"].to_vec();
    expected.sort_unstable();
    assert_eq!(lines, expected);
    // The same for ranks that the program itself starts. Only in this case the output of their `main` is heard.
    let mut lines = alone(&["muted"]).done().expect_code(0);
    lines.out.retain(|c| c != '\n');
    assert_eq!(lines.out.matches("before").count(), 2, "{lines:#?}");
}

fn arguments_pass_through() {
    let args = ["args", "-n", "7", "--timeout", "x", "--", "-", "", "--tag-output"];
    let done = launch(&["-n", "1"], &args).done().expect_code(0);
    assert_eq!(done.out.trim(), format!("{:?}", &args[1..]));
}

fn rank_0_has_the_input() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(b"one\ntwo\n").unwrap();
    drop(writer);
    let run = launch_with_input(&["-n", "2"], &["stdin"], Stdio::from(reader));
    let done = run.done().expect_code(0);
    let mut lines = done.lines();
    lines.sort_unstable();
    assert_eq!(lines, [r#"rank 0 read ["one", "two"]"#, "rank 1 read []"]);
}

fn results_are_those_of_threads() {
    let threads = alone(&["sum", "threads"]).done().expect_code(0).out;
    assert_eq!(threads.lines().count(), 1, "{threads}");
    assert_eq!(alone(&["sum", "processes"]).done().expect_code(0).out, threads);
    for kind in ["threads", "processes"] {
        for option in ["--wait=spin", "--wait=adaptive", "--wait=park", "--bind=auto"] {
            let done = launch(&["-n", "3", option], &["sum", kind]).done().expect_code(0);
            assert_eq!(done.out, threads, "{kind} {option}");
        }
    }
}

fn another_number_of_ranks_than_asked_for_is_an_error() {
    for kind in ["threads", "processes"] {
        launch(&["-n", "3"], &["exactly", kind, "3"]).done().expect_code(0);
        for runs in ["1", "4"] {
            let done = launch(&["-n", runs], &["exactly", kind, "3"]).done().expect_code(1);
            let told = format!(
                "the program asks for a world of 3 ranks, but the launcher runs {runs}: start it by mprun -n 3"
            );
            assert_eq!(done.err.matches(&told).count(), 1, "{done:#?}");
        }
        let done = launch(&["-n", "1"], &["exactly", kind, "0"]).done().expect_code(1);
        done.expect_err("a world needs at least one rank: 0 were asked for");
    }
}

fn rank_0_makes_the_input_of_all() {
    let given = |ranks: &str, how: &str| launch(&["-n", ranks], &["given", how]).done();
    for ranks in ["1", "4"] {
        let done = given(ranks, "well").expect_code(0);
        assert_eq!(done.out, "made once\n", "{done:#?}");
    }
    let done = given("3", "badly").expect_code(1).expect_err("mprun: rank 0 failed");
    done.expect_err("rank 0: no such picture")
        .expect_err("rank 2: rank 0 did not make the input of World::run_with: ");
}

fn a_program_runs_one_world_after_another() {
    let threads = alone(&["rounds", "threads"]).done().expect_code(0).out;
    assert_eq!(threads.lines().count(), 20, "{threads}");
    assert!(threads.contains("3: rank 1 panicked: round 3"), "{threads}");
    assert_eq!(alone(&["rounds", "processes"]).done().expect_code(0).out, threads);
    for _ in 0..5 {
        let done = launch(&["-n", "3"], &["rounds", "processes"]).done().expect_code(0);
        assert_eq!(done.out, threads, "{}", done.err);
    }
}

fn many_worlds_take_no_more_memory_than_some() {
    let done = launch(&["-n", "3"], &["memory"]).done().expect_code(0);
    let most: Vec<u64> = done.lines().iter().map(|line| line.parse().unwrap()).collect();
    assert!(most[0] > 0 && most[1] <= most[0] + most[0] / 4, "{most:?}");
}

fn a_rank_that_leaves_early_is_lost_to_the_others() {
    for _ in 0..5 {
        let done = launch(&["-n", "3"], &["early"]).done().expect_code(0);
        assert_eq!(done.out, "rank 1 ended early with exit status 0\n", "{}", done.err);
    }
}

fn a_program_that_is_no_rank_is_warned_about() {
    let done = mprun(&["-n", "2", "echo", "hello"]).done().expect_code(0);
    assert_eq!(done.out, "hello\nhello\n");
    done.expect_err("warning: ranks 0 and 1 ended without entering the world: is echo linked");
}

fn wrong_usage_ends_with_2() {
    for args in [
        &[][..],
        &["-n", "2"],
        &["--nonsense", "true"],
        &["-n", "x", "true"],
        &["-n", "0", "true"],
        &["-n", "100000", "true"],
        &["--bind", "some", "true"],
        &["--bind", "60000", "true"],
        &["--wait", "hard", "true"],
        &["--timeout", "-1", "true"],
        &["--timeout", "soon", "true"],
        &["report", "me"],
    ] {
        let done = mprun(args).done().expect_code(2);
        assert!(!done.err.is_empty() && done.out.is_empty(), "{args:?}: {done:#?}");
    }
}

fn numbers_too_large_are_refused_with_their_limit() {
    for ranks in ["1025", "99999999999", "18446744073709551615", "18446744073709551616"] {
        let done = mprun(&["-n", ranks, "true"]).done().expect_code(2);
        let limit =
            if ranks.len() < 20 || ranks.ends_with('5') { "1 to 1024" } else { "too large" };
        done.expect_err(limit).expect_err(ranks);
    }
    for option in ["--grace", "--timeout"] {
        for time in ["1e19", "1e300", "inf", "nan", "1000000001"] {
            let done = mprun(&[option, time, "true"]).done().expect_code(2);
            done.expect_err("0 to 1000000000 seconds").expect_err(option);
        }
        mprun(&["-n", "1", option, "1e9", "true"]).done().expect_code(0);
    }
}

fn what_cannot_be_started_ends_with_127_or_126() {
    mprun(&["no-such-program-here"]).done().expect_code(127).expect_err("no-such-program-here");
    mprun(&["./no/such/path"]).done().expect_code(127).expect_err("./no/such/path");
    mprun(&["/etc/passwd"]).done().expect_code(126).expect_err("/etc/passwd");
    mprun(&["/"]).done().expect_code(126);
}

fn the_number_of_ranks_is_what_the_machine_can_run() {
    let ranks = onchip::topology::Allowance::read().unwrap().parallelism();
    let done = launch(&[], &["lines", "1"]).done().expect_code(0);
    assert_eq!(done.lines().len(), ranks);
}

fn topo_draws_the_machine() {
    let done = mprun(&["topo", "-n", "1"]).done().expect_code(0);
    assert!(done.out.contains("package 0"), "{done:#?}");
    assert_ne!(done.out, mprun(&["topo", "-n", "1", "--bind", "none"]).done().expect_code(0).out);
    mprun(&["topo", "--bind", "60000"]).done().expect_code(2);
}

fn topo_places_communication_threads() {
    // The placements that fit differ between machines; with `--force` all of them fit everywhere.
    for placement in ["kt-w", "skt", "kt-specialized", "generalized"] {
        let args = ["topo", "-n", "3", "--placement", placement, "--force"];
        let done = mprun(&args).done().expect_code(0);
        assert!(done.out.contains("\nranks     3"), "{done:#?}");
        assert!(done.out.contains("\nKTs       ") && done.out.contains("k0"), "{done:#?}");
    }
    let done = mprun(&["topo", "-n", "1", "--placement=auto"]).done().expect_code(0);
    assert!(done.out.contains("\nKTs       "), "{done:#?}");
    let ranks = onchip::topology::Allowance::read().unwrap().parallelism().to_string();
    let full = ["topo", "-n", &ranks, "--placement"];
    let done = mprun(&[&full[..], &["kt-w"]].concat()).done().expect_code(2);
    done.expect_err("kt-w needs");
    let done = mprun(&[&full[..], &["auto"]].concat()).done().expect_code(0);
    assert!(done.out.contains("KTs       none: no spare hardware thread: "), "{done:#?}");

    let skt = ["topo", "-n", "4", "--bind=none", "--force", "--placement=skt", "--kts=2"];
    let done = mprun(&skt).done().expect_code(0);
    assert!(done.out.contains("k0: ranks 0-1\n") && done.out.contains("k1: ranks 2-3\n"));

    for (args, reason) in [
        (&["topo", "--placement", "near"][..], "\"near\" is no placement"),
        (&["topo", "--placement", "skt", "--kts", "0"], "at least one communication thread"),
        (&["topo", "--placement", "kt-w", "--kts", "2"], "fixes the number"),
        (
            &["topo", "-n", "2", "--placement", "kt-specialized"],
            "one emitter, at least one worker and",
        ),
        (&["topo", "--kts", "2"], "--placement"),
        (&["topo", "-n", "99999999"], "99999999"),
        (&["topo", "--force"], "--placement"),
    ] {
        mprun(args).done().expect_code(2).expect_err(reason);
    }
}

fn subcommands_can_be_programs() {
    mprun(&["-n", "1", "--", "ps", "--version"]).done().expect_code(0).expect_err("warning");
}

fn the_size_of_the_segment_is_the_smaller_one_asked_for() {
    let fill = |size: &str, args: &[&str]| {
        let args = [&["fill"], args].concat();
        launch(&["-n", "2", "--segment-size", size], &args).done()
    };
    let full = |of: u64| format!("of {of} left at its end");
    for size in ["8M", "8388608", "8 MiB"] {
        let done = fill(size, &[]).expect_code(0);
        assert!(done.out.contains(&full(8 << 20)), "{done:#?}");
    }
    let done = fill("8M", &["4194304"]).expect_code(0);
    assert!(done.out.contains(&full(4 << 20)), "{done:#?}");
    fill("8M", &["1073741824"]).expect_code(1).expect_err("mprun --segment-size 1073741824");
    fill("8 elephants", &[]).expect_code(2).expect_err("512M");
    fill("9E", &[]).expect_code(125);
}
