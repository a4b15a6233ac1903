//! Reductions, which combine elements in the order of ranks.
//!
//! | elements | by |
//! |---|---|
//! | numbers, with the predefined operations, but for products of short integers | Onchip's own reductions |
//! | a few of any other type of 1, 2, 4, 8 or 16 bytes without gaps | the same, with a call of the operation for each element |
//! | all others | messages up a tree, with a call of the operation for each vector |
//! | blocks of the result of these | all-to-all messages, and each rank combines its own block |

use std::ffi::c_int;

use mp_collectives::{
    collectives::{At, InPlace, packed},
    reduce::Operation,
};
use mp_core::{Call, Plain};

use crate::{
    comm::Comm,
    datatype::{Kind, data::Data, vector::Vector},
    error::Error,
    op::{self, And, BitAnd, BitOr, BitXor, Combine, Max, Min, Op, Or, Product, Sum, Xor},
    types::Handle,
};

type Result<T> = std::result::Result<T, Error>;

/// The tag of the messages of reductions, which are apart from those of the program.
const TAG: u32 = 0x4d50;

/// A reduction of vectors of one type.
pub(crate) struct Reduction<'a> {
    comm: &'a Comm,
    op: Op,
    combine: Combine,
    kind: Kind,
}

/// The most elements for each of which the operation is called. A call takes about as long as combining a few elements
/// in a loop, so that longer vectors gain more by a loop than they lose by the tree.
const FEW: usize = 64;

/// One of Onchip's own reductions.
trait Typed {
    /// Combines the elements in `own`, or else those in the place for the result.
    fn run<T: Plain>(
        self,
        own: Option<&[T]>,
        result: &mut [T],
        operation: impl Operation<T>,
    ) -> mp_core::Result<()>;
}

struct AllReduce<'a>(&'a Comm);

impl Typed for AllReduce<'_> {
    fn run<T: Plain>(
        self,
        own: Option<&[T]>,
        result: &mut [T],
        operation: impl Operation<T>,
    ) -> mp_core::Result<()> {
        let communicator = &self.0.communicator;
        match own {
            Some(own) => communicator.all_reduce_from(own, result, operation),
            None => communicator.all_reduce(result, operation),
        }
    }
}

struct Reduce<'a>(&'a Comm, usize);

impl Typed for Reduce<'_> {
    fn run<T: Plain>(
        self,
        own: Option<&[T]>,
        result: &mut [T],
        operation: impl Operation<T>,
    ) -> mp_core::Result<()> {
        let Reduce(Comm { communicator, .. }, root) = self;
        match own {
            Some(own) => communicator.reduce_from(own, result, operation, root),
            None => communicator.reduce(result, operation, root),
        }
    }
}

/// Has the numbers of elements in the blocks, and of bytes in each element.
struct ReduceScatter<'a>(&'a Comm, Counts<'a>, usize);

impl Typed for ReduceScatter<'_> {
    /// In place, moves the rank's block to the front.
    fn run<T: Plain>(
        self,
        own: Option<&[T]>,
        result: &mut [T],
        operation: impl Operation<T>,
    ) -> mp_core::Result<()> {
        let ReduceScatter(Comm { communicator, rank, size, .. }, counts, bytes) = self;
        let rank = *rank as usize;
        let ranges = match counts {
            Counts::Equal(_) => None,
            // An element may be combined as several of `T`.
            Counts::Each(counts) => {
                let each = bytes / size_of::<T>();
                Some(packed(counts.iter().map(|count| count * each)))
            }
        };
        let block = match (own, ranges) {
            (Some(own), None) => return communicator.reduce_scatter(own, result, operation),
            (Some(own), Some(ranges)) => {
                return communicator.reduce_scatter(At(own, ranges), result, operation);
            }
            (None, None) => {
                communicator.reduce_scatter(&mut *result, InPlace, operation)?;
                let each = result.len() / *size as usize;
                each * rank..each * (rank + 1)
            }
            (None, Some(ranges)) => {
                communicator.reduce_scatter(At(&mut *result, &ranges), InPlace, operation)?;
                ranges[rank].clone()
            }
        };
        result.copy_within(block, 0);
        Ok(())
    }
}

/// The numbers of elements in the blocks of all ranks.
#[derive(Clone, Copy)]
pub(crate) enum Counts<'a> {
    Equal(usize),
    Each(&'a [usize]),
}

impl Counts<'_> {
    pub fn get(self, rank: usize) -> usize {
        match self {
            Self::Equal(count) => count,
            Self::Each(counts) => counts[rank],
        }
    }
}

impl<'a> Reduction<'a> {
    /// Names a reduction of `count` elements like those of `data`.
    ///
    /// # Safety
    /// The handles are one of an operation, and the one of the type of `data`.
    pub unsafe fn new(
        comm: &'a Comm,
        op: Handle,
        data: Data<'_>,
        count: usize,
        datatype: Handle,
    ) -> Result<Self> {
        // SAFETY: the caller says so.
        let op = unsafe { Op::keep(op)? };
        let combine = op.on(data.datatype(), datatype)?;
        combine.check(count)?;
        Ok(Self { comm, op, combine, kind: data.datatype().kind })
    }

    /// Combines the vectors of all ranks, which get the result. This rank's vector is there, or in `own`.
    pub fn all_reduce(&self, own: Option<Data<'_>>, vector: Data<'_>) -> Result<()> {
        if self.comm.size > 1 && self.typed(own, Some(vector), AllReduce(self.comm))? {
            return Ok(());
        }
        self.compare("all_reduce", vector, None)?;
        begin(own, vector);
        if self.comm.size > 1 {
            self.to_first(vector)?;
            self.broadcast(vector)?;
        }
        Ok(())
    }

    /// Combines the vectors of all ranks at the root, which calls this. Its vector is in the place for the result, or in
    /// `own`.
    pub fn reduce(&self, own: Option<Data<'_>>, vector: Data<'_>, root: usize) -> Result<()> {
        if self.comm.size > 1 && self.typed(own, Some(vector), Reduce(self.comm, root))? {
            return Ok(());
        }
        self.compare("reduce", vector, Some(root))?;
        begin(own, vector);
        if self.comm.size > 1 {
            self.to_first(vector)?;
            if root > 0 {
                self.receive(vector, 0)?;
            }
        }
        Ok(())
    }

    /// Does what the ranks other than the root do in a [`reduce`](Self::reduce).
    pub fn reduce_at(&self, own: Data<'_>, root: usize) -> Result<()> {
        if self.typed(Some(own), None, Reduce(self.comm, root))? {
            return Ok(());
        }
        self.compare("reduce", own, Some(root))?;
        let mut vector = Vector::copy_of(own);
        self.to_first(vector.data())?;
        if self.comm.rank == 0 { self.send(vector.data(), root) } else { Ok(()) }
    }

    /// Combines each rank's vector, which is in the place for the result or in `own`, with those of the ranks below it.
    pub fn scan(&self, own: Option<Data<'_>>, vector: Data<'_>) -> Result<()> {
        self.compare("scan", vector, None)?;
        begin(own, vector);
        let (me, size) = self.place();
        if me > 0 {
            let mut below = Vector::new(vector.count(), vector.datatype());
            self.receive(below.data(), me - 1)?;
            self.apply(below.data(), vector);
        }
        if me + 1 < size { self.send(vector, me + 1) } else { Ok(()) }
    }

    /// Combines the vectors of the ranks below each rank. Each rank's vector is in the place for the result or in `own`.
    /// That of rank 0 stays there.
    pub fn exclusive_scan(&self, own: Option<Data<'_>>, vector: Data<'_>) -> Result<()> {
        self.compare("exclusive_scan", vector, None)?;
        begin(own, vector);
        let (me, size) = self.place();
        if me == 0 {
            return if size > 1 { self.send(vector, 1) } else { Ok(()) };
        }
        let mut mine = Vector::copy_of(vector);
        self.receive(vector, me - 1)?;
        if me + 1 < size {
            self.apply(vector, mine.data());
            self.send(mine.data(), me + 1)?;
        }
        Ok(())
    }

    /// Combines the vectors of all ranks, and gives each rank a block of the result. This rank's vector is in `vector`, or
    /// begins where the result goes.
    pub fn scatter(
        &self,
        vector: Data<'_>,
        counts: Counts<'_>,
        own: Data<'_>,
        is_in_place: bool,
    ) -> Result<()> {
        let call = ReduceScatter(self.comm, counts, vector.datatype().size as usize);
        let (from, to) = if is_in_place { (None, vector) } else { (Some(vector), own) };
        if self.typed(from, Some(to), call)? { Ok(()) } else { self.exchange(vector, counts, own) }
    }

    /// Does what [`scatter`](Self::scatter) does, for all types and operations: each rank gets all vectors' parts of its
    /// block, and combines them itself.
    fn exchange(&self, vector: Data<'_>, counts: Counts<'_>, own: Data<'_>) -> Result<()> {
        let (communicator, size) = (&self.comm.communicator, self.comm.size as usize);
        let bytes = vector.datatype().size as usize;
        let ranges = packed((0..size).map(|rank| counts.get(rank) * bytes));
        let mut parts = Vector::new(own.count() * size, own.datatype());
        let parts = parts.data();
        let ours = packed((0..size).map(|_| own.bytes()));
        let vector = vector.packed();
        // SAFETY: nothing else has the parts.
        unsafe {
            parts.fill(|bytes| {
                communicator.all_to_all(At(&vector[..], &ranges[..]), At(bytes, &ours[..]))
            })?;
        }
        let step = own.datatype().extent * own.count() as i64;
        // SAFETY: these are elements of the vector, which nothing else has.
        let part = |rank: usize| unsafe { parts.part(rank as i64 * step, own.count()) };
        for rank in 1..size {
            self.apply(part(rank - 1), part(rank));
        }
        own.copy_from(part(size - 1));
        Ok(())
    }

    /// Compares this call with those of the other ranks, if they compare their calls. Onchip's own reductions do so
    /// themselves.
    fn compare(&self, name: &'static str, vector: Data<'_>, root: Option<usize>) -> Result<()> {
        let call = || {
            let call = Call::new(name).elements::<u8>(vector.bytes()).operation(self.op.name());
            root.map_or(call.clone(), |root| call.root(root))
        };
        Ok(self.comm.communicator.joint().check_if_set(call)?)
    }

    fn place(&self) -> (usize, usize) {
        (self.comm.rank as usize, self.comm.size as usize)
    }

    /// Calls an own reduction of Onchip, if there is one for this operation and type. All ranks come to the same answer.
    ///
    /// This rank's vector is in `own`, or where the result goes. One of them has the elements of the whole vector, which
    /// are as many at all ranks.
    fn typed(
        &self,
        own: Option<Data<'_>>,
        result: Option<Data<'_>>,
        call: impl Typed,
    ) -> Result<bool> {
        let Some(vector) = own.or(result) else { return Ok(false) };
        // SAFETY: the reduction writes to the place for the result, which nothing else uses during the call.
        let to = unsafe { result.map_or(Some(&mut [][..]), |result| result.plain_mut()) };
        let from = own.map(|own| own.plain());
        let (Some(to), None | Some(Some(_))) = (to, from) else { return Ok(false) };
        let bytes = Bytes { own: from.flatten(), result: to };
        let size = vector.datatype().size;
        // Each arm of a pick returns.
        macro_rules! pick {
            ($by:expr, $rule:ident: $($pattern:pat => $number:ty,)*) => {
                match $by {
                    $($pattern => return by_rule::<$number>(bytes, call, $rule),)*
                    _ => {}
                }
            };
        }
        macro_rules! pick_by_order {
            ($rule:ident) => {
                pick! { self.kind, $rule:
                    Kind::I8 => i8, Kind::I16 => i16, Kind::I32 => i32, Kind::I64 => i64,
                    Kind::U8 => u8, Kind::U16 => u16, Kind::U32 => u32, Kind::U64 => u64,
                    Kind::F32 => f32, Kind::F64 => f64,
                }
            };
        }
        macro_rules! pick_by_size {
            ($rule:ident) => {
                pick! { size, $rule: 1 => u8, 2 => u16, 4 => u32, 8 => u64, }
            };
        }
        match self.op {
            // Sums and products of unsigned integers have the bits of those of signed ones.
            Op::Predefined(op::SUM) => pick! { self.kind, Sum:
                Kind::I8 | Kind::U8 => i8, Kind::I16 | Kind::U16 => i16, Kind::I32 | Kind::U32 => i32,
                Kind::I64 | Kind::U64 => i64, Kind::F32 => f32, Kind::F64 => f64,
            },
            Op::Predefined(op::PROD) => pick! { self.kind, Product:
                Kind::I32 | Kind::U32 => i32, Kind::I64 | Kind::U64 => i64, Kind::F32 => f32,
                Kind::F64 => f64,
            },
            Op::Predefined(op::MIN) => pick_by_order!(Min),
            Op::Predefined(op::MAX) => pick_by_order!(Max),
            // Bits are combined alike in integers of all lengths.
            Op::Predefined(op::BAND) => return by_rule::<u8>(bytes, call, BitAnd),
            Op::Predefined(op::BOR) => return by_rule::<u8>(bytes, call, BitOr),
            Op::Predefined(op::BXOR) => return by_rule::<u8>(bytes, call, BitXor),
            Op::Predefined(op::LAND) => pick_by_size!(And),
            Op::Predefined(op::LOR) => pick_by_size!(Or),
            Op::Predefined(op::LXOR) => pick_by_size!(Xor),
            _ => {}
        }
        if vector.count() > FEW || !vector.datatype().is_dense() {
            return Ok(false);
        }
        match size {
            1 => self.one_by_one::<u8>(bytes, call),
            2 => self.one_by_one::<u16>(bytes, call),
            4 => self.one_by_one::<u32>(bytes, call),
            8 => self.one_by_one::<u64>(bytes, call),
            16 => self.one_by_one::<u128>(bytes, call),
            _ => Ok(false),
        }
    }

    /// Calls an own reduction of Onchip, and the operation for each element. An element is as long as a `T`, which is
    /// aligned for all types of this length.
    fn one_by_one<T: Plain>(&self, bytes: Bytes<'_>, call: impl Typed) -> Result<bool> {
        bytes.with_elements::<T>(|own, result| {
            call.run(own, result, |lower: T, upper: T| {
                let (mut lower, mut upper) = (lower, upper);
                let (first, second) = (&raw mut lower, &raw mut upper);
                // SAFETY: both are an element of the type, in memory that nothing else uses.
                unsafe { self.combine.apply(first.cast(), second.cast(), 1) };
                upper
            })
        })
    }

    /// Combines the vectors of all ranks at rank 0, up a binomial tree. The others' vectors may change.
    fn to_first(&self, vector: Data<'_>) -> Result<()> {
        let (me, size) = self.place();
        let mut spare = Vector::new(vector.count(), vector.datatype());
        // What has been combined so far, and room for what comes from the ranks above.
        let (mut lower, mut upper) = (vector, spare.data());
        let mut distance = 1;
        while distance < size {
            if me & distance != 0 {
                return self.send(lower, me - distance);
            }
            if me + distance < size {
                self.receive(upper, me + distance)?;
                self.apply(lower, upper);
                std::mem::swap(&mut lower, &mut upper);
            }
            distance *= 2;
        }
        if lower.pointer() != vector.pointer() {
            vector.copy_from(lower);
        }
        Ok(())
    }

    /// Combines elements: those of `upper` get the results.
    fn apply(&self, lower: Data<'_>, upper: Data<'_>) {
        // SAFETY: both have as many elements of this type, in memory that this rank uses alone.
        unsafe { self.combine.apply(lower.pointer(), upper.pointer(), lower.count()) };
    }

    fn send(&self, vector: Data<'_>, to: usize) -> Result<()> {
        Ok(self.comm.communicator.joint().send(&vector.packed()[..], to, TAG)?)
    }

    fn receive(&self, vector: Data<'_>, from: usize) -> Result<()> {
        let joint = self.comm.communicator.joint();
        // SAFETY: nothing else uses the vector during the call.
        match unsafe { vector.plain_mut() } {
            Some(plain) => {
                joint.receive_into(plain, from, TAG)?;
            }
            None => {
                let mut packed = vec![0u8; vector.bytes()];
                joint.receive_into(&mut packed, from, TAG)?;
                vector.unpack(&packed);
            }
        }
        Ok(())
    }

    /// Gives all ranks the vector of rank 0.
    fn broadcast(&self, vector: Data<'_>) -> Result<()> {
        broadcast(self.comm, vector, 0)
    }
}

/// Gives all ranks the data of the root.
pub(crate) fn broadcast(comm: &Comm, data: Data<'_>, root: usize) -> Result<()> {
    // SAFETY: nothing else uses the data during the call.
    if let Some(plain) = unsafe { data.plain_mut() } {
        comm.communicator.broadcast(plain, root)?;
        return Ok(());
    }
    let mut packed = Vec::new();
    if comm.rank == root as c_int {
        data.pack(&mut packed);
    } else {
        packed.resize(data.bytes(), 0);
    }
    comm.communicator.broadcast(&mut packed, root)?;
    if comm.rank != root as c_int {
        data.unpack(&packed);
    }
    Ok(())
}

/// Copies this rank's vector to the place for the result, unless it is there already.
fn begin(own: Option<Data<'_>>, vector: Data<'_>) {
    if let Some(own) = own {
        vector.copy_from(own);
    }
}

/// Calls an own reduction of Onchip with a predefined operation. Returns `true`.
fn by_rule<T: Plain>(bytes: Bytes<'_>, call: impl Typed, rule: impl Operation<T>) -> Result<bool> {
    bytes.with_elements::<T>(|own, result| call.run(own, result, rule))
}

/// The bytes of a rank's elements, unless they are where the result goes, and those of the result.
struct Bytes<'a> {
    own: Option<&'a [u8]>,
    result: &'a mut [u8],
}

impl Bytes<'_> {
    /// Reduces the elements that the bytes are. Returns `true`.
    fn with_elements<T: Plain>(
        self,
        reduce: impl FnOnce(Option<&[T]>, &mut [T]) -> mp_core::Result<()>,
    ) -> Result<bool> {
        let Self { own, result } = self;
        let from = own.map(bytemuck::try_cast_slice::<u8, T>).transpose();
        match (from, bytemuck::try_cast_slice_mut::<u8, T>(result)) {
            (Ok(own), Ok(result)) => reduce(own, result)?,
            _ => {
                // One of the program's buffers is not aligned.
                let (own, mut copy) = (own.map(pod::<T>), pod::<T>(result));
                reduce(own.as_deref(), &mut copy)?;
                result.copy_from_slice(bytemuck::cast_slice(&copy));
            }
        }
        Ok(true)
    }
}

/// Returns the elements in bytes that are not aligned.
fn pod<T: Plain>(bytes: &[u8]) -> Vec<T> {
    let mut copy = vec![T::zeroed(); bytes.len() / size_of::<T>()];
    bytemuck::cast_slice_mut(&mut copy).copy_from_slice(bytes);
    copy
}
