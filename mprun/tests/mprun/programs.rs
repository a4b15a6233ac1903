//! The programs that `mprun` launches in the tests.

use std::{
    io::{BufRead, Write},
    process::{Command, ExitCode},
    time::Duration,
};

use onchip::{Pending, RanksFailed, mpb::Mpbs, nonblocking, prelude::*, wait_any};

pub fn run(name: &str, args: &[String]) -> ExitCode {
    let number = |index: usize| args[index].parse::<usize>().unwrap();
    let result = match name {
        "lines" => lines(number(0)),
        "long_lines" => long_lines(number(0)),
        "args" => {
            println!("{args:?}");
            world().run(|_| Ok(())).map(drop)
        }
        "stdin" => stdin(),
        "muted" => muted(),
        "sum" => sum(&args[0]),
        "exactly" => exactly(&args[0], number(1)),
        "tagged" => tagged(),
        "given" => given(&args[0]),
        "rounds" => rounds(&args[0]),
        "early" => early(),
        "churn" => churn(),
        "memory" => memory(),
        "joined" => joined(number(0)),
        "joined_end" => joined_end(&args[0]),
        "joined_twice" => joined_twice(),
        "joined_in_run" => world_of("threads", 2).run(|_| twice()).map(drop),
        "end" => end(&args[0], number(1)),
        "among" => among(&args[0], &args[1], number(2)),
        "mended" => mended(),
        "heard" => heard(),
        "hang" => hang(),
        "stay" => stay(),
        "cycle" => cycle(&args[0], number(1), &args[2]),
        "beside" => beside(&args[0], &args[1], &args[2]),
        "pingpong" => pingpong(&args[0]),
        "select" => select(&args[0], &args[1]),
        "finish" => finish(),
        "idle" => idle(),
        "waits" => super::hanging::run(&args[0], &args[1]),
        "fill" => fill(args.first().map(|bytes| bytes.parse().unwrap())),
        _ => panic!("no program {name:?}"),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the program failed: {error}");
            ExitCode::FAILURE
        }
    }
}

fn world() -> World {
    World::processes(3).any_size()
}

fn world_of(kind: &str, ranks: usize) -> World {
    match kind {
        "threads" => World::threads(ranks),
        "processes" => World::processes(ranks),
        _ => panic!("no kind {kind:?}"),
    }
}

fn lines(count: usize) -> onchip::Result<()> {
    world().run(|rank| {
        for line in 0..count {
            println!("line {line} of rank {}", rank.id());
        }
        eprintln!("error of rank {}", rank.id());
        Ok(())
    })?;
    Ok(())
}

/// Prints lines in pieces, some longer than a pipe.
fn long_lines(count: usize) -> onchip::Result<()> {
    world().run(|rank| {
        let letter = char::from(b'a' + rank.id() as u8);
        let mut out = std::io::stdout().lock();
        for line in 0..count {
            let len = if line % 8 == 7 { 200_000 } else { 10 + line };
            for piece in letter.to_string().repeat(len).as_bytes().chunks(50_000) {
                out.write_all(piece)?;
                out.flush()?;
            }
            out.write_all(b"\n")?;
        }
        Ok(())
    })?;
    Ok(())
}

fn stdin() -> onchip::Result<()> {
    world().run(|rank| {
        let lines: Vec<String> = std::io::stdin().lock().lines().map_while(Result::ok).collect();
        println!("rank {} read {lines:?}", rank.id());
        Ok(())
    })?;
    Ok(())
}

/// Prints as a rank and outside of the world. All output of rank 0 is heard, and of the others only what they print as
/// ranks.
fn muted() -> onchip::Result<()> {
    println!("before");
    print!("begun before");
    world().run(|rank| {
        println!("inside {}", rank.id());
        Ok(())
    })?;
    println!("after");
    Ok(())
}

/// Sends messages around a ring, and prints the results of all ranks.
fn sum(kind: &str) -> onchip::Result<()> {
    let results = world_of(kind, 3).run(|rank| {
        let (me, size) = (rank.id(), rank.size());
        let mut next = rank.sender::<u64>("ring", (me + 1) % size, Channel::degree(2))?;
        let previous = rank.receiver::<u64>("ring", (me + size - 1) % size, Channel::degree(2))?;
        let mut sum = me as u64;
        for _ in 0..1000 {
            next.send(&sum)?;
            sum = sum.wrapping_mul(31).wrapping_add(*previous.receive()?);
        }
        Ok((me, sum))
    })?;
    if onchip::caller() {
        println!("{results:?}");
    }
    Ok(())
}

/// Sends messages with tags from every rank to every other one, and receives those of one round in any order.
fn tagged() -> onchip::Result<()> {
    let word = |from: usize, to: usize, round: usize| (1000 * round + 10 * from + to) as u64;
    world().run(|rank| {
        let (all, me, size) = (Communicator::world(rank), rank.id(), rank.size());
        for round in 0..20 {
            let tag = round as u32;
            let others = (0..size).filter(|&other| other != me);
            let sent: Vec<_> = others
                .clone()
                .map(|to| all.nonblocking_send(vec![word(me, to, round); 100 * round], to, tag))
                .collect();
            let mut missing: Vec<usize> = others.collect();
            while !missing.is_empty() {
                let (words, status) = all.receive_vec::<u64>(onchip::ANY_SOURCE, tag)?;
                let from = status.source;
                assert_eq!(words, vec![word(from, me, round); 100 * round]);
                assert!(missing.contains(&from));
                missing.retain(|&other| other != from);
            }
            for request in sent {
                request.wait()?;
            }
        }
        Ok(())
    })?;
    if onchip::caller() {
        println!("all messages were right");
    }
    Ok(())
}

/// Runs a world of exactly so many ranks.
fn exactly(kind: &str, ranks: usize) -> onchip::Result<()> {
    world_of(kind, ranks).run(|_| Ok(())).map(drop)
}

/// Runs two worlds whose ranks are given the process ID of rank 0, or nothing because making the value fails.
fn given(how: &str) -> onchip::Result<()> {
    let make = || match how {
        "well" => Ok(std::process::id()),
        _ => Err(Error::other("no such picture")),
    };
    for _ in 0..2 {
        let pids = world().run_with(make, |_, &given| Ok((given, std::process::id())))?;
        let first = pids[0].1;
        assert!(pids.iter().all(|&(given, _)| given == first), "{pids:?}");
    }
    // This world is not the launcher's.
    let own = World::threads(2).run_threads(|rank| Ok(rank.size()))?;
    assert_eq!(own, [Ok(2), Ok(2)]);
    if onchip::caller() {
        println!("made once");
    }
    Ok(())
}

/// Runs one world after another, each with the result of the one before. Some fail, and the program goes on.
fn rounds(kind: &str) -> onchip::Result<()> {
    let mut number = 1;
    for round in 0..20 {
        let results = world_of(kind, 3).run(|rank| {
            let me = rank.id();
            let mut next = rank.sender::<u64>("ring", (me + 1) % 3, Channel::degree(1))?;
            let previous = rank.receiver::<u64>("ring", (me + 2) % 3, Channel::degree(1))?;
            if round % 5 == 3 && me == 1 {
                panic!("round {round}");
            }
            if round % 5 == 4 && me == 2 {
                return Err(Error::other("no more"));
            }
            next.send(&(number + me as u64))?;
            Ok(*previous.receive()?)
        });
        let text = match results.map_err(Error::into_kind) {
            Ok(results) => {
                number = results.iter().sum::<u64>() % 1009;
                format!("{results:?}")
            }
            // The causes of the other ranks depend on timing.
            Err(ErrorKind::RanksFailed(RanksFailed { failures })) => {
                let culprit = if round % 5 == 3 { 1 } else { 2 };
                failures.iter().find(|f| f.rank == culprit).unwrap().to_string()
            }
            Err(error) => return Err(error.into()),
        };
        if onchip::caller() {
            println!("{round}: {text}");
        }
    }
    Ok(())
}

/// Runs a world in which buffers move around. The result of each rank is how much memory was ever in use.
fn buffers() -> onchip::Result<Vec<u64>> {
    world().run(|rank| {
        let (me, size) = (rank.id(), rank.size());
        let channel = Channel::degree(1).max_len(100);
        let mut next = rank.sender::<[u64]>("ring", (me + 1) % size, channel)?;
        let previous = rank.receiver::<[u64]>("ring", (me + size - 1) % size, channel)?;
        next.send_buffer(rank.buffer_from(&[me as u64; 100])?)?;
        assert_eq!(previous.receive_buffer()?[99] as usize, (me + size - 1) % size);
        Ok(rank.memory().touched)
    })
}

/// Runs worlds until it is killed.
fn churn() -> onchip::Result<()> {
    println!("begun");
    loop {
        buffers()?;
    }
}

/// Prints how much memory was ever in use after some worlds, and after many.
fn memory() -> onchip::Result<()> {
    let mut most = 0;
    for round in 1..=500 {
        most = most.max(buffers()?.into_iter().max().unwrap_or(0));
        if onchip::caller() && [50, 500].contains(&round) {
            println!("{most}");
        }
    }
    Ok(())
}

fn is_rank(rank: usize) -> bool {
    std::env::var("ONCHIP_RANK").is_ok_and(|me| me.starts_with(&format!("{rank}:")))
}

/// Rank 1 ends after the first world without a message. The others make further calls.
fn early() -> onchip::Result<()> {
    assert_eq!(world().run(|rank| Ok(rank.id()))?, [0, 1, 2]);
    if is_rank(1) {
        return Ok(());
    }
    for round in 0..50 {
        let outcome = world().run(|rank| {
            let from = rank.receiver::<u64>("word", 1, Channel::degree(1))?;
            match from.receive().map_err(Error::into_kind) {
                Err(ErrorKind::PeerLost { rank: 1, .. }) => Ok(()),
                other => panic!("{other:?}"),
            }
        });
        let failure = outcome.unwrap_err();
        match round {
            0 => println!("{failure}"),
            _ => assert_eq!(failure.to_string(), "rank 1 ended early with exit status 0"),
        }
    }
    Ok(())
}

/// Joins the world several times, and sends a message around a ring each time.
fn joined(rounds: usize) -> onchip::Result<()> {
    for round in 0..rounds {
        let joined = World::join()?;
        let (me, size) = (joined.rank().id(), joined.rank().size());
        let world = Communicator::world(joined.rank());
        let to = world.nonblocking_send(vec![me as u64], (me + 1) % size, 1);
        let (before, _) = world.receive::<u64>((me + size - 1) % size, 1)?;
        to.wait()?;
        world.barrier()?;
        println!("round {round}: rank {me} after {before}");
        drop(world);
        joined.leave()?;
        println!("rank {me} left round {round}");
    }
    Ok(())
}

/// Rank 1 ends in some way between joining and leaving, while the others wait for it.
fn joined_end(how: &str) -> onchip::Result<()> {
    let joined = World::join()?;
    let (me, world) = (joined.rank().id(), Communicator::world(joined.rank()));
    if me != 1 {
        let waited = world.receive::<u64>(1, 1);
        let lost = matches!(
            waited.as_ref().map_err(Error::kind),
            Err(ErrorKind::PeerLost { .. } | ErrorKind::PeerEnded { .. })
        );
        drop(world);
        let left = joined.leave();
        // One call, so that the lines of two ranks do not mix.
        let line = format!("rank {me} waited in vain: {lost}, and left: {left:?}\n");
        return Ok(std::io::stderr().write_all(line.as_bytes())?);
    }
    drop(world);
    match how {
        "fail" => {
            joined.fail("it has had enough");
            std::process::exit(9)
        }
        "exit" => std::process::exit(5),
        "succeed" => std::process::exit(0),
        "drop" => {
            drop(joined);
            std::process::exit(4)
        }
        _ => Ok(Command::new("sh")
            .args(["-c", &format!("kill -KILL {}", std::process::id())])
            .status()
            .map(drop)?),
    }
}

fn joined_twice() -> onchip::Result<()> {
    let joined = World::join()?;
    twice()?;
    joined.leave()
}

/// Joins in rank code, which is an error.
fn twice() -> onchip::Result<()> {
    println!("{}", World::join().unwrap_err());
    Ok(())
}

/// Rank `who` ends in some way while the others wait for it.
fn end(how: &str, who: usize) -> onchip::Result<()> {
    if how == "panic-outside" && is_rank(who) {
        panic!("before the world");
    }
    world().run(|rank| {
        if rank.id() != who {
            let from = rank.receiver::<u64>("never", who, Channel::degree(1))?;
            return match from.receive().map_err(Error::into_kind) {
                Err(error @ (ErrorKind::PeerLost { .. } | ErrorKind::Disconnected { .. })) => {
                    Err(error.into())
                }
                other => panic!("{other:?}"),
            };
        }
        let signal = |name: &str| {
            let me = std::process::id().to_string();
            Command::new("sh").args(["-c", &format!("kill -{name} {me}")]).status()
        };
        match how {
            "exit" => std::process::exit(7),
            "exit-0" => std::process::exit(0),
            "kill" => drop(signal("KILL")?),
            "real-time" => drop(signal("40")?),
            "abort" => std::process::abort(),
            "panic" => panic!("so be it"),
            "error" => return Err(Error::other("no such picture")),
            _ => return Ok(()),
        }
        std::thread::sleep(Duration::from_secs(60));
        Ok(())
    })?;
    Ok(())
}

/// Rank `who` fails while the others do something else, or wait for another rank.
fn among(how: &str, others: &str, who: usize) -> onchip::Result<()> {
    world().run(|rank| {
        let everybody = Communicator::world(rank);
        if rank.id() == who {
            // Waits until the others have come to what they are to do.
            for other in (0..rank.size()).filter(|&other| other != who) {
                everybody.receive_vec::<u8>(other, 1)?;
            }
            std::thread::sleep(Duration::from_millis(50));
            return match how {
                "panic" => panic!("so be it"),
                _ => Err(Error::other("no such picture")),
            };
        }
        if others.ends_with("ignore") {
            use nix::sys::signal::{SigSet, Signal};
            let mut set = SigSet::empty();
            set.add(Signal::SIGTERM);
            set.thread_block().map_err(std::io::Error::from)?;
        }
        // Rank `who` may have failed before this call returns.
        let _ = everybody.send(&[0u8], who, 1);
        if rank.id() == 0 {
            match others {
                "return, compute" | "return, ignore" => return Ok(()),
                "fail, compute" => return Err(Error::other("no such colour")),
                _ => {}
            }
        }
        if others == "wait" {
            // It waits for a rank that lives.
            let other = (0..rank.size()).find(|&other| other != who && other != rank.id());
            everybody.receive_vec::<u8>(other.ok_or_else(|| Error::other("a world of two"))?, 2)?;
        }
        std::thread::sleep(Duration::from_secs(600));
        Ok(())
    })?;
    Ok(())
}

/// In each world rank 1 fails, the others take some time, and the program goes on.
fn mended() -> onchip::Result<()> {
    for round in 0..3 {
        let outcome = world().run(|rank| {
            if rank.id() == 1 {
                return Err(Error::other("no more"));
            }
            std::thread::sleep(Duration::from_millis(300));
            Ok(())
        });
        match outcome.map_err(Error::into_kind) {
            Err(ErrorKind::RanksFailed(RanksFailed { failures })) if failures.len() == 1 => {}
            other => panic!("{round}: {other:?}"),
        }
    }
    if onchip::caller() {
        println!("3 rounds");
    }
    Ok(())
}

/// Runs a world that fails, and one in which all ranks print.
fn heard() -> onchip::Result<()> {
    let failed = world().run(|rank| match rank.id() {
        1 => Err(Error::other("no more")),
        _ => Ok(()),
    });
    assert!(failed.is_err());
    eprintln!("another rank has failed");
    world().run(|rank| {
        // The line is written in one piece, because standard error does not assemble lines.
        let line = format!("rank {} in the next world\n", rank.id());
        Ok(std::io::stderr().write_all(line.as_bytes())?)
    })?;
    Ok(())
}

fn hang() -> onchip::Result<()> {
    world().run(|rank| {
        println!("rank {} of {}", rank.id(), std::process::id());
        std::thread::sleep(Duration::from_secs(600));
        Ok(())
    })?;
    Ok(())
}

/// The program of rank 0 goes on after the world, and the others end.
fn stay() -> onchip::Result<()> {
    world().run(|rank| {
        let (own, launcher) = (std::process::id(), std::os::unix::process::parent_id());
        println!("rank {}: {own} of {launcher}.", rank.id());
        Ok(())
    })?;
    if is_rank(0) {
        println!("rank 0 stays");
        std::thread::sleep(Duration::from_secs(600));
    }
    Ok(())
}

/// Every rank waits for the next one: to receive, or with full channels to send.
fn cycle(kind: &str, ranks: usize, operation: &str) -> onchip::Result<()> {
    world_of(kind, ranks).run(|rank| {
        let (me, size) = (rank.id(), rank.size());
        let (next, previous) = ((me + 1) % size, (me + size - 1) % size);
        if operation == "send" {
            let _keep = rank.receiver::<u64>("to next", previous, Channel::degree(2))?;
            let mut to = rank.sender::<u64>("to next", next, Channel::degree(2))?;
            loop {
                to.send(&1)?;
            }
        }
        if operation == "flag" {
            let mpb = rank.mpb("flags", Mpbs::lines(9))?;
            return mpb.wait_flag_from(next, 5, |value| value == 1).map(drop);
        }
        let from = rank.receiver::<u64>("from next", next, Channel::degree(2))?;
        let mut to = rank.sender::<u64>("from next", previous, Channel::degree(2))?;
        let got = match operation {
            "receive" => *from.receive()?,
            "limited" => *from.receive_timeout(Duration::from_secs(600))?,
            _ => panic!("{operation}"),
        };
        to.send(&got)
    })?;
    Ok(())
}

/// Rank 0 waits for a message that rank 1 sends later. Rank 1 waits as `what` says, while a tagged send of its own is
/// pending that no rank receives. Rank 2 computes, or waits for rank 0, before it does its part.
fn beside(kind: &str, what: &str, third: &str) -> onchip::Result<()> {
    const UNWANTED: u32 = 1;
    const LATER: u32 = 2;
    world_of(kind, 3).run(|rank| {
        let (all, me) = (Communicator::world(rank), rank.id());
        let two = all.split((me < 2).then_some(1), 0)?;
        let progress = match what {
            "thread" => CommThreads::start(1)?.into(),
            _ => nonblocking::Progress::InCalls,
        };
        all.set_nonblocking(progress)?;
        let begin = || -> onchip::Result<_> { Ok(all.nonblocking()?.barrier()) };
        let is_request = matches!(what, "thread" | "calls");
        // After these calls all ranks have opened what the operations need.
        begin()?.wait()?;
        if let Some(two) = &two {
            two.barrier()?;
        }
        if me == 0 {
            let _barrier = is_request.then(begin).transpose()?;
            return rank.receiver::<u8>("later", 1, Channel::degree(1))?.receive().map(drop);
        }
        if me == 2 {
            // Rank 2 takes one of two messages.
            let from = rank.receiver::<u8>("delegated", 1, Channel::degree(1))?;
            match third {
                "computes" => std::thread::sleep(Duration::from_secs(600)),
                _ => drop(all.receive::<u8>(0, LATER)?),
            }
            if is_request {
                begin()?.wait()?;
            }
            return from.receive().map(drop);
        }
        let to = if what == "barrier beside 2" { 2 } else { 0 };
        let _sent = all.nonblocking_synchronous_send([1u8], to, UNWANTED);
        match (what, &two) {
            ("any", _) => {
                let threads = CommThreads::start(1)?;
                let channel = Channel::degree(1);
                let mut to = threads.delegate(rank.sender::<u8>("delegated", 2, channel)?);
                to.send(1).wait()?;
                let mut sent = to.send(2);
                let mut got = all.nonblocking_receive([0u8], 0, LATER);
                let mut both: [&mut dyn Pending; 2] = [&mut got, &mut sent];
                wait_any(&mut both)?;
            }
            (_, Some(two)) if !is_request => two.barrier()?,
            _ => begin()?.wait()?,
        }
        rank.sender::<u8>("later", 0, Channel::degree(1))?.send(&1)
    })?;
    Ok(())
}

/// Two ranks wait for each other again and again, and make progress nevertheless.
fn pingpong(kind: &str) -> onchip::Result<()> {
    world_of(kind, 2).wait(WaitPolicy::Park).run(|rank| -> onchip::Result<()> {
        let other = 1 - rank.id();
        let mut to = rank.sender::<u64>("ball", other, Channel::degree(1))?;
        let from = rank.receiver::<u64>("ball", other, Channel::degree(1))?;
        if rank.id() == 0 {
            to.send(&0)?;
        }
        loop {
            let ball = *from.receive()?;
            to.send(&(ball + 1))?;
        }
    })?;
    Ok(())
}

/// Rank 0 selects from ranks 1 and 2. Rank 1 waits for rank 0. Rank 2 sleeps, or waits for rank 1.
fn select(kind: &str, second: &str) -> onchip::Result<()> {
    world_of(kind, 3).run(|rank| {
        let one = Channel::degree(1);
        match rank.id() {
            0 => {
                let from = [1, 2].map(|peer| rank.receiver::<u64>("result", peer, one));
                let [first, second] = from;
                let (first, second) = (first?, second?);
                let mut tasks = rank.sender::<u64>("task", 1, one)?;
                let mut select = Select::new();
                select.add(&first);
                select.add(&second);
                select.ready()?;
                tasks.send(&1)
            }
            1 => {
                let tasks = rank.receiver::<u64>("task", 0, one)?;
                let mut results = rank.sender::<u64>("result", 0, one)?;
                let mut onward = rank.sender::<u64>("onward", 2, one)?;
                results.send(&*tasks.receive()?)?;
                onward.send(&1)
            }
            _ => {
                let mut results = rank.sender::<u64>("result", 0, one)?;
                if second == "sleeps" {
                    std::thread::sleep(Duration::from_secs(600));
                }
                let onward = rank.receiver::<u64>("onward", 1, one)?;
                results.send(&*onward.receive()?)
            }
        }
    })?;
    Ok(())
}

/// Sleeps without any world.
fn idle() -> onchip::Result<()> {
    println!("idle");
    std::thread::sleep(Duration::from_secs(600));
    Ok(())
}

/// Rank 0 returns at once; the others sleep.
fn finish() -> onchip::Result<()> {
    world().run(|rank| {
        if rank.id() > 0 {
            std::thread::sleep(Duration::from_secs(600));
        }
        Ok(())
    })?;
    Ok(())
}

/// Takes memory until there is none left, in a world with this segment size.
fn fill(bytes: Option<u64>) -> onchip::Result<()> {
    let world = bytes.map_or(world(), |bytes| world().segment_size(bytes));
    let errors = world.run(|rank| {
        let mut held = Vec::new();
        loop {
            match rank.buffer::<u8>(100 << 10) {
                Ok(buffer) => held.push(buffer),
                Err(error) => return Ok(error.to_string()),
            }
        }
    })?;
    if onchip::caller() {
        println!("{}", errors[0]);
    }
    Ok(())
}
