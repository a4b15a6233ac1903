//! The real world, as algorithms see it: a [`Place`] in a region of all ranks.

use std::time::Duration;

use super::{
    place::{Place, head},
    site::{Limit, Mortal, Seat, Site, Word, seat},
    stop::Stop,
    turns,
};

/// The shortest time between two looks at a condition whose change wakes no seat.
const SHORTEST_NAP: Duration = Duration::from_micros(50);
const LONGEST_NAP: Duration = Duration::from_millis(1);

impl Place {
    #[cold]
    fn missing(&self, ends: u32) -> Option<Stop> {
        // A thread that outlives its rank's code may still begin an operation. This comes first, because the following
        // checks look at the last mark of each rank: a rank that writes another mark after them and is then released
        // still counts as restless here.
        let restless = |rank: usize| self.region.is_gone(rank) && !self.region.is_released(rank);
        let is_restless = (0..self.region.ranks()).any(restless);
        if let Some(lost) = self.lost() {
            return Some(lost);
        }
        if self.is_stuck() || self.void().load() != 0 {
            return Some(Stop::Void);
        }
        // The healer is read after the stuck seats, because a healer registers before it releases them.
        if !is_restless && self.healer().load() == 0 {
            self.whole.set(ends);
        }
        None
    }

    /// Looks once, and calls `in_vain` if nothing was found. Returns the reason if nothing will ever come.
    #[inline(always)]
    fn poll<T>(
        &self,
        mut poll: impl FnMut() -> Option<T>,
        in_vain: impl FnOnce(),
    ) -> Option<Result<T, Stop>> {
        if let Some(answer) = poll() {
            return Some(Ok(answer));
        }
        in_vain();
        let broken = self.broken()?;
        // If the lost seat had finished before, its result is visible by now.
        Some(poll().ok_or(broken))
    }

    /// Waits after a look that found nothing.
    #[inline(never)]
    fn wait_on<T>(
        &self,
        me: Seat,
        on: Option<Seat>,
        watched: &Word,
        mut poll: impl FnMut() -> Option<T>,
    ) -> Result<T, Stop> {
        let on = on.map(|seat| self.rank_of(seat));
        let mut observed = turns::Observed::default();
        let answer = self
            .region
            .wait(me, on, Some(watched), || self.poll(&mut poll, || observed.look(self)))?;
        observed.end(self, me);
        answer
    }
}

impl Mortal for Place {
    fn seats(&self) -> usize {
        self.all_seats()
    }

    #[inline(always)]
    fn mark(&self, seat: Seat) -> &Word {
        &self.seat(seat)[seat::MARK]
    }

    #[inline(always)]
    fn come(&self, me: Seat) -> &Word {
        let mark = self.mark(me);
        mark.store(seat::APPROACHES);
        mark
    }

    fn is_dead(&self, seat: Seat) -> bool {
        let rank = self.rank_of(seat);
        self.region.is_dead(rank) || self.region.is_released(rank)
    }

    /// Returns the loss of a rank that is a thread, and so does not die. If the rank has leaked a guard, it never gives
    /// up the value, and no other rank can take it away. Another thread of the rank may still leave the section. But a
    /// seat that learns of the loss gives up its place, and all seats behind it would wait forever, so every seat that
    /// looks afterwards learns of the loss.
    ///
    /// A rank that is a process either dies soon after it is gone, or leaves the section.
    fn lost(&self) -> Option<Stop> {
        if let Some(rank) = self.region.given_up() {
            return Some(Stop::Lost(rank));
        }
        if !self.region.is_in_one_process() {
            return None;
        }
        let first = |is_missing: &dyn Fn(usize) -> bool| {
            (0..self.all_seats())
                .filter(|&seat| is_missing(self.rank_of(seat)))
                // The mark is read after the rank was found missing, so it is the rank's last mark.
                .find(|&seat| seat::kind(self.mark(seat).load()) == seat::ENTERED)
                .map(|seat| self.rank_of(seat))
        };
        // A rank that gave up because another was lost may have left as well, so lost ranks are sought first.
        let lost = first(&|rank| self.region.is_lost(rank));
        let rank = lost.or_else(|| first(&|rank| self.region.is_gone(rank)))?;
        if let Err(error) = self.region.give_up(rank) {
            return Some(error.into());
        }
        Some(Stop::Lost(self.region.given_up().unwrap_or(rank)))
    }

    fn healer(&self) -> &Word {
        self.head(head::HEALER)
    }

    fn void(&self) -> &Word {
        self.head(head::VOID)
    }

    #[inline(always)]
    fn broken(&self) -> Option<Stop> {
        let ends = self.region.ends();
        if ends == self.whole.get() { None } else { self.missing(ends) }
    }

    fn linger<T>(
        &self,
        me: Seat,
        limit: Option<&Limit>,
        mut poll: impl FnMut() -> Option<T>,
    ) -> Result<Option<T>, Stop> {
        let mut nap = SHORTEST_NAP;
        loop {
            let wait = limit.map_or(nap.into(), |limit| limit.at_most(nap));
            if let Some(answer) = self.region.wait_with(me, None, wait, &mut poll)? {
                return Ok(Some(answer));
            }
            if limit.is_some_and(Limit::is_over) {
                return Ok(None);
            }
            nap = (2 * nap).min(LONGEST_NAP);
        }
    }
}

impl Site for Place {
    type Word = Word;

    #[inline(always)]
    fn word(&self, index: usize) -> Result<&Word, Stop> {
        self.region.words().get(index).ok_or(Stop::Corrupt)
    }

    #[inline(always)]
    fn words(&self, first: usize, count: usize) -> Result<&[Word], Stop> {
        let end = first.checked_add(count).ok_or(Stop::Corrupt)?;
        self.region.words().get(first..end).ok_or(Stop::Corrupt)
    }

    #[inline(always)]
    fn wait<T>(
        &self,
        me: Seat,
        on: Option<Seat>,
        watched: &Word,
        mut poll: impl FnMut() -> Option<T>,
    ) -> Result<T, Stop> {
        match poll() {
            Some(answer) => Ok(answer),
            None => self.wait_on(me, on, watched, poll),
        }
    }

    fn wait_until<T>(
        &self,
        me: Seat,
        watched: &Word,
        limit: &Limit,
        mut poll: impl FnMut() -> Option<T>,
    ) -> Result<Option<T>, Stop> {
        let look = || self.poll(&mut poll, || ());
        self.region.wait_with(me, Some(watched), limit.left(), look)?.transpose()
    }

    #[inline(always)]
    fn approach(&self, me: Seat) {
        self.seat(me)[seat::MARK].store(seat::APPROACHES);
    }

    #[inline(always)]
    fn begin(&self, me: Seat, request: u64) {
        // The mark comes before everything that the operation writes, so that others see it if they find this rank
        // dead.
        self.seat(me)[seat::MARK].note(seat::entered(request));
    }

    #[inline(always)]
    fn leave(&self, me: Seat) {
        self.seat(me)[seat::MARK].store(0);
    }

    fn gone(&self, seat: Seat) -> Option<Stop> {
        let rank = self.rank_of(seat);
        self.region.is_gone(rank).then_some(Stop::Lost(rank))
    }

    #[inline(always)]
    fn take_turn(&self, me: Seat) {
        if turns::are_taken(self, self.head(head::TURNS)) {
            turns::take(self, self.head(head::TURN), me);
        }
    }

    #[inline(always)]
    fn end_turn(&self, me: Seat) {
        if self.waits.has_turn() {
            turns::end(self, self.head(head::TURN), me);
        }
    }

    #[inline(always)]
    fn wake(&self, seat: Seat) {
        self.region.wake(self.rank_of(seat), seat);
    }

    fn wake_all(&self) {
        self.region.wake_all();
    }

    #[inline(always)]
    fn wake_server(&self) {
        // A rank that begins to serve now either sees the request or is seen here.
        self.region.fence();
        let server = self.head(head::SERVER).load_relaxed();
        if server == 0 {
            self.first_seat(self.region.rank())[seat::ASKED].store(1);
        } else if server & head::LEFT == 0 {
            self.wake((server as usize - 1).saturating_mul(self.seats));
        }
        // Otherwise the server has left. A server that comes next looks for requests by itself.
    }

    #[inline(always)]
    fn unserved(&self) -> bool {
        match self.head(head::SERVER).load() {
            0 => self.nobody_comes(),
            server => {
                let served = server & head::LEFT == 0;
                !(served && self.region.ends() == 0) && self.nobody_serves(server)
            }
        }
    }

    #[inline(always)]
    fn begin_wait(&self) -> bool {
        self.head(head::SERVER).load_relaxed() == 0 && self.wait_for_the_first()
    }

    #[cold]
    fn end_wait(&self) {
        let waits = self.awaits_first.get().saturating_sub(1);
        self.awaits_first.set(waits);
        if waits == 0 {
            self.crew().fetch_add(1u64.wrapping_neg());
        }
    }

    #[inline(always)]
    fn spins(&self) -> bool {
        self.region.looks() > 0
    }

    #[inline(always)]
    fn fence(&self) {
        self.region.fence();
    }
}
