//! Taking a row: the sides in turn, raw probes between all samples.

use serde::Serialize;

use crate::probe::{Distance, probe};
use crate::row::{Bound, Row, Sample, Setup, Side, Trouble};
use crate::stats::Spread;

/// Rounds are repeated where the cores moved during one, but not for ever.
const MOST_ATTEMPTS_PER_ROUND: usize = 4;
/// The first figures of a fresh program and cold caches are not those of the promise.
const WARM_UPS: usize = 1;
/// A distance seen in fewer rounds than this is shown, not judged.
const FEWEST_JUDGED: usize = 3;

/// Both sides once.
#[derive(Serialize)]
pub struct Round {
    /// Which side came first.
    pub ours_first: bool,
    pub ours: f64,
    pub ours_probes_ns: [f64; 2],
    pub reference: f64,
    pub reference_probes_ns: [f64; 2],
    /// In the sense of the row's bound.
    pub ratio: f64,
    /// `None`: dropped, unless the row does not tell distances apart.
    pub distance: Option<Distance>,
}

/// The rounds of one distance together.
#[derive(Serialize)]
pub struct Result {
    /// `None` for a row that does not tell distances apart.
    pub distance: Option<Distance>,
    pub rounds: usize,
    pub ours: Spread,
    pub reference: Spread,
    pub ratio: Spread,
    pub verdict: Verdict,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Ok,
    Missed,
    /// No bound to hold.
    Context,
    TooFewRounds,
}

/// All that came of a row.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Measured { results: Vec<Result>, dropped: usize, rounds: Vec<Round> },
    Skipped { reason: String },
    Failed { reason: String },
}

/// Takes `row` until `rounds` rounds are good at one distance.
pub fn measure(row: &mut Row, setup: &Setup, rounds: usize) -> Outcome {
    match take(row, setup, rounds) {
        Ok(taken) => judge(row, taken, rounds.min(FEWEST_JUDGED)),
        Err((side, Trouble::Absent(reason))) => Outcome::Skipped { reason: name(&side, reason) },
        Err((side, Trouble::Failed(reason))) => Outcome::Failed { reason: name(&side, reason) },
    }
}

fn name(side: &str, reason: String) -> String {
    format!("{side}: {reason}")
}

fn sample(side: &mut Side, setup: &Setup) -> std::result::Result<Sample, (String, Trouble)> {
    side.take(setup).map_err(|trouble| (side.name.clone(), trouble))
}

fn take(
    row: &mut Row,
    setup: &Setup,
    rounds: usize,
) -> std::result::Result<Vec<Round>, (String, Trouble)> {
    for _ in 0..WARM_UPS {
        // The reference first: a rival that is absent is found before any time is spent.
        sample(&mut row.reference, setup)?;
        sample(&mut row.ours, setup)?;
    }
    let mut taken: Vec<Round> = Vec::new();
    while taken.len() < rounds * MOST_ATTEMPTS_PER_ROUND && good(row, &taken) < rounds {
        let ours_first = taken.len().is_multiple_of(2);
        let (first, second) = if ours_first {
            (&mut row.ours, &mut row.reference)
        } else {
            (&mut row.reference, &mut row.ours)
        };
        let before = probe(setup.cpus);
        let first = sample(first, setup)?;
        let between = probe(setup.cpus);
        let second = sample(second, setup)?;
        let after = probe(setup.cpus);
        let first = (first.value, first.probes.unwrap_or([before, between]));
        let second = (second.value, second.probes.unwrap_or([between, after]));
        let ((ours, ours_probes_ns), (reference, reference_probes_ns)) =
            if ours_first { (first, second) } else { (second, first) };
        let distance = Distance::of(ours_probes_ns)
            .filter(|ours| Distance::of(reference_probes_ns) == Some(*ours));
        taken.push(Round {
            ours_first,
            ours,
            ours_probes_ns,
            reference,
            reference_probes_ns,
            ratio: row.bound.ratio(row.unit.cost(ours, reference)),
            distance,
        });
    }
    Ok(taken)
}

/// The rounds that count, of the distance that has most.
fn good(row: &Row, taken: &[Round]) -> usize {
    if !row.by_distance {
        return taken.len();
    }
    let at = |distance| taken.iter().filter(|round| round.distance == Some(distance)).count();
    at(Distance::Near).max(at(Distance::Far))
}

fn judge(row: &Row, rounds: Vec<Round>, fewest: usize) -> Outcome {
    let groups =
        if row.by_distance { vec![Some(Distance::Near), Some(Distance::Far)] } else { vec![None] };
    let mut results = Vec::new();
    let mut counted = 0;
    for distance in groups {
        let group: Vec<&Round> = rounds
            .iter()
            .filter(|round| distance.is_none() || round.distance == distance)
            .collect();
        if group.is_empty() {
            continue;
        }
        counted += group.len();
        let spread = |value: fn(&Round) -> f64| {
            Spread::of(&group.iter().map(|r| value(r)).collect::<Vec<_>>())
        };
        let ratio = spread(|r| r.ratio);
        let verdict = match row.bound {
            Bound::Context => Verdict::Context,
            _ if group.len() < fewest => Verdict::TooFewRounds,
            bound if bound.holds(ratio.median, distance == Some(Distance::Far)) => Verdict::Ok,
            _ => Verdict::Missed,
        };
        results.push(Result {
            distance,
            rounds: group.len(),
            ours: spread(|r| r.ours),
            reference: spread(|r| r.reference),
            ratio,
            verdict,
        });
    }
    Outcome::Measured { results, dropped: rounds.len() - counted, rounds }
}
