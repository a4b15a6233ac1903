//! Nonblocking and blocking operations of one communicator that ranks call in different orders.

use mp_collectives::collectives::{Check, Settings};

use super::*;
use crate::{
    calls::{
        collectives::*, communicators::comm_free, grids::cart_create, neighbourhoods::*,
        nonblocking_collectives::*, persistent_collectives::*, point_to_point::start, requests::*,
    },
    constants::{MPI_BAND, MPI_MAX, MPI_ROOT, MPI_SUCCESS, MPI_SUM},
    ints::Ints,
};

type Numbers = Vec<i32>;

/// What operations are called with.
struct Place {
    comm: Handle,
    root: c_int,
    is_root: bool,
    /// A block of one `int` for each rank or neighbour.
    counts: Vec<c_int>,
    displacements: Vec<c_int>,
    /// What this rank sends.
    mine: Numbers,
}

impl Place {
    fn new(comm: Handle, me: usize, (root, is_root): (c_int, bool), blocks: usize) -> Self {
        let displacements = 0..blocks as c_int;
        let mine = displacements.clone().map(|block| 100 * me as i32 + block).collect();
        Self {
            comm,
            root,
            is_root,
            counts: vec![1; blocks],
            displacements: displacements.collect(),
            mine,
        }
    }

    /// Returns other numbers to send for each call, and a place for what comes.
    fn numbers(&self, call: i32) -> [Numbers; 2] {
        let sent = self.mine.iter().map(|number| 10_000 * call + number).collect();
        [sent, vec![-1; self.mine.len()]]
    }
}

/// An operation: all of it, begun, and prepared to be started.
struct Forms {
    name: &'static str,
    whole: fn(&Place, &mut [Numbers; 2]),
    begin: fn(&Place, &mut [Numbers; 2]) -> Handle,
    prepare: fn(&Place, &mut [Numbers; 2]) -> Handle,
}

/// Returns the forms of operations that have these arguments before the communicator.
macro_rules! forms {
    (|$at:ident, $from:ident, $to:ident, $int:ident|
        $($name:ident, $nonblocking:ident, $persistent:ident ($($argument:expr),*);)*) => {
        vec![$(Forms {
            name: stringify!($name),
            whole: |$at, [from, to]| {
                let [$from, $to, $int] = [address(from), address(to), predefined(INT)];
                let _ = [$from, $to, $int];
                ok!($name($($argument,)* $at.comm));
            },
            begin: |$at, [from, to]| {
                let [$from, $to, $int] = [address(from), address(to), predefined(INT)];
                let (_, mut request) = ([$from, $to, $int], null_mut());
                ok!($nonblocking($($argument,)* $at.comm, &mut request));
                request
            },
            prepare: |$at, [from, to]| {
                let [$from, $to, $int] = [address(from), address(to), predefined(INT)];
                let (_, mut request) = ([$from, $to, $int], null_mut());
                ok!($persistent($($argument,)* $at.comm, null_mut(), &mut request));
                request
            },
        }),*]
    };
}

fn of_all_communicators() -> Vec<Forms> {
    forms! { |at, from, to, int|
        barrier, ibarrier, barrier_init ();
        bcast, ibcast, bcast_init (if at.is_root { from } else { to }, 1, int, at.root);
        gather, igather, gather_init (from, 1, int, to, 1, int, at.root);
        gatherv, igatherv, gatherv_init
            (from, 1, int, to, ints(&at.counts), ints(&at.displacements), int, at.root);
        scatter, iscatter, scatter_init (from, 1, int, to, 1, int, at.root);
        scatterv, iscatterv, scatterv_init
            (from, ints(&at.counts), ints(&at.displacements), int, to, 1, int, at.root);
        allgather, iallgather, allgather_init (from, 1, int, to, 1, int);
        allgatherv, iallgatherv, allgatherv_init
            (from, 1, int, to, ints(&at.counts), ints(&at.displacements), int);
        alltoall, ialltoall, alltoall_init (from, 1, int, to, 1, int);
        alltoallv, ialltoallv, alltoallv_init
            (from, ints(&at.counts), ints(&at.displacements), int,
             to, ints(&at.counts), ints(&at.displacements), int);
        reduce, ireduce, reduce_init (from, to, 1, int, MPI_SUM, at.root);
        allreduce, iallreduce, allreduce_init (from, to, 1, int, MPI_MAX);
        allreduce, iallreduce, allreduce_init (from, to, 1, int, MPI_BAND);
    }
}

fn of_one_group() -> Vec<Forms> {
    forms! { |at, from, to, int|
        reduce_scatter, ireduce_scatter, reduce_scatter_init
            (from, to, ints(&at.counts), int, MPI_SUM);
        reduce_scatter_block, ireduce_scatter_block, reduce_scatter_block_init
            (from, to, 1, int, MPI_MAX);
        scan, iscan, scan_init (from, to, 1, int, MPI_SUM);
        exscan, iexscan, exscan_init (from, to, 1, int, MPI_SUM);
    }
}

fn of_neighbours() -> Vec<Forms> {
    forms! { |at, from, to, int|
        neighbor_allgather, ineighbor_allgather, neighbor_allgather_init
            (from, 1, int, to, 1, int);
        neighbor_allgatherv, ineighbor_allgatherv, neighbor_allgatherv_init
            (from, 1, int, to, ints(&at.counts), ints(&at.displacements), int);
        neighbor_alltoall, ineighbor_alltoall, neighbor_alltoall_init (from, 1, int, to, 1, int);
        neighbor_alltoallv, ineighbor_alltoallv, neighbor_alltoallv_init
            (from, ints(&at.counts), ints(&at.displacements), int,
             to, ints(&at.counts), ints(&at.displacements), int);
    }
}

fn ints(numbers: &[c_int]) -> Ints {
    Ints::Small(numbers.as_ptr())
}

/// Lets the ranks of a communicator, and of those made from it, call in different orders.
fn unchecked<'a>(comm: Handle) -> &'a Comm {
    with(Check::Off, comm)
}

fn with<'a>(check: Check, comm: Handle) -> &'a Comm {
    // SAFETY: the handle is one of a communicator that is there during the test.
    let comm = unsafe { Comm::look(comm) }.unwrap();
    let settings = Settings { check, ..Settings::default() };
    comm.communicator.set_collectives(settings).unwrap();
    comm
}

/// Begins each operation before a blocking one on some ranks, and after it on the others.
fn in_both_orders(place: &Place, all: &[Forms], begins_first: bool) {
    let alone = |forms: &Forms, call| {
        let mut numbers = place.numbers(call);
        (forms.whole)(place, &mut numbers);
        numbers
    };
    for (number, begun) in all.iter().enumerate() {
        // A blocking operation of another kind, of the same, and of yet another.
        for whole in [&all[0], begun, &all[(number + 1) % all.len()]] {
            let expected = [alone(begun, 1), alone(whole, 2)];
            for is_persistent in [false, true] {
                let [mut meanwhile, mut at_once] = [1, 2].map(|call| place.numbers(call));
                let mut request = match is_persistent {
                    true => (begun.prepare)(place, &mut meanwhile),
                    false => null_mut(),
                };
                let mut begin = || match is_persistent {
                    true => ok!(start(&mut request)),
                    false => request = (begun.begin)(place, &mut meanwhile),
                };
                match begins_first {
                    true => {
                        begin();
                        (whole.whole)(place, &mut at_once);
                    }
                    false => {
                        (whole.whole)(place, &mut at_once);
                        begin();
                    }
                }
                ok!(wait(&mut request, NONE));
                if is_persistent {
                    ok!(request_free(&mut request));
                }
                let names = (begun.name, whole.name, is_persistent);
                assert_eq!([meanwhile, at_once], expected, "{names:?}");
            }
        }
    }
}

#[test]
fn of_ranks_with_threads() {
    for size in [1, 2, 3, 5] {
        on_ranks(size, |comm, me, size| {
            unchecked(comm).set_threads(true);
            let root = size - 1;
            let place = Place::new(comm, me, (root as c_int, me == root), size);
            let mut all = of_all_communicators();
            all.extend(of_one_group());
            in_both_orders(&place, &all, me % 2 == 0);
        });
    }
}

#[test]
fn of_two_groups() {
    on_ranks_of_several(|world, size| {
        unchecked(world);
        let Sides { mut inter, side, me, .. } = Sides::new(world, size / 2, false);
        let (root, is_root) = match (side, me) {
            (0, 0) => (MPI_ROOT, true),
            (0, _) => (NOBODY, false),
            _ => (0, false),
        };
        let place = Place::new(inter, 10 * side + me, (root, is_root), size);
        in_both_orders(&place, &of_all_communicators(), me % 2 == side);
        ok!(comm_free(&mut inter));
    });
}

#[test]
fn of_neighbours_in_a_grid() {
    for size in [1, 2, 3, 5] {
        on_ranks(size, |comm, me, size| {
            unchecked(comm);
            let (length, around, mut grid) = (size as c_int, 1, null_mut());
            ok!(cart_create(comm, 1, &length, &around, 0, &mut grid));
            let place = Place::new(grid, me, (0, false), 2);
            in_both_orders(&place, &of_neighbours(), me % 2 == 0);
            ok!(comm_free(&mut grid));
        });
    }
}

#[test]
fn ranks_that_compare_their_calls_are_told() {
    for is_threaded in [true, false] {
        on_ranks(3, |comm, me, _| {
            with(Check::On, comm).set_threads(is_threaded);
            let (mut request, [mut mine, mut sum]) = (null_mut(), [[1i32]; 2]);
            let mut begin = || {
                let (from, to) = (address(&mut mine), address(&mut sum));
                ok!(iallreduce(from, to, 1, predefined(INT), MPI_SUM, comm, &mut request));
            };
            let wait_in_barrier = || {
                // SAFETY: the handle is one of a communicator.
                let code = unsafe { barrier(comm) };
                assert_ne!(code, MPI_SUCCESS, "rank {me}, threads: {is_threaded}");
            };
            if me == 0 {
                begin();
                wait_in_barrier();
            } else {
                wait_in_barrier();
                begin();
            }
            // SAFETY: the request is one that was begun.
            assert_ne!(unsafe { wait(&mut request, NONE) }, MPI_SUCCESS);
        });
    }
}
