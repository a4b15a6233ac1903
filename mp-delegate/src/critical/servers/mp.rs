//! MP-SERVER, section 6.1.2 of Petrović's thesis: requests and responses are messages, which go
//! through two of the library's channels for each client. Nothing is shared but those, so that the
//! orderings, and the models of them, are the channels' own. In simulations they are simulated ones.
//!
//! **A server's death.** Requests that were on their way to it are gone with its channels: each that
//! it has not answered was executed once or not at all, and its client is told so. Whoever stands by
//! opens channels of its own when it takes over, and clients open their ends when they next ask.
//! That the dead one was in the middle of an operation stands in a word of shared memory, which
//! nobody looks at before.

use std::collections::VecDeque;

use mp_core::{Channel, Plain, Rank, Receiver, Sender};

use crate::critical::{
    error::Stop,
    object::{Fate, Outcome, words_of},
    site::{Place, Seat, Site, head},
};

/// The two channels between a client and a server.
#[derive(Clone, Debug)]
pub(in crate::critical) struct Names {
    ask: String,
    tell: String,
}

impl Names {
    /// Of the server that the scheme names.
    pub(in crate::critical) fn first(object: &str) -> Self {
        Self { ask: format!("{object}/ask"), tell: format!("{object}/tell") }
    }

    /// Of one that follows. Of two objects of the same name they must differ: clients open them in
    /// any order.
    pub(in crate::critical) fn later(place: &Place) -> Self {
        let serial = place.region.serial();
        Self { ask: format!("critical/{serial}/ask"), tell: format!("critical/{serial}/tell") }
    }
}

fn channel<T>(in_flight: usize, head: usize) -> Channel {
    Channel::degree(in_flight.clamp(1, 1 << 20) as u32).max_len(head + words_of::<T>())
}

fn ended(error: mp_core::Error) -> Stop {
    match error {
        mp_core::Error::PeerLost { .. } | mp_core::Error::Disconnected { .. } => Stop::Unserved,
        error => error.into(),
    }
}

/// The end of a channel where messages go in.
pub(in crate::critical) trait Outlet {
    /// Sends a message of so many words, written where it will be read; waits for room.
    fn send(&mut self, words: usize, write: impl FnOnce(&mut [u64])) -> Result<(), Stop>;
}

/// The end of a channel where messages come out.
pub(in crate::critical) trait Inlet {
    /// Waits for a message, and reads it in place.
    fn receive<T>(&mut self, read: impl FnOnce(&[u64]) -> T) -> Result<T, Stop>;

    /// Reads a message in place, if one is there.
    fn try_receive<T>(&mut self, read: impl FnOnce(&[u64]) -> T) -> Result<Option<T>, Stop>;
}

impl Outlet for Sender<[u64]> {
    #[inline(always)]
    fn send(&mut self, words: usize, write: impl FnOnce(&mut [u64])) -> Result<(), Stop> {
        let mut slot = self.reserve(words).map_err(ended)?;
        write(&mut slot);
        slot.publish().map_err(ended)
    }
}

impl Inlet for Receiver<[u64]> {
    #[inline(always)]
    fn receive<T>(&mut self, read: impl FnOnce(&[u64]) -> T) -> Result<T, Stop> {
        Receiver::receive(self).map(|message| read(&message)).map_err(ended)
    }

    #[inline(always)]
    fn try_receive<T>(&mut self, read: impl FnOnce(&[u64]) -> T) -> Result<Option<T>, Stop> {
        let message = Receiver::try_receive(self).map_err(ended)?;
        Ok(message.map(|message| read(&message)))
    }
}

/// How a client gets from a server that is gone to the one that follows.
pub(in crate::critical) trait Follow<S, A, B> {
    /// Waits for the server that follows, if there is to be one.
    fn follow<Op: Plain, Ret: Plain>(&mut self, site: &S, in_flight: usize)
    -> Result<(A, B), Stop>;
}

/// Nobody follows.
impl<S, A, B> Follow<S, A, B> for () {
    fn follow<Op: Plain, Ret: Plain>(&mut self, _site: &S, _: usize) -> Result<(A, B), Stop> {
        Err(Stop::Unserved)
    }
}

/// A client's way to real servers.
pub(in crate::critical) struct Way {
    rank: Rank,
    me: Seat,
    /// The server that the scheme names, and the one that the channels lead to.
    first: usize,
    server: usize,
}

/// A client's ends.
type Ends = (Sender<[u64]>, Receiver<[u64]>);

impl Way {
    fn connect<Op: Plain, Ret: Plain>(
        &self,
        names: &Names,
        in_flight: usize,
    ) -> Result<Ends, mp_core::Error> {
        let Self { rank, server, .. } = self;
        let ask = rank.sender(&names.ask, *server, channel::<Op>(in_flight, 0))?;
        Ok((ask, rank.receiver(&names.tell, *server, channel::<Ret>(in_flight, 1))?))
    }
}

impl Follow<Place, Sender<[u64]>, Receiver<[u64]>> for Way {
    fn follow<Op: Plain, Ret: Plain>(
        &mut self,
        place: &Place,
        in_flight: usize,
    ) -> Result<Ends, Stop> {
        let word = place.head(head::SERVER);
        let look = || {
            let next = place.serving()?;
            (next != self.server).then_some(Ok(next))
        };
        self.server = place.wait(self.me, None, word, || {
            look().or_else(|| {
                place.unserved_after(self.first).then(|| look().unwrap_or(Err(Stop::Unserved)))
            })
        })??;
        Ok(self.connect::<Op, Ret>(&Names::later(place), in_flight)?)
    }
}

/// Looks for a response before the wait that may sleep.
const LOOKS: u32 = 300;

/// One client.
pub(in crate::critical) struct Client<Ret, A = Sender<[u64]>, B = Receiver<[u64]>, W = Way> {
    way: W,
    ask: A,
    told: B,
    in_flight: usize,
    /// The same; 0 when the server is gone.
    room: u64,
    /// Requests, and those of which it is known what became of them.
    asked: u64,
    answered: u64,
    /// The last of those.
    kept: VecDeque<Outcome<Ret>>,
}

impl<Ret: Plain> Client<Ret> {
    pub(in crate::critical) fn open<Op: Plain>(
        rank: &Rank,
        object: &str,
        me: Seat,
        server: usize,
        in_flight: usize,
    ) -> Result<Self, mp_core::Error> {
        let way = Way { rank: rank.clone(), me, first: server, server };
        let (ask, told) = way.connect::<Op, Ret>(&Names::first(object), in_flight)?;
        Ok(Self::over(way, ask, told, in_flight))
    }
}

impl<Ret: Plain, A: Outlet, B: Inlet, W> Client<Ret, A, B, W> {
    /// With channels that have room for so many messages.
    pub(in crate::critical) fn over(way: W, ask: A, told: B, in_flight: usize) -> Self {
        let (room, asked, answered, kept) = (in_flight as u64, 0, 0, VecDeque::new());
        Self { way, ask, told, in_flight, room, asked, answered, kept }
    }

    /// Hands over an operation; its number. Waits only where as many as there is room for are in
    /// flight, or where the server is gone and another one stands by.
    #[inline(never)]
    pub(in crate::critical) fn submit<S: Site, Op: Plain>(
        &mut self,
        site: &S,
        op: &Op,
    ) -> Result<u64, Stop>
    where
        W: Follow<S, A, B>,
    {
        if self.asked - self.answered >= self.room {
            self.make_room::<S, Op>(site)?;
        }
        while let Err(stop) = self.ask.send(words_of::<Op>(), |words| write(op, words)) {
            self.give_up(stop)?;
            self.make_room::<S, Op>(site)?;
        }
        site.wake_server();
        self.asked += 1;
        Ok(self.asked)
    }

    fn make_room<S, Op: Plain>(&mut self, site: &S) -> Result<(), Stop>
    where
        W: Follow<S, A, B>,
    {
        while self.asked - self.answered >= self.room {
            if self.room == 0 {
                (self.ask, self.told) = self.way.follow::<Op, Ret>(site, self.in_flight)?;
                self.room = self.in_flight as u64;
            } else {
                self.receive()?;
            }
        }
        Ok(())
    }

    pub(in crate::critical) fn is_done(&mut self, number: u64) -> Result<bool, Stop> {
        while self.answered < number.min(self.asked) {
            match self.poll() {
                Ok(None) => return Ok(false),
                Ok(Some(outcome)) => self.keep(outcome),
                Err(stop) => self.give_up(stop)?,
            }
        }
        Ok(true)
    }

    /// A response that is there.
    #[inline(always)]
    fn poll(&mut self) -> Result<Option<Outcome<Ret>>, Stop> {
        self.told.try_receive(decode)?.transpose()
    }

    /// Waits for the result of an operation. `None` if so many were submitted since that it is not
    /// kept any more, or if it is none of this client's.
    #[inline(never)]
    pub(in crate::critical) fn collect(
        &mut self,
        number: u64,
    ) -> Result<Option<Outcome<Ret>>, Stop> {
        if number > self.asked {
            return Ok(None);
        }
        while self.answered < number {
            self.receive()?;
        }
        let ago = (self.answered - number) as usize;
        Ok(self.kept.len().checked_sub(1 + ago).map(|at| self.kept[at]))
    }

    #[inline(always)]
    fn receive(&mut self) -> Result<(), Stop> {
        // A few looks of its own: those of the channel are some pauses apart.
        for _ in 0..LOOKS {
            if let Ok(Some(outcome)) = self.poll() {
                self.keep(outcome);
                return Ok(());
            }
        }
        match self.told.receive(decode).and_then(|outcome| outcome) {
            Ok(outcome) => {
                self.keep(outcome);
                Ok(())
            }
            Err(stop) => self.give_up(stop),
        }
    }

    fn keep(&mut self, outcome: Outcome<Ret>) {
        self.answered += 1;
        if self.kept.len() == self.in_flight {
            self.kept.pop_front();
        }
        self.kept.push_back(outcome);
    }

    /// The server is gone, unless something else is wrong. What it has not answered is unknown.
    #[cold]
    fn give_up(&mut self, stop: Stop) -> Result<(), Stop> {
        let Stop::Unserved = stop else { return Err(stop) };
        // Its answers outlive it.
        while let Ok(Some(outcome)) = self.poll() {
            self.keep(outcome);
        }
        while self.answered < self.asked {
            self.keep(Outcome::without(Fate::Unknown));
        }
        self.room = 0;
        Ok(())
    }
}

fn write<T: Plain>(value: &T, to: &mut [u64]) {
    let bytes = bytemuck::bytes_of(value);
    to.fill(0);
    bytemuck::cast_slice_mut(to)[..bytes.len()].copy_from_slice(bytes);
}

fn read<T: Plain>(from: &[u64]) -> Result<T, Stop> {
    let mut value = T::zeroed();
    let bytes = bytemuck::bytes_of_mut(&mut value);
    bytes.copy_from_slice(bytemuck::cast_slice(from).get(..bytes.len()).ok_or(Stop::Corrupt)?);
    Ok(value)
}

fn decode<Ret: Plain>(response: &[u64]) -> Result<Outcome<Ret>, Stop> {
    let (fate, words) = response.split_first().ok_or(Stop::Corrupt)?;
    Ok(Outcome { fate: Fate::from_bits(*fate), ret: read(words)? })
}

/// The server's side of a client.
struct Line<A, B> {
    seat: Seat,
    asked: A,
    tell: B,
}

/// The server's side.
pub(in crate::critical) struct Served<A = Receiver<[u64]>, B = Sender<[u64]>>(Vec<Line<A, B>>);

impl Served {
    /// Of the clients that are still there, and serve nothing themselves.
    pub(in crate::critical) fn open<Op: Plain, Ret: Plain>(
        rank: &Rank,
        names: &Names,
        in_flight: usize,
        place: &Place,
    ) -> Result<Self, mp_core::Error> {
        let clients =
            (0..rank.size()).filter(|&other| other != rank.id() && !place.region.is_gone(other));
        let lines = clients.filter(|&other| !place.stands_by(other)).map(|client| {
            Ok(Line {
                seat: client * place.seats,
                asked: rank.receiver(&names.ask, client, channel::<Op>(in_flight, 0))?,
                tell: rank.sender(&names.tell, client, channel::<Ret>(in_flight, 1))?,
            })
        });
        Ok(Self(lines.collect::<Result<_, mp_core::Error>>()?))
    }
}

impl<A: Inlet, B: Outlet> Served<A, B> {
    /// With the other ends of clients' channels, by seat.
    #[cfg(feature = "simulated")]
    pub(in crate::critical) fn over(clients: impl Iterator<Item = (Seat, A, B)>) -> Self {
        Self(clients.map(|(seat, asked, tell)| Line { seat, asked, tell }).collect())
    }

    /// Executes an operation of each client that has one. Whether there was any. `busy` hears before
    /// one, and after it.
    #[inline(always)]
    pub(in crate::critical) fn round<Op: Plain, Ret: Plain>(
        &mut self,
        busy: impl Fn(bool),
        run: &mut impl FnMut(Seat, Op) -> Outcome<Ret>,
    ) -> Result<bool, Stop> {
        let mut worked = false;
        for Line { seat, asked, tell } in &mut self.0 {
            // A client that is gone asks no more; what it had asked before comes first.
            let Ok(Some(op)) = asked.try_receive(read::<Op>) else { continue };
            let op = op?;
            busy(true);
            let outcome = run(*seat, op);
            busy(false);
            worked = true;
            // There is room: a client has not more in flight than that. Or it is gone.
            let _ = tell.send(1 + words_of::<Ret>(), |response| {
                response[0] = outcome.fate as u64;
                write(&outcome.ret, &mut response[1..]);
            });
        }
        Ok(worked)
    }
}
