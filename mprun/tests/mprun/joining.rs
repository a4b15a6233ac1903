//! Ranks without closures: `World::join` and `Joined::leave`.

use super::harness::{alone, launch, mprun, this_program};

super::trials![
    ranks_join_and_leave_as_often_as_they_all_want,
    a_world_without_a_launcher_is_one_rank,
    a_rank_that_fails_or_ends_between_joining_and_leaving_is_told,
    a_rank_joins_once_at_a_time,
    the_first_program_that_can_be_the_rank_is_it,
    every_rank_of_another_program_is_heard,
];

fn ranks_join_and_leave_as_often_as_they_all_want() {
    for ranks in [1, 2, 3, 5] {
        let done = launch(&["-n", &ranks.to_string()], &["joined", "3"]).done().expect_code(0);
        let mut lines = done.lines();
        lines.sort_unstable();
        let mut expected: Vec<String> = (0..3)
            .flat_map(|round| {
                let after = move |rank| {
                    format!("round {round}: rank {rank} after {}", (rank + ranks - 1) % ranks)
                };
                (0..ranks).map(after)
            })
            .collect();
        // What ranks print between two rounds is heard of rank 0 alone.
        expected.extend((0..3).map(|round| format!("rank 0 left round {round}")));
        expected.sort_unstable();
        assert_eq!(lines, expected, "{}", done.err);
    }
}

fn a_world_without_a_launcher_is_one_rank() {
    let done = alone(&["joined", "2"]).done().expect_code(0);
    let expected = [
        "round 0: rank 0 after 0",
        "rank 0 left round 0",
        "round 1: rank 0 after 0",
        "rank 0 left round 1",
    ];
    assert_eq!(done.lines(), expected, "{}", done.err);
}

fn a_rank_that_fails_or_ends_between_joining_and_leaving_is_told() {
    let end = |how: &str| launch(&["-n", "3"], &["joined_end", how]).done();
    end("fail")
        .expect_code(9)
        .expect_err("mprun: rank 1 failed (exit status 9): it has had enough");
    end("exit").expect_code(5).expect_err("mprun: rank 1 ended with exit status 5");
    end("succeed").expect_err("rank 1 ended with exit status 0");
    end("drop").expect_code(4).expect_err("dropped without a call of `leave`");
    end("kill").expect_code(137).expect_err("mprun: rank 1 was killed by SIGKILL");
    // The others learn of the end from `leave`, and also from a wait.
    for who in ["0", "2"] {
        end("kill").expect_err(&format!("rank {who} waited in vain: true, and left: "));
    }
}

fn a_rank_joins_once_at_a_time() {
    for run in [launch(&["-n", "2"], &["joined_twice"]), alone(&["joined_twice"])] {
        let done = run.done().expect_code(0);
        assert!(
            done.lines().iter().all(|line| line.contains("leave the first one before")),
            "{done:#?}"
        );
    }
    let done = alone(&["joined_in_run"]).done().expect_code(0);
    assert_eq!(done.lines().len(), 2);
    assert!(
        done.lines().iter().all(|line| line.contains("leave the first one before")),
        "{done:#?}"
    );
}

/// A shell in between hands the rank on to the first program with the library that it starts.
fn the_first_program_that_can_be_the_rank_is_it() {
    let program = this_program();
    let script = format!(
        "echo begin; '{program}' --program joined 1; '{program}' --program joined 1; echo end"
    );
    let done = mprun(&["-n", "2", "sh", "-c", &script]).done().expect_code(0);
    let count = |text: &str| done.lines().iter().filter(|line| **line == text).count();
    assert_eq!((count("begin"), count("end")), (2, 2), "{done:#?}");
    // The second program of each shell is refused, because the rank would be two processes.
    assert_eq!(count("round 0: rank 0 after 1"), 1, "{done:#?}");
    assert_eq!(count("round 0: rank 1 after 0"), 1, "{done:#?}");
    let refused = "the program that was started as the rank has started several";
    assert_eq!(done.err.matches(refused).count(), 2, "{done:#?}");
}

fn every_rank_of_another_program_is_heard() {
    let script = "echo $PMI_RANK of $PMI_SIZE, $MPI_LOCALRANKID of $MPI_LOCALNRANKS";
    let done = mprun(&["-n", "3", "sh", "-c", script]).done().expect_code(0);
    let mut lines = done.lines();
    lines.sort_unstable();
    assert_eq!(lines, ["0 of 3, 0 of 3", "1 of 3, 1 of 3", "2 of 3, 2 of 3"], "{}", done.err);
}
