//! MP-SERVER, section 6.1.2 of Petrović's thesis: requests and responses are messages, which go
//! through two of the library's channels for each client. Nothing is shared but those, so that the
//! orderings, and the models of them, are the channels' own.
//!
//! **A server's death.** Requests that were on their way to it are gone with its channels: each that
//! it has not answered was executed once or not at all, and its client is told so. Whoever stands by
//! opens channels of its own when it takes over, and clients open their ends when they next ask.
//! That the dead one was in the middle of an operation stands in a word of shared memory, which
//! nobody looks at before.

use std::collections::VecDeque;

use mp_core::{Channel, Plain, Rank, Receiver, Sender, memory::Word};

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

/// Looks for a response before the wait that may sleep.
const LOOKS: u32 = 300;

/// One client.
pub(in crate::critical) struct Client<Ret> {
    rank: Rank,
    me: Seat,
    /// The server that the scheme names, and the one that the channels lead to.
    first: usize,
    server: usize,
    ask: Sender<[u64]>,
    told: Receiver<[u64]>,
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
        let (ask, told) = Self::connect::<Op>(rank, &Names::first(object), server, in_flight)?;
        Ok(Self {
            rank: rank.clone(),
            me,
            first: server,
            server,
            ask,
            told,
            in_flight,
            room: in_flight as u64,
            asked: 0,
            answered: 0,
            kept: VecDeque::new(),
        })
    }

    fn connect<Op: Plain>(
        rank: &Rank,
        names: &Names,
        server: usize,
        in_flight: usize,
    ) -> Result<(Sender<[u64]>, Receiver<[u64]>), mp_core::Error> {
        let ask = rank.sender(&names.ask, server, channel::<Op>(in_flight, 0))?;
        Ok((ask, rank.receiver(&names.tell, server, channel::<Ret>(in_flight, 1))?))
    }

    /// Hands over an operation; its number. Waits only where as many as there is room for are in
    /// flight, or where the server is gone and another one stands by.
    #[inline(never)]
    pub(in crate::critical) fn submit<Op: Plain>(
        &mut self,
        place: &Place,
        op: &Op,
    ) -> Result<u64, Stop> {
        if self.asked - self.answered >= self.room {
            self.make_room::<Op>(place)?;
        }
        while let Err(stop) = self.send(op) {
            self.give_up(stop)?;
            self.make_room::<Op>(place)?;
        }
        place.wake_server();
        self.asked += 1;
        Ok(self.asked)
    }

    #[inline(always)]
    fn send<Op: Plain>(&mut self, op: &Op) -> Result<(), Stop> {
        let mut slot = self.ask.reserve(words_of::<Op>()).map_err(ended)?;
        write(op, &mut slot);
        slot.publish().map_err(ended)
    }

    fn make_room<Op: Plain>(&mut self, place: &Place) -> Result<(), Stop> {
        while self.asked - self.answered >= self.room {
            if self.room == 0 {
                self.follow::<Op>(place)?;
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
    fn poll(&self) -> Result<Option<Outcome<Ret>>, Stop> {
        let response = self.told.try_receive().map_err(ended)?;
        response.map(|response| decode(&response)).transpose()
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
        let response = self.told.receive();
        match response.map_err(ended).and_then(|response| decode(&response)) {
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

    /// Waits for the server that follows, if there is to be one.
    #[cold]
    fn follow<Op: Plain>(&mut self, place: &Place) -> Result<(), Stop> {
        let word = place.head(head::SERVER);
        let look = || {
            let next = place.serving()?;
            (next != self.server).then_some(Ok(next))
        };
        let server = place.wait(self.me, None, word, || {
            look().or_else(|| {
                place.unserved_after(self.first).then(|| look().unwrap_or(Err(Stop::Unserved)))
            })
        })??;
        let (ask, told) =
            Self::connect::<Op>(&self.rank, &Names::later(place), server, self.in_flight)?;
        (self.ask, self.told, self.server) = (ask, told, server);
        self.room = self.in_flight as u64;
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
struct Line {
    seat: Seat,
    asked: Receiver<[u64]>,
    tell: Sender<[u64]>,
}

/// The server's side.
pub(in crate::critical) struct Served(Vec<Line>);

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

    /// Executes an operation of each client that has one. Whether there was any. `busy` is not 0 in
    /// the middle of one.
    #[inline(always)]
    pub(in crate::critical) fn round<Op: Plain, Ret: Plain>(
        &mut self,
        busy: &Word,
        run: &mut impl FnMut(Seat, Op) -> Outcome<Ret>,
    ) -> Result<bool, Stop> {
        let mut worked = false;
        for Line { seat, asked, tell } in &mut self.0 {
            // A client that is gone asks no more; what it had asked before comes first.
            let Ok(Some(request)) = asked.try_receive() else { continue };
            let op = read(&request)?;
            drop(request);
            busy.note(1);
            let outcome = run(*seat, op);
            busy.store(0);
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
