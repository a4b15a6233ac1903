//! A wait for something that another call does: one of another thread, for which the wait makes way, or of a function that
//! the wait itself calls.

use std::{cell::Cell, rc::Rc};

use mp_core::{
    Operation, Pending, Rank,
    requests::{UnderWay, Watch},
};

/// What is done when a call, of this thread or another, sets a flag.
#[derive(Debug)]
pub(crate) struct Awaited {
    is_done: Rc<Cell<bool>>,
    rank: Rank,
}

impl Awaited {
    pub fn new(is_done: Rc<Cell<bool>>, rank: Rank) -> Self {
        Self { is_done, rank }
    }

    /// Returns whether the flag is set.
    pub fn is_set(&self) -> bool {
        self.is_done.get()
    }
}

impl Pending for Awaited {
    fn under_way(&mut self) -> Option<UnderWay<'_>> {
        match self.is_set() {
            true => None,
            false => Some(UnderWay::Watched(self)),
        }
    }
}

impl Watch for Awaited {
    fn rank(&self) -> Rank {
        self.rank.clone()
    }

    fn is_done(&self) -> bool {
        self.is_set()
    }

    fn waited(&self) -> (Operation, Vec<u64>) {
        (Operation::Receive, Vec::new())
    }

    fn call(&self) -> Option<String> {
        Some("what another call of the program completes".to_owned())
    }
}
