//! The operations on requests.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    task::{Context, Poll, Wake, Waker},
    time::{Duration, Instant},
};

use mp_core::wait_any;
use mp_core::{Channel, Endpoints, Rank, Result, World};
use mp_delegate::threads::{CommThreads, Delegated, Request};

use crate::{
    stray::{Stray, until},
    support::{Random, Watchdog, block_on, parts},
    wait_each,
};

const SHORT: Duration = Duration::from_millis(5);

/// Runs code in a rank with a delegated channel to itself.
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
        // This end is dropped first, so that the sender does not wait for the receiver.
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
        ensure!(first.is_done(), "it was done");
        ensure!(!second.is_done(), "there was no room");
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
            ensure!(!requests[0].is_done(), "the first had no room");
            ensure!(*from.receive()? == [0], "another message");
            for answer in wait_each(requests) {
                answer?;
            }
            ensure!(*from.receive()? == [1] && *other.receive()? == [2], "other messages");
        }
        ensure!(wait_any::<Request<u8>>(&mut []).is_err(), "there was nothing to wait for");
        Ok(())
    });
}

#[test]
fn what_is_not_sent_yet_can_be_taken_back() {
    to_itself(1, 1, |rank, to, from| {
        let mut requests: Vec<_> = (0..4).map(|n| Some(to.send(vec![n]))).collect();
        let moved = to.send_buffer(rank.buffer_from(&[4; 9])?);
        let last = to.send(vec![5]);
        let mut take = |n: usize| requests[n].take().expect("taken once");
        let first = take(0);
        until("there is room for one", || first.is_done());
        // The message that the thread waits with, one after it, and a buffer.
        ensure!(take(1).cancel().expect("no room") == [1], "another message");
        ensure!(take(3).cancel().expect("no room") == [3], "another message");
        ensure!(*moved.cancel().expect("no room") == [4; 9], "another buffer");
        let sent = first.cancel().expect_err("it was sent");
        ensure!(sent.is_done() && sent.wait()? == [0], "another answer");
        for n in [0, 2, 5] {
            ensure!(*from.receive()? == [n], "message {n}");
        }
        ensure!(take(2).wait()? == [2] && last.wait()? == [5], "others came back");
        let too_long = to.send(vec![7; 5]).cancel().expect_err("it is known at once");
        ensure!(too_long.wait().expect_err("too long").message == [7; 5], "another message");
        Ok(())
    });
}

/// Requests are cancelled at any moment. A cancelled message does not arrive, and all others do.
#[test]
fn taken_back_at_any_moment() {
    const COUNT: u64 = 2000;
    for (degree, threads) in [(0, 1), (1, 1), (1, 3), (4, 2), (100, 2)] {
        let _watchdog = Watchdog::start();
        for shared in [false, true] {
            if shared && degree == 0 {
                continue;
            }
            let all = Endpoints::new([0], [1]);
            let run = World::threads(2).run(|rank| {
                let channel = Channel::degree(degree).max_len(4);
                if rank.id() == 1 {
                    let from = match shared {
                        true => rank.shared_receiver::<[u64]>("some", &all, channel)?,
                        false => rank.receiver::<[u64]>("some", 0, channel)?,
                    };
                    return from
                        .iter()
                        .map(|message| Ok(message?[0]))
                        .collect::<Result<Vec<u64>>>();
                }
                let threads = CommThreads::start(threads)?;
                let mut to = threads.delegate(match shared {
                    true => rank.shared_sender::<[u64]>("some", &all, channel)?,
                    false => rank.sender::<[u64]>("some", 1, channel)?,
                });
                let mut random = Random::new(u64::from(degree));
                let mut sent = Vec::new();
                let mut held = Vec::new();
                for n in 0..COUNT {
                    held.push((n, to.send(vec![n])));
                    while held.len() as u64 > random.below(8) {
                        let at = random.below(held.len() as u64) as usize;
                        let (n, request) = held.remove(at);
                        (0..random.below(200)).for_each(|_| std::hint::spin_loop());
                        match request.cancel() {
                            Ok(message) => ensure!(message == [n], "{message:?} came back"),
                            Err(request) => {
                                ensure!(request.is_done(), "neither sent nor taken back");
                                ensure!(request.wait()? == [n], "another message");
                                sent.push(n);
                            }
                        }
                    }
                }
                for (n, request) in held {
                    request.wait()?;
                    sent.push(n);
                }
                sent.sort();
                Ok(sent)
            });
            let lists = run.unwrap();
            assert_eq!(lists[0], lists[1], "degree {degree}, shared: {shared}");
        }
    }
}

/// A lane ends while requests in it are being cancelled.
#[test]
fn taken_back_while_the_threads_end() {
    for round in 0..200 {
        to_itself(1, 2, |_, to, from| {
            let requests: Vec<_> = (0..20).map(|n| to.send(vec![n])).collect();
            let threads = to.threads().clone();
            let ending = std::thread::spawn(move || {
                (0..round * 20).for_each(|_| std::hint::spin_loop());
                if round % 2 == 0 { threads.shutdown() } else { threads.stop(0) }
            });
            let (mut sent, mut given) = (Vec::new(), 0);
            for (n, request) in (0..).zip(requests).skip(1) {
                let message = match request.cancel() {
                    Ok(message) => message,
                    Err(request) => match request.wait() {
                        Ok(message) => {
                            sent.push(n);
                            message
                        }
                        Err(unsent) => unsent.message,
                    },
                };
                ensure!(message == [n], "{message:?} instead of {n}");
                given += 1;
            }
            ending.join().expect("no panic");
            ensure!(given == 19, "{given} came back");
            to.cancel();
            let arrived: Vec<u64> = std::iter::from_fn(|| from.try_receive().ok().flatten())
                .map(|message| message[0])
                .collect();
            ensure!(arrived.iter().filter(|&&n| n > 0).eq(&sent), "{arrived:?}, {sent:?}");
            Ok(())
        });
    }
}

/// Waits for several requests at the same time, while threads and the receiver complete them.
#[test]
fn whichever_is_done_first_of_many() {
    for degree in [1, 4] {
        to_itself(degree, 3, |_, to, from| {
            std::thread::scope(|scope| {
                let sending = scope.spawn(move || {
                    let mut requests = Vec::new();
                    for n in 0..1500u64 {
                        requests.push(to.send(vec![n]));
                        if requests.len() == 5 {
                            let done = wait_any(&mut requests)?;
                            ensure!(requests[done].is_done(), "it is not done");
                            requests.swap_remove(done).wait()?;
                        }
                    }
                    wait_each(requests).into_iter().try_for_each(|answer| answer.map(drop))?;
                    Ok(())
                });
                for n in 0..1500 {
                    ensure!(*from.receive()? == [n], "message {n}");
                    if n % 50 == 0 {
                        std::thread::sleep(Duration::from_micros(100));
                    }
                }
                sending.join().expect("no panic")
            })
        });
    }
}

/// Futures are polled, given another waker, left and dropped at any moment. The last waker is called.
#[test]
fn futures_at_any_moment() {
    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Release);
        }
    }
    to_itself(1, 2, |_, to, from| {
        std::thread::scope(|scope| {
            let sending = scope.spawn(move || {
                let mut random = Random::new(3);
                for n in 0..2000u64 {
                    let mut request = to.send(vec![n]);
                    let mut counts = Vec::new();
                    let polls = random.below(4);
                    let mut done = None;
                    while (counts.len() as u64) < polls && done.is_none() {
                        let count = Arc::new(Count(AtomicUsize::new(0)));
                        let waker = Waker::from(Arc::clone(&count));
                        let polled = Pin::new(&mut request).poll(&mut Context::from_waker(&waker));
                        if let Poll::Ready(answer) = polled {
                            done = Some(answer?);
                        }
                        counts.push(count);
                        (0..random.below(100)).for_each(|_| std::hint::spin_loop());
                    }
                    match (done, counts.last()) {
                        (Some(message), _) => ensure!(message == [n], "another vector"),
                        (None, Some(last)) if random.below(4) > 0 => {
                            until("its task is woken", || last.0.load(Ordering::Acquire) > 0);
                            until("it is done", || request.is_done());
                            ensure!(request.wait()? == [n], "another vector");
                        }
                        (None, _) if random.below(2) == 0 => drop(request),
                        (None, _) => drop(block_on(request)?),
                    }
                }
                Ok(())
            });
            for n in 0..2000 {
                ensure!(*from.receive()? == [n], "message {n}");
            }
            sending.join().expect("no panic")
        })
    });
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

/// A request is dropped before, while or after its message is sent. Its content is dropped once.
#[test]
fn what_nobody_wants_back_is_dropped_once() {
    let dropped = Arc::new(AtomicUsize::new(0));
    to_itself(3, 2, |_, to, from| {
        for n in 0..3000u64 {
            let request = to.send(Stray::counted([n], &dropped));
            match n % 4 {
                0 => drop(request),
                1 => {
                    until("it is sent", || request.is_done());
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

/// Leaked requests only keep their memory. Requests that outlive everything are safe.
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
        assert!(request.is_done());
        if i % 2 == 0 {
            assert_eq!(request.wait().unwrap(), [3 * i as u64 + 1]);
        }
    }
}

/// More requests than a lane has at first, waited for in a mixed order.
#[test]
fn many_requests_at_once() {
    to_itself(4, 1, |_, to, from| {
        let mut requests: Vec<_> = (0..1000u64).map(|n| Some((n, to.send(vec![n])))).collect();
        for n in 0..1000 {
            ensure!(*from.receive()? == [n], "message {n}");
        }
        let mut random = Random::new(7);
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

/// The error of other pending work of the rank ends a wait with a limit, and is returned by it.
#[test]
fn a_wait_tells_what_else_has_failed() {
    to_itself(1, 1, |rank, to, from| {
        let mut sent = [to.send(vec![1]), to.send(vec![2])];
        let failing = || parts::failing(mp_core::Error::other("something else"));
        let waited =
            parts::beside(rank, failing(), || sent[1].wait_timeout(Duration::from_secs(60)));
        let told = waited.is_err_and(|error| error.to_string().contains("something else"));
        ensure!(told, "it ended without a reason");
        ensure!(*from.receive()? == [1] && *from.receive()? == [2], "another message");
        let [first, second] = sent;
        ensure!(first.wait()? == [1] && second.wait()? == [2], "others came back");
        Ok(())
    });
}
