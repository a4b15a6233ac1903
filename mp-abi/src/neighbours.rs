//! Exchanges of blocks between neighbours in a topology.
//!
//! All messages begin at once. They are in the order of the calls between two ranks, so that several exchanges may be
//! under way.

use mp_collectives::communicator::{ReceiveRequest, SendRequest};
use mp_core::{Pending, requests::RawBuffer};

use crate::{
    comm::Comm, completed::Completed, datatype::data::Kept, error::Error, going::Going,
    topology::Neighbour,
};

/// The tag of the first kind of edges. It is not that of reductions.
const TAG: u32 = 0x4d51;

/// The messages of an exchange.
struct Exchange {
    sends: Vec<Send>,
    receives: Vec<Receive>,
}

struct Send {
    request: SendRequest<RawBuffer<u8>>,
    /// What is sent, if that is not in one piece in the program's memory. It goes after the request.
    _copy: Vec<u8>,
}

struct Receive {
    request: ReceiveRequest<RawBuffer<u8>>,
    /// Where the message comes, if it is unpacked then. It goes after the request.
    copy: Vec<u8>,
    kept: Kept,
}

/// Begins to send a block to each neighbour, and to receive one from each.
///
/// # Safety
/// Until the exchange is done, the blocks can be read, and written to if they are received. Nobody else writes to them,
/// and nobody else uses those that are received.
pub(crate) unsafe fn begin(
    comm: &Comm,
    sent: &[(Neighbour, Kept)],
    received: &[(Neighbour, Kept)],
) -> Result<Box<dyn Going>, Error> {
    let joint = comm.communicator.joint();
    let mut exchange = Exchange { sends: Vec::new(), receives: Vec::new() };
    for (from, kept) in received {
        let Some(rank) = from.rank else { continue };
        let data = kept.data();
        let mut copy = Vec::new();
        // SAFETY: the caller says that nobody else uses the block.
        let place = unsafe { data.plain_or(&mut copy) };
        // SAFETY: the place is the program's, or a copy that stays where it is as long as the request.
        let buffer = unsafe { RawBuffer::new(place.as_mut_ptr(), place.len()) };
        let request = joint.nonblocking_receive(buffer, rank, TAG + from.edge)?;
        exchange.receives.push(Receive { request, copy, kept: kept.clone() });
    }
    for (to, kept) in sent {
        let Some(rank) = to.rank else { continue };
        let data = kept.data();
        let mut copy = Vec::new();
        let bytes = match data.plain() {
            Some(plain) => plain,
            None => {
                data.pack(&mut copy);
                &copy[..]
            }
        };
        // SAFETY: nobody writes to the block, or to the copy, which stays where it is as long as the request.
        let buffer = unsafe { RawBuffer::new(bytes.as_ptr().cast_mut(), bytes.len()) };
        let request = joint.nonblocking_send(buffer, rank, TAG + to.edge)?;
        exchange.sends.push(Send { request, _copy: copy });
    }
    Ok(Box::new(exchange))
}

impl Going for Exchange {
    fn pending(&mut self) -> Option<&mut dyn Pending> {
        let sends = self.sends.iter_mut().map(|send| &mut send.request as &mut dyn Pending);
        let receives =
            self.receives.iter_mut().map(|receive| &mut receive.request as &mut dyn Pending);
        receives.chain(sends).find_map(|part| part.under_way().is_some().then_some(part))
    }

    fn finish(self: Box<Self>) -> Completed {
        let mut error = None;
        for Receive { request, copy, kept } in self.receives {
            match request.wait() {
                Ok(_) if copy.is_empty() => {}
                Ok((_, status)) => kept.data().unpack(&copy[..copy.len().min(status.bytes)]),
                Err(failed) => error = error.or(Some(failed.error)),
            }
        }
        for Send { request, .. } in self.sends {
            if let Err(failed) = request.wait() {
                error = error.or(Some(failed.error));
            }
        }
        error.map_or(Completed::EMPTY, |error| Completed::failed(error.into()))
    }
}
