//! The values of flags: <operation, step>, so that flags never need a reset (thesis, algorithm 1).

/// A step of an operation.
///
/// Operations are counted modulo 2³². Later operations have larger values until the numbers wrap around; an algorithm
/// must then clear the old values of its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) operation: u32,
    pub(crate) step: u32,
}

impl Stamp {
    /// Returns the stamp as a flag's value. No stamp of a step from 1 on is 0, the initial value of flags.
    pub(crate) fn value(self) -> u64 {
        u64::from(self.operation) << 32 | u64::from(self.step)
    }

    /// Returns whether a flag of this value says that this step has been done.
    pub(crate) fn is_reached(self, value: u64) -> bool {
        value >= self.value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_steps_and_operations_reach() {
        for operation in [0, 1, u32::MAX - 1] {
            let stamp = Stamp { operation, step: 5 };
            let reached = |operation, step| stamp.is_reached(Stamp { operation, step }.value());
            assert!(reached(operation, 5) && reached(operation, u32::MAX));
            assert!(!reached(operation, 4) && !reached(operation, 0));
            assert!(reached(operation + 1, 1));
            assert!(operation == 0 || !reached(operation - 1, 6));
            assert!(!stamp.is_reached(0));
        }
    }
}
