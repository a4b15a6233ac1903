//! What programs give to nonblocking and persistent collective operations.

use std::{
    ffi::{c_int, c_void},
    ops::Range,
    ptr::null,
    rc::Rc,
};

use crate::{
    blocks::KeptBlocks,
    collective::{Collective, Combined},
    comm::{Comm, within},
    constants::{MPI_BYTE, MPI_PROC_NULL, MPI_ROOT},
    datatype::data::{Data, Kept},
    error::{Class, Error},
    handles::Handles,
    ints::Ints,
    op::Op,
    order::Order,
    program::put,
    request::Request,
    threads::wait_all,
    topology::Neighbour,
    types::{Count, Handle},
};

type Result<T> = std::result::Result<T, Error>;

/// Returns whether an argument is `MPI_IN_PLACE`.
pub(super) fn is_in_place(buffer: *const c_void) -> bool {
    buffer.addr() == 1
}

/// Returns the number of elements in equal blocks for all ranks.
pub(super) fn of_all(comm: &Comm, count: Count) -> Result<Count> {
    let too_many = || Error::new(Class::Count, format!("{count} elements of each rank"));
    count.checked_mul(comm.size.into()).ok_or_else(too_many)
}

pub(super) fn count(count: Count) -> Result<usize> {
    usize::try_from(count)
        .map_err(|_| Error::new(Class::Count, format!("the count is negative: {count}")))
}

/// Begins a collective operation, and gives the program its request.
///
/// # Safety
/// The handle is one of a communicator, the request can be written to, and what the operation uses is valid until the
/// request is complete.
pub(super) unsafe fn begin(
    (comm, request): (Handle, *mut Handle),
    function: &'static str,
    what: impl FnOnce(&Comm) -> Result<Collective>,
) -> c_int {
    // SAFETY: the caller says so.
    unsafe {
        within(comm, function, |comm| {
            let what = what(comm)?;
            put(request, Request::collective(comm, &what)?)
        })
    }
}

/// Gives the program the request of a collective operation that it starts later.
///
/// # Safety
/// As for [`begin`], until the request is freed.
pub(super) unsafe fn prepare(
    (comm, request): (Handle, *mut Handle),
    function: &'static str,
    what: impl FnOnce(&Comm) -> Result<Collective>,
) -> c_int {
    // SAFETY: the caller says so.
    unsafe {
        within(comm, function, |comm| {
            put(request, Request::persistent_collective(comm, what(comm)?)?)
        })
    }
}

/// Completes a collective operation.
///
/// # Safety
/// The handle is one of a communicator, and what the operation uses is valid.
pub(super) unsafe fn complete(
    comm: Handle,
    function: &'static str,
    what: impl FnOnce(&Comm) -> Result<Collective>,
) -> c_int {
    // SAFETY: the caller says so.
    unsafe { within(comm, function, |comm| run(comm, what(comm)?)) }
}

/// Begins a collective operation, and waits for it.
///
/// # Safety
/// What the operation uses is valid.
pub(super) unsafe fn run(comm: &Comm, what: Collective) -> Result<()> {
    // SAFETY: the caller says so.
    let Some(mut going) = (unsafe { what.begin(comm, Order::Blocking)? }) else { return Ok(()) };
    while let Some(pending) = going.pending() {
        wait_all(&mut [pending])?;
    }
    going.finish().error.map_or(Ok(()), Err)
}

/// A buffer, a count and a type.
pub(super) type Elements = (*const c_void, Count, Handle);

/// The blocks of all ranks.
#[derive(Clone, Copy)]
pub(super) struct Blocks {
    buffer: *const c_void,
    places: Places,
}

#[derive(Clone, Copy)]
enum Places {
    Equal {
        count: Count,
        datatype: Handle,
    },
    /// Displacements are in units of the type's extent.
    At {
        counts: Ints,
        displacements: Ints,
        datatype: Handle,
    },
    /// Displacements are in bytes.
    Typed {
        counts: Ints,
        displacements: Ints,
        types: Handles,
    },
}

impl Blocks {
    /// Blocks of this many elements.
    pub fn equal(buffer: *const c_void, count: Count, datatype: Handle) -> Self {
        Self { buffer, places: Places::Equal { count, datatype } }
    }

    /// Blocks at displacements in units of the type's extent.
    pub fn at(buffer: *const c_void, counts: Ints, displacements: Ints, datatype: Handle) -> Self {
        Self { buffer, places: Places::At { counts, displacements, datatype } }
    }

    /// Blocks with types of their own, at displacements in bytes.
    pub fn typed(buffer: *const c_void, counts: Ints, displacements: Ints, types: Handles) -> Self {
        Self { buffer, places: Places::Typed { counts, displacements, types } }
    }

    pub fn is_in_place(&self) -> bool {
        is_in_place(self.buffer)
    }

    /// Returns the elements of a block, if all blocks have as many.
    fn each(&self) -> Option<Elements> {
        match self.places {
            Places::Equal { count, datatype } => Some((self.buffer, count, datatype)),
            _ => None,
        }
    }

    /// Returns whether none of this many blocks has elements, and it takes no look at each block's type to say so.
    ///
    /// # Safety
    /// The arrays have an entry for each block. See [`Data::new`].
    pub unsafe fn have_no_elements(&self, blocks: usize) -> Result<bool> {
        let Places::At { counts, displacements, datatype } = self.places else { return Ok(false) };
        if counts.is_null() || displacements.is_null() {
            return Ok(false);
        }
        // SAFETY: the caller says so.
        unsafe {
            Data::new(self.buffer, 0, datatype)?;
            Ok((0..blocks).all(|at| counts.get(at) == 0))
        }
    }

    /// Returns this many blocks.
    ///
    /// # Safety
    /// The arrays have an entry for each block. See [`Data::new`].
    pub unsafe fn data<'a>(&self, blocks: usize) -> Result<Vec<Data<'a>>> {
        // SAFETY: in this and the other blocks of the function: the caller says so.
        match self.places {
            Places::Equal { count, datatype } => {
                // SAFETY: see above.
                let first = unsafe { Data::new(self.buffer, count, datatype)? };
                let step = first.datatype().extent.saturating_mul(count);
                // SAFETY: see above.
                let block = |at| unsafe { first.part(step * at as i64, first.count()) };
                Ok((0..blocks).map(block).collect())
            }
            Places::At { counts, displacements, datatype } => {
                check_arrays(blocks, counts, displacements)?;
                // SAFETY: see above.
                let first = unsafe { Data::new(self.buffer, 0, datatype)? };
                let extent = first.datatype().extent;
                // SAFETY: see above.
                let block = |at| unsafe {
                    let place = displacements.get(at).saturating_mul(extent);
                    Ok(first.part(place, count(counts.get(at))?))
                };
                (0..blocks).map(block).collect()
            }
            Places::Typed { counts, displacements, types } => {
                check_arrays(blocks, counts, displacements)?;
                if blocks > 0 && types.is_null() {
                    return Err(Error::new(Class::Arg, "an array is a null pointer"));
                }
                // SAFETY: see above.
                let block = |at| unsafe {
                    let first = Data::new(self.buffer, 0, types.get(at))?;
                    Ok(first.part(displacements.get(at), count(counts.get(at))?))
                };
                (0..blocks).map(block).collect()
            }
        }
    }

    /// Returns this many blocks, to be kept by an operation.
    ///
    /// # Safety
    /// The arrays have an entry for each block. See [`Kept::new`].
    unsafe fn kept(&self, blocks: usize) -> Result<Vec<Kept>> {
        // SAFETY: the caller says so, and the array of types has an entry for each block.
        let block = |(at, data)| unsafe {
            let datatype = match self.places {
                Places::Equal { datatype, .. } | Places::At { datatype, .. } => datatype,
                Places::Typed { types, .. } => types.get(at),
            };
            Kept::of(data, datatype)
        };
        // SAFETY: the caller says so.
        unsafe { self.data(blocks)? }.into_iter().enumerate().map(block).collect()
    }
}

/// Returns an error if an array is missing that has an entry for each block.
fn check_arrays(blocks: usize, counts: Ints, displacements: Ints) -> Result<()> {
    match blocks > 0 && (counts.is_null() || displacements.is_null()) {
        true => Err(Error::new(Class::Arg, "an array is a null pointer")),
        false => Ok(()),
    }
}

impl Blocks {
    /// Returns a block for each rank, to be kept by an operation.
    ///
    /// # Safety
    /// The arrays have an entry for each block. See [`Kept::new`].
    unsafe fn of_ranks(&self, comm: &Comm) -> Result<KeptBlocks> {
        let ranks = comm.size as usize;
        // SAFETY: the caller says so.
        unsafe {
            Ok(match self.places {
                Places::Equal { count, datatype } => {
                    let all = Kept::new(self.buffer, of_all(comm, count)?, datatype)?;
                    KeptBlocks::Equal { all, count: ranks }
                }
                Places::At { counts, displacements, datatype } => {
                    check_arrays(ranks, counts, displacements)?;
                    let first = Kept::new(self.buffer, 0, datatype)?;
                    let extent = first.data().datatype().extent;
                    (0..ranks).try_for_each(|at| count(counts.get(at)).map(drop))?;
                    // The counts were checked before, so that the blocks need no vector on their way to where they stay.
                    let block = |at| {
                        let place = displacements.get(at).saturating_mul(extent);
                        first.part(place, counts.get(at) as usize)
                    };
                    KeptBlocks::Each((0..ranks).map(block).collect())
                }
                Places::Typed { .. } => KeptBlocks::Each(self.kept(ranks)?.into()),
            })
        }
    }

    /// Returns no blocks, for a rank that is not the root.
    fn of_root(&self) -> Result<KeptBlocks> {
        Ok(match self.places {
            Places::Equal { .. } => {
                // SAFETY: there are no elements.
                let all = unsafe { Kept::new(null(), 0, MPI_BYTE)? };
                KeptBlocks::Equal { all, count: 0 }
            }
            _ => KeptBlocks::Each(Rc::new([])),
        })
    }
}

/// Returns whether an operation is done at once, because no rank has any elements. All ranks have as many as these.
///
/// # Safety
/// See [`Data::new`].
unsafe fn is_empty(comm: &Comm, (buffer, count, datatype): Elements) -> Result<bool> {
    if count != 0 {
        return Ok(false);
    }
    // SAFETY: the caller says so.
    unsafe { Data::new(buffer, count, datatype)? };
    comm.is_empty(0)
}

/// Does the same for blocks of all ranks, of which only the root has the blocks. Other ranks have their own elements.
///
/// # Safety
/// See [`Data::new`].
unsafe fn are_empty(comm: &Comm, all: Blocks, own: Elements, root: usize) -> Result<bool> {
    let Some(block) = all.each() else { return Ok(false) };
    // SAFETY: the caller says so.
    unsafe { is_empty(comm, if comm.rank as usize == root { block } else { own }) }
}

/// Returns the elements, unless they are `MPI_IN_PLACE`.
unsafe fn kept((buffer, count, datatype): Elements) -> Result<Option<Kept>> {
    match is_in_place(buffer) {
        true => Ok(None),
        // SAFETY: the caller says so.
        false => unsafe { Kept::new(buffer, count, datatype).map(Some) },
    }
}

/// Returns an error if data is to be sent from the place to which it is to come.
pub(super) fn check_apart(sent: Data<'_>, received: Data<'_>) -> Result<()> {
    let lowest = |data: Data<'_>| {
        data.pointer().addr().wrapping_add_signed(data.datatype().true_lower as isize)
    };
    match sent.bytes() > 0 && received.bytes() > 0 && lowest(sent) == lowest(received) {
        true => Err(one_buffer()),
        false => Ok(()),
    }
}

/// Returns an error if a rank's own block is longer than the place for it.
pub(super) fn check_fits(own: Data<'_>, place: Data<'_>) -> Result<()> {
    let (bytes, room) = (own.bytes(), place.bytes());
    let too_long =
        || format!("the rank's own block of {bytes} bytes is too long for its place of {room}");
    match bytes > room {
        true => Err(Error::new(Class::Truncate, too_long())),
        false => Ok(()),
    }
}

fn one_buffer() -> Error {
    Error::new(Class::Buffer, "both buffers are one: say MPI_IN_PLACE")
}

/// Does the same for a rank's own elements and its block, or the first one.
pub(super) fn check_own_apart(own: Data<'_>, all: &[Data<'_>], rank: usize) -> Result<()> {
    check_apart(own, all[0])?;
    check_apart(own, all[rank])
}

/// Does the same for elements that may be in place. Returns an error, too, if they do not fit in their place, which
/// `direction` picks.
fn check_block(
    comm: &Comm,
    own: Option<&Kept>,
    all: &KeptBlocks,
    direction: Direction,
) -> Result<()> {
    let Some(own) = own.filter(|_| all.count() > 0) else { return Ok(()) };
    let (own, block) = (own.data(), all.block(comm.rank as usize));
    check_apart(own, all.block(0))?;
    check_apart(own, block)?;
    match direction {
        Direction::ToBlocks => check_fits(own, block),
        Direction::FromBlocks => check_fits(block, own),
    }
}

/// Whether a rank's own elements go to its block in a buffer for all ranks, or come from there.
enum Direction {
    ToBlocks,
    FromBlocks,
}

/// Does the same for the blocks of each rank.
pub(super) fn check_all_apart<'a>(
    sent: impl IntoIterator<Item = Data<'a>>,
    received: impl IntoIterator<Item = Data<'a>>,
) -> Result<()> {
    sent.into_iter().zip(received).try_for_each(|(sent, received)| check_apart(sent, received))
}

/// # Safety
/// As for [`Kept::new`]. The same holds for the functions below.
pub(super) unsafe fn broadcast(
    comm: &Comm,
    (buffer, count, datatype): Elements,
    root: c_int,
) -> Result<Collective> {
    if comm.is_inter() {
        // SAFETY: the caller says so.
        let data = || unsafe { Kept::new(buffer, count, datatype) };
        return Ok(match remote_root(comm, root)? {
            RemoteRoot::Here => to_peers(comm, vec![data()?; comm.peers as usize]),
            RemoteRoot::There(root) => from_peer(comm, root, data()?),
            RemoteRoot::Elsewhere => nothing(),
        });
    }
    let root = comm.root(root)?;
    // SAFETY: the caller says so.
    unsafe {
        Ok(match is_empty(comm, (buffer, count, datatype))? {
            true => Collective::Nothing,
            false => Collective::Broadcast { data: Kept::new(buffer, count, datatype)?, root },
        })
    }
}

pub(super) unsafe fn gather(
    comm: &Comm,
    own: Elements,
    all: Blocks,
    root: c_int,
) -> Result<Collective> {
    if comm.is_inter() {
        return Ok(match remote_root(comm, root)? {
            // SAFETY: the caller says so.
            RemoteRoot::Here => from_peers(comm, unsafe { all.kept(comm.peers as usize)? }),
            // SAFETY: as above.
            RemoteRoot::There(root) => to_peer(comm, root, unsafe { elsewhere(own)? }),
            RemoteRoot::Elsewhere => nothing(),
        });
    }
    let root = comm.root(root)?;
    // SAFETY: the caller says so.
    unsafe {
        if are_empty(comm, all, own, root)? {
            return Ok(Collective::Nothing);
        }
        let all = match comm.rank as usize == root {
            true => all.of_ranks(comm)?,
            false => all.of_root()?,
        };
        let own = kept(own)?;
        check_block(comm, own.as_ref(), &all, Direction::ToBlocks)?;
        Ok(Collective::Gather { own, all, root })
    }
}

pub(super) unsafe fn scatter(
    comm: &Comm,
    all: Blocks,
    own: Elements,
    root: c_int,
) -> Result<Collective> {
    if comm.is_inter() {
        return Ok(match remote_root(comm, root)? {
            // SAFETY: the caller says so.
            RemoteRoot::Here => to_peers(comm, unsafe { all.kept(comm.peers as usize)? }),
            // SAFETY: as above.
            RemoteRoot::There(root) => from_peer(comm, root, unsafe { elsewhere(own)? }),
            RemoteRoot::Elsewhere => nothing(),
        });
    }
    let root = comm.root(root)?;
    // SAFETY: the caller says so.
    unsafe {
        if are_empty(comm, all, own, root)? {
            return Ok(Collective::Nothing);
        }
        let all = match comm.rank as usize == root {
            true => all.of_ranks(comm)?,
            false => all.of_root()?,
        };
        let own = kept(own)?;
        check_block(comm, own.as_ref(), &all, Direction::FromBlocks)?;
        Ok(Collective::Scatter { all, own, root })
    }
}

pub(super) unsafe fn all_gather(comm: &Comm, own: Elements, all: Blocks) -> Result<Collective> {
    // SAFETY: the caller says so.
    unsafe {
        if comm.is_inter() {
            let peers = comm.peers as usize;
            return Ok(between(comm, vec![elsewhere(own)?; peers], all.kept(peers)?));
        }
        if let Some(block) = all.each()
            && is_empty(comm, block)?
        {
            return Ok(Collective::Nothing);
        }
        let (own, all) = (kept(own)?, all.of_ranks(comm)?);
        check_block(comm, own.as_ref(), &all, Direction::ToBlocks)?;
        Ok(Collective::AllGather { own, all })
    }
}

pub(super) unsafe fn all_to_all(comm: &Comm, sent: Blocks, received: Blocks) -> Result<Collective> {
    // SAFETY: the caller says so.
    unsafe {
        if comm.is_inter() {
            let peers = comm.peers as usize;
            let received = received.kept(peers)?;
            return match sent.is_in_place() {
                true => Err(no_block_in_place()),
                false => Ok(between(comm, sent.kept(peers)?, received)),
            };
        }
        if let Some(block) = received.each()
            && is_empty(comm, block)?
        {
            return Ok(Collective::Nothing);
        }
        let received = received.of_ranks(comm)?;
        let sent = match sent.is_in_place() {
            true => None,
            false => Some(sent.of_ranks(comm)?),
        };
        check_all_apart(sent.iter().flat_map(KeptBlocks::iter), received.iter())?;
        if let Some(sent) = &sent {
            let me = comm.rank as usize;
            check_fits(sent.block(me), received.block(me))?;
        }
        Ok(Collective::AllToAll { sent, received })
    }
}

/// A count, a type and an operation.
type Reduced = (Count, Handle, Handle);

/// Returns whether there is nothing to combine. Returns an error if the operation is not defined for the type.
///
/// # Safety
/// The handles are those of a type and an operation.
unsafe fn combines_nothing((count, datatype, op): Reduced) -> Result<bool> {
    if count != 0 {
        return Ok(false);
    }
    // SAFETY: the caller says so, and there are no elements.
    unsafe {
        let nothing = Data::new(null(), count, datatype)?;
        Op::keep(op)?.on(nothing.datatype(), datatype)?;
    }
    Ok(true)
}

pub(super) unsafe fn reduce(
    comm: &Comm,
    (sent, received): (*const c_void, *mut c_void),
    (count, datatype, op): Reduced,
    root: c_int,
) -> Result<Collective> {
    if comm.is_inter() {
        return Ok(match remote_root(comm, root)? {
            RemoteRoot::Here => {
                // SAFETY: the caller says so.
                let result = unsafe { Kept::new(received, count, datatype)? };
                let bytes = result.data().bytes();
                // SAFETY: as above.
                unsafe { reduce_peers(comm, None, (result, 0..bytes, bytes), (datatype, op))? }
            }
            RemoteRoot::There(root) => {
                // SAFETY: as above.
                to_peer(comm, root, unsafe { elsewhere((sent, count, datatype))? })
            }
            RemoteRoot::Elsewhere => nothing(),
        });
    }
    let root = comm.root(root)?;
    // SAFETY: the caller says so.
    unsafe {
        if combines_nothing((count, datatype, op))? {
            return Ok(Collective::Nothing);
        }
        if comm.rank as usize != root {
            let own = Kept::new(sent, count, datatype)?;
            let vector = Combined::new(op, &own, datatype)?;
            return Ok(Collective::Reduce { vector, own, result: None, root });
        }
        let (vector, own, result) = vectors((sent, received), (count, datatype, op))?;
        Ok(Collective::Reduce { vector, own, result: Some(result), root })
    }
}

/// Returns how vectors are combined, this rank's vector, and the place for the result.
unsafe fn vectors(
    (sent, received): (*const c_void, *mut c_void),
    (count, datatype, op): Reduced,
) -> Result<(Rc<Combined>, Kept, Kept)> {
    // SAFETY: the caller says so.
    unsafe {
        let result = Kept::new(received, count, datatype)?;
        let vector = Combined::new(op, &result, datatype)?;
        let sent = kept((sent, count, datatype))?;
        check_all_apart(sent.as_ref().map(Kept::data), [result.data()])?;
        Ok((vector, sent.unwrap_or_else(|| result.clone()), result))
    }
}

pub(super) unsafe fn all_reduce(
    comm: &Comm,
    buffers: (*const c_void, *mut c_void),
    what: Reduced,
) -> Result<Collective> {
    if comm.is_inter() {
        let ((sent, received), (count, datatype, op)) = (buffers, what);
        // SAFETY: the caller says so.
        unsafe {
            let own = elsewhere((sent, count, datatype))?;
            let result = Kept::new(received, count, datatype)?;
            let bytes = result.data().bytes();
            return reduce_peers(comm, Some(own), (result, 0..bytes, bytes), (datatype, op));
        }
    }
    // SAFETY: the caller says so.
    unsafe {
        if combines_nothing(what)? {
            return Ok(Collective::Nothing);
        }
        let (vector, own, result) = vectors(buffers, what)?;
        Ok(Collective::AllReduce { vector, own, result })
    }
}

pub(super) unsafe fn scan(
    comm: &Comm,
    buffers: (*const c_void, *mut c_void),
    what: Reduced,
    is_exclusive: bool,
) -> Result<Collective> {
    comm.check_intra()?;
    // SAFETY: the caller says so.
    unsafe {
        if is_exclusive && comm.rank == 0 && !is_in_place(buffers.0) {
            // Rank 0 gets no result, and may have no place for it.
            let (count, datatype, op) = what;
            let own = Kept::new(buffers.0, count, datatype)?;
            check_other_place(buffers, own.data())?;
            let vector = Combined::new(op, &own, datatype)?;
            return Ok(Collective::Scan { vector, result: own.clone(), own, is_exclusive });
        }
        let (vector, own, result) = vectors(buffers, what)?;
        Ok(Collective::Scan { vector, own, result, is_exclusive })
    }
}

/// Returns an error if the buffer for a result is that of the elements, and there are any.
pub(super) fn check_other_place(
    (sent, received): (*const c_void, *mut c_void),
    elements: Data<'_>,
) -> Result<()> {
    if elements.bytes() > 0 && sent == received { Err(one_buffer()) } else { Ok(()) }
}

/// The numbers of elements in the ranks' blocks.
#[derive(Clone, Copy)]
pub(super) enum Counts {
    Equal(Count),
    Each(Ints),
}

pub(super) unsafe fn reduce_scatter(
    comm: &Comm,
    (sent, received): (*const c_void, *mut c_void),
    counts: Counts,
    (datatype, op): (Handle, Handle),
) -> Result<Collective> {
    let (me, ranks) = (comm.rank as usize, comm.size as usize);
    let from = if is_in_place(sent) { received.cast_const() } else { sent };
    // SAFETY: the caller says so.
    unsafe {
        let blocks = match counts {
            Counts::Equal(count) => {
                of_all(comm, count)?;
                Blocks::equal(from, count, datatype).kept(ranks)?
            }
            Counts::Each(counts) if counts.is_null() => {
                return Err(Error::new(Class::Arg, "an array is a null pointer"));
            }
            Counts::Each(counts) => {
                let first = Kept::new(from, 0, datatype)?;
                let (extent, mut place) = (first.data().datatype().extent, 0);
                let mut block = |rank| {
                    let elements = count(counts.get(rank))?;
                    let block = first.part(extent * place, elements);
                    place += elements as i64;
                    Ok(block)
                };
                (0..ranks).map(&mut block).collect::<Result<_>>()?
            }
        };
        let result = Kept::new(received, blocks[me].data().count() as Count, datatype)?;
        if comm.is_inter() {
            let elements = blocks.iter().map(|block| block.data().count()).sum::<usize>();
            let own = elsewhere((sent, elements as Count, datatype))?;
            let bytes = own.data().bytes();
            let first = blocks[..me].iter().map(|block| block.data().bytes()).sum();
            let range = first..first + result.data().bytes();
            return reduce_peers(comm, Some(own), (result, range, bytes), (datatype, op));
        }
        for block in blocks.iter().filter(|_| !is_in_place(sent)) {
            check_other_place((sent, received), block.data())?;
        }
        let vector = Combined::new(op, &result, datatype)?;
        Ok(Collective::ReduceScatter { vector, blocks: KeptBlocks::Each(blocks.into()), result })
    }
}

/// The root of an operation in an intercommunicator.
enum RemoteRoot {
    /// This rank.
    Here,
    /// This rank of the remote group.
    There(usize),
    /// Another rank of the local group.
    Elsewhere,
}

fn remote_root(comm: &Comm, root: c_int) -> Result<RemoteRoot> {
    match root {
        MPI_ROOT => Ok(RemoteRoot::Here),
        MPI_PROC_NULL => Ok(RemoteRoot::Elsewhere),
        0.. if root < comm.peers => Ok(RemoteRoot::There(root as usize)),
        _ => Err(Error::new(
            Class::Root,
            format!("there is no rank {root} in the remote group of {}", comm.peers),
        )),
    }
}

fn peer(comm: &Comm, rank: usize) -> Neighbour {
    Neighbour::of(comm.peer(rank))
}

/// Names blocks with the ranks of the remote group that they come from or go to.
fn by_peer(comm: &Comm, blocks: Vec<Kept>) -> Vec<(Neighbour, Kept)> {
    blocks.into_iter().enumerate().map(|(rank, block)| (peer(comm, rank), block)).collect()
}

/// Exchanges blocks with all ranks of the remote group.
fn between(comm: &Comm, sent: Vec<Kept>, received: Vec<Kept>) -> Collective {
    Collective::Neighbours { sent: by_peer(comm, sent), received: by_peer(comm, received) }
}

fn to_peers(comm: &Comm, sent: Vec<Kept>) -> Collective {
    between(comm, sent, Vec::new())
}

fn from_peers(comm: &Comm, received: Vec<Kept>) -> Collective {
    between(comm, Vec::new(), received)
}

fn to_peer(comm: &Comm, rank: usize, block: Kept) -> Collective {
    Collective::Neighbours { sent: vec![(peer(comm, rank), block)], received: Vec::new() }
}

fn from_peer(comm: &Comm, rank: usize, block: Kept) -> Collective {
    Collective::Neighbours { sent: Vec::new(), received: vec![(peer(comm, rank), block)] }
}

fn nothing() -> Collective {
    Collective::Neighbours { sent: Vec::new(), received: Vec::new() }
}

/// Returns elements that are in the program's memory.
unsafe fn elsewhere(elements: Elements) -> Result<Kept> {
    // SAFETY: the caller says so.
    unsafe { kept(elements)?.ok_or_else(no_block_in_place) }
}

/// Combines the vectors of the remote group's ranks. Of each, `range` counts, in bytes. The vectors have as many bytes
/// as the last number says. This rank's vector, if it has one, goes to all of them.
unsafe fn reduce_peers(
    comm: &Comm,
    own: Option<Kept>,
    (result, range, bytes): (Kept, Range<usize>, usize),
    (datatype, op): (Handle, Handle),
) -> Result<Collective> {
    let peers = comm.peers as usize;
    let sent = own.map_or_else(Vec::new, |own| by_peer(comm, vec![own; peers]));
    // SAFETY: the caller says so.
    let vector = unsafe { Combined::new(op, &result, datatype)? };
    let from = (0..peers).map(|rank| peer(comm, rank)).collect();
    Ok(Collective::ReduceAcross { vector, sent, from, bytes, range, result })
}

pub(super) fn barrier(comm: &Comm) -> Result<Collective> {
    if !comm.is_inter() {
        return Ok(Collective::Barrier);
    }
    // SAFETY: there are no elements.
    let empty = unsafe { Kept::new(null(), 0, MPI_BYTE)? };
    let all = vec![empty; comm.peers as usize];
    Ok(between(comm, all.clone(), all))
}

/// Returns the neighbours in the communicator's topology: those that send, and those that are sent to.
fn neighbours(comm: &Comm) -> Result<[Vec<Neighbour>; 2]> {
    match comm.topology.get() {
        Some(topology) => Ok(topology.neighbours(comm.rank as usize)),
        None => Err(Error::new(Class::Topology, format!("{:?} has no topology", comm.name()))),
    }
}

pub(super) fn no_block_in_place() -> Error {
    Error::new(Class::Buffer, "MPI_IN_PLACE is not for this operation")
}

pub(super) unsafe fn neighbour_gather(
    comm: &Comm,
    own: Elements,
    all: Blocks,
) -> Result<Collective> {
    let [sources, destinations] = neighbours(comm)?;
    // SAFETY: the caller says so.
    unsafe {
        let own = elsewhere(own)?;
        let received = all.kept(sources.len())?;
        Ok(Collective::Neighbours {
            sent: destinations.into_iter().map(|to| (to, own.clone())).collect(),
            received: sources.into_iter().zip(received).collect(),
        })
    }
}

pub(super) unsafe fn neighbour_exchange(
    comm: &Comm,
    sent: Blocks,
    received: Blocks,
) -> Result<Collective> {
    let [sources, destinations] = neighbours(comm)?;
    if sent.is_in_place() {
        return Err(no_block_in_place());
    }
    // SAFETY: the caller says so.
    unsafe {
        let (sent, received) = (sent.kept(destinations.len())?, received.kept(sources.len())?);
        Ok(Collective::Neighbours {
            sent: destinations.into_iter().zip(sent).collect(),
            received: sources.into_iter().zip(received).collect(),
        })
    }
}
