//! Groups of variables.

use std::ffi::c_int;

use mp_collectives::{
    calibration::FILE_VARIABLE,
    communicator::{CHECK_VARIABLE, UNEXPECTED_VARIABLE},
};
use mp_core::WAIT_VARIABLE;

use crate::tools::{control::CONTROLS, performance::VARIABLES};

/// A group.
#[derive(Debug)]
pub(crate) struct Category {
    pub name: &'static str,
    pub description: &'static str,
    controls: &'static [&'static str],
    variables: &'static [&'static str],
    categories: &'static [&'static str],
}

/// All groups, in the order of their indices. They never change.
pub(crate) const CATEGORIES: &[Category] = &[
    Category {
        name: "onchip",
        description: "Everything that Onchip has for tools",
        controls: &[],
        variables: &[],
        categories: &["messages", "collective_operations", "waits", "memory"],
    },
    Category {
        name: "messages",
        description: "Messages between two ranks",
        controls: &[UNEXPECTED_VARIABLE],
        variables: &["unexpected_messages", "unexpected_bytes", "most_unexpected_bytes"],
        categories: &[],
    },
    Category {
        name: "collective_operations",
        description: "How collective operations are chosen and compared",
        controls: &[CHECK_VARIABLE, FILE_VARIABLE],
        variables: &[],
        categories: &[],
    },
    Category {
        name: "waits",
        description: "How calls wait, and for how long",
        controls: &[WAIT_VARIABLE],
        variables: &[
            "crowded",
            "message_waits",
            "message_wait_time",
            "flag_waits",
            "flag_wait_time",
        ],
        categories: &[],
    },
    Category {
        name: "memory",
        description: "The memory that the ranks share",
        controls: &[],
        variables: &["memory_in_use", "memory_touched"],
        categories: &[],
    },
];

impl Category {
    /// Returns the indices of its control variables.
    pub fn controls(&self) -> Vec<c_int> {
        places(self.controls, CONTROLS, |one| one.name)
    }

    /// Returns the indices of its performance variables.
    pub fn variables(&self) -> Vec<c_int> {
        places(self.variables, VARIABLES, |one| one.name)
    }

    /// Returns the indices of the groups in it.
    pub fn categories(&self) -> Vec<c_int> {
        places(self.categories, CATEGORIES, |one| one.name)
    }
}

/// Returns the indices of names in a table.
fn places<T>(names: &[&str], table: &[T], name_of: fn(&T) -> &'static str) -> Vec<c_int> {
    let of = |name| table.iter().position(|one| name_of(one) == name);
    names.iter().filter_map(|&name| of(name)).map(|place| place as c_int).collect()
}
