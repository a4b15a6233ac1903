//! The form of a channel's specification in the segment.

use super::spec::ChannelSpec;
use crate::{
    context::{Text, hash},
    sync::{AtomicU64, Ordering},
};

/// The number of bytes that are kept of a type's name.
const TYPE_NAME: usize = 104;

/// A [`ChannelSpec`] in the segment.
#[derive(Debug)]
#[repr(C)]
pub(super) struct SpecWords {
    type_name: Text<{ TYPE_NAME / 8 }>,
    /// The other fields of the specification, in order.
    numbers: [AtomicU64; 5],
    /// A hash of the numbers, which shows if one of them was overwritten.
    sum: AtomicU64,
}

impl SpecWords {
    /// Cuts the type's name, at the end of a character, to the length that is kept in the segment. Both ends must do
    /// so, because otherwise a type with a long name would differ from itself.
    pub(super) fn cut(spec: &mut ChannelSpec) {
        let name = &mut spec.type_name;
        let cut = (0..=TYPE_NAME).rev().find(|&end| name.is_char_boundary(end)).unwrap_or(0);
        name.truncate(cut);
    }

    pub(super) fn write(&self, spec: &ChannelSpec) {
        self.type_name.write(&spec.type_name);
        let [size, align, max_len] =
            [spec.element_size, spec.element_align, spec.max_len].map(|number| number as u64);
        let numbers = [size, align, spec.slice.into(), spec.degree, max_len];
        for (word, number) in self.numbers.iter().zip(numbers) {
            word.store(number, Ordering::Relaxed);
        }
        self.sum.store(hash(numbers.into_iter()), Ordering::Relaxed);
    }

    /// Returns the specification that was written, or `None` if a number was overwritten since.
    pub(super) fn read_whole(&self) -> Option<ChannelSpec> {
        let numbers = self.numbers();
        let whole = self.sum.load(Ordering::Relaxed) == hash(numbers.into_iter());
        whole.then(|| self.spec(numbers))
    }

    pub(super) fn read(&self) -> ChannelSpec {
        self.spec(self.numbers())
    }

    fn numbers(&self) -> [u64; 5] {
        std::array::from_fn(|at| self.numbers[at].load(Ordering::Relaxed))
    }

    fn spec(&self, [size, align, slice, degree, max_len]: [u64; 5]) -> ChannelSpec {
        ChannelSpec {
            type_name: self.type_name.read(),
            element_size: size as usize,
            element_align: align as usize,
            slice: slice != 0,
            degree,
            max_len: max_len as usize,
        }
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        ErrorKind,
        channel::{Channel, Descriptor},
        context::Context,
        segment::{BlockKind, Offset, Segment, SegmentError},
        wait::{Asymmetry, LineWait, WaitPolicy, Waiting},
        world::{Rank, bury},
    };

    /// An overwritten number in a specification is an error for a rank that opens the other end, and for a rank that
    /// buries another rank. An end that is already open uses its own copy of the specification.
    #[test]
    fn a_specification_that_was_overwritten_places_no_slot() {
        // Two alignments, a size, a degree, a length, and that the messages are not slices.
        let spoils = [(1, 12), (1, 4096), (0, 3), (3, 2), (4, 1 << 40), (2, 0)];
        for (word, value) in spoils {
            let waiting = Waiting {
                policy: WaitPolicy::Park,
                asymmetry: Asymmetry::Ordinary,
                line_wait: LineWait::Pause,
                spare: 0,
            };
            let segment = Segment::on_heap(1 << 20, false, 0).unwrap();
            let world = Context::create(Arc::new(segment), (2, 2), true, waiting).unwrap();
            let ranks = [0, 1].map(|rank| Rank::new(Arc::new(world.as_rank(rank))));
            let channel = Channel::degree(3).max_len(20);
            let mut to = ranks[0].sender::<[u32]>("x", 1, channel).unwrap();
            let buffer = ranks[0].buffer_from(&[7u32; 100]).unwrap();
            to.send_buffer(buffer).unwrap();
            let key = world.lock_heap().unwrap().blocks().unwrap();
            let key = key.iter().find(|block| block.kind == BlockKind::Channel).unwrap().key;
            let place = Offset::<Descriptor>::new(key.payload());
            world.segment.at(place).unwrap().spec.numbers[word].store(value, Ordering::Relaxed);
            let error = ranks[1].receiver::<[u32]>("x", 0, channel).unwrap_err();
            let corrupt = matches!(error.kind(), ErrorKind::Segment(SegmentError::Corrupt { .. }));
            assert!(corrupt, "{error}");
            // This frees the buffer together with the channel.
            bury(&world, 1).unwrap();
            drop(to);
            let kinds: Vec<_> = world.lock_heap().unwrap().blocks().unwrap();
            assert!(kinds.iter().all(|block| block.kind != BlockKind::Buffer), "{kinds:?}");
        }
    }
}
