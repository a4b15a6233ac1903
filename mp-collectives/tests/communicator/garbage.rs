//! Words that no communicator writes. Memory that several processes can write is checked before it is used.

use mp_collectives::communicator::{ANY_SOURCE, ANY_TAG, Communicator};
use mp_core::{Channel, Error, ErrorKind, Rank, Result, World};

use crate::support::{Random, Watchdog};

/// Sends words that resemble messages, through the channels of a communicator.
fn talk_nonsense(rank: &Rank, random: &mut Random) -> Result<()> {
    let lines = Channel::degree(128);
    let chunks = Channel::degree(8).max_len(32 << 10);
    let mut lines = rank.sender::<[u64; 7]>("communicator 0: lines", 1, lines)?;
    let mut chunks = rank.sender::<[u8]>("communicator 0: chunks", 1, chunks)?;
    for _ in 0..random.below(40) {
        let kind = random.below(14) as u8;
        let mut words = [0; 7].map(|_: u64| random.next());
        if random.below(2) == 0 {
            let line = bytemuck::bytes_of_mut(&mut words);
            // Usually the context is the one that the receiver uses, and the kind exists.
            line[..8].fill(0);
            line[8] %= 4;
            line[9] = kind;
            // A type that may have been announced.
            line[12..16].fill(7);
            line[16..32].fill(0);
            line[16 + random.below(8) as usize * 2] = random.next() as u8;
            line[24..32].copy_from_slice(&random.below(3000).to_ne_bytes());
            if random.below(8) == 0 {
                line[24..32].fill(0xff);
            }
        }
        let sent = match random.below(12) {
            0 => {
                let buffer = rank.buffer_from(&vec![1; random.below(3000) as usize])?;
                chunks.try_send_buffer(buffer).map_err(Into::into)
            }
            1 => chunks.try_send(&vec![1; random.below(32 << 10) as usize]),
            _ => lines.send(&words),
        };
        if sent.is_err() {
            break;
        }
    }
    Ok(())
}

#[test]
fn nonsense_is_an_error() {
    for seed in 0..150 {
        listen(seed);
    }
}

/// Uses only threads, because the result does not depend on the kind of ranks.
fn listen(seed: u64) {
    let _watchdog = Watchdog::start();
    let result = World::threads(2).run(|rank| {
        let mut random = Random::new(seed);
        if rank.id() == 0 {
            return talk_nonsense(rank, &mut random);
        }
        let world = Communicator::world(rank);
        loop {
            let error = match random.below(5) {
                0 => world.receive_into(&mut [0u8; 40], 0, ANY_TAG).err(),
                1 => world.receive_vec::<u64>(ANY_SOURCE, 0).err(),
                2 => world.receive_buffer::<u8>(0, ANY_TAG).err(),
                3 => world.probe(ANY_SOURCE, ANY_TAG).err(),
                _ => world.nonblocking_receive([0u32; 3], 0, ANY_TAG).wait().err().map(Into::into),
            };
            match error.map(Error::into_kind) {
                Some(ErrorKind::PeerBroken { rank: 0, .. } | ErrorKind::PeerEnded { rank: 0 }) => {
                    return Ok(());
                }
                Some(ErrorKind::NobodyLeft) => return Ok(()),
                Some(ErrorKind::Truncated { .. } | ErrorKind::WrongElements { .. }) | None => {
                    // A message of the wrong type or length is received by another call.
                    let (mut any, none) = (vec![0u16; 1 << 16], ANY_TAG);
                    let _ = world.receive_into(&mut any, 0, none);
                }
                Some(error) => return Err(error.into()),
            }
            // Messages with only the wrong type or length could go on arriving for ever.
            if random.below(20) == 0 {
                return Ok(());
            }
        }
    });
    if let Err(error) = result {
        panic!("seed {seed}: {error}");
    }
}
