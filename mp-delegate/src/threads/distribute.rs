//! Scatter and multicast over several channels, where a communication thread sends each part.
//!
//! With as many threads as receivers, the total time is close to the time of one message. Source: Buono et al., section
//! III.B.

use std::{borrow::Borrow, fmt, marker::PhantomData, ops::Range, sync::Arc};

use mp_core::{Error, Plain};

use super::{Delegated, Request};

/// Sends chunk i of `data` through sender i, without copying it first. The chunks are as equal as possible, and the
/// longer ones come first. With more senders than elements, the last chunks are empty.
///
/// ```
/// use onchip::{Channel, World};
/// use onchip::threads::{CommThreads, scatter};
///
/// let sums = World::threads(4).run(|rank| {
///     let channel = Channel::degree(1).max_len(100);
///     if rank.id() == 0 {
///         let threads = CommThreads::start(2)?;
///         let mut to = (1..4)
///             .map(|worker| Ok(threads.delegate(rank.sender::<[u64]>("part", worker, channel)?)))
///             .collect::<onchip::Result<Vec<_>>>()?;
///         let data = scatter(&mut to, (1..=100).collect::<Vec<u64>>()).wait()?;
///         assert_eq!(data.len(), 100);
///         return Ok(0);
///     }
///     Ok(rank.receiver::<[u64]>("part", 0, channel)?.receive()?.iter().sum())
/// })?;
/// assert_eq!(sums.iter().sum::<u64>(), 5050);
/// # Ok::<(), onchip::Error>(())
/// ```
pub fn scatter<T: Plain, B: Borrow<[T]> + Send + Sync + 'static>(
    to: &mut [Delegated<[T]>],
    data: B,
) -> Distribution<T, B> {
    let (len, parts) = (data.borrow().len(), to.len());
    distribute(to, data, |i| {
        let longer = len % parts;
        let begin = i * (len / parts) + i.min(longer);
        begin..begin + len / parts + usize::from(i < longer)
    })
}

/// Sends all of `data` through every sender, without copying it first.
pub fn multicast<T: Plain, B: Borrow<[T]> + Send + Sync + 'static>(
    to: &mut [Delegated<[T]>],
    data: B,
) -> Distribution<T, B> {
    let len = data.borrow().len();
    distribute(to, data, |_| 0..len)
}

fn distribute<T: Plain, B: Borrow<[T]> + Send + Sync + 'static>(
    to: &mut [Delegated<[T]>],
    data: B,
    range: impl Fn(usize) -> Range<usize>,
) -> Distribution<T, B> {
    let data = Arc::new(data);
    let part = |i| Part { data: Arc::clone(&data), range: range(i) };
    let parts = to.iter_mut().enumerate().map(|(i, sender)| sender.send(part(i))).collect();
    Distribution { parts, data, elements: PhantomData }
}

/// A part of shared data that is sent as a message of its own.
#[derive(Debug)]
pub struct Part<B> {
    data: Arc<B>,
    range: Range<usize>,
}

impl<T, B: Borrow<[T]>> Borrow<[T]> for Part<B> {
    fn borrow(&self) -> &[T] {
        let all: &[T] = (*self.data).borrow();
        // `borrow` may return fewer elements than before. Then the part is what is left of its range.
        let end = self.range.end.min(all.len());
        &all[self.range.start.min(end)..end]
    }
}

/// A pending scatter or multicast: see [`scatter`]. If this is dropped, the operation is still carried out.
#[derive(Debug)]
pub struct Distribution<T, B> {
    parts: Vec<Request<Part<B>>>,
    data: Arc<B>,
    elements: PhantomData<fn() -> T>,
}

impl<T: Plain, B> Distribution<T, B> {
    /// Returns whether every part is done.
    pub fn is_done(&self) -> bool {
        self.parts.iter().all(Request::is_done)
    }

    /// Waits until every part is done, and returns what was distributed.
    ///
    /// # Errors
    /// An [`Undistributed`] says which parts were not sent and why, and returns what was to be distributed.
    pub fn wait(self) -> Result<B, Undistributed<B>> {
        let mut failures = Vec::new();
        for (i, part) in self.parts.into_iter().enumerate() {
            if let Err(failed) = part.wait() {
                failures.push((i, failed.error));
            }
        }
        let Some(data) = Arc::into_inner(self.data) else {
            unreachable!("every part was given back")
        };
        if failures.is_empty() { Ok(data) } else { Err(Undistributed { failures, data }) }
    }
}

/// The error of a scatter or multicast of which some parts were not sent. It returns what was to be distributed.
pub struct Undistributed<B> {
    /// The indices of the senders that failed, each with its error.
    pub failures: Vec<(usize, Error)>,
    /// The data that was to be distributed.
    pub data: B,
}

impl<B> fmt::Debug for Undistributed<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Undistributed").field("failures", &self.failures).finish_non_exhaustive()
    }
}

impl<B> fmt::Display for Undistributed<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (part, error)) in self.failures.iter().enumerate() {
            write!(f, "{}part {part}: {error}", if i > 0 { "; " } else { "" })?;
        }
        Ok(())
    }
}

impl<B> std::error::Error for Undistributed<B> {}

impl<B> From<Undistributed<B>> for Error {
    fn from(mut undistributed: Undistributed<B>) -> Self {
        match undistributed.failures.len() {
            1 => undistributed.failures.remove(0).1,
            _ => Self::other(undistributed.to_string()),
        }
    }
}
