//! What the compilers' wrappers answer to build systems.

use std::process::Command;

use crate::{has_compiler, installed, run};

/// Returns what a wrapper prints.
fn ask(wrapper: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(installed().join("bin").join(wrapper));
    for name in
        ["CC", "CXX", "MPICC_CC", "MPICH_CC", "OMPI_CC", "MPICXX_CXX", "MPICH_CXX", "OMPI_CXX"]
    {
        command.env_remove(name);
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
