// The tests of one form of the operations, between the groups of an intercommunicator: `mod.rs` includes this once for
// each.

use crate::{
    calls::{
        communicators::comm_free, datatypes::type_free, operations::op_free, operations::op_create,
    },
    constants::{MPI_BYTE, MPI_ERR_BUFFER, MPI_ERR_COMM, MPI_ERR_ROOT, MPI_MAX, MPI_ROOT, MPI_SUM},
    handles::Handles,
    ints::Ints,
    types::Count,
};

fn number(from: usize, to: usize, place: usize) -> i32 {
    (from * 1_000_000 + to * 10_000 + place % 10_000) as i32
}

fn block(from: usize, to: usize, length: usize) -> Vec<i32> {
    (0..length).map(|place| number(from, to, place)).collect()
}

/// Runs code in both groups of intercommunicators of several forms.
fn across(code: impl Fn(&Sides) + Send + Sync) {
    on_ranks_of_several(|world, size| {
        for cut in [1, size / 2, size - 1] {
            let sides = Sides::new(world, cut, cut % 2 == 1);
            code(&sides);
            let mut inter = sides.inter;
            ok!(comm_free(&mut inter));
        }
    });
}

/// Returns the blocks of `blocks` in every second place of a buffer.
fn sparse(blocks: &[Vec<i32>]) -> Vec<i32> {
    blocks.concat().into_iter().flat_map(|number| [number, -1]).collect()
}

#[test]
fn barriers_and_broadcasts() {
    across(|sides| {
        let &Sides { inter, me, local, remote, side, .. } = sides;
        ok!(barrier(inter));
        for length in [0usize, 1, 3000, 40_000] {
            let mut half = every_second(length as Count);
            // Each rank of both groups is the root once.
            for root_side in [0, 1] {
                let roots = if root_side == side { local } else { remote };
                for root in 0..roots {
                    let sent = block(root, root_side, length);
                    let here = side == root_side;
                    let as_root = match here {
                        true if root == me => MPI_ROOT,
                        true => NOBODY,
                        false => root as c_int,
                    };
                    let mut data = if as_root == MPI_ROOT { sparse(std::slice::from_ref(&sent)) } else { vec![-1; 2 * length] };
                    ok!(bcast(address(&mut data), 1, half, as_root, inter));
                    if !here {
                        assert_eq!(data, sparse(&[sent]));
                    } else if as_root == NOBODY {
                        assert_eq!(data, vec![-1; 2 * length]);
                    }
                }
            }
            ok!(type_free(&mut half));
        }
    });
}

#[test]
fn gathers_and_scatters() {
    across(|sides| {
        let &Sides { inter, me, local, remote, side, .. } = sides;
        let int = predefined(INT);
        for length in [1usize, 777] {
            let count = length as Count;
            for root_side in [0, 1] {
                let roots = if root_side == side { local } else { remote };
                for root in 0..roots {
                    let here = side == root_side;
                    let as_root = match here {
                        true if root == me => MPI_ROOT,
                        true => NOBODY,
                        false => root as c_int,
                    };
                    let mut all = vec![-1; remote * length];
                    let mut mine = block(me, root, length);
                    let (from, to) = (address(&mut mine), address(&mut all));
                    ok!(gather(from, count, int, to, count, int, as_root, inter));
                    let wanted: Vec<_> = (0..remote).flat_map(|from| block(from, root, length)).collect();
                    let none = vec![-1; remote * length];
                    assert_eq!(all, if as_root == MPI_ROOT { wanted.clone() } else { none.clone() });

                    // The block of rank r has r + 1 elements, and the last comes first.
                    let counts: Vec<_> = (1..=remote as c_int).collect();
                    let places: Vec<c_int> = (0..remote as c_int).map(|rank| {
                        (rank + 1..remote as c_int).map(|later| later + 1).sum()
                    }).collect();
                    let mut all = vec![-1; remote * (remote + 1) / 2];
                    let mut mine = block(me, root, me + 1);
                    let (from, to) = (address(&mut mine), address(&mut all));
                    let (counts, places) = (Ints::from(counts.as_ptr()), Ints::from(places.as_ptr()));
                    ok!(gatherv(from, me as Count + 1, int, to, counts, places, int, as_root, inter));
                    let backwards: Vec<_> = (0..remote).rev().flat_map(|from| block(from, root, from + 1)).collect();
                    if as_root == MPI_ROOT {
                        assert_eq!(all, backwards);
                    }

                    let mut all: Vec<_> = (0..remote).flat_map(|to| block(root, to, length)).collect();
                    let mut mine = vec![-1; length];
                    let (from, to) = (address(&mut all), address(&mut mine));
                    ok!(scatter(from, count, int, to, count, int, as_root, inter));
                    let wanted = if here { vec![-1; length] } else { block(root, me, length) };
                    assert_eq!(mine, wanted);

                    let mut all: Vec<_> = (0..remote).rev().flat_map(|to| block(root, to, to + 1)).collect();
                    let mut mine = vec![-1; me + 1];
                    let (from, to) = (address(&mut all), address(&mut mine));
                    ok!(scatterv(from, counts, places, int, to, me as Count + 1, int, as_root, inter));
                    let wanted = if here { vec![-1; me + 1] } else { block(root, me, me + 1) };
                    assert_eq!(mine, wanted);
                }
            }
        }
    });
}

#[test]
fn exchanges() {
    across(|sides| {
        let &Sides { inter, me, local, remote, .. } = sides;
        let int = predefined(INT);
        for length in [1usize, 500] {
            let count = length as Count;
            let mut half = every_second(count);
            let mut mine = block(me, 0, length);
            let mut all = vec![-1; 2 * remote * length];
            ok!(allgather(address(&mut mine), count, int, address(&mut all), 1, half, inter));
            let wanted: Vec<_> = (0..remote).map(|from| block(from, 0, length)).collect();
            assert_eq!(all, sparse(&wanted));

            let counts = vec![count; remote];
            let places: Vec<_> = (0..remote as Count).rev().map(|rank| rank * count).collect();
            let (counts, places) = (Ints::from(counts.as_ptr()), Ints::from(places.as_ptr()));
            let mut all = vec![-1; remote * length];
            let (from, to) = (address(&mut mine), address(&mut all));
            ok!(allgatherv(from, count, int, to, counts, places, int, inter));
            let wanted: Vec<_> = (0..remote).rev().flat_map(|from| block(from, 0, length)).collect();
            assert_eq!(all, wanted);

            let mut mine: Vec<_> = (0..remote).map(|to| block(me, to, length)).collect();
            let mut sent = sparse(&mine);
            let (from, to) = (address(&mut sent), address(&mut all));
            ok!(alltoall(from, 1, half, to, count, int, inter));
            let wanted: Vec<_> = (0..remote).flat_map(|from| block(from, me, length)).collect();
            assert_eq!(all, wanted);

            let mut backwards = vec![-1; remote * length];
            mine.reverse();
            let mut sent = mine.concat();
            let (from, to) = (address(&mut sent), address(&mut backwards));
            ok!(alltoallv(from, counts, places, int, to, counts, places, int, inter));
            let wanted: Vec<_> = (0..remote).rev().flat_map(|from| block(from, me, length)).collect();
            assert_eq!(backwards, wanted);

            let types = vec![int; remote];
            let bytes: Vec<_> = (0..remote as Count).rev().map(|rank| 4 * rank * count).collect();
            let (bytes, types) = (Ints::from(bytes.as_ptr()), Handles::from(types.as_ptr()));
            let mut again = vec![-1; remote * length];
            let (from, to) = (address(&mut sent), address(&mut again));
            ok!(alltoallw(from, counts, bytes, types, to, counts, bytes, types, inter));
            assert_eq!(again, wanted);
            ok!(type_free(&mut half));
        }
        assert!(local > 0);
    });
}

/// Returns twice the lower element plus the upper one, so that the order counts.
unsafe extern "C" fn twice_and(
    lower: *mut c_void,
    upper: *mut c_void,
    length: *mut c_int,
    _: *mut Handle,
) {
    // SAFETY: the library gives two arrays of this length.
    unsafe {
        for at in 0..*length as usize {
            let (lower, upper) = (lower.cast::<i32>().add(at), upper.cast::<i32>().add(at));
            *upper = (*lower).wrapping_mul(2).wrapping_add(*upper);
        }
    }
}

#[test]
fn combinations() {
    across(|sides| {
        let &Sides { inter, me, local, remote, side, .. } = sides;
        let int = predefined(INT);
        let mut ordered = null_mut();
        ok!(op_create(Some(twice_and), 0, &mut ordered));
        // A number of elements that both groups can share out.
        let length = 6 * local * remote;
        let vector = |side: usize, rank: usize| -> Vec<i32> {
            (0..length).map(|place| (side * 100 + rank * 10 + place % 7) as i32).collect()
        };
        let combined = |side: usize, ranks: usize, op: Handle| {
            let mut all = vector(side, 0);
            for rank in 1..ranks {
                for (one, other) in all.iter_mut().zip(vector(side, rank)) {
                    *one = match op {
                        MPI_SUM => *one + other,
                        MPI_MAX => other.max(*one),
                        _ => one.wrapping_mul(2).wrapping_add(other),
                    };
                }
            }
            all
        };
        for op in [MPI_SUM, MPI_MAX, ordered] {
            let wanted = combined(1 - side, remote, op);
            let (mut mine, count) = (vector(side, me), length as Count);
            let mut result = vec![-1; length];
            let (from, to) = (address(&mut mine), address(&mut result));
            ok!(allreduce(from, to, count, int, op, inter));
            assert_eq!(result, wanted);

            for root_side in [0, 1] {
                let (here, last) = (side == root_side, if side == root_side { local } else { remote } - 1);
                let as_root = match here {
                    true if me == last => MPI_ROOT,
                    true => NOBODY,
                    false => last as c_int,
                };
                result.fill(-1);
                ok!(reduce(from, to, count, int, op, as_root, inter));
                assert_eq!(result, if as_root == MPI_ROOT { wanted.clone() } else { vec![-1; length] });
            }

            let share = length / local;
            let mut result = vec![-1; share];
            ok!(reduce_scatter_block(from, address(&mut result), share as Count, int, op, inter));
            assert_eq!(result, wanted[me * share..][..share]);

            // The first rank gets all but one element of each of the others.
            let counts: Vec<c_int> =
                (0..local).map(|rank| if rank == 0 { length - local + 1 } else { 1 } as c_int).collect();
            let first = if me == 0 { 0 } else { length - local + me };
            let mut result = vec![-1; counts[me] as usize];
            let counts = Ints::from(counts.as_ptr());
            ok!(reduce_scatter(from, address(&mut result), counts, int, op, inter));
            assert_eq!(result, wanted[first..][..result.len()]);
        }
        ok!(op_free(&mut ordered));
    });
}

#[test]
fn what_is_not_for_intercommunicators() {
    across(|sides| {
        let (inter, int) = (sides.inter, predefined(INT));
        let (mut one, mut other) = ([1], [2]);
        let (from, to) = (address(&mut one), address(&mut other));
        // SAFETY: the communicator is there, and the buffers have one element.
        unsafe {
            assert_eq!(scan(from, to, 1, int, MPI_SUM, inter), MPI_ERR_COMM);
            assert_eq!(exscan(from, to, 1, int, MPI_SUM, inter), MPI_ERR_COMM);
            assert_eq!(bcast(from, 1, int, sides.remote as c_int, inter), MPI_ERR_ROOT);
            let mut all = vec![0u8; sides.remote];
            let place = in_place();
            let all = address(&mut all);
            assert_eq!(allgather(place, 0, MPI_BYTE, all, 1, MPI_BYTE, inter), MPI_ERR_BUFFER);
        }
    });
}
