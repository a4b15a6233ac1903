//! The kinds of objects that have handles, and what tells their handles apart.

use std::ffi::c_int;

use crate::slots::Slots;

/// A kind of objects.
pub trait Kind {
    /// The bits of the kind in a handle.
    const BITS: u32;
    /// Whether a program may get several handles of one object, which are one number then.
    const IS_SHARED: bool = true;
    /// Returns the objects that programs have made.
    fn slots() -> &'static Slots;
    /// Returns the number that the standard has for a predefined handle.
    fn predefined(number: c_int) -> Option<usize>;
}

/// Declares kinds.
macro_rules! kinds {
    ($($(#[$about:meta])* $name:ident, $bits:literal, $is_shared:literal, $predefined:ident;)*) => {$(
        $(#[$about])*
        #[derive(Debug)]
        pub struct $name;

        impl Kind for $name {
            const BITS: u32 = $bits;
            const IS_SHARED: bool = $is_shared;

            fn slots() -> &'static Slots {
                static SLOTS: Slots = Slots::new();
                &SLOTS
            }

            #[inline]
            fn predefined(number: c_int) -> Option<usize> {
                crate::values::$predefined(number)
            }
        }
    )*};
}

kinds! {
    /// Communicators.
    Comm, 1, true, predefined_comm;
    /// Groups.
    Group, 2, true, predefined_group;
    /// Datatypes.
    Datatype, 3, true, predefined_datatype;
    /// Error handlers.
    Errhandler, 5, true, predefined_errhandler;
    /// Operations.
    Op, 6, true, predefined_op;
    /// Infos.
    Info, 7, true, predefined_info;
    /// Windows.
    Win, 8, true, predefined_win;
    /// Requests.
    Request, 11, false, predefined_request;
    /// Messages, which have handles as requests have.
    Message, 12, false, predefined_message;
    /// Sessions.
    Session, 14, true, predefined_session;
}
