//! A hash table in a slice of plain data: open addressing with linear probing, and removal that shifts back, so that
//! nothing remains of removed entries.
//!
//! An entry in use has a tag, which is the hash of its key and not 0. An entry is written while it has no tag. So if
//! the writer is killed in the middle, every entry with a tag is whole. What can be wrong is what [`Table::repair`]
//! corrects: the count, an entry that was being moved and is there twice, and one that cannot be reached past a gap.

use bytemuck::{AnyBitPattern, NoUninit, Zeroable, bytes_of};
use mp_core::Plain;

use super::settle;

/// A place of a [`Table`], used or not. All zeros is an unused one.
#[derive(NoUninit, AnyBitPattern)]
#[repr(C, packed)]
pub struct Entry<K, V> {
    tag: u32,
    /// In the first entry: how many are in use.
    used: u32,
    key: K,
    value: V,
}

impl<K: Copy, V: Copy> Copy for Entry<K, V> {}

impl<K: Copy, V: Copy> Clone for Entry<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: Plain, V: Plain> Entry<K, V> {
    fn fill(&mut self, tag: u32, key: K, value: V) {
        self.tag = 0;
        settle(self);
        self.key = key;
        self.value = value;
        settle(self);
        self.tag = tag;
    }

    fn has(&self, tag: u32, key: &K) -> bool {
        self.tag == tag && bytes_of(&{ self.key }) == bytes_of(key)
    }
}

/// Returns an unused place.
impl<K: Plain, V: Plain> Default for Entry<K, V> {
    fn default() -> Self {
        Self::zeroed()
    }
}

impl<K, V> std::fmt::Debug for Entry<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry").field("tag", &{ self.tag }).finish_non_exhaustive()
    }
}

/// The error when no place is left for another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no room for another key in the table: remove one before, or open it with more room"
)]
pub struct TableFull;

impl From<TableFull> for mp_core::Error {
    fn from(TableFull: TableFull) -> Self {
        let reason = "there is no room for another key".to_owned();
        mp_core::ErrorKind::ObjectFull { reason }.into()
    }
}

/// Returns the hash of a key, never 0.
///
/// It is the same in every process. Someone who can choose keys can choose keys that collide, which costs time.
#[inline]
pub(super) fn tag_of<K: Plain>(key: &K) -> u32 {
    const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
    const FACTOR: u64 = 0xd6e8_feb8_6659_fd93;
    let (words, rest) = bytes_of(key).as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let hash = words.iter().chain([&last]).fold(SEED, |hash, word| {
        let product = u128::from(hash ^ u64::from_le_bytes(*word)) * u128::from(FACTOR);
        (product as u64 ^ (product >> 64) as u64).wrapping_add(SEED)
    });
    ((hash ^ (hash >> 32)) as u32).max(1)
}

/// Keys with values, in a slice of entries that is borrowed: in most cases the state of an
/// [`Object`](crate::critical::Object). Keys are equal when their bytes are.
///
/// [`Map`](super::Map) has the usual operations. An object of your own can have others on it:
///
/// ```
/// use onchip::critical::{Object, objects::{Entry, TableFull, Table}};
///
/// /// Counts how often each key is seen.
/// struct Tally;
///
/// impl Object for Tally {
///     type State = [Entry<u64, u32>];
///     type Op = u64;
///     /// 0 where there is no room.
///     type Ret = u32;
///
///     fn apply(state: &mut [Entry<u64, u32>], key: u64) -> u32 {
///         let mut table = Table::new(state);
///         let times = table.get(key).unwrap_or(0) + 1;
///         match table.insert(key, times) {
///             Ok(_) => times,
///             Err(TableFull) => 0,
///         }
///     }
/// }
/// ```
#[derive(Debug)]
pub struct Table<'a, K, V> {
    entries: &'a mut [Entry<K, V>],
}

impl<'a, K: Plain, V: Plain> Table<'a, K, V> {
    /// Creates a table in these entries, which are all zeros at first. If there are more than `u32::MAX`, the rest is
    /// not used.
    pub fn new(entries: &'a mut [Entry<K, V>]) -> Self {
        let len = entries.len().min(u32::MAX as usize);
        Self { entries: &mut entries[..len] }
    }

    /// Returns how many keys there is room for. The table gets slow when more than about 4/5 of this room is in use.
    pub fn capacity(&self) -> usize {
        self.entries.len()
    }

    /// Returns how many keys there are.
    pub fn len(&self) -> usize {
        self.entries.first().map_or(0, |first| first.used as usize)
    }

    /// Returns whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the key's value.
    pub fn get(&self, key: K) -> Option<V> {
        self.get_tagged(tag_of(&key), &key)
    }

    /// Gives the key a value. Returns its previous value.
    ///
    /// # Errors
    /// [`TableFull`], for a key that is not there yet, when there is no room for it.
    pub fn insert(&mut self, key: K, value: V) -> Result<Option<V>, TableFull> {
        self.insert_tagged(tag_of(&key), key, value)
    }

    /// Removes the key. Returns its value.
    pub fn remove(&mut self, key: K) -> Option<V> {
        self.remove_tagged(tag_of(&key), &key)
    }

    /// Removes all keys.
    pub fn clear(&mut self) {
        self.entries.fill(Entry::zeroed());
    }

    /// Returns all keys with their values, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (K, V)> {
        self.entries.iter().filter(|entry| entry.tag != 0).map(|entry| (entry.key, entry.value))
    }

    /// Repairs the table after an operation on it did not finish because its rank was killed. That operation was
    /// executed or not, or has lost its key; an interrupted [clear](Self::clear) may have left some keys. No other key
    /// is affected. Returns how many entries were dropped.
    ///
    /// It looks at all entries, twice. If a rank is killed during the repair, what it leaves can be repaired, too. An
    /// intact table stays as it is.
    pub fn repair(&mut self) -> usize {
        let before = self.used();
        for entry in &mut *self.entries {
            if entry.tag != 0 && entry.tag != tag_of(&{ entry.key }) {
                entry.tag = 0;
            }
        }
        settle(&mut *self.entries);
        // An entry that was moved may have left a gap before others.
        while (0..self.entries.len()).filter(|&at| self.put_right(at)).count() > 0 {}
        let used = self.used();
        if let Some(first) = self.entries.first_mut() {
            first.used = used as u32;
        }
        before - used
    }

    fn used(&self) -> usize {
        self.entries.iter().filter(|entry| entry.tag != 0).count()
    }

    /// Moves an entry that cannot be reached into the gap before it, and drops one whose key is found before it.
    /// Returns whether the entry was one of these.
    fn put_right(&mut self, at: usize) -> bool {
        let Entry { tag, key, value, .. } = self.entries[at];
        let found = if tag == 0 { Ok(at) } else { self.find(tag, &key) };
        if found == Ok(at) {
            return false;
        }
        // The entry is there twice for a while, so that it is never lost.
        if let Err(Some(gap)) = found {
            self.entries[gap].fill(tag, key, value);
            settle(&mut *self.entries);
        }
        self.entries[at].tag = 0;
        settle(&mut *self.entries);
        true
    }

    #[inline]
    pub(super) fn get_tagged(&self, tag: u32, key: &K) -> Option<V> {
        self.find(tag, key).ok().map(|at| self.entries[at].value)
    }

    #[inline]
    pub(super) fn insert_tagged(
        &mut self,
        tag: u32,
        key: K,
        value: V,
    ) -> Result<Option<V>, TableFull> {
        match self.find(tag, &key) {
            Ok(at) => {
                let before = self.entries[at].value;
                self.entries[at].fill(tag, key, value);
                Ok(Some(before))
            }
            Err(free) => {
                self.entries[free.ok_or(TableFull)?].fill(tag, key, value);
                self.entries[0].used += 1;
                Ok(None)
            }
        }
    }

    #[inline]
    pub(super) fn remove_tagged(&mut self, tag: u32, key: &K) -> Option<V> {
        let mut gap = self.find(tag, key).ok()?;
        let before = self.entries[gap].value;
        let mut next = self.after(gap);
        for _ in 1..self.entries.len() {
            let Entry { tag, key, value, .. } = self.entries[next];
            if tag == 0 {
                break;
            }
            // The entry may fill the gap, unless its home is behind the gap.
            if self.distance(self.home(tag), next) >= self.distance(gap, next) {
                self.entries[gap].fill(tag, key, value);
                settle(self);
                gap = next;
            }
            next = self.after(next);
        }
        self.entries[gap].tag = 0;
        settle(self);
        self.entries[0].used -= 1;
        Some(before)
    }

    /// Returns where the key is, or otherwise the place for it, if there is one.
    #[inline]
    fn find(&self, tag: u32, key: &K) -> Result<usize, Option<usize>> {
        let mut at = self.home(tag);
        for _ in 0..self.entries.len() {
            let entry = &self.entries[at];
            if entry.tag == 0 {
                return Err(Some(at));
            }
            if entry.has(tag, key) {
                return Ok(at);
            }
            at = self.after(at);
        }
        Err(None)
    }

    /// Returns where the search for a key begins.
    #[inline]
    fn home(&self, tag: u32) -> usize {
        ((u64::from(tag) * self.entries.len() as u64) >> 32) as usize
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        if at + 1 == self.entries.len() { 0 } else { at + 1 }
    }

    /// Returns how many places `to` is after `from`.
    #[inline]
    fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.entries.len() - from }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::{super::interrupted::within, *};

    #[derive(Clone, Copy, Debug)]
    enum Op {
        Get(u8),
        Insert(u8, u16),
        Remove(u8),
        Clear,
    }

    fn ops(keys: u8, most: usize) -> impl Strategy<Value = Vec<Op>> {
        let op = prop_oneof![
            20 => (0..keys).prop_map(Op::Get),
            50 => (0..keys, any::<u16>()).prop_map(|(key, value)| Op::Insert(key, value)),
            40 => (0..keys).prop_map(Op::Remove),
            1 => Just(Op::Clear),
        ];
        prop::collection::vec(op, 0..most)
    }

    type Model = BTreeMap<[u8; 3], u16>;

    /// Returns several bytes, most of which are the same.
    fn key(key: u8) -> [u8; 3] {
        [0, key, 7]
    }

    fn apply(table: &mut Table<[u8; 3], u16>, op: Op) -> Result<Option<u16>, TableFull> {
        match op {
            Op::Get(k) => Ok(table.get(key(k))),
            Op::Insert(k, value) => table.insert(key(k), value),
            Op::Remove(k) => Ok(table.remove(key(k))),
            Op::Clear => {
                table.clear();
                Ok(None)
            }
        }
    }

    fn apply_to_model(model: &mut Model, room: usize, op: Op) -> Result<Option<u16>, TableFull> {
        match op {
            Op::Get(k) => Ok(model.get(&key(k)).copied()),
            Op::Insert(k, _) if model.len() == room && !model.contains_key(&key(k)) => {
                Err(TableFull)
            }
            Op::Insert(k, value) => Ok(model.insert(key(k), value)),
            Op::Remove(k) => Ok(model.remove(&key(k))),
            Op::Clear => {
                model.clear();
                Ok(None)
            }
        }
    }

    fn contents(table: &Table<[u8; 3], u16>) -> Model {
        let all: Vec<_> = table.iter().collect();
        let model: Model = all.iter().copied().collect();
        assert_eq!((model.len(), table.len()), (all.len(), all.len()), "a key is there twice");
        model.iter().for_each(|(key, value)| assert_eq!(table.get(*key), Some(*value)));
        model
    }

    proptest! {
        /// Few places and few keys: full tables, and probes that go around the end.
        #[test]
        fn it_is_a_map(room in 0usize..20, ops in (1u8..30).prop_flat_map(|keys| ops(keys, 200))) {
            let mut entries = vec![Entry::zeroed(); room];
            let mut table = Table::new(&mut entries);
            let mut model = Model::new();
            for op in ops {
                let wanted = apply_to_model(&mut model, room, op);
                prop_assert_eq!(apply(&mut table, op), wanted);
                prop_assert_eq!(contents(&table), model.clone());
            }
            prop_assert_eq!(table.repair(), 0);
            prop_assert_eq!(contents(&table), model);
        }

        /// After any step of the last operation the table can be repaired: that one was executed
        /// or not, or its key is lost; nothing else is.
        #[test]
        fn what_was_interrupted_is_repaired(
            room in 1usize..16,
            ops in ops(16, 60),
            last in prop_oneof![
                (0u8..16, any::<u16>()).prop_map(|(key, value)| Op::Insert(key, value)),
                (0u8..16).prop_map(Op::Remove),
            ],
        ) {
            let mut entries = vec![Entry::zeroed(); room];
            for op in ops {
                let _ = apply(&mut Table::new(&mut entries), op);
            }
            let before = contents(&Table::new(&mut entries));
            let mut after = before.clone();
            let _ = apply_to_model(&mut after, room, last);
            let mut without = before.clone();
            if let Op::Insert(k, _) | Op::Remove(k) = last {
                without.remove(&key(k));
            }
            let results = [before, after.clone(), without];
            for steps in 0.. {
                let mut entries = entries.clone();
                let mut table = Table::new(&mut entries);
                let ended = within(steps, || {
                    let _ = apply(&mut table, last);
                });
                // The repair is killed after any step, too.
                for steps in 0.. {
                    let mut table = Table { entries: &mut table.entries.to_vec() };
                    let repaired = within(steps, || _ = table.repair());
                    table.repair();
                    let found = contents(&table);
                    prop_assert!(results.contains(&found), "after {steps} more steps: {found:?}");
                    if repaired {
                        break;
                    }
                }
                table.repair();
                let found = contents(&table);
                prop_assert!(results.contains(&found), "after {steps} steps: {found:?}");
                if ended {
                    prop_assert_eq!(found, after);
                    break;
                }
            }
        }
    }

    #[test]
    fn homes_are_spread() {
        const KEYS: u64 = 8000;
        let mut entries = vec![Entry::<u64, u8>::zeroed(); 10_000];
        let mut table = Table::new(&mut entries);
        for key in 0..KEYS {
            table.insert(key, 0).unwrap();
        }
        let away = |(at, entry): (usize, &Entry<u64, u8>)| match entry.tag {
            0 => 0,
            tag => table.distance(table.home(tag), at),
        };
        let sum: usize = table.entries.iter().enumerate().map(away).sum();
        // Knuth: (1 + 1 / (1 - 0.8)) / 2 - 1 = 2 with hashes that are random.
        assert!((1.0..4.0).contains(&(sum as f64 / KEYS as f64)), "{sum}");
    }

    #[test]
    fn foreign_bits_do_no_harm() {
        let mut bytes = vec![0xa5u8; 10 * size_of::<Entry<u64, u64>>()];
        let entries: &mut [Entry<u64, u64>] = bytemuck::cast_slice_mut(&mut bytes);
        let mut table = Table::new(entries);
        assert_eq!(
            (table.get(1), table.insert(1, 2), table.remove(1)),
            (None, Err(TableFull), None)
        );
        table.repair();
        assert_eq!((table.len(), table.insert(1, 2)), (0, Ok(None)));
    }
}
