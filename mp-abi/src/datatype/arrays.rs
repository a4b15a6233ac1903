//! Types of parts of arrays: a block of each dimension, or the blocks that a distribution gives to a rank.

use std::{iter, ops::Range};

use super::{
    constructors::Measure,
    definition::{Datatype, Made, TypeRef},
    pieces::Pieces,
};
use crate::{
    constants::{
        MPI_COMBINER_DARRAY, MPI_COMBINER_SUBARRAY, MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC,
        MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_NONE, MPI_ORDER_C, MPI_ORDER_FORTRAN,
    },
    error::{Class, Error},
};

type Result<T> = std::result::Result<T, Error>;

/// A dimension of an array: its length, and the indices that are taken.
struct Dimension {
    length: i64,
    taken: Vec<Range<i64>>,
}

fn bad(text: impl Into<String>) -> Error {
    Error::new(Class::Arg, text)
}

/// Makes the type of what is taken of an array.
fn part(mut dimensions: Vec<Dimension>, order: i64, of: &TypeRef, made: Made) -> Result<Datatype> {
    // From the dimension in which neighbours are neighbours in memory.
    match order as i32 {
        MPI_ORDER_C => dimensions.reverse(),
        MPI_ORDER_FORTRAN => {}
        _ => return Err(bad(format!("{order} is neither MPI_ORDER_C nor MPI_ORDER_FORTRAN"))),
    }
    let too_large = || Error::new(Class::ValueTooLarge, "the array does not fit into 64 bits");
    let mut whole = i128::from(of.extent);
    let mut taken = 1i64;
    for Dimension { length, taken: ranges } in &dimensions {
        whole = whole.checked_mul((*length).into()).ok_or_else(too_large)?;
        let sum = ranges.iter().map(|range| range.end - range.start).sum();
        taken = taken.checked_mul(sum).ok_or_else(too_large)?;
    }
    i64::try_from(whole).map_err(|_| too_large())?;
    let mut measure = Measure::default();
    measure.add(of, 0, taken, (1, 0))?;
    measure.set_bounds(0, whole);
    measure.make(made, || {
        let mut inner = Pieces::of(&of.pieces);
        let mut stride = of.extent;
        for Dimension { length, taken } in &dimensions {
            let mut outer = Pieces::default();
            for range in taken {
                let count = range.end - range.start;
                outer.place(inner.as_slice(), range.start * stride, count, stride);
            }
            inner = outer;
            stride *= length;
        }
        inner
    })
}

pub(crate) fn subarray(
    sizes: &[i64],
    subsizes: &[i64],
    starts: &[i64],
    order: i64,
    of: &TypeRef,
) -> Result<Datatype> {
    if sizes.is_empty() {
        return Err(bad("an array has at least one dimension"));
    }
    let dimensions = sizes.iter().zip(subsizes).zip(starts).map(|((&length, &sub), &start)| {
        let fits = length >= 1 && sub >= 1 && start >= 0 && sub <= length && start <= length - sub;
        match fits {
            true => Ok(Dimension { length, taken: iter::once(start..start + sub).collect() }),
            false => Err(bad(format!(
                "{sub} elements from {start} on are no part of a dimension of {length}"
            ))),
        }
    });
    let dimensions = dimensions.collect::<Result<_>>()?;
    let mut integers = vec![sizes.len() as i64];
    integers.extend(sizes.iter().chain(subsizes).chain(starts).chain([&order]));
    let made = Made {
        combiner: MPI_COMBINER_SUBARRAY,
        integers,
        addresses: vec![],
        types: vec![of.clone()],
    };
    part(dimensions, order, of, made)
}

/// The arguments of `MPI_Type_create_darray`.
pub(crate) struct Distribution<'a> {
    pub size: i64,
    pub rank: i64,
    pub lengths: &'a [i64],
    pub kinds: &'a [i64],
    pub arguments: &'a [i64],
    pub processes: &'a [i64],
    pub order: i64,
}

pub(crate) fn distributed(array: &Distribution<'_>, of: &TypeRef) -> Result<Datatype> {
    let &Distribution { size, rank, lengths, kinds, arguments, processes, order } = array;
    if lengths.is_empty() || rank < 0 || rank >= size {
        return Err(bad(format!("rank {rank} of {size}, in {} dimensions", lengths.len())));
    }
    if processes.iter().any(|&number| number < 1) || processes.iter().product::<i64>() != size {
        return Err(bad(format!("a grid of {processes:?} has not {size} processes")));
    }
    // The last coordinate of the grid grows fastest, whatever the order of the array.
    let mut rest = rank;
    let mut places: Vec<i64> = (processes.iter().rev())
        .map(|&number| {
            let place = rest % number;
            rest /= number;
            place
        })
        .collect();
    places.reverse();
    let dimensions = (0..lengths.len()).map(|d| {
        let taken = taken(lengths[d], kinds[d], arguments[d], processes[d], places[d])?;
        Ok(Dimension { length: lengths[d], taken })
    });
    let dimensions = dimensions.collect::<Result<_>>()?;
    let mut integers = vec![size, rank, lengths.len() as i64];
    integers.extend(lengths.iter().chain(kinds).chain(arguments).chain(processes).chain([&order]));
    let made = Made {
        combiner: MPI_COMBINER_DARRAY,
        integers,
        addresses: vec![],
        types: vec![of.clone()],
    };
    part(dimensions, order, of, made)
}

/// Returns the indices of a dimension that the process in this place of the grid gets.
fn taken(
    length: i64,
    kind: i64,
    argument: i64,
    processes: i64,
    place: i64,
) -> Result<Vec<Range<i64>>> {
    if length < 1 {
        return Err(bad(format!("a dimension of {length} elements")));
    }
    let default = argument == i64::from(MPI_DISTRIBUTE_DFLT_DARG);
    let block = match kind as i32 {
        MPI_DISTRIBUTE_NONE if processes == 1 => length,
        MPI_DISTRIBUTE_NONE => {
            return Err(bad("a dimension that is not distributed has one process"));
        }
        MPI_DISTRIBUTE_BLOCK if default => (length + processes - 1) / processes,
        MPI_DISTRIBUTE_BLOCK if argument >= 1 && argument.saturating_mul(processes) < length => {
            return Err(bad(format!(
                "blocks of {argument} elements on {processes} processes hold less than {length}"
            )));
        }
        MPI_DISTRIBUTE_CYCLIC if default => 1,
        MPI_DISTRIBUTE_BLOCK | MPI_DISTRIBUTE_CYCLIC if argument >= 1 => argument,
        _ => return Err(bad(format!("distribution {kind} with argument {argument}"))),
    };
    let step = block.saturating_mul(processes).min(i64::MAX / 2);
    let starts = iter::successors(Some(block.saturating_mul(place)), |at| Some(at + step));
    let within = starts.take_while(|&start| start < length);
    Ok(within.map(|start| start..length.min(start.saturating_add(block))).collect())
}
