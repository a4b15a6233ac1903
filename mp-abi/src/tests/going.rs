//! Nonblocking collective operations among other calls.

use mp_collectives::communicator::Check;

use super::*;
use crate::{
    calls::{
        collectives::*, communicators::comm_dup, nonblocking_collectives::*,
        persistent_collectives::*, point_to_point::*, requests::*,
    },
    constants::{
        MPI_BAND, MPI_ERR_COUNT, MPI_ERR_OP, MPI_ERR_ROOT, MPI_MAX, MPI_REQUEST_NULL, MPI_SUCCESS,
        MPI_SUM, MPI_UNDEFINED,
    },
    handles::sent,
};

const SIZES: [usize; 5] = [1, 2, 3, 5, 8];

#[test]
fn operations_go_on_while_ranks_wait_for_messages_and_in_blocking_operations() {
    for size in SIZES {
        for length in [1usize, 70_000] {
            on_ranks(size, |comm, me, size| {
                let (int, last) = (predefined(INT), size - 1);
                let mut data = if me == 0 { vec![7i32; length] } else { vec![0; length] };
                let (mut request, mut word) = (null_mut(), [0i32]);
                ok!(ibcast(address(&mut data), length as i64, int, 0, comm, &mut request));
                // The last rank has the data only if those between pass it on in their own calls.
                if me == last {
                    ok!(wait(&mut request, NONE));
                    for to in 0..last {
                        ok!(send(address(&mut word), 1, int, to as c_int, 3, comm));
                    }
                } else {
                    ok!(recv(address(&mut word), 1, int, last as c_int, 3, comm, NONE));
                }
                let (mut second, mut sum) = (null_mut(), vec![0i32; length]);
                let (from, to) = (address(&mut data), address(&mut sum));
                if me != last {
                    ok!(wait(&mut request, NONE));
                }
                ok!(iallreduce(from, to, length as i64, int, MPI_SUM, comm, &mut second));
                ok!(barrier(comm));
                ok!(wait(&mut second, NONE));
                assert!(sum.iter().all(|&number| number == 7 * size as i32));
            });
        }
    }
}

#[test]
fn several_operations_are_under_way_at_once_with_messages() {
    for size in SIZES {
        on_ranks(size, |comm, me, size| {
            let int = predefined(INT);
            let (next, before) = ((me + 1) % size, (me + size - 1) % size);
            let mut handles = [MPI_REQUEST_NULL; 6];
            let (mut mine, mut sum, mut most) = ([me as i32], [0i32], [0i32]);
            let (mut all, mut data, mut got) = (vec![0i32; size], [me as i32 * 10], [-1i32]);
            let at =
                |place: usize, handles: &mut [Handle; 6]| -> *mut Handle { &mut handles[place] };
            let own = address(&mut mine);
            ok!(iallreduce(own, address(&mut sum), 1, int, MPI_SUM, comm, at(0, &mut handles)));
            ok!(irecv(address(&mut got), 1, int, before as c_int, 9, comm, at(1, &mut handles)));
            let (to, count) = (address(&mut all), 1);
            ok!(iallgather(own, 1, int, to, count, int, comm, at(2, &mut handles)));
            ok!(iscan(own, address(&mut most), 1, int, MPI_SUM, comm, at(3, &mut handles)));
            ok!(ibarrier(comm, at(4, &mut handles)));
            ok!(isend(address(&mut data), 1, int, next as c_int, 9, comm, at(5, &mut handles)));
            let mut seen = Vec::new();
            match me % 3 {
                0 => ok!(waitall(6, handles.as_mut_ptr(), NONE)),
                1 => loop {
                    let mut index = 0;
                    ok!(waitany(6, handles.as_mut_ptr(), &mut index, NONE));
                    if index == MPI_UNDEFINED {
                        break;
                    }
                    seen.push(index);
                },
                _ => loop {
                    let (mut number, mut indices) = (0, [0; 6]);
                    let (first, places) = (handles.as_mut_ptr(), indices.as_mut_ptr());
                    ok!(waitsome(6, first, &mut number, places, NONE));
                    if number == MPI_UNDEFINED {
                        break;
                    }
                    assert!(number > 0);
                    seen.extend(&indices[..number as usize]);
                },
            }
            seen.sort_unstable();
            assert!(me % 3 == 0 || seen == [0, 1, 2, 3, 4, 5]);
            assert!(handles.iter().all(|&handle| handle == MPI_REQUEST_NULL));
            assert_eq!(sum, [(size * (size - 1) / 2) as i32]);
            assert_eq!(most, [(me * (me + 1) / 2) as i32]);
            assert_eq!(got, [before as i32 * 10]);
            assert!(all.iter().copied().eq(0..size as i32));
        });
    }
}

#[test]
fn tests_advance_operations_until_they_are_done() {
    for size in SIZES {
        on_ranks(size, |comm, me, _| {
            let mut data = [if me == 0 { 5i32 } else { 0 }; 3];
            let mut request = null_mut();
            ok!(ibcast(address(&mut data), 3, predefined(INT), 0, comm, &mut request));
            let (mut flag, mut place) = (0, 0);
            while flag == 0 {
                match me % 3 {
                    0 => ok!(test(&mut request, &mut flag, NONE)),
                    1 => ok!(testall(1, &mut request, &mut flag, NONE)),
                    _ => ok!(testany(1, &mut request, &mut place, &mut flag, NONE)),
                }
            }
            assert_eq!(data, [5; 3]);
            assert_eq!(request, MPI_REQUEST_NULL);
        });
    }
}

#[test]
fn persistent_operations_are_started_in_any_order() {
    for size in SIZES {
        on_ranks(size, |comm, me, size| {
            let (int, mut requests) = (predefined(INT), [MPI_REQUEST_NULL; 3]);
            let (mut mine, mut sum, mut most) = (vec![0i32], [0i32], [0i32]);
            let mut word = [0i32];
            let (own, info) = (address(&mut mine), null_mut());
            let [all, longest, words] = &mut requests;
            ok!(allreduce_init(own, address(&mut sum), 1, int, MPI_SUM, comm, info, all));
            ok!(allreduce_init(own, address(&mut most), 1, int, MPI_MAX, comm, info, longest));
            ok!(bcast_init(address(&mut word), 1, int, size as c_int - 1, comm, info, words));
            for round in 0..5 {
                mine[0] = (me + round) as i32;
                word = [if me + 1 == size { round as i32 } else { -1 }];
                // Each rank has an order of its own.
                for step in 0..3 {
                    let place = if me % 2 == 0 { step + me } else { 2 * step + me };
                    ok!(start(&mut requests[place % 3]));
                }
                ok!(waitall(3, requests.as_mut_ptr(), NONE));
                let expected: usize = (0..size).map(|rank| rank + round).sum();
                assert_eq!((sum, most), ([expected as i32], [(size - 1 + round) as i32]));
                assert_eq!(word, [round as i32]);
            }
            requests.iter_mut().for_each(|request| ok!(request_free(request)));
        });
    }
}

/// An empty operation exchanges nothing. If it is not empty at another rank, the ranks notice when they next compare
/// their calls.
#[test]
fn what_is_empty_at_one_rank_alone_is_noticed() {
    on_ranks(2, |comm, me, _| {
        for is_blocking in [true, false] {
            let (mut copy, int) = (null_mut(), predefined(INT));
            ok!(comm_dup(comm, &mut copy));
            let both = |count: i64| {
                let (mut word, mut request) = ([0i32], null_mut());
                // SAFETY: the word and the request are there until the calls are complete.
                let codes = unsafe {
                    match is_blocking {
                        true => [bcast(address(&mut word), count, int, 0, copy), barrier(copy)],
                        false => {
                            let begun =
                                ibcast(address(&mut word), count, int, 0, copy, &mut request);
                            let sent = [begun, wait(&mut request, NONE)];
                            let begun = ibarrier(copy, &mut request);
                            let come = [begun, wait(&mut request, NONE)];
                            [sent, come].map(|codes| codes[0].max(codes[1]))
                        }
                    }
                };
                codes[0].max(codes[1])
            };
            assert_eq!(both(0), MPI_SUCCESS);
            assert_ne!(both(me as i64), MPI_SUCCESS, "rank {me}, blocking: {is_blocking}");
            // SAFETY: the handle was just made, and is not used any more.
            unsafe { Comm::release(copy).unwrap() };
        }
    });
}

/// Nothing is left of an operation without elements, unless the ranks compare their calls. Its arguments are checked in any
/// case.
#[test]
fn operations_without_elements_are_done_at_once() {
    for (size, check) in SIZES.into_iter().flat_map(|size| [(size, Check::Off), (size, Check::On)])
    {
        on_ranks(size, |comm, _, size| {
            // SAFETY: the handle is that of a communicator.
            unsafe { Comm::look(comm) }.unwrap().communicator.joint().set_check(check);
            let (int, mut none) = (predefined(INT), [0i32; 0]);
            let (from, to) = (address(&mut none), address(&mut [0i32; 0]));
            let mut one = null_mut();
            let done = |request: &mut Handle| {
                assert!(check == Check::On || *request == sent());
                ok!(wait(request, NONE));
                assert_eq!(*request, MPI_REQUEST_NULL);
            };
            for root in 0..size as c_int {
                ok!(ibcast(to, 0, int, root, comm, &mut one));
                done(&mut one);
                ok!(igather(from, 0, int, to, 0, int, root, comm, &mut one));
                done(&mut one);
                ok!(iscatter(from, 0, int, to, 0, int, root, comm, &mut one));
                done(&mut one);
                ok!(ireduce(from, to, 0, int, MPI_SUM, root, comm, &mut one));
                done(&mut one);
            }
            ok!(iallgather(from, 0, int, to, 0, int, comm, &mut one));
            done(&mut one);
            ok!(ialltoall(from, 0, int, to, 0, int, comm, &mut one));
            done(&mut one);
            ok!(iallreduce(from, to, 0, int, MPI_SUM, comm, &mut one));
            done(&mut one);
            let (wrong, real) = (size as c_int, predefined(DOUBLE));
            fails!(MPI_ERR_ROOT, ibcast(to, 0, int, wrong, comm, &mut one));
            fails!(MPI_ERR_ROOT, igather(from, 0, int, to, 0, int, wrong, comm, &mut one));
            fails!(MPI_ERR_COUNT, iallgather(from, -1, int, to, -1, int, comm, &mut one));
            fails!(MPI_ERR_OP, iallreduce(from, to, 0, real, MPI_BAND, comm, &mut one));
            fails!(MPI_ERR_OP, ireduce(from, to, 0, real, MPI_BAND, 0, comm, &mut one));
        });
    }
}
