//! The header before a chunk in an MPB: the source of the chunk, and which part of which message it is.

/// The purpose of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A message of the user.
    Message,
    /// A message of the sequencer that says whose messages come next, with four bytes for each.
    Order,
    /// The source will send nothing more.
    Farewell,
}

/// The line, or lines, before a chunk. The header is the same all along the chunk's way, so it moves with the chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: Kind,
    /// The rank that sent the message: the root of the tree that it goes down.
    pub(super) source: usize,
    /// The length of the whole message in bytes.
    pub(super) length: usize,
    /// The position of the chunk's first byte in the message.
    pub(super) offset: usize,
}

/// The number of bits of the first word that encode the kind.
const KIND: u32 = 8;

impl Header {
    pub(super) const BYTES: usize = 24;

    /// Encodes the header with a number that represents the options that must be the same at all ranks.
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

    /// Decodes the header and that number. Returns `None` for bytes that [`encode`](Header::encode) cannot have
    /// written.
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
