//! Collective operations that go on while the program does something else.
//!
//! An operation keeps what the program has given to the call, so that it can begin any number of times. What moves
//! bytes, and the common reductions of numbers, are Onchip's own nonblocking operations. Any other reduction moves the
//! ranks' vectors, and combines them in the order of ranks when all that a rank needs is there.

use std::{ops::Range, ptr::with_exposed_provenance_mut, rc::Rc};

use mp_collectives::{
    collectives::{At, InPlace},
    nonblocking::{CollectiveRequest, Element},
    reduce,
};
use mp_core::{Pending, Plain, requests::RawBuffer};

use crate::{
    blocks::Placed,
    comm::Comm,
    completed::Completed,
    constants::MPI_BYTE,
    datatype::{Kind, data::Kept, vector::Vector},
    error::Error,
    going::Going,
    neighbours,
    op::{self, Combine, Max, Min, Op, Product, Rule, Sum},
    topology::Neighbour,
    types::{Count, Handle},
};

type Result<T> = std::result::Result<T, Error>;

/// A collective operation with what the program has given for it.
pub(crate) enum Collective {
    Barrier,
    Broadcast {
        data: Kept,
        root: usize,
    },
    /// The root has the blocks of all, and its own among them if it has no other.
    Gather {
        own: Option<Kept>,
        all: Option<Vec<Kept>>,
        root: usize,
    },
    Scatter {
        all: Option<Vec<Kept>>,
        own: Option<Kept>,
        root: usize,
    },
    AllGather {
        own: Option<Kept>,
        all: Vec<Kept>,
    },
    AllToAll {
        sent: Option<Vec<Kept>>,
        received: Vec<Kept>,
    },
    Reduce {
        vector: Rc<Combined>,
        own: Kept,
        result: Option<Kept>,
        root: usize,
    },
    AllReduce {
        vector: Rc<Combined>,
        own: Kept,
        result: Kept,
    },
    /// The result has the vectors of the ranks below, and this rank's unless the scan is exclusive.
    Scan {
        vector: Rc<Combined>,
        own: Kept,
        result: Kept,
        is_exclusive: bool,
    },
    /// Each rank gets its block of the result.
    ReduceScatter {
        vector: Rc<Combined>,
        blocks: Vec<Kept>,
        result: Kept,
    },
    Neighbours {
        sent: Vec<(Neighbour, Kept)>,
        received: Vec<(Neighbour, Kept)>,
    },
    /// Combines the vectors of the ranks of another group, which have this many bytes. Of each, the range is in the
    /// result. This rank's vector goes to others.
    ReduceAcross {
        vector: Rc<Combined>,
        sent: Vec<(Neighbour, Kept)>,
        from: Vec<Neighbour>,
        bytes: usize,
        range: Range<usize>,
        result: Kept,
    },
}

/// An exchange of vectors, which are combined when all are there.
struct Combining {
    exchange: Box<dyn Going>,
    /// The vectors that come, each in as many bytes. They go after the exchange.
    vectors: Vec<u8>,
    bytes: usize,
    range: Range<usize>,
    combined: Rc<Combined>,
    result: Kept,
}

impl Going for Combining {
    fn pending(&mut self) -> Option<&mut dyn Pending> {
        self.exchange.pending()
    }

    fn finish(self: Box<Self>) -> Completed {
        let completed = self.exchange.finish();
        if completed.error.is_none() && !self.range.is_empty() {
            let parts = self.vectors.chunks(self.bytes).map(|vector| &vector[self.range.clone()]);
            self.combined.store(&parts.collect::<Vec<_>>().concat(), &self.result);
        }
        completed
    }
}

/// How vectors are combined.
pub(crate) struct Combined {
    op: Op,
    combine: Combine,
    kind: Kind,
}

impl Combined {
    /// # Safety
    /// The handles are one of an operation, and the one of the type of `vector`.
    pub unsafe fn new(op: Handle, vector: &Kept, datatype: Handle) -> Result<Rc<Self>> {
        // SAFETY: the caller says so.
        let op = unsafe { Op::keep(op)? };
        let data = vector.data();
        let combine = op.on(data.datatype(), datatype)?;
        combine.check(data.count())?;
        Ok(Rc::new(Self { op, combine, kind: data.datatype().kind }))
    }

    /// Combines vectors that lie one after the other, each as long as `result`, which gets the combination.
    fn store(&self, mut vectors: &[u8], result: &Kept) {
        let data = result.data();
        let mut below: Option<Vector<'_>> = None;
        while !vectors.is_empty() {
            let (first, others) = vectors.split_at(data.bytes());
            vectors = others;
            let mut next = Vector::new(data.count(), data.datatype());
            next.data().unpack(first);
            if let Some(mut below) = below {
                let (lower, upper) = (below.data().pointer(), next.data().pointer());
                // SAFETY: both have as many elements of this type, in memory that nothing else uses.
                unsafe { self.combine.apply(lower, upper, data.count()) };
            }
            below = Some(next);
        }
        if let Some(mut all) = below {
            data.copy_from(all.data());
        }
    }
}

/// Elements that an operation uses until it is done: in the program's memory, or a copy.
enum Elements<T> {
    Memory(RawBuffer<T>),
    Copy(Vec<T>),
}

impl<T: Plain> AsRef<[T]> for Elements<T> {
    fn as_ref(&self) -> &[T] {
        match self {
            Self::Memory(memory) => memory.as_ref(),
            Self::Copy(copy) => copy,
        }
    }
}

impl<T: Plain> AsMut<[T]> for Elements<T> {
    fn as_mut(&mut self) -> &mut [T] {
        match self {
            Self::Memory(memory) => memory.as_mut(),
            Self::Copy(copy) => copy,
        }
    }
}

impl<T: Plain> Elements<T> {
    /// Returns the data as elements.
    ///
    /// # Safety
    /// As for [`Collective::begin`].
    unsafe fn load(kept: &Kept) -> Self {
        // SAFETY: the caller says so.
        unsafe { Self::in_memory(kept) }.unwrap_or_else(|| Self::Copy(copy_of(kept)))
    }

    /// Returns room for the data, from which [`store`](Self::store) takes it if it is a copy.
    ///
    /// # Safety
    /// As for [`Collective::begin`].
    unsafe fn room(kept: &Kept) -> Self {
        // SAFETY: the caller says so.
        unsafe { Self::in_memory(kept) }
            .unwrap_or_else(|| Self::Copy(vec![T::zeroed(); kept.data().bytes() / size_of::<T>()]))
    }

    /// # Safety
    /// As for [`Collective::begin`].
    unsafe fn in_memory(kept: &Kept) -> Option<Self> {
        let data = kept.data();
        let start = with_exposed_provenance_mut::<T>(data.start()?);
        let count = data.bytes() / size_of::<T>();
        // SAFETY: these elements are the data, and all of it. The caller says the rest.
        start.is_aligned().then(|| Self::Memory(unsafe { RawBuffer::new(start, count) }))
    }

    fn store(&self, kept: &Kept) {
        if let Self::Copy(copy) = self {
            kept.data().unpack(bytemuck::cast_slice(copy));
        }
    }
}

fn copy_of<T: Plain>(kept: &Kept) -> Vec<T> {
    let data = kept.data();
    let mut copy = vec![T::zeroed(); data.bytes() / size_of::<T>()];
    bytemuck::cast_slice_mut(&mut copy).copy_from_slice(&data.packed());
    copy
}

type Ranges = Vec<Range<usize>>;

/// Blocks of all ranks, which lie in the program's memory without gaps, or in a copy.
///
/// # Safety
/// As for [`Collective::begin`].
unsafe fn blocks(kept: &[Kept]) -> At<Elements<u8>, Ranges> {
    let Placed { memory, ranges } = Placed::of(kept.iter().map(Kept::data));
    let bytes = match memory {
        Some((first, bytes)) => {
            let first = with_exposed_provenance_mut(first);
            // SAFETY: the blocks fill this memory, and the caller says the rest.
            Elements::Memory(unsafe { RawBuffer::new(first, bytes) })
        }
        None => Elements::Copy(vec![0; ranges.last().map_or(0, |range| range.end)]),
    };
    At(bytes, ranges)
}

/// Copies a block from the program's memory, if the operation uses a copy.
fn load(At(bytes, ranges): &mut At<Elements<u8>, Ranges>, block: usize, kept: &[Kept]) {
    if let Elements::Copy(copy) = bytes {
        copy[ranges[block].clone()].copy_from_slice(&kept[block].data().packed());
    }
}

/// Returns blocks with their data.
///
/// # Safety
/// As for [`Collective::begin`].
unsafe fn loaded(kept: &[Kept]) -> At<Elements<u8>, Ranges> {
    // SAFETY: the caller says so.
    let mut all = unsafe { blocks(kept) };
    (0..kept.len()).for_each(|block| load(&mut all, block, kept));
    all
}

/// Copies all blocks to the program's memory, if the operation has used a copy.
fn store(At(bytes, ranges): &At<Elements<u8>, Ranges>, kept: &[Kept]) {
    if let Elements::Copy(copy) = bytes {
        for (kept, range) in kept.iter().zip(ranges) {
            kept.data().unpack(&copy[range.clone()]);
        }
    }
}

/// No blocks, as ranks have that are not the root.
fn none() -> At<Elements<u8>, Ranges> {
    At(Elements::Copy(Vec::new()), Ranges::new())
}

/// Returns blocks of this length for each rank, one after the other.
fn equal(bytes: usize, ranks: usize) -> At<Vec<u8>, Ranges> {
    let ranges = (0..ranks).map(|rank| rank * bytes..(rank + 1) * bytes).collect();
    At(vec![0; ranks * bytes], ranges)
}

/// One of Onchip's own operations, and what is done with its buffers at the end.
struct One<B, F> {
    request: CollectiveRequest<B>,
    then: F,
}

impl<B: Send + 'static, F: FnOnce(B)> Going for One<B, F> {
    fn pending(&mut self) -> Option<&mut dyn Pending> {
        match self.request.under_way().is_some() {
            true => Some(&mut self.request),
            false => None,
        }
    }

    fn finish(self: Box<Self>) -> Completed {
        match self.request.wait() {
            Ok(buffers) => {
                (self.then)(buffers);
                Completed::EMPTY
            }
            Err(failed) => Completed::failed(failed.error.into()),
        }
    }
}

fn one<B: Send + 'static>(
    request: CollectiveRequest<B>,
    then: impl FnOnce(B) + 'static,
) -> Box<dyn Going> {
    Box::new(One { request, then })
}

impl Collective {
    /// Begins the operation. Returns `None` if this rank has nothing to do.
    ///
    /// # Safety
    /// Until the operation is done, the data that it sends can be read, and nobody writes to that. The places for what it
    /// receives can be written to, and nobody else uses them.
    pub unsafe fn begin(&self, comm: &Comm) -> Result<Option<Box<dyn Going>>> {
        let (me, ranks) = (comm.rank as usize, comm.size as usize);
        let all_ranks = || comm.communicator.nonblocking();
        // SAFETY: in this and the other blocks of the function: the caller says so.
        Ok(Some(match self {
            Self::Neighbours { sent, received } => {
                // SAFETY: see above.
                unsafe { neighbours::begin(comm, sent, received)? }
            }
            Self::ReduceAcross { vector, sent, from, bytes, range, result } => {
                let mut vectors = vec![0u8; from.len() * bytes];
                let block = |(place, from): (usize, &Neighbour)| {
                    let place = vectors.as_mut_ptr().wrapping_add(place * bytes).cast_const();
                    // SAFETY: the vector is there as long as the exchange, and only that uses it.
                    let block = unsafe { Kept::new(place.cast(), *bytes as Count, MPI_BYTE)? };
                    Ok((*from, block))
                };
                let received = from.iter().enumerate().map(block).collect::<Result<Vec<_>>>()?;
                // SAFETY: see above.
                let exchange = unsafe { neighbours::begin(comm, sent, &received)? };
                let (combined, result) = (Rc::clone(vector), result.clone());
                let (bytes, range) = (*bytes, range.clone());
                Box::new(Combining { exchange, vectors, bytes, range, combined, result })
            }
            Self::Barrier => one(all_ranks()?.barrier(), |()| ()),
            Self::Broadcast { data, root } => {
                let (data, root) = (data.clone(), *root);
                // SAFETY: see above.
                let bytes = unsafe {
                    match me == root {
                        true => Elements::<u8>::load(&data),
                        false => Elements::room(&data),
                    }
                };
                one(all_ranks()?.broadcast(bytes, root), move |bytes| {
                    if me != root {
                        bytes.store(&data);
                    }
                })
            }
            Self::Gather { own, all, root } => {
                let Some(all) = all.clone() else {
                    let own = own.as_ref().map_or_else(Vec::new, copy_of::<u8>);
                    return Ok(Some(one(all_ranks()?.gather(own, none(), *root), |_| ())));
                };
                // SAFETY: see above.
                let mut place = unsafe { blocks(&all) };
                match own {
                    Some(own) => {
                        // SAFETY: see above.
                        let own = unsafe { Elements::<u8>::load(own) };
                        let request = all_ranks()?.gather(own, place, *root);
                        one(request, move |(_, place)| store(&place, &all))
                    }
                    None => {
                        load(&mut place, me, &all);
                        let request = all_ranks()?.gather(InPlace, place, *root);
                        one(request, move |(_, place)| store(&place, &all))
                    }
                }
            }
            Self::Scatter { all, own, root } => {
                // SAFETY: see above.
                let sent = all.as_ref().map_or_else(none, |all| unsafe { loaded(all) });
                match own.clone() {
                    Some(own) => {
                        // SAFETY: see above.
                        let place = unsafe { Elements::<u8>::room(&own) };
                        let request = all_ranks()?.scatter(sent, place, *root);
                        one(request, move |(_, place)| place.store(&own))
                    }
                    None => {
                        // The own block stays where it is.
                        let spare = vec![0u8; sent.1[me].len()];
                        one(all_ranks()?.scatter(sent, spare, *root), |_| ())
                    }
                }
            }
            Self::AllGather { own, all } => {
                let all = all.clone();
                // SAFETY: see above.
                let mut place = unsafe { blocks(&all) };
                match own {
                    Some(own) => {
                        // SAFETY: see above.
                        let own = unsafe { Elements::<u8>::load(own) };
                        let request = all_ranks()?.all_gather(own, place);
                        one(request, move |(_, place)| store(&place, &all))
                    }
                    None => {
                        load(&mut place, me, &all);
                        let request = all_ranks()?.all_gather(InPlace, place);
                        one(request, move |(_, place)| store(&place, &all))
                    }
                }
            }
            Self::AllToAll { sent, received } => {
                let received = received.clone();
                match sent {
                    Some(sent) => {
                        // SAFETY: see above.
                        let (sent, place) = unsafe { (loaded(sent), blocks(&received)) };
                        let request = all_ranks()?.all_to_all(sent, place);
                        one(request, move |(_, place)| store(&place, &received))
                    }
                    None => {
                        // SAFETY: see above.
                        let place = unsafe { loaded(&received) };
                        let request = all_ranks()?.all_to_all(InPlace, place);
                        one(request, move |(_, place)| store(&place, &received))
                    }
                }
            }
            Self::Reduce { vector, own, result, root } => {
                let bytes = own.data().bytes();
                if bytes == 0 {
                    return Ok(None);
                }
                let call = Reduce { own, result: result.as_ref(), root: Some(*root) };
                if let Some(request) = vector.typed(comm, call)? {
                    return Ok(Some(request));
                }
                let own = copy_of::<u8>(own);
                let Some(result) = result.clone() else {
                    return Ok(Some(one(all_ranks()?.gather(own, none(), *root), |_| ())));
                };
                let vector = Rc::clone(vector);
                one(all_ranks()?.gather(own, equal(bytes, ranks), *root), move |(_, all)| {
                    vector.store(&all.0, &result);
                })
            }
            Self::AllReduce { vector, own, result } => {
                let bytes = own.data().bytes();
                if bytes == 0 {
                    return Ok(None);
                }
                let call = Reduce { own, result: Some(result), root: None };
                if let Some(request) = vector.typed(comm, call)? {
                    return Ok(Some(request));
                }
                return gather_vectors(comm, vector, own, result, 0..ranks * bytes).map(Some);
            }
            Self::Scan { vector, own, result, is_exclusive } => {
                let bytes = own.data().bytes();
                if bytes == 0 {
                    return Ok(None);
                }
                let combined = if *is_exclusive { me } else { me + 1 };
                return gather_vectors(comm, vector, own, result, 0..combined * bytes).map(Some);
            }
            Self::ReduceScatter { vector, blocks, result } => {
                if blocks.iter().all(|block| block.data().bytes() == 0) {
                    return Ok(None);
                }
                // SAFETY: see above.
                let sent = unsafe { loaded(blocks) };
                let (vector, result) = (Rc::clone(vector), result.clone());
                let request = all_ranks()?.all_to_all(sent, equal(result.data().bytes(), ranks));
                one(request, move |(_, all)| vector.store(&all.0, &result))
            }
        }))
    }
}

/// Begins to give each rank the vectors of all, of which it combines those in `range`.
fn gather_vectors(
    comm: &Comm,
    vector: &Rc<Combined>,
    own: &Kept,
    result: &Kept,
    range: Range<usize>,
) -> Result<Box<dyn Going>> {
    let (vector, result) = (Rc::clone(vector), result.clone());
    let all = equal(own.data().bytes(), comm.size as usize);
    let request = comm.communicator.nonblocking()?.all_gather(copy_of::<u8>(own), all);
    Ok(one(request, move |(_, all)| vector.store(&all.0[range], &result)))
}

/// A reduction, to a root or to all.
struct Reduce<'a> {
    own: &'a Kept,
    result: Option<&'a Kept>,
    root: Option<usize>,
}

impl Reduce<'_> {
    fn begin<T: Element>(
        self,
        comm: &Comm,
        operation: impl reduce::Operation<T> + Send + Sync + 'static,
    ) -> Result<Box<dyn Going>> {
        let mut all_ranks = comm.communicator.nonblocking()?;
        let result = self.result.cloned();
        let elements = match &result {
            Some(result) => {
                if !result.is_at(self.own) {
                    result.data().copy_from(self.own.data());
                }
                // SAFETY: the caller of `Collective::begin` says so.
                unsafe { Elements::<T>::load(result) }
            }
            // The vector of a rank that is not the root may change.
            None => Elements::Copy(copy_of(self.own)),
        };
        let request = match self.root {
            Some(root) => all_ranks.reduce(elements, operation, root),
            None => all_ranks.all_reduce(elements, operation),
        };
        Ok(one(request, move |elements| {
            if let Some(result) = result {
                elements.store(&result);
            }
        }))
    }

    fn with_rule<T>(self, comm: &Comm, number: usize) -> Result<Option<Box<dyn Going>>>
    where
        T: Element,
        Sum: Rule<T>,
        Product: Rule<T>,
        Min: Rule<T>,
        Max: Rule<T>,
    {
        Ok(Some(match number {
            op::SUM => self.begin(comm, Sum)?,
            op::PROD => self.begin(comm, Product)?,
            op::MIN => self.begin(comm, Min)?,
            _ => self.begin(comm, Max)?,
        }))
    }
}

impl Combined {
    /// Begins an own reduction of Onchip, if there is one for this operation and type. All ranks come to the same answer.
    fn typed(&self, comm: &Comm, call: Reduce<'_>) -> Result<Option<Box<dyn Going>>> {
        let Op::Predefined(number @ (op::SUM | op::PROD | op::MIN | op::MAX)) = self.op else {
            return Ok(None);
        };
        match self.kind {
            Kind::I32 => call.with_rule::<i32>(comm, number),
            Kind::I64 => call.with_rule::<i64>(comm, number),
            Kind::F32 => call.with_rule::<f32>(comm, number),
            Kind::F64 => call.with_rule::<f64>(comm, number),
            _ => Ok(None),
        }
    }
}
