//! Several pending sends and receives of borrowed elements at once.

use mp_core::{ElementType, Error, Plain, Result, requests::Landing};

use crate::communicator::{
    messages::engine::{Handle, Local},
    messages::posted::Want,
    messages::send_queue::Cargo,
    messages::store::Pattern,
    messages::wire::Envelope,
    point_to_point::{Communicator, Stream},
    status::{Source, Status, Tag},
};

/// Sends and receives that [`run`](Self::run) carries out together, each as soon as it can make progress. They are like
/// nonblocking sends and receives, but of borrowed elements, and are done when the borrow ends.
///
/// ```
/// use onchip::Communicator;
///
/// onchip::World::threads(3).run(|rank| {
///     let world = Communicator::world(rank);
///     let (me, size) = (world.rank(), world.size());
///     let mine = vec![me as u32; 50_000];
///     let (mut left, mut right) = (vec![0; 50_000], vec![0; 50_000]);
///     let mut exchange = world.exchange();
///     for (neighbour, from) in [(me + size - 1, &mut left), (me + 1, &mut right)] {
///         exchange.send(&mine, neighbour % size, 0).receive(from, neighbour % size, 0);
///     }
///     exchange.run()?;
///     assert_eq!(left[49_999], (me as u32 + 2) % 3);
///     assert_eq!(right[0], (me as u32 + 1) % 3);
///     Ok(())
/// })?;
/// # Ok::<(), onchip::Error>(())
/// ```
#[must_use = "nothing is sent or received before `run`"]
pub struct Exchange<'a> {
    communicator: &'a Communicator,
    stream: Stream,
    sends: Vec<Send<'a>>,
    receives: Vec<Receive<'a>>,
    /// The error of an invalid call.
    failed: Option<Error>,
}

struct Send<'a> {
    bytes: &'a [u8],
    envelope: Envelope,
    element: fn() -> ElementType,
    to: u32,
}

struct Receive<'a> {
    pattern: Pattern,
    want: Want,
    landing: Box<dyn Landing + 'a>,
}

impl Communicator {
    /// Returns an empty set of sends and receives of borrowed elements, to be carried out together.
    pub fn exchange(&self) -> Exchange<'_> {
        self.exchange_in(Stream::Program)
    }

    pub(crate) fn exchange_in(&self, stream: Stream) -> Exchange<'_> {
        let (sends, receives) = (Vec::new(), Vec::new());
        Exchange { communicator: self, stream, sends, receives, failed: None }
    }
}

impl<'a> Exchange<'a> {
    /// Adds a message to rank `to`. Messages to the same rank are sent in the order in which they were added.
    pub fn send<T: Plain>(&mut self, elements: &'a [T], to: usize, tag: u32) -> &mut Self {
        match self.communicator.destination(to) {
            Ok(to) => {
                let context = self.communicator.context_of(self.stream);
                match self.communicator.engine.work().envelope(context, tag, elements) {
                    Ok(envelope) => self.sends.push(Send {
                        bytes: bytemuck::cast_slice(elements),
                        envelope,
                        element: ElementType::of::<T>,
                        to,
                    }),
                    Err(error) => drop(self.failed.get_or_insert(error)),
                }
            }
            Err(error) => drop(self.failed.get_or_insert(error)),
        }
        self
    }

    /// Adds a receive into a buffer that is long enough. Receives get their messages in the order in which they were
    /// added.
    pub fn receive<T: Plain>(
        &mut self,
        into: &'a mut [T],
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> &mut Self {
        match self.communicator.pattern(self.stream, source.into(), tag.into()) {
            Ok(pattern) => {
                let mut engine = self.communicator.engine.work();
                let room = Some(into.len());
                let want = engine.want::<T>(room, false);
                self.receives.push(Receive { pattern, want, landing: Box::new(into) });
            }
            Err(error) => drop(self.failed.get_or_insert(error)),
        }
        self
    }
}

impl Exchange<'_> {
    /// Carries out all sends and receives, and returns the statuses of the receives, in the order in which they were
    /// added (`MPI_Waitall`).
    ///
    /// # Errors
    /// The first error in the order of adding, receives before sends. The call returns after it has done what could
    /// still be done. If a call was invalid (for example with a rank that does not exist), nothing is done.
    pub fn run(self) -> Result<Vec<Status>> {
        let Self { communicator, sends, mut receives, failed, .. } = self;
        if let Some(error) = failed {
            return Err(error);
        }
        communicator.carry_out(sends, &mut receives).map_err(|error| communicator.localized(error))
    }
}

impl Communicator {
    fn carry_out(&self, sends: Vec<Send<'_>>, receives: &mut [Receive<'_>]) -> Result<Vec<Status>> {
        let mut engine = self.engine.work();
        let engine = &mut *engine;
        // Receives are posted first, so that messages that come meanwhile find them.
        let posted: Vec<Result<usize>> = receives
            .iter()
            .map(|receive| {
                let Receive { pattern, want, .. } = *receive;
                engine.post(pattern, want, &self.members)
            })
            .collect();
        let mut locals: Vec<Local<'_>> = Vec::with_capacity(sends.len());
        for Send { bytes, envelope, element, to } in sends {
            let mut outcome = engine.announce(to, envelope.fingerprint, element).err().map(Err);
            if to == engine.me {
                engine.send_to_self(envelope, Cargo::Bytes(bytes));
                outcome = Some(Ok(()));
            }
            locals.push(Local::new(to, &envelope, bytes, outcome));
        }
        let handles: Vec<usize> =
            posted.iter().flatten().map(|&at| Handle::Receive(at).number()).collect();
        let mut landings: Vec<(usize, &mut dyn Landing)> = Vec::with_capacity(receives.len());
        for (receive, posted) in receives.iter_mut().zip(&posted) {
            if let Ok(place) = posted {
                landings.push((Handle::Receive(*place).number(), &mut *receive.landing));
            }
        }
        let worked = engine.work_on(&handles, &mut landings, &mut locals, None);
        drop(landings);
        let mut statuses = Vec::with_capacity(receives.len());
        let mut failed = None;
        for (receive, posted) in receives.iter_mut().zip(posted) {
            let landed = posted.map(|place| {
                let landed = engine.matching.land(place, &mut *receive.landing);
                if landed.is_none() {
                    engine.matching.abandon(place);
                }
                landed
            });
            match landed {
                Ok(Some(Ok(envelope))) => statuses.push(self.status(&envelope)),
                Ok(Some(Err(error))) | Err(error) => drop(failed.get_or_insert(error)),
                Ok(None) => {}
            }
        }
        let sent = locals.into_iter().find_map(|local| local.outcome?.err());
        match failed.or(sent).or(worked.err()) {
            Some(error) => Err(error),
            None => Ok(statuses),
        }
    }
}
