//! MPBs for algorithms that must not block the thread that runs them.

use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use mp_core::{Plain, mpb};
use mp_model::mpb::{Line, Mpb, NEWS};

use crate::calls::{Checked, Mark};
use crate::real::{RealError, RealMpb, at_once, done, real, set_with};

/// A rank's access to the MPBs of its world, in which waiting for a flag returns pending while the flag is not set. The
/// code that runs the algorithm finds that flag in its [`Waits`].
#[derive(Debug)]
pub struct PolledMpb {
    pub(crate) checked: Checked,
    polled: Arc<mpb::Polled>,
    waits: Arc<Waits>,
}

/// The place where an operation waits that uses several MPBs, one after the other.
#[derive(Debug)]
pub struct Waits(Mutex<Places>);

#[derive(Debug)]
struct Places {
    now: Arc<mpb::Polled>,
    all: Vec<Arc<mpb::Polled>>,
    /// How this rank has left all of them, if it has.
    left: Option<Left>,
}

/// How a rank leaves the MPBs of its operations while they are open.
#[derive(Clone, Copy, Debug)]
pub(super) enum Left {
    /// The other ranks get [`PeerLost`](mp_core::ErrorKind::PeerLost).
    Lost,
    /// The other ranks get [`Disconnected`](mp_core::ErrorKind::Disconnected).
    Closed,
}

impl Left {
    fn leave(self, mpb: &mpb::Mpb) {
        // In a world too broken for that, every other call fails as well.
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
    pub fn now(&self) -> Arc<mpb::Polled> {
        Arc::clone(&self.lock().now)
    }

    /// Leaves all MPBs, and each MPB that is opened later.
    pub(super) fn leave(&self, how: Left) {
        let all = {
            let mut places = self.lock();
            places.left = Some(how);
            places.all.clone()
        };
        all.iter().for_each(|polled| how.leave(polled.mpb()));
    }

    fn at(&self, polled: &Arc<mpb::Polled>) {
        let mut places = self.lock();
        if !Arc::ptr_eq(&places.now, polled) {
            places.now = Arc::clone(polled);
        }
    }
}

impl PolledMpb {
    /// Wraps MPBs that nothing else uses.
    pub fn new(mpb: mpb::Mpb) -> Self {
        Self::of_real(RealMpb::checked(mpb))
    }

    /// Does what [`new`](Self::new) does, with the state for comparing calls.
    pub(crate) fn of_real(real: RealMpb) -> Self {
        let (mpb, checked) = real.into_parts();
        let polled = Arc::new(mpb::Polled::new(mpb));
        let places =
            Places { now: Arc::clone(&polled), all: vec![Arc::clone(&polled)], left: None };
        PolledMpb { polled, checked, waits: Arc::new(Waits(Mutex::new(places))) }
    }

    /// Wraps further MPBs for the same operations. All ranks open them at the same call, if they reach it.
    pub fn among(mpb: mpb::Mpb, waits: &Arc<Waits>) -> Self {
        Self::among_real(RealMpb::checked(mpb), waits)
    }

    /// Does what [`among`](Self::among) does, with the state for comparing calls.
    pub(crate) fn among_real(real: RealMpb, waits: &Arc<Waits>) -> Self {
        let (mpb, checked) = real.into_parts();
        let waits = Arc::clone(waits);
        let (polled, left) = {
            let mut places = waits.lock();
            let first = Arc::clone(&places.all[0]);
            let polled = Arc::new(mpb::Polled::after(first, mpb));
            places.all.push(Arc::clone(&polled));
            (polled, places.left)
        };
        // The rank can have panicked while these were being opened.
        if let Some(how) = left {
            how.leave(polled.mpb());
        }
        PolledMpb { polled, checked, waits }
    }

    /// Wraps MPBs that are shared with other users, which alone are responsible for them.
    pub(super) fn shared(polled: &Arc<mpb::Polled>, waits: &Arc<Waits>) -> Self {
        let (polled, waits) = (Arc::clone(polled), Arc::clone(waits));
        PolledMpb { polled, checked: Checked::default(), waits }
    }

    /// Returns where operations on these MPBs wait.
    pub fn waits(&self) -> &Arc<Waits> {
        &self.waits
    }

    /// Begins a call.
    pub(crate) fn begin(&mut self, mark: Mark) {
        self.checked.begin(mark);
    }

    #[inline(always)]
    fn mpb(&self) -> &mpb::Mpb {
        self.polled.mpb()
    }

    #[inline(always)]
    fn compared(&mut self) -> (&mpb::Mpb, &mut Checked) {
        (self.polled.mpb(), &mut self.checked)
    }

    fn wait(
        &self,
        setter: Option<usize>,
        line: usize,
        reached: impl Fn(u64) -> bool,
    ) -> impl Future<Output = Result<u64, RealError>> {
        poll_fn(move |_| match self.polled.poll_flag(setter, line, &reached) {
            Poll::Ready(there) => Poll::Ready(there.map_err(RealError::from)),
            Poll::Pending => {
                self.waits.at(&self.polled);
                Poll::Pending
            }
        })
    }
}

/// Everything except the waits is done when it is called, as by [`RealMpb`](crate::RealMpb).
impl Mpb for PolledMpb {
    type Error = RealError;

    at_once!();

    #[inline]
    fn wait_flag(
        &mut self,
        line: usize,
        reached: impl Fn(u64) -> bool,
    ) -> impl Future<Output = Result<u64, RealError>> {
        self.wait(None, line, reached)
    }

    #[inline]
    fn wait_flag_from(
        &mut self,
        setter: usize,
        line: usize,
        reached: impl Fn(u64) -> bool,
    ) -> impl Future<Output = Result<u64, RealError>> {
        self.wait(Some(setter), line, reached)
    }
}
