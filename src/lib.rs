//! Message passing for one multicore machine.
#![forbid(unsafe_code)]

pub use mp_core::*;

/// What programs need: `use onchip::prelude::*;`
pub mod prelude {
    pub use mp_core::{
        Bind, Channel, Error, Guard, Parties, Plain, Rank, Receiver, Select, SendError, Sender,
        SharedBuffer, Slot, Wait, WaitPolicy, World,
    };
}
