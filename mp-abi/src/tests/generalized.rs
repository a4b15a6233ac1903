use std::{
    cell::Cell,
    ffi::{c_int, c_void},
};

use super::*;
use crate::{
    calls::{generalized_requests::*, point_to_point::*, requests::*},
    constants::{MPI_ERR_REQUEST, MPI_REQUEST_NULL, MPI_UNDEFINED},
};

/// What the functions of a request have seen.
#[derive(Default)]
struct Seen {
    asked: Cell<c_int>,
    freed: Cell<c_int>,
    cancelled: Cell<Option<c_int>>,
    /// What they return.
    code: Cell<c_int>,
}

unsafe extern "C" fn query(extra: *mut c_void, status: *mut Status) -> c_int {
    // SAFETY: the request was made with this.
    let seen = unsafe { &*extra.cast::<Seen>() };
    seen.asked.set(seen.asked.get() + 1);
    ok!(status_set_elements(status, predefined(INT), 5));
    ok!(status_set_cancelled(status, seen.cancelled.get().is_some().into()));
    // SAFETY: the library gives a status.
    unsafe { (*status).source = 3 };
    seen.code.get()
}

unsafe extern "C" fn free(extra: *mut c_void) -> c_int {
    // SAFETY: as above.
    let seen = unsafe { &*extra.cast::<Seen>() };
    seen.freed.set(seen.freed.get() + 1);
    0
}

unsafe extern "C" fn cancel(extra: *mut c_void, is_complete: c_int) -> c_int {
    // SAFETY: as above.
    unsafe { &*extra.cast::<Seen>() }.cancelled.set(Some(is_complete));
    0
}

fn start(seen: &Seen) -> Handle {
    let (mut request, extra) = (MPI_REQUEST_NULL, (&raw const *seen).cast_mut().cast());
    ok!(grequest_start(Some(query), Some(free), Some(cancel), extra, &mut request));
    request
}

#[test]
fn the_program_completes_its_requests() {
    on_ranks(1, |_, _, _| {
        let (seen, mut status, mut flag) = (Seen::default(), status(), 1);
        let mut request = start(&seen);
        ok!(super::super::calls::requests::test(&mut request, &mut flag, &mut status));
        assert_eq!((flag, seen.asked.get()), (0, 0));
        ok!(super::super::calls::requests::cancel(&mut request));
        assert_eq!(seen.cancelled.get(), Some(0));
        ok!(grequest_complete(request));
        ok!(request_get_status(request, &mut flag, &mut status));
        assert_eq!((flag, seen.asked.get(), seen.freed.get()), (1, 1, 0));
        ok!(wait(&mut request, &mut status));
        assert_eq!((seen.asked.get(), seen.freed.get()), (2, 1));
        assert_eq!((status.source, count(&status, INT)), (3, 5));
        ok!(test_cancelled(&status, &mut flag));
        assert_eq!((flag, request), (1, MPI_REQUEST_NULL));
        // SAFETY: the handle is no request's.
        assert_eq!(unsafe { grequest_complete(request) }, MPI_ERR_REQUEST);
    });
}

#[test]
fn they_wait_with_others_and_are_freed() {
    on_ranks(1, |comm, _, _| {
        let (seen, mut index, mut number) = (Seen::default(), 0, [0]);
        let mut requests = [start(&seen), MPI_REQUEST_NULL];
        ok!(irecv(address(&mut number), 1, predefined(INT), 0, 1, comm, &mut requests[1]));
        ok!(send([7].as_ptr().cast(), 1, predefined(INT), 0, 1, comm));
        ok!(waitany(2, requests.as_mut_ptr(), &mut index, NONE));
        assert_eq!((index, number), (1, [7]));
        ok!(grequest_complete(requests[0]));
        seen.code.set(987_654);
        // SAFETY: the handles are those of requests.
        assert_eq!(unsafe { waitany(2, requests.as_mut_ptr(), &mut index, NONE) }, 987_654);
        assert_eq!((index, seen.freed.get()), (0, 1));
        ok!(waitany(2, requests.as_mut_ptr(), &mut index, NONE));
        assert_eq!(index, MPI_UNDEFINED);
        for (place, completes_first) in [true, false].into_iter().enumerate() {
            let request = start(&seen);
            if completes_first {
                ok!(grequest_complete(request));
            }
            ok!(request_free(&mut { request }));
            if !completes_first {
                ok!(grequest_complete(request));
                ok!(waitall(0, null_mut(), NONE));
            }
            assert_eq!(seen.freed.get(), 2 + place as c_int);
        }
    });
}
