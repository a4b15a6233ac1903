//! Calls as a program makes them. Prints the nanoseconds of one call, for each batch.
//!
//! ```text
//! hot_calls CALL FORM CPU CPU
//! ```
//!
//! `CALL` is one of `pingpong`, `stream`, `receive`, `try-stream`, `tagged`, `barrier`, `broadcast`, `all-reduce`,
//! `apply`, `submit`, `delegated`. `FORM` is the place of the call: in the rank's own code (`loop`), in a closure that
//! the loop calls (`closure`), or behind a pointer (`dyn`); for `stream` and `receive` also `unwrap`, `match` and
//! `iter`, in the rank's own code.
//!
//! This is a separate program that uses only the library's facade, so the compiler treats its loops like those of any
//! other program.
#![forbid(unsafe_code)]

use onchip::critical::objects::Counter;
use onchip::critical::{Protected, Scheme, Section, Server};
use onchip::prelude::*;
use onchip::reduce::Sum;
use std::collections::VecDeque;
use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

const BATCHES: usize = 11;
const TAG: u32 = 1;
/// The number of operations, or delegated sends, that are under way.
const IN_FLIGHT: usize = 32;
const BURST: u64 = 8;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Loop,
    Closure,
    Dyn,
    Unwrap,
    Match,
    Iter,
}

/// Repeats `$work` `$times` times: in a loop, by a closure that the loop calls, or through a `dyn` pointer.
macro_rules! repeat {
    ($form:expr, $times:expr, $work:block) => {
        match $form {
            Form::Closure => {
                #[allow(unused_mut, reason = "not every call changes something")]
                let mut work = || -> onchip::Result<()> {
                    $work
                    Ok(())
                };
                for _ in 0..$times {
                    work()?;
                }
            }
            Form::Dyn => {
                #[allow(unused_mut, reason = "not every call changes something")]
                let mut work = || -> onchip::Result<()> {
                    $work
                    Ok(())
                };
                let work: &mut dyn FnMut() -> onchip::Result<()> = black_box(&mut work);
                for _ in 0..$times {
                    work()?;
                }
            }
            _ => {
                for _ in 0..$times {
                    $work
                }
            }
        }
    };
}

/// Returns nanoseconds for one call, one figure for each batch. The first batch warms up.
fn batches(times: u64, mut batch: impl FnMut() -> onchip::Result<()>) -> onchip::Result<Vec<f64>> {
    let mut took = Vec::new();
    for _ in 0..=BATCHES {
        let start = Instant::now();
        batch()?;
        took.push(start.elapsed().as_nanos() as f64 / times as f64);
    }
    took.remove(0);
    Ok(took)
}

fn wrong<T>() -> onchip::Result<T> {
    Err(onchip::Error::other("another message than was sent"))
}

fn pingpong(rank: &Rank, form: Form) -> onchip::Result<Vec<f64>> {
    const TRIPS: u64 = 2000;
    let (peer, channel) = (1 - rank.id(), Channel::degree(16));
    let mut out = rank.sender::<u64>("there and back", peer, channel)?;
    let back = rank.receiver::<u64>("there and back", peer, channel)?;
    if rank.id() == 1 {
        for _ in 0..TRIPS * (BATCHES as u64 + 1) {
            let message = *back.receive()?;
            out.send(&!message)?;
        }
        return Ok(Vec::new());
    }
    let mut number = 0;
    batches(2 * TRIPS, || {
        repeat!(form, TRIPS, {
            number += 1;
            out.send(&number)?;
            if *back.receive()? != !number {
                return wrong();
            }
        });
        Ok(())
    })
}

/// Messages of a stream in each batch.
const COUNT: u64 = 100_000;

/// Sends the numbers of all batches from rank 0. In rank 1, returns the receiver at which they arrive.
fn numbers(rank: &Rank) -> onchip::Result<Option<Receiver<u64>>> {
    let channel = Channel::degree(1024);
    if rank.id() == 1 {
        return rank.receiver("stream", 0, channel).map(Some);
    }
    let mut out = rank.sender::<u64>("stream", 1, channel)?;
    for number in 0..COUNT * (BATCHES as u64 + 1) {
        out.send(&number)?;
    }
    Ok(None)
}

/// Receives `$count` messages, the first of which has the number `$number`.
macro_rules! receive {
    ($messages:expr, $form:expr, $count:expr, $number:expr) => {
        match $form {
            Form::Unwrap => {
                for _ in 0..$count {
                    assert_eq!(*$messages.receive().unwrap(), $number);
                    $number += 1;
                }
            }
            Form::Match => {
                for _ in 0..$count {
                    match $messages.receive() {
                        Ok(message) => assert_eq!(*message, $number),
                        Err(error) => return Err(error),
                    }
                    $number += 1;
                }
            }
            Form::Iter => {
                for message in $messages.iter().take($count as usize) {
                    assert_eq!(*message?, $number);
                    $number += 1;
                }
            }
            _ => repeat!($form, $count, {
                if *$messages.receive()? != $number {
                    return wrong();
                }
                $number += 1;
            }),
        }
    };
}

fn stream(rank: &Rank, form: Form) -> onchip::Result<Vec<f64>> {
    let Some(messages) = numbers(rank)? else { return Ok(Vec::new()) };
    let mut number = 0;
    batches(COUNT, || {
        receive!(messages, form, COUNT, number);
        Ok(())
    })
}

/// Receives messages that a single rank has sent to itself before. Times only the receives.
fn filled(rank: &Rank, form: Form) -> onchip::Result<Vec<f64>> {
    const FILLED: u64 = 512;
    const TIMES: u64 = 200;
    let channel = Channel::degree(1024);
    let mut out = rank.sender::<u64>("filled", rank.id(), channel)?;
    let messages = rank.receiver::<u64>("filled", rank.id(), channel)?;
    let mut took = Vec::new();
    let mut number = 0;
    for _ in 0..=BATCHES {
        let mut receives = 0;
        for _ in 0..TIMES {
            for message in number..number + FILLED {
                out.send(&message)?;
            }
            let start = Instant::now();
            receive!(messages, form, FILLED, number);
            receives += start.elapsed().as_nanos();
        }
        took.push(receives as f64 / (TIMES * FILLED) as f64);
    }
    took.remove(0);
    Ok(took)
}

fn try_stream(rank: &Rank, form: Form) -> onchip::Result<Vec<f64>> {
    let Some(messages) = numbers(rank)? else { return Ok(Vec::new()) };
    let mut number = 0;
    batches(COUNT, || {
        repeat!(form, COUNT, {
            let message = loop {
                if let Some(message) = messages.try_receive()? {
                    break *message;
                }
            };
            if message != number {
                return wrong();
            }
            number += 1;
        });
        Ok(())
    })
}

fn tagged(rank: &Rank, form: Form) -> onchip::Result<Vec<f64>> {
    const TRIPS: u64 = 2000;
    let (world, peer) = (Communicator::world(rank), 1 - rank.id());
    let mut message = [0u64];
    if rank.id() == 1 {
        for _ in 0..TRIPS * (BATCHES as u64 + 1) {
            world.receive_into(&mut message, peer, TAG)?;
            world.send(&[!message[0]], peer, TAG)?;
        }
        return Ok(Vec::new());
    }
    let mut number = 0;
    batches(2 * TRIPS, || {
        repeat!(form, TRIPS, {
            number += 1;
            world.send(&[number], peer, TAG)?;
            world.receive_into(&mut message, peer, TAG)?;
            if message[0] != !number {
                return wrong();
            }
        });
        Ok(())
    })
}

fn barrier(rank: &Rank, form: Form) -> onchip::Result<Vec<f64>> {
    const CALLS: u64 = 2000;
    let world = Communicator::world(rank);
    batches(CALLS, || {
        repeat!(form, CALLS, {
            world.barrier()?;
        });
        Ok(())
    })
}

fn broadcast(rank: &Rank, form: Form) -> onchip::Result<Vec<f64>> {
    const CALLS: u64 = 2000;
    let world = Communicator::world(rank);
    let mut number = 0;
    batches(CALLS, || {
        repeat!(form, CALLS, {
            number += 1;
            let mut message = [if rank.id() == 0 { number } else { 0u64 }];
            world.broadcast(&mut message, 0)?;
            if message != [number] {
                return wrong();
            }
        });
        Ok(())
    })
}

fn all_reduce(rank: &Rank, form: Form) -> onchip::Result<Vec<f64>> {
    const CALLS: u64 = 2000;
    let world = Communicator::world(rank);
    let mut number = 0;
    batches(CALLS, || {
        repeat!(form, CALLS, {
            number += 1;
            let mut sum = [number];
            world.all_reduce(&mut sum, Sum)?;
            if sum != [number * rank.size() as u64] {
                return wrong();
            }
        });
        Ok(())
    })
}

/// Applies operations from a single rank, so that no other rank wants the lock.
fn apply(rank: &Rank, form: Form) -> onchip::Result<Vec<f64>> {
    const CALLS: u64 = 20_000;
    let counter = Protected::<Counter>::open(rank, "counter", Scheme::HybLock, |_| ())?;
    let mut number = 0;
    batches(CALLS, || {
        repeat!(form, CALLS, {
            if counter.apply(1)? != number {
                return wrong();
            }
            number += 1;
        });
        Ok(())
    })
}

/// Submits operations from rank 1, which rank 0 executes as a server.
fn submit(rank: &Rank, form: Form) -> onchip::Result<Vec<f64>> {
    const CALLS: u64 = 20_000;
    let section = Section::new(Scheme::SlotServer).in_flight(IN_FLIGHT);
    let counter = Protected::<Counter>::open(rank, "counter", section, |_| ())?;
    if rank.id() == 0 {
        let mut server = Server::new();
        server.add(counter)?;
        server.serve()?;
        return Ok(Vec::new());
    }
    let mut number = 0;
    batches(CALLS, || {
        let mut under_way = VecDeque::with_capacity(IN_FLIGHT);
        repeat!(form, CALLS, {
            if under_way.len() == IN_FLIGHT
                && let Some(oldest) = under_way.pop_front()
            {
                if onchip::Request::wait(oldest)? != number {
                    return wrong();
                }
                number += 1;
            }
            under_way.push_back(counter.submit(1)?);
        });
        for oldest in under_way {
            oldest.wait()?;
            number += 1;
        }
        Ok(())
    })
}

/// Sends from a rank to itself through a communication thread on the other CPU. Times only the calls.
fn delegated(rank: &Rank, form: Form, cpu: usize) -> onchip::Result<Vec<f64>> {
    const BURSTS: u64 = 250;
    let threads = CommThreads::builder(1).cpus([cpu]).wait(WaitPolicy::Spin).start()?;
    let channel = Channel::degree(BURST as u32);
    let mut out = threads.delegate(rank.sender::<u64>("delegated", rank.id(), channel)?);
    let back = rank.receiver::<u64>("delegated", rank.id(), channel)?;
    let mut took = Vec::new();
    let mut number = 0;
    for _ in 0..=BATCHES {
        let mut calls = 0;
        for _ in 0..BURSTS {
            let mut requests = Vec::with_capacity(BURST as usize);
            let start = Instant::now();
            repeat!(form, BURST, {
                requests.push(out.send(number + requests.len() as u64));
            });
            calls += start.elapsed().as_nanos();
            for request in requests {
                if *back.receive()? != number {
                    return wrong();
                }
                request.wait()?;
                number += 1;
            }
        }
        took.push(calls as f64 / (BURSTS * BURST) as f64);
    }
    took.remove(0);
    Ok(took)
}

fn run(call: &str, form: &str, cpus: [usize; 2]) -> onchip::Result<Vec<f64>> {
    let form = match form {
        "loop" => Form::Loop,
        "closure" => Form::Closure,
        "dyn" => Form::Dyn,
        "unwrap" => Form::Unwrap,
        "match" => Form::Match,
        "iter" => Form::Iter,
        other => return Err(onchip::Error::other(format!("no form is called {other:?}"))),
    };
    let on = |ranks: usize| {
        World::threads(ranks).wait(WaitPolicy::Spin).bind(Bind::List(cpus[..ranks].to_vec()))
    };
    let took = match call {
        "pingpong" => on(2).run(|rank| pingpong(rank, form)),
        "stream" => on(2).run(|rank| stream(rank, form)),
        "receive" => on(1).run(|rank| filled(rank, form)),
        "try-stream" => on(2).run(|rank| try_stream(rank, form)),
        "tagged" => on(2).run(|rank| tagged(rank, form)),
        "barrier" => on(2).run(|rank| barrier(rank, form)),
        "broadcast" => on(2).run(|rank| broadcast(rank, form)),
        "all-reduce" => on(2).run(|rank| all_reduce(rank, form)),
        "apply" => on(1).run(|rank| apply(rank, form)),
        "submit" => on(2).run(|rank| submit(rank, form)),
        "delegated" => on(1).run(|rank| delegated(rank, form, cpus[1])),
        other => return Err(onchip::Error::other(format!("no call is called {other:?}"))),
    };
    Ok(took?.into_iter().find(|figures| !figures.is_empty()).unwrap_or_default())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [call, form, first, second] = &arguments[..] else {
        eprintln!("usage: hot_calls CALL FORM CPU CPU");
        return ExitCode::FAILURE;
    };
    let (Ok(first), Ok(second)) = (first.parse(), second.parse()) else {
        eprintln!("hot_calls: {first:?} and {second:?} are to be the numbers of two CPUs");
        return ExitCode::FAILURE;
    };
    match run(call, form, [first, second]) {
        Ok(took) => {
            took.iter().for_each(|nanoseconds| println!("{nanoseconds}"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("hot_calls {call} {form}: {error}");
            ExitCode::FAILURE
        }
    }
}
