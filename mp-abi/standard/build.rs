//! Writes the functions that the library exports: for each name in the tables, one that calls what `mp-abi` has for it.

#[path = "../exports.rs"]
mod exports;

use exports::{Exported, Target, argument, exported, finish, forward, in_rust, write_function};

fn main() {
    let mut written = String::new();
    for one in exported(None) {
        write_call(&mut written, &one, one.target());
    }
    finish(&written, "libmpi_abi.so.1");
}

fn write_call(exports: &mut String, exported: &Exported, target: &Target) {
    let types: Vec<_> = exported.types.iter().map(|one| in_rust(one, "Handle")).collect();
    assert_eq!(types.len(), target.parameters.len(), "parameters of {}", target.path);
    let (mut before, mut arguments, mut after) = (String::new(), String::new(), String::new());
    let mut shown = Vec::new();
    for (place, (given, wanted)) in types.iter().zip(&target.parameters).enumerate() {
        let passed = forward(exported, place, (given, wanted), (&mut before, &mut after));
        shown.extend(argument(&target.names[place], wanted, &passed));
        arguments += &passed;
        arguments += ", ";
    }
    let call = format!("{}({})", target.path, arguments.trim_end_matches(", "));
    let call = match &*after {
        "" => call,
        _ => format!("let code = {call};\n{after}        code"),
    };
    let result = in_rust(&exported.result, "Handle");
    write_function(exports, exported, (&result, &types), (&before, &call), &shown);
}
