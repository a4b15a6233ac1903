//! Who works a relay: a thread of its own, and the ranks of its node, if they are threads.
//!
//! A rank that waits works the relay meanwhile, if the world is not crowded. So no other thread must run between the rank and
//! the interconnect. The relay's own thread sees that ranks do this, and only looks from time to time whether they still do.
//! Before such a rank sleeps, it wakes that thread. In every world, a rank that has sent something to another node lets the
//! relay take it at once.

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc, Mutex, PoisonError, TryLockError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, Thread},
    time::{Duration, Instant},
};

use mp_core::bridge::{Bridge, Carrier};

use crate::{
    error::{Error, Result},
    interconnect::Interconnect,
    relay::{Look, Relay},
};

/// How long a thread without work looks for some before it sleeps between its looks.
const PATIENCE: Duration = Duration::from_millis(1);
/// The first and the longest sleep between two looks.
const SLEEP: [Duration; 2] = [Duration::from_micros(20), Duration::from_millis(1)];
/// The sleep between two looks whether ranks still work the relay.
const BY_RANKS: Duration = Duration::from_micros(100);
/// Each turn of a rank whose number is a multiple of this is a whole one. The relay's own thread takes whole turns only. The
/// number determines only how soon other nodes hear that ranks have ended.
const WHOLE: u64 = 16;
/// In each turn whose number is a multiple of this, a rank also looks for what ranks of this node have sent and given back. In
/// its other turns it only looks for what has arrived, which takes less time. What is sent need not wait for such a turn: its
/// sender lets the relay take it at once.
const OUTWARD: u64 = 4;

/// A relay whose turns several threads take.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// The relay's own thread.
    server: Thread,
    /// Whether a rank has gone to sleep since that thread's last look.
    rests: AtomicBool,
}

#[derive(Debug)]
struct State {
    /// `None` before and after the service.
    relay: Option<Relay>,
    /// How many turns ranks have taken.
    by_ranks: u64,
    /// Why a rank's turn has failed. No rank takes another one then.
    failed: Option<Error>,
}

impl Shared {
    /// Takes turns until all ranks of all nodes are gone.
    fn work(&self) -> Result<()> {
        let (mut idle, mut known) = (Idle::default(), 0);
        loop {
            let mut state = match self.state.try_lock() {
                Ok(state) => state,
                Err(TryLockError::Poisoned(_)) => return Err(Error::Panicked),
                Err(TryLockError::WouldBlock) => {
                    // A rank is at it. To sleep until it is done would take longer.
                    thread::yield_now();
                    continue;
                }
            };
            if let Some(error) = state.failed.take() {
                return Err(error);
            }
            let by_ranks = state.by_ranks != std::mem::replace(&mut known, state.by_ranks);
            // Relaxed: `unpark` orders it. A rank whose flag is seen too late wakes this thread again.
            let rests = self.rests.swap(false, Ordering::Relaxed);
            let Some(relay) = &mut state.relay else { return Ok(()) };
            let turn = relay.turn(Look::Whole)?;
            drop(state);
            if turn.over {
                return Ok(());
            }
            if by_ranks {
                idle = Idle::default();
            }
            // A long message may have been left behind by a rank that waits no more.
            match by_ranks && !rests && turn.pending == 0 {
                true => sleep(BY_RANKS),
                false => idle.after(turn.moved, turn.pending),
            }
        }
    }

    /// Lets a rank's thread do something with the relay, unless another thread does. `None` if it has not been done.
    fn by_rank<T>(&self, work: impl FnOnce(&mut Relay, &mut u64) -> Result<T>) -> Option<T> {
        // If a turn has panicked, the relay's own thread says so.
        let mut state = self.state.try_lock().ok()?;
        let State { relay: Some(relay), by_ranks, failed: failed @ None } = &mut *state else {
            return None;
        };
        match work(relay, by_ranks) {
            Ok(done) => Some(done),
            Err(error) => {
                *failed = Some(error);
                self.server.unpark();
                None
            }
        }
    }
}

impl Carrier for Shared {
    fn carry(&self) -> bool {
        let turn = self.by_rank(|relay, turns| {
            *turns += 1;
            let look = match *turns {
                turns if turns % WHOLE == 0 => Look::Whole,
                turns if turns % OUTWARD == 0 => Look::Both,
                _ => Look::Inward,
            };
            let turn = relay.turn(look)?;
            if turn.moved && look == Look::Inward {
                // What has arrived may have to be answered.
                *turns = turns.next_multiple_of(OUTWARD) - 1;
            }
            Ok(turn)
        });
        turn.is_some_and(|turn| turn.moved)
    }

    fn dispatch(&self) {
        if self.by_rank(|relay, _| relay.dispatch()).is_none() {
            // Another thread may have looked already.
            self.server.unpark();
        }
    }

    fn rest(&self) {
        self.rests.store(true, Ordering::Relaxed);
        self.server.unpark();
    }
}

/// Carries messages until all ranks of all nodes are gone. `by_ranks` says whether the ranks of this node are threads of this
/// process, which then help. Returns the connection, and whether a node was lost.
pub(crate) fn serve(
    connection: Box<dyn Interconnect>,
    bridge: Bridge,
    by_ranks: bool,
) -> (Box<dyn Interconnect>, Result<bool>) {
    let state = State { relay: None, by_ranks: 0, failed: None };
    let shared = Arc::new(Shared {
        state: Mutex::new(state),
        server: thread::current(),
        rests: AtomicBool::new(false),
    });
    if by_ranks {
        let carrier = Arc::downgrade(&shared);
        bridge.carry_by(carrier);
    }
    let state = || shared.state.lock().unwrap_or_else(PoisonError::into_inner);
    state().relay = Some(Relay::new(connection, bridge));
    let served = catch_unwind(AssertUnwindSafe(|| shared.work()));
    let relay = state().relay.take();
    let served = match served {
        Ok(served) => served,
        Err(panic) => {
            // The ranks, which may keep `shared`, must hear of it, and so must other nodes.
            drop(relay);
            resume_unwind(panic)
        }
    };
    let Some(mut relay) = relay else { unreachable!("only this function takes the relay") };
    let served = match served {
        Ok(()) => Ok(relay.has_lost()),
        Err(error) => relay.give_up().and(Err(error)),
    };
    (relay.end(), served)
}

/// How the relay's own thread waits for work.
#[derive(Debug, Default)]
struct Idle {
    /// Since when there is none.
    since: Option<Instant>,
    slept: Duration,
}

impl Idle {
    /// Waits for a moment after a turn, if that found nothing to do.
    fn after(&mut self, moved: bool, pending: usize) {
        // A library may send a long message only while it is called.
        if moved || pending > 0 {
            *self = Self::default();
            return thread::yield_now();
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() < PATIENCE {
            thread::yield_now();
            return;
        }
        self.slept = (2 * self.slept).clamp(SLEEP[0], SLEEP[1]);
        sleep(self.slept);
    }
}

/// Sleeps until a rank wakes this thread, or for this time.
#[expect(clippy::disallowed_methods, reason = "no rank waits here")]
fn sleep(time: Duration) {
    thread::park_timeout(time);
}
