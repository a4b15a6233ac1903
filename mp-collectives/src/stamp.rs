//! What flags say: <operation, step>, so that they never need a reset (thesis, algorithm 1).

/// A step of an operation.
///
/// Operations are counted modulo 2³². Steps are compared within one operation only: an algorithm
/// that waits for a step must make sure that the flag cannot be of a later operation yet, and that
/// what was left there 2³² operations ago is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) operation: u32,
    pub(crate) step: u32,
}

impl Stamp {
    /// As a flag's value. No stamp of a step from 1 on is 0, which flags are at first.
    pub(crate) fn value(self) -> u64 {
        u64::from(self.operation) << 32 | u64::from(self.step)
    }

    /// Whether a flag of this value says that this step has been done.
    pub(crate) fn is_reached(self, value: u64) -> bool {
        value >= self.value() && value >> 32 == u64::from(self.operation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_steps_of_the_same_operation_reach() {
        for operation in [0, 1, u32::MAX] {
            let stamp = Stamp { operation, step: 5 };
            let reached = |operation, step| stamp.is_reached(Stamp { operation, step }.value());
            assert!(reached(operation, 5) && reached(operation, u32::MAX));
            assert!(!reached(operation, 4) && !reached(operation, 0));
            assert!(!reached(operation.wrapping_add(1), 5));
            assert!(!reached(operation.wrapping_sub(1), 6));
            assert!(!stamp.is_reached(0));
        }
    }
}
