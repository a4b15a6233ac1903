//! Descriptions of calls, where the ranks [compare](crate::communicator::Check) their calls.

use std::any::type_name;
use std::ops::Range;

use mp_core::{Call, Plain};

use crate::{barrier, broadcast, exchange, reduce};

fn way(settings: &impl std::fmt::Debug) -> String {
    format!("{settings:?}")
}

pub(crate) fn barrier(name: &'static str, settings: &barrier::Settings) -> Call {
    Call::new(name).settings(way(settings))
}

pub(crate) fn broadcast<T: Plain>(
    name: &'static str,
    count: usize,
    root: usize,
    settings: &broadcast::Settings,
) -> Call {
    Call::new(name).elements::<T>(count).root(root).settings(way(settings))
}

/// Describes an exchange, with the blocks' length where all have the same.
pub(crate) fn exchange<T: Plain>(
    name: &'static str,
    count: Option<usize>,
    root: Option<usize>,
    settings: &exchange::Settings,
) -> Call {
    let call = match count {
        Some(count) => Call::new(name).elements::<T>(count),
        None => Call::new(name).of::<T>(),
    };
    rooted(call, root).settings(way(settings))
}

/// Describes a reduction with operation `O`. Where results go to blocks of different lengths, all ranks must name the
/// same blocks.
pub(crate) fn reduction<T: Plain, O>(
    name: &'static str,
    count: usize,
    root: Option<usize>,
    blocks: Option<&[Range<usize>]>,
    settings: &reduce::Settings,
) -> Call {
    let operation = type_name::<O>();
    let own = operation.strip_prefix("mp_collectives::reduce::operations::");
    let call = Call::new(name).elements::<T>(count).operation(own.unwrap_or(operation));
    let way = way(settings);
    rooted(call, root).settings(match blocks {
        Some(blocks) => format!("blocks {blocks:?} and {way}"),
        None => way,
    })
}

fn rooted(call: Call, root: Option<usize>) -> Call {
    match root {
        Some(root) => call.root(root),
        None => call,
    }
}
