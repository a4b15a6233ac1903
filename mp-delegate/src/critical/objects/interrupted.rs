//! Operations that are interrupted after any step, as a kill would do.

use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
};

thread_local! {
    /// Steps until this thread "is killed".
    static LEFT: Cell<Option<usize>> = const { Cell::new(None) };
}

struct Killed;

pub(super) fn step() {
    match LEFT.get() {
        Some(0) => {
            LEFT.set(None);
            resume_unwind(Box::new(Killed));
        }
        left => LEFT.set(left.map(|left| left - 1)),
    }
}

/// Returns whether the operation finished within so many steps.
pub(super) fn within(steps: usize, operation: impl FnOnce()) -> bool {
    LEFT.set(Some(steps));
    let ended = catch_unwind(AssertUnwindSafe(operation));
    LEFT.set(None);
    match ended {
        Ok(()) => true,
        Err(payload) if payload.is::<Killed>() => false,
        Err(payload) => resume_unwind(payload),
    }
}

mod tests {
    use std::collections::VecDeque;

    use mp_core::memory::Word;
    use proptest::prelude::*;

    use super::{
        super::{Answer, Dequeuers, Enqueuers, Op, Queue, Stack},
        within,
    };
    use crate::critical::Object;

    /// A store with `room` places, and values in it.
    trait Store: Clone {
        fn new(room: usize) -> Self;
        fn apply(&mut self, op: Op) -> Answer;
        /// Repairs the store as a successor does, without knowing which operation it was.
        fn repair(&mut self, puts: bool) -> bool;
        /// Takes out all values.
        fn drain(mut self) -> Vec<u64> {
            std::iter::from_fn(|| self.apply(Op::TAKE).taken()).collect()
        }
    }

    macro_rules! in_cells {
        ($($name:ident, $object:ty;)+) => { $(
            #[derive(Clone)]
            struct $name(Vec<[u64; 2]>);

            impl Store for $name {
                fn new(room: usize) -> Self {
                    Self(vec![[0; 2]; room])
                }

                fn apply(&mut self, op: Op) -> Answer {
                    <$object>::apply(&mut self.0, op)
                }

                fn repair(&mut self, _: bool) -> bool {
                    <$object>::repair(&mut self.0)
                }
            }
        )+ };
    }

    in_cells! { StackCells, Stack; QueueCells, Queue; }

    struct TwoEnds {
        tail: u64,
        head: u64,
        nodes: Vec<Word>,
    }

    impl Clone for TwoEnds {
        fn clone(&self) -> Self {
            let Self { tail, head, .. } = *self;
            let nodes = self.nodes.iter().map(|word| Word::new(word.load_relaxed())).collect();
            Self { tail, head, nodes }
        }
    }

    impl Store for TwoEnds {
        fn new(room: usize) -> Self {
            Self { tail: 0, head: 0, nodes: (0..2 * room).map(|_| Word::new(0)).collect() }
        }

        fn apply(&mut self, op: Op) -> Answer {
            match op.to_put() {
                Some(value) => Enqueuers::apply_beside(&mut self.tail, value, &self.nodes),
                None => Dequeuers::apply_beside(&mut self.head, (), &self.nodes),
            }
        }

        fn repair(&mut self, puts: bool) -> bool {
            if puts {
                return Enqueuers::repair_beside(&mut self.tail, &self.nodes);
            }
            Dequeuers::repair_beside(&mut self.head, &self.nodes)
        }
    }

    fn op(value: Option<u64>) -> Op {
        value.map_or(Op::TAKE, Op::put)
    }

    /// Checks that after any step the last operation was executed or not, once the store is repaired, and that later
    /// operations, above all those of the other end, continue from there.
    fn is_whole<S: Store>(room: usize, ops: &[Option<u64>], last: Option<u64>, more: Option<u64>) {
        let mut before = S::new(room);
        for &value in ops {
            let _ = before.apply(op(value));
        }
        let mut after = before.clone();
        let _ = after.apply(op(last));
        for steps in 0.. {
            let mut cut = before.clone();
            let ended = within(steps, || {
                let _ = cut.apply(op(last));
            });
            // The other end goes on before the repair.
            let (mut all, mut busy) = ([before.clone(), after.clone()], cut.clone());
            assert!(cut.repair(last.is_some()));
            let found = cut.clone().drain();
            assert!(all.iter().any(|one| one.clone().drain() == found), "{steps}: {found:?}");
            if ended {
                assert_eq!(found, after.drain());
                return;
            }
            if more.is_some() != last.is_some() {
                for one in all.iter_mut().chain([&mut busy]) {
                    let _ = one.apply(op(more));
                }
                assert!(busy.repair(last.is_some()));
                let found = busy.drain();
                assert!(all.iter().any(|one| one.clone().drain() == found), "{steps}: {found:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn what_was_interrupted_is_whole(
            room in 0usize..6,
            ops in prop::collection::vec(prop::option::weighted(0.6, 1u64..1000), 0..30),
            last in prop::option::of(1u64..1000),
            more in prop::option::of(1u64..1000),
        ) {
            is_whole::<StackCells>(room, &ops, last, more);
            is_whole::<QueueCells>(room, &ops, last, more);
            is_whole::<TwoEnds>(room, &ops, last, more);
        }

        #[test]
        fn a_queue_is_a_queue(
            room in 0usize..6,
            ops in prop::collection::vec(prop::option::weighted(0.6, 1u64..1000), 0..60),
        ) {
            let mut queues = (QueueCells::new(room), TwoEnds::new(room), VecDeque::new());
            for value in ops {
                let (one, two, model) = &mut queues;
                let taken = match value {
                    Some(value) if model.len() < room => {
                        model.push_back(value);
                        Some(value)
                    }
                    Some(_) => None,
                    None => model.pop_front(),
                };
                prop_assert_eq!(one.apply(op(value)).taken(), taken);
                prop_assert_eq!(two.apply(op(value)).taken(), taken);
            }
        }
    }
}
