//! Ends of channels that a rank can wait for together with other ends.

use crate::context::Context;

/// An end that can be waited for together with other ends. [`Receiver`](crate::Receiver), [`Sender`](crate::Sender) and
/// [`Callers`](crate::channel::Callers) implement it.
pub(crate) trait Selectable {
    /// Returns whether a receive call would find a message or a send call would find room, or whether neither can ever
    /// happen.
    fn ready(&self) -> bool;
    /// Says whether the rank waits for this end. Only an end that is not ready by itself needs this.
    fn want(&self, _waits: bool) {}
    fn raise(&self);
    fn lower(&self);
    fn context(&self) -> &Context;
    fn channel(&self) -> u64;
}
