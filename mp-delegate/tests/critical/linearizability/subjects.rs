//! The library's objects as subjects of recordings.

use std::{collections::BTreeMap, fmt::Debug};

use mp_core::{Rank, Result};
use mp_delegate::critical::{
    Object, Protected, Scheme, Section, Server,
    objects::{self, Full, MapAnswer, Queue, Stack, TwoLockQueue},
};
use onchip_research::nonblocking::{RingQueue, TreiberStack};

use super::{
    recorder::{Plan, Subject},
    specs::{self, Do, FromMap, Got, OfMap, Through},
};
use crate::support::Random;

/// Returns a section in which two handles of each rank have their own seats, and further ones share a seat.
fn section(scheme: Scheme, len: usize) -> Section {
    Section::new(scheme).len(len).seats(2)
}

/// Returns a handle, or `None` after serving.
fn client<O: Object>(rank: &Rank, object: Protected<O>) -> Result<Option<Protected<O>>> {
    if !object.section().scheme().needs_server() || rank.id() != 0 {
        return Ok(Some(object));
    }
    let mut server = Server::new();
    server.add(object)?;
    server.serve()?;
    Ok(None)
}

pub struct Counter(Protected<objects::Counter>);

impl Subject for Counter {
    type Setup = Scheme;
    type Op = u64;
    type Ret = u64;
    type Spec = specs::Counter;

    fn spec(_: Scheme, _: &Plan) -> specs::Counter {
        specs::Counter
    }

    fn state(start: u64) -> u64 {
        start
    }

    fn is_served(scheme: Scheme) -> bool {
        scheme.needs_server()
    }

    fn open(rank: &Rank, scheme: Scheme) -> Result<Option<Self>> {
        let counter = objects::Counter::open(rank, "counter", section(scheme, 1))?;
        Ok(client(rank, counter)?.map(Self))
    }

    fn another(&self) -> Result<Self> {
        Ok(Self(self.0.another()?))
    }

    fn random(random: &mut Random) -> u64 {
        random.below(3)
    }

    fn call(&mut self, by: u64) -> Result<u64> {
        self.0.fetch_add(by)
    }

    fn restart(&mut self) -> Result<u64> {
        self.0.fetch_add(0)
    }
}

pub struct Map(Protected<objects::Map<u64, u64>>);

impl Map {
    fn changed(answer: MapAnswer<u64>) -> FromMap {
        if answer.is_full() {
            return FromMap::Full;
        }
        FromMap::Was(answer.before(), answer.is_done())
    }
}

impl Subject for Map {
    type Setup = (Scheme, usize);
    type Op = OfMap;
    type Ret = FromMap;
    type Spec = specs::Map;

    fn spec((_, capacity): Self::Setup, _: &Plan) -> specs::Map {
        specs::Map { capacity }
    }

    fn state(_: u64) -> BTreeMap<u64, u64> {
        BTreeMap::new()
    }

    fn is_served((scheme, _): Self::Setup) -> bool {
        scheme.needs_server()
    }

    fn open(rank: &Rank, (scheme, capacity): Self::Setup) -> Result<Option<Self>> {
        let map = Protected::open(rank, "map", section(scheme, capacity), |_| ())?;
        Ok(client(rank, map)?.map(Self))
    }

    fn another(&self) -> Result<Self> {
        Ok(Self(self.0.another()?))
    }

    /// There are few keys and values, so that operations of clients conflict.
    fn random(random: &mut Random) -> OfMap {
        let key = random.below(4);
        let some = random.below(4);
        let value = |random: &mut Random| random.below(3);
        let maybe = |random: &mut Random| Some(random.below(4)).filter(|&value| value < 3);
        match random.below(8) {
            0 | 1 => OfMap::Get(key),
            2 | 3 => OfMap::Insert(key, value(random)),
            4 => OfMap::Remove(key),
            5 | 6 => OfMap::Swap(key, maybe(random), maybe(random)),
            _ if some == 0 => OfMap::Clear,
            _ => OfMap::Len,
        }
    }

    fn call(&mut self, op: OfMap) -> Result<FromMap> {
        Ok(match op {
            OfMap::Get(key) => FromMap::Was(self.0.get(key)?, true),
            OfMap::Insert(key, value) => match self.0.insert(key, value)? {
                Ok(before) => FromMap::Was(before, true),
                Err(_) => FromMap::Full,
            },
            OfMap::Remove(key) => FromMap::Was(self.0.remove(key)?, true),
            OfMap::Swap(key, expected, new) => {
                Self::changed(self.0.compare_and_swap(key, expected, new)?)
            }
            OfMap::Len => FromMap::Number(self.0.len()?),
            OfMap::Clear => FromMap::Number(self.0.clear()?),
        })
    }

    fn restart(&mut self) -> Result<u64> {
        self.0.clear()?;
        Ok(0)
    }
}

/// A stack or a queue.
pub trait Container: Sized + Send {
    type Setup: Copy + Debug + Sync;

    fn spec(setup: Self::Setup, plan: &Plan) -> Through;
    fn is_served(setup: Self::Setup) -> bool;
    fn open(rank: &Rank, setup: Self::Setup) -> Result<Option<Self>>;
    fn another_one(&self) -> Result<Self>;
    fn put(&mut self, value: u64) -> Result<Result<(), Full>>;
    fn take(&mut self) -> Result<Option<u64>>;
}

impl<C: Container> Subject for C {
    type Setup = C::Setup;
    type Op = Do;
    type Ret = Got;
    type Spec = Through;

    fn spec(setup: C::Setup, plan: &Plan) -> Through {
        C::spec(setup, plan)
    }

    fn state(_: u64) -> Vec<u64> {
        Vec::new()
    }

    fn is_served(setup: C::Setup) -> bool {
        C::is_served(setup)
    }

    fn open(rank: &Rank, setup: C::Setup) -> Result<Option<Self>> {
        C::open(rank, setup)
    }

    fn another(&self) -> Result<Self> {
        self.another_one()
    }

    /// Nearly all values are different.
    fn random(random: &mut Random) -> Do {
        if random.below(2) == 0 { Do::Take } else { Do::Put(random.below(1000)) }
    }

    fn call(&mut self, op: Do) -> Result<Got> {
        Ok(match op {
            Do::Put(value) => match self.put(value)? {
                Ok(()) => Got::Done,
                Err(Full(back)) if back == value => Got::Full,
                // A full object never returns this.
                Err(Full(other)) => Got::Value(other),
            },
            Do::Take => self.take()?.map_or(Got::Empty, Got::Value),
        })
    }

    fn restart(&mut self) -> Result<u64> {
        while self.take()?.is_some() {}
        Ok(0)
    }
}

impl Container for Protected<Stack> {
    type Setup = (Scheme, usize);

    fn spec((_, len): Self::Setup, _: &Plan) -> Through {
        Through::stack(len)
    }

    fn is_served((scheme, _): Self::Setup) -> bool {
        scheme.needs_server()
    }

    fn open(rank: &Rank, (scheme, len): Self::Setup) -> Result<Option<Self>> {
        client(rank, Stack::open(rank, "stack", section(scheme, len))?)
    }

    fn another_one(&self) -> Result<Self> {
        self.another()
    }

    fn put(&mut self, value: u64) -> Result<Result<(), Full>> {
        self.push(value)
    }

    fn take(&mut self) -> Result<Option<u64>> {
        self.pop()
    }
}

impl Container for Protected<Queue> {
    type Setup = (Scheme, usize);

    fn spec((_, len): Self::Setup, _: &Plan) -> Through {
        Through::queue(len, len)
    }

    fn is_served((scheme, _): Self::Setup) -> bool {
        scheme.needs_server()
    }

    fn open(rank: &Rank, (scheme, len): Self::Setup) -> Result<Option<Self>> {
        client(rank, Queue::open(rank, "queue", section(scheme, len))?)
    }

    fn another_one(&self) -> Result<Self> {
        self.another()
    }

    fn put(&mut self, value: u64) -> Result<Result<(), Full>> {
        self.enqueue(value)
    }

    fn take(&mut self) -> Result<Option<u64>> {
        self.dequeue()
    }
}

impl Container for TwoLockQueue {
    type Setup = ([Scheme; 2], usize);

    fn spec((_, len): Self::Setup, _: &Plan) -> Through {
        Through::queue(len, len)
    }

    /// If only one end has a server, that server does not use the other end.
    fn is_served((schemes, _): Self::Setup) -> bool {
        schemes.iter().any(|scheme| scheme.needs_server())
    }

    fn open(rank: &Rank, (schemes, len): Self::Setup) -> Result<Option<Self>> {
        let [enqueuers, dequeuers] = schemes.map(|scheme| section(scheme, len));
        let queue = Self::open_ends(rank, "queue", enqueuers, dequeuers)?;
        if !<Self as Container>::is_served((schemes, len)) || rank.id() != 0 {
            return Ok(Some(queue));
        }
        let mut server = Server::new();
        let (enqueuers, dequeuers) = queue.into_ends();
        if schemes[0].needs_server() {
            server.add(enqueuers)?;
        }
        if schemes[1].needs_server() {
            server.add(dequeuers)?;
        }
        server.serve()?;
        Ok(None)
    }

    fn another_one(&self) -> Result<Self> {
        self.another()
    }

    fn put(&mut self, value: u64) -> Result<Result<(), Full>> {
        self.enqueue(value)
    }

    fn take(&mut self) -> Result<Option<u64>> {
        self.dequeue()
    }
}

impl Container for TreiberStack {
    /// The capacity.
    type Setup = usize;

    fn spec(capacity: usize, _: &Plan) -> Through {
        Through::stack(capacity)
    }

    fn is_served(_: usize) -> bool {
        false
    }

    fn open(rank: &Rank, capacity: usize) -> Result<Option<Self>> {
        Ok(Some(Self::open(rank, "stack", capacity, 2)?))
    }

    fn another_one(&self) -> Result<Self> {
        self.another()
    }

    fn put(&mut self, value: u64) -> Result<Result<(), Full>> {
        self.push(value)
    }

    fn take(&mut self) -> Result<Option<u64>> {
        self.pop()
    }
}

impl Container for RingQueue {
    /// The capacity, and the number of handles of each rank.
    type Setup = (usize, usize);

    fn spec((capacity, handles): Self::Setup, plan: &Plan) -> Through {
        Through::queue(capacity, capacity + handles * plan.ranks - 1)
    }

    fn is_served(_: Self::Setup) -> bool {
        false
    }

    fn open(rank: &Rank, (capacity, handles): Self::Setup) -> Result<Option<Self>> {
        Ok(Some(Self::open(rank, "queue", capacity, handles)?))
    }

    fn another_one(&self) -> Result<Self> {
        self.another()
    }

    fn put(&mut self, value: u64) -> Result<Result<(), Full>> {
        self.enqueue(value)
    }

    fn take(&mut self) -> Result<Option<u64>> {
        self.dequeue()
    }
}
