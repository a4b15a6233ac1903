//! Messages that show when they are torn, or are not the expected ones: every word of a message
//! follows from its sender, the step, its number and its length.

use onchip::{Error, Result};

use crate::random::mix;

/// The identity of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// The sender.
    pub from: usize,
    /// The step.
    pub step: usize,
    /// Its number among those of the sender.
    pub number: u64,
}

/// A violated condition.
#[derive(Debug)]
pub struct Wrong(pub String);

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Wrong {}

/// Returns that something is not as it must be.
///
/// # Errors
/// Always.
pub fn wrong<T>(reason: impl Into<String>) -> Result<T> {
    Err(Error::other(Wrong(reason.into())))
}

impl Label {
    fn key(self, len: usize) -> u64 {
        let Self { from, step, number } = self;
        mix(mix(mix(number) ^ from as u64) ^ (step as u64) << 32 ^ len as u64)
    }

    /// Writes the message of that length.
    pub fn write(self, words: &mut [u64]) {
        let key = self.key(words.len());
        words.iter_mut().zip(0..).for_each(|(word, i)| *word = mix(key.wrapping_add(i)));
    }

    /// Returns the message of that length.
    pub fn words(self, len: usize) -> Vec<u64> {
        let mut words = vec![0; len];
        self.write(&mut words);
        words
    }

    /// Checks a message that is to have that length.
    ///
    /// # Errors
    /// If the message is another one. The error says where it differs, and which message it is, if it is another one of
    /// the same sender.
    pub fn check(self, words: &[u64], len: usize) -> Result<()> {
        if words.len() != len {
            return wrong(format!("{self:?} has {} words instead of {len}", words.len()));
        }
        let key = self.key(len);
        let is = |&(i, word): &(u64, &u64)| *word != mix(key.wrapping_add(i));
        let Some((first, _)) = (0..).zip(words).find(is) else { return Ok(()) };
        let other = (0..self.number + 1000)
            .find(|&number| words[0] == mix(Self { number, ..self }.key(len)));
        wrong(match other {
            Some(number) if number != self.number => {
                format!("{self:?} of {len} words came as number {number}")
            }
            _ => format!("{self:?} of {len} words is torn at word {first}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABEL: Label = Label { from: 3, step: 1, number: 7 };

    #[test]
    fn the_right_message_passes() {
        for len in [0, 1, 2, 100] {
            LABEL.check(&LABEL.words(len), len).unwrap();
        }
    }

    #[test]
    fn others_do_not() {
        let text = |words: &[u64], len| LABEL.check(words, len).unwrap_err().to_string();
        assert!(text(&LABEL.words(3), 4).contains("has 3 words instead of 4"));
        let another = Label { number: 8, ..LABEL };
        assert!(text(&another.words(3), 3).contains("came as number 8"));
        let mut torn = LABEL.words(3);
        torn[2] = another.words(3)[2];
        assert!(text(&torn, 3).contains("torn at word 2"));
        let elsewhere = Label { from: 2, ..LABEL };
        assert!(text(&elsewhere.words(1), 1).contains("torn at word 0"));
    }
}
