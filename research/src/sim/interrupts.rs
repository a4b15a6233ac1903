//! Waiting for interrupts in the thread that runs the algorithm.

use std::future::Future;

use mp_core::mpb::Interrupts;

/// A core that waits for interrupts in the only thing it does.
pub trait WaitForInterrupt: Interrupts {
    /// Waits until there is an interrupt to take.
    fn wait_interrupt(&mut self) -> impl Future<Output = Result<(), Self::Error>>;

    /// Waits until a flag of the own MPB has a value for which `reached` is true, and returns it. Returns `None` as
    /// soon as there is an interrupt to take.
    fn wait_flag_or_interrupt(
        &mut self,
        line: usize,
        reached: impl Fn(u64) -> bool,
    ) -> impl Future<Output = Result<Option<u64>, Self::Error>>;
}
