//! What one can do with a request.

use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    task::{Context, Poll, Wake, Waker},
    time::{Duration, Instant},
};

use mp_core::{Channel, Rank, Result, World};
use mp_delegate::comm::{CommThreads, Delegated, wait_all, wait_any};

use crate::{
    stray::{Stray, until},
    support::Watchdog,
};

const SHORT: Duration = Duration::from_millis(5);

/// A rank with a delegated channel to itself.
fn to_itself(
    degree: u32,
    threads: usize,
    code: impl Fn(&Rank, &mut Delegated<[u64]>, &mp_core::Receiver<[u64]>) -> Result<()> + Sync,
) {
    let _watchdog = Watchdog::start();
    let done = World::threads(1).run(|rank| {
        let channel = Channel::degree(degree).max_len(4);
        let threads = CommThreads::start(threads)?;
        let sender = rank.sender("self", 0, channel)?;
        // Closed first, lest the sender waits for it.
        let mut to = threads.delegate(sender);
        let from = rank.receiver("self", 0, channel)?;
        code(rank, &mut to, &from)
    });
    done.unwrap();
}

#[test]
fn a_request_is_done_when_its_message_is_in_the_channel() {
    to_itself(1, 1, |_, to, from| {
        let mut first = to.send(vec![1]);
        let mut second = to.send(vec![2]);
        ensure!(first.wait_timeout(Duration::from_secs(8))?, "there was room");
        ensure!(first.test(), "it was done");
        ensure!(!second.test(), "there was no room");
        let started = Instant::now();
        ensure!(!second.wait_timeout(SHORT)?, "there was no room");
        ensure!(started.elapsed() >= SHORT, "sooner than the limit");
        ensure!(*from.receive()? == [1], "another message");
        ensure!(second.wait_timeout(Duration::from_secs(8))?, "there is room now");
        ensure!(*from.receive()? == [2], "another message");
        ensure!(first.wait()? == [1] && second.wait()? == [2], "others came back");
        Ok(())
    });
}

#[test]
fn whichever_is_done_first() {
    to_itself(1, 2, |rank, to, from| {
        let mut others = CommThreads::start(1)?.delegate(rank.sender::<[u64]>(
            "other",
            0,
            Channel::degree(1).max_len(1),
        )?);
        let other = rank.receiver::<[u64]>("other", 0, Channel::degree(1).max_len(1))?;
        for _ in 0..50 {
            // Both channels are full.
            to.send([0]).wait()?;
            others.send([0]).wait()?;
            let mut requests = vec![to.send([1]), others.send([2])];
            ensure!(*other.receive()? == [0], "another message");
            ensure!(wait_any(&mut requests)? == 1, "the first had no room");
            ensure!(!requests[0].test(), "the first had no room");
            ensure!(*from.receive()? == [0], "another message");
            for answer in wait_all(requests) {
                answer?;
            }
            ensure!(*from.receive()? == [1] && *other.receive()? == [2], "other messages");
        }
        ensure!(wait_any::<u8, u8>(&mut []).is_err(), "there was nothing to wait for");
        Ok(())
    });
}

/// Polls a future on this thread until it is ready.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Bell(mpsc::Sender<()>);
    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            let _ = self.0.send(());
        }
    }
    let (ring, rung) = mpsc::channel();
    let waker = Waker::from(Arc::new(Bell(ring)));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        rung.recv_timeout(Duration::from_secs(30)).expect("a wake-up");
    }
}

#[test]
fn a_request_is_a_future() {
    to_itself(1, 2, |_, to, from| {
        std::thread::scope(|scope| {
            let sending = scope.spawn(move || {
                block_on(async {
                    let mut last = None;
                    for n in 0..200u64 {
                        let request = to.send(vec![n]);
                        if n % 3 == 0 {
                            ensure!(request.await? == [n], "another vector");
                        } else {
                            last = Some(request);
                        }
                    }
                    last.map_or(Ok(()), |last| block_on(last).map(drop).map_err(Into::into))
                })
            });
            for n in 0..200 {
                if n % 20 == 0 {
                    std::thread::sleep(Duration::from_millis(2));
                }
                ensure!(*from.receive()? == [n], "message {n}");
            }
            sending.join().expect("no panic")
        })
    });
}

#[test]
fn a_request_can_be_waited_for_elsewhere() {
    to_itself(1, 1, |_, to, from| {
        for _ in 0..20 {
            to.send([0]).wait()?;
            let mut request = to.send(vec![1]);
            let waiting = std::thread::spawn(move || {
                request.wait_timeout(Duration::from_secs(8)).map(|done| (done, request.wait()))
            });
            std::thread::sleep(Duration::from_micros(300));
            ensure!(*from.receive()? == [0], "another message");
            let (done, answer) = waiting.join().expect("no panic")?;
            ensure!(done && answer? == [1], "another answer");
            ensure!(*from.receive()? == [1], "another message");
        }
        Ok(())
    });
}

/// Whether a request is dropped before, while or after its message is sent: what it held is
/// dropped once.
#[test]
fn what_nobody_wants_back_is_dropped_once() {
    let dropped = Arc::new(AtomicUsize::new(0));
    to_itself(3, 2, |_, to, from| {
        for n in 0..3000u64 {
            let request = to.send(Stray::counted([n], &dropped));
            match n % 4 {
                0 => drop(request),
                1 => {
                    until("it is sent", || request.test());
                    drop(request);
                }
                2 => drop(request.wait()?),
                _ => {
                    std::hint::spin_loop();
                    drop(request);
                }
            }
            ensure!(*from.receive()? == [n], "message {n}");
        }
        Ok(())
    });
    assert_eq!(dropped.load(Ordering::Relaxed), 3000);
}

/// Leaked requests cost their memory, and nothing else; those that outlive everything are safe.
#[test]
fn requests_that_are_leaked_or_outlive_their_world() {
    let (kept, outlived) = mpsc::channel();
    to_itself(10, 2, |_, to, from| {
        for n in 0..500u64 {
            let request = to.send(vec![n]);
            match n % 3 {
                0 => std::mem::forget(request),
                1 => kept.send(request).expect("somebody listens"),
                _ => drop(request.wait()?),
            }
            ensure!(*from.receive()? == [n], "message {n}");
        }
        Ok(())
    });
    drop(kept);
    for (i, request) in outlived.into_iter().enumerate() {
        assert!(request.test());
        if i % 2 == 0 {
            assert_eq!(request.wait().unwrap(), [3 * i as u64 + 1]);
        }
    }
}

/// More requests than a lane begins with, taken in a wild order.
#[test]
fn many_requests_at_once() {
    to_itself(4, 1, |_, to, from| {
        let mut requests: Vec<_> = (0..1000u64).map(|n| Some((n, to.send(vec![n])))).collect();
        for n in 0..1000 {
            ensure!(*from.receive()? == [n], "message {n}");
        }
        let mut random = crate::support::Random::new(7);
        random.shuffle(&mut requests);
        for round in 0..3 {
            for slot in &mut requests {
                if let Some((n, request)) = slot.take() {
                    ensure!(request.wait()? == [n], "another vector");
                }
                if round < 2 && random.below(3) > 0 {
                    let n = random.next();
                    *slot = Some((n, to.send(vec![n])));
                    ensure!(*from.receive()? == [n], "another message");
                }
            }
        }
        Ok(())
    });
}
