//! All collective operations, each once, in one world.

use mp_collectives::collectives::InPlace;
use mp_collectives::communicator::Communicator;
use mp_collectives::{
    nonblocking::{Nonblocking, Settings},
    reduce::Sum,
};
use mp_core::{Rank, Result, World};
use mp_delegate::threads::Progress;

use crate::read_all;

const SEGMENT: usize = 8 << 20;

/// Bytes of a block: less than a line, a few lines, several chunks. Each length leaves a remainder.
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
            read_all(rank, SEGMENT)
        })
        .unwrap();
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
