//! Large messages between two pinned threads: copied by `send`, or moved by `send_buffer`.

use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use onchip::prelude::*;
use onchip_benches::cpus;

fn copied(rank: &Rank, trips: u64, bytes: usize) -> onchip::Result<Duration> {
    let peer = 1 - rank.id();
    let channel = Channel::degree(1).max_len(bytes);
    let mut out = rank.sender::<[u8]>("copied", peer, channel)?;
    let back = rank.receiver::<[u8]>("copied", peer, channel)?;
    let own = vec![rank.id() as u8; bytes];
    let start = Instant::now();
    for _ in 0..trips {
        if rank.id() == 0 {
            out.send(&own)?;
        }
        assert_eq!(back.receive()?.last(), Some(&(peer as u8)));
        if rank.id() == 1 {
            out.send(&own)?;
        }
    }
    Ok(start.elapsed())
}

fn moved(rank: &Rank, trips: u64, bytes: usize) -> onchip::Result<Duration> {
    let peer = 1 - rank.id();
    let mut out = rank.sender::<[u8]>("moved", peer, Channel::degree(16))?;
    let back = rank.receiver::<[u8]>("moved", peer, Channel::degree(16))?;
    if rank.id() == 1 {
        for _ in 0..trips {
            out.send_buffer(back.receive_buffer()?)?;
        }
        return Ok(Duration::ZERO);
    }
    let mut buffer = rank.buffer_zeroed::<u8>(bytes)?;
    let start = Instant::now();
    for _ in 0..trips {
        out.send_buffer(buffer)?;
        buffer = back.receive_buffer()?;
    }
    let took = start.elapsed();
    assert_eq!(buffer.len(), bytes);
    Ok(took)
}

type Way = fn(&Rank, u64, usize) -> onchip::Result<Duration>;

fn bench(criterion: &mut Criterion) {
    let cpus = cpus::usable().into_iter().take(2).collect::<Vec<_>>();
    let ways: [(&str, Way); 2] = [("send", copied), ("send_buffer", moved)];
    for (name, way) in ways {
        let mut group = criterion.benchmark_group(name);
        for kib in [4, 64, 1024] {
            group.bench_function(BenchmarkId::from_parameter(format!("{kib} KiB")), |bencher| {
                bencher.iter_custom(|trips| {
                    let took = World::threads(2)
                        .wait(WaitPolicy::Spin)
                        .bind(Bind::List(cpus.clone()))
                        .run(|rank| way(rank, trips, kib << 10));
                    took.expect("the exchange")[0] / 2
                });
            });
        }
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
