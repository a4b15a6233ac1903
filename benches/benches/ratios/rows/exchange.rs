//! Blocks of memory go from rank to rank, each to where it belongs: gather, scatter, all-gather,
//! all-to-all.

use std::ops::Range;

use onchip::collectives::InPlace;
use onchip::exchange::{Exchanges, Settings};
use onchip::prelude::*;
use onchip_benches::content::{fill, is_filled, is_stamped, stamp};

use crate::party::{self, Part, Turns, beside_mpis};
use crate::plan::{Collective, Operation, Timing};
use crate::row::{Bound, Row};

const ROOT: usize = 0;
const OPERATIONS: [Operation; 4] =
    [Operation::Gather, Operation::Scatter, Operation::AllGather, Operation::AllToAll];

pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for operation in OPERATIONS {
        for (size, bytes) in [("8B", 8), ("1KB", 1 << 10), ("8KB", 8 << 10), ("64KB", 64 << 10)] {
            rows.extend(beside_mpis(
                &format!("{}.{size}", operation.name()),
                "two ranks, a block of so many bytes for each, beside the best of the MPIs",
                Collective::of(operation, bytes),
                Bound::ahead(1.0),
            ));
        }
    }
    rows
}

/// Words that one rank gives to another.
#[derive(Clone)]
struct Block {
    at: Range<usize>,
    from: usize,
    to: usize,
}

impl Block {
    /// What is on it in call `number`.
    #[inline]
    fn mark(&self, ranks: usize, number: u64) -> u64 {
        let ranks = ranks as u64;
        (number * ranks + self.from as u64) * ranks + self.to as u64
    }
}

struct Party<F> {
    ranks: usize,
    exchanges: Exchanges,
    buffer: Turns<u64>,
    /// Where blocks arrive, unless that is the same buffer.
    apart: Option<Turns<u64>>,
    gives: Vec<Block>,
    gets: Vec<Block>,
    exchange: F,
}

impl<F> Party<F>
where
    F: Fn(&mut Exchanges, &mut [u64], Option<&mut [u64]>) -> onchip::Result<()>,
{
    #[inline]
    fn write(&mut self, write: impl Fn(&mut [u64], u64)) {
        let number = self.buffer.next().1;
        if let Some(apart) = &mut self.apart {
            apart.next();
        }
        for block in &self.gives {
            let mark = block.mark(self.ranks, number);
            write(&mut self.buffer.current().0[block.at.clone()], mark);
        }
    }

    #[inline]
    fn all(&mut self, holds: impl Fn(&[u64], u64) -> bool) -> bool {
        let mut right = true;
        for block in &self.gets {
            let number = self.buffer.current().1;
            let mark = block.mark(self.ranks, number);
            let arrived = self.apart.as_mut().unwrap_or(&mut self.buffer).current().0;
            right &= holds(&arrived[block.at.clone()], mark);
        }
        right
    }
}

impl<F> Part for Party<F>
where
    F: Fn(&mut Exchanges, &mut [u64], Option<&mut [u64]>) -> onchip::Result<()>,
{
    fn whole(&mut self) -> onchip::Result<bool> {
        self.write(fill);
        self.call()?;
        Ok(self.all(is_filled))
    }

    #[inline]
    fn prepare(&mut self) {
        self.write(stamp);
    }

    #[inline]
    fn call(&mut self) -> onchip::Result<()> {
        let apart = self.apart.as_mut().map(|apart| apart.current().0);
        (self.exchange)(&mut self.exchanges, self.buffer.current().0, apart)
    }

    #[inline]
    fn right(&mut self) -> bool {
        self.all(is_stamped)
    }
}

/// The blocks of so many words one after the other, each with its place in the row.
fn row(ranks: usize, words: usize) -> impl Iterator<Item = (usize, Range<usize>)> {
    (0..ranks).map(move |place| (place, place * words..(place + 1) * words))
}

fn party<F>(
    rank: &Rank,
    plan: Collective,
    [gives, gets]: [Vec<Block>; 2],
    apart: bool,
    exchange: F,
) -> onchip::Result<Party<F>>
where
    F: Fn(&mut Exchanges, &mut [u64], Option<&mut [u64]>) -> onchip::Result<()>,
{
    let len = gives.iter().chain(&gets).map(|block| block.at.end).max().unwrap_or(plan.words());
    Ok(Party {
        ranks: rank.size(),
        exchanges: Exchanges::open(rank, "measured", Settings::default())?,
        buffer: Turns::new(len),
        apart: apart.then(|| Turns::new(len)),
        gives,
        gets,
        exchange,
    })
}

/// One rank's part, as those that follow: every rank gives its times.
#[inline(never)]
pub fn gather(rank: &Rank, plan: Collective, timing: Timing) -> onchip::Result<Vec<f64>> {
    let (me, words) = (rank.id(), plan.words());
    // The root's own is the first of all.
    let gives = vec![Block { at: 0..words, from: me, to: ROOT }];
    let all = row(rank.size(), words).map(|(from, at)| Block { at, from, to: ROOT });
    let gets = if me == ROOT { all.collect() } else { Vec::new() };
    let party = party(rank, plan, [gives, gets], false, |exchanges, buffer, _| {
        exchanges.gather(InPlace, buffer, ROOT)
    })?;
    party::perform(rank, party, plan, timing)
}

#[inline(never)]
pub fn scatter(rank: &Rank, plan: Collective, timing: Timing) -> onchip::Result<Vec<f64>> {
    let (me, words) = (rank.id(), plan.words());
    let all = row(rank.size(), words).map(|(to, at)| Block { at, from: ROOT, to });
    let gives = if me == ROOT { all.collect() } else { Vec::new() };
    let gets = vec![Block { at: 0..words, from: ROOT, to: me }];
    let party = party(rank, plan, [gives, gets], false, |exchanges, buffer, _| {
        exchanges.scatter(buffer, InPlace, ROOT)
    })?;
    party::perform(rank, party, plan, timing)
}

#[inline(never)]
pub fn all_gather(rank: &Rank, plan: Collective, timing: Timing) -> onchip::Result<Vec<f64>> {
    let block = |(from, at)| Block { at, from, to: ROOT };
    let all: Vec<Block> = row(rank.size(), plan.words()).map(block).collect();
    let own = vec![all[rank.id()].clone()];
    let party = party(rank, plan, [own, all], false, |exchanges, buffer, _| {
        exchanges.all_gather(InPlace, buffer)
    })?;
    party::perform(rank, party, plan, timing)
}

#[inline(never)]
pub fn all_to_all(rank: &Rank, plan: Collective, timing: Timing) -> onchip::Result<Vec<f64>> {
    let me = rank.id();
    let blocks = || row(rank.size(), plan.words());
    let gives = blocks().map(|(to, at)| Block { at, from: me, to }).collect();
    let gets = blocks().map(|(from, at)| Block { at, from, to: me }).collect();
    let party = party(rank, plan, [gives, gets], true, |exchanges, send, receive| match receive {
        Some(receive) => exchanges.all_to_all(send, receive),
        None => exchanges.all_to_all(InPlace, send),
    })?;
    party::perform(rank, party, plan, timing)
}
