//! A message to and fro between two pinned threads: half of the round trip by the size of the message.

use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use onchip::prelude::*;
use onchip_benches::cpus;

fn round_trips<const WORDS: usize>(rank: &Rank, trips: u64) -> onchip::Result<Duration> {
    let peer = 1 - rank.id();
    let mut out = rank.sender::<[u64; WORDS]>("pingpong", peer, Channel::degree(16))?;
    let back = rank.receiver::<[u64; WORDS]>("pingpong", peer, Channel::degree(16))?;
    let start = Instant::now();
    for trip in 0..trips {
        if rank.id() == 0 {
            out.send(&[trip; WORDS])?;
            assert_eq!(*back.receive()?, [!trip; WORDS]);
        } else {
            let message = *back.receive()?;
            out.send(&message.map(|word| !word))?;
        }
    }
    Ok(start.elapsed())
}

fn bench<const WORDS: usize>(criterion: &mut Criterion) {
    let cpus = cpus::usable().into_iter().take(2).collect::<Vec<_>>();
    let mut group = criterion.benchmark_group("pingpong");
    group.bench_function(BenchmarkId::from_parameter(format!("{} B", 8 * WORDS)), |bencher| {
        bencher.iter_custom(|trips| {
            let took = World::threads(2)
                .wait(WaitPolicy::Spin)
                .bind(Bind::List(cpus.clone()))
                .run(|rank| round_trips::<WORDS>(rank, trips));
            took.expect("the ping-pong")[0] / 2
        });
    });
}

criterion_group!(benches, bench::<1>, bench::<7>, bench::<128>);
criterion_main!(benches);
