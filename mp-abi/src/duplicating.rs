//! Communicators of the same ranks that are made while the program does something else.

use mp_collectives::communicator::{Pending, ReceiveRequest};
use std::rc::Rc;

use crate::{
    attributes::Attributes, comm::Comm, completed::Completed, error::Error, going::Going,
    handles::Place, words::TAGS,
};

/// The tag of the new communicator's number. Several may be under way, in the order of the calls.
const TAG: u32 = TAGS + 1;

/// A communicator whose number is still to come.
struct Duplicating {
    comm: Rc<Comm>,
    attributes: Attributes,
    number: ReceiveRequest<Vec<u64>>,
    to: Place,
}

/// Makes a copy with these attributes, and writes its handle. Returns what is to be waited for before: rank 0 tells the
/// others the copy's number, and need not wait.
///
/// # Safety
/// The address is null, or can be written to until there is nothing more to be waited for.
pub(crate) unsafe fn begin(
    comm: &Comm,
    attributes: Attributes,
    to: Place,
) -> Result<Option<Box<dyn Going>>, Error> {
    let joint = comm.communicator.joint();
    if comm.communicator.rank() > 0 {
        let number = joint.nonblocking_receive(vec![0u64], 0, TAG)?;
        return Ok(Some(Box::new(Duplicating { comm: comm.keep(), attributes, number, to })));
    }
    let number = joint.number()?;
    for rank in 1..comm.communicator.size() {
        // The message goes on its way without the request.
        drop(joint.nonblocking_send([u64::from(number)], rank, TAG)?);
    }
    // SAFETY: the caller says so.
    unsafe { make(comm, attributes, number, to)? };
    Ok(None)
}

/// # Safety
/// The address is null, or can be written to.
unsafe fn make(comm: &Comm, attributes: Attributes, number: u32, to: Place) -> Result<(), Error> {
    let joint = comm.communicator.joint();
    let copy = joint.communicator_of(&joint.world_ranks(), number, "copy")?;
    // SAFETY: the caller says so.
    unsafe { to.put(comm.copy(copy, attributes).into_handle()) }
}

impl Going for Duplicating {
    fn pending(&mut self) -> Option<&mut dyn Pending> {
        match self.number.under_way().is_some() {
            true => Some(&mut self.number),
            false => None,
        }
    }

    fn finish(self: Box<Self>) -> Completed {
        let Self { comm, attributes, number, to } = *self;
        let made = number.wait().map_err(|failed| failed.error.into()).and_then(|(number, _)| {
            // SAFETY: the caller of `begin` says so.
            unsafe { make(&comm, attributes, number[0] as u32, to) }
        });
        made.map_or_else(Completed::failed, |()| Completed::EMPTY)
    }
}
