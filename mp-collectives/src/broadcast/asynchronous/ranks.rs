//! Asynchronous broadcasts between real ranks, threads or processes.
//!
//! A rank's [`Member`] is under a lock, and any thread that has work for it does that work itself. The thread that
//! broadcasts puts a chunk and wakes the children; two *attendants* take what comes. One of them attends. The moment it
//! has a message, it hands attending over to the other and runs the handler. So a message costs the source one wake-up
//! for all its children, and costs each rank no second wake-up, however long handlers take.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, mpsc};
use std::thread::{self, JoinHandle, ThreadId};

use mp_core::mpb::complete;
use mp_core::mpb::{Attendant, Mpb, Mpbs, Notifier};
use mp_core::{Error, ErrorKind, Place, Rank, Result, Wait};

use super::{AsyncError, AsyncOptions, Leaves, Member, Order, Progress, Sending};
use crate::errors::{bad_call, bad_settings};
use crate::members::names;

/// Settings of [`AsyncBroadcast`]. All ranks must choose the same, except for the notifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsyncSettings {
    /// k, the greatest number of children of a rank, from 1 to P − 1. If it is `None`, all other ranks are children of
    /// the source.
    pub degree: Option<usize>,
    /// The number of bytes in a chunk, rounded up to whole lines.
    pub chunk_bytes: usize,
    /// How many chunks a source may be ahead of the slowest handler.
    pub window: u32,
    /// The order in which messages are handled.
    pub order: Order,
    /// How this rank's threads are woken. With signals, a program that is started in the handler has
    /// that signal blocked.
    pub notifier: Notifier,
}

impl Default for AsyncSettings {
    /// Returns these settings: all others are children of the source; chunks of 16 KiB, a window of 32; each source's
    /// order; the futex.
    fn default() -> AsyncSettings {
        AsyncSettings {
            degree: None,
            chunk_bytes: 16 << 10,
            window: 32,
            order: Order::PerSource,
            notifier: Notifier::Futex,
        }
    }
}

/// Broadcasts that any rank may begin at any time. The receivers make no call: the handler of each rank gets (source,
/// message), in a thread of its own.
///
/// ```
/// use std::sync::mpsc;
/// use onchip::broadcast::asynchronous::{AsyncBroadcast, AsyncSettings};
/// use onchip::World;
///
/// let heard = World::threads(3).run(|rank| {
///     let (sender, news) = mpsc::channel();
///     let broadcasts = AsyncBroadcast::open(rank, "news", AsyncSettings::default(), {
///         move |source, message| sender.send((source, message.to_vec())).unwrap_or_default()
///     })?;
///     // No other rank does anything for this.
///     broadcasts.broadcast(format!("from {}", rank.id()).as_bytes())?;
///     broadcasts.finish()?;
///     let mut heard: Vec<_> = news.iter().collect();
///     heard.sort();
///     Ok(heard)
/// })?;
/// assert_eq!(heard[0], [(1, b"from 1".to_vec()), (2, b"from 2".to_vec())]);
/// assert_eq!(heard[2], [(0, b"from 0".to_vec()), (1, b"from 1".to_vec())]);
/// # Ok::<(), onchip::Error>(())
/// ```
///
/// Messages of one source are handled in the order in which it sent them, by one call of the handler at a time. With
/// [`Order::Total`], all ranks handle all messages, including their own, in the same order. The [module](super)
/// describes how it works, how much memory it takes, and what a slow handler does.
///
/// # Ends
/// [`finish`](AsyncBroadcast::finish) ends the broadcasts in good order; all ranks call it, and it waits for the
/// others. If a rank drops its part without calling it, if its handler panics, or if the rank is lost, the others fail
/// too: their calls get [`PeerLost`](mp_core::ErrorKind::PeerLost). The rank whose handler panicked gets
/// [`OperationPanicked`](mp_core::ErrorKind::OperationPanicked). Dropping waits for a handler that is still running,
/// and for nothing else.
#[derive(Debug)]
pub struct AsyncBroadcast {
    shared: Arc<Shared>,
    attendants: Vec<JoinHandle<()>>,
}

/// Allows rank code to return it with `?`.
impl From<AsyncError<Error>> for Error {
    #[cold]
    fn from(error: AsyncError<Error>) -> Self {
        match error {
            AsyncError::Mpb(error) => error,
            AsyncError::Corrupt { rank, what } => {
                Error::from(ErrorKind::PeerBroken { rank, reason: what.to_owned() })
            }
            AsyncError::OutOfMemory { bytes } => ErrorKind::OutOfMemory { bytes }.into(),
            AsyncError::Farewell => {
                bad_call("this rank has announced that it broadcasts nothing more")
            }
        }
    }
}

/// Makes the error of a handler that would wait for the end of handlers.
#[cold]
fn in_handler() -> Error {
    bad_call(
        "a handler can't wait for room or for the end, which come only after handlers have returned",
    )
}

type Handler = Box<dyn FnMut(usize, &[u8]) + Send>;

struct Shared {
    mpb: Mpb,
    state: Mutex<State>,
    /// Held so that this rank sends one message after the other.
    sending: Mutex<()>,
    /// Whether the attendants are to stop. It changes under the state's lock.
    ended: AtomicBool,
}

struct State {
    member: Member,
    handler: Option<Handler>,
    /// The thread in which the handler runs.
    handling: Option<ThreadId>,
    failure: Option<Failure>,
}

struct Failure {
    reason: String,
    /// The error, until it has been reported.
    error: Option<Error>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("mpb", &self.mpb).finish_non_exhaustive()
    }
}

impl AsyncBroadcast {
    /// Opens this rank's part in the broadcasts of this name, which all ranks open. No rank waits for the others to do
    /// so, and messages that others broadcast before are not lost. Two threads start, which sleep until something
    /// comes.
    ///
    /// # Errors
    /// [`BadSettings`](mp_core::ErrorKind::BadSettings); others for lack of memory, when ranks ask for different
    /// settings, or when threads cannot be started.
    pub fn open(
        rank: &Rank,
        name: &str,
        settings: AsyncSettings,
        handler: impl FnMut(usize, &[u8]) + Send + 'static,
    ) -> Result<AsyncBroadcast> {
        let ranks = rank.size();
        let chunk_lines = settings.chunk_bytes.div_ceil(LINE_BYTES).max(1);
        let options = AsyncOptions {
            degree: settings.degree.unwrap_or((ranks - 1).max(1)),
            chunk_lines,
            window: settings.window,
            // This saves a copy, and the parent waits for one copy either way.
            leaves: Leaves::Direct,
            order: settings.order,
            first_line: 0,
        };
        let lines = AsyncOptions::lines_before_chunk(ranks, LINE_BYTES).saturating_add(chunk_lines);
        let mpb = rank.mpb(name, names::ASYNCHRONOUS.mpbs(Mpbs::lines(lines)))?;
        let member = Member::new(&mpb, options).map_err(bad_settings)?;
        let state =
            State { member, handler: Some(Box::new(handler)), handling: None, failure: None };
        let shared = Arc::new(Shared {
            mpb,
            state: Mutex::new(state),
            sending: Mutex::new(()),
            ended: AtomicBool::new(false),
        });
        let mut broadcasts = AsyncBroadcast { shared, attendants: Vec::new() };
        let (ready, started) = mpsc::channel();
        for number in 0..ATTENDANTS {
            let (shared, ready) = (Arc::clone(&broadcasts.shared), ready.clone());
            let attendant = thread::Builder::new()
                .name(format!("broadcast {}.{number}", rank.id()))
                .spawn(move || shared.attend(settings.notifier, &ready))
                .map_err(|source| ErrorKind::Os { call: "starting a thread", source })?;
            broadcasts.attendants.push(attendant);
        }
        drop(ready);
        started.iter().take(ATTENDANTS).collect::<Result<(), _>>()?;
        Ok(broadcasts)
    }

    /// Broadcasts a message to all other ranks. Returns when the message is in transit and `message` can be reused; it
    /// waits only while a slow handler keeps this source's window closed. Several threads may call this; their messages
    /// do not mix.
    ///
    /// # Errors
    /// Those of [`AsyncBroadcast`]. In a handler, it returns [`BadCall`](mp_core::ErrorKind::BadCall) instead of
    /// waiting, and then nothing has been sent.
    pub fn broadcast(&self, message: &[u8]) -> Result<()> {
        let shared = &*self.shared;
        if shared.lock().handling == Some(thread::current().id()) {
            return match self.try_broadcast(message)? {
                true => Ok(()),
                false => Err(in_handler()),
            };
        }
        let _turn = shared.sending.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sending = Sending::default();
        while let Some((rank, line, said)) = shared.advance(message, &mut sending)? {
            shared.wait(rank, line, |value| value != said)?;
        }
        Ok(())
    }

    /// Does what [`broadcast`](AsyncBroadcast::broadcast) does, but never waits. Returns false, with nothing sent, when
    /// the window is closed for some of the message's chunks or another thread is broadcasting.
    ///
    /// # Errors
    /// Those of [`AsyncBroadcast`].
    pub fn try_broadcast(&self, message: &[u8]) -> Result<bool> {
        let shared = &*self.shared;
        let _turn = match shared.sending.try_lock() {
            Ok(turn) => turn,
            Err(TryLockError::Poisoned(turn)) => turn.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(false),
        };
        if !shared.has_room(message)? {
            return Ok(false);
        }
        // The room can only grow while it is this thread's turn.
        Ok(shared.advance(message, &mut Sending::default())?.is_none())
    }

    /// Ends this rank's part: the rank broadcasts no more, and handles what others still broadcast, until all have
    /// called this. Then its threads end.
    ///
    /// # Errors
    /// Those of [`AsyncBroadcast`]; [`BadCall`](mp_core::ErrorKind::BadCall) in the handler, in which case this rank's
    /// part has not ended.
    pub fn finish(mut self) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let line = {
            let mut state = shared.checked()?;
            if state.handling == Some(thread::current().id()) {
                return Err(in_handler());
            }
            state.member.say_farewell();
            shared.mpb.say_farewell();
            shared.progress(&mut state)?;
            shared.call_for_deliveries(&state)?;
            shared.see_whether_over(&state)?;
            state.member.flag_of(shared.mpb.rank())
        };
        let ended = || shared.ended.load(Ordering::Acquire);
        if let Err(error) = shared.mpb.wait_until(line, ended) {
            shared.fail(error);
        }
        self.join();
        shared.checked().map(|_| ())
    }

    /// Returns the number of bytes of the messages that this rank keeps at this moment: arriving, to be handled, or to
    /// be forwarded.
    pub fn kept_bytes(&self) -> usize {
        self.shared.lock().member.kept_bytes()
    }

    /// Waits for the attendants, which are about to end. One of them may be the caller.
    fn join(&mut self) {
        for attendant in self.attendants.drain(..) {
            if attendant.thread().id() != thread::current().id() {
                // The state tells if it panicked.
                let _ = attendant.join();
            }
        }
    }
}

impl Drop for AsyncBroadcast {
    fn drop(&mut self) {
        if !self.attendants.is_empty() {
            let dropped = "dropped before it was finished".to_owned();
            self.shared.fail(ErrorKind::FailedBefore { reason: dropped }.into());
            self.join();
        }
    }
}

/// The number of bytes in a line of real ranks' buffers.
const LINE_BYTES: usize = 64;

/// The number of threads of each rank.
const ATTENDANTS: usize = 2;

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state tells if a thread panicked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the state, if nothing has failed.
    fn checked(&self) -> Result<MutexGuard<'_, State>> {
        let mut state = self.lock();
        match &mut state.failure {
            None => Ok(state),
            Some(Failure { reason, error }) => {
                let again = || Error::from(ErrorKind::FailedBefore { reason: reason.clone() });
                Err(error.take().unwrap_or_else(again))
            }
        }
    }

    /// Remembers the first failure; ends this rank's part and the others' parts.
    fn fail(&self, error: Error) {
        // If another rank was lost, the others are told that as well. They must not take this rank for the lost one.
        let of_another = matches!(error.kind(), ErrorKind::PeerLost { .. });
        {
            let mut state = self.lock();
            if state.failure.is_some() || self.ended.load(Ordering::Acquire) {
                return;
            }
            state.failure = Some(Failure { reason: error.to_string(), error: Some(error) });
            self.ended.store(true, Ordering::Release);
        }
        // An error means that the segment is broken, which the others will find out by themselves.
        if !of_another {
            let _ = self.mpb.abandon();
        }
        let _ = self.mpb.look_again();
    }

    /// Waits for a flag, or until everything is over.
    fn wait(&self, setter: usize, line: usize, reached: impl Fn(u64) -> bool) -> Result<()> {
        let ended = || self.ended.load(Ordering::Acquire);
        let waited = self
            .mpb
            .wait_flag_with(Wait::forever(), Some(setter), line, |value| reached(value) || ended());
        if let Err(error) = waited {
            self.fail(error);
        }
        drop(self.checked()?);
        Ok(())
    }

    fn has_room(&self, message: &[u8]) -> Result<bool> {
        let mut state = self.checked()?;
        let Ok(chunks) = u32::try_from(state.member.chunks(message.len())) else {
            return Ok(false);
        };
        Ok(complete(state.member.has_room(&mut &self.mpb, chunks))?.is_ok())
    }

    /// Sends as much of a message as possible. If some of it remains, returns the rank to wait for, its flag, and the
    /// flag's current value.
    fn advance(
        &self,
        message: &[u8],
        sending: &mut Sending,
    ) -> Result<Option<(usize, usize, u64)>> {
        let advanced = {
            let mut state = self.checked()?;
            self.advance_with(&mut state, message, sending)
        };
        advanced.inspect_err(|failure| {
            // It is not known how much has been sent.
            let reason = failure.to_string();
            self.fail(ErrorKind::FailedBefore { reason }.into());
        })
    }

    fn advance_with(
        &self,
        state: &mut State,
        message: &[u8],
        sending: &mut Sending,
    ) -> Result<Option<(usize, usize, u64)>> {
        let mut mpb = &self.mpb;
        let progress = complete(state.member.send_or_copy(&mut mpb, message, sending))?;
        let waits = match progress {
            // The flag may be read again below, so this takes its value from when there was no room.
            Progress::Window(rank) => {
                Some((rank, state.member.flag_of(rank), state.member.said(rank)))
            }
            Progress::Done | Progress::Busy => None,
        };
        match state.member.is_queued() {
            true => self.progress(state)?,
            false => self.settle(state)?,
        }
        self.call_for_deliveries(state)?;
        Ok(waits)
    }

    /// Calls for deliveries, because one of this rank's own messages may be the next in the order.
    fn call_for_deliveries(&self, state: &State) -> Result<()> {
        if state.member.has_delivery() && state.handling.is_none() {
            self.mpb.call_attendant()?;
        }
        Ok(())
    }

    fn progress(&self, state: &mut State) -> Result<()> {
        complete(state.member.progress(&mut &self.mpb))?;
        self.settle(state)
    }

    /// Makes a child's answer wake an attendant, where something waits for that answer.
    fn settle(&self, state: &mut State) -> Result<()> {
        while let Some(child) = state.member.awaited()
            && state.member.wants_answer()
            && self.mpb.expect_answer(child)?
        {
            // The child may have answered before that.
            complete(state.member.progress(&mut &self.mpb))?;
        }
        Ok(())
    }

    fn see_whether_over(&self, state: &State) -> Result<()> {
        if state.member.is_over() && state.handling.is_none() {
            self.ended.store(true, Ordering::Release);
            self.mpb.look_again()?;
        }
        Ok(())
    }

    /// Runs an attendant, from beginning to end.
    fn attend(&self, notifier: Notifier, ready: &mpsc::Sender<Result<()>>) {
        /// Reports a panic that is not the handler's.
        struct Bail<'a>(&'a Shared);
        impl Drop for Bail<'_> {
            fn drop(&mut self) {
                if thread::panicking() {
                    let reason = "an attendant panicked".to_owned();
                    self.0.fail(ErrorKind::FailedBefore { reason }.into());
                }
            }
        }
        let _bail = Bail(self);
        let attendant = self.mpb.attendant(notifier);
        let mut attendant = match attendant {
            Ok(attendant) => attendant,
            Err(error) => return ready.send(Err(error)).unwrap_or_default(),
        };
        // The opener takes as many answers as there are attendants, if it is still there.
        ready.send(Ok(())).unwrap_or_default();
        let ended = || self.ended.load(Ordering::Acquire);
        let mut sources = Vec::new();
        while !ended() {
            if attendant.is_attending()
                && let Err(failure) = self.look(&mut attendant, &mut sources)
            {
                return self.fail(failure);
            }
            match attendant.wait(ended) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => return self.fail(error),
            }
        }
    }

    /// Takes what has come, passes it on, and handles it.
    fn look(&self, attendant: &mut Attendant<'_>, sources: &mut Vec<usize>) -> Result<()> {
        let mut mpb = &self.mpb;
        let mut state = self.lock();
        loop {
            self.mpb.take_interrupts(sources);
            for parent in sources.drain(..) {
                complete(state.member.receive(&mut mpb, parent))?;
            }
            self.progress(&mut state)?;
            // Otherwise the other attendant would be woken for what has come meanwhile. Windows keep this from going on
            // for ever.
            if !attendant.look_again() {
                break;
            }
        }
        while state.handling.is_none()
            && let Some(mut handler) = state.handler.take()
        {
            let Some(delivery) = state.member.next_delivery() else {
                state.handler = Some(handler);
                break;
            };
            state.handling = Some(thread::current().id());
            drop(state);
            attendant.hand_over()?;
            let (source, message) = (delivery.source(), delivery.message());
            let handled = catch_unwind(AssertUnwindSafe(|| handler(source, message)));
            state = self.lock();
            state.handling = None;
            if let Err(payload) = handled {
                drop(state);
                return Err(ErrorKind::OperationPanicked {
                    place: Place::Collective,
                    message: said(payload),
                }
                .into());
            }
            state.handler = Some(handler);
            complete(state.member.handled(&mut mpb, delivery))?;
            self.settle(&mut state)?;
        }
        self.see_whether_over(&state)
    }
}

/// Returns the message of a panic.
fn said(payload: Box<dyn Any + Send>) -> String {
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => match payload.downcast_ref::<&str>() {
            Some(text) => (*text).to_owned(),
            None => "something that is no text".to_owned(),
        },
    }
}
