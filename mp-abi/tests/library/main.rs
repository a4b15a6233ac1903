//! The libraries and what is installed beside it, as programs in C see them.

mod constants;
mod errors;
mod fortran;
mod killed;
mod mpich;
mod names;
mod programs;
mod record;
mod wrappers;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::OnceLock,
};

/// Installs once, and returns the folder.
fn installed() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("installed");
        // The test is in `deps` of the folder of a profile, in the folder that cargo was told to build in.
        let here = env::current_exe().unwrap();
        let built = here.ancestors().nth(2).unwrap();
        let profile = match built.file_name().unwrap().to_str().unwrap() {
            "debug" => "dev",
            other => other,
        };
        run(Command::new(env!("CARGO"))
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .args(["run", "--quiet", "--locked", "-p", "mp-abi", "--example", "install"])
            .args(["--profile", profile, "--target-dir"])
            .arg(built.parent().unwrap())
            .arg("--")
            .arg(&folder));
        folder
    })
}

/// Runs a command that has to succeed, and returns what it has written to standard output.
fn run(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{out}{err}");
    out.into_owned()
}

/// Returns whether there is a compiler, and says so if not.
fn has_compiler(name: &str) -> bool {
    let has =
        Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success());
    if !has {
        eprintln!("skipped, because there is no {name}");
    }
    has
}

/// Compiles a program with `mpicc` or another of the wrappers, and returns its path.
fn compile(wrapper: &str, name: &str, text: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let program = source.with_extension("program");
    fs::write(&source, text).unwrap();
    run(Command::new(installed().join("bin").join(wrapper))
        .args(["-Wall", "-Wextra", "-Werror", "-o"])
        .args([&program, &source]));
    program
}

/// Returns the rows of a table of the package.
fn rows(table: &str) -> Vec<Vec<String>> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(table)).unwrap();
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    rows.map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}
