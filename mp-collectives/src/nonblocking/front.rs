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
//! [errand](mp_delegate::threads::Errand). The algorithms are the same generic functions as the blocking ones, on MPBs
//! whose waits are pending (`polled.rs`). Their futures are `Send` because of the types that they are called with. A
//! panic of the program's code stays inside the poll of its operation. The rank then leaves the MPBs as if it were lost,
//! because the others wait for flags that will not come.
//!
//! # Short operations
//!
//! Where the rank itself carries its operations on, a call begins its operation at once, if no other is pending. If the
//! operation need not wait, it is done when the call returns, and nothing is allocated but its future. Otherwise its
//! wait first [attends](Place::attend) to the front alone: it looks for the awaited flag as a blocking call does, and
//! advances the job without a detour. Only one thread of the rank advances errands at home at any time, and this one
//! does so meanwhile. Otherwise another thread could sleep until a flag changes for which the job waits no longer.
//!
//! The errand of such a front stays at home when its jobs are done, so that the next one finds it there. It ends when
//! the rank advances it next.

use std::any::Any;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Poll, Waker};
use std::thread::{self, ThreadId};

use mp_core::delegate::{Backoff, discard};
use mp_core::mpb::Polled;
use mp_core::progress::as_part;
use mp_core::{Error, ErrorKind, Failed, Place as At, Rank, Result, Wait};
use mp_delegate::threads::{About, Errand, Errands, Progress, Step};

use super::polled::{Left, Waits};
use super::request::{Answer, CollectiveOperation, CollectiveRequest, Place, Reply};

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
    counter: Arc<Counter<A>>,
}

/// A front as its requests see it.
struct Counter<A: Send + 'static> {
    errands: Errands,
    /// The first of the MPBs.
    polled: Arc<Polled>,
    shared: Arc<Shared<A>>,
}

struct Shared<A> {
    /// The rank's number in the world.
    rank: usize,
    waits: Arc<Waits>,
    /// Whoever has this lock may take the lock of the desk, but not the other way round.
    bench: Mutex<Bench<A>>,
    desk: Mutex<Desk<A>>,
    /// Whether any job is not done. Only who has the lock of the desk writes it.
    under_way: AtomicBool,
}

/// The place of the job that is being carried out.
struct Bench<A> {
    /// The algorithms, unless a job holds them.
    algorithms: Option<Box<A>>,
    current: Option<Current<A>>,
    /// The reason if no more operations are possible.
    broken: Option<Broken>,
    /// Whether the errand is at home, and no communication thread has it.
    is_at_home: bool,
}

struct Current<A> {
    about: (&'static str, usize),
    job: Box<dyn Job<A>>,
}

/// The place of the jobs that are not begun.
struct Desk<A> {
    /// The jobs in the order of the calls.
    jobs: VecDeque<Box<dyn Queued<A>>>,
    /// Whether there is an errand that carries out the jobs.
    has_errand: bool,
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
    Lost { rank: usize, world_rank: usize, place: At },
    /// The MPBs were revoked, which also ended an operation in the middle.
    Revoked { place: At },
}

impl Broken {
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

/// An operation on the algorithms of a front and on a buffer.
pub(super) trait Work<A, B>: Send + 'static {
    fn run<'a>(
        self,
        algorithms: &'a mut A,
        buffer: &'a mut B,
    ) -> impl Future<Output = Result<()>> + Send + 'a;
}

/// An operation that the program has written.
struct Boxed<F>(F);

impl<A, B, F> Work<A, B> for Boxed<F>
where
    A: Send + 'static,
    B: Send + 'static,
    F: for<'a> FnOnce(&'a mut A, &'a mut B) -> BoxFuture<'a, Result<()>> + Send + 'static,
{
    async fn run(self, algorithms: &mut A, buffer: &mut B) -> Result<()> {
        // The program's function may panic as well. It is called when this is polled.
        (self.0)(algorithms, buffer).await
    }
}

/// A job that is not begun.
trait Queued<A>: Send {
    /// Returns the name of the operation and how many bytes the rank gives to it.
    fn about(&self) -> (&'static str, usize);
    fn begin(self: Box<Self>, algorithms: Box<A>) -> Box<dyn Job<A>>;
    fn refuse(self: Box<Self>, why: Broken);
}

/// A job that is under way.
trait Job<A>: Send {
    /// Continues. When the job is done, its request has its answer.
    fn poll(&mut self) -> Poll<Finished<A>>;
}

/// What remains of a job.
struct Finished<A> {
    algorithms: Box<A>,
    trouble: Option<Trouble>,
}

/// The reason why a job ended in the middle.
enum Trouble {
    /// The message of a panic in the program's code.
    Panicked(Arc<str>),
    /// The error of an operation that ended because another rank left.
    Left(Arc<str>),
    Broken(Broken),
}

impl Trouble {
    #[cold]
    fn of(error: &Error) -> Option<Self> {
        match error.kind() {
            error @ (ErrorKind::Disconnected { .. } | ErrorKind::PeerEnded { .. }) => {
                Some(Trouble::Left(error.to_string().into()))
            }
            &ErrorKind::PeerLost { rank, world_rank, ref place } => {
                Some(Trouble::Broken(Broken::Lost { rank, world_rank, place: place.clone() }))
            }
            ErrorKind::Revoked { place } => {
                Some(Trouble::Broken(Broken::Revoked { place: place.clone() }))
            }
            _ => None,
        }
    }
}

/// A job that is begun when those before it are done.
struct Unbegun<B, W> {
    about: (&'static str, usize),
    buffer: B,
    work: W,
    reply: Arc<Reply<B>>,
}

impl<A, B, W> Queued<A> for Unbegun<B, W>
where
    A: Send + 'static,
    B: Send + 'static,
    W: Work<A, B>,
{
    fn about(&self) -> (&'static str, usize) {
        self.about
    }

    fn begin(self: Box<Self>, algorithms: Box<A>) -> Box<dyn Job<A>> {
        let Unbegun { buffer, work, reply, .. } = *self;
        let future = Box::pin(carry_out(work, buffer, algorithms));
        Box::new(Begun { future, reply: Some(reply) })
    }

    fn refuse(self: Box<Self>, why: Broken) {
        let Unbegun { buffer, work, reply, .. } = *self;
        reply.answer(Err(Failed { error: why.error(), buffer }));
        discard((work, reply));
    }
}

struct Begun<F, B> {
    future: Pin<Box<F>>,
    reply: Option<Arc<Reply<B>>>,
}

impl<A, B, F> Job<A> for Begun<F, B>
where
    B: Send,
    F: Future<Output = (Finished<A>, Answer<B>)> + Send,
{
    fn poll(&mut self) -> Poll<Finished<A>> {
        let Poll::Ready((finished, answer)) = poll_once(self.future.as_mut()) else {
            return Poll::Pending;
        };
        if let Some(reply) = self.reply.take() {
            reply.answer(answer);
            // This drops the buffer as well if the request no longer exists.
            discard(reply);
        }
        Poll::Ready(finished)
    }
}

#[inline]
fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Carries out a job. Returns the algorithms, and the answer to its request. A panic of the program's code becomes an
/// error.
///
/// The operation's future is polled right here. A function that was given this future would keep it twice.
async fn carry_out<A, B, W: Work<A, B>>(
    work: W,
    mut buffer: B,
    mut algorithms: Box<A>,
) -> (Finished<A>, Answer<B>) {
    let outcome = {
        let mut running = pin!(Some(work.run(&mut algorithms, &mut buffer)));
        let outcome = poll_fn(|context| {
            let Some(running) = running.as_mut().as_pin_mut() else { return Poll::Pending };
            match catch_unwind(AssertUnwindSafe(|| running.poll(context))) {
                Ok(there) => there.map(Ok),
                Err(panic) => Poll::Ready(Err(panic)),
            }
        })
        .await;
        // Dropping the future runs destructors of the program, which may panic once more.
        discard(catch_unwind(AssertUnwindSafe(|| running.set(None))));
        outcome
    };
    let (error, trouble) = match outcome {
        Ok(Ok(())) => return (Finished { algorithms, trouble: None }, Ok(buffer)),
        Ok(Err(error)) => {
            let trouble = Trouble::of(&error);
            (error, trouble)
        }
        Err(panic) => {
            let message = message_of(&*panic);
            discard(panic);
            let (place, text) = (At::Collective, message.to_string());
            let error = ErrorKind::OperationPanicked { place, message: text };
            (error.into(), Some(Trouble::Panicked(message)))
        }
    };
    (Finished { algorithms, trouble }, Err(Failed { error, buffer }))
}

fn message_of(panic: &(dyn Any + Send)) -> Arc<str> {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("(no message)")
        .into()
}

impl<A> Shared<A> {
    fn desk(&self) -> MutexGuard<'_, Desk<A>> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_under_way(&self) -> bool {
        // Relaxed: who then takes the lock of the bench or of the desk sees what was done there before the change.
        self.under_way.load(Ordering::Relaxed)
    }

    /// Notes that the job on the bench is under way, or puts a job on the desk. Returns whether there was an errand.
    fn note(&self, job: Option<Box<dyn Queued<A>>>) -> bool {
        let mut desk = self.desk();
        desk.jobs.extend(job);
        self.under_way.store(true, Ordering::Relaxed);
        mem::replace(&mut desk.has_errand, true)
    }

    fn bench(&self) -> MutexGuard<'_, Bench<A>> {
        self.bench.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the bench, unless somebody is at work there.
    fn free_bench(&self) -> Option<MutexGuard<'_, Bench<A>>> {
        match self.bench.try_lock() {
            Ok(bench) => Some(bench),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Carries out the current job until it waits or is done, and begins the next one then.
    fn carry_on(&self, bench: &mut Bench<A>) -> Step {
        if let Some(current) = &mut bench.current {
            let Poll::Ready(finished) = current.job.poll() else { return Step::Waits };
            bench.current = None;
            self.finish(bench, finished);
        }
        if self.begin_next(bench) { Step::Next } else { Step::Over }
    }

    /// Begins the next job. Returns false if there is none.
    fn begin_next(&self, bench: &mut Bench<A>) -> bool {
        let mut desk = self.desk();
        let Some(job) = desk.jobs.pop_front() else {
            self.under_way.store(false, Ordering::Relaxed);
            if desk.leaving.take().is_some_and(|thread| thread != thread::current().id()) {
                self.waits.now().ring();
            }
            return false;
        };
        drop(desk);
        if let Some(why) = bench.broken.clone() {
            job.refuse(why);
        } else if let Some(algorithms) = bench.algorithms.take() {
            bench.current = Some(Current { about: job.about(), job: job.begin(algorithms) });
        }
        true
    }

    /// Takes the algorithms back from a job.
    #[inline]
    fn finish(&self, bench: &mut Bench<A>, finished: Finished<A>) {
        bench.algorithms = Some(finished.algorithms);
        if let Some(trouble) = finished.trouble {
            self.end(bench, trouble);
        }
    }

    /// Makes further operations impossible.
    #[cold]
    fn end(&self, bench: &mut Bench<A>, trouble: Trouble) {
        match trouble {
            Trouble::Panicked(why) => self.break_off(bench, why),
            // This notifies the ranks that wait for this rank's part in the operation, whichever request this rank's
            // program waits for.
            Trouble::Left(why) => {
                bench.broken = Some(Broken::Here(why));
                self.waits.leave(Left::Closed);
            }
            Trouble::Broken(why) => bench.broken = bench.broken.take().or(Some(why)),
        }
    }

    /// Makes further operations impossible, for the other ranks too.
    fn break_off(&self, bench: &mut Bench<A>, why: Arc<str>) {
        bench.broken = Some(Broken::Here(why));
        self.waits.leave(Left::Lost);
    }
}

/// An errand that carries out a front's jobs.
struct Run<A>(Arc<Shared<A>>);

impl<A: Send + 'static> Errand for Run<A> {
    fn advance(&mut self) -> Step {
        // A thread that is at work makes whoever carries on this errand look again, unless it carries that on itself.
        let Some(mut bench) = self.0.free_bench() else { return Step::Waits };
        match self.0.carry_on(&mut bench) {
            Step::Over => {
                let mut desk = self.0.desk();
                desk.has_errand = self.0.is_under_way();
                if desk.has_errand { Step::Next } else { Step::Over }
            }
            step => step,
        }
    }

    fn about(&self) -> About {
        let current = self.0.free_bench().and_then(|bench| Some(bench.current.as_ref()?.about));
        let next = || self.0.desk().jobs.front().map(|job| job.about());
        let (operation, bytes) = current.or_else(next).unwrap_or(("", 0));
        About { rank: Some(self.0.rank), operation, bytes }
    }

    fn polled(&self) -> Arc<Polled> {
        self.0.waits.now()
    }
}

impl<A: Send + 'static> Place for Counter<A> {
    fn errands(&self) -> &Errands {
        &self.errands
    }

    fn polled(&self) -> &Arc<Polled> {
        &self.polled
    }

    fn now(&self) -> Arc<Polled> {
        self.shared.waits.now()
    }

    fn attend(&self, is_done: &dyn Fn() -> bool) -> bool {
        let shared = &self.shared;
        let attended = self.errands.while_leading(|| {
            let Some(mut bench) = shared.free_bench().filter(|bench| bench.is_at_home) else {
                return;
            };
            while bench.current.is_none() || shared.waits.look_shortly() {
                match shared.carry_on(&mut bench) {
                    // What the next job sends first is sent in any case.
                    Step::Next => {}
                    Step::Waits if !is_done() => {}
                    Step::Waits | Step::Over => return,
                }
            }
        });
        attended.is_some() && is_done()
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
        let algorithms = Some(Box::new(algorithms));
        let bench = Bench { algorithms, current: None, broken: None, is_at_home: false };
        let desk = Desk { jobs: VecDeque::new(), has_errand: false, leaving: None };
        let (polled, rank) = (waits.now(), rank.id());
        let (bench, desk, under_way) = (Mutex::new(bench), Mutex::new(desk), false.into());
        let shared = Arc::new(Shared { rank, waits, bench, desk, under_way });
        Ok(Self { counter: Arc::new(Counter { errands, polled, shared }) })
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
        self.begin((name, bytes), buffer, Boxed(operation))
    }

    /// Begins an operation, or submits it if another is pending or a communication thread carries it out.
    pub(super) fn begin<B, W>(
        &mut self,
        about: (&'static str, usize),
        buffer: B,
        work: W,
    ) -> CollectiveRequest<B>
    where
        B: Send + 'static,
        W: Work<A, B>,
    {
        let Counter { errands, polled, shared } = &*self.counter;
        if errands.threads().is_some() || shared.is_under_way() {
            return self.enqueue(about, buffer, work);
        }
        let mut bench = shared.bench();
        let algorithms = match bench.broken {
            None => bench.algorithms.take(),
            Some(_) => None,
        };
        let Some(algorithms) = algorithms else {
            drop(bench);
            return self.enqueue(about, buffer, work);
        };
        let mut future = Box::pin(carry_out(work, buffer, algorithms));
        let there = as_part(|| {
            loop {
                let there = poll_once(future.as_mut());
                if there.is_ready() || !shared.waits.look_briefly() {
                    return there;
                }
            }
        });
        if let Poll::Ready((finished, answer)) = there {
            shared.finish(&mut bench, finished);
            return CollectiveOperation::done(answer);
        }
        let (request, reply) = self.request(about.0);
        let job = Box::new(Begun { future, reply: Some(reply) });
        bench.current = Some(Current { about, job });
        let has_errand = shared.note(None);
        bench.is_at_home |= !has_errand;
        drop(bench);
        match has_errand {
            true => errands.renew(polled),
            false => errands.hold(Box::new(Run(Arc::clone(shared)))),
        }
        request
    }

    /// Submits an operation, for whoever carries on the errand.
    fn enqueue<B, W>(
        &self,
        about: (&'static str, usize),
        buffer: B,
        work: W,
    ) -> CollectiveRequest<B>
    where
        B: Send + 'static,
        W: Work<A, B>,
    {
        let Counter { errands, shared, .. } = &*self.counter;
        let (request, reply) = self.request(about.0);
        let job = Unbegun { about, buffer, work, reply };
        if !shared.note(Some(Box::new(job))) {
            shared.bench().is_at_home = errands.threads().is_none();
            errands.begin(Box::new(Run(Arc::clone(shared))));
        }
        request
    }

    /// Returns the request of an operation that is not done, and the place for its answer.
    fn request<B: Send + 'static>(
        &self,
        name: &'static str,
    ) -> (CollectiveRequest<B>, Arc<Reply<B>>) {
        let reply = Arc::new(Reply::new(Arc::clone(&self.counter.polled), name));
        let place = Arc::clone(&self.counter) as Arc<dyn Place>;
        (CollectiveOperation::under_way(Arc::clone(&reply), place), reply)
    }

    /// Returns what advances the submitted operations.
    pub fn errands(&self) -> &Errands {
        &self.counter.errands
    }

    /// Sets what advances operations that are submitted once no operation is pending any more.
    ///
    /// # Errors
    /// The same as for [`Errands::of`].
    pub fn set_progress(&mut self, progress: impl Into<Progress>) -> Result<()> {
        let Counter { errands, polled, shared } = &*self.counter;
        let (polled, shared) = (Arc::clone(polled), Arc::clone(shared));
        let now = Errands::of(errands.rank(), progress)?;
        self.end_errand();
        self.counter = Arc::new(Counter { errands: now, polled, shared });
        Ok(())
    }

    /// Ends the errand, if it is at home and has nothing to do.
    fn end_errand(&self) {
        let Counter { errands, polled, shared } = &*self.counter;
        if shared.desk().has_errand && !shared.is_under_way() {
            errands.renew(polled);
            errands.advance();
        }
    }
}

impl<A: Send + 'static> Drop for Front<A> {
    fn drop(&mut self) {
        let Counter { errands, polled, shared } = &*self.counter;
        if thread::panicking() {
            shared.break_off(&mut shared.bench(), "the rank has panicked".into());
            // This rank ends the jobs if no other thread does. Every wait has already ended.
            return errands.advance();
        }
        let idle = || !shared.is_under_way();
        shared.desk().leaving = Some(thread::current().id());
        let mut backoff = Backoff::new();
        // If the world is too broken to sleep in, this looks again and again, because every job ends in any case.
        while !idle()
            && !errands.wait(polled, Wait::forever(), &idle).is_ok_and(|idle| idle)
            && !idle()
        {
            backoff.pause();
        }
        self.end_errand();
    }
}

impl<A: Send + 'static> std::fmt::Debug for Front<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shared = &self.counter.shared;
        f.debug_struct("Front").field("under_way", &shared.is_under_way()).finish_non_exhaustive()
    }
}
