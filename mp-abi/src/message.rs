//! Messages that a matched probe has found. No other receive gets them.

use std::{ffi::c_int, rc::Rc};

use mp_collectives::communicator::{Communicator, Source, Status, Tag};
use mp_core::{Buffer, requests::CutBuffer};

use crate::{
    comm::{Comm, wanted_tag},
    completed::Completed,
    constants::{MPI_MESSAGE_NO_PROC, MPI_MESSAGE_NULL},
    datatype::data::Data,
    error::{Class, Error},
    moves::Sought,
    threads,
    types::Handle,
};

/// `MPI_Message`: a message that has been received, and is still to be given to the program.
pub(crate) struct Message {
    bytes: CutBuffer<Vec<u8>>,
    status: Status,
    pub comm: Rc<Comm>,
}

/// A tag that no message has: those of programs are below.
const NO_TAG: u32 = 1 << 31;

/// What a matched probe finds: the message's handle, and its status.
pub(crate) type Found = (Handle, Completed);

/// Finds a message. Waits until there is one, or returns `None` if there is none.
pub(crate) fn find(
    comm: &Comm,
    source: Source,
    tag: Tag,
    waits: bool,
) -> Result<Option<Status>, Error> {
    let communicator = &comm.communicator;
    Ok(match waits {
        true if threads::are_many() => Some(find_meanwhile(communicator, source, tag)?),
        true => Some(communicator.probe(source, tag)?),
        false => communicator.try_probe(source, tag)?,
    })
}

/// Finds a message. Lets other threads call until there is one.
fn find_meanwhile(communicator: &Communicator, source: Source, tag: Tag) -> Result<Status, Error> {
    let sought = Sought { communicator, source, tag };
    if let Some(status) = threads::soon(|| sought.find())? {
        return Ok(status);
    }
    // A receive that gets none of the messages, but that makes waits bring in those that it looks past.
    let mut brings = communicator.nonblocking_receive(Vec::<u8>::new(), source, NO_TAG);
    if let Some(status) = threads::find(&mut [&mut brings], sought)? {
        // It is not too late, because nothing comes for it.
        let _ = brings.cancel();
        return Ok(status);
    }
    brings.wait().map_err(|failed| failed.error)?;
    Err(Error::new(Class::Tag, format!("a message has the tag {NO_TAG}, which is no tag")))
}

/// Finds a message, and takes it. Waits until there is one, or returns `None` if there is none.
pub(crate) fn probe(
    comm: &Comm,
    source: c_int,
    tag: c_int,
    waits: bool,
) -> Result<Option<Found>, Error> {
    let tag = wanted_tag(tag)?;
    let Some(source) = comm.source(source)? else {
        return Ok(Some((MPI_MESSAGE_NO_PROC, Completed::FROM_NOBODY)));
    };
    let (bytes, status) = match threads::are_many() {
        // The next receive of that source and tag gets the message. If there is none yet, room for it is made when it
        // comes.
        true => match comm.communicator.try_probe(source, tag)? {
            Some(status) => receive(comm, vec![0; status.bytes], status.source, status.tag)?,
            None if waits => receive(comm, Vec::new(), source, tag)?,
            None => return Ok(None),
        },
        false => {
            let Some(status) = find(comm, source, tag, waits)? else { return Ok(None) };
            let (bytes, status) = comm.communicator.receive_vec(status.source, status.tag)?;
            (CutBuffer::new(bytes), status)
        }
    };
    let status = comm.told(status);
    let message = Message { bytes, status, comm: comm.keep() };
    let handle = Box::into_raw(Box::new(message)).cast();
    Ok(Some((handle, Completed::of(status))))
}

/// Receives a message, and lets other threads call meanwhile. Makes more room if the message needs it.
fn receive(
    comm: &Comm,
    room: Vec<u8>,
    source: impl Into<Source>,
    tag: impl Into<Tag>,
) -> Result<(CutBuffer<Vec<u8>>, Status), Error> {
    let mut received = comm.communicator.nonblocking_receive(CutBuffer::new(room), source, tag);
    let waited = threads::wait_all(&mut [&mut received]);
    let received = received.wait().map_err(|failed| failed.error)?;
    waited?;
    Ok(received)
}

/// Returns the message of a handle, or `None` for the one from `MPI_PROC_NULL`.
///
/// # Safety
/// The handle is one of a message that nobody has received, or any number below 4096. It is not used afterwards.
pub(crate) unsafe fn take(handle: Handle) -> Result<Option<Box<Message>>, Error> {
    match handle {
        MPI_MESSAGE_NO_PROC => Ok(None),
        MPI_MESSAGE_NULL => Err(Error::new(Class::Request, "the message is null")),
        _ if handle.addr() < 4096 => {
            Err(Error::new(Class::Request, "the handle is not one of a message"))
        }
        // SAFETY: the handle came from `probe`, and owns the message.
        _ => Ok(Some(unsafe { Box::from_raw(handle.cast::<Message>()) })),
    }
}

impl Message {
    /// Gives the message to the program. The data may be written to.
    pub fn receive(&self, data: Data<'_>) -> Completed {
        data.unpack(self.bytes.elements());
        Completed::received(self.status, data.bytes())
    }
}
