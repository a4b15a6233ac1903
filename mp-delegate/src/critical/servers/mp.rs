//! MP-SERVER, section 6.1.2 of Petrović's thesis: requests and responses are messages, which go
//! through two of the library's channels for each client. Nothing is shared but those, so that the
//! orderings, and the models of them, are the channels' own. In simulations they are simulated ones.

use std::collections::VecDeque;

use mp_core::{Channel, Plain, Rank, Receiver, Sender};

use crate::critical::{
    error::Stop,
    object::{Fate, Outcome, words_of},
    site::{Seat, Site},
};

/// Of the channels with requests and with responses.
fn names(object: &str) -> (String, String) {
    (format!("{object}/ask"), format!("{object}/tell"))
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

/// One client.
pub(in crate::critical) struct Client<Ret, A = Sender<[u64]>, B = Receiver<[u64]>> {
    ask: A,
    told: B,
    in_flight: usize,
    /// Requests, and responses that came.
    asked: u64,
    answered: u64,
    /// The last responses.
    kept: VecDeque<Outcome<Ret>>,
}

impl<Ret: Plain> Client<Ret> {
    pub(in crate::critical) fn open<Op: Plain>(
        rank: &Rank,
        object: &str,
        server: usize,
        in_flight: usize,
    ) -> Result<Self, mp_core::Error> {
        let (ask, tell) = names(object);
        let ask = rank.sender(&ask, server, channel::<Op>(in_flight, 0))?;
        let told = rank.receiver(&tell, server, channel::<Ret>(in_flight, 1))?;
        Ok(Self::over(ask, told, in_flight))
    }
}

impl<Ret: Plain, A: Outlet, B: Inlet> Client<Ret, A, B> {
    /// With channels that have room for so many messages.
    pub(in crate::critical) fn over(ask: A, told: B, in_flight: usize) -> Self {
        Self { ask, told, in_flight, asked: 0, answered: 0, kept: VecDeque::new() }
    }

    /// Hands over an operation; its number. Waits only where as many as there is room for are in
    /// flight.
    #[inline(always)]
    pub(in crate::critical) fn submit<S: Site, Op: Plain>(
        &mut self,
        site: &S,
        op: &Op,
    ) -> Result<u64, Stop> {
        if self.asked - self.answered >= self.in_flight as u64 {
            self.receive()?;
        }
        self.ask.send(words_of::<Op>(), |words| write(op, words))?;
        site.wake_server();
        self.asked += 1;
        Ok(self.asked)
    }

    pub(in crate::critical) fn is_done(&mut self, number: u64) -> Result<bool, Stop> {
        while self.answered < number.min(self.asked) {
            let Some(outcome) = self.told.try_receive(decode)? else { return Ok(false) };
            self.keep(outcome?);
        }
        Ok(true)
    }

    /// Waits for the result of an operation. `None` if so many were submitted since that it is not
    /// kept any more, or if it is none of this client's.
    #[inline(always)]
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
        let outcome = self.told.receive(decode)??;
        self.keep(outcome);
        Ok(())
    }

    fn keep(&mut self, outcome: Outcome<Ret>) {
        self.answered += 1;
        if self.kept.len() == self.in_flight {
            self.kept.pop_front();
        }
        self.kept.push_back(outcome);
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
    /// `seat_of` is a rank's first seat.
    pub(in crate::critical) fn open<Op: Plain, Ret: Plain>(
        rank: &Rank,
        object: &str,
        in_flight: usize,
        seat_of: impl Fn(usize) -> Seat,
    ) -> Result<Self, mp_core::Error> {
        let (ask, tell) = names(object);
        let others = (0..rank.size()).filter(|&other| other != rank.id());
        let lines = others.map(|other| {
            Ok(Line {
                seat: seat_of(other),
                asked: rank.receiver(&ask, other, channel::<Op>(in_flight, 0))?,
                tell: rank.sender(&tell, other, channel::<Ret>(in_flight, 1))?,
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

    /// Executes an operation of each client that has one. Whether there was any.
    #[inline(always)]
    pub(in crate::critical) fn round<Op: Plain, Ret: Plain>(
        &mut self,
        run: &mut impl FnMut(Seat, Op) -> Outcome<Ret>,
    ) -> Result<bool, Stop> {
        let mut worked = false;
        for Line { seat, asked, tell } in &mut self.0 {
            // A client that is gone asks no more; what it had asked before comes first.
            let Ok(Some(op)) = asked.try_receive(read::<Op>) else { continue };
            let outcome = run(*seat, op?);
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
