//! Measures messages between two nodes, through an installed MPI library:
//!
//! ```sh
//! cargo build --release -p mp-nodes --example between_nodes
//! ONCHIP_MPI=/path/to/libmpi_abi.so mpiexec -n 2 target/release/examples/between_nodes
//! ```

use std::time::Instant;

use mp_nodes::{Engine, Interconnect, Result};

/// Lengths in bytes, each with the number of messages to and fro.
const LENGTHS: [(usize, u32); 4] =
    [(8, 20_000), (1 << 10, 20_000), (64 << 10, 2_000), (1 << 20, 200)];

fn main() -> std::process::ExitCode {
    match measure() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn measure() -> Result<()> {
    let mut engine = Engine::start()?;
    let (node, nodes) = (engine.node(), engine.nodes());
    if node == 0 {
        println!("{nodes} nodes, {}", engine.version());
    }
    for (len, times) in LENGTHS {
        let started = Instant::now();
        if node < 2 && nodes > 1 {
            for _ in 0..times {
                if node == 0 {
                    engine.send(1, 0, vec![1; len])?;
                }
                receive(&mut *engine)?;
                if node == 1 {
                    engine.send(0, 0, vec![1; len])?;
                }
            }
        }
        let each = started.elapsed() / (2 * times);
        if node == 0 && nodes > 1 {
            println!("{len:>8} bytes: {each:>10.2?} from one node to the other");
        }
    }
    engine.end()
}

/// Waits for the next message, and receives it.
fn receive(connection: &mut dyn Interconnect) -> Result<Vec<u8>> {
    loop {
        connection.progress()?;
        if let Some(arrived) = connection.probe()? {
            let mut bytes = vec![0; arrived.len];
            connection.receive_into(&mut bytes)?;
            return Ok(bytes);
        }
    }
}
