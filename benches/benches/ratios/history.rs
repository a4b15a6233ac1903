//! The measured commit, and whether its figures still hold for the current sources.

use std::process::Command;

/// The folders with the code that rows run through. A change of a line there needs new figures, except in comments,
/// tests and models. `mp-model` is among the folders because it chooses the steps of collective operations.
const HOT: [&str; 5] =
    ["src", "mp-core/src", "mp-collectives/src", "mp-delegate/src", "mp-model/src"];
/// The other sources that are compiled into the measured programs.
const HARNESS: [&str; 5] =
    ["Cargo.toml", "Cargo.lock", "benches/benches", "benches/src", "benches/peers"];
/// Files in the folders above that are part of no measured program: tests, and models for the model checker.
const NOT_MEASURED: [&str; 5] = [
    ":(exclude,glob)**/tests/**",
    ":(exclude,glob)**/tests.rs",
    ":(exclude,glob)**/test_*.rs",
    ":(exclude,glob)**/model/**",
    ":(exclude,glob)**/model.rs",
];
/// Lines that are neither empty nor only a comment.
const CODE: &str = r"^[[:space:]]*([^[:space:]/]|/[^/])";

/// The suffix of a commit if files differed from it.
pub const CHANGED: char = '+';

fn git(arguments: &[&str]) -> Option<String> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
}

/// Returns the commit that is checked out, with a plus where the library or the harness differs from it.
pub fn commit() -> String {
    let Some(commit) = git(&["rev-parse", "HEAD"]) else {
        return "unknown".into();
    };
    let status = ["status", "--porcelain", "--untracked-files=no", "--"];
    match git(&[&status[..], &HOT, &HARNESS].concat()) {
        Some(changed) if changed.is_empty() => commit,
        _ => format!("{commit}{CHANGED}"),
    }
}

/// The answer to whether figures still hold.
pub enum Holds {
    Yes,
    /// They do not hold, with the reason.
    No(String),
    /// The history is unknown, with the reason.
    Unknown(String),
}

/// Returns whether figures that were taken at `commit` hold for the current sources.
pub fn holds(commit: &str) -> Holds {
    let no = |why: String| {
        Holds::No(format!("{why}; take new ones: cargo bench --bench ratios -- --report"))
    };
    if commit.ends_with(CHANGED) {
        return no(format!("the figures were taken beside changes that no commit has ({commit})"));
    }
    if git(&["rev-parse", "HEAD"]).is_none() {
        return Holds::Unknown("Git is not installed, or this is no clone".into());
    }
    if git(&["merge-base", "--is-ancestor", commit, "HEAD"]).is_none() {
        return match git(&["rev-parse", "--is-shallow-repository"]).as_deref() {
            Some("false") => {
                no(format!("the figures were taken at {commit}, from which HEAD does not come"))
            }
            _ => Holds::Unknown(format!(
                "the clone is shallow, and does not show whether HEAD comes from {commit}"
            )),
        };
    }
    let changed = ["diff", "--name-only", "-G", CODE, commit, "--"];
    match git(&[&changed[..], &HOT, &NOT_MEASURED].concat()) {
        Some(changed) if changed.is_empty() => Holds::Yes,
        Some(changed) => {
            let files = changed.lines().collect::<Vec<_>>().join(", ");
            no(format!("the figures were taken at {commit}, and since then changed {files}"))
        }
        None => Holds::Unknown(format!("Git does not say what changed since {commit}")),
    }
}
