//! Names of the numbers that a variable can have.

use std::{ffi::c_int, ptr};

use mp_core::WaitPolicy;

use crate::{constants::MPI_T_ENUM_NULL, error::Class, tools::Result, types::Handle};

/// An enumeration (`MPI_T_enum`).
#[derive(Debug)]
pub(crate) struct Enum {
    pub name: &'static str,
    /// The numbers and their names.
    pub items: &'static [(c_int, &'static str)],
}

/// Whether something is so.
pub(crate) static SWITCH: Enum = Enum { name: "switch", items: &[(0, "off"), (1, "on")] };

/// How far a call that waits goes before it gives up its core.
pub(crate) static WAIT_POLICIES: Enum =
    Enum { name: "wait policy", items: &[(0, "spin"), (1, "adaptive"), (2, "park")] };

/// Returns the number of a policy.
pub(crate) fn of_policy(policy: WaitPolicy) -> c_int {
    let name = policy.to_string();
    let found = WAIT_POLICIES.items.iter().find(|(_, one)| *one == name);
    found.map_or(1, |&(number, _)| number)
}

impl Enum {
    /// Returns the handle of an enumeration, or of none.
    pub fn handle(one: Option<&'static Self>) -> Handle {
        one.map_or(MPI_T_ENUM_NULL, |one| (&raw const *one).cast_mut().cast())
    }

    /// Returns the enumeration of a handle.
    pub fn look(handle: Handle) -> Result<&'static Self> {
        let all = [&SWITCH, &WAIT_POLICIES];
        all.into_iter().find(|&one| ptr::addr_eq(one, handle)).ok_or(Class::ToolHandle)
    }
}
