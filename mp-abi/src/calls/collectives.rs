//! Collective operations.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]
#![expect(clippy::too_many_arguments, reason = "these are the standard's parameters")]

use std::{
    ffi::{c_int, c_void},
    ops::Range,
};

use mp_collectives::collectives::{At, InPlace};
use mp_core::Call;

use super::collective_arguments::{
    self as by_request, check_all_apart, check_apart, check_fits, check_other_place,
    check_own_apart, count, is_in_place, of_all, run,
};
use crate::{
    blocks::Blocks,
    comm::{Comm, within},
    datatype::data::Data,
    error::{Class, Error},
    handles::Handles,
    ints::Ints,
    reduce::{self, Counts, Reduction},
    types::{Count, Handle},
};

type Result<T> = std::result::Result<T, Error>;

const NO_RANGES: &[Range<usize>] = &[];

/// `MPI_Barrier`.
pub unsafe fn barrier(comm: Handle) -> c_int {
    // SAFETY: the program gives a valid handle.
    unsafe {
        within(comm, "MPI_Barrier", |comm| {
            if comm.by_request() {
                return run(comm, by_request::barrier(comm)?);
            }
            Ok(comm.communicator.barrier()?)
        })
    }
}

/// `MPI_Bcast`.
pub unsafe fn bcast(
    buffer: *mut c_void,
    count: Count,
    datatype: Handle,
    root: c_int,
    comm: Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, and data that can be read, or written to.
    unsafe {
        within(comm, "MPI_Bcast", |comm| {
            if comm.by_request() {
                return run(comm, by_request::broadcast(comm, (buffer, count, datatype), root)?);
            }
            let (data, root) = (Data::new(buffer, count, datatype)?, comm.root(root)?);
            if comm.is_empty(data.bytes())? {
                return Ok(());
            }
            reduce::broadcast(comm, data, root)
        })
    }
}

/// `MPI_Gather`.
pub unsafe fn gather(
    sent: *const c_void,
    sent_count: Count,
    sent_type: Handle,
    received: *mut c_void,
    received_count: Count,
    received_type: Handle,
    root: c_int,
    comm: Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, data that can be read, and at the root data that can be written to.
    unsafe {
        within(comm, "MPI_Gather", |comm| {
            if comm.by_request() {
                let all = by_request::Blocks::equal(received, received_count, received_type);
                let own = (sent, sent_count, sent_type);
                return run(comm, by_request::gather(comm, own, all, root)?);
            }
            let root = comm.root(root)?;
            let communicator = &comm.communicator;
            if comm.rank as usize != root {
                let own = Data::new(sent, sent_count, sent_type)?;
                if comm.is_empty(own.bytes())? {
                    return Ok(());
                }
                return Ok(communicator.gather(&own.packed()[..], &mut [][..], root)?);
            }
            let all = Data::new(received, of_all(comm, received_count)?, received_type)?;
            if comm.is_empty(all.bytes())? {
                return Ok(());
            }
            if is_in_place(sent) {
                let block = own_block(comm, all, received_count);
                return all.fill(|all| {
                    block.fit_into(all, root);
                    Ok(communicator.gather(InPlace, all, root)?)
                });
            }
            let own = Data::new(sent, sent_count, sent_type)?;
            let block = own_block(comm, all, received_count).data;
            check_own_apart(own, &[all, block], 1)?;
            check_fits(own, block)?;
            all.fill(|all| Ok(communicator.gather(&own.packed()[..], all, root)?))
        })
    }
}

/// This rank's block of a buffer of equal blocks.
struct OwnBlock<'a> {
    data: Data<'a>,
    /// Whether the buffer itself is used, and no copy of it.
    is_there: bool,
}

/// # Safety
/// The buffer has blocks of this many elements for all ranks.
unsafe fn own_block<'a>(comm: &Comm, all: Data<'a>, count: Count) -> OwnBlock<'a> {
    let place = all.datatype().extent * count * Count::from(comm.rank);
    // SAFETY: the caller says so.
    let data = unsafe { all.part(place, count as usize) };
    OwnBlock { data, is_there: all.start().is_some() }
}

impl OwnBlock<'_> {
    /// Copies the block to its place in a copy of the buffer. In the buffer itself it is there already.
    fn fit_into(&self, all: &mut [u8], rank: usize) {
        if !self.is_there {
            let block = self.data.packed();
            all[rank * block.len()..][..block.len()].copy_from_slice(&block);
        }
    }
}

/// Compares the lengths of blocks that a root has or gets with those that the ranks name, if ranks compare their calls:
/// the operations themselves do not. If any differ, this returns an error at all ranks.
fn compare_lengths(
    comm: &Comm,
    name: &'static str,
    own: usize,
    at_root: &[Range<usize>],
    root: usize,
) -> Result<()> {
    let joint = comm.communicator.joint();
    if comm.size == 1 || !joint.checks() {
        return Ok(());
    }
    joint.check_if_set(|| Call::new(name).of::<u8>().root(root))?;
    let mut all = vec![0; at_root.len()];
    comm.communicator.gather(&[own as u64][..], &mut all[..], root)?;
    let lengths = all.into_iter().zip(at_root.iter().map(|block| block.len() as u64));
    let differs = lengths.enumerate().find(|(_, (named, length))| named != length);
    // The rank behind the one that differs, or 0, and the lengths.
    let mut verdict =
        differs.map_or([0; 3], |(rank, (named, length))| [rank as u64 + 1, named, length]);
    comm.communicator.broadcast(&mut verdict[..], root)?;
    match verdict {
        [0, ..] => Ok(()),
        [behind, named, length] => Err(Error::new(
            Class::NotSame,
            format!(
                "the block of rank {} has {length} bytes at the root {root}, and the rank itself says {named}",
                behind - 1
            ),
        )),
    }
}

/// `MPI_Gatherv`.
pub unsafe fn gatherv(
    sent: *const c_void,
    sent_count: Count,
    sent_type: Handle,
    received: *mut c_void,
    received_counts: Ints,
    displacements: Ints,
    received_type: Handle,
    root: c_int,
    comm: Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, data that can be read, and at the root arrays with a number for each
    // rank, and data that can be written to.
    unsafe {
        within(comm, "MPI_Gatherv", |comm| {
            let all =
                by_request::Blocks::at(received, received_counts, displacements, received_type);
            if comm.by_request() {
                let own = (sent, sent_count, sent_type);
                return run(comm, by_request::gather(comm, own, all, root)?);
            }
            let root = comm.root(root)?;
            let communicator = &comm.communicator;
            if comm.rank as usize != root {
                let own = Data::new(sent, sent_count, sent_type)?.packed();
                compare_lengths(comm, "gather_varcount", own.len(), NO_RANGES, root)?;
                let nothing: &mut [u8] = &mut [];
                return Ok(communicator.gather(&own[..], At(nothing, NO_RANGES), root)?);
            }
            let all = all.data(comm.size as usize)?;
            let mut blocks;
            if is_in_place(sent) {
                blocks = Blocks::to_write(all);
                blocks.load(root);
                let (all, ranges) = blocks.bytes_mut();
                compare_lengths(comm, "gather_varcount", ranges[root].len(), ranges, root)?;
                communicator.gather(InPlace, At(all, ranges), root)?;
            } else {
                let own = Data::new(sent, sent_count, sent_type)?;
                check_own_apart(own, &all, root)?;
                check_fits(own, all[root])?;
                blocks = Blocks::to_write(all);
                let (all, ranges) = blocks.bytes_mut();
                compare_lengths(comm, "gather_varcount", own.bytes(), ranges, root)?;
                communicator.gather(&own.packed()[..], At(all, ranges), root)?;
            }
            blocks.store();
            Ok(())
        })
    }
}

/// `MPI_Scatter`.
pub unsafe fn scatter(
    sent: *const c_void,
    sent_count: Count,
    sent_type: Handle,
    received: *mut c_void,
    received_count: Count,
    received_type: Handle,
    root: c_int,
    comm: Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, data that can be written to, and at the root data that can be read.
    unsafe {
        within(comm, "MPI_Scatter", |comm| {
            if comm.by_request() {
                let all = by_request::Blocks::equal(sent, sent_count, sent_type);
                let own = (received.cast_const(), received_count, received_type);
                return run(comm, by_request::scatter(comm, all, own, root)?);
            }
            let root = comm.root(root)?;
            let communicator = &comm.communicator;
            if comm.rank as usize != root {
                let own = Data::new(received, received_count, received_type)?;
                if comm.is_empty(own.bytes())? {
                    return Ok(());
                }
                let nothing: &[u8] = &[];
                return own.fill(|own| Ok(communicator.scatter(nothing, own, root)?));
            }
            let all = Data::new(sent, of_all(comm, sent_count)?, sent_type)?;
            if comm.is_empty(all.bytes())? {
                return Ok(());
            }
            let bytes = all.packed();
            if is_in_place(received) {
                // The own block stays where it is.
                let mut own = vec![0; bytes.len() / comm.size as usize];
                return Ok(communicator.scatter(&bytes[..], &mut own[..], root)?);
            }
            let own = Data::new(received, received_count, received_type)?;
            let block = own_block(comm, all, sent_count).data;
            check_own_apart(own, &[all, block], 1)?;
            check_fits(block, own)?;
            own.fill(|own| Ok(communicator.scatter(&bytes[..], own, root)?))
        })
    }
}

/// `MPI_Scatterv`.
pub unsafe fn scatterv(
    sent: *const c_void,
    sent_counts: Ints,
    displacements: Ints,
    sent_type: Handle,
    received: *mut c_void,
    received_count: Count,
    received_type: Handle,
    root: c_int,
    comm: Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, data that can be written to, and at the root arrays with a number for
    // each rank, and data that can be read.
    unsafe {
        within(comm, "MPI_Scatterv", |comm| {
            let all = by_request::Blocks::at(sent, sent_counts, displacements, sent_type);
            if comm.by_request() {
                let own = (received.cast_const(), received_count, received_type);
                return run(comm, by_request::scatter(comm, all, own, root)?);
            }
            let root = comm.root(root)?;
            let communicator = &comm.communicator;
            if comm.rank as usize != root {
                let own = Data::new(received, received_count, received_type)?;
                compare_lengths(comm, "scatter_varcount", own.bytes(), NO_RANGES, root)?;
                let nothing: &[u8] = &[];
                return own
                    .fill(|own| Ok(communicator.scatter(At(nothing, NO_RANGES), own, root)?));
            }
            let all = all.data(comm.size as usize)?;
            let own = match is_in_place(received) {
                true => None,
                false => Some(Data::new(received, received_count, received_type)?),
            };
            if let Some(own) = own {
                check_own_apart(own, &all, root)?;
                check_fits(all[root], own)?;
            }
            let blocks = Blocks::to_read(all);
            let (all, ranges) = blocks.bytes();
            let length = own.map_or(ranges[root].len(), |own| own.bytes());
            compare_lengths(comm, "scatter_varcount", length, ranges, root)?;
            let all = At(all, ranges);
            let Some(own) = own else {
                // The own block stays where it is.
                let mut own = vec![0; length];
                return Ok(communicator.scatter(all, &mut own[..], root)?);
            };
            own.fill(|own| Ok(communicator.scatter(all, own, root)?))
        })
    }
}

/// `MPI_Allgather`.
pub unsafe fn allgather(
    sent: *const c_void,
    sent_count: Count,
    sent_type: Handle,
    received: *mut c_void,
    received_count: Count,
    received_type: Handle,
    comm: Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, data that can be read, and data that can be written to.
    unsafe {
        within(comm, "MPI_Allgather", |comm| {
            if comm.by_request() {
                let all = by_request::Blocks::equal(received, received_count, received_type);
                let own = (sent, sent_count, sent_type);
                return run(comm, by_request::all_gather(comm, own, all)?);
            }
            let communicator = &comm.communicator;
            let all = Data::new(received, of_all(comm, received_count)?, received_type)?;
            if comm.is_empty(all.bytes())? {
                return Ok(());
            }
            if is_in_place(sent) {
                let block = own_block(comm, all, received_count);
                return all.fill(|all| {
                    block.fit_into(all, comm.rank as usize);
                    Ok(communicator.all_gather(InPlace, all)?)
                });
            }
            let own = Data::new(sent, sent_count, sent_type)?;
            let block = own_block(comm, all, received_count).data;
            check_own_apart(own, &[all, block], 1)?;
            check_fits(own, block)?;
            all.fill(|all| Ok(communicator.all_gather(&own.packed()[..], all)?))
        })
    }
}

/// `MPI_Allgatherv`.
pub unsafe fn allgatherv(
    sent: *const c_void,
    sent_count: Count,
    sent_type: Handle,
    received: *mut c_void,
    received_counts: Ints,
    displacements: Ints,
    received_type: Handle,
    comm: Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, arrays with a number for each rank, data that can be read, and data that
    // can be written to.
    unsafe {
        within(comm, "MPI_Allgatherv", |comm| {
            let all =
                by_request::Blocks::at(received, received_counts, displacements, received_type);
            if comm.by_request() {
                let own = (sent, sent_count, sent_type);
                return run(comm, by_request::all_gather(comm, own, all)?);
            }
            if all.have_no_elements(comm.size as usize)? && comm.is_empty(0)? {
                if !is_in_place(sent) {
                    Data::new(sent, sent_count, sent_type)?;
                }
                return Ok(());
            }
            let communicator = &comm.communicator;
            let (all, me) = (all.data(comm.size as usize)?, comm.rank as usize);
            let mut blocks;
            if is_in_place(sent) {
                blocks = Blocks::to_write(all);
                blocks.load(me);
                let (all, ranges) = blocks.bytes_mut();
                communicator.all_gather(InPlace, At(all, ranges))?;
            } else {
                let own = Data::new(sent, sent_count, sent_type)?;
                check_own_apart(own, &all, me)?;
                check_fits(own, all[me])?;
                blocks = Blocks::to_write(all);
                let (all, ranges) = blocks.bytes_mut();
                communicator.all_gather(&own.packed()[..], At(all, ranges))?;
            }
            blocks.store();
            Ok(())
        })
    }
}

/// `MPI_Alltoall`.
pub unsafe fn alltoall(
    sent: *const c_void,
    sent_count: Count,
    sent_type: Handle,
    received: *mut c_void,
    received_count: Count,
    received_type: Handle,
    comm: Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, data that can be read, and data that can be written to.
    unsafe {
        within(comm, "MPI_Alltoall", |comm| {
            if comm.by_request() {
                let sent = by_request::Blocks::equal(sent, sent_count, sent_type);
                let received = by_request::Blocks::equal(received, received_count, received_type);
                return run(comm, by_request::all_to_all(comm, sent, received)?);
            }
            let communicator = &comm.communicator;
            let all = Data::new(received, of_all(comm, received_count)?, received_type)?;
            if comm.is_empty(all.bytes())? {
                return Ok(());
            }
            if is_in_place(sent) {
                if let Some(all) = all.plain_mut() {
                    return Ok(communicator.all_to_all(InPlace, all)?);
                }
                let mut copy = all.packed().into_owned();
                communicator.all_to_all(InPlace, &mut copy[..])?;
                all.unpack(&copy);
                return Ok(());
            }
            let own = Data::new(sent, of_all(comm, sent_count)?, sent_type)?;
            check_apart(own, all)?;
            check_fits(own, all)?;
            let bytes = own.packed();
            all.fill(|all| Ok(communicator.all_to_all(&bytes[..], all)?))
        })
    }
}

/// Exchanges blocks, or blocks that are replaced.
///
/// # Safety
/// The arrays have an entry for each rank. The sent blocks can be read, and the received ones written to.
unsafe fn exchange(
    comm: &Comm,
    sent: by_request::Blocks,
    received: by_request::Blocks,
) -> Result<()> {
    let (communicator, ranks) = (&comm.communicator, comm.size as usize);
    // SAFETY: the caller says so.
    unsafe {
        if comm.by_request() {
            return run(comm, by_request::all_to_all(comm, sent, received)?);
        }
        if received.have_no_elements(ranks)?
            && (sent.is_in_place() || sent.have_no_elements(ranks)?)
        {
            // Other ranks may have some. So this rank takes part in the call.
            let (nothing, ranges): (&mut [u8], _) = (&mut [], vec![0..0; ranks]);
            return Ok(communicator.all_to_all(InPlace, At(nothing, &ranges[..]))?);
        }
        let received = received.data(ranks)?;
        let mut blocks;
        if sent.is_in_place() {
            blocks = Blocks::to_write(received);
            blocks.load_all();
            let (all, ranges) = blocks.bytes_mut();
            communicator.all_to_all(InPlace, At(all, ranges))?;
        } else {
            let sent = sent.data(ranks)?;
            check_all_apart(sent.iter().copied(), received.iter().copied())?;
            let me = comm.rank as usize;
            check_fits(sent[me], received[me])?;
            let sent = Blocks::to_read(sent);
            blocks = Blocks::to_write(received);
            let (own, own_ranges) = sent.bytes();
            let (all, ranges) = blocks.bytes_mut();
            communicator.all_to_all(At(own, own_ranges), At(all, ranges))?;
        }
        blocks.store();
        Ok(())
    }
}

/// `MPI_Alltoallv`.
pub unsafe fn alltoallv(
    sent: *const c_void,
    sent_counts: Ints,
    sent_displacements: Ints,
    sent_type: Handle,
    received: *mut c_void,
    received_counts: Ints,
    received_displacements: Ints,
    received_type: Handle,
    comm: Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, arrays with a number for each rank, data that can be read, and data that
    // can be written to.
    unsafe {
        within(comm, "MPI_Alltoallv", |comm| {
            let sent = by_request::Blocks::at(sent, sent_counts, sent_displacements, sent_type);
            let received = by_request::Blocks::at(
                received,
                received_counts,
                received_displacements,
                received_type,
            );
            exchange(comm, sent, received)
        })
    }
}

/// `MPI_Alltoallw`.
pub unsafe fn alltoallw(
    sent: *const c_void,
    sent_counts: Ints,
    sent_displacements: Ints,
    sent_types: Handles,
    received: *mut c_void,
    received_counts: Ints,
    received_displacements: Ints,
    received_types: Handles,
    comm: Handle,
) -> c_int {
    // SAFETY: the program gives a valid handle, arrays with an entry for each rank, data that can be read, and data that
    // can be written to.
    unsafe {
        within(comm, "MPI_Alltoallw", |comm| {
            let sent = by_request::Blocks::typed(sent, sent_counts, sent_displacements, sent_types);
            let received = by_request::Blocks::typed(
                received,
                received_counts,
                received_displacements,
                received_types,
            );
            exchange(comm, sent, received)
        })
    }
}

/// Combines vectors in the program's receive buffer. The call gets this rank's vector, unless that is there, and the
/// place for the result.
///
/// # Safety
/// The handles are valid, the first data can be read, and the second written to.
unsafe fn combine<'a>(
    (sent, received): (*const c_void, *mut c_void),
    count: Count,
    datatype: Handle,
    op: Handle,
    comm: &'a Comm,
    call: impl FnOnce(&Reduction<'a>, Option<Data<'_>>, Data<'_>) -> Result<()>,
) -> Result<()> {
    // SAFETY: the caller says so.
    unsafe {
        let vector = Data::new(received, count, datatype)?;
        let reduction = Reduction::new(comm, op, vector, vector.count(), datatype)?;
        let own = match is_in_place(sent) {
            true => None,
            false => Some(Data::new(sent, count, datatype)?),
        };
        own.map_or(Ok(()), |own| check_apart(own, vector))?;
        if comm.is_empty(vector.bytes())? { Ok(()) } else { call(&reduction, own, vector) }
    }
}

/// `MPI_Allreduce`.
pub unsafe fn allreduce(
    sent: *const c_void,
    received: *mut c_void,
    count: Count,
    datatype: Handle,
    op: Handle,
    comm: Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, data that can be read, and data that can be written to.
    unsafe {
        within(comm, "MPI_Allreduce", |comm| {
            if comm.by_request() {
                let (buffers, what) = ((sent, received), (count, datatype, op));
                return run(comm, by_request::all_reduce(comm, buffers, what)?);
            }
            combine((sent, received), count, datatype, op, comm, Reduction::all_reduce)
        })
    }
}

/// `MPI_Reduce`.
pub unsafe fn reduce(
    sent: *const c_void,
    received: *mut c_void,
    count: Count,
    datatype: Handle,
    op: Handle,
    root: c_int,
    comm: Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, data that can be read, and at the root data that can be written to.
    unsafe {
        within(comm, "MPI_Reduce", |comm| {
            if comm.by_request() {
                let (buffers, what) = ((sent, received), (count, datatype, op));
                return run(comm, by_request::reduce(comm, buffers, what, root)?);
            }
            let root = comm.root(root)?;
            if comm.rank as usize == root {
                let call = |reduction: &Reduction<'_>, own: Option<Data<'_>>, vector: Data<'_>| {
                    reduction.reduce(own, vector, root)
                };
                return combine((sent, received), count, datatype, op, comm, call);
            }
            let own = Data::new(sent, count, datatype)?;
            let reduction = Reduction::new(comm, op, own, own.count(), datatype)?;
            if comm.is_empty(own.bytes())? { Ok(()) } else { reduction.reduce_at(own, root) }
        })
    }
}

/// `MPI_Scan`.
pub unsafe fn scan(
    sent: *const c_void,
    received: *mut c_void,
    count: Count,
    datatype: Handle,
    op: Handle,
    comm: Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, data that can be read, and data that can be written to.
    unsafe {
        within(comm, "MPI_Scan", |comm| {
            if comm.by_request() {
                let (buffers, what) = ((sent, received), (count, datatype, op));
                return run(comm, by_request::scan(comm, buffers, what, false)?);
            }
            combine((sent, received), count, datatype, op, comm, Reduction::scan)
        })
    }
}

/// `MPI_Exscan`. The receive buffer of rank 0 is not changed.
pub unsafe fn exscan(
    sent: *const c_void,
    received: *mut c_void,
    count: Count,
    datatype: Handle,
    op: Handle,
    comm: Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, data that can be read, and data that can be written to.
    unsafe {
        within(comm, "MPI_Exscan", |comm| {
            if comm.by_request() {
                let (buffers, what) = ((sent, received), (count, datatype, op));
                return run(comm, by_request::scan(comm, buffers, what, true)?);
            }
            if comm.rank > 0 || is_in_place(sent) {
                let call = Reduction::exclusive_scan;
                return combine((sent, received), count, datatype, op, comm, call);
            }
            let own = Data::new(sent, count, datatype)?;
            check_other_place((sent, received), own)?;
            let reduction = Reduction::new(comm, op, own, own.count(), datatype)?;
            if own.bytes() == 0 { Ok(()) } else { reduction.exclusive_scan(None, own) }
        })
    }
}

/// Combines the vectors of all ranks, and gives each rank its block of the result.
///
/// # Safety
/// The handles are valid, the first data can be read, and the second written to.
unsafe fn reduce_scatter_in(
    (sent, received): (*const c_void, *mut c_void),
    counts: Counts<'_>,
    datatype: Handle,
    op: Handle,
    comm: &Comm,
) -> Result<()> {
    let is_in_place = is_in_place(sent);
    let from = if is_in_place { received } else { sent.cast_mut() };
    // SAFETY: the caller says so.
    unsafe {
        let all = match counts {
            Counts::Equal(count) => of_all(comm, count as Count)?,
            Counts::Each(counts) => counts.iter().map(|&count| count as Count).sum(),
        };
        let vector = Data::new(from, all, datatype)?;
        if !is_in_place {
            check_other_place((sent, received), vector)?;
        }
        let own = Data::new(received, counts.get(comm.rank as usize) as Count, datatype)?;
        let reduction = Reduction::new(comm, op, vector, vector.count(), datatype)?;
        if comm.is_empty(vector.bytes())? {
            return Ok(());
        }
        reduction.scatter(vector, counts, own, is_in_place)
    }
}

/// `MPI_Reduce_scatter`.
pub unsafe fn reduce_scatter(
    sent: *const c_void,
    received: *mut c_void,
    counts: Ints,
    datatype: Handle,
    op: Handle,
    comm: Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, an array with a number for each rank, data that can be read, and data
    // that can be written to.
    unsafe {
        within(comm, "MPI_Reduce_scatter", |comm| {
            if comm.by_request() {
                let counts = by_request::Counts::Each(counts);
                let what =
                    by_request::reduce_scatter(comm, (sent, received), counts, (datatype, op))?;
                return run(comm, what);
            }
            if counts.is_null() {
                return Err(Error::new(Class::Arg, "an array is a null pointer"));
            }
            let counts = (0..comm.size as usize).map(|rank| count(counts.get(rank)));
            let counts = counts.collect::<Result<Vec<_>>>()?;
            reduce_scatter_in((sent, received), Counts::Each(&counts), datatype, op, comm)
        })
    }
}

/// `MPI_Reduce_scatter_block`.
pub unsafe fn reduce_scatter_block(
    sent: *const c_void,
    received: *mut c_void,
    each: Count,
    datatype: Handle,
    op: Handle,
    comm: Handle,
) -> c_int {
    // SAFETY: the program gives valid handles, data that can be read, and data that can be written to.
    unsafe {
        within(comm, "MPI_Reduce_scatter_block", |comm| {
            if comm.by_request() {
                let counts = by_request::Counts::Equal(each);
                let what =
                    by_request::reduce_scatter(comm, (sent, received), counts, (datatype, op))?;
                return run(comm, what);
            }
            let counts = Counts::Equal(count(each)?);
            reduce_scatter_in((sent, received), counts, datatype, op, comm)
        })
    }
}
