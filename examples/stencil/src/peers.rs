//! The same computation by other programs: OpenMP threads and MPI processes, in C (`benches/peers`).
//!
//! They are what the paper compares with: OpenMP is a parallel loop over rows, as in its V.B, and MPI is algorithm 1
//! with `MPI_Isend` and `MPI_Irecv`, as in its V.A. Nothing of this program is in them but the order of the sum.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use example_support::options::cores;
use example_support::peers::{self, Library, Trouble, last_words, source, within};
use example_support::{Error, Result};
use tempfile::TempDir;

use crate::modes::{Job, Mode, Ranks, Run};

/// How often a program computes. The time is the median.
const RUNS: &str = "3";

/// Longer than a large matrix takes. A program that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(3600);

/// The most threads or processes.
const MOST: usize = 64;

/// A program that is installed here.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The library and its version.
    pub name: String,
    program: PathBuf,
    /// `None` for OpenMP.
    library: Option<Library>,
    /// The matrix before the first step, and after the last.
    folder: Arc<TempDir>,
}

impl Peer {
    /// Compiles the programs for which there are a compiler and a library. Returns them, and why others are missing.
    ///
    /// # Errors
    /// A job that they can't do, a program that does not compile, or files that can't be written.
    pub fn all(job: &Job) -> Result<(Vec<Self>, Vec<String>)> {
        let size = job.init.size();
        if job.tolerance.is_some() || job.steps == 0 || size < 2 {
            let reason = "--peers goes without --tolerance, and needs a step and two rows";
            return Err(Error::new(reason));
        }
        let fault = |error: std::io::Error| Error::at("--peers", error);
        let program = std::env::current_exe().map_err(fault)?;
        let built = program.with_file_name("peers");
        fs::create_dir_all(&built).map_err(fault)?;
        let folder = Arc::new(tempfile::tempdir().map_err(fault)?);
        let cells = job.init.block(0..size, 0..size)?;
        fs::write(folder.path().join("first"), bytemuck::cast_slice(&cells)).map_err(fault)?;

        let flags = ["-O3", "-march=native"];
        let mpi = |library: Library| {
            let program = library.program(&source("stencil.c"), &flags, &built)?;
            let name = format!("{} {}", library.name(), library.version()?);
            Ok((name, Some(library), program))
        };
        let openmp = peers::openmp(&built).map(|program| ("OpenMP".to_owned(), None, program));
        let found = Library::ALL.map(|library| (library.name(), mpi(library)));
        let (mut present, mut absent) = (Vec::new(), Vec::new());
        for (name, found) in [("OpenMP", openmp)].into_iter().chain(found) {
            match found {
                Ok((name, library, program)) => {
                    present.push(Self { name, library, program, folder: Arc::clone(&folder) });
                }
                Err(Trouble::Absent(reason)) => absent.push(format!("{name}: {reason}")),
                Err(Trouble::Failed(reason)) => return Err(Error::at(name, reason)),
            }
        }
        Ok((present, absent))
    }

    /// Returns the mode that does the same, what workers are, and their grid; `None` for too many workers.
    pub(crate) fn cell(&self, job: &Job, workers: usize) -> Option<(Mode, Ranks, [usize; 2])> {
        let (mode, ranks) = match self.library {
            None => (Mode::ShMem, Ranks::Threads),
            Some(_) => (Mode::NoKt, Ranks::Processes),
        };
        (workers <= job.init.size().min(MOST)).then_some((mode, ranks, [workers, 1]))
    }

    /// Computes.
    ///
    /// # Errors
    /// If the program fails.
    pub fn run(&self, job: &Job) -> Result<Run> {
        let workers = job.workers();
        let mut command = self.launch(workers);
        let [first, last] = ["first", "last"].map(|name| self.folder.path().join(name));
        command.arg(first).args([job.init.size(), job.steps].map(|n| n.to_string())).arg(RUNS);
        if self.library.is_none() {
            command.arg(workers.to_string());
        }
        if job.keep {
            command.arg(&last);
        }
        let fault = |reason: String| Error::at(&self.name, reason);
        let output =
            within(&mut command, PATIENCE).map_err(|trouble| fault(trouble.to_string()))?;
        let said = String::from_utf8_lossy(&output.stdout);
        let Some(ns) = figure(&said).filter(|_| output.status.success()) else {
            return Err(fault(format!("{}: {}", output.status, last_words(&output.stderr))));
        };
        let mut cells = Vec::new();
        if job.keep {
            let bytes = fs::read(&last).map_err(|error| fault(error.to_string()))?;
            let (doubles, _) = bytes.as_chunks::<8>();
            cells.extend(doubles.iter().map(|&double| f64::from_le_bytes(double)));
            fs::remove_file(&last).map_err(|error| fault(error.to_string()))?;
        }
        Ok(Run { steps: job.steps, seconds: 1e-9 * ns, cells, ..Run::default() })
    }

    /// Returns the command without the arguments of the stencil. Threads and processes are not bound.
    fn launch(&self, workers: usize) -> Command {
        let Some(library) = self.library else {
            let mut command = Command::new(&self.program);
            command.arg("stencil").env_remove("ONCHIP_CPUS");
            if workers <= cores() {
                command.env("OMP_WAIT_POLICY", "active");
            }
            return command;
        };
        let mut command = library.launch();
        if matches!(library, Library::OpenMpi | Library::DebianOpenMpi) && workers > cores() {
            command.arg("--oversubscribe");
        }
        command.args(["-n", &workers.to_string()]).arg(&self.program);
        command
    }
}

/// Returns the first of the three numbers in the line that the programs print. Launchers may print other lines.
fn figure(said: &str) -> Option<f64> {
    said.lines().find_map(|line| {
        let numbers: Vec<f64> =
            line.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        (numbers.len() == 3).then(|| numbers[0])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figure_is_found_between_other_lines() {
        assert_eq!(figure("a warning\n12.5 0 0\n"), Some(12.5));
        for other in ["", "12.5 0", "1 2 3 4", "x 0 0"] {
            assert_eq!(figure(other), None, "{other}");
        }
    }
}
