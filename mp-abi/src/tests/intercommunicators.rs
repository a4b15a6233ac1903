//! Intercommunicators: how they are made, what they are made into, and messages between their groups.

use super::*;
use crate::{
    calls::{
        attributes::*, buffers::*, communicators::*, groups::*, intercommunicators::*,
        matched_probes::*, point_to_point::*, requests::*,
    },
    constants::{
        MPI_COMM_NULL, MPI_CONGRUENT, MPI_ERR_COMM, MPI_ERR_RANK, MPI_ERR_TRUNCATE, MPI_IDENT,
        MPI_KEYVAL_INVALID, MPI_REQUEST_NULL, MPI_UNDEFINED, MPI_UNEQUAL,
    },
};

/// Runs code on worlds of several sizes.
pub(super) fn on_ranks_of_several(code: impl Fn(Handle, usize) + Send + Sync) {
    for size in [2, 3, 5, 8] {
        on_ranks(size, |world, _, _| code(world, size));
    }
}

/// An intercommunicator, and this rank's place in it.
pub(super) struct Sides {
    pub inter: Handle,
    pub side: usize,
    pub me: usize,
    pub local: usize,
    pub remote: usize,
    /// The ranks in the world of the remote group.
    pub others: Vec<usize>,
}

impl Sides {
    /// Makes an intercommunicator between the first ranks and the others, or between the last ones and the others.
    /// Their leaders are the last ranks of the groups.
    pub fn new(world: Handle, cut: usize, reversed: bool) -> Self {
        let (me, size) = of(world);
        let key = if reversed { -(me as c_int) } else { me as c_int };
        let (mut local, mut inter) = (null_mut(), null_mut());
        let place = if reversed { size - 1 - me } else { me };
        let side = usize::from(place >= cut);
        ok!(comm_split(world, side as c_int, key, &mut local));
        let (rank, ranks) = of(local);
        let in_world = |place: usize| if reversed { size - 1 - place } else { place };
        let (leader, other) = match side {
            0 => (cut - 1, size - 1),
            _ => (size - 1 - cut, cut - 1),
        };
        let other = in_world(other) as c_int;
        // Only the leader's communicator of both leaders counts.
        let peers = if rank == leader { world } else { MPI_COMM_NULL };
        ok!(intercomm_create(local, leader as c_int, peers, other, 12, &mut inter));
        ok!(comm_free(&mut local));
        let others = if side == 0 { cut..size } else { 0..cut };
        let others = others.map(in_world).collect();
        Self { inter, side, me: rank, local: ranks, remote: size - ranks, others }
    }
}

/// Returns the rank and the size of a communicator.
fn of(comm: Handle) -> (usize, usize) {
    let (mut rank, mut size) = (0, 0);
    ok!(comm_rank(comm, &mut rank));
    ok!(comm_size(comm, &mut size));
    (rank as usize, size as usize)
}

fn remote_size(comm: Handle) -> usize {
    let mut size = 0;
    ok!(comm_remote_size(comm, &mut size));
    size as usize
}

fn compared(one: Handle, other: Handle) -> c_int {
    let mut result = -1;
    ok!(comm_compare(one, other, &mut result));
    result
}

/// Sends a number to each rank of the other side, and receives one from each.
fn greet(inter: Handle, me: usize, remote: usize) {
    let int = predefined(INT);
    let mut requests = vec![MPI_REQUEST_NULL; remote];
    let mut numbers: Vec<_> = (0..remote).map(|to| (me * 100 + to) as i32).collect();
    for (to, request) in requests.iter_mut().enumerate() {
        let number = address(&mut numbers[to..]);
        ok!(isend(number, 1, int, to as c_int, 3, inter, request));
    }
    for from in 0..remote {
        let (mut number, mut told) = ([-1], status());
        ok!(recv(address(&mut number), 1, int, from as c_int, 3, inter, &mut told));
        assert_eq!((number[0], told.source), ((from * 100 + me) as i32, from as c_int));
    }
    ok!(waitall(remote as c_int, requests.as_mut_ptr(), NONE));
}

#[test]
fn groups_of_both_sides() {
    on_ranks_of_several(|world, size| {
        for (cut, reversed) in [(1, false), (size - 1, false), (size / 2, true)] {
            let Sides { mut inter, me, local, remote, others, .. } =
                Sides::new(world, cut, reversed);
            assert_eq!((of(inter), remote_size(inter)), ((me, local), remote));
            let mut flags = [-1; 2];
            ok!(comm_test_inter(inter, &mut flags[0]));
            ok!(comm_test_inter(world, &mut flags[1]));
            assert_eq!(flags, [1, 0]);
            let (mut theirs, mut all) = (null_mut(), null_mut());
            ok!(comm_remote_group(inter, &mut theirs));
            ok!(comm_group(world, &mut all));
            let wanted: Vec<_> = others.iter().map(|&rank| rank as c_int).collect();
            let (ranks, mut places) = ((0..remote as c_int).collect::<Vec<_>>(), vec![-1; remote]);
            ok!(group_translate_ranks(
                theirs,
                remote as c_int,
                ranks.as_ptr(),
                all,
                places.as_mut_ptr()
            ));
            assert_eq!(places, wanted);
            let mut rank = 0;
            ok!(group_rank(theirs, &mut rank));
            assert_eq!(rank, MPI_UNDEFINED);
            ok!(group_free(&mut theirs));
            ok!(group_free(&mut all));
            assert_eq!((compared(inter, inter), compared(inter, world)), (MPI_IDENT, MPI_UNEQUAL));
            // SAFETY: the handles are valid.
            unsafe {
                assert_eq!(comm_remote_size(world, &mut rank), MPI_ERR_COMM);
                assert_eq!(comm_remote_group(world, &mut theirs), MPI_ERR_COMM);
                assert_eq!(intercomm_merge(world, 0, &mut theirs), MPI_ERR_COMM);
            }
            ok!(comm_disconnect(&mut inter));
            assert_eq!(inter, MPI_COMM_NULL);
        }
    });
}

#[test]
fn messages_in_all_modes() {
    on_ranks_of_several(|world, size| {
        for (cut, reversed) in [(1, false), (size / 2, true)] {
            let Sides { mut inter, side, me, remote, .. } = Sides::new(world, cut, reversed);
            let int = predefined(INT);
            greet(inter, me, remote);
            let (mut none, mut told) = ([5], status());
            ok!(send(address(&mut none), 1, int, NOBODY, 0, inter));
            ok!(recv(address(&mut none), 1, int, NOBODY, 0, inter, &mut told));
            assert_eq!((none[0], told.source), (5, NOBODY));
            // SAFETY: the buffer has one number.
            let outside = unsafe { send(address(&mut none), 1, int, remote as c_int, 0, inter) };
            assert_eq!(outside, MPI_ERR_RANK);
            // Rank 0 of side 0 sends in each mode to the last rank of the other side.
            let (last, length) = (remote as c_int - 1, 20_000);
            let mut data: Vec<i32> = (0..length).collect();
            let from = address(&mut data);
            if side == 0 && me == 0 {
                ok!(ssend(from, 10, int, last, 1, inter));
                ok!(rsend(from, 10, int, last, 1, inter));
                let mut room = vec![0i32; length as usize];
                ok!(comm_attach_buffer(inter, address(&mut room), 4 * length as i64));
                ok!(bsend(from, length as i64, int, last, 1, inter));
                let (mut given, mut size) = (null_mut::<c_void>(), 0);
                ok!(comm_detach_buffer(inter, (&raw mut given).cast(), &mut size));
                assert_eq!((given, size), (address(&mut room), 4 * length as i64));
                let mut request = MPI_REQUEST_NULL;
                ok!(send_init(from, 10, int, last, 1, inter, &mut request));
                for _ in 0..2 {
                    ok!(start(&mut request));
                    ok!(wait(&mut request, NONE));
                }
                ok!(request_free(&mut request));
                for _ in 0..4 {
                    ok!(send(from, 10, int, last, 7, inter));
                }
                let mut answer = [0];
                ok!(sendrecv(
                    from,
                    1,
                    int,
                    last,
                    8,
                    address(&mut answer),
                    1,
                    int,
                    last,
                    9,
                    inter,
                    &mut told
                ));
                assert_eq!((answer[0], told.source, told.tag), (77, last, 9));
            }
            if side == 1 && me + 1 == of(inter).1 {
                let mut got = vec![-1; length as usize];
                let to = address(&mut got);
                for longest in [10, 10, length] {
                    ok!(recv(to, length as i64, int, ANY, ANY_TAG, inter, &mut told));
                    assert_eq!((told.source, told.tag, count(&told, INT)), (0, 1, longest.into()));
                }
                assert_eq!(got, data);
                let mut request = MPI_REQUEST_NULL;
                ok!(recv_init(to, 10, int, ANY, 1, inter, &mut request));
                for _ in 0..2 {
                    ok!(start(&mut request));
                    ok!(wait(&mut request, &mut told));
                    assert_eq!((told.source, count(&told, INT)), (0, 10));
                }
                ok!(request_free(&mut request));
                ok!(probe(ANY, 7, inter, &mut told));
                assert_eq!((told.source, count(&told, INT)), (0, 10));
                let mut flag = 0;
                ok!(iprobe(0, 7, inter, &mut flag, &mut told));
                assert_eq!((flag, told.source), (1, 0));
                ok!(irecv(to, 10, int, ANY, 7, inter, &mut request));
                ok!(wait(&mut request, &mut told));
                assert_eq!(told.source, 0);
                let mut message = null_mut();
                ok!(mprobe(ANY, 7, inter, &mut message, &mut told));
                assert_eq!(told.source, 0);
                told.source = 77;
                ok!(mrecv(to, 10, int, &mut message, &mut told));
                assert_eq!(told.source, 0);
                flag = 0;
                while flag == 0 {
                    ok!(improbe(0, 7, inter, &mut flag, &mut message, &mut told));
                }
                assert_eq!((flag, told.source), (1, 0));
                ok!(imrecv(to, 10, int, &mut message, &mut request));
                told.source = 77;
                ok!(wait(&mut request, &mut told));
                assert_eq!(told.source, 0);
                // SAFETY: the buffer is long enough for what is to be received.
                let cut_off = unsafe { recv(to, 4, int, 0, 7, inter, &mut told) };
                assert_eq!((cut_off, told.source, count(&told, INT)), (MPI_ERR_TRUNCATE, 0, 4));
                ok!(recv(to, 1, int, ANY, 8, inter, &mut told));
                ok!(send(address(&mut [77]), 1, int, told.source, 9, inter));
            }
            ok!(comm_free(&mut inter));
        }
    });
}

#[test]
fn merged() {
    on_ranks_of_several(|world, size| {
        for high in [0, 1] {
            let Sides { mut inter, side, me, local, remote, .. } =
                Sides::new(world, size / 2, false);
            let mut merged = null_mut();
            // The side that says that it is the higher one comes last.
            ok!(intercomm_merge(inter, (side == high).into(), &mut merged));
            let before = if side == high { remote } else { 0 };
            assert_eq!(of(merged), (before + me, local + remote));
            let mut flag = -1;
            ok!(comm_test_inter(merged, &mut flag));
            assert_eq!(flag, 0);
            ok!(comm_free(&mut merged));
            // Both say the same: either order is right, if it is the same for all.
            ok!(intercomm_merge(inter, 1, &mut merged));
            let mut ranks = vec![-1; size];
            let mut mine = [side as i32];
            let int = predefined(INT);
            ok!(calls::collectives::allgather(
                address(&mut mine),
                1,
                int,
                address(&mut ranks),
                1,
                int,
                merged
            ));
            let changes = ranks.windows(2).filter(|pair| pair[0] != pair[1]).count();
            assert_eq!(changes, 1);
            ok!(comm_free(&mut merged));
            ok!(comm_free(&mut inter));
        }
    });
}

#[test]
fn copies_and_parts() {
    on_ranks_of_several(|world, size| {
        let Sides { mut inter, side, me, local, remote, .. } = Sides::new(world, size / 2, true);
        let (mut key, mut copy, mut part) = (MPI_KEYVAL_INVALID, null_mut(), null_mut());
        // `MPI_COMM_DUP_FN` is this number.
        // SAFETY: the library does not call a function at this address, but knows it.
        let copied = unsafe { std::mem::transmute::<usize, crate::types::CopyAttrFunction>(1) };
        ok!(comm_create_keyval(Some(copied), None, &mut key, null_mut()));
        let mut value = 5;
        ok!(comm_set_attr(inter, key, (&raw mut value).cast()));
        ok!(comm_dup(inter, &mut copy));
        assert_eq!(compared(inter, copy), MPI_CONGRUENT);
        assert_eq!((of(copy), remote_size(copy)), ((me, local), remote));
        let (mut found, mut flag) = (null_mut::<i32>(), 0);
        ok!(comm_get_attr(copy, key, (&raw mut found).cast(), &mut flag));
        assert_eq!((flag, found), (1, &raw mut value));
        greet(copy, me, remote);
        ok!(comm_free(&mut copy));
        ok!(comm_free_keyval(&mut key));

        // Every second rank of both sides, backwards. The others of the first side are alone with nobody.
        let color = if side == 0 { me % 2 } else { 0 } as c_int;
        ok!(comm_split(inter, color, -(me as c_int), &mut part));
        let (even, odd) = (local.div_ceil(2), local / 2);
        match (side, color) {
            (0, 0) => {
                assert_eq!((of(part), remote_size(part)), ((even - 1 - me / 2, even), remote));
                greet(part, even - 1 - me / 2, remote);
            }
            (0, _) => assert_eq!((part, odd > 0), (MPI_COMM_NULL, true)),
            _ => {
                assert_eq!(
                    (of(part), remote_size(part)),
                    ((local - 1 - me, local), remote.div_ceil(2))
                );
                greet(part, local - 1 - me, remote.div_ceil(2));
            }
        }
        if part != MPI_COMM_NULL {
            ok!(comm_free(&mut part));
        }

        // The last rank of each side.
        let (mut group, mut last) = (null_mut(), null_mut());
        ok!(comm_group(inter, &mut group));
        ok!(group_incl(group, 1, &(local as c_int - 1), &mut last));
        ok!(comm_create(inter, last, &mut part));
        assert_eq!(part == MPI_COMM_NULL, me + 1 != local);
        if part != MPI_COMM_NULL {
            assert_eq!((of(part), remote_size(part)), ((0, 1), 1));
            greet(part, 0, 1);
            ok!(comm_free(&mut part));
        }
        // One side has no rank.
        let mut some = null_mut();
        ok!(group_incl(group, 1 - side as c_int, &0, &mut some));
        ok!(comm_create(inter, some, &mut part));
        assert_eq!(part, MPI_COMM_NULL);
        ok!(group_free(&mut some));
        ok!(group_free(&mut last));
        ok!(group_free(&mut group));
        ok!(comm_free(&mut inter));
    });
}

#[test]
fn copies_that_are_made_meanwhile() {
    on_ranks_of_several(|world, size| {
        let Sides { mut inter, me, local, remote, .. } = Sides::new(world, size / 2, false);
        let (mut copies, mut requests) = ([MPI_COMM_NULL; 4], [MPI_REQUEST_NULL; 4]);
        for (place, copy) in copies.iter_mut().enumerate() {
            let comm = if place % 2 == 0 { inter } else { world };
            ok!(comm_idup(comm, (&raw mut *copy).into(), &mut requests[place]));
        }
        greet(inter, me, remote);
        ok!(waitall(4, requests.as_mut_ptr(), NONE));
        for (place, mut copy) in copies.into_iter().enumerate() {
            let comm = if place % 2 == 0 { inter } else { world };
            assert_eq!(compared(comm, copy), MPI_CONGRUENT);
            ok!(calls::collectives::barrier(copy));
            if place % 2 == 0 {
                assert_eq!((of(copy), remote_size(copy)), ((me, local), remote));
                greet(copy, me, remote);
            }
            ok!(comm_free(&mut copy));
        }
        ok!(comm_free(&mut inter));
    });
}

#[test]
fn made_by_the_ranks_of_a_group_alone() {
    on_ranks_of_several(|world, size| {
        let me = of(world).0;
        let (mut all, mut group, mut made) = (null_mut(), null_mut(), null_mut());
        ok!(comm_group(world, &mut all));
        // All but the first, backwards. The first does not call this.
        let ranks: Vec<_> = (1..size as c_int).rev().collect();
        ok!(group_incl(all, ranks.len() as c_int, ranks.as_ptr(), &mut group));
        for tag in [0, c_int::MAX] {
            if me > 0 {
                ok!(comm_create_group(world, group, tag, &mut made));
                assert_eq!(of(made), (size - 1 - me, size - 1));
                let (mut mine, mut sum) = ([me as i32], [0]);
                let int = predefined(INT);
                let (from, to) = (address(&mut mine), address(&mut sum));
                ok!(calls::collectives::allreduce(
                    from,
                    to,
                    1,
                    int,
                    crate::constants::MPI_SUM,
                    made
                ));
                assert_eq!(sum[0] as usize, size * (size - 1) / 2);
                ok!(comm_free(&mut made));
            }
        }
        ok!(group_free(&mut group));
        ok!(group_free(&mut all));
    });
}

#[test]
fn without_a_place_for_it_none_is_made() {
    on_ranks(1, |world, _, _| {
        // SAFETY: the handle is that of a communicator, and the call does not write.
        let code = unsafe { intercomm_create(world, 0, world, 1, 52, null_mut()) };
        assert_eq!(code, crate::constants::MPI_ERR_ARG);
    });
}
