//! The paper's algorithms as programs (sections 3 to 5).
//!
//! They describe exactly what a collective operation does. Each function is the
//! pseudo-code of a figure of the paper, except for the functions with pushes, which show how this library sends short
//! messages.

use super::machine::Placement;
use super::program::{Line, Program};
use super::tree::Tree;

/// A notification tree (section 3.2): a rank that has been notified notifies its children, each wave with its own flag.
pub fn notification_tree(tree: &Tree) -> Program {
    let mut program = Program::new(tree.ranks());
    let flags = wave_flags(&mut program, tree);
    for rank in 0..tree.ranks() {
        if let Some((flag, _)) = over(tree, &flags, rank) {
            program.wait(rank, flag, 1);
        }
        for &flag in &flags[rank] {
            program.write(rank, flag, 1);
        }
    }
    program
}

/// The same in the other direction (section 3.1): a rank that all its children have notified notifies
/// its parent, by adding to a line that it shares with its siblings of one group.
pub fn gathering_tree(tree: &Tree, placement: &Placement) -> Program {
    let mut program = Program::new(tree.ranks());
    let lines = Acknowledgements::new(&mut program, tree, placement);
    for rank in 0..tree.ranks() {
        lines.wait(&mut program, rank);
        lines.add(&mut program, rank);
    }
    program
}

/// Broadcast of one line (algorithm 6): the notification carries it. Of several lines (section 4.2):
/// children copy from where the parent has it.
pub fn broadcast(tree: &Tree, placement: &Placement, lines: u64) -> Program {
    let mut program = Program::new(tree.ranks());
    let flags = wave_flags(&mut program, tree);
    let acknowledged = Acknowledgements::new(&mut program, tree, placement);
    let data: Vec<Line> = (0..tree.ranks()).map(|rank| program.data(rank, lines)).collect();
    for rank in 0..tree.ranks() {
        if let Some((flag, parent)) = over(tree, &flags, rank) {
            program.wait(rank, flag, 1);
            match lines {
                0 => {}
                1 => program.copy(rank, flag, data[rank]),
                _ => program.copy(rank, data[parent], data[rank]),
            }
        }
        for &flag in &flags[rank] {
            if lines == 1 {
                program.copy(rank, data[rank], flag);
            }
            program.write(rank, flag, 1);
        }
        acknowledged.wait(&mut program, rank);
        acknowledged.add(&mut program, rank);
    }
    program
}

/// Reduction of one line (algorithm 7): each rank has a private buffer, from which its parent reads.
/// With a line for each group, what has come from the rank's own group is added before the others are
/// waited for.
pub fn reduction(tree: &Tree, placement: &Placement) -> Program {
    let ranks = tree.ranks();
    let mut program = Program::new(ranks);
    let flags = wave_flags(&mut program, tree);
    let acknowledged = Acknowledgements::new(&mut program, tree, placement);
    let data: Vec<Line> = (0..ranks).map(|rank| program.data(rank, 1)).collect();
    let buffers: Vec<Line> =
        (0..ranks).map(|rank| program.buffer(rank, tree.parent(rank).unwrap_or(rank), 1)).collect();
    for rank in 0..ranks {
        for &flag in &flags[rank] {
            program.write(rank, flag, 1);
        }
        for (line, children) in &acknowledged.lines[rank] {
            program.wait(rank, *line, children.len() as u64);
            for &child in children {
                program.combine(rank, buffers[child], data[rank]);
            }
        }
        if let Some((flag, _)) = over(tree, &flags, rank) {
            program.wait(rank, flag, 1);
            program.copy(rank, data[rank], buffers[rank]);
            acknowledged.add(&mut program, rank);
        }
    }
    program
}

/// Broadcast of one line that each parent pushes into a line of each child, with the notification. No rank
/// acknowledges, because what comes next has further lines.
pub fn pushed_broadcast(tree: &Tree) -> Program {
    let mut program = Program::new(tree.ranks());
    let lines: Vec<Line> = (0..tree.ranks()).map(|rank| program.flag(rank)).collect();
    let data: Vec<Line> = (0..tree.ranks()).map(|rank| program.data(rank, 1)).collect();
    for rank in 0..tree.ranks() {
        if tree.parent(rank).is_some() {
            program.wait(rank, lines[rank], 1);
            program.copy(rank, lines[rank], data[rank]);
        }
        for child in tree.children(rank) {
            program.copy(rank, data[rank], lines[child]);
            program.write(rank, lines[child], 1);
        }
    }
    program
}

/// Broadcast of chunks of `lines` lines through a buffer of each rank that has children, whose children get it from
/// there: OC-Bcast (thesis, algorithm 1), where leaves copy straight to private memory and no rank waits for a buffer.
/// A parent tells its first two children, and those tell their siblings ([`tree`](crate::tree)).
pub fn chunked_broadcast(tree: &Tree, lines: u64, chunks: u64) -> Program {
    let mut program = Program::new(tree.ranks());
    let told: Vec<Line> = (0..tree.ranks()).map(|rank| program.flag(rank)).collect();
    for chunk in 0..chunks {
        let data: Vec<Line> = (0..tree.ranks()).map(|rank| program.data(rank, lines)).collect();
        let reader = |rank| tree.children(rank).next().unwrap_or(rank);
        let buffers: Vec<Line> =
            (0..tree.ranks()).map(|rank| program.buffer(rank, reader(rank), lines)).collect();
        for rank in 0..tree.ranks() {
            let children: Vec<usize> = tree.children(rank).collect();
            if let Some(parent) = tree.parent(rank) {
                program.wait(rank, told[rank], chunk + 1);
                let siblings: Vec<usize> = tree.children(parent).collect();
                for sibling in crate::tree::told_siblings(&siblings, rank) {
                    program.write(rank, told[sibling], chunk + 1);
                }
                let target = if children.is_empty() { data[rank] } else { buffers[rank] };
                program.copy(rank, buffers[parent], target);
            } else {
                program.copy(rank, data[rank], buffers[rank]);
            }
            for &child in children.iter().take(2) {
                program.write(rank, told[child], chunk + 1);
            }
            if tree.parent(rank).is_some() && !children.is_empty() {
                program.copy(rank, buffers[rank], data[rank]);
            }
        }
    }
    program
}

/// Reduction of one line that each rank pushes into a line of its parent, with the notification; the
/// parent combines them in this order.
pub fn pushed_reduction(tree: &Tree) -> Program {
    let mut program = Program::new(tree.ranks());
    let home = |rank: usize| tree.parent(rank).unwrap_or(rank);
    let lines: Vec<Line> = (0..tree.ranks()).map(|rank| program.flag(home(rank))).collect();
    let data: Vec<Line> = (0..tree.ranks()).map(|rank| program.data(rank, 1)).collect();
    for rank in 0..tree.ranks() {
        for child in tree.children(rank) {
            program.wait(rank, lines[child], 1);
            program.combine(rank, lines[child], data[rank]);
        }
        if tree.parent(rank).is_some() {
            program.copy(rank, data[rank], lines[rank]);
            program.write(rank, lines[rank], 1);
        }
    }
    program
}

/// A flag for each wave of each rank.
fn wave_flags(program: &mut Program, tree: &Tree) -> Vec<Vec<Line>> {
    (0..tree.ranks())
        .map(|rank| tree.waves(rank).iter().map(|wave| program.flag(wave[0])).collect())
        .collect()
}

/// The flag by which a rank is notified, and by whom; none for the root.
fn over(tree: &Tree, flags: &[Vec<Line>], rank: usize) -> Option<(Line, usize)> {
    let parent = tree.parent(rank)?;
    Some((flags[parent][tree.wave_of(rank)?], parent))
}

/// The lines on which children acknowledge: one for each group of a rank's children, which lies with
/// them.
struct Acknowledgements {
    /// By rank: the line, and the ranks that add to it.
    lines: Vec<Vec<(Line, Vec<usize>)>>,
    /// By rank: the line that it adds to.
    own: Vec<Option<Line>>,
}

impl Acknowledgements {
    fn new(program: &mut Program, tree: &Tree, placement: &Placement) -> Acknowledgements {
        let mut own = vec![None; tree.ranks()];
        let mut lines = Vec::with_capacity(tree.ranks());
        for rank in 0..tree.ranks() {
            let groups = tree.acknowledging(rank, placement).into_iter();
            let of_rank = groups.map(|children| {
                let line = program.flag(children[0]);
                children.iter().for_each(|&child| own[child] = Some(line));
                (line, children)
            });
            lines.push(of_rank.collect());
        }
        Acknowledgements { lines, own }
    }

    fn wait(&self, program: &mut Program, rank: usize) {
        for (line, children) in &self.lines[rank] {
            program.wait(rank, *line, children.len() as u64);
        }
    }

    fn add(&self, program: &mut Program, rank: usize) {
        if let Some(line) = self.own[rank] {
            program.add(rank, line);
        }
    }
}
