//! Checks whether a history is linearizable, by the search of Wing and Gong (1993) with Lowe's memory of failed
//! attempts (2017).

use std::{collections::HashSet, fmt::Debug, hash::Hash};

use serde::{Deserialize, Serialize};

/// A sequential object.
pub trait Spec {
    type State: Clone + Eq + Hash + Debug;
    type Op: Debug;
    type Ret: Debug;

    /// Returns the state after an operation with this result, if the result is possible in the old state. With `None`
    /// the operation did not return, and may have had any possible result.
    fn step(
        &self,
        state: &Self::State,
        op: &Self::Op,
        ret: Option<&Self::Ret>,
    ) -> Option<Self::State>;
}

/// An operation of a history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event<Op, Ret> {
    pub client: usize,
    pub called: u64,
    pub op: Op,
    /// The time and the result. An operation that has not returned may have been executed or not.
    pub returned: Option<(u64, Ret)>,
}

impl<Op, Ret> Event<Op, Ret> {
    /// Returns when it returned. An operation that did not return ends last.
    pub fn end(&self) -> u64 {
        self.returned.as_ref().map_or(u64::MAX, |(end, _)| *end)
    }
}

pub type History<S> = [Event<<S as Spec>::Op, <S as Spec>::Ret>];

/// Returns an order in which the operations of a history can have happened, as their indices.
///
/// # Errors
/// If there is no such order, the longest beginning of one that was found.
pub fn linearize<S: Spec>(
    spec: &S,
    start: &S::State,
    history: &History<S>,
) -> Result<Vec<usize>, Vec<usize>> {
    assert!(history.len() <= u64::BITS as usize, "a history is too long");
    let mut search =
        Search { spec, history, in_vain: HashSet::new(), order: Vec::new(), longest: Vec::new() };
    if search.goes_on(0, start) { Ok(search.order) } else { Err(search.longest) }
}

struct Search<'a, S: Spec> {
    spec: &'a S,
    history: &'a History<S>,
    /// Failed attempts: the operations that were in the order, and the state after them.
    in_vain: HashSet<(u64, S::State)>,
    order: Vec<usize>,
    longest: Vec<usize>,
}

impl<S: Spec> Search<'_, S> {
    /// Returns whether the order, which contains the operations `done`, can be completed.
    fn goes_on(&mut self, done: u64, state: &S::State) -> bool {
        let history = self.history;
        let missing = || (0..history.len()).filter(move |at| done & 1 << at == 0);
        // The next operation must be one that was called before any missing one returned.
        let first_end = missing().map(|at| history[at].end()).min();
        let Some(first_end) = first_end.filter(|&end| end != u64::MAX) else { return true };
        if !self.in_vain.insert((done, state.clone())) {
            return false;
        }
        for at in missing().filter(|&at| history[at].called < first_end) {
            let Event { op, returned, .. } = &history[at];
            let ret = returned.as_ref().map(|(_, ret)| ret);
            let Some(next) = self.spec.step(state, op, ret) else { continue };
            self.order.push(at);
            if self.order.len() > self.longest.len() {
                self.longest.clone_from(&self.order);
            }
            if self.goes_on(done | 1 << at, &next) {
                return true;
            }
            self.order.pop();
        }
        false
    }
}

mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::linearizability::specs::{
        Counter,
        Do::{self, Put, Take},
        Got::{self, Done, Empty, Full, Value},
        Through,
    };

    /// Makes a history from tuples of client, time of call, operation, result and time of return.
    fn history<Op: Copy, Ret: Copy>(events: &[(u64, Op, Ret, u64)]) -> Vec<Event<Op, Ret>> {
        let event = |(client, &(called, op, ret, end)): (usize, &(u64, Op, Ret, u64))| Event {
            client,
            called,
            op,
            returned: Some((end, ret)),
        };
        events.iter().enumerate().map(event).collect()
    }

    fn is_a_queue(capacity: usize, events: &[(u64, Do, Got, u64)]) -> bool {
        let queue = Through::queue(capacity, capacity);
        linearize(&queue, &Vec::new(), &history(events)).is_ok()
    }

    fn is_a_stack(capacity: usize, events: &[(u64, Do, Got, u64)]) -> bool {
        linearize(&Through::stack(capacity), &Vec::new(), &history(events)).is_ok()
    }

    #[test]
    fn what_overlaps_is_in_any_order() {
        assert!(is_a_queue(9, &[]));
        // The value is taken before the call that put it in has returned.
        assert!(is_a_queue(9, &[(0, Put(1), Done, 9), (1, Take, Value(1), 2)]));
        assert!(is_a_queue(
            9,
            &[(0, Put(1), Done, 9), (1, Take, Empty, 2), (3, Take, Value(1), 4)]
        ));
        // Two overlapping operations are possible in both orders.
        for [first, second] in [[1, 2], [2, 1]] {
            let taken = [(4, Take, Value(first), 5), (6, Take, Value(second), 7)];
            let put = [(0, Put(1), Done, 2), (1, Put(2), Done, 3)];
            assert!(is_a_queue(9, &[put, taken].concat()));
            assert!(is_a_stack(9, &[put, taken].concat()));
        }
        assert!(is_a_queue(1, &[(0, Put(1), Done, 3), (1, Put(2), Full, 2)]));
    }

    #[test]
    fn what_does_not_overlap_is_in_its_order() {
        let put = [(0, Put(1), Done, 1), (2, Put(2), Done, 3)];
        let taken = |first, second| [(4, Take, Value(first), 5), (6, Take, Value(second), 7)];
        assert!(is_a_queue(9, &[put, taken(1, 2)].concat()));
        assert!(!is_a_queue(9, &[put, taken(2, 1)].concat()));
        assert!(is_a_stack(9, &[put, taken(2, 1)].concat()));
        assert!(!is_a_stack(9, &[put, taken(1, 2)].concat()));
    }

    #[test]
    fn values_are_not_lost_or_made_up() {
        let put = (0, Put(1), Done, 1);
        assert!(!is_a_queue(9, &[put, (2, Take, Empty, 3)]));
        assert!(!is_a_queue(9, &[put, (2, Take, Value(2), 3)]));
        assert!(!is_a_queue(9, &[(0, Take, Value(1), 1), (2, Put(1), Done, 3)]));
        // The value is taken twice, although the two calls overlap.
        assert!(!is_a_stack(9, &[put, (2, Take, Value(1), 5), (3, Take, Value(1), 4)]));
        assert!(is_a_stack(9, &[put, (2, Take, Value(1), 5), (3, Take, Empty, 4)]));
    }

    #[test]
    fn room_is_neither_more_nor_less_than_there_is() {
        let put = [(0, Put(1), Done, 1), (2, Put(2), Done, 3)];
        assert!(!is_a_queue(1, &put));
        assert!(!is_a_queue(3, &[put.as_slice(), &[(4, Put(3), Full, 5)]].concat()));
        assert!(is_a_queue(2, &[put.as_slice(), &[(4, Put(3), Full, 5)]].concat()));
        // A value that is being taken occupies room or not, but not both at the same time.
        let full = [(0, Put(1), Done, 1), (2, Take, Value(1), 9)];
        assert!(is_a_stack(1, &[full.as_slice(), &[(3, Put(2), Full, 4)]].concat()));
        assert!(is_a_stack(1, &[full.as_slice(), &[(3, Take, Empty, 4)]].concat()));
        let both = [(3, Take, Empty, 4), (5, Put(2), Full, 6)];
        assert!(!is_a_stack(1, &[full, both].concat()));
    }

    /// An error that a sum over all results would not show.
    #[test]
    fn a_counter_is_not_read_as_it_was_before() {
        let counts =
            |events: &[(u64, u64, u64, u64)]| linearize(&Counter, &0, &history(events)).is_ok();
        assert!(counts(&[(0, 1, 0, 3), (1, 1, 1, 2), (4, 0, 2, 5)]));
        assert!(counts(&[(0, 1, 0, 3), (1, 0, 1, 2)]));
        assert!(!counts(&[(0, 1, 0, 1), (2, 0, 0, 3)]));
        assert!(!counts(&[(0, 1, 0, 1), (2, 1, 0, 3)]));
        // A client that reads twice during an addition may see it, but then it must stay.
        assert!(counts(&[(0, 1, 0, 9), (1, 0, 0, 2), (3, 0, 1, 4)]));
        assert!(!counts(&[(0, 1, 0, 9), (1, 0, 1, 2), (3, 0, 0, 4)]));
    }

    #[test]
    fn what_has_not_returned_was_executed_or_not() {
        let queue = Through::queue(1, 1);
        let pending = |op| Event { client: 9, called: 0, op, returned: None };
        let with = |pending, events: &[(u64, Do, Got, u64)]| {
            let history = [vec![pending], history(events)].concat();
            linearize(&queue, &Vec::new(), &history).is_ok()
        };
        assert!(with(pending(Put(1)), &[(1, Take, Empty, 2)]));
        assert!(with(pending(Put(1)), &[(1, Take, Value(1), 2)]));
        assert!(with(pending(Put(1)), &[(1, Put(2), Full, 2)]));
        assert!(with(pending(Put(1)), &[(1, Take, Empty, 2), (3, Take, Value(1), 4)]));
        assert!(!with(pending(Put(1)), &[(1, Take, Value(1), 2), (3, Take, Value(1), 4)]));
        assert!(!with(pending(Put(1)), &[(1, Take, Value(2), 2)]));
        assert!(with(pending(Take), &[(1, Put(1), Done, 2), (3, Take, Empty, 4)]));
        assert!(!with(Event { called: 3, ..pending(Put(1)) }, &[(1, Take, Value(1), 2)]));
    }

    /// Tries all orders, one after the other.
    fn by_force(
        spec: &impl Spec<State = Vec<u64>, Op = Do, Ret = Got>,
        events: &[Event<Do, Got>],
    ) -> bool {
        fn orders(len: usize) -> Vec<Vec<usize>> {
            let Some(last) = len.checked_sub(1) else { return vec![Vec::new()] };
            let into = |order: Vec<usize>| {
                (0..len).map(move |at| {
                    let mut order = order.clone();
                    order.insert(at, last);
                    order
                })
            };
            orders(last).into_iter().flat_map(into).collect()
        }
        orders(events.len()).iter().any(|order| {
            let keeps = order.iter().enumerate().all(|(at, &first)| {
                order[at..].iter().all(|&later| events[later].end() >= events[first].called)
            });
            let mut state = Vec::new();
            keeps
                && order.iter().all(|&at| {
                    let ret = events[at].returned.as_ref().map(|(_, ret)| ret);
                    let next = spec.step(&state, &events[at].op, ret);
                    next.map(|next| state = next).is_some()
                })
        })
    }

    fn any_op() -> impl Strategy<Value = Do> {
        prop_oneof![(1..4u64).prop_map(Put), Just(Take)]
    }

    fn any_ret() -> impl Strategy<Value = Got> {
        prop_oneof![Just(Done), Just(Empty), Just(Full), (1..4u64).prop_map(Value)]
    }

    proptest! {
        /// Histories that are possible and others, with random times that may overlap.
        #[test]
        fn the_search_finds_what_there_is(
            events in proptest::collection::vec((any_op(), any_ret(), 0..40u64, 1..15u64), 0..6),
            capacity in 1..4usize,
        ) {
            let event = |(client, (op, ret, called, time)): (usize, (Do, Got, u64, u64))| {
                // All times are different.
                let (called, end) = (2 * (8 * called + client as u64), called + time);
                let returned = Some((2 * (8 * end + client as u64) + 1, ret));
                Event { client, called, op, returned }
            };
            let events: Vec<_> = events.into_iter().enumerate().map(event).collect();
            let (stack, queue) = (Through::stack(capacity), Through::queue(capacity, capacity + 1));
            prop_assert_eq!(linearize(&stack, &Vec::new(), &events).is_ok(), by_force(&stack, &events));
            prop_assert_eq!(linearize(&queue, &Vec::new(), &events).is_ok(), by_force(&queue, &events));
        }

        /// Operations that took effect one after the other, each at some time between call and return.
        #[test]
        fn what_did_happen_is_found(
            ops in proptest::collection::vec((any_op(), 0..60u64, 0..60u64), 0..30),
            capacity in 1..4usize,
        ) {
            let queue = Through::queue(capacity, capacity);
            let mut state = Vec::new();
            let mut events = Vec::new();
            for (at, (op, before, after)) in ops.into_iter().enumerate() {
                let rets = [Done, Empty, Full].into_iter().chain(state.first().map(|v| Value(*v)));
                let mut can = rets.filter_map(|ret| Some((ret, queue.step(&state, &op, Some(&ret))?)));
                let (ret, next) = can.next().expect("a queue answers");
                drop(can);
                state = next;
                let time = |time: u64| 100 * (10 * at as u64 + 100 + time) + at as u64;
                let (called, end) = (time(0) - 100 * before, time(after) + 50);
                events.push(Event { client: at, called, op, returned: Some((end, ret)) });
            }
            events.reverse();
            let order = linearize(&queue, &Vec::new(), &events);
            prop_assert_eq!(order.map(|order| order.len()), Ok(events.len()));
        }
    }
}
