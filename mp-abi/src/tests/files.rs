//! Files, which ranks read and write.

use std::{
    ffi::{CStr, CString, c_char},
    fs,
    os::{fd::AsRawFd, unix::fs::OpenOptionsExt},
    path::{Path, PathBuf},
    process,
};

use nix::libc;

use super::*;
use crate::{
    calls::{
        datatypes::{
            type_commit, type_create_resized, type_free, type_get_extent, type_indexed, type_vector,
        },
        file_access::*,
        file_collectives::*,
        file_views::*,
        files::*,
        groups::{group_free, group_size},
        info::info_free,
        requests::wait,
    },
    constants::*,
    error::Class,
};

/// `MPI_LONG`.
const LONG: usize = 0x20a;
const NATIVE: &CStr = c"native";
const EXTERNAL: &CStr = c"external32";
const NEW: c_int = MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE;

/// A path for the file of a test, without a file.
struct Name(PathBuf);

impl Name {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("onchip-{}-{test}", process::id()));
        let _ = fs::remove_file(&path);
        Self(path)
    }

    fn text(&self) -> CString {
        CString::new(self.0.to_str().unwrap()).unwrap()
    }

    fn open(&self, comm: Handle, mode: c_int) -> Handle {
        let (name, mut file) = (self.text(), null_mut());
        ok!(file_open(comm, name.as_ptr(), mode, MPI_INFO_NULL, &mut file));
        file
    }

    /// Returns the error of opening.
    fn fail(&self, comm: Handle, mode: c_int) -> c_int {
        let (name, mut file) = (self.text(), null_mut());
        // SAFETY: the communicator is valid, and there is a text, and a place for the result.
        let code = unsafe { file_open(comm, name.as_ptr(), mode, MPI_INFO_NULL, &mut file) };
        assert_eq!(file, MPI_FILE_NULL);
        code
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn view(file: Handle, displacement: i64, etype: Handle, filetype: Handle) {
    let native = NATIVE.as_ptr();
    ok!(file_set_view(file, displacement, etype, filetype, native, MPI_INFO_NULL));
}

fn close(mut file: Handle) {
    ok!(file_close(&mut file));
    assert_eq!(file, MPI_FILE_NULL);
}

fn position(file: Handle) -> i64 {
    let mut position = -1;
    ok!(file_get_position(file, &mut position));
    position
}

fn shared_position(file: Handle) -> i64 {
    let mut position = -1;
    ok!(file_get_position_shared(file, &mut position));
    position
}

fn size(file: Handle) -> i64 {
    let mut size = -1;
    ok!(file_get_size(file, &mut size));
    size
}

/// A type of the blocks of one of several ranks: `count` blocks of `length` numbers, and the gaps for the other ranks.
fn blocks_of(rank: usize, ranks: usize, count: i64, length: c_int) -> Handle {
    let displacements: Vec<c_int> = (0..count as c_int)
        .map(|block| (block * ranks as c_int + rank as c_int) * length)
        .collect();
    let lengths = vec![length; count as usize];
    let (int, mut indexed, mut blocks) = (predefined(INT), null_mut(), null_mut());
    let (lengths, displacements) = (lengths.as_ptr().into(), displacements.as_ptr().into());
    ok!(type_indexed(count, lengths, displacements, int, &mut indexed));
    let all = count * ranks as i64 * i64::from(length) * 4;
    ok!(type_create_resized(indexed, 0, all, &mut blocks));
    ok!(type_free(&mut indexed));
    ok!(type_commit(&mut blocks));
    blocks
}

#[test]
fn interleaved_blocks_come_back() {
    for ranks in [1usize, 2, 3, 5] {
        for length in [1, 7, 3_000] {
            let name = Name::new(&format!("interleaved-{ranks}-{length}"));
            on_ranks(ranks, |comm, me, ranks| {
                let (int, file) = (predefined(INT), name.open(comm, NEW));
                let mut blocks = blocks_of(me, ranks, 3, length);
                view(file, 8, int, blocks);
                // Five times what one copy of the type has, from every second number in memory.
                let number = |place: usize| (me * 1_000_000 + place) as i32;
                let all = 15 * length as usize;
                let mut sparse = vec![-1; 2 * all];
                (0..all).for_each(|place| sparse[2 * place] = number(place));
                let mut told = status();
                let mut second = every_second(all as i64);
                ok!(file_write_all(file, address(&mut sparse), 1, second, &mut told));
                assert_eq!((count(&told, INT), position(file)), (all as i64, all as i64));
                ok!(file_sync(file));
                ok!(calls::collectives::barrier(comm));
                assert_eq!(size(file), 8 + (all * ranks * 4) as i64);

                // The same numbers, by this rank's view, to memory without gaps.
                let mut dense = vec![-1; all + 1];
                let count_of = |told: &Status| count(told, INT);
                ok!(file_seek(file, 0, MPI_SEEK_SET));
                ok!(file_read(file, address(&mut dense), all as i64, int, &mut told));
                assert!(dense[..all].iter().enumerate().all(|(at, &got)| got == number(at)));
                // At the end there is nothing more, and from the middle on, the half.
                ok!(file_read(file, address(&mut dense), 1, int, &mut told));
                assert_eq!((count_of(&told), position(file)), (0, all as i64));
                let half = (all / 2) as i64;
                ok!(file_read_at_all(file, half, address(&mut dense), all as i64, int, &mut told));
                assert_eq!(count_of(&told), all as i64 - half);
                assert_eq!(dense[0], number(half as usize));

                // All numbers as they lie in the file.
                ok!(calls::collectives::barrier(comm));
                view(file, 0, int, int);
                let mut whole = vec![-1; 2 + all * ranks];
                let length = length as usize;
                ok!(file_read_at(file, 0, address(&mut whole), whole.len() as i64, int, NONE));
                assert_eq!(whole[..2], [0, 0]);
                for (at, &got) in whole[2..].iter().enumerate() {
                    let (block, within) = (at / length, at % length);
                    let expected = block % ranks * 1_000_000 + block / ranks * length + within;
                    assert_eq!(got, expected as i32, "number {at}");
                }
                ok!(type_free(&mut second));
                ok!(type_free(&mut blocks));
                close(file);
            });
            assert!(!name.0.exists(), "it is deleted on close");
        }
    }
}

#[test]
fn shared_pointers_give_each_record_a_place_of_its_own() {
    for ranks in [1usize, 2, 5] {
        let name = Name::new(&format!("shared-{ranks}"));
        on_ranks(ranks, |comm, me, ranks| {
            let (int, file) = (predefined(INT), name.open(comm, NEW));
            view(file, 12, int, int);
            const RECORDS: i32 = 20;
            for record in 0..RECORDS {
                let mut pair = [me as i32, record];
                let mut request = null_mut();
                if record % 2 == 0 {
                    ok!(file_write_shared(file, address(&mut pair), 2, int, NONE));
                    continue;
                }
                ok!(file_iwrite_shared(file, address(&mut pair), 2, int, &mut request));
                assert_ne!(request, MPI_REQUEST_NULL);
                let mut told = status();
                ok!(wait(&mut request, &mut told));
                assert_eq!((request, count(&told, INT)), (MPI_REQUEST_NULL, 2));
            }
            ok!(calls::collectives::barrier(comm));
            let all = 2 * RECORDS as usize * ranks;
            assert_eq!(shared_position(file), all as i64);
            let mut numbers = vec![-1; all];
            ok!(file_read_at_all(file, 0, address(&mut numbers), all as i64, int, NONE));
            // The records of each rank are there in their order.
            for rank in 0..ranks as i32 {
                let of_rank = numbers.chunks(2).filter(|pair| pair[0] == rank).map(|pair| pair[1]);
                assert!(of_rank.eq(0..RECORDS));
            }

            // In the order of ranks, each as many as its number says.
            let mut own = vec![me as i32; me];
            ok!(file_seek_shared(file, -1, MPI_SEEK_END));
            ok!(file_seek_shared(file, 1, MPI_SEEK_CUR));
            assert_eq!(shared_position(file), all as i64);
            ok!(file_write_ordered(file, address(&mut own), me as i64, int, NONE));
            let more = ranks * (ranks - 1) / 2;
            ok!(calls::collectives::barrier(comm));
            assert_eq!(shared_position(file), (all + more) as i64);
            ok!(file_seek_shared(file, all as i64, MPI_SEEK_SET));
            let (mut got, mut told) = (vec![-1; me], status());
            ok!(file_read_ordered_begin(file, address(&mut got), me as i64, int));
            ok!(file_read_ordered_end(file, address(&mut got), &mut told));
            assert_eq!((got, count(&told, INT)), (own, me as i64));
            // Each reads what is next, which is behind the end.
            ok!(file_read_shared(file, address(&mut [0]), 1, int, &mut told));
            assert_eq!(count(&told, INT), 0);
            close(file);
        });
    }
}

#[test]
fn all_ranks_hear_why_a_file_can_not_be_opened() {
    for ranks in [1usize, 2, 3] {
        let name = Name::new(&format!("errors-{ranks}"));
        on_ranks(ranks, |comm, me, _| {
            let barrier = || ok!(calls::collectives::barrier(comm));
            assert_eq!(name.fail(comm, MPI_MODE_RDONLY), MPI_ERR_NO_SUCH_FILE);
            for mode in [
                0,
                MPI_MODE_RDONLY | MPI_MODE_WRONLY,
                MPI_MODE_RDONLY | MPI_MODE_CREATE,
                MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL,
                MPI_MODE_RDWR | 1 << 20,
            ] {
                assert_eq!(name.fail(comm, mode), MPI_ERR_AMODE);
            }
            if me > 0 || ranks > 1 {
                let mode = if me == 0 { MPI_MODE_RDONLY } else { MPI_MODE_WRONLY };
                assert_eq!(name.fail(comm, mode), MPI_ERR_NOT_SAME);
            }
            let folder = Name(std::env::temp_dir());
            assert_eq!(folder.fail(comm, MPI_MODE_RDWR), MPI_ERR_BAD_FILE);
            std::mem::forget(folder);
            barrier();

            // One that only the first rank creates, and nobody creates again.
            let new = MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_WRONLY;
            let file = name.open(comm, new);
            ok!(file_write_at(file, 0, address(&mut [me as u8]), 1, MPI_BYTE, NONE));
            // SAFETY: in this and the other blocks: the handle is valid, and so is the memory.
            let read = unsafe { file_read_at(file, 0, address(&mut [0u8]), 1, MPI_BYTE, NONE) };
            assert_eq!(read, MPI_ERR_ACCESS);
            close(file);
            assert_eq!(name.fail(comm, new), MPI_ERR_FILE_EXISTS);
            let file = name.open(comm, MPI_MODE_RDONLY);
            // SAFETY: see above.
            let codes = unsafe {
                let mut byte = [0u8];
                [
                    file_write_at(file, 0, address(&mut byte), 1, MPI_BYTE, NONE),
                    file_set_size(file, 0),
                    file_preallocate(file, 1),
                    file_seek(file, -1, MPI_SEEK_SET),
                    file_read_at(file, -1, address(&mut byte), 1, MPI_BYTE, NONE),
                    file_read_at(MPI_FILE_NULL, 0, address(&mut byte), 1, MPI_BYTE, NONE),
                ]
            };
            let read_only = MPI_ERR_READ_ONLY;
            let expected =
                [read_only, read_only, read_only, MPI_ERR_ARG, MPI_ERR_ARG, MPI_ERR_FILE];
            assert_eq!(codes, expected);
            close(file);
            barrier();
            let path = name.text();
            if me == 0 {
                ok!(file_delete(path.as_ptr(), MPI_INFO_NULL));
                // SAFETY: see above.
                let again = unsafe { file_delete(path.as_ptr(), MPI_INFO_NULL) };
                assert_eq!(again, MPI_ERR_NO_SUCH_FILE);
            }
        });
    }
}

#[test]
fn files_are_continued_and_read_in_sequence() {
    for ranks in [1usize, 3] {
        let name = Name::new(&format!("sequence-{ranks}"));
        on_ranks(ranks, |comm, me, ranks| {
            let int = predefined(INT);
            let mode = MPI_MODE_CREATE | MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL;
            for round in 0..2 {
                let file = name.open(comm, mode | if round == 0 { 0 } else { MPI_MODE_APPEND });
                let mut number = [(10 * round + me) as i32];
                ok!(file_write_ordered(file, address(&mut number), 1, int, NONE));
                // SAFETY: the handle is valid, and so is the memory.
                let codes = unsafe {
                    [
                        file_write(file, address(&mut number), 1, int, NONE),
                        file_write_at(file, 0, address(&mut number), 1, int, NONE),
                        file_seek(file, 0, MPI_SEEK_SET),
                        file_seek_shared(file, 0, MPI_SEEK_SET),
                    ]
                };
                assert_eq!(codes, [MPI_ERR_UNSUPPORTED_OPERATION; 4]);
                close(file);
            }
            let mode = MPI_MODE_RDONLY | MPI_MODE_SEQUENTIAL | MPI_MODE_DELETE_ON_CLOSE;
            let file = name.open(comm, mode);
            let mut got = [-1; 2];
            view(file, MPI_DISPLACEMENT_CURRENT.into(), int, int);
            ok!(file_read_ordered(file, address(&mut got), 1, int, NONE));
            // The second view begins where the first was.
            view(file, MPI_DISPLACEMENT_CURRENT.into(), int, int);
            let mut displacement = -1;
            let (mut types, mut name) = ([null_mut(); 2], [0 as c_char; 128]);
            let [etype, filetype] = types.each_mut();
            ok!(file_get_view(file, &mut displacement, etype, filetype, name.as_mut_ptr()));
            assert_eq!((displacement, types), (4 * ranks as i64, [int; 2]));
            // SAFETY: the text has an end.
            assert_eq!(unsafe { CStr::from_ptr(name.as_ptr()) }, NATIVE);
            ok!(file_read_ordered(file, address(&mut got[1..]), 1, int, NONE));
            assert_eq!(got, [me as i32, 10 + me as i32]);
            close(file);
        });
        assert!(!name.0.exists());
    }
}

#[test]
fn ranks_set_and_learn_what_a_file_is() {
    for ranks in [1usize, 2] {
        let name = Name::new(&format!("control-{ranks}"));
        on_ranks(ranks, |comm, me, ranks| {
            let file = name.open(comm, NEW);
            let (mut mode, mut group, mut members, mut info) = (0, null_mut(), 0, null_mut());
            ok!(file_get_amode(file, &mut mode));
            ok!(file_get_group(file, &mut group));
            ok!(group_size(group, &mut members));
            ok!(group_free(&mut group));
            ok!(file_get_info(file, &mut info));
            ok!(info_free(&mut info));
            assert_eq!((mode, members), (NEW, ranks as c_int));
            for (bytes, expected) in [(1_000, 1_000), (0, 0), (17, 17)] {
                ok!(file_set_size(file, bytes));
                assert_eq!(size(file), expected);
                ok!(calls::collectives::barrier(comm));
            }
            for (bytes, expected) in [(5_000, 5_000), (10, 5_000), (0, 5_000)] {
                ok!(file_preallocate(file, bytes));
                assert_eq!(size(file), expected);
            }
            // SAFETY: the handle is valid.
            let codes = unsafe { [file_set_size(file, -1), file_set_size(file, me as i64)] };
            let expected = if ranks > 1 { MPI_ERR_NOT_SAME } else { MPI_SUCCESS };
            assert_eq!(codes, [MPI_ERR_ARG, expected]);
            ok!(file_set_size(file, 5_000));

            // Pairs of numbers with a gap of one: the view has two thirds of the file.
            let (int, mut pairs, mut resized) = (predefined(INT), null_mut(), null_mut());
            ok!(type_vector(1, 2, 2, int, &mut pairs));
            ok!(type_create_resized(pairs, 0, 12, &mut resized));
            ok!(type_commit(&mut resized));
            view(file, 20, int, resized);
            for (at, expected) in [(0, 20), (1, 24), (2, 32), (5, 48), (1 << 40, 20 + (6 << 40))] {
                let mut offset = -1;
                ok!(file_get_byte_offset(file, at, &mut offset));
                assert_eq!(offset, expected);
            }
            // 4,980 bytes are 415 pairs.
            ok!(file_seek(file, -1, MPI_SEEK_END));
            assert_eq!(position(file), 829);
            let mut extents = [0; 3];
            let [in_file, lower, in_memory] = extents.each_mut();
            ok!(file_get_type_extent(file, resized, in_file));
            ok!(type_get_extent(resized, lower, in_memory));
            assert_eq!(extents, [12, 0, 12]);
            // The type goes before the view.
            ok!(type_free(&mut pairs));
            ok!(type_free(&mut resized));
            ok!(file_seek(file, 3, MPI_SEEK_CUR));
            assert_eq!(position(file), 832);
            let mut byte = [0u8];
            // SAFETY: the handle is valid, and so is the memory.
            let code = unsafe { file_write_all(file, address(&mut byte), 1, MPI_BYTE, NONE) };
            assert_eq!(code, Class::Io as c_int, "no whole number");

            let mut atomic = 1;
            ok!(file_get_atomicity(file, &mut atomic));
            assert_eq!(atomic, 0);
            ok!(file_set_atomicity(file, 5));
            ok!(file_get_atomicity(file, &mut atomic));
            assert_eq!(atomic, 1);
            close(file);
        });
    }
}

#[test]
fn what_a_view_can_not_be() {
    let name = Name::new("views");
    on_ranks(2, |comm, _, _| {
        let (int, file) = (predefined(INT), name.open(comm, NEW));
        let indexed = |displacements: [c_int; 2]| {
            let (mut made, lengths) = (null_mut(), [1, 2]);
            let (lengths, at) = (lengths.as_ptr().into(), displacements.as_ptr().into());
            ok!(type_indexed(2, lengths, at, int, &mut made));
            ok!(type_commit(&mut made));
            made
        };
        let mut types = [[2, 0], [-1, 5], [2, 2]].map(indexed);
        let mut narrow = null_mut();
        ok!(type_create_resized(int, 0, 2, &mut narrow));
        ok!(type_commit(&mut narrow));
        let set = |displacement: i64, types: [Handle; 2], name: &CStr| {
            let [etype, filetype] = types;
            // SAFETY: the handles are valid, or null.
            unsafe {
                file_set_view(file, displacement, etype, filetype, name.as_ptr(), MPI_INFO_NULL)
            }
        };
        for made in types {
            assert_eq!(set(0, [int, made], NATIVE), MPI_ERR_IO);
        }
        assert_eq!(set(0, [int, narrow], NATIVE), MPI_ERR_IO);
        assert_eq!(set(0, [predefined(DOUBLE), int], NATIVE), MPI_ERR_IO);
        assert_eq!(set(0, [int, MPI_DATATYPE_NULL], NATIVE), MPI_ERR_TYPE);
        assert_eq!(set(-5, [int, int], NATIVE), MPI_ERR_DISP);
        assert_eq!(set(MPI_DISPLACEMENT_CURRENT.into(), [int, int], NATIVE), MPI_ERR_DISP);
        assert_eq!(set(0, [int, int], c"roman"), MPI_ERR_UNSUPPORTED_DATAREP);
        types.iter_mut().chain([&mut narrow]).for_each(|made| ok!(type_free(made)));
        close(file);
    });
}

#[test]
fn external_numbers_are_the_same_on_all_machines() {
    let name = Name::new("external");
    on_ranks(2, |comm, me, ranks| {
        let (int, long, file) = (predefined(INT), predefined(LONG), name.open(comm, NEW));
        let external = EXTERNAL.as_ptr();
        // Outside, this type has four bytes.
        ok!(file_set_view(file, 0, long, long, external, MPI_INFO_NULL));
        let mut extent = 0;
        ok!(file_get_type_extent(file, long, &mut extent));
        assert_eq!(extent, 4);
        let (mut numbers, mut told) = ([me as i64 - 7, 0x0102_0304], status());
        ok!(file_write_at_all(file, 2 * me as i64, address(&mut numbers), 2, long, &mut told));
        assert_eq!(count(&told, LONG), 2);
        ok!(calls::collectives::barrier(comm));
        assert_eq!(size(file), 8 * ranks as i64);
        let mut back = [0i64; 3];
        ok!(file_seek(file, 2 * me as i64, MPI_SEEK_SET));
        ok!(file_read(file, address(&mut back), 2, long, &mut told));
        assert_eq!((back, count(&told, LONG)), ([numbers[0], numbers[1], 0], 2));
        assert_eq!(position(file), 2 * me as i64 + 2);
        ok!(file_read_at(file, 3, address(&mut back), 3, long, &mut told));
        assert_eq!((back[0], count(&told, LONG)), (0x0102_0304, 1));
        ok!(calls::collectives::barrier(comm));
        view(file, 0, MPI_BYTE, MPI_BYTE);
        let mut bytes = [0u8; 8];
        ok!(file_read(file, address(&mut bytes), 8, MPI_BYTE, NONE));
        assert_eq!(bytes, [255, 255, 255, 249, 1, 2, 3, 4]);

        // Every second number of one width has gaps outside, too.
        let mut second = every_second(4);
        ok!(file_set_view(file, 0, int, second, external, MPI_INFO_NULL));
        let mut four = [me as i32 + 1; 4];
        if me == 0 {
            ok!(file_write(file, address(&mut four), 4, int, NONE));
        }
        ok!(calls::collectives::barrier(comm));
        view(file, 8, MPI_BYTE, MPI_BYTE);
        ok!(file_read(file, address(&mut bytes), 8, MPI_BYTE, NONE));
        assert_eq!(bytes, [0, 0, 0, 1, 1, 2, 3, 4]);
        ok!(type_free(&mut second));
        close(file);
    });
}

/// Doubles the bytes of numbers in the file: each is followed by its opposite.
unsafe extern "C" fn widen(
    user: *mut c_void,
    datatype: Handle,
    count: c_int,
    file: *mut c_void,
    position: i64,
    extra: *mut c_void,
) -> c_int {
    assert_eq!((datatype, position, extra.addr()), (predefined(INT), 0, 5));
    for at in 0..count as usize {
        // SAFETY: the library gives this many numbers, and twice as much room.
        unsafe {
            let number = user.cast::<i32>().add(at).read();
            file.cast::<[i32; 2]>().add(at).write_unaligned([number, -number]);
        }
    }
    MPI_SUCCESS
}

unsafe extern "C" fn narrow(
    user: *mut c_void,
    _datatype: Handle,
    count: i64,
    file: *mut c_void,
    _position: i64,
    _extra: *mut c_void,
) -> c_int {
    for at in 0..count as usize {
        // SAFETY: see `widen`.
        let [number, opposite] = unsafe { file.cast::<[i32; 2]>().add(at).read_unaligned() };
        if opposite != -number {
            return 1;
        }
        // SAFETY: as above.
        unsafe { user.cast::<i32>().add(at).write(number) };
    }
    MPI_SUCCESS
}

unsafe extern "C" fn doubled(_datatype: Handle, extent: *mut isize, _extra: *mut c_void) -> c_int {
    // SAFETY: the library gives a place for the answer.
    unsafe { extent.write(8) };
    MPI_SUCCESS
}

unsafe extern "C" fn widen_large(
    user: *mut c_void,
    datatype: Handle,
    count: i64,
    file: *mut c_void,
    position: i64,
    extra: *mut c_void,
) -> c_int {
    // SAFETY: the caller gives what the other function gets.
    unsafe { widen(user, datatype, count as c_int, file, position, extra) }
}

#[test]
fn programs_have_representations_of_their_own() {
    let name = Name::new("registered");
    let (both, only, extra) = (c"opposites", c"written", without_provenance_mut(5));
    // SAFETY: these are texts, and functions as the library calls them.
    let codes = unsafe {
        [
            register_datarep_c(
                both.as_ptr(),
                Some(narrow),
                Some(widen_large),
                Some(doubled),
                extra,
            ),
            register_datarep(only.as_ptr(), None, Some(widen), Some(doubled), extra),
            register_datarep(only.as_ptr(), None, None, Some(doubled), extra),
            register_datarep(NATIVE.as_ptr(), None, None, Some(doubled), extra),
            register_datarep(c"other".as_ptr(), None, None, None, extra),
        ]
    };
    let there = MPI_ERR_DUP_DATAREP;
    assert_eq!(codes, [MPI_SUCCESS, MPI_SUCCESS, there, there, MPI_ERR_ARG]);
    on_ranks(2, |comm, me, _| {
        let (int, file) = (predefined(INT), name.open(comm, NEW));
        for representation in [both, only] {
            let (mut numbers, mut back) = ([1 + me as i32, 5, -9], [0i32; 4]);
            let (at, mut told) = (3 * me as i64, status());
            ok!(file_set_view(file, 0, int, int, representation.as_ptr(), MPI_INFO_NULL));
            ok!(file_write_at_all(file, at, address(&mut numbers), 3, int, &mut told));
            assert_eq!(count(&told, INT), 3);
            ok!(calls::collectives::barrier(comm));
            assert_eq!(size(file), 48);
            ok!(file_set_view(file, 0, int, int, both.as_ptr(), MPI_INFO_NULL));
            ok!(file_read_at_all(file, at, address(&mut back), 3 + me as i64, int, &mut told));
            assert_eq!((&back[..3], count(&told, INT)), (&numbers[..], 3));
            ok!(calls::collectives::barrier(comm));
        }
        view(file, 0, int, int);
        if me == 0 {
            ok!(file_write_at(file, 1, address(&mut [77i32]), 1, int, NONE));
        }
        ok!(calls::collectives::barrier(comm));
        ok!(file_set_view(file, 0, int, int, both.as_ptr(), MPI_INFO_NULL));
        // SAFETY: the handle is valid, and so is the memory.
        let code = unsafe { file_read_at(file, 0, address(&mut [0i32]), 1, int, NONE) };
        assert_eq!(code, MPI_ERR_CONVERSION);
        close(file);
    });
}

#[test]
fn what_has_begun_is_ended_by_its_own_function() {
    for ranks in [1usize, 3] {
        let name = Name::new(&format!("split-{ranks}"));
        on_ranks(ranks, |comm, me, ranks| {
            let (int, file) = (predefined(INT), name.open(comm, NEW));
            view(file, 0, int, int);
            let (mut numbers, mut told) = ([me as i32; 3], status());
            let at = 3 * me as i64;
            ok!(file_write_at_all_begin(file, at, address(&mut numbers), 3, int));
            // SAFETY: the handle is valid, and so is the memory.
            let codes = unsafe {
                [
                    file_write_all_begin(file, address(&mut numbers), 3, int),
                    file_write_all_end(file, address(&mut numbers), NONE),
                    file_close(&mut { file }),
                ]
            };
            assert_eq!(codes, [MPI_ERR_IO; 3]);
            ok!(file_write_at_all_end(file, address(&mut numbers), &mut told));
            assert_eq!(count(&told, INT), 3);
            ok!(calls::collectives::barrier(comm));
            let (mut all, mut requests) = (vec![-1; 3 * ranks], [null_mut(); 4]);
            let (whole, to) = (3 * ranks as i64, address(&mut all));
            ok!(file_iread_at_all(file, 0, to, whole, int, &mut requests[0]));
            ok!(file_iread_all(file, address(&mut numbers), 3, int, &mut requests[1]));
            ok!(file_iread(file, address(&mut numbers), 1, int, &mut requests[2]));
            ok!(file_iwrite_at(file, whole, to, 1, int, &mut requests[3]));
            for (request, expected) in requests.iter_mut().zip([whole, 3, i64::from(ranks > 1), 1])
            {
                ok!(wait(request, &mut told));
                assert_eq!(count(&told, INT), expected);
            }
            assert!(all.chunks(3).enumerate().all(|(rank, part)| part == [rank as i32; 3]));
            close(file);
        });
    }
}

#[test]
fn atomic_accesses_are_not_mixed() {
    let name = Name::new("atomic");
    on_ranks(4, |comm, me, _| {
        let (int, file) = (predefined(INT), name.open(comm, NEW));
        // So many runs, which are written one by one, take longer than the system lets a rank go on.
        const RUNS: usize = 5_000;
        let mut second = every_second(RUNS as i64);
        view(file, 0, int, second);
        ok!(file_set_atomicity(file, 1));
        let mut numbers = vec![0i32; RUNS];
        ok!(file_write_at_all(file, 0, address(&mut numbers), RUNS as i64, int, NONE));
        for round in 1..6 {
            numbers.fill(round * 10 + me as i32);
            // All ranks begin at the same time.
            ok!(calls::collectives::barrier(comm));
            ok!(file_write_at(file, 0, address(&mut numbers), RUNS as i64, int, NONE));
            ok!(file_read_at(file, 0, address(&mut numbers), RUNS as i64, int, NONE));
            assert!(numbers.iter().all(|number| *number == numbers[0]));
        }
        ok!(type_free(&mut second));
        close(file);
    });
}

/// Makes the system refuse to bring anything of a file to its device: the file that is open here is replaced by one that
/// is open as a mere name.
fn spoil(path: &Path) {
    let is_path = |entry: &fs::DirEntry| fs::read_link(entry.path()).is_ok_and(|at| at == path);
    let mut open = fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap());
    let number = open.find(is_path).unwrap().file_name();
    let number = number.to_str().unwrap().parse().unwrap();
    let name = fs::File::options().read(true).custom_flags(libc::O_PATH).open(path).unwrap();
    // SAFETY: the library's file, which has this number, stays open, and is another one afterwards.
    assert_eq!(unsafe { libc::dup2(name.as_raw_fd(), number) }, number);
}

#[test]
fn what_was_written_is_on_the_device_when_the_file_is_closed() {
    on_ranks(1, |comm, _, _| {
        let kept = MPI_MODE_CREATE | MPI_MODE_RDWR;
        for (mode, is_written, is_synced, expected) in [
            (kept, true, false, MPI_ERR_IO),
            (kept, true, true, MPI_SUCCESS),
            (kept, false, false, MPI_SUCCESS),
            (NEW, true, false, MPI_SUCCESS),
        ] {
            let name = Name::new("synced");
            let mut file = name.open(comm, mode);
            let mut bytes = [7u8; 5];
            let at = address(&mut bytes);
            let count = if is_written { 5 } else { 0 };
            ok!(file_write_at(file, 0, at, count, MPI_BYTE, NONE));
            if is_synced {
                ok!(file_sync(file));
            }
            spoil(&name.0);
            fails!(expected, file_close(&mut file));
            if expected != MPI_SUCCESS {
                // The error was told, and the file can be given up.
                close(file);
            }
        }
    });
}

#[test]
fn files_begin_with_the_error_handler_of_no_file() {
    let name = Name::new("handlers");
    on_ranks(1, |comm, _, _| {
        let handler = |file: Handle| {
            let mut handler = null_mut();
            ok!(file_get_errhandler(file, &mut handler));
            handler
        };
        assert_eq!(handler(MPI_FILE_NULL), MPI_ERRORS_RETURN);
        let before = name.open(comm, NEW);
        ok!(file_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_ABORT));
        let after = name.open(comm, MPI_MODE_RDONLY);
        assert_eq!([before, after].map(handler), [MPI_ERRORS_RETURN, MPI_ERRORS_ABORT]);
        ok!(file_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN));
        ok!(file_set_errhandler(after, MPI_ERRORS_RETURN));
        ok!(file_call_errhandler(after, 7));
        [after, before].into_iter().for_each(close);
    });
}
