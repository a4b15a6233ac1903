//! The gray filter built for the processor of this machine: cargo compiles `src/bin/gray.rs` again with
//! `target-cpu=native`, into a separate target directory.

use std::path::{Path, PathBuf};
use std::process::Command;

use example_support::peers::{PATIENCE, within};
use onchip_benches::cpus;

use crate::rivals::{failed, last_words};
use crate::row::{Setup, Side, Taken, Trouble};

/// The time limit for compiling everything once more.
const BUILD_PATIENCE: std::time::Duration = std::time::Duration::from_secs(600);

/// The filter as it was built with this bench: for the baseline of the architecture.
pub fn as_built(frames: &'static str) -> Side {
    Side::new("default build", "-", move |setup| {
        take(setup, Path::new(env!("CARGO_BIN_EXE_gray")), [frames, "filter"])
    })
}

/// The same source, and plain loops beside it, with all instructions of this processor. The fastest of them counts,
/// because the filter alone would compare well with itself even if it were slow.
pub fn native(frames: &'static str) -> Side {
    let mut built = None;
    Side::new("native build", "-", move |setup| {
        let program = match &built {
            Some(program) => program,
            None => built.insert(build()?),
        };
        take(setup, program, [frames, "any"])
    })
}

fn build() -> Result<PathBuf, Trouble> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("native");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    if Command::new(&cargo).arg("--version").output().is_err() {
        return Err(Trouble::Absent("cargo is not installed".into()));
    }
    let mut command = Command::new(cargo);
    command
        .args(["build", "--release", "--quiet", "--package", "onchip-benches", "--bin", "gray"])
        .arg("--target-dir")
        .arg(&target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("RUSTFLAGS", "-C target-cpu=native")
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    let output = within(&mut command, BUILD_PATIENCE)?;
    if !output.status.success() {
        return Err(failed(last_words(&output.stderr)));
    }
    Ok(target.join("release/gray"))
}

fn take(setup: &Setup, program: &Path, arguments: [&str; 2]) -> Taken {
    let output = cpus::confined(&setup.cpus[..1], || {
        within(Command::new(program).args(arguments), PATIENCE)
    })?;
    if !output.status.success() {
        return Err(failed(last_words(&output.stderr)));
    }
    let ns: f64 = String::from_utf8_lossy(&output.stdout).trim().parse().map_err(failed)?;
    Ok(ns.into())
}
