// The tests of one form of the operations: `mod.rs` includes this once for each.

use std::ptr::null;

use crate::{
    calls::datatypes::{
        type_commit, type_create_hindexed_block, type_create_resized, type_free,
    },
    constants::{MPI_ERR_BUFFER, MPI_SUM},
};

const SIZES: std::ops::RangeInclusive<usize> = 1..=4;

/// What rank `from` sends to rank `to`, in place `place`.
fn number(from: usize, to: usize, place: usize) -> i32 {
    (from * 1_000_000 + to * 10_000 + place % 10_000) as i32
}

fn numbers(from: usize, to: usize, length: usize) -> impl Iterator<Item = i32> {
    (0..length).map(move |place| number(from, to, place))
}

/// A buffer with blocks for all ranks, dense or with every second number left out, and the type and count of a block.
struct Layout {
    step: usize,
    datatype: Handle,
    count: i64,
    length: usize,
}

impl Layout {
    fn both(length: usize) -> [Self; 2] {
        let dense = Self { step: 1, datatype: predefined(INT), count: length as i64, length };
        let sparse = Self { step: 2, datatype: every_second(length as i64), count: 1, length };
        [dense, sparse]
    }

    fn write(&self, buffer: &mut [i32], block: usize, numbers: impl Iterator<Item = i32>) {
        let start = block * self.length * self.step;
        for (place, number) in numbers.enumerate() {
            buffer[start + place * self.step] = number;
        }
    }

    fn read(&self, buffer: &[i32], block: usize) -> Vec<i32> {
        let start = block * self.length * self.step;
        (0..self.length).map(|place| buffer[start + place * self.step]).collect()
    }

    fn buffer(&self, blocks: usize) -> Vec<i32> {
        vec![-1; blocks * self.length * self.step]
    }
}

impl Drop for Layout {
    fn drop(&mut self) {
        if self.step == 2 {
            ok!(type_free(&mut self.datatype));
        }
    }
}

fn check(layout: &Layout, buffer: &[i32], expected: impl Fn(usize) -> Vec<i32>) {
    let blocks = buffer.len() / (layout.length * layout.step);
    for block in 0..blocks {
        assert_eq!(layout.read(buffer, block), expected(block), "block {block}");
    }
    if layout.step == 2 {
        assert!(buffer.iter().skip(1).step_by(2).all(|&number| number == -1));
    }
}

#[test]
fn equal_blocks() {
    for (size, length) in SIZES.zip([3, 1, 700, 9_000]) {
        on_ranks(size, |comm, me, size| {
            ok!(barrier(comm));
            for sent in Layout::both(length) {
                for received in Layout::both(length) {
                    equal(comm, (me, size), &sent, &received);
                }
            }
        });
    }
}

fn equal(comm: Handle, (me, size): (usize, usize), sent: &Layout, received: &Layout) {
    let length = sent.length;
    for root in 0..size {
        let at_root = root as c_int;
        let mut one = sent.buffer(1);
        if me == root {
            sent.write(&mut one, 0, numbers(root, 0, length));
        }
        ok!(bcast(address(&mut one), sent.count, sent.datatype, at_root, comm));
        check(sent, &one, |_| numbers(root, 0, length).collect());

        let (mut own, mut all) = (sent.buffer(1), received.buffer(size));
        sent.write(&mut own, 0, numbers(me, root, length));
        let (count, datatype) = (received.count, received.datatype);
        ok!(gather(
            address(&mut own),
            sent.count,
            sent.datatype,
            address(&mut all),
            count,
            datatype,
            at_root,
            comm,
        ));
        let gathered = |block| numbers(block, root, length).collect();
        match me == root {
            true => check(received, &all, gathered),
            false => assert!(all.iter().all(|&number| number == -1)),
        }
        if me == root {
            all = received.buffer(size);
            received.write(&mut all, me, numbers(me, root, length));
            ok!(gather(in_place(), 0, datatype, address(&mut all), count, datatype, at_root, comm));
            check(received, &all, gathered);
        } else {
            ok!(gather(
                address(&mut own),
                sent.count,
                sent.datatype,
                null_mut(),
                0,
                datatype,
                at_root,
                comm,
            ));
        }

        let (mut all, mut own) = (sent.buffer(size), received.buffer(1));
        (0..size).for_each(|to| sent.write(&mut all, to, numbers(root, to, length)));
        for in_its_place in [false, true] {
            let place = match me == root && in_its_place {
                true => in_place(),
                false => address(&mut own),
            };
            ok!(scatter(
                address(&mut all),
                sent.count,
                sent.datatype,
                place,
                count,
                datatype,
                at_root,
                comm,
            ));
            check(received, &own, |_| numbers(root, me, length).collect());
        }
    }

    let (mut own, mut all) = (sent.buffer(1), received.buffer(size));
    sent.write(&mut own, 0, numbers(me, 7, length));
    let (count, datatype) = (received.count, received.datatype);
    ok!(allgather(
        address(&mut own),
        sent.count,
        sent.datatype,
        address(&mut all),
        count,
        datatype,
        comm,
    ));
    let gathered = |block| numbers(block, 7, length).collect();
    check(received, &all, gathered);
    all = received.buffer(size);
    received.write(&mut all, me, numbers(me, 7, length));
    ok!(allgather(in_place(), 0, datatype, address(&mut all), count, datatype, comm));
    check(received, &all, gathered);

    let (mut mine, mut all) = (sent.buffer(size), received.buffer(size));
    (0..size).for_each(|to| sent.write(&mut mine, to, numbers(me, to, length)));
    ok!(alltoall(
        address(&mut mine),
        sent.count,
        sent.datatype,
        address(&mut all),
        count,
        datatype,
        comm,
    ));
    let exchanged = |block| numbers(block, me, length).collect();
    check(received, &all, exchanged);
    (0..size).for_each(|to| received.write(&mut all, to, numbers(me, to, length)));
    let to = address(&mut all);
    once(|| ok!(alltoall(in_place(), 0, datatype, to, count, datatype, comm)));
    check(received, &all, exchanged);
}

/// Blocks of different lengths, in an order that is not that of the ranks, with a gap after each if wanted. Returns the
/// counts, the displacements and the length of the buffer.
fn places(
    size: usize,
    length: impl Fn(usize) -> usize,
    gap: usize,
) -> (Vec<c_int>, Vec<c_int>, usize) {
    let counts: Vec<_> = (0..size).map(|rank| length(rank) as c_int).collect();
    let (mut displacements, mut end) = (vec![0; size], 0);
    for rank in (0..size).rev() {
        displacements[rank] = end as c_int;
        end += length(rank) + gap;
    }
    (counts, displacements, end)
}

#[test]
fn different_blocks() {
    for size in SIZES {
        for (gap, factor) in [(0, 1), (3, 1), (0, 2_000), (1, 2_000)] {
            on_ranks(size, |comm, me, size| {
                let int = predefined(INT);
                let length = |rank: usize| (rank * 2 + 1) % 4 * factor;
                let (counts, displacements, end) = places(size, length, gap);
                let (to, at) = (counts.as_ptr().into(), displacements.as_ptr().into());
                let mine = length(me);
                let block = |all: &[i32], rank: usize| {
                    all[displacements[rank] as usize..][..length(rank)].to_vec()
                };
                let write = |all: &mut [i32], rank: usize, from, to| {
                    let place = &mut all[displacements[rank] as usize..][..length(rank)];
                    place
                        .iter_mut()
                        .zip(numbers(from, to, length(rank)))
                        .for_each(|(at, n)| *at = n);
                };
                for root in 0..size {
                    let at_root = root as c_int;
                    let mut own: Vec<i32> = numbers(me, root, mine).collect();
                    let mut all = vec![-1; end];
                    let gathered = |all: &[i32]| {
                        for rank in 0..size {
                            let expected: Vec<_> = numbers(rank, root, length(rank)).collect();
                            assert_eq!(block(all, rank), expected);
                        }
                        let filled = all.iter().filter(|&&number| number != -1).count();
                        assert_eq!(filled, (0..size).map(length).sum::<usize>());
                    };
                    let count = mine as i64;
                    ok!(gatherv(
                        address(&mut own),
                        count,
                        int,
                        address(&mut all),
                        to,
                        at,
                        int,
                        at_root,
                        comm
                    ));
                    if me == root {
                        gathered(&all);
                        all.fill(-1);
                        write(&mut all, root, root, root);
                        ok!(gatherv(
                            in_place(),
                            0,
                            int,
                            address(&mut all),
                            to,
                            at,
                            int,
                            at_root,
                            comm
                        ));
                        gathered(&all);
                    } else {
                        let nothing = null::<c_int>().into();
                        ok!(gatherv(
                            address(&mut own),
                            count,
                            int,
                            null_mut(),
                            nothing,
                            nothing,
                            int,
                            at_root,
                            comm
                        ));
                    }
                    let (mut all, mut own) = (vec![-1; end], vec![-1; mine]);
                    (0..size).for_each(|rank| write(&mut all, rank, root, rank));
                    ok!(scatterv(
                        address(&mut all),
                        to,
                        at,
                        int,
                        address(&mut own),
                        count,
                        int,
                        at_root,
                        comm
                    ));
                    assert_eq!(own, numbers(root, me, mine).collect::<Vec<_>>());
                }
                let mut own: Vec<i32> = numbers(me, 7, mine).collect();
                for in_its_place in [false, true] {
                    let mut all = vec![-1; end];
                    let from = match in_its_place {
                        true => in_place(),
                        false => address(&mut own),
                    };
                    if in_its_place {
                        write(&mut all, me, me, 7);
                    }
                    ok!(allgatherv(from, mine as i64, int, address(&mut all), to, at, int, comm));
                    for rank in 0..size {
                        assert_eq!(
                            block(&all, rank),
                            numbers(rank, 7, length(rank)).collect::<Vec<_>>()
                        );
                    }
                }
            });
        }
    }
}

/// Whether all ranks have nothing, or only some of them, all count the calls in the same way.
#[test]
fn blocks_without_elements() {
    on_ranks(3, |comm, me, _| {
        let (int, none) = (predefined(INT), [0 as c_int; 3]);
        let (mut own, mut all) = ([me as c_int + 5; 3], [-1 as c_int; 3]);
        let (from, to) = (address(&mut own), address(&mut all));
        for _ in 0..3 {
            let zeros = || none.as_ptr().into();
            ok!(allgatherv(from, 0, int, to, zeros(), zeros(), int, comm));
            ok!(alltoallv(from, zeros(), zeros(), int, to, zeros(), zeros(), int, comm));
            ok!(reduce_scatter(from, to, zeros(), int, MPI_SUM, comm));
            ok!(reduce_scatter_block(from, to, 0, int, MPI_SUM, comm));
            ok!(reduce(from, to, 0, int, MPI_SUM, 1, comm));
            assert_eq!(all, [-1; 3]);
            // Rank 0 sends a number to rank 1.
            let (mut counts, mut expected) = (none, none);
            counts[1] = (me == 0).into();
            expected[0] = (me == 1).into();
            let (counts, expected) = (counts.as_ptr().into(), expected.as_ptr().into());
            ok!(alltoallv(from, counts, zeros(), int, to, expected, zeros(), int, comm));
            assert_eq!(all, if me == 1 { [5, -1, -1] } else { [-1; 3] });
            all = [-1; 3];
            ok!(allreduce(from, to, 3, int, MPI_SUM, comm));
            assert_eq!(all, [18; 3]);
            all = [-1; 3];
            ok!(barrier(comm));
        }
    });
}

#[test]
fn exchanges_of_different_blocks() {
    for size in SIZES {
        for (gap, factor) in [(0, 1), (2, 1), (0, 3_000), (1, 3_000)] {
            on_ranks(size, |comm, me, size| {
                let int = predefined(INT);
                let length = |from: usize, to: usize| (from * 3 + to) % 4 * factor;
                let (sent_counts, sent_at, sent_end) = places(size, |to| length(me, to), gap);
                let (counts, at, end) = places(size, |from| length(from, me), gap);
                let mut sent = vec![-1; sent_end];
                for to in 0..size {
                    let block = &mut sent[sent_at[to] as usize..][..length(me, to)];
                    block
                        .iter_mut()
                        .zip(numbers(me, to, length(me, to)))
                        .for_each(|(at, n)| *at = n);
                }
                let check = |all: &[i32]| {
                    for from in 0..size {
                        let expected: Vec<_> = numbers(from, me, length(from, me)).collect();
                        assert_eq!(all[at[from] as usize..][..length(from, me)], expected);
                    }
                };
                let mut all = vec![-1; end];
                ok!(alltoallv(
                    address(&mut sent),
                    sent_counts.as_ptr().into(),
                    sent_at.as_ptr().into(),
                    int,
                    address(&mut all),
                    counts.as_ptr().into(),
                    at.as_ptr().into(),
                    int,
                    comm,
                ));
                check(&all);
                // With bytes and displacements in bytes, from types of one number each.
                let bytes = |numbers: &[c_int]| numbers.iter().map(|n| 4 * n).collect::<Vec<_>>();
                let (sent_bytes, at_bytes) = (bytes(&sent_at), bytes(&at));
                let byte_counts = bytes(&counts);
                let (ints, chars) = (vec![int; size], vec![predefined(0x247); size]);
                all.fill(-1);
                ok!(alltoallw(
                    address(&mut sent),
                    sent_counts.as_ptr().into(),
                    sent_bytes.as_ptr().into(),
                    ints.as_ptr().into(),
                    address(&mut all),
                    byte_counts.as_ptr().into(),
                    at_bytes.as_ptr().into(),
                    chars.as_ptr().into(),
                    comm,
                ));
                check(&all);
            });
        }
    }
}

#[test]
fn types_with_addresses_are_at_the_bottom() {
    on_ranks(1, |comm, me, size| {
        let (mut sent, mut received) = ([me as c_int; 2], [-1; 2]);
        let mut types = [null_mut(); 2];
        for (datatype, place) in types.iter_mut().zip([address(&mut sent), address(&mut received)]) {
            let place = [place.expose_provenance() as i64];
            let int = predefined(INT);
            ok!(type_create_hindexed_block(1, 1, place.as_ptr().into(), int, datatype));
            ok!(type_commit(datatype));
        }
        let [ones, zeros] = [[1 as c_int; 1], [0; 1]];
        let (counts, places) = (ones.as_ptr().into(), zeros.as_ptr().into());
        let [sends, receives] = types.map(|datatype| vec![datatype; size]);
        let (from, to) = (sends.as_ptr().into(), receives.as_ptr().into());
        let nowhere = null_mut();
        ok!(alltoallw(nowhere, counts, places, from, nowhere, counts, places, to, comm));
        assert_eq!(received[0], 0);
        for datatype in &mut types {
            ok!(type_free(datatype));
        }
    });
}

#[test]
fn what_is_sent_does_not_come_to_the_same_place() {
    for size in 1..=3 {
        on_ranks(size, |comm, me, size| {
            let int = predefined(INT);
            let mut numbers = vec![0i32; 2 * size];
            let all = address(&mut numbers);
            let own = address(&mut numbers[2 * me..]);
            let (counts, starts) = (vec![2; size], (0..size).map(|rank| 2 * rank as c_int));
            let starts: Vec<c_int> = starts.collect();
            let bytes: Vec<c_int> = starts.iter().map(|start| 4 * start).collect();
            let types = vec![int; size];
            let counts = || counts.as_ptr().into();
            let starts = || starts.as_ptr().into();
            let bytes = || bytes.as_ptr().into();
            let types = types.as_ptr().into();
            // SAFETY: the buffer has two numbers for each rank.
            let codes = unsafe {
                [
                    allgather(own, 2, int, all, 2, int, comm),
                    allgather(all, 2, int, all, 2, int, comm),
                    allgatherv(own, 2, int, all, counts(), starts(), int, comm),
                    alltoall(all, 2, int, all, 2, int, comm),
                    alltoallv(all, counts(), starts(), int, all, counts(), starts(), int, comm),
                    alltoallw(all, counts(), bytes(), types, all, counts(), bytes(), types, comm),
                    allreduce(all, all, 2, int, MPI_SUM, comm),
                    scan(all, all, 2, int, MPI_SUM, comm),
                    exscan(all, all, 2, int, MPI_SUM, comm),
                    reduce_scatter(all, all, counts(), int, MPI_SUM, comm),
                    reduce_scatter_block(all, all, 2, int, MPI_SUM, comm),
                ]
            };
            assert_eq!(codes, [MPI_ERR_BUFFER; 11]);
            // SAFETY: as above.
            let at_root = unsafe {
                let root = me as c_int;
                [
                    gather(own, 2, int, all, 2, int, root, comm),
                    gatherv(own, 2, int, all, counts(), starts(), int, root, comm),
                    scatter(all, 2, int, own, 2, int, root, comm),
                    scatterv(all, counts(), starts(), int, own, 2, int, root, comm),
                    reduce(all, all, 2, int, MPI_SUM, root, comm),
                ]
            };
            assert_eq!(at_root, [MPI_ERR_BUFFER; 5]);
        });
    }
}

/// Numbers at even places go to odd places of the same buffer.
#[test]
fn what_is_sent_and_what_comes_may_take_turns_in_memory() {
    for size in 1..=3 {
        on_ranks(size, |comm, me, size| {
            let (mut second, mut odd, even) = (null_mut(), null_mut(), every_second(1));
            let (at, int) = ([4i64], predefined(INT));
            ok!(type_create_hindexed_block(1, 1, at.as_ptr().into(), int, &mut second));
            ok!(type_create_resized(second, 0, 8, &mut odd));
            ok!(type_commit(&mut odd));
            let mut numbers = vec![0i32; 2 * size];
            (0..size).for_each(|to| numbers[2 * to] = (10 * me + to) as i32);
            let all = address(&mut numbers);
            ok!(alltoall(all, 1, even, all, 1, odd, comm));
            let come: Vec<_> = numbers.iter().skip(1).step_by(2).copied().collect();
            assert_eq!(come, (0..size).map(|from| (10 * from + me) as i32).collect::<Vec<_>>());
        });
    }
}
