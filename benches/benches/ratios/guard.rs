//! Whether anything has become far slower: a few rounds of each row, again where they are over the bound.

use std::io::Write as _;

use crate::measure::{Round, take};
use crate::probe::Distance;
use crate::row::{Bound, Row, Setup, Trouble, Unit};
use crate::rows::guard::WIDTH;
use crate::stats::Spread;

const ROUNDS: usize = 3;
/// A row that is over its bound after so many is slow; what other programs do passes.
const TAKES: usize = 4;

/// Takes all rows, and says of each what came of it. Returns how many failed.
pub fn run(rows: Vec<Row>, setup: &Setup) -> usize {
    println!(
        "{:<28} {:>9} {:>12} {:>9}  ratio, and the most",
        "row", "ours", "reference", "expected"
    );
    let mut failed = 0;
    for mut row in rows {
        let verdict = match judged(&mut row, setup) {
            Ok(true) => "ok".to_owned(),
            Ok(false) => "SLOW".to_owned(),
            Err(trouble) => format!("{:<28} FAILED: {trouble}", row.name),
        };
        println!(" {verdict}");
        failed += usize::from(verdict != "ok");
        // It is watched, and a reader that went away does not matter to the measurements.
        let _ = std::io::stdout().flush();
    }
    failed
}

/// Whether `row` is within its bound in one take or, together with those before it, in another.
fn judged(row: &mut Row, setup: &Setup) -> Result<bool, Trouble> {
    let mut rounds = Vec::new();
    for number in 1..=TAKES {
        let before = rounds.len();
        rounds.extend(take(row, setup, ROUNDS)?.rounds);
        // The cores may have moved in the middle of the one sample that is a side's best; then the usual round tells.
        let judged = best(row, &rounds).map(|best| match typical(&rounds[before..]) {
            Some(typical) if typical < best.ratio => Best { ratio: typical, ..best },
            _ => best,
        });
        let holds = match judged {
            Some(best) => {
                let (expected, [ours, reference]) =
                    (best.most / WIDTH, best.sides.map(|side| row.unit.show(side)));
                print!("{:<28} {ours:>9} {reference:>12} {expected:>9.2}", row.name);
                print!("  {:.2} ≤ {:.2}", best.ratio, best.most);
                best.ratio <= best.most
            }
            None => {
                print!("{:<28} no round had figures of both sides:", row.name);
                false
            }
        };
        if holds {
            return Ok(true);
        }
        if number < TAKES {
            println!(" over, taken again");
        }
    }
    Ok(false)
}

/// What was best of some rounds.
struct Best {
    sides: [f64; 2],
    ratio: f64,
    /// Of the ratio.
    most: f64,
}

/// The median of the ratios of some rounds, where the cores were as far apart as in most.
fn typical(rounds: &[Round]) -> Option<f64> {
    let (_, group) = settled(rounds);
    let ratios: Vec<f64> = group.iter().map(|round| round.ratio).collect();
    (!ratios.is_empty()).then(|| Spread::of(&ratios).median)
}

/// The rounds at the distance that most were at; those in which the cores were moved where there are no others.
fn settled(rounds: &[Round]) -> (Option<Distance>, Vec<&Round>) {
    let at = |distance| {
        (distance, rounds.iter().filter(|round| round.distance == distance).collect::<Vec<_>>())
    };
    let groups = [at(Some(Distance::Near)), at(Some(Distance::Far))];
    let most = groups.into_iter().max_by_key(|(_, group)| group.len());
    most.filter(|(_, group)| !group.is_empty()).unwrap_or_else(|| at(None))
}

/// What each side did best where the cores were as far apart as in most rounds: whatever else runs on them can only
/// add to that, and a call that has become slow is slow at its best as well.
fn best(row: &Row, rounds: &[Round]) -> Option<Best> {
    let (distance, group) = settled(rounds);
    let best_of = |side: fn(&Round) -> f64| {
        let figures = group.iter().map(|round| side(round));
        match row.unit {
            Unit::Rate => figures.reduce(f64::max),
            Unit::Nanoseconds | Unit::CorePercent | Unit::Times => figures.reduce(f64::min),
        }
    };
    let sides = [best_of(|round| round.ours)?, best_of(|round| round.reference)?];
    let ratio = row.bound.ratio(row.unit.cost(sides[0], sides[1]));
    Some(Best { sides, ratio, most: most(row.bound, distance) })
}

/// The most that a ratio may be; where nobody knows how far apart the cores were, the greater one.
fn most(bound: Bound, distance: Option<Distance>) -> f64 {
    match bound {
        Bound::AtMost { near, far } => match distance {
            Some(Distance::Near) => near,
            Some(Distance::Far) => far,
            None => near.max(far),
        },
        Bound::Ahead { .. } | Bound::Context => f64::INFINITY,
    }
}
