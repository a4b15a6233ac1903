//! A map that several ranks change.

use std::{fmt, marker::PhantomData};

use bytemuck::{AnyBitPattern, NoUninit, Zeroable, bytes_of};
use mp_core::{Plain, Rank, Result};

use super::table::{Entry, Table, TableFull, tag_of};
use crate::critical::{Object, Protected, Section};

/// Keys with values: a hash table of a fixed capacity, which is the [`len`] of the section that the map is opened with.
///
/// Keys and values are of any [`Plain`] types; [`Bytes`](super::Bytes) are short strings. Keys are equal when their
/// bytes are. A map can be full, but it gets slow when more than 4/5 of the capacity are in use. The rank that asks for
/// an operation computes the hashes of its keys, outside of the critical section. Hashes are the same in all processes,
/// and do not protect against keys that were chosen to collide.
///
/// ```
/// use onchip::World;
/// use onchip::critical::{Scheme, Section, objects::Map};
///
/// World::threads(3).run(|rank| {
///     let section = Section::new(Scheme::HybComb).len(100);
///     let ages = Map::<u64, u32>::open(rank, "ages", section)?;
///     let me = rank.id() as u64;
///     assert_eq!(ages.insert(me, 30)??, None);
///     assert_eq!(ages.get(me)?, Some(30));
///     // Only if nobody else was faster.
///     assert!(ages.compare_and_swap(me, Some(30), Some(31))?.is_done());
///     assert_eq!(ages.remove(me)?, Some(31));
///     Ok(())
/// })?;
/// # Ok::<(), onchip::Error>(())
/// ```
///
/// These are calls of [`apply`](Protected::apply) with a [`MapOp`]; several can be in flight with
/// [`submit`](Protected::submit). With a scheme that [is a lock](crate::critical::Scheme::is_lock),
/// [`lock`](Protected::lock) and [`Table::new`] give the whole table.
///
/// When a rank is killed in the middle of another rank's operation, its successor repairs the map. A get or an insert
/// is then executed again, so that it is answered. The previous value that an insert returns may then be the one that
/// it has inserted. Other operations are [unknown](mp_core::ErrorKind::OutcomeUnknown).
///
/// [`len`]: crate::critical::Section::len
#[derive(Debug)]
pub struct Map<K, V>(PhantomData<(K, V)>);

impl<K: Plain, V: Plain> Map<K, V> {
    /// Opens the map of this name, as [`Protected::open`] does. It is empty at first.
    ///
    /// # Errors
    /// As `Protected::open`.
    pub fn open(rank: &Rank, name: &str, section: impl Into<Section>) -> Result<Protected<Self>> {
        Protected::open(rank, name, section, |_| ())
    }
}

impl<K: Plain, V: Plain> Object for Map<K, V> {
    type State = [Entry<K, V>];
    type Op = MapOp<K, V>;
    type Ret = MapAnswer<V>;

    #[inline]
    fn apply(state: &mut [Entry<K, V>], op: MapOp<K, V>) -> MapAnswer<V> {
        let mut table = Table::new(state);
        let MapOp { code, tag, key, expected, new, .. } = op;
        match code {
            GET => MapAnswer::of_key(table.get_tagged(tag, &key)),
            INSERT => MapAnswer::of_change(table.insert_tagged(tag, key, new)),
            REMOVE => MapAnswer::of_key(table.remove_tagged(tag, &key)),
            SWAP => {
                let before = table.get_tagged(tag, &key);
                let expected = (op.expects != 0).then_some(expected);
                let [is, should] = [&before, &expected].map(|v| v.as_ref().map(bytes_of));
                if is != should {
                    return MapAnswer::new(0, before);
                }
                if op.has_new == 0 {
                    return MapAnswer::new(DONE, table.remove_tagged(tag, &key));
                }
                MapAnswer::of_change(table.insert_tagged(tag, key, new))
            }
            CLEAR => {
                let keys = table.len();
                table.clear();
                MapAnswer::of_number(keys)
            }
            REPAIR => MapAnswer::of_number(table.repair()),
            // LEN. There are no others, but any bits are one.
            _ => MapAnswer::of_number(table.len()),
        }
    }

    fn repair(state: &mut [Entry<K, V>]) -> bool {
        Table::new(state).repair();
        true
    }

    /// Returns true for gets, inserts, and the number of keys. An insert that is executed again may find its own value.
    fn is_idempotent(op: &MapOp<K, V>) -> bool {
        matches!(op.code, GET | INSERT | LEN)
    }
}

const GET: u8 = 1;
const INSERT: u8 = 2;
const REMOVE: u8 = 3;
const SWAP: u8 = 4;
const LEN: u8 = 5;
const CLEAR: u8 = 6;
const REPAIR: u8 = 7;

/// An operation on a [`Map`].
#[derive(NoUninit, AnyBitPattern)]
#[repr(C, packed)]
pub struct MapOp<K, V> {
    code: u8,
    expects: u8,
    has_new: u8,
    _unused: u8,
    tag: u32,
    key: K,
    new: V,
    expected: V,
}

impl<K: Copy, V: Copy> Copy for MapOp<K, V> {}

impl<K: Copy, V: Copy> Clone for MapOp<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: Plain, V: Plain> MapOp<K, V> {
    fn with_key(code: u8, key: K) -> Self {
        Self { code, tag: tag_of(&key), key, ..Self::zeroed() }
    }

    fn without_key(code: u8) -> Self {
        Self { code, ..Self::zeroed() }
    }

    /// Returns an operation that gets the key's value.
    #[inline]
    pub fn get(key: K) -> Self {
        Self::with_key(GET, key)
    }

    /// Returns an operation that gives the key a value.
    #[inline]
    pub fn insert(key: K, value: V) -> Self {
        Self { new: value, ..Self::with_key(INSERT, key) }
    }

    /// Returns an operation that removes the key.
    #[inline]
    pub fn remove(key: K) -> Self {
        Self::with_key(REMOVE, key)
    }

    /// Returns an operation that gives the key a new value, if it has the expected one: the same bytes. `None` means
    /// that the key is not there, before or afterwards.
    #[inline]
    pub fn compare_and_swap(key: K, expected: Option<V>, new: Option<V>) -> Self {
        Self {
            expects: expected.is_some().into(),
            has_new: new.is_some().into(),
            expected: expected.unwrap_or(V::zeroed()),
            new: new.unwrap_or(V::zeroed()),
            ..Self::with_key(SWAP, key)
        }
    }

    /// Returns an operation that counts the keys.
    pub fn len() -> Self {
        Self::without_key(LEN)
    }

    /// Returns an operation that removes all keys.
    pub fn clear() -> Self {
        Self::without_key(CLEAR)
    }

    /// Returns an operation that repairs the map after an operation that did not finish: see [`Table::repair`].
    pub fn repair() -> Self {
        Self::without_key(REPAIR)
    }
}

impl<K, V> fmt::Debug for MapOp<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.code {
            GET => "get",
            INSERT => "insert",
            REMOVE => "remove",
            SWAP => "compare_and_swap",
            CLEAR => "clear",
            REPAIR => "repair",
            _ => "len",
        };
        f.debug_tuple("MapOp").field(&name).finish()
    }
}

const HAD: u32 = 1;
const DONE: u32 = 2;
const FULL: u32 = 4;

/// The result of an operation on a [`Map`].
#[derive(NoUninit, AnyBitPattern)]
#[repr(C, packed)]
pub struct MapAnswer<V> {
    flags: u32,
    number: u32,
    before: V,
}

impl<V: Copy> Copy for MapAnswer<V> {}

impl<V: Copy> Clone for MapAnswer<V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V: Plain> MapAnswer<V> {
    fn new(flags: u32, before: Option<V>) -> Self {
        let had = if before.is_some() { HAD } else { 0 };
        Self { flags: flags | had, number: 0, before: before.unwrap_or(V::zeroed()) }
    }

    fn of_key(before: Option<V>) -> Self {
        Self::new(if before.is_some() { DONE } else { 0 }, before)
    }

    fn of_change(change: Result<Option<V>, TableFull>) -> Self {
        match change {
            Ok(before) => Self::new(DONE, before),
            Err(TableFull) => Self::new(FULL, None),
        }
    }

    fn of_number(number: usize) -> Self {
        Self { number: number as u32, ..Self::new(DONE, None) }
    }

    /// Returns the value that the key had before the operation; for a get, the value that it has.
    #[inline]
    pub fn before(&self) -> Option<V> {
        (self.flags & HAD != 0).then_some(self.before)
    }

    /// Returns whether the operation was done as asked for. It was not if the key to get or to remove was not there, if
    /// the value was not the expected one, or if the map [is full](Self::is_full).
    #[inline]
    pub fn is_done(&self) -> bool {
        self.flags & DONE != 0
    }

    /// Returns whether the map has no room for another key, and stays as it is.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.flags & FULL != 0
    }

    /// Returns how many keys there are (for `len`), how many there were (for `clear`), or how many entries were dropped
    /// (for `repair`); otherwise 0.
    #[inline]
    pub fn number(&self) -> usize {
        self.number as usize
    }
}

impl<V: Plain + fmt::Debug> fmt::Debug for MapAnswer<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MapAnswer")
            .field("before", &self.before())
            .field("is_done", &self.is_done())
            .field("is_full", &self.is_full())
            .field("number", &self.number())
            .finish()
    }
}

/// The operations of a [`Map`], one at a time. All of them have the errors of
/// [`apply`](Self::apply).
impl<K: Plain, V: Plain> Protected<Map<K, V>> {
    /// Returns the key's value.
    ///
    /// # Errors
    /// As `apply`.
    #[inline]
    pub fn get(&self, key: K) -> Result<Option<V>> {
        Ok(self.apply(MapOp::get(key))?.before())
    }

    /// Gives the key a value. Returns its previous value.
    ///
    /// # Errors
    /// As `apply`. The inner result can be [`TableFull`], for a key that is not there yet, when there is no room for
    /// it.
    #[inline]
    pub fn insert(&self, key: K, value: V) -> Result<Result<Option<V>, TableFull>> {
        let answer = self.apply(MapOp::insert(key, value))?;
        Ok(if answer.is_full() { Err(TableFull) } else { Ok(answer.before()) })
    }

    /// Removes the key. Returns its value.
    ///
    /// # Errors
    /// As `apply`.
    #[inline]
    pub fn remove(&self, key: K) -> Result<Option<V>> {
        Ok(self.apply(MapOp::remove(key))?.before())
    }

    /// Gives the key a new value, or removes it, if its value is the expected one. `None` means that the key is not
    /// there. The [answer](MapAnswer::is_done) says whether this was done.
    ///
    /// # Errors
    /// As `apply`.
    #[inline]
    pub fn compare_and_swap(
        &self,
        key: K,
        expected: Option<V>,
        new: Option<V>,
    ) -> Result<MapAnswer<V>> {
        self.apply(MapOp::compare_and_swap(key, expected, new))
    }

    /// Returns how many keys there are.
    ///
    /// # Errors
    /// As `apply`.
    pub fn len(&self) -> Result<usize> {
        Ok(self.apply(MapOp::len())?.number())
    }

    /// Returns whether there is no key.
    ///
    /// # Errors
    /// As `apply`.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Removes all keys. Returns how many there were.
    ///
    /// # Errors
    /// As `apply`.
    pub fn clear(&self) -> Result<usize> {
        Ok(self.apply(MapOp::clear())?.number())
    }

    /// Repairs the map after an operation that did not finish. Returns how many entries were dropped. See
    /// [`Table::repair`].
    ///
    /// The successor of a rank that was killed in the middle of an operation does this automatically. After an
    /// operation that panicked (a key or a value of yours may) the map is poisoned, unless its section says otherwise.
    /// It then refuses this operation, too, until [`clear_poison`](Self::clear_poison).
    ///
    /// # Errors
    /// As `apply`.
    pub fn repair(&self) -> Result<usize> {
        Ok(self.apply(MapOp::repair())?.number())
    }
}
