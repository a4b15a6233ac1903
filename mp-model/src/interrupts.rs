//! Interrupts between ranks, as the SCC's global interrupt controller has them (thesis, sections 2.3
//! and 3.2.1): one request interrupts many ranks, and a rank that is interrupted finds out by whom.
//!
//! What an asynchronous algorithm needs beyond [`Mpb`]. It is in two parts, because an algorithm must
//! not decide how its rank waits: a simulated core waits by [`WaitForInterrupt`] in the one thing it
//! does, a rank of the real machine has a thread for it.

use std::future::Future;

use crate::mpb::{Line, Mpb};

/// Interrupts of other ranks, and a look at which ranks have interrupted this one. Neither waits.
pub trait Interrupts: Mpb {
    /// Interrupts ranks, all at once where the machine can. A rank that takes the interrupt sees
    /// everything that this one had put before. It may be this rank itself.
    ///
    /// # Errors
    /// [`Misfit::Rank`](crate::mpb::Misfit::Rank) if there is no such rank; then none is interrupted.
    fn interrupt(
        &mut self,
        ranks: impl Iterator<Item = usize> + Clone,
    ) -> impl Future<Output = Result<(), Self::Error>>;

    /// Takes the interrupts that have come, and adds the ranks that they are from to `sources`. As in
    /// the controller's status register, several from one rank that nobody has taken are one.
    fn take_interrupts(
        &mut self,
        sources: &mut Vec<usize>,
    ) -> impl Future<Output = Result<(), Self::Error>>;

    /// Sets a flag whose owner may be waiting for it while it waits for interrupts as well. If the owner looks again
    /// and again, this is the same as [`set_flag`](Mpb::set_flag).
    fn answer(&mut self, flag: Line, value: u64) -> impl Future<Output = Result<(), Self::Error>> {
        self.set_flag(flag, value)
    }
}

/// Waiting for interrupts in the thread that runs the algorithm.
pub trait WaitForInterrupt: Interrupts {
    /// Waits until there is an interrupt to take.
    fn wait_interrupt(&mut self) -> impl Future<Output = Result<(), Self::Error>>;

    /// Waits until a flag of the own MPB has a value that `reached` is true of, and returns it; or
    /// none as soon as there is an interrupt to take.
    fn wait_flag_or_interrupt(
        &mut self,
        line: usize,
        reached: impl Fn(u64) -> bool,
    ) -> impl Future<Output = Result<Option<u64>, Self::Error>>;
}
