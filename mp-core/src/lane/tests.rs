//! A lane without a thread behind it.

use std::sync::Arc;

use super::{Bell, Gauge, Outgoing, Progress, Submitted};
use crate::{Channel, Parties, World};

/// A lane is used again after more messages than 32 bits can count.
#[test]
fn positions_far_apart() {
    let rank = World::solo().unwrap();
    let to_itself = Parties::new([0], [0]);
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
