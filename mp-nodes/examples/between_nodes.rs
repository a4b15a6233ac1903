//! Measures messages between two nodes: through an installed MPI library alone, and through a channel of a world that the
//! library joins, copied and as buffers that move.
//!
//! ```sh
//! cargo build --release -p mp-nodes --example between_nodes
//! ONCHIP_MPI=/path/to/libmpi_abi.so mpiexec -n 2 target/release/examples/between_nodes
//! ```

use std::{
    process::ExitCode,
    rc::Rc,
    time::{Duration, Instant},
};

use mp_nodes::{Engine, Interconnect, Result};
use onchip::{Channel, Rank};

/// Lengths in bytes, each with the number of messages to and fro.
const LENGTHS: [(usize, u32); 4] =
    [(8, 20_000), (1 << 10, 20_000), (64 << 10, 2_000), (1 << 20, 200)];

fn main() -> ExitCode {
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<()> {
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
        let (message, mut received) = (Rc::<[u8]>::from(vec![1; len]), vec![0; len]);
        let started = Instant::now();
        for _ in 0..times {
            if node == 0 {
                engine.send(1, 0, Box::new(Rc::clone(&message)))?;
            }
            receive(&mut *engine, &mut received)?;
            if node == 1 {
                engine.send(0, 0, Box::new(Rc::clone(&message)))?;
            }
        }
        alone.push(started.elapsed() / (2 * times));
    }
    for ran in mp_nodes::run(engine, 1, ping_pong)? {
        match ran {
            Ok(_) if node == 1 => {}
            Ok(times) => {
                for (((len, _), alone), [copied, moved]) in
                    LENGTHS.into_iter().zip(&alone).zip(times)
                {
                    println!(
                        "{len:>8} bytes: {alone:>10.2?} by the library, {copied:>10.2?} by a channel, \
                         {moved:>10.2?} as a buffer"
                    );
                }
            }
            Err(cause) => eprintln!("{cause}"),
        }
    }
    Ok(())
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
