use super::*;

fn ns(nanos: u64) -> Time {
    Time::from_nanos(nanos)
}

/// Makes an access, and tries it again as long as the line is busy.
fn done(memory: &mut Memory, core: usize, line: usize, access: Access, since: Time) -> Done {
    let mut now = since;
    loop {
        match memory.access(core, line, access, since, now) {
            Ok(done) => return done,
            Err(Busy(until)) => now = until,
        }
    }
}

/// Makes accesses at their times. Returns how long each takes in ns.
fn take(memory: &mut Memory, accesses: &[(usize, usize, Access, u64)]) -> Vec<f64> {
    let take = |&(core, line, access, now): &(usize, usize, Access, u64)| {
        (done(memory, core, line, access, ns(now)).at - ns(now)).as_nanos()
    };
    accesses.iter().map(take).collect()
}

use Access::{Change, Load, Store, Stream};

/// R_I, R_R and R_L; an upgrade; sharers that are told one by one; another socket.
#[test]
fn an_access_costs_what_its_lines_state_says() {
    let mut memory = Memory::new(Chip::sandy_bridge(16).unwrap(), 8).unwrap();
    let costs = take(
        &mut memory,
        &[
            (0, 0, Load, 0),
            (1, 0, Load, 1000),
            (1, 7, Load, 2000),
            // Core 1 has a copy, and core 0 has another.
            (1, 0, Store, 3000),
            (1, 7, Load, 4000),
            (1, 0, Store, 5000),
            // Core 1 accesses the same line again.
            (1, 0, Load, 6000),
            (0, 0, Load, 7000),
            (2, 0, Load, 8000),
            (3, 0, Load, 9000),
            // Core 1 last had the line alone, and three cores have read it since.
            (4, 0, Store, 10000),
            // The line goes to the other socket, and back.
            (8, 0, Load, 11000),
            (8, 0, Store, 12000),
            (9, 0, Store, 13000),
        ],
    );
    let (near, far) = (35.0, 94.0);
    let expected =
        [70.0, near, 70.0, near, 2.3, 2.3, 0.0, near, near, near, 3.0 * near, far, far, far];
    assert_eq!(costs, expected);
    let counts = memory.counts(1);
    assert_eq!((counts.loads, counts.stores, counts.remote()), (2, 1, 3));
    assert_eq!(counts.stalled, ns(35 + 70 + 35));
    assert_eq!(memory.counts(15), Counts::default());
    // The line's home is in the other socket: rule 4.
    let costs = take(&mut memory, &[(8, 1, Load, 0), (9, 1, Load, 1000), (1, 1, Load, 2000)]);
    assert_eq!(costs, [70.0, near, near]);
}

/// Only one write takes place at a time, but several reads do. With contention, the reads slow each other down.
#[test]
fn accesses_at_the_same_time_wait_for_each_other() {
    let mut memory = Memory::new(Chip::sandy_bridge(4).unwrap(), 1).unwrap();
    let stores = [(0, 0, Store, 0), (1, 0, Store, 0), (2, 0, Load, 10), (3, 0, Load, 20)];
    assert_eq!(take(&mut memory, &stores), [70.0, 105.0, 130.0, 120.0]);
    // A write waits for the reads.
    assert_eq!(take(&mut memory, &[(0, 0, Store, 100)]), [40.0 + 2.0 * 35.0]);

    let mut phi = Memory::new(Chip::xeon_phi(60).unwrap(), 1).unwrap();
    let reads = [(0, 0, Store, 0), (1, 0, Load, 1000), (2, 0, Load, 1000), (3, 0, Load, 1000)];
    let (one, more) = (235.8, 56.2);
    let expected = [277.7, one, one + more, one + 2.0 * more];
    for (cost, expected) in take(&mut phi, &reads).into_iter().zip(expected) {
        assert!((cost - expected).abs() < 1e-9, "{cost} instead of {expected}");
    }
    // A directory tells all sharers at once.
    assert_eq!(take(&mut phi, &[(4, 0, Store, 5000)]), [one]);
}

#[test]
fn streaming_stores_are_not_waited_for_as_long_as_there_are_buffers() {
    let chip = Chip { write_buffers: 2, ..Chip::sandy_bridge(2).unwrap() };
    let mut memory = Memory::new(chip, 4).unwrap();
    let stores = [(0, 0, Stream, 0), (0, 1, Stream, 0), (0, 2, Stream, 10), (1, 0, Load, 10)];
    // The third store waits for the first. The core that reads the first line waits as well, and gets it from memory.
    assert_eq!(take(&mut memory, &stores), [2.3, 2.3, 62.3, 130.0]);
    assert_eq!((memory.counts(0).streamed, memory.counts(0).remote()), (3, 0));
    assert_eq!(memory.counts(0).stalled, ns(60));
    // The streaming store takes copies away.
    memory.watch(1, 0);
    assert_eq!(take(&mut memory, &[(0, 0, Stream, 500)]), [2.3]);
    assert_eq!(memory.woken().collect::<Vec<_>>(), [(1, ns(570))]);
    assert_eq!(take(&mut memory, &[(1, 0, Load, 500)]), [140.0]);
}

#[test]
fn messages_stall_nobody() {
    let chip = Chip::sandy_bridge(2).unwrap().with_messages();
    let mut memory = Memory::new(chip, 2).unwrap();
    memory.pass_messages(0, Some(1));
    let sent = done(&mut memory, 0, 0, Store, ns(100));
    assert_eq!(sent.at.as_nanos(), 102.3);
    assert_eq!(sent.arrives.map(Time::as_nanos), Some(137.3));
    // The next word of the same message.
    let next = done(&mut memory, 0, 0, Store, sent.at);
    assert_eq!((next.at, next.arrives), (sent.at, sent.arrives));
    memory.watch(1, 0);
    let before = memory.version(0);
    memory.deliver(0, ns(138));
    assert_eq!(
        (memory.version(0), memory.woken().collect::<Vec<_>>()),
        (before + 1, vec![(1, ns(138))])
    );
    // The owner has the word locally, to read and to clear it.
    let own = [Load, Store].map(|access| done(&mut memory, 1, 0, access, ns(200)));
    assert_eq!(own.map(|done| (done.at - ns(200)).as_nanos()), [2.3, 0.0]);
    assert_eq!(own.map(|done| done.arrives), [None, None]);
    assert_eq!([0, 1].map(|core| memory.counts(core).remote()), [0, 0]);
    assert_eq!(memory.counts(0).sent, 2);

    // Without the hardware it is an ordinary line.
    let mut memory = Memory::new(Chip::sandy_bridge(2).unwrap(), 1).unwrap();
    memory.pass_messages(0, None);
    assert_eq!(done(&mut memory, 0, 0, Store, ns(0)), Done { at: ns(70), arrives: None });
}

/// The spinning-prefetching collision (T 7.1.3), and the prefetcher's effect without it.
#[test]
fn lines_are_fetched_ahead_unless_somebody_looks_at_them() {
    let prefetcher = Prefetcher { ahead: 1, reach: 8 };
    let chip = Chip::sandy_bridge(3).unwrap().with_prefetcher(prefetcher);
    let mut memory = Memory::new(chip, 64).unwrap();
    for line in 0..64 {
        done(&mut memory, 1, line, Store, ns(0));
    }
    let mut store = |line: usize, now| {
        let at = done(&mut memory, 0, line, Store, ns(now)).at - ns(now);
        (at.as_nanos(), memory.clone())
    };
    let stores = [(0, 1000), (2, 2000), (4, 3000), (6, 4000)];
    // The fourth line was fetched with the third.
    assert_eq!(stores.map(|(line, now)| store(line, now).0), [35.0, 35.0, 35.0, 2.3]);
    // The next line is on its way, and the core waits for half of that time.
    let (late, mut memory) = store(8, 4010);
    assert_eq!((late, memory.counts(0).late), (25.0 + 2.3, 1));
    assert_eq!((memory.counts(0).stores, memory.counts(0).fetched), (3, 3));
    // Meanwhile another core reads the fetched line, so it must be taken away once more.
    assert_eq!(take(&mut memory, &[(1, 10, Load, 4500), (0, 10, Store, 5000)]), [35.0, 35.0]);
    assert_eq!(memory.counts(0).stores, 4);
}

#[test]
fn who_watches_is_woken_once() {
    let mut memory = Memory::new(Chip::sandy_bridge(3).unwrap(), 2).unwrap();
    take(&mut memory, &[(0, 0, Load, 0), (1, 0, Load, 0), (1, 1, Load, 0)]);
    memory.watch(0, 0);
    memory.watch(1, 0);
    memory.watch(1, 0);
    memory.unwatch(0, 0);
    let before = memory.version(0);
    take(&mut memory, &[(2, 1, Store, 500), (2, 0, Load, 600)]);
    assert_eq!((memory.woken().count(), memory.version(0)), (0, before));
    take(&mut memory, &[(2, 0, Store, 700)]);
    assert_eq!(memory.woken().collect::<Vec<_>>(), [(1, ns(770))]);
    take(&mut memory, &[(2, 0, Store, 800)]);
    assert_eq!((memory.woken().count(), memory.version(0)), (0, before + 1));
}

#[test]
fn chips_that_cannot_be_are_refused() {
    let many = Chip::xeon(257).unwrap();
    let error = Memory::new(many, 1).unwrap_err();
    assert_eq!(error.to_string(), "257 cores: there can be 256");
    assert!(Memory::new(Chip::xeon(256).unwrap(), 0).is_ok());
    let chip = Chip { write_buffers: 0, ..Chip::sandy_bridge(1).unwrap() };
    assert_eq!(chip.check(), Err(ChipError::WriteBuffers));
    let mut chip = Chip::xeon_phi(2).unwrap();
    chip.machine.parameters.near.transfer = Time::ZERO;
    assert!(matches!(chip.check(), Err(ChipError::Costs(_))));
    assert!(Chip::xeon(0).is_err() && Chip::tiles(36).unwrap().check().is_ok());
}

/// A core that adds waits for the way there and back, and the next one only for the addition.
#[test]
fn atomics_at_home_leave_the_line_where_it_is() {
    let mut tiles = Memory::new(Chip::tiles(4).unwrap(), 1).unwrap();
    let costs = take(
        &mut tiles,
        &[
            (0, 0, Change, 0),
            (0, 0, Change, 100),
            (1, 0, Change, 100),
            (2, 0, Load, 200),
            // The copy is taken back first.
            (3, 0, Change, 300),
        ],
    );
    // 49 cycles, 6 of which the next core waits; 2 for each hop to the home, which is core 0; 41 to take the copy back.
    assert_eq!(costs, [40.833, 40.833, 47.499, 39.165, 79.998]);
    assert_eq!([0, 1, 2].map(|core| tiles.counts(core).remote()), [2, 1, 1]);
    let mut others = Memory::new(Chip::sandy_bridge(4).unwrap(), 1).unwrap();
    let costs = take(&mut others, &[(0, 0, Change, 0), (0, 0, Change, 100), (1, 0, Change, 100)]);
    assert_eq!(costs, [70.0, 0.0, 35.0]);
}

/// An access that finds the line busy learns until when, and its wait counts from its beginning.
#[test]
fn a_line_is_busy_until_a_write_is_done() {
    let mut memory = Memory::new(Chip::sandy_bridge(2).unwrap(), 1).unwrap();
    done(&mut memory, 0, 0, Store, ns(0));
    assert_eq!(memory.access(1, 0, Load, ns(20), ns(20)), Err(Busy(ns(70))));
    assert_eq!(memory.counts(1), Counts::default());
    let read = memory.access(1, 0, Load, ns(20), ns(70));
    assert_eq!(read, Ok(Done { at: ns(105), arrives: None }));
    assert_eq!((memory.counts(1).loads, memory.counts(1).stalled), (1, ns(85)));
}

/// On x86, stores are done one after another, and an atomic instruction waits for them.
#[test]
fn a_core_goes_on_while_its_stores_are_done_in_order() {
    let chip = Chip { stores: Stores::InOrder, ..Chip::sandy_bridge(2).unwrap() };
    let mut memory = Memory::new(chip, 40).unwrap();
    let stores = [(0, 0, Store, 0), (0, 1, Store, 0), (0, 0, Load, 10), (1, 1, Load, 10)];
    // The core sees its own store. The other core sees the second one after both are done.
    assert_eq!(take(&mut memory, &stores), [2.3, 2.3, 2.3, 130.0 + 35.0]);
    assert_eq!((memory.counts(0).stores, memory.counts(0).stalled), (2, Time::ZERO));
    assert_eq!(memory.access(0, 2, Change, ns(20), ns(20)), Err(Busy(ns(140))));
    assert_eq!(memory.fence(0, ns(20)), ns(20), "x86 needs no fence");
    // When the store buffer is full, the core waits for the first store.
    let waits: Vec<_> =
        (3..40).map(|line| done(&mut memory, 1, line, Store, ns(1000)).at).collect();
    assert_eq!(waits[31], ns(1000) + Time::from_picos(2300));
    assert_eq!(waits[32], ns(1070) + Time::from_picos(2300));
}

/// On tiles, stores are done at the same time, and a fence waits for all.
#[test]
fn a_fence_waits_for_stores_in_any_order() {
    let mut tiles = Memory::new(Chip::tiles(4).unwrap(), 8).unwrap();
    let store = |memory: &mut Memory, now| done(memory, 0, 0, Store, ns(now)).at - ns(now);
    let local = Time::from_picos(1666);
    assert_eq!(store(&mut tiles, 0), local);
    // The first store brings the line from memory: 116 cycles.
    assert_eq!(tiles.fence(0, ns(10)).as_nanos(), 96.666);
    // The core has the line alone, but the home must know: 55 cycles.
    assert_eq!(store(&mut tiles, 200), Time::ZERO);
    assert_eq!(tiles.fence(0, ns(200)).as_nanos(), 245.833);
    assert_eq!(tiles.fence(0, ns(300)), ns(300));
}

/// T 7.2.2: a streaming store takes about three times as long if another core spins on the line.
#[test]
fn whoever_polls_a_line_obstructs_a_streaming_store() {
    let chip = Chip { obstruction: 3, ..Chip::sandy_bridge(2).unwrap() };
    let mut memory = Memory::new(chip, 1).unwrap();
    take(&mut memory, &[(1, 0, Load, 0), (0, 0, Stream, 100)]);
    assert_eq!(take(&mut memory, &[(1, 0, Load, 110)]), [60.0 + 70.0]);
    memory.watch(1, 0);
    take(&mut memory, &[(0, 0, Stream, 500)]);
    assert_eq!(memory.woken().collect::<Vec<_>>(), [(1, ns(500 + 3 * 70))]);
}

/// Lines of one socket's memory wait for each other.
#[test]
fn a_home_answers_one_after_another() {
    let chip = Chip { home_busy: ns(10), ..Chip::sandy_bridge(16).unwrap() };
    let mut memory = Memory::new(chip, 3).unwrap();
    memory.place(2, 8);
    let loads = [(0, 0, Load, 0), (1, 1, Load, 0), (2, 2, Load, 0)];
    assert_eq!(take(&mut memory, &loads), [70.0, 80.0, 70.0]);
}

/// A socket whose cache has the line answers, wherever the line's memory is.
#[test]
fn an_inclusive_cache_answers_within_its_socket() {
    for (inclusive, expected) in [(true, 35.0), (false, 94.0)] {
        let chip = Chip { inclusive, home_busy: ns(500), ..Chip::sandy_bridge(16).unwrap() };
        let mut memory = Memory::new(chip, 2).unwrap();
        memory.place(0, 8);
        take(&mut memory, &[(0, 0, Store, 0)]);
        assert_eq!(take(&mut memory, &[(1, 0, Load, 1000)]), [expected]);
        // The home is busy only if it was asked.
        memory.place(1, 8);
        let waits = if inclusive { 0.0 } else { 500.0 - 1.0 };
        assert_eq!(take(&mut memory, &[(9, 1, Load, 1001)]), [waits + 70.0]);
    }
}

#[test]
fn scattered_lines_are_not_fetched_ahead() {
    let chip = Chip::sandy_bridge(1).unwrap().with_prefetcher(Prefetcher { ahead: 1, reach: 8 });
    let mut memory = Memory::new(chip, 8).unwrap();
    memory.scatter(3);
    take(&mut memory, &[(0, 0, Load, 0), (0, 1, Load, 100), (0, 2, Load, 200)]);
    assert_eq!(memory.counts(0).fetched, 0);
    assert_eq!(take(&mut memory, &[(0, 3, Load, 300), (0, 4, Load, 500)]), [70.0, 2.3]);
}
