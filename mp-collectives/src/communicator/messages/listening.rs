//! Ranks from which a message may come although no call has named them: which of them have opened their way to this
//! rank, and which never will. Opening a way from each of them would need a way for each pair of ranks of a world in
//! which all ranks receive from any source.

use mp_core::{Rank, Result as CoreResult, Select, names::Callers};

use crate::communicator::messages::{
    channels::{LINE_CHANNEL, names},
    send_queue::End,
};

/// See the [module](self).
pub(crate) struct Listening {
    callers: Callers,
    /// By rank of the world: whether a receive from any source may take something from it.
    awaited: Vec<bool>,
    /// Those of them that have opened no way yet.
    silent: Vec<u32>,
}

impl Listening {
    pub(crate) fn open(rank: &Rank, serial: u64) -> CoreResult<Self> {
        let [name, _] = names(serial);
        let callers = rank.callers(&name, LINE_CHANNEL)?;
        Ok(Self { callers, awaited: vec![false; rank.room()], silent: Vec::new() })
    }

    /// Listens to these ranks from now on. Returns whether any of them are new.
    pub(crate) fn begin(&mut self, ranks: &[u32], me: u32) -> bool {
        let before = self.silent.len();
        for &rank in ranks {
            if !std::mem::replace(&mut self.awaited[rank as usize], true) && rank != me {
                self.callers.await_call(rank as usize);
                self.silent.push(rank);
            }
        }
        self.silent.len() > before
    }

    /// Returns whether any rank has opened its way, or gone, since the last call of this.
    pub(crate) fn has_news(&self) -> bool {
        self.callers.has_news()
    }

    /// Takes out one of the ranks that have opened their way.
    pub(crate) fn next(&mut self) -> Option<u32> {
        let called = |&rank: &u32| self.callers.has_called(rank as usize);
        let place = self.silent.iter().position(called)?;
        Some(self.silent.swap_remove(place))
    }

    /// Returns why there will never be a way from this rank, or `None` if there is one or may be one.
    pub(crate) fn end(&self, rank: u32) -> Option<&'static End> {
        let lost = self.callers.absent(rank as usize)?;
        Some(if lost { &End::Lost } else { &End::Ended })
    }

    /// Adds the news to a wait.
    pub(crate) fn wait_in<'a>(&'a self, select: &mut Select<'a>) {
        select.add_callers(&self.callers);
    }
}
