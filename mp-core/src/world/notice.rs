//! Values that a launcher and its ranks leave for each other in the segment, as blocks.

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    context::Context,
    error::Result,
    segment::{BlockKey, BlockKind, Segment},
};

/// Stores a value. The caller hands the key on in a word, with Release.
pub(crate) fn put<T: Serialize>(context: &Context, kind: BlockKind, value: &T) -> Result<BlockKey> {
    let bytes = postcard::to_stdvec(value)?;
    let key = context.allocate(kind, bytes.len() as u64)?;
    let to = context.segment.range(key.payload(), bytes.len() as u64, "a notice")?;
    // SAFETY: the block has this length, and is so new that nobody else knows it.
    unsafe { to.copy_from_nonoverlapping(std::ptr::NonNull::from(&*bytes).cast(), bytes.len()) };
    context.segment.heap().settle(key)?;
    Ok(key)
}

/// Returns the value of a key that was read from a word, with Acquire.
pub(crate) fn read<T: DeserializeOwned>(
    segment: &Segment,
    kind: BlockKind,
    key: BlockKey,
) -> Result<T> {
    let len = segment.heap().check(key, kind)?;
    let from = segment.range(key.payload(), len, "a notice")?;
    // SAFETY: the bytes lie in the block's payload, and were written before the key was handed on.
    let bytes = unsafe { std::slice::from_raw_parts(from.as_ptr(), len as usize) };
    Ok(postcard::from_bytes(bytes)?)
}

/// Returns the value of a key, and frees its block.
pub(crate) fn take<T: DeserializeOwned>(context: &Context, key: BlockKey) -> Result<T> {
    let value = read(&context.segment, BlockKind::Notice, key);
    context.free(key);
    value
}
