//! Programs in Fortran.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use object::{Object, ObjectSymbol, read::elf::ElfFile64};

use crate::{has_compiler, installed, run};

#[test]
fn a_program_in_fortran_runs_alone_and_with_others() {
    if !has_compiler("gfortran") {
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, program) = (folder.join("fortran.f"), folder.join("fortran"));
    fs::write(&source, include_str!("fortran.f")).unwrap();
    // One subroutine gets buffers of several types, as is usual with MPI.
    run(Command::new(installed().join("bin/mpifort"))
        .args(["-std=legacy", "-fallow-argument-mismatch", "-w", "-o"])
        .args([&program, &source]));
    assert_eq!(run(Command::new(&program).current_dir(folder)), "good\n");
    for ranks in ["2", "3", "5", "8"] {
        let mut launcher = Command::new(installed().join("bin/mpiexec"));
        let all = run(launcher.args(["-n", ranks]).arg(&program).current_dir(folder));
        assert_eq!(all, "good\n".repeat(ranks.parse().unwrap()));
    }
}

#[test]
fn both_forms_of_source_take_the_header() {
    if !has_compiler("gfortran") {
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for (name, form) in [("form.f", "-ffixed-form"), ("form.f90", "-ffree-form")] {
        let source = folder.join(name);
        let text = "      program form\n      implicit none\n      include 'mpif.h'\n\
                    \x20     integer error\n      call MPI_INIT(error)\n\
                    \x20     call MPI_FINALIZE(error)\n      end\n";
        fs::write(&source, text).unwrap();
        let program = folder.join(format!("{name}.program"));
        run(Command::new(installed().join("bin/mpifort"))
            .args([form, "-Wall", "-Werror", "-Wno-unused-parameter", "-Wno-unused-variable", "-o"])
            .args([&program, &source]));
        run(&mut Command::new(program));
    }
}

/// What the library calls is in the libraries for C, so that every program that is linked also starts.
#[test]
fn every_function_that_subroutines_call_is_there() {
    let symbols = |library: &str| {
        let bytes = fs::read(installed().join("lib").join(library)).unwrap();
        let file: ElfFile64 = ElfFile64::parse(&*bytes).unwrap();
        let named = |symbol: object::read::elf::ElfSymbol64<'_, '_>| {
            (symbol.name().unwrap().to_owned(), symbol.is_undefined())
        };
        file.dynamic_symbols().map(named).collect::<BTreeSet<_>>()
    };
    let (own, of_c) = (symbols("libmpifort_abi.so.1"), symbols("libmpi_abi.so.1"));
    let called: Vec<_> = own.iter().filter(|(name, _)| name.starts_with("MPI_")).collect();
    assert!(called.len() > 200, "{called:?}");
    for (name, _) in called {
        assert!(of_c.contains(&(name.clone(), false)), "{name}");
    }
    let more = own.iter().find(|(name, undefined)| {
        !undefined && !name.starts_with("mpi_") && name != "mpif_sentinels_"
    });
    assert_eq!(more, None);
}
