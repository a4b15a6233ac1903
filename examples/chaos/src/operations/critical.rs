//! A counter in a critical section, by every scheme.

use onchip::critical::objects::Counter;
use onchip::critical::{Scheme, Section, Server};
use onchip::{Channel, Result};

use super::Work;
use crate::content::wrong;
use crate::record::Record;

pub(super) fn run(mut work: Work<'_>) -> Result<()> {
    let scheme = work.random.pick(&Scheme::ALL);
    let section = Section::new(scheme)
        .max_ops(1 + work.random.index(6))
        .in_flight(1 + work.random.index(8))
        .poison(work.random.percent(50));
    let count = 1 + work.random.below(60);
    let name = work.name("counter");
    work.call()?;
    let counter = Counter::open(work.rank, &name, section)?;
    if scheme.needs_server() {
        // Clients of a server that never came would wait for another one.
        let (name, once) = (work.name("serves"), Channel::degree(1));
        if work.me() == 0 {
            let mut server = Server::new();
            server.add(counter)?;
            for client in 1..work.ranks() {
                work.call()?;
                // If one client is gone, the others are served all the same.
                let _ = work.rank.sender::<u8>(&name, client, once)?.send(&1);
            }
            work.call()?;
            return server.serve();
        }
        work.call()?;
        work.rank.receiver::<u8>(&name, 0, once)?.receive()?;
    }
    let (mut things, mut ended) = (Vec::new(), Ok(()));
    for _ in 0..count {
        ended = work.call().and_then(|()| {
            let before = counter.fetch_add(1)? as u32;
            match things.last() {
                Some(&last) if last >= before => wrong(format!("{before} after {last}")),
                _ => {
                    things.push(before);
                    Ok(())
                }
            }
        });
        if ended.is_err() {
            break;
        }
    }
    Record::Got { step: work.step, rank: work.me(), things }.tell();
    ended
}
