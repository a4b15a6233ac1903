//! What clients asked for and got, and whether that is possible.

use mp_delegate::critical::internals::Stop;

use super::{ExperimentError, Task, watch::Sections};

/// Checks that each operation was executed once, on the state that the operations before it left.
pub(super) fn check(
    task: Task,
    (put, got): (&[u64], &[u64]),
    sections: Sections,
    left: impl FnOnce() -> Result<Vec<u64>, Stop>,
    value: impl Fn(usize) -> u64,
) -> Result<(), ExperimentError> {
    let wrong = |what: String| Err(ExperimentError::Wrong(what));
    if sections.overlaps > 0 {
        return wrong(format!("{} operations in the middle of others", sections.overlaps));
    }
    let all = put.len() as u64;
    let sorted = |values: &mut dyn Iterator<Item = u64>| {
        let mut values: Vec<u64> = values.collect();
        values.sort_unstable();
        values
    };
    match task {
        Task::Counter => {
            let returned = sorted(&mut got.iter().copied());
            if value(0) != all || !returned.iter().copied().eq(0..all) {
                return wrong(format!("a counter is {} after {all} operations", value(0)));
            }
        }
        Task::Counters { times } => {
            let sum: u64 = (0..64).map(&value).sum();
            if sum != all * u64::from(times) {
                return wrong(format!("{sum} increments by {all} operations of {times}"));
            }
        }
        Task::Stack | Task::Queue | Task::TwoLockQueue => {
            let expected = sorted(&mut put.iter().copied().filter(|&op| op != 0));
            let left = left().map_err(|stop| ExperimentError::Wrong(format!("{stop:?}")))?;
            let out = got.iter().copied().filter(|&value| value != 0);
            if sorted(&mut out.chain(left)) != expected {
                return wrong("what was put in did not come out once".to_owned());
            }
        }
    }
    Ok(())
}
