//! Where the data of a type lies: pieces of memory, in the order in which they are sent.

use std::borrow::Cow;

/// Runs of `length` bytes, `count` of them, `stride` bytes from each to the next. The first begins `offset` bytes after
/// the address of the element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub offset: i64,
    pub length: i64,
    pub count: i64,
    pub stride: i64,
}

impl Piece {
    pub const fn run(offset: i64, length: i64) -> Self {
        Self { offset, length, count: 1, stride: 0 }
    }

    fn end(&self) -> i64 {
        self.offset + self.length
    }

    fn shifted(self, by: i64) -> Self {
        Self { offset: self.offset + by, ..self }
    }

    /// Returns the offsets of the first byte and after the last one.
    fn bounds(&self) -> (i64, i64) {
        let last = self.offset + (self.count - 1) * self.stride;
        (self.offset.min(last), self.offset.max(last) + self.length)
    }
}

/// The pieces of one element. Neighbouring runs are one run, and runs at equal distances are one piece.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pieces(Vec<Piece>);

impl Pieces {
    pub fn of(pieces: &[Piece]) -> Self {
        Self(pieces.to_vec())
    }

    pub fn into_cow(self) -> Cow<'static, [Piece]> {
        let mut all = Self::default();
        self.0.into_iter().for_each(|piece| all.push_strided(piece));
        all.0.shrink_to_fit();
        all.0.into()
    }

    /// Returns the offsets of the first byte and after the last one.
    pub fn bounds(pieces: &[Piece]) -> Option<(i64, i64)> {
        pieces
            .iter()
            .map(Piece::bounds)
            .reduce(|(lower, upper), (low, up)| (lower.min(low), upper.max(up)))
    }

    /// Appends a piece, in one run with the last one if they are neighbours.
    fn push(&mut self, mut piece: Piece) {
        if piece.count > 1 && piece.stride == piece.length {
            piece = Piece::run(piece.offset, piece.length * piece.count);
        }
        match self.0.last_mut() {
            Some(last) if last.count == 1 && piece.count == 1 && last.end() == piece.offset => {
                last.length += piece.length;
            }
            _ => self.0.push(piece),
        }
    }

    /// Appends a run to the piece before it if they have the same length and distance.
    fn push_strided(&mut self, piece: Piece) {
        if let Some(last) = self.0.last_mut()
            && last.length == piece.length
        {
            let distance = piece.offset - (last.offset + (last.count - 1) * last.stride);
            let strides = [*last, piece].map(|one| (one.count > 1).then_some(one.stride));
            if strides.iter().flatten().all(|&stride| stride == distance) {
                last.stride = distance;
                last.count += piece.count;
                return;
            }
        }
        self.0.push(piece);
    }

    /// Appends `count` copies of an element, `stride` bytes from each to the next, the first one at `offset`.
    pub fn place(&mut self, element: &[Piece], offset: i64, count: i64, stride: i64) {
        if count <= 0 {
            return;
        }
        if let &[only] = element {
            let repeated = match only {
                _ if count == 1 => Some(only),
                Piece { count: 1, .. } => Some(Piece { count, stride, ..only }),
                _ if only.stride * only.count == stride => {
                    Some(Piece { count: only.count * count, ..only })
                }
                _ => None,
            };
            if let Some(piece) = repeated {
                return self.push(piece.shifted(offset));
            }
        }
        for copy in 0..count {
            for piece in element {
                self.push(piece.shifted(offset + copy * stride));
            }
        }
    }

    pub fn as_slice(&self) -> &[Piece] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(element: &[Piece], offset: i64, count: i64, stride: i64) -> Vec<Piece> {
        let mut all = Pieces::default();
        all.place(element, offset, count, stride);
        all.into_cow().into_owned()
    }

    #[test]
    fn neighbours_are_one_run() {
        assert_eq!(placed(&[Piece::run(0, 8)], 16, 5, 8), [Piece::run(16, 40)]);
    }

    #[test]
    fn runs_at_equal_distances_are_one_piece() {
        let row = placed(&[Piece::run(0, 8)], 0, 4, 24);
        assert_eq!(row, [Piece { offset: 0, length: 8, count: 4, stride: 24 }]);
        assert_eq!(placed(&row, 0, 3, 96), [Piece { count: 12, ..row[0] }]);
        assert_eq!(placed(&row, 0, 3, 200).len(), 3);
        let pair = [Piece::run(0, 4), Piece::run(8, 4)];
        let expected = Piece { offset: 0, length: 4, count: 6, stride: 8 };
        assert_eq!(placed(&pair, 0, 3, 16), [expected]);
    }

    #[test]
    fn bounds_of_backward_strides() {
        let piece = Piece { offset: 100, length: 8, count: 3, stride: -20 };
        assert_eq!(Pieces::bounds(&[piece, Piece::run(0, 1)]), Some((0, 108)));
        assert_eq!(Pieces::bounds(&[]), None);
    }
}
