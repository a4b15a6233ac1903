//! Collective operations as methods of communicators.

use std::cell::{Cell, RefCell, RefMut};
use std::time::Duration;

use mp_comm::{Call, Communicator, Error, Result};
use mp_core::{Plain, Wait};

use crate::barrier::{self, Barriers};
use crate::broadcast::{self, Broadcasts};
use crate::members::Members;
use crate::reduce::{self, Operation, Reductions};

/// The environment variable that turns [checks](Check) on where it is set, to anything but 0.
pub const CHECK_VARIABLE: &str = "ONCHIP_CHECK";

/// What all ranks of a communicator call together. Each must make the same calls, in the same order.
///
/// ```
/// use mp_collectives::collectives::Collectives;
/// use mp_collectives::reduce::{Max, Sum};
/// use mp_comm::Communicator;
///
/// mp_core::World::threads(4).run(|rank| {
///     let world = Communicator::world(rank);
///     let mut weights = if world.rank() == 0 { vec![0.5; 1_000] } else { vec![0.0; 1_000] };
///     world.broadcast(&mut weights, 0)?;
///     let mut sum = [weights.iter().sum::<f64>()];
///     world.all_reduce(&mut sum, Sum)?;
///     assert_eq!(sum, [2_000.0]);
///
///     // The odd and the even ranks by themselves.
///     let half = world.split(Some(rank.id() as u64 % 2), 0)?.expect("a color was named");
///     let mut greatest = [rank.id()];
///     half.reduce(&mut greatest, Max, 0)?;
///     assert!(half.rank() > 0 || greatest == [2 + rank.id()]);
///     world.barrier()?;
///     Ok(())
/// })?;
/// # Ok::<(), mp_core::Error>(())
/// ```
///
/// | MPI | here |
/// |---|---|
/// | `MPI_Barrier` | [`barrier`](Self::barrier) |
/// | `MPI_Ibarrier`, `MPI_Wait` | [`arrive`](Self::arrive), [`Arrived::wait`] |
/// | `MPI_Bcast` | [`broadcast`](Self::broadcast) |
/// | `MPI_Reduce`, `MPI_Allreduce` with `MPI_IN_PLACE` | [`reduce`](Self::reduce), [`all_reduce`](Self::all_reduce) |
/// | `MPI_Scan`, `MPI_Exscan` with `MPI_IN_PLACE` | [`scan`](Self::scan), [`exclusive_scan`](Self::exclusive_scan) |
/// | `MPI_SUM`, `MPI_MAXLOC`, `MPI_Op_create` | [`Sum`](reduce::Sum), [`MaxLocation`](reduce::MaxLocation), any closure: [`Operation`] |
/// | `MPI_Comm_set_info` | [`set_collectives`](Self::set_collectives) |
///
/// Each kind of operation opens [message passing buffers](mp_core::mpb) of the communicator's ranks when
/// it is called first; they are closed with the communicator. What they need of memory, and which
/// algorithms they take, the [`Settings`] say; whoever wants to know of the choices
/// [listens](crate::CHOICE_TARGET).
///
/// # Errors
/// Of all methods: [`Error::PeerLost`] when a rank of the communicator was lost that the others could
/// have waited for, and [`Error::World`] with [`Disconnected`](mp_core::Error::Disconnected) when one has
/// ended that does, with [`Timeout`](mp_core::Error::Timeout) where a [limit](Settings::wait) was set.
/// After these this rank is out of step with the others, and the communicator good for tagged messages
/// alone. [`Error::Misuse`] inside of an operation's closure, or between [`arrive`](Self::arrive) and
/// [`wait`](Arrived::wait), for the same kind of operation. With [checks](Check) also
/// [`Error::CallsDiffer`] and [`Error::NotCome`].
pub trait Collectives {
    /// Waits until all ranks have come.
    ///
    /// # Errors
    /// See [above](Self#errors).
    fn barrier(&self) -> Result<()>;

    /// Says that this rank has come to a barrier, and waits for nobody: the others need not wait for it
    /// while it does something else ("fuzzy barrier").
    ///
    /// ```
    /// use mp_collectives::collectives::Collectives;
    /// use mp_comm::Communicator;
    ///
    /// mp_core::World::threads(3).run(|rank| {
    ///     let world = Communicator::world(rank);
    ///     let arrived = world.arrive()?;
    ///     let sum: u64 = (0..1_000).sum();
    ///     arrived.wait()?;
    ///     Ok(sum)
    /// })?;
    /// # Ok::<(), mp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [above](Self#errors).
    fn arrive(&self) -> Result<Arrived<'_>>;

    /// The root's message goes to all: all ranks call this with the same root and length, and have the
    /// message when it returns. The root's own is only read, and may be changed as soon as its call
    /// returns, which need not be after the others'.
    ///
    /// # Errors
    /// See [above](Self#errors); [`Error::NoSuchRank`].
    fn broadcast<T: Plain>(&self, message: &mut [T], root: usize) -> Result<()>;

    /// Combines the vectors of all ranks for one: all call this with the same length, operation and
    /// root, which has the result in its vector when the call returns. What is in the others' then is
    /// not determined; their calls may return before the root's.
    ///
    /// # Errors
    /// See [above](Self#errors); [`Error::NoSuchRank`]; vectors too long for a forced algorithm.
    fn reduce<T: Plain>(
        &self,
        vector: &mut [T],
        operation: impl Operation<T>,
        root: usize,
    ) -> Result<()>;

    /// Combines the vectors of all ranks: all call this with the same length and operation, and have
    /// the result in their vectors when it returns, the same bits.
    ///
    /// # Errors
    /// See [above](Self#errors); vectors too long for a forced algorithm.
    fn all_reduce<T: Plain>(&self, vector: &mut [T], operation: impl Operation<T>) -> Result<()>;

    /// Combines, for each rank, the vectors of the ranks below it and its own: all call this with the
    /// same length and operation. A rank's call does not wait for those above it.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    fn scan<T: Plain>(&self, vector: &mut [T], operation: impl Operation<T>) -> Result<()>;

    /// Combines, for each rank, the vectors of the ranks below it, without its own, as
    /// [`scan`](Self::scan) does. Rank 0's vector stays as it was.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce).
    fn exclusive_scan<T: Plain>(
        &self,
        vector: &mut [T],
        operation: impl Operation<T>,
    ) -> Result<()>;

    /// How all this is to be done from the next call on. All ranks must call it with the same settings,
    /// between the same operations. Communicators made of this one have their own.
    ///
    /// ```
    /// use mp_collectives::collectives::{Check, Collectives, Settings};
    /// use mp_collectives::reduce::{self, AllReduce, Order, Sum};
    /// use mp_comm::{Communicator, Error};
    ///
    /// mp_core::World::threads(3).run(|rank| {
    ///     let world = Communicator::world(rank);
    ///     // In the order of ranks, whatever their number and the vector's length.
    ///     let reduce = reduce::Settings { order: Order::Ranks, ..Default::default() };
    ///     world.set_collectives(Settings { reduce, check: Check::On, ..Default::default() })?;
    ///     let mut sum = vec![0.1; 5 + rank.id() / 2];
    ///     match world.all_reduce(&mut sum, Sum) {
    ///         Err(Error::CallsDiffer(calls)) => assert_eq!(
    ///             calls.to_string(),
    ///             "rank 2 called all_reduce of 6 f64 with Sum; \
    ///              the others called all_reduce of 5 f64 with Sum"
    ///         ),
    ///         other => panic!("{other:?}"),
    ///     }
    ///     Ok(())
    /// })?;
    /// # Ok::<(), mp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Misuse`] inside of an operation.
    fn set_collectives(&self, settings: Settings) -> Result<()>;
}

/// Whether all ranks say what they call before they do it, and compare: for debugging. A collective
/// operation that not all ranks call alike is then an error at all of them, which names who called what;
/// otherwise it may wait for ever, or give anything. Compared are the operation, the root, the elements'
/// type and number, what combines them, and the settings.
///
/// It makes every operation wait for all ranks. All must do it, or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Check {
    /// Where [`CHECK_VARIABLE`] says so.
    #[default]
    Environment,
    /// No.
    Off,
    /// Yes. A rank that does not come at all is waited for; `mprun report` shows who waits for it.
    On,
    /// Yes, and a rank that does not come for so long is an error, which names it.
    Within(Duration),
}

/// How a communicator's collective operations are to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Barriers.
    pub barrier: barrier::Settings,
    /// Broadcasts.
    pub broadcast: broadcast::Settings,
    /// Reductions and scans.
    pub reduce: reduce::Settings,
    /// How calls wait: with which policy, how long.
    pub wait: Wait,
    /// Whether ranks compare what they call.
    pub check: Check,
}

/// Opened at the first call, closed with the communicator.
type Slot<F> = RefCell<Option<F>>;

/// What a communicator keeps for its collective operations.
struct Fronts {
    /// Looked at by every call.
    checks: Cell<bool>,
    broadcasts: Slot<Broadcasts>,
    reductions: Slot<Reductions>,
    barriers: Slot<Barriers>,
    settings: RefCell<Settings>,
}

impl Fronts {
    #[inline(always)]
    fn of(communicator: &Communicator) -> Result<&Fronts> {
        communicator.joint().keep(|_| {
            let fronts = Fronts {
                checks: Cell::new(false),
                broadcasts: RefCell::default(),
                reductions: RefCell::default(),
                barriers: RefCell::default(),
                settings: RefCell::default(),
            };
            fronts.set(Settings::default())?;
            Ok(fronts)
        })
    }

    fn set(&self, settings: Settings) -> Result<()> {
        take(&self.barriers)?.take();
        take(&self.broadcasts)?.take();
        take(&self.reductions)?.take();
        self.checks.set(match settings.check {
            Check::Environment => checked_by_environment(),
            Check::Off => false,
            Check::On | Check::Within(_) => true,
        });
        self.settings.replace(settings);
        Ok(())
    }

    #[cold]
    fn check(&self, of: &Communicator, call: impl FnOnce(&Settings) -> Call) -> Result<()> {
        let settings = self.settings.borrow();
        let limit = match settings.check {
            Check::Within(limit) => Some(limit),
            _ => None,
        };
        of.joint().check(&call(&settings), limit)
    }
}

fn checked_by_environment() -> bool {
    std::env::var_os(CHECK_VARIABLE).is_some_and(|value| !value.is_empty() && value != "0")
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
trait Front: Sized {
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

/// Makes a call of a front, which is opened if it is not. `told` is what the ranks compare, if they do.
#[inline(always)]
fn call<'a, F: Front>(
    of: &'a Communicator,
    told: impl FnOnce(&Settings) -> Call,
    root: Option<usize>,
    call: impl FnOnce(&mut F) -> mp_core::Result<()>,
) -> Result<RefMut<'a, Option<F>>> {
    let fronts = Fronts::of(of)?;
    if fronts.checks.get() {
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
    let members = Members::of(&rank, &ranks);
    Ok(F::open(members, &joint.name(F::NAME), &fronts.settings.borrow())?)
}

/// With the communicator's numbers.
#[cold]
fn of_communicator(of: &Communicator, error: mp_core::Error) -> Error {
    if let mp_core::Error::PeerLost { rank: world_rank, .. } = error
        && let Some(rank) = of.joint().world_ranks().iter().position(|&rank| rank == world_rank)
    {
        return Error::PeerLost { rank, world_rank };
    }
    Error::World(error)
}

fn way(settings: &impl std::fmt::Debug) -> String {
    format!("{settings:?}")
}

impl Collectives for Communicator {
    #[inline]
    fn barrier(&self) -> Result<()> {
        let told = |settings: &Settings| Call::new("barrier").settings(way(&settings.barrier));
        call(self, told, None, Barriers::wait)?;
        Ok(())
    }

    #[inline]
    fn arrive(&self) -> Result<Arrived<'_>> {
        let told = |settings: &Settings| Call::new("arrive").settings(way(&settings.barrier));
        let barriers = call(self, told, None, |front: &mut Barriers| front.arrive().map(drop))?;
        Ok(Arrived { communicator: self, barriers })
    }

    #[inline]
    fn broadcast<T: Plain>(&self, message: &mut [T], root: usize) -> Result<()> {
        let count = message.len();
        let told = |settings: &Settings| {
            let told = Call::new("broadcast").elements::<T>(count).root(root);
            told.settings(way(&settings.broadcast))
        };
        call(self, told, Some(root), |front: &mut Broadcasts| front.broadcast(message, root))?;
        Ok(())
    }

    #[inline]
    fn reduce<T: Plain>(
        &self,
        vector: &mut [T],
        operation: impl Operation<T>,
        root: usize,
    ) -> Result<()> {
        let told = told_of(vector, &operation, "reduce", Some(root));
        call(self, told, Some(root), |front: &mut Reductions| {
            front.reduce(vector, operation, root)
        })?;
        Ok(())
    }

    #[inline]
    fn all_reduce<T: Plain>(&self, vector: &mut [T], operation: impl Operation<T>) -> Result<()> {
        let told = told_of(vector, &operation, "all_reduce", None);
        call(self, told, None, |front: &mut Reductions| front.all_reduce(vector, operation))?;
        Ok(())
    }

    #[inline]
    fn scan<T: Plain>(&self, vector: &mut [T], operation: impl Operation<T>) -> Result<()> {
        let told = told_of(vector, &operation, "scan", None);
        call(self, told, None, |front: &mut Reductions| front.scan(vector, operation))?;
        Ok(())
    }

    #[inline]
    fn exclusive_scan<T: Plain>(
        &self,
        vector: &mut [T],
        operation: impl Operation<T>,
    ) -> Result<()> {
        let told = told_of(vector, &operation, "exclusive_scan", None);
        call(self, told, None, |front: &mut Reductions| front.exclusive_scan(vector, operation))?;
        Ok(())
    }

    fn set_collectives(&self, settings: Settings) -> Result<()> {
        Fronts::of(self)?.set(settings)
    }
}

/// What is told of a reduction.
#[inline(always)]
fn told_of<T: Plain, O>(
    vector: &[T],
    _: &O,
    name: &'static str,
    root: Option<usize>,
) -> impl FnOnce(&Settings) -> Call + use<T, O> {
    let count = vector.len();
    move |settings| {
        let operation = std::any::type_name::<O>();
        let own = operation.strip_prefix("mp_collectives::reduce::operations::");
        let told = Call::new(name).elements::<T>(count).operation(own.unwrap_or(operation));
        let told = told.settings(way(&settings.reduce));
        match root {
            Some(root) => told.root(root),
            None => told,
        }
    }
}

/// A rank has come to a barrier of its communicator, and will wait. If it does not, its next barrier
/// waits for this one.
#[must_use = "nobody has waited yet"]
pub struct Arrived<'a> {
    communicator: &'a Communicator,
    barriers: RefMut<'a, Option<Barriers>>,
}

impl Arrived<'_> {
    /// Waits until all ranks have come.
    ///
    /// # Errors
    /// As [`Collectives::barrier`].
    #[inline]
    pub fn wait(mut self) -> Result<()> {
        match &mut *self.barriers {
            Some(barriers) => barriers.wait().map_err(|e| of_communicator(self.communicator, e)),
            None => Ok(()),
        }
    }
}

impl std::fmt::Debug for Arrived<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arrived").field("communicator", self.communicator).finish_non_exhaustive()
    }
}
