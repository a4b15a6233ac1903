//! Puts what MPI programs need into a folder: the headers, the libraries, the compilers' wrappers, and the launcher.
//!
//! ```sh
//! cargo run --release -p mp-abi --example install -- /opt/onchip
//! /opt/onchip/bin/mpicc program.c -o program
//! /opt/onchip/bin/mpiexec -n 2 ./program
//! ```

use std::{
    env,
    error::Error,
    fs, io,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
};

const PACKAGE: &str = env!("CARGO_MANIFEST_DIR");

fn main() -> Result<(), Box<dyn Error>> {
    let [folder] = &env::args_os().skip(1).collect::<Vec<_>>()[..] else {
        return Err("the argument is the folder to install into".into());
    };
    let [bin, include, lib] = ["bin", "include", "lib"].map(|name| Path::new(folder).join(name));
    for folder in [&bin, &include, &lib.join("pkgconfig")] {
        fs::create_dir_all(folder)?;
    }
    let built = build()?;

    put(&built.join("libmpi_abi.so"), &lib.join("libmpi_abi.so.1"))?;
    for name in ["libmpi_abi.so", "libmpi_abi.so.0"] {
        link("libmpi_abi.so.1", &lib.join(name))?;
    }
    put(&built.join("libmpifort_abi.so"), &lib.join("libmpifort_abi.so.1"))?;
    link("libmpifort_abi.so.1", &lib.join("libmpifort_abi.so"))?;
    // Programs that were built for MPICH or Intel MPI find it by these names.
    put(&built.join("libmpich_abi.so"), &lib.join("libmpi.so.12"))?;
    link("libmpi.so.12", &lib.join("libmpich.so.12"))?;
    for header in ["mpi.h", "mpif.h"] {
        put(&Path::new(PACKAGE).join("include").join(header), &include.join(header))?;
    }
    put_text("bin/mpi_abi.pc", &lib.join("pkgconfig/mpi_abi.pc"))?;

    let wrapper = bin.join("mpicc");
    put_text("bin/mpicc", &wrapper)?;
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755))?;
    for name in
        ["mpicc_abi", "mpicxx", "mpicxx_abi", "mpic++", "mpiCC", "mpifort", "mpif77", "mpif90"]
    {
        link("mpicc", &bin.join(name))?;
    }
    put(&built.join("mprun"), &bin.join("mprun"))?;
    for name in ["mpiexec", "mpirun"] {
        link("mprun", &bin.join(name))?;
    }
    Ok(())
}

/// Builds the libraries and the launcher as this program was built, and returns the folder that they are in. This program
/// is named as well, because the features of its dependencies would otherwise be other ones, and all would be built again.
fn build() -> Result<PathBuf, Box<dyn Error>> {
    let here = env::current_exe()?;
    let built = here.ancestors().nth(2).ok_or("cargo has not built this program")?;
    let target = built.parent().ok_or("cargo has not built this program")?;
    let profile = match built.file_name().and_then(|name| name.to_str()) {
        Some("debug") => "dev",
        Some(other) => other,
        None => return Err("the name of the profile is not text".into()),
    };
    let status = Command::new(env!("CARGO"))
        .current_dir(PACKAGE)
        .args([
            "build",
            "--quiet",
            "--locked",
            "--lib",
            "--bins",
            "--example",
            "install",
            "-p",
            "mp-abi",
            "-p",
            "mpi-abi",
            "-p",
            "mpich-abi",
            "-p",
            "mpifort-abi",
            "-p",
            "mprun",
            "--profile",
            profile,
        ])
        .arg("--target-dir")
        .arg(target)
        .status()?;
    if !status.success() {
        return Err("the libraries can't be built".into());
    }
    Ok(built.to_owned())
}

/// Removes what is at a path, so that programs that use it keep theirs.
fn clear(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn put(from: &Path, to: &Path) -> io::Result<()> {
    clear(to)?;
    fs::copy(from, to).map(drop)
}

/// Puts a file of this package with the version filled in.
fn put_text(from: &str, to: &Path) -> io::Result<()> {
    let text = fs::read_to_string(Path::new(PACKAGE).join(from))?;
    clear(to)?;
    fs::write(to, text.replace("@VERSION@", env!("CARGO_PKG_VERSION")))
}

fn link(target: &str, at: &Path) -> io::Result<()> {
    clear(at)?;
    symlink(target, at)
}
