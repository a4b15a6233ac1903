//! One row of each kind, for every change: has anything become far slower? References are the floor, and rivals that
//! are compiled in.

use onchip::critical::Scheme;

use super::{buffer, critical, delegate, hot_calls, pingpong, requests, stream, tagged};
use crate::ours::Ranks;
use crate::party;
use crate::plan::{Collective, Operation, Timing};
use crate::rivals::{rtrb, staged, sums};
use crate::row::{Bound, Row, Side, Unit};

/// How many times what is expected a row may take: other programs may run beside it.
pub const WIDTH: f64 = 2.0;

const KB: usize = 1 << 10;

/// What ours takes over what the reference takes, near and far, as measured when the row was written.
struct Expected(f64, f64);

/// The same wherever the cores are: beside what runs as ours does.
fn anywhere(ratio: f64) -> Expected {
    Expected(ratio, ratio)
}

pub fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |name: String, unit, ours: Side, reference: Side, expected: Expected| {
        let Expected(near, far) = expected;
        rows.push(Row {
            name: format!("guard.{name}"),
            what: "whether a call has become far slower",
            unit,
            ours,
            reference,
            bound: Bound::AtMost { near: WIDTH * near, far: WIDTH * far },
            by_distance: true,
        });
    };
    let mut to_floor = |name: String, ours: Side, expected: Expected| {
        add(name, Unit::Nanoseconds, ours, pingpong::floor(), expected);
    };
    let threads = Ranks::Threads;
    let collective = |plan| party::ours(threads, plan, Timing::Loop);

    to_floor("pingpong".into(), pingpong::ours(threads), Expected(1.3, 1.15));
    to_floor("tagged".into(), tagged::numbers_of_threads(), Expected(1.6, 1.3));
    to_floor("requests".into(), requests::together(threads, 64), Expected(3.5, 1.3));
    to_floor("buffer".into(), buffer::ours(threads, 1 << 20), Expected(1.8, 1.6));
    to_floor("delegate.cost".into(), delegate::cost::of_8_bytes(), Expected(0.5, 0.5));
    to_floor("delegate.until-there".into(), delegate::cost::until_there(), Expected(2.8, 2.8));
    for scheme in Scheme::ALL {
        let expected = match scheme {
            // Half of it when a client takes the lock several times in a row, which the moment decides.
            Scheme::Tas => Expected(1.2, 1.2),
            Scheme::Mcs | Scheme::HybLock | Scheme::HybComb => Expected(1.8, 1.8),
            Scheme::Clh => Expected(1.6, 1.6),
            Scheme::CcSynch | Scheme::HSynch => Expected(1.2, 1.2),
            // The servers.
            _ => Expected(1.0, 1.0),
        };
        to_floor(format!("two.{}", scheme.name()), critical::applied_by_two(scheme), expected);
    }
    for (operation, expected) in [
        (Operation::Broadcast, Expected(1.0, 1.0)),
        (Operation::Reduce, Expected(1.0, 1.0)),
        (Operation::AllReduce, Expected(2.3, 1.6)),
        (Operation::Scan, Expected(1.4, 1.0)),
        (Operation::Gather, Expected(1.9, 1.0)),
        (Operation::Scatter, Expected(1.7, 1.0)),
        (Operation::AllGather, Expected(2.5, 2.2)),
        (Operation::AllToAll, Expected(2.5, 2.4)),
    ] {
        let plan = Collective::of(operation, 8);
        to_floor(format!("{}.8B", operation.name()), collective(plan), expected);
    }
    to_floor(
        "barrier".into(),
        collective(Collective::of(Operation::Barrier, 0)),
        Expected(1.2, 1.2),
    );

    let [ours, reference] = stream::of_threads();
    add("stream".into(), Unit::Rate, ours, reference, Expected(1.0, 1.0));
    for form in hot_calls::OF_RESULTS {
        let ours = hot_calls::program("receive", form);
        add(format!("receive.{form}"), Unit::Nanoseconds, ours, rtrb::filled(), anywhere(1.5));
    }
    for (operation, expected) in [
        (Operation::Broadcast, 2.5),
        (Operation::Reduce, 1.0),
        (Operation::AllReduce, 1.0),
        (Operation::Scan, 1.5),
        (Operation::Gather, 1.0),
        (Operation::Scatter, 2.0),
        (Operation::AllGather, 2.0),
        (Operation::AllToAll, 3.0),
    ] {
        let plan = Collective::of(operation, 64 * KB);
        let reference = match operation {
            Operation::Reduce | Operation::AllReduce | Operation::Scan => sums::staged(plan),
            _ => staged::copied(plan, Timing::Loop),
        };
        let name = format!("{}.64KB", operation.name());
        add(name, Unit::Nanoseconds, collective(plan), reference, anywhere(expected));
    }
    for scheme in Scheme::ALL.into_iter().filter(|scheme| !scheme.needs_server()) {
        let ours = critical::applied_alone(scheme);
        let combines = matches!(scheme, Scheme::CcSynch | Scheme::HSynch | Scheme::HybComb);
        let expected = if combines { 3.2 } else { 2.0 };
        add(
            format!("alone.{}", scheme.name()),
            Unit::Nanoseconds,
            ours,
            critical::locked_alone(),
            anywhere(expected),
        );
    }
    rows
}
