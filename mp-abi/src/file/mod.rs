//! Files.
//!
//! | file | what is in it |
//! |---|---|
//! | `definition.rs` | what an open file is, its handles, and who gets the errors |
//! | `opening.rs` | how ranks open, close and delete files |
//! | `errno.rs` | the classes of the system's errors |
//! | `together.rs` | what the ranks of a file agree on |
//! | `representation.rs` | what data looks like in a file |
//! | `view.rs` | the part of a file that a rank sees, and where its data lies |
//! | `pointers.rs` | the places in a file where the next data is |
//! | `control.rs` | sizes, views and modes that ranks set |
//! | `access.rs` | reading and writing |

pub(crate) mod access;
mod control;
mod definition;
mod errno;
pub(crate) mod opening;
mod pointers;
pub(crate) mod representation;
mod together;
pub(crate) mod view;

pub(crate) use self::definition::{File, with_object, within, within_none};
