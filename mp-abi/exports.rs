//! What the build scripts of the libraries share: the functions of `mp-abi`, and how an argument of C becomes one of
//! theirs.

use std::{
    collections::BTreeMap,
    env,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

/// A function of `mp-abi`.
#[derive(Clone)]
pub struct Target {
    /// Its path, such as `mp_abi::calls::point_to_point::send`.
    pub path: String,
    /// The names of its parameters.
    pub names: Vec<String>,
    /// The types of its parameters as they are written.
    pub parameters: Vec<String>,
}

/// A function that a library exports.
pub struct Exported {
    /// Its name in C.
    pub name: String,
    /// The type of its result in C.
    pub result: String,
    /// The types of its parameters in C.
    pub types: Vec<String>,
    /// The function of `mp-abi` that it calls, if there is one.
    pub target: Option<Target>,
    /// What it is in a trace. One that does nothing with other ranks is not recorded.
    pub kind: Option<String>,
}

impl Exported {
    /// Returns the function of `mp-abi` that it calls.
    ///
    /// # Panics
    /// If there is none.
    pub fn target(&self) -> &Target {
        self.target.as_ref().unwrap_or_else(|| panic!("mp-abi has no function for {}", self.name))
    }
}

/// Returns the folder of `mp-abi`.
pub fn package() -> PathBuf {
    PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("..")
}

/// Returns what functions are in a trace, by their names, or `-` if they are not recorded.
fn kinds() -> BTreeMap<String, String> {
    let rows = rows(&package().join("kinds.tsv"));
    rows.into_iter().map(|row| (row[0].clone(), row[1].clone())).collect()
}

/// Returns what a function with a result is in a trace, if it is recorded.
///
/// # Panics
/// If it is not in the table.
fn kind(kinds: &BTreeMap<String, String>, name: &str, result: &str) -> Option<String> {
    if result != "int" {
        return None;
    }
    let kind = kinds.get(name.strip_suffix("_c").unwrap_or(name));
    let kind = kind.unwrap_or_else(|| panic!("kinds.tsv does not say what {name} is in a trace"));
    Some(kind.clone()).filter(|kind| kind != "-")
}

/// Returns the functions of the tables of `mp-abi`, and of another one.
pub fn exported(other: Option<&Path>) -> Vec<Exported> {
    let package = package();
    let kinds = kinds();
    let targets = find_targets(&package.join("src/calls"));
    let mut all = Vec::new();
    let tables = ["functions.tsv", "extras.tsv"].map(|table| package.join(table));
    for table in tables.iter().map(PathBuf::as_path).chain(other) {
        for row in rows(table) {
            let mut columns = row.into_iter();
            let mut next = || columns.next().unwrap_or_default();
            let (name, result, types, target) = (next(), next(), next(), next());
            let types = types.split(", ").filter(|&one| one != "-" && one != "...");
            let types = types.map(str::to_owned).collect();
            let target = names(&name, &target).iter().find_map(|name| targets.get(name)).cloned();
            let kind = kind(&kinds, &name, &result);
            all.push(Exported { name, result, types, target, kind });
        }
    }
    all
}

/// Returns the rows of a table.
pub fn rows(path: &Path) -> Vec<Vec<String>> {
    let text = read(path);
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    rows.map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

/// Writes what was generated, and gives the library this name, by which programs find it.
pub fn finish(exports: &str, name: &str) {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("exports.rs"), exports).expect("the folder is cargo's");
    // The library stays where it was loaded: its threads may run.
    for argument in [&format!("-soname,{name}"), "-z,nodelete"] {
        println!("cargo::rustc-cdylib-link-arg=-Wl,{argument}");
    }
}

/// Reads a file, and has this run again when it changes.
pub fn read(path: &Path) -> String {
    println!("cargo::rerun-if-changed={}", path.display());
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Finds the public unsafe functions in the files of a folder.
fn find_targets(folder: &Path) -> BTreeMap<String, Target> {
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut targets = BTreeMap::new();
    for file in fs::read_dir(folder).expect("the folder is there") {
        let path = file.expect("the folder can be read").path();
        let text = read(&path);
        let module = path.file_stem().and_then(|stem| stem.to_str()).expect("names are ASCII");
        for function in text.split("\npub unsafe fn ").skip(1) {
            let (name, rest) = function.split_once('(').expect("functions have parameters");
            let (parameters, _) = rest.split_once(") ->").expect("functions have results");
            let parameters = parameters.split(',').filter_map(|one| one.split_once(':'));
            let (names, parameters) = parameters
                .map(|(name, written)| (name.trim().to_owned(), written.trim().to_owned()))
                .unzip();
            let path = format!("mp_abi::calls::{module}::{name}");
            let target = Target { path, names, parameters };
            assert!(targets.insert(name.to_owned(), target).is_none(), "{name} is there twice");
        }
    }
    targets
}

/// Returns the names under which a function may be in `mp-abi`, those that are better first.
fn names(name: &str, target: &str) -> Vec<String> {
    if !matches!(target, "" | "deprecated") {
        return vec![target.to_owned()];
    }
    let plain = name.strip_prefix("MPI_").expect("names begin so").to_lowercase();
    let of_both = plain.strip_suffix("_c").or_else(|| plain.strip_suffix("_x"));
    let other = match &*plain {
        "attr_delete" => "comm_delete_attr",
        "attr_get" => "comm_get_attr",
        "attr_put" => "comm_set_attr",
        "keyval_create" => "comm_create_keyval",
        "keyval_free" => "comm_free_keyval",
        // Handles of all kinds are converted in the same way.
        _ if plain.ends_with("_toint") => "toint",
        _ if plain.ends_with("_fromint") => "fromint",
        _ => of_both.unwrap_or(&plain),
    };
    let other = other.to_owned();
    vec![plain, other]
}

/// Returns the type in Rust of one in C. Handles that are not files have the given type.
pub fn in_rust(written: &str, handle: &str) -> String {
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
        "MPI_Datarep_conversion_function" => return "Option<DatarepConversionFunction>".to_owned(),
        "MPI_Datarep_conversion_function_c" => {
            return "Option<LargeDatarepConversionFunction>".to_owned();
        }
        "MPI_Datarep_extent_function" => return "Option<DatarepExtentFunction>".to_owned(),
        _ if name.ends_with("_errhandler_function") => {
            return "Option<ErrhandlerFunction>".to_owned();
        }
        _ if name.ends_with("_copy_attr_function") => return "Option<CopyAttrFunction>".to_owned(),
        _ if name.ends_with("_delete_attr_function") => {
            return "Option<DeleteAttrFunction>".to_owned();
        }
        _ if name.contains("_function") => return "Option<unsafe extern \"C\" fn()>".to_owned(),
        "MPI_Comm" | "MPI_Datatype" | "MPI_Errhandler" | "MPI_Group" | "MPI_Info"
        | "MPI_Message" | "MPI_Op" | "MPI_Request" | "MPI_Session" | "MPI_Win" => handle,
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

/// Returns what a function of `mp-abi` gets of an argument, the type of which differs in nothing or in width. Adds what is
/// to be done before and after the call.
pub fn forward(
    exported: &Exported,
    place: usize,
    (given, wanted): (&str, &str),
    (before, after): (&mut String, &mut String),
) -> String {
    let name = &exported.name;
    // The position in a buffer is read and written.
    let is_position =
        (name.starts_with("MPI_Pack") || name.starts_with("MPI_Unpack")) && !name.contains("size");
    match (given, wanted) {
        _ if given == wanted => format!("a{place}"),
        ("c_int", "Count" | "Aint" | "Offset") | ("Aint", "Count") => {
            format!("a{place} as {wanted}")
        }
        (_, "Ints" | "Handles" | "Place" | "Codes") => format!("{wanted}::from(a{place})"),
        ("*mut c_int", "*mut Count" | "*mut Aint") => {
            let first = if is_position { format!("widened(a{place})") } else { "0".to_owned() };
            writeln!(before, "        let mut wide{place} = {first};").expect("strings take all");
            writeln!(after, "        narrow(code, wide{place}, a{place});")
                .expect("strings take all");
            format!("wide(&mut wide{place}, a{place})")
        }
        ("*mut Aint", "*mut Count") | ("*const Aint", "*const Count") => {
            format!("a{place}.cast()")
        }
        _ => format!("a{place}"),
    }
}

/// Writes the declaration of a function and of its weak name, up to the body.
pub fn write_head(exports: &mut String, name: &str, result: &str, types: &[String]) {
    // The name with an empty version is exported although it is not one of Rust's: rustc tells the linker to hide all
    // other names, and this one has a version of its own.
    write!(
        exports,
        "core::arch::global_asm!(\".weak {name}\", \".set {name}, P{name}\", \".symver {name}, {name}@\");
#[unsafe(no_mangle)]
pub unsafe extern \"C\" fn P{name}({parameters}) -> {result} {{\n",
        parameters = parameters(types),
    )
    .expect("strings take all");
}

/// Returns the declarations of parameters.
fn parameters(types: &[String]) -> String {
    let of_one = |(place, one): (usize, &String)| format!("a{place}: {one}");
    types.iter().enumerate().map(of_one).collect::<Vec<_>>().join(", ")
}

/// The functions that receive a message, of which their statuses tell.
const RECEIVING: [&str; 6] =
    ["MPI_Recv", "MPI_Mrecv", "MPI_Probe", "MPI_Mprobe", "MPI_Sendrecv", "MPI_Sendrecv_replace"];

/// Returns what a trace gets of an argument, if it can use it: the name of the parameter, and what the program has given.
pub fn argument(name: &str, wanted: &str, passed: &str) -> Option<String> {
    let given = match wanted {
        _ if name.starts_with('_') => return None,
        "Count" | "Aint" | "Offset" | "c_int" => format!("Number(({passed}) as i64)"),
        "Ints" => format!("Numbers({passed})"),
        "Handle" => format!("Handle({passed})"),
        "Handles" => format!("Handles({passed})"),
        "*const c_void" if name == "sent" => format!("Buffer({passed})"),
        "*mut c_void" if name == "received" => format!("Buffer({passed}.cast_const())"),
        _ => return None,
    };
    Some(format!("(\"{name}\", Given::{given})"))
}

/// Writes a function: a call, within a turn of this thread if there are several, and recorded with these arguments if
/// that is wanted.
///
/// The other way of the call is a function that gets the same arguments, so that the plain way has nothing to do for it.
pub fn write_function(
    written: &mut String,
    one: &Exported,
    (result, types): (&str, &[String]),
    (before, call): (&str, &str),
    arguments: &[String],
) {
    write_head(written, &one.name, result, types);
    let before = match before {
        "" => String::new(),
        _ => format!("        {}\n", before.trim_end().replace('\n', "\n        ")),
    };
    let body = format!(
        "        // SAFETY: the program calls as the standard says.
        unsafe {{\n{before}        {call}\n        }}\n"
    );
    // Functions with other results (times, sums of addresses, handles of numbers) use nothing of the rank.
    if one.result == "int" {
        let all: Vec<_> = (0..types.len()).map(|place| format!("a{place}")).collect();
        write!(
            written,
            "    #[cold]
    #[inline(never)]
    unsafe extern \"C\" fn framed({parameters}) -> {result} {{
{framed}    }}
    if mp_abi::frame::are_calls_framed() {{
        // SAFETY: the program calls as the standard says.
        return unsafe {{ framed({all}) }};
    }}\n",
            parameters = parameters(types),
            framed = framed(one, &body, arguments),
            all = all.join(", "),
        )
        .expect("strings take all");
    }
    *written += &body;
    *written += "}\n";
}

/// Returns the body of a function that makes a call in a frame.
fn framed(one: &Exported, body: &str, arguments: &[String]) -> String {
    let Exported { name, types, .. } = one;
    let Some(kind) = &one.kind else {
        return format!("        mp_abi::frame::call_in_turn(move || {{\n{body}        }})\n");
    };
    let is_receiving = RECEIVING.contains(&name.strip_suffix("_c").unwrap_or(name));
    let (how, status, parameter) = match is_receiving {
        true => {
            // The status is the last argument of such a function.
            let status = format!("a{}", types.len() - 1);
            ("receive_in_frame", format!("{status}, "), format!("{status}: *mut Status"))
        }
        false => ("call_in_frame", String::new(), String::new()),
    };
    format!(
        "        let given = move || [{arguments}];
        let call = move |{parameter}| {{\n{body}        }};
        // SAFETY: as above.
        unsafe {{ mp_abi::frame::{how}((\"{name}\", \"{kind}\"), given, {status}call) }}\n",
        arguments = arguments.join(", "),
    )
}
