//! Short byte strings, as plain data.

use std::{fmt, ops::Deref};

use bytemuck::{AnyBitPattern, NoUninit, Zeroable};

/// Up to `N` bytes, 255 at most: a key or a value whose length varies.
///
/// ```
/// use onchip::critical::objects::Bytes;
///
/// let name = Bytes::<15>::new(b"Niklaus")?;
/// assert_eq!(&*name, b"Niklaus");
/// assert_eq!(size_of_val(&name), 16);
/// # Ok::<(), onchip::critical::objects::TooLong>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, NoUninit, AnyBitPattern)]
#[repr(C, packed)]
pub struct Bytes<const N: usize> {
    len: u8,
    /// The bytes in use, followed by zeros, so that equal strings have equal bits.
    bytes: [u8; N],
}

/// The error when there are too many bytes for the room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{len} bytes do not fit into a value with room for {room}: use shorter ones, or a longer type of Bytes"
)]
pub struct TooLong {
    /// The number of bytes.
    pub len: usize,
    /// The most bytes that there is room for.
    pub room: usize,
}

impl<const N: usize> Bytes<N> {
    const ROOM: usize = if N < 256 { N } else { 255 };

    /// Copies these bytes.
    ///
    /// # Errors
    /// [`TooLong`], for more than `N` bytes.
    pub fn new(bytes: &[u8]) -> Result<Self, TooLong> {
        let (len, room) = (bytes.len(), Self::ROOM);
        if len > room {
            return Err(TooLong { len, room });
        }
        let mut short = Self::zeroed();
        short.len = len as u8;
        let mut all = [0; N];
        all[..len].copy_from_slice(bytes);
        short.bytes = all;
        Ok(short)
    }
}

/// Returns no bytes.
impl<const N: usize> Default for Bytes<N> {
    fn default() -> Self {
        Self::zeroed()
    }
}

impl<const N: usize> Deref for Bytes<N> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // Another rank may have written any length into it.
        let len = usize::from(self.len).min(N);
        &bytemuck::bytes_of(self)[1..][..len]
    }
}

impl<const N: usize> TryFrom<&[u8]> for Bytes<N> {
    type Error = TooLong;

    fn try_from(bytes: &[u8]) -> Result<Self, TooLong> {
        Self::new(bytes)
    }
}

impl<const N: usize> fmt::Debug for Bytes<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.escape_ascii())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn strings_of_every_length() {
        let text: Vec<u8> = (0..=255).collect();
        for len in 0..=7 {
            let bytes = Bytes::<7>::new(&text[..len]).unwrap();
            assert_eq!(*bytes, text[..len]);
            assert_eq!(bytes, Bytes::try_from(&text[..len]).unwrap());
        }
        assert_eq!(Bytes::<7>::new(&text[..8]), Err(TooLong { len: 8, room: 7 }));
        assert_eq!(*Bytes::<300>::new(&text[1..]).unwrap(), text[1..]);
        assert_eq!(Bytes::<300>::new(&text), Err(TooLong { len: 256, room: 255 }));
        assert_eq!(Bytes::<0>::new(&[]).unwrap(), Bytes::default());
        assert_ne!(Bytes::<3>::new(&[]).unwrap(), Bytes::new(&[0]).unwrap());
        assert_eq!(format!("{:?}", Bytes::<9>::new(b"a\n\"\xff").unwrap()), r#"b"a\n\"\xff""#);
    }

    #[test]
    fn any_bits_are_a_string() {
        assert_eq!(*bytemuck::pod_read_unaligned::<Bytes<3>>(&[200, 1, 2, 3]), [1, 2, 3]);
    }
}
