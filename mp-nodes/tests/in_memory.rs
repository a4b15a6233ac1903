//! The interconnect of threads.

mod support;

use std::thread;

use mp_nodes::{Arrived, Error, InMemory, Interconnect, MAX_TAG};

use support::watchdog::Watchdog;

/// Runs code in a thread for each node, and returns what the threads return.
fn run<T: Send>(nodes: usize, code: impl Fn(InMemory) -> T + Sync) -> Vec<T> {
    let _watchdog = Watchdog::start("a test of nodes in memory");
    thread::scope(|scope| {
        let code = &code;
        let threads: Vec<_> = InMemory::connect(nodes)
            .into_iter()
            .map(|connection| scope.spawn(move || code(connection)))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn messages_arrive_whole_and_in_order() {
    for nodes in [1, 2, 3, 5, 8] {
        for seed in 0..2 {
            let ran = run(nodes, |mut connection| {
                support::storm(&mut connection, seed)?;
                Box::new(connection).end()
            });
            assert!(ran.iter().all(Result::is_ok), "{ran:?}");
        }
    }
}

#[test]
fn what_no_node_can_do_is_an_error_with_the_facts() {
    let mut one = InMemory::connect(1).remove(0);
    assert!(matches!(one.send(1, 0, Box::new([])), Err(Error::NoSuchNode { node: 1, nodes: 1 })));
    let tag = MAX_TAG + 1;
    assert!(
        matches!(one.send(0, tag, Box::new([])), Err(Error::BadTag { tag: named, highest: MAX_TAG }) if named == tag)
    );
    assert!(matches!(one.receive_into(&mut []), Err(Error::NothingArrived)));
    one.send(0, MAX_TAG, Box::new([7; 3])).unwrap();
    assert!(matches!(one.receive_into(&mut [0; 3]), Err(Error::NothingArrived)), "not probed");
    assert!(one.probe().unwrap().is_some());
    let wrong = one.receive_into(&mut [0; 4]);
    assert!(matches!(wrong, Err(Error::WrongLength { len: 3, buffer: 4 })));
    assert_eq!(one.probe().unwrap(), Some(Arrived { from: 0, tag: MAX_TAG, len: 3 }));
    let mut bytes = [0; 3];
    one.receive_into(&mut bytes).unwrap();
    assert_eq!((bytes, one.probe().unwrap()), ([7; 3], None));
    // A long message is pending until it is received.
    one.send(0, 0, Box::new([1; 100_000])).unwrap();
    assert_eq!(one.progress().unwrap(), 1);
    assert!(one.probe().unwrap().is_some());
    one.receive_into(&mut vec![0; 100_000]).unwrap();
    assert_eq!(one.progress().unwrap(), 0);
}

#[test]
fn different_numbers_of_words_are_an_error_at_all_nodes() {
    let ran = run(3, |mut connection| {
        let words = if connection.node() == 1 { 2 } else { 1 };
        let failed = connection.all_gather(&vec![0; words]).unwrap_err();
        // Afterwards they agree again.
        (failed, connection.all_gather(&[7]).unwrap())
    });
    for (own, (failed, then)) in ran.into_iter().enumerate() {
        let wanted = if own == 1 { (1, 2, 0, 1) } else { (own, 1, 1, 2) };
        assert!(
            matches!(failed, Error::DifferentLengths { own, ours, node, theirs }
                if (own, ours, node, theirs) == wanted),
            "{failed:?}"
        );
        assert_eq!(then, [7; 3]);
    }
}

#[test]
fn nodes_that_end_or_abort_are_noticed() {
    let ran = run(3, |mut connection| match connection.node() {
        // It is dropped without its end.
        2 => None,
        node => {
            // The other one may have returned the same error and ended.
            let failed = connection.all_gather(&[]).unwrap_err();
            assert!(matches!(failed, Error::NodeLost { node: lost } if lost != node), "{failed:?}");
            let failed = connection.send(2, 0, Box::new([])).unwrap_err();
            assert!(matches!(failed, Error::NodeLost { node: 2 }), "{failed:?}");
            let failed = connection.probe().unwrap_err();
            assert!(matches!(failed, Error::NodeLost { node: lost } if lost != node), "{failed:?}");
            Some(node)
        }
    });
    assert_eq!(ran, [Some(0), Some(1), None]);
    run(2, |mut connection| {
        let failed = match connection.node() {
            0 => {
                connection.abort(7).and_then(|()| connection.send(0, 0, Box::new([]))).unwrap_err()
            }
            _ => connection.all_gather(&[]).unwrap_err(),
        };
        assert!(matches!(failed, Error::Aborted { node: 0, status: 7 }), "{failed:?}");
    });
}
