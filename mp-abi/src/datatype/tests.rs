//! Types against a reference that goes element by element, as the standard defines them.

use std::{ffi::c_void, sync::Arc, sync::atomic::Ordering};

use proptest::prelude::*;

use super::{Datatype, TypeRef, arrays, constructors as make, data::Data};
use crate::{
    attributes::Attributes,
    callbacks::Owner,
    constants::{
        MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_NONE,
        MPI_ORDER_C, MPI_ORDER_FORTRAN,
    },
    error::Error,
    types::Handle,
};

fn basic(number: usize) -> TypeRef {
    let handle: Handle = std::ptr::without_provenance_mut(number);
    // SAFETY: any number below 4096 may be asked for.
    unsafe { TypeRef::keep(handle).unwrap() }
}

fn committed(made: Result<Datatype, Error>) -> TypeRef {
    let made = made.unwrap();
    made.is_committed.store(true, Ordering::Relaxed);
    TypeRef::Made(Arc::new(made))
}

/// A type as the standard defines it: the places and lengths of its basic elements, and its bounds, with markers where
/// they were set.
#[derive(Clone, Debug)]
struct Map {
    entries: Vec<(i64, i64)>,
    /// The bounds that follow from the entries, or `None` without any.
    bounds: Option<(i64, i64)>,
    lower: Option<i64>,
    upper: Option<i64>,
    align: i64,
}

impl Map {
    fn lower(&self) -> i64 {
        self.lower.or(self.bounds.map(|(lower, _)| lower)).unwrap_or(0)
    }

    fn upper(&self) -> i64 {
        self.upper.or(self.bounds.map(|(_, upper)| upper)).unwrap_or(0)
    }

    fn extent(&self) -> i64 {
        self.upper() - self.lower()
    }

    fn size(&self) -> i64 {
        self.entries.iter().map(|entry| entry.1).sum()
    }

    /// Joins types at displacements.
    fn joined(parts: impl IntoIterator<Item = (i64, Map)>) -> Self {
        let mut all = Self { entries: vec![], bounds: None, lower: None, upper: None, align: 0 };
        for (at, part) in parts {
            all.entries.extend(part.entries.iter().map(|&(offset, size)| (at + offset, size)));
            if let Some((lower, upper)) = part.bounds {
                let (low, up) = all.bounds.unwrap_or((i64::MAX, i64::MIN));
                all.bounds = Some((low.min(at + lower), up.max(at + upper)));
            }
            let marker = |mine: Option<i64>, theirs: Option<i64>, pick: fn(i64, i64) -> i64| match (
                mine,
                theirs.map(|marker| at + marker),
            ) {
                (Some(mine), Some(theirs)) => Some(pick(mine, theirs)),
                (mine, theirs) => mine.or(theirs),
            };
            all.lower = marker(all.lower, part.lower, i64::min);
            all.upper = marker(all.upper, part.upper, i64::max);
            all.align = all.align.max(part.align);
        }
        all
    }

    fn copies(&self, offset: i64, count: i64) -> Vec<(i64, Map)> {
        (0..count).map(|copy| (offset + copy * self.extent(), self.clone())).collect()
    }
}

#[derive(Clone, Debug)]
enum Spec {
    Basic(usize),
    Contiguous(i64, Box<Spec>),
    Vector(i64, i64, i64, Box<Spec>),
    Hvector(i64, i64, i64, Box<Spec>),
    Indexed(Vec<(i64, i64)>, Box<Spec>),
    Hindexed(Vec<(i64, i64)>, Box<Spec>),
    IndexedBlock(i64, Vec<i64>, Box<Spec>),
    HindexedBlock(i64, Vec<i64>, Box<Spec>),
    Struct(Vec<(i64, i64, Spec)>),
    Resized(i64, i64, Box<Spec>),
    Dup(Box<Spec>),
    /// Size, length of the part and its start, for each dimension.
    Subarray(Vec<(i64, i64, i64)>, bool, Box<Spec>),
}

fn spec() -> impl Strategy<Value = Spec> {
    let leaf = prop::sample::select(vec![0x247, 0x248, 0x209, 0x214, 0x22c, 0x229, 0x22d])
        .prop_map(Spec::Basic);
    leaf.prop_recursive(3, 12, 4, |inner| {
        let inner = inner.prop_map(Box::new).boxed();
        let blocks = || prop::collection::vec((0i64..4, -5i64..6), 0..4);
        let byte_blocks = || prop::collection::vec((0i64..4, -60i64..60), 0..4);
        let dimension = (1i64..5)
            .prop_flat_map(|size| (Just(size), 1..=size))
            .prop_flat_map(|(size, part)| (Just(size), Just(part), 0..=size - part));
        prop_oneof![
            (0i64..4, inner.clone()).prop_map(|(n, of)| Spec::Contiguous(n, of)),
            (0i64..4, 0i64..4, -4i64..5, inner.clone())
                .prop_map(|(n, length, stride, of)| Spec::Vector(n, length, stride, of)),
            (0i64..4, 0i64..4, -40i64..50, inner.clone())
                .prop_map(|(n, length, stride, of)| Spec::Hvector(n, length, stride, of)),
            (blocks(), inner.clone()).prop_map(|(blocks, of)| Spec::Indexed(blocks, of)),
            (byte_blocks(), inner.clone()).prop_map(|(blocks, of)| Spec::Hindexed(blocks, of)),
            (0i64..4, prop::collection::vec(-5i64..6, 0..4), inner.clone())
                .prop_map(|(length, at, of)| Spec::IndexedBlock(length, at, of)),
            (0i64..4, prop::collection::vec(-50i64..60, 0..4), inner.clone())
                .prop_map(|(length, at, of)| Spec::HindexedBlock(length, at, of)),
            prop::collection::vec((0i64..3, -60i64..60, inner.clone()), 0..4).prop_map(|blocks| {
                Spec::Struct(blocks.into_iter().map(|(n, at, of)| (n, at, *of)).collect())
            }),
            (-20i64..20, 0i64..60, inner.clone())
                .prop_map(|(lower, extent, of)| Spec::Resized(lower, extent, of)),
            inner.clone().prop_map(Spec::Dup),
            (prop::collection::vec(dimension, 1..4), any::<bool>(), inner)
                .prop_map(|(dimensions, c, of)| Spec::Subarray(dimensions, c, of)),
        ]
    })
}

fn order(c: bool) -> i64 {
    if c { MPI_ORDER_C.into() } else { MPI_ORDER_FORTRAN.into() }
}

impl Spec {
    fn made(&self) -> TypeRef {
        committed(match self {
            Self::Basic(number) => return basic(*number),
            Self::Contiguous(count, of) => make::contiguous(*count, &of.made()),
            Self::Vector(count, length, stride, of) => {
                make::vector(*count, *length, *stride, &of.made())
            }
            Self::Hvector(count, length, stride, of) => {
                make::hvector(*count, *length, *stride, &of.made())
            }
            Self::Indexed(blocks, of) => {
                let (lengths, at): (Vec<_>, Vec<_>) = blocks.iter().copied().unzip();
                make::indexed(&lengths, &at, &of.made())
            }
            Self::Hindexed(blocks, of) => {
                let (lengths, at): (Vec<_>, Vec<_>) = blocks.iter().copied().unzip();
                make::hindexed(&lengths, &at, &of.made())
            }
            Self::IndexedBlock(length, at, of) => make::indexed_block(*length, at, &of.made()),
            Self::HindexedBlock(length, at, of) => make::hindexed_block(*length, at, &of.made()),
            Self::Struct(blocks) => {
                let lengths: Vec<_> = blocks.iter().map(|block| block.0).collect();
                let at: Vec<_> = blocks.iter().map(|block| block.1).collect();
                let types: Vec<_> = blocks.iter().map(|block| block.2.made()).collect();
                make::structure(&lengths, &at, &types)
            }
            Self::Resized(lower, extent, of) => make::resized(&of.made(), *lower, *extent),
            Self::Dup(of) => make::duplicate(&of.made(), Attributes::new(Owner::Datatype)),
            Self::Subarray(dimensions, c, of) => {
                let column = |pick: fn(&(i64, i64, i64)) -> i64| -> Vec<i64> {
                    dimensions.iter().map(pick).collect()
                };
                let (sizes, parts, starts) = (column(|d| d.0), column(|d| d.1), column(|d| d.2));
                arrays::subarray(&sizes, &parts, &starts, order(*c), &of.made())
            }
        })
    }

    fn map(&self) -> Map {
        match self {
            &Self::Basic(number) => {
                let (entries, extent, align) = match number {
                    0x247 => (vec![(0, 1)], 1, 1),
                    0x248 => (vec![(0, 2)], 2, 2),
                    0x209 => (vec![(0, 4)], 4, 4),
                    0x214 => (vec![(0, 8)], 8, 8),
                    0x22c => (vec![(0, 2), (4, 4)], 8, 4),
                    0x229 => (vec![(0, 8), (8, 4)], 16, 8),
                    _ => (vec![(0, 16), (16, 4)], 32, 16),
                };
                Map { entries, bounds: Some((0, extent)), lower: None, upper: None, align }
            }
            Self::Contiguous(count, of) => Map::joined(of.map().copies(0, *count)),
            Self::Vector(count, length, stride, of) => {
                let of = of.map();
                let at = |block: i64| block * stride * of.extent();
                Map::joined((0..*count).flat_map(|block| of.copies(at(block), *length)))
            }
            Self::Hvector(count, length, stride, of) => {
                let of = of.map();
                Map::joined((0..*count).flat_map(|block| of.copies(block * stride, *length)))
            }
            Self::Indexed(blocks, of) => {
                let of = of.map();
                let copies = |&(length, at): &(i64, i64)| of.copies(at * of.extent(), length);
                Map::joined(blocks.iter().flat_map(copies))
            }
            Self::Hindexed(blocks, of) => {
                let of = of.map();
                Map::joined(blocks.iter().flat_map(|&(length, at)| of.copies(at, length)))
            }
            Self::IndexedBlock(length, at, of) => {
                let of = of.map();
                Map::joined(at.iter().flat_map(|at| of.copies(at * of.extent(), *length)))
            }
            Self::HindexedBlock(length, at, of) => {
                let of = of.map();
                Map::joined(at.iter().flat_map(|&at| of.copies(at, *length)))
            }
            Self::Struct(blocks) => {
                let copies = |(length, at, of): &(i64, i64, Spec)| of.map().copies(*at, *length);
                let mut map = Map::joined(blocks.iter().flat_map(copies));
                if map.upper.is_none() && map.align > 0 {
                    let lower = map.lower();
                    if let Some((_, upper)) = &mut map.bounds {
                        while (*upper - lower) % map.align != 0 {
                            *upper += 1;
                        }
                    }
                }
                map
            }
            Self::Resized(lower, extent, of) => {
                Map { lower: Some(*lower), upper: Some(lower + extent), ..of.map() }
            }
            Self::Dup(of) => of.map(),
            Self::Subarray(dimensions, c, of) => {
                let of = of.map();
                // Go through the part of the array, index by index; the index that changes fastest is last.
                let mut dimensions = dimensions.clone();
                if !c {
                    dimensions.reverse();
                }
                let mut places = vec![0i64];
                for (size, part, start) in &dimensions {
                    places = (places.iter())
                        .flat_map(|place| (*start..start + part).map(move |at| place * size + at))
                        .collect();
                }
                let whole: i64 = dimensions.iter().map(|dimension| dimension.0).product();
                let all = places.iter().flat_map(|place| of.copies(place * of.extent(), 1));
                let (lower, upper) = (Some(0), Some(whole * of.extent()));
                Map { lower, upper, ..Map::joined(all) }
            }
        }
    }
}

const BASE: usize = 1 << 14;

fn data<'a>(memory: &'a mut [u8], count: usize, datatype: &TypeRef) -> Data<'a> {
    let handle = datatype.clone().into_handle();
    let buffer = memory[BASE..].as_mut_ptr().cast::<c_void>();
    // SAFETY: the elements lie within the memory, which is borrowed for as long as the data, and the handle keeps the
    // type for good.
    unsafe { Data::new(buffer, count as i64, handle).unwrap() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..Default::default() })]

    #[test]
    fn types_are_what_the_standard_says(
        spec in spec(),
        count in 0usize..4,
        seed in any::<u8>(),
        missing in 0usize..40,
    ) {
        let (made, map) = (spec.made(), spec.map());
        prop_assume!(map.entries.iter().all(|entry| entry.0.abs() < BASE as i64 / 8));
        prop_assume!(map.extent().abs() < BASE as i64 / 8);
        prop_assert_eq!((made.size, made.lower, made.extent), (map.size(), map.lower(), map.extent()));
        if !map.entries.is_empty() {
            let lower = map.entries.iter().map(|entry| entry.0).min().unwrap();
            let upper = map.entries.iter().map(|entry| entry.0 + entry.1).max().unwrap();
            prop_assert_eq!((made.true_lower, made.true_extent), (lower, upper - lower));
        }
        prop_assert_eq!(made.elements, map.entries.len() as i64);

        let mut memory: Vec<u8> = (0..2 * BASE).map(|at| (at * 7 + at / 256) as u8 ^ seed).collect();
        // The places of all bytes of data, in their order.
        let mut bytes = Vec::new();
        for element in 0..count as i64 {
            for &(offset, size) in &map.entries {
                let at = (BASE as i64 + element * map.extent() + offset) as usize;
                bytes.extend(at..at + size as usize);
            }
        }
        let expected: Vec<u8> = bytes.iter().map(|&at| memory[at]).collect();
        let packed = data(&mut memory, count, &made).packed().into_owned();
        prop_assert_eq!(&packed, &expected);

        // All but the last bytes come back into other memory.
        let arrived = packed.len().saturating_sub(missing);
        let mut there = vec![0xa5u8; 2 * BASE];
        let mut reference = there.clone();
        data(&mut there, count, &made).unpack(&packed[..arrived]);
        for (&at, &byte) in bytes.iter().zip(&packed[..arrived]) {
            reference[at] = byte;
        }
        prop_assert!(there == reference);

        // What arrived has this many whole basic elements.
        let (mut whole, mut rest) = (0, arrived as i64);
        let mut within = false;
        for &(_, size) in map.entries.iter().cycle().take(map.entries.len() * count) {
            if rest < size {
                within = rest > 0;
                break;
            }
            rest -= size;
            whole += 1;
        }
        // The two parts of a pair count as basic elements only together, so only their sum is compared.
        let pairs = [0x22c, 0x229, 0x22d];
        if !format!("{spec:?}").split(['(', ')']).any(|word| pairs.iter().any(|pair| word == pair.to_string())) {
            prop_assert_eq!(made.elements_in(arrived as i64), whole);
            prop_assert_eq!(made.ends_within_element(arrived as i64), within);
        }
    }

    /// The parts that all processes of a grid get are the whole array, and each is in the order of its indices.
    #[test]
    fn distributed_arrays_are_divided(
        dimensions in prop::collection::vec((1i64..9, 0usize..3, 1i64..4, 1i64..4), 1..4),
        c in any::<bool>(),
    ) {
        let lengths: Vec<i64> = dimensions.iter().map(|d| d.0).collect();
        let kinds: Vec<i64> = (dimensions.iter())
            .map(|d| [MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_NONE][d.1].into())
            .collect();
        let processes: Vec<i64> =
            dimensions.iter().map(|d| if d.1 == 2 { 1 } else { d.2 }).collect();
        let arguments: Vec<i64> = (dimensions.iter())
            .map(|d| if d.1 == 1 { d.3 } else { MPI_DISTRIBUTE_DFLT_DARG.into() })
            .collect();
        let size: i64 = processes.iter().product();
        let whole: i64 = lengths.iter().product();
        let mut owners = vec![None; whole as usize];
        for rank in 0..size {
            let array = arrays::Distribution {
                size,
                rank,
                lengths: &lengths,
                kinds: &kinds,
                arguments: &arguments,
                processes: &processes,
                order: order(c),
            };
            let made = committed(arrays::distributed(&array, &basic(0x209)));
            prop_assert_eq!(made.extent, 4 * whole);
            let mut memory = vec![0u8; 2 * BASE];
            for (place, cell) in memory[BASE..].chunks_mut(4).take(whole as usize).enumerate() {
                cell.copy_from_slice(&(place as u32).to_ne_bytes());
            }
            let packed = data(&mut memory, 1, &made).packed().into_owned();
            let places: Vec<u32> =
                packed.chunks(4).map(|cell| u32::from_ne_bytes(cell.try_into().unwrap())).collect();
            prop_assert!(places.is_sorted());
            for place in places {
                prop_assert_eq!(owners[place as usize].replace(rank), None);
                prop_assert_eq!(owner(place as i64, &dimensions, c), rank);
            }
        }
        prop_assert!(owners.iter().all(Option::is_some));
    }
}

/// Returns the rank to which an element of a distributed array belongs, from its place in memory.
fn owner(mut place: i64, dimensions: &[(i64, usize, i64, i64)], c: bool) -> i64 {
    let mut indices = vec![0; dimensions.len()];
    let fastest_first: Vec<usize> =
        if c { (0..dimensions.len()).rev().collect() } else { (0..dimensions.len()).collect() };
    for dimension in fastest_first {
        indices[dimension] = place % dimensions[dimension].0;
        place /= dimensions[dimension].0;
    }
    indices.iter().zip(dimensions).fold(0, |rank, (&index, &(length, kind, processes, block))| {
        match kind {
            0 => rank * processes + index / ((length + processes - 1) / processes),
            1 => rank * processes + index / block % processes,
            _ => rank,
        }
    })
}
