//! The header `mpi.h`, made of the tables of functions and constants.

use std::fmt::Write;

const FUNCTIONS: &str = include_str!("../../functions.tsv");
const CONSTANTS: &str = include_str!("../../constants.tsv");

/// What the tables do not say.
const BEGIN: &str = "\
/* MPI for C programs, with the types and values of the standard ABI of MPI 5.0. Made from functions.tsv and
 * constants.tsv. */
#ifndef MPI_H_INCLUDED
#define MPI_H_INCLUDED

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern \"C\" {
#endif

typedef intptr_t MPI_Aint;
typedef int64_t MPI_Offset;
typedef int64_t MPI_Count;
typedef int MPI_Fint;

typedef struct MPI_Status {
    int MPI_SOURCE;
    int MPI_TAG;
    int MPI_ERROR;
    int MPI_internal[5];
} MPI_Status;
typedef MPI_Status MPI_F08_status;

";

/// Kinds of handles.
const HANDLES: [&str; 17] = [
    "MPI_Comm",
    "MPI_Datatype",
    "MPI_Errhandler",
    "MPI_File",
    "MPI_Group",
    "MPI_Info",
    "MPI_Message",
    "MPI_Op",
    "MPI_Request",
    "MPI_Session",
    "MPI_Win",
    "MPI_T_cvar_handle",
    "MPI_T_enum",
    "MPI_T_event_instance",
    "MPI_T_event_registration",
    "MPI_T_pvar_handle",
    "MPI_T_pvar_session",
];

const CALLBACKS: &str = "\
typedef int MPI_T_cb_safety;
typedef int MPI_T_source_order;
typedef void MPI_User_function(void *, void *, int *, MPI_Datatype *);
typedef void MPI_User_function_c(void *, void *, MPI_Count *, MPI_Datatype *);
typedef int MPI_Comm_copy_attr_function(MPI_Comm, int, void *, void *, void *, int *);
typedef int MPI_Comm_delete_attr_function(MPI_Comm, int, void *, void *);
typedef int MPI_Type_copy_attr_function(MPI_Datatype, int, void *, void *, void *, int *);
typedef int MPI_Type_delete_attr_function(MPI_Datatype, int, void *, void *);
typedef int MPI_Win_copy_attr_function(MPI_Win, int, void *, void *, void *, int *);
typedef int MPI_Win_delete_attr_function(MPI_Win, int, void *, void *);
typedef int MPI_Copy_function(MPI_Comm, int, void *, void *, void *, int *);
typedef int MPI_Delete_function(MPI_Comm, int, void *, void *);
typedef void MPI_Comm_errhandler_function(MPI_Comm *, int *, ...);
typedef void MPI_Win_errhandler_function(MPI_Win *, int *, ...);
typedef void MPI_File_errhandler_function(MPI_File *, int *, ...);
typedef void MPI_Session_errhandler_function(MPI_Session *, int *, ...);
typedef int MPI_Grequest_query_function(void *, MPI_Status *);
typedef int MPI_Grequest_free_function(void *);
typedef int MPI_Grequest_cancel_function(void *, int);
typedef int MPI_Datarep_extent_function(MPI_Datatype, MPI_Aint *, void *);
typedef int MPI_Datarep_conversion_function(void *, MPI_Datatype, int, void *, MPI_Offset, void *);
typedef int MPI_Datarep_conversion_function_c(void *, MPI_Datatype, MPI_Count, void *, MPI_Offset, void *);
typedef void (*MPI_T_event_cb_function)(MPI_T_event_instance, MPI_T_event_registration, MPI_T_cb_safety, void *);
typedef void (*MPI_T_event_free_cb_function)(MPI_T_event_registration, MPI_T_cb_safety, void *);
typedef void (*MPI_T_event_dropped_cb_function)(MPI_Count, MPI_T_event_registration, int, MPI_T_cb_safety, void *);

";

/// Kinds of handles that can be numbers.
const NUMBERED: [&str; 11] = [
    "Comm",
    "Errhandler",
    "File",
    "Group",
    "Info",
    "Message",
    "Op",
    "Request",
    "Session",
    "Type",
    "Win",
];

/// Returns the header.
pub fn text() -> String {
    let mut text = BEGIN.to_owned();
    for handle in HANDLES {
        let _ = writeln!(text, "typedef struct {handle}_object *{handle};");
    }
    text += "\n";
    text += CALLBACKS;
    let rows = |table: &'static str| {
        table
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split('\t').collect::<Vec<_>>())
    };
    for row in rows(CONSTANTS) {
        let (name, of, value) = (row[1], row[2], row[3]);
        match of {
            "(Fortran)" => {}
            "int" => {
                let _ = writeln!(text, "#define {name} ({value})");
            }
            _ => {
                let _ = writeln!(text, "#define {name} (({of}){value})");
            }
        }
    }
    text += "\n";
    for kind in NUMBERED {
        let _ = writeln!(text, "#define MPI_{kind}_c2f(handle) MPI_{kind}_toint(handle)");
        let _ = writeln!(text, "#define MPI_{kind}_f2c(number) MPI_{kind}_fromint(number)");
    }
    text += "\n";
    for prefix in ["", "P"] {
        for row in rows(FUNCTIONS) {
            let parameters = if row[2] == "-" { "void" } else { row[2] };
            let _ = writeln!(text, "{} {prefix}{}({parameters});", row[1], row[0]);
        }
    }
    text += "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n";
    text
}
