//! Tests of lanes without a serving thread behind them.

use std::sync::Arc;

use super::{Bell, Gauge, Outgoing, Progress, Submitted};
use crate::{
    Channel, Endpoints, Rank, WaitPolicy, World,
    context::Context,
    segment::Segment,
    sync::Ordering,
    wait::{Asymmetry, LineWait, Waiting},
    world::bury,
};

/// A lane is used again after more messages than 32 bits can count have been sent in other ways.
#[test]
fn positions_far_apart() {
    let rank = World::solo().unwrap();
    let to_itself = Endpoints::new([0], [0]);
    let channel = Channel::degree(2);
    let from = rank.shared_receiver::<u64>("far", &to_itself, channel).unwrap();
    let sender = rank.shared_sender::<u64>("far", &to_itself, channel).unwrap();
    let mut outgoing = Outgoing::new(sender);
    let (bell, gauge) = (Arc::new(Bell::new()), Arc::new(Gauge::new()));
    let mut lane = outgoing.add_lane(&bell, &gauge);
    for (n, gap) in (0..).zip([0, 5, 1 << 31, (1 << 31) - 1, (1 << 32) + 7, 1 << 40, 0]) {
        outgoing.skip(gap);
        let Submitted::Pending(pending) = outgoing.submit(0, n) else { panic!("not delegated") };
        assert_eq!(lane.serve(), Progress::Worked, "after {gap}");
        assert_eq!(*from.receive().unwrap(), n);
        assert_eq!(pending.take().expect("it is done").unwrap(), n);
    }
    drop(lane);
}

/// Makes a world of two ranks that leave one core free.
fn world() -> Context {
    let segment = Segment::on_heap(1 << 20, false, 0).unwrap();
    let (policy, line_wait) = (WaitPolicy::Park, LineWait::Pause);
    let waiting = Waiting { policy, asymmetry: Asymmetry::Ordinary, line_wait, spare: 1 };
    let launcher = Context::create(Arc::new(segment), (2, 2), true, waiting).unwrap();
    assert!(launcher.rank(0).unwrap().claim() && launcher.rank(1).unwrap().claim());
    launcher
}

fn outgoing(world: &Context, from: u32, name: &str) -> Outgoing<u64> {
    let rank = Rank::new(Arc::new(world.as_rank(from)));
    Outgoing::new(rank.sender(name, 1 - from as usize, Channel::degree(1)).unwrap())
}

/// A thread counts once for each world, however many lanes and ranks of it the thread serves.
#[test]
fn a_thread_at_work_wants_a_core() {
    let (world, other) = (world(), world());
    let helpers = |world: &Context| world.world().unwrap().helpers.load(Ordering::Relaxed);
    let (bell, gauge) = (Arc::new(Bell::new()), Arc::new(Gauge::new()));
    let mut ends = [
        outgoing(&world, 0, "a"),
        outgoing(&world, 0, "b"),
        outgoing(&world, 1, "c"),
        outgoing(&other, 0, "d"),
    ];
    let mut lanes: Vec<_> = ends.iter_mut().map(|end| end.add_lane(&bell, &gauge)).collect();
    assert_eq!((helpers(&world), helpers(&other)), (0, 0), "nobody serves them yet");
    bell.attend(&lanes[..1], &[]);
    bell.attend(&lanes, &[]);
    assert_eq!((helpers(&world), helpers(&other)), (1, 1));
    assert!(!world.crowded(), "three threads, three cores");
    let second = Bell::new();
    second.attend(&lanes, &[]);
    assert!(world.crowded() && world.as_rank(1).crowded(), "four threads, three cores");
    second.rest();
    second.rest();
    assert_eq!((helpers(&world), helpers(&other)), (1, 1));

    // A sleeping thread needs no core.
    std::thread::scope(|scope| {
        let sleeping = scope.spawn(|| bell.wait(WaitPolicy::Park, &mut lanes, &[]));
        let slept = (0..10_000).any(|_| {
            std::thread::sleep(std::time::Duration::from_micros(500));
            helpers(&world) == 0
        });
        bell.ring();
        sleeping.join().unwrap();
        assert!(slept, "it did not sleep");
    });
    assert_eq!((helpers(&world), helpers(&other)), (1, 1), "it is awake again");
    bell.rest();
    assert_eq!((helpers(&world), helpers(&other)), (0, 0));
    drop(lanes);
}

#[test]
fn a_dead_ranks_threads_want_no_core() {
    let world = world();
    let bells = [Bell::new(), Bell::new()];
    let (bell, gauge) = (Arc::new(Bell::new()), Arc::new(Gauge::new()));
    let mut end = outgoing(&world, 0, "a");
    let lane = [end.add_lane(&bell, &gauge)];
    bells.iter().for_each(|bell| bell.attend(&lane, &[]));
    assert!(world.crowded());
    // A process that is killed runs no destructors.
    std::mem::forget((bells, lane, end));
    bury(&world, 0).unwrap();
    assert_eq!(world.world().unwrap().helpers.load(Ordering::Relaxed), 0);
    assert!(!world.crowded());
}
