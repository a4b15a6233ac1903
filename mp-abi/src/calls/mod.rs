//! The functions that C programs call.
//!
//! A function here has the name of MPI's without the prefix, in lower case, and the parameters of its form for large
//! counts. The form for counts of type `int` forwards to it. Each is `unsafe`, because it trusts the pointers that the
//! program gives, as far as the standard says what they point to.

pub mod collectives;
pub mod communicators;
pub mod datatypes;
pub mod groups;
pub mod operations;
pub mod point_to_point;
pub mod requests;
