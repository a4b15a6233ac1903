//! Partitioned messages.

use super::*;
use crate::{
    calls::{
        partitioned::*,
        point_to_point::start,
        requests::{request_free, test, wait, waitall},
    },
    constants::{MPI_ERR_ARG, MPI_ERR_REQUEST, MPI_INFO_NULL},
};

#[test]
fn parts_are_sent_when_all_are_ready() {
    for ranks in [1, 2, 3, 5] {
        on_ranks(ranks, |comm, me, size| {
            let (int, next, before) = (predefined(INT), (me + 1) % size, (me + size - 1) % size);
            let strided = every_second(50);
            for (datatype, step) in [(int, 1), (strided, 2)] {
                let (mut sent, mut got) = (vec![0i32; 400], vec![-1i32; 400]);
                let (from, to) = (address(&mut sent), address(&mut got));
                let each = if step == 1 { 50 } else { 1 };
                // Two pairs with one tag, which belong together in this order.
                let mut requests = [null_mut(); 4];
                for half in 0..2 {
                    let at = half * 200;
                    let (from, to) = (from.wrapping_byte_add(4 * at), to.wrapping_byte_add(4 * at));
                    let [sends, receives] = [half, half + 2];
                    ok!(psend_init(
                        from,
                        2,
                        each,
                        datatype,
                        next as c_int,
                        9,
                        comm,
                        MPI_INFO_NULL,
                        &mut requests[sends]
                    ));
                    ok!(precv_init(
                        to,
                        4,
                        25,
                        int,
                        before as c_int,
                        9,
                        comm,
                        MPI_INFO_NULL,
                        &mut requests[receives]
                    ));
                }
                for round in 0..3 {
                    got.fill(-1);
                    for (place, number) in sent.iter_mut().enumerate() {
                        *number = (round * 10_000 + me * 1000 + place) as i32;
                    }
                    // The second pair is started first.
                    for place in [3, 1, 2, 0] {
                        ok!(start(&mut requests[place]));
                    }
                    let mut flag = 1;
                    ok!(test(&mut requests[0], &mut flag, NONE));
                    assert_eq!(flag, 0, "nothing is ready");
                    ok!(pready(1, requests[1]));
                    ok!(pready_list(1, [0].as_ptr(), requests[1]));
                    ok!(pready_range(0, 1, requests[0]));
                    while flag == 0 {
                        ok!(parrived(requests[2], 3, &mut flag));
                    }
                    let mut told = [status(); 4];
                    ok!(waitall(4, requests.as_mut_ptr(), told.as_mut_ptr()));
                    for status in &told[2..] {
                        let expected = (before as c_int, 9, 100);
                        assert_eq!((status.source, status.tag, count(status, INT)), expected);
                    }
                    ok!(parrived(requests[2], 0, &mut flag));
                    assert_eq!(flag, 1);
                    for half in 0..2 {
                        let block = &got[200 * half..200 * half + 100];
                        let expected = (0..100).map(|place| {
                            (round * 10_000 + before * 1000 + 200 * half + place * step) as i32
                        });
                        assert_eq!(block, expected.collect::<Vec<_>>());
                    }
                }
                requests.iter_mut().for_each(|request| ok!(request_free(request)));
            }
            let mut strided = strided;
            ok!(calls::datatypes::type_free(&mut strided));
        });
    }
}

#[test]
fn parts_that_can_not_be_ready_are_refused() {
    on_ranks(1, |comm, _, _| {
        let (int, mut numbers, mut request) = (predefined(INT), [1, 2], null_mut());
        let from = address(&mut numbers);
        fails!(MPI_ERR_ARG, psend_init(from, 0, 1, int, 0, 0, comm, MPI_INFO_NULL, &mut request));
        ok!(psend_init(from, 2, 1, int, NOBODY, 0, comm, MPI_INFO_NULL, &mut request));
        // It is not started.
        fails!(MPI_ERR_REQUEST, pready(0, request));
        ok!(start(&mut request));
        fails!(MPI_ERR_ARG, pready(2, request));
        ok!(pready(0, request));
        fails!(MPI_ERR_REQUEST, pready(0, request));
        fails!(MPI_ERR_REQUEST, parrived(request, 0, &mut 0));
        ok!(pready(1, request));
        ok!(wait(&mut request, NONE));
        let freed = request;
        ok!(request_free(&mut request));
        fails!(MPI_ERR_REQUEST, pready(0, freed));
    });
}
