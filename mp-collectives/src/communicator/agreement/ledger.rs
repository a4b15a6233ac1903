//! A ledger in which the ranks of a communicator compare their collective calls, in the order of the calls.
//!
//! Every rank enters each of its calls in a ledger that all ranks can read, and goes on when all ranks have entered the
//! same call. Entering a call does not wait for other ranks, so a call that only begins an operation can enter itself,
//! too. The comparison is done by any thread that needs the result, always of the oldest entry first.
//!
//! The lines of each rank's MPB:
//!
//! ```text
//! P · R   from rank i: the last R entries' numbers, with their digests      set by rank i
//! P       how many entries rank i has compared                              set by rank i
//! P       which entries rank i has given up                                 set by rank i
//! R · T   the own last R entries in words                                   read by all, where they differ
//! ```
//!
//! 1. A rank writes the description of an entry into its own MPB. Then it writes the entry's number and digest into the
//!    MPBs of the other ranks. An entry replaces the one R before it, once all ranks have compared that one. Until then
//!    the new entry waits in private memory.
//! 2. A rank compares an entry when all ranks have written theirs. If the digests differ, the rank reads the
//!    descriptions of all ranks. All ranks find the same difference, because each of them compares all entries.
//! 3. The rank publishes how many entries it has compared.
//!
//! A rank that has waited too long publishes which entries it has given up. A rank that comes later sees that, and
//! gives up as well. A rank that comes at just that moment may miss it, and then waits in the operation itself for the
//! ranks that have given up.
//!
//! A rank that drops the communicator before its first call leaves the [`Board`] and then declines the ledger. A rank
//! that opens the ledger looks at the board afterwards. So one of the two always sees the other.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use mp_core::{
    Call, Calls, Error, ErrorKind, Result, Wait,
    mpb::{Line, Mpbs, Polled},
    waits::Caller,
};

use crate::communicator::{
    agreement::call::{digest_of, shorten},
    agreement::joint::Joint,
    messages::channels::NAMES,
    point_to_point::Communicator,
};

/// The number of entries: R in the table above.
const ENTRIES: usize = 32;
/// The number of lines for the description of an entry: T in the table above. Longer descriptions are shortened.
const TEXT_LINES: usize = 16;
const TEXT: usize = TEXT_LINES * 64 - size_of::<u64>();

/// One rank's view of the collective calls of a communicator: see [`Joint::ledger`]. Clones refer to the same ledger,
/// and any thread may have one.
#[derive(Clone, Debug)]
pub struct Ledger {
    shared: Arc<Shared>,
    /// The time limit of blocking calls.
    limit: Option<Duration>,
}

#[derive(Debug)]
struct Shared {
    polled: Arc<Polled>,
    /// The ranks that had dropped the communicator when this rank opened the ledger. Those of them that have not opened
    /// it never will.
    gone: Vec<bool>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The numbers of entries that were entered, that the other ranks can see, and that were compared.
    entered: u64,
    posted: u64,
    compared: u64,
    /// This rank's calls that have not been compared yet.
    calls: VecDeque<Call>,
    /// The results of entries that differ or could not be compared, until they are asked for.
    verdicts: HashMap<u64, Verdict>,
    /// The first and the last entry of the latest sequence that was given up.
    given_up: Option<(u64, u64)>,
}

#[derive(Clone, Debug)]
enum Verdict {
    Differ(Calls),
    NotCome(usize),
    Broken(usize, String),
}

/// A call that was entered.
#[derive(Debug)]
pub struct Entered {
    ledger: Ledger,
    number: u64,
    call: Call,
}

/// The flag that must be set before more entries can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The rank of the communicator that sets it.
    pub rank: usize,
    /// Its line in this rank's MPB.
    pub line: usize,
    /// The value that it must reach.
    pub value: u64,
}

impl Ledger {
    /// Opens the ledger. All ranks of the communicator open it, without waiting for each other.
    pub(crate) fn open(joint: Joint<'_>) -> Result<Self> {
        let ranks = joint.communicator().size();
        let mpbs = Mpbs::lines(ranks * ENTRIES + 2 * ranks + ENTRIES * TEXT_LINES);
        let (rank, ranks) = (joint.rank(), joint.world_ranks());
        let mut mpb = rank.mpb_of(&joint.whose().ledger(), &ranks, NAMES.mpbs(mpbs))?;
        let board = joint.board()?;
        let gone = (0..ranks.len()).map(|rank| board.has_left(rank)).collect();
        mpb.set_caller(joint.title() as Arc<dyn Caller>);
        let polled = Arc::new(Polled::new(mpb));
        let shared = Arc::new(Shared { polled, gone, state: Mutex::default() });
        Ok(Self { shared, limit: None })
    }

    /// Returns the same ledger, with this time limit for blocking calls.
    pub(crate) fn with_limit(&self, limit: Option<Duration>) -> Self {
        Self { limit, ..self.clone() }
    }

    /// Enters this rank's next call, without waiting.
    ///
    /// # Errors
    /// [`Segment`](mp_core::ErrorKind::Segment) when the world's memory is broken.
    pub fn enter(&self, call: Call) -> Result<Entered> {
        let mut state = self.shared.lock();
        let number = state.entered;
        state.entered += 1;
        state.calls.push_back(call.clone());
        self.shared.post(&mut state)?;
        Ok(Entered { ledger: self.clone(), number, call })
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn me(&self) -> usize {
        self.polled.mpb().rank()
    }

    fn ranks(&self) -> usize {
        self.polled.mpb().ranks()
    }

    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let me = self.me();
        (0..self.ranks()).filter(move |&rank| rank != me)
    }

    fn place(number: u64) -> usize {
        number as usize % ENTRIES
    }

    fn entry_line(&self, of: usize, number: u64) -> usize {
        of * ENTRIES + Self::place(number)
    }

    fn compared_line(&self, by: usize) -> usize {
        self.ranks() * ENTRIES + by
    }

    fn given_up_line(&self, by: usize) -> usize {
        self.ranks() * (ENTRIES + 1) + by
    }

    fn text_line(&self, number: u64) -> usize {
        self.ranks() * (ENTRIES + 2) + Self::place(number) * TEXT_LINES
    }

    /// Returns whether a rank will not open the ledger.
    fn never_comes(&self, rank: usize) -> bool {
        self.gone.get(rank) == Some(&true) && !self.polled.mpb().has_opened(rank)
    }

    /// Makes the entries for which there is room visible to the other ranks.
    fn post(&self, state: &mut State) -> Result<()> {
        let mpb = self.polled.mpb();
        while let Some(call) = state.calls.get((state.posted - state.compared) as usize)
            && state.posted < state.entered
            && self.no_room(state.posted)?.is_none()
        {
            let number = state.posted;
            let words = in_words(call);
            let mut text = (words.len() as u64).to_le_bytes().to_vec();
            text.extend(words);
            mpb.put(&text, Line { rank: self.me(), line: self.text_line(number) })?;
            let (line, digest) =
                (self.entry_line(self.me(), number), digest_of(call).to_le_bytes());
            for rank in self.others() {
                mpb.set_flag_with(Line { rank, line }, number + 1, &digest)?;
            }
            state.posted += 1;
        }
        Ok(())
    }

    /// Returns the flag of a rank that must compare an older entry before this one can be posted.
    fn no_room(&self, number: u64) -> Result<Option<Missing>> {
        let value = (number + 1).saturating_sub(ENTRIES as u64);
        self.first_below(value, |rank| self.compared_line(rank))
    }

    fn first_below(&self, value: u64, line: impl Fn(usize) -> usize) -> Result<Option<Missing>> {
        for rank in self.others() {
            let line = line(rank);
            if self.polled.mpb().flag(line)? < value {
                return Ok(Some(Missing { rank, line, value }));
            }
        }
        Ok(None)
    }

    /// Posts and compares as many entries as possible. Returns the flag that must be set before more can be done, or
    /// `None` if nothing is left to do.
    fn advance(&self, state: &mut State) -> Result<Option<Missing>> {
        loop {
            self.post(state)?;
            let number = state.compared;
            if number == state.entered {
                return Ok(None);
            }
            if number == state.posted {
                match self.no_room(number)? {
                    None => continue,
                    missing => return Ok(missing),
                }
            }
            if let Some(missing) =
                self.first_below(number + 1, |rank| self.entry_line(rank, number))?
            {
                return Ok(Some(missing));
            }
            let Some(call) = state.calls.pop_front() else { return Ok(None) };
            if let Some(verdict) = self.compare(number, &call)? {
                state.verdicts.insert(number, verdict);
            }
            state.compared += 1;
            let line = self.compared_line(self.me());
            for rank in self.others() {
                self.polled.mpb().set_flag(Line { rank, line }, state.compared)?;
            }
        }
    }

    /// Compares the entries of this number, which all ranks have entered.
    fn compare(&self, number: u64, call: &Call) -> Result<Option<Verdict>> {
        let mpb = self.polled.mpb();
        let mut digest = [0; size_of::<u64>()];
        let mut same = true;
        for rank in self.others() {
            mpb.flag_payload(self.entry_line(rank, number), &mut digest)?;
            same &= u64::from_le_bytes(digest) == digest_of(call);
        }
        if !same {
            return Ok(Some(match self.all_calls(number, call)? {
                Ok(calls) => Verdict::Differ(Calls::new(calls)),
                Err((rank, reason)) => Verdict::Broken(rank, reason),
            }));
        }
        for rank in self.others() {
            if let Some(missing) = read_given_up(mpb.flag(self.given_up_line(rank))?, number) {
                return Ok(Some(Verdict::NotCome(missing)));
            }
        }
        Ok(None)
    }

    fn all_calls(&self, number: u64, mine: &Call) -> Result<Result<Vec<Call>, (usize, String)>> {
        let mut calls = Vec::with_capacity(self.ranks());
        for rank in 0..self.ranks() {
            if rank == self.me() {
                calls.push(mine.clone());
                continue;
            }
            let mut text = [0; TEXT_LINES * 64];
            let from = Line { rank, line: self.text_line(number) };
            self.polled.mpb().get(from, &mut text)?;
            let (length, words) = text.split_at(size_of::<u64>());
            let length = length.try_into().map_or(0, u64::from_le_bytes) as usize;
            match postcard::from_bytes(words.get(..length).unwrap_or(&[])) {
                Ok(call) => calls.push(call),
                Err(error) => return Ok(Err((rank, error.to_string()))),
            }
        }
        Ok(Ok(calls))
    }

    /// Records that this rank no longer waits for `missing` to make this entry.
    fn give_up(&self, number: u64, missing: usize) -> Result<()> {
        let mut state = self.lock();
        let from = match state.given_up {
            Some((from, last)) if last + 1 == number || last == number => from,
            _ => number,
        };
        state.given_up = Some((from, number));
        let (rank, value) = (self.me(), given_up(from, number, missing));
        let line = self.given_up_line(rank);
        for rank in self.others() {
            self.polled.mpb().set_flag(Line { rank, line }, value)?;
        }
        Ok(())
    }
}

/// Encodes the entries that were given up in one word: 40 bits for 1 + the last entry, 8 bits for the number of entries
/// before it, and 16 bits for the missing rank.
fn given_up(from: u64, last: u64, missing: usize) -> u64 {
    (last + 1) << 24 | (last - from).min(0xff) << 16 | (missing as u64 & 0xffff)
}

/// Returns the missing rank, if this entry was given up.
fn read_given_up(word: u64, number: u64) -> Option<usize> {
    let last = (word >> 24).checked_sub(1)?;
    let before = word >> 16 & 0xff;
    (last.saturating_sub(before)..=last).contains(&number).then_some((word & 0xffff) as usize)
}

/// Returns the encoded description of the call. Long settings and names are truncated to the available room.
fn in_words(call: &Call) -> Vec<u8> {
    let mut call = call.clone();
    loop {
        match postcard::to_stdvec(&call) {
            Ok(words) if words.len() <= TEXT => return words,
            _ => shorten(&mut call),
        }
    }
}

impl Entered {
    /// Returns the flag that must be set before this entry can be compared, or `None` when all ranks have entered the
    /// same call. Does not wait. A caller that does not need the result need not call this.
    ///
    /// # Errors
    /// [`CallsDiffer`](mp_core::ErrorKind::CallsDiffer); [`RankMissing`](mp_core::ErrorKind::RankMissing) if another
    /// rank has given up; [`PeerEnded`](mp_core::ErrorKind::PeerEnded) if a rank had dropped the communicator before
    /// its first call; [`Segment`](mp_core::ErrorKind::Segment) when the world's memory is broken.
    pub fn look(&self) -> Result<Option<Missing>> {
        let shared = &self.ledger.shared;
        let mut state = shared.lock();
        if state.compared <= self.number {
            let missing = shared.advance(&mut state)?;
            if state.compared <= self.number {
                return match missing {
                    Some(Missing { rank, .. }) if shared.never_comes(rank) => {
                        Err(ErrorKind::PeerEnded { rank }.into())
                    }
                    missing => Ok(missing),
                };
            }
        }
        match state.verdicts.remove(&self.number) {
            None => Ok(None),
            Some(Verdict::Differ(calls)) => Err(ErrorKind::CallsDiffer(Box::new(calls)).into()),
            Some(Verdict::NotCome(rank)) => Err(self.not_come(rank)),
            Some(Verdict::Broken(rank, reason)) => {
                Err(ErrorKind::PeerBroken { rank, reason }.into())
            }
        }
    }

    /// Returns the MPBs that [`Missing`] refers to.
    pub fn polled(&self) -> &Arc<Polled> {
        &self.ledger.shared.polled
    }

    fn not_come(&self, rank: usize) -> Error {
        let limit = self.ledger.limit.unwrap_or_default();
        Error::from(ErrorKind::RankMissing { rank, call: Box::new(self.call.clone()), limit })
    }

    /// Waits until the entry is compared. Meanwhile the communicator's pending operations make progress.
    pub(crate) fn wait(&self, of: &Communicator) -> Result<()> {
        let (began, limit) = (Instant::now(), self.ledger.limit);
        let shared = &self.ledger.shared;
        let mut calling = None;
        while let Some(missing) = self.look()? {
            let left = limit.map(|limit| limit.saturating_sub(began.elapsed()));
            if left.is_some_and(|left| left.is_zero()) {
                shared.give_up(self.number, missing.rank)?;
                return Err(self.not_come(missing.rank));
            }
            let wait = left.map_or_else(Wait::forever, Wait::from);
            calling.get_or_insert_with(|| of.members.title.calls(&self.call));
            let reached = |value| value >= missing.value;
            match shared
                .polled
                .mpb()
                .wait_flag_with(wait, Some(missing.rank), missing.line, reached)
                .map_err(mp_core::Error::into_kind)
            {
                Ok(_) | Err(ErrorKind::Timeout { .. }) => {}
                Err(ErrorKind::Disconnected { .. }) => {
                    let rank = of.to_world(missing.rank)? as usize;
                    return Err(of.localized(ErrorKind::PeerEnded { rank }.into()));
                }
                Err(kind) => return Err(of.localized(kind.into())),
            }
        }
        Ok(())
    }
}

impl Joint<'_> {
    /// Returns the ledger in which ranks compare their collective calls, for calls that only begin an operation.
    /// Returns `None` if the ranks do not compare their calls, or if there is only one rank.
    ///
    /// # Errors
    /// [`Segment`](mp_core::ErrorKind::Segment) for lack of memory.
    pub fn ledger(self) -> Result<Option<Ledger>> {
        match self.checks() {
            true => {
                let limit = self.communicator().check().limit();
                Ok(Some(self.opened_ledger()?.with_limit(limit)))
            }
            false => Ok(None),
        }
    }

    fn opened_ledger(self) -> Result<Ledger> {
        let open = |joint: Self| {
            let ledger = Ledger::open(joint)?;
            joint.check_revoked()?;
            Ok(ledger)
        };
        self.keep(open).cloned()
    }

    /// Checks that all ranks make the same call, with everything that must be the same; this is for debugging. All
    /// ranks must make this check before the same calls. They wait for each other in it, even before operations that
    /// would not wait for all ranks by themselves.
    ///
    /// With a limit, the error names a rank that has not come in time. When that rank comes, it gets the error, too.
    ///
    /// ```
    /// use onchip::communicator::{Call, Communicator};
    /// use onchip::ErrorKind;
    ///
    /// onchip::World::threads(3).run(|rank| {
    ///     let world = Communicator::world(rank);
    ///     let root = if rank.id() == 1 { 2 } else { 0 };
    ///     let call = Call::new("gather").elements::<u8>(100).root(root);
    ///     match world.joint().check(&call, None).unwrap_err().kind() {
    ///         ErrorKind::CallsDiffer(calls) => assert_eq!(calls.odd()[0].ranks, [1]),
    ///         other => panic!("{other:?}"),
    ///     }
    ///     Ok(())
    /// })?;
    /// # Ok::<(), onchip::Error>(())
    /// ```
    ///
    /// # Errors
    /// At all ranks: [`CallsDiffer`](mp_core::ErrorKind::CallsDiffer), and
    /// [`RankMissing`](mp_core::ErrorKind::RankMissing) after the limit; [`PeerLost`](mp_core::ErrorKind::PeerLost) and
    /// [`PeerEnded`](mp_core::ErrorKind::PeerEnded) when a rank can't come.
    pub fn check(self, call: &Call, limit: Option<Duration>) -> Result<()> {
        self.check_revoked()?;
        if self.communicator().size() == 1 {
            return Ok(());
        }
        let ledger = self.opened_ledger()?.with_limit(limit);
        ledger.enter(call.clone())?.wait(self.communicator())
    }

    /// Works like [`check`](Self::check), but only if ranks compare their collective calls, as [set](Self::set_check).
    ///
    /// # Errors
    /// As `check`.
    pub fn check_if_set(self, call: impl FnOnce() -> Call) -> Result<()> {
        match self.checks() {
            true => self.check(&call(), self.communicator().check().limit()),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_up_is_a_word() {
        assert_eq!((read_given_up(0, 0), read_given_up(0, 5)), (None, None));
        let word = given_up(7, 9, 300);
        for number in 0..20 {
            assert_eq!(read_given_up(word, number), (7..=9).contains(&number).then_some(300));
        }
        let many = given_up(0, 1000, 2);
        assert_eq!((read_given_up(many, 745), read_given_up(many, 744)), (Some(2), None));
    }

    #[test]
    fn long_calls_are_told_as_far_as_there_is_room() {
        let call = Call::new("scan").elements::<f64>(3).operation("ö".repeat(3_000)).root(9);
        let call = call.settings("x".repeat(100_000));
        let words = in_words(&call);
        assert!(words.len() <= TEXT && words.len() > TEXT / 2);
        let told: Call = postcard::from_bytes(&words).unwrap();
        assert_eq!((told.name, told.root, told.count), ("scan".into(), Some(9), Some(3)));
        assert!(told.operation.unwrap().starts_with("öö"));
    }
}
