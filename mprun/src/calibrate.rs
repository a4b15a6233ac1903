//! `mprun calibrate`: what moving cache lines costs on this machine.

use std::{
    fmt::Write as _,
    io::{self, Write},
    process::ExitCode,
};

use onchip::calibration::{Origin, Recalled, recall};
use onchip::topology::Topology;
use serde_json::{Value, json};

use crate::shown::Shown;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Measure now, even if there are values from before
    #[arg(long)]
    again: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Shown {
    let recalled = recall(&Topology::read()?, args.again);
    warn(&recalled);
    let text = if args.json { format!("{:#}\n", to_json(&recalled)) } else { table(&recalled) };
    io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Says what was wrong with the file.
pub fn warn(recalled: &Recalled) {
    if let Origin::Replaced { why } = &recalled.origin {
        eprintln!("mprun: measured anew, because of {why}");
    }
    if let Some(why) = &recalled.unsaved {
        eprintln!("mprun: the values are not kept: {why}");
    }
}

fn table(recalled: &Recalled) -> String {
    let mut text = String::new();
    let groups = &recalled.calibration.seats.groups;
    let cpus = |cpus: &Vec<usize>| cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    let groups: Vec<String> = groups.iter().map(cpus).collect();
    let _ = writeln!(text, "CPUs by groups: {}", groups.join(" | "));
    let _ = writeln!(text, "{:<6} {:>10} {:>19}  what", "", "ns", "quartiles");
    for value in &recalled.calibration.values {
        let time = value.time.map_or("-".into(), |time| format!("{:.1}", time.as_nanos()));
        let quartiles = value.spread.map_or(String::new(), |(low, high)| {
            format!("{:.1} to {:.1}", low.as_nanos(), high.as_nanos())
        });
        let _ = writeln!(text, "{:<6} {time:>10} {quartiles:>19}  {}", value.name, value.meaning);
        if let Some(replaced) = &value.replaced {
            let _ = writeln!(text, "{:>39}{replaced}", "");
        }
    }
    let (origin, file) = (origin(recalled), recalled.file.as_deref());
    let _ = match file.filter(|_| recalled.unsaved.is_none()) {
        Some(file) => writeln!(text, "{origin}; kept in {}", file.display()),
        None => writeln!(text, "{origin}; not kept"),
    };
    text
}

fn origin(recalled: &Recalled) -> &'static str {
    if recalled.origin == Origin::File { "measured before" } else { "measured now" }
}

fn to_json(recalled: &Recalled) -> Value {
    let calibration = &recalled.calibration;
    let value = |value: &onchip::calibration::Value| {
        json!({
            "name": value.name,
            "meaning": value.meaning,
            "ns": value.time.map(|time| time.as_nanos()),
            "quartiles_ns": value.spread.map(|(low, high)| [low.as_nanos(), high.as_nanos()]),
            "replaced": value.replaced.as_ref().map(ToString::to_string),
        })
    };
    json!({
        "groups": calibration.seats.groups,
        "values": calibration.values.iter().map(value).collect::<Vec<_>>(),
        "origin": origin(recalled),
        "file": recalled.file.as_ref().filter(|_| recalled.unsaved.is_none()),
        "implausible": calibration.is_implausible(),
    })
}
