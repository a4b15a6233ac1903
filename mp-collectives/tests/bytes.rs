//! Collectives leave nothing uninitialised in the world's memory: a buffer that lies there later can be read.
//! Miri knows of each byte whether it was written. So all are here once, in one world, since a start takes it long.

use std::hint::black_box;

use mp_collectives::collectives::InPlace;
use mp_collectives::communicator::Communicator;
use mp_collectives::{
    nonblocking::{Nonblocking, Settings},
    reduce::Sum,
};
use mp_core::{Channel, Rank, Result, SharedBuffer, World};
use mp_delegate::threads::Progress;

const SEGMENT: usize = 8 << 20;

/// Bytes of a block: within a line, a few lines, several chunks; each leaves a rest.
const LENGTHS: [usize; 3] = [1, 301, 5003];

#[test]
fn collectives_leave_bytes() {
    let world = World::threads(2).segment_size(SEGMENT as u64);
    world
        .run(|rank| {
            let all = Communicator::world(rank);
            broadcasts_and_reductions(&all)?;
            exchanges(&all)?;
            nonblocking_ones(rank)?;
            drop(all);
            read_all(rank)
        })
        .unwrap();
}

/// Reads all of the world's memory that nobody holds any more.
fn read_all(rank: &Rank) -> Result<()> {
    let other = 1 - rank.id();
    let mut to = rank.sender::<u8>("left", other, Channel::degree(1))?;
    let from = rank.receiver::<u8>("left", other, Channel::degree(1))?;
    to.send(&1)?;
    from.receive()?;
    if rank.id() == 0 {
        let mut all: Vec<SharedBuffer<u64>> = Vec::new();
        for words in [10_000, 1000, 100, 10] {
            while let Ok(buffer) = rank.buffer(words) {
                all.push(buffer);
            }
        }
        let bytes: usize = all.iter().map(|buffer| 8 * buffer.len()).sum();
        assert!(bytes > SEGMENT / 10 * 9, "only {bytes} bytes");
        // A comparison reads every byte, and Miri does it by one call.
        assert!(all.iter().all(|buffer| black_box(&buffer[..]) == &buffer[..]));
    }
    // The other stays until then.
    to.send(&1)?;
    from.receive().map(drop)
}

fn broadcasts_and_reductions(all: &Communicator) -> Result<()> {
    for len in LENGTHS {
        let mut vector = vec![1u8; len];
        all.broadcast(&mut vector, 1)?;
        all.all_reduce(&mut vector, Sum)?;
        all.reduce(&mut vector, Sum, 0)?;
        all.broadcast(&mut vector, 0)?;
        assert_eq!(vector, vec![4; len]);
        all.scan(&mut vector, Sum)?;
        all.exclusive_scan(&mut vector, Sum)?;
    }
    Ok(())
}

fn exchanges(all: &Communicator) -> Result<()> {
    for len in LENGTHS {
        let (own, mut both) = (vec![1u8; len], vec![0u8; 2 * len]);
        all.all_gather(&own, &mut both)?;
        assert_eq!(both, vec![1; 2 * len]);
        all.all_to_all(InPlace, &mut both)?;
        let mut own = own;
        all.reduce_scatter(&both, &mut own, Sum)?;
        assert_eq!(own, vec![2; len]);
        all.gather(&own, &mut both, 1)?;
        all.scatter(&both, &mut own, 1)?;
        assert_eq!(own, vec![2; len]);
    }
    Ok(())
}

fn nonblocking_ones(rank: &Rank) -> Result<()> {
    let mut nonblocking = Nonblocking::open(rank, "all", Progress::InCalls, Settings::default())?;
    for len in LENGTHS {
        let broadcast = nonblocking.broadcast(vec![1u8; len], 1);
        let sum = nonblocking.all_reduce(vec![1u8; len], Sum);
        let scan = nonblocking.scan(vec![1u8; len], Sum);
        let gather = nonblocking.all_gather(vec![1u8; len], vec![0u8; 2 * len]);
        assert_eq!(gather.wait()?.1, vec![1; 2 * len]);
        assert_eq!(scan.wait()?, vec![rank.id() as u8 + 1; len]);
        assert_eq!(sum.wait()?, vec![2; len]);
        assert_eq!(broadcast.wait()?, vec![1; len]);
    }
    Ok(())
}
