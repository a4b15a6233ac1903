//! Programs in C that use no other rank.

use std::{fs, path::Path, process::Command};

use crate::{compile, has_compiler, installed, run};

#[test]
fn a_program_begins_and_ends_alone_and_with_others() {
    if !has_compiler("cc") {
        return;
    }
    let program = compile("mpicc", "alone.c", include_str!("alone.c"));
    assert_eq!(run(&mut Command::new(&program)), "good\n");
    let both = run(Command::new(installed().join("bin/mpiexec")).args(["-n", "2"]).arg(program));
    assert_eq!(both, "good\ngood\n");
}

/// A library that is linked with MPI is preloaded for a script, and for what it starts before the program.
#[test]
fn who_initializes_mpi_is_the_rank_and_not_who_loads_it() {
    if !has_compiler("cc") {
        return;
    }
    let program = compile("mpicc", "alone.c", include_str!("alone.c"));
    let library = program.with_file_name("libpreloaded.so");
    let source = program.with_file_name("preloaded.c");
    let text = "#include <mpi.h>\nint preloaded(int *flag) { return MPI_Initialized(flag); }\n";
    fs::write(&source, text).unwrap();
    run(Command::new(installed().join("bin/mpicc"))
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source]));
    for script in ["\"$0\"", "cat /dev/null; \"$0\"; cat /dev/null", "exec \"$0\""] {
        let all = run(Command::new(installed().join("bin/mpiexec"))
            .args(["-n", "2", "env"])
            .arg(format!("LD_PRELOAD={}", library.display()))
            .args(["sh", "-c", script])
            .arg(&program));
        assert_eq!(all, "good\ngood\n", "{script}");
    }
}

#[test]
fn no_block_is_cut_silently() {
    if !has_compiler("cc") {
        return;
    }
    let program = compile("mpicc", "blocks.c", include_str!("blocks.c"));
    for ranks in ["2", "3"] {
        let output = Command::new(installed().join("bin/mpiexec"))
            .env("ONCHIP_CHECK", "0")
            .args(["--timeout", "60", "-n", ranks])
            .arg(&program)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(said, "good\n".repeat(ranks.parse().unwrap()), "{output:?}");
    }
}

#[test]
fn ranks_have_grids_and_attributes() {
    if !has_compiler("cc") {
        return;
    }
    let program = compile("mpicc", "grid.c", include_str!("grid.c"));
    let all = run(Command::new(installed().join("bin/mpiexec")).args(["-n", "6"]).arg(program));
    assert_eq!(all, "good\n".repeat(6));
}

#[test]
fn a_program_ends_mpi_at_its_exit() {
    if !has_compiler("cc") {
        return;
    }
    let program = compile("mpicc", "at_exit.c", include_str!("at_exit.c"));
    for ranks in ["1", "2", "5"] {
        let all =
            run(Command::new(installed().join("bin/mpiexec")).args(["-n", ranks]).arg(&program));
        assert_eq!(all, "good\n".repeat(ranks.parse().unwrap()));
    }
}

#[test]
fn a_program_completes_requests_itself() {
    if !has_compiler("cc") {
        return;
    }
    let program = compile("mpicc", "generalized.c", include_str!("generalized.c"));
    assert_eq!(run(&mut Command::new(&program)), "good\n");
    assert_eq!(run(Command::new(&program).arg("threads")), "good\n");
}

#[test]
fn sessions_come_with_the_world_and_without_it() {
    if !has_compiler("cc") {
        return;
    }
    let program = compile("mpicc", "sessions.c", include_str!("sessions.c"));
    for (ranks, world) in [("1", false), ("2", true), ("3", false), ("5", true)] {
        let all = run(Command::new(installed().join("bin/mpiexec"))
            .args(["-n", ranks])
            .arg(&program)
            .args(world.then_some("world")));
        assert_eq!(all, "good\n".repeat(ranks.parse().unwrap()));
    }
    assert_eq!(run(Command::new(&program).arg("world")), "good\n");
}

#[test]
fn threads_call_one_at_a_time_and_all_at_once() {
    if !has_compiler("cc") {
        return;
    }
    let program = compile("mpicc", "threads.c", include_str!("threads.c"));
    for ranks in ["1", "2", "3"] {
        for (level, check) in [("serialized", "1"), ("multiple", "1"), ("multiple", "0")] {
            let all = run(Command::new(installed().join("bin/mpiexec"))
                .env("ONCHIP_CHECK", check)
                .args(["-n", ranks])
                .arg(&program)
                .arg(level));
            assert_eq!(all, "good\n".repeat(ranks.parse().unwrap()));
        }
    }
}

#[test]
fn ranks_and_their_threads_write_and_read_files() {
    if !has_compiler("cc") {
        return;
    }
    let program = compile("mpicc", "files.c", include_str!("files.c"));
    let name = program.with_extension("data");
    for ranks in ["1", "2", "5"] {
        let launcher = installed().join("bin/mpiexec");
        let all = run(Command::new(launcher).args(["-n", ranks]).args([&program, &name]));
        assert_eq!(all, "good\n".repeat(ranks.parse().unwrap()));
        assert!(!name.exists(), "it is deleted on close");
    }
}

#[test]
fn processes_access_memory_of_each_other() {
    if !has_compiler("cc") {
        return;
    }
    let program = compile("mpicc", "windows.c", include_str!("windows.c"));
    let launch = |ranks: &str| {
        let mut command = Command::new(installed().join("bin/mpiexec"));
        command.args(["-n", ranks]).arg(&program);
        command
    };
    for ranks in ["1", "2", "3", "5"] {
        assert_eq!(run(&mut launch(ranks)), "good\n".repeat(ranks.parse().unwrap()));
    }
    // A rank is killed that has a lock.
    let output = launch("3").arg("killed").output().unwrap();
    assert!(!output.status.success());
    let mut said: Vec<_> = std::str::from_utf8(&output.stdout).unwrap().lines().collect();
    said.sort_unstable();
    assert_eq!(said, ["rank 0: lost", "rank 2: lost"]);
}

/// Runs a program as ranks, which may take half a minute, and returns its output's lines in order.
fn lines_of(program: &Path, ranks: &str, arguments: &[&str]) -> (bool, Vec<String>) {
    let mut command = Command::new(installed().join("bin/mpiexec"));
    command.args(["--timeout", "30", "-n", ranks]).arg(program).args(arguments);
    let output = command.output().unwrap();
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    let mut lines: Vec<_> =
        std::str::from_utf8(&output.stdout).unwrap().lines().map(str::to_owned).collect();
    lines.sort_unstable();
    (output.status.success(), lines)
}

#[test]
fn ranks_start_further_ranks() {
    if !has_compiler("cc") {
        return;
    }
    let program = compile("mpicc", "spawn.c", include_str!("spawn.c"));
    for (how, parents, asked, children) in [
        ("once", 1, "1", 1),
        ("once", 2, "5", 5),
        ("once", 5, "2", 2),
        ("again", 3, "2", 4),
        ("two", 2, "0", 3),
        ("fail", 3, "0", 0),
    ] {
        let (good, lines) = lines_of(&program, &parents.to_string(), &[how, asked]);
        let expected = ["child"].repeat(children).into_iter().chain(["parent"].repeat(parents));
        assert!(good && lines.iter().eq(expected), "{how} {parents} {asked}: {lines:?}");
    }
    // A child dies while its parents wait for it.
    let (good, lines) = lines_of(&program, "2", &["killed", "2"]);
    assert!(!good && lines == ["rank 0: lost", "rank 1: lost"], "{lines:?}");
    // Without a launcher there is nobody to start them.
    let alone = Command::new(&program).args(["once", "1"]).output().unwrap();
    let said = String::from_utf8_lossy(&alone.stderr);
    assert!(!alone.status.success() && said.contains("MPI_ERR_SPAWN"), "{said}");
}

#[test]
fn groups_connect_by_ports_and_sockets() {
    if !has_compiler("cc") {
        return;
    }
    let program = compile("mpicc", "ports.c", include_str!("ports.c"));
    assert_eq!(run(&mut Command::new(&program)), "good\n");
    for ranks in [1, 2, 3, 5] {
        let (good, lines) = lines_of(&program, &ranks.to_string(), &[]);
        assert!(good && lines == ["good"].repeat(ranks), "{ranks}: {lines:?}");
    }
}

#[test]
fn tools_read_and_set_variables_at_any_time() {
    if !has_compiler("cc") {
        return;
    }
    let program = compile("mpicc", "tools.c", include_str!("tools.c"));
    for ranks in ["1", "2", "3"] {
        for level in ["single", "multiple"] {
            let all = run(Command::new(installed().join("bin/mpiexec"))
                .args(["-n", ranks])
                .arg(&program)
                .arg(level)
                .env("ONCHIP_WAIT", "park")
                .env("ONCHIP_CALIBRATION", "/nowhere/costs.json"));
            assert_eq!(all, "good\n".repeat(ranks.parse().unwrap()));
        }
    }
}

#[test]
fn reports_say_which_calls_wait_for_what() {
    if !has_compiler("cc") {
        return;
    }
    let program = compile(
        "mpicc",
        "waits.c",
        "#include <mpi.h>\nint main(int count, char **words) {\nint rank, number = 0, sum;\nMPI_Comm rows;\n\
         MPI_Init(&count, &words);\nMPI_Comm_rank(MPI_COMM_WORLD, &rank);\n\
         MPI_Comm_dup(MPI_COMM_WORLD, &rows);\nMPI_Comm_set_name(rows, \"rows\");\n\
         if (rank == 0) MPI_Recv(&number, 1, MPI_INT, 1, 42, MPI_COMM_WORLD, MPI_STATUS_IGNORE);\n\
         MPI_Allreduce(&number, &sum, 1, MPI_INT, MPI_SUM, rows);\nreturn 0;\n}\n",
    );
    let mut launch = Command::new(installed().join("bin/mpiexec"));
    let output = launch.args(["--timeout", "3", "-n", "2"]).arg(program).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("in receive of tag 42 from rank 1 on \"MPI_COMM_WORLD\""), "{said}");
    assert!(
        said.contains("in all_reduce of 1 i32 with mp_abi::op::kernels::Sum on \"rows\""),
        "{said}"
    );
}

#[test]
fn an_abort_ends_with_the_code_and_keeps_what_was_printed() {
    if !has_compiler("cc") {
        return;
    }
    let program = compile("mpicc", "abort.c", include_str!("abort.c"));
    for (code, status) in [("3", 3), ("259", 3), ("256", 1), ("0", 1)] {
        let output = Command::new(&program).arg(code).output().unwrap();
        assert_eq!(output.status.code(), Some(status));
        assert_eq!(output.stdout, b"before");
    }
}

#[test]
fn errors_without_a_handler_end_the_program() {
    if !has_compiler("cc") {
        return;
    }
    let program = compile(
        "mpicc",
        "fatal.c",
        "#include <mpi.h>\nint main(void) {\nMPI_Info_delete(MPI_INFO_NULL, \"key\");\nreturn 0;\n}\n",
    );
    let output = Command::new(&program).output().unwrap();
    assert_eq!(output.status.code(), Some(34));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        said,
        "MPI_Info_delete: the handle is not one of an info of the program (MPI_ERR_INFO)\n"
    );
}
