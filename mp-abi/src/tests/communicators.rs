use std::{
    ffi::{CStr, c_char, c_int},
    ptr::null_mut,
};

use super::*;
use crate::{
    calls::{communicators::*, groups::*, hardware::*, point_to_point::*},
    constants::{
        MPI_COMM_NULL, MPI_COMM_TYPE_HW_GUIDED, MPI_COMM_TYPE_SHARED, MPI_CONGRUENT, MPI_ERR_COMM,
        MPI_GROUP_NULL, MPI_IDENT, MPI_INFO_NULL, MPI_SIMILAR, MPI_UNDEFINED, MPI_UNEQUAL,
    },
};

fn rank_and_size(comm: Handle) -> (c_int, c_int) {
    let (mut rank, mut size) = (-1, -1);
    ok!(comm_rank(comm, &mut rank));
    ok!(comm_size(comm, &mut size));
    (rank, size)
}

#[test]
fn no_communicator_has_a_name() {
    let (mut name, mut length) = ([0; 128], 0);
    ok!(comm_get_name(MPI_COMM_NULL, name.as_mut_ptr(), &mut length));
    // SAFETY: the call has written a text.
    assert_eq!(unsafe { CStr::from_ptr(name.as_ptr()) }, c"MPI_COMM_NULL");
    assert_eq!(length, 13);
}

fn compared(one: Handle, other: Handle) -> c_int {
    let mut result = 0;
    ok!(comm_compare(one, other, &mut result));
    result
}

#[test]
fn duplicates_have_messages_of_their_own() {
    on_ranks(2, |comm, me, _| {
        let int = predefined(INT);
        let mut copy = null_mut();
        ok!(comm_dup(comm, &mut copy));
        assert_eq!((compared(comm, copy), compared(copy, copy)), (MPI_CONGRUENT, MPI_IDENT));
        if me == 0 {
            ok!(send(address(&mut [1]), 1, int, 1, 0, comm));
            ok!(send(address(&mut [2]), 1, int, 1, 0, copy));
        } else {
            let mut number = [0];
            ok!(recv(address(&mut number), 1, int, 0, 0, copy, NONE));
            assert_eq!(number, [2]);
            ok!(recv(address(&mut number), 1, int, 0, 0, comm, NONE));
            assert_eq!(number, [1]);
        }
        ok!(comm_free(&mut copy));
        assert_eq!(copy, MPI_COMM_NULL);
        let mut rank = 0;
        // SAFETY: the null handle is refused.
        assert_eq!(unsafe { comm_rank(copy, &mut rank) }, MPI_ERR_COMM);
    });
}

#[test]
fn splits_and_groups() {
    on_ranks(5, |comm, me, size| {
        let mut part = null_mut();
        let color = if me == 4 { MPI_UNDEFINED } else { me as c_int % 2 };
        ok!(comm_split(comm, color, -(me as c_int), &mut part));
        if me == 4 {
            assert_eq!(part, MPI_COMM_NULL);
        } else {
            assert_eq!(rank_and_size(part), (1 - me as c_int / 2, 2));
            assert_eq!(compared(comm, part), MPI_UNEQUAL);
            ok!(comm_free(&mut part));
        }
        ok!(comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &mut part));
        assert_eq!(compared(comm, part), MPI_CONGRUENT);
        ok!(comm_disconnect(&mut part));
        assert_eq!(part, MPI_COMM_NULL);
        ok!(comm_split_type(comm, MPI_COMM_TYPE_HW_GUIDED, 0, MPI_INFO_NULL, &mut part));
        assert_eq!(part, MPI_COMM_NULL);
        ok!(comm_split(comm, 0, -(me as c_int), &mut part));
        assert_eq!(compared(comm, part), MPI_SIMILAR);
        ok!(comm_free(&mut part));

        // Disjoint groups at once; the middle rank names none.
        let (mut all, mut some) = (null_mut(), null_mut());
        ok!(comm_group(comm, &mut all));
        let ranks = if me < 2 { vec![1, 0] } else { vec![3, 4] };
        let ranks = if me == 2 { vec![] } else { ranks };
        ok!(group_incl(all, ranks.len() as c_int, ranks.as_ptr(), &mut some));
        ok!(comm_create(comm, some, &mut part));
        match me {
            2 => assert_eq!(part, MPI_COMM_NULL),
            _ => {
                let place = ranks.iter().position(|&rank| rank == me as c_int).unwrap();
                assert_eq!(rank_and_size(part), (place as c_int, 2));
                ok!(comm_free(&mut part));
            }
        }
        let (mut places, wanted) = ([0; 2], [0, NOBODY]);
        ok!(group_translate_ranks(all, 2, wanted.as_ptr(), all, places.as_mut_ptr()));
        assert_eq!(places, wanted);
        ok!(group_size(all, &mut places[0]));
        ok!(group_rank(some, &mut places[1]));
        assert_eq!((places[0], places[1] >= 0), (size as c_int, me != 2));
        ok!(group_free(&mut some));
        ok!(group_free(&mut all));
        assert_eq!(all, MPI_GROUP_NULL);
    });
}

#[test]
fn names() {
    on_ranks(1, |comm, _, _| {
        ok!(comm_set_name(comm, c"ocean".as_ptr()));
        let (mut name, mut length) = ([1 as c_char; 128], 0);
        ok!(comm_get_name(comm, name.as_mut_ptr(), &mut length));
        // SAFETY: the call has ended the name with a zero.
        assert_eq!((unsafe { CStr::from_ptr(name.as_ptr()) }, length), (c"ocean", 5));
        let mut copy = null_mut();
        ok!(comm_dup(comm, &mut copy));
        ok!(comm_get_name(copy, name.as_mut_ptr(), &mut length));
        assert_eq!(length, 0);
        ok!(comm_free(&mut copy));
    });
}
