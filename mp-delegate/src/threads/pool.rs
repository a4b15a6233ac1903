//! Communication threads: their number and placement, switching them on and off, and ending them.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    thread::JoinHandle,
};

use mp_core::{
    Error, ErrorKind, Message, Result, WaitPolicy, delegate::Outgoing, topology::pin_current_thread,
};

use super::{
    pays::Spare,
    record::Details,
    station::{SetLane, Station},
    task::Task,
    worker,
};
use crate::trace::Recorder;

/// A set of communication threads of this process, numbered from 0.
///
/// Clones are handles to the same threads. The threads end with the last handle. A delegated sender holds a handle.
///
/// A thread with nothing to do sleeps, and so does a thread whose channels are all full.
#[derive(Clone, Debug)]
pub struct CommThreads {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    stations: Arc<[Station]>,
    spare: Option<Spare>,
    /// The threads by number; `None` once joined.
    handles: Mutex<Vec<Option<JoinHandle<()>>>>,
    /// Which thread's turn it is to get errands.
    turn: Mutex<usize>,
}

/// A builder that configures and starts communication threads: see [`CommThreads::builder`].
#[derive(Clone, Debug)]
#[must_use = "nothing runs before `start`"]
pub struct Builder {
    threads: usize,
    name: String,
    cpus: Vec<usize>,
    policy: WaitPolicy,
    recorders: Vec<Recorder>,
    spare: Option<Spare>,
}

impl Builder {
    /// Sets the threads' names, which consist of this name and the thread's number.
    pub fn name(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// Binds each thread to a CPU: thread i to entry i of the list. If the list is shorter, it is used again from its
    /// beginning. Without a list, the threads are not bound.
    pub fn cpus(self, cpus: impl IntoIterator<Item = usize>) -> Self {
        Self { cpus: cpus.into_iter().collect(), ..self }
    }

    /// Sets how a thread that has nothing to do waits, and when it gives up its core.
    pub fn wait(self, policy: WaitPolicy) -> Self {
        Self { policy, ..self }
    }

    /// Records what each thread sends, and when it has nothing to do. Thread i records through entry i of the list, or
    /// not at all if the list is shorter. A trace learns from [`Delegated::record`](super::Delegated::record) whose
    /// messages they are.
    pub fn record(self, recorders: impl IntoIterator<Item = Recorder>) -> Self {
        Self { recorders: recorders.into_iter().collect(), ..self }
    }

    /// Sets which cores the threads have to run on, for [`Choice::Auto`](super::Choice::Auto). [`Spare::of`] reads this
    /// from a plan. In worlds with more ranks than cores it is [`Spare::None`] in any case.
    ///
    /// Without this, cores are counted: the threads have the cores that the ranks of the sender's world leave over. If
    /// there are none, nothing is delegated. If other threads that work for that world use those cores, nothing is
    /// delegated while there is room in the channel.
    pub fn spare(self, spare: Spare) -> Self {
        Self { spare: Some(spare), ..self }
    }

    /// Starts the threads.
    ///
    /// # Errors
    /// [`Os`](mp_core::ErrorKind::Os) when a thread can't be started, [`Topology`](mp_core::ErrorKind::Topology)
    /// when it can't be bound.
    pub fn start(self) -> Result<CommThreads> {
        let stations: Arc<[Station]> = (0..self.threads)
            .map(|index| {
                let recorder = self.recorders.get(index).cloned().unwrap_or_default();
                Station::new(format!("{} {index}", self.name), recorder)
            })
            .collect();
        let (handles, turn) = (Mutex::default(), Mutex::default());
        // From here on, dropping this value ends the threads that were started.
        let inner = Inner { stations: Arc::clone(&stations), spare: self.spare, handles, turn };
        let threads = CommThreads { inner: Arc::new(inner) };
        let (started, ready) = mpsc::channel();
        for (index, station) in stations.iter().enumerate() {
            let cpu = self.cpus.get(index % self.cpus.len().max(1)).copied();
            let (stations, started) = (Arc::clone(&stations), started.clone());
            let policy = self.policy;
            let handle = std::thread::Builder::new()
                .name(station.name.clone())
                .spawn(move || {
                    let bound = cpu.map_or(Ok(()), pin_current_thread);
                    let go = bound.is_ok();
                    // If another thread could not be started, the receiver no longer exists.
                    let _ = started.send(bound);
                    drop(started);
                    if go {
                        worker::run(&stations, index, policy);
                    }
                })
                .map_err(|source| {
                    Error::from(ErrorKind::Os { call: "starting a thread", source })
                })?;
            threads.inner.lock_handles().push(Some(handle));
        }
        drop(started);
        for bound in ready {
            bound?;
        }
        Ok(threads)
    }
}

impl CommThreads {
    /// Starts this many threads, which are not bound to cores. With 0 threads, delegated senders send by themselves.
    ///
    /// # Errors
    /// The same as those of [`Builder::start`].
    pub fn start(threads: usize) -> Result<Self> {
        Self::builder(threads).start()
    }

    /// Returns a builder for this many threads, to configure them before they start.
    pub fn builder(threads: usize) -> Builder {
        let (name, cpus, policy) = ("kt".to_owned(), Vec::new(), WaitPolicy::default());
        let (recorders, spare) = (Vec::new(), None);
        Builder { threads, name, cpus, policy, recorders, spare }
    }

    /// Returns which cores the threads have to run on, if that was set.
    pub fn spare(&self) -> Option<Spare> {
        self.inner.spare
    }

    /// Returns the number of threads, including those that are switched off or stopped.
    pub fn len(&self) -> usize {
        self.inner.stations.len()
    }

    /// Returns whether there are no threads.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Makes lanes to the threads of a set. Returns how many lanes there are, and where to put the details of each lane
    /// if any of the threads records them.
    pub(super) fn serve<M: Message + ?Sized>(
        &self,
        outgoing: &mut Outgoing<M>,
        set: &[usize],
    ) -> (usize, Vec<Details>) {
        let set: Arc<[usize]> = set.iter().copied().filter(|&index| index < self.len()).collect();
        let records = set.iter().any(|&index| self.inner.stations[index].log.recorder.is_on());
        let details: Vec<Details> =
            set.iter().filter(|_| records).map(|_| Details::default()).collect();
        for (at, &index) in set.iter().enumerate() {
            let station = &self.inner.stations[index];
            let lane = outgoing.add_lane(&station.bell, &station.gauge);
            let lane = SetLane { lane, set: Arc::clone(&set), details: details.get(at).cloned() };
            // If the thread was stopped, the lane is dropped, and the sender sees that no thread serves it.
            drop(station.take_over(lane));
        }
        (set.len(), details)
    }

    /// Returns the thread whose turn it is, and passes the turn to the next number.
    pub(super) fn turn(&self) -> usize {
        let mut turn = self.inner.turn.lock().unwrap_or_else(PoisonError::into_inner);
        *turn = turn.wrapping_add(1);
        turn.wrapping_sub(1) % self.len().max(1)
    }

    /// Gives a new errand to the first thread that takes it, starting with thread `first`. Returns the errand if no
    /// thread takes it.
    pub(super) fn take_errand(&self, task: Task, first: usize) -> Option<Task> {
        let (before, from) = self.inner.stations.split_at(first);
        from.iter().chain(before).try_fold(task, |task, station| station.take_errand(task, true))
    }

    /// Returns whether any thread runs and is to keep running.
    pub(super) fn any_open(&self) -> bool {
        self.inner.stations.iter().any(|station| station.post().open)
    }

    pub(super) fn measure(&self, set: &[usize]) {
        set.iter().filter_map(|&i| self.inner.stations.get(i)).for_each(|s| s.gauge.begin());
    }

    pub(super) fn measure_all(&self) {
        self.inner.stations.iter().for_each(|station| station.gauge.begin());
    }

    /// Switches a thread off or on again. A thread that is off finishes the work that it has and gets no more. Its
    /// senders choose another thread of their set, or send by themselves. The switch takes effect soon, but not at
    /// once.
    pub fn switch(&self, thread: usize, on: bool) {
        if let Some(station) = self.inner.stations.get(thread) {
            station.post().on = on;
            station.bell.ring();
        }
    }

    /// Calls [`switch`](Self::switch) for all threads.
    pub fn switch_all(&self, on: bool) {
        (0..self.len()).for_each(|thread| self.switch(thread, on));
    }

    /// Ends one thread, and waits until it has ended. The thread hands what it can't send at once to another thread of
    /// the sender's set. If there is none, the request ends with [`NotSent`](mp_core::ErrorKind::NotSent). From then
    /// on, its senders choose other threads, or send by themselves. [Errands](super::Errands) continue in another
    /// thread, or in the calls of their ranks.
    pub fn stop(&self, thread: usize) {
        if let Some(station) = self.inner.stations.get(thread) {
            station.post().open = false;
            station.bell.ring();
            self.inner.join(thread);
        }
    }

    /// Ends all threads, and waits until they have ended. What they can't send at once ends with
    /// [`NotSent`](mp_core::ErrorKind::NotSent). [Errands](super::Errands) continue in the calls of their ranks.
    pub fn shutdown(&self) {
        self.inner.shutdown();
    }
}

impl Inner {
    fn lock_handles(&self) -> MutexGuard<'_, Vec<Option<JoinHandle<()>>>> {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shutdown(&self) {
        // All threads are closed first, so that none of them hands its lanes to another one.
        for station in &*self.stations {
            station.post().open = false;
        }
        for station in &*self.stations {
            station.bell.ring();
        }
        (0..self.stations.len()).for_each(|thread| self.join(thread));
    }

    fn join(&self, thread: usize) {
        let handle = self.lock_handles().get_mut(thread).and_then(Option::take);
        if let Some(handle) = handle {
            // The last handle may be dropped by one of the threads, together with a message that it has sent.
            if handle.thread().id() != std::thread::current().id() {
                // A panic of the thread came from the program's code, and its requests have reported it.
                let _ = handle.join();
            }
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shutdown();
    }
}
