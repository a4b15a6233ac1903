//! Communicators of the ranks in one part of the machine.

use mp_core::topology::{Topology, pin_current_thread};

use super::*;
use crate::{
    calls::{communicators::*, groups::*, hardware::*, info::*},
    constants::{
        MPI_COMM_NULL, MPI_COMM_TYPE_HW_GUIDED, MPI_COMM_TYPE_HW_UNGUIDED,
        MPI_COMM_TYPE_RESOURCE_GUIDED, MPI_COMM_TYPE_SHARED, MPI_ERR_ARG, MPI_INFO_NULL,
        MPI_UNDEFINED,
    },
};

/// Runs ranks, each on one CPU: two of them, if there are two. Gives each its place among those.
fn on_cpus(ranks: usize, code: impl Fn(Handle, usize, usize, usize) + Send + Sync) {
    let machine = Topology::read().unwrap();
    let cpus: Vec<usize> = machine.usable_cpus().iter().take(2).collect();
    on_ranks(ranks, |comm, me, size| {
        let place = me % cpus.len();
        pin_current_thread(cpus[place]).unwrap();
        code(comm, me, size.min(cpus.len()), place);
    });
}

/// Splits a communicator, and returns the ranks of the part.
fn part(comm: Handle, kind: c_int, info: Handle) -> Option<Vec<c_int>> {
    let mut part = null_mut();
    ok!(comm_split_type(comm, kind, 0, info, &mut part));
    if part == MPI_COMM_NULL {
        return None;
    }
    let (mut all, mut group, mut size) = (null_mut(), null_mut(), 0);
    ok!(comm_group(comm, &mut all));
    ok!(comm_group(part, &mut group));
    ok!(group_size(group, &mut size));
    let (places, mut ranks): (Vec<c_int>, _) = ((0..size).collect(), vec![-1; size as usize]);
    ok!(group_translate_ranks(group, size, places.as_ptr(), all, ranks.as_mut_ptr()));
    ok!(group_free(&mut all));
    ok!(group_free(&mut group));
    ok!(comm_free(&mut part));
    Some(ranks)
}

/// Splits a communicator by what an info says.
fn by(
    comm: Handle,
    kind: c_int,
    key: &std::ffi::CStr,
    value: &std::ffi::CStr,
) -> Option<Vec<c_int>> {
    let mut info = null_mut();
    ok!(info_create(&mut info));
    ok!(info_set(info, key.as_ptr(), value.as_ptr()));
    let ranks = part(comm, kind, info);
    ok!(info_free(&mut info));
    ranks
}

#[test]
fn parts_that_the_program_names() {
    for ranks in [1, 2, 3, 5] {
        on_cpus(ranks, |comm, me, cpus, place| {
            let all: Vec<c_int> = (0..ranks as c_int).collect();
            let beside: Vec<c_int> =
                all.iter().copied().filter(|&rank| rank as usize % cpus == place % cpus).collect();
            for kind in [MPI_COMM_TYPE_HW_GUIDED, MPI_COMM_TYPE_RESOURCE_GUIDED] {
                let named = |value| by(comm, kind, c"mpi_hw_resource_type", value);
                assert_eq!(named(c"mpi_shared_memory"), Some(all.clone()));
                assert_eq!(named(c"hwloc://Machine"), Some(all.clone()));
                assert_eq!(named(c"hwloc://PU"), Some(beside.clone()));
                assert_eq!(named(c"hwloc://Unheard"), None);
                assert_eq!(part(comm, kind, MPI_INFO_NULL), None);
            }
            let set = |value| by(comm, MPI_COMM_TYPE_RESOURCE_GUIDED, c"mpi_pset_name", value);
            assert_eq!(set(c"mpi://WORLD"), Some(all.clone()));
            assert_eq!(set(c"mpi://SELF"), Some(vec![me as c_int]));
            assert_eq!(set(c"app://ocean"), None);
            assert_eq!(part(comm, MPI_COMM_TYPE_SHARED, MPI_INFO_NULL), Some(all.clone()));
            let mut none = null_mut();
            // SAFETY: a kind that there is not is refused.
            let code = unsafe { comm_split_type(comm, 7, 0, MPI_INFO_NULL, &mut none) };
            assert_eq!(code, MPI_ERR_ARG);
        });
    }
}

#[test]
fn the_largest_part_without_some_ranks() {
    for ranks in [1, 2, 3, 5] {
        on_cpus(ranks, |comm, me, cpus, place| {
            let found = part(comm, MPI_COMM_TYPE_HW_UNGUIDED, MPI_INFO_NULL);
            let beside = (0..ranks as c_int).filter(|&rank| rank as usize % cpus == place % cpus);
            // With two CPUs there is a part for each, and with one no smaller part.
            assert_eq!(found, (cpus == 2).then(|| beside.collect()));
            // The first rank wants no part, so that the others are fewer than all already.
            let kind = if me == 0 { MPI_UNDEFINED } else { MPI_COMM_TYPE_HW_UNGUIDED };
            let found = part(comm, kind, MPI_INFO_NULL);
            assert_eq!(found, (me > 0).then(|| (1..ranks as c_int).collect()));
        });
    }
}

#[test]
fn parts_are_named_in_an_info() {
    on_cpus(1, |_, _, _, _| {
        let mut info = null_mut();
        ok!(get_hw_resource_info(&mut info));
        for name in [c"mpi_shared_memory", c"hwloc://Machine", c"hwloc://Core", c"hwloc://PU"] {
            let (mut length, mut value, mut flag) = (8, [0; 8], 0);
            ok!(info_get_string(info, name.as_ptr(), &mut length, value.as_mut_ptr(), &mut flag));
            // SAFETY: the call has ended the text with a zero.
            let value = unsafe { std::ffi::CStr::from_ptr(value.as_ptr()) };
            assert_eq!((flag, value), (1, c"true"), "{name:?}");
        }
        ok!(info_free(&mut info));
    });
}
