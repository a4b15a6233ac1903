//! The work of one communication thread.
//!
//! The thread looks at each of its lanes in turn. A lane belongs to one channel, so a full channel delays no other. A
//! thread that is stopped or panics gives its lanes to another thread of the sender's set. If no thread takes a lane,
//! its sends end with `NotSent`. A panic of the program's code in a send, which lends the message or drops it, ends
//! that send alone.

use std::{
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use mp_core::{
    WaitPolicy,
    delegate::{Awaited, Progress, ServedLane, discard},
};

use super::{
    record::{Details, Log},
    station::{SetLane, Station},
    task::Task,
};

/// Serves lanes until the thread is to end, then hands them on.
pub(super) fn run(stations: &[Station], index: usize, policy: WaitPolicy) {
    stations[index].bell.attend(&[], &[]);
    let mut crew = Crew { lanes: Vec::new(), about: Vec::new(), errands: Vec::new() };
    // A panic of the program's code in a send is caught there. This catches the panics of other code, such as a task's
    // waker. The lanes remain intact.
    discard(catch_unwind(AssertUnwindSafe(|| {
        serve(&stations[index], &mut crew, policy);
    })));
    hand_on(stations, index, crew);
}

/// The lanes that a thread serves, and the errands that it carries on.
struct Crew {
    lanes: Vec<ServedLane>,
    /// For each lane, the threads that may serve it, and the details of its messages.
    about: Vec<(Arc<[usize]>, Option<Details>)>,
    errands: Vec<Task>,
}

impl Crew {
    /// Returns what the errands wait for.
    fn awaited(&self) -> Vec<Awaited> {
        self.errands.iter().filter_map(Task::awaited).collect()
    }

    /// Takes over errands and advances them. They may have much to do before they wait for the first time.
    fn take_up(&mut self, errands: Vec<Task>, log: &Log) {
        let under_way =
            errands.into_iter().filter_map(|mut task| task.advance(log).then_some(task));
        self.errands.extend(under_way);
    }
}

fn serve(station: &Station, crew: &mut Crew, policy: WaitPolicy) {
    loop {
        if station.bell.take_call() && !obey(station, crew) {
            return;
        }
        if look(crew, &station.log) {
            continue;
        }
        let awaited = crew.awaited();
        station.log.resting(|| station.bell.wait(policy, &mut crew.lanes, &awaited));
    }
}

/// Carries out what other threads have asked for. Returns false when the thread is to end.
fn obey(station: &Station, crew: &mut Crew) -> bool {
    let mut post = station.post();
    for SetLane { mut lane, set, details } in post.lanes.drain(..) {
        lane.watch(details.as_ref().map(|details| station.log.watch(details)));
        crew.lanes.push(lane);
        crew.about.push((set, details));
    }
    crew.lanes.iter().for_each(|lane| lane.switch(post.on));
    let (errands, open) = (mem::take(&mut post.errands), post.open);
    drop(post);
    let mut awaited = crew.awaited();
    awaited.extend(errands.iter().filter_map(Task::awaited));
    station.bell.attend(&crew.lanes, &awaited);
    crew.take_up(errands, &station.log);
    open
}

/// Serves every lane once, and advances every errand that is ready. Returns whether anything was done.
fn look(crew: &mut Crew, log: &Log) -> bool {
    let mut worked = false;
    crew.errands.retain_mut(|task| {
        let ready = task.is_ready();
        worked |= ready;
        !ready || task.advance(log)
    });
    let mut at = 0;
    while at < crew.lanes.len() {
        match crew.lanes[at].serve() {
            Progress::Worked => worked = true,
            Progress::Idle | Progress::Blocked => {}
            Progress::Ended => {
                // The lane is removed before it is dropped, because its destructor may run the program's code.
                let lane = (crew.lanes.swap_remove(at), crew.about.swap_remove(at));
                drop(lane);
                worked = true;
                continue;
            }
        }
        at += 1;
    }
    worked
}

/// Does what can be done at once. Then it gives every lane to another thread of its set, and every errand to any other
/// thread. A lane that no thread takes ends its requests when it is dropped. An errand that no thread takes goes back
/// to its rank.
fn hand_on(stations: &[Station], index: usize, mut crew: Crew) {
    {
        let mut post = stations[index].post();
        post.open = false;
        for SetLane { lane, set, details } in post.lanes.drain(..) {
            crew.lanes.push(lane);
            crew.about.push((set, details));
        }
        crew.errands.append(&mut post.errands);
    }
    discard(catch_unwind(AssertUnwindSafe(|| while look(&mut crew, &stations[index].log) {})));
    stations[index].bell.rest();
    for task in crew.errands {
        let mut others = (1..stations.len()).map(|step| (index + step) % stations.len());
        if let Some(task) =
            others.try_fold(task, |task, other| stations[other].take_errand(task, false))
        {
            task.give_back();
        }
    }
    for (lane, (set, details)) in crew.lanes.into_iter().zip(crew.about) {
        let mut left = Some(SetLane { lane, set, details });
        // The threads after this one come first, so that the lanes of a set are spread.
        let set = left.iter().flat_map(|lane| lane.set.iter().copied()).collect::<Vec<_>>();
        let here = set.iter().position(|&other| other == index).unwrap_or(0);
        for step in 1..set.len() {
            let other = set[(here + step) % set.len()];
            if other != index
                && let Some(lane) = left.take()
            {
                left = stations[other].take_over(lane);
            }
        }
        // The destructor may run the program's code.
        discard(left);
    }
}
