//! Runs the operations of all ranks one after the other, in the order of the calls, in any thread.
//!
//! ```text
//! Nonblocking              Front                        Errands
//! call: a job, with  --> its queue, one job at a  --> a communication thread, or the rank in its calls:
//!   its buffer           time, in the order of        polls what is under way, each until it waits for a
//! request <------------- the calls                    flag; sleeps until any of those flags changes
//! ```
//!
//! The algorithms of a front may be used by only one operation at a time. While a front has jobs it is an
//! [errand](mp_delegate::threads::Errand); a front with nothing to do is in no list. The algorithms are the same
//! generic functions as the blocking ones, on MPBs whose waits are pending (`polled.rs`). Their futures are `Send`
//! because of the types that they are called with. A panic of the program's code stays inside the poll of its
//! operation. The rank then leaves the MPBs as if it were lost, because the others wait for flags that will not come.

use std::any::Any;
use std::collections::VecDeque;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::{self, ThreadId};

use mp_core::delegate::{Backoff, discard};
use mp_core::{Error, ErrorKind, Place, Rank, Result, Wait, mpb::Polled};
use mp_delegate::threads::{About, Errand, Errands, Progress, Step};

use super::polled::{Left, Waits};
use super::request::{CollectiveOperation, CollectiveRequest, Reply};

/// A future of any type that can be sent to another thread.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Algorithms of type `A`, which all ranks call in the same order and which continue while a rank does something else.
/// Use it to write your own collective operations on a [`PolledMpb`](super::PolledMpb).
///
/// ```
/// use onchip::nonblocking::{Front, PolledMpb};
/// use onchip::World;
/// use onchip::mpb::{Line, MpbAccess, Mpbs};
/// use onchip::threads::Progress;
///
/// let got = World::threads(3).run(|rank| {
///     let mpb = PolledMpb::new(rank.mpb("ring", Mpbs::lines(1))?);
///     let waits = mpb.waits().clone();
///     let mut ring = Front::open(rank, Progress::InCalls, waits, mpb)?;
///     // Each rank sends its number to the next rank.
///     let request = ring.submit(0, |mpb: &mut PolledMpb, got| {
///         Box::pin(async move {
///             let (me, ranks) = (mpb.rank(), mpb.ranks());
///             mpb.set_flag(Line { rank: (me + 1) % ranks, line: 0 }, 1 + me as u64).await?;
///             *got = mpb.wait_flag(0, |value| value > 0).await? - 1;
///             Ok(())
///         })
///     });
///     Ok(request.wait()?)
/// })?;
/// assert_eq!(got, [2, 0, 1]);
/// # Ok::<(), onchip::Error>(())
/// ```
///
/// Dropping the front waits for the submitted operations; see the [module](super).
pub struct Front<A: Send + 'static> {
    errands: Errands,
    shared: Arc<Shared<A>>,
}

struct Shared<A> {
    /// The rank's number in the world.
    rank: usize,
    waits: Arc<Waits>,
    desk: Mutex<Desk<A>>,
}

struct Desk<A> {
    /// The jobs in the order of the calls.
    jobs: VecDeque<Box<dyn Job<A>>>,
    /// The algorithms, unless a job holds them.
    algorithms: Option<Box<A>>,
    /// Whether an errand is carrying out the jobs.
    under_way: bool,
    /// The reason if no more operations are possible.
    broken: Option<Broken>,
    /// The thread that waits until no job is pending.
    leaving: Option<ThreadId>,
}

/// The reason why no more operations are possible.
#[derive(Clone, Debug)]
enum Broken {
    /// This rank has aborted an operation, for this reason.
    Here(Arc<str>),
    /// Another rank was lost. This rank may have ended an operation in the middle. Lines that other ranks set for that
    /// operation would then be taken for those of the next one.
    Lost { rank: usize, world_rank: usize, place: Place },
    /// The MPBs were revoked, which also ended an operation in the middle.
    Revoked { place: Place },
}

impl Broken {
    /// Returns the reason for which operations after this error are refused, if they are.
    fn of(error: &Error) -> Option<Self> {
        match error.kind() {
            &ErrorKind::PeerLost { rank, world_rank, ref place } => {
                Some(Broken::Lost { rank, world_rank, place: place.clone() })
            }
            ErrorKind::Revoked { place } => Some(Broken::Revoked { place: place.clone() }),
            _ => None,
        }
    }

    fn error(self) -> Error {
        Error::from(match self {
            Broken::Here(why) => ErrorKind::FailedBefore { reason: why.to_string() },
            Broken::Lost { rank, world_rank, place } => {
                ErrorKind::PeerLost { rank, world_rank, place }
            }
            Broken::Revoked { place } => ErrorKind::Revoked { place },
        })
    }
}

impl<A> Shared<A> {
    fn lock(&self) -> MutexGuard<'_, Desk<A>> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes further operations impossible, for the other ranks too.
    fn break_off(&self, why: Arc<str>) {
        self.lock().broken = Some(Broken::Here(why));
        self.waits.leave(Left::Lost);
    }

    /// Makes further operations impossible because another rank has left in the middle of an operation. This notifies
    /// the ranks that wait for this rank's part in it, whichever request this rank's program waits for.
    fn leave(&self, why: Arc<str>) {
        self.lock().broken = Some(Broken::Here(why));
        self.waits.leave(Left::Closed);
    }
}

/// The work of one call.
trait Job<A>: Send {
    /// Returns the name of the operation and how many bytes the rank gives to it.
    fn about(&self) -> (&'static str, usize);
    fn begin(self: Box<Self>, algorithms: Box<A>) -> BoxFuture<'static, Finished<A>>;
    fn refuse(self: Box<Self>, why: Broken);
}

/// A job whose request has its answer.
struct Finished<A> {
    algorithms: Box<A>,
    /// The message of a panic in the program's code.
    panicked: Option<Arc<str>>,
    /// The error of the operation, if it ended because another rank left.
    left: Option<Arc<str>>,
    /// The reason why the operation ended in the middle, if it did.
    broken: Option<Broken>,
}

struct Submitted<B, F> {
    about: (&'static str, usize),
    buffer: B,
    operation: F,
    reply: Arc<Reply<B>>,
}

impl<A, B, F> Job<A> for Submitted<B, F>
where
    A: Send + 'static,
    B: Send + 'static,
    F: for<'a> FnOnce(&'a mut A, &'a mut B) -> BoxFuture<'a, Result<()>> + Send + 'static,
{
    fn about(&self) -> (&'static str, usize) {
        self.about
    }

    fn begin(self: Box<Self>, mut algorithms: Box<A>) -> BoxFuture<'static, Finished<A>> {
        let Submitted { mut buffer, operation, reply, .. } = *self;
        Box::pin(async move {
            let outcome = Caught(Some(operation(&mut algorithms, &mut buffer))).await;
            let (outcome, panicked) = match outcome {
                Ok(outcome) => (outcome, None),
                Err(message) => {
                    let (place, text) = (Place::Collective, message.to_string());
                    let error = ErrorKind::OperationPanicked { place, message: text };
                    (Err(error.into()), Some(message))
                }
            };
            let left = match outcome.as_ref().map_err(Error::kind) {
                Err(error @ (ErrorKind::Disconnected { .. } | ErrorKind::PeerEnded { .. })) => {
                    Some(error.to_string().into())
                }
                _ => None,
            };
            let broken = outcome.as_ref().err().and_then(Broken::of);
            reply.answer(outcome, buffer);
            // This drops the buffer as well if the request no longer exists.
            discard(reply);
            Finished { algorithms, panicked, left, broken }
        })
    }

    fn refuse(self: Box<Self>, why: Broken) {
        let Submitted { buffer, operation, reply, .. } = *self;
        reply.answer(Err(why.error()), buffer);
        discard((operation, reply));
    }
}

/// A future that returns a panic as a value.
struct Caught<'a, T>(Option<BoxFuture<'a, T>>);

impl<T> Future for Caught<'_, T> {
    type Output = Result<T, Arc<str>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(future) = &mut self.0 else { return Poll::Pending };
        let outcome = match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(output)) => Ok(output),
            Err(panic) => {
                let message = message_of(&*panic);
                discard(panic);
                Err(message)
            }
        };
        // Dropping the future runs destructors of the program, which may panic once more.
        discard(self.0.take());
        Poll::Ready(outcome)
    }
}

fn message_of(panic: &(dyn Any + Send)) -> Arc<str> {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("(no message)")
        .into()
}

/// An errand that carries out a front's jobs while there are any.
struct Run<A> {
    shared: Arc<Shared<A>>,
    current: Option<Current<A>>,
}

struct Current<A> {
    about: (&'static str, usize),
    job: BoxFuture<'static, Finished<A>>,
}

impl<A: Send + 'static> Run<A> {
    /// Begins the next job. Returns false if there is none.
    fn begin_next(&mut self) -> bool {
        let mut desk = self.shared.lock();
        let Some(job) = desk.jobs.pop_front() else {
            desk.under_way = false;
            if desk.leaving.take().is_some_and(|thread| thread != thread::current().id()) {
                self.shared.waits.now().ring();
            }
            return false;
        };
        if let Some(why) = desk.broken.clone() {
            drop(desk);
            job.refuse(why);
        } else if let Some(algorithms) = desk.algorithms.take() {
            drop(desk);
            self.current = Some(Current { about: job.about(), job: job.begin(algorithms) });
        }
        true
    }
}

impl<A: Send + 'static> Errand for Run<A> {
    fn advance(&mut self) -> Step {
        loop {
            let Some(current) = &mut self.current else {
                match self.begin_next() {
                    true => continue,
                    false => return Step::Over,
                }
            };
            let Poll::Ready(finished) =
                current.job.as_mut().poll(&mut Context::from_waker(Waker::noop()))
            else {
                return Step::Waits;
            };
            self.current = None;
            {
                let mut desk = self.shared.lock();
                desk.algorithms = Some(finished.algorithms);
                desk.broken = desk.broken.take().or(finished.broken);
            }
            if let Some(panicked) = finished.panicked {
                self.shared.break_off(panicked);
            }
            if let Some(left) = finished.left {
                self.shared.leave(left);
            }
            if !self.shared.lock().jobs.is_empty() {
                return Step::Next;
            }
        }
    }

    fn about(&self) -> About {
        let (operation, bytes) = match &self.current {
            Some(current) => current.about,
            None => self.shared.lock().jobs.front().map_or(("", 0), |job| job.about()),
        };
        About { rank: Some(self.shared.rank), operation, bytes }
    }

    fn polled(&self) -> Arc<Polled> {
        self.shared.waits.now()
    }
}

impl<A: Send + 'static> Front<A> {
    /// Opens a front with algorithms. All their MPBs wait in `waits`.
    ///
    /// # Errors
    /// The same as for [`Errands::of`].
    pub fn open(
        rank: &Rank,
        progress: impl Into<Progress>,
        waits: Arc<Waits>,
        algorithms: A,
    ) -> Result<Self> {
        let errands = Errands::of(rank, progress)?;
        let desk = Desk {
            jobs: VecDeque::new(),
            algorithms: Some(Box::new(algorithms)),
            under_way: false,
            broken: None,
            leaving: None,
        };
        let (rank, desk) = (rank.id(), Mutex::new(desk));
        Ok(Self { errands, shared: Arc::new(Shared { rank, waits, desk }) })
    }

    /// Submits an operation on the algorithms and a buffer, and returns at once. The operation runs after those
    /// submitted before.
    ///
    /// Whatever the operation does besides awaiting its MPBs delays everything else in the same thread. The operation
    /// must not wait for requests.
    pub fn submit<B, F>(&mut self, buffer: B, operation: F) -> CollectiveRequest<B>
    where
        B: Send + 'static,
        F: for<'a> FnOnce(&'a mut A, &'a mut B) -> BoxFuture<'a, Result<()>> + Send + 'static,
    {
        self.submit_as("operation", 0, buffer, operation)
    }

    /// Does the same as [`submit`](Self::submit), with the values that a [trace](mp_delegate::trace) reports: the
    /// operation's name and how many bytes the rank gives to it.
    pub fn submit_as<B, F>(
        &mut self,
        name: &'static str,
        bytes: usize,
        buffer: B,
        operation: F,
    ) -> CollectiveRequest<B>
    where
        B: Send + 'static,
        F: for<'a> FnOnce(&'a mut A, &'a mut B) -> BoxFuture<'a, Result<()>> + Send + 'static,
    {
        let shared = &self.shared;
        let reply = Arc::new(Reply::new(shared.waits.now(), name));
        let about = (name, bytes);
        let job = Submitted { about, buffer, operation, reply: Arc::clone(&reply) };
        let mut desk = shared.lock();
        desk.jobs.push_back(Box::new(job));
        let idle = !mem::replace(&mut desk.under_way, true);
        drop(desk);
        if idle {
            self.errands.begin(Box::new(Run { shared: Arc::clone(shared), current: None }));
        }
        CollectiveOperation::request(reply, self.errands.clone())
    }

    /// Returns what advances the submitted operations.
    pub fn errands(&self) -> &Errands {
        &self.errands
    }

    /// Sets what advances operations that are submitted once no operation is pending any more.
    ///
    /// # Errors
    /// The same as for [`Errands::of`].
    pub fn set_progress(&mut self, progress: impl Into<Progress>) -> Result<()> {
        self.errands = Errands::of(self.errands.rank(), progress)?;
        Ok(())
    }
}

impl<A: Send + 'static> Drop for Front<A> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.shared.break_off("the rank has panicked".into());
            // This rank ends the jobs if no other thread does. Every wait has already ended.
            return self.errands.advance();
        }
        let idle = || !self.shared.lock().under_way;
        self.shared.lock().leaving = Some(thread::current().id());
        let polled = self.shared.waits.now();
        let mut backoff = Backoff::new();
        // If the world is too broken to sleep in, this looks again and again, because every job ends in any case.
        while !self.errands.wait(&polled, Wait::forever(), &idle).is_ok_and(|idle| idle) && !idle()
        {
            backoff.pause();
        }
    }
}

impl<A: Send + 'static> std::fmt::Debug for Front<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let desk = self.shared.lock();
        f.debug_struct("Front")
            .field("under_way", &desk.under_way)
            .field("broken", &desk.broken)
            .finish_non_exhaustive()
    }
}
