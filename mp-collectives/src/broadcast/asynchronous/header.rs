//! What stands before a chunk in an MPB: whose it is, and which part of what.

/// What a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A user's.
    Message,
    /// The sequencer's: whose messages come next, four bytes for each.
    Order,
    /// The source will send nothing more.
    Farewell,
}

/// The line, or lines, before a chunk. The same on all of a chunk's way, so that it moves with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: Kind,
    /// The rank whose message it is: the root of the tree that it goes down.
    pub(super) source: usize,
    /// Bytes of the whole message.
    pub(super) length: usize,
    /// Which of them is the chunk's first.
    pub(super) offset: usize,
}

/// Bits of the first word that say what kind.
const KIND: u32 = 8;

impl Header {
    pub(super) const BYTES: usize = 24;

    /// With a number that says what all ranks must have chosen alike.
    pub(super) fn encode(self, options: u32) -> [u8; Header::BYTES] {
        let kind: u32 = match self.kind {
            Kind::Message => 1,
            Kind::Order => 2,
            Kind::Farewell => 3,
        };
        let mut bytes = [0; Header::BYTES];
        bytes[..4].copy_from_slice(&(kind | options << KIND).to_le_bytes());
        bytes[4..8].copy_from_slice(&(self.source as u32).to_le_bytes());
        bytes[8..16].copy_from_slice(&(self.length as u64).to_le_bytes());
        bytes[16..].copy_from_slice(&(self.offset as u64).to_le_bytes());
        bytes
    }

    /// With that number again. None for what [`encode`](Header::encode) cannot have written.
    pub(super) fn decode(bytes: &[u8; Header::BYTES]) -> Option<(Header, u32)> {
        let word =
            |at: usize| -> u64 { (0..8).fold(0, |w, i| w | u64::from(bytes[at + i]) << (8 * i)) };
        let first = word(0) as u32;
        let kind = match first & ((1 << KIND) - 1) {
            1 => Kind::Message,
            2 => Kind::Order,
            3 => Kind::Farewell,
            _ => return None,
        };
        let header = Header {
            kind,
            source: usize::try_from(word(0) >> 32).ok()?,
            length: usize::try_from(word(8)).ok()?,
            offset: usize::try_from(word(16)).ok()?,
        };
        Some((header, first >> KIND))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comes_back_as_it_was() {
        for kind in [Kind::Message, Kind::Order, Kind::Farewell] {
            for (source, length, offset) in [(0, 0, 0), (47, usize::MAX, 1), (3, 9, usize::MAX)] {
                let header = Header { kind, source, length, offset };
                let bytes = header.encode(0xabcdef);
                assert_eq!(Header::decode(&bytes), Some((header, 0xabcdef)));
            }
        }
        assert_eq!(Header::decode(&[0; Header::BYTES]), None);
        assert_eq!(Header::decode(&[4; Header::BYTES]), None);
    }
}
