//! Partitioned messages: the program says of each part of a message when it is ready. The message is sent when all are.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    ffi::c_int,
    rc::Rc,
};

use mp_collectives::communicator::Pending;

use crate::{
    apart::{Incoming, Outgoing},
    awaited::Awaited,
    comm::{Comm, sent_tag},
    completed::Completed,
    datatype::data::Kept,
    error::{Class, Error},
    going::Going,
    state::of_rank,
    types::Handle,
};

type Result<T> = std::result::Result<T, Error>;

/// A message in parts that a request sends or receives each time it is started.
pub(crate) struct Partitioned {
    data: Kept,
    /// The other rank in the communicator of messages, unless it is `MPI_PROC_NULL`.
    peer: Option<usize>,
    tag: u32,
    /// The other rank and the tag, as the program has named them.
    named: (c_int, c_int),
    /// What is to be sent. A receive has none.
    parts: Option<Rc<Parts>>,
}

/// The parts of a message to send.
pub(crate) struct Parts {
    ready: RefCell<Vec<bool>>,
    /// How many are not ready.
    left: Cell<usize>,
    /// Whether the message was begun.
    is_begun: Rc<Cell<bool>>,
    sending: RefCell<Option<Result<Option<Outgoing>>>>,
    comm: Rc<Comm>,
    data: Kept,
    peer: Option<usize>,
    tag: u32,
}

of_rank! {
    /// The parts that requests send, by the addresses that their handles are. They are not looked at through the
    /// handles, because a wait may have these.
    static SENDS: RefCell<BTreeMap<usize, Rc<Parts>>> = RefCell::new(BTreeMap::new());
}

impl Partitioned {
    /// Names a message of `partitions` parts, which `data` is together.
    pub fn new(
        comm: &Comm,
        data: Kept,
        partitions: Option<usize>,
        peer: c_int,
        tag: c_int,
    ) -> Result<Self> {
        let (named, other) = ((peer, tag), comm.destination(peer)?);
        let way = (partitions.is_some(), peer);
        let tag = comm.pairs.borrow_mut().tag(way, sent_tag(tag)?)?;
        let parts = partitions.map(|partitions| {
            Rc::new(Parts {
                ready: RefCell::new(vec![true; partitions]),
                left: Cell::new(0),
                is_begun: Rc::default(),
                sending: RefCell::default(),
                comm: comm.keep(),
                data: data.clone(),
                peer: other,
                tag,
            })
        });
        Ok(Self { data, peer: other, tag, named, parts })
    }

    /// Returns the parts that are to be sent. A receive has none.
    pub fn parts(&self) -> Option<Rc<Parts>> {
        self.parts.clone()
    }

    /// Begins to wait for the parts, or to receive. Returns `None` if there is nothing to wait for.
    ///
    /// # Safety
    /// The data can be read if it is sent, and written to if it is received. Nobody else uses it until the result is
    /// finished.
    pub unsafe fn begin(&self, comm: &Comm) -> Result<Option<Box<dyn Going>>> {
        if let Some(parts) = &self.parts {
            let mut ready = parts.ready.borrow_mut();
            ready.fill(false);
            parts.left.set(ready.len());
            drop(ready);
            parts.is_begun.set(false);
            let waits = Awaited::new(Rc::clone(&parts.is_begun), comm.communicator.joint().rank());
            let parts = Rc::clone(parts);
            return Ok(Some(Box::new(Leaving { parts, waits, sending: None })));
        }
        let Some(source) = self.peer else { return Ok(None) };
        // SAFETY: the caller says so.
        let message = unsafe { Incoming::begin(&comm.communicator, &self.data, source, self.tag)? };
        Ok(Some(Box::new(Coming { message, named: self.named })))
    }
}

/// Notes that the request with this handle sends these parts.
pub(crate) fn open(handle: Handle, parts: Option<Rc<Parts>>) {
    if let Some(parts) = parts {
        SENDS.with(|sends| sends.borrow_mut().insert(handle.addr(), parts));
    }
}

/// Says that parts of a message are ready.
pub(crate) fn ready(handle: Handle, parts: impl IntoIterator<Item = c_int>) -> Result<()> {
    let found = SENDS.with(|sends| sends.borrow().get(&handle.addr()).cloned());
    let text = "the handle is not one of a partitioned send";
    let found = found.ok_or_else(|| Error::new(Class::Request, text))?;
    for part in parts {
        found.ready(part)?;
    }
    Ok(())
}

/// Forgets the parts of a request that is freed.
pub(crate) fn close(handle: Handle) {
    SENDS.with(|sends| sends.borrow_mut().remove(&handle.addr()));
}

impl Parts {
    fn ready(&self, part: c_int) -> Result<()> {
        let mut ready = self.ready.borrow_mut();
        let count = ready.len();
        let wrong = |class, text| Err(Error::new(class, text));
        match usize::try_from(part).ok().and_then(|part| ready.get_mut(part)) {
            None => {
                return wrong(Class::Arg, format!("there is no part {part} of {count}"));
            }
            Some(true) => {
                let text = format!("part {part} is ready already, or the request was not started");
                return wrong(Class::Request, text);
            }
            Some(is_ready) => *is_ready = true,
        }
        self.left.set(self.left.get() - 1);
        if self.left.get() == 0 {
            self.sending.replace(Some(self.send()));
            self.is_begun.set(true);
        }
        Ok(())
    }

    fn send(&self) -> Result<Option<Outgoing>> {
        let Some(to) = self.peer else { return Ok(None) };
        // SAFETY: the program does not write to the data until the request is complete, as `begin` demands.
        let sent = unsafe { Outgoing::begin(&self.comm.communicator, &self.data, to, self.tag)? };
        Ok(Some(sent))
    }
}

/// A message that is sent when its parts are ready.
struct Leaving {
    parts: Rc<Parts>,
    waits: Awaited,
    sending: Option<Result<Option<Outgoing>>>,
}

impl Leaving {
    fn take(&mut self) {
        if self.sending.is_none() {
            self.sending = self.parts.sending.take();
        }
    }
}

impl Going for Leaving {
    fn pending(&mut self) -> Option<&mut dyn Pending> {
        self.take();
        let part: &mut dyn Pending = match &mut self.sending {
            None => &mut self.waits,
            Some(Ok(Some(message))) => message.pending(),
            Some(Ok(None) | Err(_)) => return None,
        };
        part.under_way().is_some().then_some(part)
    }

    fn finish(mut self: Box<Self>) -> Completed {
        self.take();
        let sent = match self.sending {
            Some(Ok(Some(message))) => message.finish(),
            Some(Ok(None)) => Ok(()),
            Some(Err(error)) => Err(error),
            None => Err(Error::new(Class::Request, "not all parts of the message are ready")),
        };
        sent.map_or_else(Completed::failed, |()| Completed::EMPTY)
    }
}

/// A message that is received.
struct Coming {
    message: Incoming,
    /// The rank and the tag that the program has named.
    named: (c_int, c_int),
}

impl Going for Coming {
    fn pending(&mut self) -> Option<&mut dyn Pending> {
        let part = self.message.pending();
        part.under_way().is_some().then_some(part)
    }

    fn finish(self: Box<Self>) -> Completed {
        let (source, tag) = self.named;
        match self.message.finish() {
            Ok(bytes) => Completed { source, tag, bytes, ..Completed::EMPTY },
            Err(error) => Completed::failed(error),
        }
    }
}
