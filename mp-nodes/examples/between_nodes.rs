//! Measures messages between two nodes: through an installed MPI library alone, and through a channel of a world that the
//! library joins, copied and as buffers that move.
//!
//! ```sh
//! cargo build --release -p mp-nodes --example between_nodes
//! ONCHIP_MPI=/path/to/libmpi_abi.so mpiexec -n 2 target/release/examples/between_nodes
//! ONCHIP_MPI=/path/to/libmpi_abi.so mpiexec -n 2 target/release/examples/between_nodes all-reduce
//! ONCHIP_MPI=/path/to/libmpi_abi.so mpiexec -n 2 target/release/examples/between_nodes within
//! ONCHIP_MPI=/path/to/libmpi_abi.so mpiexec -n 2 target/release/mprun --nodes -n 1 \
//!     target/release/examples/between_nodes processes
//! ```
//!
//! The second command measures all-reduces over two ranks of each node. `IMB-MPI1 Allreduce` by `mpiexec -n 4` has those of
//! the library. The third one measures messages between two of four ranks, which are on the first node, while the others
//! sleep. With `mpiexec -n 1`, all four are on one node. The last one measures messages between ranks that are processes.

use std::{
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use mp_nodes::{Engine, Interconnect, Result};
use onchip::{Cause, Channel, Communicator, Rank, World, reduce::Max};

/// Lengths in bytes, each with the number of messages to and fro.
const LENGTHS: [(usize, u32); 4] =
    [(8, 20_000), (1 << 10, 20_000), (64 << 10, 2_000), (1 << 20, 200)];

/// Lengths of vectors in bytes, each with the number of all-reduces.
const VECTORS: [(usize, u32); 4] = [(8, 5_000), (64 << 10, 1_000), (1 << 20, 100), (8 << 20, 20)];

fn main() -> ExitCode {
    let measured = match std::env::args().nth(1).as_deref() {
        None => measure_messages(),
        Some("all-reduce") => measure_all_reduces(),
        Some("within") => measure_within(),
        Some("processes") => measure_processes(),
        Some(other) => {
            eprintln!(
                "there is no measurement {other}: give all-reduce, within, processes, or nothing"
            );
            return ExitCode::FAILURE;
        }
    };
    match measured {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn measure_messages() -> Result<()> {
    let mut engine = Engine::start()?;
    let (node, nodes) = (engine.node(), engine.nodes());
    if nodes != 2 {
        println!("node {node} of {nodes} measures nothing: start 2 nodes");
        return engine.end();
    }
    if node == 0 {
        println!("2 nodes, {}", engine.version());
    }
    let mut alone = Vec::new();
    for (len, times) in LENGTHS {
        let (message, mut received) = (Arc::<[u8]>::from(vec![1; len]), vec![0; len]);
        let started = Instant::now();
        for _ in 0..times {
            if node == 0 {
                engine.send(1, 0, Box::new(Arc::clone(&message)))?;
            }
            receive(&mut *engine, &mut received)?;
            if node == 1 {
                engine.send(0, 0, Box::new(Arc::clone(&message)))?;
            }
        }
        alone.push(started.elapsed() / (2 * times));
    }
    let times = of_first(node, mp_nodes::run(engine, 1, ping_pong)?);
    for (((len, _), alone), [copied, moved]) in LENGTHS.into_iter().zip(&alone).zip(times) {
        println!(
            "{len:>8} bytes: {alone:>10.2?} by the library, {copied:>10.2?} by a channel, \
             {moved:>10.2?} as a buffer"
        );
    }
    Ok(())
}

/// Measures all-reduces over two ranks of each node, and within one node, as far as there are any others.
fn measure_all_reduces() -> Result<()> {
    let engine = Engine::start()?;
    let node = engine.node();
    if node == 0 {
        println!("{} nodes of 2 ranks, {}", engine.nodes(), engine.version());
    }
    let ran = mp_nodes::run(engine, 2, |rank| {
        let all = Communicator::world(rank);
        let node = all.split(Some(rank.node() as u64), 0)?;
        let node = node.ok_or_else(|| onchip::Error::other("every rank names a color"))?;
        let mut times = Vec::new();
        for (len, count) in VECTORS {
            let mut vector = vec![1.0f32; len / size_of::<f32>()];
            let mut measured = [Duration::ZERO; 2];
            for (comm, measured) in [&node, &all].into_iter().zip(&mut measured) {
                comm.all_reduce(&mut vector, Max)?;
                let started = Instant::now();
                for _ in 0..count {
                    comm.all_reduce(&mut vector, Max)?;
                }
                *measured = started.elapsed() / count;
                all.barrier()?;
            }
            times.push((len, measured));
        }
        Ok(times)
    })?;
    for (len, [within, between]) in of_first(node, ran) {
        println!("{len:>8} bytes: {within:>10.2?} on a node, {between:>10.2?} over all nodes");
    }
    Ok(())
}

/// Measures messages between two ranks of the first node.
fn measure_within() -> Result<()> {
    let engine = Engine::start()?;
    let (node, nodes) = (engine.node(), engine.nodes());
    let ran = mp_nodes::run(engine, (4 / nodes).max(2), |rank| {
        let times = if rank.id() < 2 { ping_pong(rank)? } else { Vec::new() };
        Communicator::world(rank).barrier()?;
        Ok(times)
    })?;
    for ((len, _), [copied, moved]) in LENGTHS.into_iter().zip(of_first(node, ran)) {
        println!(
            "{len:>8} bytes on one of {nodes} nodes: {copied:>10.2?} by a channel, {moved:>10.2?} as a buffer"
        );
    }
    Ok(())
}

/// Measures messages between two ranks that are processes, one on each node.
fn measure_processes() -> Result<()> {
    let times = World::processes(2).run(ping_pong)?;
    for ((len, _), [copied, moved]) in LENGTHS.into_iter().zip(&times[0]) {
        println!(
            "{len:>8} bytes between processes: {copied:>10.2?} by a channel, {moved:>10.2?} as a buffer"
        );
    }
    Ok(())
}

/// Returns what rank 0 has measured, if it is on this node, and reports the failures of this node's ranks.
fn of_first<T>(node: usize, ran: Vec<std::result::Result<Vec<T>, Cause>>) -> Vec<T> {
    let mut first = Vec::new();
    for (rank, ran) in ran.into_iter().enumerate() {
        match ran {
            Ok(times) if node == 0 && rank == 0 => first = times,
            Ok(_) => {}
            Err(cause) => eprintln!("{cause}"),
        }
    }
    first
}

/// Sends messages to and fro between ranks 0 and 1. Returns how long a message of each length takes: one that is copied
/// into the channel, and a buffer that goes back and forth.
fn ping_pong(rank: &Rank) -> onchip::Result<Vec<[Duration; 2]>> {
    let other = 1 - rank.id();
    let mut times = Vec::new();
    for (len, count) in LENGTHS {
        let channel = Channel::degree(4).max_len(len);
        let mut to = rank.sender::<[u8]>("ping-pong", other, channel)?;
        let from = rank.receiver::<[u8]>("ping-pong", other, channel)?;
        let message = vec![1; len];
        let started = Instant::now();
        for _ in 0..count {
            if rank.id() == 0 {
                to.send(&message)?;
            }
            from.receive()?;
            if rank.id() == 1 {
                to.send(&message)?;
            }
        }
        let copied = started.elapsed() / (2 * count);
        let mut buffer = rank.buffer_from(&message)?;
        let started = Instant::now();
        for _ in 0..count {
            if rank.id() == 0 {
                to.send_buffer(buffer).map_err(|failed| failed.error)?;
                buffer = from.receive_buffer()?;
            } else {
                to.send_buffer(from.receive_buffer()?).map_err(|failed| failed.error)?;
            }
        }
        times.push([copied, started.elapsed() / (2 * count)]);
    }
    Ok(times)
}

/// Waits for the next message, and receives it.
fn receive(connection: &mut dyn Interconnect, into: &mut [u8]) -> Result<()> {
    loop {
        connection.progress()?;
        if connection.probe()?.is_some() {
            return connection.receive_into(into);
        }
    }
}
