//! Results of ranks, carried from process to process.
//!
//! Results go through the segment, as blocks. Pipes carry only output.

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    context::Context,
    error::{Cause, RankFailure, RanksFailed, Result},
    segment::{BlockKey, BlockKind, SegmentError},
    sync::Ordering,
};

/// The outcome of one rank's code.
pub(crate) type Outcome<T> = std::result::Result<T, Cause>;

/// Runs rank code, and converts its error or its panic into a cause. Never unwinds, although displaying the code's
/// error may panic, and so may dropping the payload of a panic.
pub(crate) fn outcome_of<T>(code: impl FnOnce() -> Result<T>) -> Outcome<T> {
    let spelled = caught(|| code().map_err(|error| Cause::Error(error.to_string())));
    spelled.map_err(Cause::Panic).and_then(|outcome| outcome)
}

/// Returns the result of the code, or the message of its panic.
pub(crate) fn caught<T>(code: impl FnOnce() -> T) -> std::result::Result<T, String> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(code)).map_err(|payload| {
        let message = payload
            .downcast_ref::<&str>()
            .map(|message| (*message).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "(a panic without a message)".to_owned());
        let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(payload)));
        // Dropping that second payload might panic as well, so it is forgotten.
        dropped.unwrap_or_else(std::mem::forget);
        message
    })
}

/// Returns all ranks' values, or all ranks' failures.
pub(crate) fn gather<T>(outcomes: impl IntoIterator<Item = Outcome<T>>) -> Result<Vec<T>> {
    let mut values = Vec::new();
    let mut failures = Vec::new();
    for (rank, outcome) in outcomes.into_iter().enumerate() {
        match outcome {
            Ok(value) => values.push(value),
            Err(cause) => failures.push(RankFailure { rank, cause }),
        }
    }
    if failures.is_empty() { Ok(values) } else { Err(RanksFailed { failures }.into()) }
}

/// Decodes all ranks' outcomes.
pub(crate) fn decode<T: DeserializeOwned>(encoded: &[u8]) -> Result<Vec<Outcome<T>>> {
    Ok(postcard::from_bytes(encoded)?)
}

/// Encodes a value for [`post`].
pub(crate) fn encode<T: Serialize>(value: T) -> Result<Vec<u8>> {
    Ok(postcard::to_stdvec(&Outcome::Ok(value))?)
}

/// Stores this rank's outcome, with an encoded value, where the other ranks can read it.
pub(crate) fn post(context: &Context, outcome: &Outcome<Vec<u8>>) -> Result<()> {
    let failed;
    let bytes = match outcome {
        Ok(bytes) => bytes,
        Err(cause) => {
            failed = encode_failure(cause)?;
            &failed
        }
    };
    post_encoded(context, context.me, bytes)
}

/// Stores the outcome of a rank as it is encoded.
pub(crate) fn post_encoded(context: &Context, rank: u32, bytes: &[u8]) -> Result<()> {
    let key = context.allocate(BlockKind::Outcome, bytes.len() as u64)?;
    let to = context.segment.range(key.payload(), bytes.len() as u64, "an outcome")?;
    // SAFETY: the block has this length, and is so new that nobody else knows it.
    unsafe { to.copy_from_nonoverlapping(std::ptr::NonNull::from(bytes).cast(), bytes.len()) };
    let control = context.rank(rank)?;
    control.outcome_len.store(bytes.len() as u64, Ordering::Relaxed);
    // Release: pairs with the Acquire in `encoded`. This comes before the block is settled, so that the outcome is not
    // lost if this rank dies in between.
    control.outcome.store(key.word(), Ordering::Release);
    context.segment.heap().settle(key)?;
    Ok(())
}

/// Returns the outcome that a rank has posted, still encoded.
pub(crate) fn encoded(context: &Context, rank: u32) -> Result<Option<Vec<u8>>> {
    let control = context.rank(rank)?;
    // Acquire: pairs with the Release in `post_encoded`.
    let Some(key) = BlockKey::from_word(control.outcome.load(Ordering::Acquire)) else {
        return Ok(None);
    };
    let room = context.segment.heap().check(key, BlockKind::Outcome)?;
    let len = control.outcome_len.load(Ordering::Relaxed).min(room);
    let from = context.segment.range(key.payload(), len, "an outcome")?;
    // SAFETY: the bytes lie in the block's payload, and were written before the key was published.
    Ok(Some(unsafe { std::slice::from_raw_parts(from.as_ptr(), len as usize) }.to_vec()))
}

/// Returns the outcome that a rank has posted.
pub(crate) fn read<T: DeserializeOwned>(
    context: &Context,
    rank: u32,
) -> Result<Option<Outcome<T>>> {
    Ok(match encoded(context, rank)? {
        Some(bytes) => Some(postcard::from_bytes(&bytes)?),
        None => None,
    })
}

/// Returns how the rank failed whose outcome was encoded so, if it failed.
pub(crate) fn failure(encoded: &[u8]) -> Option<Cause> {
    // Only a failure is decoded whole, which has the same form for all types of results.
    postcard::from_bytes::<Outcome<()>>(encoded).ok()?.err()
}

/// Encodes a failure for [`post_encoded`].
pub(crate) fn encode_failure(cause: &Cause) -> Result<Vec<u8>> {
    Ok(postcard::to_stdvec(&Outcome::<()>::Err(cause.clone()))?)
}

/// Frees a posted outcome.
pub(crate) fn forget(context: &Context, rank: u32) -> Result<(), SegmentError> {
    let control = context.rank(rank)?;
    if let Some(key) = BlockKey::from_word(control.outcome.swap(0, Ordering::AcqRel)) {
        context.free(key);
    }
    Ok(())
}
