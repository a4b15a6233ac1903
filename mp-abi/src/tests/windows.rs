//! Windows.

use super::*;
use crate::{
    calls::{
        communicators::comm_group,
        environment::{alloc_mem, free_mem},
        groups::{group_free, group_incl},
        one_sided::*,
        requests::wait,
        window_synchronization::*,
        windows::*,
    },
    constants::{
        MPI_ERR_COUNT, MPI_ERR_DISP, MPI_ERR_LOCKTYPE, MPI_ERR_OP, MPI_ERR_PROC_ABORTED,
        MPI_ERR_RANK, MPI_ERR_RMA_RANGE, MPI_ERR_RMA_SYNC, MPI_ERR_SIZE, MPI_ERR_TYPE, MPI_ERR_WIN,
        MPI_ERRORS_RETURN, MPI_INFO_NULL, MPI_LOCK_EXCLUSIVE, MPI_LOCK_SHARED, MPI_MODE_NOCHECK,
        MPI_MODE_NOSUCCEED, MPI_WIN_BASE, MPI_WIN_CREATE_FLAVOR, MPI_WIN_DISP_UNIT,
        MPI_WIN_FLAVOR_SHARED, MPI_WIN_NULL, MPI_WIN_SIZE,
    },
    op::{BXOR, MAX, MAXLOC, NO_OP, REPLACE, SUM},
};

const DOUBLE_INT: usize = 0x229;
const BYTE: usize = 0x247;

/// Where the memory of a window is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Memory {
    /// The window's own.
    Allocated,
    Shared,
    /// From `MPI_Alloc_mem`.
    Lent,
    /// The program's.
    Own,
}

const ALL: [Memory; 4] = [Memory::Allocated, Memory::Shared, Memory::Lent, Memory::Own];

/// Makes a window of `length` elements in each rank, filled with a value, and gives it to a function with its memory.
fn with_window(
    comm: Handle,
    memory: Memory,
    (length, value): (usize, i32),
    code: impl FnOnce(Handle, *mut i32),
) {
    let (mut window, mut base) = (null_mut(), null_mut::<c_void>());
    let (bytes, place) = (4 * length as isize, (&raw mut base).cast());
    let mut own = vec![0i32; length];
    match memory {
        Memory::Allocated => {
            ok!(win_allocate(bytes, 4, MPI_INFO_NULL, comm, place, &mut window));
        }
        Memory::Shared => {
            ok!(win_allocate_shared(bytes, 4, MPI_INFO_NULL, comm, place, &mut window));
        }
        Memory::Lent => {
            ok!(alloc_mem(bytes, MPI_INFO_NULL, place));
            ok!(win_create(base, bytes, 4, MPI_INFO_NULL, comm, &mut window));
        }
        Memory::Own => {
            base = address(&mut own);
            ok!(win_create(base, bytes, 4, MPI_INFO_NULL, comm, &mut window));
        }
    }
    ok!(win_set_errhandler(window, MPI_ERRORS_RETURN));
    let elements = base.cast::<i32>();
    for place in 0..length {
        // SAFETY: the window has this many elements.
        unsafe { elements.add(place).write(value) };
    }
    ok!(calls::collectives::barrier(comm));
    code(window, elements);
    ok!(win_free(&mut window));
    assert_eq!(window, MPI_WIN_NULL);
    if memory == Memory::Lent {
        ok!(free_mem(base));
    }
    drop(own);
}

/// Returns the elements of a window's memory.
fn read(elements: *const i32, length: usize) -> Vec<i32> {
    // SAFETY: the window has this many elements, and the test is in an epoch in which nobody changes them.
    (0..length).map(|place| unsafe { elements.add(place).read() }).collect()
}

/// Runs a test on several numbers of ranks, and with memory of all kinds.
fn on_all(code: impl Fn(Handle, usize, usize, Memory) + Send + Sync) {
    for ranks in [1, 2, 3, 5, 8] {
        for memory in ALL {
            on_ranks(ranks, |comm, me, size| code(comm, me, size, memory));
        }
    }
}

#[test]
fn put_and_get_between_fences() {
    on_all(|comm, me, size, memory| {
        let (next, int) = ((me + 1) % size, predefined(INT));
        with_window(comm, memory, (2 * 1501, -1), |window, elements| {
            for length in [1usize, 3, 1500] {
                let numbers: Vec<i32> = (0..length).map(|at| (me * 10_000 + at) as i32).collect();
                let from = numbers.as_ptr().cast();
                ok!(win_fence(0, window));
                ok!(put(from, length as i64, int, next as c_int, 1, length as i64, int, window));
                // Every second element of the other half.
                let strided = every_second(length as i64);
                if length <= 750 {
                    ok!(put(from, length as i64, int, next as c_int, 1501, 1, strided, window));
                }
                ok!(win_fence(0, window));
                let before = (me + size - 1) % size;
                let expected: Vec<i32> =
                    (0..length).map(|at| (before * 10_000 + at) as i32).collect();
                let all = read(elements, 3002);
                assert_eq!((all[0], &all[1..=length]), (-1, &expected[..]), "{memory:?}");
                if length <= 750 {
                    let second: Vec<i32> =
                        all[1501..].iter().step_by(2).take(length).copied().collect();
                    assert_eq!(second, expected);
                    assert!(all[1502..].iter().step_by(2).take(length).all(|&gap| gap == -1));
                }
                let mut got = vec![0; 2 * length];
                let to = address(&mut got);
                ok!(get(to, 1, strided, next as c_int, 1, length as i64, int, window));
                ok!(win_fence(MPI_MODE_NOSUCCEED, window));
                let seen: Vec<i32> = got.iter().step_by(2).copied().collect();
                assert_eq!(seen, numbers);
                assert!(got[1..].iter().step_by(2).all(|&gap| gap == 0));
                let mut strided = strided;
                ok!(calls::datatypes::type_free(&mut strided));
            }
        });
    });
}

#[test]
fn accumulates_of_all_ranks_add_up() {
    const LENGTH: usize = 7;
    on_all(|comm, me, size, memory| {
        let int = predefined(INT);
        with_window(comm, memory, (LENGTH, 0), |window, elements| {
            ok!(win_fence(0, window));
            let ones = [1; LENGTH];
            for _ in 0..50 {
                for target in 0..size as c_int {
                    let (from, count) = (ones.as_ptr().cast(), LENGTH as i64);
                    let sum = predefined(SUM);
                    ok!(accumulate(from, count, int, target, 0, count, int, sum, window));
                }
            }
            ok!(win_fence(0, window));
            assert_eq!(read(elements, LENGTH), [50 * size as i32; LENGTH]);
            // Each rank takes tickets at rank 0: all of them are different.
            ok!(win_fence(0, window));
            let mut tickets = Vec::new();
            for _ in 0..20 {
                let mut ticket = [0];
                let (one, to) = (ones.as_ptr().cast(), address(&mut ticket));
                ok!(fetch_and_op(one, to, int, 0, 2, predefined(SUM), window));
                tickets.push(ticket[0]);
            }
            assert!(tickets.is_sorted());
            // A counter that is only raised if nobody else has raised it.
            for _ in 0..20 {
                loop {
                    let (mut now, mut was) = ([0], [0]);
                    let (nothing, to) = (address(&mut now), address(&mut was));
                    let no_op = predefined(NO_OP);
                    ok!(get_accumulate(
                        null_mut(),
                        0,
                        int,
                        nothing,
                        1,
                        int,
                        0,
                        3,
                        1,
                        int,
                        no_op,
                        window
                    ));
                    let next = [now[0] + 1];
                    let (new, old) = (next.as_ptr().cast(), now.as_ptr().cast());
                    ok!(compare_and_swap(new, old, to, int, 0, 3, window));
                    if was == now {
                        break;
                    }
                }
            }
            ok!(win_fence(0, window));
            let all = read(elements, LENGTH);
            if me == 0 {
                assert_eq!(all[2..4], [70 * size as i32, 70 * size as i32]);
            }
        });
    });
}

#[test]
fn accumulates_take_all_predefined_operations_and_types() {
    on_all(|comm, me, size, memory| {
        with_window(comm, memory, (16, 0), |window, elements| {
            let (byte, int) = (predefined(BYTE), predefined(INT));
            // Pairs with a gap: the value and the rank that has it.
            #[repr(C)]
            struct Pair(f64, c_int);
            let pair = Pair((me % 4) as f64, me as c_int);
            ok!(win_fence(0, window));
            let (from, kind) = ((&raw const pair).cast(), predefined(DOUBLE_INT));
            ok!(accumulate(from, 1, kind, 0, 0, 1, kind, predefined(MAXLOC), window));
            let (nothing, mut empty) = (from, null_mut());
            ok!(calls::datatypes::type_contiguous(0, int, &mut empty));
            ok!(calls::datatypes::type_commit(&mut empty));
            ok!(accumulate(nothing, 1, empty, 0, 0, 1, empty, predefined(SUM), window));
            ok!(calls::datatypes::type_free(&mut empty));
            let bits = [1u8 << me];
            let (bits, xor) = (bits.as_ptr().cast(), predefined(BXOR));
            ok!(accumulate(bits, 1, byte, 0, 5, 1, byte, xor, window));
            // Two ints with a gap between them.
            let (values, mut strided) = ([me as i32, -(me as i32)], every_second(2));
            let (values, max) = (values.as_ptr().cast(), predefined(MAX));
            ok!(accumulate(values, 2, int, 0, 8, 1, strided, max, window));
            ok!(win_fence(0, window));
            if me == 0 {
                let all = read(elements, 16);
                let best = (size - 1).min(3);
                assert_eq!(all[2], best as i32, "the lowest rank that has the largest value");
                assert_eq!(
                    f64::from_bits(all[0] as u32 as u64 | (all[1] as u32 as u64) << 32),
                    best as f64
                );
                assert_eq!(all[5], (1 << size) - 1);
                assert_eq!(all[8..11], [size as i32 - 1, 0, 0]);
            }
            ok!(win_fence(0, window));
            let (mut old, new) = ([0], [100 + me as i32]);
            let (to, new) = (address(&mut old), new.as_ptr().cast());
            let replace = predefined(REPLACE);
            ok!(get_accumulate(new, 1, int, to, 1, int, me as c_int, 9, 1, int, replace, window));
            ok!(win_fence(0, window));
            assert_eq!((old, read(elements, 10)[9]), ([0], 100 + me as i32));
            ok!(calls::datatypes::type_free(&mut strided));
        });
    });
}

#[test]
fn locks_keep_others_away() {
    on_all(|comm, me, size, memory| {
        let int = predefined(INT);
        with_window(comm, memory, (3, 0), |window, elements| {
            ok!(calls::collectives::barrier(comm));
            for round in 0..30 {
                let target = ((me + round) % size) as c_int;
                ok!(win_lock(MPI_LOCK_EXCLUSIVE, target, 0, window));
                let mut values = [0; 2];
                ok!(get(address(&mut values), 2, int, target, 0, 2, int, window));
                ok!(win_flush(target, window));
                assert_eq!(values[0], -values[1]);
                let next = [values[0] + 1, values[1] - 1];
                for (place, value) in next.iter().enumerate() {
                    let from = (&raw const *value).cast();
                    ok!(put(from, 1, int, target, place as isize, 1, int, window));
                }
                ok!(win_unlock(target, window));
                ok!(win_lock(MPI_LOCK_SHARED, target, 0, window));
                let mut values = [0; 2];
                ok!(get(address(&mut values), 2, int, target, 0, 2, int, window));
                assert_eq!(values[0], -values[1]);
                ok!(win_unlock(target, window));
                if round % 10 == 0 {
                    ok!(win_lock_all(0, window));
                    for other in 0..size as c_int {
                        let (one, sum) = ([1], predefined(SUM));
                        let one = one.as_ptr().cast();
                        ok!(accumulate(one, 1, int, other, 2, 1, int, sum, window));
                    }
                    ok!(win_flush_all(window));
                    ok!(win_unlock_all(window));
                }
            }
            ok!(calls::collectives::barrier(comm));
            assert_eq!(read(elements, 3), [30, -30, 3 * size as i32]);
        });
    });
}

#[test]
fn a_rank_may_hold_several_locks_while_others_want_all() {
    on_ranks(3, |comm, me, size| {
        with_window(comm, Memory::Allocated, (1, 0), |window, _| {
            for _ in 0..200 {
                if me == 0 {
                    // In the order that is opposite to that in which the others share them.
                    for target in (0..size as c_int).rev() {
                        ok!(win_lock(MPI_LOCK_EXCLUSIVE, target, 0, window));
                    }
                    for target in 0..size as c_int {
                        ok!(win_unlock(target, window));
                    }
                } else {
                    ok!(win_lock_all(0, window));
                    ok!(win_unlock_all(window));
                }
            }
            ok!(win_lock_all(MPI_MODE_NOCHECK, window));
            ok!(win_unlock_all(window));
        });
    });
}

/// Makes a group of ranks of a communicator.
fn group(comm: Handle, ranks: &[c_int]) -> Handle {
    let (mut all, mut some) = (null_mut(), null_mut());
    ok!(comm_group(comm, &mut all));
    ok!(group_incl(all, ranks.len() as c_int, ranks.as_ptr(), &mut some));
    ok!(group_free(&mut all));
    some
}

#[test]
fn ranks_post_and_start() {
    on_all(|comm, me, size, memory| {
        let int = predefined(INT);
        with_window(comm, memory, (size, -1), |window, elements| {
            // Each rank writes to those after it, itself among them in every second round.
            for round in 0..6 {
                let near = 1 - round % 2;
                let ranks = |step: usize| -> Vec<c_int> {
                    let steps = near..size.min(3);
                    let ranks = steps.map(|by| ((me + by * step) % size) as c_int);
                    ranks.collect()
                };
                let (from, to) = (ranks(size - 1), ranks(1));
                let (mut origins, mut targets) = (group(comm, &from), group(comm, &to));
                ok!(win_post(origins, 0, window));
                ok!(win_start(targets, 0, window));
                for &target in &to {
                    let value = [(100 * round + me) as i32];
                    let value = value.as_ptr().cast();
                    ok!(put(value, 1, int, target, me as isize, 1, int, window));
                }
                ok!(win_complete(window));
                if round < 3 {
                    ok!(win_wait(window));
                } else {
                    let mut is_over = 0;
                    while is_over == 0 {
                        ok!(win_test(window, &mut is_over));
                        std::thread::yield_now();
                    }
                }
                let all = read(elements, size);
                for &origin in &from {
                    assert_eq!(all[origin as usize], (100 * round) as i32 + origin);
                }
                ok!(group_free(&mut origins));
                ok!(group_free(&mut targets));
            }
        });
    });
}

#[test]
fn memory_is_attached_to_dynamic_windows() {
    for ranks in [1, 2, 5] {
        on_ranks(ranks, |comm, me, size| {
            let mut window = null_mut();
            ok!(win_create_dynamic(MPI_INFO_NULL, comm, &mut window));
            let (mut own, long) = ([0i64; 4], predefined(0x20a));
            ok!(win_attach(window, address(&mut own), 32));
            let mine = [own.as_mut_ptr().expose_provenance() as i64];
            let mut places = vec![0i64; size];
            let to = address(&mut places);
            let mine = mine.as_ptr().cast();
            ok!(calls::collectives::allgather(mine, 1, long, to, 1, long, comm));
            ok!(win_lock_all(0, window));
            for (target, &place) in places.iter().enumerate() {
                let (one, sum) = ([1i64], predefined(SUM));
                let (one, at) = (one.as_ptr().cast(), (place + 8) as isize);
                ok!(accumulate(one, 1, long, target as c_int, at, 1, long, sum, window));
            }
            ok!(win_unlock_all(window));
            ok!(calls::collectives::barrier(comm));
            ok!(win_lock(MPI_LOCK_SHARED, me as c_int, 0, window));
            ok!(win_unlock(me as c_int, window));
            assert_eq!(own, [0, size as i64, 0, 0]);
            ok!(win_detach(window, own.as_ptr().cast()));
            ok!(win_free(&mut window));
        });
    }
}

#[test]
fn shared_memory_is_one_piece() {
    for ranks in [1, 2, 5] {
        on_ranks(ranks, |comm, me, size| {
            let (mut window, mut base) = (null_mut(), null_mut::<i32>());
            // Each rank has as many elements as its number says.
            let bytes = 4 * me as isize;
            let place = (&raw mut base).cast();
            ok!(win_allocate_shared(bytes, 4, MPI_INFO_NULL, comm, place, &mut window));
            for at in 0..me {
                // SAFETY: the rank has this many elements.
                unsafe { base.add(at).write((10 * me + at) as i32) };
            }
            ok!(win_fence(0, window));
            let (mut bytes, mut unit, mut first) = (0, 0, null_mut::<i32>());
            let place = (&raw mut first).cast();
            ok!(win_shared_query(window, NOBODY, &mut bytes, &mut unit, place));
            if size > 1 {
                assert_eq!((bytes, unit), (4, 4));
                let expected: Vec<i32> = (1..size)
                    .flat_map(|rank| (0..rank).map(move |at| (10 * rank + at) as i32))
                    .collect();
                assert_eq!(read(first, expected.len()), expected);
            }
            let place = (&raw mut first).cast();
            ok!(win_shared_query(window, me as c_int, &mut bytes, &mut unit, place));
            assert_eq!((bytes, first), (4 * me as isize, base));
            assert_eq!(base.is_null(), me == 0);
            let (mut value, mut flag) = (null_mut::<c_int>(), 0);
            for (key, expected) in
                [(MPI_WIN_DISP_UNIT, 4), (MPI_WIN_CREATE_FLAVOR, MPI_WIN_FLAVOR_SHARED)]
            {
                ok!(win_get_attr(window, key, (&raw mut value).cast(), &mut flag));
                // SAFETY: the attribute's value is the address of an `int`.
                assert_eq!((flag, unsafe { value.read() }), (1, expected));
            }
            let mut size = null_mut::<isize>();
            ok!(win_get_attr(window, MPI_WIN_SIZE, (&raw mut size).cast(), &mut flag));
            // SAFETY: the attribute's value is the address of an `MPI_Aint`.
            assert_eq!(unsafe { size.read() }, 4 * me as isize);
            ok!(win_get_attr(window, MPI_WIN_BASE, (&raw mut value).cast(), &mut flag));
            assert_eq!(value, base);
            ok!(win_fence(0, window));
            ok!(win_free(&mut window));
        });
    }
}

#[test]
fn requests_of_windows_are_complete() {
    on_ranks(3, |comm, me, size| {
        let (int, next) = (predefined(INT), ((me + 1) % size) as c_int);
        with_window(comm, Memory::Allocated, (4, 0), |window, elements| {
            ok!(win_lock_all(0, window));
            let (from, mut to, mut request) = ([7, 8], [0; 2], null_mut());
            let (from, got) = (from.as_ptr().cast(), address(&mut to));
            ok!(rput(from, 2, int, next, 0, 2, int, window, &mut request));
            ok!(wait(&mut request, NONE));
            let sum = predefined(SUM);
            ok!(raccumulate(from, 2, int, next, 2, 2, int, sum, window, &mut request));
            ok!(wait(&mut request, NONE));
            ok!(win_flush(next, window));
            ok!(rget(got, 2, int, next, 0, 2, int, window, &mut request));
            ok!(wait(&mut request, NONE));
            assert_eq!(to, [7, 8]);
            let got = address(&mut to);
            ok!(rget_accumulate(
                from,
                2,
                int,
                got,
                2,
                int,
                next,
                2,
                2,
                int,
                sum,
                window,
                &mut request
            ));
            ok!(wait(&mut request, NONE));
            assert_eq!(to, [7, 8]);
            ok!(win_unlock_all(window));
            ok!(calls::collectives::barrier(comm));
            assert_eq!(read(elements, 4), [7, 8, 14, 16]);
        });
    });
}

#[test]
fn wrong_calls_are_errors() {
    on_ranks(2, |comm, me, _| {
        let (int, one) = (predefined(INT), [1]);
        let one: *const c_void = one.as_ptr().cast();
        with_window(comm, Memory::Allocated, (4, 0), |window, _| {
            let write = |target, at, count| {
                // SAFETY: the window is open, and the element can be read.
                unsafe { put(one, count, int, target, at, count, int, window) }
            };
            assert_eq!(write(0, 0, 1), MPI_ERR_RMA_SYNC);
            assert_eq!(write(NOBODY, 0, 1), 0);
            fails!(MPI_ERR_RMA_SYNC, win_unlock(0, window));
            fails!(MPI_ERR_RMA_SYNC, win_unlock_all(window));
            fails!(MPI_ERR_RMA_SYNC, win_complete(window));
            fails!(MPI_ERR_RMA_SYNC, win_wait(window));
            fails!(MPI_ERR_RMA_SYNC, win_flush(0, window));
            fails!(MPI_ERR_LOCKTYPE, win_lock(5, 0, 0, window));
            fails!(MPI_ERR_RANK, win_lock(MPI_LOCK_SHARED, 2, 0, window));
            ok!(win_lock(MPI_LOCK_SHARED, 1, 0, window));
            assert_eq!(write(0, 0, 1), MPI_ERR_RMA_SYNC);
            assert_eq!(write(2, 0, 1), MPI_ERR_RANK);
            assert_eq!((write(1, -1, 1), write(1, 4, 1)), (MPI_ERR_RMA_RANGE, MPI_ERR_RMA_RANGE));
            assert_eq!((write(1, 4, 0), write(1, isize::MAX, 1)), (0, MPI_ERR_RMA_RANGE));
            fails!(MPI_ERR_RMA_SYNC, win_lock(MPI_LOCK_SHARED, 1, 0, window));
            fails!(MPI_ERR_RMA_SYNC, win_lock_all(0, window));
            fails!(MPI_ERR_RMA_SYNC, win_fence(0, window));
            let (mut old, kind) = ([0.0f64], predefined(DOUBLE));
            let old = address(&mut old);
            fails!(MPI_ERR_TYPE, compare_and_swap(one, one, old, kind, 1, 0, window));
            let band = predefined(crate::op::BAND);
            fails!(MPI_ERR_OP, accumulate(old, 1, kind, 1, 0, 1, kind, band, window));
            // No element can be combined wrongly.
            ok!(accumulate(old, 0, kind, 1, 0, 0, kind, band, window));
            let none = null_mut();
            ok!(get_accumulate(old, 0, kind, none, 0, kind, 1, 0, 0, kind, band, window));
            // But the numbers of elements count.
            fails!(
                MPI_ERR_COUNT,
                get_accumulate(old, 0, kind, old, 1, kind, 1, 0, 0, kind, band, window)
            );
            fails!(MPI_ERR_COUNT, accumulate(old, 1, int, 1, 0, 0, int, band, window));
            let mut same = window;
            fails!(MPI_ERR_RMA_SYNC, win_free(&mut same));
            ok!(win_unlock(1, window));
        });
        let (mut window, mut base) = (null_mut(), null_mut::<c_void>());
        let place = (&raw mut base).cast();
        // What one rank does wrong is an error of both.
        let bytes = if me == 0 { -1 } else { 8 };
        fails!(MPI_ERR_SIZE, win_allocate(bytes, 1, MPI_INFO_NULL, comm, place, &mut window));
        let unit = if me == 0 { 0 } else { 8 };
        fails!(MPI_ERR_DISP, win_create(null_mut(), 0, unit, MPI_INFO_NULL, comm, &mut window));
        let (mut name, mut length) = ([0; 128], 0);
        ok!(win_get_name(MPI_WIN_NULL, name.as_mut_ptr(), &mut length));
        // SAFETY: the call has written a text.
        assert_eq!(unsafe { std::ffi::CStr::from_ptr(name.as_ptr()) }, c"MPI_WIN_NULL");
        fails!(MPI_ERR_WIN, win_fence(0, MPI_WIN_NULL));
        fails!(MPI_ERR_WIN, win_free(&mut { MPI_WIN_NULL }));
    });
}

#[test]
fn who_waits_for_the_lock_of_a_lost_rank_gets_an_error() {
    let ran = World::threads(3).run_threads(|rank| {
        set_default(Some(Box::leak(Box::new(Returns(Slot::new(Handler::Return))))));
        let world = Communicator::world(rank);
        world.set_nonblocking(Progress::InCalls)?;
        let me = world.rank();
        let comm = Comm::new(world, "world", Handler::Return).into_handle();
        let (mut window, mut base) = (null_mut(), null_mut::<c_void>());
        let place = (&raw mut base).cast();
        ok!(win_allocate(64, 1, MPI_INFO_NULL, comm, place, &mut window));
        ok!(win_set_errhandler(window, MPI_ERRORS_RETURN));
        if me == 1 {
            ok!(win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window));
        }
        ok!(calls::collectives::barrier(comm));
        if me == 1 {
            panic!("this rank ends with the lock");
        }
        let kind = if me == 0 { MPI_LOCK_EXCLUSIVE } else { MPI_LOCK_SHARED };
        fails!(MPI_ERR_PROC_ABORTED, win_lock(kind, 0, 0, window));
        Ok(())
    });
    let ended: Vec<_> = ran.unwrap().iter().map(Result::is_ok).collect();
    assert_eq!(ended, [true, false, true]);
}
