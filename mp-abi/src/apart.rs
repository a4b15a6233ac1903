//! Messages with data of the program that are apart from those that the program sends.

use mp_collectives::communicator::{Communicator, ReceiveRequest, SendRequest};
use mp_core::{Pending, requests::RawBuffer};

use crate::{datatype::data::Kept, error::Error};

type Result<T> = std::result::Result<T, Error>;

/// A message that is sent.
pub(crate) struct Outgoing {
    request: SendRequest<RawBuffer<u8>>,
    /// What is sent, if that is not in one piece in the program's memory. It goes after the request.
    _copy: Vec<u8>,
}

impl Outgoing {
    /// Begins to send.
    ///
    /// # Safety
    /// The data can be read, and nobody writes to it, until [`finish`](Self::finish) returns or the message is dropped.
    pub unsafe fn begin(comm: &Communicator, kept: &Kept, to: usize, tag: u32) -> Result<Self> {
        let data = kept.data();
        let mut copy = Vec::new();
        let bytes = match data.plain() {
            Some(plain) => plain,
            None => {
                data.pack(&mut copy);
                &copy[..]
            }
        };
        // SAFETY: the caller says that nobody writes to the data. The copy does not change, and its bytes stay where they
        // are until the request is gone.
        let buffer = unsafe { RawBuffer::new(bytes.as_ptr().cast_mut(), bytes.len()) };
        let request = comm.joint().nonblocking_send(buffer, to, tag)?;
        Ok(Self { request, _copy: copy })
    }

    pub fn pending(&mut self) -> &mut dyn Pending {
        &mut self.request
    }

    /// Waits until the message is sent.
    pub fn finish(self) -> Result<()> {
        self.request.wait().map_err(|failed| failed.error)?;
        Ok(())
    }
}

/// A message that is received.
pub(crate) struct Incoming {
    request: ReceiveRequest<RawBuffer<u8>>,
    /// Where the message comes, if it is unpacked then. It goes after the request.
    copy: Vec<u8>,
    kept: Kept,
}

impl Incoming {
    /// Begins to receive.
    ///
    /// # Safety
    /// The data can be written to, and nobody else uses it, until [`finish`](Self::finish) returns or the message is
    /// dropped.
    pub unsafe fn begin(comm: &Communicator, kept: &Kept, from: usize, tag: u32) -> Result<Self> {
        let data = kept.data();
        let mut copy = Vec::new();
        // SAFETY: the caller says that the data can be written to, and that nobody else uses it.
        let place = unsafe { data.plain_or(&mut copy) };
        // SAFETY: the place is the program's, or a copy whose bytes stay where they are until the request is gone.
        let buffer = unsafe { RawBuffer::new(place.as_mut_ptr(), place.len()) };
        let request = comm.joint().nonblocking_receive(buffer, from, tag)?;
        Ok(Self { request, copy, kept: kept.clone() })
    }

    pub fn pending(&mut self) -> &mut dyn Pending {
        &mut self.request
    }

    /// Waits until the message has come, and returns the number of its bytes.
    pub fn finish(self) -> Result<usize> {
        let Self { request, copy, kept } = self;
        let (_, status) = request.wait().map_err(|failed| failed.error)?;
        if !copy.is_empty() {
            kept.data().unpack(&copy[..copy.len().min(status.bytes)]);
        }
        Ok(status.bytes)
    }
}
