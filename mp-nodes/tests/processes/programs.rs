//! The programs of the ranks.

use std::process::ExitCode;

use mp_core::starting::Command;
use onchip::{RanksFailed, Result, prelude::*};

use super::launchers::kill_self;

pub fn run(name: &str, args: &[String]) -> ExitCode {
    let result = match name {
        "ring" => ring(),
        "where" => whereabouts(),
        "long" => long(),
        "mended" => mended(),
        "early" => early(),
        "given" => given(),
        "joined" => joined(),
        "killed" => killed(args[0].parse().unwrap(), args[1].parse().unwrap()),
        "survives" => survives(args[0].parse().unwrap()),
        "shrinks" => shrinks(),
        "fails" => fails(&args[0], args[1].parse().unwrap()),
        "further" => further(),
        "churn" => churn(),
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
    World::processes(1).any_size()
}

/// Sends numbers around a ring, to all ranks by tags, to one after another at meetings, and to one by a shared channel.
/// Returns what comes of that.
fn exchange(rank: &Rank, seed: u64) -> Result<u64> {
    let (me, size) = (rank.id(), rank.size());
    let mut next = rank.sender::<u64>("ring", (me + 1) % size, Channel::degree(2))?;
    let last = rank.receiver::<u64>("ring", (me + size - 1) % size, Channel::degree(2))?;
    let mut sum = seed + me as u64;
    for _ in 0..50 {
        next.send(&sum)?;
        sum = sum.wrapping_mul(31).wrapping_add(*last.receive()?);
    }
    let everybody = Communicator::world(rank);
    for other in (0..size).filter(|&other| other != me) {
        let words = vec![sum; 2000];
        let mut got = vec![0; 2000];
        everybody.send_receive(&words, other, 7, &mut got, other, 7)?;
        assert!(got.iter().all(|&word| word == got[0]));
        sum ^= got[0];
    }
    // A token goes around the ring, and the ranks meet. With one rank, no other rank would take part.
    if size > 1 {
        let mut next = rank.sender::<u64>("meeting", (me + 1) % size, Channel::degree(0))?;
        let last = rank.receiver::<u64>("meeting", (me + size - 1) % size, Channel::degree(0))?;
        for _ in 0..10 {
            if me == 0 {
                next.send(&sum)?;
            }
            sum ^= *last.receive()?;
            if me > 0 {
                next.send(&sum)?;
            }
        }
        let (ends, channel) = (Endpoints::new(1..size, [0]), Channel::degree(2));
        if me > 0 {
            let mut to = rank.shared_sender::<u64>("all", &ends, channel)?;
            (0..10).try_for_each(|number| to.send(&number))?;
        } else {
            let from = rank.shared_receiver::<u64>("all", &ends, channel)?;
            for message in &from {
                sum += *message?;
            }
        }
    }
    Ok(sum)
}

/// Runs three rounds, each with the results of the one before.
fn ring() -> Result<()> {
    let mut seed = 3;
    for round in 0..3 {
        let results = world().run(|rank| {
            println!("rank {} in round {round}", rank.id());
            exchange(rank, seed)
        })?;
        seed = results.iter().fold(0, |all, one| all * 5 % 1_000_003 + one % 1_000_003);
    }
    // Each rank has computed that from the results of all ranks.
    let seeds = world().run(|_| Ok(seed))?;
    assert!(seeds.iter().all(|&one| one == seed), "{seeds:?}");
    if onchip::caller() {
        println!("all ranks know the same");
    }
    Ok(())
}

fn whereabouts() -> Result<()> {
    let nodes = world().run(|rank| {
        assert!(rank.ranks_here().contains(&rank.id()));
        for other in 0..rank.size() {
            let same = rank.ranks_here().contains(&other);
            assert_eq!(rank.node_of(other)? == rank.node(), same);
        }
        let number = |name: &str| std::env::var(name).unwrap().parse::<usize>().unwrap();
        assert_eq!([number("PMI_RANK"), number("PMI_SIZE")], [rank.id(), rank.size()]);
        let place = rank.id() - rank.ranks_here().start;
        let here = [number("MPI_LOCALRANKID"), number("MPI_LOCALNRANKS")];
        assert_eq!(here, [place, rank.ranks_here().len()]);
        Ok((rank.node(), rank.nodes()))
    })?;
    let last = nodes.last().map_or(0, |&(node, _)| node);
    assert!(nodes.iter().all(|&(_, count)| count == last + 1), "{nodes:?}");
    if onchip::caller() {
        println!("{:?}", nodes.iter().map(|&(node, _)| node).collect::<Vec<_>>());
    }
    Ok(())
}

fn long() -> Result<()> {
    let numbers =
        |rank: usize| (0..300_000u64).map(|at| (at * 7) ^ rank as u64).collect::<Vec<_>>();
    for _ in 0..3 {
        let results = world().run(|rank| Ok(numbers(rank.id())))?;
        for (rank, result) in results.iter().enumerate() {
            assert!(*result == numbers(rank), "the result of rank {rank}");
        }
    }
    if onchip::caller() {
        println!("long results are right");
    }
    Ok(())
}

/// Runs rounds, of which some fail, and goes on.
fn mended() -> Result<()> {
    for round in 0..12 {
        let results = world().run(|rank| match (round % 4, rank.id()) {
            (1, 1) => panic!("round {round}"),
            (2, 2) => Err(Error::other("no more")),
            // The others wait for the ranks that fail, or for nobody.
            (1, _) => rank.receiver::<u8>("never", 1, Channel::degree(1))?.receive().map(|_| 0),
            (2, _) => rank.receiver::<u8>("never", 2, Channel::degree(1))?.receive().map(|_| 0),
            _ => exchange(rank, round),
        });
        let text = match results.map_err(Error::into_kind) {
            Ok(results) => format!("{results:?}"),
            Err(ErrorKind::RanksFailed(RanksFailed { failures })) => {
                assert_eq!(failures.len(), 3, "{failures:?}");
                failures[round as usize % 4].to_string()
            }
            Err(error) => return Err(error.into()),
        };
        // All ranks have read the same.
        let texts = world().run(|_| Ok(text.clone()))?;
        assert!(texts.iter().all(|one| *one == text), "{texts:?}");
        if onchip::caller() {
            println!("{round}: {text}");
        }
    }
    Ok(())
}

/// Rank 1 ends after the first round.
fn early() -> Result<()> {
    let ids = world().run(|rank| Ok(rank.id()))?;
    if std::env::var("PMI_RANK").is_ok_and(|me| me == "1") {
        return Ok(());
    }
    let outcome = world().run(|rank| {
        let from = rank.receiver::<u64>("word", 1, Channel::degree(1))?;
        match from.receive().map_err(Error::into_kind) {
            Err(ErrorKind::PeerLost { rank: 1, .. }) => Ok(()),
            other => panic!("{other:?}"),
        }
    });
    assert_eq!(ids, [0, 1, 2]);
    let error = outcome.unwrap_err().into_kind();
    let ErrorKind::RanksFailed(RanksFailed { failures }) = error else { panic!("{error}") };
    println!("{} of the ranks failed: {}", failures.len(), failures[0]);
    Ok(())
}

fn given() -> Result<()> {
    for _ in 0..2 {
        let make = || Ok(std::process::id());
        let pids = world().run_with(make, |_, &given| Ok((given, std::process::id())))?;
        let first = pids[0].1;
        assert!(pids.iter().all(|&(given, _)| given == first), "{pids:?}");
    }
    if onchip::caller() {
        println!("made once");
    }
    Ok(())
}

fn joined() -> Result<()> {
    for round in 0..3 {
        let joined = World::join()?;
        exchange(joined.rank(), round)?;
        println!("round {round} of rank {}", joined.rank().id());
        joined.leave()?;
    }
    Ok(())
}

/// A rank is killed while the others wait for it.
fn killed(who: usize, degree: u32) -> Result<()> {
    let channel = Channel::degree(degree);
    world().run(|rank| {
        if rank.id() == who {
            let mut to = Vec::new();
            for other in (0..rank.size()).filter(|&other| other != who) {
                to.push(rank.sender::<u64>("last words", other, channel)?);
            }
            to.iter_mut().try_for_each(|to| to.send(&7))?;
            kill_self();
        }
        let from = rank.receiver::<u64>("last words", who, channel)?;
        loop {
            match from.receive() {
                Ok(word) => assert_eq!(*word, 7),
                Err(error) => {
                    let lost =
                        matches!(error.kind(), ErrorKind::PeerLost { rank, .. } if *rank == who);
                    assert!(lost, "{error}");
                    return Ok(());
                }
            }
        }
    })?;
    Ok(())
}

/// A rank is killed. The others go on together in a smaller communicator.
fn survives(who: usize) -> Result<()> {
    world().run(|rank| {
        let (everybody, size) = (Communicator::world(rank), rank.size());
        everybody.agree(1)?;
        if rank.id() == who {
            kill_self();
        }
        // Only a neighbour of the lost rank hears of the loss by itself.
        let failed = if rank.id() == (who + 1) % size {
            let error = everybody.receive::<u8>(who, 1).unwrap_err();
            everybody.revoke()?;
            error
        } else {
            everybody.receive::<u8>((who + 1) % size, 1).unwrap_err()
        };
        assert!(!failed.to_string().is_empty());
        let agreed = everybody.agree(1 + rank.id() as u64)?;
        assert_eq!(agreed.unacknowledged, [who]);
        let survivors = everybody.shrink()?;
        let mut sum = [1u64];
        survivors.all_reduce(&mut sum, onchip::reduce::Sum)?;
        println!("rank {} has {} left, and agreed on {}", rank.id(), sum[0], agreed.flag);
        survivors.barrier()
    })?;
    Ok(())
}

/// Communicators are revoked and shrunk in each of several rounds, in which they have the same names.
fn shrinks() -> Result<()> {
    for round in 0..4 {
        world().run(|rank| {
            let everybody = Communicator::world(rank);
            assert!(!everybody.is_revoked());
            for step in 0..3 {
                let copy = everybody.duplicate()?;
                everybody.barrier()?;
                if rank.id() == (round + step) % rank.size() {
                    copy.revoke()?;
                }
                let error = copy.receive::<u8>(ANY_SOURCE, 1).unwrap_err();
                assert!(matches!(error.kind(), ErrorKind::Revoked { .. }), "{error}");
                let again = copy.shrink()?;
                let mut sum = [1u64];
                again.all_reduce(&mut sum, onchip::reduce::Sum)?;
                assert_eq!((sum[0] as usize, copy.agree(6)?.flag), (rank.size(), 6));
            }
            Ok(())
        })?;
    }
    println!("done");
    Ok(())
}

/// A rank fails while the others wait for it, and all programs with it.
fn fails(how: &str, who: usize) -> Result<()> {
    world().run(|rank| {
        if rank.id() != who {
            let from = rank.receiver::<u64>("never", who, Channel::degree(1))?;
            return from.receive().map(drop);
        }
        match how {
            "error" => Err(Error::other("so be it")),
            "panic" => panic!("so be it"),
            _ => std::process::exit(7),
        }
    })?;
    Ok(())
}

/// Runs one world after another, until one fails.
fn churn() -> Result<()> {
    let mut seed = 1;
    loop {
        seed = world().run(|rank| exchange(rank, seed))?.into_iter().fold(0, |all, one| all ^ one);
    }
}

fn further() -> Result<()> {
    world().run(|rank| {
        let program = Command::new("true".as_ref(), [], 1);
        println!("{}", rank.start(&[program], 1).unwrap_err());
        println!("{}", rank.publish(b"name", b"value").unwrap_err());
        Ok(())
    })?;
    Ok(())
}
