//! `mprun --trace`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::{Value, json};

use super::{compile, has_compiler, installed, run};

/// Returns a new folder of a test, and the command that runs a program as three ranks, with a trace in a file there.
fn traced(test: &str, file: &str, program: &Path) -> (PathBuf, Command) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("record-{test}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let mut command = Command::new(installed().join("bin/mpiexec"));
    command.args(["-n", "3", "--grace", "0.2", "--trace"]).arg(folder.join(file));
    command.arg(program).env("TMPDIR", &folder);
    (folder, command)
}

/// Returns the trace in a folder, where nothing else is.
fn trace(folder: &Path) -> Value {
    let left: Vec<_> = fs::read_dir(folder).unwrap().map(|one| one.unwrap().file_name()).collect();
    assert_eq!(left, ["calls.json"]);
    serde_json::from_slice(&fs::read(folder.join("calls.json")).unwrap()).unwrap()
}

/// Returns the calls of this name that a rank has made.
fn calls<'a>(trace: &'a Value, rank: usize, name: &str) -> Vec<&'a Value> {
    let events = trace["traceEvents"].as_array().unwrap();
    let is_call =
        |event: &&Value| event["ph"] == "X" && event["pid"] == rank && event["name"] == name;
    events.iter().filter(is_call).collect()
}

fn program(test: &str) -> PathBuf {
    compile("mpicc", &format!("record-{test}.c"), include_str!("record.c"))
}

#[test]
fn the_calls_of_all_ranks_are_drawn() {
    if !has_compiler("cc") {
        return;
    }
    let program = program("drawn");
    let (folder, mut command) = traced("drawn", "calls.json", &program);
    run(&mut command);
    let trace = trace(&folder);
    for rank in 0..3 {
        let (next, last) = ((rank + 1) % 3, (rank + 2) % 3);
        let world = |more: Value| {
            let mut all = json!({ "comm": "MPI_COMM_WORLD", "ranks": 3 });
            all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            all
        };
        let turned = |more: Value| {
            let mut all = world(more);
            all["comm"] = "turned \"round\"".into();
            all
        };
        for (name, times, kind, args) in [
            ("MPI_Irecv", 4, "receive", world(json!({ "from": last, "tag": 7, "bytes": 16 }))),
            ("MPI_Isend", 1, "send", world(json!({ "to": next, "tag": 8, "bytes": 8 }))),
            ("MPI_Wait", 3, "wait", json!({ "requests": 1 })),
            ("MPI_Waitall", 1, "wait", json!({ "requests": 2 })),
            (
                "MPI_Sendrecv",
                1,
                "messages",
                world(json!({
                    "to": next, "tag": 9, "bytes": 4, "from": last, "receive_tag": 9, "receive_bytes": 4
                })),
            ),
            // Rank 0 there is rank 2 of the world.
            ("MPI_Bcast", 1, "collective", turned(json!({ "root": 2, "bytes": 16 }))),
            ("MPI_Allreduce", 1, "collective", world(json!({ "bytes": 16 }))),
            ("MPI_Alltoall", 1, "collective", world(json!({ "bytes": 12 }))),
            ("MPI_Gather", 1, "collective", world(json!({ "root": 1, "bytes": 8 }))),
            ("MPI_Barrier", 1, "collective", world(json!({}))),
            ("MPI_Comm_split", 1, "collective", world(json!({}))),
            ("MPI_Win_create", 1, "collective", turned(json!({ "bytes": 48 }))),
            ("MPI_Win_lock", 1, "wait", json!({ "target": 2, "ranks": 3 })),
            ("MPI_Put", 1, "send", json!({ "target": 2, "ranks": 3, "bytes": 4 })),
            ("MPI_Finalize", 1, "collective", json!({})),
            ("MPI_Comm_rank", 0, "", json!({})),
        ] {
            let found = calls(&trace, rank, name);
            assert_eq!(found.len(), times, "rank {rank}: {name}");
            if let Some(first) = found.first() {
                assert_eq!((&first["args"], &first["cat"]), (&args, &kind.into()), "{name}");
            }
        }
        let wild = &calls(&trace, rank, "MPI_Irecv")[3]["args"];
        assert_eq!((&wild["from"], &wild["tag"]), (&"any".into(), &"any".into()));
        let ends = &trace["otherData"]["ends"];
        assert_eq!(ends[format!("rank {rank}")], "MPI_Finalize");
    }
    let sent = &calls(&trace, 0, "MPI_Send")[3]["args"];
    assert_eq!((&sent["to"], &sent["comm"]), (&2.into(), &"turned \"round\"".into()));
    let taken = &calls(&trace, 2, "MPI_Recv")[0]["args"];
    // A receive from any rank says afterwards what has come.
    assert_eq!((&taken["from"], &taken["tag"], &taken["bytes"]), (&0.into(), &1.into(), &4.into()));

    let (folder, mut command) = traced("picture", "calls.svg", &program);
    run(&mut command);
    let picture = fs::read_to_string(folder.join("calls.svg")).unwrap();
    assert!(picture.starts_with("<svg") && picture.contains("rank 2"), "{picture}");
    assert!(picture.contains(">send</text>") && !picture.contains("MPI_"), "{picture}");
}

#[test]
fn a_rank_that_does_not_come_to_its_end_is_drawn_up_to_there() {
    if !has_compiler("cc") {
        return;
    }
    let program = program("ends");
    for (how, code, said) in [
        ("killed", 137, "killed by SIGKILL"),
        ("crashed", 139, "killed by SIGSEGV"),
        ("exited", 3, "exit status 3, without MPI_Finalize"),
        ("aborted", 5, "exit status 5: MPI_Abort was called with the code 5"),
    ] {
        let (folder, mut command) = traced(how, "calls.json", &program);
        let Output { status, stderr, .. } = command.arg(how).output().unwrap();
        let stderr = String::from_utf8_lossy(&stderr);
        assert_eq!(status.code(), Some(code), "{how}: {stderr}");
        let trace = trace(&folder);
        let ends = &trace["otherData"]["ends"];
        assert_eq!(ends["rank 1"], said, "{how}: {ends}");
        for rank in 0..3 {
            for (name, times) in [("MPI_Irecv", 4), ("MPI_Allreduce", 1), ("MPI_Put", 1)] {
                assert_eq!(calls(&trace, rank, name).len(), times, "{how}: rank {rank}: {name}");
            }
            assert_eq!(calls(&trace, rank, "MPI_Finalize").len(), 0, "{how}: rank {rank}");
        }
        let events = trace["traceEvents"].as_array().unwrap();
        let mark = events.iter().find(|event| event["ph"] == "i" && event["pid"] == 1).unwrap();
        assert_eq!(mark["name"], said, "{how}");
        let last = calls(&trace, 1, "MPI_Win_free")[0];
        assert!(mark["ts"].as_f64() >= last["ts"].as_f64(), "{how}: {mark}");
        assert_eq!(last["args"]["unfinished"], Value::Null, "{how}");
        // The others ended in this call, if they came to it.
        for waiting in calls(&trace, 0, "MPI_Recv") {
            let args = &waiting["args"];
            assert_eq!((&args["from"], &args["unfinished"]), (&1.into(), &true.into()), "{how}");
        }
    }
    let (folder, mut command) = traced("marked", "calls.svg", &program);
    command.arg("killed").output().unwrap();
    let picture = fs::read_to_string(folder.join("calls.svg")).unwrap();
    assert!(picture.contains("killed by SIGKILL"), "{picture}");
}

#[test]
fn the_first_and_the_last_of_many_calls_are_kept() {
    if !has_compiler("cc") {
        return;
    }
    let text = r#"
        #include <mpi.h>
        #include <stdlib.h>
        int main(int argc, char** argv) {
            int flag;
            MPI_Init(&argc, &argv);
            MPI_Barrier(MPI_COMM_WORLD);
            for (int call = 0; call < 70000; call++)
                MPI_Iprobe(MPI_ANY_SOURCE, call, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
            MPI_Finalize();
            return 0;
        }"#;
    let program = compile("mpicc", "record-many.c", text);
    let (folder, mut command) = traced("many", "calls.json", &program);
    run(&mut command);
    let trace = trace(&folder);
    for rank in 0..3 {
        let kept = calls(&trace, rank, "MPI_Iprobe");
        assert_eq!(kept.len(), (1 << 16) - 2, "besides MPI_Barrier and MPI_Finalize");
        assert_eq!(
            (&kept[0]["args"]["tag"], &kept[kept.len() - 1]["args"]["tag"]),
            (&0.into(), &69999.into())
        );
        assert_eq!(
            calls(&trace, rank, "MPI_Barrier").len() + calls(&trace, rank, "MPI_Finalize").len(),
            2
        );
        let dropped = &trace["otherData"]["dropped_spans"];
        assert_eq!(dropped[format!("rank {rank}")], 70002 - (1 << 16));
    }
}

#[test]
fn ranks_that_others_have_started_are_said_to_be_missing() {
    if !has_compiler("cc") {
        return;
    }
    let program = compile("mpicc", "record-spawn.c", include_str!("spawn.c"));
    let (folder, mut command) = traced("spawn", "calls.json", &program);
    let Output { status, stderr, .. } = command.args(["once", "2"]).output().unwrap();
    let said = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{said}");
    let missing = "mprun: the trace does not show ranks 3 and 4, which others have started\n";
    assert_eq!(said, missing);
    let trace = trace(&folder);
    let sent = &calls(&trace, 0, "MPI_Sendrecv")[0]["args"]["to"];
    assert_eq!(sent, &3, "ranks of an intercommunicator are those of the world, too");
}

#[test]
fn without_calls_there_is_no_trace() {
    for (program, says) in
        [("true", "no rank has recorded a call"), ("no-such-program", "no-such-program")]
    {
        let (folder, mut command) = traced(program, "calls.json", Path::new(program));
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(says), "{said}");
        assert_eq!(fs::read_dir(folder).unwrap().count(), 0);
    }
}
