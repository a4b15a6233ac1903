//! Whether anything has become far slower: a few rounds of each row, again where they are over the bound.

use std::io::Write as _;

use crate::measure::{Round, take};
use crate::probe::Distance;
use crate::row::{Bound, Row, Setup, Trouble};
use crate::rows::guard::WIDTH;
use crate::stats::median;

const ROUNDS: usize = 3;
/// A row that is over its bound every time is slow; what other programs do passes.
const TAKES: usize = 4;

/// Takes all rows, and says of each what came of it. Returns how many failed.
pub fn run(rows: Vec<Row>, setup: &Setup) -> usize {
    println!(
        "{:<28} {:>9} {:>12} {:>9}  ratio, and the most",
        "row", "ours", "reference", "expected"
    );
    let mut failed = 0;
    for mut row in rows {
        for number in 1..=TAKES {
            let verdict = match judged(&mut row, setup) {
                Ok(true) => "ok",
                Ok(false) if number < TAKES => "over, taken again",
                Ok(false) => "SLOW",
                Err(trouble) => {
                    println!("{:<28} FAILED: {trouble}", row.name);
                    failed += 1;
                    break;
                }
            };
            println!(" {verdict}");
            // It is watched, and a reader that went away does not matter to the measurements.
            let _ = std::io::stdout().flush();
            failed += usize::from(verdict == "SLOW");
            if verdict == "ok" {
                break;
            }
        }
    }
    failed
}

/// Whether `row` is within its bound, in the median of some rounds.
fn judged(row: &mut Row, setup: &Setup) -> Result<bool, Trouble> {
    let mut rounds = take(row, setup, ROUNDS)?.rounds;
    // Those in which the cores were moved count where there are no others.
    if rounds.iter().any(|round| round.distance.is_some()) {
        rounds.retain(|round| round.distance.is_some());
    }
    if rounds.is_empty() {
        print!("{:<28} no round had figures of both sides:", row.name);
        return Ok(false);
    }
    let of = |value: &dyn Fn(&Round) -> f64| median(&rounds.iter().map(value).collect::<Vec<_>>());
    let [ratio, most] = [of(&|round| round.ratio), of(&|round| most(row.bound, round.distance))];
    let [ours, reference] =
        [of(&|round| round.ours), of(&|round| round.reference)].map(|value| row.unit.show(value));
    let expected = most / WIDTH;
    print!("{:<28} {ours:>9} {reference:>12} {expected:>9.2}  {ratio:.2} ≤ {most:.2}", row.name);
    Ok(of(&|round| round.ratio / self::most(row.bound, round.distance)) <= 1.0)
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
