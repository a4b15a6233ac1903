//! The command line.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use clap::builder::PossibleValue;
use example_support::files::ResultFile;
use example_support::options::{OneOrAll, cores, number, one_or_all};
use example_support::{Error, Result};
use onchip::critical::Scheme;

use crate::data::{LONGEST, SHORTEST};
use crate::mix::{Distribution, Mix};
use crate::plan::{Limit, Pause, Plan, Ranks, Victim};
use crate::report::{Report, Row};
use crate::world;

/// A key-value store in a critical section, under load: who executes the operations, how many a
/// second, how long each takes, and whether all clients get their share.
///
/// Without options it takes every scheme in turn, with clients that are processes, and checks at
/// the end of each that the store is what all operations together have made of it.
#[derive(Clone, Debug, Parser)]
#[command(name = "kv_server", version)]
pub struct Options {
    /// Who executes operations: one scheme or several, like mcs,slot-server [default: all]
    #[arg(short, long, value_name = "SCHEME", value_delimiter = ',',
          value_parser = one_or_all(schemes(), "All of them"))]
    pub scheme: Vec<OneOrAll<Scheme>>,

    /// What clients and servers are [default: processes]
    #[arg(short, long, value_enum)]
    pub ranks: Option<Ranks>,

    /// How many clients, beside the rank that serves if one does [default: one a core but one, at
    /// least 2, or 3 when one is killed; under mprun, all ranks that are left]
    #[arg(short, long, value_name = "N", value_parser = number::<1, 500>)]
    pub clients: Option<usize>,

    /// How long each scheme is under load
    #[arg(long, value_name = "S", default_value = "0.4", value_parser = seconds)]
    pub seconds: Duration,

    /// Instead, how many operations each client asks for
    #[arg(short, long, value_name = "N", conflicts_with = "seconds",
          value_parser = number::<1, 1_000_000_000>)]
    pub operations: Option<usize>,

    /// How many keys clients use
    #[arg(short, long, value_name = "N", default_value_t = 10_000,
          value_parser = number::<1, 1_000_000>)]
    pub keys: usize,

    /// How many of them the store has room for [default: a quarter more than there are]
    #[arg(long, value_name = "N", value_parser = number::<1, 10_000_000>)]
    pub capacity: Option<usize>,

    /// Bytes of a value
    #[arg(short, long, value_name = "N", default_value_t = 15,
          value_parser = number::<SHORTEST, LONGEST>)]
    pub value_bytes: usize,

    /// Of 100 operations, how many get a value; half of the others put one, a quarter remove, a
    /// quarter compare and swap [default: 80]
    #[arg(long, value_name = "N", conflicts_with = "mix", value_parser = number::<0, 100>)]
    pub read_percent: Option<usize>,

    /// How often to get, put, remove, and compare and swap, in proportion
    #[arg(long, value_name = "G,P,R,C")]
    pub mix: Option<Mix>,

    /// How often which key is chosen
    #[arg(short, long, value_enum, default_value = "zipf")]
    pub distribution: Distribution,

    /// Operations that each client has in flight, where a server executes them
    #[arg(short, long, value_name = "N", default_value_t = 8, value_parser = number::<1, 1024>)]
    pub in_flight: usize,

    /// Operations that a combiner executes before it hands over
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = number::<1, 1_000_000>)]
    pub max_ops: usize,

    /// How long clients of the slot server look away: none, tuned, or a number of pauses
    #[arg(long, value_name = "HOW", default_value = "none", value_parser = pause)]
    pub backoff: Pause,

    /// Kill one after half of the time, to see how the others fare (processes only)
    #[arg(long, value_enum, value_name = "WHO")]
    pub kill: Option<Victim>,

    /// Where random numbers begin
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Write the results as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Print the results as comma-separated values instead of a table
    #[arg(long)]
    pub csv: bool,

    /// A rank's part, for a rank that is a process.
    #[arg(long = "plan-of-rank", hide = true)]
    pub part: Option<String>,
}

fn schemes() -> impl Iterator<Item = (PossibleValue, Scheme)> {
    let named = |scheme: Scheme| (PossibleValue::new(scheme.name()).help(about(scheme)), scheme);
    Scheme::ALL.into_iter().map(named)
}

fn about(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::Tas => "A test-and-set lock",
        Scheme::Mcs => "The queue lock of Mellor-Crummey and Scott",
        Scheme::Clh => "The queue lock of Craig, Landin and Hagersten",
        Scheme::HybLock => "A queue lock that is handed over by messages",
        Scheme::CcSynch => "One client executes the operations of those who wait",
        Scheme::HSynch => "The same for each memory of the machine",
        Scheme::HybComb => "One client executes operations that come as messages",
        Scheme::SlotServer => "A server that looks at lines of shared memory",
        Scheme::MpServer(_) => "A server at the other end of channels",
        _ => "",
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(number) if (0.01..=3600.0).contains(&number) => Ok(Duration::from_secs_f64(number)),
        _ => Err("not a number of seconds from 0.01 to 3600".to_owned()),
    }
}

fn pause(text: &str) -> Result<Pause, String> {
    match (text, text.parse()) {
        ("none", _) => Ok(Pause::None),
        ("tuned", _) => Ok(Pause::Tuned),
        (_, Ok(pauses @ 1..=1_000_000)) => Ok(Pause::Fixed(pauses)),
        _ => Err("not none, tuned, or a number from 1 to 1000000".to_owned()),
    }
}

impl Options {
    /// Does what the options ask for.
    ///
    /// # Errors
    /// Options that do not go together, and whatever keeps the store from being right.
    pub fn run(&self) -> Result<()> {
        if let Some(plan) = &self.part {
            let plan: Plan =
                serde_json::from_str(plan).map_err(|error| Error::at(world::PLAN, error))?;
            return world::run(&plan).map(drop);
        }
        let plans = self.plans(onchip::launched())?;
        let json = ResultFile::create(&self.json)?;
        let mut rows = Vec::new();
        for mut plan in plans {
            let reports = { plan.kill.map(|_| tempfile::tempdir()) }
                .transpose()
                .map_err(|error| Error::at(std::env::temp_dir().display(), error))?;
            plan.reports = reports.as_ref().map(|folder| folder.path().to_owned());
            rows.push(Row::new(&plan, &world::run(&plan)?)?);
        }
        if !onchip::caller() {
            return Ok(());
        }
        let report = Report { load: self.load(&rows), cores: cores(), rows };
        let text = match self.csv {
            true => report.csv(),
            false => format!("{}\n\n{}\n", report.load, report.table()),
        };
        io::stdout()
            .write_all(text.as_bytes())
            .map_err(|error| Error::at("standard output", error))?;
        json.write_json(&report)
    }

    /// Returns one plan for each scheme.
    ///
    /// # Errors
    /// Options that do not go together.
    pub fn plans(&self, launched: bool) -> Result<Vec<Plan>> {
        let one = |choice: &OneOrAll<Scheme>| match choice {
            OneOrAll::One(scheme) => Some(*scheme),
            OneOrAll::All => None,
        };
        let chosen: Option<Vec<Scheme>> = self.scheme.iter().map(one).collect();
        let chosen = chosen.filter(|chosen| !chosen.is_empty());
        let clients = match self.clients {
            None if launched => None,
            // So several other clients can be looked at.
            clients if self.kill == Some(Victim::Client) => Some(clients.unwrap_or(cores().max(3))),
            clients => Some(clients.unwrap_or((cores() - 1).max(2))),
        };
        self.check_kill(launched, clients, chosen.as_deref().unwrap_or_default())?;
        let mut schemes = chosen.unwrap_or_else(|| Scheme::ALL.to_vec());
        let served = schemes.iter().any(|scheme| scheme.needs_server());
        schemes.retain(|scheme| self.kill != Some(Victim::Server) || scheme.needs_server());
        let plan = |scheme: Scheme| {
            let mut plan = self.plan(scheme, launched, clients);
            // The worlds of a launcher have all the same size, and as many clients.
            let serves = if launched { served } else { scheme.needs_server() };
            plan.others = usize::from(serves) + usize::from(plan.has_stand_by());
            plan
        };
        Ok(schemes.into_iter().map(plan).collect())
    }

    /// Checks whether the other options and these schemes allow to kill a rank.
    fn check_kill(&self, launched: bool, clients: Option<usize>, schemes: &[Scheme]) -> Result<()> {
        let Some(victim) = self.kill else { return Ok(()) };
        let without = schemes.iter().find(|scheme| !scheme.needs_server());
        let reason = match (victim, without) {
            _ if launched => "--kill needs worlds of its own: not under a launcher",
            _ if self.ranks == Some(Ranks::Threads) => {
                "--kill ends a process: it needs --ranks processes, not threads"
            }
            _ if self.operations.is_some() => {
                "--kill comes after half of the time: it needs --seconds"
            }
            (Victim::Client, _) if clients == Some(1) => {
                "--kill client needs another client: --clients 2 at least, not 1"
            }
            (Victim::Server, Some(scheme)) => {
                return Err(Error::new(format!(
                    "--kill server needs a scheme with a server: slot-server or mp-server, not \
                     {scheme}"
                )));
            }
            _ => return Ok(()),
        };
        Err(Error::new(reason))
    }

    /// Returns the plan for a scheme. It lacks the ranks that are no clients.
    fn plan(&self, scheme: Scheme, launched: bool, clients: Option<usize>) -> Plan {
        Plan {
            scheme,
            // A launcher's ranks are processes, whatever the options say.
            ranks: self.ranks.filter(|_| !launched).unwrap_or(Ranks::Processes),
            clients,
            others: 0,
            keys: self.keys,
            capacity: self.capacity.unwrap_or(self.keys + self.keys / 4 + 1),
            value_bytes: self.value_bytes,
            mix: self.mix(),
            distribution: self.distribution,
            // Without a server, operations are executed one by one, when they are asked for.
            in_flight: if scheme.needs_server() { self.in_flight } else { 1 },
            max_ops: self.max_ops,
            backoff: self.backoff,
            seed: self.seed,
            limit: match self.operations {
                Some(operations) => Limit::Operations(operations as u64),
                None => Limit::Time(self.seconds),
            },
            kill: self.kill,
            reports: None,
        }
    }

    fn mix(&self) -> Mix {
        self.mix.unwrap_or_else(|| Mix::reading(self.read_percent.unwrap_or(80) as u32))
    }

    /// Returns the load in words.
    fn load(&self, rows: &[Row]) -> String {
        let clients = rows.first().map_or(0, |row| row.clients);
        let ranks = rows.first().map_or(Ranks::Processes, |row| row.ranks);
        let mix = self.mix();
        let each = match self.operations {
            Some(1) => "1 operation each".to_owned(),
            Some(operations) => format!("{operations} operations each"),
            None => format!("{} s for each scheme", self.seconds.as_secs_f64()),
        };
        let (s, ranks) = match (clients, ranks) {
            (1, Ranks::Threads) => ("", "a thread"),
            (1, Ranks::Processes) => ("", "a process"),
            (_, Ranks::Threads) => ("s", "threads"),
            (_, Ranks::Processes) => ("s", "processes"),
        };
        format!(
            "{clients} client{s} ({ranks}) on {} cores, {each}: {mix};\n{} keys ({}), values of {} \
             bytes, {} in flight where a server executes operations",
            cores(),
            self.keys,
            self.distribution,
            self.value_bytes,
            self.in_flight
        )
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn plans(text: &str) -> Result<Vec<Plan>> {
        plans_of(text, false)
    }

    fn plans_of(text: &str, launched: bool) -> Result<Vec<Plan>> {
        let arguments = ["kv_server"].into_iter().chain(text.split_whitespace());
        let options = Options::try_parse_from(arguments);
        options.map_err(Error::new)?.plans(launched)
    }

    /// Returns the plan that the tests begin with.
    pub(crate) fn plan() -> Plan {
        plans("--scheme mcs --clients 2 --keys 10").unwrap().remove(0)
    }

    #[test]
    fn all_schemes_are_taken_by_default() {
        let plans = plans("").unwrap();
        assert_eq!(plans.len(), Scheme::ALL.len());
        for plan in plans {
            assert_eq!(plan.others, usize::from(plan.scheme.needs_server()));
            assert_eq!((plan.ranks, plan.keys, plan.capacity), (Ranks::Processes, 10_000, 12_501));
            assert!(plan.clients.unwrap() >= 2);
        }
    }

    #[test]
    fn servers_have_followers() {
        let plans = plans("--kill server").unwrap();
        let others: Vec<_> = plans.iter().map(|plan| (plan.scheme, plan.others)).collect();
        assert_eq!(others, [(Scheme::SlotServer, 2), (Scheme::MpServer(0), 2)]);
        for plan in plans {
            assert_eq!(plan.role(0), crate::plan::Role::Server);
            assert_eq!(plan.role(1), crate::plan::Role::StandBy);
            assert_eq!(plan.role(2), crate::plan::Role::Client(0));
        }
    }

    #[test]
    fn worlds_of_a_launcher_have_as_many_clients() {
        for plan in plans_of("--scheme mcs,slot-server --ranks threads", true).unwrap() {
            assert_eq!((plan.clients, plan.others, plan.ranks), (None, 1, Ranks::Processes));
        }
        let plan = plans_of("--scheme mcs", true).unwrap().remove(0);
        assert_eq!(plan.others, 0);
    }

    #[test]
    fn plans_come_back_from_text() {
        let plan = Plan { reports: Some("a/b".into()), kill: Some(Victim::Client), ..plan() };
        let text = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_reason() {
        for (arguments, reason) in [
            ("--scheme spin", "[possible values: tas, mcs,"),
            ("--clients 0", "not a number from 1 to 500"),
            ("--keys 0", "not a number from 1"),
            ("--value-bytes 7", "not a number from 8 to 255"),
            ("--in-flight 0", "not a number from 1 to 1024"),
            ("--mix 1,2", "not four numbers"),
            ("--mix 0,0,0,0", "no operation is left"),
            ("--read-percent 101", "not a number from 0 to 100"),
            ("--read-percent 50 --mix 1,1,1,1", "cannot be used with"),
            ("--seconds 0", "not a number of seconds"),
            ("--seconds nan", "not a number of seconds"),
            ("--seconds 1 --operations 5", "cannot be used with"),
            ("--backoff long", "not none, tuned, or a number"),
            ("--kill client --ranks threads", "needs --ranks processes, not threads"),
            ("--kill client --clients 1", "--clients 2 at least, not 1"),
            ("--kill client --operations 5", "needs --seconds"),
            ("--kill server --scheme slot-server,mcs", "slot-server or mp-server, not mcs"),
        ] {
            let error = plans(arguments).unwrap_err().to_string();
            assert!(error.contains(reason), "{arguments}: {error}");
        }
        assert!(plans_of("--kill client", true).is_err());
    }
}
