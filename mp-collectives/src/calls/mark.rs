//! A call in 31 bits.

use std::any::type_name;
use std::fmt;

use crate::communicator::Call;

pub(super) const MARK_BITS: u32 = 31;
pub(super) const MARK: u64 = (1 << MARK_BITS) - 1;
const TYPE_SHIFT: u32 = 19;
const ROOT_SHIFT: u32 = 12;
const KIND_SHIFT: u32 = 26;
const COUNT: u64 = (1 << ROOT_SHIFT) - 1;
/// The greatest length of a block that a mark has. A mark of a longer one has `COUNT`.
pub(super) const LONGEST: u64 = COUNT - 2;
/// Numbers of elements from this one on are represented by some of their bits.
const MANY: u64 = 1 << (ROOT_SHIFT - 1);
/// Roots from this one on are represented by their remainder when divided by it.
const ROOTS: usize = 126;

/// The kind of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Barrier = 1,
    Broadcast,
    Reduce,
    AllReduce,
    Scan,
    ExclusiveScan,
    ReduceScatter,
    ReduceScatterVarcount,
    Gather,
    GatherVarcount,
    Scatter,
    ScatterVarcount,
    AllGather,
    AllGatherVarcount,
    AllToAll,
    AllToAllVarcount,
}

impl Kind {
    /// Returns the name of the operation.
    pub(crate) fn name(self) -> &'static str {
        NAMES[self as usize - 1]
    }

    /// Returns the same kind for blocks that may differ in length.
    pub(crate) fn varcount(self) -> Self {
        match self {
            Kind::ReduceScatter => Kind::ReduceScatterVarcount,
            Kind::Gather => Kind::GatherVarcount,
            Kind::Scatter => Kind::ScatterVarcount,
            Kind::AllGather => Kind::AllGatherVarcount,
            Kind::AllToAll => Kind::AllToAllVarcount,
            other => other,
        }
    }
}

/// The names, in the order of [`Kind`].
const NAMES: [&str; 16] = [
    "barrier",
    "broadcast",
    "reduce",
    "all_reduce",
    "scan",
    "exclusive_scan",
    "reduce_scatter",
    "reduce_scatter_varcount",
    "gather",
    "gather_varcount",
    "scatter",
    "scatter_varcount",
    "all_gather",
    "all_gather_varcount",
    "all_to_all",
    "all_to_all_varcount",
];

/// The types that a mark names. For other types the mark has a number made from the type's name.
const TYPES: [(&str, usize); 16] = [
    ("u8", 1),
    ("u16", 2),
    ("u32", 4),
    ("u64", 8),
    ("u128", 16),
    ("usize", 8),
    ("i8", 1),
    ("i16", 2),
    ("i32", 4),
    ("i64", 8),
    ("i128", 16),
    ("isize", 8),
    ("f32", 4),
    ("f64", 8),
    ("bool", 1),
    ("char", 4),
];
const TYPE_MASK: u64 = 0x7f;

/// Returns the number of a type, which is constant where this is inlined.
#[inline(always)]
fn code_of<T>() -> u64 {
    let name = type_name::<T>();
    match name {
        "u8" => 1,
        "u16" => 2,
        "u32" => 3,
        "u64" => 4,
        "u128" => 5,
        "usize" => 6,
        "i8" => 7,
        "i16" => 8,
        "i32" => 9,
        "i64" => 10,
        "i128" => 11,
        "isize" => 12,
        "f32" => 13,
        "f64" => 14,
        "bool" => 15,
        "char" => 16,
        _ => {
            // The last bytes of a path distinguish types best.
            let name = name.as_bytes();
            let last = |count: usize| name[name.len().saturating_sub(count)..].iter();
            let number = last(8).fold(name.len() as u64, |number, &byte| {
                number.rotate_left(7).wrapping_add(u64::from(byte))
            });
            let number =
                number.wrapping_add(size_of::<T>() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            32 + (number >> 32) % (TYPE_MASK - 31)
        }
    }
}

/// A call in 31 bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark(pub(super) u64);

impl Mark {
    /// Creates the mark of a call with `count` elements of a type, if all ranks have the same number, and with its
    /// root, if it has one.
    #[inline(always)]
    pub(crate) fn new<T>(kind: Kind, count: Option<usize>, root: Option<usize>) -> Self {
        let count = match count {
            None => 0,
            Some(count) if (count as u64) < MANY - 1 => count as u64 + 1,
            Some(count) => {
                MANY | (count as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (65 - ROOT_SHIFT)
            }
        };
        let root = root.map_or(0, |root| 1 + (root % ROOTS) as u64);
        let parts = (kind as u64) << KIND_SHIFT | code_of::<T>() << TYPE_SHIFT;
        Self(parts | root << ROOT_SHIFT | count)
    }

    /// Creates the mark of an exchange. It includes the length of the blocks if all have the same length.
    #[inline(always)]
    pub(crate) fn of_blocks<T>(
        kind: Kind,
        blocks_differ: bool,
        count: usize,
        root: Option<usize>,
    ) -> Self {
        match blocks_differ {
            false => Self::new::<T>(kind, Some(count), root),
            true => Self::new::<T>(kind.varcount(), None, root),
        }
    }

    /// Returns the bits that have the length of a block, in the marks of lines: none if all blocks are equally long.
    #[inline(always)]
    pub(super) fn length_bits(self) -> u64 {
        let is = |kind| self.0 >> KIND_SHIFT == kind as u64;
        let differ = is(Kind::GatherVarcount)
            || is(Kind::ScatterVarcount)
            || is(Kind::AllGatherVarcount)
            || is(Kind::AllToAllVarcount);
        if differ { COUNT } else { 0 }
    }

    /// Returns the length of a block for a mark.
    #[inline(always)]
    pub(super) fn length(bytes: usize) -> u64 {
        (bytes as u64).min(LONGEST + 1) + 1
    }

    /// Returns the length of the block of a mark with one, unless the block is longer than marks can say.
    pub(super) fn block(self) -> Option<usize> {
        (self.0 & COUNT)
            .checked_sub(1)
            .filter(|&length| length <= LONGEST)
            .map(|length| length as usize)
    }

    /// Returns the length of the blocks in this call and in another one, in bytes, if they are longer here and nothing
    /// else differs.
    #[cold]
    pub(super) fn exceeds(self, other: Self, ranks: usize) -> Option<(usize, usize)> {
        let is = |kind| self.0 >> KIND_SHIFT == kind as u64;
        let blocks = match () {
            () if is(Kind::Gather) || is(Kind::Scatter) || is(Kind::AllGather) => 1,
            () if is(Kind::AllToAll) => ranks,
            () => return None,
        };
        let length = |call: Call| Some(call.count? * call.element?.size / blocks);
        let (here, there) = (length(self.call(ranks))?, length(other.call(ranks))?);
        let is_all = (self.0 ^ other.0) & !COUNT == 0;
        (is_all && here > there).then_some((here, there))
    }

    /// Creates the mark of a call without elements.
    #[inline(always)]
    pub(crate) fn barrier() -> Self {
        Self((Kind::Barrier as u64) << KIND_SHIFT)
    }

    /// Returns the call, as far as the bits show it.
    pub(super) fn call(self, ranks: usize) -> Call {
        let name = (self.0 >> KIND_SHIFT).checked_sub(1).and_then(|kind| NAMES.get(kind as usize));
        let mut call = Call::new(name.copied().unwrap_or("something else"));
        if let Some(root) = ((self.0 >> ROOT_SHIFT & 0x7f) as usize).checked_sub(1) {
            call = if ranks <= ROOTS { call.root(root) } else { call };
        }
        let code = (self.0 >> TYPE_SHIFT & TYPE_MASK) as usize;
        let known = code.checked_sub(1).and_then(|code| TYPES.get(code));
        call = match (code, known) {
            (0, _) => call,
            (_, Some(&(name, size))) => call.of_named(name, size),
            _ => call.of_named(format!("elements of type no. {code}"), 0),
        };
        if self.length_bits() != 0 {
            return match (self.0 & COUNT, self.block()) {
                (0, _) => call,
                (_, Some(bytes)) => call.settings(format!("a block of {bytes} bytes")),
                (_, None) => call.settings(format!("a block of more than {LONGEST} bytes")),
            };
        }
        call.count = match self.0 & COUNT {
            0 => None,
            count if count < MANY => Some(count as usize - 1),
            _ => None,
        };
        if self.0 & COUNT >= MANY {
            call = call.settings(format!("{} elements or more (no. {})", MANY - 1, self.0 & COUNT));
        }
        call
    }
}

impl fmt::Debug for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.call(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_tell_calls_apart_and_name_them() {
        let of = |mark: Mark| mark.call(8).to_string();
        let mark = Mark::new::<f32>(Kind::AllReduce, Some(2), None);
        assert_eq!(of(mark), "all_reduce of 2 f32");
        assert_eq!(of(Mark::new::<u32>(Kind::AllReduce, Some(2), None)), "all_reduce of 2 u32");
        assert_eq!(
            of(Mark::new::<u8>(Kind::Broadcast, Some(0), Some(7))),
            "broadcast of 0 u8 with root 7"
        );
        assert_eq!(of(Mark::barrier()), "barrier");
        assert_eq!(
            of(Mark::new::<i64>(Kind::GatherVarcount, None, Some(0))),
            "gather_varcount of i64 with root 0"
        );
        let many = |count| Mark::new::<u8>(Kind::Gather, Some(count), None);
        let all: Vec<_> = (2040..2060).chain([1 << 20, 1 << 21, 1 << 30]).map(many).collect();
        for (place, one) in all.iter().enumerate() {
            assert!(all[..place].iter().all(|other| other != one), "{one:?}");
            assert!(one.0 <= MARK);
        }
        assert!(NAMES[Kind::AllToAllVarcount as usize - 1].ends_with("all_varcount"));
        for (code, (name, size)) in TYPES.iter().enumerate() {
            let call = Mark((code as u64 + 1) << TYPE_SHIFT).call(2);
            assert_eq!(call.element.map(|e| (e.name, e.size)), Some(((*name).to_owned(), *size)));
        }
        assert_eq!(code_of::<f64>(), 14);
        assert_ne!(code_of::<[u8; 3]>(), code_of::<[u8; 4]>());
    }
}
