//! Which call of the program waits, in the program's words, for reports.

/// Knows which call of the program waits in an object of the library. It is asked when a wait has lasted for so long
/// that it is recorded for reports, so that calls that wait only briefly pay nothing for it.
pub trait Caller: std::fmt::Debug + Send + Sync {
    /// Returns the call in the program's words, as `all_reduce of 4 f64 on "world"`. `operation` is the operation's
    /// name if the asker knows it.
    fn call(&self, operation: Option<&str>) -> Option<String>;
}
