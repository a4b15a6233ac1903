//! The calls of the program that wait, in the program's words, for reports.

use super::Flag;

/// Tells which call of the program waits in an object of the library. It is asked only when a wait has lasted so long
/// that it is recorded for reports, so that short waits cost nothing more.
pub trait Caller: std::fmt::Debug + Send + Sync {
    /// Returns the call in the program's words, as `all_reduce of 4 f64 on "world"`. `operation` is the name of the
    /// operation if it is known.
    fn call(&self, operation: Option<&str>) -> Option<String>;
}

/// Returns the call that waits, as a [`Caller`] does. `None` if the waiting code does not know the call.
pub(crate) type Call<'a> = Option<&'a dyn Fn() -> Option<String>>;

/// The flag of a wait, together with the call that waits.
pub(crate) struct Called<'a> {
    pub(crate) flag: &'a dyn Flag,
    pub(crate) call: Call<'a>,
    /// As in [`Flag::ends_here`].
    pub(crate) ends_here: bool,
}

impl Flag for Called<'_> {
    fn raise(&self) {
        self.flag.raise();
    }

    fn lower(&self) {
        self.flag.lower();
    }

    fn inner(&self) -> Option<&dyn Flag> {
        Some(self.flag)
    }

    fn ends_here(&self) -> bool {
        self.ends_here
    }

    fn call(&self) -> Option<String> {
        self.call?()
    }
}
