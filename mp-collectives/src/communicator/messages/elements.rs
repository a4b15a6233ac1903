//! Element types of messages and how both sides compare them, and the buffers that calls take.

use std::any::{Any, TypeId};

use bytemuck::{cast_slice, cast_slice_mut};
use mp_core::{Buffer, ElementType, ErrorKind, Plain, SharedBuffer, requests::Landing};

/// Makes the description of a type that was never announced, which only a broken sender can do.
pub(crate) fn unknown() -> ElementType {
    ElementType::new("an unknown type", 0, 0)
}

/// Returns a number for the type that is the same in every process. Two different types have the same number with a
/// probability of one in four billion. (FNV-1a, folded.)
pub(crate) fn fingerprint(element: &ElementType) -> u32 {
    let sizes = [element.size as u64, element.align as u64];
    let bytes = element.name.bytes().chain(sizes.into_iter().flat_map(u64::to_le_bytes));
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash >> 32) as u32 ^ hash as u32
}

/// The fingerprints of the types in use. Hashing a name for every message would take longer than the message.
#[derive(Debug, Default)]
pub(crate) struct Fingerprints {
    last: Option<(TypeId, u32)>,
    all: Vec<(TypeId, u32)>,
}

impl Fingerprints {
    #[inline(always)]
    pub(crate) fn of<T: Plain>(&mut self) -> u32 {
        match self.last {
            Some((id, fingerprint)) if id == TypeId::of::<T>() => fingerprint,
            _ => self.look_up::<T>(),
        }
    }

    #[cold]
    fn look_up<T: Plain>(&mut self) -> u32 {
        let id = TypeId::of::<T>();
        let entry = match self.all.iter().find(|(known, _)| *known == id) {
            Some(entry) => *entry,
            None => {
                let entry = (id, fingerprint(&ElementType::of::<T>()));
                self.all.push(entry);
                entry
            }
        };
        self.last = Some(entry);
        entry.1
    }
}

/// A buffer that the engine keeps while its content is pending.
pub(crate) trait Payload: Any + Send {
    fn bytes(&self) -> &[u8];
    fn into_any(self: Box<Self>) -> Box<dyn Any + Send>;
}

impl<B: Buffer + 'static> Payload for B {
    fn bytes(&self) -> &[u8] {
        cast_slice(self.elements())
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }
}

/// A vector that becomes as long as the message.
pub(crate) struct Grown<T>(pub(crate) Vec<T>);

impl<T: Plain> Landing for Grown<T> {
    fn begin(&mut self, count: usize) -> mp_core::Result<()> {
        self.0.clear();
        let no_memory = |_| ErrorKind::OutOfMemory { bytes: count.saturating_mul(size_of::<T>()) };
        self.0.try_reserve_exact(count).map_err(no_memory)?;
        self.0.resize(count, T::zeroed());
        Ok(())
    }

    fn bytes(&mut self) -> &mut [u8] {
        cast_slice_mut(&mut self.0)
    }
}

/// A shared buffer: the one that was sent, or one made for the message.
pub(crate) struct Taken<'a, T: Plain> {
    pub(crate) rank: &'a mp_core::Rank,
    pub(crate) buffer: Option<SharedBuffer<T>>,
}

impl<T: Plain> Landing for Taken<'_, T> {
    fn begin(&mut self, count: usize) -> mp_core::Result<()> {
        self.buffer = Some(self.rank.buffer(count)?);
        Ok(())
    }

    fn bytes(&mut self) -> &mut [u8] {
        self.buffer.as_mut().map_or(&mut [], |buffer| cast_slice_mut(buffer))
    }

    fn adopt(&mut self, buffer: SharedBuffer<u8>, count: usize) -> Option<SharedBuffer<u8>> {
        match buffer.recast(count) {
            Ok(buffer) => {
                self.buffer = Some(buffer);
                None
            }
            Err(buffer) => Some(buffer),
        }
    }
}
