//! Worlds on several nodes whose ranks are processes. The launchers of the nodes are threads of this program, which are
//! connected in memory. This program is both sides: with `--program` it is the ranks' program.

#[path = "../support/watchdog.rs"]
mod watchdog;

mod launchers;
mod programs;

use std::{process::ExitCode, time::Duration};

use libtest_mimic::{Arguments, Trial};
use onchip::launch::Ending;

use launchers::{Ran, left_behind, run, run_and_kill, run_beside_a_lost_node};

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() == Some("--program") {
        let name = args.next().unwrap_or_default();
        return programs::run(&name, &args.collect::<Vec<_>>());
    }
    let trial = |name: &'static str, test: fn()| {
        Trial::test(name, move || {
            let _watchdog = watchdog::Watchdog::start(name);
            test();
            Ok(())
        })
    };
    let trials = vec![
        trial("every_rank_gets_the_results_of_all", every_rank_gets_the_results_of_all),
        trial("ranks_know_their_nodes", ranks_know_their_nodes),
        trial("long_results_arrive", long_results_arrive),
        trial("a_failure_ends_a_round_and_not_the_program", a_failure_ends_a_round),
        trial("a_rank_may_end_between_two_rounds", a_rank_may_end_between_two_rounds),
        trial("an_input_is_made_once", an_input_is_made_once),
        trial("a_world_is_joined_and_left_again", a_world_is_joined_and_left_again),
        trial("a_rank_that_is_killed_is_lost_to_all_nodes", a_rank_that_is_killed_is_lost),
        trial(
            "survivors_go_on_without_a_rank_that_is_killed",
            survivors_go_on_without_a_rank_that_is_killed,
        ),
        trial("communicators_shrink_in_every_round", communicators_shrink_in_every_round),
        trial("all_nodes_know_who_failed_first", all_nodes_know_who_failed_first),
        trial("a_lost_node_is_lost_with_its_ranks", a_lost_node_is_lost_with_its_ranks),
        trial("a_rank_may_be_killed_at_any_moment", a_rank_may_be_killed_at_any_moment),
        trial("no_further_ranks_are_started", no_further_ranks_are_started),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Nodes and their ranks.
const WORLDS: [&[usize]; 5] = [&[2], &[1, 1], &[2, 1], &[1, 2, 2], &[1, 1, 1]];

/// Checks that all processes ended with 0 and that nothing is left. Returns what the ranks have printed.
#[track_caller]
fn succeeds(ran: Ran) -> String {
    for (rank, ending) in ran.endings.iter().enumerate() {
        assert_eq!(*ending, Some(Ending::Exited(0)), "rank {rank}: {}", ran.out);
    }
    assert!(ran.first_failed.iter().all(Option::is_none), "{:?}", ran.first_failed);
    assert_eq!(left_behind(&ran.mark), Vec::<i32>::new(), "processes that were left behind");
    ran.out
}

fn every_rank_gets_the_results_of_all() {
    for nodes in WORLDS {
        let size: usize = nodes.iter().sum();
        let out = succeeds(run(nodes, &["ring"]));
        // Each rank prints once in each of three rounds, and rank 0 in the end.
        for rank in 0..size {
            for round in 0..3 {
                let line = format!("rank {rank} in round {round}\n");
                assert_eq!(out.matches(&line).count(), 1, "{line:?} in {out}");
            }
        }
        assert_eq!(out.matches("all ranks know the same\n").count(), 1, "{out}");
        assert_eq!(out.lines().count(), 3 * size + 1, "{out}");
    }
}

fn ranks_know_their_nodes() {
    for nodes in WORLDS {
        let node_of = (0..).zip(nodes).flat_map(|(node, &ranks)| vec![node; ranks]);
        let expected: Vec<usize> = node_of.collect();
        let out = succeeds(run(nodes, &["where"]));
        assert_eq!(out, format!("{expected:?}\n"));
    }
}

fn long_results_arrive() {
    for nodes in [&[1, 1][..], &[2, 1, 1]] {
        assert_eq!(succeeds(run(nodes, &["long"])), "long results are right\n");
    }
}

fn a_failure_ends_a_round() {
    for nodes in [&[2, 1][..], &[1, 2], &[1, 1, 1]] {
        let out = succeeds(run(nodes, &["mended"]));
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines.len(), 12, "{out}");
        for (round, line) in lines.iter().enumerate() {
            let expected = match round % 4 {
                1 => format!("{round}: rank 1 panicked: round {round}"),
                2 => format!("{round}: rank 2: no more"),
                _ => format!("{round}: "),
            };
            assert!(line.starts_with(&expected), "{expected:?}: {out}");
        }
    }
}

fn a_rank_may_end_between_two_rounds() {
    for nodes in [&[1, 1, 1][..], &[2, 1], &[1, 2]] {
        let ran = run(nodes, &["early"]);
        assert!(ran.out.contains("1 of the ranks failed: rank 1 ended early"), "{}", ran.out);
        assert_eq!(ran.endings[1], Some(Ending::Exited(0)));
        assert_eq!(left_behind(&ran.mark), Vec::<i32>::new());
    }
}

fn an_input_is_made_once() {
    for nodes in [&[2, 1][..], &[1, 1, 1]] {
        assert_eq!(succeeds(run(nodes, &["given"])), "made once\n");
    }
}

fn a_world_is_joined_and_left_again() {
    for nodes in WORLDS {
        let (out, size) = (succeeds(run(nodes, &["joined"])), nodes.iter().sum::<usize>());
        for round in 0..3 {
            assert_eq!(out.matches(&format!("round {round} of rank ")).count(), size, "{out}");
        }
    }
}

fn a_rank_that_is_killed_is_lost() {
    for nodes in [&[1, 1][..], &[2, 1], &[1, 2], &[1, 1, 1]] {
        let size: usize = nodes.iter().sum();
        for (who, degree) in [(0, "1"), (size - 1, "1"), (0, "0"), (size - 1, "0")] {
            let ran = run(nodes, &["killed", &who.to_string(), degree]);
            for (rank, ending) in ran.endings.iter().enumerate() {
                let expected = if rank == who { Ending::Killed(9) } else { Ending::Exited(1) };
                assert_eq!(*ending, Some(expected), "rank {rank}: {}", ran.out);
            }
            // All ranks that live know the same cause.
            let cause = format!("rank {who} was killed by SIGKILL");
            assert_eq!(ran.err.matches(&cause).count(), 1, "{}\n{}", ran.out, ran.err);
            assert!(ran.first_failed.iter().all(|first| *first == Some(who)), "{ran:?}");
            assert_eq!(left_behind(&ran.mark), Vec::<i32>::new());
        }
    }
}

fn survivors_go_on_without_a_rank_that_is_killed() {
    for nodes in [&[1, 2][..], &[2, 1], &[1, 1, 1]] {
        for who in 0..3 {
            let ran = run(nodes, &["survives", &who.to_string()]);
            let flag = [2 & 3, 1 & 3, 1 & 2][who];
            let words = format!(" has 2 left, and agreed on {flag}");
            assert_eq!(ran.out.matches(&words).count(), 2, "{ran:?}");
            assert_eq!(left_behind(&ran.mark), Vec::<i32>::new());
        }
    }
}

fn communicators_shrink_in_every_round() {
    for nodes in [&[1, 1][..], &[1, 2], &[1, 1, 1]] {
        let out = succeeds(run(nodes, &["shrinks"]));
        assert_eq!(out.matches("done").count(), 1, "only rank 0 is heard: {out}");
    }
}

fn all_nodes_know_who_failed_first() {
    for how in ["error", "panic", "exit"] {
        for who in [0, 2] {
            let ran = run(&[1, 2], &["fails", how, &who.to_string()]);
            let failed = ran.failures.iter().map(|failure| failure.as_ref().unwrap());
            for failure in failed {
                let words = match how {
                    "error" => format!("rank {who}: so be it"),
                    "panic" => format!("rank {who} panicked: so be it"),
                    _ => format!("rank {who} ended early with exit status 7"),
                };
                assert_eq!(failure.to_string(), words, "{ran:?}");
            }
            assert!(ran.endings.iter().all(|ending| *ending != Some(Ending::Exited(0))), "{ran:?}");
        }
    }
}

fn a_lost_node_is_lost_with_its_ranks() {
    let ran = run_beside_a_lost_node(&[2, 1, 1], 1, &["killed", "2", "0"]);
    for rank in [0, 1, 3] {
        assert_eq!(ran.endings[rank], Some(Ending::Exited(1)), "{ran:?}");
    }
    assert!(ran.err.contains("rank 2 vanished"), "{ran:?}");
    assert_eq!(left_behind(&ran.mark), Vec::<i32>::new());
}

/// The others end by themselves, whether the rank dies before, in or between rounds.
fn a_rank_may_be_killed_at_any_moment() {
    for round in 0..24 {
        let nodes = [&[1, 2][..], &[2, 1], &[1, 1, 1]][round % 3];
        let (who, after) = (round / 3 % 3, Duration::from_micros(977 * (20 + 7 * round as u64)));
        let ran = run_and_kill(nodes, who, after, &["churn"]);
        for (rank, ending) in ran.endings.iter().enumerate() {
            let expected = if rank == who { Ending::Killed(9) } else { Ending::Exited(1) };
            assert_eq!(*ending, Some(expected), "rank {rank} of {nodes:?}: {}", ran.err);
        }
        assert!(ran.first_failed.iter().all(|first| *first == Some(who)), "{ran:?}");
        assert_eq!(left_behind(&ran.mark), Vec::<i32>::new());
    }
}

fn no_further_ranks_are_started() {
    let out = succeeds(run(&[1, 1], &["further"]));
    let words = "a world of several nodes can't have further ranks";
    assert_eq!(out.matches(words).count(), 2, "{out}");
    assert_eq!(out.matches("names can't be published or looked up").count(), 2, "{out}");
}
