//! Tests of which rank may take the heap's lock over from which.

use std::{sync::mpsc::channel, thread, time::Duration};

use super::*;
use crate::context::RankState;

/// A rank that has panicked still holds the lock while it removes itself from its channels.
#[test]
fn the_lock_of_a_lost_rank_that_still_runs_is_not_taken_over() {
    let world = world(memfd(1 << 20), 2);
    let (lost, other) = (world.as_rank(0), world.as_rank(1));
    let held = lost.lock_heap().unwrap();
    world.rank(0).unwrap().set_state(RankState::Lost);
    let (tell, told) = channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            drop(other.lock_heap().unwrap());
            tell.send(()).unwrap();
        });
        assert!(told.recv_timeout(Duration::from_millis(100)).is_err(), "two hold the lock");
        drop(held);
        told.recv_timeout(Duration::from_secs(30)).expect("the lock was given back");
    });
}

#[test]
fn the_lock_of_a_process_that_ended_is_taken_over() {
    let world = world(memfd(1 << 20), 2);
    std::mem::forget(world.as_rank(0).lock_heap().unwrap());
    // The rank's code had returned before, so the rank is not lost, but dead.
    world.rank(0).unwrap().set_state(RankState::Finished);
    world.rank(0).unwrap().set_dead();
    drop(world.as_rank(1).lock_heap().unwrap());
    drop(world.lock_heap().unwrap());
}

#[test]
fn a_lock_held_by_no_rank_there_is_is_taken_over() {
    let world = world(memfd(1 << 20), 2);
    for nobody in [3, 77, u32::MAX - 1] {
        std::mem::forget(world.segment.heap().lock(nobody, |_| false).unwrap());
        drop(world.as_rank(1).lock_heap().unwrap());
    }
}
