//! A service: one rank answers requests of all others, which come in any order, until no client is left.
//!
//! ```text
//! cargo run --example service                three threads
//! cargo run --example service processes      three processes
//! ```

use std::collections::BTreeMap;

use onchip::Result;
use onchip::prelude::{ANY_SOURCE, Communicator, ErrorKind, World};

const SERVER: usize = 0;
const ADD: u32 = 1; // a key and what is added to its value; the answer is the new value
const GET: u32 = 2; // a key; the answer is its value

fn main() -> onchip::Result<()> {
    let world = match std::env::args().nth(1).as_deref() {
        Some("processes") => World::processes(3),
        _ => World::threads(3),
    };
    let answers = world.run(|rank| {
        let world = Communicator::world(rank);
        if rank.id() == SERVER {
            return serve(&world);
        }
        let ask = |request: &[u64], tag| -> Result<u64> {
            world.send(request, SERVER, tag)?;
            Ok(world.receive(SERVER, tag)?.0)
        };
        for key in 0..100 {
            ask(&[key, rank.id() as u64], ADD)?;
        }
        ask(&[99], GET)
    })?;

    assert_eq!(answers[SERVER], 202, "requests of two clients");
    println!("{} requests were answered; the clients read {:?}", answers[SERVER], &answers[1..]);
    Ok(())
}

/// Answers until all other ranks have ended. Returns the number of answers.
fn serve(world: &Communicator) -> Result<u64> {
    let mut values = BTreeMap::new();
    let mut answered = 0;
    loop {
        let (request, status) = match world.receive_vec::<u64>(ANY_SOURCE, onchip::ANY_TAG) {
            Ok(request) => request,
            Err(error) if matches!(error.kind(), ErrorKind::NobodyLeft) => return Ok(answered),
            Err(error) => return Err(error),
        };
        let value = values.entry(request[0]).or_insert(0);
        if status.tag == ADD {
            *value += request[1];
        }
        world.send(&[*value], status.source, status.tag)?;
        answered += 1;
    }
}
