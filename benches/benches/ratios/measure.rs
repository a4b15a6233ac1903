//! Taking a row: its sides in turn, and raw probes between all samples.

use serde::{Deserialize, Serialize};

use crate::probe::{Distance, probe};
use crate::row::{Bound, Row, Sample, Setup, Side, Trouble};
use crate::stats::Spread;

/// Rounds are repeated if the cores moved during one, up to this limit.
const MOST_ATTEMPTS_PER_ROUND: usize = 4;
/// The first figures come from a fresh program with cold caches, which the promises are not about.
const WARM_UPS: usize = 1;
/// The results of a distance with fewer rounds than this are shown, but not judged.
const FEWEST_JUDGED: usize = 3;

/// One sample of each side.
#[derive(Serialize, Deserialize)]
pub struct Round {
    /// Whether our side came first.
    pub ours_first: bool,
    pub ours: f64,
    pub ours_probes_ns: [f64; 2],
    pub reference: f64,
    pub reference_probes_ns: [f64; 2],
    /// The ratio as the row's bound defines it.
    pub ratio: f64,
    /// With `None` the round is dropped, unless the row does not tell distances apart.
    pub distance: Option<Distance>,
}

/// The rounds of one distance together.
#[derive(Serialize, Deserialize)]
pub struct Result {
    /// `None` for a row that does not tell distances apart.
    pub distance: Option<Distance>,
    pub rounds: usize,
    pub ours: Spread,
    pub reference: Spread,
    pub ratio: Spread,
    pub verdict: Verdict,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Ok,
    Missed,
    /// The row has no bound.
    Context,
    TooFewRounds,
}

/// The result of a row.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Measured { results: Vec<Result>, dropped: usize, rounds: Vec<Round> },
    Skipped { reason: String },
    Failed { reason: String },
}

/// The rounds taken of a row.
#[derive(Default)]
pub struct Taken {
    pub rounds: Vec<Round>,
    /// Rounds in which a side had no figure, for example because the system let a client do nothing in most windows.
    without_figure: usize,
}

/// Takes `row` until `rounds` rounds are good at one distance.
pub fn measure(row: &mut Row, setup: &Setup, rounds: usize) -> Outcome {
    match take(row, setup, rounds) {
        Ok(taken) => judge(row, taken, rounds.min(FEWEST_JUDGED)),
        Err(Trouble::Absent(reason)) => Outcome::Skipped { reason },
        Err(Trouble::Failed(reason)) => Outcome::Failed { reason },
    }
}

fn sample(side: &mut Side, setup: &Setup) -> std::result::Result<Sample, Trouble> {
    side.take(setup).map_err(|trouble| {
        let named = |reason| format!("{}: {reason}", side.name);
        match trouble {
            Trouble::Absent(reason) => Trouble::Absent(named(reason)),
            Trouble::Failed(reason) => Trouble::Failed(named(reason)),
        }
    })
}

/// Takes rounds without judging them. An error names its side.
pub fn take(row: &mut Row, setup: &Setup, rounds: usize) -> std::result::Result<Taken, Trouble> {
    for _ in 0..WARM_UPS {
        // The reference comes first, so that an absent rival is found before any time is spent.
        sample(&mut row.reference, setup)?;
        sample(&mut row.ours, setup)?;
    }
    let mut taken = Taken::default();
    for attempt in 0..rounds * MOST_ATTEMPTS_PER_ROUND {
        if good(row, &taken.rounds) >= rounds {
            break;
        }
        let ours_first = attempt.is_multiple_of(2);
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
        let cost = row.unit.cost(ours, reference);
        let ratio = row.bound.ratio(cost);
        // A rate of 0 gives no finite figure either.
        if ![ours, reference, cost, ratio].into_iter().all(f64::is_finite) {
            taken.without_figure += 1;
            continue;
        }
        taken.rounds.push(Round {
            ours_first,
            ours,
            ours_probes_ns,
            reference,
            reference_probes_ns,
            ratio,
            distance: Distance::of(&[ours_probes_ns, reference_probes_ns].concat()),
        });
    }
    Ok(taken)
}

/// Returns the number of rounds that count, at the distance that has most.
fn good(row: &Row, taken: &[Round]) -> usize {
    if !row.by_distance {
        return taken.len();
    }
    let at = |distance| taken.iter().filter(|round| round.distance == Some(distance)).count();
    at(Distance::Near).max(at(Distance::Far))
}

fn judge(row: &Row, taken: Taken, fewest: usize) -> Outcome {
    let Taken { rounds, without_figure } = taken;
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
    let dropped = without_figure + rounds.len() - counted;
    Outcome::Measured { results, dropped, rounds }
}
