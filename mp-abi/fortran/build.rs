//! Writes a subroutine for Fortran for each function of C in `routines.txt`, with the types that the tables of `mp-abi`
//! say.

#[path = "../exports.rs"]
#[allow(dead_code, reason = "the other libraries use the rest")]
mod exports;

use std::{collections::BTreeMap, fmt::Write};

use exports::{finish, package, read, rows};

/// Why writing to a string does not fail.
const ALL: &str = "strings take all";

fn main() {
    let tables = ["functions.tsv", "extras.tsv"].map(|table| rows(&package().join(table)));
    let types: BTreeMap<_, _> = tables.iter().flatten().map(|row| (&*row[0], &*row[2])).collect();
    let mut written = String::new();
    for name in read(&package().join("fortran/routines.txt")).lines() {
        if !name.starts_with('#') {
            let types = types.get(name).unwrap_or_else(|| panic!("there is no function {name}"));
            let types: Vec<_> = types.split(", ").filter(|&one| one != "-").collect();
            write_routine(&mut written, name, &types);
        }
    }
    finish(&written, "libmpifort_abi.so.1");
}

fn write_routine(written: &mut String, name: &str, types: &[&str]) {
    let (mut given, mut lengths, mut taken) = (String::new(), String::new(), String::new());
    let (mut declared, mut passed, mut finished) = (String::new(), String::new(), String::new());
    for (place, one) in types.iter().enumerate() {
        let kind = kind(name, place, one);
        let size = match &*kind {
            // The compiler passes the lengths of texts after all arguments.
            "Text" | "Room" => {
                write!(lengths, ", length{place}: usize").expect(ALL);
                format!("length{place}")
            }
            // Their length is the first argument.
            "WideList" => "a0.length()".to_owned(),
            _ if kind.starts_with("List") => "a0.length()".to_owned(),
            _ => "0".to_owned(),
        };
        write!(given, "a{place}: <{kind} as Argument>::Given, ").expect(ALL);
        write!(declared, "a{place}: <{kind} as Argument>::Passed, ").expect(ALL);
        writeln!(taken, "        let mut a{place} = <{kind}>::take(a{place}, {size});").expect(ALL);
        write!(passed, "a{place}.pass(), ").expect(ALL);
        writeln!(finished, "        a{place}.finish();").expect(ALL);
    }
    write!(
        written,
        "unsafe extern \"C\" {{
    fn {name}({declared}) -> c_int;
}}

#[unsafe(no_mangle)]
pub unsafe extern \"C\" fn {routine}_({given}error: *mut c_int{lengths}) {{
    // SAFETY: the program calls as the standard says.
    unsafe {{
{taken}        let code = {name}({passed});
{finished}        error.write(code);
    }}
}}\n\n",
        routine = name.to_lowercase()
    )
    .expect(ALL);
}

/// Returns how an argument is passed on: the name of a type in `arguments.rs`.
fn kind(name: &str, place: usize, written: &str) -> String {
    // In MPI-1's subroutines, addresses are integers.
    let narrow = matches!(
        name,
        "MPI_Address"
            | "MPI_Type_extent"
            | "MPI_Type_hindexed"
            | "MPI_Type_hvector"
            | "MPI_Type_lb"
            | "MPI_Type_struct"
            | "MPI_Type_ub"
    );
    // Handles are results, except where an object is freed or completed or changes.
    let changes = name.ends_with("_free")
        || matches!(
            name,
            "MPI_Cancel"
                | "MPI_Comm_disconnect"
                | "MPI_File_close"
                | "MPI_Mrecv"
                | "MPI_Start"
                | "MPI_Test"
                | "MPI_Type_commit"
                | "MPI_Wait"
        )
        || name == "MPI_Imrecv" && written == "MPI_Message*";
    match written.trim_start_matches("const ") {
        "int" => "Value<c_int>".to_owned(),
        "int*" if matches!(name, "MPI_Waitany" | "MPI_Testany") && place == 2 => "Index".to_owned(),
        "int*" | "int []" => "At<c_int>".to_owned(),
        "MPI_Aint" if narrow => "Wide".to_owned(),
        "MPI_Aint*" if narrow => "Narrow".to_owned(),
        "MPI_Aint []" if narrow => "WideList".to_owned(),
        "MPI_Aint" | "MPI_Offset" => "Value<i64>".to_owned(),
        "MPI_Aint*" | "MPI_Aint []" | "MPI_Offset*" => "At<i64>".to_owned(),
        "void*" => "Buffer".to_owned(),
        "MPI_Status*" => "Status".to_owned(),
        "char*" if written.starts_with("const ") => "Text".to_owned(),
        "char*" => "Room".to_owned(),
        other => {
            let bare = other.trim_start_matches("MPI_");
            let end = bare.find(['*', ' ']).unwrap_or(bare.len());
            match &bare[end..] {
                "" => format!("In<{bare}>"),
                "*" if changes => format!("InOut<{}>", &bare[..end]),
                "*" => format!("Out<{}>", &bare[..end]),
                " []" => format!("List<{}>", &bare[..end]),
                _ => panic!("{name}: there is no subroutine with an argument `{written}`"),
            }
        }
    }
}
