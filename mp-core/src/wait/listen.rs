//! A listener that is told of all waits of a thread.

use std::cell::Cell;

use super::Operation;

/// A listener that is told of the waits of a thread, in that thread. See [`listen`].
pub trait Listener {
    /// Notes that a wait begins, for this operation.
    fn begin(&self, operation: Operation);

    /// Notes that the wait has ended, even if a panic ended it.
    fn end(&self);

    /// Calls `advance`, which advances the pending tagged messages of the thread's rank. Returns what `advance`
    /// returns: whether anything moved.
    fn messages(&self, advance: &mut dyn FnMut() -> bool) -> bool {
        advance()
    }
}

thread_local! {
    /// Empty while the listener is being called, so that a wait within another one is not reported.
    static LISTENER: Cell<Option<Box<dyn Listener>>> = const { Cell::new(None) };
    /// Whether there is a listener. Checking this costs one load.
    static LISTENS: Cell<bool> = const { Cell::new(false) };
}

/// Makes `listener` the listener that is told of this thread's waits from now on, in place of the previous one.
///
/// Waits are those for messages, room, requests and flags. A wait that ends during the first looks, which take some
/// microseconds, is not reported.
///
/// ```
/// use std::{cell::Cell, rc::Rc, time::Duration};
/// use mp_core::waits::{Listener, listen};
/// use onchip::{Channel, Operation, World};
///
/// struct Counter(Rc<Cell<u32>>);
///
/// impl Listener for Counter {
///     fn begin(&self, operation: Operation) {
///         assert_eq!(operation, Operation::Receive);
///     }
///     fn end(&self) {
///         self.0.set(self.0.get() + 1);
///     }
/// }
///
/// let waits = Rc::new(Cell::new(0));
/// listen(Some(Box::new(Counter(Rc::clone(&waits)))));
/// let rank = World::solo()?;
/// let from = rank.receiver::<u8>("bytes", 0, Channel::degree(1))?;
/// assert!(from.receive_timeout(Duration::from_millis(1)).is_err());
/// assert_eq!(waits.get(), 1);
/// # Ok::<(), onchip::Error>(())
/// ```
pub fn listen(listener: Option<Box<dyn Listener>>) {
    LISTENS.set(listener.is_some());
    LISTENER.set(listener);
}

/// Advances tagged messages by `advance`, and tells this thread's listener of that.
#[inline]
pub fn tell_messages(mut advance: impl FnMut() -> bool) -> bool {
    let taken = Taken::take();
    match &taken.0 {
        Some(listener) => listener.messages(&mut advance),
        None => advance(),
    }
}

/// The listener of a thread, until this is dropped.
struct Taken(Option<Box<dyn Listener>>);

impl Taken {
    #[inline]
    fn take() -> Self {
        if !LISTENS.get() {
            return Self(None);
        }
        // There is no listener in a thread that is about to end.
        Self(LISTENER.try_with(Cell::take).ok().flatten())
    }
}

impl Drop for Taken {
    #[inline]
    fn drop(&mut self) {
        if let Some(listener) = self.0.take() {
            // If the code that ran meanwhile has set another listener, that one stays.
            let _ = LISTENER.try_with(|place| place.set(place.take().or(Some(listener))));
        }
    }
}

/// A wait that is reported to its thread's listener. It ends when this is dropped.
pub(super) struct Told(Taken);

impl Told {
    pub(super) fn begin(operation: Operation) -> Self {
        let taken = Taken::take();
        if let Some(listener) = &taken.0 {
            listener.begin(operation);
        }
        Self(taken)
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        if let Some(listener) = &self.0.0 {
            listener.end();
        }
    }
}
