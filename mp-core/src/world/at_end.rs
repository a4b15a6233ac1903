//! Work that rank code leaves to be done after it has returned.

use std::{cell::RefCell, sync::Arc};

use crate::{
    context::Context,
    error::Result,
    wait::progress::{self, Whose},
};

/// The work left by the rank code that runs in this thread.
struct Left {
    /// The rank whose work it is: the address of what its clones share.
    rank: *const Context,
    work: Vec<Box<dyn FnOnce()>>,
}

thread_local! {
    static LEFT: RefCell<Option<Left>> = const { RefCell::new(None) };
}

/// Runs rank code, and then the work it has left. Work left by code that fails or panics is dropped.
pub(crate) fn run<T>(context: &Arc<Context>, code: impl FnOnce() -> Result<T>) -> Result<T> {
    /// Puts back what the thread had before, and drops what is left.
    struct Restore(Option<Left>, Whose);
    impl Drop for Restore {
        fn drop(&mut self) {
            // Dropped outside of the borrow: what is dropped may leave something itself.
            drop(LEFT.replace(self.0.take()));
            progress::remove_all(self.1);
        }
    }
    let left = Left { rank: Arc::as_ptr(context), work: Vec::new() };
    let restore = Restore(LEFT.replace(Some(left)), context.whose());
    let value = code()?;
    let next = || LEFT.with_borrow_mut(|left| left.as_mut()?.work.pop());
    while let Some(work) = next() {
        work();
    }
    drop(restore);
    Ok(value)
}

/// Leaves work to the rank's end. Returns it if this thread does not run the rank's code.
pub(crate) fn leave<W: FnOnce() + 'static>(context: &Arc<Context>, work: W) -> Option<W> {
    LEFT.with_borrow_mut(|left| match left {
        Some(left) if left.rank == Arc::as_ptr(context) => {
            left.work.push(Box::new(work));
            None
        }
        _ => Some(work),
    })
}
