//! Reductions over three to eight nodes, whose leaders combine in rounds or in turns, against plain references.

mod support;

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use mp_core::Result;
use onchip::collectives::At;
use onchip::collectives::{InPlace, packed};
use onchip::communicator::Communicator;
use onchip::reduce::Sum;

use support::plain::{Affine, affine, compose, elements, fold};
use support::world::{all_succeed, world};

/// Nodes of one or two ranks.
const WORLDS: [&[usize]; 7] = [
    &[1, 2, 1],
    &[2, 1, 1, 1],
    &[1, 1, 2, 1, 1],
    &[1, 2, 1, 1, 1, 2],
    &[1, 1, 1, 1, 1, 1, 1],
    &[2, 1, 1, 1, 2, 1, 1, 1],
    &[1, 1, 1, 1, 1, 1, 1, 2],
];

/// The elements of a piece of what goes between nodes.
const PIECE: usize = (64 << 10) / size_of::<Affine>();
/// Numbers of elements: of none, one, and several pieces.
const LENGTHS: [usize; 8] = [0, 1, 7, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE + 3, 9 * PIECE + 1];

#[test]
fn reductions_combine_in_the_order_of_ranks() {
    for nodes in WORLDS {
        all_succeed(world(nodes, |rank| {
            let comm = Communicator::world(rank);
            let (me, size) = (comm.rank(), comm.size());
            for length in LENGTHS {
                let own = elements(length, |at| affine(me, at));
                let all = elements(length, |at| fold(0..size, at).unwrap());
                let mut got = own.clone();
                comm.all_reduce(&mut got, compose)?;
                assert!(got == all, "{nodes:?}: all_reduce of {length}");
                got.fill([0; 2]);
                comm.all_reduce_from(&own, &mut got, compose)?;
                assert!(got == all, "{nodes:?}: all_reduce_from of {length}");
                let begun = comm.nonblocking()?.all_reduce(own.clone(), compose);
                let roots = if length > 2 * PIECE { size - 2..size } else { 0..size };
                for root in roots.clone() {
                    let mut got = own.clone();
                    comm.reduce(&mut got, compose, root)?;
                    assert!(me != root || got == all, "{nodes:?}: reduce of {length} to {root}");
                }
                for root in roots {
                    let got = comm.nonblocking()?.reduce(own.clone(), compose, root).wait()?;
                    assert!(me != root || got == all, "{nodes:?}: reduce of {length} to {root}");
                }
                assert!(begun.wait()? == all, "{nodes:?}: nonblocking all_reduce of {length}");
            }
            Ok(())
        }));
    }
}

#[test]
fn reduce_scatter_leaves_each_rank_its_block() {
    for nodes in WORLDS {
        all_succeed(world(nodes, |rank| {
            let comm = Communicator::world(rank);
            let (me, size) = (comm.rank(), comm.size());
            for block in [0, 1, 5, PIECE / size, PIECE / size + 1, PIECE / 2] {
                let own = elements(block * size, |at| affine(me, at));
                let all = elements(block * size, |at| fold(0..size, at).unwrap());
                let mut got = vec![[0; 2]; block];
                comm.reduce_scatter(&own, &mut got, compose)?;
                assert!(got == all[block * me..][..block], "{nodes:?}: blocks of {block}");
                let begun = comm.nonblocking()?.reduce_scatter(own.clone(), InPlace, compose);
                // Blocks of different lengths, of which some are empty.
                let ranges = packed((0..size).map(|rank| rank % 2 * block));
                let mut got = vec![[0; 2]; ranges[me].len()];
                let length = ranges.last().unwrap().end;
                comm.reduce_scatter(At(&own[..length], &ranges), &mut got, compose)?;
                assert!(got == all[ranges[me].clone()], "{nodes:?}: blocks of up to {block}");
                let got = begun.wait()?.0;
                assert!(got[block * me..][..block] == all[block * me..][..block]);
            }
            Ok(())
        }));
    }
}

/// Elements may be so long that there are fewer than leaders, or two in a piece.
#[test]
fn long_elements_are_not_cut() {
    type Long = [u64; 4_096];
    let add = |left: Long, right: Long| {
        let mut sum = left;
        sum.iter_mut().zip(right).for_each(|(sum, right)| *sum += right);
        sum
    };
    for nodes in WORLDS {
        all_succeed(world(nodes, |rank| {
            let comm = Communicator::world(rank);
            let size = comm.size() as u64;
            for length in [1, 2, 3, 4, 5, 17] {
                let mut vector = vec![[1; 4_096]; length];
                comm.all_reduce(&mut vector, add)?;
                assert!(vector == vec![[size; 4_096]; length], "{nodes:?}: {length}");
            }
            Ok(())
        }));
    }
}

/// Leaders combine floats in the same way at all ranks.
#[test]
fn all_ranks_get_the_same_bits() {
    for nodes in WORLDS {
        let sums = all_succeed(world(nodes, |rank| {
            let comm = Communicator::world(rank);
            let mut all = Vec::new();
            for length in [1, 8_192, 8_193, 50_000] {
                let own = elements(length, |at| 0.1 / (1 + comm.rank() * 7 + at % 13) as f64);
                let mut sums = own.clone();
                comm.all_reduce(&mut sums, Sum)?;
                all.extend(sums);
                all.extend(comm.nonblocking()?.all_reduce(own, Sum).wait()?);
            }
            Ok(all.into_iter().map(f64::to_bits).collect::<Vec<u64>>())
        }));
        assert!(sums.iter().all(|others| *others == sums[0]), "{nodes:?}");
    }
}

/// A node may be ahead of others by as many calls as there is room for.
#[test]
fn reductions_follow_each_other_without_a_barrier() {
    for nodes in WORLDS {
        all_succeed(world(nodes, |rank| {
            let comm = Communicator::world(rank);
            let (me, size) = (comm.rank(), comm.size());
            for round in 0..200 {
                let root = round * 7 % size;
                let mut sum = [me + round; 3];
                comm.reduce(&mut sum, Sum, root)?;
                let wanted: usize = (0..size).map(|rank| rank + round).sum();
                assert!(me != root || sum == [wanted; 3]);
                if round % 3 == 0 {
                    let mut sum = [me + round];
                    comm.all_reduce(&mut sum, Sum)?;
                    assert_eq!(sum, [wanted]);
                }
                let mut number = [if me == root { round } else { 0 }];
                comm.broadcast(&mut number, root)?;
                assert_eq!(number, [round]);
            }
            Ok(())
        }));
    }
}

/// A rank is lost while it combines, or after a call, and the calls of all others end.
#[test]
fn a_rank_that_is_lost_in_the_middle_ends_the_calls_of_all_others() {
    for nodes in [&[1, 1, 2, 1, 1][..], &[1, 2, 1, 1, 1, 1]] {
        let ranks: usize = nodes.iter().sum();
        for lost in 0..ranks {
            for run in 0..9 {
                let (call, length) = (run % 3, [1, PIECE + 1, 9 * PIECE][run / 3]);
                // How many elements it combines before it is lost.
                let left = AtomicUsize::new(length * (lost % 3) + length / 2);
                let survivors = Barrier::new(ranks - 1);
                let outcomes = world(nodes, |rank| {
                    let comm = Communicator::world(rank);
                    let me = rank.id();
                    let combine = |left_one: Affine, right: Affine| {
                        let next = |left: usize| left.checked_sub(1);
                        let is_last = me == lost
                            && left
                                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
                                .is_err();
                        assert!(!is_last, "on purpose");
                        compose(left_one, right)
                    };
                    let mut called = Ok(());
                    let mut calls = 0;
                    let ended = loop {
                        if let Err(error) = called {
                            break error;
                        }
                        assert!(me != lost || calls < 3, "on purpose");
                        let mut vector = vec![affine(me, calls); length];
                        called = match call {
                            0 => comm.all_reduce(&mut vector, combine),
                            1 => comm.reduce(&mut vector, combine, calls * 2 % ranks),
                            _ => nonblocking(&comm, vector, me == lost && calls == 2),
                        };
                        calls += 1;
                    };
                    // No call ends only because another rank has returned.
                    survivors.wait();
                    Ok(ended.to_string())
                });
                for (rank, outcome) in outcomes.into_iter().enumerate() {
                    if rank == lost {
                        assert!(outcome.is_err());
                        continue;
                    }
                    let (ended, name) = (outcome.unwrap(), format!("rank {lost} "));
                    assert!(ended.contains(&name), "{nodes:?}, run {run}, rank {rank}: {ended}");
                }
            }
        }
    }
}

/// Makes a nonblocking all-reduce, in which a rank may be lost once it has begun.
fn nonblocking(comm: &Communicator, vector: Vec<Affine>, is_lost: bool) -> Result<()> {
    let begun = comm.nonblocking()?.all_reduce(vector, compose);
    assert!(!is_lost, "on purpose");
    begun.wait().map(drop).map_err(|failed| failed.error)
}
