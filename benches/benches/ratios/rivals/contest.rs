//! The best of several rivals, each in several settings. The best one depends on how far apart the cores are, so near
//! and far cores have separate winners.

use std::cell::RefCell;
use std::rc::Rc;

use crate::probe::{Distance, probe};
use crate::row::{Sample, Setup, Side, Taken, Trouble, Unit};
use crate::stats::median;

/// The number of tries of each entrant before one is chosen, so that a lucky single run does not decide.
const TRIES: usize = 3;
/// An entrant is not tried again if it took this many times as long as the best one.
const HOPELESS: f64 = 2.0;

/// The result of an entrant in one run.
pub struct Shown {
    /// Nanoseconds. There may be several values, by different ways of timing the same work.
    pub values: Vec<f64>,
    /// The raw probe right before and right after the run, if it was taken.
    pub probes: Option<[f64; 2]>,
}

impl Shown {
    /// Returns the sample by the first way of timing.
    pub fn into_sample(self) -> Sample {
        self.sample(0)
    }

    fn distance(&self) -> Option<Distance> {
        self.probes.and_then(|probes| Distance::of(&probes))
    }

    fn sample(&self, way: usize) -> Sample {
        Sample { value: self.values[way], probes: self.probes, remark: None }
    }
}

type Run = Box<dyn Fn(&Setup) -> Result<Shown, Trouble>>;

/// A rival in one setting.
pub struct Entrant {
    name: String,
    setting: &'static str,
    run: Run,
    shown: Vec<Shown>,
}

impl Entrant {
    pub fn new(
        name: String,
        setting: &'static str,
        run: impl Fn(&Setup) -> Result<Shown, Trouble> + 'static,
    ) -> Entrant {
        Entrant { name, setting, run: Box::new(run), shown: Vec::new() }
    }

    /// Returns the figures at a distance, or all figures if the distance is unknown.
    fn at(&self, distance: Option<Distance>, way: usize) -> Vec<f64> {
        let there = |shown: &&Shown| distance.is_none() || shown.distance() == distance;
        self.shown.iter().filter(there).map(|shown| shown.values[way]).collect()
    }

    fn figure(&self, distance: Option<Distance>, way: usize) -> Option<f64> {
        let values = self.at(distance, way);
        (!values.is_empty()).then(|| median(&values))
    }

    fn take(&mut self, setup: &Setup) -> Result<&Shown, Trouble> {
        let shown = (self.run)(setup).map_err(|trouble| match trouble {
            Trouble::Failed(e) => Trouble::Failed(format!("{}, {}: {e}", self.name, self.setting)),
            absent => absent,
        })?;
        self.shown.push(shown);
        Ok(&self.shown[self.shown.len() - 1])
    }
}

type Gather = Box<dyn Fn() -> Result<Vec<Entrant>, Trouble>>;

/// Rivals that do the same work.
pub struct Contest {
    name: &'static str,
    waits: &'static str,
    gather: Gather,
    by_distance: bool,
    entrants: RefCell<Vec<Entrant>>,
}

impl Contest {
    /// `gather` finds the entrants when the first sample is taken.
    pub fn new(
        name: &'static str,
        waits: &'static str,
        by_distance: bool,
        gather: impl Fn() -> Result<Vec<Entrant>, Trouble> + 'static,
    ) -> Contest {
        let gather = Box::new(gather);
        Contest { name, waits, gather, by_distance, entrants: RefCell::default() }
    }

    /// Returns a side with the best entrant by one way of timing. Rows share the tries.
    pub fn side(contest: &Rc<Contest>, way: usize) -> Side {
        let (name, waits, contest) = (contest.name, contest.waits, contest.clone());
        Side::new(name, waits, move |setup| contest.take(setup, way))
    }

    fn take(&self, setup: &Setup, way: usize) -> Taken {
        let mut entrants = self.entrants.borrow_mut();
        if entrants.is_empty() {
            *entrants = (self.gather)()?;
        }
        let distance = if self.by_distance { Distance::of(&[probe(setup.cpus)]) } else { None };
        // The number of passes is limited, because cores that keep moving would need many. The next sample continues
        // the tries.
        for _ in 0..TRIES {
            try_all(&mut entrants, setup, distance, way)?;
        }
        let best = best(&entrants, distance, way)
            .or_else(|| best(&entrants, None, way))
            .ok_or_else(|| Trouble::Absent("none is installed".into()))?;
        let mut sample = entrants[best].take(setup)?.sample(way);
        sample.remark = Some(self.remark(&entrants, way));
        Ok(sample)
    }

    fn remark(&self, entrants: &[Entrant], way: usize) -> String {
        let distances: &[_] =
            if self.by_distance { &[Some(Distance::Near), Some(Distance::Far)] } else { &[None] };
        let ranked = distances.iter().filter_map(|&distance| {
            let order = ranking(entrants, distance, way);
            let place = distance.map_or("any", Distance::name);
            (!order.is_empty()).then(|| format!("{place}: {order}"))
        });
        ranked.collect::<Vec<_>>().join("\n    ")
    }
}

/// Runs each entrant once that has too few tries to be chosen or given up.
fn try_all(
    entrants: &mut [Entrant],
    setup: &Setup,
    distance: Option<Distance>,
    way: usize,
) -> Result<(), Trouble> {
    for index in 0..entrants.len() {
        let least = best(entrants, distance, way)
            .and_then(|best| entrants[best].figure(distance, way))
            .unwrap_or(f64::INFINITY);
        let entrant = &mut entrants[index];
        let hopeless =
            entrant.figure(distance, way).is_some_and(|figure| figure > HOPELESS * least);
        if !hopeless && entrant.at(distance, way).len() < TRIES {
            entrant.take(setup)?;
        }
    }
    Ok(())
}

fn best(entrants: &[Entrant], distance: Option<Distance>, way: usize) -> Option<usize> {
    order(entrants, distance, way).first().map(|&(index, _)| index)
}

/// Returns the entrants that have a figure, the best first.
fn order(entrants: &[Entrant], distance: Option<Distance>, way: usize) -> Vec<(usize, f64)> {
    let figures = entrants.iter().enumerate();
    let mut order: Vec<(usize, f64)> = figures
        .filter_map(|(index, entrant)| Some((index, entrant.figure(distance, way)?)))
        .collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    order
}

/// Returns every rival in its best setting.
fn ranking(entrants: &[Entrant], distance: Option<Distance>, way: usize) -> String {
    let mut named: Vec<&str> = Vec::new();
    let mut shown = Vec::new();
    for (index, figure) in order(entrants, distance, way) {
        let Entrant { name, setting, .. } = &entrants[index];
        if !named.contains(&name.as_str()) {
            named.push(name);
            shown.push(format!("{name} \"{setting}\" {}", Unit::Nanoseconds.show(figure)));
        }
    }
    shown.join(", ")
}
