//! The conditions that must hold after a run.
//!
//! | who | when | must |
//! |---|---|---|
//! | a rank that was not hurt for good | nobody was | finish |
//! | | a rank was | finish, or get an error that names a rank that was; or that its peer has left, where one has: it was to leave, got such an error, or was hurt after another rank was and may have got one; or, in a critical section, that an operation's fate is unknown; in an asynchronous broadcast, that a rank that has left is lost |
//! | | the launcher was | see nothing wrong until it ends |
//! | any rank | always | see no message torn, twice, or out of order |
//! | all ranks together | always | get nothing twice out of a queue or a counter; and nothing is missing before what came out of a queue whose receivers all live |
//! | the launcher of another program | it lives | see the memory come back |
//! | the launcher | it lives | get each rank's own failure from `run`, and no other; have nothing open or mapped that it had not before |
//! | the launcher | its parent was hurt | notice nothing |
//! | a rank whose step goes on without the lost | always | finish it, or be hurt |
//! | those of them that finish | always | say that the same ranks are left, which are all but those that were hurt or have left, and have the same right result |
//! | ranks with a set in a critical section | always | find all in it that anybody was told is in it; be unsure of nothing, unless a server was hurt or no server is left; be refused nothing, unless a rank with the lock has panicked |
//! | all processes | always | end; say nothing on standard error |
//!
//! A rank that leaves, or panics, or whose process is ended, is hurt for good.

mod survivors;

use std::collections::{BTreeMap, BTreeSet};

use crate::operations::Queue;
use crate::outcome::Outcome;
use crate::plan::{EXIT_STATUS, How, Operation, Plan, Start, Who};
use crate::record::{Record, Told, Verdict};

/// The most bytes that a world's own blocks take when no rank holds anything, without those of ranks.
const REST: u64 = 64 << 10;
/// The most bytes that a rank's own blocks take.
const REST_OF_RANK: u64 = 16 << 10;

/// The reason that a process tells if it was started as a rank, and became the launcher of others.
pub const OWN_WORLD: &str = "it ran a world of its own";

/// The known facts about a run.
struct Facts<'a> {
    plan: &'a Plan,
    /// Ranks that were hurt for good.
    hurt: BTreeMap<usize, How>,
    /// Ranks without a verdict that were hurt after another rank was.
    cut_off: BTreeSet<usize>,
    /// Whether the launcher was hurt, or has never begun.
    launcher_hurt: bool,
    parent_hurt: bool,
    verdicts: BTreeMap<usize, &'a Verdict>,
}

/// Returns everything that does not hold.
pub fn judge(plan: &Plan, outcome: &Outcome) -> Vec<String> {
    let mut misses = outcome.left.clone();
    if !outcome.rest.trim().is_empty() {
        misses.push(format!("on standard error: {}", outcome.rest.trim()));
    }
    let facts = Facts::of(plan, outcome, &mut misses);
    for rank in 0..plan.ranks {
        facts.judge_rank(rank, &mut misses);
    }
    facts.judge_launcher(outcome, &mut misses);
    facts.judge_things(outcome, &mut misses);
    facts.judge_survivors(outcome, &mut misses);
    facts.judge_sets(outcome, &mut misses);
    misses
}

impl<'a> Facts<'a> {
    fn of(plan: &'a Plan, outcome: &'a Outcome, misses: &mut Vec<String>) -> Self {
        let mut hurt = BTreeMap::new();
        let mut moments = BTreeMap::new();
        let (mut launcher_hurt, mut parent_hurt) = (false, false);
        let (mut verdicts, mut begun) = (BTreeMap::new(), false);
        let launcher_is_hurt = outcome.records.iter().any(|record| {
            matches!(record, Record::Hurt { who: Who::Launcher, how, .. } if how.is_fatal())
        });
        for record in &outcome.records {
            match record {
                Record::Hurt { how, .. } if !how.is_fatal() => {}
                Record::Hurt { who: Who::Rank(rank), how, at, .. } => {
                    moments.insert(*rank, *at);
                    if hurt.insert(*rank, *how).is_some() {
                        misses.push(format!("there were two processes of rank {rank}"));
                    }
                }
                Record::Hurt { who: Who::Launcher, .. } => launcher_hurt = true,
                Record::Hurt { who: Who::Parent, .. } => parent_hurt = true,
                Record::Ended { rank, verdict, .. } => {
                    if verdicts.insert(*rank, verdict).is_some() {
                        misses.push(format!("rank {rank} ended twice"));
                    }
                }
                Record::Refused { rank, reason } => {
                    if !launcher_is_hurt || reason == OWN_WORLD {
                        misses.push(format!("rank {rank} could not enter its world: {reason}"));
                    }
                }
                Record::Begun => begun = true,
                Record::Started { .. }
                | Record::Got { .. }
                | Record::Survived { .. }
                | Record::Marked { .. }
                | Record::Read { .. }
                | Record::Unsure { .. }
                | Record::World { .. }
                | Record::Launched { .. } => {}
            }
        }
        // The parent may have ended before it started the launcher.
        launcher_hurt |= parent_hurt && !begun;
        let first = moments.values().min().copied().unwrap_or(u64::MAX);
        moments.retain(|rank, at| *at > first && !verdicts.contains_key(rank));
        let cut_off = moments.into_keys().collect();
        Self { plan, hurt, cut_off, launcher_hurt, parent_hurt, verdicts }
    }

    /// Returns whether a rank has left its peers: by the plan, or because it got an error. A rank that is cut off may
    /// have got one, and closed its ends, before it could tell.
    fn has_left(&self, rank: usize) -> bool {
        self.hurt.get(&rank) == Some(&How::Leave)
            || self.cut_off.contains(&rank)
            || matches!(self.verdicts.get(&rank), Some(Verdict::Failed { .. }))
    }

    /// Returns whether any rank was told what happened to which rank, or left by the plan. When such a rank leaves,
    /// others are told no more than that.
    fn known(&self) -> bool {
        let told = |told: &Told| matches!(told, Told::Lost(_) | Told::Unknown);
        let mut verdicts = self.verdicts.values();
        self.hurt.values().any(|&how| how == How::Leave)
            || !self.cut_off.is_empty()
            || verdicts.any(|v| matches!(v, Verdict::Failed { told: t, .. } if told(t)))
    }

    /// Returns whether a rank other than this one has left.
    fn another_left(&self, rank: usize) -> bool {
        self.known() && (0..self.plan.ranks).any(|other| other != rank && self.has_left(other))
    }

    fn judge_rank(&self, rank: usize, misses: &mut Vec<String>) {
        let mut miss = |text: String| misses.push(format!("rank {rank} {text}"));
        let was_hurt = self.hurt.contains_key(&rank);
        match self.verdicts.get(&rank) {
            Some(Verdict::Wrong { step, reason }) => {
                miss(format!("in {}: {reason}", self.operation(*step)));
            }
            _ if self.launcher_hurt => {}
            Some(Verdict::Done) => {}
            Some(Verdict::Left) if was_hurt => {}
            Some(Verdict::Left) => miss("left without having said so".to_owned()),
            Some(Verdict::Failed { step, told, error }) => {
                let operation = self.operation(*step);
                let legal = match told {
                    _ if operation == Operation::Survivors => false,
                    // No other rank can make the value when the rank that began is gone.
                    Told::Closed if operation == Operation::Healing => false,
                    Told::Lost(other) => {
                        let names_it = self.hurt.get(other).is_some_and(|&how| how != How::Leave);
                        // A rank that drops its part ends those of the others.
                        let in_parts = operation == Operation::Asynchronous;
                        names_it || in_parts && self.has_left(*other)
                    }
                    Told::Closed => !self.hurt.is_empty() && self.another_left(rank),
                    Told::Unknown => !self.hurt.is_empty() && operation == Operation::Critical,
                    Told::Revoked | Told::Other => false,
                };
                if !legal {
                    miss(format!("was told in {operation}: {error}"));
                }
            }
            None if was_hurt => {}
            None => miss("has not told how it ended".to_owned()),
        }
    }

    fn operation(&self, step: usize) -> Operation {
        self.plan.steps[step].operation
    }

    fn judge_launcher(&self, outcome: &Outcome, misses: &mut Vec<String>) {
        let mut worlds = 0;
        let mut launched = None;
        for record in &outcome.records {
            match record {
                Record::World { failures, error, memory, left } => {
                    worlds += 1;
                    let rest = REST + REST_OF_RANK * self.plan.ranks as u64;
                    if let Some(memory) = memory.filter(|&memory| memory > rest) {
                        misses.push(format!("{memory} bytes of the world's memory are in use"));
                    }
                    if let Some(error) = error {
                        misses.push(format!("the launcher got an error: {error}"));
                    } else {
                        self.judge_failures(failures, misses);
                    }
                    if !left.is_empty() {
                        misses.push(format!("the launcher is left with {}", left.join(", ")));
                    }
                }
                Record::Launched { ending } => launched = Some(ending),
                _ => {}
            }
        }
        let fewest = usize::from(!self.launcher_hurt);
        if !(fewest..=1).contains(&worlds) {
            misses.push(format!("{worlds} worlds have come to an end"));
        }
        if !self.launcher_hurt {
            match launched {
                Some(ending) if ending != "exit status: 0" => {
                    misses.push(format!("the launcher ended with {ending}"));
                }
                None if !self.parent_hurt => misses.push("the parent saw no end".to_owned()),
                _ => {}
            }
        }
    }

    /// Checks that the launcher was told of each rank's failure as it was.
    fn judge_failures(&self, failures: &[(usize, String)], misses: &mut Vec<String>) {
        for rank in 0..self.plan.ranks {
            let seen = failures.iter().find(|(failed, _)| *failed == rank);
            let seen = seen.map(|(_, cause)| cause.as_str());
            let mut legal = Vec::new();
            let by_run = self.plan.start == Start::Run;
            let of_verdict = match self.verdicts.get(&rank) {
                Some(Verdict::Done) => Some(None),
                Some(_) => Some(by_run.then_some("error")),
                None => None,
            };
            legal.extend(of_verdict);
            let exit = format!("exit {EXIT_STATUS}");
            match self.hurt.get(&rank) {
                Some(How::Kill) => legal.push(Some("signal 9")),
                Some(How::Segv) => legal.push(Some("signal 11")),
                Some(How::Exit) => legal.push(Some(exit.as_str())),
                Some(How::Panic) if by_run => legal.push(Some("panic")),
                // The program goes on after its rank's panic, or panics itself.
                Some(How::Panic) => legal.extend([None, Some("exit 101")]),
                Some(How::Leave) if by_run => legal.push(Some("error")),
                Some(How::Leave) => legal.extend([None, Some("exit 1")]),
                Some(How::Stop(_)) | None => {}
            }
            if !legal.contains(&seen) {
                misses.push(format!(
                    "the launcher was told of rank {rank}: {seen:?} instead of {legal:?}"
                ));
            }
        }
    }

    fn judge_things(&self, outcome: &Outcome, misses: &mut Vec<String>) {
        let mut steps: BTreeMap<usize, (BTreeSet<u32>, Vec<usize>)> = BTreeMap::new();
        for record in &outcome.records {
            let Record::Got { step, rank, things, .. } = record else { continue };
            let (seen, tellers) = steps.entry(*step).or_default();
            tellers.push(*rank);
            for &thing in things {
                if !seen.insert(thing) {
                    let operation = self.operation(*step);
                    misses.push(format!("{thing} came twice in {operation}, step {step}"));
                }
            }
        }
        if self.launcher_hurt {
            return;
        }
        for (step, (seen, tellers)) in steps {
            let Some(queue) = Queue::of(self.plan, step) else { continue };
            if (queue.senders..self.plan.ranks).any(|receiver| !tellers.contains(&receiver)) {
                continue;
            }
            for sender in 0..queue.senders {
                let got = queue.of_sender(sender, &seen);
                let complete = self.verdicts.get(&sender) == Some(&&Verdict::Done)
                    && (queue.senders..self.plan.ranks)
                        .all(|rank| self.verdicts.get(&rank) == Some(&&Verdict::Done));
                let gap = (0..).zip(&got).find(|(number, is)| number != *is);
                if let Some((number, _)) = gap {
                    misses.push(format!("number {number} of rank {sender} is missing"));
                } else if complete && got.len() as u64 != queue.count {
                    misses.push(format!("rank {sender}'s last messages are missing"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Injury, Step, When};

    /// Returns a plan of two ranks with one step, of which rank 1 is killed.
    fn plan(operation: Operation) -> Plan {
        let injury = Injury { who: Who::Rank(1), how: How::Kill, when: When::First };
        let steps = vec![Step { operation, seed: 1 }];
        let start = Start::Run;
        Plan { seed: 1, ranks: 2, start, park: false, steps, injuries: vec![injury] }
    }

    fn failed(told: Told) -> Record {
        let verdict = Verdict::Failed { step: 0, told, error: "it failed".to_owned() };
        Record::Ended { rank: 0, verdict, at: 1 }
    }

    /// Returns the records when all is as it must be.
    fn told() -> Vec<Record> {
        let failures = vec![(0, "error".to_owned()), (1, "signal 9".to_owned())];
        vec![
            Record::Begun,
            Record::Hurt { who: Who::Rank(1), pid: 7, how: How::Kill, at: 0 },
            failed(Told::Lost(1)),
            Record::World { failures, error: None, memory: Some(1000), left: Vec::new() },
            Record::Launched { ending: "exit status: 0".to_owned() },
        ]
    }

    fn misses(operation: Operation, records: Vec<Record>) -> String {
        let outcome = Outcome { records, rest: String::new(), left: Vec::new() };
        judge(&plan(operation), &outcome).join("; ")
    }

    /// Judges the records when one is replaced by another.
    fn with(index: usize, record: Record) -> String {
        let mut records = told();
        records[index] = record;
        misses(Operation::Pairs, records)
    }

    #[test]
    fn nothing_is_missed_where_all_holds() {
        assert_eq!(misses(Operation::Pairs, told()), "");
    }

    #[test]
    fn an_error_must_name_the_dead() {
        let wanted = "rank 0 was told in channels of two: it failed";
        for wrong in [Told::Lost(0), Told::Closed, Told::Unknown, Told::Other] {
            assert_eq!(with(2, failed(wrong)), wanted);
        }
        let mut records = told();
        records[2] = failed(Told::Unknown);
        assert_eq!(misses(Operation::Critical, records), "");
    }

    #[test]
    fn a_rank_that_is_killed_later_may_have_left_because_of_the_first() {
        let mut plan = plan(Operation::Delegated);
        plan.ranks = 3;
        let hurt = |rank, how, at| Record::Hurt { who: Who::Rank(rank), pid: 7, how, at };
        let judge_with = |later: Record| {
            let failures = [(0, "error"), (1, "signal 9"), (2, "signal 9")];
            let failures = failures.map(|(rank, cause)| (rank, cause.to_owned())).to_vec();
            let mut records = told();
            records[2] = failed(Told::Closed);
            records[3] = Record::World { failures, error: None, memory: None, left: Vec::new() };
            records.insert(2, later);
            judge(&plan, &Outcome { records, rest: String::new(), left: Vec::new() }).join("; ")
        };
        assert_eq!(judge_with(hurt(2, How::Kill, 5)), "");
        // When both died at once, no rank can have been told of the first.
        assert!(judge_with(hurt(2, How::Kill, 0)).contains("rank 0 was told in"));
    }

    #[test]
    fn all_must_come_to_their_ends() {
        let mut records = told();
        records.remove(2);
        assert!(misses(Operation::Pairs, records).starts_with("rank 0 has not told how it ended"));
        let mut records = told();
        records.extend(records[2..=3].to_vec());
        let twice = misses(Operation::Pairs, records);
        assert_eq!(twice, "rank 0 ended twice; 2 worlds have come to an end");
        let another = Record::Launched { ending: "signal: 11".to_owned() };
        assert_eq!(with(4, another), "the launcher ended with signal: 11");
    }

    #[test]
    fn the_launcher_must_be_told_what_was() {
        let world = |failures: &[(usize, &str)], memory, left: &[&str]| Record::World {
            failures: failures.iter().map(|&(rank, cause)| (rank, cause.to_owned())).collect(),
            error: None,
            memory: Some(memory),
            left: left.iter().map(|&what| what.to_owned()).collect(),
        };
        let right = [(0, "error"), (1, "signal 9")];
        assert_eq!(with(3, world(&right, 0, &[])), "");
        assert!(with(3, world(&right, 1 << 20, &[])).contains("1048576 bytes"));
        assert!(with(3, world(&right, 0, &["a pipe"])).contains("left with a pipe"));
        assert!(with(3, world(&right[1..], 0, &[])).contains("told of rank 0: None"));
        assert!(with(3, world(&[right[0], (1, "exit 0")], 0, &[])).contains("told of rank 1"));
    }

    #[test]
    fn what_comes_out_of_a_queue_comes_once_and_in_order() {
        let queue = Queue::of(&plan(Operation::Queue), 0).unwrap();
        let judge = |things: Vec<u32>| {
            let mut records = told();
            // Only the sender is hurt: the receiver is asked to be whole.
            records[1] = Record::Hurt { who: Who::Rank(0), pid: 7, how: How::Kill, at: 0 };
            records[2] = Record::Ended { rank: 1, verdict: Verdict::Done, at: 1 };
            let failures = vec![(0, "signal 9".to_owned())];
            let left = Vec::new();
            records[3] = Record::World { failures, error: None, memory: None, left };
            records.push(Record::Got { step: 0, rank: 1, things });
            misses(Operation::Queue, records)
        };
        assert!(queue.senders == 1 && queue.count > 3);
        assert_eq!(judge(vec![0, 1, 2]), "");
        assert_eq!(judge(vec![0, 2]), "number 1 of rank 0 is missing");
        assert_eq!(judge(vec![0, 1, 1]), "1 came twice in shared channels, step 0");
    }
}
