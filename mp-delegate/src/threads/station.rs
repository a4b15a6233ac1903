//! What other threads know about a communication thread, and what they ask it to do.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mp_core::delegate::{Bell, Gauge, ServedLane};

use super::{
    record::{Details, Log},
    task::Task,
};
use crate::trace::Recorder;

/// What other threads know about one thread.
#[derive(Debug)]
pub(super) struct Station {
    pub(super) name: String,
    pub(super) bell: Arc<Bell>,
    pub(super) gauge: Arc<Gauge>,
    pub(super) log: Arc<Log>,
    post: Mutex<Post>,
}

/// What a thread is to do besides serving its lanes.
#[derive(Debug)]
pub(super) struct Post {
    /// Lanes to serve from now on.
    pub(super) lanes: Vec<SetLane>,
    /// Errands to carry on from now on.
    pub(super) errands: Vec<Task>,
    /// Whether the thread accepts more sends.
    pub(super) on: bool,
    /// Whether the thread runs and is to keep running.
    pub(super) open: bool,
}

/// A lane, and the threads that may serve it.
#[derive(Debug)]
pub(super) struct SetLane {
    pub(super) lane: ServedLane,
    pub(super) set: Arc<[usize]>,
    /// The details of the lane's messages, if they are recorded.
    pub(super) details: Option<Details>,
}

impl Station {
    /// Creates the station of a thread that runs and is switched on.
    pub(super) fn new(name: String, recorder: Recorder) -> Self {
        let post = Post { lanes: Vec::new(), errands: Vec::new(), on: true, open: true };
        let (bell, gauge) = (Arc::new(Bell::new()), Arc::new(Gauge::new()));
        Self { name, bell, gauge, log: Log::new(recorder), post: Mutex::new(post) }
    }

    pub(super) fn post(&self) -> MutexGuard<'_, Post> {
        self.post.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the thread a lane. Returns the lane if the thread takes no more lanes.
    pub(super) fn take_over(&self, mut lane: SetLane) -> Option<SetLane> {
        let mut post = self.post();
        if !post.open {
            return Some(lane);
        }
        lane.lane.switch(post.on);
        lane.lane.move_to(&self.bell);
        post.lanes.push(lane);
        None
    }

    /// Gives the thread an errand. Returns the errand if the thread takes no more errands, or no `new` ones.
    pub(super) fn take_errand(&self, task: Task, new: bool) -> Option<Task> {
        let mut post = self.post();
        if !post.open || new && !post.on {
            return Some(task);
        }
        post.errands.push(task);
        drop(post);
        self.bell.ring();
        None
    }
}
