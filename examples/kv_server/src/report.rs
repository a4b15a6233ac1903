//! The results, as a table and as they go into files.

use example_support::table::{or_dash, table};
use example_support::{Error, Result};
use hdrhistogram::Histogram;
use onchip::critical::Scheme;
use serde::{Deserialize, Serialize};

use crate::check::{self, Verdict};
use crate::client::{Fared, latencies};
use crate::log::Counts;
use crate::plan::{Plan, Ranks, Victim, by_name};
use crate::world::{Outcome, victim_name};

/// The measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The load, in words.
    pub load: String,
    /// Cores that the program may use.
    pub cores: usize,
    /// One for each scheme.
    pub rows: Vec<Row>,
}

/// The results of the store with one scheme.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The scheme.
    #[serde(with = "by_name")]
    pub scheme: Scheme,
    /// The kind of the ranks.
    pub ranks: Ranks,
    /// The number of clients.
    pub clients: usize,
    /// Operations that were answered.
    pub operations: u64,
    /// The number of operations in a second.
    pub rate: f64,
    /// Latencies in microseconds.
    pub latency_us: Latency,
    /// Operations in a second of the client that had most, divided by those of the client that had fewest, without a
    /// killed one. `None` if a client had none.
    pub fairness: Option<f64>,
    /// The outcomes of the operations.
    pub counts: Counts,
    /// The result of comparing logs and store; `None` if no rank could read the store any more.
    pub verdict: Option<Verdict>,
    /// The effect of a rank's death.
    pub death: Option<Death>,
}

/// Percentiles of latencies in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "their names say it")]
pub struct Latency {
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p99_9: f64,
    pub max: f64,
}

/// The effect of a death on the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Death {
    /// The killed rank.
    pub victim: Victim,
    /// Its rank.
    pub rank: usize,
    /// Operations that the others had answered afterwards.
    pub afterwards: u64,
    /// The longest time that one of the others went without an answer, in milliseconds.
    pub pause_ms: f64,
    /// Whether another server took over.
    pub taken_over: bool,
    /// Whether that server found an operation cut short, and repaired the store.
    pub repaired: bool,
    /// The number of others that could not go on.
    pub stopped: usize,
    /// The reason why they could not.
    pub reason: Option<String>,
}

impl Row {
    /// Makes the row of one world.
    ///
    /// # Errors
    /// When the content of the store does not follow from the operations.
    pub fn new(plan: &Plan, outcome: &Outcome) -> Result<Self> {
        let wrong = |reason| Error::at(plan.scheme, reason);
        let clients = &outcome.clients;
        let found = clients.iter().find_map(|client| client.found.as_ref());
        let accounts: Vec<_> = clients.iter().map(|client| client.account.clone()).collect();
        let verdict = { found.map(|found| check::check(&accounts, found, plan.capacity)) }
            .transpose()
            .map_err(wrong)?;
        let killed = |client: &&Fared| {
            outcome.killed.is_some_and(|rank| rank == plan.others + client.client)
        };
        let survivors: Vec<&Fared> = clients.iter().filter(|c| !killed(c)).collect();
        let stopped = survivors.iter().filter_map(|client| client.stopped.as_ref());
        if verdict.is_none() && stopped.clone().next().is_none() {
            return Err(wrong("nobody has looked at the store".to_owned()));
        }
        let death = outcome.killed.zip(plan.kill).map(|(rank, victim)| Death {
            victim,
            rank,
            afterwards: survivors.iter().map(|client| client.afterwards).sum(),
            pause_ms: 1e3 * survivors.iter().map(|c| c.pause).fold(0.0, f64::max),
            taken_over: outcome.taken_over.is_some(),
            repaired: outcome.taken_over.is_some_and(|how| how.cut_short),
            stopped: stopped.clone().count(),
            reason: stopped.clone().next().cloned(),
        });
        let rates = survivors.iter().map(|client| client.operations as f64 / client.seconds);
        let (lowest, highest) =
            rates.fold((f64::MAX, 0.0), |(low, high), rate| (rate.min(low), rate.max(high)));
        let operations: u64 = clients.iter().map(|client| client.operations).sum();
        let seconds = clients.iter().map(|client| client.seconds).fold(0.0, f64::max);
        Ok(Self {
            scheme: plan.scheme,
            ranks: plan.ranks,
            clients: clients.len(),
            operations,
            rate: if operations == 0 { 0.0 } else { operations as f64 / seconds },
            latency_us: Latency::of(clients).map_err(wrong)?,
            fairness: Some(highest / lowest).filter(|_| lowest > 0.0),
            counts: clients.iter().fold(Counts::default(), |sum, client| sum + client.counts),
            verdict,
            death,
        })
    }

    /// Returns what is known of the store at the end, in a few words.
    fn end(&self) -> String {
        match &self.verdict {
            None => "out of reach".to_owned(),
            Some(Verdict { verified, unknown: 0, .. }) => {
                format!("{verified} keys as they must be")
            }
            Some(Verdict { verified, unknown, .. }) => {
                format!("{verified} keys, {unknown} unknown")
            }
        }
    }

    /// Returns the effect of a rank's death, in words.
    fn told(&self) -> Option<String> {
        let death = self.death.as_ref()?;
        let (rank, who) = (death.rank, victim_name(death.victim));
        let taken_over = match (death.taken_over, death.repaired) {
            (false, _) => "",
            (true, false) => "Rank 1 took over; no operation was cut short. ",
            (true, true) => {
                "Rank 1 took over in the middle of an operation, and repaired the store. "
            }
        };
        let mut text = format!("{}: rank {rank}, {who}, was killed. {taken_over}", self.scheme);
        let others = self.clients - usize::from(death.victim == Victim::Client);
        if let Some(reason) = &death.reason {
            let some = if death.stopped == others { "All" } else { "Some" };
            text += &format!("{some} of the others had to stop: {reason}. ");
        }
        if death.stopped < others {
            text += &format!(
                "The others had {} answers afterwards, and waited {:.1} ms at most.",
                death.afterwards, death.pause_ms
            );
        }
        Some(text.trim_end().to_owned())
    }
}

impl Latency {
    fn of(clients: &[Fared]) -> Result<Self, String> {
        let mut all: Histogram<u64> = latencies().map_err(|error| error.to_string())?;
        for &(nanoseconds, times) in clients.iter().flat_map(|client| &client.latencies) {
            all.saturating_record_n(nanoseconds, times);
        }
        let at = |quantile| all.value_at_quantile(quantile) as f64 / 1e3;
        let max = all.max() as f64 / 1e3;
        Ok(Self { p50: at(0.5), p90: at(0.9), p99: at(0.99), p99_9: at(0.999), max })
    }

    fn numbers(self) -> [f64; 5] {
        let Self { p50, p90, p99, p99_9, max } = self;
        [p50, p90, p99, p99_9, max]
    }
}

impl Report {
    /// Returns the rows beside each other, and the effects of deaths.
    pub fn table(&self) -> String {
        let end = "the store at the end";
        let head = ["scheme", "Mops/s", "p50 µs", "p90", "p99", "p99.9", "max", "fairness", end];
        let rows = self.rows.iter().map(|row| {
            let [p50, p90, p99, p99_9, max] = row.latency_us.numbers().map(|us| match us {
                ..100.0 => format!("{us:.2}"),
                _ => format!("{us:.0}"),
            });
            let rate = format!("{:.3}", row.rate / 1e6);
            let fairness = or_dash(row.fairness);
            [row.scheme.to_string(), rate, p50, p90, p99, p99_9, max, fairness, row.end()]
        });
        let mut text = table(head, 1..8, rows) + "\n";
        let ranks = self.rows.iter().filter(|row| row.scheme.needs_server());
        if let Some(ranks) = ranks.map(|row| row.clients + 1).max().filter(|&n| n > self.cores) {
            text += &format!(
                "\nWith a server there are {ranks} ranks on {} cores: whoever has none waits until \
                 the system gives it one.\n",
                self.cores
            );
        }
        for told in self.rows.iter().filter_map(Row::told) {
            text += &format!("\n{told}");
        }
        text.trim_end().to_owned()
    }

    /// Returns the rows as comma-separated values, with a head.
    pub fn csv(&self) -> String {
        let mut text = "scheme,ranks,clients,operations,operations_per_s,p50_us,p90_us,p99_us,\
                        p99.9_us,max_us,fairness,verified,unknown\n"
            .to_owned();
        for row in &self.rows {
            let Row { scheme, ranks, clients, operations, rate, .. } = row;
            let [p50, p90, p99, p99_9, max] = row.latency_us.numbers();
            let fairness = row.fairness.map_or(String::new(), |fairness| format!("{fairness:.3}"));
            let counted = |count: fn(Verdict) -> usize| {
                row.verdict.map_or(String::new(), |verdict| count(verdict).to_string())
            };
            let [verified, unknown] = [counted(|v| v.verified), counted(|v| v.unknown)];
            text += &format!(
                "{scheme},{ranks},{clients},{operations},{rate:.0},{p50},{p90},{p99},{p99_9},\
                 {max},{fairness},{verified},{unknown}\n"
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{Account, Found};
    use crate::cli::tests::plan;
    use crate::server::TakenOver;

    fn fared(client: usize, operations: u64) -> Fared {
        Fared {
            client,
            operations,
            afterwards: 10,
            seconds: 2.0,
            latencies: vec![(1000, 98), (10_000, 2)],
            account: Account { sums: vec![0; 5], ..Account::default() },
            found: (client == 0).then(|| Found { stamps: vec![0; 5], ..Found::default() }),
            ..Fared::default()
        }
    }

    #[test]
    fn a_row_sums_up() {
        let clients = vec![fared(0, 300), fared(1, 100)];
        let outcome = Outcome { clients, ..Outcome::default() };
        let row = Row::new(&plan(), &outcome).unwrap();
        assert_eq!((row.operations, row.rate, row.fairness), (400, 200.0, Some(3.0)));
        let near = |is: f64, wanted: f64| (is / wanted - 1.0).abs() < 0.01;
        let Latency { p50, p99, max, .. } = row.latency_us;
        assert!(near(p50, 1.0) && near(p99, 10.0) && near(max, 10.0), "{row:?}");
        assert_eq!(row.verdict, Some(Verdict { verified: 5, unknown: 0, entries: 0 }));
        let report = Report { load: String::new(), cores: 2, rows: vec![row] };
        assert!(report.table().contains(" 3.00 | 5 keys as they must be"), "{}", report.table());
        let csv = report.csv();
        assert!(csv.lines().all(|line| line.split(',').count() == 13), "{csv}");
        assert!(csv.lines().nth(1).unwrap().starts_with("mcs,processes,2,400,200,1"), "{csv}");
    }

    #[test]
    fn a_wrong_store_is_an_error() {
        let mut clients = vec![fared(0, 300), fared(1, 100)];
        clients[1].account.sums[2] = 7;
        let outcome = Outcome { clients, ..Outcome::default() };
        let error = Row::new(&plan(), &outcome).unwrap_err();
        assert!(error.to_string().starts_with("mcs: b\"key:00000002\" is not"), "{error}");
        let outcome = Outcome { clients: vec![fared(1, 1)], ..Outcome::default() };
        assert!(Row::new(&plan(), &outcome).is_err(), "nobody has looked");
    }

    #[test]
    fn deaths_are_told() {
        let plan = Plan { scheme: Scheme::SlotServer, kill: Some(Victim::Server), ..plan() };
        let outcome = Outcome {
            clients: vec![fared(0, 1), fared(1, 1)],
            taken_over: Some(TakenOver { cut_short: true }),
            killed: Some(0),
        };
        let told = Row::new(&Plan { others: 2, ..plan.clone() }, &outcome).unwrap().told().unwrap();
        assert!(told.contains("took over in the middle of an operation, and repaired"), "{told}");
        assert!(told.contains("had 20 answers afterwards"), "{told}");

        let plan = Plan { kill: Some(Victim::Client), others: 0, ..plan };
        let mut outcome = Outcome { taken_over: None, killed: Some(1), ..outcome };
        outcome.clients[0].found = None;
        outcome.clients[0].stopped = Some("nothing goes".to_owned());
        let row = Row::new(&plan, &outcome).unwrap();
        // The victim's operations do not count.
        assert_eq!((row.fairness, row.end()), (Some(1.0), "out of reach".to_owned()));
        assert!(row.told().unwrap().contains("All of the others had to stop: nothing goes."));
    }
}
