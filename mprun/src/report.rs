//! `mprun report`: who waits for whom.

use std::{
    fmt::Write as _,
    io::{self, Write},
    process::ExitCode,
};

use onchip::{
    Error, Operation,
    report::{self, Found, RankKind, RankReport, RankStage, WaitReport, WorldReport},
};

use super::{
    shown::Shown,
    text::{self, list, ranks, tame},
};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// A process of the world: its launcher or a rank [default: all worlds]
    pid: Option<u32>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Shown {
    let found = match args.pid {
        Some(pid) => report::worlds_of(pid).map_err(|error| format!("process {pid}: {error}"))?,
        None => report::worlds()?,
    };
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", json(&found)?)?;
    }
    if found.is_empty() {
        match args.pid {
            Some(pid) => eprintln!("mprun: process {pid} is part of no world"),
            None => eprintln!("mprun: no world is running"),
        }
        return Ok(ExitCode::FAILURE);
    }
    if args.json {
        return Ok(ExitCode::SUCCESS);
    }
    for (index, Found { pids, report }) in found.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        match report {
            Ok(world) => write!(out, "{}", describe(world))?,
            Err(error) => writeln!(out, "{}", unreadable(pids, error))?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Describes a world whose state can't be read.
pub fn unreadable(pids: &[u32], error: &Error) -> String {
    format!("a world that can't be read, held by {}: {error}", text::list(pids, "and"))
}

/// Returns worlds as JSON: `[{"pids": [...], "world": {...}}, {"pids": [...], "error": "..."}]`.
pub fn json(found: &[Found]) -> serde_json::Result<String> {
    #[derive(serde::Serialize)]
    struct Entry<'a> {
        pids: &'a [u32],
        #[serde(skip_serializing_if = "Option::is_none")]
        world: Option<&'a WorldReport>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    }
    let entries: Vec<Entry<'_>> = found
        .iter()
        .map(|Found { pids, report }| Entry {
            pids,
            world: report.as_ref().ok(),
            error: report.as_ref().err().map(ToString::to_string),
        })
        .collect();
    serde_json::to_string_pretty(&entries)
}

/// Describes a world in sentences.
pub fn describe(world: &WorldReport) -> String {
    let mut text = String::new();
    let kind = match world.kind {
        RankKind::Threads => "threads of process",
        RankKind::Processes => "processes of launcher",
    };
    let _ = writeln!(
        text,
        "world of {}: {} {kind} {}, {} old, {} of memory in use",
        tame(&world.program),
        world.ranks.len(),
        world.launcher,
        text::time(world.age),
        text::bytes(world.memory.in_use),
    );
    for rank in &world.ranks {
        let pid = match (world.kind, rank.pid) {
            (RankKind::Processes, Some(pid)) => format!(" ({pid})"),
            _ => String::new(),
        };
        let _ = writeln!(text, "  rank {}{pid} {}", rank.rank, state(rank));
    }
    for cycle in &world.cycles {
        let _ = writeln!(text, "deadlock: {}", spelled_cycle(cycle));
    }
    for line in stuck_otherwise(world) {
        let _ = writeln!(text, "{line}");
    }
    text
}

fn state(rank: &RankReport) -> String {
    let stage = match rank.stage {
        RankStage::Expected => "has not entered the world yet",
        RankStage::Running => "runs",
        RankStage::Finished => "has finished",
        RankStage::Lost => "was lost",
    };
    let mut text = match &rank.wait {
        Some(wait) if rank.stage == RankStage::Running => waiting(wait),
        Some(wait) => format!("{stage}, {}", waiting(wait)),
        None => stage.to_owned(),
    };
    for channel in &rank.blocked_sends {
        let (name, to) = (tame(&channel.name), ranks(&channel.receivers));
        let _ = write!(text, "; what it delegated waits to be sent on \"{name}\" to {to}");
    }
    text
}

fn waiting(wait: &WaitReport) -> String {
    let names = wait.channels.iter().map(|channel| format!("\"{}\"", tame(&channel.name)));
    let mut names: Vec<String> = names.collect();
    names.dedup();
    if wait.further_channels > 0 {
        names.push(format!("{} more", wait.further_channels));
    }
    let names = list(names, "or");
    let peers = match wait.peers.as_slice() {
        [] => "nobody".to_owned(),
        one @ [_] => ranks(one),
        several => format!("any of {}", ranks(several)),
    };
    let mut text = match (&wait.call, wait.operation) {
        (Some(call), Operation::Flag) => format!("waits for {peers} in {}", tame(call)),
        // The call names the ranks that messages come from and go to.
        (Some(call), _) => match call.strip_prefix("wait for ") {
            Some(several) => format!("waits for {}", tame(several)),
            None => format!("waits in {}", tame(call)),
        },
        (None, Operation::Send) => format!("waits to send on {names} to {peers}"),
        (None, Operation::Receive) => format!("waits to receive on {names} from {peers}"),
        (None, Operation::Results) => format!("waits for the results of {}", ranks(&wait.peers)),
        (None, Operation::Flag) => match &wait.flag {
            Some(flag) => {
                format!("waits for flag {} of \"{}\" from {peers}", flag.line, tame(&flag.mpbs))
            }
            None => "waits for a flag".to_owned(),
        },
        (None, _) => format!("waits for a message on {names} from {peers}"),
    };
    let _ = write!(text, ", for {}", text::time(wait.since));
    if let Some(left) = wait.gives_up_in {
        let _ = write!(text, ", gives up in {}", text::time(left));
    }
    text
}

fn spelled_cycle(cycle: &[usize]) -> String {
    match cycle {
        [] => String::new(),
        [only] => format!("rank {only} waits for itself"),
        [first, rest @ ..] => {
            let links: Vec<String> = rest.iter().map(|rank| format!("rank {rank}")).collect();
            let links = links.join(", which waits for ");
            format!("rank {first} waits for {links}, which waits for rank {first}")
        }
    }
}

/// Returns lines about the ranks that are stuck but in no named cycle, and why.
fn stuck_otherwise(world: &WorldReport) -> Vec<String> {
    let named: Vec<usize> = world.cycles.concat();
    let (mut behind, mut lines) = (Vec::new(), Vec::new());
    for rank in world.ranks.iter().filter(|rank| rank.stuck && !named.contains(&rank.rank)) {
        let peers = rank.wait.as_ref().map_or(&[][..], |wait| &wait.peers);
        let ended = |&peer: &usize| world.ranks[peer].stage.ended();
        if rank.stage.ended() || peers.iter().any(|peer| !ended(peer)) {
            behind.push(rank.rank);
        } else if peers.is_empty() {
            lines.push(format!("rank {} waits for nobody who is still there", rank.rank));
        } else {
            let have = if peers.len() == 1 { "has" } else { "have" };
            lines.push(format!(
                "rank {} waits for {}, which {have} ended",
                rank.rank,
                ranks(peers)
            ));
        }
    }
    if !behind.is_empty() {
        let can = if behind.len() == 1 { "waits" } else { "wait" };
        lines.push(format!("{} {can} for ranks that will never go on", ranks(&behind)));
    }
    lines
}
