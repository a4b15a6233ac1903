//! Programs in C that do the work of an example with other libraries: `benches/peers`.
//!
//! | part | what it is |
//! |---|---|
//! | `run` | compiling and running them with a time limit |
//! | `mpi` | the MPI libraries |

mod mpi;
mod run;

use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

pub use mpi::Library;
pub use run::{PATIENCE, Trouble, compile, failed, in_path, last_words, within};

/// The root of the workspace.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Returns the path of a source in `benches/peers`.
pub fn source(name: &str) -> PathBuf {
    Path::new(ROOT).join("benches/peers").join(name)
}

/// Returns the path of `openmp.c` compiled by gcc for the processor of this machine, which is in the folder `built`.
///
/// # Errors
/// If gcc or its libgomp is not installed, or the source can't be compiled.
pub fn openmp(built: &Path) -> Result<PathBuf, Trouble> {
    let gcc = Path::new("gcc");
    if !in_path(gcc) {
        return Err(Trouble::Absent("not installed (no gcc)".into()));
    }
    if !built.join("openmp").exists() {
        // An empty program, which fails to compile only if OpenMP is missing.
        let mut command = Command::new(gcc);
        command.args(["-fopenmp", "-shared", "-x", "c", "/dev/null", "-o"]);
        let output = within(command.arg(built.join("openmp.so")), PATIENCE)?;
        if !output.status.success() {
            let reason = last_words(&output.stderr);
            return Err(Trouble::Absent(format!("gcc without libgomp: {reason}")));
        }
    }
    let program = built.join("openmp");
    let flags = ["-O3", "-march=native", "-fopenmp"];
    compile(gcc, &source("openmp.c"), &program, &flags, std::iter::empty())?;
    Ok(program)
}
