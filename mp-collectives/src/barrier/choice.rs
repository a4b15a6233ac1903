//! The choice of the barrier that suits the machine, with its reason.

use std::fmt;

use mp_model::cla::barrier::{pushed_barrier, pushed_time};
use mp_model::cla::{Barrier, Machine, Parameters};

use crate::near::{Near, Places};

/// The reason why a barrier was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The caller forced it.
    Forced,
    /// A few ranks share cores: each rank tells all others, so that the last rank to arrive does not wait.
    FewCrowded,
    /// Many ranks share cores, so as few ranks as possible are to be woken.
    Crowded,
    /// Each rank has a core: the groups and rounds that the cache-line-aware model finds best.
    Modelled(Origin),
}

/// The source of the model's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This machine's [calibration](crate::calibration).
    Measured,
    /// The paper's Sandy Bridge, if there is no calibration. What matters is the cost of a line that comes from another
    /// core relative to that of a line that is already there, which differs little between machines.
    Paper,
}

/// The choice of a barrier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// P, the number of ranks.
    pub ranks: usize,
    /// The number of cores that they may use.
    pub cores: usize,
    /// The chosen barrier.
    pub barrier: Barrier,
    /// How ranks are grouped, for [`Barrier::Grouped`].
    pub near: Near,
    /// The reason for the choice.
    pub reason: Reason,
}

/// The number of ranks up to which each rank tells all others where they share cores. That takes a quarter less time
/// than a barrier at one rank, which has to run before the others can continue
/// (`cargo bench --bench ratios -- barrier`). But it takes P − 1 flags of each rank, and each rank may be woken more
/// than once by those that it finds missing.
const FEW: usize = 16;

/// Chooses the barrier for ranks at these places on this many cores, with these parameters of the machine, if they are
/// known.
///
/// The choice assumes that ranks have flags in caches, and one flag for each rank that they tell
/// ([`mp_model::cla::barrier`]). The rounds are those with the fewest flags, over all ranks or within groups and
/// between them. Other barriers can be forced.
pub fn choose(
    places: &Places,
    cores: usize,
    parameters: Option<Parameters>,
    forced: Option<Barrier>,
) -> Explanation {
    let ranks = places.ranks();
    let finest = || places.levels().last().unwrap_or(Near::All);
    let (near, barrier, reason) = match forced {
        Some(barrier) => (finest(), barrier, Reason::Forced),
        // The two of a pair tell each other, wherever they are.
        None if ranks > cores && ranks > FEW => (Near::All, Barrier::Central, Reason::Crowded),
        None if ranks > cores && ranks > 2 => {
            (Near::All, Barrier::Dissemination(vec![ranks - 1]), Reason::FewCrowded)
        }
        None => {
            let origin = if parameters.is_some() { Origin::Measured } else { Origin::Paper };
            let parameters = parameters.unwrap_or(Parameters::SANDY_BRIDGE).with_cached_flags();
            let machine = Machine { parameters, placement: places.finest() };
            let timed = |near| {
                let groups = places.groups(near);
                let barrier = pushed_barrier(&groups);
                (pushed_time(&machine, &barrier.rounds(&groups)), near, barrier)
            };
            // Of equal ones the first, over all ranks.
            let best = places.levels().map(timed).min_by_key(|timed| timed.0);
            let one = (Near::All, Barrier::Dissemination(Vec::new()));
            let (near, barrier) = best.map_or(one, |(_, near, barrier)| (near, barrier));
            (near, barrier, Reason::Modelled(origin))
        }
    };
    Explanation { ranks, cores, barrier, near, reason }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Explanation { ranks, cores, barrier, near, reason } = self;
        write!(f, "a barrier of {ranks} ranks on {cores} cores: {barrier}")?;
        if matches!(barrier, Barrier::Grouped { .. }) {
            write!(f, ", groups are {near}")?;
        }
        f.write_str("; ")?;
        f.write_str(match reason {
            Reason::Forced => "forced",
            Reason::FewCrowded => "ranks share cores, and so the last one to come waits for nobody",
            Reason::Crowded => "ranks share cores, and so each is woken once at most",
            Reason::Modelled(Origin::Measured) => {
                "which the cache-line-aware model finds best for this machine"
            }
            Reason::Modelled(Origin::Paper) => {
                "which the cache-line-aware model finds best for the paper's Sandy Bridge"
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use mp_core::topology::Seat;
    use mp_model::cla::barrier::Exchange;

    use super::*;

    fn unknown(
        ranks: usize,
        cores: usize,
        parameters: Option<Parameters>,
        forced: Option<Barrier>,
    ) -> Explanation {
        choose(&Places::unknown(ranks), cores, parameters, forced)
    }

    /// So many packages of so many ranks, with a core for each.
    fn packages(packages: usize, each: usize, parameters: Option<Parameters>) -> Explanation {
        let seat = |rank: usize| Some(Seat { cache: rank / each, package: rank / each });
        let places = Places::of_seats(&(0..packages * each).map(seat).collect::<Vec<_>>());
        choose(&places, packages * each, parameters, None)
    }

    #[test]
    fn many_ranks_that_share_cores_meet_at_one() {
        let barrier = |ranks, cores| unknown(ranks, cores, None, None).barrier;
        assert_eq!(barrier(1, 1), Barrier::Dissemination(vec![]));
        assert_eq!(barrier(2, 1), Barrier::Dissemination(vec![1]));
        assert_eq!(barrier(2, 2), Barrier::Dissemination(vec![1]));
        assert_eq!([barrier(17, 2), barrier(48, 47)], [Barrier::Central, Barrier::Central]);
        assert_eq!(barrier(3, 2), Barrier::Dissemination(vec![2]));
        assert_eq!(barrier(16, 15), Barrier::Dissemination(vec![15]));
        assert_eq!(barrier(48, 48), Barrier::Dissemination(vec![1, 1, 1, 1, 2]));
        assert_eq!(unknown(9, 9, None, Some(Barrier::Central)).reason, Reason::Forced);
        // Bound or not.
        let seats: Vec<_> = (0..32).map(|cache| Some(Seat { cache, package: 0 })).collect();
        let crowded = choose(&Places::of_seats(&seats), 31, None, None);
        assert_eq!((crowded.near, crowded.barrier), (Near::All, Barrier::Central));
    }

    /// What is predicted for these, and what they take in virtual time, is in `mp-model`.
    #[test]
    fn the_form_follows_the_machine() {
        for (count, each, within, between) in [
            (2, 8, vec![1; 3], vec![1]),
            (2, 64, vec![1; 6], vec![1]),
            (8, 16, vec![1; 4], vec![1; 3]),
        ] {
            let chosen = packages(count, each, None);
            let exchange = Exchange::Ways(between);
            let grouped = Barrier::Grouped { within: vec![within; count], exchange };
            assert_eq!((chosen.near, chosen.barrier), (Near::Caches, grouped));
        }
        // Where all are equally far, groups are of no use.
        let near = Parameters::SANDY_BRIDGE.near;
        let even = Parameters { far: near, ..Parameters::SANDY_BRIDGE };
        let chosen = packages(2, 8, Some(even));
        assert_eq!((chosen.near, chosen.barrier), (Near::All, Barrier::Dissemination(vec![1; 4])));
    }

    #[test]
    fn explanations_give_the_facts() {
        let text = unknown(80, 2, None, None).to_string();
        for fact in ["80 ranks", "2 cores", "central", "woken once"] {
            assert!(text.contains(fact), "{fact}: {text}");
        }
        let text = unknown(8, 2, None, None).to_string();
        for fact in ["8 ranks", "m = 7", "waits for nobody"] {
            assert!(text.contains(fact), "{fact}: {text}");
        }
        let text = unknown(2, 2, None, None).to_string();
        assert!(text.contains("m = 1, r = 1") && text.contains("Sandy Bridge"), "{text}");
        let text = unknown(2, 2, Some(Parameters::XEON_PHI), None).to_string();
        assert!(text.contains("this machine"), "{text}");
        let text = packages(2, 8, None).to_string();
        for fact in ["2 of m = 1, r = 3", "between them (m = 1, r = 1)", "ranks of a cache"] {
            assert!(text.contains(fact), "{fact}: {text}");
        }
    }
}
