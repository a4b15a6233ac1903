//! Posted receives: what each takes, and how far it has got.

use std::{iter, mem, sync::Arc};

use crate::{
    elements::ElementType,
    error::{Error, ErrorKind},
    members::Members,
    store::{Arrived, Pattern},
    wire::Envelope,
};

/// The elements that a receive can take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want {
    pub(crate) fingerprint: u32,
    /// Bytes of an element.
    pub(crate) size: usize,
    /// Elements that fit; `None` for any number.
    pub(crate) room: Option<usize>,
    /// Exactly as many are needed.
    pub(crate) exact: bool,
    pub(crate) element: fn() -> ElementType,
}

impl Want {
    /// Returns why this message can't be received so, if it can't. `theirs` is the sender's type.
    pub(crate) fn refuses(
        &self,
        envelope: &Envelope,
        theirs: impl FnOnce() -> ElementType,
    ) -> Option<Error> {
        let Envelope { source, tag, fingerprint, count, bytes, .. } = *envelope;
        let source_rank = source as usize;
        let short = self.exact && self.room.is_some_and(|room| count < room);
        let other = fingerprint != self.fingerprint || count.checked_mul(self.size) != Some(bytes);
        if other || short {
            let (ours, theirs) = (Box::new((self.element)()), Box::new(theirs()));
            return Some(ErrorKind::OtherElements { source_rank, tag, count, ours, theirs }.into());
        }
        let room = self.room.filter(|&room| room < count)?;
        Some(ErrorKind::Truncated { source_rank, tag, count, room }.into())
    }
}

/// What a receive waits for.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) pattern: Pattern,
    pub(crate) want: Want,
    /// From any source: among whom that is.
    pub(crate) among: Option<Arc<Members>>,
    /// Of those that wait, the ones that were posted just before and after it: see [`Receives`].
    before: usize,
    after: usize,
}

impl Wanted {
    #[inline]
    pub(crate) fn new(pattern: Pattern, want: Want, members: &Arc<Members>) -> Self {
        let among = pattern.source.is_none().then(|| Arc::clone(members));
        Self { pattern, want, among, before: NONE, after: NONE }
    }
}

/// How far a receive has got.
#[derive(Debug)]
pub(crate) enum Receiving {
    /// Nothing has come for it.
    Waiting(Wanted),
    /// Its message is coming.
    Coming,
    Done(Arrived),
    Failed(Error),
    /// Nobody wants it any more, but its message is coming.
    Abandoned,
    /// Nothing is posted in this place.
    Free,
}

/// A posted receive.
#[derive(Debug)]
pub(crate) struct Posted {
    state: Receiving,
    landing: LandingPlace,
}

impl Posted {
    #[inline]
    fn new(state: Receiving) -> Self {
        Self { state, landing: LandingPlace::default() }
    }

    #[inline]
    pub(crate) fn state(&self) -> &Receiving {
        &self.state
    }

    pub(crate) fn landing(&self) -> LandingPlace {
        self.landing
    }

    #[inline]
    fn is_posted(&self) -> bool {
        !matches!(self.state, Receiving::Free)
    }

    /// Returns what it waits for, if it waits.
    #[inline]
    pub(crate) fn waits_for(&self) -> Option<&Wanted> {
        match &self.state {
            Receiving::Waiting(wanted) => Some(wanted),
            _ => None,
        }
    }

    /// Returns whether its message has come, or never will.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.state, Receiving::Done(_) | Receiving::Failed(_))
    }

    pub(crate) fn is_coming(&self) -> bool {
        matches!(self.state, Receiving::Coming)
    }
}

/// The receives that are posted, each in a place that it keeps. They stay there, because to copy one takes longer than
/// all else that is done for a short message. Those that wait are a list, in the order of posting.
#[derive(Debug)]
pub(crate) struct Receives {
    places: Vec<Posted>,
    free: Vec<usize>,
    first: usize,
    last: usize,
}

/// No place: the end of the list.
const NONE: usize = usize::MAX;

impl Default for Receives {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new(), first: NONE, last: NONE }
    }
}

impl Receives {
    /// Adds a receive that waits behind all others, and returns its place.
    #[inline]
    pub(crate) fn post(&mut self, wanted: Wanted) -> usize {
        let last = self.last;
        let place = self.insert(Receiving::Waiting(Wanted { before: last, after: NONE, ..wanted }));
        self.link(last, place);
        self.last = place;
        place
    }

    /// Adds a receive that waits no more, and returns its place.
    #[inline]
    pub(crate) fn insert(&mut self, state: Receiving) -> usize {
        match self.free.pop() {
            Some(place) => {
                self.places[place] = Posted::new(state);
                place
            }
            None => {
                self.places.push(Posted::new(state));
                self.places.len() - 1
            }
        }
    }

    #[inline]
    pub(crate) fn get(&self, place: usize) -> Option<&Posted> {
        self.places.get(place).filter(|posted| posted.is_posted())
    }

    #[inline]
    fn get_mut(&mut self, place: usize) -> Option<&mut Posted> {
        self.places.get_mut(place).filter(|posted| posted.is_posted())
    }

    /// Returns what a receive waits for, if it waits.
    #[inline]
    pub(crate) fn wanted(&self, place: usize) -> Option<&Wanted> {
        self.get(place)?.waits_for()
    }

    /// Returns the receive that has waited longest.
    #[inline]
    pub(crate) fn first(&self) -> Option<(usize, &Wanted)> {
        Some((self.first, self.wanted(self.first)?))
    }

    /// Returns those that wait, in the order of posting.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (usize, &Wanted)> {
        iter::successors(self.first(), |(_, wanted)| {
            Some((wanted.after, self.wanted(wanted.after)?))
        })
    }

    /// Says how far a receive has got; one that waits does so no more.
    #[inline]
    pub(crate) fn set(&mut self, place: usize, state: Receiving) {
        self.unlink(place);
        if let Some(posted) = self.get_mut(place) {
            posted.state = state;
        }
    }

    /// Notes where a receive lands.
    pub(crate) fn set_landing(&mut self, place: usize, landing: LandingPlace) {
        if let Some(posted) = self.get_mut(place) {
            posted.landing = landing;
        }
    }

    /// Removes a receive.
    #[inline]
    pub(crate) fn remove(&mut self, place: usize) {
        self.unlink(place);
        if let Some(posted) = self.get_mut(place) {
            posted.state = Receiving::Free;
            self.free.push(place);
        }
    }

    /// Removes a receive, and returns how far it has got.
    pub(crate) fn take(&mut self, place: usize) -> Option<Receiving> {
        self.unlink(place);
        let state = mem::replace(&mut self.get_mut(place)?.state, Receiving::Free);
        self.free.push(place);
        Some(state)
    }

    #[inline]
    fn unlink(&mut self, place: usize) {
        if let Some(&Wanted { before, after, .. }) = self.wanted(place) {
            self.link(before, after);
        }
    }

    /// Has two that wait follow each other. An end of the list stands before the first, and after the last.
    #[inline]
    fn link(&mut self, before: usize, after: usize) {
        match self.places.get_mut(before).map(|posted| &mut posted.state) {
            Some(Receiving::Waiting(wanted)) => wanted.after = after,
            _ => self.first = after,
        }
        match self.places.get_mut(after).map(|posted| &mut posted.state) {
            Some(Receiving::Waiting(wanted)) => wanted.before = before,
            _ => self.last = before,
        }
    }

    /// How many there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Posted> {
        self.places.iter().filter(|posted| posted.is_posted())
    }
}

/// Where a call that works for several receives has the landing of one of them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LandingPlace {
    /// The number of the call. It means nothing to the calls after it.
    pub(crate) call: u64,
    pub(crate) index: u32,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wanted(tag: u32) -> Wanted {
        let pattern = Pattern { context: 0, source: Some(0), tag: Some(tag) };
        let (size, element) = (8, ElementType::of::<u64> as fn() -> ElementType);
        let want = Want { fingerprint: 0, size, room: None, exact: false, element };
        Wanted { pattern, want, among: None, before: NONE, after: NONE }
    }

    proptest! {
        /// Against a list of what is posted, in the order of posting, and whether it waits.
        #[test]
        fn those_that_wait_stay_in_order(steps in proptest::collection::vec((0..5u8, 0..20usize), 0..200)) {
            let mut receives = Receives::default();
            let mut model: Vec<(usize, u32, bool)> = Vec::new();
            for (number, (what, which)) in (0..).zip(steps) {
                match what {
                    0 | 1 => model.push((receives.post(wanted(number)), number, true)),
                    2 => model.push((receives.insert(Receiving::Coming), number, false)),
                    _ if model.is_empty() => prop_assert!(receives.first().is_none()),
                    3 => {
                        let which = which % model.len();
                        receives.set(model[which].0, Receiving::Abandoned);
                        model[which].2 = false;
                    }
                    _ => {
                        let (place, _, waits) = model.remove(which % model.len());
                        let removed = receives.take(place);
                        prop_assert_eq!(matches!(removed, Some(Receiving::Waiting(_))), waits);
                        prop_assert!(receives.get(place).is_none());
                    }
                }
                let waiting = receives.waiting().map(|(place, of)| (place, of.pattern.tag));
                let expected = model.iter().filter(|(_, _, waits)| *waits);
                let expected = expected.map(|&(place, tag, _)| (place, Some(tag)));
                prop_assert_eq!(waiting.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
                prop_assert_eq!((receives.len(), receives.iter().count()), (model.len(), model.len()));
            }
        }
    }
}
