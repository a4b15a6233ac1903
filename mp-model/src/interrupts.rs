//! Interrupts between ranks, as in the SCC's global interrupt controller (thesis, sections 2.3 and 3.2.1): one request
//! interrupts many ranks, and an interrupted rank finds out which ranks have sent interrupts.
//!
//! Asynchronous algorithms need this in addition to [`Mpb`]. It is in two parts, because an algorithm must not decide
//! how its rank waits: a simulated core waits by [`WaitForInterrupt`] in its single thread of control, and a rank of a
//! real machine has a thread for it.

use std::future::Future;

use crate::mpb::{Line, Mpb};

/// Interrupts of other ranks, and a look at which ranks have interrupted this one. Neither waits.
pub trait Interrupts: Mpb {
    /// Interrupts ranks, all at once if the machine can. A rank that takes the interrupt sees everything that this one
    /// has put before. This rank may be among them.
    ///
    /// # Errors
    /// [`Misfit::Rank`](crate::mpb::Misfit::Rank) if there is no such rank; then none is interrupted.
    fn interrupt(
        &mut self,
        ranks: impl Iterator<Item = usize> + Clone,
    ) -> impl Future<Output = Result<(), Self::Error>>;

    /// Takes the interrupts that have arrived, and adds their senders to `sources`. As in the controller's status
    /// register, several interrupts from one rank that were not taken count as one.
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
