//! Plans as text.

use super::super::CpuSet;
use super::{Inline, KtPlacement, KtPlan, Role};
use std::fmt;

impl KtPlan {
    /// Explains the plan in a few lines: the policy, then where each communication thread is and which ranks it serves.
    /// Consecutive KTs that each serve the rank of their own number share a line.
    pub fn explain(&self) -> Vec<String> {
        let Some(chosen) = self.chosen else {
            let reason = match self.inline {
                Some(reason) => format!("none: {reason}; sends are inline"),
                None => "none: no ranks".to_owned(),
            };
            return vec![reason];
        };
        let mut first = format!("{}, {}", self.kts.len(), sentence(chosen));
        if self.asked != chosen && self.asked == KtPlacement::Automatic {
            first += "; chosen automatically";
        }
        if self.is_crowded() {
            first += "; forced onto hardware threads that others use";
        }
        let mut lines = vec![first];
        lines.extend(self.dedicated());
        let mut at = 0;
        while let Some(line) = self.line(at) {
            let alike = (at..self.kts.len()).take_while(|&kt| self.own_rank(kt)).count();
            if alike > 2 {
                let cpus: Option<CpuSet> = (at..at + alike).map(|kt| self.kts[kt].cpu).collect();
                let places = cpus.map(|cpus| format!(" on {}", cpus.spelled())).unwrap_or_default();
                lines.push(format!(
                    "k{at} to k{}{places}: the ranks of these numbers",
                    at + alike - 1
                ));
                at += alike;
            } else {
                lines.push(line);
                at += 1;
            }
        }
        lines
    }

    /// Returns whether a KT serves only the rank of its own number.
    fn own_rank(&self, kt: usize) -> bool {
        self.kts[kt].ranks == [kt] && self.sends_of(kt) == [kt]
    }

    fn line(&self, index: usize) -> Option<String> {
        let kt = self.kts.get(index)?;
        let place = kt.cpu.map(|cpu| format!(" on CPU {cpu}")).unwrap_or_default();
        let ranks: CpuSet = kt.ranks.iter().copied().collect();
        let plural = if ranks.len() == 1 { "" } else { "s" };
        Some(format!("k{index}{place}: rank{plural} {ranks}"))
    }

    fn dedicated(&self) -> Option<String> {
        let Some(KtPlacement::Specialized { .. }) = self.chosen else { return None };
        let place = |role: Role| {
            let rank = self.roles.iter().position(|&of| of == role)?;
            let cpu = self.cpus.get(rank).copied().flatten();
            let place = cpu.map(|cpu| format!(" on CPU {cpu}")).unwrap_or_default();
            Some(format!("r{rank}{place}"))
        };
        Some(format!("emitter {}, collector {}", place(Role::Emitter)?, place(Role::Collector)?))
    }
}

fn sentence(placement: KtPlacement) -> String {
    match placement {
        KtPlacement::KtW => "kt-w: one for each rank".to_owned(),
        KtPlacement::Skt { group: 1 } => {
            "skt: one for each rank, wherever there is room".to_owned()
        }
        KtPlacement::Skt { group } => format!("skt: one for up to {group} ranks"),
        KtPlacement::Specialized { emitter_kts, group } => {
            let emitter =
                emitter_kts.map(|kts| format!("{kts} for the emitter, ")).unwrap_or_default();
            format!("kt-specialized: {emitter}one for up to {group} workers")
        }
        KtPlacement::Generalized { .. } => {
            "kt-generalized: one a core, for what its ranks send and what the emitter sends them"
                .to_owned()
        }
        KtPlacement::Automatic => "auto".to_owned(),
    }
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

impl fmt::Display for KtPlan {
    /// Writes the lines of [`explain`](KtPlan::explain).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.explain().join("\n"))
    }
}

impl fmt::Display for Inline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::NoSpareThread { ranks, cpus, quota } = self;
        let (ranks, cpus) = (count(*ranks, "rank"), count(*cpus, "CPU"));
        write!(f, "no spare hardware thread: {ranks} on {cpus}")?;
        match quota {
            Some(quota) => write!(f, " with a quota of {}", (quota * 100.0).round() / 100.0),
            None => Ok(()),
        }
    }
}
