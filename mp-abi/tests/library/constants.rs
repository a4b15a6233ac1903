//! The values and types that a compiler finds in `mpi.h`.

use std::{fmt::Write, fs, path::Path, process::Command};

use crate::{has_compiler, installed, rows, run};

#[test]
fn constants_and_types_are_those_of_the_standard() {
    if !has_compiler("cc") {
        return;
    }
    let mut text = "#include <stddef.h>\n#include <mpi.h>\n".to_owned();
    let mut check = |what: &str, value: &str| {
        writeln!(text, "_Static_assert({what} == {value}, \"{what}\");").unwrap();
    };
    for row in rows("constants.tsv") {
        check(&format!("(intptr_t){}", row[1]), &row[3]);
    }
    for (of, size) in [
        ("MPI_Aint", "sizeof(void*)"),
        ("MPI_Count", "8"),
        ("MPI_Offset", "8"),
        ("MPI_Fint", "4"),
        ("MPI_Status", "32"),
        ("MPI_T_cb_safety", "4"),
        ("MPI_T_source_order", "4"),
    ] {
        check(&format!("sizeof({of})"), size);
    }
    check("_Alignof(MPI_Status)", "4");
    for (field, offset) in
        [("MPI_SOURCE", "0"), ("MPI_TAG", "4"), ("MPI_ERROR", "8"), ("MPI_internal", "12")]
    {
        check(&format!("offsetof(MPI_Status, {field})"), offset);
    }
    for of in [
        "Comm",
        "Datatype",
        "Errhandler",
        "File",
        "Group",
        "Info",
        "Message",
        "Op",
        "Request",
        "Session",
        "Win",
    ] {
        check(&format!("sizeof(MPI_{of})"), "sizeof(void*)");
    }
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join("constants.c");
    fs::write(&source, text).unwrap();
    run(Command::new(installed().join("bin/mpicc"))
        .args(["-std=c11", "-fsyntax-only"])
        .arg(&source));
}

#[test]
fn the_header_is_good_in_cpp_and_with_what_was_removed() {
    if !has_compiler("c++") {
        return;
    }
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join("header.cc");
    let text = "#include <mpi.h>\n#include <mpi.h>\n\
        MPI_Comm world() { return MPI_COMM_WORLD; }\n\
        bool same(MPI_Datatype one) { return one == MPI_INT || one == MPI_Type_f2c(3); }\n";
    fs::write(&source, text).unwrap();
    for more in ["-DONCHIP_MPI1", "-UONCHIP_MPI1"] {
        run(Command::new(installed().join("bin/mpicxx"))
            .args(["-std=c++11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", more])
            .arg(&source));
    }
}
