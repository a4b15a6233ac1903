//! Worlds: ranks as threads or processes, from their start to their end.
//!
//! | file | what it is |
//! |---|---|
//! | `rank` | what rank code holds |
//! | `threads` | ranks as threads |
//! | `processes`, `launch`, `watch` | ranks as processes: starting them, watching and burying them |
//! | `pump`, `output` | the output of processes, line by line |
//! | `summons`, `join`, `site`, `harness` | being such a process; finding the intended `run`; calls in tests |
//! | `joined` | being a rank from a call to another one, without a closure |
//! | `bridge` | what stands in for the ranks of other nodes |
//! | `rounds`, `renewal` | the ends of ranks and of calls of `run`, as the nodes of a world tell each other; the beginning of the next call |
//! | `at_end` | work that rank code leaves to be done when it has returned |
//! | `burial` | the steps when a rank ends |
//! | `dumps` | ranks that crash, before their cores are written |
//! | `input` | a value that is made once and handed to all ranks |
//! | `outcome` | results and failures |
//! | `launched` | another program as the ranks: what `mprun` is made of |
//! | `spawn`, `family`, `notice` | what ranks ask of their launcher, such as to start more ranks, and what these are told |
//! | `report` | worlds seen from outside: which ranks wait for which |

mod at_end;
mod ballots;
mod bridge;
mod burial;
#[cfg(all(test, not(loom)))]
mod deaths;
mod dumps;
mod family;
mod harness;
mod input;
mod join;
mod joined;
mod known_ballots;
mod launch;
mod launched;
mod layout;
pub(crate) mod lent;
mod limits;
mod notice;
mod outcome;
mod output;
mod processes;
mod pump;
mod rank;
mod renewal;
pub mod report;
mod rounds;
mod site;
mod spawn;
mod summons;
mod threads;
mod turn;
mod watch;

use std::{ffi::OsString, panic::Location, sync::Arc};

pub use ballots::{BallotTitle, Tidings};
pub use bridge::{Bridge, Carries, Crossing, Left, Lent, Part, Step, Taken, Title, Withdrawal};
#[cfg(all(test, not(loom), not(miri)))]
pub(crate) use burial::bury;
pub use family::Family;
use input::Input;
pub use joined::Joined;
pub use launch::{Ending, Stream, see_children};
pub use launched::Launched;
pub(crate) use layout::parts;
pub use pump::{Piece, RanksOutput};
pub use rank::{Endpoints, MemoryUse, Rank};
pub use rounds::{Ended, Failed, Gone};
pub use spawn::Command;
pub use turn::come_soon;

use crate::{
    context::{Context, MAX_RANKS},
    error::{Cause, Error, ErrorKind, Result},
    plain::Transferable,
    segment::{self, Segment},
    topology::{Allowance, Bind, Plan, Topology},
    wait::{Asymmetry, LineWait, WaitPolicy, Waiting},
};

/// The environment variable that names the wait policy of all worlds: `spin`, `adaptive` or `park`. It overrides what
/// the program asks for, so that a user can try another policy.
pub const WAIT_VARIABLE: &str = "ONCHIP_WAIT";

/// A world to be run: its number of ranks, whether they are threads or processes, and how they run.
///
/// ```
/// use onchip::{Channel, World};
///
/// let greetings = World::threads(2).run(|rank| {
///     if rank.id() == 0 {
///         rank.sender::<u64>("answer", 1, Channel::degree(1))?.send(&42)?;
///         Ok(String::from("sent"))
///     } else {
///         let answers = rank.receiver::<u64>("answer", 0, Channel::degree(1))?;
///         let answer = answers.receive()?;
///         Ok(format!("got {}", *answer))
///     }
/// })?;
/// assert_eq!(greetings, ["sent", "got 42"]);
/// # Ok::<(), onchip::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a world does nothing until it is run"]
pub struct World {
    size: usize,
    /// How many ranks may be started later.
    spare: usize,
    /// How many threads work on this node, and how many on all nodes that have the same cores.
    working: [usize; 2],
    any_size: bool,
    kind: Kind,
    policy: Option<WaitPolicy>,
    bind: Bind,
    segment_size: Option<u64>,
    dump_segment: bool,
    args: Option<Vec<OsString>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Threads,
    HeapThreads,
    Processes,
}

impl World {
    fn new(size: usize, kind: Kind) -> Self {
        Self {
            size,
            spare: 0,
            working: [1, 1],
            any_size: false,
            kind,
            policy: None,
            bind: Bind::None,
            segment_size: None,
            dump_segment: false,
            args: None,
        }
    }

    /// Makes a world of `ranks` threads of this process. Under Miri, which has no memfd, this is the same as
    /// [`threads_on_heap`](Self::threads_on_heap).
    pub fn threads(ranks: usize) -> Self {
        Self::new(ranks, if cfg!(miri) { Kind::HeapThreads } else { Kind::Threads })
    }

    /// Makes a world of `ranks` processes, each of which executes this program again.
    ///
    /// Such a process goes through `main` up to the same call of [`run`](Self::run), becomes one rank there, and ends.
    /// The call is identified by its place in the source, by the thread's name, and by counting. So every rank also
    /// executes the program's code before that call: open files in rank code rather than before. Until the process
    /// reaches the call, its standard output is discarded. Earlier worlds, including worlds of threads, are not run
    /// again: their calls return the same results as in the caller. (Worlds of threads are run again when all their
    /// results take more than 16 MiB, or when a thread other than the main one ran them.) Rank 0 has the caller's
    /// standard input. The system names the processes after program and rank, such as `ring:2`.
    ///
    /// So the variables that rank code captures are not copied from the caller: each process has computed them itself.
    /// Values that depend on time, chance, or a file that changes may differ between ranks. Make such a value in
    /// [`run_with`](Self::run_with), which calls a function in the caller only. [`caller`] tells whether this process
    /// is the caller, before `run` as well.
    ///
    /// ```
    /// use onchip::World;
    ///
    /// let id = std::process::id();
    /// // Each process has an id of its own, and so has each rank.
    /// let captured = World::processes(2).run(|_| Ok(id))?;
    /// assert!(captured[0] != id && captured[1] != id && captured[0] != captured[1]);
    /// // This is the id of the caller.
    /// let given = World::processes(2).run_with(|| Ok(std::process::id()), |_, &given| Ok(given))?;
    /// assert_eq!(given, [id; 2]);
    /// # Ok::<(), onchip::Error>(())
    /// ```
    ///
    /// Several threads of a program can run worlds of processes at the same time, at different places in the source or
    /// under different names ([`Builder::name`](std::thread::Builder::name)). Calls at one place from two threads that
    /// have the same name or no name are refused, because ranks could not tell which call is meant.
    ///
    /// In a test, the test program is executed again for this one test, and the test's own thread must make the call.
    pub fn processes(ranks: usize) -> Self {
        Self::new(ranks, Kind::Processes)
    }

    /// Makes a world of `ranks` threads whose shared memory is plain memory of this process, of 256 MiB unless
    /// [`segment_size`](Self::segment_size) says otherwise. This is for systems without memfd, and for checkers like
    /// Miri.
    pub fn threads_on_heap(ranks: usize) -> Self {
        Self::new(ranks, Kind::HeapThreads)
    }

    /// Makes a world of one rank, which the caller uses directly, without a thread or process of its own.
    ///
    /// ```
    /// use onchip::{Channel, World};
    ///
    /// let rank = World::solo()?;
    /// let mut sender = rank.sender::<u8>("to myself", 0, Channel::degree(1))?;
    /// let receiver = rank.receiver::<u8>("to myself", 0, Channel::degree(1))?;
    /// sender.send(&7)?;
    /// assert_eq!(*receiver.receive()?, 7);
    /// # Ok::<(), onchip::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Segment`](crate::ErrorKind::Segment) when there is no memory for it.
    pub fn solo() -> Result<Rank> {
        Self::threads(1).alone()
    }

    /// Enters this world, of one rank, as that rank.
    fn alone(&self) -> Result<Rank> {
        let policy = self.policy()?;
        let cores = Allowance::read()?.parallelism();
        let context = self.create(policy, cores)?.as_rank(0);
        context.rank(0)?.claim();
        Ok(Rank::new(Arc::new(context)))
    }

    /// Lets a launcher (`mprun -n N`) choose the number of ranks. Without a launcher, the world has the number of ranks
    /// that was asked for. A program that does not call this runs under a launcher only with that number.
    ///
    /// ```
    /// use onchip::World;
    ///
    /// // This is a world of four threads; under `mprun -n 6`, of six processes.
    /// let sizes = World::threads(4).any_size().run(|rank| Ok(rank.size()))?;
    /// assert_eq!(sizes, [4; 4]);
    /// # Ok::<(), onchip::Error>(())
    /// ```
    pub fn any_size(self) -> Self {
        Self { any_size: true, ..self }
    }

    /// Lets ranks of a [launched](Self::launch) world start up to so many more ranks, as far as a world can have them.
    /// Room that is not used costs a page of memory for every few ranks.
    #[doc(hidden)]
    pub fn spare(self, ranks: usize) -> Self {
        Self { spare: ranks, ..self }
    }

    /// Says how many threads work on this node of the world, and how many on all nodes that have the same cores, as nodes
    /// of one machine may have. The node counts on its part of the cores.
    #[doc(hidden)]
    pub fn among_working(self, working: [usize; 2]) -> Self {
        Self { working, ..self }
    }

    /// Sets how blocked calls wait, unless the call itself or [`WAIT_VARIABLE`] says otherwise.
    pub fn wait(self, policy: WaitPolicy) -> Self {
        Self { policy: Some(policy), ..self }
    }

    /// Sets where ranks run. By default, the system decides. The threads of a bound rank inherit its place, and so does
    /// a thread pool made by rank code.
    pub fn bind(self, bind: Bind) -> Self {
        Self { bind, ..self }
    }

    /// Sets the largest size in bytes that the world's shared memory can grow to. Memory that is not used costs
    /// nothing.
    ///
    /// The default is the machine's memory, as far as limits of this process (`ulimit -f`, `ulimit -v`) allow that.
    /// Whatever the size is, an allocation for which the machine or a control group has no memory returns an error
    /// before the system would have to kill a process: a sixteenth of all memory is left free. Under a launcher the
    /// size can't be more than the launcher's (`mprun --segment-size`).
    pub fn segment_size(self, bytes: u64) -> Self {
        Self { segment_size: Some(bytes), ..self }
    }

    /// Sets whether the core dump of a rank that crashes includes the world's shared memory. By default it does not,
    /// because the dump of every rank would include all of it, and would take seconds for each few gigabytes. This has
    /// no effect on [`threads_on_heap`](Self::threads_on_heap), whose memory is the process's own.
    pub fn dump_segment(self, dump: bool) -> Self {
        Self { dump_segment: dump, ..self }
    }

    /// Sets the arguments with which process ranks execute the program, instead of this process's own arguments. With
    /// such arguments, ranks can go straight to [`run`](Self::run), without the program's work before it. The first
    /// call at that place in the source is then taken as the intended one.
    pub fn args<A: Into<OsString>>(self, args: impl IntoIterator<Item = A>) -> Self {
        Self { args: Some(args.into_iter().map(Into::into).collect()), ..self }
    }

    /// Runs `code` as every rank, and returns all ranks' results in the order of the ranks.
    ///
    /// Under a launcher (`mprun -n N`) the call joins the launched world, whose ranks are processes, and returns all
    /// ranks' results in every rank. If the launcher's number of ranks is not the one asked for, that is an error,
    /// unless the program allows [any size](Self::any_size). If ranks failed, every rank returns the same error, and
    /// the user should read it once: until the next call, the standard error of all ranks is discarded, except that of
    /// the lowest rank whose process goes on.
    ///
    /// # Errors
    /// [`RanksFailed`](crate::ErrorKind::RanksFailed) with every rank that returned an error, panicked or died; the
    /// results of the other ranks are dropped ([`run_each`](Self::run_each) keeps them). Another error when the world
    /// could not be made.
    #[track_caller]
    pub fn run<T, F>(self, code: F) -> Result<Vec<T>>
    where
        T: Transferable + Send,
        F: Fn(&Rank) -> Result<T> + Sync,
    {
        let code = |rank: &Rank, (): &()| code(rank);
        outcome::gather(self.run_from(Location::caller(), true, input::Nothing, code)?)
    }

    /// Runs `code` like [`run`](Self::run), and hands it the value that `input` returns. `input` is called once, in the
    /// caller, and every rank gets the value: threads share it, and each process gets a copy by `serde`. Variables that
    /// `code` captures, on the other hand, are computed by each [process](Self::processes) anew.
    ///
    /// Under a launcher (`mprun -n N`), rank 0 calls `input`. `input` must not run worlds itself.
    ///
    /// ```
    /// use std::time::SystemTime;
    /// use onchip::World;
    ///
    /// let times = World::processes(3).run_with(
    ///     || Ok(SystemTime::now()), // once, whatever the number of ranks
    ///     |rank, &start| {
    ///         assert!(rank.id() < 3);
    ///         Ok(start)
    ///     },
    /// )?;
    /// assert!(times[0] == times[1] && times[1] == times[2]);
    /// # Ok::<(), onchip::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of `run`, and the error of `input`; under a launcher, this is a failure of rank 0.
    #[track_caller]
    pub fn run_with<I, T>(
        self,
        input: impl FnOnce() -> Result<I>,
        code: impl Fn(&Rank, &I) -> Result<T> + Sync,
    ) -> Result<Vec<T>>
    where
        I: Transferable + Sync,
        T: Transferable + Send,
    {
        outcome::gather(self.run_from(Location::caller(), true, input::Made(input), code)?)
    }

    /// Runs `code` like [`run`](Self::run), but returns the outcome of each rank, in the order of the ranks. This is
    /// for programs whose ranks go on after other ranks were lost.
    ///
    /// ```
    /// use onchip::{Cause, World};
    ///
    /// let each = World::threads(3).run_each(|rank| match rank.id() {
    ///     1 => panic!("on purpose"),
    ///     id => Ok(10 * id),
    /// })?;
    /// assert_eq!(each, [Ok(0), Err(Cause::Panic("on purpose".to_owned())), Ok(20)]);
    /// # Ok::<(), onchip::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of `run` that are not a rank's.
    #[track_caller]
    pub fn run_each<T, F>(self, code: F) -> Result<Vec<std::result::Result<T, Cause>>>
    where
        T: Transferable + Send,
        F: Fn(&Rank) -> Result<T> + Sync,
    {
        let code = |rank: &Rank, (): &()| code(rank);
        self.run_from(Location::caller(), false, input::Nothing, code)
    }

    /// Runs `code` like [`run_each`](Self::run_each), always as threads of this process, so that results can be of
    /// types that `serde` does not know.
    ///
    /// Under a launcher each process runs such a world of its own, of the number of ranks asked for. Ranks of later
    /// [worlds of processes](Self::processes) run such a world again when they reach the call.
    ///
    /// ```
    /// use std::time::Instant;
    /// use onchip::World;
    ///
    /// let started = World::threads(2).run_threads(|_| Ok(Instant::now()))?;
    /// assert!(started.iter().all(|instant| instant.is_ok()));
    /// # Ok::<(), onchip::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of `run` that are not a rank's; [`BadWorld`](crate::ErrorKind::BadWorld) for a world of processes.
    #[track_caller]
    pub fn run_threads<T: Send>(
        self,
        code: impl Fn(&Rank) -> Result<T> + Sync,
    ) -> Result<Vec<std::result::Result<T, Cause>>> {
        if self.kind == Kind::Processes {
            let reason = "World::run_threads runs threads, and a world of processes was asked for: \
                          make it by World::threads, or run processes by World::run_each";
            return Err(ErrorKind::BadWorld(reason.to_owned()).into());
        }
        let call = site::call(Location::caller(), false);
        let context = self.create(self.policy()?, Allowance::read()?.parallelism())?;
        let cpus = self.seat(&context)?;
        threads::run(context, &call, &cpus, code, |_| ())
    }

    /// Runs `code` as the ranks of one node of this world of threads, and meanwhile `serve` in the calling thread, with
    /// what stands in for the ranks of the other nodes. `nodes` has the first rank of each node, and at the end the number
    /// of all ranks. Returns the outcomes of this node's ranks, in their order, when all of these have ended and `serve`
    /// has returned.
    ///
    /// # Errors
    /// [`BadWorld`](crate::ErrorKind::BadWorld) if it is no world of threads with these ranks; the errors of `serve`; the
    /// errors of [`run`](Self::run) that are not a rank's.
    #[doc(hidden)]
    #[track_caller]
    pub fn run_node<T: Send, E: From<Error>>(
        self,
        nodes: Arc<[u32]>,
        node: usize,
        code: impl Fn(&Rank) -> Result<T> + Sync,
        serve: impl FnOnce(Bridge) -> std::result::Result<(), E>,
    ) -> std::result::Result<Vec<std::result::Result<T, Cause>>, E> {
        self.check_nodes(&nodes, node)?;
        if self.kind == Kind::Processes {
            let reason = "World::run_node runs threads, and a world of processes was asked for";
            return Err(Error::from(ErrorKind::BadWorld(reason.to_owned())).into());
        }
        let call = site::call(Location::caller(), false);
        let cores = self.cores_of_node()?;
        let mut context = self.create(self.policy()?, cores)?;
        context.divide(nodes, node).map_err(Error::from)?;
        context.waiting.spare = Waiting::spare(cores, context.here().len());
        let mut served = Ok(());
        let outcomes = threads::run(context, &call, &[], code, |world| {
            served = serve(Bridge::new(Arc::clone(world), None));
        })?;
        served.map(|()| outcomes)
    }

    /// Runs `code` as every rank, in a call from this place. With `one_report`, the caller makes one error of all
    /// failures, which only one process of a launched world prints.
    fn run_from<I: Input, T>(
        self,
        place: &Location<'_>,
        one_report: bool,
        input: I,
        code: impl Fn(&Rank, &I::Value) -> Result<T> + Sync,
    ) -> Result<Vec<outcome::Outcome<T>>>
    where
        T: Transferable + Send,
    {
        let processes = self.kind == Kind::Processes;
        // Ranks of later worlds of processes will reach this call again, in a thread of the same name.
        let on_the_way =
            matches!(site::within(), site::Within::Program) && harness::thread_is_unique();
        let call = site::call(place, processes || on_the_way);
        let assignment = join::assignment()?;
        if let Some(assignment) = assignment {
            match assignment.part(&call, processes)? {
                join::Part::Own => {}
                join::Part::Rank => {
                    assignment.dump_segment(self.dump_segment);
                    let code = |rank: &Rank| code(rank, &assignment.input()?);
                    match assignment.run_and_exit(self.policy()?, code)? {}
                }
                join::Part::Member => {
                    assignment.dump_segment(self.dump_segment);
                    let size = self.checked_size()?;
                    assignment.admit((!self.any_size).then_some(size), self.segment_size)?;
                    let code = |rank: &Rank| code(rank, &input.make_among(rank)?);
                    return assignment.run_as_member(self.policy()?, one_report, code);
                }
                join::Part::Replayed(result) => match outcome::decode(result) {
                    Ok(outcomes) => return Ok(outcomes),
                    Err(error) if processes => return Err(error),
                    // Values of this type can't be decoded, so the ranks run the world of threads once more.
                    Err(_) => {}
                },
            }
        }
        let policy = self.policy()?;
        let cores = Allowance::read()?.parallelism();
        let context = self.create(policy, cores)?;
        let cpus = self.seat(&context)?;
        let input = input.make()?;
        if processes {
            let input = postcard::to_stdvec(&input)?;
            return processes::run(context, call, self.args, input, policy, cores, cpus);
        }
        let outcomes = threads::run(context, &call, &cpus, |rank| code(rank, &input), |_| ())?;
        if assignment.is_none()
            && on_the_way
            && let Ok(Ok(result)) = outcome::caught(|| postcard::to_stdvec(&outcomes))
        {
            site::remember_if_small(call, result);
        }
        Ok(outcomes)
    }

    fn policy(&self) -> Result<WaitPolicy> {
        match std::env::var(WAIT_VARIABLE) {
            Ok(name) => name
                .parse()
                .map_err(|e| Error::from(ErrorKind::BadWorld(format!("{WAIT_VARIABLE}: {e}")))),
            Err(_) => Ok(self.policy.unwrap_or_default()),
        }
    }

    /// Returns the CPUs to which the ranks of this node are to be bound, and records in the world where these CPUs lie.
    fn seat(&self, context: &Context) -> Result<Vec<Option<usize>>> {
        let here = context.here();
        if self.bind == Bind::None {
            return Ok(vec![None; here.len()]);
        }
        let topology = Topology::read()?;
        let plan = Plan::for_ranks(&topology, here.len(), &self.bind)?;
        let cpus: Vec<_> = plan.places().iter().map(|place| place.cpu).collect();
        for (rank, cpu) in here.zip(&cpus) {
            context.rank(rank)?.set_seat(cpu.and_then(|cpu| topology.seat(cpu)));
        }
        Ok(cpus)
    }

    /// Returns how many cores there are for those who work on this node.
    fn cores_of_node(&self) -> Result<usize> {
        let [here, all] = self.working;
        Ok(Allowance::read()?.parallelism() * here / all.max(1))
    }

    fn checked_size(&self) -> Result<usize> {
        let reason = match self.size {
            0 => "a world needs at least one rank: 0 were asked for".to_owned(),
            size if size > MAX_RANKS => {
                format!("a world has 1 to {MAX_RANKS} ranks: {size} were asked for")
            }
            size => return Ok(size),
        };
        Err(ErrorKind::BadWorld(reason).into())
    }

    /// Returns an error unless `nodes` divides the ranks among nodes, and `node` is one of these.
    fn check_nodes(&self, nodes: &[u32], node: usize) -> Result<()> {
        let size = self.checked_size()? as u32;
        let ascends = nodes.is_sorted_by(|first, next| first < next);
        if node + 1 < nodes.len() && ascends && [nodes[0], nodes[nodes.len() - 1]] == [0, size] {
            return Ok(());
        }
        let reason = format!("node {node} of {nodes:?} is none of a world of {size} ranks");
        Err(ErrorKind::BadWorld(reason).into())
    }

    fn create(&self, policy: WaitPolicy, cores: usize) -> Result<Context> {
        let size = self.checked_size()?;
        let asymmetry = Asymmetry::offered_here(self.kind == Kind::Processes);
        let membarrier = asymmetry.uses_membarrier();
        let segment = match self.kind {
            Kind::HeapThreads => {
                let bytes =
                    self.segment_size.unwrap_or(if cfg!(miri) { 4 << 20 } else { 256 << 20 });
                Segment::on_heap(bytes, membarrier, parts())?
            }
            Kind::Threads | Kind::Processes => {
                let bytes = self.segment_size.unwrap_or_else(segment::default_size);
                Segment::in_memfd(bytes, membarrier, parts())?
            }
        };
        segment.dump(self.dump_segment);
        let room = size.saturating_add(self.spare).min(MAX_RANKS);
        let sizes = (size as u32, room as u32);
        let line_wait = LineWait::detect();
        let spare = Waiting::spare(cores, size);
        let waiting = Waiting { policy, asymmetry, line_wait, spare };
        let processes = self.kind == Kind::Processes;
        let context = Context::create(Arc::new(segment), sizes, processes, waiting)?;
        let program = std::env::args_os().next().unwrap_or_default();
        let name = std::path::Path::new(&program).file_name().unwrap_or_default();
        context.world()?.name.write(&name.to_string_lossy());
        Ok(context)
    }
}

/// Returns whether this process is the one whose calls of [`World::run`] return to the user. It is false in a process
/// that was started as a rank, except that it is true in rank 0 under `mprun`. It is known from the beginning of
/// `main`, before any `run`. Use it for work that a program should do only once, like printing a table or writing a
/// file after the run. It is also false in a process that was started as a rank and can't enter its world, so that
/// `run` returns an error.
pub fn caller() -> bool {
    join::assignment().is_ok_and(|assignment| assignment.is_none_or(join::Assignment::speaks))
}

/// Returns whether this process is a rank of a launcher (`mprun -n N`). Then every world it runs is the launcher's,
/// with the launcher's number of processes; see [`World::any_size`].
pub fn launched() -> bool {
    join::assignment().ok().flatten().is_some_and(join::Assignment::is_launched)
}
