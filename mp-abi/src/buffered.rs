//! Buffered sends: the library keeps what can't be sent at once.

use std::cell::RefCell;

use mp_collectives::communicator::{Communicator, Pending, SendRequest};

use crate::{
    comm::Comm,
    datatype::data::Data,
    error::Error,
    state::of_rank,
    threads::{are_many, wait_all},
};

of_rank! {
    /// The messages of threads that call at once: what waits for them must let others call.
    static KEPT: RefCell<Vec<SendRequest<Vec<u8>>>> = RefCell::new(Vec::new());
}

/// Sends without waiting, if the program has attached a buffer that is large enough.
pub(crate) fn send(comm: &Comm, data: Data<'_>, to: usize, tag: u32) -> Result<(), Error> {
    comm.attached.check(data.bytes())?;
    let communicator = &comm.communicator;
    if !are_many() {
        return Ok(communicator.buffered_send(&data.packed()[..], to, tag)?);
    }
    let mut sent = communicator.nonblocking_send(data.packed().into_owned(), to, tag);
    if sent.under_way().is_none() {
        sent.wait().map_err(|failed| failed.error)?;
        return Ok(());
    }
    KEPT.with(|kept| {
        let mut kept = kept.borrow_mut();
        kept.retain_mut(|sent| sent.under_way().is_some());
        kept.push(sent);
    });
    Ok(())
}

/// Waits until all messages of this rank are on their way.
pub(crate) fn flush(communicator: &Communicator) -> Result<(), Error> {
    if !are_many() {
        return Ok(communicator.flush()?);
    }
    // A message whose receiver has ended is given up, which is no error.
    let mut kept = KEPT.with(|kept| kept.take());
    let mut pending: Vec<_> = kept.iter_mut().map(|sent| sent as &mut dyn Pending).collect();
    Ok(wait_all(&mut pending)?)
}

/// Lets go of the messages, which go on their way without their requests.
pub(crate) fn let_go() {
    drop(KEPT.with(|kept| kept.take()));
}
