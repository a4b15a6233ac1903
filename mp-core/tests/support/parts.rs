//! Parts of the progress engine, for tests.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::Duration,
};

use mp_core::{
    Error, Rank, Result,
    progress::{Advanced, Part},
};

/// A part that never moves.
#[derive(Default)]
pub struct Still {
    /// Called by each wait that the first looks have not ended.
    advance: Option<Box<dyn Fn()>>,
    /// Called once after the rank was woken and has looked whether its wait is over.
    woken: RefCell<Option<Box<dyn FnOnce()>>>,
    /// The number of looks since the rank raised its flags, if they are raised.
    looks: Cell<Option<u32>>,
    failure: RefCell<Option<Error>>,
    is_ready: bool,
}

/// Returns a part that calls `act` once while a rank is awake between two sleeps: after it has looked whether its wait
/// is over, and before it raises its flags again.
pub fn between_sleeps(act: impl FnOnce() + 'static) -> Still {
    Still { woken: RefCell::new(Some(Box::new(act))), ..Still::default() }
}

/// Returns a part that fails with this error.
pub fn failing(error: Error) -> Still {
    Still { failure: RefCell::new(Some(error)), ..Still::default() }
}

/// Returns a part that calls `act` in each wait that the first looks have not ended.
pub fn calling(act: impl Fn() + 'static) -> Still {
    Still { advance: Some(Box::new(act)), ..Still::default() }
}

/// Returns a part that calls `act` again and again in each wait that the first looks have not ended.
pub fn calling_again(act: impl Fn() + 'static) -> Still {
    Still { advance: Some(Box::new(act)), is_ready: true, ..Still::default() }
}

/// Calls `code`, whose waits advance the part.
pub fn beside<T>(rank: &Rank, part: Still, code: impl FnOnce() -> Result<T>) -> Result<T> {
    const KEY: usize = 1;
    rank.progress_with(KEY, || Rc::new(part));
    let done = code();
    rank.progress_without(KEY);
    done
}

impl Part for Still {
    fn advance(&self) -> Advanced {
        self.advance.iter().for_each(|advance| advance());
        Advanced::Waits
    }

    fn is_ready(&self) -> bool {
        self.looks.set(self.looks.get().map(|looks| looks + 1));
        // The first look comes before the sleep, and the second after it.
        if self.looks.get() == Some(2)
            && let Some(act) = self.woken.take()
        {
            act();
        }
        self.is_ready
    }

    fn raise(&self) {
        self.looks.set(Some(0));
    }

    fn lower(&self) {}

    fn failure(&self) -> Option<Error> {
        self.failure.take()
    }

    fn is_gone(&self) -> bool {
        false
    }

    /// Ends a sleep, like a rank that rings the doorbell for another reason.
    fn tick(&self) -> Option<Duration> {
        self.woken.borrow().is_some().then_some(Duration::from_millis(1))
    }

    fn awaits(&self) -> Vec<u64> {
        Vec::new()
    }
}
