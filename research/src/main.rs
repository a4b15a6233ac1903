//! The research package's command: it makes the papers' figures.

#[cfg(not(loom))]
use std::{env, path::Path, process::ExitCode};

#[cfg(not(loom))]
use onchip_research::figures::{GROUPS, Result, write};

#[cfg(not(loom))]
fn main() -> Result<ExitCode> {
    let mut words = env::args().skip(1);
    if words.next().as_deref() != Some("figures") {
        eprintln!("onchip-research figures [NAME…]\n\nnames:");
        for group in GROUPS {
            let figures = group.figures.iter().map(|entry| format!(" {}", entry.name()));
            eprintln!("{}:{}", group.name, figures.collect::<String>());
        }
        return Ok(ExitCode::FAILURE);
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("figures");
    let failures = write(&folder, &words.collect::<Vec<_>>())?;
    for failure in &failures {
        eprintln!("{failure}");
    }
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(loom)]
fn main() {}
