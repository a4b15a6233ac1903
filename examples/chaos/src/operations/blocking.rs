//! Collective operations that block.

use onchip::Result;
use onchip::reduce::Sum;

use super::Work;
use crate::content::wrong;

/// Words of each rank, on both sides of the borders between algorithms.
pub(super) const LENGTHS: [usize; 7] = [0, 1, 7, 24, 25, 700, 6000];

pub(super) fn run(mut work: Work<'_>) -> Result<()> {
    for number in 0..1 + work.random.below(20) {
        let (len, root) = (work.random.pick(&LENGTHS), work.random.index(work.ranks()));
        let which = work.random.below(9);
        work.call()?;
        one(&work, which, number, len, root)?;
    }
    Ok(())
}

/// Carries out one operation.
fn one(work: &Work<'_>, which: u64, number: u64, len: usize, root: usize) -> Result<()> {
    let (me, ranks, world) = (work.me(), work.ranks(), work.world());
    let words = |from: usize| work.label(from, number).words(len);
    match which {
        0 => world.barrier()?,
        1 => {
            let mut message = if me == root { words(root) } else { vec![0; len] };
            world.broadcast(&mut message, root)?;
            work.label(root, number).check(&message, len)?;
        }
        2 => {
            let mut vector = small(me, number, len);
            world.all_reduce(&mut vector, Sum)?;
            is_sum(&vector, 0..ranks, number)?;
        }
        3 => {
            let mut vector = small(me, number, len);
            world.reduce(&mut vector, Sum, root)?;
            if me == root {
                is_sum(&vector, 0..ranks, number)?;
            }
        }
        4 => {
            let mut vector = small(me, number, len);
            world.scan(&mut vector, Sum)?;
            is_sum(&vector, 0..me + 1, number)?;
        }
        5 => {
            let mut all = vec![0; if me == root { len * ranks } else { 0 }];
            world.gather(words(me), &mut all, root)?;
            if me == root {
                are_of_all(work, &all, number, len)?;
            }
        }
        6 => {
            let all = if me == root { of_all(work, number, len) } else { Vec::new() };
            let mut own = vec![0; len];
            world.scatter(&all, &mut own, root)?;
            work.label(me, number).check(&own, len)?;
        }
        7 => {
            let mut all = vec![0; len * ranks];
            world.all_gather(words(me), &mut all)?;
            are_of_all(work, &all, number, len)?;
        }
        _ => {
            let send = words(me).repeat(ranks);
            let mut all = vec![0; len * ranks];
            world.all_to_all(&send, &mut all)?;
            are_of_all(work, &all, number, len)?;
        }
    }
    Ok(())
}

/// Returns the words of all ranks, one rank after the other.
pub(super) fn of_all(work: &Work<'_>, number: u64, len: usize) -> Vec<u64> {
    (0..work.ranks()).flat_map(|from| work.label(from, number).words(len)).collect()
}

/// Checks the words of all ranks.
pub(super) fn are_of_all(work: &Work<'_>, all: &[u64], number: u64, len: usize) -> Result<()> {
    let mut blocks = all.chunks_exact(len.max(1)).enumerate();
    blocks.try_for_each(|(from, block)| work.label(from, number).check(block, len))
}

/// Returns what a rank adds.
pub(super) fn small(rank: usize, number: u64, len: usize) -> Vec<u64> {
    (0..len as u64).map(|i| i + number + (rank as u64 + 1) * 1000).collect()
}

/// Checks what these ranks have added.
pub(super) fn is_sum(vector: &[u64], ranks: std::ops::Range<usize>, number: u64) -> Result<()> {
    let rows: Vec<_> = ranks.map(|rank| small(rank, number, vector.len())).collect();
    for (i, &word) in vector.iter().enumerate() {
        let sum: u64 = rows.iter().map(|row| row[i]).sum();
        if word != sum {
            return wrong(format!("sum {number} has {word} instead of {sum} at {i}"));
        }
    }
    Ok(())
}
