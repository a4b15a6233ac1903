//! Waiting for several requests of one rank, whatever their kinds.

use std::{cell::Cell, ops::Range, time::Duration};

use super::{
    landing::Landing,
    under_way::{Beside, Driven, Driver, Pending, UnderWay, Until, Watch, Watches},
};
use crate::{
    error::{Error, ErrorKind, Result},
    wait::{Doing, Wait},
    world::Rank,
};

/// Waits until all of several requests are done (`MPI_Waitall`). Afterwards, [`wait`](super::Request::wait) returns the
/// result of each at once.
///
/// ```
/// use onchip::wait_all;
/// # use onchip::Pending;
/// # fn several(requests: &mut [&mut dyn Pending]) -> onchip::Result<()> {
/// wait_all(requests)
/// # }
/// ```
///
/// # Errors
/// [`BadWorld`](crate::ErrorKind::BadWorld) when the requests do not all belong to one rank; the errors of
/// [`wait_with`](super::Request::wait_with).
pub fn wait_all<P: Pending>(requests: &mut [P]) -> Result<()> {
    let count = requests.len();
    let settle = |place: usize, last| requests[place].settle_at_once(last);
    let Some(first) = settle_in_rounds(count, settle) else { return Ok(()) };
    // Those before it are done, and need not be looked at again.
    let rest = &mut requests[first..];
    let wait = Wait::forever().or_failure();
    let count = rest.len();
    let parted = Parted::of(rest)?;
    if parted.is_of_one_engine() {
        parted.drive_all(wait)?;
    } else {
        bring_about(parted, &vec![Cell::new(true); count], wait, Until::All)?;
    }
    rest.iter_mut().for_each(Pending::settle);
    Ok(())
}

/// Ends requests one after the other, in rounds, as long as each round ends some. `settle` ends the request in a place
/// as [`settle_at_once`](Pending::settle_at_once) does. Returns the first place whose request is not done.
///
/// Mostly all of them are done already, or come at the same time.
#[doc(hidden)]
pub fn settle_in_rounds(
    count: usize,
    mut settle: impl FnMut(usize, bool) -> bool,
) -> Option<usize> {
    let (mut places, mut before) = (0..count, MOST_OPEN);
    loop {
        let (open, left) = settle_once(places, &mut settle);
        match open {
            0 => return None,
            _ if open == before => return Some(left.start),
            _ => (places, before) = (left, open),
        }
    }
}

/// The number of requests that are not done at which a round ends. Each look for a message takes time.
const MOST_OPEN: usize = 8;

/// Ends requests in these places. Returns how many of those that were looked at are not done, and where they are.
#[inline(always)]
fn settle_once(
    places: Range<usize>,
    settle: &mut impl FnMut(usize, bool) -> bool,
) -> (usize, Range<usize>) {
    let end = places.end;
    let (mut open, mut left) = (0, end..end);
    for place in places {
        if settle(place, open == 0 && place + 1 == end) {
            continue;
        }
        if open == 0 {
            left.start = place;
        }
        (open, left.end) = (open + 1, place + 1);
        if open == MOST_OPEN {
            break;
        }
    }
    (open, left)
}

/// Waits until one of several requests is done (`MPI_Waitany`), and returns its index. A persistent request that is not
/// started is skipped.
///
/// # Errors
/// Same as [`wait_all`]; [`BadWorld`](crate::ErrorKind::BadWorld) also when there is no request to wait for.
pub fn wait_any<P: Pending>(requests: &mut [P]) -> Result<usize> {
    // A request that an earlier wait for several requests has found done is returned at once.
    let is_known = |request: &mut P| request.is_active() && request.under_way().is_none();
    if let Some(place) = requests.iter_mut().position(is_known) {
        return Ok(place);
    }
    let none = || {
        Error::from(ErrorKind::BadWorld(
            "wait_any has no request to wait for: none was given, or none of them is started"
                .to_owned(),
        ))
    };
    wait_some(requests)?.first().copied().ok_or_else(none)
}

/// Waits until at least one of several requests is done (`MPI_Waitsome`), and returns the indices of those that are
/// done. Returns no index if there is no request to wait for. A persistent request that is not started is skipped.
///
/// # Errors
/// Same as [`wait_all`].
pub fn wait_some<P: Pending>(requests: &mut [P]) -> Result<Vec<usize>> {
    let (settled, _) = work(requests, Wait::forever().or_failure(), Until::Any)?;
    Ok(settle(requests, &settled))
}

/// Returns whether all of several requests are done (`MPI_Testall`). Requests that are not started are left out.
///
/// # Errors
/// Same as [`wait_all`].
pub fn test_all<P: Pending>(requests: &mut [P]) -> Result<bool> {
    are_all_done(requests, Duration::ZERO.into())
}

/// Returns the index of a request that is done, if there is one (`MPI_Testany`). A persistent request that is not
/// started is skipped.
///
/// # Errors
/// Same as [`wait_all`].
pub fn test_any<P: Pending>(requests: &mut [P]) -> Result<Option<usize>> {
    Ok(test_some(requests)?.first().copied())
}

/// Returns the indices of the requests that are done (`MPI_Testsome`). A persistent request that is not started is
/// skipped.
///
/// # Errors
/// Same as [`wait_all`].
pub fn test_some<P: Pending>(requests: &mut [P]) -> Result<Vec<usize>> {
    let (settled, _) = work(requests, Duration::ZERO.into(), Until::Any)?;
    Ok(settle(requests, &settled))
}

/// Waits for one request, and returns whether it is done.
pub(super) fn wait_one<P: Pending>(request: &mut P, wait: Wait) -> Result<bool> {
    are_all_done(&mut [request], wait)
}

fn are_all_done<P: Pending>(requests: &mut [P], wait: Wait) -> Result<bool> {
    let (settled, active) = work(requests, wait, Until::All)?;
    Ok(settle(requests, &settled).len() == active)
}

/// The pending requests of a call, by what advances them.
struct Parted<'a> {
    rank: Option<Rank>,
    /// The engine of the first request that has one, the places of the requests of this engine, and their handles.
    main: Option<&'a dyn Driver>,
    places: Vec<usize>,
    handles: Vec<usize>,
    landings: Vec<(usize, &'a mut dyn Landing)>,
    driven: Vec<(usize, &'a dyn Driver, usize)>,
    watched: Vec<(usize, &'a dyn Watch)>,
}

impl<'a> Parted<'a> {
    fn of<P: Pending>(requests: &'a mut [P]) -> Result<Self> {
        let mut parted = Self {
            rank: None,
            main: None,
            places: Vec::with_capacity(requests.len()),
            handles: Vec::with_capacity(requests.len()),
            landings: Vec::with_capacity(requests.len()),
            driven: Vec::new(),
            watched: Vec::new(),
        };
        for (place, request) in requests.iter_mut().enumerate() {
            match request.under_way() {
                None => {}
                Some(UnderWay::Driven { driver, handle, landing }) => {
                    let main = match parted.main {
                        Some(main) => main,
                        None => {
                            parted.is_of(&driver.rank())?;
                            *parted.main.insert(driver)
                        }
                    };
                    if std::ptr::addr_eq(main, driver) {
                        parted.places.push(place);
                        parted.handles.push(handle);
                        parted.landings.extend(landing.map(|landing| (handle, landing)));
                    } else {
                        parted.is_of(&driver.rank())?;
                        parted.driven.push((place, driver, handle));
                    }
                }
                Some(UnderWay::Watched(watch)) => {
                    parted.is_of(&watch.rank())?;
                    parted.watched.push((place, watch));
                }
            }
        }
        Ok(parted)
    }

    /// Checks that the requests belong to one rank, because each of them rings only the doorbell of its own rank.
    fn is_of(&mut self, rank: &Rank) -> Result<()> {
        let known = self.rank.get_or_insert_with(|| rank.clone());
        if known.context().whose() == rank.context().whose() {
            return Ok(());
        }
        let reason = "requests of different ranks or worlds can't be waited for together: wait for those \
                      of each rank by themselves";
        Err(ErrorKind::BadWorld(reason.to_owned()).into())
    }

    /// Returns whether one engine advances all pending requests.
    fn is_of_one_engine(&self) -> bool {
        self.driven.is_empty() && self.watched.is_empty()
    }

    /// Makes the engine work until all of its requests are done.
    fn drive_all(mut self, wait: Wait) -> Result<()> {
        let (Some(rank), Some(main)) = (&self.rank, self.main) else { return Ok(()) };
        let beside = Beside { rank, watched: &[], driven: &[], settled: &[], until: Until::All };
        // Requests that were found done are not checked again.
        let mut left = self.handles.iter().peekable();
        let mut are_done = |engine: &mut dyn Driven| {
            while left.next_if(|&&handle| engine.is_done(handle)).is_some() {}
            left.peek().is_none()
        };
        main.drive(&self.handles, &mut self.landings, wait, &beside, &mut are_done)?;
        Ok(())
    }

    /// Returns the places of all pending requests.
    fn places(&self) -> impl Iterator<Item = usize> {
        let driven = self.driven.iter().map(|(place, ..)| *place);
        let watched = self.watched.iter().map(|(place, _)| *place);
        self.places.iter().copied().chain(driven).chain(watched)
    }
}

/// Works until enough requests are done. Returns for each request whether it is done, and how many are active. If a
/// call waits for all requests and its limit is over before, some that are done may not be marked.
fn work<P: Pending>(
    requests: &mut [P],
    wait: Wait,
    until: Until,
) -> Result<(Vec<Cell<bool>>, usize)> {
    let settled: Vec<Cell<bool>> =
        requests.iter().map(|request| Cell::new(request.is_active())).collect();
    let active = settled.iter().filter(|settled| settled.get()).count();
    bring_about(Parted::of(requests)?, &settled, wait, until)?;
    Ok((settled, active))
}

/// Takes the results of the requests that are done, and returns which ones they are.
fn settle<P: Pending>(requests: &mut [P], settled: &[Cell<bool>]) -> Vec<usize> {
    let done = |(place, _): &(usize, &mut P)| settled[*place].get();
    let requests = requests.iter_mut().enumerate().filter(done);
    requests.map(|(place, request)| (place, request.settle()).0).collect()
}

/// Marks all pending requests as not settled, and works until enough requests are settled.
fn bring_about(parted: Parted<'_>, settled: &[Cell<bool>], wait: Wait, until: Until) -> Result<()> {
    parted.places().for_each(|place| settled[place].set(false));
    let Parted { rank, main, places, handles, mut landings, driven, watched } = parted;
    let Some(rank) = &rank else { return Ok(()) };
    let set = |place: usize, is_done: bool| {
        settled[place].set(settled[place].get() || is_done);
        settled[place].get()
    };
    let enough = |of_engine: bool| {
        let others = driven.iter().map(|(place, driver, handle)| (*place, driver.is_done(*handle)));
        let others = others.chain(watched.iter().map(|(place, watch)| (*place, watch.is_done())));
        // All of these requests are checked, so that each that is done is marked.
        let (mut all, mut any) = (true, false);
        for (place, is_done) in others {
            let is_settled = set(place, is_done);
            (all, any) = (all && is_settled, any || is_settled);
        }
        match until {
            Until::All => all && of_engine,
            Until::Any => any || of_engine,
        }
    };
    // For `Until::All`: the requests before this one are done, and those after it are not checked yet. So each request
    // is found done only once, however many there are.
    let mut next = 0;
    let mut of_engine = |is_done: &mut dyn FnMut(usize) -> bool| match until {
        Until::All => {
            while next < places.len() && is_done(handles[next]) {
                settled[places[next]].set(true);
                next += 1;
            }
            next == places.len()
        }
        Until::Any => {
            let asked = places.iter().zip(&handles);
            asked.fold(false, |any, (&place, &handle)| set(place, is_done(handle)) || any)
        }
    };
    let is_enough = until == Until::Any && settled.iter().any(Cell::get);
    if !is_enough && !wait.is_over() {
        watched.iter().try_for_each(|(_, watch)| watch.check())?;
    }
    let has_limit = is_enough || wait.limit.is_some() || wait.news.is_some();
    let _unlimited = (!has_limit).then(|| Unlimited::begin(&watched));
    match main {
        // Enough requests are done. This still advances the others, for a program that only calls this function again
        // and again.
        _ if is_enough => {
            rank.progress(0);
            enough(of_engine(&mut |handle| main.is_some_and(|main| main.is_done(handle))));
        }
        Some(main) => {
            let beside = Beside { rank, watched: &watched, driven: &driven, settled, until };
            let mut enough =
                |engine: &mut dyn Driven| enough(of_engine(&mut |handle| engine.is_done(handle)));
            main.drive(&handles, &mut landings, wait, &beside, &mut enough)?;
        }
        None => watch(rank, &watched, settled, until, wait, &|| enough(until == Until::All))?,
    }
    Ok(())
}

/// A wait without a limit. The operations to which this matters note the wait until this is dropped.
struct Unlimited<'a>(Vec<&'a dyn Watch>);

impl<'a> Unlimited<'a> {
    fn begin(watched: &[(usize, &'a dyn Watch)]) -> Self {
        Self(watched.iter().map(|(_, watch)| *watch).filter(|watch| watch.begin_wait()).collect())
    }
}

impl Drop for Unlimited<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|watch| watch.end_wait());
    }
}

/// Waits until `enough` returns true, where no engine is driven.
fn watch(
    rank: &Rank,
    watched: &[(usize, &dyn Watch)],
    settled: &[Cell<bool>],
    until: Until,
    wait: Wait,
    enough: &dyn Fn() -> bool,
) -> Result<()> {
    rank.progress(0);
    if enough() || wait.limit == Some(Duration::ZERO) {
        return Ok(());
    }
    let Some((_, first)) = watched.first() else { return Ok(()) };
    let (operation, words) = first.waited();
    let doing = Doing { operation, channel: words.first().copied().unwrap_or(0) };
    let beside = Beside { rank, watched, driven: &[], settled, until };
    let flags = Watches { flags: None, watched, call: &|| beside.call((Vec::new(), 0)) };
    let poll = || enough().then_some(());
    rank.context().wait_unless(wait, doing, &flags, poll).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Settles requests, of which each becomes done at a look with this number.
    fn settled(at: &[u32]) -> (Option<usize>, Vec<(usize, bool)>) {
        let (mut looks, mut calls) = (vec![0; at.len()], Vec::new());
        let first = settle_in_rounds(at.len(), |place, last| {
            looks[place] += 1;
            calls.push((place, last));
            looks[place] > at[place]
        });
        (first, calls)
    }

    #[test]
    fn rounds_go_on_while_they_end_requests() {
        assert_eq!(settled(&[]), (None, vec![]));
        assert_eq!(settled(&[0, 0]), (None, vec![(0, false), (1, true)]));
        // The second request is the last that is left, in the second round.
        let calls = vec![(0, false), (1, false), (2, false), (1, true)];
        assert_eq!(settled(&[0, 1, 0]), (None, calls));
        // The second round ends none.
        let (first, calls) = settled(&[0, 9, 0, 9, 0]);
        assert_eq!((first, &calls[5..]), (Some(1), &[(1, false), (2, false), (3, false)][..]));
        // The first round ends before all places.
        let (first, calls) = settled(&[9; 100]);
        assert_eq!((first, calls.len()), (Some(0), 8));
    }
}
