//! Groups of ranks that find each other without a communicator that both are in: parents and the ranks that they have
//! spawned, the two sides of a port, and the two ends of a socket.
//!
//! The leaders of both groups exchange who there is through the communicator of everyone.

use std::{
    cell::RefCell,
    ffi::c_int,
    os::fd::BorrowedFd,
    time::{Duration, Instant},
};

use mp_collectives::communicator::{ANY_SOURCE, Pending, ReceiveRequest};
use mp_core::{
    Operation, Rank,
    requests::{UnderWay, Watch},
};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{MsgFlags, recv, send},
};

use crate::{
    comm::Comm,
    errhandler::Object,
    error::{Class, Error},
    everyone::everyone,
    founding::{Founders, tag_of},
    state::{self, of_rank},
    threads::{self, wait_all},
    words::{TAGS, complete},
};

type Result<T> = std::result::Result<T, Error>;

/// The tags in the communicator of everyone: of what leaders exchange, and the first of those of calls to ports and of the
/// answers.
const MEETING: u32 = TAGS;
const PORTS: u32 = TAGS + 1;

of_rank! {
    /// The ports of this rank.
    static OPEN: RefCell<Ports> = const { RefCell::new(Ports { last: 0, open: Vec::new() }) };
}

/// The ports of a rank.
struct Ports {
    /// The last number that a port or a call of this rank has got.
    last: u32,
    /// The numbers of the open ports.
    open: Vec<u32>,
}

impl Ports {
    fn next(&mut self) -> u32 {
        self.last += 1;
        self.last
    }
}

/// Forgets the open ports at the rank's end.
pub(crate) fn forget_ports() {
    OPEN.with(|ports| ports.borrow_mut().open.clear());
}

/// Makes an intercommunicator of the ranks of a communicator and of those of another group, the leader of which is found
/// by the leader of this one and calls this, too.
pub(crate) fn meet(
    comm: &Comm,
    leader: c_int,
    find: impl FnOnce() -> Result<usize>,
) -> Result<Comm> {
    let (group, tag) = (comm.group(), tag_of(0)?);
    let (via, has_threads) = (&comm.communicator, comm.has_threads());
    let founders = Founders { via, group: &group, tag, has_threads };
    let both = founders.with_another_group(leader, || Ok((everyone()?, find()?, MEETING)))?;
    Ok(both.into_comm(comm.errhandler().get()))
}

/// A port of a rank of this world.
struct Port {
    rank: usize,
    number: u32,
}

impl Port {
    fn name(&self) -> Result<String> {
        let Port { rank, number } = self;
        Ok(format!("onchip:{}:{rank}:{number}", state::rank()?.world_name()))
    }

    /// Returns the port of a name that a rank of this world has made.
    fn of(name: &[u8]) -> Result<Self> {
        let text = String::from_utf8_lossy(name);
        let mut parts = text.rsplitn(3, ':');
        let number = parts.next().and_then(|number| number.parse().ok());
        let rank = parts.next().and_then(|rank| rank.parse().ok());
        let world = parts.next().and_then(|rest| rest.strip_prefix("onchip:"));
        let (Some(number), Some(rank), Some(world)) = (number, rank, world) else {
            return Err(Error::new(Class::Port, format!("{text:?} is no name of a port")));
        };
        if world != state::rank()?.world_name() {
            let why =
                format!("the port {text:?} is of another world, and ranks connect within theirs");
            return Err(Error::new(Class::Port, why));
        }
        Ok(Self { rank, number })
    }

    /// Returns the key by which all ranks know that the port is open.
    fn key(&self) -> Result<Vec<u8>> {
        Ok(["port ", &self.name()?].concat().into_bytes())
    }

    fn tag(&self) -> u32 {
        PORTS + 2 * self.number
    }

    fn check_own(&self) -> Result<()> {
        let is_open = OPEN.with(|ports| ports.borrow().open.contains(&self.number));
        match self.rank == state::rank()?.id() && is_open {
            true => Ok(()),
            false => {
                Err(Error::new(Class::Port, format!("this rank has no open port {}", self.name()?)))
            }
        }
    }
}

/// Opens a port, and returns its name.
pub(crate) fn open_port() -> Result<String> {
    let rank = state::rank()?;
    let number = OPEN.with(|ports| {
        let mut ports = ports.borrow_mut();
        let number = ports.next();
        ports.open.push(number);
        number
    });
    let port = Port { rank: rank.id(), number };
    rank.publish(&port.key()?, b"")?;
    port.name()
}

/// Closes a port.
pub(crate) fn close_port(name: &[u8]) -> Result<()> {
    let port = Port::of(name)?;
    port.check_own()?;
    OPEN.with(|ports| ports.borrow_mut().open.retain(|&number| number != port.number));
    state::rank()?.unpublish(&port.key()?)?;
    refuse_callers(&port)
}

/// What a leader says to the rank of a port: which of its calls this is. While the call waits, its key is among the
/// published names. Who takes it back decides what becomes of the call: the rank that accepts it, or the caller that
/// waits no longer.
struct Call {
    from: usize,
    number: u32,
}

impl Call {
    fn key(&self, port: &Port) -> Result<Vec<u8>> {
        let Self { from, number } = self;
        Ok(format!("call {from} {number} {}", port.name()?).into_bytes())
    }

    /// Returns the tag of the answer, which is a word: 1 if the call is accepted, and 0 if the port is closed.
    fn tag(&self) -> u32 {
        PORTS + 2 * self.number + 1
    }

    /// Answers, unless the caller waits no longer. Returns whether it got the answer.
    fn answer(&self, port: &Port, word: u64) -> Result<bool> {
        if !state::rank()?.unpublish(&self.key(port)?)? {
            return Ok(false);
        }
        Ok(say(self.from, word, self.tag()).is_ok())
    }
}

/// Sends a word to a rank in the communicator of everyone.
fn say(to: usize, word: u64, tag: u32) -> Result<()> {
    complete(everyone()?.nonblocking_send(vec![word], to, tag))
}

/// Returns the rank that leads the next group that connects to a port of this rank. Waits for it.
pub(crate) fn await_caller(name: &[u8]) -> Result<usize> {
    let port = Port::of(name)?;
    port.check_own()?;
    let everyone = everyone()?;
    loop {
        // A rank that was lost does not connect any more. The receive must not fail because of it, as others may.
        let lost = everyone.acknowledge().len();
        let mut request = everyone.nonblocking_receive(vec![0u64], ANY_SOURCE, port.tag());
        wait_all(&mut [&mut request as &mut dyn Pending])?;
        match request.wait() {
            Ok((word, status)) => {
                let call = Call { from: status.source, number: word[0] as u32 };
                if call.answer(&port, 1)? {
                    return Ok(call.from);
                }
            }
            Err(failed) if everyone.failed_ranks().len() == lost => {
                return Err(failed.error.into());
            }
            // A rank was lost meanwhile.
            Err(_) => {}
        }
    }
}

/// Refuses the calls that wait at a port.
fn refuse_callers(port: &Port) -> Result<()> {
    let everyone = everyone()?;
    while let Some(status) = everyone.try_probe(ANY_SOURCE, port.tag())? {
        let mut word = [0u64];
        everyone.receive_into(&mut word, status.source, port.tag())?;
        Call { from: status.source, number: word[0] as u32 }.answer(port, 0)?;
    }
    Ok(())
}

/// Calls the rank of a port, as the leader of a group that connects to it, and waits until it accepts. Returns that
/// rank.
pub(crate) fn call(name: &[u8], limit: Duration) -> Result<usize> {
    let port = Port::of(name)?;
    let rank = state::rank()?;
    let refused =
        |why: &str| Err(Error::new(Class::Port, format!("the port {}", port.name()? + why)));
    let is_open = || Ok::<_, Error>(rank.published(&port.key()?)?.is_some());
    if !is_open()? {
        return refused(" is not open");
    }
    if port.rank == rank.id() {
        return refused(" is this rank's own, to which it can't connect");
    }
    let call = Call { from: rank.id(), number: OPEN.with(|ports| ports.borrow_mut().next()) };
    let key = call.key(&port)?;
    rank.publish(&key, b"")?;
    let mut answer = everyone()?.nonblocking_receive(vec![0u64], port.rank, call.tag());
    let gone = |error: Error| Error::new(Class::Port, format!("the port's rank: {}", error.text));
    if let Err(error) = say(port.rank, call.number.into(), port.tag()) {
        rank.unpublish(&key)?;
        return Err(gone(error));
    }
    // If the port is closed from here on, its rank finds the call.
    let waited = is_open()? && wait_within(&mut answer, limit)?;
    if !waited && rank.unpublish(&key)? {
        // This rank has taken the call back, so no answer comes.
        let _ = answer.cancel();
        return match is_open()? {
            true => refused(&format!(": nobody has accepted within {} s", limit.as_secs_f64())),
            false => refused(" is closed"),
        };
    }
    wait_all(&mut [&mut answer as &mut dyn Pending])?;
    match answer.wait().map_err(|failed| gone(failed.error.into()))?.0[0] {
        1 => Ok(port.rank),
        _ => refused(" is closed"),
    }
}

/// Waits for a receive, and returns whether it is done within the limit.
fn wait_within(request: &mut ReceiveRequest<Vec<u64>>, limit: Duration) -> Result<bool> {
    if !threads::are_many() {
        return Ok(request.wait_timeout(limit)?);
    }
    let mut over = Over { rank: state::rank()?.clone(), began: Instant::now(), limit };
    Ok(threads::wait_any(&mut [request, &mut over])? == 0)
}

/// That a limit is over, which comes by itself.
struct Over {
    rank: Rank,
    began: Instant,
    limit: Duration,
}

impl Pending for Over {
    fn under_way(&mut self) -> Option<UnderWay<'_>> {
        (!self.is_done()).then_some(UnderWay::Watched(self))
    }
}

impl Watch for Over {
    fn rank(&self) -> Rank {
        self.rank.clone()
    }

    fn is_done(&self) -> bool {
        self.began.elapsed() >= self.limit
    }

    fn tick(&self) -> Option<Duration> {
        Some(self.limit.saturating_sub(self.began.elapsed()))
    }

    fn waited(&self) -> (Operation, Vec<u64>) {
        (Operation::Receive, Vec::new())
    }

    fn call(&self) -> Option<String> {
        Some("the end of a limit".to_owned())
    }
}

/// Returns the rank of this world at the other end of a socket, or `None` if a process of another world is there, which
/// calls this, too.
pub(crate) fn at_other_end(socket: c_int) -> Result<Option<usize>> {
    let rank = state::rank()?;
    let failed = |error: Errno| Error::new(Class::Other, format!("the socket {socket}: {error}"));
    let mine = format!("{:<63}\n{:<15}\n", rank.world_name(), rank.id());
    let mut theirs = vec![0; mine.len()];
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    let put = |from| send(socket, &mine.as_bytes()[from..], flags);
    transfer(socket, PollFlags::POLLOUT, mine.len(), put).map_err(failed)?;
    let take = |from| recv(socket, &mut theirs[from..], flags);
    transfer(socket, PollFlags::POLLIN, mine.len(), take).map_err(failed)?;
    let theirs = String::from_utf8_lossy(&theirs);
    let (world, other) = theirs.split_once('\n').unwrap_or_default();
    let is_here = world.trim_end() == rank.world_name();
    Ok(other.trim_end().parse().ok().filter(|_| is_here))
}

/// Transfers so many bytes in steps, each of which gets the number of those that are done.
fn transfer(
    socket: c_int,
    flags: PollFlags,
    length: usize,
    mut step: impl FnMut(usize) -> nix::Result<usize>,
) -> nix::Result<()> {
    let mut done = 0;
    while done < length {
        match step(done) {
            Ok(0) => return Err(Errno::ECONNRESET),
            Ok(more) => done += more,
            Err(Errno::EAGAIN) => await_ready(socket, flags)?,
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Waits until the socket is ready. Other threads may call meanwhile.
fn await_ready(socket: c_int, flags: PollFlags) -> nix::Result<()> {
    // SAFETY: the program gives a socket, which it does not close during the call.
    let fd = unsafe { BorrowedFd::borrow_raw(socket) };
    let wait = || match poll(&mut [PollFd::new(fd, flags)], PollTimeout::NONE) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error),
    };
    if threads::are_many() { threads::outside(wait) } else { wait() }
}
