//! Posted receives: what each takes, and how far it has got.

use std::{mem, sync::Arc};

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
}

impl Wanted {
    #[inline]
    pub(crate) fn new(pattern: Pattern, want: Want, members: &Arc<Members>) -> Self {
        let among = pattern.source.is_none().then(|| Arc::clone(members));
        Self { pattern, want, among }
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
    pub(crate) state: Receiving,
    pub(crate) landing: LandingPlace,
}

impl Posted {
    #[inline]
    pub(crate) fn new(state: Receiving) -> Self {
        Self { state, landing: LandingPlace::default() }
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
/// all else that is done for a short message.
#[derive(Debug, Default)]
pub(crate) struct Receives {
    places: Vec<Posted>,
    free: Vec<usize>,
}

impl Receives {
    /// Adds a receive, and returns its place.
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
    pub(crate) fn get_mut(&mut self, place: usize) -> Option<&mut Posted> {
        self.places.get_mut(place).filter(|posted| posted.is_posted())
    }

    /// Removes a receive.
    #[inline]
    pub(crate) fn remove(&mut self, place: usize) {
        if let Some(posted) = self.get_mut(place) {
            posted.state = Receiving::Free;
            self.free.push(place);
        }
    }

    /// Removes a receive, and returns how far it has got.
    pub(crate) fn take(&mut self, place: usize) -> Option<Receiving> {
        let state = mem::replace(&mut self.get_mut(place)?.state, Receiving::Free);
        self.free.push(place);
        Some(state)
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
