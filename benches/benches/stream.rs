//! Messages one after the other between two pinned threads, by size and asynchrony degree.

use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use onchip::prelude::*;
use onchip_benches::cpus;

fn stream<const WORDS: usize>(rank: &Rank, count: u64, degree: u32) -> onchip::Result<Duration> {
    let channel = Channel::degree(degree);
    let start = Instant::now();
    if rank.id() == 0 {
        let mut out = rank.sender::<[u64; WORDS]>("stream", 1, channel)?;
        for number in 0..count {
            out.send(&[number; WORDS])?;
        }
    } else {
        let messages = rank.receiver::<[u64; WORDS]>("stream", 0, channel)?;
        for number in 0..count {
            assert_eq!(messages.receive()?[0], number);
        }
    }
    Ok(start.elapsed())
}

fn bench<const WORDS: usize>(criterion: &mut Criterion) {
    let cpus = cpus::usable().into_iter().take(2).collect::<Vec<_>>();
    let mut group = criterion.benchmark_group("stream");
    group.throughput(Throughput::Elements(1));
    for degree in [1, 16, 1024] {
        let id = BenchmarkId::new(format!("{} B", 8 * WORDS), degree);
        group.bench_function(id, |bencher| {
            bencher.iter_custom(|count| {
                let took = World::threads(2)
                    .wait(WaitPolicy::Spin)
                    .bind(Bind::List(cpus.clone()))
                    .run(|rank| stream::<WORDS>(rank, count, degree));
                took.expect("the stream")[1]
            });
        });
    }
}

criterion_group!(benches, bench::<1>, bench::<7>, bench::<8>, bench::<128>);
criterion_main!(benches);
