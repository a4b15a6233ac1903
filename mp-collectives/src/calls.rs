//! The cheap check that all ranks make the same calls, which is always on. The kind, the type and number of the
//! elements, and the root are encoded in 31 bits, the call's *mark*, which travels in lines that are sent anyway.
//!
//! 1. A rank that begins a call notes its mark with the call's number in its [`History`].
//! 2. A line with a payload beside its flag has the mark above the flag's number
//!    ([`Mpb::mark`](mp_model::mpb::Mpb::mark)). The rank that waits for the line compares the mark.
//! 3. A flag without a payload has the last marks beside it ([`Mpb::announce`](mp_model::mpb::Mpb::announce)), because
//!    the rank may have gone on to its next calls before the flag is read. A dissemination barrier announces nothing
//!    more when the rank's last calls are all the same ([`Mpb::announce_news`](mp_model::mpb::Mpb::announce_news)):
//!    reading what is beside a flag takes a tenth of the time of a barrier of two ranks.
//! 4. Calls that never meet in a line, such as a broadcast and a barrier, wait for ever. In a communicator, a rank that
//!    waits long puts its history on a [`Board`] and looks at those of the others. Blocking and nonblocking operations
//!    each have a board.
//!
//! A rank that finds a call different from its own ends with [`CallsDiffer`](crate::communicator::ErrorKind::CallsDiffer). In a
//! communicator it also closes its buffers and announces on its board that it makes no more calls, so that the others
//! end as well.
//!
//! ```text
//! mark      kind: 5 bits | type: 7 | root: 7 | elements: 12
//! history   the last four: number of the call: 33 bits | mark
//! ```

use std::any::type_name;
use std::array;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::communicator::{Call, Callers, Calls, Title};
use mp_core::Rank;
use mp_core::mpb::{Line, Mpb, Mpbs, Watch};
use mp_core::waits::Caller;

use crate::members::names;
use crate::real::RealError;

const MARK_BITS: u32 = 31;
const MARK: u64 = (1 << MARK_BITS) - 1;
/// The position of the mark, above a line's 32-bit number and the bit that it carries into.
const SHIFT: u32 = u64::BITS - MARK_BITS;
const TYPE_SHIFT: u32 = 19;
const ROOT_SHIFT: u32 = 12;
const KIND_SHIFT: u32 = 26;
const COUNT: u64 = (1 << ROOT_SHIFT) - 1;
/// Numbers of elements from this one on are represented by some of their bits.
const MANY: u64 = 1 << (ROOT_SHIFT - 1);
/// Roots from this one on are represented by their remainder when divided by it.
const ROOTS: usize = 126;

/// The kind of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Barrier = 1,
    Broadcast,
    Reduce,
    AllReduce,
    Scan,
    ExclusiveScan,
    ReduceScatter,
    ReduceScatterVarcount,
    Gather,
    GatherVarcount,
    Scatter,
    ScatterVarcount,
    AllGather,
    AllGatherVarcount,
    AllToAll,
    AllToAllVarcount,
}

impl Kind {
    /// Returns the name of the operation.
    pub(crate) fn name(self) -> &'static str {
        NAMES[self as usize - 1]
    }

    /// Returns the same kind for blocks that may differ in length.
    pub(crate) fn varcount(self) -> Self {
        match self {
            Kind::ReduceScatter => Kind::ReduceScatterVarcount,
            Kind::Gather => Kind::GatherVarcount,
            Kind::Scatter => Kind::ScatterVarcount,
            Kind::AllGather => Kind::AllGatherVarcount,
            Kind::AllToAll => Kind::AllToAllVarcount,
            other => other,
        }
    }
}

/// The names, in the order of [`Kind`].
const NAMES: [&str; 16] = [
    "barrier",
    "broadcast",
    "reduce",
    "all_reduce",
    "scan",
    "exclusive_scan",
    "reduce_scatter",
    "reduce_scatter_varcount",
    "gather",
    "gather_varcount",
    "scatter",
    "scatter_varcount",
    "all_gather",
    "all_gather_varcount",
    "all_to_all",
    "all_to_all_varcount",
];

/// The types that a mark names. Others are distinguished by a number made from their names.
const TYPES: [(&str, usize); 16] = [
    ("u8", 1),
    ("u16", 2),
    ("u32", 4),
    ("u64", 8),
    ("u128", 16),
    ("usize", 8),
    ("i8", 1),
    ("i16", 2),
    ("i32", 4),
    ("i64", 8),
    ("i128", 16),
    ("isize", 8),
    ("f32", 4),
    ("f64", 8),
    ("bool", 1),
    ("char", 4),
];
const TYPE_MASK: u64 = 0x7f;

/// Returns the number of a type, which is constant where this is inlined.
#[inline(always)]
fn code_of<T>() -> u64 {
    let name = type_name::<T>();
    match name {
        "u8" => 1,
        "u16" => 2,
        "u32" => 3,
        "u64" => 4,
        "u128" => 5,
        "usize" => 6,
        "i8" => 7,
        "i16" => 8,
        "i32" => 9,
        "i64" => 10,
        "i128" => 11,
        "isize" => 12,
        "f32" => 13,
        "f64" => 14,
        "bool" => 15,
        "char" => 16,
        _ => {
            // The last bytes say most of a path.
            let name = name.as_bytes();
            let last = |count: usize| name[name.len().saturating_sub(count)..].iter();
            let number = last(8).fold(name.len() as u64, |number, &byte| {
                number.rotate_left(7).wrapping_add(u64::from(byte))
            });
            let number =
                number.wrapping_add(size_of::<T>() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            32 + (number >> 32) % (TYPE_MASK - 31)
        }
    }
}

/// A call in 31 bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark(u64);

impl Mark {
    /// Creates the mark of a call with this number of elements of a type, where all ranks have the same number; from or
    /// to a root, if there is one.
    #[inline(always)]
    pub(crate) fn new<T>(kind: Kind, count: Option<usize>, root: Option<usize>) -> Self {
        let count = match count {
            None => 0,
            Some(count) if (count as u64) < MANY - 1 => count as u64 + 1,
            Some(count) => {
                MANY | (count as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (65 - ROOT_SHIFT)
            }
        };
        let root = root.map_or(0, |root| 1 + (root % ROOTS) as u64);
        let parts = (kind as u64) << KIND_SHIFT | code_of::<T>() << TYPE_SHIFT;
        Self(parts | root << ROOT_SHIFT | count)
    }

    /// Creates the mark of an exchange: with the length of the blocks where all have the same.
    #[inline(always)]
    pub(crate) fn of_blocks<T>(
        kind: Kind,
        blocks_differ: bool,
        count: usize,
        root: Option<usize>,
    ) -> Self {
        match blocks_differ {
            false => Self::new::<T>(kind, Some(count), root),
            true => Self::new::<T>(kind.varcount(), None, root),
        }
    }

    /// Creates the mark of a call without elements.
    #[inline(always)]
    pub(crate) fn barrier() -> Self {
        Self((Kind::Barrier as u64) << KIND_SHIFT)
    }

    /// Returns the call, as far as the bits show it.
    fn call(self, ranks: usize) -> Call {
        let name = (self.0 >> KIND_SHIFT).checked_sub(1).and_then(|kind| NAMES.get(kind as usize));
        let mut call = Call::new(name.copied().unwrap_or("something else"));
        if let Some(root) = ((self.0 >> ROOT_SHIFT & 0x7f) as usize).checked_sub(1) {
            call = if ranks <= ROOTS { call.root(root) } else { call };
        }
        let code = (self.0 >> TYPE_SHIFT & TYPE_MASK) as usize;
        let known = code.checked_sub(1).and_then(|code| TYPES.get(code));
        call = match (code, known) {
            (0, _) => call,
            (_, Some(&(name, size))) => call.of_named(name, size),
            _ => call.of_named(format!("elements of type no. {code}"), 0),
        };
        call.count = match self.0 & COUNT {
            0 => None,
            count if count < MANY => Some(count as usize - 1),
            _ => None,
        };
        if self.0 & COUNT >= MANY {
            call = call.settings(format!("{} elements or more (no. {})", MANY - 1, self.0 & COUNT));
        }
        call
    }
}

impl fmt::Debug for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.call(0))
    }
}

/// The number of calls that are remembered.
const REMEMBERED: usize = 4;

/// A rank's last calls. The history is written by one thread at a time.
///
/// For a call that is the same as the four before it, only the number is kept. All the entries then have its mark, and
/// their numbers stay behind.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// The number of the last call.
    count: AtomicU64,
    /// The entry of call n is at n modulo the number of entries.
    entries: [AtomicU64; REMEMBERED],
    /// The difference, once one has been found.
    found: OnceLock<Difference>,
}

/// The different calls of two ranks.
#[derive(Clone, Copy, Debug)]
struct Difference([(usize, Mark); 2]);

impl Difference {
    fn new(one: (usize, Mark), other: (usize, Mark)) -> Self {
        Self(if one.0 < other.0 { [one, other] } else { [other, one] })
    }

    fn error(self, ranks: usize) -> mp_core::Error {
        let told =
            |(rank, mark): (usize, Mark)| Callers { call: mark.call(ranks), ranks: vec![rank] };
        let calls = Calls::of(self.0.map(told).to_vec());
        mp_core::Error::other(crate::communicator::Error::from(
            crate::communicator::ErrorKind::CallsDiffer(Box::new(calls)),
        ))
    }

    /// Returns the words in which a rank shows the difference to the others.
    fn words(self) -> [u64; 2] {
        self.0.map(|(rank, mark)| (rank as u64) << MARK_BITS | mark.0)
    }

    fn of_words(words: [u64; 2]) -> Self {
        Self(words.map(|word| ((word >> MARK_BITS) as usize, Mark(word & MARK))))
    }
}

/// A call's number and mark, in a word.
#[derive(Clone, Copy)]
struct Entry(u64);

impl Entry {
    #[inline(always)]
    fn new(number: u64, mark: Mark) -> Self {
        Self(number << MARK_BITS | mark.0)
    }

    #[inline(always)]
    fn number(self) -> u64 {
        self.0 >> MARK_BITS
    }

    /// Returns whether the entry is that of one of the next calls after this number. Numbers begin again at 0.
    #[inline(always)]
    fn is_just_after(self, number: u64) -> bool {
        let ahead = Self::new(self.number().wrapping_sub(number), Mark(0)).number();
        (1..1 << 16).contains(&ahead)
    }

    /// Returns the entry of the next call, if that call is the same.
    #[inline(always)]
    fn next(self) -> Self {
        Self(self.0.wrapping_add(1 << MARK_BITS))
    }

    fn mark(self) -> Mark {
        Mark(self.0 & MARK)
    }

    /// Returns whether two ranks made different calls at the same place.
    #[inline(always)]
    fn differs(self, other: Self) -> bool {
        let difference = self.0 ^ other.0;
        difference != 0 && difference >> MARK_BITS == 0 && self.number() != 0
    }
}

impl History {
    /// Records a call. Returns its entry, and whether all remembered calls are now the same.
    #[inline(always)]
    fn note(&self, mark: Mark) -> (Entry, bool) {
        let now = Entry::new(self.count.load(Ordering::Relaxed) + 1, mark);
        self.kept(now.number()).store(now.0, Ordering::Relaxed);
        // Release: Acquire in `last`.
        self.count.store(now.number(), Ordering::Release);
        (now, (0..REMEMBERED as u64).all(|at| self.at(at).mark() == mark))
    }

    /// Records a call that is the same as `last`, if `last` is the last call. All remembered calls are the same.
    #[inline(always)]
    fn note_again(&self, last: Entry) -> bool {
        let is_last = self.count.load(Ordering::Relaxed) == last.number();
        if is_last {
            // Release: Acquire in `last`.
            self.count.store(last.next().number(), Ordering::Release);
        }
        is_last
    }

    fn found(&self) -> Option<Difference> {
        self.found.get().copied()
    }

    /// Keeps the first difference that was found.
    fn differs(&self, difference: Difference) {
        let _ = self.found.set(difference);
    }

    #[inline(always)]
    fn kept(&self, number: u64) -> &AtomicU64 {
        &self.entries[number as usize % REMEMBERED]
    }

    #[inline(always)]
    fn at(&self, number: u64) -> Entry {
        Entry(self.kept(number).load(Ordering::Relaxed))
    }

    /// Returns the number of the last call. The entries are those of that call, or newer.
    #[inline(always)]
    fn last(&self) -> u64 {
        // Acquire: Release in `note` and `note_again`.
        self.count.load(Ordering::Acquire)
    }

    /// Returns the entry of the call of this number, where `last` is the number of the last call. Returns zero if the
    /// call is not remembered, or if another thread is just overwriting its entry.
    #[inline(always)]
    fn entry(&self, number: u64, last: u64) -> Entry {
        let kept = self.at(number);
        let remembered = last.wrapping_sub(number) < REMEMBERED as u64;
        let is_call = remembered && kept.0 != 0 && !kept.is_just_after(last);
        if is_call { Entry::new(number, kept.mark()) } else { Entry(0) }
    }

    /// Returns the last calls, most recent first.
    #[inline(always)]
    fn recent(&self) -> [u64; REMEMBERED] {
        let last = self.last();
        array::from_fn(|back| self.entry(last.wrapping_sub(back as u64), last).0)
    }

    /// Returns what this rank and another one called at the same place, if that differs.
    fn difference(&self, there: [u64; REMEMBERED]) -> Option<(Mark, Mark)> {
        let last = self.last();
        there.into_iter().map(Entry).find_map(|there| {
            let mine = self.entry(there.number(), last);
            mine.differs(there).then(|| (mine.mark(), there.mark()))
        })
    }
}

/// The comparison of one front's calls with those of other ranks; part of the MPBs that the calls use.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    /// `None` where calls are not compared.
    history: Option<Arc<History>>,
    /// The call in progress.
    now: u64,
    /// Whether it is the same as the remembered calls.
    repeats: bool,
    /// The last call that was compared, for each rank.
    compared: Vec<u64>,
}

impl Checked {
    pub(crate) fn new(ranks: usize) -> Self {
        let history = Some(Arc::default());
        Self { history, now: 0, repeats: false, compared: vec![0; ranks] }
    }

    /// Numbers the calls together with those of other fronts.
    pub(crate) fn share(&mut self, history: &Arc<History>) {
        self.history = Some(Arc::clone(history));
    }

    #[inline(always)]
    pub(crate) fn begin(&mut self, mark: Mark) {
        if let Some(history) = &self.history {
            let (now, repeats) = history.note(mark);
            (self.now, self.repeats) = (now.0, repeats);
        }
    }

    /// Does what [`begin`](Self::begin) does, quickly for a front whose calls are all the same.
    #[inline(always)]
    pub(crate) fn begin_again(&mut self, mark: Mark) {
        let last = Entry(self.now);
        match &self.history {
            Some(history) if self.repeats && history.note_again(last) => self.now = last.next().0,
            _ => self.begin_anew(mark),
        }
    }

    #[inline(never)]
    fn begin_anew(&mut self, mark: Mark) {
        self.begin(mark);
    }

    /// Does what [`Mpb::mark`](mp_model::mpb::Mpb::mark) does.
    #[inline(always)]
    pub(crate) fn mark(&self) -> u64 {
        self.now << SHIFT
    }

    /// Returns what goes beside a flag that [announces](mp_model::mpb::Mpb::announce).
    #[inline(always)]
    pub(crate) fn announced(&self) -> Option<[u64; REMEMBERED]> {
        self.history.as_ref().map(|history| history.recent())
    }

    /// Returns the same, unless it was announced [before](mp_model::mpb::Mpb::announce_news).
    #[inline(always)]
    pub(crate) fn announced_news(&self) -> Option<[u64; REMEMBERED]> {
        if self.repeats { None } else { self.announced() }
    }

    #[inline(always)]
    pub(crate) fn compare_mark(&self, mpb: &Mpb, from: usize, seen: u64) -> Result<(), RealError> {
        if seen >> SHIFT == self.now & MARK {
            return Ok(());
        }
        Err(self.differ(mpb, Entry(self.now).mark(), (from, Mark(seen >> SHIFT))))
    }

    #[inline(always)]
    pub(crate) fn compare(&mut self, mpb: &Mpb, from: usize, line: usize) -> Result<(), RealError> {
        if self.compared.get(from).is_none_or(|&compared| compared == self.now) {
            return Ok(());
        }
        self.compared[from] = self.now;
        self.compare_all(mpb, from, line)
    }

    /// Compares also the calls that passed without a line from one rank to the other.
    #[inline(never)]
    fn compare_all(&self, mpb: &Mpb, from: usize, line: usize) -> Result<(), RealError> {
        let Some(history) = &self.history else { return Ok(()) };
        let mut there = [0u64; REMEMBERED];
        mpb.flag_payload(line, bytemuck::bytes_of_mut(&mut there))?;
        match history.difference(there) {
            Some((mine, there)) => Err(self.differ(mpb, mine, (from, there))),
            None => Ok(()),
        }
    }

    #[cold]
    fn differ(&self, mpb: &Mpb, mine: Mark, theirs: (usize, Mark)) -> RealError {
        // After a loss some have given up their operation, and call the next one.
        if let Some(loss) = mpb.loss() {
            return loss.into();
        }
        let difference = Difference::new((mpb.rank(), mine), theirs);
        if let Some(history) = &self.history {
            history.differs(difference);
        }
        difference.error(mpb.ranks()).into()
    }
}

/// The place where the ranks of a communicator show their calls when something takes long or is wrong. The line of a
/// rank in its own MPB holds [`ENDED`] or not, its history, and the difference that was found.
pub(crate) struct Board {
    rank: Rank,
    members: Vec<usize>,
    name: String,
    title: Arc<Title>,
    history: Arc<History>,
    /// Whether this rank makes no more calls.
    ended: AtomicBool,
    mpb: OnceLock<Option<Mpb>>,
}

/// The value of the flag in the line of a rank whose calls have ended.
const ENDED: u64 = 2;
const WORDS: usize = REMEMBERED + 2;

impl Board {
    pub(crate) fn new(rank: Rank, members: Vec<usize>, name: String, title: Arc<Title>) -> Self {
        let (history, ended, mpb) = (Arc::default(), AtomicBool::new(false), OnceLock::new());
        Self { rank, members, name, title, history, ended, mpb }
    }

    pub(crate) fn history(&self) -> &Arc<History> {
        &self.history
    }

    /// Returns why this rank makes no more calls, if so.
    pub(crate) fn ended(&self) -> Option<mp_core::Error> {
        self.found().filter(|_| self.ended.load(Ordering::Relaxed))
    }

    /// Returns `None` where there is no memory for it.
    fn mpb(&self) -> Option<&Mpb> {
        let open = || self.rank.mpb_of(&self.name, &self.members, mpbs()).ok();
        self.mpb.get_or_init(open).as_ref()
    }

    /// Shows this rank's calls.
    fn show(&self, mpb: &Mpb) -> mp_core::Result<()> {
        let state = if self.ended.load(Ordering::Relaxed) { ENDED } else { 1 };
        let mut words = [0; WORDS];
        let (calls, found) = words.split_at_mut(REMEMBERED);
        calls.copy_from_slice(&self.history.recent());
        if let Some(difference) = self.history.found() {
            found.copy_from_slice(&difference.words());
        }
        let line = Line { rank: mpb.rank(), line: 0 };
        mpb.set_flag_with(line, state, bytemuck::bytes_of(&words))
    }

    /// Announces that this rank makes no more calls, because ranks called different things.
    #[cold]
    fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(mpb) = self.mpb() {
            // Who can't be told finds the buffers closed.
            let _ = self.show(mpb);
        }
    }

    /// Returns the difference, if this rank or another has found one.
    pub(crate) fn found(&self) -> Option<mp_core::Error> {
        self.history.found().map(|found| found.error(self.members.len()))
    }

    /// Handles a call that failed with this error. If a difference is the reason, returns the difference instead; this
    /// rank then makes no more calls.
    #[cold]
    pub(crate) fn after(&self, error: mp_core::Error) -> mp_core::Error {
        let error = match error.kind() {
            // A rank that found a difference has closed its buffers.
            mp_core::ErrorKind::Disconnected { .. } => self.found_by_others().unwrap_or(error),
            _ => error,
        };
        if self.history.found().is_some() {
            self.end();
        }
        error
    }

    /// Returns the difference, if another rank has found one.
    fn found_by_others(&self) -> Option<mp_core::Error> {
        let mpb = self.mpb()?;
        self.look_at_others(mpb, false).ok()??;
        self.found()
    }

    fn look_at_others(&self, mpb: &Mpb, compare: bool) -> mp_core::Result<Option<()>> {
        let me = mpb.rank();
        for rank in (0..mpb.ranks()).filter(|&rank| rank != me) {
            let mut line = [0u64; 1 + WORDS];
            mpb.get(Line { rank, line: 0 }, bytemuck::bytes_of_mut(&mut line))?;
            let [state, ref calls @ .., first, second] = line;
            let found = if state == ENDED {
                Some(Difference::of_words([first, second]))
            } else if compare {
                let differ = |(mine, there)| Difference::new((me, mine), (rank, there));
                self.history.difference(*calls).map(differ)
            } else {
                None
            };
            if let Some(found) = found {
                self.history.differs(found);
                return Ok(Some(()));
            }
        }
        Ok(None)
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        if self.mpb.get().is_none() {
            // Others may have opened theirs, which would stay for this rank. Where that fails, the world's
            // memory is broken.
            let _ = self.rank.decline_mpb(&self.name, mpbs());
        }
    }
}

fn mpbs() -> Mpbs {
    names::COMMUNICATORS.mpbs(Mpbs::lines(1))
}

impl Watch for Board {
    /// Returns the interval between looks. It grows with the number of ranks, so that reading each other's lines costs
    /// little beside everything else.
    fn interval(&self) -> Duration {
        Duration::from_millis(250 + self.members.len() as u64)
    }

    fn look(&self) -> Option<mp_core::Error> {
        let mpb = self.mpb()?;
        self.show(mpb).ok()?;
        self.look_at_others(mpb, true).ok()??;
        self.found()
    }

    fn found(&self) -> Option<mp_core::Error> {
        self.found()
    }
}

/// Tells the last call, which is the one that waits, unless another operation is named: one of several that go on.
impl Caller for Board {
    fn call(&self, operation: Option<&str>) -> Option<String> {
        if let Some(operation) = operation {
            return Some(self.title.told(operation));
        }
        let last = self.history.last();
        let entry = self.history.entry(last, last);
        (entry.0 != 0).then(|| self.title.told(entry.mark().call(self.members.len())))
    }
}

impl fmt::Debug for Board {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Board").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_tell_calls_apart_and_name_them() {
        let of = |mark: Mark| mark.call(8).to_string();
        let mark = Mark::new::<f32>(Kind::AllReduce, Some(2), None);
        assert_eq!(of(mark), "all_reduce of 2 f32");
        assert_eq!(of(Mark::new::<u32>(Kind::AllReduce, Some(2), None)), "all_reduce of 2 u32");
        assert_eq!(
            of(Mark::new::<u8>(Kind::Broadcast, Some(0), Some(7))),
            "broadcast of 0 u8 with root 7"
        );
        assert_eq!(of(Mark::barrier()), "barrier");
        assert_eq!(
            of(Mark::new::<i64>(Kind::GatherVarcount, None, Some(0))),
            "gather_varcount of i64 with root 0"
        );
        let many = |count| Mark::new::<u8>(Kind::Gather, Some(count), None);
        let all: Vec<_> = (2040..2060).chain([1 << 20, 1 << 21, 1 << 30]).map(many).collect();
        for (place, one) in all.iter().enumerate() {
            assert!(all[..place].iter().all(|other| other != one), "{one:?}");
            assert!(one.0 <= MARK);
        }
        assert!(NAMES[Kind::AllToAllVarcount as usize - 1].ends_with("all_varcount"));
        for (code, (name, size)) in TYPES.iter().enumerate() {
            let call = Mark((code as u64 + 1) << TYPE_SHIFT).call(2);
            assert_eq!(call.element.map(|e| (e.name, e.size)), Some(((*name).to_owned(), *size)));
        }
        assert_eq!(code_of::<f64>(), 14);
        assert_ne!(code_of::<[u8; 3]>(), code_of::<[u8; 4]>());
    }

    /// However many calls are only counted, and beside one that notes each of them.
    #[test]
    fn calls_that_are_only_counted_are_told_as_well() {
        let (counted, noted) = (History::default(), History::default());
        let [one, other] = [Mark::barrier(), Mark::new::<u8>(Kind::Broadcast, Some(1), Some(0))];
        let (mut last, mut repeats, mut skipped) = (Entry(0), false, 0);
        for (run, mark) in (0..60).map(|run| (run, if run % 2 == 0 { one } else { other })) {
            for _ in 0..run % 11 {
                noted.note(mark);
                if repeats && last.mark() == mark && counted.note_again(last) {
                    (last, skipped) = (last.next(), skipped + 1);
                } else {
                    (last, repeats) = counted.note(mark);
                }
                assert_eq!(counted.recent(), noted.recent());
                assert_eq!(counted.difference(noted.recent()), None);
            }
        }
        assert!(skipped > 100, "{skipped}");
        // Another front has noted a call since.
        assert!(!counted.note_again(Entry(last.0 - (1 << MARK_BITS))));
    }

    #[test]
    fn numbers_begin_again() {
        let history = History::default();
        history.count.store((1 << (u64::BITS - MARK_BITS)) - 3, Ordering::Relaxed);
        let marks = [Mark::barrier(), Mark::new::<u8>(Kind::Reduce, Some(1), Some(0))];
        for mark in marks.into_iter().cycle().take(5) {
            history.note(mark);
        }
        let numbers = history.recent().map(|entry| Entry(entry).number());
        assert_eq!(numbers, [2, 1, 0, (1 << (u64::BITS - MARK_BITS)) - 1]);
    }

    #[test]
    fn calls_are_compared_at_the_same_place_alone() {
        let (one, other) = (History::default(), History::default());
        let broadcast = Mark::new::<u8>(Kind::Broadcast, Some(1), Some(0));
        let (mine, _) = one.note(broadcast);
        for mark in [broadcast, Mark::barrier(), Mark::barrier()] {
            other.note(mark);
        }
        let there = other.recent().map(Entry);
        assert!(there.iter().all(|&entry| !mine.differs(entry)));
        let (mine, _) = one.note(broadcast);
        assert_eq!(there.iter().filter(|&&entry| mine.differs(entry)).count(), 1);
    }
}
