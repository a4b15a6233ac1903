//! Properties of all schemes.

use mp_core::{Error, ErrorKind, WaitPolicy};
use mp_delegate::critical::{Backoff, Protected, Request, Scheme, Section, Server};

use crate::{
    objects::{Counter, Nothing, Small, Wide, expect, users, with},
    support::{Together, on_all, run_on_all_with},
};

/// All results of a counter are different, and the results of a rank increase.
fn count(sections: &[Section], ranks: usize, times: u64, policy: WaitPolicy) {
    let code = |rank: &mp_core::Rank| {
        let count = |section: &Section| {
            with::<Counter, _>(rank, *section, |counter| {
                (0..times).map(|_| counter.apply(1)).collect::<mp_core::Result<Vec<u64>>>()
            })
        };
        sections.iter().map(count).collect::<mp_core::Result<Vec<_>>>()
    };
    // The order in which ranks take turns differs from run to run.
    for (kind, results) in run_on_all_with(ranks, |world| world.wait(policy), code).each() {
        let results = results.unwrap_or_else(|error| panic!("{kind}: {error}"));
        for (at, section) in sections.iter().enumerate() {
            let scheme = section.scheme();
            let owns = results.iter().map(|rank| &rank[at]);
            for own in owns.clone() {
                assert!(own.is_sorted_by(|a, b| a < b), "{scheme}, {kind}: {own:?}");
            }
            let mut all: Vec<u64> = owns.flatten().copied().collect();
            all.sort_unstable();
            let wanted: Vec<u64> = (0..times * users(scheme, ranks)).collect();
            assert_eq!(all, wanted, "{scheme}, {kind}");
        }
    }
}

fn all() -> Vec<Section> {
    Scheme::ALL.map(Section::new).to_vec()
}

#[test]
fn every_operation_is_executed_once() {
    for ranks in [2, 3, 5] {
        count(&all(), ranks, 300, WaitPolicy::Adaptive);
    }
    let alone: Vec<_> = all().into_iter().filter(|s| !s.scheme().needs_server()).collect();
    count(&alone, 1, 300, WaitPolicy::Adaptive);
}

#[test]
fn sleepers_are_woken() {
    count(&all(), 4, 100, WaitPolicy::Park);
}

#[test]
fn combiners_hand_over_at_once_or_late() {
    let combiners = [Scheme::CcSynch, Scheme::HSynch, Scheme::HybComb].map(Section::new);
    let late = |section: Section| [1, 2, 1000].map(|max_ops| section.max_ops(max_ops));
    count(&combiners.map(late).concat(), 4, 200, WaitPolicy::Adaptive);
    let groups = [1, 2, 3].map(|groups| Section::new(Scheme::HSynch).groups(groups));
    count(&groups, 5, 100, WaitPolicy::Adaptive);
}

#[test]
fn clients_look_away_meanwhile() {
    let away = [Backoff::Fixed(1), Backoff::Fixed(50), Backoff::Tuned];
    let sections = away.map(|backoff| Section::new(Scheme::SlotServer).backoff(backoff));
    count(&sections, 3, 300, WaitPolicy::Adaptive);
}

#[test]
fn operations_longer_than_a_line_come_whole() {
    on_all(3, |rank| {
        Scheme::ALL.iter().try_for_each(|scheme| {
            let section = Section::new(*scheme).len(100);
            with::<Wide, _>(rank, section, |wide| {
                let mut last = None;
                for _ in 0..100 {
                    let before = wide.apply([1; 20])?;
                    expect(before.iter().all(|element| *element == before[0]), true)?;
                    expect(last < Some(before[0]), true)?;
                    last = Some(before[0]);
                }
                Ok(())
            })
        })
    });
}

#[test]
fn operations_of_no_length_happen() {
    on_all(3, |rank| {
        Scheme::ALL.iter().try_for_each(|scheme| {
            with::<Nothing, _>(rank, (*scheme).into(), |nothing| {
                (0..100).try_for_each(|_| nothing.apply(()))
            })
        })
    });
}

/// A window of requests in flight. Results are asked for late, in another order, or never.
#[test]
fn results_of_submitted_operations_are_kept() {
    on_all(2, |rank| {
        for scheme in Scheme::ALL {
            for in_flight in [1, 2, 5, 32] {
                let section = Section::new(scheme).in_flight(in_flight);
                with::<Counter, _>(rank, section, |counter| windows(counter, in_flight))?;
            }
        }
        Ok(())
    });
}

fn windows(counter: &Protected<Counter>, in_flight: usize) -> mp_core::Result<()> {
    // If there is no server, the other rank counts as well.
    let mut window = std::collections::VecDeque::<Request<'_, Counter>>::new();
    let mut last = None;
    for _ in 0..10 * in_flight {
        if window.len() == in_flight {
            let Some(oldest) = window.pop_front() else { continue };
            let before = oldest.wait()?;
            expect(last < Some(before), true)?;
            last = Some(before);
        }
        window.push_back(counter.submit(1)?);
    }
    // The last request is waited for first.
    let mut next = None;
    while let Some(request) = window.pop_back() {
        let before = request.wait()?;
        expect(next.is_none_or(|next| before < next) && last < Some(before), true)?;
        next = Some(before);
    }
    for _ in 0..3 * in_flight {
        drop(counter.submit(1)?);
    }
    let mut request = counter.submit(0)?;
    counter.flush()?;
    while !request.test()? {
        std::thread::yield_now();
    }
    expect(request.wait()? >= 13 * in_flight as u64, true)?;
    Ok(())
}

#[test]
fn streamed_responses_come_whole() {
    for in_flight in [1, 4] {
        let section = Section::new(Scheme::SlotServer).streaming(true).in_flight(in_flight);
        let all = on_all(3, |rank| {
            with::<Small, _>(rank, section, |small| {
                let mut sum = 0;
                for _ in 0..200 {
                    let request = small.submit(1)?;
                    sum = sum.max(request.wait()?);
                }
                Ok(u32::from(sum >= 199))
            })
        });
        assert_eq!(all, [0, 1, 1]);
    }
}

#[test]
fn a_value_is_made_once() {
    on_all(3, |rank| {
        Scheme::ALL.into_iter().try_for_each(|scheme| {
            let object = Protected::<Counter>::open(rank, "made", scheme, |count| *count += 1000)?;
            if scheme.needs_server() && rank.id() == 0 {
                let mut server = Server::new();
                server.add(object)?;
                return server.serve();
            }
            expect(object.apply(0)?, 1000)
        })
    });
}

#[test]
fn all_ranks_must_want_the_same() {
    let result = on_all(2, |rank| {
        let section = Section::new(Scheme::Mcs).max_ops(1 + rank.id());
        match Protected::<Counter>::open(rank, "same", section, |_| ()).map_err(Error::into_kind) {
            Ok(object) => {
                // The object stays open until the other rank has tried to open it.
                let mut meet = Together::new(rank)?;
                meet.wait()?;
                drop(object);
                Ok(1)
            }
            Err(ErrorKind::ObjectMismatch { object }) if &*object == "same" => {
                Together::new(rank)?.wait()?;
                Ok(1)
            }
            Err(error) => Err(error.into()),
        }
    });
    assert_eq!(result, [1, 1]);
}

#[test]
fn what_cannot_be_is_refused() {
    let rank = mp_core::World::solo().unwrap();
    let bad = |section: Section| match Protected::<Counter>::open(&rank, "bad", section, |_| ())
        .map_err(Error::into_kind)
    {
        Err(ErrorKind::BadObject { .. }) => {}
        other => panic!("{other:?}"),
    };
    bad(Section::new(Scheme::MpServer(1)));
    bad(Section::new(Scheme::SlotServer).streaming(true));
    bad(Section::new(Scheme::Mcs).streaming(true));
    bad(Section::new(Scheme::Mcs).seats(0));
    bad(Section::new(Scheme::HybComb).max_ops(0));
    bad(Section::new(Scheme::HybComb).max_ops(usize::MAX));
    bad(Section::new(Scheme::SlotServer).in_flight(0));
    bad(Section::new(Scheme::SlotServer).len(2));
    bad(Section::new(Scheme::SlotServer).seats(5000));
    bad(Section::new(Scheme::HSynch).groups(0));
    let long = "n".repeat(65);
    let open = Protected::<Counter>::open(&rank, &long, Scheme::Mcs, |_| ());
    assert!(
        matches!(open.as_ref().map_err(Error::kind), Err(ErrorKind::BadMpbs { .. })),
        "{open:?}"
    );
    // The failed call must not take memory either.
    let counter = Protected::<Counter>::open(&rank, "good", Scheme::Mcs, |_| ()).unwrap();
    assert_eq!(counter.apply(7).unwrap(), 0);
    assert!(format!("{counter:?}").contains("good"));
    drop(counter);
    assert!(rank.memory().in_use < 100 << 10, "{:?}", rank.memory());
}
