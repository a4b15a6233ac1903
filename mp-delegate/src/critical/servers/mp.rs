//! MP-SERVER, section 6.1.2 of Petrović's thesis: requests and responses are messages, which go
//! through two of the library's channels for each client. Nothing is shared but those, so that the
//! orderings, and the models of them, are the channels' own.

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

/// One client.
pub(in crate::critical) struct Client<Ret> {
    ask: Sender<[u64]>,
    told: Receiver<[u64]>,
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
        Ok(Self { ask, told, in_flight, asked: 0, answered: 0, kept: VecDeque::new() })
    }

    /// Hands over an operation; its number. Waits only where as many as there is room for are in
    /// flight.
    #[inline(never)]
    pub(in crate::critical) fn submit<S: Site, Op: Plain>(
        &mut self,
        site: &S,
        op: &Op,
    ) -> Result<u64, Stop> {
        if self.asked - self.answered >= self.in_flight as u64 {
            self.receive()?;
        }
        let mut slot = self.ask.reserve(words_of::<Op>()).map_err(ended)?;
        write(op, &mut slot);
        slot.publish().map_err(ended)?;
        site.wake_server();
        self.asked += 1;
        Ok(self.asked)
    }

    pub(in crate::critical) fn is_done(&mut self, number: u64) -> Result<bool, Stop> {
        while self.answered < number.min(self.asked) {
            let Some(response) = self.told.try_receive().map_err(ended)? else { return Ok(false) };
            let outcome = decode(&response)?;
            drop(response);
            self.keep(outcome);
        }
        Ok(true)
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
        let response = self.told.receive().map_err(ended)?;
        let outcome = decode(&response)?;
        drop(response);
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
struct Line {
    seat: Seat,
    asked: Receiver<[u64]>,
    tell: Sender<[u64]>,
}

/// The server's side.
pub(in crate::critical) struct Served(Vec<Line>);

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

    /// Executes an operation of each client that has one. Whether there was any.
    #[inline(always)]
    pub(in crate::critical) fn round<Op: Plain, Ret: Plain>(
        &mut self,
        run: &mut impl FnMut(Seat, Op) -> Outcome<Ret>,
    ) -> Result<bool, Stop> {
        let mut worked = false;
        for Line { seat, asked, tell } in &mut self.0 {
            // A client that is gone asks no more; what it had asked before comes first.
            let Ok(Some(request)) = asked.try_receive() else { continue };
            let op = read(&request)?;
            drop(request);
            let outcome = run(*seat, op);
            worked = true;
            // There is room: a client has not more in flight than that. Or it is gone.
            if let Ok(mut response) = tell.reserve(1 + words_of::<Ret>()) {
                response[0] = outcome.fate as u64;
                write(&outcome.ret, &mut response[1..]);
                let _ = response.publish();
            }
        }
        Ok(worked)
    }
}
