//! The calls of ranks that must all make the same call, and descriptions of how their calls differ.

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Serialize};

use super::ElementType;
use crate::Plain;

/// A call that all ranks of a communicator must make together, with everything that must be the same. `Joint::check` of
/// communicators compares these calls.
///
/// ```
/// use onchip::communicator::Call;
///
/// let call = Call::new("reduce").root(0).elements::<f64>(4).operation("Sum");
/// assert_eq!(call.to_string(), "reduce of 4 f64 with Sum and root 0");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Call {
    /// The operation's name.
    pub name: Cow<'static, str>,
    /// The root, if the operation has one.
    pub root: Option<usize>,
    /// The number of elements.
    pub count: Option<usize>,
    /// The type of the elements.
    pub element: Option<ElementType>,
    /// The operation that combines the elements.
    pub operation: Option<Cow<'static, str>>,
    /// The settings of the operation.
    pub settings: Cow<'static, str>,
}

impl Call {
    /// Makes a call of the operation with this name.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name: Cow::Borrowed(name),
            root: None,
            count: None,
            element: None,
            operation: None,
            settings: Cow::Borrowed(""),
        }
    }

    /// Sets the root.
    pub fn root(mut self, root: usize) -> Self {
        self.root = Some(root);
        self
    }

    /// Sets the type of the elements, where each rank may have another number of them.
    pub fn of<T: Plain>(mut self) -> Self {
        self.element = Some(ElementType::of::<T>());
        self
    }

    /// Sets the type of the elements, by its name and size.
    pub fn of_named(mut self, name: impl Into<String>, size: usize) -> Self {
        self.element = Some(ElementType::new(name, size, size));
        self
    }

    /// Sets the type and number of the elements.
    pub fn elements<T: Plain>(mut self, count: usize) -> Self {
        self.count = Some(count);
        self.of::<T>()
    }

    /// Sets the operation that combines the elements.
    pub fn operation(mut self, operation: impl Into<Cow<'static, str>>) -> Self {
        self.operation = Some(operation.into());
        self
    }

    /// Sets the settings of the operation. They are shown only if calls differ in nothing else.
    pub fn settings(mut self, settings: impl Into<Cow<'static, str>>) -> Self {
        self.settings = settings.into();
        self
    }
}

impl fmt::Display for Call {
    /// With `{:#}`, also writes the settings and the element's size.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, root, count, element, operation, settings } = self;
        f.write_str(name)?;
        let kind = |element: &ElementType| match f.alternate() {
            true => element.to_string(),
            false => element.name.clone(),
        };
        match (count, element) {
            (Some(count), Some(element)) => write!(f, " of {count} {}", kind(element))?,
            (None, Some(element)) => write!(f, " of {}", kind(element))?,
            (Some(count), None) => write!(f, " of {count}")?,
            (None, None) => {}
        }
        let mut joint = [" with ", " and "].into_iter().cycle();
        if let Some(operation) = operation {
            write!(f, "{}{operation}", joint.next().unwrap_or_default())?;
        }
        if let Some(root) = root {
            write!(f, "{}root {root}", joint.next().unwrap_or_default())?;
        }
        if f.alternate() && !settings.is_empty() {
            write!(f, ", by {settings}")?;
        }
        Ok(())
    }
}

/// Ranks that made the same call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callers {
    /// The call that they made.
    pub call: Call,
    /// The ranks, in ascending order.
    pub ranks: Vec<usize>,
}

/// The calls of the ranks of a communicator, if they were not the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calls {
    /// The groups, the largest first. Groups of the same size are in the order of their lowest ranks.
    groups: Vec<Callers>,
}

impl Calls {
    /// Makes the calls from groups of ranks, as far as their calls are known. The caller puts the largest group first.
    pub fn of(groups: Vec<Callers>) -> Self {
        Self { groups }
    }

    /// Makes the calls from the call of each rank.
    pub fn new(calls: Vec<Call>) -> Self {
        let mut groups: Vec<Callers> = Vec::new();
        for (rank, call) in calls.into_iter().enumerate() {
            match groups.iter_mut().find(|group| group.call == call) {
                Some(group) => group.ranks.push(rank),
                None => groups.push(Callers { call, ranks: vec![rank] }),
            }
        }
        // The sort is stable, so among groups of the same size, the one with the lowest rank stays in front.
        groups.sort_by_key(|group| std::cmp::Reverse(group.ranks.len()));
        Self { groups }
    }

    /// Returns the groups of ranks that made the same call, the largest first.
    pub fn groups(&self) -> &[Callers] {
        &self.groups
    }

    /// Returns the groups whose call differs from that of more than half of the ranks. Returns none if no call was made
    /// by more than half of them.
    pub fn odd(&self) -> &[Callers] {
        let ranks: usize = self.groups.iter().map(|group| group.ranks.len()).sum();
        match self.groups.split_first() {
            Some((most, others)) if 2 * most.ranks.len() > ranks => others,
            _ => &[],
        }
    }
}

impl fmt::Display for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short: Vec<String> = self.groups.iter().map(|group| group.call.to_string()).collect();
        let distinct = (1..short.len()).all(|place| !short[..place].contains(&short[place]));
        let told = |group: &Callers| match distinct {
            true => group.call.to_string(),
            false => format!("{:#}", group.call),
        };
        let odd = self.odd();
        let listed = if odd.is_empty() { &self.groups[..] } else { odd };
        for (place, group) in listed.iter().enumerate() {
            let joint = if place == 0 { "" } else { ", " };
            write!(f, "{joint}{} called {}", named(&group.ranks), told(group))?;
        }
        match self.groups.first() {
            Some(most) if !odd.is_empty() => match &most.ranks[..] {
                [one] => write!(f, "; rank {one} called {}", told(most)),
                _ => write!(f, "; the others called {}", told(most)),
            },
            _ => Ok(()),
        }
    }
}

fn named(ranks: &[usize]) -> String {
    match ranks {
        [one] => format!("rank {one}"),
        [first @ .., last] => {
            let first: Vec<String> = first.iter().map(usize::to_string).collect();
            format!("ranks {} and {last}", first.join(", "))
        }
        [] => "nobody".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broadcast() -> Call {
        Call::new("broadcast").elements::<f64>(4).root(0)
    }

    #[test]
    fn who_differs_from_most_is_named() {
        let reduce = Call::new("reduce").elements::<f64>(4).operation("Sum").root(0);
        let calls = Calls::new(vec![broadcast(), broadcast(), reduce.clone(), broadcast()]);
        assert_eq!(calls.odd(), [Callers { call: reduce, ranks: vec![2] }]);
        assert_eq!(
            calls.to_string(),
            "rank 2 called reduce of 4 f64 with Sum and root 0; \
             the others called broadcast of 4 f64 with root 0"
        );
    }

    #[test]
    fn with_no_majority_all_are_named() {
        let barrier = || Call::new("barrier");
        let calls = Calls::new(vec![barrier(), broadcast(), broadcast(), barrier()]);
        assert_eq!(calls.odd(), []);
        assert_eq!(
            calls.to_string(),
            "ranks 0 and 3 called barrier, ranks 1 and 2 called broadcast of 4 f64 with root 0"
        );
        let calls = Calls::new(vec![barrier(), Call::new("split")]);
        assert_eq!(calls.to_string(), "rank 0 called barrier, rank 1 called split");
        // Two groups that each differ from the rest.
        let calls = [barrier(), barrier(), barrier(), broadcast(), broadcast().root(1)];
        assert_eq!(
            Calls::new(calls.to_vec()).to_string(),
            "rank 3 called broadcast of 4 f64 with root 0, \
             rank 4 called broadcast of 4 f64 with root 1; the others called barrier"
        );
    }

    #[test]
    fn settings_are_shown_where_nothing_else_differs() {
        let calls =
            Calls::new(vec![broadcast().settings("lines"), broadcast(), broadcast()]).to_string();
        assert!(calls.starts_with("rank 0 called broadcast of 4 f64 (8 bytes"), "{calls}");
        assert!(calls.contains("with root 0, by lines;"), "{calls}");
    }
}
