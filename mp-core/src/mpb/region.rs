//! Regions: the MPBs of one name, used as one piece of memory that belongs to no rank. A region consists of words,
//! followed by plain data. The protected values of `mp-delegate` and the decisions of a communicator's ranks lie in
//! regions. In this module, a rank's number is its place among the ranks of the region.
//!
//! A thread waits for a word at a *place*. This is a number that the writer of the word must know: see [`Region::wait`]
//! and [`Region::wake`].

use std::{fmt, ops::Deref, ptr::NonNull, sync::Arc, time::Duration};

use super::{descriptor::is_there, mark::Sleeper, opened::Opened, spec::Mpbs};
use crate::{
    context::Namespace,
    costs,
    error::{Error, ErrorKind, Result},
    line::LINE_BYTES,
    sync::{AtomicU32, Ordering},
    wait::{Asymmetry, Caller, Doing, Flag, Operation, Wait, nap},
    word::Word,
    world::Rank,
};

/// The alignment of the bytes behind the words.
const GRAIN: usize = 128;
/// How long to poll before a wait that may sleep, where ranks share cores. A rank on another core may be about to write
/// the awaited word, and a switch to another rank and back takes as long as this.
const LEAST: Duration = Duration::from_micros(1);

/// One piece of memory that several ranks open by one name: words that start as zeros, followed by bytes. A clone is
/// another handle of the same region, and does not open it again.
#[derive(Clone)]
pub struct Region {
    pub(super) opened: Arc<Opened>,
    /// Whether some of the ranks are on other nodes.
    crosses: bool,
    /// The first word of `opened`. It is copied here because calls use it often.
    first: NonNull<Word>,
    asymmetry: Asymmetry,
    words: usize,
    bytes: usize,
    looks: Arc<AtomicU32>,
    /// [`LEAST`], as a number of looks.
    least: u32,
    waits: Arc<AtomicU32>,
    caller: Option<Arc<dyn Caller>>,
}

// SAFETY: the pointer leads to atomics, which `opened` keeps mapped, whichever thread uses them.
unsafe impl Send for Region {}
// SAFETY: shared references give access to the words, which are atomics, and to the bare address of the bytes.
unsafe impl Sync for Region {}

/// A word of a [`Region`], found once for repeated use. It keeps the region open.
#[derive(Clone)]
pub struct KeptWord {
    word: NonNull<Word>,
    _opened: Arc<Opened>,
}

// SAFETY: the pointer leads to an atomic, which `_opened` keeps mapped, whichever thread uses it.
unsafe impl Send for KeptWord {}
// SAFETY: shared references give access to the word only, which is an atomic.
unsafe impl Sync for KeptWord {}

impl Deref for KeptWord {
    type Target = Word;

    #[inline(always)]
    fn deref(&self) -> &Word {
        // SAFETY: `Region::keep` found the word in the region. It stays valid because `_opened` keeps the region open.
        unsafe { self.word.as_ref() }
    }
}

impl fmt::Debug for KeptWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Word::fmt(self, f)
    }
}

/// Returns the number of lines of each of the ranks of a region. Returns `None` if the region is too long.
pub(crate) fn lines_of((words, bytes): (usize, usize), ranks: usize) -> Option<usize> {
    let before = words.checked_mul(size_of::<Word>())?.checked_next_multiple_of(GRAIN)?;
    Some(before.checked_add(bytes)?.div_ceil(LINE_BYTES).div_ceil(ranks.max(1)).max(1))
}

impl Region {
    /// Opens a region of `words` words and `bytes` bytes, all zeros at first, by a name in the namespace. Calls of its
    /// ranks pair up as for [`Rank::mpb`].
    ///
    /// # Errors
    /// As [`Rank::mpb`]. Different lengths are an [`MpbMismatch`](crate::ErrorKind::MpbMismatch) only if the numbers of
    /// lines differ, too.
    pub fn open(
        rank: &Rank,
        namespace: Namespace,
        name: &str,
        words: usize,
        bytes: usize,
    ) -> Result<Self> {
        let all: Vec<usize> = (0..rank.size()).collect();
        Self::open_of(rank, namespace, name, &all, words, bytes)
    }

    /// Works like [`open`](Self::open), for some ranks of the world, this one among them. Their calls pair up as for
    /// [`Rank::mpb_of`].
    ///
    /// # Errors
    /// As `open`, and those of [`Rank::mpb_of`].
    pub fn open_of(
        rank: &Rank,
        namespace: Namespace,
        name: &str,
        ranks: &[usize],
        words: usize,
        bytes: usize,
    ) -> Result<Self> {
        Self::open_by(rank, namespace.mpbs(Mpbs::lines(1)), name, ranks, (words, bytes))
    }

    /// Works like [`open_of`](Self::open_of), with these settings of MPBs, whose number of lines does not matter.
    pub(super) fn open_by(
        rank: &Rank,
        mpbs: Mpbs,
        name: &str,
        ranks: &[usize],
        (words, bytes): (usize, usize),
    ) -> Result<Self> {
        let too_long =
            || Error::from(ErrorKind::BadMpbs { mpbs: name.into(), reason: "too long".to_owned() });
        let each = lines_of((words, bytes), ranks.len()).ok_or_else(too_long)?;
        let mpbs = Mpbs { growth: Mpbs::lines(each).growth, ..mpbs };
        let opened = Opened::open(Arc::clone(rank.context()), name, ranks, mpbs)?;
        let looks = Arc::new(AtomicU32::new(opened.context.looks()));
        let (first, asymmetry) = (opened.whole().cast(), opened.context.waiting.asymmetry);
        let (opened, waits, crosses) = (Arc::new(opened), Arc::default(), mpbs.crosses);
        let least = costs::looks(LEAST);
        Ok(Self {
            opened,
            crosses,
            first,
            asymmetry,
            words,
            bytes,
            looks,
            least,
            waits,
            caller: None,
        })
    }

    /// Makes reports tell which call waits, for waits in this region and in clones that are made later.
    pub fn set_caller(&mut self, caller: Arc<dyn Caller>) {
        self.caller = Some(caller);
    }

    /// Returns whether another rank has opened a region by this name that this rank is a member of and has not opened.
    ///
    /// # Errors
    /// [`Segment`](crate::ErrorKind::Segment) for a broken segment.
    pub fn is_there(rank: &Rank, namespace: Namespace, name: &str) -> Result<bool> {
        is_there(rank.context(), name, namespace)
    }

    /// Returns the words of the region.
    #[inline(always)]
    pub fn words(&self) -> &[Word] {
        // SAFETY: `open_of` asked for enough lines for these words. A line consists of words, and zeros are valid
        // words.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.words) }
    }

    /// Finds a word for repeated use. Returns `None` if there is no word of this number.
    pub fn keep(&self, index: usize) -> Option<KeptWord> {
        let word = NonNull::from(self.words().get(index)?);
        Some(KeptWord { word, _opened: Arc::clone(&self.opened) })
    }

    /// Returns the address and the number of the bytes behind the words. They are aligned to 128 bytes. They are
    /// readable and writable as long as the region or a clone is open; the region does not control who accesses them.
    #[inline(always)]
    pub fn bytes(&self) -> (NonNull<u8>, usize) {
        let before = (self.words * size_of::<Word>()).next_multiple_of(GRAIN);
        // SAFETY: `open_of` asked for enough lines for `before` and the bytes, so the sum is within the region.
        (unsafe { self.first.cast::<u8>().add(before) }, self.bytes)
    }

    /// Returns the rank that opened the region.
    #[inline]
    pub fn rank(&self) -> usize {
        self.opened.me
    }

    /// Returns the number of ranks of the region.
    #[inline]
    pub fn ranks(&self) -> usize {
        self.opened.ranks
    }

    /// Returns a number that distinguishes the region from all others that are open in this process, in any world.
    #[inline]
    pub fn id(&self) -> u64 {
        self.first.addr().get() as u64
    }

    /// Returns a number that distinguishes the region from all others that were ever opened in the world. It is the
    /// same in all processes.
    pub fn serial(&self) -> u64 {
        self.opened.serial()
    }

    /// Returns whether all ranks are threads of this process.
    pub fn is_in_one_process(&self) -> bool {
        let world = self.opened.context.world();
        world.is_ok_and(|world| world.processes.load(Ordering::Relaxed) == 0)
    }

    /// Returns the region's name, as it was given.
    pub fn name(&self) -> &str {
        &self.opened.name
    }

    /// Returns a word that changes when a rank leaves. A rank that sees a change also sees what the rank that left had
    /// done.
    #[inline(always)]
    pub fn ends(&self) -> u32 {
        self.opened.ends()
    }

    /// Tells all ranks that the region's contents are given up because of a rank. As a result, [`ends`](Self::ends)
    /// changes. Only the first call has an effect.
    ///
    /// # Errors
    /// [`NoSuchRank`](crate::ErrorKind::NoSuchRank), and [`Segment`](crate::ErrorKind::Segment) for a broken segment.
    pub fn give_up(&self, rank: usize) -> Result<()> {
        Ok(self.opened.give_up(self.opened.world_rank(rank)?)?)
    }

    /// Returns the rank because of which the region is given up.
    pub fn given_up(&self) -> Option<usize> {
        self.opened.member(self.opened.given_up()?)
    }

    /// Returns whether the rank has closed the region, or ended.
    pub fn is_gone(&self, rank: usize) -> bool {
        self.world_rank(rank).is_some_and(|rank| self.opened.is_gone(rank))
    }

    /// Returns whether the rank ended before it closed the region, by a panic or a death.
    pub fn is_lost(&self, rank: usize) -> bool {
        self.world_rank(rank).is_some_and(|rank| self.opened.is_lost(rank))
    }

    /// Returns whether no thread of the rank can access the region any more. A rank that is merely gone may still have
    /// threads that do.
    pub fn is_released(&self, rank: usize) -> bool {
        self.world_rank(rank).is_some_and(|rank| self.opened.is_released(rank))
    }

    /// Returns whether no thread of the rank runs any more.
    pub fn is_dead(&self, rank: usize) -> bool {
        self.world_rank(rank).is_some_and(|rank| self.opened.context.dead(rank as u32))
    }

    /// Returns the number in the world of one of the region's ranks.
    fn world_rank(&self, rank: usize) -> Option<usize> {
        self.opened.world_rank(rank).ok().map(|rank| rank as usize)
    }

    /// Wakes the threads of the rank that wait at the place. Must be called after the word that they wait for was
    /// written.
    #[inline(always)]
    pub fn wake(&self, rank: usize, place: usize) {
        let Some(mark) = self.opened.checked_mark(rank) else { return };
        mark.attend(self.asymmetry, place, || self.opened.ring(rank));
    }

    /// Orders the store before the call and the load after it. A thread in [`wait`](Self::wait) does the same between
    /// the mark that it sleeps and its last look. Therefore, at least one of the two threads sees the other's store.
    #[inline(always)]
    pub fn fence(&self) {
        self.asymmetry.light();
    }

    /// Wakes all waiting threads.
    pub fn wake_all(&self) {
        for rank in 0..self.ranks() {
            self.opened.ring(rank);
        }
    }

    /// Returns how many times to poll before a wait that may sleep. The number is 0 in a crowded world, where ranks
    /// share cores.
    #[inline(always)]
    pub fn looks(&self) -> u32 {
        self.looks.load(Ordering::Relaxed)
    }

    /// Gives up the core for this time, whatever happens meanwhile. This lets a rank run for which this rank does not
    /// wait.
    pub fn nap(&self, time: Duration) {
        nap(time);
    }

    /// Waits until `poll` returns something, at the place that [`wake`](Self::wake) names. `on` is the rank that this
    /// rank waits for, for reports. The call also polls when a rank leaves, so `poll` must check everything that can
    /// end the wait. `watched` is the awaited word, if there is one.
    ///
    /// # Errors
    /// [`Segment`](crate::ErrorKind::Segment) for a broken segment.
    #[inline(always)]
    pub fn wait<T>(
        &self,
        place: usize,
        on: Option<usize>,
        watched: Option<&Word>,
        mut poll: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        match costs::look(self.looks().max(self.least), &mut poll) {
            Some(answer) => Ok(answer),
            None => Self::wait_for_any(&[(self, place)], on, watched, None, poll),
        }
    }

    /// Returns a number that distinguishes a wait from the rank's other waits, for [`raise`](Self::raise).
    pub fn next_wait(&self) -> u32 {
        self.waits.fetch_add(1, Ordering::Relaxed)
    }

    /// Requests that the rank's doorbell is rung when this place is [woken](Self::wake). `number` is that of a wait
    /// that the caller performs itself.
    pub fn raise(&self, place: usize, number: u32) {
        self.sleeper(place, number).raise();
    }

    /// Withdraws the request of [`raise`](Self::raise).
    pub fn lower(&self, place: usize, number: u32) {
        self.sleeper(place, number).lower();
    }

    /// Returns what a report shows of a wait that the caller performs itself.
    pub fn awaits(&self, place: usize) -> (Operation, Vec<u64>) {
        let further = self.sleeper(place, 0).further();
        (Operation::Flag, [vec![self.opened.place()], further].concat())
    }

    /// Returns the program's name for the call that waits, if the region has a [caller](Self::set_caller). `operation`
    /// is passed to the caller.
    pub fn call(&self, operation: Option<&str>) -> Option<String> {
        self.caller.as_ref()?.call(operation)
    }

    fn sleeper(&self, place: usize, number: u32) -> Sleeper<'_> {
        Sleeper::new(self.opened.mark(self.opened.me), place, number, None)
    }

    /// Works like [`wait`](Self::wait), for as long as `wait` says. Returns `None` on timeout. Failures of the rank's
    /// other pending operations never end this wait, even if `wait` has [`or_failure`](Wait::or_failure).
    ///
    /// # Errors
    /// As `wait`.
    pub fn wait_with<T>(
        &self,
        place: usize,
        watched: Option<&Word>,
        wait: impl Into<Wait>,
        mut poll: impl FnMut() -> Option<T>,
    ) -> Result<Option<T>> {
        if let Some(answer) = poll() {
            return Ok(Some(answer));
        }
        Self::wait_once(&[(self, place)], (None, None), watched, wait.into(), &mut poll)
    }

    /// Works like [`wait`](Self::wait), at a place in each of several regions of the same rank. There must be at least
    /// one region. `operation` is passed to the [caller](Self::set_caller) of the first region, for reports.
    ///
    /// # Errors
    /// As `wait`.
    #[cold]
    pub fn wait_for_any<T>(
        regions: &[(&Self, usize)],
        on: Option<usize>,
        watched: Option<&Word>,
        operation: Option<&str>,
        mut poll: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        loop {
            let forever = Wait::forever();
            if let Some(answer) =
                Self::wait_once(regions, (on, operation), watched, forever, &mut poll)?
            {
                return Ok(answer);
            }
        }
    }

    fn wait_once<T>(
        regions: &[(&Self, usize)],
        (on, operation): (Option<usize>, Option<&str>),
        watched: Option<&Word>,
        wait: Wait,
        poll: &mut impl FnMut() -> Option<T>,
    ) -> Result<Option<T>> {
        let nothing =
            || Error::from(ErrorKind::BadCall { reason: "a wait in no region".to_owned() });
        let (first, _) = regions.first().ok_or_else(nothing)?;
        let context = &first.opened.context;
        let on = on.and_then(|rank| first.world_rank(rank));
        let sleepers: Vec<_> = regions
            .iter()
            .map(|(region, place)| {
                let opened = &region.opened;
                region.looks.store(context.looks(), Ordering::Relaxed);
                let number = region.next_wait();
                Sleeper::new(opened.mark(opened.me), *place, number, on)
            })
            .collect();
        let doing = Doing { operation: Operation::Flag, channel: first.opened.place() };
        let watched = watched.map_or(std::ptr::null(), std::ptr::from_ref).cast();
        let wait = wait.despite_failure();
        let sleepers = Sleepers { all: &sleepers, region: first, operation };
        Ok(context.wait(wait, doing, watched, &sleepers, poll)?)
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region")
            .field("name", &self.name())
            .field("words", &self.words)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

/// A wait in several regions.
struct Sleepers<'a> {
    all: &'a [Sleeper<'a>],
    /// The first of the regions.
    region: &'a Region,
    operation: Option<&'a str>,
}

impl Flag for Sleepers<'_> {
    fn raise(&self) {
        self.all.iter().for_each(Sleeper::raise);
    }

    fn lower(&self) {
        self.all.iter().for_each(Sleeper::lower);
    }

    fn further(&self) -> Vec<u64> {
        self.all.first().map(Flag::further).unwrap_or_default()
    }

    fn ends_here(&self) -> bool {
        !self.region.crosses
    }

    fn call(&self) -> Option<String> {
        self.region.call(self.operation)
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;
    use crate::{WaitPolicy, World};

    const NAMES: Namespace = Namespace::new("tests");

    #[test]
    fn a_region_is_as_long_as_it_was_asked_for() {
        let rank = World::solo().unwrap();
        for (words, bytes) in [(0, 0), (1, 0), (15, 1), (16, 127), (17, 128), (1000, 100_000)] {
            let region = Region::open(&rank, NAMES, "region", words, bytes).unwrap();
            assert_eq!(region.words().len(), words);
            assert!(region.words().iter().all(|word| word.load_relaxed() == 0));
            let (first, len) = region.bytes();
            assert_eq!((first.addr().get() % GRAIN, len), (0, bytes));
            let behind = region.words().as_ptr_range().end as usize;
            assert!((behind..behind + GRAIN).contains(&first.addr().get()));
            // SAFETY: the bytes belong to the region, and no other thread uses the region.
            unsafe { first.write_bytes(0xee, len) };
            assert!(region.words().iter().all(|word| word.load_relaxed() == 0));
            assert_eq!(region.name(), "region");
        }
        for (words, bytes) in [(usize::MAX, 0), (1 << 61, 0), (8, usize::MAX)] {
            assert!(Region::open(&rank, NAMES, "region", words, bytes).is_err());
        }
        // A region and MPBs of the same name are different objects.
        let region = Region::open(&rank, NAMES, "name", 1, 0).unwrap();
        let mpb = rank.mpb("name", Mpbs::lines(2)).unwrap();
        region.words()[0].store(7);
        assert_eq!(mpb.flag(0).unwrap(), 0);
    }

    /// The region's own numbers are places among its ranks. Reports show numbers of the world.
    #[test]
    fn a_region_of_some_ranks_is_given_up_and_waited_for_by_place() {
        let ran = World::threads(3).run(|rank| {
            if rank.id() == 0 {
                return Ok(());
            }
            let region = Region::open_of(rank, NAMES, "region", &[1, 2], 1, 0)?;
            assert_eq!(region.rank(), rank.id() - 1);
            if rank.id() == 2 {
                let over = || region.given_up().or_else(|| region.is_gone(0).then_some(usize::MAX));
                assert_eq!(region.wait(7, Some(0), None, over)?, 1);
                return Ok(());
            }
            let record = &rank.context().rank(2)?.record;
            let seen = loop {
                match record.read() {
                    Some(wait) if wait.operation == Operation::Flag => break wait.channels,
                    _ => nap(Duration::from_micros(10)),
                }
            };
            assert_eq!(
                seen[1..],
                [7, 1 + 1],
                "the place of the wait, and 1 + the rank of the world"
            );
            assert!(region.give_up(2).is_err() && region.given_up().is_none());
            region.give_up(1)?;
            region.give_up(0)?;
            region.wait(0, None, None, || region.is_gone(1).then_some(()))
        });
        ran.unwrap();
    }

    /// Two ranks wake each other in turns, each at its own place, and rank 0 sees rank 1 leave.
    #[test]
    fn who_waits_is_woken_at_its_place() {
        let ran = World::threads(2).wait(WaitPolicy::Park).run(|rank| {
            let (me, peer) = (rank.id(), 1 - rank.id());
            let region = Region::open(rank, NAMES, "region", 2, 0)?;
            for round in 1..=200 {
                region.words()[peer].store(round);
                region.wake(peer, 10 + peer);
                let mine = &region.words()[me];
                region.wait(10 + me, Some(peer), Some(mine), || {
                    (mine.load() >= round).then_some(())
                })?;
            }
            if me == 1 {
                return Ok(());
            }
            let left = || (region.ends() != 0 && region.is_gone(1)).then_some(());
            region.wait(10, Some(1), None, left)?;
            assert!(!region.is_lost(1) && !region.is_dead(1) && region.is_in_one_process());
            assert!(region.is_released(1) && !region.is_released(0));
            Ok(())
        });
        ran.unwrap();
    }
}
