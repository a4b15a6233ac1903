//! Work that rank code leaves to be done after the code has returned.

use std::{cell::RefCell, mem::ManuallyDrop, sync::Arc};

use crate::{
    context::Context,
    error::Result,
    wait::progress::{self, Whose},
};

/// The work left by the rank code that runs in this thread.
struct Left {
    /// The rank whose work this is, by the address of the context that its clones share.
    rank: *const Context,
    work: Vec<Box<dyn FnOnce()>>,
}

thread_local! {
    // Without a destructor the variable is there until the thread's end. A process that is a rank may end the rank in
    // a function that the C library calls at exit, when variables with destructors are gone.
    static LEFT: ManuallyDrop<RefCell<Option<Left>>> = const { ManuallyDrop::new(RefCell::new(None)) };
}

/// Rank code that runs in this thread, until this is dropped. The work that is still left then is dropped, too.
#[must_use = "the code ends when this is dropped"]
pub(crate) struct Running {
    /// The work that the thread had before.
    before: Option<Left>,
    ran: Option<Whose>,
    whose: Whose,
}

impl Running {
    /// Begins the rank's code.
    pub(crate) fn begin(context: &Arc<Context>) -> Self {
        let left = Left { rank: Arc::as_ptr(context), work: Vec::new() };
        let whose = context.whose();
        let ran = progress::set_runs(Some(whose));
        Self { before: LEFT.with(|place| place.replace(Some(left))), ran, whose }
    }

    /// Does the work that the code has left. The code has succeeded.
    pub(crate) fn finish(self) {
        let next = || LEFT.with(|left| left.borrow_mut().as_mut()?.work.pop());
        while let Some(work) = next() {
            work();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The work is dropped outside the borrow, because its destructor may call `leave`.
        let before = self.before.take();
        drop(LEFT.with(|left| left.replace(before)));
        progress::set_runs(self.ran);
        progress::remove_all(self.whose);
    }
}

/// Runs rank code, and then the work it has left. Work left by code that fails or panics is dropped.
pub(crate) fn run<T>(context: &Arc<Context>, code: impl FnOnce() -> Result<T>) -> Result<T> {
    let running = Running::begin(context);
    let value = code()?;
    running.finish();
    Ok(value)
}

/// Leaves work to the rank's end. Returns it if this thread does not run the rank's code.
pub(crate) fn leave<W: FnOnce() + 'static>(context: &Arc<Context>, work: W) -> Option<W> {
    LEFT.with(|left| match &mut *left.borrow_mut() {
        Some(left) if left.rank == Arc::as_ptr(context) => {
            left.work.push(Box::new(work));
            None
        }
        _ => Some(work),
    })
}
