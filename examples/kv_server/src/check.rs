//! Whether the clients' logs and the store agree.

use serde::{Deserialize, Serialize};

use crate::data::{Stamp, key, weight};

/// The content of the store at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// The stamp of each key's value, 0 for none.
    pub stamps: Vec<Stamp>,
    /// How many keys the store says there are.
    pub entries: usize,
    /// A value that no client has written.
    pub torn: Option<String>,
}

/// The report of a client at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// For each key, the sum of what it has written without what it has replaced.
    pub sums: Vec<u64>,
    /// Keys with operations whose outcome it does not know.
    pub unknown: Vec<usize>,
    /// Something that could not be.
    pub violation: Option<String>,
}

/// The result of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Keys that are as all operations together have made them.
    pub verified: usize,
    /// Keys that can't be checked, because an operation on them may have been executed or not.
    pub unknown: usize,
    /// Keys that are there.
    pub entries: usize,
}

/// Compares what was found with what the operations of all clients have made of an empty store.
///
/// # Errors
/// The first thing that does not agree.
pub fn check(accounts: &[Account], found: &Found, capacity: usize) -> Result<Verdict, String> {
    if let Some(violation) = accounts.iter().find_map(|account| account.violation.as_ref()) {
        return Err(violation.clone());
    }
    if let Some(torn) = &found.torn {
        return Err(torn.clone());
    }
    let entries = found.stamps.iter().filter(|&&stamp| stamp != 0).count();
    if entries != found.entries || entries > capacity {
        let says = found.entries;
        return Err(format!("{entries} keys are there, of {capacity}; the store counts {says}"));
    }
    let mut is_unknown = vec![false; found.stamps.len()];
    for &index in accounts.iter().flat_map(|account| &account.unknown) {
        is_unknown[index] = true;
    }
    let mut verified = 0;
    for (index, &stamp) in found.stamps.iter().enumerate().filter(|&(at, _)| !is_unknown[at]) {
        let sums = accounts.iter().map(|account| account.sums[index]);
        if sums.fold(0, u64::wrapping_add) != weight(stamp) {
            let name = key(index);
            return Err(format!("{name:?} is not what the operations on it have made of it"));
        }
        verified += 1;
    }
    Ok(Verdict { verified, unknown: found.stamps.len() - verified, entries })
}

#[cfg(test)]
mod tests {
    use onchip::critical::Object;
    use onchip::critical::objects::{Entry, Map, MapOp};
    use proptest::prelude::*;

    use super::*;
    use crate::cli::tests::plan;
    use crate::data::{Key, Value, stamp_of};
    use crate::load::Load;
    use crate::log::Log;
    use crate::mix::{Kind, Mix};
    use crate::plan::Plan;

    const KEYS: usize = 20;
    const BYTES: usize = 20;
    type Store = Map<Key, Value<63>>;

    /// The fault of a store in one operation that changes a key.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Fault {
        /// It answers, but does nothing.
        Lost,
        /// It executes the operation twice.
        Twice,
        /// It loses the key some time later.
        Forgotten,
        /// It mixes its value with another one.
        Torn,
        /// It restores the previous value.
        Undone,
    }

    /// Runs clients in turn on a store, which does something wrong at some time. Returns what is found at the end.
    fn run(seed: u64, capacity: usize, fault: Option<(Fault, u64)>) -> (Vec<Account>, Found) {
        let plan = Plan { seed, keys: KEYS, mix: Mix([4, 4, 1, 1]), ..plan() };
        let mut state = vec![Entry::default(); capacity];
        let mut clients: Vec<_> =
            (0..3).map(|n| (Load::new(&plan, n), Log::new(n, KEYS, BYTES))).collect();
        let mut left = fault.map(|(_, at)| at);
        for turn in 0..600 {
            let (load, log) = &mut clients[turn % 3];
            let (kind, index) = load.pick();
            let (asked, op) = log.ask::<63>(kind, index);
            let before = state.clone();
            let mut answer = Store::apply(&mut state, op);
            // A key that was removed behind the clients' backs is hard to distinguish from one that a client has
            // removed.
            let counts = kind != Kind::Get && kind != Kind::Remove && answer.is_done();
            if counts && left.is_some_and(|left| left > 0) {
                left = left.map(|left| left - 1);
            } else if counts && left.take().is_some() {
                match fault.map(|(fault, _)| fault) {
                    Some(Fault::Lost) => state = before,
                    Some(Fault::Twice) => answer = Store::apply(&mut state, op),
                    Some(Fault::Forgotten) => {
                        Store::apply(&mut state, MapOp::remove(key(index)));
                    }
                    Some(Fault::Torn) => {
                        let get = Store::apply(&mut state, MapOp::get(key(index))).before();
                        let mut torn = get.unwrap_or_default().to_vec();
                        torn[BYTES - 1] ^= 1;
                        let torn = Value::new(&torn).unwrap();
                        Store::apply(&mut state, MapOp::insert(key(index), torn));
                    }
                    Some(Fault::Undone) | None => {
                        let undo = match answer.before() {
                            Some(value) => MapOp::insert(key(index), value),
                            None => MapOp::remove(key(index)),
                        };
                        Store::apply(&mut state, undo);
                    }
                }
            }
            log.answered(&asked, &answer);
        }
        let mut found =
            Found { entries: Store::apply(&mut state, MapOp::len()).number(), ..Found::default() };
        for index in 0..KEYS {
            let value = Store::apply(&mut state, MapOp::get(key(index))).before();
            let stamp = value.map(|value| stamp_of(index, &value, BYTES));
            if stamp == Some(None) {
                found.torn = Some(format!("{value:?}"));
            }
            found.stamps.push(stamp.flatten().unwrap_or(0));
        }
        let accounts = clients.into_iter().map(|(_, mut log)| {
            let (sums, violation) = log.finish();
            Account { sums, unknown: Vec::new(), violation }
        });
        (accounts.collect(), found)
    }

    proptest! {
        #[test]
        fn a_good_store_is_found_good(seed: u64, capacity in 5usize..40) {
            let (accounts, found) = run(seed, capacity, None);
            let verdict = check(&accounts, &found, capacity);
            let entries = found.entries;
            prop_assert_eq!(verdict, Ok(Verdict { verified: KEYS, unknown: 0, entries }));
        }

        #[test]
        fn one_fault_is_found(
            seed: u64,
            capacity in 15usize..40,
            at in 0u64..50,
            fault in prop::sample::select(&[
                Fault::Lost, Fault::Twice, Fault::Forgotten, Fault::Torn, Fault::Undone,
            ][..]),
        ) {
            let (accounts, found) = run(seed, capacity, Some((fault, at)));
            prop_assert!(check(&accounts, &found, capacity).is_err());
        }
    }

    #[test]
    fn nobody_can_say_what_became_of_some_keys() {
        let (mut accounts, mut found) = run(1, 30, None);
        found.stamps[3] = crate::data::stamp(9, 9);
        found.entries = found.stamps.iter().filter(|stamp| **stamp != 0).count();
        let verdict = check(&accounts, &found, 30);
        assert!(verdict.unwrap_err().contains("key:00000003"));
        accounts[1].unknown = vec![3, 5, 3];
        let verdict = check(&accounts, &found, 30).unwrap();
        assert_eq!((verdict.verified, verdict.unknown), (KEYS - 2, 2));
        found.entries += 1;
        assert!(check(&accounts, &found, 30).unwrap_err().contains("counts"));
    }
}
