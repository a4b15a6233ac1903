//! The board on which the ranks of a communicator show each other their calls.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mp_core::mpb::{Line, Mpb, Mpbs, Watch};
use mp_core::waits::Caller;
use mp_core::{ErrorKind, Rank};

use super::history::{Difference, History, REMEMBERED};
use crate::communicator::Title;
use crate::members::names;

/// The place where the ranks of a communicator show their calls when something takes long or is wrong. The line of a
/// rank in its own MPB holds [`ENDED`] or not, its history, and the difference that was found, if any.
pub(crate) struct Board {
    rank: Rank,
    members: Vec<usize>,
    name: String,
    title: Arc<Title>,
    history: Arc<History>,
    /// Whether this rank makes no more calls.
    ended: AtomicBool,
    mpb: OnceLock<Option<Mpb>>,
}

/// The value of the flag in the line of a rank whose calls have ended.
const ENDED: u64 = 2;
const WORDS: usize = REMEMBERED + 2;

impl Board {
    pub(crate) fn new(rank: Rank, members: Vec<usize>, name: String, title: Arc<Title>) -> Self {
        let (history, ended, mpb) = (Arc::default(), AtomicBool::new(false), OnceLock::new());
        Self { rank, members, name, title, history, ended, mpb }
    }

    pub(super) fn history(&self) -> &Arc<History> {
        &self.history
    }

    /// Returns the reason if this rank makes no more calls.
    pub(crate) fn ended(&self) -> Option<mp_core::Error> {
        self.found().filter(|_| self.ended.load(Ordering::Relaxed))
    }

    /// Opens the MPB when it is first needed. Returns `None` if there is no memory for it.
    fn mpb(&self) -> Option<&Mpb> {
        let open = || self.rank.mpb_of(&self.name, &self.members, mpbs()).ok();
        self.mpb.get_or_init(open).as_ref()
    }

    /// Shows this rank's calls.
    fn show(&self, mpb: &Mpb) -> mp_core::Result<()> {
        let state = if self.ended.load(Ordering::Relaxed) { ENDED } else { 1 };
        let mut words = [0; WORDS];
        let (calls, found) = words.split_at_mut(REMEMBERED);
        calls.copy_from_slice(&self.history.recent());
        if let Some(difference) = self.history.found() {
            found.copy_from_slice(&difference.words());
        }
        let line = Line { rank: mpb.rank(), line: 0 };
        mpb.set_flag_with(line, state, bytemuck::bytes_of(&words))
    }

    /// Announces that this rank makes no more calls, because ranks made different calls.
    #[cold]
    fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(mpb) = self.mpb() {
            // A rank that can't be notified finds the buffers closed.
            let _ = self.show(mpb);
        }
    }

    /// Returns the difference, if this rank or another has found one.
    pub(crate) fn found(&self) -> Option<mp_core::Error> {
        self.history.found().map(|found| found.error(self.members.len()))
    }

    /// Handles a call that failed with this error, and returns the error for the caller. If a difference is the reason,
    /// this is the error for the difference, and this rank makes no more calls. If a rank has left, the error names the
    /// communicator, not its message passing buffers.
    #[cold]
    pub(crate) fn after(&self, error: mp_core::Error) -> mp_core::Error {
        let error = match error.kind() {
            // A rank that found a difference has closed its buffers.
            ErrorKind::Disconnected { .. } => self
                .found_by_others()
                .unwrap_or_else(|| ErrorKind::Disconnected { channel: self.title.name() }.into()),
            _ => error,
        };
        if self.history.found().is_some() {
            self.end();
        }
        error
    }

    /// Returns the difference, if another rank has found one.
    fn found_by_others(&self) -> Option<mp_core::Error> {
        let mpb = self.mpb()?;
        self.look_at_others(mpb, false).ok()??;
        self.found()
    }

    fn look_at_others(&self, mpb: &Mpb, compare: bool) -> mp_core::Result<Option<()>> {
        let me = mpb.rank();
        for rank in (0..mpb.ranks()).filter(|&rank| rank != me) {
            let mut line = [0u64; 1 + WORDS];
            mpb.get(Line { rank, line: 0 }, bytemuck::bytes_of_mut(&mut line))?;
            let [state, ref calls @ .., first, second] = line;
            let found = if state == ENDED {
                Some(Difference::of_words([first, second]))
            } else if compare {
                let differ = |(mine, there)| Difference::new((me, mine), (rank, there));
                self.history.difference(*calls).map(differ)
            } else {
                None
            };
            if let Some(found) = found {
                self.history.differs(found);
                return Ok(Some(()));
            }
        }
        Ok(None)
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        if self.mpb.get().is_none() {
            // Other ranks may have opened their MPBs, and would keep them for this rank. If this fails, the world's
            // memory is broken.
            let _ = self.rank.decline_mpb(&self.name, mpbs());
        }
    }
}

fn mpbs() -> Mpbs {
    names::COMMUNICATORS.mpbs(Mpbs::lines(1))
}

impl Watch for Board {
    /// Returns the interval between looks. It grows with the number of ranks, so that reading each other's lines costs
    /// little beside everything else.
    fn interval(&self) -> Duration {
        Duration::from_millis(250 + self.members.len() as u64)
    }

    fn look(&self) -> Option<mp_core::Error> {
        let mpb = self.mpb()?;
        self.show(mpb).ok()?;
        self.look_at_others(mpb, true).ok()??;
        self.found()
    }

    fn found(&self) -> Option<mp_core::Error> {
        self.found()
    }
}

/// Returns the last call, which is the one that waits, unless the caller names another of several pending operations.
impl Caller for Board {
    fn call(&self, operation: Option<&str>) -> Option<String> {
        if let Some(operation) = operation {
            return Some(self.title.told(operation));
        }
        let last = self.history.last();
        let entry = self.history.entry(last, last);
        (entry.0 != 0).then(|| self.title.told(entry.mark().call(self.members.len())))
    }
}

impl fmt::Debug for Board {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Board").field("name", &self.name).finish_non_exhaustive()
    }
}
