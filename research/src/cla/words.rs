//! What programs do to the words of their lines, the same in virtual time and in real memory.
//!
//! A line has eight words. Seven are its contents, and the last is its flag, so that a notification can carry contents
//! (algorithm 6). Primitives on several lines leave out the flags in between.

use std::cell::Cell;

use mp_model::cla::{Line, Primitive, Program};

/// The number of words of a line.
pub const LINE_WORDS: usize = 8;
/// The number of words of a line without its flag.
pub const CONTENTS: usize = LINE_WORDS - 1;

/// The contents of lines.
pub trait Words {
    /// Returns how many words of contents a [`Line`] has.
    fn count(&self, line: Line) -> usize;
    /// Returns a word.
    fn get(&self, line: Line, word: usize) -> u64;
    /// Writes a word.
    fn put(&self, line: Line, word: usize, value: u64);
    /// Adds to a word in one go, so that several ranks can.
    fn add(&self, line: Line, word: usize, value: u64);
}

/// Does to the contents of lines what a primitive does. Flags are left to the caller, because ranks wait for them.
pub fn perform(primitive: Primitive, words: &impl Words) {
    let both = |from, to| 0..words.count(from).min(words.count(to));
    match primitive {
        Primitive::Copy { from, to } => {
            both(from, to).for_each(|word| words.put(to, word, words.get(from, word)));
        }
        Primitive::Add { line, from: Some(from) } => {
            both(from, line).for_each(|word| words.add(line, word, words.get(from, word)));
        }
        Primitive::Add { from: None, .. } | Primitive::Wait { .. } | Primitive::Write { .. } => {}
    }
}

/// Returns the first line of each rank that is in its cache when the program begins: the rank's own data, in the paper's
/// broadcasts and reductions.
///
/// # Panics
/// If a rank has no such line.
pub fn own_data(program: &Program) -> Vec<Line> {
    let mut lines = (0..program.line_count()).map(Line::at);
    let own = |rank| move |&line: &Line| program.shape(line).cached == Some(rank);
    (0..program.ranks()).map(|rank| lines.find(own(rank)).expect("a line of data")).collect()
}

/// The words of lines in virtual time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Simulated(Vec<Vec<Cell<u64>>>);

impl Simulated {
    /// Returns the words of a program, which begin with these; all others are 0.
    pub(super) fn new(program: &Program, begin: &[Vec<u64>]) -> Simulated {
        let words = |index| {
            let count = CONTENTS * program.shape(Line::at(index)).lines.max(1) as usize;
            let known = begin.get(index).map_or(&[][..], Vec::as_slice).iter().copied();
            known.chain(std::iter::repeat(0)).take(count).map(Cell::new).collect()
        };
        Simulated((0..program.line_count()).map(words).collect())
    }

    /// Returns all words, by line.
    pub(super) fn into_words(self) -> Vec<Vec<u64>> {
        self.0.into_iter().map(|line| line.into_iter().map(Cell::into_inner).collect()).collect()
    }
}

impl Words for Simulated {
    fn count(&self, line: Line) -> usize {
        self.0[line.index()].len()
    }

    fn get(&self, line: Line, word: usize) -> u64 {
        self.0[line.index()][word].get()
    }

    fn put(&self, line: Line, word: usize, value: u64) {
        self.0[line.index()][word].set(value);
    }

    fn add(&self, line: Line, word: usize, value: u64) {
        self.put(line, word, self.get(line, word).wrapping_add(value));
    }
}
