//! The paper's algorithms that this library does not run, as programs (sections 3.1, 3.2, 4.2 and 5.2).

pub use mp_model::cla::patterns::*;
use mp_model::cla::{Line, Placement, Program, Tree};

/// The lines that notifications go over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flags {
    /// One line for all.
    SameLine,
    /// One line for each rank that notifies or is notified.
    DifferentLines,
    /// One line for each group.
    LinePerGroup,
}

/// Many-to-one (figure 4): all ranks notify rank `to`, which waits for them.
///
/// # Panics
/// If there is no such rank.
pub fn many_to_one(placement: &Placement, to: usize, flags: Flags) -> Program {
    let mut program = Program::new(placement.ranks());
    for group in split(placement, to, flags) {
        // A flag of a group lies with it, so that its ranks need not reach across to count it up.
        let home = if flags == Flags::LinePerGroup { group[0] } else { to };
        let flag = program.flag(home);
        for &rank in &group {
            match flags {
                Flags::DifferentLines => program.write(rank, flag, 1),
                _ => program.add(rank, flag),
            }
        }
        program.wait(to, flag, group.len() as u64);
    }
    program
}

/// One-to-many (figure 8): rank `from` notifies all others.
///
/// # Panics
/// If there is no such rank.
pub fn one_to_many(placement: &Placement, from: usize, flags: Flags) -> Program {
    let mut program = Program::new(placement.ranks());
    for group in split(placement, from, flags) {
        let flag = program.flag(from);
        program.write(from, flag, 1);
        for &rank in &group {
            program.wait(rank, flag, 1);
        }
    }
    program
}

/// Returns all ranks but one, by the flag that they share; near ones first.
fn split(placement: &Placement, one: usize, flags: Flags) -> Vec<Vec<usize>> {
    let near = |&rank: &usize| placement.near(rank, one);
    let mut others: Vec<usize> = (0..placement.ranks()).filter(|&rank| rank != one).collect();
    others.sort_by_key(|rank| !near(rank));
    match flags {
        _ if others.is_empty() => Vec::new(),
        Flags::SameLine => vec![others],
        Flags::DifferentLines => others.into_iter().map(|rank| vec![rank]).collect(),
        Flags::LinePerGroup => {
            others.sort_by_key(|rank| (!near(rank), placement.group(*rank)));
            others.chunk_by(|&a, &b| placement.near(a, b)).map(<[_]>::to_vec).collect()
        }
    }
}

/// A broadcast of several lines that all ranks copy from where the root has it (section 4.2), with one tree by which
/// they are notified (section 3.2) and another by which they acknowledge (section 3.1). In the paper's own, both are the
/// tree along which the data goes.
///
/// # Panics
/// If the trees have different ranks or roots.
pub fn pulled_broadcast(
    told: &Tree,
    gathered: &Tree,
    placement: &Placement,
    lines: u64,
) -> Program {
    let (ranks, root) = (told.ranks(), told.root());
    assert_eq!((ranks, root), (gathered.ranks(), gathered.root()), "trees of different ranks");
    let mut program = Program::new(ranks);
    let data: Vec<Line> = (0..ranks).map(|rank| program.data(rank, lines)).collect();
    let mut told_by = vec![None; ranks];
    let mut tells = vec![Vec::new(); ranks];
    let mut added_to = vec![None; ranks];
    let mut gathers = vec![Vec::new(); ranks];
    for rank in 0..ranks {
        for wave in told.waves(rank) {
            let flag = program.flag(wave[0]);
            tells[rank].push(flag);
            wave.iter().for_each(|&child| told_by[child] = Some(flag));
        }
        for children in gathered.acknowledging(rank, placement) {
            let line = program.flag(children[0]);
            gathers[rank].push((line, children.len() as u64));
            children.iter().for_each(|&child| added_to[child] = Some(line));
        }
    }
    for rank in 0..ranks {
        told_by[rank].into_iter().for_each(|flag| program.wait(rank, flag, 1));
        tells[rank].iter().for_each(|&flag| program.write(rank, flag, 1));
        if rank != root {
            program.copy(rank, data[root], data[rank]);
        }
        gathers[rank].iter().for_each(|&(line, count)| program.wait(rank, line, count));
        added_to[rank].into_iter().for_each(|line| program.add(rank, line));
    }
    program
}

/// A reduction of several lines in stages (section 5.2). In each stage, a rank says that its data is ready, and its
/// partner reads and adds it, and says that the rank may leave. There is one binomial tree for each group, and then one
/// over the groups, so the root's group is added to last.
///
/// # Panics
/// If there is no such root.
pub fn binomial_reduction(placement: &Placement, root: usize, lines: u64) -> Program {
    let mut program = Program::new(placement.ranks());
    let data: Vec<Line> = (0..placement.ranks()).map(|rank| program.data(rank, lines)).collect();
    let mut groups = placement.groups();
    groups.sort_by_key(|group| !placement.near(group[0], root));
    let mut heads = Vec::new();
    for mut group in groups {
        // The root is first in its group.
        group.sort_by_key(|&rank| rank != root);
        pair_up(&mut program, &group, &data);
        heads.push(group[0]);
    }
    pair_up(&mut program, &heads, &data);
    program
}

fn pair_up(program: &mut Program, ranks: &[usize], data: &[Line]) {
    let mut distance = 1;
    while distance < ranks.len() {
        for pair in ranks.chunks(2 * distance) {
            let Some(&from) = pair.get(distance) else { continue };
            let to = pair[0];
            let (ready, read) = (program.flag(to), program.flag(from));
            program.write(from, ready, 1);
            program.wait(to, ready, 1);
            program.combine(to, data[from], data[to]);
            program.write(to, read, 1);
            program.wait(from, read, 1);
        }
        distance *= 2;
    }
}
