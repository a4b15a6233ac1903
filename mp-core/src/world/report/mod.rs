//! Worlds seen from outside: which worlds there are on this machine, which ranks wait for which in them, and whether
//! they can ever continue.
//!
//! Before a rank sleeps, it records what it waits for, and the reader needs nothing else. The reader maps the world's
//! memory for reading only, takes no lock, and checks everything that it reads. So a world that is changing or broken
//! can't harm the reader, and the reader can't harm the world.
//!
//! | file | what it is |
//! |---|---|
//! | `facts` | the facts about a world that a report contains |
//! | `find` | the worlds of this machine |
//! | `read` | one look at a world |
//! | `stuck` | which ranks can never continue, and the cycles of waits that are the reason |

mod facts;
mod find;
mod read;
mod stuck;

use std::time::Duration;

pub use facts::{
    ChannelReport, FlagReport, RankKind, RankReport, RankStage, RingReport, WaitReport, WorldReport,
};
pub use find::{Found, worlds, worlds_of};

use crate::{context::Context, segment::SegmentError};

/// How long ranks must wait for the same thing before they are called stuck. A rank that was woken needs some time
/// until it runs and updates its record.
const CONFIRMED_AFTER: Duration = Duration::from_millis(100);

/// Looks at a world. If ranks seem to be stuck, looks twice, because one look may catch a rank between being woken and
/// running.
pub(crate) fn of(context: &Context) -> Result<WorldReport, SegmentError> {
    of_confirmed(context, CONFIRMED_AFTER)
}

fn of_confirmed(context: &Context, after: Duration) -> Result<WorldReport, SegmentError> {
    let mut first = read::look(context)?;
    if !stuck::judge(&mut first, |_| true) {
        return Ok(first);
    }
    std::thread::sleep(after);
    let mut second = read::look(context)?;
    let same_wait = |rank: &RankReport| {
        let before = first.ranks.get(rank.rank).and_then(|rank| rank.wait.as_ref());
        before.map(|wait| wait.version) == rank.wait.as_ref().map(|wait| wait.version)
    };
    stuck::judge(&mut second, same_wait);
    Ok(second)
}
