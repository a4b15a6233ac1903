//! What carries messages to and from other nodes, as waiting threads see it.

/// Carries what the ranks of this node and those of other nodes send each other. A thread that waits calls
/// [`carry`](Self::carry) again and again, unless the world is crowded, and a thread that has sent something to another node
/// calls [`dispatch`](Self::dispatch). So a message needs no other thread on its way.
pub trait Carrier: Send + Sync + std::fmt::Debug {
    /// Does what there is to do now, without waiting, unless another thread is doing it. Returns whether anything was done,
    /// so that the caller's wait may be over.
    fn carry(&self) -> bool;

    /// Sends what ranks of this node have sent to others, unless another thread is doing it.
    fn dispatch(&self);

    /// Notes that the calling thread is about to sleep, and calls [`carry`](Self::carry) only once more before.
    fn rest(&self);
}
