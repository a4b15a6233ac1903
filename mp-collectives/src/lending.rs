//! Whether long messages to a rank are lent, by what came of the last ones.

/// Blocks and messages of collective operations with at least this many bytes are lent.
pub(crate) const LENT_LEAST: usize = 1 << 10;

/// The greatest number of messages in a row that are not lent before the next try.
const PAUSE_MOST: u32 = 64;

/// See the [module](self).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lending {
    /// The number of next messages that are not lent, because lending the last one was no use. It doubles each time, so
    /// that useless tries cost next to nothing.
    pause: u32,
    last_pause: u32,
}

impl Lending {
    /// Returns whether the next message is to be lent. If not, counts it.
    #[inline]
    pub(crate) fn try_next(&mut self) -> bool {
        let tries = self.is_on();
        self.pass();
        tries
    }

    /// Returns whether the next message is to be lent.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.pause == 0
    }

    /// Counts a message that was not lent.
    #[inline]
    pub(crate) fn pass(&mut self) {
        self.pause = self.pause.saturating_sub(1);
    }

    /// Notes whether it was of use that a message was lent.
    #[inline]
    pub(crate) fn was_useful(&mut self, useful: bool) {
        self.last_pause = if useful { 0 } else { (2 * self.last_pause).clamp(1, PAUSE_MOST) };
        self.pause = self.last_pause;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn useless_tries_become_rare_and_one_useful_try_ends_that() {
        let mut lending = Lending::default();
        let mut tries = 0;
        for _ in 0..6400 {
            if lending.try_next() {
                tries += 1;
                lending.was_useful(false);
            }
        }
        assert!((100..110).contains(&tries), "{tries}");
        while !lending.try_next() {}
        lending.was_useful(true);
        assert!((0..100).all(|_| lending.try_next()));
    }
}
