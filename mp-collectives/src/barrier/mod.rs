//! Nobody goes on before all have come.
//!
//! [`Barriers`] picks the algorithm that suits the machine. Each can also be used by itself:
//!
//! | | for | source |
//! |---|---|---|
//! | [`Dissemination`] | a core for each rank | Ramos & Hoefler, section 3.3 |
//! | [`Central`] | more than 16 ranks that share cores | the fewest that must be woken, by one wake for all |
//!
//! Both are *fuzzy*: a rank may say that it has come, do something else, and wait later.

mod central;
mod choice;
mod chosen;
mod dissemination;
mod proposal;

pub use central::Central;
pub use choice::{Explanation, Origin, Reason, choose};
pub use chosen::{Arrived, Barriers, Settings};
pub use dissemination::{BarrierError, Dissemination};
pub use mp_model::cla::{Barrier, Placement};
