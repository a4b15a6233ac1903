//! Puts what C programs need into a folder: `cargo run --release -p mp-abi --example install -- DIR`.
//!
//! `DIR/bin` gets `mpicc`, `mpicxx`, and `mpiexec`, which is `mprun`; `DIR/include` gets `mpi.h`; `DIR/lib` gets the
//! library, and what pkg-config needs. It builds the library and `mprun` first, if they are not built.

use std::{
    env, fs, io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

fn main() -> io::Result<()> {
    let Some(to) = env::args_os().nth(1).map(PathBuf::from) else {
        return Err(io::Error::other("give the folder to install into"));
    };
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--release", "-p", "mpi-abi", "-p", "mprun", "--locked"])
        .current_dir(package)
        .status()?;
    if !built.success() {
        return Err(io::Error::other("the library could not be built"));
    }
    // This program is in `release/examples` of the folder that has the library in `release`.
    let here = env::current_exe()?;
    let release = here.ancestors().nth(3).unwrap_or(package).join("release");

    let (bin, include, lib) = (to.join("bin"), to.join("include"), to.join("lib"));
    for folder in [&bin, &include, &lib.join("pkgconfig")] {
        fs::create_dir_all(folder)?;
    }
    put(&package.join("include/mpi.h"), &include.join("mpi.h"))?;
    put(&package.join("bin/mpicc"), &bin.join("mpicc"))?;
    for name in ["mpicxx", "mpic++", "mpiCC", "mpicc_abi", "mpicxx_abi"] {
        link("mpicc", &bin.join(name))?;
    }
    put(&release.join("mprun"), &bin.join("mprun"))?;
    for name in ["mpiexec", "mpirun"] {
        link("mprun", &bin.join(name))?;
    }
    put(&release.join("libmpi_abi.so"), &lib.join("libmpi_abi.so.1"))?;
    for name in ["libmpi_abi.so", "libmpi_abi.so.0"] {
        link("libmpi_abi.so.1", &lib.join(name))?;
    }
    let to = to.canonicalize()?;
    let description = format!(
        "prefix={}\nName: mpi_abi\nDescription: MPI by Onchip\nVersion: {}\nCflags: -I${{prefix}}/include\n\
         Libs: -L${{prefix}}/lib -Wl,-rpath,${{prefix}}/lib -lmpi_abi\n",
        to.display(),
        env!("CARGO_PKG_VERSION"),
    );
    fs::write(lib.join("pkgconfig/mpi_abi.pc"), description)?;
    println!("{}", to.display());
    Ok(())
}

/// Copies a file. An older one is replaced by a new file, because programs may have it loaded.
fn put(from: &Path, to: &Path) -> io::Result<()> {
    let _ = fs::remove_file(to);
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", from.display()));
    fs::copy(from, to).map(drop).map_err(named)
}

fn link(to: &str, place: &Path) -> io::Result<()> {
    let _ = fs::remove_file(place);
    symlink(to, place)
}
