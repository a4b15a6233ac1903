//! Sequential objects, as simple as possible.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::checker::Spec;

/// Adds, and returns the value before.
#[derive(Debug)]
pub struct Counter;

impl Spec for Counter {
    type State = u64;
    type Op = u64;
    type Ret = u64;

    fn step(&self, count: &u64, by: &u64, before: Option<&u64>) -> Option<u64> {
        before.is_none_or(|before| before == count).then_some(count + by)
    }
}

/// An operation on a stack or queue.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Do {
    Put(u64),
    Take,
}

/// The result of a [`Do`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Got {
    Done,
    Full,
    Value(u64),
    Empty,
}

/// A stack or a queue. Values are put in at the end.
#[derive(Debug)]
pub struct Through {
    /// Whether values are taken out at the end, too, and not at the beginning.
    last_first: bool,
    /// With fewer values, it is not full.
    capacity: usize,
    /// The most values that it can hold.
    most: usize,
}

impl Through {
    pub fn stack(capacity: usize) -> Self {
        Self { last_first: true, capacity, most: capacity }
    }

    pub fn queue(capacity: usize, most: usize) -> Self {
        Self { last_first: false, capacity, most }
    }
}

impl Spec for Through {
    type State = Vec<u64>;
    type Op = Do;
    type Ret = Got;

    fn step(&self, values: &Vec<u64>, op: &Do, got: Option<&Got>) -> Option<Vec<u64>> {
        let mut after = values.clone();
        let out = |values: &mut Vec<u64>| {
            if values.is_empty() {
                None
            } else if self.last_first {
                values.pop()
            } else {
                Some(values.remove(0))
            }
        };
        let may = match (op, got) {
            (Do::Put(_), Some(Got::Full)) => values.len() >= self.capacity,
            (Do::Put(value), Some(Got::Done) | None) => {
                after.push(*value);
                after.len() <= self.most
            }
            (Do::Take, Some(Got::Empty)) => values.is_empty(),
            (Do::Take, Some(Got::Value(value))) => out(&mut after) == Some(*value),
            (Do::Take, None) => out(&mut after).is_some(),
            _ => false,
        };
        may.then_some(after)
    }
}

/// An operation on a map.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum OfMap {
    Get(u64),
    Insert(u64, u64),
    Remove(u64),
    /// If the key has the first value, or none, it gets the second one, or none.
    Swap(u64, Option<u64>, Option<u64>),
    Len,
    Clear,
}

/// The result of an [`OfMap`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum FromMap {
    /// The value that the key had, and whether the operation was done.
    Was(Option<u64>, bool),
    /// There was no room for the key.
    Full,
    Number(usize),
}

/// A map with room for so many keys.
#[derive(Debug)]
pub struct Map {
    pub capacity: usize,
}

impl Map {
    fn run(&self, map: &mut BTreeMap<u64, u64>, op: OfMap) -> FromMap {
        let set = |map: &mut BTreeMap<u64, u64>, key, new: Option<u64>| {
            let before = map.get(&key).copied();
            match new {
                Some(_) if before.is_none() && map.len() == self.capacity => return FromMap::Full,
                Some(value) => map.insert(key, value),
                None => map.remove(&key),
            };
            FromMap::Was(before, true)
        };
        match op {
            OfMap::Get(key) => FromMap::Was(map.get(&key).copied(), true),
            OfMap::Insert(key, value) => set(map, key, Some(value)),
            OfMap::Remove(key) => set(map, key, None),
            OfMap::Swap(key, expected, new) => match map.get(&key).copied() {
                before if before != expected => FromMap::Was(before, false),
                _ => set(map, key, new),
            },
            OfMap::Len => FromMap::Number(map.len()),
            OfMap::Clear => {
                let number = map.len();
                map.clear();
                FromMap::Number(number)
            }
        }
    }
}

impl Spec for Map {
    type State = BTreeMap<u64, u64>;
    type Op = OfMap;
    type Ret = FromMap;

    fn step(
        &self,
        map: &BTreeMap<u64, u64>,
        op: &OfMap,
        ret: Option<&FromMap>,
    ) -> Option<BTreeMap<u64, u64>> {
        let mut after = map.clone();
        let wanted = self.run(&mut after, *op);
        ret.is_none_or(|ret| *ret == wanted).then_some(after)
    }
}
