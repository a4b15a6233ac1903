//! The conditions for ranks that go on without those that were lost.

use std::collections::{BTreeMap, BTreeSet};

use super::Facts;
use crate::operations::{Healing, result_of};
use crate::outcome::Outcome;
use crate::plan::How;
use crate::record::{Record, Verdict};

impl Facts<'_> {
    /// Returns whether a rank was hurt for good, or has left. It may have left because it found something wrong, which
    /// is reported anyway.
    fn is_gone(&self, rank: usize) -> bool {
        let is_wrong = matches!(self.verdicts.get(&rank), Some(Verdict::Wrong { .. }));
        self.hurt.contains_key(&rank) || self.has_left(rank) || is_wrong
    }

    /// Checks that the ranks that came to the end of such a step agree, and are right.
    pub(super) fn judge_survivors(&self, outcome: &Outcome, misses: &mut Vec<String>) {
        let mut steps: BTreeMap<usize, BTreeMap<usize, (&Vec<usize>, u64)>> = BTreeMap::new();
        for record in &outcome.records {
            if let Record::Survived { step, rank, group, result } = record {
                steps.entry(*step).or_default().insert(*rank, (group, *result));
            }
        }
        for (step, tellers) in steps {
            let mut miss = |text: String| misses.push(format!("step {step}: {text}"));
            let Some((&first, &(group, result))) = tellers.first_key_value() else { continue };
            for (rank, &(other, computed)) in &tellers {
                if (other, computed) != (group, result) {
                    miss(format!(
                        "rank {rank} is left with {other:?} and {computed}, rank {first} with {group:?} and {result}"
                    ));
                }
                if !other.contains(rank) {
                    miss(format!("rank {rank} is left with {other:?}, without itself"));
                }
            }
            let wanted = result_of(group);
            if result != wanted {
                miss(format!("{group:?} have computed {result} instead of {wanted}"));
            }
            if self.launcher_hurt {
                continue;
            }
            for rank in (0..self.plan.ranks).filter(|&rank| !self.is_gone(rank)) {
                if !group.contains(&rank) {
                    miss(format!("rank {rank} is left out of {group:?}, and was not hurt"));
                } else if !tellers.contains_key(&rank) {
                    miss(format!(
                        "rank {rank} of {group:?} did not come to the end, and was not hurt"
                    ));
                }
            }
        }
    }

    /// Checks that everything is in the sets that ranks were told is there.
    pub(super) fn judge_sets(&self, outcome: &Outcome, misses: &mut Vec<String>) {
        let mut marked: BTreeMap<usize, BTreeMap<u32, usize>> = BTreeMap::new();
        let mut readers: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for record in &outcome.records {
            if let Record::Marked { step, rank, things } = record {
                marked.entry(*step).or_default().extend(things.iter().map(|&thing| (thing, *rank)));
            }
        }
        for record in &outcome.records {
            match record {
                Record::Read { step, rank, things } => {
                    readers.entry(*step).or_default().insert(*rank);
                    let there: BTreeSet<u32> = things.iter().copied().collect();
                    let told = marked.get(step).into_iter().flatten();
                    for (thing, by) in told.filter(|(thing, _)| !there.contains(thing)) {
                        misses.push(format!(
                            "step {step}: {thing} of rank {by} is not in the set, says rank {rank}"
                        ));
                    }
                }
                Record::Unsure { step, rank, unknown, poisoned } => {
                    let mut miss =
                        |text: String| misses.push(format!("step {step}: rank {rank} {text}"));
                    if *unknown > 0 && !self.may_be_unknown(*step) {
                        miss(format!("is told nothing of {unknown} operations"));
                    }
                    if *poisoned > 0 && !self.may_be_poisoned(*step) {
                        miss(format!("is refused {poisoned} operations"));
                    }
                }
                _ => {}
            }
        }
        if self.launcher_hurt {
            return;
        }
        for step in 0..self.plan.steps.len() {
            let Some(Healing { servers, .. }) = Healing::of(self.plan, step) else { continue };
            for rank in servers..self.plan.ranks {
                let read = readers.get(&step).is_some_and(|readers| readers.contains(&rank));
                let done = self.verdicts.get(&rank) == Some(&&Verdict::Done);
                if done && !read && !self.may_be_unknown(step) {
                    misses.push(format!("step {step}: rank {rank} has not read the set"));
                }
            }
        }
    }

    /// Returns whether a rank may be told that it is unknown whether an operation was executed. Operations by a lock or
    /// a combiner are executed again. So are those by a server that has a successor, except requests in channels.
    fn may_be_unknown(&self, step: usize) -> bool {
        let Some(Healing { scheme, servers }) = Healing::of(self.plan, step) else { return false };
        let gone = (0..servers).filter(|&server| self.is_gone(server)).count();
        match scheme {
            onchip::critical::Scheme::MpServer(_) => gone > 0,
            scheme => scheme.needs_server() && gone == servers,
        }
    }

    /// Returns whether a set may be poisoned: only a lock's guard is held while the program's own code runs.
    fn may_be_poisoned(&self, step: usize) -> bool {
        let panicked = self.hurt.values().any(|&how| how == How::Panic);
        panicked && Healing::of(self.plan, step).is_some_and(|healing| healing.scheme.is_lock())
    }
}

#[cfg(test)]
mod tests {
    use super::super::judge;
    use super::*;
    use crate::plan::{Injury, Operation, Plan, Start, Step, When, Who};

    /// Returns a plan of three ranks with one step, of which rank 2 is killed.
    fn plan(operation: Operation, seed: u64) -> Plan {
        let injury = Injury { who: Who::Rank(2), how: How::Kill, when: When::First };
        let steps = vec![Step { operation, seed }];
        Plan { seed: 1, ranks: 3, start: Start::Run, park: false, steps, injuries: vec![injury] }
    }

    /// Returns what is missed when these records come beside what all tell, and rank 2 was hurt in this way.
    fn misses(plan: &Plan, how: How, records: Vec<Record>) -> String {
        let failures = match how {
            How::Kill => vec![(2, "signal 9".to_owned())],
            How::Panic => vec![(2, "panic".to_owned())],
            _ => Vec::new(),
        };
        let mut all = vec![Record::Begun];
        all.push(Record::Hurt { who: Who::Rank(2), pid: 7, how, at: 0 });
        all.extend(records);
        for rank in (0..3).filter(|&rank| rank < 2 || !how.is_fatal()) {
            all.push(Record::Ended { rank, verdict: Verdict::Done, at: 1 });
        }
        all.push(Record::World { failures, error: None, memory: None, left: Vec::new() });
        all.push(Record::Launched { ending: "exit status: 0".to_owned() });
        judge(plan, &Outcome { records: all, rest: String::new(), left: Vec::new() }).join("; ")
    }

    fn survived(rank: usize, group: &[usize], result: u64) -> Record {
        Record::Survived { step: 0, rank, group: group.to_vec(), result }
    }

    #[test]
    fn survivors_must_be_of_one_mind_and_right() {
        let plan = plan(Operation::Survivors, 1);
        let with = |how, records| misses(&plan, how, records);
        let both =
            |group: &[usize], result| vec![survived(0, group, result), survived(1, group, result)];
        assert_eq!(with(How::Kill, both(&[0, 1], 3)), "");
        // It had done its part before it died.
        assert_eq!(with(How::Kill, both(&[0, 1, 2], 6)), "");
        assert_eq!(
            with(How::Kill, both(&[0, 1], 4)),
            "step 0: [0, 1] have computed 4 instead of 3"
        );
        let differ = vec![survived(0, &[0, 1], 3), survived(1, &[0, 1, 2], 6)];
        assert!(
            with(How::Kill, differ).contains("rank 1 is left with [0, 1, 2] and 6, rank 0 with")
        );
        assert!(with(How::Kill, vec![survived(0, &[0], 1)]).contains("rank 1 is left out of [0]"));
        let without_itself = vec![survived(0, &[0, 1], 3), survived(1, &[0], 1)];
        assert!(with(How::Kill, without_itself).contains("left with [0], without itself"));
        let alone = with(How::Kill, vec![survived(0, &[0, 1], 3)]);
        assert_eq!(alone, "step 0: rank 1 of [0, 1] did not come to the end, and was not hurt");
        // A rank that was stopped for a while is waited for.
        assert!(with(How::Stop(1), both(&[0, 1], 3)).contains("rank 2 is left out of [0, 1]"));
    }

    #[test]
    fn survivors_get_no_errors() {
        use crate::record::Told;
        let plan = plan(Operation::Survivors, 1);
        for told in [Told::Lost(2), Told::Closed, Told::Revoked, Told::Unknown] {
            let verdict = Verdict::Failed { step: 0, told, error: "it failed".to_owned() };
            let records = vec![
                Record::Begun,
                Record::Hurt { who: Who::Rank(2), pid: 7, how: How::Kill, at: 0 },
                Record::Ended { rank: 0, verdict, at: 1 },
            ];
            let outcome = Outcome { records, rest: String::new(), left: Vec::new() };
            let misses = judge(&plan, &outcome).join("; ");
            assert!(misses.contains("rank 0 was told in survivors: it failed"), "{misses}");
        }
    }

    /// Returns a plan with one healing step of the kind that is wanted.
    fn set(wanted: impl Fn(&Healing) -> bool) -> Plan {
        let plans = (0..1000).map(|seed| plan(Operation::Healing, seed));
        let is_so = |plan: &Plan| Healing::of(plan, 0).is_some_and(|healing| wanted(&healing));
        { plans }.find(is_so).expect("one of a thousand")
    }

    fn read(things: &[u32]) -> Vec<Record> {
        let things = things.to_vec();
        (0..2).map(|rank| Record::Read { step: 0, rank, things: things.clone() }).collect()
    }

    #[test]
    fn nothing_that_was_acknowledged_is_lost() {
        let plan = set(|healing| healing.scheme.is_lock());
        let marked =
            |rank, things: &[u32]| Record::Marked { step: 0, rank, things: things.to_vec() };
        let with = |there: &[u32]| {
            let told = vec![marked(0, &[1, 2]), marked(2, &[120])];
            misses(&plan, How::Kill, [told, read(there)].concat())
        };
        assert_eq!(with(&[1, 2, 120]), "");
        // Numbers of which no rank was told may be there, too.
        assert_eq!(with(&[1, 2, 61, 120, 121]), "");
        assert!(with(&[1, 2]).contains("120 of rank 2 is not in the set, says rank 0"));
        assert!(with(&[1, 120]).contains("2 of rank 0 is not in the set, says rank 1"));
        let unread = misses(&plan, How::Kill, read(&[])[..1].to_vec());
        assert_eq!(unread, "step 0: rank 1 has not read the set");
    }

    #[test]
    fn nobody_is_unsure_without_a_reason() {
        let told = |plan: &Plan, how, unknown, poisoned| {
            let unsure = Record::Unsure { step: 0, rank: 0, unknown, poisoned };
            misses(plan, how, [vec![unsure], read(&[])].concat())
        };
        let lock = set(|healing| healing.scheme.is_lock());
        let combiner = set(|healing| !healing.scheme.is_lock() && !healing.scheme.needs_server());
        let server = set(|healing| healing.scheme.needs_server() && healing.servers == 1);
        for plan in [&lock, &combiner, &server] {
            // Rank 2 serves nothing.
            assert_eq!(
                told(plan, How::Kill, 1, 0),
                "step 0: rank 0 is told nothing of 1 operations"
            );
            assert_eq!(told(plan, How::Kill, 0, 2), "step 0: rank 0 is refused 2 operations");
        }
        assert_eq!(told(&lock, How::Panic, 0, 2), "");
        assert!(told(&combiner, How::Panic, 0, 2).contains("is refused"));
    }
}
