//! The functions as programs in C call them, on ranks that are threads.

mod attributes;
mod by_request;
mod communicators;
mod datatypes;
mod external;
mod files;
mod going;
mod hardware;
mod intercommunicators;
mod messages;
mod orders;
mod partitioned;
mod requests;
mod tools;
mod topologies;
mod traces;
mod windows;

/// The collective operations in all their forms.
macro_rules! forms {
    ($($form:ident: $functions:path;)*) => {$(
        mod $form {
            mod collectives {
                use super::super::*;
                use $functions::*;
                include!("collectives.rs");
            }
            mod across {
                use super::super::*;
                use $functions::*;
                include!("across.rs");
            }
            mod reductions {
                use super::super::*;
                use $functions::*;
                include!("reductions.rs");
            }
        }
    )*};
}

forms! {
    blocking: crate::calls::collectives;
    nonblocking: crate::tests::by_request::nonblocking;
    persistent: crate::tests::by_request::persistent;
}

use std::{
    ffi::{c_int, c_void},
    ptr::{null_mut, without_provenance_mut},
};

use by_request::once;
use intercommunicators::{Sides, on_ranks_of_several};
use mp_collectives::communicator::Communicator;
use mp_core::World;
use mp_delegate::threads::Progress;

use crate::{
    calls,
    comm::Comm,
    errhandler::{Handler, Object, Slot, set_default},
    types::{Handle, Status},
};

const INT: usize = 0x209;
const DOUBLE: usize = 0x214;

fn predefined(number: usize) -> Handle {
    without_provenance_mut(number)
}

fn in_place() -> *mut c_void {
    without_provenance_mut(1)
}

/// Gets the errors of calls without a communicator, and returns them.
struct Returns(Slot);

impl Object for Returns {
    fn handle(&self) -> Handle {
        null_mut()
    }

    fn errhandler(&self) -> &Slot {
        &self.0
    }
}

/// Asserts that a call was successful.
macro_rules! ok {
    ($call:expr) => {
        // SAFETY: the test gives valid handles, and memory of the right size.
        assert_eq!(unsafe { $call }, 0)
    };
}
use ok;

/// Asserts that a call fails with a class of errors.
macro_rules! fails {
    ($class:expr, $call:expr) => {
        // SAFETY: the test gives valid handles, and memory of the right size.
        assert_eq!(unsafe { $call }, $class)
    };
}
use fails;

/// Runs ranks, and gives each a communicator of all of them, whose errors are returned, with its rank and size.
fn on_ranks(ranks: usize, code: impl Fn(Handle, usize, usize) + Send + Sync) {
    let ran = World::threads(ranks).run_threads(|rank| {
        set_default(Some(Box::leak(Box::new(Returns(Slot::new(Handler::Return))))));
        let world = Communicator::world(rank);
        world.set_nonblocking(Progress::InCalls)?;
        let (me, size) = (world.rank(), world.size());
        let comm = Comm::new(world, "world", Handler::Return).into_handle();
        code(comm, me, size);
        // No rank ends while others still look for messages, as in `MPI_Finalize`.
        ok!(calls::collectives::barrier(comm));
        // SAFETY: the handle was just made, and is not used any more.
        unsafe { Comm::release(comm).unwrap() };
        Ok(())
    });
    ran.unwrap().into_iter().for_each(|ended| ended.unwrap());
}

/// A status as programs have it: filled with something.
fn status() -> Status {
    Status { source: 77, tag: 77, error: 77, internal: [77; 5] }
}

/// A type of every second `int`: `count` of them, with the extent of all.
fn every_second(count: i64) -> Handle {
    let (mut strided, mut datatype) = (null_mut(), null_mut());
    ok!(calls::datatypes::type_vector(count, 1, 2, predefined(INT), &mut strided));
    ok!(calls::datatypes::type_create_resized(strided, 0, 8 * count, &mut datatype));
    ok!(calls::datatypes::type_free(&mut strided));
    ok!(calls::datatypes::type_commit(&mut datatype));
    datatype
}

/// Returns what a status says was received, in elements of a predefined type.
fn count(status: &Status, datatype: usize) -> i64 {
    let mut count = 0;
    ok!(calls::requests::get_count(status, predefined(datatype), &mut count));
    count
}

fn address<T>(elements: &mut [T]) -> *mut c_void {
    elements.as_mut_ptr().cast()
}

const NONE: *mut Status = null_mut();
const ANY: c_int = crate::constants::MPI_ANY_SOURCE;
const ANY_TAG: c_int = crate::constants::MPI_ANY_TAG;
const NOBODY: c_int = crate::constants::MPI_PROC_NULL;
