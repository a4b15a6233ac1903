//! A flag that one core polls while another core sets it, as in all synchronization. This takes longer than the write
//! and the read by themselves (section 2.2.1), because the looks delay the write, and because the polling core discards
//! the looks that it has begun ahead of time.

use std::time::Instant;

use super::{
    Outcome,
    sample::Sample,
    team::{Limits, picos, play},
};
use crate::line::{Line, write};

/// The number of round trips of flags in a round.
const TRIPS: u64 = 16;

/// Measures the time from the write of a flag until the other CPU has seen it: half of the time to and fro.
pub(super) fn seen(cpus: [usize; 2], limits: Limits) -> Outcome<Sample> {
    let lines = [Line::new(), Line::new()];
    let said = play(&cpus, limits, |member| {
        let (mine, theirs) = (&lines[member.seat], &lines[1 - member.seat]);
        let mut values = Vec::new();
        let mut trip = 0;
        while member.again() {
            let start = Instant::now();
            for _ in 0..TRIPS {
                trip += 1;
                if member.seat == 0 {
                    write(mine, trip);
                    member.listen(theirs, trip);
                } else {
                    member.listen(theirs, trip);
                    write(mine, trip);
                }
            }
            let took = picos(start.elapsed()) / (2 * TRIPS);
            if member.seat == 0 {
                values.push(took);
            }
            member.pass();
        }
        values
    })?;
    Ok(Sample::of(said.into_iter().flatten().collect()))
}
