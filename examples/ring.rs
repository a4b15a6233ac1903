//! A token goes once round all ranks: `cargo run --example ring`, or
//! `mprun -n 3 target/debug/examples/ring`.
#![forbid(unsafe_code)]

use onchip::prelude::*;

fn main() -> onchip::Result<()> {
    // Under `mprun` the ranks are those of the launched world, however many there are.
    let hops = World::processes(4).run(|rank| {
        let (me, ranks) = (rank.id(), rank.size());
        let (next, previous) = ((me + 1) % ranks, (me + ranks - 1) % ranks);
        let mut to_next = rank.sender::<u64>("token", next, Channel::degree(1))?;
        let from_previous = rank.receiver::<u64>("token", previous, Channel::degree(1))?;
        if me == 0 {
            to_next.send(&1)?;
        }
        let hops = *from_previous.receive()?;
        if me != 0 {
            to_next.send(&(hops + 1))?;
        }
        println!("rank {me} of {ranks}: the token has made {hops} hops");
        Ok(hops)
    })?;
    if onchip::caller() {
        println!("all ranks: {hops:?}");
    }
    Ok(())
}
