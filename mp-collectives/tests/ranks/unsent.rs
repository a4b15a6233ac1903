//! Messages for which there is no memory. The collective operation that the sender waits in fails, and no other rank
//! waits for ever.

use mp_collectives::communicator::{ANY_SOURCE, Communicator, wait_any};
use mp_collectives::reduce::Sum;
use mp_core::{Channel, Error, ErrorKind, Recipient, Sender, World};
use mp_delegate::threads::Progress;

use crate::support::{on_all_with, starve};

fn is_unsent(waited: &std::result::Result<(), Error>) -> bool {
    match waited.as_ref().map_err(Error::kind) {
        Err(ErrorKind::NotSent { to: Recipient::Rank(1), reason }) => {
            reason.contains("segment is full")
        }
        _ => false,
    }
}

/// Rank 0 has no memory for long messages to rank 1, and is in `wait`. Rank 1 waits for a message from any source. Rank
/// 2 calls `other` meanwhile, and so does rank 1 when rank 0 lets it.
fn starved(
    wait: impl Fn(&Communicator, &mut Sender<u8>) -> std::result::Result<(), Error> + Sync,
    other: impl Fn(&Communicator) -> std::result::Result<(), Error> + Sync,
) {
    on_all_with(
        3,
        |world: World| world.segment_size(8 << 20),
        |rank| {
            let world = Communicator::world(rank);
            world.set_nonblocking(Progress::InCalls)?;
            // These calls open everything that is needed.
            world.barrier()?;
            world.all_reduce(&mut [1u64], Sum)?;
            world.nonblocking()?.barrier().wait()?;
            let mut end = rank.sender::<u8>("end", (rank.id() + 1) % 3, Channel::degree(1))?;
            let ended = rank.receiver::<u8>("end", (rank.id() + 2) % 3, Channel::degree(1))?;
            for other in (0..3).filter(|&other| other != rank.id()) {
                world.send(&[1u64], other, 0)?;
            }
            for other in (0..3).filter(|&other| other != rank.id()) {
                world.receive::<u64>(other, 0)?;
            }
            if rank.id() == 0 {
                let taken = starve(rank);
                let request = world.nonblocking_send(vec![7u64; 30_000], 1, 1);
                wait(&world, &mut end)?;
                ensure!(request.wait().is_err(), "a message that could not be sent");
                drop(taken);
            } else {
                if rank.id() == 1 {
                    let got = world.receive_vec::<u64>(ANY_SOURCE, 1);
                    ensure!(
                        matches!(
                            got.as_ref().map_err(Error::kind),
                            Err(ErrorKind::PeerBroken { rank: 0, .. })
                        ),
                        "{got:?}"
                    );
                    ended.receive()?;
                }
                other(&world)?;
            }
            end.send(&1)?;
            ended.receive().map(drop)
        },
    );
}

/// The call fails, and the others hear that rank 0 is out of step.
fn fails(call: impl Fn(&Communicator) -> std::result::Result<(), Error> + Sync) {
    starved(
        |world, go| {
            let waited = call(world);
            assert!(is_unsent(&waited), "{waited:?}");
            go.send(&1)?;
            let again = call(world);
            assert!(is_unsent(&again), "out of step: {again:?}");
            Ok(())
        },
        |world| {
            // Rank 0 may have announced its arrival before it failed, so the first call may succeed. Rank 0 does not
            // come again.
            let without_it = call(world).and_then(|()| call(world));
            assert!(without_it.is_err(), "an operation that rank 0 has left");
            Ok(())
        },
    );
}

#[test]
fn a_blocking_collective_fails() {
    fails(|world| world.barrier());
    fails(|world| world.all_reduce(&mut [1u64], Sum));
}

/// The operation itself goes on.
#[test]
fn a_wait_for_several_requests_fails() {
    starved(
        |world, go| {
            let mut barrier = world.nonblocking()?.barrier();
            let waited = wait_any(&mut [&mut barrier]).map(drop);
            assert!(is_unsent(&waited), "{waited:?}");
            go.send(&1)?;
            Ok(barrier.wait().map(drop)?)
        },
        |world| Ok(world.nonblocking()?.barrier().wait().map(drop)?),
    );
}
