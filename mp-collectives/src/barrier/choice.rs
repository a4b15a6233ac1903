//! The choice of the barrier that suits the machine.

use mp_model::cla::barrier::{pushed_barrier, pushed_time};
use mp_model::cla::{Barrier, Machine, Parameters};

use crate::choice::{Choice, Origin, Reason, best_of};
use crate::near::{Near, Places};

/// The number of ranks up to which each rank notifies all others where ranks share cores. That takes a quarter less
/// time than a barrier at one rank, which has to run before the others can continue
/// (`cargo bench --bench ratios -- barrier`). But each rank needs P − 1 flags, and ranks that arrive late may wake it
/// more than once.
///
/// After a barrier at one rank, that rank is the first to continue. If it is the root of the next operation, the others
/// wait less in that operation. Both calls together take about as long with either barrier.
const MOST_WHO_TELL_ALL: usize = 16;

/// Chooses the barrier, and how it groups ranks, for ranks at these places on this many cores. `parameters` are those
/// of the machine, if they are known.
///
/// The choice assumes that ranks have flags in caches, and one flag for each rank that they notify
/// ([`mp_model::cla::barrier`]). The rounds are those with the fewest flags, over all ranks or within groups and
/// between them. Other barriers can be forced.
pub(crate) fn choose(
    places: &Places,
    cores: usize,
    parameters: Option<Parameters>,
    forced: Option<Barrier>,
) -> Choice<(Barrier, Near)> {
    let ranks = places.ranks();
    let finest = || places.levels().last().unwrap_or(Near::All);
    Choice::new(forced.map(|barrier| (barrier, finest())), || {
        // Two ranks notify each other in any case.
        if ranks > cores && ranks > 2 {
            let barrier = match ranks > MOST_WHO_TELL_ALL {
                true => Barrier::Central,
                false => Barrier::Dissemination(vec![ranks - 1]),
            };
            return ((barrier, Near::All), Reason::Crowded);
        }
        let (origin, parameters) = Origin::of(parameters);
        let machine = Machine { parameters, placement: places.finest() };
        let timed = |near| {
            let groups = places.groups(near);
            let barrier = pushed_barrier(&groups);
            (pushed_time(&machine, &barrier.rounds(&groups)), (barrier, near))
        };
        // If several are equally good, the first one is chosen, which is over all ranks.
        let best = best_of(places.levels(), timed, |next, best| next < best);
        let one = (Barrier::Dissemination(Vec::new()), Near::All);
        (best.unwrap_or(one), Reason::Modelled(origin))
    })
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
    ) -> Choice<(Barrier, Near)> {
        choose(&Places::unknown(ranks), cores, parameters, forced)
    }

    /// Chooses for `packages` packages of `each` ranks, with a core for each rank.
    fn packages(
        packages: usize,
        each: usize,
        parameters: Option<Parameters>,
    ) -> Choice<(Barrier, Near)> {
        let seat = |rank: usize| Some(Seat { cache: rank / each, package: rank / each });
        let places = Places::of_seats(&(0..packages * each).map(seat).collect::<Vec<_>>());
        choose(&places, packages * each, parameters, None)
    }

    #[test]
    fn many_ranks_that_share_cores_meet_at_one() {
        let barrier = |ranks, cores| unknown(ranks, cores, None, None).algorithm.0;
        assert_eq!(barrier(1, 1), Barrier::Dissemination(vec![]));
        assert_eq!(barrier(2, 1), Barrier::Dissemination(vec![1]));
        assert_eq!(barrier(2, 2), Barrier::Dissemination(vec![1]));
        assert_eq!([barrier(17, 2), barrier(48, 47)], [Barrier::Central, Barrier::Central]);
        assert_eq!(barrier(3, 2), Barrier::Dissemination(vec![2]));
        assert_eq!(barrier(16, 15), Barrier::Dissemination(vec![15]));
        assert_eq!(barrier(48, 48), Barrier::Dissemination(vec![1, 1, 1, 1, 2]));
        assert_eq!(unknown(9, 9, None, Some(Barrier::Central)).reason, Reason::Forced);
        // This holds for ranks that are bound to CPUs as well.
        let seats: Vec<_> = (0..32).map(|cache| Some(Seat { cache, package: 0 })).collect();
        let crowded = choose(&Places::of_seats(&seats), 31, None, None);
        assert_eq!(crowded.algorithm, (Barrier::Central, Near::All));
    }

    /// The tests of `mp-model` check what is predicted for these cases, and what they take in virtual time.
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
            assert_eq!(chosen.algorithm, (grouped, Near::Caches));
        }
        // If all ranks are equally far from each other, groups are of no use.
        let near = Parameters::SANDY_BRIDGE.near;
        let even = Parameters { far: near, ..Parameters::SANDY_BRIDGE };
        let chosen = packages(2, 8, Some(even));
        assert_eq!(chosen.algorithm, (Barrier::Dissemination(vec![1; 4]), Near::All));
    }
}
