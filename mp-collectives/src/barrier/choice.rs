//! Which barrier suits the machine, and why.

use std::fmt;

use mp_model::cla::barrier::best_mixed_ways;
use mp_model::cla::{Barrier, Machine, Parameters, Placement};

/// Why a barrier was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The caller said so.
    Forced,
    /// A few ranks share cores: all tell all, so that the last one to come waits for nobody.
    FewCrowded,
    /// Many ranks share cores, and the fewest are to be woken.
    Crowded,
    /// Each rank has a core: the rounds that the cache-line-aware model finds best.
    Modelled(Origin),
}

/// Where the model's parameters are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This machine's [calibration](crate::calibration).
    Measured,
    /// The paper's Sandy Bridge, for want of one. What counts is what a line costs that comes from
    /// another core beside one that is there, which differs little between machines.
    Paper,
}

/// The choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// P.
    pub ranks: usize,
    /// Cores that they may use.
    pub cores: usize,
    /// What was chosen.
    pub barrier: Barrier,
    /// Why.
    pub reason: Reason,
}

/// Ranks up to which all tell all where they share cores. That takes a quarter less than a barrier at
/// one rank, which has to be run before the others can go on (`cargo bench --bench ratios -- barrier`),
/// but P − 1 flags of each, and each may be woken more than once by those that it finds missing.
const FEW: usize = 16;

/// The barrier for so many ranks on so many cores, with these parameters of the machine, if they are
/// known.
///
/// The m of each round are those of [`best_mixed_ways`], for flags that are in caches. Others can be
/// found by [`mp_model::cla::best_barrier`], and forced.
pub fn choose(
    ranks: usize,
    cores: usize,
    parameters: Option<Parameters>,
    forced: Option<Barrier>,
) -> Explanation {
    let (barrier, reason) = match forced {
        Some(barrier) => (barrier, Reason::Forced),
        // The two of a pair tell each other, wherever they are.
        None if ranks > cores && ranks > FEW => (Barrier::Central, Reason::Crowded),
        None if ranks > cores && ranks > 2 => {
            (Barrier::Dissemination(vec![ranks - 1]), Reason::FewCrowded)
        }
        None => {
            let origin = if parameters.is_some() { Origin::Measured } else { Origin::Paper };
            let ways = ways(ranks, parameters.unwrap_or(Parameters::SANDY_BRIDGE));
            (Barrier::Dissemination(ways), Reason::Modelled(origin))
        }
    };
    Explanation { ranks, cores, barrier, reason }
}

fn ways(ranks: usize, parameters: Parameters) -> Vec<usize> {
    let Ok(placement) = Placement::one_group(ranks) else { return Vec::new() };
    let parameters = parameters.with_cached_flags();
    best_mixed_ways(&Machine { parameters, placement }, ranks)
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Explanation { ranks, cores, barrier, reason } = self;
        write!(f, "a barrier of {ranks} ranks on {cores} cores: {barrier}; ")?;
        f.write_str(match reason {
            Reason::Forced => "forced",
            Reason::FewCrowded => "ranks share cores, and so the last one to come waits for nobody",
            Reason::Crowded => "ranks share cores, and so each is woken once at most",
            Reason::Modelled(Origin::Measured) => {
                "the rounds that the cache-line-aware model finds best for this machine"
            }
            Reason::Modelled(Origin::Paper) => {
                "the rounds that the cache-line-aware model finds best for the paper's Sandy Bridge"
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use mp_model::Time;
    use mp_model::cla::Contention;

    use super::*;

    #[test]
    fn many_ranks_that_share_cores_meet_at_one() {
        let barrier = |ranks, cores| choose(ranks, cores, None, None).barrier;
        assert_eq!(barrier(1, 1), Barrier::Dissemination(vec![]));
        assert_eq!(barrier(2, 1), Barrier::Dissemination(vec![1]));
        assert_eq!(barrier(2, 2), Barrier::Dissemination(vec![1]));
        assert_eq!([barrier(17, 2), barrier(48, 47)], [Barrier::Central, Barrier::Central]);
        assert_eq!(barrier(3, 2), Barrier::Dissemination(vec![2]));
        assert_eq!(barrier(16, 15), Barrier::Dissemination(vec![15]));
        assert!(matches!(barrier(48, 48), Barrier::Dissemination(_)));
        assert_eq!(choose(9, 9, None, Some(Barrier::Central)).reason, Reason::Forced);
    }

    #[test]
    fn the_rounds_follow_the_machine() {
        let chosen = |parameters| choose(48, 48, parameters, None).barrier;
        assert_eq!(chosen(None), chosen(Some(Parameters::SANDY_BRIDGE)));
        // Where several lines come in little more time than one, fewer rounds of more flags are best.
        let mut quick = Parameters::SANDY_BRIDGE;
        let reader = Time::from_picos(quick.near.transfer.as_picos() / 10);
        quick.contention = Some(Contention { start: Time::ZERO, reader, saved: Time::ZERO });
        assert_ne!(chosen(None), chosen(Some(quick)));
    }

    #[test]
    fn explanations_give_the_facts() {
        let text = choose(80, 2, None, None).to_string();
        for fact in ["80 ranks", "2 cores", "central", "woken once"] {
            assert!(text.contains(fact), "{fact}: {text}");
        }
        let text = choose(8, 2, None, None).to_string();
        for fact in ["8 ranks", "m = 7", "waits for nobody"] {
            assert!(text.contains(fact), "{fact}: {text}");
        }
        let text = choose(2, 2, None, None).to_string();
        assert!(text.contains("m = 1, r = 1") && text.contains("Sandy Bridge"), "{text}");
        let text = choose(2, 2, Some(Parameters::XEON_PHI), None).to_string();
        assert!(text.contains("this machine"), "{text}");
    }
}
