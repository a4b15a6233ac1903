//! The functions that C programs call.
//!
//! A function here has the name of MPI's without the prefix, in lower case, and the parameters of its form for large
//! counts. The form for counts of type `int` forwards to it. Each is `unsafe`, because it trusts the pointers that the
//! program gives, as far as the standard says what they point to.
