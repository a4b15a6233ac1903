//! What the paper gives to the model.

use crate::figures::Check;
use crate::smt::{Micros, Sharing};

/// Table I, row 1.
pub(super) const SH_MEM: Micros = 13_614.0;
pub(super) const NO_KT: Micros = 14_789.0;
pub(super) const KT_W: Micros = 14_022.0;

/// The copy of an image.
pub(super) const COPY: Micros = NO_KT - SH_MEM;

pub(super) const CORES: usize = 60;

/// Returns how threads share a core, by table I, row 1.
pub(super) fn sharing() -> Sharing {
    Sharing::fitted(SH_MEM, COPY, KT_W)
}

/// Returns a check with a limit, if there is one.
pub(super) fn limited(check: Check, limit: &'static str) -> Check {
    if limit.is_empty() { check } else { check.limit(limit) }
}

/// Returns a table of published values of other software, beside times here.
pub(super) fn beside(head: &[&str], rows: &[Vec<String>]) -> String {
    let head: Vec<String> = head.iter().map(|&name| name.to_owned()).collect();
    let rule = vec!["---".to_owned(); head.len()];
    let lines = [&head, &rule].into_iter().chain(rows);
    lines.map(|cells| format!("\n| {} |", cells.join(" | "))).collect()
}
