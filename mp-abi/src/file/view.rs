//! The part of a file that a rank sees, and where its data lies.

use super::representation::Representation;
use crate::{
    datatype::{Datatype, Piece, TypeRef},
    error::{Class, Error},
};

type Result<T> = std::result::Result<T, Error>;

/// A view: from `displacement` on, copies of the file's type follow each other. What lies in their gaps is not seen.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub displacement: i64,
    pub etype: TypeRef,
    pub filetype: TypeRef,
    pub representation: Representation,
    /// The bytes in the file of an element of `etype`, which positions are counted in.
    pub unit: i64,
    tile: Tile,
}

/// The data of one copy of the file's type.
#[derive(Clone, Debug)]
struct Tile {
    /// The pieces, each with the number of bytes before it.
    pieces: Vec<(i64, Piece)>,
    size: i64,
    extent: i64,
}

/// Bytes that follow each other in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub offset: u64,
    pub length: usize,
}

impl Run {
    pub fn end(self) -> u64 {
        self.offset + self.length as u64
    }
}

#[cold]
fn bad_type(text: &str) -> Error {
    Error::new(Class::Io, format!("the type of the file {text}"))
}

impl Tile {
    fn dense(size: i64) -> Self {
        Self { pieces: vec![(0, Piece::run(0, size))], size, extent: size }
    }

    fn of(filetype: &Datatype, is_written: bool) -> Result<Self> {
        let (size, extent) = (filetype.size, filetype.extent);
        let (mut pieces, mut before, mut end) = (Vec::new(), 0, 0);
        for &piece in filetype.pieces().iter().filter(|piece| piece.length * piece.count > 0) {
            let Piece { offset, length, count, stride } = piece;
            let is_backwards = offset < end || (count > 1 && stride < length);
            if offset < 0 || (is_written && is_backwards) || (count > 1 && stride < 0) {
                return Err(bad_type("has data that does not come in ascending order"));
            }
            pieces.push((before, piece));
            before += length * count;
            end = if is_written { offset + (count - 1) * stride + length } else { offset };
        }
        let longest = pieces.iter().map(|(_, piece)| piece.length).max().unwrap_or(0);
        if size > 0 && (extent <= 0 || (is_written && extent < longest)) {
            return Err(bad_type("overlaps its next copy"));
        }
        Ok(Self { pieces, size, extent })
    }
}

impl View {
    /// Makes a view. If the file may be written to, no data may overlap.
    pub fn new(
        displacement: i64,
        [etype, filetype]: [TypeRef; 2],
        representation: Representation,
        is_written: bool,
    ) -> Result<Self> {
        if displacement < 0 {
            let text = format!("the displacement is negative: {displacement}");
            return Err(Error::new(Class::Disp, text));
        }
        if etype.size == 0 {
            return Err(Error::new(Class::Type, "the elementary type has no data"));
        }
        if filetype.size % etype.size != 0 {
            return Err(bad_type("does not consist of elements of the elementary type"));
        }
        let (unit, size) = (representation.size(&etype)?, representation.size(&filetype)?);
        let tile = match filetype.is_dense() && filetype.true_lower == 0 {
            true => Tile::dense(size),
            false if size == filetype.size => Tile::of(&filetype, is_written)?,
            false => {
                let text = "gaps between numbers that are wider or narrower in the file";
                return Err(Error::new(Class::UnsupportedDatarep, text));
            }
        };
        Ok(Self { displacement, etype, filetype, representation, unit, tile })
    }

    /// Returns the place in the file of a byte that is seen, and how many bytes of its run there are from there on.
    fn place(&self, byte: i64) -> Option<(i64, i64)> {
        let Tile { pieces, size, extent } = &self.tile;
        let copy = byte.checked_div(*size)?;
        let rest = byte % size;
        let (before, piece) = pieces[pieces.partition_point(|&(before, _)| before <= rest) - 1];
        let (run, within) = ((rest - before) / piece.length, (rest - before) % piece.length);
        let offset = copy
            .checked_mul(*extent)?
            .checked_add(self.displacement)?
            .checked_add(piece.offset + run * piece.stride + within)?;
        let length = match pieces[..] {
            // The copies follow each other without gaps.
            [(_, Piece { count: 1, .. })] if size == extent => i64::MAX,
            _ => piece.length - within,
        };
        Some((offset, length))
    }

    /// Returns the place in the file of a position, which may be after everything.
    pub fn offset(&self, position: i64) -> Result<i64> {
        if self.tile.size == 0 {
            return Ok(self.displacement);
        }
        let place = position.checked_mul(self.unit).and_then(|byte| self.place(byte));
        place.map(|(offset, _)| offset).ok_or_else(|| too_far(position))
    }

    /// Returns the first position that is not before this place in the file.
    pub fn position(&self, offset: i64) -> i64 {
        // A view has at most one byte of data at each place, so the position is at most this distance.
        let (mut low, mut high) = (0, (offset - self.displacement).max(0));
        while low < high {
            let middle = low + (high - low) / 2;
            match self.place(middle) {
                Some((place, _)) if place < offset => low = middle + 1,
                _ => high = middle,
            }
        }
        if self.tile.size == 0 { 0 } else { (low + self.unit - 1) / self.unit }
    }

    /// Returns the runs of this many bytes from a position on, in the order of the data.
    pub fn runs(&self, position: i64, bytes: usize) -> Result<Runs<'_>> {
        let first = position.checked_mul(self.unit).ok_or_else(|| too_far(position))?;
        let bytes = i64::try_from(bytes).map_err(|_| too_far(position))?;
        let end = first.checked_add(bytes).ok_or_else(|| too_far(position))?;
        if bytes > 0 {
            if self.tile.size == 0 {
                return Err(Error::new(Class::Io, "the view of the file has no data"));
            }
            let (last, _) = self.place(end - 1).ok_or_else(|| too_far(position))?;
            last.checked_add(1).ok_or_else(|| too_far(position))?;
        }
        Ok(Runs { view: self, next: first, end })
    }
}

#[cold]
fn too_far(position: i64) -> Error {
    Error::new(Class::Arg, format!("the data at position {position} is beyond the largest file"))
}

/// See [`View::runs`].
pub(crate) struct Runs<'a> {
    view: &'a View,
    next: i64,
    end: i64,
}

impl Runs<'_> {
    /// Returns the first byte in the file and the one after the last, or `None` if there are none.
    pub fn span(&self) -> Option<(i64, i64)> {
        let last = (self.next < self.end).then(|| self.view.place(self.end - 1)).flatten()?;
        Some((self.view.place(self.next)?.0, last.0 + 1))
    }
}

impl Iterator for Runs<'_> {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        let mut run: Option<Run> = None;
        while self.next < self.end {
            // That there are such places was checked for the last one.
            let (offset, length) = self.view.place(self.next)?;
            let (offset, length) = (offset as u64, length.min(self.end - self.next));
            match &mut run {
                None => run = Some(Run { offset, length: length as usize }),
                Some(run) if run.end() == offset => run.length += length as usize,
                Some(_) => break,
            }
            self.next += length;
        }
        run
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::{constants::MPI_BYTE, datatype::constructors};

    proptest! {
        #[test]
        fn runs_have_all_bytes_in_their_order(
            blocks in prop::collection::vec((0i64..5, 1i64..6), 1..5),
            more in 0i64..7,
            (displacement, unit, first, length) in (0i64..9, 1i64..3, 0i64..40, 0usize..60),
        ) {
            // Gaps and blocks by turns. Each block has some elements.
            let mut end = 0;
            let (mut offsets, mut lengths) = (Vec::new(), Vec::new());
            for (gap, block) in blocks {
                offsets.push(end + gap);
                lengths.push(block * unit);
                end += gap + block * unit;
            }
            // SAFETY: the handle is predefined.
            let byte = unsafe { TypeRef::keep(MPI_BYTE).unwrap() };
            let made = |datatype: Result<Datatype>| TypeRef::Made(Arc::new(datatype.unwrap()));
            let etype = made(constructors::contiguous(unit, &byte));
            let blocks = made(constructors::hindexed(&lengths, &offsets, &byte));
            let filetype = made(constructors::resized(&blocks, 0, end + more));
            let view =
                View::new(displacement, [etype, filetype], Representation::NATIVE, true).unwrap();

            let of_copy = offsets.iter().zip(&lengths).flat_map(|(&at, &bytes)| at..at + bytes);
            let all: Vec<_> = (0..200)
                .flat_map(|copy| of_copy.clone().map(move |at| displacement + copy * (end + more) + at))
                .collect();
            let (from, runs) = ((first * unit) as usize, view.runs(first, length).unwrap());
            let span = (length > 0).then(|| (all[from], all[from + length - 1] + 1));
            prop_assert_eq!(runs.span(), span);
            let runs: Vec<_> = runs.collect();
            let got = runs.iter().flat_map(|run| run.offset..run.end()).map(|at| at as i64);
            prop_assert!(got.eq(all[from..from + length].iter().copied()));
            prop_assert!(runs.windows(2).all(|two| two[0].end() < two[1].offset));
            prop_assert_eq!(view.offset(first).unwrap(), all[from]);
            for offset in [0, displacement, all[from], all[from] + 1, end] {
                let before = all.iter().filter(|&&at| at < offset).count() as i64;
                prop_assert_eq!(view.position(offset), (before + unit - 1) / unit);
            }
        }
    }

    #[test]
    fn what_is_beyond_the_largest_file_is_refused() {
        // SAFETY: the handle is predefined.
        let byte = unsafe { TypeRef::keep(MPI_BYTE).unwrap() };
        let view = View::new(5, [byte.clone(), byte], Representation::NATIVE, true).unwrap();
        let last = i64::MAX - 6;
        assert_eq!(view.offset(last).unwrap(), i64::MAX - 1);
        assert!(view.runs(last, 1).is_ok() && view.runs(last, 2).is_err());
        assert!(view.offset(last + 2).is_err() && view.runs(i64::MAX, 1).is_err());
        assert!(view.runs(0, usize::MAX).is_err());
    }
}
