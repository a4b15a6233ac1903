//! Barriers: no rank continues until all ranks have arrived.
//!
//! [`Barriers`] picks the algorithm that suits the machine. Each algorithm can also be used by itself:
//!
//! | | for | source |
//! |---|---|---|
//! | [`Dissemination`] | a core for each rank | Ramos & Hoefler, section 3.3 |
//! | [`Central`] | more than 16 ranks that share cores | as few ranks as possible are woken, by one wake for all |
//!
//! Both are *fuzzy*: a rank may announce that it has arrived, do something else, and wait later.

mod central;
mod choice;
mod dissemination;
mod handle;
mod proposal;

pub use crate::settings::Settings;
pub use central::Central;
pub(crate) use choice::choose;
pub(crate) use dissemination::rounds;
pub use dissemination::{BarrierError, Dissemination};
pub use handle::{Arrived, Barriers};
pub use mp_model::cla::{Barrier, Placement};
