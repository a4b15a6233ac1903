//! Checks whether anything has become far slower: takes a few rounds of each row, and again if the row is over its
//! bound.

use std::io::Write as _;

use crate::measure::{Round, take};
use crate::probe::Distance;
use crate::row::{Bound, Row, Setup, Trouble, Unit};
use crate::rows::guard::WIDTH;
use crate::stats::Spread;

const ROUNDS: usize = 3;
/// A row fails if it is over its bound in this many takes, because the disturbances by other programs pass.
const TAKES: usize = 4;

/// Takes all rows, and prints the result of each. Returns how many failed.
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
        // The output is flushed because somebody may watch it. If that reader has gone, this does not matter to the
        // measurements.
        let _ = std::io::stdout().flush();
    }
    failed
}

/// Returns whether `row` is within its bound in one take or, together with the takes before, in a later one.
fn judged(row: &mut Row, setup: &Setup) -> Result<bool, Trouble> {
    let mut rounds = Vec::new();
    for number in 1..=TAKES {
        let before = rounds.len();
        rounds.extend(take(row, setup, ROUNDS)?.rounds);
        // The cores may have moved during the one sample that is a side's best. In that case the median round decides.
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

/// The best of some rounds.
struct Best {
    sides: [f64; 2],
    ratio: f64,
    /// The bound of the ratio.
    most: f64,
}

/// Returns the median of the ratios of some rounds, of those at the most frequent distance of the cores.
fn typical(rounds: &[Round]) -> Option<f64> {
    let (_, group) = settled(rounds);
    let ratios: Vec<f64> = group.iter().map(|round| round.ratio).collect();
    (!ratios.is_empty()).then(|| Spread::of(&ratios).median)
}

/// Returns the most frequent distance and its rounds. If there are only rounds in which the cores were moved, returns
/// those.
fn settled(rounds: &[Round]) -> (Option<Distance>, Vec<&Round>) {
    let at = |distance| {
        (distance, rounds.iter().filter(|round| round.distance == distance).collect::<Vec<_>>())
    };
    let groups = [at(Some(Distance::Near)), at(Some(Distance::Far))];
    let most = groups.into_iter().max_by_key(|(_, group)| group.len());
    most.filter(|(_, group)| !group.is_empty()).unwrap_or_else(|| at(None))
}

/// Returns the best figure of each side in the rounds at the most frequent distance. Other programs on the cores can
/// only make a figure worse, and a call that has become slow is also slow at its best.
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

/// Returns the bound of a ratio. If the distance of the cores is unknown, it is the greater bound.
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
