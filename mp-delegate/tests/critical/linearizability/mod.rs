//! Linearizability, by recorded histories. Every client records when it called an operation, when the operation
//! returned, and the result. Both times are numbers drawn from one word that all clients share. Then the test looks for
//! an order of all operations that keeps the order of operations which did not overlap, and in which a sequential
//! object would have returned the same results.
//!
//! | file | what it is |
//! |---|---|
//! | `checker` | whether a history has such an order |
//! | `specs` | sequential objects |
//! | `recorder` | histories of clients in all threads of all ranks |
//! | `subjects` | the objects whose histories are recorded |
//! | `broken` | objects that are wrong: whether that is seen |
//!
//! There are many short histories, so that the search is short. Operations are random, and the message of a failure
//! contains the seed.

mod broken;
mod checker;
mod recorder;
mod specs;
mod subjects;

use mp_delegate::critical::{
    Protected, Scheme,
    objects::{Queue, Stack, TwoLockQueue},
};
use onchip_research::nonblocking::{RingQueue, TreiberStack};

use recorder::{Plan, linearizable};
use subjects::{Counter, Map};

/// Each rank has one client.
const RANKS: Plan = Plan { ranks: 3, threads: 1, rounds: 25, most: 5 };
/// Each rank has several clients.
const THREADS: Plan = Plan { ranks: 2, threads: 2, rounds: 25, most: 4 };

/// Returns the schemes with which a rank can have several handles.
fn for_threads() -> Vec<Scheme> {
    let several = |scheme: &Scheme| !matches!(scheme, Scheme::MpServer(_));
    Scheme::ALL.into_iter().filter(several).collect()
}

/// Returns every scheme, with room for so many values.
fn with_room<T: Copy>(schemes: &[T]) -> Vec<(T, usize)> {
    [1, 3].iter().flat_map(|&len| schemes.iter().map(move |&scheme| (scheme, len))).collect()
}

#[test]
fn counters_are_linearizable() {
    linearizable::<Counter>(RANKS, &Scheme::ALL);
    linearizable::<Counter>(THREADS, &for_threads());
}

#[test]
fn maps_are_linearizable() {
    linearizable::<Map>(RANKS, &with_room(&Scheme::ALL));
    linearizable::<Map>(THREADS, &with_room(&for_threads()));
}

#[test]
fn stacks_are_linearizable() {
    linearizable::<Protected<Stack>>(RANKS, &with_room(&Scheme::ALL));
    linearizable::<Protected<Stack>>(THREADS, &with_room(&for_threads()));
}

#[test]
fn queues_are_linearizable() {
    linearizable::<Protected<Queue>>(RANKS, &with_room(&Scheme::ALL));
    linearizable::<Protected<Queue>>(THREADS, &with_room(&for_threads()));
}

#[test]
fn queues_of_two_locks_are_linearizable() {
    let same = |schemes: &[Scheme]| schemes.iter().map(|&s| [s, s]).collect::<Vec<_>>();
    linearizable::<TwoLockQueue>(RANKS, &with_room(&same(&Scheme::ALL)));
    linearizable::<TwoLockQueue>(THREADS, &with_room(&same(&for_threads())));
}

#[test]
fn queues_of_two_different_locks_are_linearizable() {
    let ends = [
        [Scheme::Mcs, Scheme::CcSynch],
        [Scheme::HybComb, Scheme::HybLock],
        [Scheme::SlotServer, Scheme::Clh],
        [Scheme::HSynch, Scheme::MpServer(0)],
    ];
    linearizable::<TwoLockQueue>(RANKS, &with_room(&ends));
}

#[test]
fn what_protects_nothing_is_linearizable() {
    for plan in [RANKS, THREADS] {
        // These operations are short, so it takes more of them until they overlap.
        let plan = Plan { rounds: 80, most: 10, ..plan };
        linearizable::<TreiberStack>(plan, &[1, 2, 5]);
        linearizable::<RingQueue>(plan, &[1, 2, 5].map(|capacity| (capacity, plan.threads)));
    }
}
