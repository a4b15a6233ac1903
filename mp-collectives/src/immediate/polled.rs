//! MPBs as algorithms see them that must not block the thread that runs them.

use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use mp_core::{Plain, mpb};
use mp_model::mpb::{Line, Mpb};

use crate::real::{RealError, RealMpb};

/// A rank's access to the MPBs of its world, whose waits for flags are pending while the flag is not
/// there. Whoever runs the algorithm finds in its [`Waits`] which flag that is.
#[derive(Debug)]
pub struct PolledMpb {
    polled: Arc<mpb::Polled>,
    waits: Arc<Waits>,
}

/// Where an operation waits that uses several MPBs, one after the other.
#[derive(Debug)]
pub struct Waits(Mutex<Places>);

#[derive(Debug)]
struct Places {
    now: Arc<mpb::Polled>,
    all: Vec<Arc<mpb::Polled>>,
}

impl Waits {
    fn lock(&self) -> MutexGuard<'_, Places> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where it waits, or did last.
    pub fn now(&self) -> Arc<mpb::Polled> {
        Arc::clone(&self.lock().now)
    }

    /// All MPBs.
    pub fn all(&self) -> Vec<Arc<mpb::Polled>> {
        self.lock().all.clone()
    }

    fn at(&self, polled: &Arc<mpb::Polled>) {
        let mut places = self.lock();
        if !Arc::ptr_eq(&places.now, polled) {
            places.now = Arc::clone(polled);
        }
    }
}

impl PolledMpb {
    /// Of buffers that nothing else uses.
    pub fn new(mpb: mpb::Mpb) -> Self {
        let polled = Arc::new(mpb::Polled::new(mpb));
        let places = Places { now: Arc::clone(&polled), all: vec![Arc::clone(&polled)] };
        PolledMpb { polled, waits: Arc::new(Waits(Mutex::new(places))) }
    }

    /// Of further buffers for the same operations.
    pub fn among(mpb: mpb::Mpb, waits: &Arc<Waits>) -> Self {
        let (polled, waits) = (Arc::new(mpb::Polled::new(mpb)), Arc::clone(waits));
        waits.lock().all.push(Arc::clone(&polled));
        PolledMpb { polled, waits }
    }

    /// Where operations on these wait.
    pub fn waits(&self) -> &Arc<Waits> {
        &self.waits
    }

    /// All but the waits is done at once, as on [`RealMpb`].
    #[inline(always)]
    fn at_once(&self) -> RealMpb<&mpb::Mpb> {
        RealMpb::new(self.polled.mpb())
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

impl Mpb for PolledMpb {
    type Error = RealError;

    #[inline]
    fn rank(&self) -> usize {
        self.polled.mpb().rank()
    }

    #[inline]
    fn ranks(&self) -> usize {
        self.polled.mpb().ranks()
    }

    #[inline]
    fn lines(&self) -> usize {
        self.polled.mpb().lines()
    }

    #[inline]
    fn line_bytes(&self) -> usize {
        self.polled.mpb().line_bytes()
    }

    #[inline]
    async fn put(&mut self, source: &[u8], to: Line) -> Result<(), RealError> {
        self.at_once().put(source, to).await
    }

    #[inline]
    async fn put_own(&mut self, from: usize, count: usize, to: Line) -> Result<(), RealError> {
        self.at_once().put_own(from, count, to).await
    }

    #[inline]
    async fn get(&mut self, from: Line, target: &mut [u8]) -> Result<(), RealError> {
        self.at_once().get(from, target).await
    }

    #[inline]
    async fn get_with<T: Plain>(
        &mut self,
        from: Line,
        target: &mut [T],
        combine: impl Fn(T, T) -> T,
    ) -> Result<(), RealError> {
        self.at_once().get_with(from, target, combine).await
    }

    #[inline]
    async fn pass_with<T: Plain>(
        &mut self,
        from: Line,
        target: &mut [T],
        combine: impl Fn(T, T) -> T,
        to: Line,
    ) -> Result<(), RealError> {
        self.at_once().pass_with(from, target, combine, to).await
    }

    #[inline]
    async fn get_own(&mut self, from: Line, count: usize, to: usize) -> Result<(), RealError> {
        self.at_once().get_own(from, count, to).await
    }

    #[inline]
    async fn set_flag(&mut self, flag: Line, value: u64) -> Result<(), RealError> {
        self.at_once().set_flag(flag, value).await
    }

    #[inline]
    async fn set_flag_with(
        &mut self,
        flag: Line,
        value: u64,
        payload: &[u8],
    ) -> Result<(), RealError> {
        self.at_once().set_flag_with(flag, value, payload).await
    }

    #[inline]
    async fn set_flags_with(
        &mut self,
        first: Line,
        value: u64,
        payload: &[u8],
    ) -> Result<(), RealError> {
        self.at_once().set_flags_with(first, value, payload).await
    }

    #[inline]
    async fn flag(&mut self, line: usize) -> Result<u64, RealError> {
        self.at_once().flag(line).await
    }

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

    #[inline]
    async fn flag_payload(&mut self, line: usize, target: &mut [u8]) -> Result<(), RealError> {
        self.at_once().flag_payload(line, target).await
    }

    #[inline]
    async fn flag_payloads(&mut self, first: usize, target: &mut [u8]) -> Result<(), RealError> {
        self.at_once().flag_payloads(first, target).await
    }
}
