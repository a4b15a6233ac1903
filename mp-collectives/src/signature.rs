//! Descriptions of calls, for communicators whose ranks [compare](crate::communicator::Check) their calls.

use std::any::type_name;
use std::ops::Range;

use mp_core::{Call, Plain};

use crate::settings::Settings;

pub(crate) fn barrier(name: &'static str, settings: &Settings) -> Call {
    let Settings { barrier, placement, .. } = settings;
    Call::new(name).settings(format!("barrier: {barrier:?}, placement: {placement:?}"))
}

pub(crate) fn broadcast<T: Plain>(
    name: &'static str,
    count: usize,
    root: usize,
    settings: &Settings,
) -> Call {
    let Settings { broadcast, tree, .. } = settings;
    let way = format!("broadcast: {broadcast:?}, tree: {tree:?}, {}", memory(settings));
    Call::new(name).elements::<T>(count).root(root).settings(way)
}

/// Describes an exchange. `count` is the length of the blocks if all have the same.
pub(crate) fn exchange<T: Plain>(
    name: &'static str,
    count: Option<usize>,
    root: Option<usize>,
    settings: &Settings,
) -> Call {
    let call = match count {
        Some(count) => Call::new(name).elements::<T>(count),
        None => Call::new(name).of::<T>(),
    };
    let Settings { exchange, all_gather, .. } = settings;
    let way = format!("exchange: {exchange:?}, all_gather: {all_gather:?}, {}", memory(settings));
    rooted(call, root).settings(way)
}

/// Describes a reduction with operation `O`. If results go to blocks of different lengths, all ranks must name the same
/// blocks.
pub(crate) fn reduction<T: Plain, O>(
    name: &'static str,
    count: usize,
    root: Option<usize>,
    blocks: Option<&[Range<usize>]>,
    settings: &Settings,
) -> Call {
    let operation = type_name::<O>();
    let own = operation.strip_prefix("mp_collectives::reduce::operations::");
    let call = Call::new(name).elements::<T>(count).operation(own.unwrap_or(operation));
    let Settings { order, reduce, all_reduce, scan, reduce_scatter, .. } = settings;
    let way = format!(
        "order: {order:?}, reduce: {reduce:?}, all_reduce: {all_reduce:?}, scan: {scan:?}, \
         reduce_scatter: {reduce_scatter:?}, {}",
        memory(settings)
    );
    rooted(call, root).settings(match blocks {
        Some(blocks) => format!("blocks {blocks:?} and {way}"),
        None => way,
    })
}

/// Describes the settings that determine how much memory the operations need.
fn memory(settings: &Settings) -> String {
    let Settings { chunk_lines, buffers, slots, .. } = settings;
    format!("chunk_lines: {chunk_lines:?}, buffers: {buffers:?}, slots: {slots:?}")
}

fn rooted(call: Call, root: Option<usize>) -> Call {
    match root {
        Some(root) => call.root(root),
        None => call,
    }
}
