//! `mprun --trace`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use super::{compile, has_compiler, installed, run};

/// Returns the command that runs a program as three ranks, with a trace in this file.
fn traced(file: &Path, program: &Path) -> Command {
    let mut command = Command::new(installed().join("bin/mpiexec"));
    command.args(["-n", "3", "--trace"]).args([file, program]);
    command
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

#[test]
fn the_calls_of_all_ranks_are_drawn() {
    if !has_compiler("cc") {
        return;
    }
    let program = compile("mpicc", "record.c", include_str!("record.c"));
    let trace = file("record.json");
    run(&mut traced(&trace, &program));
    let trace: Value = serde_json::from_slice(&fs::read(&trace).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    for rank in 0..3 {
        for (call, times) in [
            ("MPI_Irecv", 3),
            ("MPI_Send", 3),
            ("MPI_Wait", 3),
            ("MPI_Barrier", 1),
            ("MPI_Comm_rank", 0),
        ] {
            let is_call = |event: &&Value| {
                let args = &event["args"];
                event["ph"] == "X"
                    && event["pid"] == rank
                    && (args["channel"] == call || args["operation"] == call)
            };
            assert_eq!(events.iter().filter(is_call).count(), times, "rank {rank}: {call}");
        }
    }
    let picture = file("record.svg");
    run(&mut traced(&picture, &program));
    let picture = fs::read_to_string(picture).unwrap();
    assert!(picture.starts_with("<svg") && picture.contains("rank 2"), "{picture}");
}

#[test]
fn without_calls_there_is_no_trace() {
    let trace = file("nothing.json");
    let output = traced(&trace, Path::new("true")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("no rank has recorded a call"), "{said}");
    assert!(!trace.exists());
}
