//! The vectors of all ranks become one: their sum, of doubles.

use onchip::prelude::*;
use onchip::reduce::{Reductions, Settings, Sum};
use onchip_benches::content::{is_stamped, stamp};

use crate::party::{self, BOTH, Part, Turns, beside_mpis};
use crate::plan::{Collective, Operation, Timing};
use crate::rivals::sums::{self, given, sum};
use crate::row::{Bound, Row, Unit};
use crate::rows::pingpong;

const ROOT: usize = 0;
const KB: usize = 1 << 10;
const MB: usize = 1 << 20;

pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    let small = Collective::of(Operation::AllReduce, 8);
    rows.extend(BOTH.map(|ranks| Row {
        name: format!("all-reduce.floor.{}", ranks.name()),
        what: "the sum of two numbers for both ranks, last in to last out, beside the raw cache line",
        unit: Unit::Nanoseconds,
        ours: party::ours(ranks, small, Timing::Last),
        reference: pingpong::floor(),
        bound: Bound::at_most(1.2),
        by_distance: true,
    }));
    for operation in [Operation::Reduce, Operation::AllReduce] {
        let plan = Collective::of(operation, MB);
        rows.extend(BOTH.map(|ranks| Row {
            name: format!("{}.raw.1MB.{}", operation.name(), ranks.name()),
            what: "the sum of two vectors, back to back, beside threads that copy and add what the other \
                   one needs",
            unit: Unit::Nanoseconds,
            ours: party::ours(ranks, plan, Timing::Loop),
            reference: sums::staged(plan),
            bound: Bound::ahead(0.85),
            by_distance: true,
        }));
        rows.extend(BOTH.map(|ranks| Row {
            name: format!("{}.reach.1MB.{}", operation.name(), ranks.name()),
            what: "the sum of two vectors, back to back, beside two threads that add each other's memory: \
                   shown, and no aim for ranks that cannot reach it",
            unit: Unit::Nanoseconds,
            ours: party::ours(ranks, plan, Timing::Loop),
            reference: sums::added(plan),
            bound: Bound::ahead(0.0),
            by_distance: true,
        }));
    }
    rows.extend(beside_mpis(
        "all-reduce.8B",
        "the sum of two numbers for both ranks, beside the best of the MPIs",
        small,
        Bound::Ahead { near: 1.8, far: 1.1 },
    ));
    for operation in [Operation::Reduce, Operation::AllReduce] {
        for (name, bytes, ahead) in [("4KB", 4 * KB, 1.3), ("1MB", MB, 1.2), ("8MB", 8 * MB, 1.2)] {
            rows.extend(beside_mpis(
                &format!("{}.{name}", operation.name()),
                "the sum of two vectors, beside the best of the MPIs",
                Collective::of(operation, bytes),
                Bound::ahead(ahead),
            ));
        }
    }
    for (name, bytes) in [("8B", 8), ("1KB", KB), ("8KB", 8 * KB), ("64KB", 64 * KB)] {
        rows.extend(beside_mpis(
            &format!("scan.{name}"),
            "for each of two ranks the sum up to it, beside the best of the MPIs",
            Collective::of(Operation::Scan, bytes),
            Bound::ahead(1.0),
        ));
    }
    rows
}

struct Party<F> {
    rank: usize,
    /// So many ranks are in this one's result; none where it has none.
    of: Option<usize>,
    reductions: Reductions,
    turns: Turns<f64>,
    reduce: F,
}

impl<F: Fn(&mut Reductions, &mut [f64]) -> onchip::Result<()>> Part for Party<F> {
    fn whole(&mut self) -> onchip::Result<bool> {
        let (vector, number) = self.turns.next();
        for (element, i) in vector.iter_mut().zip(0..) {
            *element = given(self.rank, number * i);
        }
        (self.reduce)(&mut self.reductions, vector)?;
        let right = self.of.is_none_or(|ranks| {
            vector.iter().zip(0..).all(|(element, i)| *element == sum(ranks, number * i))
        });
        // Sums of sums would end in infinity. Between stamps there is nothing.
        vector.fill(0.0);
        Ok(right)
    }

    #[inline]
    fn prepare(&mut self) {
        let (vector, number) = self.turns.next();
        stamp(vector, given(self.rank, number));
    }

    #[inline]
    fn call(&mut self) -> onchip::Result<()> {
        (self.reduce)(&mut self.reductions, self.turns.current().0)
    }

    #[inline]
    fn right(&mut self) -> bool {
        let (vector, number) = self.turns.current();
        self.of.is_none_or(|ranks| is_stamped(vector, sum(ranks, number)))
    }
}

fn party<F>(rank: &Rank, plan: Collective, of: Option<usize>, reduce: F) -> onchip::Result<Party<F>>
where
    F: Fn(&mut Reductions, &mut [f64]) -> onchip::Result<()>,
{
    let reductions = Reductions::open(rank, "measured", Settings::default())?;
    Ok(Party { rank: rank.id(), of, reductions, turns: Turns::new(plan.words()), reduce })
}

/// One rank's part, as those that follow: every rank gives its times.
#[inline(never)]
pub fn reduce(rank: &Rank, plan: Collective, timing: Timing) -> onchip::Result<Vec<f64>> {
    let of = (rank.id() == ROOT).then_some(rank.size());
    let party = party(rank, plan, of, |reductions, vector| reductions.reduce(vector, Sum, ROOT))?;
    party::perform(rank, party, plan, timing)
}

#[inline(never)]
pub fn all_reduce(rank: &Rank, plan: Collective, timing: Timing) -> onchip::Result<Vec<f64>> {
    let of = Some(rank.size());
    let party = party(rank, plan, of, |reductions, vector| reductions.all_reduce(vector, Sum))?;
    party::perform(rank, party, plan, timing)
}

#[inline(never)]
pub fn scan(rank: &Rank, plan: Collective, timing: Timing) -> onchip::Result<Vec<f64>> {
    let of = Some(rank.id() + 1);
    let party = party(rank, plan, of, |reductions, vector| reductions.scan(vector, Sum))?;
    party::perform(rank, party, plan, timing)
}
