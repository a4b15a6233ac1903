//! The broadcasts with which OC-Bcast is compared. They use two-sided messages, as in RCCE_comm (thesis, section
//! 3.3.2): a binomial tree for short messages, scatter-allgather for long ones.

use mp_core::mpb::MpbAccess;

use super::TwoSided;
use crate::sim::Misfit;

/// Broadcasts the root's message down a binomial tree: the ranks are halved, the root sends to one rank of the other
/// half, and both halves repeat this. All ranks call this with the same root and length.
///
/// # Errors
/// [`Misfit::Rank`] when there is no such root, and the errors of the MPBs.
pub async fn binomial<M: MpbAccess>(
    messages: &mut TwoSided,
    mpb: &mut M,
    message: &mut [u8],
    root: usize,
) -> Result<(), M::Error>
where
    M::Error: From<Misfit>,
{
    let ring = Ring::new(mpb, root)?;
    for step in ring.halves() {
        match step {
            Half::Send { to, .. } => messages.send(mpb, message, ring.rank(to)).await?,
            Half::Receive { from, .. } => messages.receive(mpb, message, ring.rank(from)).await?,
        }
    }
    Ok(())
}

/// Broadcasts the root's message in slices: first every rank gets one slice, down a binomial tree, then all ranks pass
/// the slices round a ring. All ranks call this with the same root and length.
///
/// # Errors
/// [`Misfit::Rank`] when there is no such root, and the errors of the MPBs.
pub async fn scatter_allgather<M: MpbAccess>(
    messages: &mut TwoSided,
    mpb: &mut M,
    message: &mut [u8],
    root: usize,
) -> Result<(), M::Error>
where
    M::Error: From<Misfit>,
{
    let ring = Ring::new(mpb, root)?;
    let Ring { ranks, position, .. } = ring;
    let (bytes, line_bytes) = (message.len(), mpb.line_bytes());
    let slice_lines = bytes.div_ceil(line_bytes).div_ceil(ranks);
    let start = |slice: usize| (slice * slice_lines).saturating_mul(line_bytes).min(bytes);
    let slices = |first: usize, end: usize| start(first)..start(end);

    for step in ring.halves() {
        match step {
            Half::Send { to, end } => {
                messages.send(mpb, &message[slices(to, end)], ring.rank(to)).await?;
            }
            Half::Receive { from, end } => {
                let part = &mut message[slices(position, end)];
                messages.receive(mpb, part, ring.rank(from)).await?;
            }
        }
    }
    let (left, right) =
        (ring.rank((position + ranks - 1) % ranks), ring.rank((position + 1) % ranks));
    for step in 0..ranks - 1 {
        let held = (position + step) % ranks;
        let next = (held + 1) % ranks;
        // A send returns only when it has been received, so neighbours must not both send first.
        if position.is_multiple_of(2) {
            messages.send(mpb, &message[slices(held, held + 1)], left).await?;
            messages.receive(mpb, &mut message[slices(next, next + 1)], right).await?;
        } else {
            messages.receive(mpb, &mut message[slices(next, next + 1)], right).await?;
            messages.send(mpb, &message[slices(held, held + 1)], left).await?;
        }
    }
    Ok(())
}

/// The ranks, counted from the root.
#[derive(Clone, Copy)]
struct Ring {
    ranks: usize,
    root: usize,
    position: usize,
}

/// A step down the binomial tree, in positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Half {
    /// Send to the first rank of the other half, which ends before `end`.
    Send { to: usize, end: usize },
    /// Receive from the first rank of the other half; the own half ends before `end`.
    Receive { from: usize, end: usize },
}

impl Ring {
    fn new<M: MpbAccess>(mpb: &M, root: usize) -> Result<Ring, Misfit> {
        let ranks = mpb.ranks();
        if root >= ranks {
            return Err(Misfit::Rank { rank: root, ranks });
        }
        Ok(Ring { ranks, root, position: (mpb.rank() + ranks - root) % ranks })
    }

    fn rank(self, position: usize) -> usize {
        (self.root + position) % self.ranks
    }

    /// Returns the steps of this rank while groups are halved: at most one receive, then sends.
    fn halves(self) -> impl Iterator<Item = Half> {
        let (mut first, mut end) = (0, self.ranks);
        std::iter::from_fn(move || {
            while end - first > 1 {
                let middle = first + (end - first).div_ceil(2);
                let (from, all) = (first, end);
                if self.position < middle {
                    end = middle;
                } else {
                    first = middle;
                }
                if self.position == from {
                    return Some(Half::Send { to: middle, end: all });
                }
                if self.position == middle {
                    return Some(Half::Receive { from, end: all });
                }
            }
            None
        })
    }
}
