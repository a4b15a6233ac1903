//! Makes the functions that the library exports, from the table of MPI's functions and from those that `mp-abi` has.

use std::{collections::BTreeSet, env, fmt::Write, fs, io, path::Path};

/// A row of the table.
struct Function {
    name: String,
    result: String,
    parameters: Vec<String>,
}

fn main() -> io::Result<()> {
    let abi = Path::new("..");
    let table = abi.join("functions.tsv");
    let calls = abi.join("src/calls");
    println!("cargo:rerun-if-changed={}", table.display());
    println!("cargo:rerun-if-changed={}", calls.display());
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libmpi_abi.so.1,-z,nodelete");
    let functions: Vec<Function> =
        fs::read_to_string(table)?.lines().filter(|line| !line.starts_with('#')).map(row).collect();
    let there = implemented(&calls)?;
    let mut code = String::new();
    for function in &functions {
        code += &shims(function, &functions, &there);
    }
    fs::write(Path::new(&env::var("OUT_DIR").unwrap_or_default()).join("functions.rs"), code)
}

fn row(line: &str) -> Function {
    let mut fields = line.split('\t').map(str::to_owned);
    let mut next = || fields.next().unwrap_or_default();
    let (name, result, parameters) = (next(), next(), next());
    let parameters = match parameters.as_str() {
        "-" => Vec::new(),
        all => all.split(", ").map(str::to_owned).collect(),
    };
    Function { name, result, parameters }
}

/// Returns the names of the functions in `mp_abi::calls`.
fn implemented(calls: &Path) -> io::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for file in fs::read_dir(calls)? {
        let text = fs::read_to_string(file?.path())?;
        let begun = text.lines().filter_map(|line| line.strip_prefix("pub unsafe fn "));
        names.extend(begun.filter_map(|rest| rest.split_once('(')).map(|(name, _)| name.to_owned()));
    }
    Ok(names)
}

/// Functions whose results are wide by another name than that of the form for large counts.
const WIDE: [(&str, &str); 6] = [
    ("type_size_x", "type_size"),
    ("type_get_extent_x", "type_get_extent"),
    ("type_get_true_extent_x", "type_get_true_extent"),
    ("get_elements_x", "get_elements"),
    ("status_set_elements_x", "status_set_elements"),
    ("address", "get_address"),
];

/// Returns the code of the functions `MPI_X` and `PMPI_X`.
fn shims(function: &Function, all: &[Function], there: &BTreeSet<String>) -> String {
    let own = function.name.strip_prefix("MPI_").unwrap_or_default().to_lowercase();
    let named = |name: &str| all.iter().find(|other| other.name == name);
    let large = named(&format!("{}_c", function.name));
    let body = if own.ends_with("_toint") {
        "mp_abi::handles::to_int(a0.cast())".to_owned()
    } else if own.ends_with("_fromint") {
        "mp_abi::handles::from_int(a0).cast()".to_owned()
    } else if let Some(&(_, wide)) = WIDE.iter().find(|(name, _)| *name == own)
        && there.contains(wide)
    {
        call(wide, function, function, true)
    } else if let Some(small) = own.strip_suffix("_c")
        && !there.contains(&own)
        && there.contains(small)
    {
        let int = named(function.name.strip_suffix("_c").unwrap_or_default());
        call(small, int.unwrap_or(function), function, true)
    } else if there.contains(&own) {
        let wide = large.filter(|_| !there.contains(&format!("{own}_c")));
        call(&own, function, wide.unwrap_or(function), false)
    } else {
        format!("mp_abi::unsupported({:?})", function.name)
    };
    let parameters: Vec<String> =
        (0..).zip(&function.parameters).filter(|(_, of)| *of != "...").map(|(at, of)| format!("a{at}: {}", in_rust(of))).collect();
    let (parameters, result) = (parameters.join(", "), in_rust(&function.result));
    let mut code = String::new();
    for prefix in ["", "P"] {
        let name = &function.name;
        let _ = write!(
            code,
            "/// See the standard of MPI.\n#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn {prefix}{name}({parameters}) -> {result} {{\n    \
             // SAFETY: the program promises what the standard demands of its arguments.\n    unsafe {{ {body} }}\n}}\n"
        );
    }
    code
}

/// Returns the call of a function of `mp_abi`, which has the parameters of `wide`, with the arguments of `int` or, if
/// `is_wide`, with those of `wide` itself.
fn call(name: &str, int: &Function, wide: &Function, is_wide: bool) -> String {
    let mut arguments = Vec::new();
    let (mut before, mut after) = (String::new(), String::new());
    for (at, (narrow, wide)) in int.parameters.iter().zip(&wide.parameters).enumerate() {
        let array = |of: &str| matches!(of, "const MPI_Count []" | "const MPI_Aint []");
        arguments.push(match (narrow.as_str(), wide.as_str()) {
            ("...", _) => continue,
            (_, wide) if narrow != wide && array(wide) => match is_wide || array(narrow) {
                true => format!("Ints::Large(a{at}.cast())"),
                false => format!("Ints::Small(a{at}.cast())"),
            },
            ("int*", "MPI_Count*") if !is_wide => {
                let _ = write!(before, "let mut w{at} = 0; ");
                let _ = write!(after, "mp_abi::narrow(w{at}, a{at}.cast()); ");
                format!("&mut w{at}")
            }
            (_, "MPI_Count" | "MPI_Aint") if narrow != wide && !is_wide => format!("a{at} as _"),
            (_, wide) if in_rust(wide) == POINTER => format!("a{at}.cast()"),
            _ => format!("a{at}"),
        });
    }
    let arguments = arguments.join(", ");
    match after.as_str() {
        "" => format!("mp_abi::calls::{name}({arguments})"),
        after => format!("{before}let code = mp_abi::calls::{name}({arguments}); {after}code"),
    }
}

const POINTER: &str = "*mut c_void";

/// Returns the type in Rust. Whatever is a pointer in C, as handles and functions are, is a pointer to anything.
fn in_rust(of: &str) -> &'static str {
    match of {
        "int" | "MPI_T_cb_safety" | "MPI_T_source_order" => "c_int",
        "MPI_Count" | "MPI_Offset" => "i64",
        "MPI_Aint" => "isize",
        "double" => "f64",
        _ => POINTER,
    }
}
