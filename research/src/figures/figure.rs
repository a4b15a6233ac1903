//! A figure or a table of a paper, with what comes out here beside it.

use super::plot::Plot;

/// What may fail while figures are made.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The figures of a paper, or of a part of it.
pub struct Group {
    /// The name for the command: `scc`.
    pub name: &'static str,
    /// The heading on the page.
    pub title: &'static str,
    /// The paper, and the machine that stands for its machine.
    pub about: &'static str,
    /// The figures, in the paper's order.
    pub figures: &'static [Entry],
}

/// A figure that can be made.
pub struct Entry {
    /// The paper and its number there: `Thesis 3.4`.
    pub id: &'static str,
    /// Returns the figure.
    pub make: fn() -> Result<Figure>,
}

impl Entry {
    /// Returns the name for the command and for files: `thesis-3.4`.
    pub fn name(&self) -> String {
        self.id.to_lowercase().replace(' ', "-")
    }
}

/// A figure or a table of a paper, as it comes out here.
#[derive(Clone, Debug, Default)]
pub struct Figure {
    /// The paper's title of it, shortened.
    pub title: String,
    /// What was run here, and how that differs from the paper.
    pub about: String,
    /// Pictures, if the paper has curves.
    pub plots: Vec<Plot>,
    /// The paper's values and statements.
    pub checks: Vec<Check>,
}

impl Figure {
    /// Asserts every check.
    ///
    /// # Panics
    /// If a check does not come out as it is stated.
    #[track_caller]
    pub fn assert(&self) {
        let failures: Vec<_> = self.checks.iter().filter_map(Check::failure).collect();
        assert!(failures.is_empty(), "{}:\n{}", self.title, failures.join("\n"));
    }
}

/// A value or a statement of a paper, and what comes out here.
#[derive(Clone, Debug)]
pub struct Check {
    /// The paper's own words in quotation marks, or the name of a published value.
    pub paper: String,
    /// What comes out here.
    pub outcome: Outcome,
    /// Where the paper is not reproduced, and why. `None` says that it is reproduced.
    pub limit: Option<String>,
}

/// What comes out of a check.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// A published value.
    Value {
        /// The unit of both values.
        unit: &'static str,
        /// The paper's value.
        published: f64,
        /// The value here.
        ours: f64,
        /// The greatest deviation from the published value, as a part of it, with which it is reproduced.
        within: f64,
    },
    /// A statement in words.
    Statement {
        /// The numbers here that the statement is about.
        ours: String,
        /// Whether they are as the paper says, over the whole range that it speaks of.
        holds: bool,
    },
}

impl Check {
    /// Returns the check of a published value, which is reproduced up to this deviation (0.05 is 5%).
    pub fn value(
        what: impl Into<String>,
        unit: &'static str,
        published: f64,
        ours: f64,
        within: f64,
    ) -> Check {
        let outcome = Outcome::Value { unit, published, ours, within };
        Check { paper: what.into(), outcome, limit: None }
    }

    /// Returns the check of a statement in the paper's own words.
    pub fn statement(quote: &str, ours: impl Into<String>, holds: bool) -> Check {
        let outcome = Outcome::Statement { ours: ours.into(), holds };
        Check { paper: format!("“{quote}”"), outcome, limit: None }
    }

    /// Returns the check of a statement in our words: a part of the paper's for which it holds here, or a consequence.
    pub fn here(what: impl Into<String>, ours: impl Into<String>, holds: bool) -> Check {
        let outcome = Outcome::Statement { ours: ours.into(), holds };
        Check { paper: what.into(), outcome, limit: None }
    }

    /// Says where the paper is not reproduced, and why.
    pub fn limit(self, limit: impl Into<String>) -> Check {
        Check { limit: Some(limit.into()), ..self }
    }

    /// Returns whether the paper is reproduced.
    pub fn holds(&self) -> bool {
        match self.outcome {
            Outcome::Value { within, .. } => {
                self.deviation().is_some_and(|off| off.abs() <= within)
            }
            Outcome::Statement { holds, .. } => holds,
        }
    }

    /// Returns how far the value here is from the published one, as a part of the published one.
    pub fn deviation(&self) -> Option<f64> {
        match self.outcome {
            Outcome::Value { published, ours, .. } => Some(ours / published - 1.0),
            Outcome::Statement { .. } => None,
        }
    }

    /// Returns what is wrong if the paper is not reproduced and no limit says so, or if it is in spite of a limit.
    pub fn failure(&self) -> Option<String> {
        let said = match (self.holds(), &self.limit) {
            (false, None) => "is not reproduced",
            (true, Some(_)) => "is reproduced in spite of its limit",
            _ => return None,
        };
        Some(format!("{} {said}: {:?}", self.paper, self.outcome))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_stated_on_both_sides() {
        let value = |ours| Check::value("rate", "MB/s", 10.0, ours, 0.05);
        assert!(value(10.4).failure().is_none() && value(9.6).failure().is_none());
        for off in [9.4, 10.6, f64::NAN] {
            assert!(value(off).failure().is_some_and(|text| text.contains("is not reproduced")));
            assert!(value(off).limit("too fast").failure().is_none());
        }
        let stale = value(10.0).limit("too fast").failure();
        assert!(stale.is_some_and(|text| text.contains("in spite of")));
        assert!(Check::statement("it rises", "2, 1", false).failure().is_some());
        assert!(Check::statement("it rises", "1, 2", true).failure().is_none());
    }
}
