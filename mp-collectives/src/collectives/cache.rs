//! The state that a communicator keeps for its collective operations, and the access to it.
//!
//! There is one structure for all collective operations of a communicator, with a slot for each kind. A kind opens MPBs
//! of the communicator's ranks at its first call. Their name contains the communicator's context, so that communicators
//! are kept apart, as they are for messages. A call whose slot is open adds three costs to those of the front: a look
//! at the structure's type, the borrow of the slot, and a look at the flag that says whether calls are compared. Data
//! for checks and events is prepared only when they are on.

use std::cell::{Cell, RefCell, RefMut};
use std::ops::Range;
use std::sync::Arc;

use mp_core::{Call, Callers, Calls, Error, ErrorKind, Place, Recipient, Result};

use crate::communicator::Communicator;
use crate::communicator::error::{lost, not_sent};
use crate::errors::bad_call;

use crate::barrier::Barriers;
use crate::broadcast::Broadcasts;
use crate::calls::Board;
use crate::choice::Origin;
use crate::exchange::Exchanges;
use crate::explanation::{Collective, Explanation};
use crate::members::{Members, names};
use crate::near::Places;
use crate::nodes::{self, Nodes};
use crate::nonblocking;
use crate::reduce::Reductions;
use crate::settings::Settings;

/// A front that is opened at the first call and closed with the communicator.
type Slot<F> = RefCell<Option<F>>;

/// The state that a communicator keeps for its collective operations.
pub(super) struct Fronts {
    broadcasts: Slot<Broadcasts>,
    reductions: Slot<Reductions>,
    barriers: Slot<Barriers>,
    exchanges: Slot<Exchanges>,
    /// What takes the place of the others in a communicator whose ranks are on several nodes.
    nodes: Slot<Nodes>,
    /// How often the settings were set. It is in the names of what `nodes` opens, because some ranks may have opened that
    /// for a call that was refused.
    generation: Cell<u32>,
    settings: RefCell<Settings>,
    board: Arc<Board>,
    /// The reason if this rank ended a call in the middle: a rank was lost, or a message of this rank could not be
    /// sent. Lines that other ranks had set for that call would be taken for those of the next call.
    out_of_step: RefCell<Option<OutOfStep>>,
}

/// See [`Fronts`].
#[derive(Clone)]
enum OutOfStep {
    Lost { rank: usize, world_rank: usize },
    NotSent { rank: usize, reason: String },
}

impl OutOfStep {
    fn after(error: &Error) -> Option<Self> {
        Some(match error.kind() {
            &ErrorKind::PeerLost { rank, world_rank, .. } => Self::Lost { rank, world_rank },
            ErrorKind::NotSent { to: Recipient::Rank(rank), reason } => {
                Self::NotSent { rank: *rank, reason: reason.clone() }
            }
            _ => return None,
        })
    }

    fn error(self) -> Error {
        match self {
            Self::Lost { rank, world_rank } => lost(rank, world_rank),
            Self::NotSent { rank, reason } => not_sent(rank, reason),
        }
    }
}

impl Fronts {
    #[inline(always)]
    pub(super) fn of(communicator: &Communicator) -> Result<&Fronts> {
        communicator.joint().keep(|joint| {
            let (rank, members) = (joint.rank(), joint.world_ranks());
            let board = Arc::new(Board::new(rank, members, joint.name("called"), joint.title()));
            Ok(Fronts {
                board,
                out_of_step: RefCell::default(),
                broadcasts: RefCell::default(),
                reductions: RefCell::default(),
                barriers: RefCell::default(),
                exchanges: RefCell::default(),
                nodes: RefCell::default(),
                generation: Cell::default(),
                settings: Settings::of(communicator).into(),
            })
        })
    }

    /// Closes all fronts that are not in use.
    fn close(&self) {
        fn close<F>(slot: &Slot<F>) {
            if let Ok(mut slot) = slot.try_borrow_mut() {
                slot.take();
            }
        }
        close(&self.barriers);
        close(&self.broadcasts);
        close(&self.reductions);
        close(&self.exchanges);
    }

    pub(super) fn set(&self, of: &Communicator, settings: Settings) -> Result<()> {
        // If anything is in use, all stays as it is.
        drop((take(&self.barriers)?, take(&self.broadcasts)?, take(&self.reductions)?));
        drop((take(&self.exchanges)?, take(&self.nodes)?));
        nonblocking::close(of)?;
        self.close();
        take(&self.nodes)?.take();
        self.generation.set(self.generation.get() + 1);
        of.joint().set_check(settings.check);
        settings.clone().set(of);
        self.settings.replace(settings);
        Ok(())
    }

    pub(super) fn explain(
        &self,
        of: &Communicator,
        collective: Collective,
        bytes: usize,
    ) -> Result<Explanation> {
        let (rank, ranks) = (of.joint().rank(), of.joint().world_ranks());
        let (members, settings) = (Members::of(&rank, &ranks), self.settings.borrow());
        let places = match (&settings.placement, collective) {
            (Some(placement), Collective::Barrier) => Places::given(placement.clone()),
            _ => Places::of(members),
        };
        let parameters = Origin::kept(true);
        let opened = match collective {
            Collective::Barrier => take(&self.barriers)?.as_ref().map(Barriers::explain),
            Collective::Broadcast => {
                take(&self.broadcasts)?.as_ref().map(|front| front.explain(bytes))
            }
            Collective::Gather
            | Collective::Scatter
            | Collective::AllGather
            | Collective::AllToAll => {
                take(&self.exchanges)?.as_ref().map(|front| front.explain(collective, bytes))
            }
            _ => take(&self.reductions)?.as_ref().map(|front| front.explain(collective, bytes)),
        };
        Ok(match opened {
            Some(explanation) => explanation.predicted(&places, parameters),
            None => {
                let cores = members.cores();
                Explanation::of(collective, bytes, &places, cores, parameters, &settings)
            }
        })
    }

    /// Compares what each rank sends to each other rank with what that rank expects, in communicators whose ranks
    /// [check](super::Check) their calls.
    #[cold]
    pub(super) fn check_counts(
        of: &Communicator,
        signature: impl Fn(&Settings) -> Call,
        sent: &[Range<usize>],
        expected: &[Range<usize>],
    ) -> Result<()> {
        let fronts = Fronts::of(of)?;
        fronts.check(of, &signature)?;
        let ranks = of.size();
        let counts = |blocks: &[Range<usize>]| {
            let lengths = blocks.iter().map(|block| block.len() as u64);
            // Blocks that do not fit are another error, which this rank reports later.
            lengths.chain(std::iter::repeat(0)).take(ranks).collect::<Vec<_>>()
        };
        let own = [counts(sent), counts(expected)].concat();
        let mut all = vec![0; own.len() * ranks];
        {
            let mut slot = take(Exchanges::slot(fronts))?;
            let front = match &mut *slot {
                Some(front) => front,
                empty => empty.insert(open(of, fronts)?),
            };
            front.all_gather(&own, &mut all).map_err(|error| of.localized(error))?;
        }
        for from in 0..ranks {
            for to in 0..ranks {
                let sent = all[from * 2 * ranks + to];
                let expected = all[to * 2 * ranks + ranks + from];
                if sent == expected {
                    continue;
                }
                let call = |text: String| {
                    let mut call = signature(&fronts.settings.borrow());
                    call.name = format!("{} that {text}", call.name).into();
                    call
                };
                let sends = call(format!("sends {sent} elements to rank {to}"));
                let expects = call(format!("expects {expected} elements from rank {from}"));
                let calls = Calls::of(vec![
                    Callers { call: sends, ranks: vec![from] },
                    Callers { call: expects, ranks: vec![to] },
                ]);
                return Err(ErrorKind::CallsDiffer(Box::new(calls)).into());
            }
        }
        Ok(())
    }

    /// Records that a call failed. If a rank was lost, or a message of this rank could not be sent, this rank makes no
    /// more calls, and its closed buffers tell the other ranks.
    pub(super) fn leave_after(&self, error: &Error) {
        let out_of_step = OutOfStep::after(error);
        if out_of_step.is_some() {
            self.out_of_step.replace(out_of_step);
            self.close();
        }
    }

    #[cold]
    fn check(&self, of: &Communicator, call: impl FnOnce(&Settings) -> Call) -> Result<()> {
        if let Some(reason) = self.out_of_step.borrow().clone() {
            return Err(reason.error());
        }
        let checked = of.joint().check_if_set(|| call(&self.settings.borrow()));
        checked.inspect_err(|error| self.leave_after(error))
    }
}

#[inline(always)]
fn take<F>(slot: &Slot<F>) -> Result<RefMut<'_, Option<F>>> {
    slot.try_borrow_mut().map_err(|_| busy())
}

#[cold]
fn busy() -> Error {
    bad_call("a collective operation was called inside of another one of its kind")
}

/// A kind of operation that is opened under a name of its own.
pub(super) trait Front: Sized {
    const NAME: &'static str;

    fn slot(fronts: &Fronts) -> &Slot<Self>;

    fn open(
        members: Members<'_>,
        name: &str,
        settings: &Settings,
        board: &Arc<Board>,
    ) -> mp_core::Result<Self>;
}

macro_rules! front {
    ($front:ident, $slot:ident) => {
        impl Front for $front {
            const NAME: &'static str = stringify!($slot);

            #[inline(always)]
            fn slot(fronts: &Fronts) -> &Slot<Self> {
                &fronts.$slot
            }

            fn open(
                members: Members<'_>,
                name: &str,
                settings: &Settings,
                board: &Arc<Board>,
            ) -> mp_core::Result<Self> {
                let mut front = $front::open(members, name, settings.clone())?;
                front.watch(board);
                Ok(front)
            }
        }
    };
}

front!(Barriers, barriers);
front!(Broadcasts, broadcasts);
front!(Reductions, reductions);
front!(Exchanges, exchanges);

/// Makes a call of a front, and opens the front first if necessary. `signature` describes the call for ranks that
/// compare their calls.
#[inline(always)]
pub(super) fn call<'a, F: Front>(
    of: &'a Communicator,
    signature: impl FnOnce(&Settings) -> Call,
    root: Option<usize>,
    call: impl FnOnce(&mut F) -> mp_core::Result<()>,
) -> Result<RefMut<'a, Option<F>>> {
    of.joint().check_revoked()?;
    let fronts = Fronts::of(of)?;
    if of.joint().checks() {
        fronts.check(of, signature)?;
    }
    if let Some(root) = root
        && root >= of.size()
    {
        return Err(ErrorKind::NoSuchRank { rank: root, size: of.size() }.into());
    }
    let mut slot = take(F::slot(fronts))?;
    let front = match &mut *slot {
        Some(front) => front,
        empty => empty.insert(open(of, fronts)?),
    };
    match call(front) {
        Ok(()) => Ok(slot),
        Err(error) => {
            drop(slot);
            Err(failed(of, error))
        }
    }
}

/// Makes a call of a communicator whose ranks are on several nodes. See [`call()`].
#[cold]
#[inline(never)]
pub(super) fn between(
    of: &Communicator,
    signature: impl FnOnce(&Settings) -> Call,
    call: impl AsyncFnOnce(&mut Nodes) -> Result<()>,
) -> Result<()> {
    of.joint().check_revoked()?;
    let fronts = Fronts::of(of)?;
    fronts.check(of, signature)?;
    let mut slot = take(&fronts.nodes)?;
    let nodes = match &mut *slot {
        Some(nodes) => nodes,
        empty => {
            let (joint, settings) = (of.joint(), fronts.settings.borrow());
            let name = joint.name(&format!("nodes {} ", fronts.generation.get()));
            empty.insert(Nodes::new(joint, name, &settings)?)
        }
    };
    let called = nodes::call(nodes, call);
    drop(slot);
    called.map_err(|error| match error.kind() {
        ErrorKind::BadCall { .. } | ErrorKind::NoSuchRank { .. } => error,
        _ => failed(of, error),
    })
}

/// Converts the error of a failed call to an error of the communicator.
#[cold]
pub(super) fn failed(of: &Communicator, error: mp_core::Error) -> Error {
    let fronts = match Fronts::of(of) {
        Ok(fronts) => fronts,
        Err(error) => return error,
    };
    let error = match of.localized(fronts.board.after(error)).into_kind() {
        ErrorKind::Timeout { limit, .. } => {
            Error::from(ErrorKind::Timeout { place: Place::Collective, limit })
        }
        kind => kind.into(),
    };
    fronts.leave_after(&error);
    if let ErrorKind::CallsDiffer(_) | ErrorKind::BlockTooLong { .. } | ErrorKind::Revoked { .. } =
        error.kind()
    {
        fronts.close();
    }
    error
}

#[cold]
fn open<F: Front>(of: &Communicator, fronts: &Fronts) -> Result<F> {
    if let Some(error) = fronts.board.ended() {
        return Err(of.localized(error));
    }
    if let Some(reason) = fronts.out_of_step.borrow().clone() {
        return Err(reason.error());
    }
    let joint = of.joint();
    let (rank, ranks) = (joint.rank(), joint.world_ranks());
    let members = Members::of(&rank, &ranks).within(names::COMMUNICATORS);
    let front = F::open(members, &joint.name(F::NAME), &fronts.settings.borrow(), &fronts.board)?;
    joint.check_revoked()?;
    Ok(front)
}
