//! What a rank proposes for all, in a word: the m of each round of a dissemination barrier, and what
//! they were found with.
//!
//! ```text
//! bits 0–3    the number of rounds; 0 in a word that proposes nothing
//! bit 4       whether the parameters were measured
//! bits 5–63   the m of each round, in equal parts
//! ```
//!
//! All m fit for as many ranks as a world can have: in the best r rounds for P ranks, if more than one,
//! none can be left out, so that an m + 1 is less than P / 2ʳ⁻².

use super::choice::Origin;

const ROUNDS: u32 = 4;
const FLAGS: u32 = ROUNDS + 1;

fn bits(rounds: usize) -> u32 {
    (u64::BITS - FLAGS) / rounds as u32
}

/// The word for this; 0 where it does not fit.
pub(super) fn word(ways: &[usize], origin: Origin) -> u64 {
    if ways.is_empty() || ways.len() >= 1 << ROUNDS {
        return 0;
    }
    let bits = bits(ways.len());
    let measured = u64::from(origin == Origin::Measured);
    let mut word = ways.len() as u64 | measured << ROUNDS;
    for (round, &ways) in ways.iter().enumerate() {
        if ways as u64 >> bits != 0 {
            return 0;
        }
        word |= (ways as u64) << (FLAGS + bits * round as u32);
    }
    word
}

/// What was proposed, if anything.
pub(super) fn read(word: u64) -> Option<(Vec<usize>, Origin)> {
    let rounds = (word % (1 << ROUNDS)) as usize;
    let origin = if word >> ROUNDS & 1 == 1 { Origin::Measured } else { Origin::Paper };
    let bits = (rounds > 0).then(|| bits(rounds))?;
    let ways = |round: usize| (word >> (FLAGS + bits * round as u32) & ((1 << bits) - 1)) as usize;
    Some(((0..rounds).map(ways).collect(), origin))
}

#[cfg(test)]
mod tests {
    use mp_model::cla::barrier::best_mixed_ways;
    use mp_model::cla::{Machine, Parameters, Placement};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_the_model_finds_fits() {
        for parameters in [Parameters::SANDY_BRIDGE, Parameters::XEON_PHI] {
            for ranks in [2, 3, 7, 48, 100, 1023, 1024] {
                for parameters in [parameters, parameters.without_contention()] {
                    let placement = Placement::one_group(ranks).unwrap();
                    let ways = best_mixed_ways(&Machine { parameters, placement }, ranks);
                    let word = word(&ways, Origin::Measured);
                    assert_eq!(read(word), Some((ways, Origin::Measured)), "{ranks} ranks");
                }
            }
        }
        assert_eq!(read(word(&[1; 10], Origin::Paper)), Some((vec![1; 10], Origin::Paper)));
        assert_eq!(read(word(&[1023], Origin::Paper)), Some((vec![1023], Origin::Paper)));
    }

    #[test]
    fn what_does_not_fit_is_not_proposed() {
        assert_eq!([word(&[], Origin::Paper), word(&[1; 16], Origin::Measured)], [0; 2]);
        assert_eq!(word(&[1, usize::MAX], Origin::Measured), 0);
        assert_eq!(read(0), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_word_does_harm(word in any::<u64>()) {
            prop_assert_eq!(read(word).is_none(), word % 16 == 0);
        }

        #[test]
        fn words_are_read_as_they_were_meant(ways in proptest::collection::vec(0..9_usize, 1..12)) {
            prop_assert_eq!(read(word(&ways, Origin::Paper)), Some((ways, Origin::Paper)));
        }
    }
}
