//! MPBs for algorithms that must not block the thread that runs them.

use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use mp_core::Result;
use mp_core::mpb::{AsMpb, Ends, Mpb, Polled};

/// A rank's access to the MPBs of its world, in which waiting for a flag returns pending while the flag is not set. The
/// code that polls the algorithm finds that flag in its [`Waits`].
#[derive(Debug)]
pub struct PolledMpb {
    polled: Arc<Polled>,
    waits: Arc<Waits>,
}

/// The place where an operation waits. An operation may use several MPBs, one after the other, and channels beside them.
pub struct Waits(Mutex<Places>);

struct Places {
    now: Arc<Polled>,
    all: Vec<Arc<Polled>>,
    channels: Vec<Weak<dyn Leave>>,
    /// How this rank has left all of these MPBs, if it has.
    left: Option<Left>,
}

/// How a rank leaves the MPBs of its operations while they are open.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Left {
    /// The other ranks get [`PeerLost`](mp_core::ErrorKind::PeerLost).
    Lost,
    /// The other ranks get [`Disconnected`](mp_core::ErrorKind::Disconnected).
    Closed,
}

/// Channels that are left together with the MPBs.
pub(crate) trait Leave: Send + Sync {
    /// Closes the ends of this rank.
    fn leave(&self, how: Left);
}

impl Left {
    fn leave(self, mpb: &Mpb) {
        // If the world is too broken for that, every other call fails as well.
        let _ = match self {
            Left::Lost => mpb.abandon(),
            Left::Closed => mpb.leave(),
        };
    }
}

impl Waits {
    fn lock(&self) -> MutexGuard<'_, Places> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns where the operation waits, or where it last waited.
    pub fn now(&self) -> Arc<Polled> {
        Arc::clone(&self.lock().now)
    }

    /// Looks for a short time for the flag that the operation waits for, as [`Polled::look_shortly`] does.
    pub(super) fn look_shortly(&self) -> bool {
        self.lock().now.look_shortly()
    }

    /// Does the same for a shorter time, as [`Polled::look_briefly`] does.
    pub(super) fn look_briefly(&self) -> bool {
        self.lock().now.look_briefly()
    }

    /// Leaves all MPBs and channels, and those that are opened later.
    pub(crate) fn leave(&self, how: Left) {
        let (all, channels) = {
            let mut places = self.lock();
            places.left = Some(how);
            (places.all.clone(), std::mem::take(&mut places.channels))
        };
        channels.iter().filter_map(Weak::upgrade).for_each(|channels| channels.leave(how));
        all.iter().for_each(|polled| how.leave(polled.mpb()));
    }

    /// Leaves these channels together with the MPBs.
    pub(crate) fn add_channels(&self, channels: &Arc<impl Leave + 'static>) {
        let left = {
            let mut places = self.lock();
            let weak = Arc::downgrade(channels);
            places.channels.push(weak);
            places.left
        };
        if let Some(how) = left {
            channels.leave(how);
        }
    }

    /// Waits for ends of channels from now on.
    pub(crate) fn at_ends(&self, ends: &Arc<impl Ends + 'static>) {
        let first = self.first();
        let ends = Arc::downgrade(ends);
        first.await_ends(ends);
        self.at(&first);
    }

    /// Waits for these ends no longer.
    pub(crate) fn at_nothing(&self) {
        self.first().await_nothing();
    }

    fn first(&self) -> Arc<Polled> {
        Arc::clone(&self.lock().all[0])
    }

    fn at(&self, polled: &Arc<Polled>) {
        let mut places = self.lock();
        if !Arc::ptr_eq(&places.now, polled) {
            places.now = Arc::clone(polled);
        }
    }
}

impl PolledMpb {
    /// Wraps MPBs that nothing else uses.
    pub fn new(mpb: Mpb) -> Self {
        let polled = Arc::new(Polled::new(mpb));
        let places = Places {
            now: Arc::clone(&polled),
            all: vec![Arc::clone(&polled)],
            channels: Vec::new(),
            left: None,
        };
        PolledMpb { polled, waits: Arc::new(Waits(Mutex::new(places))) }
    }

    /// Wraps further MPBs for the same operations. All ranks open them at the same call, if they reach it.
    pub fn among(mpb: Mpb, waits: &Arc<Waits>) -> Self {
        let waits = Arc::clone(waits);
        let (polled, left) = {
            let mut places = waits.lock();
            let first = Arc::clone(&places.all[0]);
            let polled = Arc::new(Polled::after(first, mpb));
            places.all.push(Arc::clone(&polled));
            (polled, places.left)
        };
        // The rank may have panicked while these MPBs were being opened.
        if let Some(how) = left {
            how.leave(polled.mpb());
        }
        PolledMpb { polled, waits }
    }

    /// Wraps MPBs that are shared with other users, which are responsible for leaving them.
    pub(super) fn shared(polled: &Arc<Polled>, waits: &Arc<Waits>) -> Self {
        let (polled, waits) = (Arc::clone(polled), Arc::clone(waits));
        PolledMpb { polled, waits }
    }

    /// Returns where operations on these MPBs wait.
    pub fn waits(&self) -> &Arc<Waits> {
        &self.waits
    }
}

/// Everything except a wait is done by the time the method returns.
impl AsMpb for PolledMpb {
    #[inline(always)]
    fn as_mpb(&self) -> &Mpb {
        self.polled.mpb()
    }

    #[inline]
    fn wait(
        &self,
        setter: Option<usize>,
        line: usize,
        _together: bool,
        reached: impl Fn(u64) -> bool,
    ) -> impl Future<Output = Result<u64>> {
        poll_fn(move |_| {
            let there = self.polled.poll_flag(setter, line, &reached);
            if there.is_pending() {
                self.waits.at(&self.polled);
            }
            there
        })
    }

    #[inline]
    async fn wait_between(
        &self,
        before: Result<()>,
        setter: usize,
        line: usize,
        reached: impl Fn(u64) -> bool,
        then: impl FnOnce(u64) -> Result<()>,
    ) -> Result<()> {
        before?;
        then(self.wait(Some(setter), line, false, reached).await?)
    }
}

impl std::fmt::Debug for Waits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let places = self.lock();
        f.debug_struct("Waits").field("now", &places.now).field("left", &places.left).finish()
    }
}
