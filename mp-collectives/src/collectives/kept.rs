//! What a communicator keeps for its collective operations, and how they find it.

use std::cell::{RefCell, RefMut};

use mp_comm::{Call, Communicator, Error, Result};

use super::Settings;
use crate::barrier::Barriers;
use crate::broadcast::Broadcasts;
use crate::exchange::Exchanges;
use crate::members::{Members, names};
use crate::reduce::Reductions;

/// Opened at the first call, closed with the communicator.
type Slot<F> = RefCell<Option<F>>;

/// What a communicator keeps for its collective operations.
pub(super) struct Fronts {
    broadcasts: Slot<Broadcasts>,
    reductions: Slot<Reductions>,
    barriers: Slot<Barriers>,
    exchanges: Slot<Exchanges>,
    settings: RefCell<Settings>,
}

/// Settings, and how many ranks they are for.
struct HandedDown {
    ranks: usize,
    settings: Settings,
}

impl Fronts {
    #[inline(always)]
    pub(super) fn of(communicator: &Communicator) -> Result<&Fronts> {
        communicator.joint().keep(|joint| {
            let ranks = communicator.size();
            let handed_down = joint.handed_down::<HandedDown>();
            let settings = handed_down.map(|of| of.settings.clone().of_part(of.ranks, ranks));
            Ok(Fronts {
                broadcasts: RefCell::default(),
                reductions: RefCell::default(),
                barriers: RefCell::default(),
                exchanges: RefCell::default(),
                settings: settings.unwrap_or_default().into(),
            })
        })
    }

    pub(super) fn set(&self, of: &Communicator, settings: Settings) -> Result<()> {
        take(&self.barriers)?.take();
        take(&self.broadcasts)?.take();
        take(&self.reductions)?.take();
        take(&self.exchanges)?.take();
        let joint = of.joint();
        joint.set_check(settings.check);
        joint.hand_down(HandedDown { ranks: of.size(), settings: settings.clone() });
        self.settings.replace(settings);
        Ok(())
    }

    #[cold]
    fn check(&self, of: &Communicator, call: impl FnOnce(&Settings) -> Call) -> Result<()> {
        of.joint().check_if_set(|| call(&self.settings.borrow()))
    }
}

#[inline(always)]
fn take<F>(slot: &Slot<F>) -> Result<RefMut<'_, Option<F>>> {
    slot.try_borrow_mut().map_err(|_| busy())
}

#[cold]
fn busy() -> Error {
    Error::Misuse("a collective operation inside of another one of its kind".to_owned())
}

/// A kind of operations that is opened under a name of its own.
pub(super) trait Front: Sized {
    const NAME: &'static str;

    fn slot(fronts: &Fronts) -> &Slot<Self>;

    fn open(members: Members<'_>, name: &str, settings: &Settings) -> mp_core::Result<Self>;
}

impl Front for Barriers {
    const NAME: &'static str = "barriers";

    #[inline(always)]
    fn slot(fronts: &Fronts) -> &Slot<Self> {
        &fronts.barriers
    }

    fn open(members: Members<'_>, name: &str, settings: &Settings) -> mp_core::Result<Self> {
        let mut front = Barriers::open(members, name, settings.barrier.clone())?;
        front.set_wait(settings.wait);
        Ok(front)
    }
}

impl Front for Broadcasts {
    const NAME: &'static str = "broadcasts";

    #[inline(always)]
    fn slot(fronts: &Fronts) -> &Slot<Self> {
        &fronts.broadcasts
    }

    fn open(members: Members<'_>, name: &str, settings: &Settings) -> mp_core::Result<Self> {
        let mut front = Broadcasts::open(members, name, settings.broadcast)?;
        front.set_wait(settings.wait);
        Ok(front)
    }
}

impl Front for Reductions {
    const NAME: &'static str = "reductions";

    #[inline(always)]
    fn slot(fronts: &Fronts) -> &Slot<Self> {
        &fronts.reductions
    }

    fn open(members: Members<'_>, name: &str, settings: &Settings) -> mp_core::Result<Self> {
        let mut front = Reductions::open(members, name, settings.reduce)?;
        front.set_wait(settings.wait);
        Ok(front)
    }
}

impl Front for Exchanges {
    const NAME: &'static str = "exchanges";

    #[inline(always)]
    fn slot(fronts: &Fronts) -> &Slot<Self> {
        &fronts.exchanges
    }

    fn open(members: Members<'_>, name: &str, settings: &Settings) -> mp_core::Result<Self> {
        let mut front = Exchanges::open(members, name, settings.exchange)?;
        front.set_wait(settings.wait);
        Ok(front)
    }
}

/// Makes a call of a front, which is opened if it is not. `told` is what the ranks compare, if they do.
#[inline(always)]
pub(super) fn call<'a, F: Front>(
    of: &'a Communicator,
    told: impl FnOnce(&Settings) -> Call,
    root: Option<usize>,
    call: impl FnOnce(&mut F) -> mp_core::Result<()>,
) -> Result<RefMut<'a, Option<F>>> {
    let fronts = Fronts::of(of)?;
    if of.joint().checks() {
        fronts.check(of, told)?;
    }
    if let Some(root) = root
        && root >= of.size()
    {
        return Err(Error::NoSuchRank { rank: root, size: of.size() });
    }
    let mut slot = take(F::slot(fronts))?;
    let front = match &mut *slot {
        Some(front) => front,
        empty => empty.insert(open(of, fronts)?),
    };
    match call(front) {
        Ok(()) => Ok(slot),
        Err(error) => Err(of_communicator(of, error)),
    }
}

#[cold]
fn open<F: Front>(of: &Communicator, fronts: &Fronts) -> Result<F> {
    let joint = of.joint();
    let (rank, ranks) = (joint.rank(), joint.world_ranks());
    let members = Members::of(&rank, &ranks).within(names::COMMUNICATORS);
    Ok(F::open(members, &joint.name(F::NAME), &fronts.settings.borrow())?)
}

/// With the communicator's numbers.
#[cold]
pub(super) fn of_communicator(of: &Communicator, error: mp_core::Error) -> Error {
    if let mp_core::Error::PeerLost { rank: world_rank, .. } = error
        && let Some(rank) = of.joint().world_ranks().iter().position(|&rank| rank == world_rank)
    {
        return Error::PeerLost { rank, world_rank };
    }
    Error::World(error)
}
