//! Which function performs which job.

use onchip::prelude::*;

use crate::job::Job;
use crate::plan::Operation;
use crate::row::Setup;
use crate::rows;

/// Performs a job in a rank. Each job is a function of its own, never inlined here: what one needs must not change
/// what the compiler makes of another.
pub fn perform(job: Job, rank: &Rank, setup: &Setup) -> onchip::Result<Vec<f64>> {
    match job {
        Job::PingPong(plan) => rows::pingpong::perform(rank, plan),
        Job::Stream8(plan) => rows::stream::perform::<1>(rank, plan),
        Job::Stream56(plan) => rows::stream::perform::<7>(rank, plan),
        Job::LargeSent(plan) => rows::large::sent(rank, plan),
        Job::LargeMoved(plan) => rows::large::moved(rank, plan),
        Job::Untouched(plan) => rows::buffer::perform(rank, plan),
        Job::Park(plan) => rows::park::perform(rank, plan),
        Job::Handled(plan, woken) => rows::park::handled(rank, plan, woken),
        Job::Pairs(plan) => rows::oversubscribed::perform(rank, plan),
        Job::Collective(plan, timing) => match plan.operation {
            Operation::Barrier => rows::barrier::perform(rank, plan, timing),
            Operation::Broadcast => rows::broadcast::perform(rank, plan, timing),
            Operation::Reduce => rows::reduce::reduce(rank, plan, timing),
            Operation::AllReduce => rows::reduce::all_reduce(rank, plan, timing),
            Operation::Scan => rows::reduce::scan(rank, plan, timing),
            Operation::Gather => rows::exchange::gather(rank, plan, timing),
            Operation::Scatter => rows::exchange::scatter(rank, plan, timing),
            Operation::AllGather => rows::exchange::all_gather(rank, plan, timing),
            Operation::AllToAll => rows::exchange::all_to_all(rank, plan, timing),
        },
        Job::BroadcastIdle => rows::broadcast::wait_for_one(rank),
        Job::BarrierIdle => rows::barrier::wait_in_one(rank),
        Job::Tagged(plan) => rows::tagged::pingpong(rank, plan),
        Job::TaggedRate(plan) => rows::tagged::rate(rank, plan),
        Job::Request(life) => rows::request::perform(rank, life),
        Job::Requests(plan) => rows::requests::all(rank, plan),
        Job::Any(plan) => rows::requests::any(rank, plan),
        Job::Critical(plan) => rows::critical::perform(rank, plan),
        Job::Delegate(plan) => rows::delegate::cost::calls(rank, setup, plan),
        Job::Delegated(plan) => rows::delegate::cost::messages(rank, setup, plan),
        Job::Overlap(plan) => rows::delegate::overlap::perform(rank, setup, plan),
        Job::Emit(plan) => rows::delegate::emitter::perform(rank, setup, plan),
        Job::Idle => rows::idle::perform(rank),
        Job::Kill => rows::kill::perform(rank),
        Job::Nothing => Ok(Vec::new()),
    }
}
