//! The research package's command: it makes the papers' figures.

#[cfg(not(loom))]
use std::{env, path::PathBuf, process::ExitCode};

#[cfg(not(loom))]
use onchip_research::figures::{GROUPS, Result, write};

#[cfg(not(loom))]
fn main() -> Result<ExitCode> {
    let mut words: Vec<String> = env::args().skip(1).collect();
    if words.first().is_none_or(|word| word != "figures") {
        eprintln!("onchip-research figures [--into FOLDER] [NAME…]\n\nnames:");
        for group in GROUPS {
            let figures = group.figures.iter().map(|entry| format!(" {}", entry.name()));
            eprintln!("{}:{}", group.name, figures.collect::<String>());
        }
        return Ok(ExitCode::FAILURE);
    }
    words.remove(0);
    let mut folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("figures");
    if words.len() > 1 && words[0] == "--into" {
        folder = PathBuf::from(&words[1]);
        words.drain(..2);
    }
    let failures = write(&folder, &words)?;
    for failure in &failures {
        eprintln!("{failure}");
    }
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(loom)]
fn main() {}
