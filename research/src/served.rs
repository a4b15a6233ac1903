//! A rank whose single thread does everything: it broadcasts, and serves the others while it waits, as an interrupted
//! core of the SCC does.

use mp_core::mpb::MpbAccess;

use crate::sim::WaitForInterrupt;

use mp_collectives::broadcast::asynchronous::{
    AsyncError, AsyncOptions, AsyncOptionsError, Member, Progress, Sending,
};

/// A [`Member`] in one thread. Handlers run in it too, between steps.
///
/// A handler that takes long delays this rank in passing on what others send; nothing is lost.
#[derive(Debug)]
pub struct Served {
    member: Member,
    sources: Vec<usize>,
}

/// What keeps a rank from continuing, apart from the lack of arrivals.
#[derive(Clone, Copy)]
enum Waits {
    ForInterrupts,
    ForWindow(usize),
}

impl Served {
    /// Creates this rank's part, with the MPBs of these ranks.
    ///
    /// # Errors
    /// [`AsyncOptionsError`].
    pub fn new<M: MpbAccess>(mpb: &M, options: AsyncOptions) -> Result<Served, AsyncOptionsError> {
        Ok(Served::of(Member::new(mpb, options)?))
    }

    /// Wraps a member that was created otherwise.
    pub fn of(member: Member) -> Served {
        Served { member, sources: Vec::new() }
    }

    /// Returns the state of this rank.
    pub fn member(&self) -> &Member {
        &self.member
    }

    /// Broadcasts a message. Returns when its last chunk is in transit; messages that come in the meantime are handled.
    ///
    /// # Errors
    /// [`AsyncError`].
    pub async fn broadcast<M: WaitForInterrupt>(
        &mut self,
        mpb: &mut M,
        message: &[u8],
        handler: &mut impl AsyncFnMut(&mut M, usize, &[u8]),
    ) -> Result<(), AsyncError<M::Error>> {
        let mut sending = Sending::default();
        loop {
            self.serve(mpb, handler).await?;
            match self.member.send(mpb, message, &mut sending).await? {
                Progress::Done => return self.handle(mpb, handler).await,
                Progress::Busy => self.wait(mpb, Waits::ForInterrupts).await?,
                Progress::Window(rank) => self.wait(mpb, Waits::ForWindow(rank)).await?,
            }
        }
    }

    /// Does all pending work, without waiting.
    ///
    /// # Errors
    /// [`AsyncError`].
    pub async fn serve<M: WaitForInterrupt>(
        &mut self,
        mpb: &mut M,
        handler: &mut impl AsyncFnMut(&mut M, usize, &[u8]),
    ) -> Result<(), AsyncError<M::Error>> {
        loop {
            mpb.take_interrupts(&mut self.sources).await?;
            if self.sources.is_empty() {
                break;
            }
            for index in 0..self.sources.len() {
                self.member.receive(mpb, self.sources[index]).await?;
                // Delivers at once, as in algorithm 2, line 30. Otherwise a stream of interrupts would hold up all
                // handlers until the window is full.
                self.handle(mpb, handler).await?;
            }
            self.sources.clear();
        }
        self.handle(mpb, handler).await
    }

    /// Waits until there is something to do, and does it. That need not be a message to handle.
    ///
    /// # Errors
    /// [`AsyncError`].
    pub async fn serve_next<M: WaitForInterrupt>(
        &mut self,
        mpb: &mut M,
        handler: &mut impl AsyncFnMut(&mut M, usize, &[u8]),
    ) -> Result<(), AsyncError<M::Error>> {
        self.wait(mpb, Waits::ForInterrupts).await?;
        self.serve(mpb, handler).await
    }

    /// Announces that this rank broadcasts no more, and serves until no rank broadcasts.
    ///
    /// # Errors
    /// [`AsyncError`].
    pub async fn finish<M: WaitForInterrupt>(
        mut self,
        mpb: &mut M,
        handler: &mut impl AsyncFnMut(&mut M, usize, &[u8]),
    ) -> Result<(), AsyncError<M::Error>> {
        self.member.say_farewell();
        self.member.progress(mpb).await?;
        loop {
            self.serve(mpb, handler).await?;
            if self.member.is_over() {
                return Ok(());
            }
            self.wait(mpb, Waits::ForInterrupts).await?;
        }
    }

    async fn handle<M: WaitForInterrupt>(
        &mut self,
        mpb: &mut M,
        handler: &mut impl AsyncFnMut(&mut M, usize, &[u8]),
    ) -> Result<(), AsyncError<M::Error>> {
        self.member.progress(mpb).await?;
        while let Some(delivery) = self.member.next_delivery() {
            handler(mpb, delivery.source(), delivery.message()).await;
            self.member.handled(mpb, delivery).await?;
        }
        Ok(())
    }

    async fn wait<M: WaitForInterrupt>(
        &mut self,
        mpb: &mut M,
        waits: Waits,
    ) -> Result<(), AsyncError<M::Error>> {
        if self.member.awaited().is_none() && self.member.is_queued() {
            return self.member.progress(mpb).await;
        }
        // As in algorithm 2, a rank that has published something looks at its children's flags at once, not when the
        // MPB is wanted again.
        let flag_of = match (self.member.awaited(), waits) {
            (Some(child), _) => Some(child),
            (None, Waits::ForWindow(rank)) => Some(rank),
            (None, Waits::ForInterrupts) => None,
        };
        let Some(rank) = flag_of else { return Ok(mpb.wait_interrupt().await?) };
        let line = self.member.flag_of(rank);
        let said = self.member.said(rank);
        if let Some(value) = mpb.wait_flag_or_interrupt(line, |value| value != said).await? {
            self.member.saw(rank, value);
        }
        self.member.progress(mpb).await
    }
}
