//! Calls as a program makes them, beside the loops of this harness: `src/bin/hot_calls.rs` in one form after the other.

use std::path::Path;
use std::process::Command;

use example_support::peers::{PATIENCE, within};
use onchip_benches::cpus;

use super::{critical, delegate, pingpong, stream, tagged};
use crate::ours::{self, Ranks};
use crate::party;
use crate::plan::{Collective, Operation, Timing};
use crate::rivals::rtrb;
use crate::rivals::{failed, last_words};
use crate::row::{Bound, Row, Setup, Side, Taken, Unit};
use crate::stats::median;

const FORMS: [&str; 3] = ["loop", "closure", "dyn"];
pub const OF_RESULTS: [&str; 6] = ["loop", "closure", "dyn", "unwrap", "match", "iter"];

/// How much more than in the harness' loop a call may take in a program's.
const MORE: f64 = 1.1;

pub fn rows() -> Vec<Row> {
    let stream = || ours::side(Ranks::Threads, stream::task(), |results| 1e9 / median(&results[1]));
    let collective = |operation, bytes| {
        move || party::ours(Ranks::Threads, Collective::of(operation, bytes), Timing::Loop)
    };
    let mut rows = Vec::new();
    let mut add = |call, forms: &[&'static str], harness: &dyn Fn() -> Side| {
        rows.extend(forms.iter().map(|form| Row {
            name: format!("hot-calls.{call}.{form}"),
            what: "a call in a program's loop, beside the same in the harness' loop",
            unit: Unit::Nanoseconds,
            ours: program(call, form),
            reference: harness().named("harness"),
            bound: Bound::at_most(MORE),
            by_distance: true,
        }));
    };
    add("pingpong", &FORMS, &|| pingpong::ours(Ranks::Threads));
    add("stream", &OF_RESULTS, &stream);
    add("try-stream", &FORMS, &stream);
    add("tagged", &FORMS, &tagged::numbers_of_threads);
    add("barrier", &FORMS, &collective(Operation::Barrier, 0));
    add("broadcast", &FORMS, &collective(Operation::Broadcast, 8));
    add("all-reduce", &FORMS, &collective(Operation::AllReduce, 8));
    add("apply", &FORMS, &critical::uncontended);
    add("submit", &FORMS, &critical::submitted);
    add("delegated", &FORMS, &delegate::cost::of_8_bytes);
    rows.extend(OF_RESULTS.map(|form| Row {
        name: format!("hot-calls.receive.{form}"),
        what: "a receive by one rank of what it has sent to itself, in a program's loop, beside rtrb in one thread",
        unit: Unit::Nanoseconds,
        ours: program("receive", form),
        reference: rtrb::filled(),
        bound: Bound::Context,
        by_distance: false,
    }));
    rows
}

pub fn program(call: &'static str, form: &'static str) -> Side {
    Side::new("program", "spin", move |setup| take(setup, call, form))
}

fn take(setup: &Setup, call: &str, form: &str) -> Taken {
    let cpus = setup.cpus.map(|cpu| cpu.to_string());
    let output = cpus::confined(&setup.cpus, || {
        let program = Path::new(env!("CARGO_BIN_EXE_hot_calls"));
        within(Command::new(program).args([call, form]).args(&cpus), PATIENCE)
    })?;
    if !output.status.success() {
        return Err(failed(last_words(&output.stderr)));
    }
    let batches = String::from_utf8_lossy(&output.stdout);
    let batches: Result<Vec<f64>, _> = batches.lines().map(str::parse).collect();
    match batches.map_err(failed)? {
        none if none.is_empty() => Err(failed("it said nothing")),
        batches => Ok(median(&batches).into()),
    }
}
