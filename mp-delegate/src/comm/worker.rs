//! What one communication thread does.

use std::panic::{AssertUnwindSafe, catch_unwind};

use mp_core::{
    WaitPolicy,
    delegate::{Progress, ServedLane, discard},
};

use super::{
    record::Details,
    threads::{SetLane, Station},
};

/// Serves lanes until the thread is to end, then hands them on.
pub(super) fn run(stations: &[Station], index: usize, policy: WaitPolicy) {
    stations[index].bell.attend(&[]);
    let mut crew = Crew { lanes: Vec::new(), about: Vec::new() };
    // The user's code that a send runs is caught there; this is for what runs beside it, like a
    // task's waker. The lanes are whole all the same.
    discard(catch_unwind(AssertUnwindSafe(|| {
        serve(&stations[index], &mut crew, policy);
    })));
    hand_on(stations, index, crew);
}

/// The lanes that a thread serves.
struct Crew {
    lanes: Vec<ServedLane>,
    /// Of each lane: which threads may serve it, and what there is to say of what is in it.
    about: Vec<(std::sync::Arc<[usize]>, Option<Details>)>,
}

fn serve(station: &Station, crew: &mut Crew, policy: WaitPolicy) {
    loop {
        if station.bell.take_call() && !obey(station, crew) {
            return;
        }
        if look(crew) {
            continue;
        }
        station.log.resting(|| station.bell.wait(policy, &mut crew.lanes));
    }
}

/// Does what was asked for; false when the thread is to end.
fn obey(station: &Station, crew: &mut Crew) -> bool {
    let mut post = station.post();
    for SetLane { mut lane, set, details } in post.lanes.drain(..) {
        lane.watch(details.as_ref().map(|details| station.log.watch(details)));
        crew.lanes.push(lane);
        crew.about.push((set, details));
    }
    crew.lanes.iter().for_each(|lane| lane.switch(post.on));
    station.bell.attend(&crew.lanes);
    post.open
}

/// Serves every lane once; whether anything was done.
fn look(crew: &mut Crew) -> bool {
    let mut worked = false;
    let mut at = 0;
    while at < crew.lanes.len() {
        match crew.lanes[at].serve() {
            Progress::Worked => worked = true,
            Progress::Idle | Progress::Blocked => {}
            Progress::Ended => {
                // First it is ours no more: what is dropped with it is partly the user's.
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

/// Does what can be done at once, and gives every lane to another thread of its set. A lane that
/// no thread takes ends its requests when it is dropped.
fn hand_on(stations: &[Station], index: usize, mut crew: Crew) {
    {
        let mut post = stations[index].post();
        post.open = false;
        for SetLane { lane, set, details } in post.lanes.drain(..) {
            crew.lanes.push(lane);
            crew.about.push((set, details));
        }
    }
    discard(catch_unwind(AssertUnwindSafe(|| while look(&mut crew) {})));
    stations[index].bell.rest();
    for (lane, (set, details)) in crew.lanes.into_iter().zip(crew.about) {
        let mut left = Some(SetLane { lane, set, details });
        // Those after this one first, so that the lanes of a set spread.
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
        // Its destructor runs code of the user's.
        discard(left);
    }
}
