//! Types that are made from other types.

use std::{
    ffi::c_int,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize},
    },
};

use super::{
    definition::{Datatype, Kind, Made, TypeRef},
    pieces::{Piece, Pieces},
};
use crate::{
    attributes::Attributes,
    callbacks::Owner,
    constants::{
        MPI_COMBINER_CONTIGUOUS, MPI_COMBINER_DUP, MPI_COMBINER_HINDEXED,
        MPI_COMBINER_HINDEXED_BLOCK, MPI_COMBINER_HVECTOR, MPI_COMBINER_INDEXED,
        MPI_COMBINER_INDEXED_BLOCK, MPI_COMBINER_RESIZED, MPI_COMBINER_STRUCT, MPI_COMBINER_VECTOR,
    },
    error::{Class, Error},
};

type Result<T> = std::result::Result<T, Error>;

/// The bounds, size and alignment of a type in the making. They are wider than those of types, so that their sums don't
/// overflow.
#[derive(Default)]
pub(super) struct Measure {
    bounds: Option<(i128, i128)>,
    set_bounds: (bool, bool),
    size: i128,
    elements: i128,
    align: i64,
}

impl Measure {
    /// Adds blocks of `length` elements each: `count` blocks, `stride` bytes from each to the next.
    pub fn add(
        &mut self,
        of: &Datatype,
        offset: i64,
        length: i64,
        (count, stride): (i64, i64),
    ) -> Result<()> {
        if length <= 0 || count <= 0 {
            return Ok(());
        }
        let [offset, length, count, stride, extent] =
            [offset, length, count, stride, of.extent].map(i128::from);
        let number = length.checked_mul(count).ok_or_else(too_large)?;
        let scaled = |by: i64| number.checked_mul(by.into()).ok_or_else(too_large);
        self.size = self.size.saturating_add(scaled(of.size)?);
        self.elements = self.elements.saturating_add(scaled(of.elements)?);
        self.align = self.align.max(of.align);
        let spans = [(length - 1).saturating_mul(extent), (count - 1).saturating_mul(stride)];
        let total = |pick: fn(i128, i128) -> i128| {
            spans.iter().fold(offset, |sum, &span| sum.saturating_add(pick(span, 0)))
        };
        let lower = total(i128::min).saturating_add(of.lower.into());
        let upper = total(i128::max).saturating_add(of.upper().into());
        // A type without data has bounds only if they were set.
        if of.elements == 0 && of.set_bounds == (false, false) {
            return Ok(());
        }
        let Some((low, up)) = &mut self.bounds else {
            self.bounds = Some((lower, upper));
            self.set_bounds = of.set_bounds;
            return Ok(());
        };
        // Bounds that were set hide all others.
        match (self.set_bounds.0, of.set_bounds.0) {
            (false, true) => *low = lower,
            (true, false) => {}
            _ => *low = lower.min(*low),
        }
        match (self.set_bounds.1, of.set_bounds.1) {
            (false, true) => *up = upper,
            (true, false) => {}
            _ => *up = upper.max(*up),
        }
        self.set_bounds.0 |= of.set_bounds.0;
        self.set_bounds.1 |= of.set_bounds.1;
        Ok(())
    }

    /// Rounds the extent up to the alignment, as compilers do for structures.
    fn pad(&mut self) {
        if let Some((lower, upper)) = &mut self.bounds
            && !self.set_bounds.1
        {
            let align = i128::from(self.align.max(1));
            *upper = *lower + (*upper - *lower + align - 1).div_euclid(align) * align;
        }
    }

    pub fn set_bounds(&mut self, lower: i128, upper: i128) {
        self.bounds = Some((lower, upper));
        self.set_bounds = (true, true);
    }

    /// Makes the type. `pieces` is called when it is known that no offset overflows.
    pub fn make(self, made: Made, pieces: impl FnOnce() -> Pieces) -> Result<Datatype> {
        let number = |wide: i128| i64::try_from(wide).map_err(|_| too_large());
        let (lower, upper) = self.bounds.unwrap_or_default();
        let (lower, extent, size) = (number(lower)?, number(upper - lower)?, number(self.size)?);
        number(upper)?;
        let pieces = pieces().into_cow();
        let (true_lower, true_upper) = Pieces::bounds(&pieces).unwrap_or_default();
        Ok(Datatype {
            size,
            lower,
            extent,
            true_lower,
            true_extent: true_upper - true_lower,
            align: self.align,
            set_bounds: self.set_bounds,
            elements: number(self.elements)?,
            kind: Kind::None,
            is_predefined: false,
            pieces,
            made: Some(made),
            is_committed: AtomicBool::new(false),
            handles: AtomicUsize::new(0),
            attributes: Attributes::new(Owner::Datatype),
            name: Mutex::default(),
        })
    }
}

fn too_large() -> Error {
    Error::new(Class::ValueTooLarge, "the datatype does not fit into 64 bits")
}

fn check_count(count: i64) -> Result<()> {
    match count {
        0.. => Ok(()),
        _ => Err(Error::new(Class::Count, format!("the count is negative: {count}"))),
    }
}

fn check_lengths(lengths: &[i64]) -> Result<()> {
    match lengths.iter().find(|length| **length < 0) {
        None => Ok(()),
        Some(length) => {
            Err(Error::new(Class::Arg, format!("the length of a block is negative: {length}")))
        }
    }
}

fn made(combiner: c_int, integers: Vec<i64>, addresses: Vec<i64>, of: &TypeRef) -> Made {
    Made { combiner, integers, addresses, types: vec![of.clone()] }
}

pub(crate) fn contiguous(count: i64, of: &TypeRef) -> Result<Datatype> {
    check_count(count)?;
    let mut measure = Measure::default();
    measure.add(of, 0, count, (1, 0))?;
    measure.make(made(MPI_COMBINER_CONTIGUOUS, vec![count], vec![], of), || {
        let mut pieces = Pieces::default();
        pieces.place(&of.pieces, 0, count, of.extent);
        pieces
    })
}

pub(crate) fn vector(count: i64, length: i64, stride: i64, of: &TypeRef) -> Result<Datatype> {
    let bytes = stride.checked_mul(of.extent).ok_or_else(too_large)?;
    let made = made(MPI_COMBINER_VECTOR, vec![count, length, stride], vec![], of);
    blocks(count, length, bytes, of, made)
}

pub(crate) fn hvector(count: i64, length: i64, stride: i64, of: &TypeRef) -> Result<Datatype> {
    let made = made(MPI_COMBINER_HVECTOR, vec![count, length], vec![stride], of);
    blocks(count, length, stride, of, made)
}

fn blocks(count: i64, length: i64, stride: i64, of: &TypeRef, made: Made) -> Result<Datatype> {
    check_count(count)?;
    check_lengths(&[length])?;
    let mut measure = Measure::default();
    measure.add(of, 0, length, (count, stride))?;
    measure.make(made, || {
        let mut block = Pieces::default();
        block.place(&of.pieces, 0, length, of.extent);
        let mut pieces = Pieces::default();
        pieces.place(block.as_slice(), 0, count, stride);
        pieces
    })
}

/// The blocks of the four indexed constructors, with their places in bytes.
fn scattered(blocks: &[(i64, i64)], of: &TypeRef, made: Made) -> Result<Datatype> {
    let mut measure = Measure::default();
    for &(length, offset) in blocks {
        measure.add(of, offset, length, (1, 0))?;
    }
    measure.make(made, || {
        let mut pieces = Pieces::default();
        for &(length, offset) in blocks {
            pieces.place(&of.pieces, offset, length, of.extent);
        }
        pieces
    })
}

fn in_bytes(displacements: &[i64], of: &Datatype) -> Result<Vec<i64>> {
    let scaled = |number: &i64| number.checked_mul(of.extent).ok_or_else(too_large);
    displacements.iter().map(scaled).collect()
}

fn pairs(lengths: &[i64], offsets: &[i64]) -> Vec<(i64, i64)> {
    lengths.iter().copied().zip(offsets.iter().copied()).collect()
}

fn counted<const N: usize>(lists: [&[i64]; N]) -> Vec<i64> {
    let count = lists[0].len() as i64;
    std::iter::once(count).chain(lists.into_iter().flatten().copied()).collect()
}

pub(crate) fn indexed(lengths: &[i64], displacements: &[i64], of: &TypeRef) -> Result<Datatype> {
    check_lengths(lengths)?;
    let made = made(MPI_COMBINER_INDEXED, counted([lengths, displacements]), vec![], of);
    scattered(&pairs(lengths, &in_bytes(displacements, of)?), of, made)
}

pub(crate) fn hindexed(lengths: &[i64], offsets: &[i64], of: &TypeRef) -> Result<Datatype> {
    check_lengths(lengths)?;
    let made = made(MPI_COMBINER_HINDEXED, counted([lengths]), offsets.to_vec(), of);
    scattered(&pairs(lengths, offsets), of, made)
}

pub(crate) fn indexed_block(length: i64, displacements: &[i64], of: &TypeRef) -> Result<Datatype> {
    check_lengths(&[length])?;
    let mut integers = vec![displacements.len() as i64, length];
    integers.extend(displacements);
    let made = made(MPI_COMBINER_INDEXED_BLOCK, integers, vec![], of);
    let offsets = in_bytes(displacements, of)?;
    scattered(&pairs(&vec![length; offsets.len()], &offsets), of, made)
}

pub(crate) fn hindexed_block(length: i64, offsets: &[i64], of: &TypeRef) -> Result<Datatype> {
    check_lengths(&[length])?;
    let integers = vec![offsets.len() as i64, length];
    let made = made(MPI_COMBINER_HINDEXED_BLOCK, integers, offsets.to_vec(), of);
    scattered(&pairs(&vec![length; offsets.len()], offsets), of, made)
}

pub(crate) fn structure(lengths: &[i64], offsets: &[i64], types: &[TypeRef]) -> Result<Datatype> {
    check_lengths(lengths)?;
    let blocks = || types.iter().zip(lengths).zip(offsets);
    let mut measure = Measure::default();
    for ((of, &length), &offset) in blocks() {
        measure.add(of, offset, length, (1, 0))?;
    }
    measure.pad();
    let made = Made {
        combiner: MPI_COMBINER_STRUCT,
        integers: counted([lengths]),
        addresses: offsets.to_vec(),
        types: types.to_vec(),
    };
    measure.make(made, || {
        let mut pieces = Pieces::default();
        for ((of, &length), &offset) in blocks() {
            pieces.place(&of.pieces, offset, length, of.extent);
        }
        pieces
    })
}

pub(crate) fn resized(of: &TypeRef, lower: i64, extent: i64) -> Result<Datatype> {
    let mut measure = Measure::default();
    measure.add(of, 0, 1, (1, 0))?;
    measure.set_bounds(lower.into(), i128::from(lower) + i128::from(extent));
    let made = made(MPI_COMBINER_RESIZED, vec![], vec![lower, extent], of);
    measure.make(made, || pieces_of(of))
}

pub(crate) fn duplicate(of: &TypeRef, attributes: Attributes) -> Result<Datatype> {
    let committed = of.is_committed.load(std::sync::atomic::Ordering::Relaxed);
    let mut measure = Measure::default();
    measure.add(of, 0, 1, (1, 0))?;
    let made = made(MPI_COMBINER_DUP, vec![], vec![], of);
    let copy = measure.make(made, || pieces_of(of))?;
    Ok(Datatype {
        kind: of.kind,
        set_bounds: of.set_bounds,
        is_committed: AtomicBool::new(committed),
        attributes,
        ..copy
    })
}

fn pieces_of(of: &Datatype) -> Pieces {
    let pieces: &[Piece] = &of.pieces;
    Pieces::of(pieces)
}
