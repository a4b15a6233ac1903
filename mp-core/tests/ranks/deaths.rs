//! Ranks that are killed during an operation.

use std::time::Duration;

use mp_core::{Cause, Channel, Endpoints, Error, ErrorKind, Rank, Result, Select, World};

use crate::support::{
    Watchdog, on_all,
    scenarios::{self, die},
};

const LONG: Duration = Duration::from_secs(8);

#[test]
fn what_the_dead_had_published_is_delivered() {
    for published in [0, 1, 2, 7] {
        let _watchdog = Watchdog::start();
        let result = World::processes(3).run(|rank| {
            let channel = Channel::degree(7).max_len(3);
            let shared = Endpoints::new([0], [1, 2]);
            match rank.id() {
                0 => {
                    let mut one = rank.sender::<[u64]>("one", 1, channel)?;
                    let mut two = rank.shared_sender::<[u64]>("two", &shared, channel)?;
                    for i in 0..published {
                        one.send(&[i; 3])?;
                        two.send_buffer(rank.buffer_from(&[i; 100])?)?;
                    }
                    // These slots are held and not published, so they are no messages.
                    let (_one, _two) = (one.reserve(3)?, two.reserve(2)?);
                    match die() {}
                }
                1 => {
                    let one = rank.receiver::<[u64]>("one", 0, channel)?;
                    for i in 0..published {
                        ensure!(*one.receive_timeout(LONG)? == [i; 3], "message {i}");
                    }
                    lost(one.receive_timeout(LONG).err())
                }
                _ => {
                    let two = rank.shared_receiver::<[u64]>("two", &shared, channel)?;
                    for i in 0..published {
                        ensure!(*two.receive_timeout(LONG)? == [i; 100], "message {i}");
                    }
                    lost(two.receive_timeout(LONG).err())
                }
            }
        });
        scenarios::check(result, 0).unwrap();
    }
}

fn lost(error: Option<Error>) -> Result<()> {
    ensure!(
        matches!(error.as_ref().map(Error::kind), Some(ErrorKind::PeerLost { rank: 0, .. })),
        "{error:?}"
    );
    Ok(())
}

/// Makes all other ranks begin when rank 0 calls this.
fn begin(rank: &Rank) -> Result<()> {
    if rank.id() > 0 {
        rank.receiver::<u8>("begin", 0, Channel::degree(1))?.receive()?;
        return Ok(());
    }
    for to in 1..rank.size() {
        let mut begin = rank.sender::<u8>("begin", to, Channel::degree(1))?;
        begin.send(&0)?;
    }
    Ok(())
}

/// Rank 0 claims a slot and never fills it. Rank 1 goes on sending to rank 2.
fn pass_over(rank: &Rank, degree: u32, select: bool, leave: impl Fn()) -> Result<()> {
    let endpoints = Endpoints::new([0, 1], [2]);
    let channel = Channel::degree(degree).max_len(2);
    if rank.id() < 2 {
        let mut sender = rank.shared_sender::<[u64]>("queue", &endpoints, channel)?;
        if rank.id() == 0 {
            let slot = sender.reserve(1)?;
            begin(rank)?;
            std::mem::forget(slot);
            leave();
            return Ok(());
        }
        begin(rank)?;
        for i in 0..50 {
            sender.send_with(&[i, i], LONG)?;
        }
        return Ok(());
    }
    let receiver = rank.shared_receiver::<[u64]>("queue", &endpoints, channel)?;
    begin(rank)?;
    for i in 0..50 {
        let message = loop {
            if !select {
                break receiver.receive_timeout(LONG)?;
            }
            let mut select = Select::new();
            select.add(&receiver);
            select.ready_with(LONG)?;
            if let Some(message) = receiver.try_receive()? {
                break message;
            }
        };
        ensure!(*message == [i, i], "{message:?} instead of {i}");
    }
    match receiver.receive_timeout(LONG).map_err(Error::into_kind) {
        Err(ErrorKind::Disconnected { .. } | ErrorKind::PeerLost { rank: 0, .. }) => Ok(()),
        other => Err(Error::other(format!("after the end: {:?}", other.err()))),
    }
}

#[test]
fn a_slot_whose_writer_is_killed_is_passed_over() {
    for degree in [1, 3] {
        for select in [false, true] {
            let _watchdog = Watchdog::start();
            let result =
                World::processes(3).run(|rank| pass_over(rank, degree, select, || match die() {}));
            scenarios::check(result, 0).unwrap();
        }
    }
}

#[test]
fn a_slot_whose_writer_forgot_it_is_passed_over_when_it_has_closed() {
    for degree in [1, 3] {
        for select in [false, true] {
            on_all(3, |rank| pass_over(rank, degree, select, || {}));
        }
    }
}

/// Rank 0 takes a message and never gives its slot back. Rank 1 goes on receiving from rank 2.
fn give_back(rank: &Rank, degree: u32, leave: impl Fn()) -> Result<()> {
    let endpoints = Endpoints::new([2], [0, 1]);
    let channel = Channel::degree(degree).max_len(2);
    match rank.id() {
        0 => {
            let receiver = rank.shared_receiver::<[u64]>("queue", &endpoints, channel)?;
            std::mem::forget(receiver.receive_timeout(LONG)?);
            begin(rank)?;
            leave();
            Ok(())
        }
        1 => {
            begin(rank)?;
            let receiver = rank.shared_receiver::<[u64]>("queue", &endpoints, channel)?;
            for i in 1..50 {
                let message = receiver.receive_timeout(LONG)?;
                ensure!(*message == [i], "{message:?} instead of {i}");
            }
            Ok(())
        }
        _ => {
            let mut sender = rank.shared_sender::<[u64]>("queue", &endpoints, channel)?;
            sender.send(&[0])?;
            begin(rank)?;
            (1..50).try_for_each(|i| sender.send_with(&[i], LONG))
        }
    }
}

#[test]
fn a_slot_whose_reader_is_killed_is_used_again() {
    for degree in [1, 3] {
        let _watchdog = Watchdog::start();
        let result = World::processes(3).run(|rank| give_back(rank, degree, || match die() {}));
        scenarios::check(result, 0).unwrap();
    }
}

#[test]
fn a_slot_whose_reader_forgot_it_is_used_again_when_it_has_closed() {
    for degree in [1, 3] {
        on_all(3, |rank| give_back(rank, degree, || {}));
    }
}

/// A rank dies while it fills a slot, which held a moved buffer before, with elements that look like another one.
#[test]
fn a_half_written_message_is_not_taken_for_a_buffer() {
    let _watchdog = Watchdog::start();
    let result = World::processes(2).run(|rank| {
        let channel = Channel::degree(1).max_len(3);
        let mut to = rank.sender::<u8>("step", 1 - rank.id(), Channel::degree(1))?;
        let from = rank.receiver::<u8>("step", 1 - rank.id(), Channel::degree(1))?;
        if rank.id() == 1 {
            let receiver = rank.receiver::<[u64]>("mixed", 0, channel)?;
            receiver.receive_buffer()?;
            to.send(&0)?;
            from.receive()?;
            // From here on, the channel is freed when rank 0 dies.
            drop(receiver);
            to.send(&0)?;
            return lost(from.receive().err());
        }
        let mut sender = rank.sender::<[u64]>("mixed", 1, channel)?;
        sender.send_buffer(rank.buffer(10)?)?;
        from.receive()?;
        let mut slot = sender.reserve(3)?;
        slot.fill(u64::MAX);
        to.send(&0)?;
        from.receive()?;
        match die() {}
    });
    scenarios::check(result, 0).unwrap();
}

#[test]
fn a_farm_survives_the_death_of_any_of_its_ranks() {
    for seed in 0..16 {
        let _watchdog = Watchdog::start();
        let result = World::processes(scenarios::FARM).run(|rank| scenarios::farm(rank, seed));
        scenarios::check(result, scenarios::farm_victim(seed))
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

#[test]
fn the_heap_survives_the_death_of_who_changes_it() {
    for seed in 0..16 {
        let _watchdog = Watchdog::start();
        let result = World::processes(scenarios::CHURN).run(|rank| scenarios::churn(rank, seed));
        scenarios::check(result, scenarios::churn_victim(seed))
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

#[test]
fn a_crowd_survives_the_death_of_any_of_its_ranks() {
    for seed in 0..12 {
        let _watchdog = Watchdog::start();
        let result = World::processes(scenarios::CROWD).run(|rank| scenarios::crowd(rank, seed));
        scenarios::check(result, scenarios::crowd_victim(seed))
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

/// The ranks that go on have results, however the other ranks ended.
#[test]
fn what_became_of_each_rank_is_returned() {
    let _watchdog = Watchdog::start();
    let code = |rank: &Rank| match rank.id() {
        1 => Err(Error::other("on purpose")),
        2 if rank.memory().in_use > 0 => std::panic::resume_unwind(Box::new("on purpose")),
        id => Ok(10 * id),
    };
    let panicked = Err(Cause::Panic("on purpose".to_owned()));
    let failed = Err(Cause::Error("on purpose".to_owned()));
    let each = World::threads(4).run_each(code).unwrap();
    assert_eq!(each, [Ok(0), failed.clone(), panicked.clone(), Ok(30)]);
    let each = World::processes(4).run_each(code).unwrap();
    assert_eq!(each, [Ok(0), failed, panicked, Ok(30)]);
    let each = World::processes(3).run_each(|rank| match rank.id() {
        1 => match die() {},
        id => Ok(id),
    });
    assert_eq!(each.unwrap(), [Ok(0), Err(Cause::Signal(9)), Ok(2)]);
}
