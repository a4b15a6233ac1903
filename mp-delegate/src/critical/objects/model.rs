//! The two ends of a queue under a model checker, each used by one thread at a time, as its section ensures. Values
//! come out in the order in which they went in, and a node is not used again before its value is out.

use std::{cell::Cell, sync::Arc};

use loom::thread;
use mp_core::memory::Word;

use super::{Dequeuers, Enqueuers};
use crate::critical::{Object, model::explore};

/// Passes `values` through so many nodes, the last ones after both threads. An end that finds nothing to do does not
/// try again more than `patience` times.
fn passes(nodes: usize, values: u64, patience: usize, preemptions: usize) {
    explore(preemptions, move || {
        let words: Arc<Vec<Word>> = Arc::new((0..2 * nodes).map(|_| Word::new(0)).collect());
        let common = Arc::clone(&words);
        let enqueuers = thread::spawn(move || {
            let (mut tail, mut refused) = (0, 0);
            while tail < values && refused <= patience {
                let value = tail;
                match Enqueuers::apply_beside(&mut tail, value, &common).put() {
                    Ok(()) => {}
                    Err(full) => {
                        assert_eq!(full.0, value);
                        assert!(tail >= nodes as u64, "there is room at first");
                        refused += 1;
                    }
                }
            }
            tail
        });
        let (mut head, wanted) = (0, Cell::new(0));
        let mut take = || {
            let taken = Dequeuers::apply_beside(&mut head, (), &words).taken();
            if let Some(value) = taken {
                assert_eq!(value, wanted.replace(value + 1));
            }
            taken.is_some()
        };
        let mut refused = 0;
        while wanted.get() < values && refused <= patience {
            refused += usize::from(!take());
        }
        let came_in = enqueuers.join().unwrap();
        while take() {}
        assert_eq!(wanted.get(), came_in, "lost, or still on the way");
    });
}

#[test]
fn one_node_is_used_again() {
    passes(1, 3, 2, 5);
}

#[test]
fn two_nodes_are_used_again() {
    passes(2, 4, 2, 5);
}
