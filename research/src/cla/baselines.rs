//! The algorithms with which the paper compares its own (sections 3.3.3, 4 and 5), as programs.
//!
//! For libraries, they show only the accesses to cache lines, and not the other costs of their software.

use mp_model::cla::{Barrier, Line, Placement, Program, Tree, TreeError};

/// Returns dissemination "with no parameter optimization (m = 1) and no single-use flags": each rank has one flag,
/// whose value is the round.
pub fn plain_dissemination(placement: &Placement) -> Program {
    let ranks = placement.ranks();
    let mut program = Program::new(ranks);
    let flags: Vec<Line> = (0..ranks).map(|rank| program.flag(rank)).collect();
    let rounds = Barrier::Dissemination(vec![1; ranks.next_power_of_two().ilog2() as usize]);
    for (rank, rounds) in rounds.rounds(placement).iter().enumerate() {
        for (number, round) in rounds.iter().enumerate() {
            program.write(rank, flags[rank], number as u64 + 1);
            for &other in &round.reads {
                program.wait(rank, flags[other], number as u64 + 1);
            }
        }
    }
    program
}

/// Returns a tournament: pairs, then pairs of winners, and the way back; a flag for each.
///
/// # Errors
/// Never fails, because rank 0 exists.
pub fn tournament_barrier(placement: &Placement) -> Result<Program, TreeError> {
    let tree = Tree::binomial(0, placement)?;
    let mut program = Program::new(placement.ranks());
    let home = |rank: usize| tree.parent(rank).unwrap_or(rank);
    let up: Vec<Line> = (0..tree.ranks()).map(|rank| program.flag(home(rank))).collect();
    let down: Vec<Line> = (0..tree.ranks()).map(|rank| program.flag(rank)).collect();
    for rank in 0..tree.ranks() {
        let lost_to = by_distance(&tree, rank);
        lost_to.iter().for_each(|&child| program.wait(rank, up[child], 1));
        if tree.parent(rank).is_some() {
            program.write(rank, up[rank], 1);
            program.wait(rank, down[rank], 1);
        }
        lost_to.iter().rev().for_each(|&child| program.write(rank, down[child], 1));
    }
    Ok(program)
}

/// Returns a binomial tree of messages with flags on both sides: the sender copies into a cell and sets a flag, the
/// receiver copies out of it and sets a flag, and only then does the sender go on. The cell of a message of one line
/// contains the sender's flag.
///
/// # Errors
/// [`TreeError::Root`].
pub fn two_sided_broadcast(
    placement: &Placement,
    root: usize,
    lines: u64,
) -> Result<Program, TreeError> {
    let tree = Tree::binomial(root, placement)?;
    let mut program = Program::new(placement.ranks());
    let messages = Messages::new(&mut program, &tree, lines, |_, child| child);
    for rank in 0..tree.ranks() {
        if tree.parent(rank).is_some() {
            messages.receive(&mut program, rank, rank);
            program.copy(rank, messages.cells[rank], messages.data[rank]);
            messages.received(&mut program, rank, rank);
        }
        // The child with most ranks below it comes first.
        for child in by_distance(&tree, rank).into_iter().rev() {
            messages.send(&mut program, rank, child);
        }
    }
    Ok(program)
}

/// Returns the same in the other direction.
///
/// # Errors
/// [`TreeError::Root`].
pub fn two_sided_reduction(
    placement: &Placement,
    root: usize,
    lines: u64,
) -> Result<Program, TreeError> {
    let tree = Tree::binomial(root, placement)?;
    let mut program = Program::new(placement.ranks());
    let messages = Messages::new(&mut program, &tree, lines, |parent, _| parent);
    for rank in 0..tree.ranks() {
        for child in by_distance(&tree, rank) {
            messages.receive(&mut program, rank, child);
            program.combine(rank, messages.cells[child], messages.data[rank]);
            messages.received(&mut program, rank, child);
        }
        if tree.parent(rank).is_some() {
            messages.send(&mut program, rank, rank);
        }
    }
    Ok(program)
}

fn by_distance(tree: &Tree, rank: usize) -> Vec<usize> {
    let mut children: Vec<usize> = tree.children(rank).collect();
    children.sort_unstable_by_key(|&child| (child + tree.ranks() - rank) % tree.ranks());
    children
}

/// Returns a flat broadcast between two barriers, as the authors of HMPI recommend.
///
/// # Panics
/// If there is no such root, or the barrier is for other groups.
pub fn broadcast_between_barriers(
    placement: &Placement,
    root: usize,
    lines: u64,
    barrier: &Barrier,
) -> Program {
    let mut program = Program::new(placement.ranks());
    let data: Vec<Line> = (0..placement.ranks()).map(|rank| program.data(rank, lines)).collect();
    barrier.append(&mut program, placement);
    for rank in (0..placement.ranks()).filter(|&rank| rank != root) {
        program.copy(rank, data[root], data[rank]);
    }
    barrier.append(&mut program, placement);
    program
}

/// Returns a reduction in which all ranks add to one place, and then count up one flag, which the root waits for. This
/// is how a reduction with an atomic variable works: it is right only for what one instruction can add, as a word.
///
/// # Panics
/// If there is no such root.
pub fn accumulation(placement: &Placement, root: usize) -> Program {
    let ranks = placement.ranks();
    let mut program = Program::new(ranks);
    let data: Vec<Line> = (0..ranks).map(|rank| program.data(rank, 1)).collect();
    let (sum, counter) = (program.buffer(root, root, 1), program.flag(root));
    for (rank, &data) in data.iter().enumerate() {
        program.combine(rank, data, sum);
        if rank != root {
            program.add(rank, counter);
        }
    }
    program.wait(root, counter, ranks as u64 - 1);
    program
}

/// Returns a reduction in which all ranks add to one place under a lock, as they must if no instruction adds a whole
/// line. The lock has a queue: each rank waits on a flag of its own, which the rank before it sets.
///
/// # Panics
/// If there is no such root.
pub fn locked_accumulation(placement: &Placement, root: usize) -> Program {
    let ranks = placement.ranks();
    let mut program = Program::new(ranks);
    let data: Vec<Line> = (0..ranks).map(|rank| program.data(rank, 1)).collect();
    let sum = program.buffer(root, root, 1);
    let turns: Vec<Line> = (0..ranks).map(|rank| program.flag(rank)).collect();
    // The root is last, so that it has the sum.
    let queue: Vec<usize> = (1..=ranks).map(|after| (root + after) % ranks).collect();
    for (at, &rank) in queue.iter().enumerate() {
        if at > 0 {
            program.wait(rank, turns[rank], 1);
        }
        program.combine(rank, data[rank], sum);
        if let Some(&next) = queue.get(at + 1) {
            program.write(rank, turns[next], 1);
        }
    }
    program
}

/// The message between each rank but the root and its parent.
struct Messages {
    data: Vec<Line>,
    cells: Vec<Line>,
    sent: Vec<Line>,
    received: Vec<Line>,
}

impl Messages {
    /// `reader` chooses the receiver out of parent and child.
    fn new(
        program: &mut Program,
        tree: &Tree,
        lines: u64,
        reader: impl Fn(usize, usize) -> usize,
    ) -> Messages {
        let parent = |child| tree.parent(child).unwrap_or(child);
        let ranks = || 0..tree.ranks();
        let data = ranks().map(|rank| program.data(rank, lines)).collect();
        let sent: Vec<Line> =
            ranks().map(|child| program.flag(reader(parent(child), child))).collect();
        let received = ranks().map(|child| program.flag(child)).collect();
        let mut cell = |child| {
            let reader = reader(parent(child), child);
            let writer = if reader == child { parent(child) } else { child };
            program.buffer(writer, reader, lines)
        };
        let cells = if lines <= 1 { sent.clone() } else { ranks().map(&mut cell).collect() };
        Messages { data, cells, sent, received }
    }

    fn send(&self, program: &mut Program, rank: usize, message: usize) {
        program.copy(rank, self.data[rank], self.cells[message]);
        program.write(rank, self.sent[message], 1);
        program.wait(rank, self.received[message], 1);
    }

    fn receive(&self, program: &mut Program, rank: usize, message: usize) {
        program.wait(rank, self.sent[message], 1);
    }

    fn received(&self, program: &mut Program, rank: usize, message: usize) {
        program.write(rank, self.received[message], 1);
    }
}
