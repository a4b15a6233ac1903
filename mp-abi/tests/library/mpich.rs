//! The library for programs that were built for MPICH.

use std::{fs, path::Path, process::Command};

use crate::{has_compiler, installed, names, rows, run};

/// The variables and the functions that MPICH's ABI has and the tables of both libraries have not.
const MORE: [&str; 8] = [
    "MPIR_Dup_fn",
    "MPI_F08_STATUSES_IGNORE",
    "MPI_F08_STATUS_IGNORE",
    "MPI_F_STATUSES_IGNORE",
    "MPI_F_STATUS_IGNORE",
    "MPI_T_PVAR_ALL_HANDLES",
    "MPI_UNWEIGHTED",
    "MPI_WEIGHTS_EMPTY",
];

#[test]
fn a_program_for_mpich_runs() {
    if !has_compiler("cc") {
        return;
    }
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mpich.c");
    let program = source.with_extension("program");
    fs::write(&source, include_str!("mpich.c")).unwrap();
    let lib = installed().canonicalize().unwrap().join("lib");
    run(Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-o"])
        .args([&program, &source, &lib.join("libmpi.so.12")])
        .arg(format!("-Wl,-rpath,{}", lib.display())));
    assert_eq!(run(&mut Command::new(&program)), "good\n");
    for (ranks, level) in [(1, "3"), (2, "0"), (3, "1"), (4, "2"), (2, "3")] {
        let all = run(Command::new(installed().join("bin/mpiexec"))
            .args(["-n", &ranks.to_string()])
            .arg(&program)
            .arg(level)
            .arg(source.with_extension(format!("{ranks}-{level}"))));
        assert_eq!(all, "good\n".repeat(ranks));
    }
}

#[test]
fn every_name_of_mpich_is_there() {
    let functions = ["functions.tsv", "extras.tsv", "mpich/extras.tsv"].map(rows).concat();
    names::compare("libmpi.so.12", &functions, &MORE);
}
