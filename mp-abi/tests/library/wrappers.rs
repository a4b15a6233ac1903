//! What the compilers' wrappers answer to build systems.

use std::{env, fs, path::Path, process::Command};

use crate::{has_compiler, installed, run};

/// Returns what a wrapper prints.
fn ask(wrapper: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(installed().join("bin").join(wrapper));
    for name in ["CC", "CXX", "FC"] {
        command.env_remove(name);
        for library in ["MPICC", "MPICXX", "MPIFORT", "MPICH", "OMPI"] {
            command.env_remove(format!("{library}_{name}"));
        }
    }
    run(command.args(arguments)).trim_end().to_owned()
}

#[test]
fn wrappers_answer_build_systems() {
    let root = installed().canonicalize().unwrap();
    let root = root.display();
    let compile = format!("-I{root}/include");
    let link = format!("-L{root}/lib -Wl,-rpath,{root}/lib -Wl,--enable-new-dtags -lmpi_abi");
    for wrapper in ["mpicc", "mpicc_abi"] {
        assert_eq!(ask(wrapper, &["-show"]), format!("cc {compile} {link}"));
    }
    for wrapper in ["mpicxx", "mpicxx_abi", "mpic++", "mpiCC"] {
        assert_eq!(ask(wrapper, &["-showme"]), format!("c++ {compile} {link}"));
    }
    let fortran = link.replace("-lmpi_abi", "-lmpifort_abi -lmpi_abi");
    for wrapper in ["mpifort", "mpif77", "mpif90"] {
        assert_eq!(ask(wrapper, &["-show"]), format!("gfortran {compile} {fortran}"));
    }
    assert_eq!(ask("mpifort", &["-showme:libs"]), "mpifort_abi mpi_abi");
    assert_eq!(ask("mpicc", &["-show", "-O2", "a.c"]), format!("cc {compile} -O2 a.c {link}"));
    assert_eq!(ask("mpicc", &["-c", "a.c", "-show"]), format!("cc {compile} -c a.c"));
    assert_eq!(ask("mpicc", &["-compile-info"]), format!("cc {compile} -c"));
    assert_eq!(ask("mpicc", &["-link-info"]), format!("cc {compile} {link}"));
    assert_eq!(ask("mpicc", &["-cc=clang", "-show"]), format!("clang {compile} {link}"));
    for (question, answer) in [
        ("compile", compile),
        ("link", link),
        ("incdirs", format!("{root}/include")),
        ("libdirs", format!("{root}/lib")),
        ("libs", "mpi_abi".to_owned()),
        ("command", "cc".to_owned()),
    ] {
        assert_eq!(ask("mpicc", &[&format!("-showme:{question}")]), answer);
        assert_eq!(ask("mpicc", &[&format!("--showme:{question}")]), answer);
    }
}

#[test]
fn wrappers_pass_questions_and_spaces_to_the_compiler() {
    if !has_compiler("cc") {
        return;
    }
    assert!(ask("mpicc", &["-v"]).starts_with("mpicc for Onchip"));
    assert!(!ask("mpicc", &["--version"]).is_empty());
    let text = ask(
        "mpicc",
        &[
            "-E",
            "-P",
            "-DTEXT=\"two words\"",
            "-xc",
            concat!(env!("CARGO_MANIFEST_DIR"), "/tests/library/text.txt"),
        ],
    );
    assert_eq!(text, "\"two words\"");
}

#[test]
fn cmake_finds_the_library() {
    if !has_compiler("cc") || !has_compiler("cmake") {
        return;
    }
    let project = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cmake");
    // What an earlier run has found is not to be found again.
    let _ = fs::remove_dir_all(&project);
    fs::create_dir_all(&project).unwrap();
    fs::write(
        project.join("CMakeLists.txt"),
        "cmake_minimum_required(VERSION 3.10)\nproject(alone C)\nfind_package(MPI REQUIRED)\n\
         add_executable(alone alone.c)\ntarget_link_libraries(alone MPI::MPI_C)\n",
    )
    .unwrap();
    fs::write(project.join("alone.c"), include_str!("alone.c")).unwrap();
    let folders = env::var_os("PATH").unwrap_or_default();
    let folders =
        [installed().join("bin")].into_iter().chain(env::split_paths(&folders)).collect::<Vec<_>>();
    let cmake = || {
        let mut command = Command::new("cmake");
        command.current_dir(&project).env("PATH", env::join_paths(&folders).unwrap());
        command
    };
    run(cmake().args(["-B", "built", "."]));
    run(cmake().args(["--build", "built"]));
    let built = project.join("built/alone");
    let both = run(Command::new(installed().join("bin/mpiexec")).args(["-n", "2"]).arg(built));
    assert_eq!(both, "good\ngood\n");
}
