//! Threads that are switched off and on, stopped, shut down, or have no work.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Wake, Waker},
    time::Duration,
};

use mp_core::{Channel, ErrorKind, Result, WaitPolicy, World, report};
use mp_delegate::threads::{Choice, CommThreads, Delegated};
use std::future::Future;

use crate::{
    stray::{processor_time, until},
    support::{Random, Watchdog, on_all},
    wait_each,
};

const LONG: Duration = Duration::from_secs(8);

#[test]
fn switched_off_and_on_under_load() {
    on_all(2, |rank| {
        let channel = Channel::degree(4).max_len(10);
        let count = 5000u64;
        if rank.id() == 0 {
            let threads = CommThreads::start(2)?;
            let done = Arc::new(AtomicBool::new(false));
            let switching = std::thread::spawn({
                let (threads, done) = (threads.clone(), Arc::clone(&done));
                move || {
                    let mut random = Random::new(1);
                    while !done.load(Ordering::Relaxed) {
                        threads.switch(random.below(2) as usize, random.below(2) == 0);
                        std::thread::sleep(Duration::from_micros(random.below(200)));
                    }
                    threads.switch_all(true);
                }
            });
            let mut to = threads.delegate(rank.sender::<[u64]>("load", 1, channel)?);
            for n in 0..count {
                drop(to.send(vec![n; n as usize % 11]));
            }
            done.store(true, Ordering::Relaxed);
            switching.join().expect("no panic");
            return Ok(());
        }
        let from = rank.receiver::<[u64]>("load", 0, channel)?;
        for n in 0..count {
            ensure!(*from.receive_timeout(LONG)? == vec![n; n as usize % 11], "message {n}");
        }
        Ok(())
    });
}

#[test]
fn a_thread_that_is_off_is_given_nothing() {
    let _watchdog = Watchdog::start();
    let done = World::threads(1).run(|rank| {
        let threads = CommThreads::start(1)?;
        let channel = Channel::degree(3);
        let from = rank.receiver::<u64>("off", 0, channel)?;
        let mut to = threads.delegate(rank.sender::<u64>("off", 0, channel)?);
        threads.switch(0, false);
        // The caller sends at once, as soon as the switch has taken effect.
        let mut n = 0;
        until("the caller sends", || {
            n += 1;
            let here = to.send(n).is_done();
            assert_eq!(*from.receive().unwrap(), n);
            here
        });
        for n in 0..3 {
            ensure!(to.send(n).is_done(), "the caller sends");
        }
        // No other rank would make room.
        to.set_wait(Duration::from_millis(5));
        let full = to.send(3).wait().expect_err("no room");
        ensure!(matches!(full.error.kind(), ErrorKind::Timeout { .. }), "{full:?}");
        for n in 0..3 {
            ensure!(*from.receive()? == n, "message {n}");
        }
        threads.switch(0, true);
        // After the message that was given up.
        until("the thread sends", || {
            n += 1;
            let request = to.send(n);
            let there = !request.is_done();
            assert_eq!(request.wait().unwrap(), n);
            assert_eq!(*from.receive().unwrap(), n);
            there
        });
        Ok(())
    });
    done.unwrap();
}

#[test]
fn a_thread_that_is_stopped_hands_its_queue_on() {
    on_all(2, |rank| {
        let channel = Channel::degree(2).max_len(4);
        if rank.id() == 0 {
            let threads = CommThreads::start(3)?;
            let sender = rank.sender::<[u64]>("handed", 1, channel)?;
            let mut to = threads.delegate_to(sender, &[0, 1, 2], Choice::RoundRobin);
            let mut requests: Vec<_> = (0..50).map(|n| to.send(vec![n; 4])).collect();
            threads.stop(1);
            requests.extend((50..100).map(|n| to.send(vec![n; 4])));
            threads.stop(0);
            requests.extend((100..150).map(|n| to.send(vec![n; 4])));
            for (n, answer) in wait_each(requests).into_iter().enumerate() {
                ensure!(answer? == [n as u64; 4], "another vector");
            }
            return Ok(());
        }
        let from = rank.receiver::<[u64]>("handed", 0, channel)?;
        for n in 0..150 {
            if n % 10 == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            ensure!(*from.receive_timeout(LONG)? == [n; 4], "message {n}");
        }
        Ok(())
    });
}

/// A shutdown with pending requests: every request ends, the sent messages arrive, and no others.
#[test]
fn shut_down_with_requests_outstanding() {
    for degree in [0, 1, 4, 100] {
        on_all(2, |rank| {
            let channel = Channel::degree(degree).max_len(4);
            let sent = Channel::degree(1).max_len(200);
            if rank.id() == 0 {
                let threads = CommThreads::start(2)?;
                let mut to = threads.delegate(rank.sender::<[u64]>("end", 1, channel)?);
                let requests: Vec<_> = (0..100).map(|n| to.send(vec![n; 4])).collect();
                let moved = to.send_buffer(rank.buffer_from(&[100; 4])?);
                threads.shutdown();
                let mut arrive = Vec::new();
                for (n, answer) in wait_each(requests).into_iter().enumerate() {
                    match answer {
                        Ok(_) => arrive.push(n as u64),
                        Err(unsent) => {
                            ensure!(unsent.message == [n as u64; 4], "another vector");
                            let error = unsent.error;
                            ensure!(matches!(error.kind(), ErrorKind::NotSent { .. }), "{error:?}");
                        }
                    }
                }
                match moved.wait() {
                    Ok(()) => arrive.push(100),
                    Err(unsent) => ensure!(*unsent.message == [100; 4], "another buffer"),
                }
                // From now on, the caller sends.
                for n in 101..110 {
                    let request = to.send(vec![n; 4]);
                    ensure!(request.is_done(), "the caller sends");
                    request.wait()?;
                    arrive.push(n);
                }
                return rank.sender::<[u64]>("sent", 1, sent)?.send(&arrive);
            }
            let from = rank.receiver::<[u64]>("end", 0, channel)?;
            let mut arrived = Vec::new();
            for message in &from {
                let message = message?;
                ensure!(*message == [message[0]; 4], "a torn message");
                arrived.push(message[0]);
            }
            let sent = rank.receiver::<[u64]>("sent", 0, sent)?;
            ensure!(arrived == *sent.receive()?, "{arrived:?} arrived");
            Ok(())
        });
    }
}

/// A task's waker runs in the thread, and its panic ends the thread.
#[test]
fn a_thread_that_dies_hands_its_queue_on() {
    struct Deadly(AtomicUsize);
    impl Wake for Deadly {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
            std::panic::resume_unwind(Box::new("as planned"));
        }
    }
    let _watchdog = Watchdog::start();
    for others in [0, 1] {
        let done = World::threads(1).run(|rank| {
            let threads = CommThreads::start(1 + others)?;
            let channel = Channel::degree(1);
            let from = rank.receiver::<u64>("deadly", 0, channel)?;
            let set: Vec<usize> = (0..=others).collect();
            let sender = rank.sender::<u64>("deadly", 0, channel)?;
            let mut to = threads.delegate_to(sender, &set, Choice::Fixed(0));
            to.send(0).wait()?;
            let deadly = Arc::new(Deadly(AtomicUsize::new(0)));
            let waker = Waker::from(Arc::clone(&deadly));
            let mut request = to.send(1);
            let after: Vec<_> = (2..10).map(|n| to.send(n)).collect();
            let polled = std::pin::Pin::new(&mut request);
            ensure!(polled.poll(&mut Context::from_waker(&waker)).is_pending(), "no room");
            ensure!(*from.receive()? == 0, "another message");
            until("the waker was called", || deadly.0.load(Ordering::Relaxed) == 1);
            ensure!(request.wait()? == 1, "another answer");
            ensure!(*from.receive()? == 1, "another message");
            if others == 1 {
                for n in 2..10 {
                    ensure!(*from.receive_timeout(LONG)? == n, "message {n}");
                }
            }
            for (n, answer) in wait_each(after).into_iter().enumerate() {
                match answer {
                    Ok(value) => ensure!(value == n as u64 + 2, "another value"),
                    Err(unsent) => {
                        let error = unsent.error;
                        ensure!(others == 0, "{error:?}");
                        ensure!(matches!(error.kind(), ErrorKind::NotSent { .. }), "{error:?}");
                    }
                }
            }
            // The thread does not serve any more. The remaining ones do.
            std::thread::scope(|scope| {
                let sending = scope.spawn(|| to.send(100).wait());
                while *from.receive_timeout(LONG)? != 100 {}
                sending.join().expect("no panic")?;
                Ok(())
            })
        });
        done.unwrap();
    }
}

/// The waker of one task panics. The wakers of the others are called.
#[test]
fn a_waker_that_panics_loses_no_other() {
    struct Task {
        panics: bool,
        calls: AtomicUsize,
    }
    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.calls.fetch_add(1, Ordering::Relaxed);
            if self.panics {
                std::panic::resume_unwind(Box::new("as planned"));
            }
        }
    }
    let _watchdog = Watchdog::start();
    let done = World::threads(1).run(|rank| {
        let channel = Channel::degree(1);
        let threads = CommThreads::start(2)?;
        let from = rank.receiver::<u64>("wakers", 0, channel)?;
        let sender = rank.sender::<u64>("wakers", 0, channel)?;
        let mut to = threads.delegate_to(sender, &[0], Choice::Fixed(0));
        to.send(0).wait()?;
        let mut requests: Vec<_> = (1..9).map(|n| to.send(n)).collect();
        let tasks: Vec<_> = (0..requests.len())
            .map(|n| Arc::new(Task { panics: n % 2 == 0, calls: AtomicUsize::new(0) }))
            .collect();
        for (request, task) in requests.iter_mut().zip(&tasks) {
            let waker = Waker::from(Arc::clone(task));
            let polled = std::pin::Pin::new(request).poll(&mut Context::from_waker(&waker));
            ensure!(polled.is_pending(), "no room");
        }
        // The answer to the first request wakes all tasks, because the thread does not know whose waker is whose.
        ensure!(*from.receive()? == 0, "another message");
        let woken = || tasks.iter().all(|task| task.calls.load(Ordering::Relaxed) > 0);
        until("every task is woken", woken);
        // The panic has ended the thread, and its queue with it. No other thread serves this sender.
        for (n, answer) in (1..).zip(wait_each(requests)) {
            match answer {
                Ok(value) => ensure!(value == n, "another value"),
                Err(unsent) => ensure!(unsent.message == n, "another value"),
            }
        }
        Ok(())
    });
    done.unwrap();
}

/// A task is dropped with its waker, in the thread that serves the task's own sender, with or without the last handle
/// of that thread.
#[test]
fn a_thread_that_drops_its_own_sender() {
    drop_own_sender(true);
    drop_own_sender(false);
}

fn drop_own_sender(last: bool) {
    type Owned = (Delegated<u64>, CommThreads);
    struct Task(Mutex<Option<Owned>>);
    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            *self.0.lock().unwrap() = None;
        }
    }
    let _watchdog = Watchdog::start();
    let done = World::threads(1).run(|rank| {
        let channel = Channel::degree(1);
        let from = rank.receiver::<u64>("own", 0, channel)?;
        let threads = CommThreads::start(1)?;
        let _other = (!last).then(|| threads.clone());
        let mut to = threads.delegate(rank.sender::<u64>("own", 0, channel)?);
        let mut requests: Vec<_> = (0..5).map(|n| to.send(n)).collect();
        let waker = Waker::from(Arc::new(Task(Mutex::new(Some((to, threads))))));
        let mut task = Context::from_waker(&waker);
        let second = std::pin::Pin::new(&mut requests[1]);
        ensure!(second.poll(&mut task).is_pending(), "no room");
        let received = from.iter().map(|message| Ok(*message?)).collect::<Result<Vec<u64>>>()?;
        let sent = wait_each(requests).into_iter().flatten().collect::<Vec<u64>>();
        ensure!(sent == received, "{sent:?} were sent, {received:?} received");
        ensure!(sent.starts_with(&[0, 1]) && (last || sent.len() == 5), "{sent:?} were sent");
        Ok(())
    });
    done.unwrap();
}

/// Neither a thread without work nor a thread with full channels uses its core. This test runs in a separate process,
/// without threads of other tests.
#[test]
fn who_can_do_nothing_sleeps() {
    let _watchdog = Watchdog::start();
    let done = World::processes(2).run(|rank| {
        let channel = Channel::degree(1);
        if rank.id() == 1 {
            let full = rank.receiver::<u64>("full", 0, channel)?;
            rank.receiver::<u8>("look", 0, channel)?.receive()?;
            return (0..5).try_for_each(|n| {
                ensure!(*full.receive()? == n, "message {n}");
                Ok(())
            });
        }
        let threads = CommThreads::start(3)?;
        let mut idle = threads.delegate(rank.sender::<u64>("idle", 1, channel)?);
        let mut full = threads.delegate(rank.sender::<u64>("full", 1, channel)?);
        let requests: Vec<_> = (0..5).map(|n| full.send(n)).collect();
        requests.into_iter().take(1).try_for_each(|first| first.wait().map(drop))?;
        std::thread::sleep(Duration::from_millis(50));
        let used_in_400_ms = || {
            let before = processor_time();
            std::thread::sleep(Duration::from_millis(400));
            processor_time() - before
        };
        // Beside other programs a thread needs longer until it sleeps.
        let mut used = (0..10).map(|_| used_in_400_ms());
        let sleeps = used.any(|used| used < Duration::from_millis(4));
        ensure!(sleeps, "more than 4 ms in each of 10 times 400 ms");
        let seen = report::worlds_of(std::process::id())?.remove(0).report?.ranks.remove(0);
        let named: Vec<_> = seen.blocked_sends.iter().map(|channel| &*channel.name).collect();
        ensure!(named.iter().all(|&name| name == "full"), "{named:?}");
        ensure!((1..=3).contains(&named.len()) && !seen.helped, "{seen:?}");
        // The threads wake up again.
        rank.sender::<u8>("look", 1, channel)?.send(&0)?;
        drop(full);
        drop(idle.send(1));
        Ok(())
    });
    done.unwrap();
}

#[test]
fn waiting_in_every_way() {
    for policy in [WaitPolicy::Spin, WaitPolicy::Adaptive, WaitPolicy::Park] {
        let _watchdog = Watchdog::start();
        let done: Result<Vec<()>> = World::threads(2).wait(policy).run(|rank| {
            let channel = Channel::degree(2);
            if rank.id() == 0 {
                let threads = CommThreads::builder(2).wait(policy).name("other").start()?;
                let mut to = threads.delegate(rank.sender::<u64>("policy", 1, channel)?);
                for n in 0..300 {
                    let request = to.send(n);
                    if n % 3 == 0 {
                        request.wait()?;
                    }
                }
                return Ok(());
            }
            let from = rank.receiver::<u64>("policy", 0, channel)?;
            (0..300).try_for_each(|n| {
                ensure!(*from.receive()? == n, "message {n}");
                Ok(())
            })
        });
        done.unwrap();
    }
}

#[test]
fn bound_to_cores() {
    let _watchdog = Watchdog::start();
    let cpu = mp_core::topology::current_affinity().unwrap().iter().next().unwrap();
    let threads = CommThreads::builder(3).cpus([cpu]).start().unwrap();
    assert_eq!(threads.len(), 3);
    let error = CommThreads::builder(2).cpus([cpu, 1_000_000]).start().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Topology(_)), "{error:?}");
}
