//! Collective operations of communicators whose ranks are on several nodes, against plain references.

mod support;

use std::sync::Barrier;

use mp_core::Result;
use onchip::collectives::{At, InPlace, packed};
use onchip::communicator::Communicator;
use onchip::reduce::{Max, Sum};
use onchip::{ErrorKind, Plain};

use support::plain::{affine, block, compose, elements, fold, in_communicators};
use support::world::{WORLDS, all_succeed, world};

/// Numbers of elements: none, one, some, a piece of what goes between nodes, and several pieces.
const LENGTHS: [usize; 6] = [0, 1, 5, 8_192, 20_001, 70_000];

#[test]
fn broadcasts_reach_all_ranks_from_any_root() {
    for nodes in WORLDS {
        all_succeed(world(nodes, |rank| {
            in_communicators(rank, |comm| {
                for (round, length) in LENGTHS.into_iter().enumerate() {
                    for root in 0..comm.size() {
                        let sent = elements(length, |at| (at * 3 + root + round) as u32);
                        let is_root = comm.rank() == root;
                        let mut got = if is_root { sent.clone() } else { vec![0; length] };
                        comm.broadcast(&mut got, root)?;
                        assert!(got == sent, "{length} elements from {root}");
                    }
                }
                Ok(())
            })
        }));
    }
}

#[test]
fn reductions_combine_in_the_order_of_ranks() {
    for nodes in WORLDS {
        all_succeed(world(nodes, |rank| {
            in_communicators(rank, |comm| {
                let (me, size) = (comm.rank(), comm.size());
                for length in LENGTHS {
                    let own = elements(length, |at| affine(me, at));
                    let all = elements(length, |at| fold(0..size, at).unwrap());
                    let mut got = own.clone();
                    comm.all_reduce(&mut got, compose)?;
                    assert!(got == all, "all_reduce of {length}");
                    got.fill([0; 2]);
                    comm.all_reduce_from(&own, &mut got, compose)?;
                    assert!(got == all, "all_reduce_from of {length}");
                    for root in [0, size / 2, size - 1] {
                        let mut got = own.clone();
                        comm.reduce(&mut got, compose, root)?;
                        assert!(me != root || got == all, "reduce of {length} to {root}");
                        let mut got = vec![[0; 2]; if me == root { length } else { 0 }];
                        comm.reduce_from(&own, &mut got, compose, root)?;
                        assert!(me != root || got == all, "reduce_from of {length} to {root}");
                    }
                    let mut got = own.clone();
                    comm.scan(&mut got, compose)?;
                    assert!(
                        got == elements(length, |at| fold(0..me + 1, at).unwrap()),
                        "scan of {length}"
                    );
                    let mut got = own.clone();
                    comm.exclusive_scan(&mut got, compose)?;
                    let before = elements(length, |at| fold(0..me, at).unwrap_or(own[at]));
                    assert!(got == before, "exclusive_scan of {length}");
                }
                // Floats have the same bits at all ranks.
                let mut sums = elements(9_000, |at| 0.1 * (me + at) as f64);
                comm.all_reduce(&mut sums, Sum)?;
                let mut bits = vec![0u64; 9_000 * size];
                let own: Vec<u64> = sums.iter().map(|sum| sum.to_bits()).collect();
                comm.all_gather(&own, &mut bits)?;
                assert!(bits.chunks(9_000).all(|other| other == own));
                let mut greatest = [me as u8];
                comm.all_reduce(&mut greatest, Max)?;
                assert_eq!(usize::from(greatest[0]), size - 1);
                Ok(())
            })
        }));
    }
}

#[test]
fn reduce_scatter_leaves_each_rank_its_block() {
    for nodes in WORLDS {
        all_succeed(world(nodes, |rank| {
            in_communicators(rank, |comm| {
                let (me, size) = (comm.rank(), comm.size());
                for block in [0, 1, 5, 3_000] {
                    let own = elements(block * size, |at| affine(me, at));
                    let all = elements(block * size, |at| fold(0..size, at).unwrap());
                    let mut got = vec![[0; 2]; block];
                    comm.reduce_scatter(&own, &mut got, compose)?;
                    assert!(got == all[block * me..][..block], "blocks of {block}");
                    let mut vector = own.clone();
                    comm.reduce_scatter(&mut vector, InPlace, compose)?;
                    let mut wanted = own.clone();
                    wanted[block * me..][..block].copy_from_slice(&all[block * me..][..block]);
                    assert!(vector == wanted, "blocks of {block} in place");
                    // Blocks of different lengths.
                    let ranges = packed((0..size).map(|rank| rank % 3 * block));
                    let length = ranges.last().unwrap().end;
                    let mut got = vec![[0; 2]; ranges[me].len()];
                    comm.reduce_scatter(
                        At(&own[..length.min(own.len())], &ranges),
                        &mut got,
                        compose,
                    )
                    .or_else(|error| {
                        match (error.kind(), length > own.len()) {
                            (ErrorKind::BadCall { .. }, true) => Ok(()),
                            _ => Err(error),
                        }
                    })?;
                    if length <= own.len() {
                        assert!(got == all[ranges[me].clone()], "blocks of up to {}", 2 * block);
                    }
                }
                Ok(())
            })
        }));
    }
}

#[test]
fn gathers_and_scatters_keep_the_order_of_ranks() {
    for nodes in WORLDS {
        all_succeed(world(nodes, |rank| {
            in_communicators(rank, |comm| {
                let (me, size) = (comm.rank(), comm.size());
                for length in [0, 1, 7, 40_000] {
                    let all: Vec<u16> = (0..size).flat_map(|rank| block(rank, 0, length)).collect();
                    let own = block(me, 0, length);
                    let mut got = vec![0; length * size];
                    comm.all_gather(&own, &mut got)?;
                    assert!(got == all, "all_gather of {length}");
                    got.fill(0);
                    got[me * length..][..length].copy_from_slice(&own);
                    comm.all_gather(InPlace, &mut got)?;
                    assert!(got == all, "all_gather of {length} in place");
                    for root in [0, size / 2, size - 1] {
                        let is_root = me == root;
                        let mut got = vec![0; if is_root { length * size } else { 0 }];
                        comm.gather(&own, &mut got, root)?;
                        assert!(!is_root || got == all, "gather of {length} at {root}");
                        let mut buffer = if is_root { vec![0; length * size] } else { own.clone() };
                        if is_root {
                            buffer[me * length..][..length].copy_from_slice(&own);
                        }
                        comm.gather(InPlace, &mut buffer, root)?;
                        assert!(!is_root || buffer == all, "gather of {length} at {root} in place");

                        let mut got = vec![0; length];
                        let none = Vec::new();
                        comm.scatter(if is_root { &all } else { &none }, &mut got, root)?;
                        assert!(got == own, "scatter of {length} from {root}");
                        let mut buffer = if is_root { all.clone() } else { vec![0; length] };
                        comm.scatter(&mut buffer, InPlace, root)?;
                        assert!(buffer == if is_root { all.clone() } else { own.clone() });
                    }
                }
                Ok(())
            })
        }));
    }
}

#[test]
fn blocks_may_differ_in_length_and_lie_anywhere() {
    for nodes in WORLDS {
        all_succeed(world(nodes, |rank| {
            in_communicators(rank, |comm| {
                let (me, size) = (comm.rank(), comm.size());
                for scale in [1, 9_000] {
                    let length = |rank: usize| rank % 3 * scale;
                    // In the reverse order, with gaps of two.
                    let mut ranges = vec![0..0; size];
                    let mut end = 0;
                    for rank in (0..size).rev() {
                        ranges[rank] = end..end + length(rank);
                        end += length(rank) + 2;
                    }
                    let mut all = vec![9; end];
                    for rank in 0..size {
                        all[ranges[rank].clone()].copy_from_slice(&block(rank, 1, length(rank)));
                    }
                    let own = block(me, 1, length(me));
                    let mut got = vec![9; end];
                    comm.all_gather(&own, At(&mut got, &ranges))?;
                    assert!(got == all, "all_gather of up to {}", 2 * scale);
                    for root in [0, size - 1] {
                        let mut got = vec![9; end];
                        comm.gather(&own, At(&mut got, &ranges), root)?;
                        assert!(got == if me == root { all.clone() } else { vec![9; end] });
                        let mut got = vec![0; length(me)];
                        comm.scatter(At(&all, &ranges), &mut got, root)?;
                        assert!(got == own, "scatter of up to {}", 2 * scale);
                    }
                    // From rank i to rank j, (i + 2j) mod 4 units.
                    let length = |from: usize, to: usize| (from + 2 * to) % 4 * scale;
                    let sent: Vec<u16> =
                        (0..size).flat_map(|to| block(me, to, length(me, to))).collect();
                    let outgoing = packed((0..size).map(|to| length(me, to)));
                    let incoming = packed((0..size).map(|from| length(from, me)));
                    let wanted: Vec<u16> =
                        (0..size).flat_map(|from| block(from, me, length(from, me))).collect();
                    let mut got = vec![0; wanted.len()];
                    comm.all_to_all(At(&sent, &outgoing), At(&mut got, &incoming))?;
                    assert!(got == wanted, "all_to_all of up to {}", 3 * scale);
                }
                for length in [0, 1, 6, 5_000] {
                    let sent: Vec<u16> = (0..size).flat_map(|to| block(me, to, length)).collect();
                    let wanted: Vec<u16> =
                        (0..size).flat_map(|from| block(from, me, length)).collect();
                    let mut got = vec![0; wanted.len()];
                    comm.all_to_all(&sent, &mut got)?;
                    assert!(got == wanted, "all_to_all of {length}");
                    let mut got = sent.clone();
                    comm.all_to_all(InPlace, &mut got)?;
                    assert!(got == wanted, "all_to_all of {length} in place");
                }
                Ok(())
            })
        }));
    }
}

/// No rank leaves a barrier before all have come.
#[test]
fn barriers_wait_for_all_ranks() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    for nodes in WORLDS {
        let come = AtomicUsize::new(0);
        all_succeed(world(nodes, |rank| {
            let comm = Communicator::world(rank);
            for round in 1..60 {
                come.fetch_add(1, Ordering::SeqCst);
                comm.barrier()?;
                assert!(come.load(Ordering::SeqCst) >= round * comm.size());
                comm.barrier()?;
            }
            Ok(())
        }));
    }
}

/// Ranks may be far ahead of others: a root does not wait for those that come later.
#[test]
fn operations_follow_each_other_without_a_barrier() {
    for nodes in WORLDS {
        all_succeed(world(nodes, |rank| {
            let comm = Communicator::world(rank);
            let size = comm.size();
            for round in 0..200u64 {
                let root = round as usize % size;
                let mut number = [if comm.rank() == root { round } else { 0 }];
                comm.broadcast(&mut number, root)?;
                assert_eq!(number, [round]);
                let mut sum = [round; 3];
                comm.reduce(&mut sum, Sum, (root + 1) % size)?;
                let mut prefix = [1u64];
                comm.scan(&mut prefix, Sum)?;
                assert_eq!(prefix, [comm.rank() as u64 + 1]);
                if round % 7 == root as u64 % 7 {
                    let mut all = vec![0; size];
                    comm.all_gather([comm.rank()], &mut all)?;
                    assert!(all.into_iter().eq(0..size));
                }
            }
            Ok(())
        }));
    }
}

#[test]
fn calls_that_can_not_be_made_are_refused_and_leave_the_communicator_usable() {
    fn refused(result: Result<()>) {
        let error = result.unwrap_err();
        let kind = error.kind();
        assert!(
            matches!(kind, ErrorKind::BadCall { .. } | ErrorKind::NoSuchRank { .. }),
            "{error}"
        );
    }
    #[derive(Clone, Copy, onchip::Pod, onchip::Zeroable)]
    #[bytemuck(crate = "onchip::bytemuck")]
    #[repr(C)]
    struct Huge([u64; 9_000]);
    fn is_plain<T: Plain>() {}
    is_plain::<Huge>();
    all_succeed(world(&[2, 1], |rank| {
        let comm = Communicator::world(rank);
        let size = comm.size();
        refused(comm.broadcast(&mut [0], size));
        refused(comm.all_gather([1, 2], &mut [0; 5]));
        refused(comm.all_to_all([0; 4], &mut [0; 6]));
        refused(comm.all_reduce(&mut [Huge([1; 9_000])], |left: Huge, _| left));
        // The arguments of other ranks are all right, and nothing is sent before a rank's own are looked at.
        comm.barrier()?;
        let mut sum = [1];
        comm.all_reduce(&mut sum, Sum)?;
        assert_eq!(sum, [size]);
        Ok(())
    }));
}

/// Settings apply from the next call on, also to a rank that is ahead of the others. Those that force algorithms have no
/// effect between nodes.
#[test]
fn settings_can_be_changed_between_calls() {
    use onchip::collectives::Settings;
    use onchip::reduce::{AllReduce, Order, Reduce, Scan};
    for nodes in WORLDS {
        all_succeed(world(nodes, |rank| {
            let comm = Communicator::world(rank);
            let (me, size) = (comm.rank(), comm.size());
            let own = elements(3_000, |at| 0.1 * (1 + me * at % 17) as f64);
            let all = |at: usize| (0..size).map(move |rank| 0.1 * (1 + rank * at % 17) as f64);
            let sums = elements(3_000, |at| all(at).reduce(|a, b| a + b).unwrap());
            let forced = Settings {
                all_reduce: Some(AllReduce::Doubling),
                reduce: Some(Reduce::Lines),
                scan: Some(Scan::Doubling),
                ..Settings::default()
            };
            let in_order = Settings { order: Order::Ranks, ..Settings::default() };
            for round in 0..6 {
                let mut prefix = own.clone();
                let settings = if round % 2 == 0 { &in_order } else { &forced };
                // One node refuses what is too long for a forced algorithm.
                let spans = comm.size() > rank.ranks_here().len();
                if round % 2 == 0 || spans {
                    comm.set_collectives(settings.clone())?;
                }
                comm.scan(&mut prefix, Sum)?;
                let mut sum = own.clone();
                comm.all_reduce(&mut sum, Sum)?;
                if round % 2 == 0 {
                    assert!(sum == sums, "elements are not combined one after the other");
                }
                let mut sum = own.clone();
                comm.reduce(&mut sum, Sum, round % size)?;
                let error = comm.all_gather([me; 2], &mut [0; 1]).unwrap_err();
                assert!(matches!(error.kind(), ErrorKind::BadCall { .. }), "{error}");
            }
            Ok(())
        }));
    }
}

/// The calls of all ranks end when one is lost, on its own node and on the others, with an error that names it.
#[test]
fn a_rank_that_is_lost_ends_the_calls_of_all_others() {
    for nodes in WORLDS.into_iter().filter(|nodes| nodes.len() > 1) {
        let ranks: usize = nodes.iter().sum();
        for lost in 0..ranks {
            for call in 0..18 {
                // In half of the runs, this is the first call.
                let (call, is_first) = (call / 2, call % 2 == 0);
                let survivors = Barrier::new(ranks - 1);
                let outcomes = world(nodes, |rank| {
                    let comm = Communicator::world(rank);
                    // The rank may be lost while others are still in the call.
                    let mut called = if is_first { Ok(()) } else { comm.barrier() };
                    if rank.id() == lost {
                        panic!("on purpose");
                    }
                    let ended = loop {
                        if let Err(error) = called {
                            break error;
                        }
                        let mut vector = vec![1u64; 20_000];
                        let size = comm.size();
                        called = match call {
                            0 => comm.barrier(),
                            1 => comm.broadcast(&mut vector, lost),
                            2 => comm.all_reduce(&mut vector, Sum),
                            3 => comm.all_gather(&vector[..7], &mut vec![0; 7 * size]),
                            4 => comm.all_to_all(vec![1; 3 * size], &mut vec![0; 3 * size]),
                            5 => comm.reduce(&mut vector, Sum, lost),
                            6 => comm.scan(&mut vector, Sum).and_then(|()| comm.barrier()),
                            7 => comm.gather(&vector[..7], &mut vec![0; 7 * size], size - 1),
                            _ => comm.scatter(&vec![1u64; 7 * size], &mut vector[..7], size - 1),
                        };
                    };
                    let again = comm.barrier().unwrap_err();
                    // No call ends only because another rank has returned.
                    survivors.wait();
                    Ok((ended.to_string(), again.to_string()))
                });
                for (rank, outcome) in outcomes.into_iter().enumerate() {
                    if rank == lost {
                        assert!(outcome.is_err());
                        continue;
                    }
                    let (ended, again) = outcome.unwrap();
                    let name = format!("rank {lost} ");
                    assert!(ended.contains(&name), "{nodes:?}, call {call}, rank {rank}: {ended}");
                    assert!(again.contains(&name), "{nodes:?}, call {call}, rank {rank}: {again}");
                }
            }
        }
    }
}
