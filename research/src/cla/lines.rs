//! Programs on real lines: memory that the ranks of a world share, whether they are threads or processes.
//!
//! The same program can be run in virtual time ([`run`](crate::cla::run())), with the same effect on the contents of its
//! lines. So what the searches of [`mp_model::cla`] find is what runs here.
//!
//! ```
//! use mp_model::cla::{Machine, Pattern, best_tree};
//! use onchip::World;
//! use onchip_research::cla::{lines::Lines, words::own_data};
//!
//! // The paper's algorithm 6, along the best tree for three cores.
//! let machine = Machine::sandy_bridge(3).expect("16 cores");
//! let pattern = Pattern::Broadcast { lines: 1 };
//! let tree = best_tree(&machine, 0, pattern).expect("there is a rank 0").tree;
//! let program = pattern.program(&tree, &machine.placement);
//! let data = own_data(&program);
//! let got = World::threads(3).run(|rank| {
//!     let lines = Lines::open(rank, "broadcast", &program)?;
//!     if rank.id() == 0 {
//!         lines.fill(data[0], &[3, 1, 4, 1, 5, 9, 2]);
//!     }
//!     lines.run()?;
//!     Ok(lines.words(data[rank.id()]))
//! })?;
//! assert_eq!(got, [[3, 1, 4, 1, 5, 9, 2]; 3]);
//! # Ok::<(), onchip::Error>(())
//! ```

use mp_core::memory::{Region, Word};
use mp_core::names::Namespace;
use mp_core::{Rank, Result};
use mp_model::cla::{Line, Primitive, Program};

use super::words::{CONTENTS, LINE_WORDS, Words, perform};

const NAMESPACE: Namespace = Namespace::new("cl-lines");

/// The lines of a program, for one of its ranks. A rank of the program is the rank of the world with the same number.
pub struct Lines<'a> {
    program: &'a Program,
    region: Region,
    /// By [`Line`]: its first word, and its number of words.
    places: Vec<(usize, usize)>,
    /// By [`Line`]: the ranks that wait for its flag.
    waiting: Vec<Vec<usize>>,
}

impl<'a> Lines<'a> {
    /// Opens lines for one run of a program, all zeros at first. All ranks of the world must call it.
    ///
    /// # Errors
    /// As [`Rank::mpb`].
    pub fn open(rank: &Rank, name: &str, program: &'a Program) -> Result<Lines<'a>> {
        let mut places = Vec::with_capacity(program.line_count());
        let mut all = 0;
        for index in 0..program.line_count() {
            let words = LINE_WORDS * program.shape(Line::at(index)).lines.max(1) as usize;
            places.push((all, words));
            all += words;
        }
        let mut waiting = vec![Vec::new(); places.len()];
        for rank in 0..program.ranks() {
            for step in program.steps(rank) {
                if let Primitive::Wait { line, .. } = step {
                    waiting[line.index()].push(rank);
                }
            }
        }
        let region = Region::open(rank, NAMESPACE, name, all, 0)?;
        Ok(Lines { program, region, places, waiting })
    }

    /// Performs this rank's steps of the program. They can be performed once, because flags only grow.
    ///
    /// # Errors
    /// As [`Region::wait`].
    ///
    /// # Panics
    /// If the program has no such rank.
    pub fn run(&self) -> Result<()> {
        for &primitive in self.program.steps(self.region.rank()) {
            perform(primitive, self);
            match primitive {
                Primitive::Wait { line, value } => self.wait(line, value)?,
                Primitive::Write { line, value } => {
                    self.flag(line).store(value);
                    self.wake(line);
                }
                Primitive::Add { line, from: None } => {
                    self.flag(line).fetch_add(1);
                    self.wake(line);
                }
                Primitive::Copy { .. } | Primitive::Add { .. } => {}
            }
        }
        Ok(())
    }

    /// Writes contents into a line, before a run: as many words as there are, or as there is room for.
    ///
    /// # Panics
    /// If there is no such line.
    pub fn fill(&self, line: Line, words: &[u64]) {
        let count = self.count(line);
        words.iter().take(count).enumerate().for_each(|(word, &value)| self.put(line, word, value));
    }

    /// Returns the contents of a line.
    ///
    /// # Panics
    /// If there is no such line.
    pub fn words(&self, line: Line) -> Vec<u64> {
        (0..self.count(line)).map(|word| self.get(line, word)).collect()
    }

    fn wait(&self, line: Line, value: u64) -> Result<()> {
        let flag = self.flag(line);
        let seen = || (flag.load() >= value).then_some(());
        self.region.wait(line.index(), None, Some(flag), seen)
    }

    fn wake(&self, line: Line) {
        self.region.fence();
        let others = self.waiting[line.index()].iter().filter(|&&rank| rank != self.region.rank());
        others.for_each(|&rank| self.region.wake(rank, line.index()));
    }

    /// Returns the last word of the first line.
    fn flag(&self, line: Line) -> &Word {
        &self.region.words()[self.places[line.index()].0 + CONTENTS]
    }

    /// Returns a word of the contents.
    fn word(&self, line: Line, word: usize) -> &Word {
        let first = self.places[line.index()].0;
        &self.region.words()[first + word / CONTENTS * LINE_WORDS + word % CONTENTS]
    }
}

impl Words for Lines<'_> {
    fn count(&self, line: Line) -> usize {
        self.places[line.index()].1 / LINE_WORDS * CONTENTS
    }

    fn get(&self, line: Line, word: usize) -> u64 {
        self.word(line, word).load_relaxed()
    }

    fn put(&self, line: Line, word: usize, value: u64) {
        self.word(line, word).store_relaxed(value);
    }

    fn add(&self, line: Line, word: usize, value: u64) {
        self.word(line, word).fetch_add(value);
    }
}
