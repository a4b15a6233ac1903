//! Model checking of rounds of votes.

use std::rc::Rc;

use loom::thread;

use super::*;
use crate::sync::{Futex, explore};

const ROUNDS: std::ops::RangeInclusive<u64> = 1..=3;

fn until(bell: &Futex, is: impl Fn() -> bool) {
    loop {
        let heard = bell.value();
        if is() {
            return;
        }
        bell.sleep(heard, None);
    }
}

fn cast(sheet: Sheet<'_>, member: usize, round: u64, bell: &Futex) {
    sheet.cast(member, round, &[10 * round + member as u64]);
    bell.advance_and_wake();
}

fn check_result(sheet: Sheet<'_>, round: u64, bell: &Futex) {
    until(bell, || sheet.decided() == round);
    let votes = sheet.result(round).unwrap().into_iter().map(|cast| cast.vote);
    assert!(votes.eq((0..2).map(|member| Some(vec![10 * round + member]))));
}

/// Two members vote in three rounds, and a bridge decides each. One member is the bridge as well, which makes the search
/// short: members only learn of each other by the bridge. No member sees a vote or a result of another round.
#[test]
fn model_members_read_each_result_before_it_is_overwritten() {
    explore(2, || {
        let words: Rc<Vec<Word>> = Rc::new((0..Sheet::words(2, 1)).map(|_| Word::new(0)).collect());
        let bell = Rc::new(Futex::new());
        let other = {
            let (words, bell) = (Rc::clone(&words), Rc::clone(&bell));
            thread::spawn(move || {
                let sheet = Sheet::new(&words, 2, 1).unwrap();
                for round in ROUNDS {
                    cast(sheet, 1, round, &bell);
                    until(&bell, || sheet.vote_of(0, round).is_some());
                    let decided = |member| Cast {
                        vote: sheet.vote_of(member, round),
                        gone: false,
                        lost: false,
                    };
                    sheet.decide(round, &[decided(0), decided(1)]);
                    bell.advance_and_wake();
                    check_result(sheet, round, &bell);
                }
            })
        };
        let sheet = Sheet::new(&words, 2, 1).unwrap();
        for round in ROUNDS {
            cast(sheet, 0, round, &bell);
            check_result(sheet, round, &bell);
        }
        other.join().unwrap();
    });
}
