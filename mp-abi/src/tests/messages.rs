use std::{ffi::c_int, ptr::null_mut};

use super::*;
use crate::{
    calls::{
        buffers::*,
        datatypes::*,
        environment::get_address,
        matched_probes::*,
        point_to_point::*,
        requests::{get_elements, wait},
    },
    constants::{
        MPI_ERR_RANK, MPI_ERR_TAG, MPI_ERR_TRUNCATE, MPI_ERR_TYPE, MPI_MESSAGE_NO_PROC,
        MPI_MESSAGE_NULL,
    },
};

#[test]
fn a_ring_passes_numbers_of_all_lengths() {
    for size in 1..=4 {
        on_ranks(size, |comm, me, size| {
            let (right, left) = ((me + 1) % size, (me + size - 1) % size);
            for length in [0usize, 1, 10, 1_000, 300_000] {
                let mut sent = vec![me as i32; length];
                let mut received = vec![-1i32; length];
                let mut status = status();
                let int = predefined(INT);
                ok!(sendrecv(
                    address(&mut sent),
                    length as i64,
                    int,
                    right as c_int,
                    5,
                    address(&mut received),
                    length as i64,
                    int,
                    left as c_int,
                    ANY_TAG,
                    comm,
                    &mut status,
                ));
                assert!(received.iter().all(|&number| number == left as i32));
                assert_eq!((status.source, status.tag), (left as c_int, 5));
                assert_eq!(count(&status, INT), length as i64);
                // Calls that complete one operation leave the error alone.
                assert_eq!(status.error, 77);
                ok!(sendrecv_replace(
                    address(&mut received),
                    length as i64,
                    int,
                    left as c_int,
                    6,
                    right as c_int,
                    6,
                    comm,
                    NONE,
                ));
                assert_eq!(received, sent);
            }
        });
    }
}

#[test]
fn derived_types_meet_plain_ones() {
    on_ranks(2, |comm, me, _| {
        let half = every_second(500);
        let int = predefined(INT);
        if me == 0 {
            let mut numbers: Vec<i32> = (0..2_000).collect();
            let mut room = [0u8; 2_000];
            ok!(send(address(&mut numbers), 2, half, 1, 1, comm));
            ok!(ssend(address(&mut numbers), 1_000, int, 1, 2, comm));
            ok!(comm_attach_buffer(comm, address(&mut room), 2_000));
            ok!(bsend(address(&mut numbers), 1, half, 1, 3, comm));
            ok!(rsend(address(&mut numbers), 1, int, 1, 4, comm));
        } else {
            let mut dense = vec![0; 1_000];
            ok!(recv(address(&mut dense), 1_000, int, 0, 1, comm, NONE));
            assert!(dense.iter().enumerate().all(|(place, &number)| number == 2 * place as i32));
            let mut sparse = vec![-1; 2_000];
            ok!(recv(address(&mut sparse), 2, half, 0, 2, comm, NONE));
            for (place, &number) in sparse.iter().enumerate() {
                assert_eq!(number, if place % 2 == 0 { place as i32 / 2 } else { -1 });
            }
            // A shorter message fills the first elements.
            let mut status = status();
            ok!(recv(address(&mut sparse), 2, half, ANY, ANY_TAG, comm, &mut status));
            assert_eq!((sparse[998], sparse[1000]), (998, 500));
            let mut elements = 0;
            ok!(get_elements(&status, half, &mut elements));
            assert_eq!((count(&status, INT), elements, status.tag), (500, 500, 3));
            ok!(probe(ANY, ANY_TAG, comm, &mut status));
            assert_eq!((status.source, status.tag, count(&status, INT)), (0, 4, 1));
            ok!(recv(address(&mut sparse), 1, int, 0, 4, comm, NONE));
        }
        ok!(type_free(&mut { half }));
    });
}

#[test]
fn long_messages_are_cut_and_consumed() {
    on_ranks(2, |comm, me, _| {
        let int = predefined(INT);
        for length in [6i64, 1_000, 200_000] {
            let mut numbers = vec![me as i32 + 7; length as usize];
            if me == 0 {
                ok!(send(address(&mut numbers), length, int, 1, 3, comm));
                ok!(send(address(&mut numbers), length, int, 1, 3, comm));
                ok!(send(address(&mut numbers), 1, int, 1, 3, comm));
                continue;
            }
            let room = length / 2;
            let (mut status, half) = (status(), every_second(room));
            for (datatype, count) in [(int, room), (half, 1)] {
                numbers.fill(0);
                // SAFETY: the memory has this many elements.
                let code = unsafe {
                    recv(address(&mut numbers), count, datatype, ANY, 3, comm, &mut status)
                };
                assert_eq!((code, status.source, status.tag), (MPI_ERR_TRUNCATE, 0, 3));
                assert_eq!(numbers.iter().filter(|&&number| number == 7).count(), room as usize);
            }
            let mut last = [0];
            ok!(recv(address(&mut last), 1, int, 0, 3, comm, &mut status));
            assert_eq!((last, super::count(&status, INT)), ([7], 1));
        }
    });
}

#[test]
fn nobody_is_sent_to_and_received_from() {
    on_ranks(1, |comm, _, _| {
        let int = predefined(INT);
        let mut number = [5];
        ok!(send(address(&mut number), 1, int, NOBODY, 0, comm));
        let mut status = status();
        ok!(recv(address(&mut number), 1, int, NOBODY, 0, comm, &mut status));
        assert_eq!((status.source, status.tag, count(&status, INT)), (NOBODY, ANY_TAG, 0));
        ok!(probe(NOBODY, 3, comm, &mut status));
        let mut flag = 0;
        ok!(iprobe(ANY, ANY_TAG, comm, &mut flag, NONE));
        assert_eq!(flag, 0);
        ok!(send(address(&mut number), 1, int, 0, 9, comm));
        ok!(iprobe(ANY, ANY_TAG, comm, &mut flag, &mut status));
        assert_eq!((flag, status.tag), (1, 9));
        ok!(sendrecv(
            address(&mut number),
            1,
            int,
            NOBODY,
            0,
            address(&mut [0]),
            1,
            int,
            0,
            9,
            comm,
            NONE,
        ));
    });
}

#[test]
fn wrong_arguments_are_reported() {
    on_ranks(1, |comm, _, _| {
        let int = predefined(INT);
        let mut one = [0];
        let buffer = address(&mut one);
        let mut datatype = null_mut();
        ok!(type_contiguous(2, int, &mut datatype));
        // SAFETY: the memory has this many elements; what is wrong is refused.
        unsafe {
            assert_eq!(send(buffer, 1, int, 1, 0, comm), MPI_ERR_RANK);
            assert_eq!(send(buffer, 1, int, ANY, 0, comm), MPI_ERR_RANK);
            assert_eq!(send(buffer, 1, int, 0, -1, comm), MPI_ERR_TAG);
            assert_eq!(send(buffer, 1, predefined(0x200), 0, 0, comm), MPI_ERR_TYPE);
            assert_eq!(send(buffer, 0, datatype, 0, 0, comm), MPI_ERR_TYPE);
            assert_ne!(send(buffer, -1, int, 0, 0, comm), 0);
            assert_ne!(send(null_mut(), 1, int, 0, 0, comm), 0);
            assert_ne!(send(buffer, 1, int, 0, 0, predefined(0x100)), 0);
            assert_ne!(recv(buffer, 1, int, -7, 0, comm, NONE), 0);
        }
        ok!(type_free(&mut datatype));
    });
}

#[test]
fn packing_by_hand() {
    on_ranks(1, |comm, _, _| {
        let (int, double) = (predefined(INT), predefined(DOUBLE));
        let mut buffer = [0u8; 64];
        let (mut numbers, mut reals) = ([1, 2, 3], [0.5f64]);
        let (mut position, mut size) = (0, 0);
        let to = address(&mut buffer);
        ok!(pack_size(3, int, comm, &mut size));
        assert_eq!(size, 12);
        ok!(pack(address(&mut numbers), 3, int, to, 64, &mut position, comm));
        ok!(pack(address(&mut reals), 1, double, to, 64, &mut position, comm));
        assert_eq!(position, 20);
        let (mut back, mut real) = ([0; 3], [0f64]);
        position = 0;
        ok!(unpack(to, 20, &mut position, address(&mut back), 3, int, comm));
        ok!(unpack(to, 20, &mut position, address(&mut real), 1, double, comm));
        assert_eq!((back, real, position), (numbers, reals, 20));
        // SAFETY: the buffer has this size, and there is no room in it.
        let code = unsafe { pack(address(&mut reals), 1, double, to, 24, &mut position, comm) };
        assert_eq!(code, MPI_ERR_TRUNCATE);
    });
}

#[test]
fn absolute_addresses() {
    on_ranks(1, |comm, _, _| {
        let (mut first, mut second) = ([1, 2], [3f64]);
        let mut places = [0isize; 2];
        ok!(get_address(address(&mut first), &mut places[0]));
        ok!(get_address(address(&mut second), &mut places[1]));
        let (lengths, mut datatype) = ([2i64, 1], null_mut());
        let types = [predefined(INT), predefined(DOUBLE)];
        ok!(type_create_struct(
            2,
            lengths.as_ptr().into(),
            places.as_ptr().into(),
            types.as_ptr(),
            &mut datatype,
        ));
        ok!(type_commit(&mut datatype));
        ok!(send(null_mut(), 1, datatype, 0, 0, comm));
        (first, second) = ([0; 2], [0.0]);
        ok!(recv(null_mut(), 1, datatype, 0, 0, comm, NONE));
        assert_eq!((first, second), ([1, 2], [3.0]));
        ok!(type_free(&mut datatype));
    });
}

#[test]
fn what_a_matched_probe_has_found_is_for_it_alone() {
    on_ranks(2, |comm, me, _| {
        let int = predefined(INT);
        for length in [1i64, 100_000] {
            let mut numbers = vec![me as i32 + 5; length as usize];
            if me == 0 {
                ok!(send(address(&mut numbers), length, int, 1, 3, comm));
                ok!(send(address(&mut [6]), 1, int, 1, 3, comm));
                continue;
            }
            let (mut message, mut status) = (null_mut(), status());
            ok!(mprobe(ANY, ANY_TAG, comm, &mut message, &mut status));
            assert_eq!((status.source, status.tag, count(&status, INT)), (0, 3, length));
            let mut next = [0];
            ok!(recv(address(&mut next), 1, int, ANY, ANY_TAG, comm, NONE));
            assert_eq!(next, [6]);
            ok!(mrecv(address(&mut numbers), length, int, &mut message, &mut status));
            assert_eq!((message, status.error), (MPI_MESSAGE_NULL, 77));
            assert!(numbers.iter().all(|&number| number == 5));
        }
        let (mut flag, mut message, mut request) = (1, null_mut(), null_mut());
        ok!(improbe(ANY, ANY_TAG, comm, &mut flag, &mut message, NONE));
        assert_eq!(flag, 0);
        ok!(send(address(&mut [1, 2]), 2, int, me as c_int, 0, comm));
        ok!(improbe(me as c_int, ANY_TAG, comm, &mut flag, &mut message, NONE));
        assert_eq!(flag, 1);
        let (mut one, mut status) = ([0], status());
        ok!(imrecv(address(&mut one), 1, int, &mut message, &mut request));
        // SAFETY: the request was just made.
        assert_eq!(unsafe { wait(&mut request, &mut status) }, MPI_ERR_TRUNCATE);
        assert_eq!((one, status.source), ([1], me as c_int));
        ok!(mprobe(NOBODY, 0, comm, &mut message, NONE));
        assert_eq!(message, MPI_MESSAGE_NO_PROC);
        ok!(imrecv(address(&mut one), 1, int, &mut message, &mut request));
        ok!(wait(&mut request, &mut status));
        assert_eq!(status.source, NOBODY);
    });
}
