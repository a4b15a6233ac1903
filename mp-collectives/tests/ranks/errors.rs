//! One type of error for all calls: rank code passes it on with `?`, and whoever gets it matches its kind.

use mp_collectives::{communicator::Communicator, reduce::Sum};
use mp_core::{Channel, Error, ErrorKind, Operation, Place, Rank, Result, World};
use mp_delegate::critical::{Object, Protected, Scheme, Section};

use crate::{
    mortal,
    support::{Watchdog, on_all},
};

/// The rank of the world that dies.
const VICTIM: usize = 1;

#[derive(Clone, Copy, Debug)]
enum Call {
    ChannelReceive,
    TaggedReceive,
    AllReduce,
}

/// Waits for the lost rank, which has the number `lost` in the communicator.
fn wait_for(rank: &Rank, of: &Communicator, lost: usize, call: Call) -> Result<u64> {
    let mut sum = [1];
    match call {
        Call::ChannelReceive => {
            let pages = rank.receiver::<u64>("pages", VICTIM, Channel::degree(1))?;
            return Ok(*pages.receive()?);
        }
        Call::TaggedReceive => return Ok(of.receive::<u64>(lost, 7)?.0),
        Call::AllReduce => of.all_reduce(&mut sum, Sum)?,
    }
    Ok(sum[0])
}

fn one_dies(rank: &Rank, die: fn()) -> Result<()> {
    let world = Communicator::world(rank);
    // In the other order, so that the numbers differ.
    let reversed = world.split(Some(0), -(rank.id() as i64))?;
    let reversed = reversed.ok_or_else(|| Error::other("no communicator"))?;
    let lost = rank.size() - 1 - VICTIM;
    reversed.barrier()?;
    if rank.id() == VICTIM {
        die();
    }
    for call in [Call::ChannelReceive, Call::TaggedReceive, Call::AllReduce] {
        let ended = wait_for(rank, &reversed, lost, call);
        let told = match (call, ended.as_ref().map_err(Error::kind)) {
            (
                Call::ChannelReceive,
                Err(ErrorKind::PeerLost {
                    rank: VICTIM,
                    world_rank: VICTIM,
                    place: Place::Named { operation: Operation::Receive, name },
                }),
            ) => &**name == "pages",
            (
                Call::TaggedReceive | Call::AllReduce,
                Err(ErrorKind::PeerLost { rank, world_rank: VICTIM, place: Place::Communicator }),
            ) => *rank == lost,
            _ => false,
        };
        ensure!(told, "{call:?}: {ended:?}");
    }
    Ok(())
}

#[test]
fn a_lost_rank_is_the_same_kind_of_error_everywhere() {
    let _watchdog = Watchdog::start();
    mortal::panics(World::threads(4), VICTIM, "a panic", one_dies);
    mortal::is_killed(4, VICTIM, "a kill", one_dies);
}

/// Blocking and nonblocking calls that wait for a rank that has returned name the communicator.
#[test]
fn a_rank_that_has_returned_ends_the_calls_of_its_communicator() {
    on_all(3, |rank| {
        let world = Communicator::world(rank);
        world.set_name("grid");
        world.all_reduce(&mut [1], Sum)?;
        let mut nonblocking = world.nonblocking()?;
        nonblocking.all_reduce([1], Sum).wait()?;
        if rank.id() != 0 {
            return Ok(());
        }
        let pending = nonblocking.all_reduce([1], Sum);
        let blocking = world.all_reduce(&mut [1], Sum);
        for ended in [blocking, pending.wait().map(drop).map_err(Into::into)] {
            let is_named = match ended.as_ref().map_err(Error::kind) {
                Err(ErrorKind::Disconnected { channel }) => &**channel == "grid",
                // The ranks compare their calls, and this rank waits for the entry of another one.
                Err(ErrorKind::PeerEnded { rank: 1 | 2 }) => true,
                _ => false,
            };
            ensure!(is_named, "{ended:?}");
        }
        Ok(())
    });
}

/// The sum of even numbers.
struct Even;

impl Object for Even {
    type State = u64;
    type Op = u64;
    type Ret = u64;

    fn apply(sum: &mut u64, number: u64) -> u64 {
        assert!(number.is_multiple_of(2), "{number} is odd");
        *sum += number;
        *sum
    }
}

fn add_both(sum: &Protected<Even>, numbers: [u64; 2]) -> Result<u64> {
    sum.apply(numbers[0])?;
    sum.apply(numbers[1])
}

#[test]
fn a_poisoned_section_is_told_in_the_same_type() {
    on_all(2, |rank| {
        let section = Section::new(Scheme::Mcs).poison(true);
        let sum = Protected::<Even>::open(rank, "sum", section, |_| ())?;
        let first = add_both(&sum, [3, 2]);
        match first.as_ref().map_err(Error::kind) {
            Err(ErrorKind::OperationPanicked { place: Place::Object(name), message }) => {
                ensure!(&**name == "sum" && message == "3 is odd", "{first:?}");
            }
            // The other rank was first.
            Err(ErrorKind::Poisoned { object }) if &**object == "sum" => {}
            _ => return Err(Error::other(format!("{first:?}"))),
        }
        let after = add_both(&sum, [2, 2]);
        let poisoned = matches!(
            after.as_ref().map_err(Error::kind),
            Err(ErrorKind::Poisoned { object }) if &**object == "sum"
        );
        ensure!(poisoned, "{after:?}");
        Ok(())
    });
}
