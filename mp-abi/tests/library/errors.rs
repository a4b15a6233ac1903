//! Errors of programs in C: their handlers, their classes, and what is said of them.

use std::{path::PathBuf, process::Command, sync::OnceLock};

use crate::{compile, has_compiler, installed, run};

/// Compiles once, because a program can't be written while it runs.
fn program() -> &'static PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compile("mpicc", "errors.c", include_str!("errors.c")))
}

fn launch(ranks: &str, what: &str) -> Command {
    let mut command = Command::new(installed().join("bin/mpiexec"));
    command.args(["-n", ranks]).arg(program()).args((!what.is_empty()).then_some(what));
    command
}

#[test]
fn errors_come_to_the_right_handler_and_say_what_is_wrong() {
    if !has_compiler("cc") {
        return;
    }
    assert_eq!(run(&mut Command::new(program())), "good\n");
    assert_eq!(run(&mut launch("2", "")), "good\ngood\n");
}

#[test]
fn ranks_learn_of_an_abort_and_can_end() {
    if !has_compiler("cc") {
        return;
    }
    let output = launch("3", "aborted").output().unwrap();
    assert_eq!(output.status.code(), Some(9));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "good\ngood\n");
}

#[test]
fn ranks_that_compare_their_calls_find_every_difference() {
    if !has_compiler("cc") {
        return;
    }
    let cases = [
        "scan-op",
        "scan-count",
        "exscan-op",
        "scan-barrier",
        "reduce-op",
        "iscan-op",
        "iscan-count",
        "iexscan-iscan",
        "ireduce-op",
        "pairs-root",
        "gatherv",
        "gatherv-barrier",
        "scatterv",
    ];
    for case in cases {
        let mut command = launch("3", case);
        let output = command.env("ONCHIP_CHECK", "1").output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "good\ngood\ngood\n", "{case}");
    }
}

/// What several ranks write at once must not come between the parts of a line.
#[test]
fn each_rank_says_in_a_line_of_its_own_why_it_ends_the_program() {
    if !has_compiler("cc") {
        return;
    }
    for _ in 0..20 {
        let output = launch("4", "fatal").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_whole = |line: &str| {
            let of_rank = line.strip_prefix("rank ").map(|line| &line[1..]);
            let of_launcher = line.strip_prefix("mprun: rank ").map(|line| &line[1..]);
            of_rank.is_some_and(|line| line == ": MPI_Send: the count is negative: -1 (MPI_ERR_COUNT)")
                || of_launcher.is_some_and(|line| {
                    line == " failed (exit status 2): MPI_Send: the count is negative: -1 (MPI_ERR_COUNT)"
                })
                || line == "mprun: ended ranks 0-3"
        };
        assert!(said.lines().all(is_whole), "{said}");
    }
}
