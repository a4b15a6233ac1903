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
        if size > 0 && (extent <= 0 || (is_written && extent < filetype.true_extent)) {
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
        // So many bytes are the most that there are before it, because no two have one place.
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
