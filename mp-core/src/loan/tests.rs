//! Loans between threads, with proper and improper use of the public interface.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Barrier, mpsc},
};

use crate::{Rank, Result, World};

/// Runs two ranks if there are two cores, because a crowded world would not lend. Returns `None` otherwise.
fn pair<T: Send + serde::Serialize + serde::de::DeserializeOwned>(
    code: impl Fn(&Rank) -> Result<T> + Sync,
) -> Option<Vec<T>> {
    let cores = World::threads_on_heap(1).run(|rank| Ok(rank.cores())).unwrap()[0];
    (cores >= 2).then(|| World::threads_on_heap(2).run(code).unwrap())
}

/// Each loan is repeated until the borrower comes in time.
#[test]
fn what_is_lent_is_copied() {
    let (numbers, offered) = mpsc::channel();
    let offered = std::sync::Mutex::new(offered);
    let lengths = [0, 1, 575, 576, 5000, 100_001];
    pair(|rank| {
        if rank.id() == 0 {
            let mut lender = rank.lender(1, 3).unwrap();
            for len in lengths {
                let bytes: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
                while !lender.lend(&bytes, |number| numbers.send(number).map(|()| true)).unwrap() {}
            }
            return Ok(());
        }
        let borrower = rank.borrower(0, 3).unwrap();
        let offered = offered.lock().unwrap();
        for len in lengths {
            let mut bytes = vec![0xee; len];
            while !borrower.take(offered.recv().unwrap(), &mut bytes) {}
            assert!(bytes.iter().enumerate().all(|(i, &byte)| byte == (i % 251) as u8), "{len}");
        }
        Ok(())
    });
}

#[test]
fn numbers_that_are_not_offered_are_not_there() {
    let moment = Barrier::new(2);
    pair(|rank| {
        if rank.id() == 1 {
            moment.wait();
            let borrower = rank.borrower(0, 0).unwrap();
            for number in [0, 1, 2, 3, u64::MAX, u64::MAX >> 2] {
                assert!(!borrower.take(number, &mut [0; 8]), "{number}");
            }
            moment.wait();
            moment.wait();
            // The loan is on offer now, but it is longer than the buffer.
            assert!(!borrower.take(4, &mut [0; 7]));
            assert!(!borrower.take(4, &mut [0; 8]), "it was given back");
            moment.wait();
            return Ok(());
        }
        let mut lender = rank.lender(1, 0).unwrap();
        assert!(rank.lender(1, 0).is_none(), "there can be only one");
        assert!(!lender.lend(&[1; 8], |number| Ok::<_, ()>(number != 1)).unwrap());
        assert_eq!(lender.lend(&[1; 8], |_| Err(7)), Err(7));
        let panicked = AssertUnwindSafe(|| lender.lend::<()>(&[1; 8], |_| panic!("on purpose")));
        assert!(catch_unwind(panicked).is_err());
        moment.wait();
        moment.wait();
        drop(lender);
        let mut lender = rank.lender(1, 0).unwrap();
        let lent = lender.lend(&[1; 8], |number| {
            assert_eq!(number, 4, "numbers go on where they were");
            moment.wait();
            moment.wait();
            Ok::<_, ()>(true)
        });
        assert_eq!(lent, Ok(false));
        Ok(())
    });
}

/// If no rank takes the loan, the lender goes on.
#[test]
fn what_nobody_takes_is_withdrawn() {
    let taken = pair(|rank| {
        let Some(mut lender) = rank.lender(1 - rank.id(), 0) else { return Ok(true) };
        Ok((0..100).any(|_| lender.lend(&[1; 8], |_| Ok::<_, ()>(true)).unwrap()))
    });
    assert_ne!(taken, Some(vec![true, true]));
}

#[test]
fn crowded_worlds_do_not_lend() {
    let crowd = World::threads_on_heap(1).run(|rank| Ok(rank.cores())).unwrap()[0] + 1;
    let world = World::threads_on_heap(crowd).run(|rank| {
        let mut lender = rank.lender((rank.id() + 1) % crowd, 0).unwrap();
        let lent: Result<bool, ()> = lender.lend(&[1; 8], |_| panic!("it has told of a loan"));
        assert_eq!(lent, Ok(false));
        Ok(())
    });
    world.unwrap();
}

#[test]
fn ranks_that_are_not_there_borrow_nothing() {
    let world = World::threads_on_heap(1).run(|rank| {
        assert!(rank.lender(1, 0).is_none() && rank.borrower(1, 0).is_none());
        Ok(())
    });
    world.unwrap();
}
