//! The stack and the queue under a model checker: no value is lost, returned twice, or returned out of order, and no
//! call reports an empty or full object wrongly.

use std::sync::Arc;

use loom::thread;
use mp_core::memory::{Word, interleavings};
use mp_delegate::critical::objects::Full;

use super::{
    closing_ring::ClosingRing,
    lcrq::RingList,
    ring::{HEAD, Ring},
    ring_queue::Rings,
    treiber_stack::{Nodes, USED},
};

/// Runs `test` in these [`interleavings`], which may be longer than those of mp-core.
fn explore(preemptions: usize, test: impl Fn() + Sync + Send + 'static) {
    let mut model = interleavings(preemptions);
    model.max_branches = 10_000;
    model.check(test);
}

fn zeros(words: usize) -> Arc<Vec<Word>> {
    Arc::new((0..words).map(|_| Word::new(0)).collect())
}

/// Runs two functions in two threads on the same words. Returns their results.
fn both<T: Send + 'static>(
    words: &Arc<Vec<Word>>,
    one: impl FnOnce(&[Word]) -> T + Send + 'static,
    other: impl FnOnce(&[Word]) -> T,
) -> [T; 2] {
    let common = Arc::clone(words);
    let one = thread::spawn(move || one(&common));
    let other = other(words);
    [one.join().unwrap(), other]
}

fn stack(capacity: usize, handles: usize) -> (Nodes, Arc<Vec<Word>>) {
    let nodes = capacity + handles;
    (Nodes::new(capacity, nodes), zeros(Nodes::words(nodes)))
}

#[test]
fn a_stack_has_what_was_put_on_it() {
    explore(5, || {
        let (stack, words) = stack(2, 2);
        let push_and_pop = move |value: u64| {
            move |words: &[Word]| {
                stack.push(words, value).unwrap().unwrap();
                stack.pop(words).unwrap().unwrap()
            }
        };
        let mut popped = both(&words, push_and_pop(1), push_and_pop(2));
        popped.sort_unstable();
        assert_eq!((popped, stack.pop(&words).unwrap()), ([1, 2], None));
    });
}

/// The top is the same node as before, with another value. There are no other nodes.
#[test]
fn a_node_that_comes_back_is_not_taken_for_what_it_was() {
    explore(5, || {
        let (stack, words) = stack(2, 2);
        (1..=2).for_each(|value| stack.push(&words, value).unwrap().unwrap());
        words[USED].store_relaxed(4);
        let pop = move |words: &[Word]| Vec::from_iter(stack.pop(words).unwrap());
        let shuffle = move |words: &[Word]| {
            let taken: Vec<_> = (0..2).filter_map(|_| stack.pop(words).unwrap()).collect();
            (3..).zip(&taken).for_each(|(value, _)| stack.push(words, value).unwrap().unwrap());
            taken
        };
        let [popped, taken] = both(&words, pop, shuffle);
        let last = 2 + taken.len() as u64;
        let mut all = [popped, taken].concat();
        // The number of pops is limited, in case the list has become a cycle.
        all.extend((0..5).map_while(|_| stack.pop(&words).unwrap()));
        all.sort_unstable();
        assert_eq!(all, Vec::from_iter(1..=last));
    });
}

/// One thread has taken the only value, and has not returned its node yet.
#[test]
fn a_stack_that_is_empty_is_not_full() {
    explore(5, || {
        let (stack, words) = stack(1, 2);
        stack.push(&words, 1).unwrap().unwrap();
        both(
            &words,
            move |words| _ = stack.pop(words).unwrap(),
            move |words| match (stack.push(words, 2).unwrap(), stack.pop(words).unwrap()) {
                (Ok(()), popped) => assert_eq!(popped, Some(2)),
                (Err(Full(2)), Some(1)) => {
                    stack.push(words, 3).unwrap().unwrap();
                }
                (Err(Full(2)), None) => {
                    stack.push(words, 3).unwrap().unwrap();
                    assert_eq!(stack.pop(words).unwrap(), Some(3));
                }
                other => panic!("{other:?}"),
            },
        );
    });
}

#[test]
fn a_stack_is_full_when_it_is() {
    explore(5, || {
        let (stack, words) = stack(1, 2);
        let push = move |value: u64| move |words: &[Word]| stack.push(words, value).unwrap();
        let pushed = both(&words, push(1), push(2));
        let there = stack.pop(&words).unwrap();
        match pushed {
            [Ok(()), Err(Full(2))] => assert_eq!(there, Some(1)),
            [Err(Full(1)), Ok(())] => assert_eq!(there, Some(2)),
            other => panic!("{other:?}"),
        }
    });
}

/// The smallest possible ring has one number and two entries, which are used again and again.
#[test]
fn a_number_is_taken_once() {
    explore(5, || {
        let (ring, words) = (Ring::new(0, 1), zeros(Ring::words(1)));
        let take = move |words: &[Word], times: usize| {
            (0..times).filter_map(|_| ring.take(words).unwrap()).count()
        };
        let put = move |words: &[Word]| {
            ring.put(words, 1);
            let taken = take(words, 1);
            if taken == 1 {
                ring.put(words, 1);
            }
            taken
        };
        let [mine, others] = both(&words, put, move |words| take(words, 2));
        // The number is put in once, and once more if the same thread takes it.
        let left = take(&words, 2);
        assert_eq!(others + left, 1, "{mine} taken by who put it in");
    });
}

#[test]
fn two_who_take_get_different_ones() {
    explore(5, || {
        let (ring, words) = (Ring::new(0, 2), zeros(Ring::words(2)));
        (1..=2).for_each(|number| ring.put(&words, number));
        let take = move |words: &[Word]| ring.take(words).unwrap().unwrap();
        let mut taken = both(&words, take, take);
        taken.sort_unstable();
        assert_eq!((taken, ring.take(&words).unwrap()), ([1, 2], None));
    });
}

/// A taker is late, so another taker finds its number a lap later and can only mark the entry. Then a putter with the
/// ticket of that lap comes.
#[test]
fn who_comes_late_to_a_marked_entry_goes_elsewhere() {
    explore(4, || {
        let (ring, words) = (Ring::new(0, 2), zeros(Ring::words(2)));
        (1..=2).for_each(|number| ring.put(&words, number));
        let late = words[HEAD].fetch_add(1);
        assert_eq!(ring.take(&words).unwrap(), Some(2));
        // These takers draw the tickets of all other entries of this lap.
        (0..2).for_each(|_| assert_eq!(ring.take(&words).unwrap(), None));
        let common = Arc::clone(&words);
        let putter = thread::spawn(move || ring.put(&common, 2));
        let take_late = move |words: &[Word]| {
            ring.entry(words, late).0.fetch_add(1u64.wrapping_neg());
            None
        };
        let [_, taken] = both(&words, take_late, move |words| ring.take(words).unwrap());
        putter.join().unwrap();
        assert_eq!(taken.or_else(|| ring.take(&words).unwrap()), Some(2));
    });
}

fn queue(capacity: usize, handles: usize) -> (Rings, Arc<Vec<Word>>) {
    let queue = Rings::new(capacity + handles - 1);
    (queue, zeros(queue.words()))
}

#[test]
fn a_queue_has_what_was_put_into_it() {
    explore(4, || {
        let (queue, words) = queue(2, 2);
        let in_and_out = move |value: u64| {
            move |words: &[Word]| {
                queue.enqueue(words, value).unwrap().unwrap();
                queue.dequeue(words).unwrap().unwrap()
            }
        };
        let mut taken = both(&words, in_and_out(1), in_and_out(2));
        taken.sort_unstable();
        assert_eq!((taken, queue.dequeue(&words).unwrap()), ([1, 2], None));
    });
}

/// The places are used for the second time.
#[test]
fn values_go_out_as_they_came_in() {
    explore(4, || {
        let (queue, words) = queue(1, 2);
        (0..2).for_each(|_| {
            queue.enqueue(&words, 9).unwrap().unwrap();
            assert_eq!(queue.dequeue(&words).unwrap(), Some(9));
        });
        let put = move |words: &[Word]| {
            (1..=2).filter(|&value| queue.enqueue(words, value).unwrap().is_ok()).collect()
        };
        let take =
            move |words: &[Word]| (0..2).filter_map(|_| queue.dequeue(words).unwrap()).collect();
        let [put, mut taken]: [Vec<u64>; 2] = both(&words, put, take);
        while let Some(value) = queue.dequeue(&words).unwrap() {
            taken.push(value);
        }
        // There is always room for the first value.
        assert_eq!((put.first(), taken), (Some(&1), put.clone()));
    });
}

/// The ring has one entry, so values that come at the same time close it.
#[test]
fn a_closing_ring_loses_no_value() {
    explore(4, || {
        let (ring, words) = (ClosingRing::new(0, 0), zeros(ClosingRing::words(0)));
        let put = move |words: &[Word]| {
            (1..=2).filter(|&value| ring.put(words, value)).collect::<Vec<u32>>()
        };
        let take = move |words: &[Word]| (0..2).filter_map(|_| ring.take(words)).collect();
        let [put, mut taken]: [Vec<u32>; 2] = both(&words, put, take);
        taken.extend((0..3).map_while(|_| ring.take(&words)));
        assert_eq!(taken, put);
        assert!(!put.contains(&2) || put.contains(&1), "a closed ring was opened again");
    });
}

fn ring_list(order: u32, rings: usize) -> (RingList, Arc<Vec<Word>>) {
    let list = RingList::new(order, rings, 2);
    let words = zeros(list.words());
    (0..2).for_each(|seat| assert!(list.come(&words, seat)));
    (list, words)
}

#[test]
fn a_list_of_rings_has_what_was_put_into_it() {
    explore(3, || {
        let (list, words) = ring_list(1, 4);
        let in_and_out = move |seat: usize| {
            move |words: &[Word]| {
                list.enqueue(words, seat, seat as u32, |_| ()).unwrap().unwrap();
                list.dequeue(words, seat, |_| ()).unwrap().unwrap()
            }
        };
        let mut taken = both(&words, in_and_out(0), in_and_out(1));
        taken.sort_unstable();
        assert_eq!((taken, list.dequeue(&words, 0, |_| ()).unwrap()), ([0, 1], None));
    });
}

/// Rings have one entry, so there is a new ring for nearly each value, and rings are used again.
#[test]
fn values_go_through_a_list_of_rings_as_they_came_in() {
    explore(3, || {
        let (list, words) = ring_list(0, 3);
        for value in 7..=8 {
            list.enqueue(&words, 0, value, |_| ()).unwrap().unwrap();
        }
        assert_eq!(list.dequeue(&words, 0, |_| ()).unwrap(), Some(7));
        let put = move |words: &[Word]| {
            let put = |&value: &u32| list.enqueue(words, 0, value, |_| ()).unwrap().is_ok();
            (1..=2).filter(put).collect::<Vec<u32>>()
        };
        let take = move |words: &[Word]| {
            (0..2).filter_map(|_| list.dequeue(words, 1, |_| ()).unwrap()).collect()
        };
        let [put, mut taken]: [Vec<u32>; 2] = both(&words, put, take);
        taken.extend((0..4).map_while(|_| list.dequeue(&words, 1, |_| ()).unwrap()));
        assert_eq!(taken, [&[8], &put[..]].concat());
    });
}
