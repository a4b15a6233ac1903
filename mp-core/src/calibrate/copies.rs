//! Copies of several lines at once: section 2.2.3, and the congestion of section 2.2.2.
//!
//! The copies are "one-directional transfers": a core copies lines that another one has written into a buffer of its
//! own, both in caches.

use std::sync::OnceLock;
use std::time::Instant;

use super::{
    Outcome, Point, Unmeasured,
    sample::Sample,
    seats::Seats,
    team::{Limits, picos, play},
};
use crate::line::{Line, copy, write};

/// The numbers of lines of a copy, up to the 8 KiB to which the paper limits its buffers.
const LENGTHS: [usize; 9] = [1, 2, 3, 4, 8, 16, 32, 64, 128];
/// The number of lines of each copy when several are made at the same time.
pub const CONGESTED_LINES: usize = 32;
/// The largest number of pairs of cores. If there is congestion, this many pairs show it.
const MOST_PAIRS: usize = 8;

fn lines(count: usize) -> Vec<Line> {
    (0..count).map(|_| Line::new()).collect()
}

fn write_all(lines: &[Line], value: u64) {
    lines.iter().for_each(|line| write(line, value));
}

/// Measures copies of 1 to 128 lines: the first CPU copies what the second has written.
pub(super) fn by_length([reader, writer]: [usize; 2], limits: Limits) -> Outcome<Vec<Point>> {
    let sources: OnceLock<Vec<Vec<Line>>> = OnceLock::new();
    let said = play(&[reader, writer], limits, |member| {
        let target = lines(LENGTHS[LENGTHS.len() - 1]);
        let mut values = LENGTHS.map(|_| Vec::new());
        let mut round = 0;
        while member.again() {
            round += 1;
            if member.seat == 1 {
                let sources = sources.get_or_init(|| LENGTHS.map(lines).into());
                sources.iter().for_each(|source| write_all(source, round));
            }
            member.pass();
            if let Some(sources) = sources.get().filter(|_| member.seat == 0) {
                write_all(&target, 0);
                for (source, values) in sources.iter().zip(&mut values) {
                    values.push(timed_copy(source, &target));
                }
            }
            member.pass();
        }
        values
    })?;
    let values = said.into_iter().next().unwrap_or_default();
    let point = |(&n, values)| Point { n: n as u64, sample: Sample::of(values) };
    Ok(LENGTHS.iter().zip(values).map(point).collect())
}

/// Returns how much longer a copy takes than a reading of the clock alone. The reading is measured beside each copy,
/// because its time depends on what else the processor does.
///
/// A copy of one line from a near core may take no longer than the reading. Then the result is zero.
fn timed_copy(from: &[Line], to: &[Line]) -> u64 {
    let before = Instant::now();
    let start = Instant::now();
    copy(from, to);
    let end = Instant::now();
    picos(end - start).saturating_sub(picos(start - before))
}

/// Measures copies by n cores of the first group at the same time. Each copies lines that a separate core of the far
/// group has written.
pub(super) fn congestion(seats: &Seats, limits: Limits) -> Outcome<Vec<Point>> {
    let far = seats.far_group().ok_or(Unmeasured::OneGroup)?;
    let most = seats.group().len().min(far.len()).min(MOST_PAIRS);
    if most < 2 {
        return Err(Unmeasured::FewCores { needed: 2, cores: most });
    }
    (1..=most)
        .map(|n| Ok(Point { n: n as u64, sample: pairs(seats.group(), far, n, limits)? }))
        .collect()
}

fn pairs(readers: &[usize], writers: &[usize], n: usize, limits: Limits) -> Outcome<Sample> {
    let cpus: Vec<usize> = readers[..n].iter().chain(&writers[..n]).copied().collect();
    let sources: Vec<OnceLock<Vec<Line>>> = (0..n).map(|_| OnceLock::new()).collect();
    let said = play(&cpus, limits, |member| {
        let target = lines(CONGESTED_LINES);
        let source = &sources[member.seat % n];
        let mut values = Vec::new();
        while member.again() {
            if member.seat >= n {
                write_all(source.get_or_init(|| lines(CONGESTED_LINES)), 1);
            } else {
                write_all(&target, 0);
            }
            member.pass();
            if let Some(source) = source.get().filter(|_| member.seat < n) {
                values.push(timed_copy(source, &target));
            }
            member.pass();
        }
        values
    })?;
    Ok(Sample::of(slowest(&said[..n])))
}

/// Returns for each round the longest time that any member took.
pub(super) fn slowest(said: &[Vec<u64>]) -> Vec<u64> {
    let rounds = said.iter().map(Vec::len).min().unwrap_or(0);
    let longest = |round: usize| said.iter().map(|values| values[round]).max().unwrap_or(0);
    (0..rounds).map(longest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_counts() {
        assert_eq!(slowest(&[vec![3, 1], vec![2, 5]]), [3, 5]);
        assert_eq!(slowest(&[vec![3], vec![]]), [0; 0]);
        assert_eq!(slowest(&[]), [0; 0]);
    }
}
