//! The colours of the kinds of spans.

use std::collections::HashMap;

use super::read::{Bar, Timeline};

/// The kinds that Onchip records, in the order of the legend. The colours are those of Okabe and Ito, which people with
/// any kind of colour vision can tell apart. Work is dark, and waiting is light.
const KNOWN: [(&str, &str); 9] = [
    ("compute", "#009e73"),
    ("send", "#d55e00"),
    ("delegate", "#8b2252"),
    ("copy", "#0072b2"),
    ("collective", "#332288"),
    ("messages", "#44aa99"),
    ("wait", "#e8a0c8"),
    ("receive", "#f0e442"),
    ("idle", "#dcdcdc"),
];

/// The colours for the spans of other tools. The kinds that take most time get the first colours.
const OTHERS: [&str; 8] =
    ["#56b4e9", "#e69f00", "#b07aa1", "#7f9f3f", "#9c755f", "#76b7b2", "#bab0ac", "#4e5f9e"];

const REST: (&str, &str) = ("other", "#999999");

/// The colours of a picture.
#[derive(Debug)]
pub struct Colours<'a> {
    /// Names and colours, for the legend.
    pub legend: Vec<(&'a str, &'static str)>,
    by_name: HashMap<&'a str, usize>,
}

impl<'a> Colours<'a> {
    /// Returns the colours of the spans for which `is_shown` returns true.
    pub fn new(timeline: &'a Timeline, is_shown: impl Fn(&Bar) -> bool) -> Self {
        let mut times: HashMap<&str, i64> = HashMap::new();
        for bar in timeline.rows.iter().flat_map(|row| &row.bars).filter(|bar| is_shown(bar)) {
            // At least 1, so that spans without length count as well.
            let time = times.entry(&bar.name).or_default();
            *time = time.saturating_add((bar.end - bar.start).max(1));
        }
        let known = |name: &str| KNOWN.iter().position(|(known, _)| *known == name);
        let mut legend: Vec<(&str, &str)> =
            KNOWN.into_iter().filter(|(name, _)| times.contains_key(name)).collect();
        let mut others: Vec<(&str, i64)> =
            times.into_iter().filter(|(name, _)| known(name).is_none()).collect();
        others.sort_by_key(|&(name, time)| (std::cmp::Reverse(time), name));
        legend.extend(others.iter().map(|(name, _)| *name).zip(OTHERS));
        let by_name = legend.iter().enumerate().map(|(at, (name, _))| (*name, at)).collect();
        if others.len() > OTHERS.len() {
            legend.push(REST);
        }
        Self { legend, by_name }
    }

    /// Returns the place of a span's colour in the legend.
    pub fn of(&self, name: &str) -> usize {
        self.by_name.get(name).copied().unwrap_or(self.legend.len().saturating_sub(1))
    }
}
