//! Sends and receives that are made once and started again and again.

use mp_core::{Buffer, BufferMut, Failed, Pending, Result, requests::UnderWay};

use crate::communicator::{
    point_to_point::Communicator,
    requests::request::{ReceiveRequest, SendRequest},
    status::{Source, Status, Tag},
};
use crate::errors::bad_call;

/// A send that can be started many times (`MPI_Send_init`). It owns the buffer, which can be written to between a
/// [`wait`](Self::wait) and the next [`start`](Self::start).
///
/// ```
/// use onchip::communicator::{Communicator, start_all, wait_all};
///
/// onchip::World::threads(2).run(|rank| {
///     let world = Communicator::world(rank);
///     let other = 1 - world.rank();
///     let mut send = world.persistent_send(vec![0u64; 1000], other, 0);
///     let mut receive = world.persistent_receive(vec![0u64; 1000], other, 0);
///     for round in 0..10 {
///         send.buffer_mut()?.fill(round);
///         receive.start()?;
///         send.start()?;
///         send.wait()?;
///         receive.wait()?;
///         assert_eq!(receive.buffer_mut()?[999], round);
///     }
///     Ok(())
/// })?;
/// # Ok::<(), onchip::Error>(())
/// ```
pub struct PersistentSend<'a, B: Buffer + 'static> {
    communicator: &'a Communicator,
    to: usize,
    tag: u32,
    state: State<B, SendRequest<B>>,
}

/// A receive that can be started many times (`MPI_Recv_init`). See [`PersistentSend`].
pub struct PersistentReceive<'a, B: BufferMut> {
    communicator: &'a Communicator,
    source: Source,
    tag: Tag,
    state: State<B, ReceiveRequest<B>>,
}

enum State<B, R> {
    Idle(B),
    Started(R),
    /// Only within `start` and `wait`.
    Between,
}

fn busy<T>() -> Result<T> {
    Err(bad_call(
        "the persistent request was started and not waited for: wait for it before the next start",
    ))
}

impl<B, R> State<B, R> {
    fn start(&mut self, begin: impl FnOnce(B) -> R) -> Result<()> {
        match std::mem::replace(self, Self::Between) {
            Self::Idle(buffer) => {
                *self = Self::Started(begin(buffer));
                Ok(())
            }
            other => {
                *self = other;
                busy()
            }
        }
    }

    fn wait<T>(&mut self, wait: impl FnOnce(R) -> Result<(B, T), Failed<B>>) -> Result<Option<T>> {
        match std::mem::replace(self, Self::Between) {
            Self::Started(request) => match wait(request) {
                Ok((buffer, answer)) => {
                    *self = Self::Idle(buffer);
                    Ok(Some(answer))
                }
                Err(Failed { error, buffer }) => {
                    *self = Self::Idle(buffer);
                    Err(error)
                }
            },
            other => {
                *self = other;
                Ok(None)
            }
        }
    }

    fn buffer_mut(&mut self) -> Result<&mut B> {
        match self {
            Self::Idle(buffer) => Ok(buffer),
            _ => busy(),
        }
    }

    fn request(&mut self) -> Option<&mut R> {
        match self {
            Self::Started(request) => Some(request),
            _ => None,
        }
    }
}

impl Communicator {
    /// Makes a send that is started later, any number of times (`MPI_Send_init`).
    pub fn persistent_send<B: Buffer + 'static>(
        &self,
        buffer: B,
        to: usize,
        tag: u32,
    ) -> PersistentSend<'_, B> {
        PersistentSend { communicator: self, to, tag, state: State::Idle(buffer) }
    }

    /// Makes a receive that is started later, any number of times (`MPI_Recv_init`).
    pub fn persistent_receive<B: BufferMut>(
        &self,
        buffer: B,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> PersistentReceive<'_, B> {
        let (source, tag) = (source.into(), tag.into());
        PersistentReceive { communicator: self, source, tag, state: State::Idle(buffer) }
    }
}

impl<B: Buffer + 'static> PersistentSend<'_, B> {
    /// Begins to send what the buffer holds (`MPI_Start`).
    ///
    /// # Errors
    /// [`BadCall`](mp_core::ErrorKind::BadCall) when it was started and not waited for.
    pub fn start(&mut self) -> Result<()> {
        let Self { communicator, to, tag, state } = self;
        state.start(|buffer| communicator.nonblocking_send(buffer, *to, *tag))
    }

    /// Waits until the send is done, if it was started.
    ///
    /// # Errors
    /// As [`Communicator::send`]. The send can be started again all the same.
    pub fn wait(&mut self) -> Result<()> {
        self.state.wait(|request| Ok((request.wait()?, ()))).map(drop)
    }

    /// Returns the buffer.
    ///
    /// # Errors
    /// [`BadCall`](mp_core::ErrorKind::BadCall) while the send is pending.
    pub fn buffer_mut(&mut self) -> Result<&mut B> {
        self.state.buffer_mut()
    }
}

impl<B: BufferMut> PersistentReceive<'_, B> {
    /// Posts the receive (`MPI_Start`).
    ///
    /// # Errors
    /// [`BadCall`](mp_core::ErrorKind::BadCall) when it was started and not waited for.
    pub fn start(&mut self) -> Result<()> {
        let Self { communicator, source, tag, state } = self;
        state.start(|buffer| communicator.nonblocking_receive(buffer, *source, *tag))
    }

    /// Waits for the message.
    ///
    /// # Errors
    /// As [`Communicator::receive_into`], and [`BadCall`](mp_core::ErrorKind::BadCall) when the receive was not
    /// started. It can be started again all the same.
    pub fn wait(&mut self) -> Result<Status> {
        match self.state.wait(ReceiveRequest::wait)? {
            Some(status) => Ok(status),
            None => Err(bad_call(
                "the persistent request was not started: start it before you wait for it",
            )),
        }
    }

    /// Returns the buffer.
    ///
    /// # Errors
    /// [`BadCall`](mp_core::ErrorKind::BadCall) while the receive is pending.
    pub fn buffer_mut(&mut self) -> Result<&mut B> {
        self.state.buffer_mut()
    }
}

/// A persistent request of any type; sealed.
pub trait Start: Pending {
    /// Starts the request: see the method `start` of its type.
    ///
    /// # Errors
    /// As `start`.
    fn begin(&mut self) -> Result<()>;
}

/// Starts several persistent requests, of one type or as `&mut dyn Start` (`MPI_Startall`).
///
/// # Errors
/// The first error. The requests after it are not started.
pub fn start_all<S: Start>(requests: &mut [S]) -> Result<()> {
    requests.iter_mut().try_for_each(Start::begin)
}

impl<S: Start + ?Sized> Start for &mut S {
    fn begin(&mut self) -> Result<()> {
        (**self).begin()
    }
}

impl<B: Buffer + 'static> Start for PersistentSend<'_, B> {
    fn begin(&mut self) -> Result<()> {
        self.start()
    }
}

impl<B: BufferMut> Start for PersistentReceive<'_, B> {
    fn begin(&mut self) -> Result<()> {
        self.start()
    }
}

macro_rules! requests {
    ($($name:ident, $bound:path $(, $life:lifetime)?;)*) => {$(
        impl<B: $bound $(+ $life)?> Pending for $name<'_, B> {
            fn is_active(&self) -> bool {
                matches!(self.state, State::Started(_))
            }

            fn under_way(&mut self) -> Option<UnderWay<'_>> {
                self.state.request()?.under_way()
            }

            fn settle(&mut self) {
                if let Some(request) = self.state.request() {
                    request.settle();
                }
            }

            fn settle_at_once(&mut self, last: bool) -> bool {
                self.state.request().is_none_or(|request| request.settle_at_once(last))
            }
        }
    )*};
}

requests! {
    PersistentSend, Buffer, 'static;
    PersistentReceive, BufferMut;
}
