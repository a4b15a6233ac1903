//! The commonest mistakes give errors that say what to do: in the first lines of what the compiler prints.
//!
//! Each file in `compile_errors/` is a program that depends on `onchip` alone. Its lines `//! first: …` are what the
//! first lines of its first error must contain. The rest of the output, which tools like trybuild compare too, differs
//! from compiler to compiler. Without the lines that end with `// wrong`, and with those that begin with `// right: `,
//! the program must compile: what is advised works, and nothing else is wrong.
#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The lines of an error that a reader sees without scrolling.
const FIRST: usize = 12;

#[test]
fn first_lines_say_what_to_do() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let cases = root.join("tests/compile_errors");
    let package = package(root);
    let mut checked = 0;
    for case in fs::read_dir(&cases).unwrap() {
        let case = case.unwrap().path();
        let source = fs::read_to_string(&case).unwrap();
        let wanted: Vec<&str> =
            source.lines().filter_map(|line| line.strip_prefix("//! first: ")).collect();
        assert!(!wanted.is_empty(), "{} names no line", case.display());
        let name = case.file_name().unwrap().display();
        let (compiles, printed) = check(&package, &source);
        assert!(!compiles, "{name} compiles");
        let error = first_error(&printed);
        for wanted in wanted {
            assert!(error.contains(wanted), "{name}: {wanted:?} is not in\n{error}");
        }
        let (compiles, printed) = check(&package, &righted(&source));
        assert!(compiles, "{name}, righted, does not compile:\n{printed}");
        checked += 1;
    }
    assert_eq!(checked, 7);
}

/// Returns the program as it should have been.
fn righted(source: &str) -> String {
    let lines = source.lines().filter(|line| !line.ends_with("// wrong"));
    lines.map(|line| line.replacen("// right: ", "", 1) + "\n").collect()
}

/// Makes the package of a user: it has its own target folder, and the versions of this workspace.
fn package(root: &Path) -> PathBuf {
    let package = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compile_errors");
    fs::create_dir_all(package.join("src")).unwrap();
    fs::copy(root.join("Cargo.lock"), package.join("Cargo.lock")).unwrap();
    let manifest = format!(
        "[package]\nname = \"user\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\n\
         onchip = {{ path = {root:?} }}\n\n[workspace]\n"
    );
    fs::write(package.join("Cargo.toml"), manifest).unwrap();
    package
}

/// Returns whether the package compiles with this program, and what the compiler prints.
fn check(package: &Path, program: &str) -> (bool, String) {
    fs::write(package.join("src/main.rs"), program).unwrap();
    let output = Command::new(env!("CARGO"))
        .args(["check", "--quiet", "--offline", "--color=never"])
        .current_dir(package)
        .env("CARGO_TARGET_DIR", package.join("target"))
        .env_remove("RUSTFLAGS")
        .output()
        .unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Returns the first lines of the first error.
fn first_error(printed: &str) -> String {
    let lines = printed.lines().skip_while(|line| !line.starts_with("error"));
    lines.take(FIRST).collect::<Vec<_>>().join("\n")
}
