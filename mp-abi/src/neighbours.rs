//! Exchanges of blocks between neighbours in a topology.
//!
//! All messages begin at once. Those of blocking calls are in the order of the calls between two ranks, and so are the
//! others, so that several exchanges may be under way.

use mp_core::Pending;

use crate::{
    apart::{Incoming, Outgoing},
    comm::Comm,
    completed::Completed,
    datatype::data::Kept,
    error::Error,
    going::Going,
    order::Order,
    topology::Neighbour,
};

/// The tag of the first kind of edges. It is not that of reductions.
const TAG: u32 = 0x4d51;

/// The messages of an exchange.
struct Exchange {
    sends: Vec<Outgoing>,
    receives: Vec<Incoming>,
}

/// Begins to send a block to each neighbour, and to receive one from each.
///
/// # Safety
/// Until the exchange is done, the blocks can be read, and written to if they are received. Nobody else writes to them,
/// and nobody else uses those that are received.
pub(crate) unsafe fn begin(
    (comm, order): (&Comm, Order),
    sent: &[(Neighbour, Kept)],
    received: &[(Neighbour, Kept)],
) -> Result<Box<dyn Going>, Error> {
    let communicator = &comm.communicator;
    let mut exchange = Exchange { sends: Vec::new(), receives: Vec::new() };
    for (from, kept) in received {
        let Some(rank) = from.rank else { continue };
        // SAFETY: the caller says that nobody else uses the block.
        let receive =
            unsafe { Incoming::begin(communicator, kept, rank, TAG + order.tag(from.edge))? };
        exchange.receives.push(receive);
    }
    for (to, kept) in sent {
        let Some(rank) = to.rank else { continue };
        // SAFETY: the caller says that nobody writes to the block.
        let send = unsafe { Outgoing::begin(communicator, kept, rank, TAG + order.tag(to.edge))? };
        exchange.sends.push(send);
    }
    Ok(Box::new(exchange))
}

impl Going for Exchange {
    fn pending(&mut self) -> Option<&mut dyn Pending> {
        let sends = self.sends.iter_mut().map(Outgoing::pending);
        let receives = self.receives.iter_mut().map(Incoming::pending);
        receives.chain(sends).find_map(|part| part.under_way().is_some().then_some(part))
    }

    fn finish(self: Box<Self>) -> Completed {
        let mut error = None;
        for receive in self.receives {
            error = error.or(receive.finish().err());
        }
        for send in self.sends {
            error = error.or(send.finish().err());
        }
        error.map_or(Completed::EMPTY, Completed::failed)
    }
}
