//! `mprun --nodes`, under the `mpiexec` of each MPI library that is there: in the folder that `benches/peers/install.sh`
//! writes, or that ONCHIP_PEERS names. The nodes are processes of this machine.

use std::path::{Path, PathBuf};

use super::harness::{
    Done, Run, Signal, kill, launch, mprun, mprun_with, start_with, this_program, until,
};

super::trials![
    what_a_program_prints_does_not_depend_on_the_nodes,
    all_ranks_print_once,
    messages_with_tags_reach_all_nodes,
    a_rank_may_end_early,
    all_nodes_say_which_rank_failed,
    a_failure_on_one_node_ends_the_ranks_of_all,
    a_signal_for_one_mprun_ends_all,
    a_signal_for_an_mprun_without_ranks_ends_all,
    a_killed_mprun_ends_all,
    ranks_that_could_not_be_started_are_told_once,
    a_program_that_asks_for_other_ranks_is_told_so,
    one_node_needs_no_mpiexec,
    wrong_options_and_libraries_are_named,
];

/// Returns the folders of the MPI libraries that are there.
fn homes() -> Vec<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../peers-work");
    let peers = std::env::var_os("ONCHIP_PEERS").map_or_else(beside, PathBuf::from);
    let homes = ["mpich", "impi"].map(|name| peers.join(name));
    let is_there = |home: &PathBuf| library(home).exists() && home.join("bin/mpiexec").exists();
    let (there, missing): (Vec<_>, Vec<_>) = homes.into_iter().partition(is_there);
    for home in missing {
        eprintln!("skipped: there is no {}", library(&home).display());
    }
    there
}

fn library(home: &Path) -> PathBuf {
    home.join("lib/libmpi_abi.so.1")
}

/// Returns what a node needs to find the library and its parts.
fn variables(home: &Path) -> Vec<(&'static str, String)> {
    let path = |path: PathBuf| path.to_str().expect("a path in UTF-8").to_owned();
    let libraries = [path(home.join("lib")), path(home.join("lib/libfabric"))].join(":");
    vec![
        ("ONCHIP_MPI", path(library(home))),
        ("LD_LIBRARY_PATH", libraries),
        ("I_MPI_FABRICS", "shm".to_owned()),
    ]
}

/// Starts one `mprun` for each of these numbers of ranks.
fn on_nodes(home: &Path, nodes: &[usize], options: &[&str], command: &[&str]) -> Run {
    let mut args: Vec<String> = Vec::new();
    for (node, ranks) in nodes.iter().enumerate() {
        args.extend((node > 0).then(|| ":".to_owned()));
        let ranks = ranks.to_string();
        let mprun = ["-n", "1", env!("CARGO_BIN_EXE_mprun"), "--nodes", "-n", &ranks];
        args.extend(mprun.iter().chain(options).chain(command).map(ToString::to_string));
    }
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let variables = variables(home);
    let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, &**value)).collect();
    start_with(&variables, home.join("bin/mpiexec").to_str().expect("a path in UTF-8"), &args)
}

/// Starts one of the programs in this crate.
fn nodes(home: &Path, nodes: &[usize], options: &[&str], program: &[&str]) -> Run {
    on_nodes(home, nodes, options, &[&[this_program(), "--program"], program].concat())
}

/// The ways to have three ranks on several nodes.
const THREE: [&[usize]; 3] = [&[1, 2], &[2, 1], &[1, 1, 1]];

fn what_a_program_prints_does_not_depend_on_the_nodes() {
    let programs: [&[&str]; 5] = [
        &["sum", "processes"],
        &["rounds", "processes"],
        &["given", "well"],
        &["mended"],
        &["args", "a", "b c"],
    ];
    for program in programs {
        let expected = launch(&["-n", "3"], program).done().expect_code(0);
        for home in homes() {
            for world in THREE {
                let done = nodes(&home, world, &["--grace", "60"], program).done().expect_code(0);
                assert_eq!(done.out, expected.out, "{world:?}: {done:#?}");
                assert!(!done.err.contains("mprun of node"), "{done:#?}");
            }
        }
    }
}

fn all_ranks_print_once() {
    for home in homes() {
        let done = nodes(&home, &[2, 1, 2], &[], &["lines", "3"]).done().expect_code(0);
        assert_eq!(done.lines().len(), 15, "{done:#?}");
        for rank in 0..5 {
            for line in 0..3 {
                let text = format!("line {line} of rank {rank}");
                assert_eq!(
                    done.lines().iter().filter(|line| **line == text).count(),
                    1,
                    "{done:#?}"
                );
            }
        }
        // Outside of the world, only rank 0 is heard.
        let done = nodes(&home, &[1, 2], &[], &["muted"]).done().expect_code(0);
        let mut lines = done.lines();
        lines.sort_unstable();
        assert_eq!(lines, ["after", "before", "begun beforeinside 0", "inside 1", "inside 2"]);
        let tagged = nodes(&home, &[1, 1], &["--tag-output"], &["lines", "1"]).done();
        let tagged = tagged.expect_code(0);
        for rank in 0..2 {
            let line = format!("[{rank}] error of rank {rank}\n");
            assert_eq!(tagged.err.matches(&line).count(), 1, "{tagged:#?}");
        }
    }
}

fn messages_with_tags_reach_all_nodes() {
    for home in homes() {
        for world in [&[1, 1][..], &[2, 2], &[1, 2, 1]] {
            let done = nodes(&home, world, &[], &["tagged"]).done().expect_code(0);
            assert_eq!(done.out, "all messages were right\n", "{world:?}");
        }
    }
}

fn a_rank_may_end_early() {
    for home in homes() {
        for world in THREE {
            let done = nodes(&home, world, &[], &["early"]).done().expect_code(0);
            assert!(done.out.contains("rank 1 ended early with exit status 0"), "{done:#?}");
        }
    }
}

/// The mprun of the rank's node says which one failed, and the others say of which node it is.
#[track_caller]
fn expect_told(done: &Done, world: &[usize], rank: usize, words: &str) {
    let node_of: Vec<usize> =
        (0..).zip(world).flat_map(|(node, &ranks)| vec![node; ranks]).collect();
    for node in 0..world.len() {
        let of = match node_of[rank] {
            of if of == node => String::new(),
            of => format!(" of node {of}"),
        };
        let line = format!("mprun of node {node}: rank {rank}{of} {words}");
        assert_eq!(done.err.matches(&line).count(), 1, "{line:?} in {done:#?}");
    }
}

fn all_nodes_say_which_rank_failed() {
    for home in homes() {
        for (how, status, words) in [
            ("error", 1, "failed (exit status 1): no such picture"),
            ("panic", 1, "panicked (exit status 1): so be it"),
            ("exit", 7, "ended with exit status 7"),
            ("kill", 137, "was killed by SIGKILL"),
            ("exit-0", 1, "ended with exit status 0 in the middle"),
        ] {
            for world in [&[1, 2][..], &[1, 1, 1]] {
                for who in [0, 2] {
                    let done = nodes(&home, world, &[], &["end", how, &who.to_string()]).done();
                    expect_told(&done, world, who, words);
                    // The program is one, whose ranks all know the same.
                    assert_eq!(done.err.matches("the program failed: ").count(), 1, "{done:#?}");
                    assert_eq!(done.status.code(), Some(status), "{done:#?}");
                }
            }
        }
    }
}

fn a_failure_on_one_node_ends_the_ranks_of_all() {
    for home in homes() {
        for (how, words) in [("panic", "panicked: so be it"), ("error", "failed: no such picture")]
        {
            for others in ["compute", "ignore"] {
                for who in [0, 2] {
                    let (world, program) = ([1, 2], ["among", how, others, &who.to_string()]);
                    let done = nodes(&home, &world, &["--grace", "0.3"], &program).done();
                    expect_told(&done, &world, who, words);
                    let ended = if who == 0 {
                        "node 1: ended ranks 1 and 2"
                    } else {
                        "node 0: ended rank 0"
                    };
                    let signal = if others == "compute" { "SIGTERM" } else { "SIGKILL" };
                    done.expect_code(1)
                        .expect_err(&format!("mprun of {ended}\n"))
                        .expect_err(&format!("rank 1 was killed by {signal}"));
                }
            }
        }
    }
}

/// Starts ranks on two nodes that hang. Returns the run and the process of the second mprun.
fn hanging(home: &Path) -> (Run, i32) {
    let mut run = nodes(home, &[1, 1], &["--grace", "0.3"], &["hang"]);
    let mut pids = Vec::new();
    for rank in 0..2 {
        let text = format!("rank {rank} of ");
        let out = run.await_out(&text);
        let line = out.lines().find(|line| line.starts_with(&text)).unwrap().to_owned();
        pids.push(line[text.len()..].parse::<i32>().unwrap());
    }
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pids[1])).unwrap();
    let parent = stat.rsplit_once(") ").unwrap().1.split(' ').nth(1).unwrap().parse().unwrap();
    (run, parent)
}

fn a_signal_for_one_mprun_ends_all() {
    for home in homes() {
        let (run, mprun) = hanging(&home);
        kill(mprun, Signal::SIGTERM);
        let done = run.done();
        expect_told(&done, &[1, 1], 1, "was killed by SIGTERM");
        done.expect_code(143).expect_err("mprun of node 0: ended rank 0\n");
    }
}

fn a_signal_for_an_mprun_without_ranks_ends_all() {
    for home in homes() {
        let mut run = nodes(&home, &[1, 1], &["--grace", "0.3"], &["stay"]);
        run.await_out("rank 0 stays");
        let out = run.await_out("rank 1: ");
        let line = out.lines().find_map(|line| line.strip_prefix("rank 1: ")).unwrap();
        let (rank, mprun) = line.trim_end_matches('.').split_once(" of ").unwrap();
        until("rank 1 to end", || (!Path::new("/proc").join(rank).exists()).then_some(()));
        kill(mprun.parse().unwrap(), Signal::SIGTERM);
        let done = run.done();
        assert!(!done.status.success(), "{done:#?}");
    }
}

fn a_killed_mprun_ends_all() {
    for home in homes() {
        let (run, mprun) = hanging(&home);
        kill(mprun, Signal::SIGKILL);
        let done = run.done();
        assert!(!done.status.success(), "{done:#?}");
    }
}

fn ranks_that_could_not_be_started_are_told_once() {
    for home in homes() {
        let done = on_nodes(&home, &[1, 1], &[], &["/no/such/program"]).done().expect_code(127);
        for node in 0..2 {
            let line =
                format!("mprun of node {node}: starting the program failed: /no/such/program");
            assert_eq!(done.err.matches(&line).count(), 1, "{done:#?}");
        }
        assert_eq!(done.err.matches("/no/such/program").count(), 2, "{done:#?}");
    }
}

fn a_program_that_asks_for_other_ranks_is_told_so() {
    for home in homes() {
        let done = nodes(&home, &[2, 2], &[], &["exactly", "processes", "3"]).done().expect_code(1);
        let words = "asks for a world of 3 ranks, but the launchers of all nodes run 4: start it by mprun --nodes";
        assert_eq!(done.err.matches(words).count(), 1, "{done:#?}");
    }
}

fn one_node_needs_no_mpiexec() {
    for home in homes() {
        let variables = variables(&home);
        let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, &**value)).collect();
        let args = ["--nodes", "-n", "3", this_program(), "--program"];
        let expected = launch(&["-n", "3"], &["sum", "processes"]).done().out;
        let done = mprun_with(&variables, &[&args[..], &["sum", "processes"]].concat()).done();
        assert_eq!(done.expect_code(0).out, expected);
        let done = mprun_with(&variables, &[&args[..], &["end", "kill", "1"]].concat()).done();
        done.expect_code(137).expect_err("mprun: rank 1 was killed by SIGKILL");
        // What has started it, and is unknown to the library, says that there are others.
        let others = [&variables[..], &[("OMPI_COMM_WORLD_SIZE", "2")]].concat();
        let done = mprun_with(&others, &[&args[..], &["sum", "processes"]].concat()).done();
        done.expect_code(125)
            .expect_err("no other one, although OMPI_COMM_WORLD_SIZE says that it is one of 2")
            .expect_err("Set ONCHIP_MPI to the file libmpi_abi.so of that one");
    }
}

fn wrong_options_and_libraries_are_named() {
    for option in [["--spare", "3"], ["--trace", "trace.svg"]] {
        let done = mprun(&["--nodes", option[0], option[1], "true"]).done().expect_code(2);
        done.expect_err(&format!("'--nodes' cannot be used with '{}", option[0]));
    }
    let with = |library| mprun_with(&[("ONCHIP_MPI", library)], &["--nodes", "true"]).done();
    with("/nowhere/libmpi_abi.so")
        .expect_code(125)
        .expect_err("mprun: the MPI library /nowhere/libmpi_abi.so can't be loaded")
        .expect_err(
            "Set ONCHIP_MPI to the path of the file libmpi_abi.so of an installed MPI library",
        );
    with("libc.so.6").expect_code(125).expect_err("no MPI library with the standard ABI");
    // Without `--nodes`, no library is looked for.
    mprun_with(&[("ONCHIP_MPI", "/nowhere")], &["-n", "1", "true"]).done().expect_code(0);
}
