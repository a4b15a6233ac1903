//! `include/mpi.h`, `include/mpif.h` and `src/constants.rs` are made of the tables. Where they differ, this test writes
//! them anew.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    fs,
    path::Path,
};

/// The beginning of the header. What comes after it is in the tables.
const TYPES: &str = r#"#ifndef MPI_H_ABI
#define MPI_H_ABI

/* Onchip's mpi.h: the standard ABI of MPI 5.0, and what the standard has not but programs use. The test `generated` of
   the package mp-abi has written it from functions.tsv, extras.tsv and constants.tsv. */

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef intptr_t MPI_Aint;
typedef int64_t MPI_Offset;
typedef int64_t MPI_Count;
typedef int MPI_Fint;

typedef struct {
    int MPI_SOURCE;
    int MPI_TAG;
    int MPI_ERROR;
    int MPI_internal[5];
} MPI_Status;

typedef struct MPI_ABI_Comm* MPI_Comm;
typedef struct MPI_ABI_Datatype* MPI_Datatype;
typedef struct MPI_ABI_Errhandler* MPI_Errhandler;
typedef struct MPI_ABI_File* MPI_File;
typedef struct MPI_ABI_Group* MPI_Group;
typedef struct MPI_ABI_Info* MPI_Info;
typedef struct MPI_ABI_Message* MPI_Message;
typedef struct MPI_ABI_Op* MPI_Op;
typedef struct MPI_ABI_Request* MPI_Request;
typedef struct MPI_ABI_Session* MPI_Session;
typedef struct MPI_ABI_Win* MPI_Win;

typedef struct MPI_ABI_T_enum* MPI_T_enum;
typedef struct MPI_ABI_T_cvar_handle* MPI_T_cvar_handle;
typedef struct MPI_ABI_T_pvar_handle* MPI_T_pvar_handle;
typedef struct MPI_ABI_T_pvar_session* MPI_T_pvar_session;
typedef struct MPI_ABI_T_event_instance* MPI_T_event_instance;
typedef struct MPI_ABI_T_event_registration* MPI_T_event_registration;
typedef int MPI_T_cb_safety;
typedef int MPI_T_source_order;

typedef void MPI_User_function(void* in, void* inout, int* length, MPI_Datatype* datatype);
typedef void MPI_User_function_c(void* in, void* inout, MPI_Count* length, MPI_Datatype* datatype);

typedef void MPI_Comm_errhandler_function(MPI_Comm* comm, int* code, ...);
typedef void MPI_File_errhandler_function(MPI_File* file, int* code, ...);
typedef void MPI_Session_errhandler_function(MPI_Session* session, int* code, ...);
typedef void MPI_Win_errhandler_function(MPI_Win* win, int* code, ...);
typedef MPI_Comm_errhandler_function MPI_Comm_errhandler_fn;
typedef MPI_File_errhandler_function MPI_File_errhandler_fn;
typedef MPI_Session_errhandler_function MPI_Session_errhandler_fn;
typedef MPI_Win_errhandler_function MPI_Win_errhandler_fn;

typedef int MPI_Comm_copy_attr_function(MPI_Comm comm, int keyval, void* extra_state, void* value, void* copy, int* flag);
typedef int MPI_Comm_delete_attr_function(MPI_Comm comm, int keyval, void* value, void* extra_state);
typedef int MPI_Type_copy_attr_function(MPI_Datatype type, int keyval, void* extra_state, void* value, void* copy, int* flag);
typedef int MPI_Type_delete_attr_function(MPI_Datatype type, int keyval, void* value, void* extra_state);
typedef int MPI_Win_copy_attr_function(MPI_Win win, int keyval, void* extra_state, void* value, void* copy, int* flag);
typedef int MPI_Win_delete_attr_function(MPI_Win win, int keyval, void* value, void* extra_state);
typedef int MPI_Copy_function(MPI_Comm comm, int keyval, void* extra_state, void* value, void* copy, int* flag);
typedef int MPI_Delete_function(MPI_Comm comm, int keyval, void* value, void* extra_state);

typedef int MPI_Grequest_query_function(void* extra_state, MPI_Status* status);
typedef int MPI_Grequest_free_function(void* extra_state);
typedef int MPI_Grequest_cancel_function(void* extra_state, int complete);

typedef int MPI_Datarep_extent_function(MPI_Datatype type, MPI_Aint* extent, void* extra_state);
typedef int MPI_Datarep_conversion_function(void* user, MPI_Datatype type, int count, void* file, MPI_Offset position, void* extra_state);
typedef int MPI_Datarep_conversion_function_c(void* user, MPI_Datatype type, MPI_Count count, void* file, MPI_Offset position, void* extra_state);

typedef void MPI_T_event_cb_function(MPI_T_event_instance event, MPI_T_event_registration registration, MPI_T_cb_safety safety, void* user_data);
typedef void MPI_T_event_free_cb_function(MPI_T_event_registration registration, MPI_T_cb_safety safety, void* user_data);
typedef void MPI_T_event_dropped_cb_function(MPI_Count count, MPI_T_event_registration registration, int source, MPI_T_cb_safety safety, void* user_data);
"#;

/// The beginning of the header for Fortran, in lines that both of its forms of source take.
const FORTRAN: &str = r#"! Onchip's mpif.h, for the standard ABI of MPI 5.0. The test `generated`
! of the package mp-abi has written it from constants.tsv.

      integer MPI_STATUS_SIZE, MPI_SOURCE, MPI_TAG, MPI_ERROR
      parameter (MPI_STATUS_SIZE=8)
      parameter (MPI_SOURCE=1)
      parameter (MPI_TAG=2)
      parameter (MPI_ERROR=3)
      integer MPI_ADDRESS_KIND, MPI_OFFSET_KIND, MPI_COUNT_KIND
      parameter (MPI_ADDRESS_KIND=8)
      parameter (MPI_OFFSET_KIND=8)
      parameter (MPI_COUNT_KIND=8)
      integer MPI_INTEGER_KIND
      parameter (MPI_INTEGER_KIND=4)

! Variables that are known by their addresses.
      integer MPI_BOTTOM(4), MPI_IN_PLACE(4)
      integer MPI_STATUS_IGNORE(MPI_STATUS_SIZE)
      integer MPI_STATUSES_IGNORE(MPI_STATUS_SIZE,1)
      common /mpif_sentinels/ MPI_BOTTOM, MPI_IN_PLACE
      common /mpif_sentinels/ MPI_STATUS_IGNORE, MPI_STATUSES_IGNORE
      save /mpif_sentinels/

      double precision MPI_WTIME, MPI_WTICK
      external MPI_WTIME, MPI_WTICK

"#;

/// The lengths of texts. In Fortran, there is no byte at their end.
const LENGTHS: [&str; 8] = [
    "MPI_MAX_DATAREP_STRING",
    "MPI_MAX_ERROR_STRING",
    "MPI_MAX_INFO_KEY",
    "MPI_MAX_INFO_VAL",
    "MPI_MAX_LIBRARY_VERSION_STRING",
    "MPI_MAX_OBJECT_NAME",
    "MPI_MAX_PORT_NAME",
    "MPI_MAX_PROCESSOR_NAME",
];

/// The beginning of `src/constants.rs`.
const CONSTANTS: &str = r#"//! The constants of the standard ABI. The test `generated` has written them from `constants.tsv`.

#![expect(missing_docs, reason = "the standard says what they are")]

use std::{ffi::c_int, ptr::without_provenance_mut};

use crate::types::Handle;

"#;

fn read(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap_or_default()
}

/// Returns the rows of a table.
fn rows(table: &str) -> Vec<Vec<String>> {
    let rows = table.lines().filter(|line| !line.starts_with('#'));
    rows.map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

/// Fails if a file is not this text, which it then gets.
fn compare(name: &str, wanted: &str) {
    if read(name) != wanted {
        fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join(name), wanted).unwrap();
        panic!("{name} was not what the tables say, and is written anew");
    }
}

fn prototypes(header: &mut String, prefix: &str, functions: &[Vec<String>]) {
    for function in functions {
        let [name, result, types, ..] = &function[..] else { panic!("{function:?}") };
        let types = if types == "-" { "void" } else { types };
        writeln!(header, "{result} {prefix}{name}({types});").unwrap();
    }
}

#[test]
fn the_header_is_what_the_tables_say() {
    let mut header = format!("{TYPES}\n");
    for row in rows(&read("constants.tsv")) {
        let [_, name, of, value] = &row[..] else { panic!("{row:?}") };
        match &**of {
            "int" if value.starts_with('-') => writeln!(header, "#define {name} ({value})"),
            "int" => writeln!(header, "#define {name} {value}"),
            _ => writeln!(header, "#define {name} (({of}){value})"),
        }
        .unwrap();
    }
    header += "#define MPI_F_STATUS_IGNORE ((MPI_Fint*)0)\n#define MPI_F_STATUSES_IGNORE ((MPI_Fint*)0)\n";
    let functions = rows(&read("functions.tsv"));
    let (converters, removed): (Vec<_>, Vec<_>) = rows(&read("extras.tsv"))
        .into_iter()
        .partition(|row| row[1..3].concat().contains("MPI_Fint"));
    for prefix in ["", "P"] {
        header += "\n";
        prototypes(&mut header, prefix, &functions);
        prototypes(&mut header, prefix, &converters);
    }
    header += "\n/* What MPI-3 has removed, for programs that ask for it. */\n#ifdef ONCHIP_MPI1\n";
    header += "typedef MPI_Comm_errhandler_function MPI_Handler_function;\n";
    for prefix in ["", "P"] {
        prototypes(&mut header, prefix, &removed);
    }
    header += "#endif\n\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n";
    compare("include/mpi.h", &header);
}

#[test]
fn the_constants_are_what_the_table_says() {
    let mut constants = CONSTANTS.to_owned();
    for row in rows(&read("constants.tsv")) {
        let [_, name, of, value] = &row[..] else { panic!("{row:?}") };
        match &**of {
            "int" | "MPI_T_source_order" | "MPI_T_cb_safety" => {
                writeln!(constants, "pub const {name}: c_int = {value};").unwrap();
            }
            _ if value.starts_with("0x") || of.starts_with("MPI_T_") => {
                let value = format!("without_provenance_mut({value})");
                writeln!(constants, "pub const {name}: Handle = {value};").unwrap();
            }
            _ => {}
        }
    }
    compare("src/constants.rs", &constants);
}

#[test]
fn the_header_for_fortran_is_what_the_table_says() {
    let mut header = FORTRAN.to_owned();
    for row in rows(&read("constants.tsv")) {
        let [_, name, of, value] = &row[..] else { panic!("{row:?}") };
        let number = match value.strip_prefix("0x") {
            Some(digits) => i64::from_str_radix(digits, 16),
            None => value.parse(),
        };
        let is_handle = of.starts_with("MPI_") && !of.ends_with('*');
        let (Ok(number), true) = (number, of == "int" || is_handle) else { continue };
        if name.starts_with("MPI_T_") || of.starts_with("MPI_T_") || name.contains("_F_STATUS") {
            continue;
        }
        let number = number - i64::from(LENGTHS.contains(&&**name));
        for line in [format!("integer {name}"), format!("parameter ({name}={number})")] {
            // The old form of source ends here.
            assert!(line.len() <= 66, "{line}");
            writeln!(header, "      {line}").unwrap();
        }
    }
    compare("include/mpif.h", &header);
}

#[test]
fn every_function_has_a_kind_in_traces() {
    let kinds: BTreeMap<String, String> =
        rows(&read("kinds.tsv")).into_iter().map(|row| (row[0].clone(), row[1].clone())).collect();
    let tables = ["functions.tsv", "extras.tsv", "mpich/extras.tsv"];
    let functions = tables.map(|table| rows(&read(table))).concat();
    // One that takes large counts is of the same kind as the one that does not.
    let names: BTreeSet<_> = functions
        .iter()
        .filter(|row| row[1] == "int")
        .map(|row| row[0].strip_suffix("_c").unwrap_or(&row[0]).to_owned())
        .collect();
    for name in &names {
        let kind = kinds.get(name).unwrap_or_else(|| panic!("{name} is not in kinds.tsv"));
        let known = ["send", "receive", "messages", "collective", "wait", "-"];
        assert!(known.contains(&&**kind), "{name}: there is no kind {kind}");
    }
    for name in kinds.keys() {
        assert!(names.contains(name), "{name} of kinds.tsv is in no table of functions");
    }
}
