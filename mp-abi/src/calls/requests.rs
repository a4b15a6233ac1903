//! Waits for requests, and what their statuses say.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]

use std::{ffi::c_int, rc::Rc};

use mp_collectives::communicator::{Pending, test_all, test_some};
use mp_core::requests::settle_in_rounds;

use crate::{
    comm::{Comm, array},
    completed::{Completed, set_bytes},
    constants::{MPI_ERR_PENDING, MPI_REQUEST_NULL, MPI_SUCCESS, MPI_UNDEFINED},
    datatype::look,
    errhandler::Object,
    error::{Class, Error},
    handles::sent,
    program::{plainly, put},
    request::{self, Request, advance_freed, complete},
    threads::{are_many, wait_all, wait_any, wait_some},
    types::{Count, Handle, Status},
};

/// Returns the result of a call for one request as MPI does: through the error handler of its communicator.
///
/// # Safety
/// The address is that of a request's handle, or null.
unsafe fn of_one(
    request: *mut Handle,
    function: &'static str,
    call: impl FnOnce() -> Result<(), Error>,
) -> c_int {
    // SAFETY: the caller says so. A handle that is not one of a request is reported by the call itself.
    let comm = unsafe {
        let request = request.as_ref().map(|&handle| Request::look(handle));
        request.and_then(Result::ok).flatten().and_then(|request| request.comm.clone())
    };
    told(call(), function, comm.as_deref())
}

/// Gives the program what a request has to say, and lets go of the request.
///
/// # Safety
/// The first address is that of a request's handle, which is done, and the second that of a status, or null.
unsafe fn finish(at: *mut Handle, status: *mut Status) -> Result<(), Error> {
    // SAFETY: the caller says so.
    unsafe {
        let completed = match Request::look(*at)? {
            Some(request) if request.is_active() => Some(request.finish()),
            None if *at == sent() => Some(Completed::EMPTY),
            _ => None,
        };
        complete(at);
        match completed {
            Some(completed) => completed.tell(status),
            None => {
                Completed::write_empty(status);
                Ok(())
            }
        }
    }
}

/// `MPI_Wait`.
pub unsafe fn wait(request: *mut Handle, status: *mut Status) -> c_int {
    // SAFETY: the program gives the address of a request's handle, and a status or null.
    unsafe {
        if !request.is_null() && *request == sent() {
            *request = MPI_REQUEST_NULL;
            Completed::EMPTY.write(status);
            return MPI_SUCCESS;
        }
        of_one(request, "MPI_Wait", || {
            advance_freed();
            if let Some(active) = one(request)?
                && (active.is_collective() || are_many())
            {
                while let Some(pending) = active.pending() {
                    wait_all(&mut [pending])?;
                    if !active.is_collective() {
                        break;
                    }
                }
            }
            finish(request, status)
        })
    }
}

/// Returns an error unless this is the address of a handle.
///
/// # Safety
/// The address is null, or that of a handle.
unsafe fn one<'a>(request: *mut Handle) -> Result<Option<&'a mut Request>, Error> {
    if request.is_null() {
        return Err(Error::new(Class::Request, "the address of the request is a null pointer"));
    }
    // SAFETY: the caller says so.
    unsafe { Request::look(*request) }
}

/// `MPI_Test`.
pub unsafe fn test(request: *mut Handle, flag: *mut c_int, status: *mut Status) -> c_int {
    // SAFETY: the program gives the address of a request's handle, a place for the answer, and a status or null.
    unsafe {
        of_one(request, "MPI_Test", || {
            advance_freed();
            let done = is_done(one(request)?)?;
            put(flag, done.into())?;
            if done { finish(request, status) } else { Ok(()) }
        })
    }
}

/// Returns whether nothing of a request is under way any more.
pub(super) fn is_done(request: Option<&mut Request>) -> Result<bool, Error> {
    let Some(request) = request else { return Ok(true) };
    while let Some(pending) = request.pending() {
        let is_done = test_all(&mut [pending])?;
        if !is_done || !request.is_collective() {
            return Ok(is_done);
        }
    }
    Ok(true)
}

/// Advances the collective operations among the requests, whose parts may become done one after the other.
///
/// # Safety
/// The handles are those of requests, to which there is no other reference.
unsafe fn test_collectives(handles: &[Handle]) -> Result<(), Error> {
    for &handle in handles {
        // SAFETY: the caller says so.
        if let Some(request) = unsafe { Request::look(handle)? }
            && request.is_collective()
        {
            is_done(Some(request))?;
        }
    }
    Ok(())
}

/// Returns whether a request is a collective operation that has another part to wait for.
///
/// # Safety
/// As for [`Request::look`].
unsafe fn goes_on(handle: Handle) -> Result<bool, Error> {
    // SAFETY: the caller says so.
    let request = unsafe { Request::look(handle)? };
    Ok(request.is_some_and(|request| request.is_collective() && request.pending().is_some()))
}

/// `MPI_Request_get_status`.
pub unsafe fn request_get_status(request: Handle, flag: *mut c_int, status: *mut Status) -> c_int {
    plainly("MPI_Request_get_status", || {
        // SAFETY: the program gives a request, a place for the answer, and a status or null.
        unsafe { put(flag, look_at(request, status)?.unwrap_or(true).into()) }
    })
}

/// Writes what a request has to say, if it is done, and keeps the request. Returns whether it is done; a request that is
/// null or not started is `None`.
///
/// # Safety
/// The handle is one of a request, and the address that of a status, or null.
unsafe fn look_at(handle: Handle, status: *mut Status) -> Result<Option<bool>, Error> {
    // SAFETY: the caller says so.
    unsafe {
        match Request::look(handle)? {
            None if handle == sent() => {
                Completed::EMPTY.write(status);
                Ok(Some(true))
            }
            Some(request) if request.is_active() => {
                let done = is_done(Some(&mut *request))?;
                if done {
                    request.keep_done().write(status);
                }
                Ok(Some(done))
            }
            _ => {
                Completed::write_empty(status);
                Ok(None)
            }
        }
    }
}

/// `MPI_Request_get_status_all`.
pub unsafe fn request_get_status_all(
    count: c_int,
    requests: *const Handle,
    flag: *mut c_int,
    statuses: *mut Status,
) -> c_int {
    // SAFETY: the program gives as many handles of requests, a place for the answer, and as many statuses or null.
    unsafe {
        of_several(count, requests.cast_mut(), "MPI_Request_get_status_all", |handles| {
            let mut all = true;
            for (place, &handle) in handles.iter().enumerate() {
                all &= look_at(handle, at(statuses, place))?.unwrap_or(true);
            }
            put(flag, all.into())
        })
    }
}

/// `MPI_Request_get_status_any`.
pub unsafe fn request_get_status_any(
    count: c_int,
    requests: *const Handle,
    index: *mut c_int,
    flag: *mut c_int,
    status: *mut Status,
) -> c_int {
    // SAFETY: the program gives as many handles of requests, places for the answers, and a status or null.
    unsafe {
        of_several(count, requests.cast_mut(), "MPI_Request_get_status_any", |handles| {
            let mut is_any_active = false;
            for (place, &handle) in handles.iter().enumerate() {
                let looked = look_at(handle, status)?;
                if looked == Some(true) {
                    put(index, place as c_int)?;
                    return put(flag, 1);
                }
                is_any_active |= looked.is_some();
            }
            put(index, MPI_UNDEFINED)?;
            if !is_any_active {
                Completed::write_empty(status);
            }
            put(flag, (!is_any_active).into())
        })
    }
}

/// `MPI_Request_get_status_some`.
pub unsafe fn request_get_status_some(
    count: c_int,
    requests: *const Handle,
    number: *mut c_int,
    indices: *mut c_int,
    statuses: *mut Status,
) -> c_int {
    // SAFETY: the program gives as many handles of requests and indices, a place for the answer, and as many statuses or
    // null.
    unsafe {
        of_several(count, requests.cast_mut(), "MPI_Request_get_status_some", |handles| {
            let (mut done, mut is_any_active) = (0, false);
            for (place, &handle) in handles.iter().enumerate() {
                let looked = look_at(handle, at(statuses, done as usize))?;
                if looked == Some(true) {
                    put(indices.wrapping_add(done as usize), place as c_int)?;
                    done += 1;
                }
                is_any_active |= looked.is_some();
            }
            put(number, if is_any_active { done } else { MPI_UNDEFINED })
        })
    }
}

/// The requests of an array that are not done, with their places.
struct Several<'a> {
    places: Vec<usize>,
    pending: Vec<&'a mut dyn Pending>,
    /// The first request that is done already, and whose status is not empty.
    done: Option<usize>,
    /// Whether any request is there and started.
    is_any_active: bool,
    /// Whether any of those that are not done is a collective operation, which may have another part after this one.
    are_any_collective: bool,
}

impl<'a> Several<'a> {
    /// # Safety
    /// The handles are those of requests, to which there is no other reference during `'a`.
    unsafe fn of(handles: &[Handle]) -> Result<Self, Error> {
        let (places, pending) =
            (Vec::with_capacity(handles.len()), Vec::with_capacity(handles.len()));
        let mut all =
            Self { places, pending, done: None, is_any_active: false, are_any_collective: false };
        for (place, &handle) in handles.iter().enumerate() {
            // SAFETY: the caller says so.
            let is_active = match unsafe { Request::look(handle)? } {
                None => handle == sent(),
                Some(request) if !request.is_active() => false,
                Some(request) => match (request.is_collective(), request.pending()) {
                    (_, None) => true,
                    (is_collective, Some(pending)) => {
                        all.are_any_collective |= is_collective;
                        all.places.push(place);
                        all.pending.push(pending);
                        all.is_any_active = true;
                        continue;
                    }
                },
            };
            all.is_any_active |= is_active;
            if is_active {
                all.done.get_or_insert(place);
            }
        }
        Ok(all)
    }
}

/// Completes all requests, which are done but for those at the places `open`, and returns an error if any of them has
/// one.
///
/// # Safety
/// The addresses are those of as many handles and statuses; the second may be null.
unsafe fn finish_all(
    count: usize,
    requests: *mut Handle,
    statuses: *mut Status,
    open: &[usize],
) -> Result<(), Error> {
    let mut first = None;
    for place in (0..count).filter(|place| !open.contains(place)) {
        // SAFETY: the caller says so.
        let (at, status) = unsafe { (requests.add(place), at(statuses, place)) };
        // SAFETY: as above.
        if let Err(error) = unsafe { finish(at, status) } {
            // The statuses before have no error, and get theirs now.
            if first.is_none() {
                // SAFETY: as above.
                (0..place).for_each(|before| unsafe { set_error(statuses, before, MPI_SUCCESS) });
            }
            // SAFETY: as above.
            unsafe { set_error(statuses, place, error.code()) };
            first.get_or_insert(error);
        } else if first.is_some() {
            // SAFETY: as above.
            unsafe { set_error(statuses, place, MPI_SUCCESS) };
        }
    }
    if first.is_some() {
        // SAFETY: as above.
        open.iter().for_each(|&place| unsafe { set_error(statuses, place, MPI_ERR_PENDING) });
    }
    in_status(first)
}

/// Completes those of several requests that are done, after the wait for all of them has failed. If they have no errors,
/// which would be the reason, completes none of them, and returns the error of the wait.
///
/// # Safety
/// As for [`finish_all`]; `handles` are those at the address.
unsafe fn finish_done(
    handles: &[Handle],
    requests: *mut Handle,
    statuses: *mut Status,
    error: Error,
) -> Result<(), Error> {
    // SAFETY: the caller says so.
    let Several { mut places, mut pending, .. } = unsafe { Several::of(handles)? };
    for index in test_some(&mut pending)?.into_iter().rev() {
        places.remove(index);
    }
    let mut has_failed = false;
    for place in (0..handles.len()).filter(|place| !places.contains(place)) {
        // SAFETY: the caller says so.
        if let Some(request) = unsafe { Request::look(handles[place])? } {
            has_failed |= request.keep_done().error.is_some();
        }
    }
    match has_failed {
        // SAFETY: the caller says so.
        true => unsafe { finish_all(handles.len(), requests, statuses, &places) },
        false => Err(error),
    }
}

fn in_status(first: Option<Error>) -> Result<(), Error> {
    match first {
        None => Ok(()),
        Some(first) => {
            let text = format!("one of the requests has failed: {}", first.text);
            Err(Error::new(Class::InStatus, text))
        }
    }
}

/// Returns the address of a status in an array, or null if the program wants none.
///
/// # Safety
/// The array has the place, or is null.
unsafe fn at(statuses: *mut Status, place: usize) -> *mut Status {
    // SAFETY: the caller says so.
    if statuses.is_null() { statuses } else { unsafe { statuses.add(place) } }
}

/// # Safety
/// As for [`at`].
unsafe fn set_error(statuses: *mut Status, place: usize, code: c_int) {
    // SAFETY: the caller says so.
    unsafe {
        if let Some(status) = at(statuses, place).as_mut() {
            status.error = code;
        }
    }
}

/// Returns the communicator of the first request, for its error handler.
///
/// # Safety
/// The handles are those of requests.
unsafe fn any_comm(handles: &[Handle]) -> Option<Rc<Comm>> {
    handles.iter().find_map(|&handle| {
        // SAFETY: the caller says so.
        let request = unsafe { Request::look(handle) };
        request.ok().flatten().and_then(|request| request.comm.clone())
    })
}

/// Returns the result of a call for several requests as MPI does.
///
/// # Safety
/// The array has as many handles of requests, or is null.
unsafe fn of_several(
    count: c_int,
    requests: *mut Handle,
    function: &'static str,
    call: impl FnOnce(&[Handle]) -> Result<(), Error>,
) -> c_int {
    advance_freed();
    // SAFETY: the caller says so.
    let handles = match unsafe { array(requests, count) } {
        // The calls write to the array, so that they read a copy.
        Ok(handles) => handles.to_vec(),
        Err(error) => return error.raise(function, None),
    };
    // SAFETY: the caller says so.
    let comm = unsafe { any_comm(&handles) };
    told(call(&handles), function, comm.as_deref())
}

/// Returns the code of a call, after the error handler has got its error.
fn told(result: Result<(), Error>, function: &'static str, comm: Option<&Comm>) -> c_int {
    match result {
        Ok(()) => MPI_SUCCESS,
        Err(error) => error.raise(function, comm.map(|comm| comm as &dyn Object)),
    }
}

/// `MPI_Waitall`.
pub unsafe fn waitall(count: c_int, requests: *mut Handle, statuses: *mut Status) -> c_int {
    // SAFETY: the program gives as many handles of requests, and as many statuses or null.
    unsafe {
        // Mostly all of them are sends that were complete at once, and receives. Then no copy of the array is needed.
        if let Some((count, comm)) = settled_at_once(count, requests) {
            let finished = finish_all(count, requests, statuses, &[]);
            return told(finished, "MPI_Waitall", comm.as_deref());
        }
        of_several(count, requests, "MPI_Waitall", |handles| {
            loop {
                let mut several = Several::of(handles)?;
                let waited = wait_all(&mut several.pending);
                let are_any_collective = several.are_any_collective;
                drop(several);
                if let Err(error) = waited {
                    return finish_done(handles, requests, statuses, error.into());
                }
                if !are_any_collective {
                    return finish_all(handles.len(), requests, statuses, &[]);
                }
            }
        })
    }
}

/// `MPI_Testall`.
pub unsafe fn testall(
    count: c_int,
    requests: *mut Handle,
    flag: *mut c_int,
    statuses: *mut Status,
) -> c_int {
    // SAFETY: the program gives as many handles of requests, a place for the answer, and as many statuses or null.
    unsafe {
        of_several(count, requests, "MPI_Testall", |handles| {
            test_collectives(handles)?;
            let done = test_all(&mut Several::of(handles)?.pending)?;
            put(flag, done.into())?;
            if done { finish_all(handles.len(), requests, statuses, &[]) } else { Ok(()) }
        })
    }
}

/// Ends requests, as far as that is possible one after the other. If all of them are done, returns their number and the
/// communicator whose error handler gets their errors.
///
/// # Safety
/// The address is that of as many handles of requests, to which there is no other reference.
unsafe fn settled_at_once(
    count: c_int,
    requests: *const Handle,
) -> Option<(usize, Option<Rc<Comm>>)> {
    advance_freed();
    // SAFETY: the caller says so.
    let handles = unsafe { array(requests, count).ok()? };
    let open = |&handle: &Handle| handle != sent() && handle != MPI_REQUEST_NULL;
    let count = handles.iter().rposition(open).map_or(0, |last| last + 1);
    let settle = |place: usize, last| {
        // SAFETY: the caller says so.
        let request = unsafe { Request::look(handles[place]) };
        request.is_ok_and(|request| request.is_none_or(|one| one.settle_at_once(last)))
    };
    if settle_in_rounds(count, settle).is_some() {
        return None;
    }
    // SAFETY: the caller says so.
    Some((handles.len(), unsafe { any_comm(handles) }))
}

/// Completes one request of several, and tells the program which.
///
/// # Safety
/// The array has the place, and the other addresses can be written to, or the last is null.
unsafe fn finish_one(
    place: Option<usize>,
    requests: *mut Handle,
    index: *mut c_int,
    status: *mut Status,
) -> Result<(), Error> {
    // SAFETY: the caller says so.
    unsafe {
        match place {
            Some(place) => {
                put(index, place as c_int)?;
                finish(requests.add(place), status)
            }
            None => {
                put(index, MPI_UNDEFINED)?;
                Completed::write_empty(status);
                Ok(())
            }
        }
    }
}

/// `MPI_Waitany`.
pub unsafe fn waitany(
    count: c_int,
    requests: *mut Handle,
    index: *mut c_int,
    status: *mut Status,
) -> c_int {
    // SAFETY: the program gives as many handles of requests, a place for the answer, and a status or null.
    unsafe {
        of_several(count, requests, "MPI_Waitany", |handles| {
            let place = loop {
                let mut several = Several::of(handles)?;
                if several.done.is_some() || !several.is_any_active {
                    break several.done;
                }
                let done = wait_any(&mut several.pending)?;
                let place = several.places[done];
                drop(several);
                if !goes_on(handles[place])? {
                    break Some(place);
                }
            };
            finish_one(place, requests, index, status)
        })
    }
}

/// `MPI_Testany`.
pub unsafe fn testany(
    count: c_int,
    requests: *mut Handle,
    index: *mut c_int,
    flag: *mut c_int,
    status: *mut Status,
) -> c_int {
    // SAFETY: the program gives as many handles of requests, places for the answers, and a status or null.
    unsafe {
        of_several(count, requests, "MPI_Testany", |handles| {
            test_collectives(handles)?;
            let mut several = Several::of(handles)?;
            let is_any_active = several.is_any_active;
            let mut place = several.done;
            if place.is_none() {
                let done = test_some(&mut several.pending)?;
                let places: Vec<_> = done.iter().map(|&done| several.places[done]).collect();
                drop(several);
                for done in places {
                    if place.is_none() && !goes_on(handles[done])? {
                        place = Some(done);
                    }
                }
            }
            put(flag, (place.is_some() || !is_any_active).into())?;
            match (place, is_any_active) {
                (None, true) => put(index, MPI_UNDEFINED),
                (place, _) => finish_one(place, requests, index, status),
            }
        })
    }
}

/// Completes those requests that are done, and tells the program which.
///
/// # Safety
/// The addresses are those of as many handles, indices and statuses; the last may be null.
unsafe fn finish_some(
    handles: &[Handle],
    requests: *mut Handle,
    number: *mut c_int,
    (indices, statuses): (*mut c_int, *mut Status),
    waits: bool,
) -> Result<(), Error> {
    let mut done = loop {
        // SAFETY: the caller says so.
        let mut several = unsafe {
            test_collectives(handles)?;
            Several::of(handles)?
        };
        if !several.is_any_active {
            // SAFETY: as above.
            return unsafe { put(number, MPI_UNDEFINED) };
        }
        let worked = match several.done {
            None if waits => wait_some(&mut several.pending)?,
            _ => test_some(&mut several.pending)?,
        };
        let worked: Vec<_> = worked.into_iter().map(|at| several.places[at]).collect();
        drop(several);
        let mut done = Vec::new();
        for place in worked {
            // SAFETY: as above.
            if !unsafe { goes_on(handles[place])? } {
                done.push(place);
            }
        }
        for (place, &handle) in handles.iter().enumerate() {
            // SAFETY: as above.
            let is_done = match unsafe { Request::look(handle)? } {
                None => handle == sent(),
                Some(request) => request.is_active() && request.pending().is_none(),
            };
            if is_done && !done.contains(&place) {
                done.push(place);
            }
        }
        if !waits || !done.is_empty() {
            break done;
        }
    };
    done.sort_unstable();
    let mut first = None;
    for (entry, &place) in done.iter().enumerate() {
        // SAFETY: as above.
        unsafe {
            put(indices.add(entry), place as c_int)?;
            let code = match finish(requests.add(place), at(statuses, entry)) {
                Ok(()) => MPI_SUCCESS,
                Err(error) => {
                    let code = error.code();
                    (0..entry)
                        .filter(|_| first.is_none())
                        .for_each(|before| set_error(statuses, before, MPI_SUCCESS));
                    first.get_or_insert(error);
                    code
                }
            };
            if first.is_some() {
                set_error(statuses, entry, code);
            }
        }
    }
    // SAFETY: as above.
    unsafe { put(number, done.len() as c_int)? };
    in_status(first)
}

/// `MPI_Waitsome`.
pub unsafe fn waitsome(
    count: c_int,
    requests: *mut Handle,
    number: *mut c_int,
    indices: *mut c_int,
    statuses: *mut Status,
) -> c_int {
    // SAFETY: the program gives as many handles of requests and indices, and as many statuses or null.
    unsafe {
        of_several(count, requests, "MPI_Waitsome", |handles| {
            finish_some(handles, requests, number, (indices, statuses), true)
        })
    }
}

/// `MPI_Testsome`.
pub unsafe fn testsome(
    count: c_int,
    requests: *mut Handle,
    number: *mut c_int,
    indices: *mut c_int,
    statuses: *mut Status,
) -> c_int {
    // SAFETY: the program gives as many handles of requests and indices, and as many statuses or null.
    unsafe {
        of_several(count, requests, "MPI_Testsome", |handles| {
            finish_some(handles, requests, number, (indices, statuses), false)
        })
    }
}

/// `MPI_Request_free`.
pub unsafe fn request_free(request: *mut Handle) -> c_int {
    plainly("MPI_Request_free", || {
        // SAFETY: the program gives the address of a request's handle, and does not use that any more.
        unsafe {
            one(request)?;
            request::free(*request)?;
            put(request, MPI_REQUEST_NULL)
        }
    })
}

/// `MPI_Cancel`. Receives whose messages have not begun to come can be cancelled, and sends that have not begun.
pub unsafe fn cancel(request: *mut Handle) -> c_int {
    plainly("MPI_Cancel", || {
        // SAFETY: the program gives the address of a request's handle.
        unsafe {
            match one(request)? {
                Some(request) => request.cancel(),
                None if *request == MPI_REQUEST_NULL => {
                    Err(Error::new(Class::Request, "the request is null"))
                }
                None => Ok(()),
            }
        }
    })
}

/// `MPI_Test_cancelled`.
pub unsafe fn test_cancelled(status: *const Status, flag: *mut c_int) -> c_int {
    // SAFETY: the program gives a status and a place for the answer.
    plainly("MPI_Test_cancelled", || unsafe { put(flag, of(status)?.is_cancelled().into()) })
}

/// # Safety
/// The address is null, or that of a status.
unsafe fn of<'a>(status: *const Status) -> Result<&'a Status, Error> {
    // SAFETY: the caller says so.
    unsafe { status.as_ref() }.ok_or_else(|| Error::new(Class::Arg, "the status is a null pointer"))
}

/// `MPI_Status_set_cancelled`.
pub unsafe fn status_set_cancelled(status: *mut Status, flag: c_int) -> c_int {
    plainly("MPI_Status_set_cancelled", || {
        // SAFETY: the program gives a status, which can be written to.
        unsafe {
            of(status)?;
            (*status).internal[2] = (flag != 0).into();
        }
        Ok(())
    })
}

/// `MPI_Status_set_elements`: the number of basic elements.
pub unsafe fn status_set_elements(status: *mut Status, datatype: Handle, count: Count) -> c_int {
    plainly("MPI_Status_set_elements", || {
        // SAFETY: the program gives a status, which can be written to, and a datatype.
        unsafe {
            of(status)?;
            let datatype = look(datatype)?;
            set_bytes(status, datatype.bytes_of_elements(count) as u64);
        }
        Ok(())
    })
}

/// `MPI_Get_count`.
pub unsafe fn get_count(status: *const Status, datatype: Handle, count: *mut Count) -> c_int {
    plainly("MPI_Get_count", || {
        // SAFETY: the program gives a status, a datatype and a place for the answer.
        unsafe {
            let (bytes, size) = (of(status)?.bytes(), look(datatype)?.size as u64);
            put(
                count,
                match (bytes.checked_div(size), bytes.checked_rem(size)) {
                    (Some(count), Some(0)) => count as Count,
                    (None, _) if bytes == 0 => 0,
                    _ => MPI_UNDEFINED.into(),
                },
            )
        }
    })
}

/// `MPI_Get_elements`.
pub unsafe fn get_elements(status: *const Status, datatype: Handle, count: *mut Count) -> c_int {
    plainly("MPI_Get_elements", || {
        // SAFETY: the program gives a status, a datatype and a place for the answer.
        unsafe {
            let (bytes, datatype) = (of(status)?.bytes() as i64, look(datatype)?);
            let elements = match datatype.ends_within_element(bytes) {
                true => MPI_UNDEFINED.into(),
                false => datatype.elements_in(bytes),
            };
            put(count, elements)
        }
    })
}
