//! A rank: does the steps of the plan, and tells how they ended.

use std::cell::OnceCell;

use onchip::critical;
use onchip::nonblocking::NonblockingError;
use onchip::{Error, ErrorKind, Rank, Result, communicator};

use crate::content::Wrong;
use crate::life::{LEAVES, Life};
use crate::operations::{self, Work};
use crate::plan::{How, Plan, Start};
use crate::random::Random;
use crate::record::{Record, Told, Verdict, now};

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

/// Returns what an error says, or one of the errors that it is made of.
pub fn told(error: &Error) -> Told {
    let of_world = |error: &Error| match error.kind() {
        ErrorKind::PeerLost { rank, .. } => Some(Told::Lost(*rank)),
        ErrorKind::Disconnected { .. } => Some(Told::Closed),
        ErrorKind::Revoked { .. } => Some(Told::Revoked),
        _ => None,
    };
    let mut next: Option<&(dyn std::error::Error + 'static)> = match error.kind() {
        ErrorKind::Other(other) => Some(&**other),
        _ => None,
    };
    let mut found = of_world(error);
    while let (None, Some(error)) = (&found, next) {
        found = error.downcast_ref().and_then(of_world);
        found = found.or_else(|| match error.downcast_ref::<communicator::Error>()?.kind() {
            communicator::ErrorKind::PeerLost { world_rank, .. } => Some(Told::Lost(*world_rank)),
            communicator::ErrorKind::Ended { .. } | communicator::ErrorKind::NobodyLeft => {
                Some(Told::Closed)
            }
            communicator::ErrorKind::Revoked => Some(Told::Revoked),
            _ => None,
        });
        found = found.or_else(|| match error.downcast_ref::<critical::Error>()?.kind() {
            critical::ErrorKind::Lost { rank, .. } => Some(Told::Lost(*rank)),
            critical::ErrorKind::Unknown { .. } | critical::ErrorKind::Poisoned { .. } => {
                Some(Told::Unknown)
            }
            _ => None,
        });
        // An operation before it has failed.
        found = found.or_else(|| match error.downcast_ref()? {
            NonblockingError::Broken(_) => Some(Told::Closed),
            _ => None,
        });
        next = error.source();
    }
    found.unwrap_or(Told::Other)
}
