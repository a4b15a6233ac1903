use std::{ffi::c_int, ptr::null_mut};

use super::*;
use crate::{
    calls::{datatypes::*, point_to_point::*, requests::*},
    constants::{
        MPI_ERR_IN_STATUS, MPI_ERR_REQUEST, MPI_ERR_TRUNCATE, MPI_REQUEST_NULL, MPI_SUCCESS,
        MPI_UNDEFINED,
    },
};

#[test]
fn all_exchange_with_all() {
    for (size, length) in [(2, 1usize), (3, 50), (2, 400_000), (4, 30_000)] {
        on_ranks(size, |comm, me, size| {
            let (int, half) = (predefined(INT), every_second(length as i64));
            let mut sent = vec![me as i32; length];
            let mut received = vec![vec![-1; 2 * length]; size];
            let mut requests = vec![MPI_REQUEST_NULL; 2 * size];
            for (other, received) in received.iter_mut().enumerate() {
                let request = &mut requests[other];
                // Every second receive has a type with gaps.
                let (datatype, count) =
                    if other % 2 == 0 { (int, length as i64) } else { (half, 1) };
                ok!(irecv(address(received), count, datatype, other as c_int, 1, comm, request,));
            }
            for other in 0..size {
                let (to, request) = (other as c_int, &mut requests[size + other]);
                let sent = address(&mut sent);
                match other % 2 {
                    0 => ok!(isend(sent, length as i64, int, to, 1, comm, request)),
                    _ => ok!(issend(sent, length as i64, int, to, 1, comm, request)),
                }
            }
            // The type may be freed before the requests are done.
            ok!(type_free(&mut { half }));
            let mut statuses = vec![status(); 2 * size];
            ok!(waitall(2 * size as c_int, requests.as_mut_ptr(), statuses.as_mut_ptr()));
            assert!(requests.iter().all(|&request| request == MPI_REQUEST_NULL));
            for (other, (numbers, status)) in received.iter().zip(&statuses).enumerate() {
                assert_eq!((status.source, status.tag), (other as c_int, 1));
                assert_eq!(super::count(status, INT), length as i64);
                assert_eq!(status.error, 77);
                let got = numbers.iter().filter(|&&number| number == other as i32).count();
                assert_eq!(got, length, "from {other}");
                assert_eq!(
                    numbers[length..].contains(&(other as i32)),
                    other % 2 == 1 && length > 1
                );
            }
        });
    }
}

/// The payload is copied once, into the buffer, also if the call that brings it in does not wait for its request.
#[test]
fn a_message_is_written_to_its_buffer_during_any_call() {
    for length in [20, 100, 3_000, 20_000, 400_000] {
        on_ranks(2, |comm, me, _| {
            let (int, other) = (predefined(INT), 1 - me as c_int);
            let mut numbers = vec![me as i32; length];
            let mut word = [0];
            let at = address(&mut numbers);
            if me == 0 {
                ok!(recv(address(&mut word[..]), 1, int, other, 3, comm, NONE));
                ok!(send(at, length as i64, int, other, 1, comm));
                ok!(send(address(&mut word[..]), 1, int, other, 2, comm));
                return;
            }
            let mut request = MPI_REQUEST_NULL;
            ok!(irecv(at, length as i64, int, other, 1, comm, &mut request));
            ok!(send(address(&mut word[..]), 1, int, other, 3, comm));
            ok!(recv(address(&mut word[..]), 1, int, other, 2, comm, NONE));
            // SAFETY: the vector exists, and no call is under way that could write to it.
            let came =
                (0..length).map(|place| unsafe { at.cast::<i32>().add(place).read_volatile() });
            assert!(came.into_iter().all(|number| number == 0));
            ok!(wait(&mut request, NONE));
            assert!(numbers.iter().all(|&number| number == 0));
        });
    }
}

#[test]
fn null_requests_have_an_empty_status() {
    on_ranks(1, |_, _, _| {
        let mut requests = [MPI_REQUEST_NULL; 2];
        let (mut status, mut flag, mut index) = (status(), 0, 0);
        let is_empty = |status: &Status| {
            assert_eq!((status.source, status.tag), (ANY, ANY_TAG));
            assert_eq!((super::count(status, INT), status.error), (0, MPI_SUCCESS));
        };
        ok!(wait(&mut requests[0], &mut status));
        is_empty(&status);
        status = super::status();
        ok!(test(&mut requests[0], &mut flag, &mut status));
        assert_eq!(flag, 1);
        is_empty(&status);
        ok!(waitany(2, requests.as_mut_ptr(), &mut index, &mut status));
        assert_eq!(index, MPI_UNDEFINED);
        is_empty(&status);
        (flag, status) = (0, super::status());
        ok!(testany(2, requests.as_mut_ptr(), &mut index, &mut flag, &mut status));
        assert_eq!((index, flag), (MPI_UNDEFINED, 1));
        is_empty(&status);
        (flag, status) = (0, super::status());
        ok!(request_get_status(MPI_REQUEST_NULL, &mut flag, &mut status));
        assert_eq!(flag, 1);
        is_empty(&status);
        let mut number = 0;
        ok!(waitsome(2, requests.as_mut_ptr(), &mut number, &mut index, NONE));
        assert_eq!(number, MPI_UNDEFINED);
        ok!(testall(2, requests.as_mut_ptr(), &mut flag, NONE));
        assert_eq!(flag, 1);
        ok!(waitall(0, null_mut(), NONE));
        status = super::status();
        let requests = requests.as_ptr();
        ok!(request_get_status_any(2, requests, &mut index, &mut flag, &mut status));
        assert_eq!((index, flag), (MPI_UNDEFINED, 1));
        is_empty(&status);
        // SAFETY: the address is that of a handle.
        assert_eq!(unsafe { cancel(&mut { MPI_REQUEST_NULL }) }, MPI_ERR_REQUEST);
    });
}

#[test]
fn any_and_some_of_several() {
    on_ranks(2, |comm, me, _| {
        let int = predefined(INT);
        if me == 1 {
            let mut go = [0];
            for tag in [2, 0, 3, 1] {
                ok!(recv(address(&mut go), 1, int, 0, 9, comm, NONE));
                ok!(send(address(&mut [tag * 10]), 1, int, 0, tag, comm));
            }
            return;
        }
        let mut numbers = [0; 4];
        let mut requests = [MPI_REQUEST_NULL; 4];
        for tag in 0..4 {
            let place = address(&mut numbers[tag..=tag]);
            ok!(irecv(place, 1, int, 1, tag as c_int, comm, &mut requests[tag]));
        }
        let mut flag = 1;
        ok!(testall(4, requests.as_mut_ptr(), &mut flag, NONE));
        assert_eq!(flag, 0);
        let (mut status, mut index) = (status(), -1);
        ok!(testany(4, requests.as_mut_ptr(), &mut index, &mut flag, &mut status));
        assert_eq!((flag, index), (0, MPI_UNDEFINED));
        ok!(send(address(&mut [0]), 1, int, 1, 9, comm));
        ok!(waitany(4, requests.as_mut_ptr(), &mut index, &mut status));
        assert_eq!((index, status.tag, numbers[2]), (2, 2, 20));
        ok!(send(address(&mut [0]), 1, int, 1, 9, comm));
        let (mut number, mut indices, mut statuses) = (0, [-1; 4], [status; 4]);
        ok!(waitsome(
            4,
            requests.as_mut_ptr(),
            &mut number,
            indices.as_mut_ptr(),
            statuses.as_mut_ptr()
        ));
        assert_eq!((number, indices[0], statuses[0].tag, numbers[0]), (1, 0, 0, 0));
        ok!(send(address(&mut [0]), 1, int, 1, 9, comm));
        loop {
            ok!(testsome(
                4,
                requests.as_mut_ptr(),
                &mut number,
                indices.as_mut_ptr(),
                statuses.as_mut_ptr()
            ));
            if number > 0 {
                break;
            }
            std::thread::yield_now();
        }
        assert_eq!((number, indices[0], numbers[3]), (1, 3, 30));
        ok!(send(address(&mut [0]), 1, int, 1, 9, comm));
        flag = 0;
        while flag == 0 {
            ok!(test(&mut requests[1], &mut flag, &mut status));
            std::thread::yield_now();
        }
        assert_eq!((status.tag, numbers), (1, [0, 10, 20, 30]));
        assert_eq!(requests, [MPI_REQUEST_NULL; 4]);
    });
}

#[test]
fn persistent_requests_start_again() {
    on_ranks(2, |comm, me, _| {
        let (int, other) = (predefined(INT), 1 - me as c_int);
        let (mut sent, mut received) = (vec![0i32; 5_000], vec![0i32; 5_000]);
        let mut requests = [MPI_REQUEST_NULL; 2];
        ok!(send_init(address(&mut sent), 5_000, int, other, 0, comm, &mut requests[0]));
        ok!(recv_init(address(&mut received), 5_000, int, other, 0, comm, &mut requests[1]));
        let both = requests;
        // A request that was not started has an empty status.
        let (mut status, mut flag) = (status(), 0);
        ok!(wait(&mut requests[0], &mut status));
        assert_eq!((status.source, status.tag, status.error), (ANY, ANY_TAG, MPI_SUCCESS));
        status = super::status();
        ok!(request_get_status(requests[1], &mut flag, &mut status));
        assert_eq!((flag, status.tag, status.error), (1, ANY_TAG, MPI_SUCCESS));
        for round in 1..5 {
            sent.fill(round * 10 + me as i32);
            if round % 2 == 0 {
                ok!(startall(2, requests.as_mut_ptr()));
            } else {
                ok!(start(&mut requests[1]));
                ok!(start(&mut requests[0]));
            }
            // SAFETY: the request is active, and refused.
            assert_ne!(unsafe { start(&mut requests[1]) }, 0);
            ok!(waitall(2, requests.as_mut_ptr(), NONE));
            assert_eq!(requests, both);
            assert!(received.iter().all(|&number| number == round * 10 + other));
        }
        ok!(request_free(&mut requests[0]));
        ok!(request_free(&mut requests[1]));
        assert_eq!(requests, [MPI_REQUEST_NULL; 2]);
    });
}

#[test]
fn receives_can_be_cancelled() {
    on_ranks(1, |comm, _, _| {
        let int = predefined(INT);
        let (mut number, mut request, mut status, mut flag) = ([0], MPI_REQUEST_NULL, status(), 0);
        ok!(irecv(address(&mut number), 1, int, 0, 0, comm, &mut request));
        ok!(request_get_status(request, &mut flag, NONE));
        assert_eq!(flag, 0);
        ok!(cancel(&mut request));
        ok!(wait(&mut request, &mut status));
        ok!(test_cancelled(&status, &mut flag));
        assert_eq!(flag, 1);
        // The next message is for the next receive.
        ok!(irecv(address(&mut number), 1, int, 0, 0, comm, &mut request));
        ok!(send(address(&mut [4]), 1, int, 0, 0, comm));
        ok!(request_get_status(request, &mut flag, &mut status));
        assert_eq!((flag, super::count(&status, INT)), (1, 1));
        ok!(wait(&mut request, &mut status));
        ok!(test_cancelled(&status, &mut flag));
        assert_eq!((flag, number), (0, [4]));
    });
}

#[test]
fn freed_receives_are_done_all_the_same() {
    on_ranks(1, |comm, _, _| {
        let int = predefined(INT);
        let (mut first, mut second, mut request) = ([0], [0], MPI_REQUEST_NULL);
        ok!(irecv(address(&mut first), 1, int, 0, 0, comm, &mut request));
        ok!(request_free(&mut request));
        ok!(irecv(address(&mut second), 1, int, 0, 0, comm, &mut request));
        ok!(send(address(&mut [1]), 1, int, 0, 0, comm));
        ok!(send(address(&mut [2]), 1, int, 0, 0, comm));
        ok!(wait(&mut request, NONE));
        assert_eq!((first, second), ([1], [2]));
    });
}

#[test]
fn posted_receives_cut_long_messages_in_their_order() {
    on_ranks(2, |comm, me, _| {
        let int = predefined(INT);
        for length in [4usize, 2_000, 100_000] {
            if me == 0 {
                let mut go = [0];
                ok!(recv(address(&mut go), 1, int, 1, 0, comm, NONE));
                for round in 1..=3 {
                    ok!(send(address(&mut vec![round; length]), length as i64, int, 1, 1, comm));
                }
                continue;
            }
            let mut numbers = vec![vec![0; length]; 3];
            let mut requests = [MPI_REQUEST_NULL; 3];
            let half = every_second(length as i64 / 2);
            let rooms = [(int, length as i64), (int, length as i64 / 2), (half, 1)];
            for ((numbers, request), (datatype, room)) in
                numbers.iter_mut().zip(&mut requests).zip(rooms)
            {
                ok!(irecv(address(numbers), room, datatype, ANY, ANY_TAG, comm, request));
            }
            ok!(send(address(&mut [0]), 1, int, 0, 0, comm));
            let mut statuses = [status(); 3];
            // SAFETY: the arrays have three entries.
            let code = unsafe { waitall(3, requests.as_mut_ptr(), statuses.as_mut_ptr()) };
            assert_eq!(code, MPI_ERR_IN_STATUS);
            let errors = [MPI_SUCCESS, MPI_ERR_TRUNCATE, MPI_ERR_TRUNCATE];
            assert_eq!(statuses.map(|status| status.error), errors);
            for (round, (numbers, room)) in numbers.iter().zip([1, 2, 2]).enumerate() {
                let got = numbers.iter().filter(|&&number| number == round as i32 + 1).count();
                assert_eq!(got, length / room);
            }
            ok!(type_free(&mut { half }));
        }
    });
}

#[test]
fn an_exchange_is_one_request() {
    for (size, length) in [(1, 1usize), (2, 3), (3, 50_000), (5, 1)] {
        on_ranks(size, |comm, me, size| {
            let (int, count) = (predefined(INT), length as i64);
            let (next, before) = (((me + 1) % size) as c_int, ((me + size - 1) % size) as c_int);
            let (mut mine, mut got) = (vec![me as i32; length], vec![-1; length]);
            let (from, to) = (address(&mut mine), address(&mut got));
            let mut requests = [null_mut(); 2];
            ok!(isendrecv(
                from,
                count,
                int,
                next,
                4,
                to,
                count,
                int,
                before,
                4,
                comm,
                &mut requests[0],
            ));
            let mut both = vec![me as i32 + 10; length];
            let place = address(&mut both);
            ok!(isendrecv_replace(place, count, int, next, 5, before, 5, comm, &mut requests[1]));
            let mut statuses = [status(); 2];
            let mut flag = 0;
            while flag == 0 {
                let to = statuses.as_mut_ptr();
                ok!(request_get_status_all(2, requests.as_ptr(), &mut flag, to));
            }
            // The requests are still there.
            let (mut index, mut number, mut indices) = (0, 0, [0; 2]);
            ok!(request_get_status_any(2, requests.as_ptr(), &mut index, &mut flag, NONE));
            assert_eq!((index, flag), (0, 1));
            let places = indices.as_mut_ptr();
            ok!(request_get_status_some(2, requests.as_ptr(), &mut number, places, NONE));
            assert_eq!((number, indices), (2, [0, 1]));
            assert!(requests.iter().all(|&request| request != MPI_REQUEST_NULL));
            ok!(waitall(2, requests.as_mut_ptr(), statuses.as_mut_ptr()));
            assert!(got.iter().all(|&number| number == before));
            assert!(both.iter().all(|&number| number == before + 10));
            for (status, tag) in statuses.iter().zip([4, 5]) {
                assert_eq!((status.source, status.tag), (before, tag));
                assert_eq!(super::count(status, INT), count);
            }
            ok!(request_get_status_any(2, requests.as_ptr(), &mut index, &mut flag, NONE));
            assert_eq!((index, flag), (MPI_UNDEFINED, 1));
        });
    }
}
