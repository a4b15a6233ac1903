//! Nonblocking collective operations of communicators whose ranks are on several nodes, against plain references.

mod support;

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use mp_core::{Channel, ErrorKind, Rank, Result};
use onchip::collectives::{At, InPlace, packed};
use onchip::communicator::Communicator;
use onchip::nonblocking::CollectiveRequest;
use onchip::reduce::{Max, Sum};
use onchip::threads::{CommThreads, Progress};
use onchip::{wait_all, wait_any};
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};

use support::plain::{affine, block, compose, elements, fold, in_communicators};
use support::world::{WORLDS, all_succeed, world};

/// Numbers of elements: none, one, some, and more than a piece of what goes between nodes.
const LENGTHS: [usize; 4] = [0, 1, 7, 20_001];

/// What advances the operations of a rank: its calls, or a thread.
fn progress(rank: &Rank) -> Result<Progress> {
    Ok(if rank.id().is_multiple_of(2) { Progress::InCalls } else { CommThreads::start(1)?.into() })
}

#[test]
fn broadcasts_reach_all_ranks_from_any_root() {
    for nodes in WORLDS {
        all_succeed(world(nodes, |rank| {
            in_communicators(rank, |comm| {
                let mut requests = Vec::new();
                for length in LENGTHS {
                    for root in 0..comm.size() {
                        let sent = elements(length, |at| (at * 3 + root) as u32);
                        let own = if comm.rank() == root { sent.clone() } else { vec![0; length] };
                        requests.push((comm.nonblocking()?.broadcast(own, root), sent));
                    }
                }
                // In another order than they were begun in.
                for (request, sent) in requests.into_iter().rev() {
                    assert!(request.wait()? == sent, "{} elements", sent.len());
                }
                Ok(())
            })
        }));
    }
}

#[test]
fn reductions_combine_in_the_order_of_ranks() {
    for nodes in WORLDS {
        all_succeed(world(nodes, |rank| {
            in_communicators(rank, |comm| {
                comm.set_nonblocking(progress(rank)?)?;
                let (me, size) = (comm.rank(), comm.size());
                for length in LENGTHS {
                    let own = elements(length, |at| affine(me, at));
                    let all = elements(length, |at| fold(0..size, at).unwrap());
                    let sum = comm.nonblocking()?.all_reduce(own.clone(), compose);
                    let to_root: Vec<_> = [0, size / 2, size - 1]
                        .map(|root| {
                            let reduced = comm.nonblocking()?.reduce(own.clone(), compose, root);
                            Ok((root, reduced))
                        })
                        .into_iter()
                        .collect::<Result<_>>()?;
                    let scan = comm.nonblocking()?.scan(own.clone(), compose);
                    let before = comm.nonblocking()?.exclusive_scan(own.clone(), compose);
                    let upto = elements(length, |at| fold(0..me + 1, at).unwrap());
                    assert!(scan.wait()? == upto, "scan of {length}");
                    let below = elements(length, |at| fold(0..me, at).unwrap_or(own[at]));
                    assert!(before.wait()? == below, "exclusive_scan of {length}");
                    assert!(sum.wait()? == all, "all_reduce of {length}");
                    for (root, reduced) in to_root {
                        assert!(reduced.wait()? == all || me != root, "reduce of {length}");
                    }
                }
                let greatest = comm.nonblocking()?.all_reduce([me as u8], Max).wait()?;
                assert_eq!(usize::from(greatest[0]), size - 1);
                Ok(())
            })
        }));
    }
}

#[test]
fn reduce_scatter_leaves_each_rank_its_block() {
    for nodes in WORLDS {
        all_succeed(world(nodes, |rank| {
            in_communicators(rank, |comm| {
                let (me, size) = (comm.rank(), comm.size());
                for block in [0, 1, 5, 3_001] {
                    let own = elements(block * size, |at| affine(me, at));
                    let all = elements(block * size, |at| fold(0..size, at).unwrap());
                    let mine = &all[block * me..][..block];
                    let room = vec![[0; 2]; block];
                    let apart = comm.nonblocking()?.reduce_scatter(own.clone(), room, compose);
                    let in_place =
                        comm.nonblocking()?.reduce_scatter(own.clone(), InPlace, compose);
                    let ranges = packed((0..size).map(|rank| rank % 2 * block));
                    let varying = comm.nonblocking()?.reduce_scatter(
                        At(own.clone(), ranges.clone()),
                        vec![[0; 2]; ranges[me].len()],
                        compose,
                    );
                    let (_, got) = varying.wait()?;
                    assert!(got == all[ranges[me].clone()], "blocks of up to {block}");
                    assert!(apart.wait()?.1 == mine, "blocks of {block}");
                    let mut wanted = own.clone();
                    wanted[block * me..][..block].copy_from_slice(mine);
                    assert!(in_place.wait()?.0 == wanted, "blocks of {block} in place");
                }
                Ok(())
            })
        }));
    }
}

#[test]
fn gathers_and_scatters_keep_the_order_of_ranks() {
    for nodes in WORLDS {
        all_succeed(world(nodes, |rank| {
            in_communicators(rank, |comm| {
                comm.set_nonblocking(progress(rank)?)?;
                let (me, size) = (comm.rank(), comm.size());
                for length in [0, 1, 7, 20_001] {
                    let all: Vec<u16> = (0..size).flat_map(|rank| block(rank, 0, length)).collect();
                    let own = block(me, 0, length);
                    let mut in_place = vec![0; length * size];
                    in_place[me * length..][..length].copy_from_slice(&own);
                    let begin = || comm.nonblocking();
                    let gathered = begin()?.all_gather(own.clone(), vec![0; length * size]);
                    let again = begin()?.all_gather(InPlace, in_place.clone());
                    for root in [0, size / 2, size - 1] {
                        let is_root = me == root;
                        let room = vec![0; if is_root { length * size } else { 0 }];
                        let gather = begin()?.gather(own.clone(), room, root);
                        let buffer = if is_root { in_place.clone() } else { own.clone() };
                        let gather_in_place = begin()?.gather(InPlace, buffer, root);
                        let sent = if is_root { all.clone() } else { Vec::new() };
                        let scatter = begin()?.scatter(sent, vec![0; length], root);
                        let buffer = if is_root { all.clone() } else { vec![0; length] };
                        let scatter_in_place = begin()?.scatter(buffer, InPlace, root);
                        let wanted = if is_root { &all } else { &own };
                        assert!(scatter_in_place.wait()?.0 == *wanted);
                        assert!(scatter.wait()?.1 == own, "scatter of {length} from {root}");
                        let (_, got) = gather_in_place.wait()?;
                        assert!(!is_root || got == all, "gather of {length} at {root} in place");
                        let (_, got) = gather.wait()?;
                        assert!(!is_root || got == all, "gather of {length} at {root}");
                    }
                    assert!(gathered.wait()?.1 == all, "all_gather of {length}");
                    assert!(again.wait()?.1 == all, "all_gather of {length} in place");
                }
                Ok(())
            })
        }));
    }
}

#[test]
fn blocks_may_differ_in_length_and_lie_anywhere() {
    for nodes in WORLDS {
        all_succeed(world(nodes, |rank| {
            in_communicators(rank, |comm| {
                let (me, size) = (comm.rank(), comm.size());
                for scale in [1, 9_000] {
                    let length = |rank: usize| rank % 3 * scale;
                    // In the reverse order, with gaps of two.
                    let mut ranges = vec![0..0; size];
                    let mut end = 0;
                    for rank in (0..size).rev() {
                        ranges[rank] = end..end + length(rank);
                        end += length(rank) + 2;
                    }
                    let mut all = vec![9; end];
                    for rank in 0..size {
                        all[ranges[rank].clone()].copy_from_slice(&block(rank, 1, length(rank)));
                    }
                    let own = block(me, 1, length(me));
                    let room = || At(vec![9; end], ranges.clone());
                    let gathered = comm.nonblocking()?.all_gather(own.clone(), room());
                    let root = size - 1;
                    let at_root = comm.nonblocking()?.gather(own.clone(), room(), root);
                    let sent = At(all.clone(), ranges.clone());
                    let scattered = comm.nonblocking()?.scatter(sent, vec![0; length(me)], root);
                    // From rank i to rank j, (i + 2j) mod 4 units.
                    let length = |from: usize, to: usize| (from + 2 * to) % 4 * scale;
                    let sent: Vec<u16> =
                        (0..size).flat_map(|to| block(me, to, length(me, to))).collect();
                    let outgoing = packed((0..size).map(|to| length(me, to)));
                    let incoming = packed((0..size).map(|from| length(from, me)));
                    let wanted: Vec<u16> =
                        (0..size).flat_map(|from| block(from, me, length(from, me))).collect();
                    let room = At(vec![0; wanted.len()], incoming);
                    let exchanged = comm.nonblocking()?.all_to_all(At(sent, outgoing), room);
                    assert!(exchanged.wait()?.1.0 == wanted, "all_to_all of up to {}", 3 * scale);
                    assert!(scattered.wait()?.1 == own, "scatter of up to {}", 2 * scale);
                    let (_, At(got, _)) = at_root.wait()?;
                    assert!(got == if me == root { all.clone() } else { vec![9; end] });
                    assert!(gathered.wait()?.1.0 == all, "all_gather of up to {}", 2 * scale);
                }
                for length in [0, 1, 6, 5_000] {
                    let sent: Vec<u16> = (0..size).flat_map(|to| block(me, to, length)).collect();
                    let wanted: Vec<u16> =
                        (0..size).flat_map(|from| block(from, me, length)).collect();
                    let room = vec![0; wanted.len()];
                    let apart = comm.nonblocking()?.all_to_all(sent.clone(), room);
                    let in_place = comm.nonblocking()?.all_to_all(InPlace, sent);
                    assert!(in_place.wait()?.1 == wanted, "all_to_all of {length} in place");
                    assert!(apart.wait()?.1 == wanted, "all_to_all of {length}");
                }
                Ok(())
            })
        }));
    }
}

/// No request of a barrier is done, and no rank that has arrived goes on, before all have come.
#[test]
fn barriers_wait_for_all_ranks() {
    for nodes in WORLDS {
        let come = AtomicUsize::new(0);
        all_succeed(world(nodes, |rank| {
            let comm = Communicator::world(rank);
            for round in 1..40 {
                come.fetch_add(1, Ordering::SeqCst);
                if round % 2 == 0 {
                    comm.nonblocking()?.barrier().wait()?;
                } else {
                    comm.arrive()?.wait()?;
                }
                assert!(come.load(Ordering::SeqCst) >= round * comm.size());
                comm.barrier()?;
            }
            // This request is dropped without a wait.
            drop(comm.arrive()?);
            comm.arrive()?.wait()?;
            Ok(())
        }));
    }
}

/// Operations go on while a rank waits for a message, for a blocking operation or for another operation, also those whose
/// requests were dropped. No call of a rank waits for them.
#[test]
fn operations_go_on_while_a_rank_waits_for_something_else() {
    for in_calls in [true, false] {
        for nodes in WORLDS {
            all_succeed(world(nodes, |rank| {
                let comm = Communicator::world(rank);
                let (me, size) = (comm.rank(), comm.size());
                if in_calls {
                    comm.set_nonblocking(Progress::InCalls)?;
                }
                let all: Vec<usize> = (0..size).collect();
                let channel = Channel::degree(1);
                let alone = size == 1;
                let mut go = (me == 0 && !alone)
                    .then(|| rank.sender::<usize>("go", size - 1, channel))
                    .transpose()?;
                let told = (me == size - 1 && !alone)
                    .then(|| rank.receiver::<usize>("go", 0, channel))
                    .transpose()?;
                for round in 0..20 {
                    let begin = || comm.nonblocking();
                    drop(begin()?.all_reduce(vec![1u64; 5_000], Sum));
                    let sum = begin()?.all_reduce(vec![me + round; 3], Sum);
                    // Rank 0 waits for the operation, which needs all others. These wait for a message of rank 0.
                    if me == 0 {
                        let sum = sum.wait()?;
                        for other in 1..size {
                            comm.send(&sum, other, 7)?;
                        }
                    } else {
                        let mut told = [0; 3];
                        comm.receive_into(&mut told, 0, 7)?;
                        assert_eq!(told, [size * (size - 1) / 2 + size * round; 3]);
                        drop(sum);
                    }
                    let gathered = begin()?.all_gather([me], vec![0; size]);
                    let last = size - 1;
                    // The last rank waits for a channel from rank 0, which waits for an operation of all ranks.
                    let all_here = begin()?.barrier();
                    if let Some(go) = &mut go {
                        all_here.wait()?;
                        go.send(&round)?;
                    } else if let Some(told) = &told {
                        assert_eq!(*told.receive()?, round);
                    }
                    let mut message = vec![if me == last { round } else { 0 }; 100];
                    comm.broadcast(&mut message, last)?;
                    assert_eq!(message, [round; 100]);
                    let mut several = Vec::new();
                    several.push(begin()?.all_reduce([me as u64], Sum));
                    several.push(begin()?.all_reduce([1], Sum));
                    several.push(comm.nonblocking_apart()?.all_reduce([2], Sum));
                    let sums = [size * (size - 1) / 2, size, 2 * size].map(|sum| [sum as u64]);
                    let mut sums = sums.to_vec();
                    while !several.is_empty() {
                        let which = wait_any(&mut several)?;
                        assert_eq!(several.swap_remove(which).wait()?, sums.swap_remove(which));
                    }
                    let mut gathered = gathered;
                    while !gathered.test()? {
                        std::thread::yield_now();
                    }
                    assert_eq!(gathered.wait()?.1, all);
                }
                // Dropping the communicator waits for the last ones.
                drop(comm.nonblocking()?.barrier());
                Ok(())
            }));
        }
    }
}

/// Operations of two fronts, and of two communicators, do not wait for each other, though ranks begin them in different
/// orders.
#[test]
fn fronts_do_not_wait_for_each_other() {
    for nodes in WORLDS {
        all_succeed(world(nodes, |rank| {
            let comm = Communicator::world(rank);
            let other = comm.duplicate()?;
            let size = comm.size() as u64;
            for round in 0..30 {
                let begin = |which: usize| {
                    Ok(match which {
                        0 => comm.nonblocking()?.all_reduce([1u64; 40], Sum),
                        1 => comm.nonblocking_apart()?.all_reduce([1; 40], Sum),
                        _ => other.nonblocking()?.all_reduce([1; 40], Sum),
                    })
                };
                let order = (0..3).map(|place| (place + rank.id() + round) % 3);
                let mut requests = order.map(begin).collect::<Result<Vec<_>>>()?;
                wait_all(&mut requests)?;
                for request in requests {
                    assert_eq!(request.wait()?, [size; 40]);
                }
            }
            Ok(())
        }));
    }
}

#[test]
fn settings_can_be_changed_between_operations() {
    use onchip::collectives::Settings;
    use onchip::reduce::Order;
    for nodes in WORLDS {
        all_succeed(world(nodes, |rank| {
            let comm = Communicator::world(rank);
            for round in 0..6 {
                let order = if round % 2 == 0 { Order::Ranks } else { Order::Algorithm };
                let size = comm.size();
                let pending = comm.nonblocking()?.all_reduce(vec![1; 50], Sum);
                // Waits for that.
                comm.set_collectives(Settings { order, ..Settings::default() })?;
                assert_eq!(pending.wait()?, [size; 50]);
                let own = elements(300, |at| 0.1 * (1 + comm.rank() * at % 17) as f64);
                let all = |at| (0..size).map(move |rank| 0.1 * (1 + rank * at % 17) as f64);
                let sums = comm.nonblocking()?.all_reduce(own, Sum).wait()?;
                if round % 2 == 0 {
                    assert!(sums == elements(300, |at| all(at).reduce(|a, b| a + b).unwrap()));
                }
            }
            Ok(())
        }));
    }
}

#[test]
fn calls_that_can_not_be_made_are_refused_and_leave_the_communicator_usable() {
    all_succeed(world(&[2, 1], |rank| {
        let comm = Communicator::world(rank);
        let size = comm.size();
        let error = comm.nonblocking()?.broadcast([0], size).wait().unwrap_err().error;
        assert!(matches!(error.kind(), ErrorKind::NoSuchRank { .. }), "{error}");
        let error = comm.nonblocking()?.all_gather([1, 2], [0; 5]).wait().unwrap_err().error;
        assert!(matches!(error.kind(), ErrorKind::BadCall { .. }), "{error}");
        let sum = comm.nonblocking()?.all_reduce([1], Sum).wait()?;
        assert_eq!(sum, [size]);
        Ok(())
    }));
}

/// Ranks of a node find that they have called different operations. Then no operation goes on, on any node.
#[test]
fn calls_that_differ_within_a_node_are_errors() {
    let outcomes = all_succeed(world(&[2, 1], |rank| {
        let comm = Communicator::world(rank);
        let mut begin = comm.nonblocking()?;
        let ended = match rank.id() {
            1 => begin.all_gather([1], [0; 3]).wait().map(drop).map_err(|failed| failed.error),
            _ => begin.all_reduce([1], Sum).wait().map(drop).map_err(|failed| failed.error),
        };
        Ok((rank.id(), ended.unwrap_err()))
    }));
    for (rank, ended) in &outcomes[..2] {
        assert!(matches!(ended.kind(), ErrorKind::CallsDiffer(_)), "rank {rank}: {ended}");
    }
}

/// One random program of all ranks, which draw the same numbers: blocking and nonblocking operations, messages, and waits
/// for some of the requests.
fn storm(rank: &Rank, seed: u64) -> Result<()> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut below = |limit: usize| random.next_u64() as usize % limit;
    let world = Communicator::world(rank);
    let comms = [world.split(Some(0), -(rank.id() as i64))?.unwrap(), world];
    if below(2) == 0 {
        comms[1].set_nonblocking(progress(rank)?)?;
    }
    /// Waits, and returns whether the result is right.
    type Check = Box<dyn FnOnce() -> Result<bool>>;
    let mut pending: Vec<Check> = Vec::new();
    for step in 0..60 {
        let comm = &comms[below(2)];
        let (me, size) = (comm.rank(), comm.size());
        let length = [0, 1, 3, 50, 1_000, 9_001][below(6)];
        let root = below(size);
        let own = elements(length, |at| affine(me + step, at));
        let total = move |upto: usize| {
            let sum = |at| (step..step + upto).map(|rank| affine(rank, at)).reduce(compose);
            elements(length, |at| sum(at).unwrap())
        };
        let all: Vec<Vec<u16>> = (0..size).map(|rank| block(rank, step, length)).collect();
        match below(9) {
            0 => {
                let request = comm.nonblocking()?.all_reduce(own, compose);
                pending.push(Box::new(move || Ok(request.wait()? == total(size))));
            }
            1 => {
                let request = comm.nonblocking()?.scan(own, compose);
                pending.push(Box::new(move || Ok(request.wait()? == total(me + 1))));
            }
            2 => {
                let request = comm.nonblocking()?.reduce(own, compose, root);
                pending.push(Box::new(move || {
                    let got = request.wait()?;
                    Ok(me != root || got == total(size))
                }));
            }
            3 => {
                let request =
                    comm.nonblocking()?.all_gather(all[me].clone(), vec![0; length * size]);
                pending.push(Box::new(move || Ok(request.wait()?.1 == all.concat())));
            }
            4 => {
                let sent = if me == root { all.concat() } else { Vec::new() };
                let request = comm.nonblocking_apart()?.scatter(sent, vec![0; length], root);
                pending.push(Box::new(move || Ok(request.wait()?.1 == all[me])));
            }
            5 => drop(comm.nonblocking()?.broadcast(vec![step; length], root)),
            6 => {
                let mut got = own;
                comm.all_reduce(&mut got, compose)?;
                assert!(got == total(size));
            }
            7 => {
                let mut got = if me == root { all[root].clone() } else { vec![0; length] };
                comm.broadcast(&mut got, root)?;
                assert!(got == all[root]);
            }
            _ => {
                let (to, from) = ((me + 1) % size, (me + size - 1) % size);
                let sent = comm.nonblocking_send(all[me].clone(), to, step as u32);
                let received = comm.nonblocking_receive(vec![0; length], from, step as u32);
                pending.push(Box::new(move || {
                    sent.wait()?;
                    Ok(received.wait()?.0 == all[from])
                }));
            }
        }
        while pending.len() > below(8) {
            let which = below(pending.len());
            assert!(pending.swap_remove(which)()?);
        }
    }
    for check in pending {
        assert!(check()?);
    }
    Ok(())
}

#[test]
fn operations_of_all_kinds_and_messages_go_beside_each_other() {
    for nodes in WORLDS {
        for seed in 0..6 {
            all_succeed(world(nodes, |rank| storm(rank, seed)));
        }
    }
}

type Begun<'a> = Box<dyn FnOnce() -> Result<()> + 'a>;

/// Begins one of ten kinds of operations. Returns what waits for it.
fn begin(comm: &Communicator, kind: usize, root: usize) -> Result<Begun<'_>> {
    fn wait<'a, B: 'a>(request: CollectiveRequest<B>) -> Begun<'a> {
        Box::new(|| request.wait().map(drop).map_err(|failed| failed.error))
    }
    if kind == 0 {
        let arrived = comm.arrive()?;
        return Ok(Box::new(|| arrived.wait()));
    }
    let (mut begin, size) = (comm.nonblocking()?, comm.size());
    let vector = vec![1u64; 20_000];
    Ok(match kind {
        1 => wait(begin.broadcast(vector, root)),
        2 => wait(begin.all_reduce(vector, Sum)),
        3 => wait(begin.all_gather(vec![1; 7], vec![0; 7 * size])),
        4 => wait(begin.all_to_all(vec![1; 3 * size], vec![0; 3 * size])),
        5 => wait(begin.reduce(vector, Sum, root)),
        6 => {
            drop(begin.scan(vector, Sum));
            wait(begin.barrier())
        }
        7 => wait(begin.gather(vec![1; 7], vec![0; 7 * size], size - 1)),
        8 => wait(begin.scatter(vec![1; 7 * size], vec![0; 7], size - 1)),
        _ => wait(begin.barrier()),
    })
}

/// The requests of all ranks end when one is lost, on its own node and on the others, with an error that names it.
#[test]
fn a_rank_that_is_lost_ends_the_requests_of_all_others() {
    for nodes in WORLDS.into_iter().filter(|nodes| nodes.len() > 1) {
        let ranks: usize = nodes.iter().sum();
        for lost in 0..ranks {
            for run in 0..30 {
                // In a third of the runs, this is the first operation. In another one, the lost rank has begun it.
                let (kind, part) = (run / 3, run % 3);
                let survivors = Barrier::new(ranks - 1);
                let outcomes = world(nodes, |rank| {
                    let comm = Communicator::world(rank);
                    if lost % 2 == 0 {
                        comm.set_nonblocking(Progress::InCalls)?;
                    }
                    let call = || begin(&comm, kind, lost)?();
                    // The rank may be lost while others are still in the operation.
                    let mut called = if part == 0 { Ok(()) } else { call() };
                    if rank.id() == lost {
                        if part == 2 {
                            drop(begin(&comm, kind, lost)?);
                        }
                        panic!("on purpose");
                    }
                    let ended = loop {
                        if let Err(error) = called {
                            break error;
                        }
                        called = call();
                    };
                    let again = call().unwrap_err();
                    // No request ends only because another rank has returned.
                    survivors.wait();
                    Ok((ended.to_string(), again.to_string()))
                });
                for (rank, outcome) in outcomes.into_iter().enumerate() {
                    if rank == lost {
                        assert!(outcome.is_err());
                        continue;
                    }
                    let (ended, again) = outcome.unwrap();
                    let name = format!("rank {lost} ");
                    assert!(ended.contains(&name), "{nodes:?}, run {run}, rank {rank}: {ended}");
                    assert!(again.contains(&name), "{nodes:?}, run {run}, rank {rank}: {again}");
                }
            }
        }
    }
}

/// Makes an operation of a kind that has channels and lines of its own: blocking, nonblocking, or one that was arrived at.
fn call(comm: &Communicator, kind: usize) -> Result<()> {
    match kind {
        0 => comm.barrier(),
        1 => comm.all_reduce(&mut [1u64], Sum),
        2 => comm.arrive()?.wait(),
        _ => {
            let begun = comm.nonblocking()?.all_reduce(vec![1u64], Sum);
            begun.wait().map(drop).map_err(|failed| failed.error)
        }
    }
}

/// A rank that knows of a loss by one kind of operation need not call the others any more. Their calls end all the same, on
/// its own node, too, where the lost rank may have no lines.
#[test]
fn a_loss_ends_operations_that_a_rank_calls_no_more() {
    for nodes in [&[1, 2][..], &[1, 1, 1], &[2, 1], &[3, 1, 1]] {
        let lost = nodes.iter().sum::<usize>() - 1;
        for knows in 0..lost {
            for (by, kind) in [(3, 0), (2, 0), (3, 1), (0, 2), (3, 2), (1, 3), (2, 3)] {
                let (all, survivors) = (Barrier::new(lost + 1), Barrier::new(lost));
                let outcomes = world(nodes, |rank| {
                    let comm = Communicator::world(rank);
                    call(&comm, by)?;
                    call(&comm, kind)?;
                    all.wait();
                    if rank.id() == lost {
                        panic!("on purpose");
                    }
                    let ended = call(&comm, if rank.id() == knows { by } else { kind });
                    // No call ends only because another rank has returned.
                    survivors.wait();
                    Ok(ended.unwrap_err().to_string())
                });
                for (rank, outcome) in outcomes.into_iter().enumerate().take(lost) {
                    let (ended, name) = (outcome.unwrap(), format!("rank {lost} "));
                    let run = format!("{nodes:?}, by {by}, {kind}, {knows} knows, rank {rank}");
                    assert!(ended.contains(&name), "{run}: {ended}");
                }
            }
        }
    }
}

/// A rank whose own operation has panicked takes part in no more, and the others learn that, on all nodes.
#[test]
fn an_operation_that_panics_ends_those_of_all_ranks() {
    for nodes in WORLDS.into_iter().filter(|nodes| nodes.len() > 1) {
        let ranks: usize = nodes.iter().sum();
        let done = Barrier::new(ranks);
        for run in 0..4 * ranks {
            let (broken, in_turns, first) = (run / 4, run % 2 == 0, run / 2 % 2 == 0);
            let outcomes = all_succeed(world(nodes, |rank| {
                let comm = Communicator::world(rank);
                let here = if in_turns { rank.id() - rank.ranks_here().start } else { 0 };
                let comm = comm.split(Some(0), here as i64)?.unwrap();
                let is_broken = rank.id() == broken;
                let combine = move |left: u64, right: u64| match is_broken {
                    true => panic!("on purpose"),
                    false => left + right,
                };
                let scans = || loop {
                    // Others may notice nothing of an operation that has panicked here, before they wait for this rank.
                    let begun = match first {
                        true => comm.nonblocking()?.all_reduce(vec![1; 1_000], combine),
                        false => comm.nonblocking()?.reduce(vec![1; 1_000], combine, 0),
                    };
                    begun.wait().map_err(|failed| failed.error)?;
                    let scan = comm.nonblocking()?.scan([1], combine);
                    scan.wait().map_err(|failed| failed.error)?;
                };
                let ended: Result<()> = scans();
                done.wait();
                Ok(ended.unwrap_err())
            }));
            for (rank, ended) in outcomes.into_iter().enumerate() {
                let is_right = match ended.kind() {
                    ErrorKind::OperationPanicked { .. } => rank == broken,
                    ErrorKind::PeerLost { world_rank, .. } => *world_rank == broken,
                    _ => false,
                };
                assert!(is_right, "{nodes:?}, run {run}, rank {rank}: {ended}");
            }
        }
    }
}
