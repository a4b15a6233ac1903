//! Variables of tools, their names and handles.

use std::{
    ffi::{CStr, CString, c_char},
    thread,
    time::Duration,
};

use super::*;
use crate::{
    calls::{
        error_codes::error_string, tool_categories::*, tool_controls::*, tool_events::*,
        tool_performance::*, tools::*,
    },
    constants::*,
};

/// Returns a text that a function gives, with its length as the function says it.
fn text(mut give: impl FnMut(*mut c_char, *mut c_int) -> c_int) -> String {
    let mut length = 0;
    assert_eq!(give(null_mut(), &mut length), 0);
    let full = length;
    // Without room, as without an address.
    let mut letters: Vec<c_char> = vec![1; full as usize + 1];
    length = 0;
    assert_eq!(give(letters.as_mut_ptr(), &mut length), 0);
    assert_eq!((length, letters[0]), (full, 1));
    // Without a length, nothing is written.
    assert_eq!(give(letters.as_mut_ptr(), null_mut()), 0);
    assert_eq!(letters[0], 1);
    // What is too long is cut.
    length = full - 1;
    assert_eq!(give(letters.as_mut_ptr(), &mut length), 0);
    // SAFETY: the function has ended the text.
    let cut = unsafe { CStr::from_ptr(letters.as_ptr()) }.to_owned();
    assert_eq!((length, letters[full as usize - 1]), (full, 1));
    length = full;
    assert_eq!(give(letters.as_mut_ptr(), &mut length), 0);
    assert_eq!((length, letters[full as usize]), (full, 1));
    // SAFETY: as above.
    let all = unsafe { CStr::from_ptr(letters.as_ptr()) }.to_str().unwrap().to_owned();
    assert_eq!((all.len() + 1, &all.as_bytes()[..all.len() - 1]), (full as usize, cut.as_bytes()));
    all
}

/// Returns how many there are.
fn number(give: unsafe fn(*mut c_int) -> c_int) -> c_int {
    let mut count = -1;
    ok!(give(&mut count));
    fails!(MPI_T_ERR_INVALID, give(null_mut()));
    count
}

const NUMBER: *mut c_int = null_mut();
const LETTERS: *mut c_char = null_mut();
const HANDLE: *mut Handle = null_mut();

/// Returns the name of a control variable.
fn control(index: c_int) -> String {
    // SAFETY: the test gives places for what it wants.
    text(|to, length| unsafe {
        let (none, handle, letters) = (NUMBER, HANDLE, LETTERS);
        t_cvar_get_info(index, to, length, none, handle, handle, letters, none, none, none)
    })
}

/// Returns the name of a performance variable, and its class.
fn variable(index: c_int) -> (String, c_int) {
    let mut class = 0;
    let class_at = &raw mut class;
    // SAFETY: the test gives places for what it wants.
    let name = text(|to, length| unsafe {
        let (none, handle, letters) = (NUMBER, HANDLE, LETTERS);
        t_pvar_get_info(
            index, to, length, none, class_at, handle, handle, letters, none, none, none, none,
            none,
        )
    });
    (name, class)
}

/// Returns the name of a category.
fn category(index: c_int) -> String {
    let (none, letters) = (NUMBER, LETTERS);
    // SAFETY: the test gives places for what it wants.
    text(|to, length| unsafe {
        t_category_get_info(index, to, length, letters, none, none, none, none)
    })
}

fn begin() {
    let mut provided = -1;
    ok!(t_init_thread(MPI_THREAD_MULTIPLE, &mut provided));
    assert_eq!(provided, MPI_THREAD_MULTIPLE);
}

#[test]
fn tools_get_the_level_of_threads_that_they_ask_for() {
    for (wanted, expected) in [
        (c_int::MIN, MPI_THREAD_SINGLE),
        (MPI_THREAD_SINGLE, MPI_THREAD_SINGLE),
        (1, MPI_THREAD_FUNNELED),
        (MPI_THREAD_SERIALIZED, MPI_THREAD_SERIALIZED),
        (c_int::MAX, MPI_THREAD_MULTIPLE),
    ] {
        let mut provided = -1;
        ok!(t_init_thread(wanted, &mut provided));
        assert_eq!(provided, expected);
        ok!(t_finalize());
    }
}

#[test]
fn everything_is_found_by_its_name() {
    begin();
    let mut index = -1;
    for place in 0..number(t_cvar_get_num) {
        let name = CString::new(control(place)).unwrap();
        ok!(t_cvar_get_index(name.as_ptr(), &mut index));
        assert_eq!(index, place);
    }
    for place in 0..number(t_pvar_get_num) {
        let (name, class) = variable(place);
        let name = CString::new(name).unwrap();
        ok!(t_pvar_get_index(name.as_ptr(), class, &mut index));
        assert_eq!(index, place);
        // The class counts, too.
        fails!(
            MPI_T_ERR_INVALID_NAME,
            t_pvar_get_index(name.as_ptr(), MPI_T_PVAR_CLASS_SIZE, &mut index)
        );
    }
    for place in 0..number(t_category_get_num) {
        let name = CString::new(category(place)).unwrap();
        ok!(t_category_get_index(name.as_ptr(), &mut index));
        assert_eq!(index, place);
    }
    let nothing = c"unexpected".as_ptr();
    fails!(MPI_T_ERR_INVALID_NAME, t_cvar_get_index(nothing, &mut index));
    fails!(MPI_T_ERR_INVALID_NAME, t_category_get_index(nothing, &mut index));
    fails!(MPI_T_ERR_INVALID_NAME, t_event_get_index(nothing, &mut index));
    fails!(MPI_T_ERR_INVALID, t_cvar_get_index(null_mut(), &mut index));
    fails!(MPI_T_ERR_INVALID, t_cvar_get_index(c"ONCHIP_WAIT".as_ptr(), null_mut()));
    ok!(t_finalize());
}

#[test]
fn every_variable_is_in_one_category() {
    begin();
    let (mut controls, mut variables, mut categories) = (Vec::new(), Vec::new(), Vec::new());
    for place in 0..number(t_category_get_num) {
        let mut counts = [-1; 3];
        let [of_controls, of_variables, of_categories] = &mut counts;
        ok!(t_category_get_info(
            place,
            LETTERS,
            NUMBER,
            LETTERS,
            NUMBER,
            of_controls,
            of_variables,
            of_categories
        ));
        type Get = unsafe fn(c_int, c_int, *mut c_int) -> c_int;
        let all: [(Get, &mut Vec<c_int>); 3] = [
            (t_category_get_cvars, &mut controls),
            (t_category_get_pvars, &mut variables),
            (t_category_get_categories, &mut categories),
        ];
        for ((get, members), count) in all.into_iter().zip(counts) {
            // There is room for one more, and for one less.
            let mut numbers = vec![-1; count as usize + 1];
            ok!(get(place, count + 1, numbers.as_mut_ptr()));
            assert_eq!(numbers.pop(), Some(-1));
            if count > 0 {
                let mut fewer = vec![-1; count as usize];
                ok!(get(place, count - 1, fewer.as_mut_ptr()));
                assert_eq!(fewer.pop(), Some(-1));
                assert_eq!(fewer, numbers[..fewer.len()]);
                fails!(MPI_T_ERR_INVALID, get(place, count, NUMBER));
            }
            fails!(MPI_T_ERR_INVALID, get(place, -1, numbers.as_mut_ptr()));
            members.extend(numbers);
        }
        let (mut events, mut none) = (-1, [-1]);
        ok!(t_category_get_num_events(place, &mut events));
        ok!(t_category_get_events(place, 1, none.as_mut_ptr()));
        assert_eq!((events, none), (0, [-1]));
    }
    for (mut members, first, all) in [
        (controls, 0, number(t_cvar_get_num)),
        (variables, 0, number(t_pvar_get_num)),
        (categories, 1, number(t_category_get_num)),
    ] {
        members.sort_unstable();
        assert_eq!(members, (first..all).collect::<Vec<_>>());
    }
    let (mut stamp, mut again) = (-1, -2);
    ok!(t_category_changed(&mut stamp));
    ok!(t_category_changed(&mut again));
    assert_eq!(stamp, again);
    ok!(t_finalize());
}

#[test]
fn there_is_nothing_beyond_the_last_index() {
    begin();
    let mut handle = null_mut();
    let mut session = null_mut();
    ok!(t_pvar_session_create(&mut session));
    let object = null_mut::<c_void>();
    for index in [-1, 100, c_int::MAX] {
        let (none, letters) = (NUMBER, LETTERS);
        fails!(
            MPI_T_ERR_INVALID_INDEX,
            t_cvar_get_info(index, letters, none, none, HANDLE, HANDLE, letters, none, none, none)
        );
        fails!(MPI_T_ERR_INVALID_INDEX, t_cvar_handle_alloc(index, object, &mut handle, none));
        fails!(
            MPI_T_ERR_INVALID_INDEX,
            t_pvar_handle_alloc(session, index, object, &mut handle, none)
        );
        fails!(
            MPI_T_ERR_INVALID_INDEX,
            t_category_get_info(index, letters, none, letters, none, none, none, none)
        );
        fails!(MPI_T_ERR_INVALID_INDEX, t_category_get_cvars(index, 0, none));
        fails!(MPI_T_ERR_INVALID_INDEX, t_category_get_num_events(index, none));
        let count = null_mut();
        fails!(
            MPI_T_ERR_INVALID_INDEX,
            t_source_get_info(index, letters, none, letters, none, none, count, count, HANDLE)
        );
        fails!(MPI_T_ERR_INVALID_INDEX, t_source_get_timestamp(index, count));
        fails!(
            MPI_T_ERR_INVALID_INDEX,
            t_event_handle_alloc(index, object, MPI_INFO_NULL, &mut handle)
        );
    }
    fails!(MPI_T_ERR_INVALID_INDEX, t_event_handle_alloc(0, object, MPI_INFO_NULL, &mut handle));
    fails!(MPI_T_ERR_INVALID_HANDLE, t_event_handle_free(null_mut(), object, None));
    fails!(MPI_T_ERR_INVALID_HANDLE, t_event_read(null_mut(), 0, object));
    assert!(handle.is_null());
    assert_eq!(number(t_event_get_num), 0);
    ok!(t_pvar_session_free(&mut session));
    ok!(t_finalize());
}

#[test]
fn numbers_have_names() {
    begin();
    let mut enumeration = null_mut();
    let (none, letters) = (NUMBER, LETTERS);
    ok!(t_cvar_get_info(
        0,
        letters,
        none,
        none,
        HANDLE,
        &mut enumeration,
        letters,
        none,
        none,
        none
    ));
    // SAFETY: the test gives places for what it wants.
    let name = text(|to, length| unsafe { t_enum_get_info(enumeration, none, to, length) });
    assert_eq!(name, "wait policy");
    let mut count = -1;
    ok!(t_enum_get_info(enumeration, &mut count, letters, none));
    let item = |place| {
        let mut value = -1;
        // SAFETY: the test gives places for what it wants.
        let name = text(|to, length| unsafe {
            t_enum_get_item(enumeration, place, &raw mut value, to, length)
        });
        (value, name)
    };
    let all: Vec<_> = (0..count).map(item).collect();
    let named = [(0, "spin"), (1, "adaptive"), (2, "park")];
    assert_eq!(all, named.map(|(value, name)| (value, name.to_owned())));
    let mut value = -1;
    for place in [-1, count] {
        fails!(
            MPI_T_ERR_INVALID_INDEX,
            t_enum_get_item(enumeration, place, &mut value, letters, none)
        );
    }
    fails!(MPI_T_ERR_INVALID_HANDLE, t_enum_get_info(MPI_T_ENUM_NULL, &mut count, letters, none));
    ok!(t_finalize());
}

#[test]
fn handles_end_and_belong_to_their_sessions() {
    begin();
    let mut sessions = [null_mut(); 2];
    sessions.iter_mut().for_each(|session| ok!(t_pvar_session_create(session)));
    let [first, second] = sessions;
    let waits = {
        let mut index = -1;
        let name = c"message_waits".as_ptr();
        ok!(t_pvar_get_index(name, MPI_T_PVAR_CLASS_COUNTER, &mut index));
        index
    };
    let (mut handle, mut count, mut value) = (null_mut(), -1, 77u64);
    let to = (&raw mut value).cast();
    ok!(t_pvar_handle_alloc(first, waits, null_mut(), &mut handle, &mut count));
    assert_eq!(count, 1);
    ok!(t_pvar_read(first, handle, to));
    assert_eq!(value, 0);
    fails!(MPI_T_ERR_INVALID_HANDLE, t_pvar_read(second, handle, to));
    fails!(MPI_T_ERR_INVALID_HANDLE, t_pvar_read(first, MPI_T_PVAR_ALL_HANDLES, to));
    fails!(MPI_T_ERR_INVALID_HANDLE, t_pvar_readreset(first, MPI_T_PVAR_ALL_HANDLES, to));
    fails!(MPI_T_ERR_INVALID_HANDLE, t_pvar_start(first, MPI_T_PVAR_HANDLE_NULL));
    fails!(MPI_T_ERR_INVALID_SESSION, t_pvar_start(MPI_T_PVAR_SESSION_NULL, handle));
    fails!(MPI_T_ERR_INVALID_HANDLE, t_pvar_handle_free(second, &mut handle));

    // What is not started keeps what was written.
    let write = |number: u64| ok!(t_pvar_write(first, handle, (&raw const number).cast()));
    write(12);
    ok!(t_pvar_readreset(first, handle, to));
    assert_eq!(value, 12);
    ok!(t_pvar_read(first, handle, to));
    assert_eq!(value, 0);
    write(5);
    ok!(t_pvar_reset(first, MPI_T_PVAR_ALL_HANDLES));
    ok!(t_pvar_read(first, handle, to));
    assert_eq!(value, 0);

    // What is always counted can't be changed.
    let mut level = null_mut();
    ok!(t_pvar_handle_alloc(first, 0, null_mut(), &mut level, null_mut()));
    fails!(MPI_T_ERR_PVAR_NO_STARTSTOP, t_pvar_start(first, level));
    fails!(MPI_T_ERR_PVAR_NO_STARTSTOP, t_pvar_stop(first, level));
    fails!(MPI_T_ERR_PVAR_NO_WRITE, t_pvar_reset(first, level));
    fails!(MPI_T_ERR_PVAR_NO_WRITE, t_pvar_write(first, level, to));
    fails!(MPI_T_ERR_PVAR_NO_ATOMIC, t_pvar_readreset(first, level, to));
    // All of a session are those for which that is possible.
    ok!(t_pvar_reset(first, MPI_T_PVAR_ALL_HANDLES));
    ok!(t_pvar_stop(second, MPI_T_PVAR_ALL_HANDLES));

    let freed = handle;
    ok!(t_pvar_handle_free(first, &mut handle));
    assert_eq!(handle, MPI_T_PVAR_HANDLE_NULL);
    fails!(MPI_T_ERR_INVALID_HANDLE, t_pvar_read(first, freed, to));
    let [mut first, mut second] = sessions;
    let ended = first;
    ok!(t_pvar_session_free(&mut first));
    assert_eq!(first, MPI_T_PVAR_SESSION_NULL);
    fails!(MPI_T_ERR_INVALID_SESSION, t_pvar_read(ended, level, to));
    fails!(MPI_T_ERR_INVALID_HANDLE, t_pvar_read(second, level, to));
    fails!(MPI_T_ERR_INVALID_SESSION, t_pvar_session_free(&mut first));
    ok!(t_pvar_session_free(&mut second));
    ok!(t_finalize());
}

#[test]
fn waits_are_counted_while_they_are_started() {
    begin();
    on_ranks(2, |comm, me, _| {
        let mut word = 5i32;
        let at = (&raw mut word).cast::<c_void>();
        if me == 1 {
            for _ in 0..3 {
                ok!(calls::collectives::barrier(comm));
                thread::sleep(Duration::from_millis(60));
                ok!(calls::point_to_point::send(at, 1, predefined(INT), 0, 7, comm));
            }
            return;
        }
        let mut session = null_mut();
        ok!(t_pvar_session_create(&mut session));
        let open = |name: &CStr, class| {
            let (mut index, mut handle) = (-1, null_mut());
            ok!(t_pvar_get_index(name.as_ptr(), class, &mut index));
            ok!(t_pvar_handle_alloc(session, index, null_mut(), &mut handle, null_mut()));
            handle
        };
        let waits = open(c"message_waits", MPI_T_PVAR_CLASS_COUNTER);
        let time = open(c"message_wait_time", MPI_T_PVAR_CLASS_TIMER);
        let receive = || {
            ok!(calls::collectives::barrier(comm));
            ok!(calls::point_to_point::recv(at, 1, predefined(INT), 1, 7, comm, NONE));
        };
        let read = || {
            let (mut number, mut seconds) = (0u64, -1.0f64);
            ok!(t_pvar_read(session, waits, (&raw mut number).cast()));
            ok!(t_pvar_read(session, time, (&raw mut seconds).cast()));
            (number, seconds)
        };
        receive();
        assert_eq!(read(), (0, 0.0));
        ok!(t_pvar_start(session, MPI_T_PVAR_ALL_HANDLES));
        receive();
        let (number, seconds) = read();
        assert!(number > 0 && (0.02..10.0).contains(&seconds), "{number}, {seconds}");
        ok!(t_pvar_stop(session, MPI_T_PVAR_ALL_HANDLES));
        let stopped = read();
        receive();
        assert_eq!(read(), stopped);
        ok!(t_pvar_session_free(&mut session));
    });
    ok!(t_finalize());
}

#[test]
fn the_clock_is_a_source_of_times() {
    begin();
    assert_eq!(number(t_source_get_num), 1);
    let (mut ordering, mut ticks, mut most, mut info) = (-1, 0, 0, null_mut());
    let (none, letters) = (NUMBER, LETTERS);
    ok!(t_source_get_info(
        0,
        letters,
        none,
        letters,
        none,
        &mut ordering,
        &mut ticks,
        &mut most,
        &mut info
    ));
    assert_eq!((ordering, most), (MPI_T_SOURCE_ORDERED, i64::MAX));
    ok!(calls::info::info_free(&mut info));
    let (mut before, mut after) = (0, 0);
    // SAFETY: the function takes nothing.
    let began = unsafe { calls::environment::wtime() };
    ok!(t_source_get_timestamp(0, &mut before));
    ok!(t_source_get_timestamp(0, &mut after));
    let seconds = before as f64 / ticks as f64;
    assert!(after >= before && (began..began + 60.0).contains(&(seconds + 1e-6)));
    ok!(t_finalize());
}

#[test]
fn errors_of_tools_have_texts() {
    let (mut letters, mut length) = ([0; MPI_MAX_ERROR_STRING as usize], 0);
    ok!(error_string(MPI_T_ERR_CVAR_SET_NEVER, letters.as_mut_ptr(), &mut length));
    // SAFETY: the function has ended the text.
    let said = unsafe { CStr::from_ptr(letters.as_ptr()) }.to_str().unwrap();
    assert!(said.starts_with("MPI_T_ERR_CVAR_SET_NEVER: "), "{said}");
}
