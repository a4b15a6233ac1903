//! Posted receives: what each takes, and its progress.

use mp_core::{ElementType, Error, ErrorKind, Result, requests::FixedBytes};
use std::{iter, sync::Arc};

use crate::communicator::{
    members::Members,
    messages::elements::unknown,
    messages::store::{Arrived, Content, Pattern},
    messages::wire::{Envelope, Inline},
};

/// The elements that a receive can take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want {
    pub(crate) fingerprint: u32,
    /// The number of bytes of an element.
    pub(crate) size: usize,
    /// The number of elements that fit; `None` for any number.
    pub(crate) room: Option<usize>,
    /// Whether exactly that number is needed.
    pub(crate) exact: bool,
    pub(crate) element: fn() -> ElementType,
}

impl Want {
    const NOTHING: Self =
        Self { fingerprint: 0, size: 0, room: None, exact: false, element: unknown };

    /// Returns why this receive can't take this message, if it can't. `theirs` is the sender's type.
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
            return Some(ErrorKind::WrongElements { source_rank, tag, count, ours, theirs }.into());
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
    /// For any source: the members from which the message may come.
    pub(crate) among: Option<Arc<Members>>,
}

/// The stage of a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// No receive is in this place.
    Free,
    Waiting,
    /// A message was found for it, and is not complete yet.
    Coming,
    /// Its message came, and was one line: see [`Came`].
    Line,
    /// Its message came, and is in its buffer: see [`Came`].
    Landed,
    /// Its message came, or never will.
    Ended,
    /// Its request was dropped while its message was coming.
    Abandoned,
}

/// A message that came for a receive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Came {
    pub(crate) source: u32,
    pub(crate) tag: u32,
    pub(crate) count: usize,
    /// The elements, in [`Stage::Line`].
    pub(crate) words: Inline,
}

/// A posted receive. Each stage has fields of its own, which are written in place. To build a receive elsewhere and
/// copy it here would be slow: the copy reads words that were just stored, and waits for them.
#[derive(Debug)]
pub(crate) struct Posted {
    stage: Stage,
    /// Valid from posting to removal, except for `among`, which is there only while the receive waits.
    wanted: Wanted,
    /// The waiting receives that were posted just before this one and just after it: see [`Receives`].
    before: usize,
    after: usize,
    landing: LandingPlace,
    /// Where its message can be written during any call, until its request is dropped.
    fixed: Option<FixedBytes>,
    /// In [`Stage::Line`] and [`Stage::Landed`].
    came: Came,
    /// In [`Stage::Ended`].
    ended: Option<Box<Result<Arrived>>>,
}

impl Posted {
    pub(crate) fn stage(&self) -> Stage {
        self.stage
    }

    pub(crate) fn landing(&self) -> LandingPlace {
        self.landing
    }

    /// Returns what it waits for, if it waits.
    #[inline(always)]
    pub(crate) fn waits_for(&self) -> Option<&Wanted> {
        (self.stage == Stage::Waiting).then_some(&self.wanted)
    }

    /// Returns what it takes.
    pub(crate) fn pattern(&self) -> Pattern {
        self.wanted.pattern
    }

    /// Returns whether its message has come, or never will.
    #[inline(always)]
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.stage, Stage::Line | Stage::Landed | Stage::Ended)
    }

    pub(crate) fn is_coming(&self) -> bool {
        self.stage == Stage::Coming
    }

    /// Returns the message that came for it, if it was one line or is in its buffer.
    #[inline(always)]
    pub(crate) fn came(&self) -> Option<&Came> {
        matches!(self.stage, Stage::Line | Stage::Landed).then_some(&self.came)
    }

    /// Returns what [came](Self::came) as a message of any kind.
    fn came_whole(&self) -> Option<Arrived> {
        let &Came { source, tag, count, words } = self.came()?;
        let Wanted { pattern, want: Want { fingerprint, size, .. }, .. } = self.wanted;
        let context = pattern.context();
        let bytes = count * size;
        let envelope = Envelope { context, source, tag, fingerprint, count, bytes, sync: 0 };
        let content = match self.stage {
            Stage::Line => Content::Inline(words),
            _ => Content::Bytes { landed: Some(bytes), rest: Vec::new() },
        };
        Some(Arrived { envelope, content })
    }
}

/// The posted receives, each in a place that it keeps. Those that wait form a list, in the order of posting.
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
    /// Adds a receive that waits behind all others, and returns its place. For any source, `among` gives the members.
    #[inline(always)]
    pub(crate) fn post(
        &mut self,
        pattern: Pattern,
        want: Want,
        among: Option<Arc<Members>>,
    ) -> usize {
        let (before, after) = (self.last, NONE);
        let place = self.free.pop().unwrap_or_else(|| self.make_place());
        let posted = &mut self.places[place];
        posted.wanted.pattern = pattern;
        posted.wanted.want = want;
        if among.is_some() {
            posted.wanted.among = among;
        }
        (posted.before, posted.after) = (before, after);
        posted.landing = LandingPlace::default();
        posted.stage = Stage::Waiting;
        self.link(before, place);
        self.last = place;
        place
    }

    #[cold]
    #[inline(never)]
    fn make_place(&mut self) -> usize {
        self.places.push(Posted::FREE);
        self.places.len() - 1
    }

    #[inline(always)]
    pub(crate) fn get(&self, place: usize) -> Option<&Posted> {
        self.places.get(place).filter(|posted| posted.stage != Stage::Free)
    }

    #[inline(always)]
    fn get_mut(&mut self, place: usize) -> Option<&mut Posted> {
        self.places.get_mut(place).filter(|posted| posted.stage != Stage::Free)
    }

    /// Returns what a receive waits for, if it waits.
    #[inline(always)]
    pub(crate) fn wanted(&self, place: usize) -> Option<&Wanted> {
        self.get(place)?.waits_for()
    }

    /// Returns the receive that has waited longest.
    #[inline(always)]
    pub(crate) fn first(&self) -> Option<(usize, &Wanted)> {
        Some((self.first, self.wanted(self.first)?))
    }

    /// Returns the receive that has waited longest of those that may take a message from this rank.
    #[inline(always)]
    pub(crate) fn first_from(&self, source: u32) -> Option<(usize, &Wanted)> {
        let first = self.first()?;
        match first.1.pattern.looks_at(source) {
            true => Some(first),
            false => self.first_behind(source),
        }
    }

    /// Finds it behind others, unless they are many.
    #[inline(never)]
    fn first_behind(&self, source: u32) -> Option<(usize, &Wanted)> {
        const MANY: usize = 8;
        let mut waiting = self.waiting().take(MANY);
        waiting.find(|(_, wanted)| wanted.pattern.looks_at(source))
    }

    /// Returns those that wait, in the order of posting.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (usize, &Wanted)> {
        iter::successors(self.first(), |&(place, _)| {
            let after = self.places[place].after;
            Some((after, self.wanted(after)?))
        })
    }

    /// Notes that a message was found for a receive, and is coming.
    pub(crate) fn set_coming(&mut self, place: usize) {
        self.leave_list(place, Stage::Coming);
    }

    /// Adds a receive for a message that is coming and that nobody wants. Like every receive that is under way, it keeps
    /// the waits of the rank from leaving the message where it is.
    pub(crate) fn add_abandoned(&mut self) -> usize {
        let place = self.post(Pattern::NOTHING, Want::NOTHING, None);
        self.set_abandoned(place);
        place
    }

    /// Notes that the request of a receive was dropped while its message is coming.
    pub(crate) fn set_abandoned(&mut self, place: usize) {
        self.leave_list(place, Stage::Abandoned);
        self.set_fixed(place, None);
    }

    /// Notes that a message of one line came for a receive. Returns the field that the caller writes it to.
    #[inline(always)]
    pub(crate) fn line_came(&mut self, place: usize) -> Option<&mut Came> {
        self.leave_list(place, Stage::Line);
        self.get_mut(place).map(|posted| &mut posted.came)
    }

    /// Notes that a receive's message came, or never will.
    pub(crate) fn end(&mut self, place: usize, ended: Result<Arrived>) {
        if let Ok(Arrived { envelope, content: Content::Inline(words) }) = ended {
            let Envelope { source, tag, count, .. } = envelope;
            if let Some(came) = self.line_came(place) {
                *came = Came { source, tag, count, words };
            }
            return;
        }
        if let Ok(Arrived { envelope, content: Content::Bytes { landed, .. } }) = &ended
            && *landed == Some(envelope.bytes)
        {
            let Envelope { source, tag, count, .. } = *envelope;
            return self.landed(place, source, tag, count);
        }
        self.leave_list(place, Stage::Ended);
        if let Some(posted) = self.get_mut(place) {
            posted.ended = Some(Box::new(ended));
        }
    }

    /// Notes that a receive's message of `count` elements is in its buffer.
    #[inline]
    pub(crate) fn landed(&mut self, place: usize, source: u32, tag: u32, count: usize) {
        self.leave_list(place, Stage::Landed);
        if let Some(Posted { came, .. }) = self.get_mut(place) {
            (came.source, came.tag, came.count) = (source, tag, count);
        }
    }

    /// Notes where a receive lands.
    pub(crate) fn set_landing(&mut self, place: usize, landing: LandingPlace) {
        if let Some(posted) = self.get_mut(place) {
            posted.landing = landing;
        }
    }

    /// Notes where the message of a receive can be written during any call.
    #[inline(always)]
    pub(crate) fn set_fixed(&mut self, place: usize, fixed: Option<FixedBytes>) {
        if let Some(posted) = self.get_mut(place) {
            posted.fixed = fixed;
        }
    }

    /// Returns the first `bytes` bytes of the memory where the message of a receive can be written during any call, if
    /// it fits there.
    pub(crate) fn fixed(&mut self, place: usize, bytes: usize) -> Option<&mut [u8]> {
        self.get_mut(place)?.fixed.as_mut()?.first(bytes)
    }

    /// Removes a receive.
    #[inline(always)]
    pub(crate) fn remove(&mut self, place: usize) {
        self.leave_list(place, Stage::Ended);
        if let Some(posted) = self.get_mut(place) {
            posted.stage = Stage::Free;
            posted.fixed = None;
            if posted.ended.is_some() {
                posted.ended = None;
            }
            self.free.push(place);
        }
    }

    /// Removes a receive whose message came, or never will, and returns that.
    pub(crate) fn take_ended(&mut self, place: usize) -> Option<Result<Arrived>> {
        let posted = self.get_mut(place)?;
        let ended = match posted.came_whole() {
            Some(arrived) => Ok(arrived),
            None => *posted.ended.take()?,
        };
        self.remove(place);
        Some(ended)
    }

    /// Sets the stage of a receive, and takes it off the list if it waited.
    #[inline(always)]
    fn leave_list(&mut self, place: usize, stage: Stage) {
        let Some(posted) = self.get_mut(place) else { return };
        let waited = posted.stage == Stage::Waiting;
        posted.stage = stage;
        if waited {
            if posted.wanted.among.is_some() {
                posted.wanted.among = None;
            }
            let (before, after) = (posted.before, posted.after);
            self.link(before, after);
        }
    }

    /// Links two receives that wait. An end of the list stands before the first, and after the last.
    #[inline(always)]
    fn link(&mut self, before: usize, after: usize) {
        match self.places.get_mut(before) {
            Some(posted) => posted.after = after,
            None => self.first = after,
        }
        match self.places.get_mut(after) {
            Some(posted) => posted.before = before,
            None => self.last = before,
        }
    }

    /// Returns the number of receives.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Posted> {
        self.places.iter().filter(|posted| posted.stage != Stage::Free)
    }
}

impl Posted {
    /// A place without a receive.
    const FREE: Self = Self {
        stage: Stage::Free,
        wanted: Wanted { pattern: Pattern::NOTHING, want: Want::NOTHING, among: None },
        before: NONE,
        after: NONE,
        landing: LandingPlace { call: 0, index: 0 },
        fixed: None,
        came: Came { source: 0, tag: 0, count: 0, words: [0; _] },
        ended: None,
    };
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
    use crate::communicator::messages::wire::INLINE_BYTES;

    /// Posts a receive for this tag.
    fn post(receives: &mut Receives, tag: u32) -> usize {
        let (size, element) = (8, ElementType::of::<u64> as fn() -> ElementType);
        let want = Want { fingerprint: 0, size, room: None, exact: false, element };
        receives.post(Pattern::new(0, Some(0), Some(tag)), want, None)
    }

    /// The state of a receive in the model.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Is {
        Waiting,
        Coming,
        Abandoned,
        /// Its message came, with this tag.
        Done(u32, Stage),
    }

    proptest! {
        /// Compares the receives with a list of their tags and states, in the order of posting.
        #[test]
        fn those_that_wait_stay_in_order(steps in proptest::collection::vec((0..9u8, 0..20usize), 0..200)) {
            let mut receives = Receives::default();
            let mut model: Vec<(usize, u32, Is)> = Vec::new();
            for (number, (what, which)) in (0..).zip(steps) {
                let which = if model.is_empty() { 0 } else { which % model.len() };
                let is = |is| model.get(which).is_some_and(|of| of.2 == is);
                match what {
                    0..=2 => model.push((post(&mut receives, number), number, Is::Waiting)),
                    8 => model.push((receives.add_abandoned(), number, Is::Abandoned)),
                    3 if is(Is::Waiting) => {
                        receives.set_coming(model[which].0);
                        model[which].2 = Is::Coming;
                    }
                    4 if is(Is::Coming) => {
                        receives.set_abandoned(model[which].0);
                        model[which].2 = Is::Abandoned;
                    }
                    5 if is(Is::Waiting) => {
                        let words = [u64::from(number); INLINE_BYTES / 8];
                        let came = receives.line_came(model[which].0).unwrap();
                        *came = Came { source: 3, tag: number, count: 2, words };
                        model[which].2 = Is::Done(number, Stage::Line);
                    }
                    6 if is(Is::Waiting) || is(Is::Coming) => {
                        let (context, source, tag, fingerprint) = (0, 3, number, 0);
                        let envelope =
                            Envelope { context, source, tag, fingerprint, count: 2, bytes: 16, sync: 0 };
                        let rest = vec![number as u8; 16];
                        let (content, stage) = match which % 2 {
                            0 => (Content::Bytes { landed: None, rest }, Stage::Ended),
                            _ => (Content::Bytes { landed: Some(16), rest: Vec::new() }, Stage::Landed),
                        };
                        receives.end(model[which].0, Ok(Arrived { envelope, content }));
                        model[which].2 = Is::Done(number, stage);
                    }
                    7 if !model.is_empty() => {
                        let (place, _, is) = model.remove(which);
                        prop_assert_eq!(receives.wanted(place).is_some(), is == Is::Waiting);
                        match (receives.take_ended(place), is) {
                            (Some(Ok(Arrived { envelope, content })), Is::Done(tag, stage)) => {
                                prop_assert_eq!((envelope.tag, envelope.bytes), (tag, 16));
                                prop_assert_eq!(stage, match content {
                                    Content::Inline(_) => Stage::Line,
                                    Content::Bytes { landed: Some(16), .. } => Stage::Landed,
                                    _ => Stage::Ended,
                                });
                            }
                            (None, Is::Waiting | Is::Coming | Is::Abandoned) => receives.remove(place),
                            (taken, _) => prop_assert!(false, "{taken:?}"),
                        }
                        prop_assert!(receives.get(place).is_none());
                    }
                    _ => {}
                }
                let waiting = receives.waiting().map(|(place, of)| (place, of.pattern.tag()));
                let expected = model.iter().filter(|(_, _, is)| *is == Is::Waiting);
                let expected = expected.map(|&(place, tag, _)| (place, Some(tag)));
                prop_assert_eq!(waiting.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
                prop_assert_eq!((receives.len(), receives.iter().count()), (model.len(), model.len()));
                for &(place, _, is) in &model {
                    let posted = receives.get(place).unwrap();
                    prop_assert_eq!(posted.has_ended(), matches!(is, Is::Done(..)));
                    prop_assert_eq!(
                        posted.came().is_some(),
                        matches!(is, Is::Done(_, Stage::Line | Stage::Landed))
                    );
                    prop_assert!(posted.wanted.among.is_none());
                }
            }
        }
    }
}
