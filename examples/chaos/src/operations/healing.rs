//! A set in a critical section, by every scheme, whose operations can be executed again. The ranks that live go on,
//! and find in it everything that any rank was told is in it.

use std::collections::VecDeque;

use onchip::critical::{Object, Protected, Request, Scheme, Section, Server};
use onchip::{Channel, Communicator, Error, ErrorKind, Result};

use super::Work;
use crate::content::wrong;
use crate::plan::{Operation, Plan, Step};
use crate::random::Random;
use crate::record::Record;

/// The most numbers that a rank puts into the set.
const MOST: u64 = 60;
/// The number of words of the set, for 8 ranks.
const WORDS: usize = 8;
/// An operation that reads a word of the set.
const READ: u64 = 1 << 32;
/// The result if the two halves differ.
const TORN: u64 = u64::MAX;

/// A set, written twice, so that it shows when an operation was cut short and not repaired. The highest bit of a
/// word is not used.
pub struct Marks;

impl Object for Marks {
    type State = [[u64; WORDS]; 2];
    type Op = u64;
    type Ret = u64;

    fn apply([first, second]: &mut Self::State, op: u64) -> u64 {
        let (word, bit) = ((op % READ) as usize / 63 % WORDS, op % READ % 63);
        if op >= READ {
            let word = (op - READ) as usize % WORDS;
            return if first[word] == second[word] { first[word] } else { TORN };
        }
        first[word] |= 1 << bit;
        second[word] |= 1 << bit;
        0
    }

    fn repair([first, second]: &mut Self::State) -> bool {
        *second = *first;
        true
    }

    fn is_idempotent(_: &u64) -> bool {
        true
    }
}

/// How a step's set is protected.
#[derive(Clone, Copy, Debug)]
pub struct Healing {
    /// The scheme.
    pub scheme: Scheme,
    /// The ranks below this one serve, where the scheme needs that.
    pub servers: usize,
}

impl Healing {
    /// Returns how the set of a step is protected, if the step has one.
    pub fn of(plan: &Plan, step: usize) -> Option<Self> {
        let Step { operation, seed } = plan.steps[step];
        (operation == Operation::Healing).then(|| Self::draw(&mut Random::new(seed), plan.ranks))
    }

    fn draw(random: &mut Random, ranks: usize) -> Self {
        let (scheme, most) = (random.pick(&Scheme::ALL), 1 + random.index(2));
        Self { scheme, servers: if scheme.needs_server() { most.min(ranks - 1) } else { 0 } }
    }
}

/// What a rank was told of its operations.
#[derive(Default)]
struct Answers {
    /// The numbers that were put in, and not reported yet.
    marked: Vec<u32>,
    unknown: usize,
    poisoned: usize,
}

impl Answers {
    /// Notes how an operation ended. Returns whether it is to be asked for again.
    fn note(&mut self, set: &Protected<Marks>, id: u64, ended: Result<u64, Error>) -> Result<bool> {
        match ended.map_err(Error::into_kind) {
            Ok(_) => self.marked.push(id as u32),
            Err(ErrorKind::OutcomeUnknown { .. }) => self.unknown += 1,
            Err(ErrorKind::Poisoned { .. }) => {
                self.poisoned += 1;
                set.clear_poison();
                return Ok(true);
            }
            Err(error) => return wrong(format!("operation {id} ended as: {error}")),
        }
        Ok(false)
    }

    fn tell(&mut self, work: &Work<'_>) {
        let things = std::mem::take(&mut self.marked);
        if !things.is_empty() {
            Record::Marked { step: work.step, rank: work.me(), things }.tell();
        }
    }
}

pub(super) fn run(mut work: Work<'_>) -> Result<()> {
    let (me, ranks) = (work.me(), work.ranks());
    let Healing { scheme, servers } = Healing::draw(&mut work.random, ranks);
    let in_flight = 1 + work.random.index(8);
    let section = Section::new(scheme)
        .max_ops(1 + work.random.index(6))
        .in_flight(in_flight)
        .poison(work.random.percent(50));
    let (count, window) = (1 + work.random.below(MOST), 1 + work.random.index(in_flight));
    let mut own = work.own_random();
    work.call()?;
    let clients = Communicator::world(work.rank);
    work.call()?;
    let set = Protected::<Marks>::open(work.rank, &work.name("set"), section, |_| ())?;
    let (name, once) = (work.name("serves the set"), Channel::degree(1));
    if me < servers {
        // A server decides nothing with the clients.
        drop(clients);
        let mut server = Server::new();
        server.add(set)?;
        for client in servers..ranks {
            work.call()?;
            // If one client is gone, the others are served all the same.
            let _ = work.rank.sender::<u8>(&name, client, once)?.send(&1);
        }
        work.call()?;
        return server.serve();
    }
    for server in 0..servers {
        work.call()?;
        let _ = work.rank.receiver::<u8>(&name, server, once)?.receive().map(drop);
    }
    let mut answers = Answers::default();
    let mut pending: VecDeque<(u64, Request<'_, Marks>)> = VecDeque::new();
    for number in 0..count {
        let id = me as u64 * MOST + number;
        if number % 8 == 7 {
            answers.tell(&work);
        }
        let way = own.below(3);
        // No result must be forgotten.
        while way != 1 && !pending.is_empty() {
            collect(&work, &set, &mut pending, &mut answers)?;
        }
        while {
            work.call()?;
            let ended = match way {
                0 if scheme.is_lock() => in_lock(&work, &set, id)?,
                1 => match set.submit(id) {
                    Ok(request) => {
                        pending.push_back((id, request));
                        None
                    }
                    Err(error) => Some(Err(error)),
                },
                _ => Some(set.apply(id)),
            };
            match ended {
                Some(ended) => answers.note(&set, id, ended)?,
                None => false,
            }
        } {}
        while pending.len() >= window {
            collect(&work, &set, &mut pending, &mut answers)?;
        }
    }
    while !pending.is_empty() {
        collect(&work, &set, &mut pending, &mut answers)?;
    }
    answers.tell(&work);
    // This waits until all have told.
    work.call()?;
    clients.shrink()?;
    work.call()?;
    read(&work, &set, &mut answers)?;
    let Answers { unknown, poisoned, .. } = answers;
    if unknown + poisoned > 0 {
        Record::Unsure { step: work.step, rank: me, unknown, poisoned }.tell();
    }
    Ok(())
}

/// Executes one operation by a rank that has the lock.
fn in_lock(work: &Work<'_>, set: &Protected<Marks>, id: u64) -> Result<Option<Result<u64, Error>>> {
    let mut guard = match set.lock() {
        Ok(guard) => guard,
        Err(error) => return Ok(Some(Err(error))),
    };
    work.call()?;
    let [first, second] = &mut *guard;
    first[id as usize / 63] |= 1 << (id % 63);
    // The rank can be killed here, but it must not leave.
    std::thread::yield_now();
    second[id as usize / 63] |= 1 << (id % 63);
    Ok(Some(Ok(0)))
}

fn collect(
    work: &Work<'_>,
    set: &Protected<Marks>,
    pending: &mut VecDeque<(u64, Request<'_, Marks>)>,
    answers: &mut Answers,
) -> Result<()> {
    let Some((id, request)) = pending.pop_front() else { return Ok(()) };
    work.call()?;
    let mut ended = request.wait();
    while answers.note(set, id, ended)? {
        ended = set.apply(id);
    }
    Ok(())
}

/// Tells what is in the set, unless no server is left.
fn read(work: &Work<'_>, set: &Protected<Marks>, answers: &mut Answers) -> Result<()> {
    let mut things = Vec::new();
    for word in 0..WORDS as u64 {
        let mut ended = set.apply(READ + word);
        while let Err(ErrorKind::Poisoned { .. }) = ended.as_ref().map_err(Error::kind) {
            answers.poisoned += 1;
            set.clear_poison();
            ended = set.apply(READ + word);
        }
        match ended.map_err(Error::into_kind) {
            Ok(TORN) => return wrong(format!("word {word} of the set is torn")),
            Ok(bits) => {
                let within = (0..63).filter(|bit| bits & 1 << bit != 0);
                things.extend(within.map(|bit| (word * 63 + bit) as u32));
            }
            Err(ErrorKind::OutcomeUnknown { .. }) => {
                answers.unknown += 1;
                return Ok(());
            }
            Err(error) => return wrong(format!("reading the set: {error}")),
        }
    }
    Record::Read { step: work.step, rank: work.me(), things }.tell();
    Ok(())
}
