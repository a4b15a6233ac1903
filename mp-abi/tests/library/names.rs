//! What the library exports.

use std::{collections::BTreeMap, fs};

use object::{Object, ObjectSymbol, read::elf::ElfFile64};

use crate::{installed, rows};

/// Compares what a library exports with the rows of tables, and other names.
pub fn compare(library: &str, functions: &[Vec<String>], more: &[&str]) {
    let bytes = fs::read(installed().join("lib").join(library)).unwrap();
    let file: ElfFile64 = ElfFile64::parse(&*bytes).unwrap();
    let mut exported = BTreeMap::new();
    for symbol in file.dynamic_symbols().filter(|symbol| symbol.is_definition()) {
        let name = symbol.name().unwrap().to_owned();
        let at = (symbol.address(), symbol.is_weak());
        assert!(exported.insert(name.clone(), at).is_none(), "{name} is there twice");
    }
    for row in functions {
        let (address, is_weak) = exported.remove(&row[0]).unwrap_or_else(|| panic!("{}", row[0]));
        let own = exported.remove(&format!("P{}", row[0]));
        assert_eq!((own, is_weak), (Some((address, false)), true), "{}", row[0]);
    }
    for &name in more {
        assert!(exported.remove(name).is_some(), "{name}");
    }
    assert!(exported.is_empty(), "{exported:?}");
}

#[test]
fn every_function_is_there_under_both_names_and_nothing_else() {
    compare("libmpi_abi.so.1", &["functions.tsv", "extras.tsv"].map(rows).concat(), &[]);
}

#[test]
fn the_table_has_all_functions() {
    assert_eq!(rows("functions.tsv").len(), 662);
}
