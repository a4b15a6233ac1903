//! An algorithm written down as primitives on cache lines (section 2.4).
//!
//! ```
//! use mp_model::cla::Program;
//!
//! // Rank 1 passes a line to rank 0.
//! let mut program = Program::new(2);
//! let (flag, data) = (program.flag(0), program.data(1, 1));
//! let mine = program.data(0, 1);
//! program.write(1, flag, 1);
//! program.wait(0, flag, 1);
//! program.copy(0, data, mine);
//! ```

/// The steps of each rank, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    lines: Vec<Shape>,
    ranks: Vec<Vec<Primitive>>,
}

/// A cache line, or several that are always moved together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Line(usize);

/// One step of a rank: the paper's `cl_copy`, `cl_wait`, `cl_write` and `cl_add`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Primitive {
    /// Copies lines.
    Copy {
        /// The source.
        from: Line,
        /// The target.
        to: Line,
    },
    /// Polls a flag until it has at least this value. Waiting for exactly this value could miss one that is overwritten
    /// between two looks.
    Wait {
        /// The flag.
        line: Line,
        /// The value.
        value: u64,
    },
    /// Gives a flag a value, at least 1. Values of one flag only grow; it begins with 0.
    Write {
        /// The flag.
        line: Line,
        /// The value.
        value: u64,
    },
    /// Adds: 1 to a flag, or lines to as many others, element by element.
    Add {
        /// The target.
        line: Line,
        /// The lines to add; `None` for a flag.
        from: Option<Line>,
    },
}

/// How many lines, and where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// N.
    pub lines: u64,
    /// The rank near which they have their place in memory.
    pub home: usize,
    /// The rank whose cache they are in at first; `None` for memory.
    pub cached: Option<usize>,
}

/// The access of a primitive to one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The line.
    pub line: Line,
    /// What it does there.
    pub kind: Kind,
}

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Data read.
    Load {
        /// Whether the data is combined with what is there, instead of copied.
        combine: bool,
    },
    /// Data written.
    Store,
    /// A flag set to a value.
    Set(u64),
    /// A flag counted up.
    Increment,
    /// A flag read until it has this value.
    Poll(u64),
}

impl Kind {
    /// Returns whether the rank must have the line for itself.
    pub fn writes(self) -> bool {
        matches!(self, Kind::Store | Kind::Set(_) | Kind::Increment)
    }
}

impl Line {
    /// Returns the line of this number.
    pub fn at(index: usize) -> Line {
        Line(index)
    }

    /// Returns its number, from 0 in the order in which the program got its lines.
    pub fn index(self) -> usize {
        self.0
    }
}

impl Program {
    /// Creates a program of `ranks` ranks, which do nothing yet.
    pub fn new(ranks: usize) -> Program {
        Program { lines: Vec::new(), ranks: vec![Vec::new(); ranks] }
    }

    /// Adds a flag, in memory near `home`, which the model takes for the rank that looks at it first (section 2.5).
    pub fn flag(&mut self, home: usize) -> Line {
        self.new_line(Shape { lines: 1, home, cached: None })
    }

    /// Adds `lines` lines of a user's data, in its rank's cache ("cached in M state", section 2.5).
    pub fn data(&mut self, owner: usize, lines: u64) -> Line {
        self.new_line(Shape { lines, home: owner, cached: Some(owner) })
    }

    /// Adds `lines` lines of a buffer that `owner` fills and `reader` has read the last time, so that they are still in
    /// the reader's cache.
    pub fn buffer(&mut self, owner: usize, reader: usize, lines: u64) -> Line {
        self.new_line(Shape { lines, home: owner, cached: Some(reader) })
    }

    fn new_line(&mut self, shape: Shape) -> Line {
        let ranks = self.ranks.len();
        assert!(shape.home < ranks && shape.cached.is_none_or(|rank| rank < ranks), "no such rank");
        self.lines.push(shape);
        Line(self.lines.len() - 1)
    }

    /// See [`Primitive::Copy`].
    pub fn copy(&mut self, rank: usize, from: Line, to: Line) {
        self.push(rank, Primitive::Copy { from, to });
    }

    /// See [`Primitive::Wait`].
    pub fn wait(&mut self, rank: usize, line: Line, value: u64) {
        self.push(rank, Primitive::Wait { line, value });
    }

    /// See [`Primitive::Write`].
    pub fn write(&mut self, rank: usize, line: Line, value: u64) {
        self.push(rank, Primitive::Write { line, value });
    }

    /// Adds 1 to a flag.
    pub fn add(&mut self, rank: usize, line: Line) {
        self.push(rank, Primitive::Add { line, from: None });
    }

    /// Adds lines to lines.
    pub fn combine(&mut self, rank: usize, from: Line, line: Line) {
        self.push(rank, Primitive::Add { line, from: Some(from) });
    }

    /// Adds a step of a rank.
    ///
    /// # Panics
    /// If there is no such rank, or a line is of another program.
    pub fn push(&mut self, rank: usize, primitive: Primitive) {
        let known = |line: Line| line.0 < self.lines.len();
        assert!(primitive.lines().into_iter().flatten().all(known), "a line of another program");
        self.ranks[rank].push(primitive);
    }

    /// Returns the number of ranks.
    pub fn ranks(&self) -> usize {
        self.ranks.len()
    }

    /// Returns a rank's steps.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn steps(&self, rank: usize) -> &[Primitive] {
        &self.ranks[rank]
    }

    /// Returns the number of [`Line`]s.
    pub fn line_count(&self) -> usize {
        self.lines.len()
    }

    /// Returns how many cache lines it is, and where they are.
    ///
    /// # Panics
    /// If there is no such line.
    pub fn shape(&self, line: Line) -> Shape {
        self.lines[line.0]
    }

    /// Returns what each step does to which lines, by rank and step, without what rule 3 leaves out: "the access to the
    /// same line by the same thread in consecutive operations is counted once".
    pub fn accesses(&self) -> Vec<Vec<Vec<Access>>> {
        let of_rank = |steps: &Vec<Primitive>| {
            let of_step = |step: usize| {
                let before = step.checked_sub(1).map(|before| &steps[before]);
                steps[step].accesses(before, steps.get(step + 1))
            };
            (0..steps.len()).map(of_step).collect()
        };
        self.ranks.iter().map(of_rank).collect()
    }
}

impl Primitive {
    /// Returns the lines that it uses.
    pub fn lines(&self) -> [Option<Line>; 2] {
        match *self {
            Primitive::Copy { from, to } => [Some(from), Some(to)],
            Primitive::Wait { line, .. } | Primitive::Write { line, .. } => [Some(line), None],
            Primitive::Add { line, from } => [Some(line), from],
        }
    }

    /// Returns the flag that it writes.
    pub(super) fn flag(&self) -> Option<Line> {
        match *self {
            Primitive::Write { line, .. } | Primitive::Add { line, from: None } => Some(line),
            _ => None,
        }
    }

    /// Returns the line that it stores to.
    fn stored(&self) -> Option<Line> {
        match *self {
            Primitive::Copy { to, .. } => Some(to),
            Primitive::Add { line, .. } | Primitive::Write { line, .. } => Some(line),
            Primitive::Wait { .. } => None,
        }
    }

    fn accesses(&self, before: Option<&Primitive>, after: Option<&Primitive>) -> Vec<Access> {
        let touched = |line| before.is_some_and(|before| before.lines().contains(&Some(line)));
        let stored = |line| before.is_some_and(|before| before.stored() == Some(line));
        // Data and flag on one line are written in one go: the flag's access counts for both.
        let flag_follows = |line| after.is_some_and(|after| after.flag() == Some(line));
        let mut accesses = Vec::with_capacity(2);
        let mut access = |line, kind| accesses.push(Access { line, kind });
        match *self {
            Primitive::Wait { line, value } => access(line, Kind::Poll(value)),
            Primitive::Write { line, value } => access(line, Kind::Set(value)),
            Primitive::Add { line, from: None } => access(line, Kind::Increment),
            Primitive::Copy { from, to: line } | Primitive::Add { line, from: Some(from) } => {
                if !touched(from) {
                    access(from, Kind::Load { combine: matches!(self, Primitive::Add { .. }) });
                }
                if !stored(line) && !flag_follows(line) {
                    access(line, Kind::Store);
                }
            }
        }
        accesses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The root of algorithm 6 copies its data into the line that has the flag: one access.
    #[test]
    fn consecutive_accesses_count_once() {
        let mut program = Program::new(2);
        let (mine, line, acknowledged) = (program.data(0, 1), program.flag(1), program.flag(0));
        let theirs = program.data(1, 1);
        program.copy(0, mine, line);
        program.write(0, line, 1);
        program.wait(0, acknowledged, 1);
        program.wait(1, line, 1);
        program.copy(1, line, theirs);
        program.copy(1, theirs, mine);
        let accesses = program.accesses();
        let load = Kind::Load { combine: false };
        let kinds = |rank: usize| -> Vec<Vec<(Line, Kind)>> {
            let of_step = |step: &Vec<Access>| step.iter().map(|a| (a.line, a.kind)).collect();
            accesses[rank].iter().map(of_step).collect()
        };
        assert_eq!(
            kinds(0),
            [vec![(mine, load)], vec![(line, Kind::Set(1))], vec![(acknowledged, Kind::Poll(1))]]
        );
        assert_eq!(
            kinds(1),
            [vec![(line, Kind::Poll(1))], vec![(theirs, Kind::Store)], vec![(mine, Kind::Store)]]
        );
    }

    #[test]
    fn adding_up_several_buffers_touches_the_sum_once() {
        let mut program = Program::new(3);
        let sum = program.data(0, 1);
        for rank in 1..3 {
            let buffer = program.buffer(rank, 0, 1);
            program.combine(0, buffer, sum);
        }
        let count: Vec<_> = program.accesses()[0].iter().map(Vec::len).collect();
        assert_eq!(count, [2, 1]);
    }

    #[test]
    #[should_panic(expected = "a line of another program")]
    fn lines_of_another_program_are_refused() {
        let mut other = Program::new(1);
        let line = other.flag(0);
        Program::new(1).write(0, line, 1);
    }
}
