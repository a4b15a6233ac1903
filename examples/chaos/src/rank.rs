//! A rank: does the steps of the plan, and tells how they ended.

use std::cell::OnceCell;

use onchip::{Error, ErrorKind, Rank, Result};

use crate::content::Wrong;
use crate::life::{LEAVES, Life};
use crate::operations::{self, Work};
use crate::plan::{How, Plan, Start};
use crate::random::Random;
use crate::record::{Record, Verdict, now};
use crate::told::told;

/// The code of every rank.
///
/// # Errors
/// The error of an operation.
pub fn run(rank: &Rank, plan: &Plan, life: &Life) -> Result<()> {
    Record::Started { rank: rank.id(), at: now() }.tell();
    let ended = steps(rank, plan, life);
    let at = now();
    let verdict = match &ended {
        Ok(()) => Verdict::Done,
        Err((step, error)) => verdict(*step, error),
    };
    Record::Ended { rank: rank.id(), verdict, at }.tell();
    if plan.start == Start::Run {
        life.last()?;
    }
    ended.map_err(|(_, error)| error)
}

fn steps(rank: &Rank, plan: &Plan, life: &Life) -> Result<(), (usize, Error)> {
    let world = OnceCell::new();
    for (number, &step) in plan.steps.iter().enumerate() {
        let random = Random::new(step.seed);
        let leaves = plan.injuries.iter().any(|injury| injury.how == How::Leave);
        let work = Work { rank, life, leaves, step: number, random, world: &world };
        operations::run(step, work).map_err(|error| (number, error))?;
    }
    Ok(())
}

fn verdict(step: usize, error: &Error) -> Verdict {
    let text = error.to_string();
    if text == LEAVES {
        return Verdict::Left;
    }
    if let ErrorKind::Other(other) = error.kind()
        && let Some(Wrong(reason)) = other.downcast_ref()
    {
        return Verdict::Wrong { step, reason: reason.clone() };
    }
    Verdict::Failed { step, told: told(error), error: text }
}
