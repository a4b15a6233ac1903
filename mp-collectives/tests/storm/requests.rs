//! The pending requests of a rank, and their results.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use mp_collectives::communicator::{
    Pending, PersistentReceive, PersistentSend, ReceiveRequest, SendRequest, Status, test_any,
};
use mp_collectives::nonblocking::CollectiveRequest;
use mp_core::{Error, Rank};
use mp_delegate::threads::Request as DelegatedRequest;

/// A request, with the number of its message or receive, or with its expected result.
pub enum Request<'a> {
    Send(SendRequest<Vec<u8>>, usize),
    Receive(ReceiveRequest<Vec<u8>>, usize),
    PersistentSend(PersistentSend<'a, Vec<u8>>, usize),
    PersistentReceive(PersistentReceive<'a, Vec<u8>>, usize),
    Barrier(CollectiveRequest<()>),
    Elements(CollectiveRequest<Vec<u64>>, Vec<u64>),
    Put(DelegatedRequest<Vec<u8>>, Vec<u8>),
}

/// The result of a [`Request`].
pub enum Done<'a> {
    /// The sent buffer is returned, also after an error.
    Send(Vec<u8>, Result<(), Error>, usize),
    Receive(Result<(Vec<u8>, Status), Error>, usize),
    PersistentSend(PersistentSend<'a, Vec<u8>>, Result<(), Error>, usize),
    PersistentReceive(PersistentReceive<'a, Vec<u8>>, Result<Status, Error>, usize),
    Barrier(Result<(), Error>),
    Elements(Result<Vec<u64>, Error>, Vec<u64>),
    Put(Result<Vec<u8>, Error>, Vec<u8>),
}

type Sent = Result<Vec<u8>, mp_core::Failed<Vec<u8>>>;
type Received = Result<(Vec<u8>, Status), mp_core::Failed<Vec<u8>>>;

fn sent<'a>(sent: Sent, number: usize) -> Done<'a> {
    match sent {
        Ok(back) => Done::Send(back, Ok(()), number),
        Err(mp_core::Failed { error, buffer }) => Done::Send(buffer, Err(error), number),
    }
}

fn received<'a>(received: Received, number: usize) -> Done<'a> {
    Done::Receive(received.map_err(|failed| failed.error), number)
}

fn world_error<B>(failed: mp_core::Failed<B>) -> Error {
    failed.error
}

impl<'a> Request<'a> {
    pub fn pending(&mut self) -> &mut dyn Pending {
        match self {
            Self::Send(request, _) => request,
            Self::Receive(request, _) => request,
            Self::PersistentSend(request, _) => request,
            Self::PersistentReceive(request, _) => request,
            Self::Barrier(request) => request,
            Self::Elements(request, _) => request,
            Self::Put(request, _) => request,
        }
    }

    /// Returns whether the request is done, after at most `limit`.
    pub fn is_done(&mut self, limit: Duration) -> mp_core::Result<bool> {
        match self {
            Self::Send(request, _) if limit.is_zero() => request.test(),
            Self::Send(request, _) => request.wait_timeout(limit),
            Self::Receive(request, _) if limit.is_zero() => request.test(),
            Self::Receive(request, _) => request.wait_timeout(limit),
            Self::Barrier(request) => request.wait_timeout(limit),
            Self::Elements(request, _) => request.wait_timeout(limit),
            Self::Put(request, _) if limit.is_zero() => request.test(),
            Self::Put(request, _) => request.wait_timeout(limit),
            Self::PersistentSend(request, _) => Ok(test_any(&mut [request])?.is_some()),
            Self::PersistentReceive(request, _) => Ok(test_any(&mut [request])?.is_some()),
        }
    }

    pub fn wait(self) -> Done<'a> {
        match self {
            Self::Send(request, number) => sent(request.wait(), number),
            Self::Receive(request, number) => received(request.wait(), number),
            Self::PersistentSend(mut request, number) => {
                let ended = request.wait();
                Done::PersistentSend(request, ended, number)
            }
            Self::PersistentReceive(mut request, number) => {
                let ended = request.wait();
                Done::PersistentReceive(request, ended, number)
            }
            Self::Barrier(request) => Done::Barrier(request.wait().map_err(world_error)),
            Self::Elements(request, wanted) => {
                Done::Elements(request.wait().map_err(world_error), wanted)
            }
            Self::Put(request, content) => {
                Done::Put(request.wait().map_err(|failed| failed.error), content)
            }
        }
    }

    /// Polls the request. Returns its result, or the request itself. Persistent requests are no futures, so they are
    /// tested.
    fn poll(mut self, task: &mut Context<'_>) -> mp_core::Result<Result<Done<'a>, Self>> {
        let done = match &mut self {
            Self::Send(request, number) => {
                Pin::new(request).poll(task).map(|ended| sent(ended, *number))
            }
            Self::Receive(request, number) => {
                Pin::new(request).poll(task).map(|ended| received(ended, *number))
            }
            Self::Barrier(request) => {
                Pin::new(request).poll(task).map(|ended| Done::Barrier(ended.map_err(world_error)))
            }
            Self::Elements(request, wanted) => Pin::new(request)
                .poll(task)
                .map(|ended| Done::Elements(ended.map_err(world_error), std::mem::take(wanted))),
            Self::Put(request, content) => Pin::new(request).poll(task).map(|ended| {
                let ended = ended.map_err(|failed| failed.error);
                Done::Put(ended, std::mem::take(content))
            }),
            Self::PersistentSend(..) | Self::PersistentReceive(..) => {
                if self.is_done(Duration::ZERO)? {
                    return Ok(Ok(self.wait()));
                }
                task.waker().wake_by_ref();
                Poll::Pending
            }
        };
        Ok(match done {
            Poll::Ready(done) => Ok(done),
            Poll::Pending => Err(self),
        })
    }
}

/// Whether a task was woken since it was polled.
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

/// Polls all requests until they are done, each only after its task was woken. Meanwhile the rank makes progress for
/// everything it has pending.
pub fn awaited<'a>(
    rank: &Rank,
    requests: BTreeMap<usize, Request<'a>>,
) -> mp_core::Result<Vec<(usize, Done<'a>)>> {
    let mut done = Vec::new();
    let mut left: Vec<_> = (requests.into_iter())
        .map(|(number, request)| (number, request, Arc::new(Woken(AtomicBool::new(true)))))
        .collect();
    while !left.is_empty() {
        let mut still = Vec::new();
        for (number, request, woken) in left {
            if !woken.0.swap(false, Ordering::Acquire) {
                still.push((number, request, woken));
                continue;
            }
            let waker = Waker::from(Arc::clone(&woken));
            match request.poll(&mut Context::from_waker(&waker))? {
                Ok(ended) => done.push((number, ended)),
                Err(request) => still.push((number, request, woken)),
            }
        }
        left = still;
        rank.progress(0);
        std::thread::yield_now();
    }
    Ok(done)
}
