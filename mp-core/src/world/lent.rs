//! Work that a rank lends to a communication thread.

use std::sync::Arc;

use super::Rank;
use crate::wait::progress::Advanced;

/// Work that a rank lends to a communication thread of its process when a call ends, and takes back with its next call.
/// The thread advances it in between.
///
/// The thread calls [`advance`](Self::advance) when it [is ready](Self::is_ready). Before it sleeps it calls
/// [`raise`](Self::raise) and looks once more, and afterwards it calls [`lower`](Self::lower). The rank may take the
/// work back at any moment.
pub trait Lent: Send + Sync {
    /// Returns the rank that lends the work.
    fn rank(&self) -> &Rank;

    /// Continues as far as it can without waiting. [`Advanced::Over`] means that the rank has taken the work back, or
    /// that there is nothing more to do. The thread then drops its reference, and may get the work again by
    /// [`Helper::carry_on`].
    fn advance(&self) -> Advanced;

    /// Returns whether [`advance`](Self::advance) may move something, or would return that it is over.
    fn is_ready(&self) -> bool;

    /// Asks for the rank's doorbell to be rung when the work may be ready.
    fn raise(&self);

    /// Withdraws the request of [`raise`](Self::raise).
    fn lower(&self);

    /// Notes that the thread has ended, and that no other thread has taken the work over. The work then rests until the
    /// rank's next call.
    fn leave(&self);
}

/// Communication threads, as seen by a rank that lends them work.
pub trait Helper {
    /// Gives `lent` to a thread, which advances it until it is over. Returns false if there is no such thread.
    fn carry_on(&self, lent: Arc<dyn Lent>) -> bool;
}

/// Makes all threads of the rank that sleep on its doorbell look again.
pub fn ring(rank: &Rank) {
    let context = rank.context();
    context.ring(context.me);
}
