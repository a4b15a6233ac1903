//! The place where messages meet the calls that want them: posted receives, unexpected messages, and sends that are not
//! done.
//!
//! The receiver takes one line at a time off a channel, its *head* (`receive_stream.rs`). The head goes to the first
//! posted receive that matches it. If none does, the head moves to the store if anything from that rank is waited for
//! that may lie behind it. Otherwise it stays where it is. So a message is stored only when a receive must look past
//! it, and the room of the channel limits how far a sender gets ahead.

use std::{any::Any, collections::HashMap, sync::Arc};

use mp_core::{BufferMut, ElementType, Error, ErrorKind, Result, requests::Landing};
use slab::Slab;

use crate::communicator::{
    error::{self, not_sent, reason_in_this_rank, revoked},
    members::Members,
    messages::communicators::Communicators,
    messages::eager::{Backlog, Unexpected},
    messages::elements::unknown,
    messages::posted::{Came, LandingPlace, Posted, Receives, Stage, Want, Wanted},
    messages::send_queue::{End, Kept},
    messages::store::{Arrived, Content, Pattern, Store},
    messages::wire::{Answer, Envelope, Line, copy_inline},
};

/// Stands for the receive of a message that must be dropped: no receive has this number. A message that has more to
/// come gets an [abandoned receive](Matching::receive_for) instead.
pub(crate) const NOBODY: usize = usize::MAX;

/// A send that was not done at once.
pub(crate) struct Sending {
    pub(crate) to: u32,
    /// The context of the message.
    pub(crate) context: u32,
    pub(crate) tag: u32,
    /// The number under which the receiver acknowledges it; 0 if it does not.
    pub(crate) sync: u32,
    pub(crate) gone: bool,
    pub(crate) acknowledged: bool,
    pub(crate) failed: Option<Error>,
    /// The payload that stays here until the receiver has a receive for it; [`Kept::Nothing`] if a call that lasts has
    /// it.
    pub(crate) held: Option<Kept>,
    /// What was sent, to be returned.
    pub(crate) back: Option<Box<dyn Any + Send>>,
    /// Whether it is no longer waited for.
    pub(crate) abandoned: bool,
    /// Whether it was revoked. The receiver may not know yet, and may still refer to its number.
    pub(crate) retired: bool,
}

/// A send that failed for a reason that lies in this rank, and that no call has reported yet.
pub(crate) struct Untold {
    /// Its place among the [sends](Matching::sends), unless the program has dropped the request.
    place: Option<usize>,
    to: u32,
    reason: String,
}

/// The answer to a message that has a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) to: u32,
    pub(crate) sync: u32,
    pub(crate) answer: Answer,
}

impl Sending {
    /// Makes a send without a result yet.
    pub(crate) fn new(to: u32, context: u32, tag: u32) -> Self {
        Self {
            to,
            context,
            tag,
            sync: 0,
            gone: false,
            acknowledged: false,
            failed: None,
            held: None,
            back: None,
            abandoned: false,
            retired: false,
        }
    }

    /// Makes what stays in the place of a send that is [retired](Self::retired), so that no other send gets its number.
    fn tombstone(to: u32, context: u32) -> Self {
        Self { failed: Some(revoked()), retired: true, ..Self::new(to, context, 0) }
    }

    fn is_tombstone(&self) -> bool {
        self.retired && self.sync == 0
    }

    /// Returns whether only the receiver's answer is missing.
    pub(crate) fn awaits_answer(&self) -> bool {
        self.sync != 0 && !self.acknowledged && (self.gone || self.held.is_some())
    }

    pub(crate) fn is_done(&self) -> bool {
        self.failed.is_some() || self.gone && (self.sync == 0 || self.acknowledged)
    }
}

/// A message that a receive has taken and that is still with its sender, from where it can be [copied](super::direct).
#[derive(Debug)]
pub(crate) struct Direct {
    pub(crate) envelope: Envelope,
    /// The receive.
    pub(crate) receive: usize,
    /// Where the elements lie in the world's memory.
    pub(crate) place: u64,
}

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Matching {
    /// This rank's number in the world.
    me: u32,
    pub(crate) receives: Receives,
    pub(crate) store: Store,
    pub(crate) sends: Slab<Sending>,
    /// The number of the last call that has said where its receives land.
    call: u64,
    /// Failed sends that no call has reported yet. While there are any, no call sleeps.
    pub(crate) untold: Vec<Untold>,
    /// Synchronous sends that are not acknowledged, by receiver: how many there are.
    pub(crate) unacknowledged: HashMap<u32, usize>,
    /// Types that any sender has announced, by fingerprint.
    pub(crate) types: Vec<(u32, ElementType)>,
    /// Answers that must be sent.
    pub(crate) due: Vec<Due>,
    /// The memory of unexpected messages.
    pub(crate) backlog: Backlog,
    /// Rendezvous that were matched here and whose payload has not begun to come, by source and number; and their
    /// receives.
    awaited: HashMap<(u32, u32), (Envelope, usize)>,
    /// Rendezvous that were matched here by calls that could not [copy](super::direct) them.
    pub(crate) direct: Vec<Direct>,
    /// Receivers that have [copied](super::direct) messages of this rank, and whether they were not slow.
    pub(crate) copied: Vec<(u32, bool)>,
    /// The number of sends of which this rank holds the payload.
    holding: usize,
    /// The places of those sends that were matched.
    pub(crate) released: Vec<usize>,
    /// Ranks of the world that are alive and can send nothing more.
    pub(crate) broken: Vec<u32>,
    /// For reports.
    pub(crate) communicators: Communicators,
    /// Communicators that are revoked.
    revoked: Vec<u32>,
}

impl Matching {
    pub(crate) fn new(me: u32) -> Self {
        Self { me, ..Self::default() }
    }

    /// Returns whether a message of this context belongs to a communicator that is revoked.
    #[inline]
    pub(crate) fn is_revoked(&self, context: u32) -> bool {
        !self.revoked.is_empty() && self.revoked.contains(&(context >> 1))
    }

    /// Returns an error if the communicator of this context is revoked. Every call that begins something asks this
    /// while it has the engine. What the communicator itself has seen may be older: a thread to which the engine was
    /// lent may have heard of the revocation since, and has failed only what was pending by then.
    #[inline]
    pub(crate) fn check_revoked(&self, context: u32) -> Result<()> {
        if self.is_revoked(context) { Err(revoked()) } else { Ok(()) }
    }

    /// Returns the call that waits for a receive, as reports tell it.
    pub(crate) fn receive_call(&self, place: usize) -> Option<String> {
        let posted = self.receives.get(place).filter(|posted| !posted.has_ended())?;
        self.communicators.receive("receive", posted.pattern())
    }

    /// Returns the call that waits for a send, as reports tell it.
    pub(crate) fn send_call(&self, place: usize) -> Option<String> {
        let sending = self.sends.get(place).filter(|sending| !sending.is_done())?;
        self.communicators.send(sending.context, Some(sending.tag), sending.to)
    }

    /// Returns whether any communicator is revoked.
    pub(crate) fn has_revoked(&self) -> bool {
        !self.revoked.is_empty()
    }

    /// Fails everything that waits in a communicator, and drops the messages that have come for it. A receive whose
    /// message has begun to come still gets it.
    pub(crate) fn revoke(&mut self, communicator: u32) {
        self.revoked.push(communicator);
        let is_of = |context: u32| context >> 1 == communicator;
        for arrived in self.store.forget(|arrived| is_of(arrived.envelope.context)) {
            self.backlog.remove(self.kept(&arrived));
            self.refuse(&arrived.envelope);
        }
        let waiting = self.receives.waiting();
        let revoked = waiting.filter(|(_, wanted)| is_of(wanted.pattern.context()));
        let asked = self.awaited.extract_if(|_, (envelope, _)| is_of(envelope.context));
        let asked = asked.map(|(_, (_, place))| place);
        let direct = self.direct.extract_if(.., |direct| is_of(direct.envelope.context));
        let direct: Vec<Direct> = direct.collect();
        let asked = asked.chain(direct.iter().map(|direct| direct.receive));
        for place in revoked.map(|(place, _)| place).chain(asked).collect::<Vec<_>>() {
            self.fail(place, error::revoked());
        }
        direct.iter().for_each(|direct| self.refuse(&direct.envelope));
        let sends = self.sends.iter();
        let sends = sends.filter(|(_, send)| is_of(send.context) && !send.is_done());
        for place in sends.map(|(place, _)| place).collect::<Vec<_>>() {
            self.revoke_send(place);
        }
    }

    /// Withholds the numbers of all sends of a communicator that is about to be revoked from other sends: their
    /// receivers may not know yet, and may still refer to them.
    pub(crate) fn retire(&mut self, communicator: u32) {
        for (_, send) in &mut self.sends {
            let is_over = send.gone && send.acknowledged || send.to == self.me;
            send.retired |= send.context >> 1 == communicator && send.sync != 0 && !is_over;
        }
    }

    fn revoke_send(&mut self, place: usize) {
        // A payload that a call keeps stays with the call.
        let own = |sending: &Sending| sending.held.as_ref().is_some_and(|held| !held.is_nothing());
        let held = match self.sends.get(place).is_some_and(own) {
            true => self.take_held(place),
            false => None,
        };
        if let Some(sending) = self.sends.get_mut(place) {
            sending.failed = Some(revoked());
            sending.back = held.and_then(Kept::back).or(sending.back.take());
            self.forget_if_abandoned(place);
        }
    }

    pub(crate) fn element(&self, fingerprint: u32) -> ElementType {
        self.known(fingerprint).cloned().unwrap_or_else(unknown)
    }

    pub(crate) fn known(&self, fingerprint: u32) -> Option<&ElementType> {
        let known = self.types.iter().find(|(known, _)| *known == fingerprint);
        known.map(|(_, element)| element)
    }

    pub(crate) fn learn(&mut self, fingerprint: u32, element: ElementType) {
        if self.known(fingerprint).is_none() {
            self.types.push((fingerprint, element));
        }
    }

    /// Takes a message that has arrived for this receive, or puts the receive among those that wait.
    #[inline(always)]
    pub(crate) fn post(
        &mut self,
        pattern: Pattern,
        want: Want,
        members: &Arc<Members>,
    ) -> Result<usize> {
        if !self.store.is_empty()
            && let Some(place) = self.post_for_stored(pattern, want)?
        {
            return Ok(place);
        }
        let among = pattern.source().is_none().then(|| Arc::clone(members));
        Ok(self.receives.post(pattern, want, among))
    }

    /// Posts a receive for which a message has arrived. Returns `None` if none has.
    #[cold]
    #[inline(never)]
    fn post_for_stored(&mut self, pattern: Pattern, want: Want) -> Result<Option<usize>> {
        let Some((place, arrived)) = self.store.find(pattern) else { return Ok(None) };
        let envelope = arrived.envelope;
        let theirs = || self.element(envelope.fingerprint);
        let refused = want.refuses(&envelope, theirs);
        if refused.is_some() && !pattern.is_together() {
            return refused.map_or(Ok(None), Err);
        }
        let Some(arrived) = self.take_stored(place) else { return Ok(None) };
        let away = match arrived.content {
            Content::Away { place } => Some(place),
            _ => None,
        };
        if let Some(error) = refused {
            if away.is_some() {
                self.invite(&envelope, NOBODY);
            }
            return Err(error);
        }
        let receive = self.receives.post(pattern, want, None);
        match away {
            Some(place) => {
                self.receives.set_coming(receive);
                match place {
                    Some(place) => self.direct.push(Direct { envelope, receive, place }),
                    None => self.invite(&envelope, receive),
                }
            }
            None => {
                self.receives.end(receive, Ok(arrived));
                self.matched(&envelope);
            }
        }
        Ok(Some(receive))
    }

    /// Records where the receives of a call land, in the order given, until the next call does so.
    pub(crate) fn expect(&mut self, receives: impl Iterator<Item = usize>) {
        self.call += 1;
        for (index, place) in (0..).zip(receives) {
            self.receives.set_landing(place, LandingPlace { call: self.call, index });
        }
    }

    /// Returns where the last call that has [said so](Self::expect) has the landing of a receive.
    pub(crate) fn landing_of(&self, place: usize) -> Option<usize> {
        let LandingPlace { call, index } = self.receives.get(place)?.landing();
        (call == self.call).then_some(index as usize)
    }

    /// Gives a message to the receive that has waited longest for one from this rank, if the message is one line and
    /// exactly what that receive takes.
    #[inline(always)]
    pub(crate) fn take_line(&mut self, from: u32, line: &Line) -> bool {
        let Some((place, Wanted { pattern, want, .. })) = self.receives.first_from(from) else {
            return false;
        };
        let Want { fingerprint, size, room, exact, .. } = *want;
        let Some(count) = pattern.count_in(line, fingerprint, size, room, exact) else {
            return false;
        };
        if let Some(came) = self.receives.line_came(place) {
            *came = Came { source: from, tag: line.tag(), count, words: line.inline_words() };
        }
        true
    }

    /// Returns the receive that has waited longest for a message from this rank, and how many elements and bytes the
    /// message has that begins with this line, if it comes in lines or chunks and is exactly what that receive takes.
    #[inline(always)]
    pub(crate) fn wants(&self, from: u32, line: &Line) -> Option<(usize, usize, usize)> {
        let (place, Wanted { pattern, want, .. }) = self.receives.first_from(from)?;
        let Want { fingerprint, size, room, exact, .. } = *want;
        let (count, bytes) = pattern.length_in(line, fingerprint, size, room, exact)?;
        Some((place, count, bytes))
    }

    /// Returns the place of the receive that takes this message. Receives that match the message but can't take it
    /// fail. After a failed receive of a collective operation, no other receive takes the message: returns [`NOBODY`].
    pub(crate) fn offer(&mut self, envelope: &Envelope) -> Option<usize> {
        loop {
            let takes = |(_, wanted): &(usize, &Wanted)| wanted.pattern.takes(envelope);
            let (place, wanted) = self.receives.waiting().find(takes)?;
            let theirs = || self.element(envelope.fingerprint);
            let Some(error) = wanted.want.refuses(envelope, theirs) else {
                self.receives.set_coming(place);
                return Some(place);
            };
            let together = wanted.pattern.is_together();
            self.receives.end(place, Err(error));
            if together {
                return Some(NOBODY);
            }
        }
    }

    /// Tells a synchronous sender that its message was received.
    pub(crate) fn matched(&mut self, envelope: &Envelope) {
        self.answer(envelope, Answer::Matched);
    }

    /// Tells a sender that waits for it that its message was dropped, because its communicator is revoked.
    pub(crate) fn refuse(&mut self, envelope: &Envelope) {
        // This rank's messages to itself are revoked at the same time.
        if envelope.source != self.me {
            self.answer(envelope, Answer::Refused);
        }
    }

    fn answer(&mut self, envelope: &Envelope, answer: Answer) {
        let Envelope { source: to, sync, .. } = *envelope;
        if sync != 0 {
            self.due.push(Due { to, sync, answer });
        }
    }

    /// Returns the place of the receive for what is coming, or that of a new abandoned one for [`NOBODY`].
    pub(crate) fn receive_for(&mut self, place: usize) -> usize {
        if place == NOBODY { self.receives.add_abandoned() } else { place }
    }

    /// Asks the sender of a rendezvous for the payload, for this receive.
    pub(crate) fn invite(&mut self, envelope: &Envelope, place: usize) {
        let place = self.receive_for(place);
        self.matched(envelope);
        let number = (envelope.source, envelope.sync);
        if let Some((before, place)) = self.awaited.insert(number, (*envelope, place)) {
            let reason = "two messages of one number".to_owned();
            self.fail(
                place,
                Error::from(ErrorKind::PeerBroken { rank: before.source as usize, reason }),
            );
        }
    }

    /// Completes a receive whose message was [copied](super::direct), and tells its sender.
    pub(crate) fn copied(&mut self, envelope: &Envelope, receive: usize, slow: bool) {
        self.answer(envelope, if slow { Answer::CopiedSlowly } else { Answer::Copied });
        let content = Content::Bytes { landed: Some(envelope.bytes), rest: Vec::new() };
        self.complete(receive, Arrived { envelope: *envelope, content });
    }

    /// Returns the rendezvous whose payload comes under this number, and its receive.
    pub(crate) fn invited(&mut self, source: u32, sync: u32) -> Option<(Envelope, usize)> {
        self.awaited.remove(&(source, sync))
    }

    /// Puts a message among the unexpected ones.
    pub(crate) fn store(&mut self, arrived: Arrived) {
        self.backlog.add(self.kept(&arrived));
        self.store.push(arrived);
    }

    /// Returns the bytes of a message that count as kept for a sender that could keep them. (A message that this rank
    /// sends to itself can't be kept anywhere else.)
    fn kept(&self, arrived: &Arrived) -> usize {
        if arrived.envelope.source == self.me { 0 } else { arrived.content.kept() }
    }

    /// Gives a complete message to the receive that waits for it, or [stores](Self::store) it. `counted` bytes of it
    /// were counted as unexpected before.
    pub(crate) fn arrived(&mut self, arrived: Arrived, counted: usize) {
        if self.is_revoked(arrived.envelope.context) {
            self.refuse(&arrived.envelope);
            return self.backlog.remove(counted);
        }
        match self.offer(&arrived.envelope) {
            Some(place) => {
                self.backlog.remove(counted);
                if place != NOBODY {
                    self.matched(&arrived.envelope);
                }
                self.complete(place, arrived);
            }
            None => {
                self.backlog.add(self.kept(&arrived) - counted);
                self.store.push(arrived);
            }
        }
    }

    fn take_stored(&mut self, place: u64) -> Option<Arrived> {
        let arrived = self.store.take(place)?;
        self.backlog.remove(self.kept(&arrived));
        Some(arrived)
    }

    pub(crate) fn unexpected(&self) -> Unexpected {
        self.backlog.show(self.store.len())
    }

    /// Records that nothing comes from this rank any more, including the payloads of its rendezvous.
    pub(crate) fn source_has_ended(&mut self, source: u32, end: &End) {
        self.store.forget_away(source);
        // `source` answers nothing any more. So sends to it that have no request are over.
        let unanswered =
            |send: &Sending| send.to == source && send.abandoned && send.awaits_answer();
        let sends = self.sends.iter().filter(|(_, send)| unanswered(send));
        for place in sends.map(|(place, _)| place).collect::<Vec<_>>() {
            self.take_send(place);
        }
        self.sends.retain(|_, send| send.to != source || !send.is_tombstone());
        if matches!(end, End::Broken(_)) {
            self.broken.push(source);
        }
        let awaited = self.awaited.extract_if(|&(from, _), _| from == source);
        let direct = self.direct.extract_if(.., |direct| direct.envelope.source == source);
        let awaited = awaited.map(|(_, (_, place))| place);
        for place in awaited.chain(direct.map(|direct| direct.receive)).collect::<Vec<_>>() {
            self.fail(place, end.error(source));
        }
    }

    /// Returns whether anything must be received from this rank that lies behind unexpected messages.
    pub(crate) fn looks_at(&self, source: u32) -> bool {
        self.receives.waiting().any(|(_, wanted)| wanted.pattern.looks_at(source))
            || self.unacknowledged.contains_key(&source)
            || !self.awaited.is_empty() && self.awaited.keys().any(|&(from, _)| from == source)
    }

    /// Returns whether receives wait for messages, or for payloads that they have asked for.
    #[inline]
    pub(crate) fn is_receiving(&self) -> bool {
        self.receives.first().is_some() || !self.awaited.is_empty() || !self.direct.is_empty()
    }

    /// Records that a message has arrived completely for this receive.
    pub(crate) fn complete(&mut self, place: usize, arrived: Arrived) {
        self.end(place, Ok(arrived));
    }

    /// Returns whether the message that is coming for this receive is still wanted.
    #[inline]
    pub(crate) fn is_wanted(&self, place: usize) -> bool {
        self.receives.get(place).is_some_and(|posted| posted.stage() != Stage::Abandoned)
    }

    /// Records that a message of `count` elements has arrived in the buffer of this receive.
    #[inline]
    pub(crate) fn landed(&mut self, place: usize, source: u32, tag: u32, count: usize) {
        match self.receives.get(place).map(Posted::stage) {
            Some(Stage::Abandoned) => self.receives.remove(place),
            _ => self.receives.landed(place, source, tag, count),
        }
    }

    /// Records that a message will not arrive completely.
    pub(crate) fn fail(&mut self, place: usize, error: Error) {
        self.end(place, Err(error));
    }

    fn end(&mut self, place: usize, ended: Result<Arrived>) {
        match self.receives.get(place).map(Posted::stage) {
            Some(Stage::Abandoned) => self.receives.remove(place),
            _ => self.receives.end(place, ended),
        }
    }

    /// Takes back a receive. What has come for it, or is coming, is dropped with it.
    pub(crate) fn abandon(&mut self, place: usize) {
        match self.receives.get(place).is_some_and(Posted::is_coming) {
            true => self.receives.set_abandoned(place),
            false => self.receives.remove(place),
        }
    }

    /// Puts the message of a completed receive into its buffer, if it is one line or already there, and removes the
    /// receive. Returns source, tag and count.
    #[inline]
    pub(crate) fn land_at_once<B: BufferMut>(
        &mut self,
        place: usize,
        buffer: &mut B,
    ) -> Option<(u32, u32, usize)> {
        let posted = self.receives.get(place)?;
        let &Came { source, tag, count, ref words } = posted.came()?;
        if posted.stage() == Stage::Line {
            copy_inline(bytemuck::cast_slice(words), buffer.elements_mut().get_mut(..count)?)?;
        }
        self.receives.remove(place);
        Some((source, tag, count))
    }

    /// Puts the message of a completed receive into its buffer.
    pub(crate) fn land(
        &mut self,
        place: usize,
        landing: &mut (impl Landing + ?Sized),
    ) -> Option<Result<Envelope>> {
        let ended = self.receives.take_ended(place)?;
        Some(ended.and_then(|arrived| land(arrived, landing)))
    }

    /// Records that the receiver has matched the send of this number, or has dropped its message.
    pub(crate) fn answered(&mut self, to: u32, sync: u32, answer: Answer) {
        let Some(place) = (sync as usize).checked_sub(1) else { return };
        if let Some(sending) = self.sends.get_mut(place)
            && (sending.to, sending.sync, sending.acknowledged) == (to, sync, false)
        {
            sending.acknowledged = true;
            if answer == Answer::Matched
                && sending.held.as_ref().is_some_and(|held| !held.is_nothing())
            {
                self.released.push(place);
            }
            self.awaits_one_less(to);
            match answer {
                Answer::Matched => self.forget_if_abandoned(place),
                Answer::Copied | Answer::CopiedSlowly => {
                    self.copied.push((to, answer == Answer::Copied));
                    let held = self.take_held(place).unwrap_or(Kept::Nothing);
                    self.gone(place, held);
                }
                Answer::Refused => self.revoke_send(place),
            }
        }
    }

    /// Keeps the payload of a send until the receiver asks for it; returns the send's number.
    pub(crate) fn hold(&mut self, place: usize, cargo: Kept) -> Option<u32> {
        let sync = match self.sends.get(place)?.sync {
            0 => self.number(place)?,
            sync => sync,
        };
        self.holding += usize::from(!cargo.is_nothing());
        self.sends.get_mut(place)?.held = Some(cargo);
        Some(sync)
    }

    /// Takes the payload of a send that was held.
    pub(crate) fn take_held(&mut self, place: usize) -> Option<Kept> {
        let held = self.sends.get_mut(place)?.held.take()?;
        self.holding -= usize::from(!held.is_nothing());
        Some(held)
    }

    /// Returns whether this rank keeps payloads that their receivers may ask for.
    #[inline(always)]
    pub(crate) fn is_holding(&self) -> bool {
        self.holding > 0
    }

    /// Returns whether a call that lasts has the payload of a send.
    pub(crate) fn call_holds(&self) -> bool {
        let held = |sending: &Sending| sending.held.as_ref().is_some_and(Kept::is_nothing);
        self.sends.iter().any(|(_, sending)| held(sending))
    }

    /// Returns the sends that wait to be matched and for whose receiver `is_so` is true.
    pub(crate) fn held_for(&self, is_so: impl Fn(u32) -> bool) -> Vec<usize> {
        let held = |sending: &Sending| sending.held.is_some() && sending.failed.is_none();
        let sends = self.sends.iter().filter(|(_, sending)| held(sending) && is_so(sending.to));
        sends.map(|(place, _)| place).collect()
    }

    /// Records that a message that waited has been sent, or its envelope.
    pub(crate) fn gone(&mut self, place: usize, cargo: Kept) {
        if let Some(sending) = self.sends.get_mut(place)
            && sending.held.is_none()
        {
            sending.gone = true;
            sending.back = cargo.back();
            self.forget_if_abandoned(place);
        }
    }

    /// Records that a message that waited will not be sent.
    pub(crate) fn not_sent(&mut self, place: usize, cargo: Kept, error: Error) {
        let cargo = self.take_held(place).unwrap_or(cargo);
        if let Some(sending) = self.sends.get_mut(place) {
            if let Some(reason) = reason_in_this_rank(&error) {
                self.untold.push(Untold { place: Some(place), to: sending.to, reason });
            }
            sending.failed = Some(error);
            sending.back = cargo.back();
            self.forget_if_abandoned(place);
        }
    }

    /// Records that a copy will not be sent for which the program has no request.
    pub(crate) fn copy_not_sent(&mut self, to: u32, error: &Error) {
        if let Some(reason) = reason_in_this_rank(error) {
            self.untold.push(Untold { place: None, to, reason });
        }
    }

    /// Returns the error of a send that no call has reported yet.
    pub(crate) fn tell(&mut self) -> Option<Error> {
        if self.untold.is_empty() {
            return None;
        }
        let Untold { to, reason, .. } = self.untold.remove(0);
        Some(not_sent(to as usize, reason))
    }

    /// Records that a send is no longer waited for. It goes on.
    pub(crate) fn abandon_send(&mut self, place: usize) {
        if let Some(sending) = self.sends.get_mut(place) {
            sending.abandoned = true;
            self.forget_if_abandoned(place);
        }
    }

    fn forget_if_abandoned(&mut self, place: usize) {
        if self.sends.get(place).is_some_and(|sending| sending.abandoned && sending.is_done()) {
            let mut untold = self.untold.iter_mut();
            if let Some(untold) = untold.find(|untold| untold.place == Some(place)) {
                untold.place = None;
            }
            self.take_send(place);
        }
    }

    pub(crate) fn take_send(&mut self, place: usize) -> Option<Sending> {
        self.take_held(place);
        let sending = match self.sends.get_mut(place) {
            Some(sending) if sending.retired => {
                let tombstone = Sending::tombstone(sending.to, sending.context);
                std::mem::replace(sending, tombstone)
            }
            _ => self.sends.try_remove(place)?,
        };
        self.untold.retain(|untold| untold.place != Some(place));
        if sending.sync != 0 && !sending.acknowledged {
            self.awaits_one_less(sending.to);
        }
        Some(sending)
    }

    /// Gives a send a number, under which its receiver acknowledges it: its place here. Another send gets the number
    /// when this one was acknowledged, or when nothing comes from the receiver any more. If this one is revoked, only
    /// the latter applies.
    pub(crate) fn number(&mut self, place: usize) -> Option<u32> {
        let sync = u32::try_from(place + 1).ok()?;
        let sending = self.sends.get_mut(place)?;
        sending.sync = sync;
        *self.unacknowledged.entry(sending.to).or_default() += 1;
        Some(sync)
    }

    fn awaits_one_less(&mut self, to: u32) {
        if let Some(count) = self.unacknowledged.get_mut(&to) {
            *count -= 1;
            if *count == 0 {
                self.unacknowledged.remove(&to);
            }
        }
    }
}

fn land(arrived: Arrived, landing: &mut (impl Landing + ?Sized)) -> Result<Envelope> {
    let Arrived { envelope, content } = arrived;
    match content {
        Content::Inline(words) => {
            landing.begin(envelope.count)?;
            let bytes: &[u8] = bytemuck::cast_slice(&words);
            landing.bytes()[..envelope.bytes].copy_from_slice(&bytes[..envelope.bytes]);
        }
        Content::Bytes { landed, rest } => {
            let from = match landed {
                Some(from) => from,
                None => {
                    landing.begin(envelope.count)?;
                    0
                }
            };
            landing.bytes()[from..envelope.bytes].copy_from_slice(&rest);
        }
        Content::Away { .. } => {
            let reason = "its message has not come".to_owned();
            return Err(ErrorKind::PeerBroken { rank: envelope.source as usize, reason }.into());
        }
        Content::Moved(buffer) => {
            if let Some(buffer) = landing.adopt(buffer, envelope.count) {
                landing.begin(envelope.count)?;
                landing.bytes()[..envelope.bytes].copy_from_slice(&buffer[..envelope.bytes]);
            }
        }
    }
    Ok(envelope)
}
