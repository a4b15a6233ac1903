//! Runs clients and servers.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use mp_core::memory::Word;
use mp_delegate::critical::{
    Scheme,
    internals::{
        AnyLock, BLOCK, CcSynch, Clh, Combiner, Hyb, HybComb, Mcs, Outcome, Parameters, Seat, Site,
        Stop, Tas, mp,
        slot::{Client, InOrder, Order, Served, Shuffled, Slots, Ticket},
    },
};
use mp_model::Time;

use super::{
    Experiment, ExperimentError, Measured, Task, Way,
    channel::{Into, OutOf, Ring},
    clh::PublishedClh,
    cores::{Core, Deadlock, Engine, SimulatedWord},
    objects::{Place, TAKE},
    results,
    watch::{Sections, Watch},
};
use crate::nonblocking::{Nodes, RingList, Rings, take_turn};

/// The memory layout.
struct Layout {
    /// The first words of the algorithms, one for each critical section.
    sections: Vec<usize>,
    /// The first word of the object.
    state: usize,
    words: usize,
    elements: usize,
}

impl Layout {
    /// Returns the content of the object after all clients have ended.
    fn left(&self, experiment: &Experiment, engine: &Engine) -> Result<Vec<u64>, Stop> {
        let words = || -> Vec<Word> {
            (self.state..self.words).map(|word| Word::new(engine.value(word))).collect()
        };
        match experiment.way {
            Way::Treiber => {
                let (stack, words) = (experiment.nodes(self.elements), words());
                std::iter::from_fn(|| stack.pop(&words).transpose()).collect()
            }
            Way::Rings => {
                let (queue, words) = (experiment.rings(self.elements), words());
                std::iter::from_fn(|| queue.dequeue(&words).transpose()).collect()
            }
            Way::Lcrq | Way::LcrqInGroups(_) => {
                let (queue, words) = (experiment.ring_list(), words());
                let take = || queue.dequeue(&words, 0, |_| ()).transpose();
                std::iter::from_fn(take).map(|value| value.map(u64::from)).collect()
            }
            Way::Section(_) | Way::PublishedClh | Way::FetchAdd => {
                Ok(experiment.task.content(|word| engine.value(self.state + word)))
            }
        }
    }
}

/// The state that the cores share in addition to the simulated memory.
struct Shared<'x> {
    experiment: &'x Experiment,
    layout: Layout,
    watches: Vec<Watch>,
    notes: Mutex<Notes>,
}

struct Notes {
    /// The number of clients that have not ended.
    left: usize,
    operations: Vec<u64>,
    waited: Time,
    stopped: Option<(usize, Stop)>,
    /// For a counter, `put` holds the results of operations. For a stack or a queue, it holds the values that were put
    /// in, and `got` those that were taken out.
    put: Vec<u64>,
    got: Vec<u64>,
}

impl Shared<'_> {
    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn servers(&self) -> usize {
        self.experiment.servers()
    }

    /// Executes operations of one critical section.
    fn runner<'s>(
        &'s self,
        core: Core<'s>,
        section: usize,
    ) -> impl FnMut(Seat, u64) -> Outcome<u64> + 's {
        let Layout { state: first, elements, .. } = self.layout;
        let place = Place { core, first, elements, increment: self.experiment.increment };
        move |_, op| {
            let execute = || {
                core.engine.compute(core.engine.operation());
                self.experiment.task.execute(&place, op)
            };
            Outcome::done(self.watches[section].operation(&core, execute))
        }
    }
}

impl Experiment {
    fn scheme(&self) -> Option<Parameters> {
        match self.way {
            Way::Section(section) => Some(section.into()),
            Way::PublishedClh
            | Way::FetchAdd
            | Way::Treiber
            | Way::Rings
            | Way::Lcrq
            | Way::LcrqInGroups(_) => None,
        }
    }

    fn servers(&self) -> usize {
        let serves = self.scheme().is_some_and(|section| section.scheme.needs_server());
        if serves { self.task.sections() } else { 0 }
    }

    /// Returns the number of groups of cores that are near each other, for which `HSynch` has lists.
    fn groups(&self) -> usize {
        let placement = &self.chip.machine.placement;
        (0..placement.ranks()).map(|core| placement.group(core) + 1).max().unwrap_or(1)
    }

    fn check(&self) -> Result<(), ExperimentError> {
        let senseless = |what| Err(ExperimentError::Senseless(what));
        let (needed, cores) = (self.clients + self.servers(), self.chip.cores());
        if needed > cores {
            return Err(ExperimentError::Cores { needed, cores });
        }
        if self.clients == 0 || self.window == 0 {
            return senseless("without clients, or without operations in flight");
        }
        match self.way {
            Way::FetchAdd if self.task != Task::Counter => {
                return senseless("the processor adds to a counter alone");
            }
            Way::Treiber if self.task != Task::Stack => {
                return senseless("Treiber's stack is a stack");
            }
            Way::Rings | Way::Lcrq | Way::LcrqInGroups(_) if self.task != Task::Queue => {
                return senseless("rings are a queue");
            }
            Way::Lcrq | Way::LcrqInGroups(_) if self.clients > MOST_SHORT => {
                return senseless("the queue's values have 32 bits");
            }
            Way::Section(section) => {
                let section = Parameters::from(section);
                if section.max_ops == 0 || section.in_flight < self.window {
                    return senseless("max_ops is 0, or the window larger than in_flight");
                }
            }
            Way::PublishedClh
            | Way::FetchAdd
            | Way::Treiber
            | Way::Rings
            | Way::Lcrq
            | Way::LcrqInGroups(_) => {}
        }
        Ok(())
    }

    /// Returns the number of words of the algorithm of one critical section.
    fn own_words(&self) -> usize {
        let seats = self.clients;
        if self.way == Way::PublishedClh {
            return PublishedClh::words(seats);
        }
        let Some(section) = self.scheme() else { return 0 };
        match section.scheme {
            Scheme::Tas => Tas::words(seats),
            Scheme::Mcs => Mcs::words(seats),
            Scheme::Clh => Clh::words(seats),
            Scheme::HybLock => Hyb::words(seats),
            Scheme::CcSynch => CcSynch::words::<u64, u64>(seats, 1),
            Scheme::HSynch => CcSynch::words::<u64, u64>(seats, self.groups()),
            Scheme::HybComb => HybComb::words::<u64, u64>(seats, section.max_ops),
            Scheme::SlotServer => self.slots(section, 0).words(),
            Scheme::MpServer(_) => 2 * seats * Ring::words(section.in_flight),
            // For schemes newer than this code, which `Handle::new` refuses. A test tries all schemes that exist.
            _ => 0,
        }
    }

    fn slots(&self, section: Parameters, first: usize) -> Slots {
        Slots::new::<u64, u64>(first, self.clients, section.in_flight, section.streaming)
    }

    fn layout(&self) -> Layout {
        let own = self.own_words().next_multiple_of(BLOCK);
        let sections: Vec<usize> = (0..self.task.sections()).map(|section| section * own).collect();
        let state = sections.len() * own;
        // More elements than can be in the object at once, plus the queue's first dummy.
        let elements = 2 * self.clients * (self.window + 1) + 2;
        let words = match self.way {
            Way::Treiber => Nodes::words(elements + self.clients),
            Way::Rings => self.rings(elements).words(),
            Way::Lcrq | Way::LcrqInGroups(_) => self.ring_list().words(),
            Way::Section(_) | Way::PublishedClh | Way::FetchAdd => self.task.words(elements),
        };
        Layout { sections, state, words: state + words, elements }
    }

    /// Returns nodes with room for so many values while each client holds one more node.
    fn nodes(&self, elements: usize) -> Nodes {
        Nodes::new(elements, elements + self.clients)
    }

    fn rings(&self, elements: usize) -> Rings {
        Rings::new(elements + self.clients - 1)
    }

    /// Returns some rings in addition to those at which clients look. They are shorter than the thesis', and still much
    /// longer than the queue ever becomes.
    fn ring_list(&self) -> RingList {
        const ORDER: u32 = 10;
        RingList::new(ORDER, self.clients + 4, self.clients)
    }
}

/// The most clients whose values have 32 bits.
const MOST_SHORT: usize = 254;

/// One client's access to one critical section.
enum Handle<'e> {
    Lock(AnyLock),
    Clh(PublishedClh),
    Cc(CcSynch),
    Comb(HybComb),
    /// The flag says whether results are streamed, and therefore short.
    Slot(Client, bool),
    Mp(mp::Client<u64, Into<'e>, OutOf<'e>, ()>),
    FetchAdd,
    Treiber(Nodes),
    Rings(Rings),
    /// With groups: how long a client waits for its group's turn.
    Lcrq(RingList, Option<Time>),
}

enum InFlight {
    Done(u64),
    Slot(Ticket),
    Mp(u64),
}

impl<'e> Handle<'e> {
    fn new(
        experiment: &Experiment,
        first: usize,
        &Layout { state, elements, .. }: &Layout,
        core: Core<'e>,
        me: Seat,
    ) -> Result<Self, Stop> {
        let (seats, section) = match experiment.way {
            Way::Section(section) => (experiment.clients, Parameters::from(section)),
            Way::PublishedClh => return Ok(Self::Clh(PublishedClh::new(first, me))),
            Way::FetchAdd => return Ok(Self::FetchAdd),
            Way::Treiber => return Ok(Self::Treiber(experiment.nodes(elements))),
            Way::Rings => return Ok(Self::Rings(experiment.rings(elements))),
            Way::Lcrq | Way::LcrqInGroups(_) => {
                let queue = experiment.ring_list();
                queue.come(core.words(state, queue.words())?, me);
                let wait = match experiment.way {
                    Way::LcrqInGroups(wait) => Some(wait),
                    _ => None,
                };
                return Ok(Self::Lcrq(queue, wait));
            }
        };
        let max_ops = section.max_ops;
        Ok(match section.scheme {
            Scheme::Tas => Self::Lock(AnyLock::Tas(Tas::new(first, me))),
            Scheme::Mcs => Self::Lock(AnyLock::Mcs(Mcs::new(first, me))),
            Scheme::Clh => Self::Lock(AnyLock::Clh(Clh::new(first, seats, me))),
            Scheme::HybLock => Self::Lock(AnyLock::Hyb(Hyb::new(first, me))),
            Scheme::CcSynch => {
                Self::Cc(CcSynch::new::<u64, u64>(first, seats, me, max_ops, (0, 1)))
            }
            Scheme::HSynch => {
                let group = experiment.chip.machine.placement.group(core.number);
                let of = (group, experiment.groups());
                Self::Cc(CcSynch::new::<u64, u64>(first, seats, me, max_ops, of))
            }
            Scheme::HybComb => Self::Comb(HybComb::new::<u64, u64>(first, seats, me, max_ops)),
            Scheme::SlotServer => {
                let slots = experiment.slots(section, first);
                Self::Slot(Client::new(slots, &core, me, section.backoff)?, section.streaming)
            }
            Scheme::MpServer(_) => {
                let [ask, tell] = rings(first, section.in_flight, me);
                let (ask, told) = (Into::new(core, ask), OutOf::new(core, tell));
                Self::Mp(mp::Client::over((), ask, told, section.in_flight))
            }
            _ => return Err(Stop::Unserved),
        })
    }

    fn submit(
        &mut self,
        shared: &Shared<'_>,
        core: &Core<'e>,
        (me, section): (Seat, usize),
        op: u64,
    ) -> Result<InFlight, Stop> {
        let mut run = shared.runner(*core, section);
        let Layout { state: first, elements, .. } = shared.layout;
        let place = Place { core: *core, first, elements, increment: Time::ZERO };
        let outcome = match self {
            Self::Lock(lock) => {
                lock.acquire(core)?;
                let outcome = run(me, op);
                // With a weak memory model, a fence is always necessary here (T 6.2.2).
                core.fence();
                lock.release(core)?;
                outcome
            }
            Self::Clh(lock) => {
                lock.acquire(core)?;
                let outcome = run(me, op);
                core.fence();
                lock.release(core)?;
                outcome
            }
            Self::Cc(combiner) => combiner.attempt(core, &op, &mut run)?,
            Self::Comb(combiner) => combiner.attempt(core, &op, &mut run)?,
            Self::Slot(client, _) => return Ok(InFlight::Slot(client.submit(core, &op)?)),
            Self::Mp(client) => return Ok(InFlight::Mp(client.submit(core, &op)?)),
            Self::FetchAdd => Outcome::done(place.fetch_add()),
            Self::Treiber(stack) => {
                let words = core.words(first, shared.layout.words - first)?;
                Outcome::done(match op {
                    TAKE => stack.pop(words)?.unwrap_or(0),
                    value => stack.push(words, value)?.map_or(0, |()| 0),
                })
            }
            Self::Lcrq(queue, wait) => {
                let words = core.words(first, shared.layout.words - first)?;
                let group = shared.experiment.chip.machine.placement.group(core.number);
                let turn = |word: &SimulatedWord<'_>| {
                    if let Some(wait) = *wait {
                        let began = core.now();
                        take_turn(word, group as u64 + 1, || {
                            core.pause(10);
                            core.now().saturating_sub(began) < wait
                        });
                    }
                };
                Outcome::done(match op {
                    TAKE => queue.dequeue(words, me, turn)?.map_or(0, u64::from),
                    value => queue.enqueue(words, me, value as u32, turn)?.map_or(0, |()| 0),
                })
            }
            Self::Rings(queue) => {
                let words = core.words(first, shared.layout.words - first)?;
                Outcome::done(match op {
                    TAKE => queue.dequeue(words)?.unwrap_or(0),
                    value => queue.enqueue(words, value)?.map_or(0, |()| 0),
                })
            }
        };
        shared.watches[section].through(core);
        Ok(InFlight::Done(outcome.ret))
    }

    fn collect(&mut self, core: &Core<'e>, in_flight: InFlight) -> Result<u64, Stop> {
        let outcome = match (self, in_flight) {
            (_, InFlight::Done(ret)) => return Ok(ret),
            (Self::Slot(client, false), InFlight::Slot(ticket)) => client.collect(core, ticket)?,
            (Self::Slot(client, true), InFlight::Slot(ticket)) => {
                let short: Option<Outcome<u32>> = client.collect(core, ticket)?;
                short.map(|Outcome { fate, ret }| Outcome { fate, ret: ret.into() })
            }
            (Self::Mp(client), InFlight::Mp(number)) => client.collect::<_, u64>(core, number)?,
            _ => None,
        };
        outcome.map(|outcome: Outcome<u64>| outcome.ret).ok_or(Stop::Corrupt)
    }
}

/// Returns the channel from a client to the server, and the channel back.
fn rings(first: usize, slots: usize, client: Seat) -> [Ring; 2] {
    [2 * client, 2 * client + 1].map(|ring| Ring::new(first + ring * Ring::words(slots), slots))
}

/// Random pauses by splitmix64.
struct Chance(u64);

impl Chance {
    fn up_to(&mut self, most: Time) -> Time {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        Time::from_picos(mixed % (most.as_picos() + 1))
    }
}

/// Runs one client from the beginning to the end.
fn client(shared: &Shared<'_>, core: Core<'_>, me: Seat) -> Result<(), Stop> {
    let experiment = shared.experiment;
    let from = experiment.time / 10;
    let sections = &shared.layout.sections;
    let mut handles = sections
        .iter()
        .map(|&first| Handle::new(experiment, first, &shared.layout, core, me))
        .collect::<Result<Vec<_>, Stop>>()?;
    let mut chance = Chance(experiment.seed << 32 | me as u64);
    let mut in_flight = VecDeque::new();
    let (mut number, mut waited, mut operations) = (0, Time::ZERO, 0);
    loop {
        let over = core.now() >= experiment.time;
        if in_flight.len() == experiment.window || over {
            let Some((began, section, request)) = in_flight.pop_front() else { break };
            let handle: &mut Handle<'_> = &mut handles[section];
            let ret = handle.collect(&core, request)?;
            let now = core.now();
            if now >= from && now < experiment.time {
                operations += 1;
                waited += now - began;
            }
            let mut notes = shared.notes();
            notes.got.push(ret);
            continue;
        }
        core.engine.compute(chance.up_to(experiment.between));
        let began = core.now();
        let (section, op) = experiment.task.operation(me, number);
        number += 1;
        let request = handles[section].submit(shared, &core, (me, section), op)?;
        shared.notes().put.push(op);
        in_flight.push_back((began, section, request));
    }
    let mut notes = shared.notes();
    notes.operations[me] = operations;
    notes.waited += waited;
    Ok(())
}

/// Runs one server until all clients have ended.
fn server(shared: &Shared<'_>, core: Core<'_>, section: usize) -> Result<(), Stop> {
    let experiment = shared.experiment;
    let Some(parameters) = experiment.scheme() else { return Ok(()) };
    let (first, clients) = (shared.layout.sections[section], experiment.clients);
    let mut run = shared.runner(core, section);
    if let Scheme::MpServer(_) = parameters.scheme {
        let channels = (0..clients).map(|seat| {
            let [ask, tell] = rings(first, parameters.in_flight, seat);
            (seat, OutOf::new(core, ask), Into::new(core, tell))
        });
        let mut served = mp::Served::over(channels);
        // The server announces no busy state, because no other core would read it.
        return serve(shared, core, || served.round(|_| (), |_, _| true, &mut run));
    }
    let (served, _) = Served::take_over(experiment.slots(parameters, first), &core)?;
    match parameters.shuffled {
        false => serve_slots(shared, core, served, &InOrder, run),
        true => serve_slots(shared, core, served, &Shuffled::new(clients), run),
    }
}

fn serve_slots(
    shared: &Shared<'_>,
    core: Core<'_>,
    mut served: Served,
    order: &impl Order,
    mut run: impl FnMut(Seat, u64) -> Outcome<u64>,
) -> Result<(), Stop> {
    let clients = shared.experiment.clients;
    let streaming = shared.experiment.scheme().is_some_and(|section| section.streaming);
    serve(shared, core, || match streaming {
        false => served.round(&core, order, clients, &mut run),
        // All values that are put in or counted fit in 32 bits.
        true => served.round(&core, order, clients, &mut |seat, op| {
            let Outcome { fate, ret } = run(seat, op);
            Outcome { fate, ret: ret as u32 }
        }),
    })
}

/// Serves round after round, and waits after rounds that find nothing.
fn serve(
    shared: &Shared<'_>,
    core: Core<'_>,
    mut round: impl FnMut() -> Result<bool, Stop>,
) -> Result<(), Stop> {
    loop {
        // The check whether all clients have ended comes last, because their end rings this core and does not show in
        // memory.
        let found = core.look(|| match round() {
            Ok(false) => (shared.notes().left == 0).then_some(Ok(false)),
            found => Some(found),
        });
        if !found? {
            return Ok(());
        }
    }
}

impl Experiment {
    /// Runs the experiment.
    ///
    /// # Errors
    /// [`ExperimentError`].
    ///
    /// # Panics
    /// If an algorithm panics.
    pub fn run(&self) -> Result<Measured, ExperimentError> {
        run(self)
    }
}

fn run(experiment: &Experiment) -> Result<Measured, ExperimentError> {
    experiment.check()?;
    let layout = experiment.layout();
    let engine = Engine::new(experiment.chip.clone(), layout.words)?;
    let words = engine.words();
    let from = experiment.time / 10;
    let watches = layout.sections.iter().map(|_| Watch::new(from)).collect();
    let (put, got) = (Vec::new(), Vec::new());
    let (left, operations) = (experiment.clients, vec![0; experiment.clients]);
    let notes = Notes { left, operations, waited: Time::ZERO, stopped: None, put, got };
    let shared = Shared { experiment, layout, watches, notes: Mutex::new(notes) };
    prepare(&shared, &engine);
    let servers = shared.servers();
    let programs = (0..servers + experiment.clients).map(|number| {
        let (core, shared) = (Core::new(&engine, &words, number, experiment.pause), &shared);
        let program = move || {
            let ended = match number.checked_sub(servers) {
                None => server(shared, core, number),
                Some(me) => client(shared, core, me),
            };
            let mut notes = shared.notes();
            if let Err(stop) = ended {
                notes.stopped.get_or_insert((number, stop));
            }
            if number >= servers {
                notes.left -= 1;
                (0..servers).for_each(|server| core.engine.ring(server));
            }
        };
        Box::new(program) as Box<dyn FnOnce() + Send + '_>
    });
    let ran = engine.run(programs.collect());
    let sections = {
        let mut all = Sections::default();
        shared.watches.iter().for_each(|watch| all.add(&watch.sections()));
        all
    };
    let mut notes = shared.notes();
    if let Some((core, stop)) = notes.stopped.take() {
        return Err(ExperimentError::Stopped { core, reason: format!("{stop:?}") });
    }
    ran.map_err(|Deadlock(waiting)| ExperimentError::Deadlock(waiting))?;
    let state = shared.layout.state;
    let left = || shared.layout.left(experiment, &engine);
    let value = |word| engine.value(state + word);
    results::check(experiment.task, (&notes.put, &notes.got), sections, left, value)?;
    let operations = std::mem::take(&mut notes.operations);
    Ok(Measured { time: experiment.time - from, operations, waited: notes.waited, sections })
}

/// Prepares memory: declares the words that are messages, and those whose home is the server's socket.
fn prepare(shared: &Shared<'_>, engine: &Engine) {
    let experiment = shared.experiment;
    if experiment.one_home {
        engine.place(shared.layout.state..shared.layout.words, 0);
    }
    let Some(section) = experiment.scheme() else { return };
    let (clients, servers) = (experiment.clients, shared.servers());
    for (server, &first) in shared.layout.sections.iter().enumerate() {
        match section.scheme {
            Scheme::HybLock => {
                let lock = Hyb::new(first, 0);
                (0..clients).for_each(|seat| engine.pass_messages(lock.messages(seat), Some(seat)));
            }
            Scheme::HybComb => {
                let combiner = HybComb::new::<u64, u64>(first, clients, 0, section.max_ops);
                for (words, seat) in combiner.messages(clients) {
                    engine.pass_messages(words, seat);
                }
            }
            Scheme::MpServer(_) => {
                for seat in 0..clients {
                    let [ask, tell] = rings(first, section.in_flight, seat);
                    ask.pass_messages(engine, server);
                    tell.pass_messages(engine, servers + seat);
                }
            }
            // The slots are homed at the server's socket (T 7.2.1).
            Scheme::SlotServer => {
                let slots = experiment.slots(section, first);
                engine.place(first..first + slots.words(), server);
            }
            // The thesis' threads have their nodes in pools of their own (T 7.2.1).
            _ => engine.scatter(first..first + experiment.own_words()),
        }
    }
}
