//! The functions that C programs call.
//!
//! A function here has the name of MPI's without the prefix, in lower case, and the parameters of its form for large
//! counts. The form for counts of type `int` forwards to it. Each is `unsafe`, because it trusts the pointers that the
//! program gives, as far as the standard says what they point to.
//!
//! The library's build script finds the functions here by `pub unsafe fn`. A function whose name ends with `_c` is only
//! the form for large counts, where the other one differs in more than the width of numbers. In place of a `Count`, an
//! [`Ints`](crate::ints::Ints) or a `*mut Count`, programs may give an `int` or the address of such.

pub mod attributes;
pub mod buffers;
mod collective_arguments;
pub mod collectives;
pub mod communicators;
pub mod conversions;
pub mod datatypes;
pub mod environment;
pub mod error_codes;
pub mod external;
pub mod file_access;
pub mod file_collectives;
pub mod file_views;
pub mod files;
pub mod generalized_requests;
pub mod graphs;
pub mod grids;
pub mod groups;
pub mod hardware;
pub mod info;
pub mod intercommunicators;
pub mod matched_probes;
pub mod neighbourhoods;
pub mod nonblocking_collectives;
pub mod one_sided;
pub mod operations;
pub mod partitioned;
pub mod persistent_collectives;
pub mod point_to_point;
pub mod ports;
pub mod predefined_types;
pub mod removed;
pub mod requests;
pub mod sessions;
pub mod spawning;
pub mod statuses;
pub mod tool_categories;
pub mod tool_controls;
pub mod tool_events;
pub mod tool_performance;
pub mod tools;
pub mod type_attributes;
pub mod window_synchronization;
pub mod windows;
