//! Attributes of communicators and datatypes.

use std::{
    cell::{Cell, RefCell},
    ptr::null,
};

use super::*;
use crate::{
    calls::{attributes::*, communicators::*, datatypes::*, type_attributes::*},
    constants::{
        MPI_COMM_NULL, MPI_DATATYPE_NULL, MPI_ERR_KEYVAL, MPI_ERR_TYPE, MPI_KEYVAL_INVALID,
        MPI_TAG_UB, MPI_WIN_BASE,
    },
};

thread_local! {
    /// What the functions were called with: which one, and the value.
    static CALLED: RefCell<Vec<(char, usize)>> = const { RefCell::new(Vec::new()) };
    /// The value that may not be deleted.
    static KEPT: Cell<usize> = const { Cell::new(77) };
}

fn called() -> Vec<(char, usize)> {
    CALLED.take()
}

/// Lets values be copied: odd ones as they are plus the extra value, even ones not. Fails with 99.
unsafe extern "C" fn copy(
    _: Handle,
    _: c_int,
    extra: *mut c_void,
    value: *mut c_void,
    to: *mut c_void,
    is_copied: *mut c_int,
) -> c_int {
    CALLED.with_borrow_mut(|called| called.push(('c', value.addr())));
    // SAFETY: the library gives places for the copy and the answer.
    unsafe {
        is_copied.write((value.addr() % 2 == 1).into());
        to.cast::<*mut c_void>().write(without_provenance_mut(value.addr() + extra.addr()));
    }
    if value.addr() == 99 { 17 } else { 0 }
}

/// Fails for the value that is kept.
unsafe extern "C" fn delete(_: Handle, _: c_int, value: *mut c_void, extra: *mut c_void) -> c_int {
    assert_eq!(extra.addr(), 100);
    CALLED.with_borrow_mut(|called| called.push(('d', value.addr())));
    if value.addr() == KEPT.get() { 18 } else { 0 }
}

/// The functions for one kind of objects.
struct Functions {
    create: unsafe fn(
        Option<crate::types::CopyAttrFunction>,
        Option<crate::types::DeleteAttrFunction>,
        *mut c_int,
        *mut c_void,
    ) -> c_int,
    free_key: unsafe fn(*mut c_int) -> c_int,
    set: unsafe fn(Handle, c_int, *mut c_void) -> c_int,
    get: unsafe fn(Handle, c_int, *mut c_void, *mut c_int) -> c_int,
    delete: unsafe fn(Handle, c_int) -> c_int,
    duplicate: unsafe fn(Handle, *mut Handle) -> c_int,
    free: unsafe fn(*mut Handle) -> c_int,
    null: Handle,
}

const COMM: Functions = Functions {
    create: comm_create_keyval,
    free_key: comm_free_keyval,
    set: comm_set_attr,
    get: comm_get_attr,
    delete: comm_delete_attr,
    duplicate: comm_dup,
    free: comm_free,
    null: MPI_COMM_NULL,
};
const TYPE: Functions = Functions {
    create: type_create_keyval,
    free_key: type_free_keyval,
    set: type_set_attr,
    get: type_get_attr,
    delete: type_delete_attr,
    duplicate: type_dup,
    free: type_free,
    null: MPI_DATATYPE_NULL,
};

impl Functions {
    fn key(&self) -> c_int {
        let mut key = MPI_KEYVAL_INVALID;
        ok!((self.create)(Some(copy), Some(delete), &mut key, without_provenance_mut(100)));
        key
    }

    fn set(&self, object: Handle, key: c_int, value: usize) -> c_int {
        // SAFETY: the handle is valid.
        unsafe { (self.set)(object, key, without_provenance_mut(value)) }
    }

    /// Returns the value, or the error.
    fn get(&self, object: Handle, key: c_int) -> Result<Option<usize>, c_int> {
        let (mut value, mut flag) = (null_mut::<c_void>(), -1);
        // SAFETY: the handle is valid, and the places are there.
        match unsafe { (self.get)(object, key, (&raw mut value).cast(), &mut flag) } {
            0 => Ok((flag == 1).then_some(value.addr())),
            code => Err(code),
        }
    }

    /// Tests all of it on an object.
    fn test(&self, object: Handle) {
        let mut keys = [self.key(), self.key(), self.key()];
        assert_eq!(self.get(object, keys[0]), Ok(None));
        for (place, value) in [(0, 1), (1, 2), (2, 3)] {
            assert_eq!(self.set(object, keys[place], value), 0);
        }
        assert_eq!(called(), []);
        // The value before is deleted, and this one is the newest.
        assert_eq!(self.set(object, keys[0], 5), 0);
        assert_eq!(called(), [('d', 1)]);

        let mut other = null_mut();
        ok!((self.duplicate)(object, &mut other));
        assert_eq!(called(), [('c', 2), ('c', 3), ('c', 5)]);
        let copied = keys.map(|key| self.get(other, key));
        assert_eq!(copied, [Ok(Some(105)), Ok(None), Ok(Some(103))]);

        // A key stays known while attributes have it, although it is freed.
        let mut again = keys[2];
        ok!((self.free_key)(&mut keys[2]));
        assert_eq!(keys[2], MPI_KEYVAL_INVALID);
        keys[2] = again;
        assert_eq!(self.get(other, keys[2]), Ok(Some(103)));
        ok!((self.free_key)(&mut again));

        // The newest goes first, and a function that fails keeps the object.
        assert_eq!(self.set(other, keys[1], 77), 0);
        let kept = other;
        // SAFETY: the handle stays, because the call fails.
        assert_eq!(unsafe { (self.free)(&mut other) }, 18);
        assert_eq!((other, called()), (kept, vec![('d', 77)]));
        assert_eq!(self.set(other, keys[1], 79), 18);
        assert_eq!((self.get(other, keys[1]), called()), (Ok(Some(77)), vec![('d', 77)]));
        // SAFETY: the handle is valid.
        assert_eq!(unsafe { (self.delete)(other, keys[1]) }, 18);
        KEPT.set(0);
        called();
        ok!((self.free)(&mut other));
        assert_eq!(called(), [('d', 77), ('d', 105), ('d', 103)]);
        KEPT.set(77);

        // A copy that fails makes no object.
        assert_eq!(self.set(object, keys[0], 99), 0);
        let mut none = object;
        // SAFETY: the handle is valid.
        assert_eq!(unsafe { (self.duplicate)(object, &mut none) }, 17);
        assert_eq!(none, self.null);
        called();
        for key in keys {
            ok!((self.delete)(object, key));
        }
        assert_eq!(called(), [('d', 99), ('d', 2), ('d', 3)]);
        // SAFETY: the handle is valid.
        assert_eq!(unsafe { (self.delete)(object, keys[0]) }, 0, "without a value");
        for wrong in [MPI_KEYVAL_INVALID, -1, c_int::MAX, MPI_WIN_BASE] {
            assert_eq!(self.get(object, wrong), Err(MPI_ERR_KEYVAL));
            assert_eq!(self.set(object, wrong, 1), MPI_ERR_KEYVAL);
        }
        for key in &mut keys[..2] {
            ok!((self.free_key)(key));
        }
    }
}

#[test]
fn attributes_of_communicators() {
    on_ranks(2, |comm, _, _| COMM.test(comm));
}

#[test]
fn attributes_of_datatypes() {
    on_ranks(1, |_, _, _| {
        let mut datatype = every_second(3);
        TYPE.test(datatype);
        ok!(type_free(&mut datatype));
        // Predefined types have attributes, too, and stay.
        TYPE.test(predefined(INT));
        // SAFETY: a predefined type is refused.
        assert_eq!(unsafe { type_free(&mut predefined(INT)) }, MPI_ERR_TYPE);
    });
}

#[test]
fn keys_are_for_one_kind_of_objects() {
    on_ranks(1, |comm, _, _| {
        let (mut of_comm, mut of_type) = (COMM.key(), TYPE.key());
        assert_ne!(of_comm, of_type);
        assert_eq!(COMM.set(comm, of_type, 1), MPI_ERR_KEYVAL);
        assert_eq!(TYPE.set(predefined(INT), of_comm, 1), MPI_ERR_KEYVAL);
        assert_eq!(COMM.get(comm, of_type), Err(MPI_ERR_KEYVAL));
        assert_eq!(TYPE.get(predefined(INT), MPI_TAG_UB), Err(MPI_ERR_KEYVAL));
        assert_eq!(COMM.set(comm, MPI_TAG_UB, 1), MPI_ERR_KEYVAL);
        // SAFETY: the keys are refused, and so is no key at all.
        unsafe {
            assert_eq!(comm_free_keyval(&mut of_type), MPI_ERR_KEYVAL);
            assert_eq!(type_free_keyval(&mut of_comm), MPI_ERR_KEYVAL);
            assert_eq!(type_free_keyval(&mut MPI_KEYVAL_INVALID.clone()), MPI_ERR_KEYVAL);
            assert_ne!(type_free_keyval(null_mut()), 0);
        }
        ok!(comm_free_keyval(&mut of_comm));
        ok!(type_free_keyval(&mut of_type));
    });
}

#[test]
fn attributes_go_with_the_last_handle_of_a_type() {
    on_ranks(1, |_, _, _| {
        let mut key = TYPE.key();
        let (mut part, mut whole) = (every_second(2), null_mut());
        ok!(type_contiguous(2, part, &mut whole));
        assert_eq!(TYPE.set(part, key, 6), 0);
        let (mut number, mut inner) = (0, null_mut());
        let none = null::<isize>().cast_mut();
        ok!(type_get_contents(whole, 1, 0, 1, &mut number, none, &mut inner));
        ok!(type_free(&mut part));
        assert_eq!((called(), TYPE.get(inner, key)), (vec![], Ok(Some(6))));
        ok!(type_free(&mut inner));
        assert_eq!((called(), inner), (vec![('d', 6)], MPI_DATATYPE_NULL));
        ok!(type_free(&mut whole));
        ok!(type_free_keyval(&mut key));
    });
}
