//! Collective operations that go on while the program does something else.
//!
//! An operation keeps what the program has given to the call, so that it can begin any number of times. What moves
//! bytes, and the common reductions of numbers, are Onchip's own nonblocking operations. Any other reduction moves the
//! ranks' vectors, and combines them in the order of ranks when all that a rank needs is there.

use std::{ops::Range, ptr::with_exposed_provenance_mut, rc::Rc};

use mp_collectives::{
    collectives::{AllBlocks, AllBlocksMut, At, InPlace, SentBlocks, packed},
    exchange::Blocks,
    nonblocking::{CollectiveRequest, Element, Nonblocking},
    reduce,
};
use mp_core::{Call, Pending, Plain, requests::RawBuffer};

use crate::{
    blocks::{KeptBlocks, Placed},
    comm::Comm,
    completed::Completed,
    constants::MPI_BYTE,
    datatype::{Kind, data::Kept, vector::Vector},
    error::Error,
    going::Going,
    neighbours,
    op::{self, Combine, Max, Min, Op, Product, Rule, Sum},
    order::Order,
    topology::Neighbour,
    types::{Count, Handle},
};

type Result<T> = std::result::Result<T, Error>;

/// A collective operation with what the program has given for it.
pub(crate) enum Collective {
    /// Is done: no rank has any elements.
    Nothing,
    Barrier,
    Broadcast {
        data: Kept,
        root: usize,
    },
    /// The root has the blocks of all, and its own among them if it has no other. Other ranks have no blocks.
    Gather {
        own: Option<Kept>,
        all: KeptBlocks,
        root: usize,
    },
    Scatter {
        all: KeptBlocks,
        own: Option<Kept>,
        root: usize,
    },
    AllGather {
        own: Option<Kept>,
        all: KeptBlocks,
    },
    AllToAll {
        sent: Option<KeptBlocks>,
        received: KeptBlocks,
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
        blocks: KeptBlocks,
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

    /// Describes the reduction of vectors of this many bytes, for ranks that compare their calls.
    fn call(&self, name: &'static str, bytes: usize) -> Call {
        Call::new(name).elements::<u8>(bytes).operation(self.op.name())
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

/// Blocks of all ranks, which lie in the program's memory without gaps, or in a copy. They are equally long, one after
/// the other, or at ranges.
struct Placement<T> {
    elements: Elements<T>,
    ranges: Option<Ranges>,
}

type Bytes = Placement<u8>;

impl<T: Plain> Placement<T> {
    fn blocks(&self) -> Blocks<'_> {
        self.ranges.as_deref().map_or(Blocks::Equal, Blocks::At)
    }

    /// Returns room for all blocks.
    ///
    /// # Safety
    /// As for [`Collective::begin`].
    unsafe fn room(kept: &KeptBlocks) -> Self {
        let each = match kept {
            KeptBlocks::Equal { all, .. } => {
                // SAFETY: the caller says so.
                return Self { elements: unsafe { Elements::room(all) }, ranges: None };
            }
            KeptBlocks::Each(each) => each,
        };
        let Placed { memory, mut ranges } = Placed::of(each.iter().map(Kept::data));
        let size = size_of::<T>();
        if size > 1 {
            ranges.iter_mut().for_each(|range| *range = range.start / size..range.end / size);
        }
        let memory = memory.map(|(first, bytes)| (with_exposed_provenance_mut::<T>(first), bytes));
        let elements = match memory {
            Some((first, bytes)) if first.is_aligned() => {
                // SAFETY: the blocks fill this memory, and the caller says the rest.
                Elements::Memory(unsafe { RawBuffer::new(first, bytes / size) })
            }
            _ => Elements::Copy(no_elements(&ranges)),
        };
        Self { elements, ranges: Some(ranges) }
    }

    /// Returns a copy of all blocks' data.
    fn copied(kept: &KeptBlocks) -> Self {
        let size = size_of::<T>();
        let ranges = packed(kept.iter().map(|block| block.bytes() / size));
        let elements = Elements::Copy(no_elements(&ranges));
        let mut all = Self { elements, ranges: Some(ranges) };
        (0..kept.count()).for_each(|block| all.load(block, kept));
        all
    }

    /// Returns all blocks with their data.
    ///
    /// # Safety
    /// As for [`Collective::begin`].
    unsafe fn loaded(kept: &KeptBlocks) -> Self {
        // SAFETY: the caller says so.
        let mut all = unsafe { Self::room(kept) };
        if let Elements::Copy(copy) = &all.elements
            && !copy.is_empty()
        {
            (0..kept.count()).for_each(|block| all.load(block, kept));
        }
        all
    }

    /// Copies a block from the program's memory, if the operation uses a copy.
    fn load(&mut self, block: usize, kept: &KeptBlocks) {
        if let Elements::Copy(copy) = &mut self.elements {
            let copy: &mut [u8] = bytemuck::cast_slice_mut(copy);
            let bytes = kept.block(block).packed();
            let start = match &self.ranges {
                None => block * bytes.len(),
                Some(ranges) => ranges[block].start * size_of::<T>(),
            };
            copy[start..][..bytes.len()].copy_from_slice(&bytes);
        }
    }

    /// Copies all blocks to the program's memory, if the operation has used a copy.
    fn store(&self, kept: &KeptBlocks) {
        match kept {
            KeptBlocks::Equal { all, .. } => self.elements.store(all),
            KeptBlocks::Each(each) => {
                if let (Elements::Copy(copy), Some(ranges)) = (&self.elements, &self.ranges) {
                    for (kept, range) in each.iter().zip(ranges) {
                        kept.data().unpack(bytemuck::cast_slice(&copy[range.clone()]));
                    }
                }
            }
        }
    }
}

impl<T: Plain> AllBlocks<T> for Placement<T> {
    fn all_blocks(&self) -> (&[T], Blocks<'_>) {
        (self.elements.as_ref(), self.blocks())
    }
}

impl<T: Plain> AllBlocksMut<T> for Placement<T> {
    fn all_blocks_mut(&mut self) -> (&mut [T], Blocks<'_>) {
        let blocks = self.ranges.as_deref().map_or(Blocks::Equal, Blocks::At);
        (self.elements.as_mut(), blocks)
    }
}

impl<T: Plain> SentBlocks<T> for Placement<T> {
    fn sent_blocks(&self) -> Option<(&[T], Blocks<'_>)> {
        Some(self.all_blocks())
    }
}

/// Returns room for the elements in these ranges, which begin at 0, one after the other.
fn no_elements<T: Plain>(ranges: &[Range<usize>]) -> Vec<T> {
    vec![T::zeroed(); ranges.last().map_or(0, |range| range.end)]
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
        match self.request.is_done() {
            true => None,
            false => Some(&mut self.request),
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

/// Returns what is left of one of Onchip's own operations: nothing if it is done.
fn one<B: Send + 'static>(
    request: CollectiveRequest<B>,
    then: impl FnOnce(B) + 'static,
) -> Option<Box<dyn Going>> {
    if !request.is_done() {
        return Some(Box::new(One { request, then }));
    }
    match request.wait() {
        Ok(buffers) => {
            then(buffers);
            None
        }
        Err(failed) => Some(Box::new(Completed::failed(failed.error.into()))),
    }
}

impl Collective {
    /// Returns the number of bytes in this rank's part, if all ranks have as many or none has any.
    fn bytes(&self) -> Option<usize> {
        let of = |own: &Option<Kept>, all: &KeptBlocks| match all {
            KeptBlocks::Equal { all, .. } => {
                Some(own.as_ref().map_or(all.data().bytes(), |own| own.data().bytes()))
            }
            KeptBlocks::Each(_) => None,
        };
        match self {
            Self::Broadcast { data, .. } => Some(data.data().bytes()),
            Self::Gather { own, all, .. } | Self::Scatter { all, own, .. } => of(own, all),
            Self::AllGather { all, .. } => Some(all.bytes()),
            Self::AllToAll { received: all, .. } => of(&None, all),
            _ => None,
        }
    }

    /// Begins the operation. Returns `None` if this rank's part in it is done.
    ///
    /// # Safety
    /// Until the operation is done, the data that it sends can be read, and nobody writes to that. The places for what it
    /// receives can be written to, and nobody else uses them.
    pub unsafe fn begin(&self, comm: &Comm, order: Order) -> Result<Option<Box<dyn Going>>> {
        let (me, ranks) = (comm.rank as usize, comm.size as usize);
        if let Some(bytes) = self.bytes()
            && comm.is_empty(bytes)?
        {
            return Ok(None);
        }
        let all_ranks = || order.operations(&comm.communicator);
        // SAFETY: in this and the other blocks of the function: the caller says so.
        Ok(match self {
            Self::Neighbours { sent, received } => {
                // SAFETY: see above.
                Some(unsafe { neighbours::begin((comm, order), sent, received)? })
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
                let exchange = unsafe { neighbours::begin((comm, order), sent, &received)? };
                let (combined, result) = (Rc::clone(vector), result.clone());
                let (bytes, range) = (*bytes, range.clone());
                Some(Box::new(Combining { exchange, vectors, bytes, range, combined, result }))
            }
            Self::Nothing => None,
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
                let all = all.clone();
                // SAFETY: see above.
                let mut place = unsafe { Bytes::room(&all) };
                match own {
                    Some(own) => {
                        // SAFETY: see above.
                        let own = unsafe { Elements::<u8>::load(own) };
                        let request = all_ranks()?.gather(own, place, *root);
                        one(request, move |(_, place)| place.store(&all))
                    }
                    None => {
                        place.load(me, &all);
                        let request = all_ranks()?.gather(InPlace, place, *root);
                        one(request, move |(_, place)| place.store(&all))
                    }
                }
            }
            Self::Scatter { all, own, root } => {
                // SAFETY: see above.
                let sent = unsafe { Bytes::loaded(all) };
                match own.clone() {
                    Some(own) => {
                        // SAFETY: see above.
                        let place = unsafe { Elements::<u8>::room(&own) };
                        let request = all_ranks()?.scatter(sent, place, *root);
                        one(request, move |(_, place)| place.store(&own))
                    }
                    None => {
                        // The own block stays where it is.
                        let spare = vec![0u8; all.block(me).bytes()];
                        one(all_ranks()?.scatter(sent, spare, *root), |_| ())
                    }
                }
            }
            Self::AllGather { own, all } => {
                let all = all.clone();
                // SAFETY: see above.
                let mut place = unsafe { Bytes::room(&all) };
                match own {
                    Some(own) => {
                        // SAFETY: see above.
                        let own = unsafe { Elements::<u8>::load(own) };
                        let request = all_ranks()?.all_gather(own, place);
                        one(request, move |(_, place)| place.store(&all))
                    }
                    None => {
                        place.load(me, &all);
                        let request = all_ranks()?.all_gather(InPlace, place);
                        one(request, move |(_, place)| place.store(&all))
                    }
                }
            }
            Self::AllToAll { sent, received } => {
                let received = received.clone();
                match sent {
                    Some(sent) => {
                        // SAFETY: see above.
                        let (sent, place) =
                            unsafe { (Bytes::loaded(sent), Bytes::room(&received)) };
                        let request = all_ranks()?.all_to_all(sent, place);
                        one(request, move |(_, place)| place.store(&received))
                    }
                    None => {
                        // SAFETY: see above.
                        let place = unsafe { Bytes::loaded(&received) };
                        let request = all_ranks()?.all_to_all(InPlace, place);
                        one(request, move |(_, place)| place.store(&received))
                    }
                }
            }
            Self::Reduce { vector, own, result, root } => {
                let bytes = own.data().bytes();
                if bytes == 0 {
                    return Ok(None);
                }
                let call = Reduce { own, result: result.as_ref(), root: Some(*root) };
                if let Some(begun) = vector.typed(&mut *all_ranks()?, call)? {
                    return Ok(begun);
                }
                let own = copy_of::<u8>(own);
                let mut all_ranks = all_ranks()?;
                let all_ranks =
                    all_ranks.called(|| vector.call("nonblocking reduce", bytes).root(*root));
                let Some(result) = result.clone() else {
                    return Ok(one(all_ranks.gather(own, equal(0, ranks), *root), |_| ()));
                };
                let vector = Rc::clone(vector);
                one(all_ranks.gather(own, equal(bytes, ranks), *root), move |(_, all)| {
                    vector.store(&all.0, &result);
                })
            }
            Self::AllReduce { vector, own, result } => {
                let bytes = own.data().bytes();
                if bytes == 0 {
                    return Ok(None);
                }
                let call = Reduce { own, result: Some(result), root: None };
                if let Some(begun) = vector.typed(&mut *all_ranks()?, call)? {
                    return Ok(begun);
                }
                let all = 0..ranks * bytes;
                let mut all_ranks = all_ranks()?;
                let all_ranks = all_ranks.called(|| vector.call("nonblocking all_reduce", bytes));
                return gather_vectors((all_ranks, ranks), vector, own, result, all);
            }
            Self::Scan { vector, own, result, is_exclusive } => {
                let bytes = own.data().bytes();
                if bytes == 0 {
                    return Ok(None);
                }
                let combined = if *is_exclusive { me } else { me + 1 };
                let below = 0..combined * bytes;
                let name = match is_exclusive {
                    true => "nonblocking exclusive_scan",
                    false => "nonblocking scan",
                };
                let mut all_ranks = all_ranks()?;
                let all_ranks = all_ranks.called(|| vector.call(name, bytes));
                return gather_vectors((all_ranks, ranks), vector, own, result, below);
            }
            Self::ReduceScatter { vector, blocks, result } => {
                if blocks.bytes() == 0 {
                    return Ok(None);
                }
                if let Some(begun) =
                    vector.typed(&mut *all_ranks()?, ReduceScatter { blocks, result })?
                {
                    return Ok(begun);
                }
                // SAFETY: see above.
                let sent = unsafe { Bytes::loaded(blocks) };
                let (vector, result) = (Rc::clone(vector), result.clone());
                let lengths: Vec<_> = blocks.iter().map(|block| block.bytes()).collect();
                let mut all_ranks = all_ranks()?;
                let all_ranks = all_ranks.called(|| {
                    vector
                        .call("nonblocking reduce_scatter", blocks.bytes())
                        .settings(format!("blocks of {lengths:?} bytes"))
                });
                let request = all_ranks.all_to_all(sent, equal(result.data().bytes(), ranks));
                one(request, move |(_, all)| vector.store(&all.0, &result))
            }
        })
    }
}

/// Begins to give each rank the vectors of all, of which it combines those in `range`.
fn gather_vectors(
    (all_ranks, ranks): (&mut Nonblocking, usize),
    vector: &Rc<Combined>,
    own: &Kept,
    result: &Kept,
    range: Range<usize>,
) -> Result<Option<Box<dyn Going>>> {
    let (vector, result) = (Rc::clone(vector), result.clone());
    let all = equal(own.data().bytes(), ranks);
    let request = all_ranks.all_gather(copy_of::<u8>(own), all);
    Ok(one(request, move |(_, all)| vector.store(&all.0[range], &result)))
}

/// One of Onchip's own reductions.
trait Typed: Sized {
    /// Begins it, and returns what is left of it. The caller promises what [`Collective::begin`] asks for.
    fn begin<T: Element>(
        self,
        all_ranks: &mut Nonblocking,
        operation: impl reduce::Operation<T> + Send + Sync + 'static,
    ) -> Result<Option<Box<dyn Going>>>;
}

/// A reduction, to a root or to all.
struct Reduce<'a> {
    own: &'a Kept,
    result: Option<&'a Kept>,
    root: Option<usize>,
}

impl Typed for Reduce<'_> {
    fn begin<T: Element>(
        self,
        all_ranks: &mut Nonblocking,
        operation: impl reduce::Operation<T> + Send + Sync + 'static,
    ) -> Result<Option<Box<dyn Going>>> {
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
}

/// A reduction of a block for each rank. In place, the blocks begin where the result goes.
struct ReduceScatter<'a> {
    blocks: &'a KeptBlocks,
    result: &'a Kept,
}

impl Typed for ReduceScatter<'_> {
    fn begin<T: Element>(
        self,
        all_ranks: &mut Nonblocking,
        operation: impl reduce::Operation<T> + Send + Sync + 'static,
    ) -> Result<Option<Box<dyn Going>>> {
        let Self { blocks, result } = self;
        let is_in_place = blocks.block(0).pointer() == result.data().pointer();
        // SAFETY: the caller of `Collective::begin` says so. In place, the operation has only the result.
        let (vector, place) = unsafe {
            let vector = match is_in_place {
                true => Placement::<T>::copied(blocks),
                false => Placement::loaded(blocks),
            };
            (vector, Elements::<T>::room(result))
        };
        let request = all_ranks.reduce_scatter(vector, place, operation);
        let result = result.clone();
        Ok(one(request, move |(_, place)| place.store(&result)))
    }
}

/// Begins a reduction with one of the common operations on numbers.
fn with_rule<T>(
    all_ranks: &mut Nonblocking,
    number: usize,
    call: impl Typed,
) -> Result<Option<Box<dyn Going>>>
where
    T: Element,
    Sum: Rule<T>,
    Product: Rule<T>,
    Min: Rule<T>,
    Max: Rule<T>,
{
    match number {
        op::SUM => call.begin(all_ranks, Sum),
        op::PROD => call.begin(all_ranks, Product),
        op::MIN => call.begin(all_ranks, Min),
        _ => call.begin(all_ranks, Max),
    }
}

impl Combined {
    /// Begins an own reduction of Onchip, if there is one for this operation and type, and returns what is left of it. All
    /// ranks come to the same answer.
    fn typed(
        &self,
        all_ranks: &mut Nonblocking,
        call: impl Typed,
    ) -> Result<Option<Option<Box<dyn Going>>>> {
        let Op::Predefined(number @ (op::SUM | op::PROD | op::MIN | op::MAX)) = self.op else {
            return Ok(None);
        };
        match self.kind {
            Kind::I32 => with_rule::<i32>(all_ranks, number, call).map(Some),
            Kind::I64 => with_rule::<i64>(all_ranks, number, call).map(Some),
            Kind::F32 => with_rule::<f32>(all_ranks, number, call).map(Some),
            Kind::F64 => with_rule::<f64>(all_ranks, number, call).map(Some),
            _ => Ok(None),
        }
    }
}
