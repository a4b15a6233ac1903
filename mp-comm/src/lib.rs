//! Communicators and tagged messages. Programs use it through the `onchip` crate.
#![forbid(unsafe_code)]

mod agree;
mod cartesian;
mod communicator;
mod desk;
mod elements;
mod engine;
mod error;
mod exchange;
mod group;
mod halo;
mod inward;
mod members;
mod outward;
mod persistent;
mod request;
mod split;
mod status;
mod store;
mod wire;

pub use cartesian::{Cartesian, balanced, share};
pub use communicator::Communicator;
pub use elements::{Buffer, BufferMut, ElementType};
pub use error::{Error, Failed, Result};
pub use exchange::Exchange;
pub use group::Group;
pub use halo::Halo;
pub use persistent::{PersistentReceive, PersistentSend, Start, start_all};
pub use request::{
    Pending, ReceiveRequest, SendRequest, test_all, test_any, test_some, wait_all, wait_any,
    wait_some,
};
pub use split::Shared;
pub use status::{ANY_SOURCE, ANY_TAG, Source, Status, Tag};
