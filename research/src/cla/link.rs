//! The link between groups, and what lines that cross it at the same time cost each other (section 2.2.3.1).
//!
//! Equation 4 was measured with n threads that copy N lines each: all n·N lines cross together, and each transfer takes
//! c for each of them. Here transfers have different lengths and begin at different times. A transfer of N lines takes c
//! for each of its own lines, and c for each line of another transfer that can still come between them: as many as that
//! one has left, and N at most. For n equal transfers that begin together, the last takes c·n·N, as in the equation.

use mp_model::Time;
use mp_model::cla::Line;

/// The transfers that are under way. A line that several ranks read at the same time crosses once.
#[derive(Clone, Debug, Default)]
pub(super) struct Crossings(Vec<Crossing>);

#[derive(Clone, Copy, Debug)]
struct Crossing {
    line: Line,
    lines: u64,
    begin: Time,
    end: Time,
}

impl Crossings {
    /// Returns how many lines of others cross between the `lines` lines of a transfer that begins now.
    pub(super) fn between(&mut self, line: Line, lines: u64, now: Time) -> u64 {
        self.0.retain(|crossing| crossing.end > now);
        let others = self.0.iter().filter(|crossing| crossing.line != line);
        others.map(|crossing| crossing.left(now).min(lines)).sum()
    }

    /// Adds a transfer.
    pub(super) fn begin(&mut self, line: Line, lines: u64, begin: Time, end: Time) {
        match self.0.iter_mut().find(|crossing| crossing.line == line) {
            Some(crossing) => crossing.end = crossing.end.max(end),
            None => self.0.push(Crossing { line, lines, begin, end }),
        }
    }
}

impl Crossing {
    /// Returns how many lines have not crossed yet.
    fn left(&self, now: Time) -> u64 {
        let [all, rest] = [self.end - self.begin, self.end.saturating_sub(now)].map(Time::as_picos);
        (u128::from(self.lines) * u128::from(rest)).div_ceil(u128::from(all.max(1))) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nanos(nanos: u64) -> Time {
        Time::from_nanos(nanos)
    }

    #[test]
    fn short_transfers_hinder_a_long_one_only_as_long_as_they_last() {
        let [long, short, other] = [0, 1, 2].map(Line::at);
        let mut crossings = Crossings::default();
        crossings.begin(long, 128, nanos(0), nanos(1280));
        crossings.begin(short, 1, nanos(0), nanos(100));
        // Half of the long one is left, and none of the short one.
        assert_eq!(crossings.between(other, 128, nanos(0)), 129);
        assert_eq!(crossings.between(other, 1, nanos(0)), 2);
        assert_eq!(crossings.between(other, 128, nanos(640)), 64);
        assert_eq!(crossings.between(other, 128, nanos(1280)), 0);
    }

    #[test]
    fn a_line_that_several_read_crosses_once() {
        let [one, other] = [0, 1].map(Line::at);
        let mut crossings = Crossings::default();
        crossings.begin(one, 4, nanos(0), nanos(100));
        assert_eq!(crossings.between(one, 4, nanos(50)), 0);
        crossings.begin(one, 4, nanos(50), nanos(200));
        assert_eq!(crossings.between(other, 4, nanos(100)), 2);
    }
}
