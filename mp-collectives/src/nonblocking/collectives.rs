//! Nonblocking collectives: broadcasts, barriers, reductions and scans.

use std::future::poll_fn;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::task::Poll;

use crate::communicator::error::{lost, revoked};
use crate::communicator::{Entered, Joint, Ledger, Missing};
use mp_core::delegate::discard;
use mp_core::mpb::MpbAccess;
use mp_core::names::Namespace;
use mp_core::{Call, Error, ErrorKind, Plain, Rank, Result, Wait};
use mp_delegate::threads::{Errands, Progress};

use super::front::{Front, Work};
use super::polled::{Left, PolledMpb, Waits};
use super::request::CollectiveRequest;
use crate::barrier::Barriers;
use crate::broadcast::Broadcasts;
use crate::calls::{Board, CheckedMpb};
use crate::errors::bad_call;
use crate::exchange::Exchanges;
use crate::members::{Members, names};
use crate::nodes::Nodes;
use crate::reduce::{Operation, Prefix, Reductions};
use crate::settings::Settings;
use crate::signature;

/// A type of element that these operations accept: plain data.
pub trait Element: Plain + Send + Sync {}

impl<T: Plain + Send + Sync> Element for T {}

/// A buffer of elements that can be given away for a while: a `Vec`, an array, a boxed slice, a
/// [`SharedBuffer`](mp_core::SharedBuffer).
pub trait Buffer<T>: AsRef<[T]> + AsMut<[T]> + Send + 'static {}

impl<T, B: AsRef<[T]> + AsMut<[T]> + Send + 'static> Buffer<T> for B {}

/// One rank's part in collective operations that continue while the rank does something else. See the [module](super).
///
/// All ranks make the same calls in the same order. Their arguments must agree as in the blocking forms.
///
/// ```
/// use onchip::nonblocking::{Nonblocking, Settings};
/// use onchip::reduce::Max;
/// use onchip::World;
/// use onchip::threads::Progress;
///
/// let got = World::threads(3).run(|rank| {
///     // A thread advances the operations where there is a core for it; otherwise these calls do.
///     let mut nonblocking = Nonblocking::open(rank, "a", Progress::Automatic, Settings::default())?;
///     let weights = if rank.id() == 1 { vec![0.5; 10_000] } else { vec![0.0; 10_000] };
///     let weights = nonblocking.broadcast(weights, 1);
///     let greatest = nonblocking.reduce([rank.id()], Max, 0);
///     let below = nonblocking.exclusive_scan(rank.buffer_from(&[1u64, 2])?, |a, b| a + b);
///     let sum: f64 = weights.wait()?.iter().sum();
///     Ok((sum, greatest.wait()?[0], below.wait()?[1]))
/// })?;
/// assert_eq!(got[0], (5_000.0, 2, 2));
/// assert_eq!((got[2].0, got[2].2), (5_000.0, 4));
/// # Ok::<(), onchip::Error>(())
/// ```
#[derive(Debug)]
pub struct Nonblocking {
    front: Front<Algorithms>,
    settings: Settings,
    /// The ledger in which the ranks compare their calls, if they do.
    pub(super) ledger: Option<Ledger>,
    /// What the next operation is to other ranks that compare their calls, if it is not what is called here.
    called: Option<Call>,
    rank: usize,
    ranks: usize,
}

/// The algorithms of a front.
#[expect(clippy::large_enum_variant, reason = "a front has one of them, on the heap")]
pub(super) enum Algorithms {
    /// Those of ranks that have common memory.
    Here(Here),
    /// Those of ranks on several nodes.
    Between(Nodes<PolledMpb>),
}

/// The algorithms of ranks that have common memory. Those that need much memory are opened when they are first needed, by
/// all ranks at the same call.
#[derive(Debug)]
pub(super) struct Here {
    rank: Rank,
    /// The ranks of the world that take part, or `None` for all.
    members: Option<Vec<usize>>,
    namespace: Namespace,
    name: String,
    /// The serial number of the barriers' MPBs.
    serial: u64,
    settings: Settings,
    waits: Arc<Waits>,
    /// The board on which the ranks of a communicator publish their calls.
    board: Option<Arc<Board>>,
    barriers: Barriers<CheckedMpb<PolledMpb>>,
    broadcasts: Option<Broadcasts<CheckedMpb<PolledMpb>>>,
    reductions: Option<Reductions<CheckedMpb<PolledMpb>>>,
    exchanges: Option<Exchanges<CheckedMpb<PolledMpb>>>,
}

/// The greatest length of a name, in bytes.
const NAME: usize = 64;

impl Here {
    /// Returns a name that the MPBs of no other front have, in whatever order the fronts make their first calls. A long
    /// name is truncated.
    fn name_of(&self, what: &str) -> String {
        let mut name = format!("{what} {} of {}", self.serial, self.name);
        while name.len() > NAME {
            name.pop();
        }
        name
    }

    fn members(&self) -> Members<'_> {
        let members = match &self.members {
            Some(ranks) => Members::of(&self.rank, ranks),
            None => Members::from(&self.rank),
        };
        members.within(self.namespace)
    }

    /// Handles the error of a failed operation. If the ranks made different calls, this rank makes no more calls. A
    /// lost rank is named by its number in the communicator.
    #[cold]
    fn failed(&self, error: Error) -> Error {
        let Some(board) = &self.board else { return error };
        let error = board.after(error);
        if board.ended().is_some() {
            self.waits.leave(Left::Closed);
        }
        localized(error, |world_rank| {
            self.members.iter().flatten().position(|&member| member == world_rank)
        })
    }

    /// Waits until all ranks have made the same call.
    async fn compared(&mut self, entered: &Entered) -> Result<()> {
        let mut mpb = PolledMpb::shared(entered.polled(), &self.waits);
        while let Some(Missing { rank, line, value }) = entered.look()? {
            mpb.wait_flag_from(rank, line, |seen| seen >= value).await.map_err(
                |error| match error.kind() {
                    ErrorKind::Disconnected { .. } => ErrorKind::PeerEnded { rank }.into(),
                    _ => error,
                },
            )?;
        }
        Ok(())
    }
}

/// Returns the error for a communicator, in which a rank of the world has the number that `number_of` returns.
fn localized(error: Error, number_of: impl FnOnce(usize) -> Option<usize>) -> Error {
    match error.kind() {
        &ErrorKind::PeerLost { world_rank, .. } => {
            lost(number_of(world_rank).unwrap_or(world_rank), world_rank)
        }
        ErrorKind::Revoked { .. } => revoked(),
        _ => error,
    }
}

impl Algorithms {
    /// Prepares for an operation.
    fn start(&mut self) -> Result<()> {
        match self {
            Algorithms::Here(here) => {
                here.board.as_ref().and_then(|board| board.ended()).map_or(Ok(()), Err)
            }
            Algorithms::Between(nodes) => nodes.start(),
        }
    }

    /// Ends the operations of ranks on several nodes because the program's code has panicked in one.
    fn abandon(&mut self) {
        if let Algorithms::Between(nodes) = self {
            nodes.abandon();
        }
    }

    /// Ends an operation with this outcome.
    #[inline]
    fn end(&mut self, outcome: Result<()>) -> Result<()> {
        match (self, outcome) {
            (_, Ok(())) => Ok(()),
            (Algorithms::Here(here), Err(error)) => Err(here.failed(error)),
            (Algorithms::Between(nodes), outcome) => nodes
                .end(outcome)
                .map_err(|error| localized(error, |world_rank| nodes.number_of(world_rank))),
        }
    }
}

impl std::fmt::Debug for Algorithms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Algorithms::Here(here) => here.fmt(f),
            Algorithms::Between(_) => f.debug_struct("Nodes").finish_non_exhaustive(),
        }
    }
}

/// Access to the algorithms that are opened when they are first needed.
macro_rules! opened {
    ($($front:ident, $slot:ident);*) => {
        impl Here {
            $(pub(super) fn $slot(&mut self) -> Result<&mut $front<CheckedMpb<PolledMpb>>> {
                if self.$slot.is_none() {
                    let name = self.name_of(stringify!($slot));
                    let mut opened = $front::open(self.members(), &name, self.settings.clone())?;
                    self.board.iter().for_each(|board| opened.watch(board));
                    self.$slot = Some(opened.map(|mpb| PolledMpb::among(mpb, &self.waits)));
                }
                self.$slot.as_mut().ok_or_else(|| bad_call("what was just opened is gone"))
            })*
        }
    };
}

opened!(Broadcasts, broadcasts; Reductions, reductions; Exchanges, exchanges);

impl Nonblocking {
    /// Opens the operations of this name for the given ranks, or for all ranks of the world. No rank waits for the
    /// others to do so. Each rank chooses for itself what advances its operations.
    ///
    /// # Errors
    /// [`MpbMismatch`](mp_core::ErrorKind::MpbMismatch) when another rank has opened them with other settings that
    /// change the memory needed; [`MpbRanksMismatch`](mp_core::ErrorKind::MpbRanksMismatch) when it has opened them
    /// with other members. Also fails for invalid settings, for lack of memory, or when a thread can't be started.
    pub fn open<'a>(
        members: impl Into<Members<'a>>,
        name: &str,
        progress: impl Into<Progress>,
        settings: Settings,
    ) -> Result<Nonblocking> {
        Self::open_with(members.into().within(names::NONBLOCKING), name, progress, settings, None)
    }

    /// Does the same as [`open`](Self::open), for ranks that publish their calls on a board.
    pub(super) fn open_with(
        members: Members<'_>,
        name: &str,
        progress: impl Into<Progress>,
        settings: Settings,
        board: Option<Arc<Board>>,
    ) -> Result<Nonblocking> {
        let rank = members.rank();
        // The limit is for blocking calls. A caller that waits for a request sets its limit then.
        let settings = Settings { wait: Wait::default(), ..settings };
        let mut barriers = Barriers::open(members, name, settings.clone())?;
        board.iter().for_each(|board| barriers.watch(board));
        let (barriers, waits) = barriers.polled();
        let own = waits.now();
        let algorithms = Here {
            serial: own.mpb().serial(),
            rank: rank.clone(),
            members: members.named().map(<[usize]>::to_vec),
            namespace: members.namespace_or(names::NONBLOCKING),
            name: name.to_owned(),
            settings: settings.clone(),
            waits: Arc::clone(&waits),
            board,
            barriers,
            broadcasts: None,
            reductions: None,
            exchanges: None,
        };
        let front = Front::open(rank, progress, waits, Algorithms::Here(algorithms))?;
        let (rank, ranks) = (own.mpb().rank(), own.mpb().ranks());
        Ok(Nonblocking { front, settings, ledger: None, called: None, rank, ranks })
    }

    /// Opens the operations of a communicator whose ranks are on several nodes. `name` is the prefix of the names of
    /// everything that they open.
    pub(super) fn open_between(
        joint: Joint<'_>,
        name: String,
        progress: impl Into<Progress>,
        settings: Settings,
    ) -> Result<Nonblocking> {
        let settings = Settings { wait: Wait::default(), ..settings };
        let nodes = Nodes::new(joint, name, &settings)?;
        let waits = nodes.waits().cloned();
        let waits = waits.ok_or_else(|| bad_call("these operations wait in no place"))?;
        let (rank, (me, ranks)) = (joint.rank(), nodes.size());
        let front = Front::open(&rank, progress, waits, Algorithms::Between(nodes))?;
        Ok(Nonblocking { front, settings, ledger: None, called: None, rank: me, ranks })
    }

    /// Begins an operation. If the ranks compare their calls, it goes on when all have made the same call.
    pub(super) fn submit<B, W>(
        &mut self,
        signature: Signature<impl FnOnce(&'static str, &Settings) -> Call>,
        buffer: B,
        work: W,
    ) -> CollectiveRequest<B>
    where
        B: Send + 'static,
        W: Work<Algorithms, B>,
    {
        let Signature { name, bytes, call } = signature;
        // The call is entered now, so that it also has its place among blocking calls.
        let called = self.called.take();
        let entered = self
            .ledger
            .as_ref()
            .map(|ledger| ledger.enter(called.unwrap_or_else(|| call(name, &self.settings))));
        match entered {
            None => self.front.begin((name, bytes), buffer, Watched(work)),
            Some(entered) => {
                self.front.begin((name, bytes), buffer, Compared { entered, work: Watched(work) })
            }
        }
    }

    /// Makes ranks that [check](crate::collectives::Check) their calls compare this call instead of the next operation, for
    /// an operation that is carried out by means of another.
    #[doc(hidden)]
    pub fn called(&mut self, call: impl FnOnce() -> Call) -> &mut Self {
        self.called = self.ledger.is_some().then(call);
        self
    }

    /// Returns this rank's number, and the number of ranks.
    pub(super) fn place(&self) -> (usize, usize) {
        (self.rank, self.ranks)
    }

    /// Returns what advances the operations.
    pub fn errands(&self) -> &Errands {
        self.front.errands()
    }

    /// Sets what advances operations that are called after all earlier ones are done. Each rank chooses this for
    /// itself.
    ///
    /// # Errors
    /// The same as for [`Errands::of`].
    pub fn set_progress(&mut self, progress: impl Into<Progress>) -> Result<()> {
        self.front.set_progress(progress)
    }

    /// Begins a [barrier](Barriers::wait) (`MPI_Ibarrier`).
    pub fn barrier(&mut self) -> CollectiveRequest<()> {
        let signature = Signature::new::<u8>("nonblocking barrier", 0, |name, settings| {
            signature::barrier(name, settings)
        });
        self.submit(signature, (), Barrier)
    }

    /// Begins a [broadcast](Broadcasts::broadcast) (`MPI_Ibcast`).
    pub fn broadcast<T, B>(&mut self, message: B, root: usize) -> CollectiveRequest<B>
    where
        T: Element,
        B: Buffer<T>,
    {
        let count = message.as_ref().len();
        let signature =
            Signature::new::<T>("nonblocking broadcast", count, move |name, settings| {
                signature::broadcast::<T>(name, count, root, settings)
            });
        self.submit(signature, message, Broadcast { root, of: PhantomData::<fn(T)> })
    }

    /// Begins an [all-reduce](Reductions::all_reduce) (`MPI_Iallreduce`).
    pub fn all_reduce<T, B, O>(&mut self, vector: B, operation: O) -> CollectiveRequest<B>
    where
        T: Element,
        B: Buffer<T>,
        O: Operation<T> + Send + Sync + 'static,
    {
        self.begin_reduction("nonblocking all_reduce", vector, operation, Of::All)
    }

    /// Begins a [reduction](Reductions::reduce) to one rank (`MPI_Ireduce`).
    pub fn reduce<T, B, O>(&mut self, vector: B, operation: O, root: usize) -> CollectiveRequest<B>
    where
        T: Element,
        B: Buffer<T>,
        O: Operation<T> + Send + Sync + 'static,
    {
        self.begin_reduction("nonblocking reduce", vector, operation, Of::Root(root))
    }

    /// Begins a [scan](Reductions::scan) (`MPI_Iscan`).
    pub fn scan<T, B, O>(&mut self, vector: B, operation: O) -> CollectiveRequest<B>
    where
        T: Element,
        B: Buffer<T>,
        O: Operation<T> + Send + Sync + 'static,
    {
        self.begin_reduction("nonblocking scan", vector, operation, Of::Below(Prefix::Inclusive))
    }

    /// Begins an [exclusive scan](Reductions::exclusive_scan) (`MPI_Iexscan`).
    pub fn exclusive_scan<T, B, O>(&mut self, vector: B, operation: O) -> CollectiveRequest<B>
    where
        T: Element,
        B: Buffer<T>,
        O: Operation<T> + Send + Sync + 'static,
    {
        let of = Of::Below(Prefix::Exclusive);
        self.begin_reduction("nonblocking exclusive_scan", vector, operation, of)
    }

    fn begin_reduction<T, B, O>(
        &mut self,
        name: &'static str,
        vector: B,
        operation: O,
        result: Of,
    ) -> CollectiveRequest<B>
    where
        T: Element,
        B: Buffer<T>,
        O: Operation<T> + Send + Sync + 'static,
    {
        let count = vector.as_ref().len();
        let root = if let Of::Root(root) = result { Some(root) } else { None };
        let signature = Signature::new::<T>(name, count, move |name, settings| {
            signature::reduction::<T, O>(name, count, root, None, settings)
        });
        self.submit(signature, vector, Reduction { operation, result, of: PhantomData })
    }
}

/// An operation that does not begin once ranks were found to make different calls.
struct Watched<W>(W);

impl<B: Send + 'static, W: Work<Algorithms, B>> Work<Algorithms, B> for Watched<W> {
    async fn run(self, all: &mut Algorithms, buffer: &mut B) -> Result<()> {
        all.start()?;
        let outcome = match all {
            Algorithms::Here(_) => self.0.run(all, buffer).await,
            Algorithms::Between(_) => {
                let mut running = Box::pin(self.0.run(all, buffer));
                let caught = poll_fn(|context| {
                    match catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(context))) {
                        Ok(there) => there.map(Ok),
                        Err(panic) => Poll::Ready(Err(panic)),
                    }
                });
                let caught = caught.await;
                // This drops what is the program's, which may panic once more.
                discard(catch_unwind(AssertUnwindSafe(|| drop(running))));
                caught.unwrap_or_else(|panic| {
                    all.abandon();
                    resume_unwind(panic)
                })
            }
        };
        all.end(outcome)
    }
}

/// An operation that begins when all ranks have made the same call.
struct Compared<W> {
    entered: Result<Entered>,
    work: W,
}

impl<B: Send + 'static, W: Work<Algorithms, B>> Work<Algorithms, B> for Compared<W> {
    async fn run(self, all: &mut Algorithms, buffer: &mut B) -> Result<()> {
        if let Algorithms::Here(here) = all {
            here.compared(&self.entered?).await?;
        }
        self.work.run(all, buffer).await
    }
}

struct Barrier;

impl Work<Algorithms, ()> for Barrier {
    async fn run(self, all: &mut Algorithms, (): &mut ()) -> Result<()> {
        match all {
            Algorithms::Here(here) => here.barriers.run().await,
            Algorithms::Between(nodes) => Box::pin(nodes.barrier()).await,
        }
    }
}

struct Broadcast<T> {
    root: usize,
    of: PhantomData<fn(T)>,
}

impl<T: Element, B: Buffer<T>> Work<Algorithms, B> for Broadcast<T> {
    async fn run(self, all: &mut Algorithms, message: &mut B) -> Result<()> {
        let (message, root) = (message.as_mut(), self.root);
        match all {
            Algorithms::Here(here) => here.broadcasts()?.run(message, root).await,
            Algorithms::Between(nodes) => Box::pin(nodes.broadcast(message, root)).await,
        }
    }
}

struct Reduction<T, O> {
    operation: O,
    result: Of,
    of: PhantomData<fn(T)>,
}

/// Whose vectors are combined in a rank's result.
enum Of {
    /// The vectors of all ranks, in each rank.
    All,
    /// The vectors of all ranks, in this rank.
    Root(usize),
    /// The vectors of the ranks below.
    Below(Prefix),
}

impl<T, B, O> Work<Algorithms, B> for Reduction<T, O>
where
    T: Element,
    B: Buffer<T>,
    O: Operation<T> + Send + Sync + 'static,
{
    async fn run(self, all: &mut Algorithms, vector: &mut B) -> Result<()> {
        let (vector, operation) = (vector.as_mut(), &self.operation);
        let reductions = match all {
            Algorithms::Here(here) => here.reductions()?,
            Algorithms::Between(nodes) => {
                return match self.result {
                    Of::All => Box::pin(nodes.all_reduce(vector, operation)).await,
                    Of::Root(root) => Box::pin(nodes.reduce(vector, operation, root)).await,
                    Of::Below(prefix) => Box::pin(nodes.scan(vector, operation, prefix)).await,
                };
            }
        };
        match self.result {
            Of::All => reductions.run_all_reduce(vector, operation).await,
            Of::Root(root) => reductions.run_reduce(vector, operation, root).await,
            Of::Below(prefix) => reductions.run_scan(vector, operation, prefix).await,
        }
    }
}

/// The description of a call, for traces and for the comparison of calls.
pub(super) struct Signature<F> {
    name: &'static str,
    bytes: usize,
    call: F,
}

impl<F: FnOnce(&'static str, &Settings) -> Call> Signature<F> {
    /// Describes a call with `count` elements of the rank's own. `call` adds the rest of the description if ranks
    /// compare their calls.
    pub(super) fn new<T>(name: &'static str, count: usize, call: F) -> Self {
        Signature { name, bytes: count * size_of::<T>(), call }
    }
}
