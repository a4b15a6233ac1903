//! What a report says of a rank that waits, for each kind of wait.
//!
//! Rank 0 of two waits, and rank 1 does nothing that could end the wait.

use std::{cell::RefCell, thread::sleep, time::Duration};

use onchip::{
    collectives, communicator::start_all, critical, mpb::Mpbs, nonblocking, prelude::*, reduce::Sum,
};

use super::harness::{alone, mprun, until};

super::trials![
    waits_for_channels_are_told,
    waits_for_messages_are_told,
    waits_for_several_requests_are_told,
    waits_in_collectives_are_told,
    waits_of_all_ranks_are_told,
    waits_in_nonblocking_collectives_are_told,
    waits_for_critical_sections_are_told,
    waits_for_delegated_sends_are_told,
    names_of_communicators_are_told,
];

type Done = onchip::Result<()>;

/// Lets rank 0 wait as named, for ever.
pub fn run(kind: &str, wait: &str) -> Done {
    let world = match kind {
        "threads" => World::threads(2),
        _ => World::processes(2),
    };
    world.run(|rank| {
        let one = Channel::degree(1);
        match wait.split_once(' ') {
            Some(("channel", how)) => on_channel(rank, one, how),
            Some(("message", how)) => for_message(&Communicator::world(rank), how),
            Some(("requests", how)) => for_requests(rank, one, how),
            Some(("collective", how)) => in_collective(&Communicator::world(rank), how, false),
            Some(("checked", how)) => in_collective(&Communicator::world(rank), how, true),
            Some(("together", how)) => together(&Communicator::world(rank), how),
            Some(("nonblocking", how)) => in_nonblocking(&Communicator::world(rank), how),
            Some(("critical", how)) => in_section(rank, how),
            Some(("delegated", how)) => delegated(rank, one, how),
            Some(("named", how)) => named(&Communicator::world(rank), how),
            _ => panic!("no wait {wait:?}"),
        }
    })?;
    Ok(())
}

fn for_ever() -> ! {
    loop {
        sleep(Duration::from_secs(600));
    }
}

fn on_channel(rank: &Rank, one: Channel, how: &str) -> Done {
    if rank.id() == 1 {
        let _numbers = rank.sender::<u64>("numbers", 0, one)?;
        let _others = rank.sender::<u64>("others", 0, one)?;
        let _squares = rank.receiver::<u64>("squares", 0, one)?;
        let _flags = rank.mpb("flags", Mpbs::lines(9))?;
        for_ever();
    }
    match how {
        "receive" => drop(rank.receiver::<u64>("numbers", 1, one)?.receive()?),
        "send" => {
            let mut squares = rank.sender::<u64>("squares", 1, one)?;
            squares.send(&1)?;
            squares.send(&2)?;
        }
        "select" => {
            let numbers = rank.receiver::<u64>("numbers", 1, one)?;
            let others = rank.receiver::<u64>("others", 1, one)?;
            let mut select = Select::new();
            select.add(&numbers);
            select.add(&others);
            select.ready()?;
        }
        "flag" => drop(rank.mpb("flags", Mpbs::lines(9))?.wait_flag(5, |value| value == 1)?),
        _ => panic!("{how}"),
    }
    Ok(())
}

/// More than there is room for.
const LONG: usize = 3 << 20;

fn for_message(world: &Communicator, how: &str) -> Done {
    if world.rank() == 1 {
        for_ever();
    }
    match how {
        "receive" => drop(world.receive::<u8>(1, 7)?),
        "receive any" => drop(world.receive_vec::<u8>(ANY_SOURCE, ANY_TAG)?),
        "receive limited" => {
            world.receive_timeout(&mut [0u8], 1, 7, Duration::from_secs(6000))?;
        }
        "send" => world.send(&vec![1u8; LONG], 1, 7)?,
        "send lines" => (0..).try_for_each(|number: u64| world.send(&[number], 1, 8))?,
        "send buffer" => loop {
            let buffer = world.joint().rank().buffer_from(&[1u8; 100])?;
            world.send_buffer(buffer, 1, 9).map_err(|failed| failed.error)?;
        },
        "synchronous send" => world.synchronous_send(&[1u8], 1, 7)?,
        "probe" => drop(world.probe(1, ANY_TAG)?),
        "flush" => {
            world.buffered_send(&vec![1u8; LONG], 1, 7)?;
            world.flush()?;
        }
        _ => panic!("{how}"),
    }
    Ok(())
}

fn for_requests(rank: &Rank, one: Channel, how: &str) -> Done {
    let world = Communicator::world(rank);
    if rank.id() == 1 {
        for_ever();
    }
    let receive = |tag| world.nonblocking_receive([0u8], 1, tag);
    match how {
        "receive" => drop(receive(7).wait()?),
        "send" => drop(world.nonblocking_synchronous_send([1u8], 1, 7).wait()?),
        "any" => {
            let mut send = world.nonblocking_synchronous_send([1u8], 1, 9);
            let (mut first, mut second) = (receive(7), receive(8));
            let mut all: [&mut dyn Pending; 3] = [&mut first, &mut second, &mut send];
            wait_any(&mut all)?;
        }
        "all" => wait_all(&mut [receive(1), receive(2), receive(3), receive(4), receive(5)])?,
        "of all kinds" => {
            let threads = CommThreads::start(1)?;
            let mut squares = threads.delegate(rank.sender::<u64>("squares", 1, one)?);
            let (mut first, mut second) = (squares.send(1), squares.send(2));
            wait_any(&mut [&mut first])?;
            let mut barrier = world.nonblocking()?.barrier();
            let mut message = receive(7);
            let mut all: [&mut dyn Pending; 3] = [&mut second, &mut barrier, &mut message];
            wait_all(&mut all)?;
        }
        "exchange" => {
            let (mut one, mut other) = ([0u8], [0u8]);
            let mut exchange = world.exchange();
            exchange.receive(&mut one, 1, 1).receive(&mut other, 1, 2);
            exchange.run()?;
        }
        "persistent" => {
            let mut receive = world.persistent_receive([0u8], 1, 7);
            start_all(&mut [&mut receive])?;
            receive.wait()?;
        }
        _ => panic!("{how}"),
    }
    Ok(())
}

fn in_collective(world: &Communicator, how: &str, checked: bool) -> Done {
    let check = if checked { collectives::Check::On } else { collectives::Check::Off };
    world.set_collectives(collectives::Settings { check, ..Default::default() })?;
    if world.rank() == 1 {
        for_ever();
    }
    let (mut four, mut two) = ([1.5; 4], [0.0; 2]);
    match how {
        "barrier" => world.barrier()?,
        "arrive" => world.arrive()?.wait()?,
        "broadcast" => world.broadcast(&mut four, 1)?,
        "reduce" => world.reduce(&mut four, Sum, 0)?,
        "all_reduce" => world.all_reduce(&mut four, Sum)?,
        "scan" => {
            // Rank 0 waits for nobody in its first scan.
            for _ in 0..1000 {
                world.scan(&mut four, Sum)?;
            }
        }
        "gather" => world.gather(two, &mut four[..], 0)?,
        "scatter" => world.scatter(&four[..], &mut two[..], 1)?,
        "all_gather" => world.all_gather(&two[..], &mut four[..])?,
        "all_to_all" => world.all_to_all(&[1.5; 4][..], &mut four[..])?,
        "reduce_scatter" => world.reduce_scatter(&mut four[..], &mut two[..], Sum)?,
        _ => panic!("{how}"),
    }
    Ok(())
}

fn together(world: &Communicator, how: &str) -> Done {
    world.set_collectives(collectives::Settings {
        check: collectives::Check::Off,
        ..Default::default()
    })?;
    if world.rank() == 1 {
        for_ever();
    }
    match how {
        "split" => drop(world.split(Some(0), 0)?),
        "duplicate" => drop(world.duplicate()?),
        "cartesian" => drop(world.cartesian(&[2], &[true])?),
        "agree" => drop(world.agree(1)?),
        "shrink" => drop(world.shrink()?),
        "joint" => drop(world.joint().receive_into(&mut [0u8], 1, 3)?),
        _ => panic!("{how}"),
    }
    Ok(())
}

fn in_nonblocking(world: &Communicator, how: &str) -> Done {
    let threads;
    let (progress, how) = match how.strip_suffix(" in a thread") {
        Some(how) => {
            threads = CommThreads::start(1)?;
            (nonblocking::Progress::from(threads), how)
        }
        None => (nonblocking::Progress::InCalls, how),
    };
    world.set_nonblocking(progress)?;
    if world.rank() == 1 {
        for_ever();
    }
    let mut all = world.nonblocking()?;
    match how {
        "barrier" => all.barrier().wait()?,
        "broadcast" => drop(all.broadcast(vec![1.5; 4], 1).wait()?),
        "all_reduce" => drop(all.all_reduce(vec![1.5; 4], Sum).wait()?),
        "all_gather" => drop(all.all_gather(vec![1.5; 2], vec![0.0; 4]).wait()?),
        "drop" => drop(all.barrier()),
        _ => panic!("{how}"),
    }
    Ok(())
}

/// A number whose operations last for ever once they are told so.
struct Number;

impl critical::Object for Number {
    type State = u64;
    type Op = u64;
    type Ret = u64;

    fn apply(number: &mut u64, op: u64) -> u64 {
        if op == u64::MAX {
            for_ever();
        }
        *number += op;
        *number
    }
}

fn in_section(rank: &Rank, how: &str) -> Done {
    let (how, submitted) = match how.strip_suffix(" submitted") {
        Some(how) => (how, true),
        None => (how, false),
    };
    let scheme: critical::Scheme = how.parse().map_err(Error::other)?;
    let counter = critical::Protected::<Number>::open(rank, "counter", scheme, |_| {})?;
    let ready = Communicator::world(rank);
    if rank.id() == 1 {
        if scheme.is_lock() {
            let _guard = counter.lock()?;
            ready.send(&[0u8], 0, 1)?;
            for_ever();
        }
        if scheme.needs_server() {
            let mut server = critical::Server::new();
            server.add(counter)?;
            return server.serve();
        }
        ready.send(&[0u8], 0, 1)?;
        counter.apply(u64::MAX)?;
    }
    if scheme.needs_server() {
        // The server is in the middle of the first one for ever.
        let first = counter.submit(u64::MAX)?;
        counter.flush()?;
        match submitted {
            true => drop(first.wait()?),
            false => drop(counter.apply(2)?),
        }
        return Ok(());
    }
    ready.receive::<u8>(1, 1)?;
    // Rank 1 may be about to begin.
    sleep(Duration::from_millis(300));
    match submitted {
        true => drop(counter.submit(1)?.wait()?),
        false => drop(counter.apply(1)?),
    }
    Ok(())
}

fn delegated(rank: &Rank, one: Channel, how: &str) -> Done {
    if rank.id() == 1 {
        let _squares = rank.receiver::<u64>("squares", 0, one)?;
        for_ever();
    }
    let threads = CommThreads::start(1)?;
    let mut squares = threads.delegate(rank.sender::<u64>("squares", 1, one)?);
    let _first = squares.send(1);
    let second = squares.send(2);
    match how {
        "send" => drop(second.wait()?),
        "beside" => drop(rank.receiver::<u64>("numbers", 1, one)?.receive()?),
        _ => panic!("{how}"),
    }
    Ok(())
}

fn named(world: &Communicator, how: &str) -> Done {
    let part = match how {
        "split" => world.split(Some(0), -(world.rank() as i64))?,
        _ => Some(world.duplicate()?.duplicate()?),
    };
    let Some(part) = part else { panic!("a color was named") };
    if how == "split" {
        part.set_name("row");
    }
    if world.rank() == 1 {
        for_ever();
    }
    match how {
        "split" => drop(part.receive::<u8>(0, 3)?),
        _ => drop(part.receive::<u8>(1, 3)?),
    }
    Ok(())
}

/// The last report, which a failing test prints.
struct Last(RefCell<String>);

impl Drop for Last {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the last report:\n{}", self.0.borrow());
        }
    }
}

/// Checks what a report says of rank 0, without its process and without the time, in worlds of both kinds.
#[track_caller]
fn told(wait: &str, expected: &str) {
    for kind in ["threads", "processes"] {
        let run = alone(&["waits", kind, wait]);
        let last = Last(RefCell::default());
        until(&format!("{wait} of {kind}: {expected}"), || {
            let report = mprun(&["report", &run.pid().to_string()]).done().out;
            let line = report.lines().find(|line| line.starts_with("  rank 0 ")).map(str::to_owned);
            *last.0.borrow_mut() = report;
            let line = line?;
            let text = line.strip_prefix("  rank 0 ")?;
            let text = match text.split_once(") ") {
                Some((pid, text)) if pid.starts_with('(') => text,
                _ => text,
            };
            let (text, _) = text.split_once(", for ")?;
            (text == expected).then_some(())
        });
    }
}

fn waits_for_channels_are_told() {
    told("channel receive", "waits to receive on \"numbers\" from rank 1");
    told("channel send", "waits to send on \"squares\" to rank 1");
    told("channel select", "waits for a message on \"numbers\" or \"others\" from rank 1");
    told("channel flag", "waits for flag 5 of \"flags\" from rank 1");
}

fn waits_for_messages_are_told() {
    told("message receive", "waits in receive of tag 7 from rank 1 on \"world\"");
    told("message receive any", "waits in receive of any tag from any rank on \"world\"");
    told("message receive limited", "waits in receive of tag 7 from rank 1 on \"world\"");
    told("message send", "waits in send of tag 7 to rank 1 on \"world\"");
    told("message send lines", "waits in send of tag 8 to rank 1 on \"world\"");
    told("message send buffer", "waits in send of tag 9 to rank 1 on \"world\"");
    told("message synchronous send", "waits in send of tag 7 to rank 1 on \"world\"");
    told("message probe", "waits in probe of any tag from rank 1 on \"world\"");
    told("message flush", "waits in flush of messages to rank 1");
}

fn waits_for_several_requests_are_told() {
    told("requests receive", "waits in receive of tag 7 from rank 1 on \"world\"");
    told("requests send", "waits in send of tag 7 to rank 1 on \"world\"");
    told(
        "requests any",
        "waits for any of 3 requests (receive of tag 7 from rank 1 on \"world\", \
         receive of tag 8 from rank 1 on \"world\", send of tag 9 to rank 1 on \"world\")",
    );
    told(
        "requests all",
        "waits for all of 5 requests (receive of tag 1 from rank 1 on \"world\", \
         receive of tag 2 from rank 1 on \"world\", receive of tag 3 from rank 1 on \"world\", \
         and 2 more)",
    );
    told(
        "requests of all kinds",
        "waits for all of 3 requests (receive of tag 7 from rank 1 on \"world\", \
         delegated send on \"squares\" to rank 1, nonblocking barrier on \"world\")",
    );
    told(
        "requests exchange",
        "waits for all of 2 requests (receive of tag 1 from rank 1 on \"world\", \
         receive of tag 2 from rank 1 on \"world\")",
    );
    told("requests persistent", "waits in receive of tag 7 from rank 1 on \"world\"");
}

fn waits_in_collectives_are_told() {
    for (wait, call) in [
        ("barrier", "barrier"),
        ("arrive", "barrier"),
        ("broadcast", "broadcast of 4 f64 with root 1"),
        ("reduce", "reduce of 4 f64 with root 0"),
        ("all_reduce", "all_reduce of 4 f64"),
        ("scan", "scan of 4 f64"),
        ("gather", "gather of 2 f64 with root 0"),
        ("scatter", "scatter of 2 f64 with root 1"),
        ("all_gather", "all_gather of 2 f64"),
        ("all_to_all", "all_to_all of 4 f64"),
        ("reduce_scatter", "reduce_scatter of 4 f64"),
    ] {
        told(&format!("collective {wait}"), &format!("waits for rank 1 in {call} on \"world\""));
    }
    // Where they wait for each other to compare their calls.
    told("checked barrier", "waits for rank 1 in barrier on \"world\"");
    told("checked all_reduce", "waits for rank 1 in all_reduce of 4 f64 with Sum on \"world\"");
}

fn waits_of_all_ranks_are_told() {
    told("together split", "waits in split on \"world\"");
    told("together duplicate", "waits in duplicate on \"world\"");
    told("together cartesian", "waits in cartesian on \"world\"");
    told("together agree", "waits for rank 1 in agree on \"world\"");
    told("together shrink", "waits for rank 1 in shrink on \"world\"");
    let joint = "waits in joint operation (receive of tag 3 from rank 1) on \"world\"";
    told("together joint", joint);
}

fn waits_in_nonblocking_collectives_are_told() {
    for name in ["barrier", "broadcast", "all_reduce", "all_gather"] {
        let expected = format!("waits for rank 1 in nonblocking {name} on \"world\"");
        told(&format!("nonblocking {name}"), &expected);
    }
    let in_a_thread = "waits for rank 1 in nonblocking all_reduce on \"world\"";
    told("nonblocking all_reduce in a thread", in_a_thread);
    told("nonblocking drop", "waits for rank 1 in nonblocking operations on \"world\"");
}

fn waits_for_critical_sections_are_told() {
    for scheme in critical::Scheme::ALL {
        let expected = match scheme {
            critical::Scheme::MpServer(_) => {
                "waits to receive on \"counter (critical section no. 0)\" from rank 1".to_owned()
            }
            _ => format!("waits for rank 1 in critical section \"counter\" ({scheme})"),
        };
        let served = if expected.contains("no. 0") { ":1" } else { "" };
        told(&format!("critical {scheme}{served}"), &expected);
        told(&format!("critical {scheme}{served} submitted"), &expected);
    }
}

fn waits_for_delegated_sends_are_told() {
    told("delegated send", "waits to send on \"squares\" to rank 1");
    told("delegated beside", "waits to receive on \"numbers\" from rank 1");
}

fn names_of_communicators_are_told() {
    let row = "waits in receive of tag 3 from rank 0 (world rank 1) on \"row\"";
    told("named split", row);
    let copy = "waits in receive of tag 3 from rank 1 on \"world/duplicate 1/duplicate 1\"";
    told("named duplicate", copy);
}
