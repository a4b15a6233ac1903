//! The order in which a rank turns to the others.

/// Returns all ranks but this one, beginning with the next one, so that the ranks do not all turn to the same one
/// first.
#[inline]
pub(crate) fn after(me: usize, ranks: usize) -> impl Iterator<Item = usize> {
    (1..ranks).map(move |far| if far < ranks - me { me + far } else { me + far - ranks })
}

/// Returns the same ranks in reverse: in the order in which they turn to this rank.
#[inline]
pub(crate) fn before(me: usize, ranks: usize) -> impl Iterator<Item = usize> {
    (1..ranks).map(move |far| if far <= me { me - far } else { me + ranks - far })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_orders() {
        assert_eq!(after(1, 4).collect::<Vec<_>>(), [2, 3, 0]);
        assert_eq!(before(1, 4).collect::<Vec<_>>(), [0, 3, 2]);
        assert_eq!((after(0, 1).count(), before(0, 1).count()), (0, 0));
        for ranks in 1..6 {
            for me in 0..ranks {
                let mut back: Vec<_> = before(me, ranks).collect();
                back.reverse();
                assert_eq!(after(me, ranks).collect::<Vec<_>>(), back);
                assert!(!back.contains(&me));
            }
        }
    }
}
