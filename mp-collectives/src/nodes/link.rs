//! The channels between two ranks of different nodes.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Instant;

use mp_core::mpb::Ends;
use mp_core::{Channel, ErrorKind, Guard, Message, Rank, Receiver, Result, Select, Sender, Wait};
use mp_model::nodes::leaders::PIECE;

use super::losses::Losses;
use crate::communicator::error::lost;
use crate::members::names;
use crate::nonblocking::{Leave, Left, Waits};

/// See the [module](super).
const PENDING: u32 = 4;

/// The channels to and from another rank. Calls wait in the thread that makes them, or else in a place of their own.
pub(super) struct Link {
    /// The other rank, by its number in the communicator.
    other: usize,
    channels: Arc<Channels>,
    /// How calls wait that wait in the thread that makes them.
    wait: Wait,
    waits: Option<Arc<Waits>>,
}

/// The channels, for whatever looks at what the link waits for.
struct Channels {
    /// This rank's number in the world.
    me: usize,
    name: Arc<str>,
    /// The channels, until they are closed.
    open: Mutex<Option<Open>>,
    losses: Arc<Losses>,
}

struct Open {
    to: Sender<[u8]>,
    from: Receiver<[u8]>,
    /// Tells why this rank closes its ends: the rank of the world that was lost.
    tell: Sender<u64>,
    told: Receiver<u64>,
    awaited: Awaited,
}

/// The end that the link waits for.
#[derive(Clone, Copy)]
enum Awaited {
    To,
    From,
    Told,
}

impl Open {
    /// Sends a piece. Without a `wait`, returns `None` if it has to wait.
    fn send(&mut self, piece: &[u8], wait: Option<Wait>) -> Result<Option<()>> {
        self.awaited = Awaited::To;
        if let Some(wait) = wait {
            self.to.set_wait(wait);
            return self.to.send(piece).map(Some);
        }
        match self.to.try_send(piece) {
            Ok(()) => Ok(Some(())),
            Err(error) if matches!(error.kind(), ErrorKind::Full { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Receives a piece of the same length. Without a `wait`, returns `None` if it has to wait.
    fn receive(&mut self, into: &mut [u8], other: usize, wait: Option<Wait>) -> Result<Option<()>> {
        self.awaited = Awaited::From;
        let Some(piece) = receive(&self.from, wait)? else { return Ok(None) };
        if piece.len() != into.len() {
            let (source_rank, bytes, room) = (other, piece.len(), into.len());
            return Err(ErrorKind::BlockTooLong { source_rank, bytes, room }.into());
        }
        into.copy_from_slice(&piece);
        Ok(Some(()))
    }

    /// Returns the rank that was lost, of which the other rank has told. Without a `wait`, returns `None` if it has to wait.
    fn told(&mut self, wait: Option<Wait>) -> Result<Option<usize>> {
        self.awaited = Awaited::Told;
        Ok(receive(&self.told, wait)?.map(|rank| *rank as usize))
    }

    fn select(&self) -> Select<'_> {
        let mut select = Select::new();
        match self.awaited {
            Awaited::To => select.add_sender(&self.to),
            Awaited::From => select.add(&self.from),
            Awaited::Told => select.add(&self.told),
        };
        select
    }
}

/// Receives a message. Without a `wait`, returns `None` if it has to wait.
fn receive<M: Message + ?Sized>(
    from: &Receiver<M>,
    wait: Option<Wait>,
) -> Result<Option<Guard<'_, M>>> {
    match wait {
        Some(wait) => {
            from.set_wait(wait);
            from.receive().map(Some)
        }
        None => from.try_receive(),
    }
}

impl Channels {
    fn lock(&self) -> MutexGuard<'_, Option<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the other rank that a rank was lost.
    fn tell(&self, lost: usize) {
        if let Some(open) = &mut *self.lock() {
            // This is the only message, so there is room. If the other rank is gone, it need not know.
            let _ = open.tell.try_send(&(lost as u64));
        }
    }
}

impl Ends for Channels {
    fn is_ready(&self) -> bool {
        self.losses.has_news() || self.lock().as_ref().is_none_or(|open| open.select().is_ready())
    }

    fn raise(&self) {
        self.lock().iter().for_each(|open| open.select().raise());
    }

    fn lower(&self) {
        self.lock().iter().for_each(|open| open.select().lower());
    }

    fn awaits(&self) -> Option<u64> {
        self.lock().as_ref().and_then(|open| open.select().awaits().pop())
    }
}

impl Leave for Channels {
    fn leave(&self, how: Left) {
        if let Left::Lost = how {
            self.tell(self.me);
        }
        let closed = self.lock().take();
        drop(closed);
    }
}

impl Link {
    /// Opens the channels to and from rank `other` of the communicator, which is rank `there` of the world. Does not wait
    /// until that rank opens its ends.
    pub(super) fn open(
        rank: &Rank,
        name: &str,
        (other, there): (usize, usize),
        losses: &Arc<Losses>,
        wait: Wait,
        waits: Option<&Arc<Waits>>,
    ) -> Result<Self> {
        let channel = |degree| names::COMMUNICATORS.channel(Channel::degree(degree));
        let (pieces, tells) = (channel(PENDING).max_len(PIECE), channel(1));
        let why = format!("{name}, lost");
        // These come first, because the other rank looks for them when it finds the others closed.
        let (tell, told) = (rank.sender(&why, there, tells)?, rank.receiver(&why, there, tells)?);
        let (to, from) = (rank.sender(name, there, pieces)?, rank.receiver(name, there, pieces)?);
        let open = Mutex::new(Some(Open { to, from, tell, told, awaited: Awaited::From }));
        let (me, losses) = (rank.id(), Arc::clone(losses));
        let channels = Arc::new(Channels { me, name: name.into(), open, losses });
        let waits = waits.cloned();
        if let Some(waits) = &waits {
            waits.add_channels(&channels);
        }
        Ok(Self { other, channels, wait, waits })
    }

    /// Sends a piece.
    pub(super) async fn send(&mut self, piece: &[u8]) -> Result<()> {
        let sent = self.until(|open, wait| open.send(piece, wait)).await;
        self.why(sent).await
    }

    /// Receives a piece of the same length.
    pub(super) async fn receive(&mut self, into: &mut [u8]) -> Result<()> {
        let other = self.other;
        let received = self.until(|open, wait| open.receive(into, other, wait)).await;
        self.why(received).await
    }

    /// Sends a message of any length. The receiver need not know the length.
    pub(super) async fn send_all(&mut self, message: &[u8]) -> Result<()> {
        self.send(&(message.len() as u64).to_le_bytes()).await?;
        for piece in message.chunks(PIECE) {
            self.send(piece).await?;
        }
        Ok(())
    }

    /// Receives a message of any length.
    pub(super) async fn receive_all(&mut self) -> Result<Vec<u8>> {
        let mut message = vec![0; self.receive_length().await?];
        for piece in message.chunks_mut(PIECE) {
            self.receive(piece).await?;
        }
        Ok(message)
    }

    /// Receives the length of a message.
    pub(super) async fn receive_length(&mut self) -> Result<usize> {
        let mut length = [0; 8];
        self.receive(&mut length).await?;
        Ok(u64::from_le_bytes(length) as usize)
    }

    /// Tells the other rank that a rank was lost.
    pub(super) fn tell(&mut self, lost: usize) {
        self.channels.tell(lost);
    }

    /// Does something with the channels, which waits inside if it is given a wait, and else returns `None` if it has to wait.
    /// Fails if it has to wait and a member was lost, or the communicator is revoked.
    async fn until<T>(
        &mut self,
        mut attempt: impl FnMut(&mut Open, Option<Wait>) -> Result<Option<T>>,
    ) -> Result<T> {
        let Self { channels, wait, waits, .. } = &*self;
        let (mut has_waited, began) = (false, Instant::now());
        poll_fn(move |_| {
            loop {
                // What a member has sent before it was lost is there when the loss is known.
                let (heard, failure) = (channels.losses.news(), channels.losses.failure());
                let inside = waits.is_none() && failure.is_none();
                let wait = inside.then(|| wait.since(began).until_news(heard));
                let attempted = match &mut *channels.lock() {
                    Some(open) => attempt(open, wait),
                    None => Err(ErrorKind::Disconnected { channel: channels.name.clone() }.into()),
                };
                let outcome = match (attempted, failure, waits) {
                    (Ok(Some(done)), ..) => Ok(done),
                    (Ok(None), Some(failure), _) => Err(failure),
                    (Ok(None), None, Some(waits)) => {
                        waits.at_ends(channels);
                        has_waited = true;
                        return Poll::Pending;
                    }
                    // The news have ended the wait.
                    (Ok(None), None, None) => continue,
                    (Err(error), ..)
                        if matches!(error.kind(), ErrorKind::Timeout { .. })
                            && channels.losses.news() != heard =>
                    {
                        continue;
                    }
                    (Err(error), ..) => Err(error),
                };
                waits.iter().filter(|_| has_waited).for_each(|waits| waits.at_nothing());
                return Poll::Ready(outcome);
            }
        })
        .await
    }

    /// Returns what the other rank has told of the loss for which it has closed its ends, if it has closed them.
    async fn why(&mut self, outcome: Result<()>) -> Result<()> {
        let Err(error) = outcome else { return Ok(()) };
        // If the other rank has left because of a revocation, or after it, this node knows of that.
        self.channels.losses.check_revoked()?;
        match error.kind() {
            // It closes all its ends together.
            ErrorKind::Disconnected { .. } | ErrorKind::PeerEnded { .. } => {
                match self.until(Open::told).await {
                    Ok(rank) => Err(lost(rank, rank)),
                    Err(_) => Err(error),
                }
            }
            _ => Err(error),
        }
    }
}
