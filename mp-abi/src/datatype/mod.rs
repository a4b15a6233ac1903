//! Datatypes: what elements in the program's memory look like.
//!
//! | file | what is in it |
//! |---|---|
//! | `definition.rs`, `handles.rs` | what a type is, and its handles |
//! | `predefined.rs` | the types that MPI names |
//! | `constructors.rs`, `arrays.rs` | types that are made from others |
//! | `fortran.rs` | types for Fortran's kinds of numbers |
//! | `pieces.rs` | where the data of an element lies |
//! | `data.rs` | elements in the program's memory, and how they are packed and unpacked |
//! | `external.rs` | data in the representation that is the same on all machines |
//! | `vector.rs` | memory for elements of any type |

pub(crate) mod arrays;
pub(crate) mod constructors;
pub(crate) mod data;
mod definition;
pub(crate) mod external;
pub(crate) mod fortran;
mod handles;
mod pieces;
mod predefined;
#[cfg(test)]
mod tests;
pub(crate) mod vector;

pub(crate) use self::{
    definition::{Datatype, Kind, TypeRef},
    handles::look,
    pieces::Piece,
};
