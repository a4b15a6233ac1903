//! The cheap check that all ranks make the same calls, which is always on. The kind of the call, the type and number of
//! its elements, and its root are encoded in 31 bits, the call's *mark*. The mark travels in lines that are sent
//! anyway.
//!
//! 1. A rank that begins a call notes its mark with the call's number in its [`History`](history::History).
//! 2. A line with a payload beside its flag has the mark above the flag's number ([`MpbAccess::mark`]). The rank that
//!    waits for the line compares the mark.
//! 3. A flag without a payload has the last marks beside it ([`MpbAccess::announce`]), because the rank may have gone
//!    on to its next calls before the flag is read. A dissemination barrier announces no more marks when the rank's
//!    last calls are all the same ([`MpbAccess::announce_news`]), because reading the marks beside a flag takes a tenth
//!    of the time of a barrier of two ranks.
//! 4. Calls that never meet in a line, such as a broadcast and a barrier, wait for ever. In a communicator, a rank that
//!    waits for long puts its history on a [`Board`] and looks at the histories of the others. Blocking and nonblocking
//!    operations each have a board.
//!
//! A rank that finds a call different from its own ends with
//! [`CallsDiffer`](mp_core::ErrorKind::CallsDiffer). In a communicator it also closes its buffers and
//! announces on its board that it makes no more calls, so that the others end as well.
//!
//! ```text
//! mark      kind: 5 bits | type: 7 | root: 7 | elements: 12
//! history   the last four: number of the call: 33 bits | mark
//! ```
//!
//! [`MpbAccess::mark`]: mp_core::mpb::MpbAccess::mark
//! [`MpbAccess::announce`]: mp_core::mpb::MpbAccess::announce
//! [`MpbAccess::announce_news`]: mp_core::mpb::MpbAccess::announce_news

mod board;
mod checked;
mod history;
mod mark;

pub(crate) use board::Board;
pub(crate) use checked::CheckedMpb;
pub(crate) use mark::{Kind, Mark};
