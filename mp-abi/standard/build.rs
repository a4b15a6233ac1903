//! Writes the functions that the library exports: for each name in the tables, one that calls what `mp-abi` has for it.

#[path = "../exports.rs"]
mod exports;

use std::fmt::Write;

use exports::{Exported, Target, exported, finish, forward, write_head, write_missing};

fn main() {
    let mut written = String::new();
    for one in exported() {
        match &one.target {
            Some(target) => write_call(&mut written, &one, target),
            None => write_missing(&mut written, &one.name),
        }
    }
    finish(&written, "libmpi_abi.so.1");
}

/// Returns the type in Rust of one in C.
fn in_rust(written: &str) -> String {
    let constant = written.starts_with("const ");
    let bare = written.trim_start_matches("const ");
    let end = bare.find(['*', ' ']).unwrap_or(bare.len());
    let (name, pointers) = (&bare[..end], bare[end..].trim());
    let base = match name {
        "int" | "MPI_Fint" | "MPI_T_cb_safety" | "MPI_T_source_order" => "c_int",
        "char" => "c_char",
        "void" => "c_void",
        "double" => "f64",
        "MPI_Count" => "Count",
        "MPI_Offset" => "Offset",
        "MPI_Aint" => "Aint",
        "MPI_Status" => "Status",
        "MPI_User_function" => return "Option<UserFunction>".to_owned(),
        "MPI_User_function_c" => return "Option<LargeUserFunction>".to_owned(),
        "MPI_Copy_function" => return "Option<CopyAttrFunction>".to_owned(),
        "MPI_Delete_function" => return "Option<DeleteAttrFunction>".to_owned(),
        "MPI_Grequest_query_function" => return "Option<GrequestQueryFunction>".to_owned(),
        "MPI_Grequest_free_function" => return "Option<GrequestFreeFunction>".to_owned(),
        "MPI_Grequest_cancel_function" => return "Option<GrequestCancelFunction>".to_owned(),
        _ if name.ends_with("_errhandler_function") => {
            return "Option<ErrhandlerFunction>".to_owned();
        }
        _ if name.ends_with("_copy_attr_function") => return "Option<CopyAttrFunction>".to_owned(),
        _ if name.ends_with("_delete_attr_function") => {
            return "Option<DeleteAttrFunction>".to_owned();
        }
        _ if name.contains("_function") => return "Option<unsafe extern \"C\" fn()>".to_owned(),
        _ => "Handle",
    };
    match pointers {
        "" => base.to_owned(),
        "*" | "[]" if constant => format!("*const {base}"),
        "*" | "[]" => format!("*mut {base}"),
        "* []" | "**" => format!("*mut *mut {base}"),
        "** []" | "***" => format!("*mut *mut *mut {base}"),
        "[][3]" => format!("*mut [{base}; 3]"),
        _ => panic!("there is no type in Rust for `{written}`"),
    }
}

fn write_call(exports: &mut String, exported: &Exported, target: &Target) {
    let types: Vec<_> = exported.types.iter().map(|one| in_rust(one)).collect();
    assert_eq!(types.len(), target.parameters.len(), "parameters of {}", target.path);
    write_head(exports, &exported.name, &in_rust(&exported.result), &types);
    let (mut before, mut arguments, mut after) = (String::new(), String::new(), String::new());
    for (place, (given, wanted)) in types.iter().zip(&target.parameters).enumerate() {
        arguments += &forward(exported, place, (given, wanted), (&mut before, &mut after));
        arguments += ", ";
    }
    let call = format!("{}({})", target.path, arguments.trim_end_matches(", "));
    let mut body = format!("{before}        // SAFETY: the program calls as the standard says.\n");
    if after.is_empty() {
        writeln!(body, "        unsafe {{ {call} }}").expect("strings take all");
    } else {
        write!(
            body,
            "        unsafe {{\n        let code = {call};\n{after}        code\n        }}\n"
        )
        .expect("strings take all");
    }
    // Functions with other results (times, sums of addresses, handles of numbers) use nothing of the rank.
    if exported.result == "int" {
        write!(
            exports,
            "    if mp_abi::threads::take_turns() {{
        return mp_abi::threads::call_in_turn(move || {{
{body}        }});
    }}\n"
        )
        .expect("strings take all");
    }
    *exports += &body;
    *exports += "}\n";
}
