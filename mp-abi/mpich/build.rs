//! Writes the functions that the library exports: for each name in the tables, one that calls what `mp-abi` has for it,
//! with arguments and results as `roles.tsv` says. Writes what the constants of one ABI are in the other.

#[path = "../exports.rs"]
mod exports;

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

use exports::{
    Exported, Target, argument, exported, finish, forward, in_rust, package, read, rows,
    write_function, write_head,
};

fn main() {
    let here = package().join("mpich");
    let constants: Vec<_> =
        rows(&here.join("constants.tsv")).iter().map(|row| constant(row)).collect();
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("values.rs"), values(&constants)).expect("the folder is cargo's");

    let roles: BTreeMap<_, _> = rows(&here.join("roles.tsv"))
        .into_iter()
        .map(|row| (row[0].clone(), row[1].split(", ").map(str::to_owned).collect::<Vec<_>>()))
        .collect();
    let special = special(&here.join("src/special.rs"));
    let mut written = String::new();
    for one in exported(Some(&here.join("extras.tsv"))) {
        let plain = one.name.strip_prefix("MPI_").expect("names begin so").to_lowercase();
        let of_both = one.name.strip_suffix("_c").unwrap_or(&one.name);
        let roles = roles.get(&one.name).or_else(|| roles.get(of_both));
        if special.contains(&plain) {
            write_special(&mut written, &one, &plain);
        } else if ["_toint", "_fromint", "_c2f", "_f2c"].iter().any(|end| plain.ends_with(end)) {
            write_same(&mut written, &one);
        } else {
            write_call(&mut written, &one, one.target(), roles);
        }
    }
    finish(&written, "libmpi.so.12");
}

/// Returns the names of the functions that are written by hand.
fn special(file: &Path) -> BTreeSet<String> {
    let text = read(file);
    let functions = text.split("\npub unsafe fn ").skip(1);
    functions.filter_map(|rest| rest.split('(').next()).map(str::to_owned).collect()
}

/// A constant that both ABIs have.
struct Constant {
    of: String,
    name: String,
    mpich: i32,
    standard: i32,
}

fn constant(row: &[String]) -> Constant {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).expect("the table has numbers") as i32,
        None => text.parse().expect("the table has numbers"),
    };
    let [of, name, mpich, standard] = row else { panic!("{row:?}") };
    Constant {
        of: of.clone(),
        name: name.clone(),
        mpich: number(mpich),
        standard: number(standard),
    }
}

/// The functions for numbers, and the beginnings of the names of their constants.
const NUMBERS: [(&str, &[&str], bool, bool); 20] = [
    ("thread", &["MPI_THREAD_"], true, true),
    ("order", &["MPI_ORDER_"], true, true),
    ("lock", &["MPI_LOCK_"], true, false),
    ("whence", &["MPI_SEEK_"], true, false),
    ("split", &["MPI_COMM_TYPE_"], true, false),
    ("typeclass", &["MPI_TYPECLASS_"], true, false),
    (
        "distribution",
        &["MPI_DISTRIBUTE_BLOCK", "MPI_DISTRIBUTE_CYCLIC", "MPI_DISTRIBUTE_NONE"],
        true,
        true,
    ),
    ("combiner", &["MPI_COMBINER_"], false, true),
    ("comparison", &["MPI_IDENT", "MPI_CONGRUENT", "MPI_SIMILAR", "MPI_UNEQUAL"], false, true),
    ("topology", &["MPI_GRAPH", "MPI_CART", "MPI_DIST_GRAPH"], false, true),
    ("flavor", &["MPI_WIN_FLAVOR_"], false, true),
    ("model", &["MPI_WIN_SEPARATE", "MPI_WIN_UNIFIED"], false, true),
    (
        "predefined_key",
        &[
            "MPI_TAG_UB",
            "MPI_HOST",
            "MPI_IO",
            "MPI_WTIME_IS_GLOBAL",
            "MPI_UNIVERSE_SIZE",
            "MPI_LASTUSEDCODE",
            "MPI_APPNUM",
            "MPI_WIN_BASE",
            "MPI_WIN_SIZE",
            "MPI_WIN_DISP_UNIT",
            "MPI_WIN_CREATE_FLAVOR",
            "MPI_WIN_MODEL",
        ],
        true,
        true,
    ),
    ("error_class", &["MPI_SUCCESS", "MPI_ERR_", "MPI_T_ERR_"], true, true),
    ("verbosity", &["MPI_T_VERBOSITY_"], false, true),
    ("bind", &["MPI_T_BIND_"], false, true),
    ("scope", &["MPI_T_SCOPE_"], false, true),
    ("pvar_class", &["MPI_T_PVAR_CLASS_"], true, true),
    ("safety", &["MPI_T_CB_REQUIRE_"], true, false),
    ("ordering", &["MPI_T_SOURCE_"], false, true),
];

/// The functions for sets of bits.
const BITS: [(&str, &[&str]); 2] = [
    (
        "amode",
        &[
            "MPI_MODE_RDONLY",
            "MPI_MODE_RDWR",
            "MPI_MODE_WRONLY",
            "MPI_MODE_CREATE",
            "MPI_MODE_EXCL",
            "MPI_MODE_DELETE_ON_CLOSE",
            "MPI_MODE_UNIQUE_OPEN",
            "MPI_MODE_APPEND",
            "MPI_MODE_SEQUENTIAL",
        ],
    ),
    (
        "assertion",
        &[
            "MPI_MODE_NOCHECK",
            "MPI_MODE_NOSTORE",
            "MPI_MODE_NOPUT",
            "MPI_MODE_NOPRECEDE",
            "MPI_MODE_NOSUCCEED",
        ],
    ),
];

/// The kinds of predefined handles.
const KINDS: [&str; 10] = [
    "Comm",
    "Group",
    "Datatype",
    "Errhandler",
    "Op",
    "Info",
    "Win",
    "Request",
    "Message",
    "Session",
];

/// Writes the functions for constants.
fn values(constants: &[Constant]) -> String {
    let mut values = String::new();
    for (name, beginnings, gives, shows) in NUMBERS {
        let is_one = |one: &&Constant| {
            one.name != "MPI_ERR_LASTCODE"
                && beginnings.iter().any(|start| {
                    if start.ends_with('_') {
                        one.name.starts_with(start)
                    } else {
                        one.name == *start
                    }
                })
        };
        let pairs: Vec<_> =
            constants.iter().filter(is_one).map(|one| (one.mpich, one.standard)).collect();
        if gives {
            let pairs = pairs.iter().copied();
            write_match(&mut values, name, pairs, "MPI_UNDEFINED => given, _ => NOTHING");
        }
        if shows {
            let pairs = pairs.iter().map(|&(mpich, standard)| (standard, mpich));
            write_match(&mut values, &format!("shown_{name}"), pairs, "_ => given");
        }
    }
    for (name, names) in BITS {
        let pairs: Vec<_> = constants
            .iter()
            .filter(|one| names.contains(&&*one.name))
            .map(|one| (one.mpich, one.standard))
            .collect();
        write_bits(&mut values, name, pairs.iter().copied());
        if name == "amode" {
            let pairs = pairs.iter().map(|&(mpich, standard)| (standard, mpich));
            write_bits(&mut values, "shown_amode", pairs);
        }
    }
    for kind in KINDS {
        let of_kind = constants.iter().filter(|one| one.of.strip_prefix("MPI_") == Some(kind));
        write_handles(&mut values, kind, of_kind);
    }
    let mut numbers = BTreeMap::new();
    for one in constants.iter().filter(|one| one.of.starts_with("MPI_")) {
        numbers.insert(one.standard, one.mpich);
    }
    let length = numbers.last_key_value().map_or(0, |(&last, _)| last + 1);
    writeln!(values, "/// The numbers of predefined handles, by those of the standard.\npub const NUMBERS: [c_int; {length}] = [").expect("strings take all");
    for place in 0..length {
        let number = numbers.get(&place).copied().unwrap_or(0);
        writeln!(values, "    {number},").expect("strings take all");
    }
    values + "];\n"
}

fn write_match(
    values: &mut String,
    name: &str,
    pairs: impl Iterator<Item = (i32, i32)>,
    others: &str,
) {
    let arms: String = pairs.map(|(from, to)| format!("        {from} => {to},\n")).collect();
    write!(
        values,
        "/// Translates a number.\npub fn {name}(given: c_int) -> c_int {{
    match given {{\n{arms}        {others},\n    }}\n}}\n"
    )
    .expect("strings take all");
}

fn write_bits(values: &mut String, name: &str, pairs: impl Iterator<Item = (i32, i32)>) {
    let (mut all, mut lines) = (0, String::new());
    for (from, to) in pairs {
        all |= from;
        writeln!(lines, "    if given & {from} != 0 {{ bits |= {to}; }}")
            .expect("strings take all");
    }
    write!(
        values,
        "/// Translates bits. Those that have no meaning are one bit that has none.
pub fn {name}(given: c_int) -> c_int {{
    let mut bits = if given & !{all} == 0 {{ 0 }} else {{ 1 << 30 }};\n{lines}    bits\n}}\n"
    )
    .expect("strings take all");
}

/// Writes what finds the standard's number of a predefined handle. The last eight bits tell the builtin ones of a kind
/// apart.
fn write_handles<'a>(
    values: &mut String,
    kind: &str,
    constants: impl Iterator<Item = &'a Constant>,
) {
    let (mut others, mut table) = (String::new(), BTreeMap::new());
    for Constant { mpich, standard, name, .. } in constants {
        if *mpich as u32 >> 30 == 1 {
            let before = table.insert(mpich & 0xff, (*mpich, *standard));
            assert!(before.is_none_or(|before| before == (*mpich, *standard)), "{name}");
        } else {
            writeln!(others, "        {mpich} => Some({standard}),").expect("strings take all");
        }
    }
    let length = table.last_key_value().map_or(0, |(&last, _)| last + 1);
    let rows: String = (0..length)
        .map(|place| {
            let (mpich, standard) = table.get(&place).copied().unwrap_or_default();
            format!("        ({mpich}, {standard}),\n")
        })
        .collect();
    write!(
        values,
        "/// Returns the standard's number of a predefined handle.
#[inline]
pub fn predefined_{}(given: c_int) -> Option<usize> {{
    const BUILTIN: [(c_int, u16); {length}] = [\n{rows}    ];
    match BUILTIN.get((given & 0xff) as usize) {{
        Some(&(number, standard)) if number == given && given != 0 => return Some(standard.into()),
        _ => {{}}
    }}
    match given {{\n{others}        _ => None,\n    }}\n}}\n",
        kind.to_lowercase()
    )
    .expect("strings take all");
}

/// Writes a function that is in `special.rs`.
fn write_special(written: &mut String, one: &Exported, plain: &str) {
    let types: Vec<_> = one.types.iter().map(|one| in_rust(one, "c_int")).collect();
    let arguments: Vec<_> = (0..types.len()).map(|place| format!("a{place}")).collect();
    let call = format!("crate::special::{plain}({})", arguments.join(", "));
    write_function(written, one, (&in_rust(&one.result, "c_int"), &types), ("", &call), &[]);
}

/// Writes a function that returns its argument.
fn write_same(written: &mut String, one: &Exported) {
    write_head(written, &one.name, "c_int", &["c_int".to_owned()]);
    *written += "    a0\n}\n";
}

/// What is written for one argument.
struct Argument {
    /// What is done before the call.
    before: String,
    /// What the call gets.
    passed: String,
    /// What is done after the call, with its `code`.
    after: String,
}

/// Returns the name of a kind in Rust.
fn kind(word: &str) -> Option<&'static str> {
    Some(match word {
        "comm" => "Comm",
        "group" => "Group",
        "type" => "Datatype",
        "errhandler" => "Errhandler",
        "op" => "Op",
        "info" => "Info",
        "win" => "Win",
        "request" => "Request",
        "message" => "Message",
        "session" => "Session",
        _ => return None,
    })
}

/// Returns what is written for an argument with a role.
fn translated(role: &str, place: usize, given: &str, wanted: &str) -> Argument {
    let only = |passed: String| Argument { before: String::new(), passed, after: String::new() };
    let at = |made: String, after: &str| Argument {
        before: format!("let mut p{place} = {made};\n"),
        passed: format!("p{place}.place()"),
        after: after.replace('#', &place.to_string()),
    };
    let give = "p#.give();\n";
    let (word, length) = match role.split_once(':') {
        Some((word, length)) => (word, format!("a{length}")),
        None => (role, "1".to_owned()),
    };
    let (word, way) = match word.rsplit_once('-') {
        Some((word, way @ ("out" | "inout"))) => (word, way),
        _ => (word, "in"),
    };
    let is_list = role.contains(':');
    let singular = if is_list { word.trim_end_matches('s') } else { word };
    let pointer = |name: &str| match given.starts_with("*const") && wanted.starts_with("*mut") {
        true => format!("{name}.cast_mut()"),
        false => name.to_owned(),
    };
    match role {
        "types" => return only(format!("Handles::Numbers(a{place}, handle::<Datatype>)")),
        "infos" => return only(format!("Handles::Numbers(a{place}, handle::<Info>)")),
        "codes" => return only(format!("Codes::new(a{place}, values::shown_error)")),
        _ => {}
    }
    if let Some(kind) = kind(singular) {
        return match (way, is_list) {
            ("in", false) => only(format!("handle::<{kind}>(a{place})")),
            ("in", true) => {
                let made = format!(
                    "Array::new(a{place}, {length} as c_int, null_mut(), handle::<{kind}>)"
                );
                at(made, "")
            }
            ("out", false) if wanted == "Place" => {
                only(format!("Place::new(a{place}.cast(), put::<{kind}>)"))
            }
            ("out", false) => at(format!("Made::<{kind}>::new(a{place})"), give),
            ("inout", false) => at(format!("ChangedOne::<{kind}>::new(a{place})"), give),
            ("inout", true) => at(format!("Changed::<{kind}>::new(a{place}, {length})"), give),
            _ => panic!("there is no way for the role {role}"),
        };
    }
    match (word, way) {
        ("file", "in") => only(format!("file(a{place})")),
        ("file", "out") => at(format!("File::new(a{place})"), give),
        ("file", _) => at(format!("File::changed(a{place})"), give),
        ("status", "in") => at(format!("OneStatus::given(a{place})"), ""),
        ("status", "out") => at(format!("OneStatus::new(a{place})"), give),
        ("status", _) => at(format!("OneStatus::given(a{place})"), give),
        ("statuses", _) => at(format!("Statuses::new(a{place}, {length})"), give),
        ("buffer", _) if given.starts_with("*const") => {
            only(pointer(&format!("values::buffer(a{place})")))
        }
        ("buffer", _) => only(format!("values::buffer(a{place}).cast_mut()")),
        ("unwritten", _) => only(format!("a{place}.cast()")),
        ("weights", _) => only(format!("weights(a{place})")),
        ("attached", _) => Argument {
            after: format!("give_attached(code, a{place});\n"),
            ..only(format!("a{place}"))
        },
        ("attribute", _) => Argument {
            after: format!("give_attribute(code, a{}, a{place}, a{});\n", place - 1, place + 1),
            ..only(format!("a{place}"))
        },
        ("ranks", "out") => Argument {
            after: format!("show_all(code, a{place}, {length}, values::shown_rank);\n"),
            ..only(format!("a{place}"))
        },
        _ => {
            let name = match singular {
                "assert" => "assertion".to_owned(),
                _ => singular.replace('-', "_"),
            };
            match (way, is_list) {
                ("in", false) => only(format!("values::{name}(a{place})")),
                ("in", true) => {
                    at(format!("Array::new(a{place}, {length}, 0, values::{name})"), "")
                }
                ("out", false) => at(
                    format!("Number::new(a{place})"),
                    &format!("p#.give(code, values::shown_{name});\n"),
                ),
                ("inout", false) => at(
                    format!("Number::changed(a{place}, values::{name})"),
                    &format!("p#.give(code, values::shown_{name});\n"),
                ),
                _ => panic!("there is no way for the role {role}"),
            }
        }
    }
}

fn write_call(written: &mut String, one: &Exported, target: &Target, roles: Option<&Vec<String>>) {
    let types: Vec<_> = one.types.iter().map(|one| in_rust(one, "c_int")).collect();
    assert_eq!(types.len(), target.parameters.len(), "parameters of {}", target.path);
    if let Some(roles) = roles {
        assert_eq!(types.len(), roles.len(), "roles of {}", one.name);
    }
    let (mut before, mut arguments, mut after) = (String::new(), String::new(), String::new());
    let mut shown = Vec::new();
    for (place, (given, wanted)) in types.iter().zip(&target.parameters).enumerate() {
        let role = roles.map_or("-", |roles| &roles[place]);
        let passed = match role {
            "-" => forward(one, place, (given, wanted), (&mut before, &mut after)),
            _ => {
                let Argument { before: first, passed, after: last } =
                    translated(role, place, given, wanted);
                before += &first;
                after += &last;
                passed
            }
        };
        shown.extend(argument(&target.names[place], wanted, &passed));
        arguments += &passed;
        arguments += ", ";
    }
    let call = format!("{}({})", target.path, arguments.trim_end_matches(", "));
    let call = match &*one.result {
        "int" => format!("let code = {call};\n{after}values::shown_error(code)"),
        _ => call,
    };
    let result = in_rust(&one.result, "c_int");
    write_function(written, one, (&result, &types), (&before, &call), &shown);
}
