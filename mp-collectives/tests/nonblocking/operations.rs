//! Every operation gives the right result, with any number of operations pending.

use std::collections::VecDeque;

use mp_collectives::collectives::At;
use mp_collectives::{
    Members,
    exchange::packed,
    nonblocking::{CollectiveRequest, Nonblocking},
    reduce::{Max, Sum},
};
use mp_core::{Rank, Result, SharedBuffer};

use crate::{
    ALL, By, open,
    support::{Random, SIZES, on_all},
};

const LENGTHS: [usize; 9] = [0, 1, 2, 6, 7, 8, 64, 513, 5_000];

/// Returns element number `index` of a rank in a call.
fn element(call: u64, rank: usize, index: usize) -> u64 {
    (call + 1).wrapping_mul(1_000_003) ^ (rank as u64 * 10_007 + index as u64)
}

fn own(call: u64, rank: usize, length: usize) -> Vec<u64> {
    (0..length).map(|index| element(call, rank, index)).collect()
}

fn sum(call: u64, ranks: impl Iterator<Item = usize> + Clone, length: usize) -> Vec<u64> {
    let sum =
        |index| ranks.clone().fold(0, |sum: u64, r| sum.wrapping_add(element(call, r, index)));
    (0..length).map(sum).collect()
}

/// Waits for a pending operation, and checks its result.
type Check = Box<dyn FnOnce() -> Result<()>>;

fn expect<B: 'static, F: FnOnce(B) -> bool + 'static>(
    what: String,
    request: CollectiveRequest<B>,
    right: F,
) -> Check {
    Box::new(move || {
        let got = request.wait()?;
        ensure!(right(got), "{what}");
        Ok(())
    })
}

/// Begins the operation that the call's number chooses. It is the same in all ranks.
fn begin(
    rank: &Rank,
    nonblocking: &mut Nonblocking,
    me: usize,
    ranks: usize,
    call: u64,
) -> Result<Check> {
    let mut random = Random::new(call);
    let kind = random.below(14);
    let length = LENGTHS[random.below(LENGTHS.len() as u64) as usize];
    let root = random.below(ranks as u64) as usize;
    let mine = own(call, me, length);
    let what = format!("call {call}: {kind} of {length}, root {root}, rank {me} of {ranks}");
    let shared: SharedBuffer<u64> = rank.buffer_from(&mine)?;
    let all: Vec<u64> = (0..ranks).flat_map(|rank| own(call, rank, length)).collect();
    Ok(match kind {
        0 => expect(what, nonblocking.barrier(), |()| true),
        1 => expect(what, nonblocking.broadcast(mine, root), move |got| {
            got == own(call, root, length)
        }),
        2 => expect(what, nonblocking.broadcast(shared, root), move |got| {
            *got == *own(call, root, length)
        }),
        3 => expect(what, nonblocking.all_reduce(mine, Sum), move |got| {
            got == sum(call, 0..ranks, length)
        }),
        4 => expect(what, nonblocking.all_reduce(shared, u64::wrapping_add), move |got| {
            *got == *sum(call, 0..ranks, length)
        }),
        5 => expect(what, nonblocking.reduce(mine, Sum, root), move |got| {
            me != root || got == sum(call, 0..ranks, length)
        }),
        6 => expect(what, nonblocking.scan(mine.into_boxed_slice(), Sum), move |got| {
            *got == *sum(call, 0..=me, length)
        }),
        7 => expect(what, nonblocking.exclusive_scan(mine, Sum), move |got| {
            me == 0 && got == own(call, 0, length) || me > 0 && got == sum(call, 0..me, length)
        }),
        8 => expect(what, nonblocking.all_reduce([me, ranks - me], Max), move |got| {
            got == [ranks - 1, ranks]
        }),
        9 => {
            let room = if me == root { vec![0; all.len()] } else { Vec::new() };
            expect(what, nonblocking.gather(mine.clone(), room, root), move |(back, got)| {
                back == mine && (me != root || got == all)
            })
        }
        10 => {
            let from = if me == root { all } else { Vec::new() };
            expect(what, nonblocking.scatter(from, vec![0; length], root), move |(_, got)| {
                got == own(call, root, length * ranks)[me * length..][..length]
                    || got == own(call, me, length)
            })
        }
        11 => {
            // Each rank has three elements more than the one before, and the last one has none.
            let length = |rank: usize| if rank + 1 == ranks { 0 } else { 3 * rank };
            let all: Vec<u64> = (0..ranks).flat_map(|rank| own(call, rank, length(rank))).collect();
            let (mine, blocks) = (own(call, me, length(me)), packed((0..ranks).map(length)));
            let room = vec![0; all.len()];
            expect(what, nonblocking.all_gather(mine, At(room, blocks)), move |(_, At(got, _))| {
                got == all
            })
        }
        12 => {
            let (send, room) = (own(call, me, length * ranks), vec![0; length * ranks]);
            expect(what, nonblocking.all_to_all(send, room), move |(_, got)| {
                (0..ranks).all(|from| {
                    got[from * length..][..length]
                        == own(call, from, length * ranks)[me * length..][..length]
                })
            })
        }
        _ => {
            let (send, room) = (own(call, me, length * ranks), vec![0; length]);
            expect(what, nonblocking.reduce_scatter(send, room, Sum), move |(_, got)| {
                got == sum(call, 0..ranks, length * ranks)[me * length..][..length]
            })
        }
    })
}

/// Calls so many operations, up to `most` of which are pending at a time. Waits for them in any order.
fn storm(rank: &Rank, by: By, calls: u64, most: usize) -> Result<()> {
    let progress = by.progress(rank)?;
    let mut nonblocking = open(rank, "storm", &progress)?;
    let mut random = Random::new(rank.id() as u64);
    let mut under_way = VecDeque::new();
    for call in 0..calls {
        under_way.push_back(begin(rank, &mut nonblocking, rank.id(), rank.size(), call)?);
        while under_way.len() > random.below(1 + most as u64) as usize {
            let which = random.below(under_way.len() as u64) as usize;
            under_way.swap_remove_back(which).map_or(Ok(()), |check| check())?;
        }
    }
    under_way.into_iter().try_for_each(|check| check())
}

#[test]
fn all_operations_one_after_the_other() {
    for ranks in SIZES {
        on_all(ranks, |rank| ALL.into_iter().try_for_each(|by| storm(rank, by, 60, 0)));
    }
}

#[test]
fn many_under_way() {
    for ranks in SIZES {
        on_all(ranks, |rank| ALL.into_iter().try_for_each(|by| storm(rank, by, 120, 40)));
    }
}

/// Every rank calls the same operations on several fronts, but each in its own order, and waits in that order. A call
/// on one front must not wait for another front.
fn fronts(rank: &Rank, by: By, rounds: u64) -> Result<()> {
    let progress = by.progress(rank)?;
    let names = ["a", "b", "c"];
    let mut all =
        names.map(|name| open(rank, name, &progress)).into_iter().collect::<Result<Vec<_>>>()?;
    let mut random = Random::new(rank.id() as u64);
    for round in 0..rounds {
        let mut order = [0, 1, 2];
        random.shuffle(&mut order);
        let mut under_way = Vec::new();
        for front in order {
            for call in 0..2 {
                let call = 6 * round + 2 * front as u64 + call;
                under_way.push(begin(rank, &mut all[front], rank.id(), rank.size(), call)?);
            }
        }
        under_way.into_iter().try_for_each(|check| check())?;
    }
    Ok(())
}

#[test]
fn fronts_do_not_wait_for_each_other() {
    for ranks in [2, 3, 5, 8] {
        on_all(ranks, |rank| ALL.into_iter().try_for_each(|by| fronts(rank, by, 25)));
    }
}

/// The first operations of two fronts with the same name are called in different orders.
#[test]
fn fronts_of_the_same_name() {
    on_all(2, |rank| {
        for by in ALL {
            let progress = by.progress(rank)?;
            let mut all = [open(rank, "same", &progress)?, open(rank, "same", &progress)?];
            // The root of front f is rank f.
            let requests = [rank.id(), 1 - rank.id()]
                .map(|front| (front, all[front].broadcast([100 * front + rank.id()], front)));
            for (front, request) in requests {
                ensure!(request.wait()? == [101 * front], "{by:?}, front {front}");
            }
        }
        Ok(())
    });
}

/// Groups of ranks, each with its own front and one of all ranks.
#[test]
fn some_ranks_of_the_world() {
    for ranks in [3, 5, 8] {
        on_all(ranks, |rank| {
            for by in ALL {
                let progress = by.progress(rank)?;
                // The highest rank is first.
                let group: Vec<usize> =
                    (0..ranks).rev().filter(|other| other % 2 == rank.id() % 2).collect();
                let me = group.iter().position(|&other| other == rank.id()).unwrap_or(0);
                let mut world = open(rank, "world", &progress)?;
                let mut some = open(Members::of(rank, &group), "some", &progress)?;
                for call in 0..30 {
                    let in_group = begin(rank, &mut some, me, group.len(), call)?;
                    let in_world = begin(rank, &mut world, rank.id(), ranks, call + 1)?;
                    in_group()?;
                    in_world()?;
                }
            }
            Ok(())
        });
    }
}
