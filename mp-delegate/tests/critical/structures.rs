//! Counter, stack and queues, compared with the same objects in a single thread, with any number of ranks, and with
//! little or no room.

use mp_core::{Error, ErrorKind, Rank, Result, World};
use mp_delegate::critical::{
    Protected, Scheme, Section, Server,
    objects::{Counter, Dequeuers, Enqueuers, Full, Op, Queue, Stack, TwoLockQueue},
};
use onchip_research::nonblocking::{RingQueue, TreiberStack};

use crate::{
    objects::{expect, users},
    support::{
        Random, SIZES, Together, Watchdog, on_all, run_on_all_with,
        scenarios::{self, die},
    },
};

/// A stack or a queue.
trait Through: Send {
    fn put(&mut self, value: u64) -> Result<Result<(), Full>>;
    fn take(&mut self) -> Result<Option<u64>>;
}

macro_rules! through {
    ($object:ty, $put:ident, $take:ident) => {
        impl Through for $object {
            fn put(&mut self, value: u64) -> Result<Result<(), Full>> {
                self.$put(value)
            }

            fn take(&mut self) -> Result<Option<u64>> {
                self.$take()
            }
        }
    };
}

through!(Protected<Stack>, push, pop);
through!(Protected<Queue>, enqueue, dequeue);
through!(TwoLockQueue, enqueue, dequeue);
through!(TreiberStack, push, pop);
through!(RingQueue, enqueue, dequeue);

/// Executes random operations of one client, and checks their results.
fn behaves(
    object: &mut dyn Through,
    capacity: usize,
    last_first: bool,
    operations: usize,
) -> Result<()> {
    let mut values = std::collections::VecDeque::new();
    let mut random = Random::new(capacity as u64);
    for number in 0..operations as u64 {
        // More values are put in for a while, and then more are taken out, so that the object is full and empty again
        // and again.
        let fills = (number / (2 * capacity as u64 + 8)).is_multiple_of(2);
        if random.below(4) > u64::from(!fills) * 2 {
            // The values use all 64 bits.
            let value = random.next();
            let room = values.len() < capacity;
            expect(object.put(value)?, if room { Ok(()) } else { Err(Full(value)) })?;
            if room {
                values.push_back(value);
            }
        } else {
            let wanted = if last_first { values.pop_back() } else { values.pop_front() };
            expect(object.take()?, wanted)?;
        }
    }
    Ok(())
}

/// Only the last rank uses the object. If rank 0 has to serve, it does.
fn alone<T>(
    rank: &Rank,
    object: T,
    scheme: Scheme,
    serve: impl FnOnce(T, &mut Server) -> mp_core::Result<()>,
    use_it: impl FnOnce(T) -> Result<()>,
) -> Result<()> {
    if scheme.needs_server() && rank.id() == 0 {
        let mut server = Server::new();
        serve(object, &mut server)?;
        return server.serve();
    }
    if rank.id() + 1 == rank.size() {
        return use_it(object);
    }
    Ok(())
}

#[test]
fn one_client_finds_what_it_put() {
    on_all(2, |rank| {
        for scheme in Scheme::ALL {
            for capacity in [0, 1, 2, 3, 7, 64] {
                let section = Section::new(scheme).len(capacity);
                let stack = Stack::open(rank, "stack", section)?;
                let add = |stack, server: &mut Server| server.add(stack);
                alone(rank, stack, scheme, add, |mut s| behaves(&mut s, capacity, true, 300))?;
                let queue = Queue::open(rank, "queue", section)?;
                let add = |queue, server: &mut Server| server.add(queue);
                alone(rank, queue, scheme, add, |mut q| behaves(&mut q, capacity, false, 300))?;
                let queue = TwoLockQueue::open(rank, "ends", section)?;
                let serve = TwoLockQueue::serve;
                alone(rank, queue, scheme, serve, |mut q| behaves(&mut q, capacity, false, 300))?;
            }
        }
        Ok(())
    });
}

#[test]
fn one_client_finds_what_it_put_where_nothing_is_protected() {
    let rank = World::solo().unwrap();
    for capacity in [1, 2, 3, 4, 5, 7, 8, 9, 31, 100] {
        for handles in [1, 3] {
            let mut stack = TreiberStack::open(&rank, "stack", capacity, handles).unwrap();
            behaves(&mut stack, capacity, true, 2000).unwrap();
            let mut queue = RingQueue::open(&rank, "queue", capacity, handles).unwrap();
            assert_eq!(queue.most(), capacity + handles - 1);
            let most = queue.most();
            behaves(&mut queue, most, false, 2000).unwrap();
        }
    }
}

/// Each user puts in `times` values, which contain its number and their order, and takes out as many. Returns the
/// values that it took.
fn exchange(object: &mut dyn Through, me: usize, times: u64) -> Result<Vec<u64>> {
    let mut taken = Vec::new();
    let mut next = 0;
    while next < times || (taken.len() as u64) < times {
        let before = (next, taken.len());
        if next < times && object.put((me as u64) << 32 | next)?.is_ok() {
            next += 1;
        }
        if (taken.len() as u64) < times {
            taken.extend(object.take()?);
        }
        if before == (next, taken.len()) {
            std::thread::yield_now();
        }
    }
    Ok(taken)
}

/// Checks that no value is lost or returned twice, and that a queue keeps the order of each rank's values.
fn nothing_is_lost(what: &str, taken: &[Vec<u64>], first: usize, times: u64, in_order: bool) {
    let users = first as u64..(taken.len()) as u64;
    let mut all = taken.concat();
    all.sort_unstable();
    let wanted: Vec<u64> =
        users.clone().flat_map(|user| (0..times).map(move |at| user << 32 | at)).collect();
    assert_eq!(all, wanted, "{what}");
    for own in taken {
        for user in users.clone() {
            let of_user = own.iter().filter(|&&value| value >> 32 == user);
            assert!(!in_order || of_user.is_sorted_by(|a, b| a < b), "{what}: {own:?}");
        }
    }
}

const KINDS: [&str; 5] = ["stack", "queue", "queue of two locks", "Treiber's stack", "ring"];

#[test]
fn any_number_of_ranks_exchanges_values() {
    const TIMES: u64 = 15;
    for ranks in SIZES {
        // One place for all ranks, or a few.
        for capacity in [1, 5] {
            let schemes: Vec<_> =
                Scheme::ALL.into_iter().filter(|s| users(*s, ranks) > 0).collect();
            let schemes = &schemes;
            let code = |rank: &Rank| {
                let me = rank.id();
                let mut all = Vec::new();
                for &scheme in schemes {
                    let section = Section::new(scheme).len(capacity);
                    let mut stack = Stack::open(rank, "stack", section)?;
                    let mut queue = Queue::open(rank, "queue", section)?;
                    let mut ends = TwoLockQueue::open(rank, "ends", section)?;
                    if scheme.needs_server() && me == 0 {
                        let mut server = Server::new();
                        server.add(stack)?;
                        server.add(queue)?;
                        ends.serve(&mut server)?;
                        server.serve()?;
                        all.extend([Vec::new(), Vec::new(), Vec::new()]);
                        continue;
                    }
                    for object in [&mut stack as &mut dyn Through, &mut queue, &mut ends] {
                        all.push(exchange(object, me, TIMES)?);
                    }
                }
                let mut stack = TreiberStack::open(rank, "treiber", capacity, 1)?;
                all.push(exchange(&mut stack, me, TIMES)?);
                let mut queue = RingQueue::open(rank, "ring", capacity, 1)?;
                all.push(exchange(&mut queue, me, TIMES)?);
                Ok(all)
            };
            for (kind, results) in run_on_all_with(ranks, |world| world, code).each() {
                let results = results.unwrap_or_else(|error| panic!("{kind}: {error}"));
                let protected = schemes.iter().flat_map(|&scheme| {
                    let first = ranks - users(scheme, ranks) as usize;
                    (0..3).map(move |at| (format!("{scheme}"), first, at))
                });
                let free = [3, 4].map(|at| ("nothing".to_owned(), 0, at));
                for (at, (scheme, first, object)) in protected.chain(free).enumerate() {
                    let taken: Vec<Vec<u64>> =
                        results.iter().map(|rank| rank[at].clone()).collect();
                    let what = format!("{}, {scheme}, {ranks} {kind}", KINDS[object]);
                    let in_order = matches!(object, 1 | 2 | 4);
                    nothing_is_lost(&what, &taken, first, TIMES, in_order);
                }
            }
        }
    }
}

/// More threads than seats, in each of two ranks.
#[test]
fn threads_of_a_rank_exchange_values() {
    const TIMES: u64 = 100;
    const THREADS: usize = 3;
    fn all(rank: &Rank, handles: Vec<Box<dyn Through>>) -> Result<Vec<Vec<u64>>> {
        std::thread::scope(|scope| {
            let first = rank.id() * THREADS;
            let run = |(at, mut object): (usize, Box<dyn Through>)| {
                scope.spawn(move || exchange(&mut *object, first + at, TIMES))
            };
            let threads: Vec<_> = handles.into_iter().enumerate().map(run).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        })
    }
    let _watchdog = Watchdog::start();
    for scheme in [Scheme::Tas, Scheme::HybLock, Scheme::CcSynch, Scheme::HybComb] {
        let taken = World::threads(2).run(|rank| {
            let queue = TwoLockQueue::open(rank, "queue", Section::new(scheme).len(3).seats(2))?;
            let others = (1..THREADS).map(|_| queue.another()).collect::<Result<Vec<_>, _>>()?;
            let handles = std::iter::once(queue).chain(others);
            all(rank, handles.map(|queue| Box::new(queue) as Box<dyn Through>).collect())
        });
        nothing_is_lost(&format!("{scheme}"), &taken.unwrap().concat(), 0, TIMES, true);
    }
    let taken = World::threads(2).run(|rank| {
        let stack = TreiberStack::open(rank, "stack", 3, THREADS)?;
        let others = (1..THREADS).map(|_| stack.another()).collect::<Result<Vec<_>, _>>()?;
        expect(
            matches!(
                stack.another().as_ref().map_err(Error::kind),
                Err(ErrorKind::BadObject { .. })
            ),
            true,
        )?;
        let handles = std::iter::once(stack).chain(others);
        all(rank, handles.map(|stack| Box::new(stack) as Box<dyn Through>).collect())
    });
    nothing_is_lost("Treiber's stack", &taken.unwrap().concat(), 0, TIMES, false);
    let taken = World::threads(2).run(|rank| {
        let queue = RingQueue::open(rank, "queue", 3, THREADS)?;
        let others = (1..THREADS).map(|_| queue.another()).collect::<Result<Vec<_>, _>>()?;
        expect(
            matches!(
                queue.another().as_ref().map_err(Error::kind),
                Err(ErrorKind::BadObject { .. })
            ),
            true,
        )?;
        let handles = std::iter::once(queue).chain(others);
        all(rank, handles.map(|queue| Box::new(queue) as Box<dyn Through>).collect())
    });
    nothing_is_lost("ring", &taken.unwrap().concat(), 0, TIMES, true);
}

/// A place that was given up can be taken again.
#[test]
fn handles_are_counted() {
    let rank = World::solo().unwrap();
    let stack = TreiberStack::open(&rank, "stack", 1, 2).unwrap();
    for _ in 0..5 {
        let other = stack.another().unwrap();
        let refused = stack.another().unwrap_err();
        assert!(refused.to_string().contains("all handles"), "{refused}");
        other.push(1).unwrap().unwrap();
        assert_eq!(other.pop().unwrap(), Some(1));
    }
}

/// Operations are in flight at both ends, and their results are checked.
#[test]
fn operations_are_submitted() {
    on_all(3, |rank| {
        for scheme in Scheme::ALL {
            let section = Section::new(scheme).len(5).in_flight(8);
            let queue = Queue::open(rank, "queue", section)?;
            let ends = TwoLockQueue::open(rank, "ends", section)?;
            if scheme.needs_server() && rank.id() == 0 {
                let mut server = Server::new();
                server.add(queue)?;
                ends.serve(&mut server)?;
                server.serve()?;
                continue;
            }
            if rank.id() != 1 {
                continue;
            }
            let ops: Vec<_> = (0..7).map(Op::put).chain([Op::TAKE]).collect();
            let requests = ops.iter().map(|op| queue.submit(*op)).collect::<Result<Vec<_>, _>>()?;
            for (at, request) in requests.into_iter().enumerate() {
                let answer = request.wait()?;
                match at as u64 {
                    7 => expect(answer.taken(), Some(0))?,
                    value => {
                        expect(answer.put(), if value < 5 { Ok(()) } else { Err(Full(value)) })?
                    }
                }
            }
            let (enqueuers, dequeuers) = ends.into_ends();
            let requests =
                (0..7).map(|value| enqueuers.submit(value)).collect::<Result<Vec<_>, _>>()?;
            for (value, request) in (0..).zip(requests) {
                let put = request.wait()?.put();
                expect(put, if value < 5 { Ok(()) } else { Err(Full(value)) })?;
            }
            let requests = (0..7).map(|_| dequeuers.submit(())).collect::<Result<Vec<_>, _>>()?;
            for (value, request) in (0..).zip(requests) {
                expect(request.wait()?.taken(), Some(value).filter(|&value| value < 5))?;
            }
        }
        Ok(())
    });
}

/// Each end has its own server, which goes on while the other does nothing.
#[test]
fn two_servers_serve_the_ends() {
    on_all(4, |rank| {
        for schemes in
            [[Scheme::MpServer(0), Scheme::MpServer(1)], [Scheme::SlotServer, Scheme::SlotServer]]
        {
            let [enqueuers, dequeuers] = schemes.map(|scheme| Section::new(scheme).len(4));
            let queue = TwoLockQueue::open_ends(rank, "queue", enqueuers, dequeuers)?;
            let (enqueuers, dequeuers) = queue.into_ends();
            let mut server = Server::new();
            match rank.id() {
                0 => {
                    drop(dequeuers);
                    server.add(enqueuers)?;
                    server.serve()?;
                }
                1 => {
                    drop(enqueuers);
                    server.add(dequeuers)?;
                    server.serve()?;
                }
                2 => {
                    drop(dequeuers);
                    let mut next = 0;
                    while next < 200 {
                        next += u64::from(enqueuers.enqueue(next)?.is_ok());
                    }
                }
                _ => {
                    drop(enqueuers);
                    let mut next = 0;
                    while next < 200 {
                        if let Some(value) = dequeuers.dequeue()? {
                            expect(value, next)?;
                            next += 1;
                        }
                    }
                }
            }
        }
        Ok(())
    });
}

/// The second rank opens the object with other parameters.
#[test]
fn another_capacity_is_a_mismatch() {
    fn refused<T>(rank: &Rank, opened: Result<T, Error>, name: &str) -> Result<u8> {
        Together::new(rank)?.wait()?;
        match opened.map_err(Error::into_kind) {
            Ok(_) => Ok(1),
            Err(ErrorKind::ObjectMismatch { object }) if object.starts_with(name) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
    let code = |rank: &Rank| {
        let me = rank.id();
        let mut opened = Vec::new();
        // The capacity differs by a little, and by so much that the number of lines differs. The names are different,
        // because a refused queue with two locks has opened only some of its parts.
        for more in [1, 1000] {
            let section = Section::new(Scheme::Mcs).len(2 + more * me);
            let name = |of: &str| format!("{of} of {more}");
            let stack = Stack::open(rank, &name("stack"), section);
            opened.push(refused(rank, stack, "stack")?);
            let queue = Queue::open(rank, &name("queue"), section);
            opened.push(refused(rank, queue, "queue")?);
            let ends = TwoLockQueue::open(rank, &name("ends"), section);
            opened.push(refused(rank, ends, "ends")?);
            let treiber = TreiberStack::open(rank, &name("treiber"), 2 + more * me, 1);
            opened.push(refused(rank, treiber, "treiber")?);
            let ring = RingQueue::open(rank, &name("ring"), 2 + more * me, 1);
            opened.push(refused(rank, ring, "ring")?);
        }
        let more_handles = TreiberStack::open(rank, "handles", 5, 1 + me);
        opened.push(refused(rank, more_handles, "handles")?);
        // Another kind of object with the same name.
        let section = Section::new(Scheme::Mcs).len(4);
        opened.push(match me {
            0 => refused(rank, Stack::open(rank, "kind", section), "kind")?,
            _ => refused(rank, Queue::open(rank, "kind", section), "kind")?,
        });
        Ok(opened)
    };
    for (kind, results) in run_on_all_with(2, |world| world, code).each() {
        let results = results.unwrap_or_else(|error| panic!("{kind}: {error}"));
        for (one, other) in results[0].iter().zip(&results[1]) {
            assert_eq!(one + other, 1, "{kind}: {results:?}");
        }
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let rank = World::solo().unwrap();
    let bad = |opened: Result<(), Error>| match opened.map_err(Error::into_kind) {
        Err(ErrorKind::BadObject { .. }) => {}
        other => panic!("{other:?}"),
    };
    let section = Section::new(Scheme::SlotServer);
    bad(TwoLockQueue::open(&rank, "queue", section.streaming(true)).map(drop));
    bad(TwoLockQueue::open_ends(&rank, "queue", section.len(2), section.len(3)).map(drop));
    bad(TwoLockQueue::open(&rank, "queue", section.len(usize::MAX)).map(drop));
    bad(Stack::open(&rank, "stack", section.streaming(true)).map(drop));
    for (capacity, handles) in
        [(0, 1), (1, 0), (1 << 24, 1), (1, 1 << 24), (usize::MAX, usize::MAX)]
    {
        bad(TreiberStack::open(&rank, "stack", capacity, handles).map(drop));
        bad(RingQueue::open(&rank, "queue", capacity, handles).map(drop));
    }
    let huge = Section::new(Scheme::Mcs).len(1 << 50);
    assert!(Stack::open(&rank, "stack", huge).is_err());
    assert!(Queue::open(&rank, "queue", huge).is_err());
    assert!(TwoLockQueue::open(&rank, "queue", huge).is_err());
    let long = "n".repeat(65);
    assert!(TwoLockQueue::open(&rank, &long, Scheme::Mcs).is_err());
    assert!(TreiberStack::open(&rank, &long, 1, 1).is_err());
    // The failed calls must not take memory either.
    assert!(rank.memory().in_use < 100 << 10, "{:?}", rank.memory());
}

#[test]
fn a_counter_wraps_around() {
    let rank = World::solo().unwrap();
    let counter = Counter::open(&rank, "counter", Scheme::HybComb).unwrap();
    assert_eq!(counter.fetch_add(u64::MAX).unwrap(), 0);
    assert_eq!(counter.fetch_add(3).unwrap(), u64::MAX);
    assert_eq!(counter.fetch_add(0).unwrap(), 2);
}

/// Memory that all ranks write may contain anything.
#[test]
fn a_state_that_has_no_meaning_does_no_harm() {
    use mp_delegate::critical::Object;
    let mut random = Random::new(7);
    for len in [0, 1, 2, 5] {
        for _ in 0..200 {
            let mut cells: Vec<[u64; 2]> =
                (0..len).map(|_| [random.next(), random.next() >> random.below(64)]).collect();
            for _ in 0..20 {
                let op = if random.below(2) == 0 { Op::TAKE } else { Op::put(1) };
                let _ = Stack::apply(&mut cells, op);
                let _ = Queue::apply(&mut cells, op);
            }
        }
    }
    // An end without nodes has no room and no values.
    assert_eq!(Enqueuers::apply(&mut 7, 1).put(), Err(Full(1)));
    assert_eq!(Dequeuers::apply(&mut 7, ()).taken(), None);
}

/// A rank is killed while it uses an object without protection. The others go on, and lose no places.
#[test]
fn a_death_where_nothing_is_protected_disturbs_nobody() {
    for seed in 0..4 {
        let _watchdog = Watchdog::start();
        let delay = std::time::Duration::from_micros(Random::new(seed).below(3000));
        let result = World::processes(3).run(|rank| {
            let stack = TreiberStack::open(rank, "stack", 4, 1)?;
            let queue = RingQueue::open(rank, "queue", 4, 1)?;
            Together::new(rank)?.wait()?;
            if rank.id() == 0 {
                std::thread::spawn(move || {
                    std::thread::sleep(delay);
                    die()
                });
                loop {
                    let _ = (stack.push(1)?, queue.enqueue(1)?);
                    let _ = (stack.pop()?, queue.dequeue()?);
                }
            }
            let until = std::time::Instant::now() + std::time::Duration::from_millis(50);
            while std::time::Instant::now() < until {
                let _ = (stack.push(1)?, queue.enqueue(1)?);
                let _ = (stack.pop()?, queue.dequeue()?);
            }
            Ok(())
        });
        scenarios::check(result, 0).unwrap();
    }
}
