//! Keys, and values that tell where they are from.

use onchip::critical::objects::{Bytes, MapOp};

/// A key of the store.
pub type Key = Bytes<15>;

/// A value of the store, of up to `N` bytes.
pub type Value<const N: usize> = Bytes<N>;

/// The shortest value there is: its stamp.
pub const SHORTEST: usize = 8;
/// The longest one.
pub const LONGEST: usize = 255;

/// The client that has written a value, and the value's number among the client's own. No two values have the same
/// stamp. 0 is no value.
pub type Stamp = u64;

const NUMBER_BITS: u32 = 44;

/// Returns the stamp of a client's `number`-th value.
pub fn stamp(client: usize, number: u64) -> Stamp {
    (client as u64 + 1) << NUMBER_BITS | (number & ((1 << NUMBER_BITS) - 1))
}

/// Returns the client that has written a value; `None` for no value.
pub fn writer(stamp: Stamp) -> Option<usize> {
    ((stamp >> NUMBER_BITS) as usize).checked_sub(1)
}

/// Returns numbers that look unrelated, for numbers that are related.
pub fn mixed(number: u64) -> u64 {
    let mut z = number;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns what a value adds to a sum over values; 0 for none.
pub fn weight(stamp: Stamp) -> u64 {
    if stamp == 0 { 0 } else { mixed(stamp) }
}

/// Returns a key by its number.
pub fn key(index: usize) -> Key {
    // `format!` would take longer than many operations of a store.
    let mut text = *b"key:00000000";
    let mut rest = index;
    for digit in text[4..].iter_mut().rev() {
        *digit += (rest % 10) as u8;
        rest /= 10;
    }
    bytes(&text)
}

fn bytes<const N: usize>(bytes: &[u8]) -> Bytes<N> {
    // The content that is made here always fits.
    Bytes::new(bytes).unwrap_or_default()
}

/// Returns the value of a key that has this stamp, of `len` bytes: the stamp, and bytes that follow from it and the
/// key.
pub fn value<const N: usize>(index: usize, stamp: Stamp, len: usize) -> Value<N> {
    let mut text = [0; LONGEST + 1];
    let (words, _) = text.as_chunks_mut::<8>();
    words[0] = stamp.to_le_bytes();
    let first = mixed(stamp) ^ index as u64;
    for (at, word) in words[1..].iter_mut().enumerate().take(len.div_ceil(8) - 1) {
        *word = first.wrapping_add(at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    }
    bytes(&text[..len])
}

/// Returns the stamp of a value of this key, if all of it is as it must be.
pub fn stamp_of<const N: usize>(index: usize, found: &Value<N>, len: usize) -> Option<Stamp> {
    let stamp = u64::from_le_bytes(*found.first_chunk()?);
    (*found == value(index, stamp, len)).then_some(stamp)
}

/// An operation on the store.
pub type Op<const N: usize> = MapOp<Key, Value<N>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_tell_where_they_are_from() {
        let stamp = stamp(3, 99);
        assert_eq!((writer(stamp), writer(0)), (Some(3), None));
        for len in [8, 9, 15, 16, 63, 255] {
            let whole = value::<255>(7, stamp, len);
            assert_eq!(whole.len(), len);
            assert_eq!(stamp_of(7, &whole, len), Some(stamp));
            // A value of another key, of another length, of another writer, or half of one.
            assert!(len == 8 || stamp_of(8, &whole, len).is_none());
            assert_eq!(stamp_of(7, &whole, len + 1 - 2 * (len / 255)), None);
            let other = value::<255>(7, super::stamp(4, 99), len);
            let torn = [&whole[..7], &other[7..]].concat();
            if len > 8 {
                assert_eq!(stamp_of(7, &Bytes::<255>::new(&torn).unwrap(), len), None);
            }
        }
        assert_eq!(stamp_of(7, &Value::<63>::new(b"short").unwrap(), 8), None);
    }

    #[test]
    fn keys_are_different() {
        assert_eq!(&*key(0), b"key:00000000");
        assert_eq!(&*key(99_999_999), b"key:99999999");
        assert_ne!(key(12), key(21));
    }
}
