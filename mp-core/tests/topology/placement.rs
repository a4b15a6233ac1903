//! Tests of where ranks go.

use crate::machines::*;
use mp_core::topology::*;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::LazyLock;

fn auto(topology: &Topology, ranks: usize) -> Plan {
    Plan::for_ranks(topology, ranks, &Bind::Auto).unwrap()
}

fn list(topology: &Topology, ranks: usize, cpus: &[usize]) -> Result<Plan, Error> {
    Plan::for_ranks(topology, ranks, &Bind::List(cpus.to_vec()))
}

/// Returns the CPUs of the ranks, which must all be bound.
fn cpus(plan: &Plan) -> Vec<usize> {
    assert_eq!(plan.unbound(), None);
    plan.places().iter().map(|place| place.cpu.unwrap()).collect()
}

fn siblings(plan: &Plan) -> Vec<Option<usize>> {
    plan.places().iter().map(|place| place.sibling).collect()
}

fn confined(machine: &Machine, cpus: &str) -> Topology {
    machine.read().confined_to(&cpus.parse().unwrap()).unwrap()
}

fn assert_unbound(plan: &Plan, ranks: usize, reason: &str) {
    assert_eq!(plan.len(), ranks);
    assert!(plan.places().iter().all(|place| *place == Place::default()));
    assert_eq!(plan.unbound().unwrap().to_string(), reason);
}

#[test]
fn one_rank_to_a_core_then_second_hardware_threads() {
    let topology = laptop().read();
    assert_eq!(cpus(&auto(&topology, 4)), [0, 1, 2, 3]);
    assert_eq!(siblings(&auto(&topology, 4)), [Some(4), Some(5), Some(6), Some(7)]);
    assert_eq!(cpus(&auto(&topology, 5)), [0, 1, 2, 3, 4]);
    assert_eq!(siblings(&auto(&topology, 5)), [None, Some(5), Some(6), Some(7), None]);
    assert_eq!(cpus(&auto(&topology, 8)), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(auto(&topology, 8).spare_siblings(), 0);
}

#[test]
fn more_ranks_than_cpus_are_not_bound() {
    let topology = laptop().read();
    assert_unbound(&auto(&topology, 9), 9, "more ranks than the 8 usable CPUs");
    let topology = one_core().read();
    assert_eq!(cpus(&auto(&topology, 1)), [0]);
    assert_unbound(&auto(&topology, 2), 2, "more ranks than the 1 usable CPU");
}

#[test]
fn ranks_fill_a_package_before_the_next() {
    let topology = two_socket_server().read();
    assert_eq!(cpus(&auto(&topology, 10)), (0..10).collect::<Vec<_>>());
    assert_eq!(cpus(&auto(&topology, 17))[16], 16, "the second thread of core 0");
}

#[test]
fn ranks_fill_a_complex_before_the_next() {
    let topology = epyc().read();
    for ranks in [1, 7, 8, 9, 64, 65, 128] {
        let used: BTreeSet<usize> = cpus(&auto(&topology, ranks))
            .iter()
            .map(|&cpu| topology.cores()[topology.core_of(cpu).unwrap()].complex)
            .collect();
        assert_eq!(used.len(), ranks.div_ceil(8), "{ranks}");
    }
    assert_eq!(auto(&topology, 128).spare_siblings(), 128);
    assert_eq!(auto(&topology, 129).spare_siblings(), 127);
}

#[test]
fn ranks_begin_where_there_is_most_room_and_stay_near() {
    let machine = epyc();
    // These are one core of complex 0, three of complex 2, and five of complex 9, which is in the other package.
    let topology = confined(&machine, "7,16-18,72-76");
    assert_eq!(cpus(&auto(&topology, 5)), [72, 73, 74, 75, 76]);
    assert_eq!(cpus(&auto(&topology, 9)), [72, 73, 74, 75, 76, 16, 17, 18, 7]);
    // Both complexes of package 0 come before that of package 1, although the second of them is smaller.
    let topology = confined(&machine, "0-3,8-9,64-66");
    assert_eq!(cpus(&auto(&topology, 9)), [0, 1, 2, 3, 8, 9, 64, 65, 66]);
}

#[test]
fn nodes_inside_a_package_are_filled_one_after_the_other() {
    // The complexes are CPUs 0-1, 2-3, 4-5, and 6-7, and the nodes alternate.
    let machine = Machine::of((0..8).map(|cpu| NewCore {
        cpus: vec![cpu],
        package: 0,
        node: cpu / 2 % 2,
        caches: vec![(3, "Unified", "4096K", format!("{}-{}", cpu / 2 * 2, cpu / 2 * 2 + 1))],
    }));
    assert_eq!(cpus(&auto(&machine.read(), 8)), [0, 1, 4, 5, 2, 3, 6, 7]);
}

#[test]
fn performance_cores_then_efficiency_cores_then_siblings() {
    let topology = hybrid().read();
    assert_eq!(cpus(&auto(&topology, 6)), [0, 2, 4, 6, 8, 10]);
    assert_eq!(siblings(&auto(&topology, 2)), [Some(1), Some(3)]);
    let plan = auto(&topology, 9);
    assert_eq!(cpus(&plan)[6..], [12, 13, 14]);
    assert_eq!(siblings(&plan)[4..], [Some(9), Some(11), None, None, None]);
    assert_eq!(cpus(&auto(&topology, 16))[13..], [19, 1, 3]);
}

#[test]
fn fast_cores_under_another_cache_come_first() {
    let machine = Machine::of((0..12).map(|cpu| NewCore {
        cpus: vec![cpu],
        package: 0,
        node: 0,
        caches: vec![(3, "Unified", "8192K", if cpu < 8 { "0-7" } else { "8-11" }.to_owned())],
    }));
    for cpu in 0..12 {
        let frequency = if cpu < 8 { "3300000" } else { "5100000" };
        let file = format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/cpuinfo_max_freq");
        machine.file(file, frequency);
    }
    assert_eq!(cpus(&auto(&machine.read(), 6)), [8, 9, 10, 11, 0, 1]);
}

#[test]
fn a_smaller_quota_unbinds_and_a_tight_one_spares_no_siblings() {
    let topology = quota_of_one_and_a_half().read();
    assert_eq!(cpus(&auto(&topology, 1)), [0]);
    assert_eq!(siblings(&auto(&topology, 1)), [None], "1.5 CPUs do not hold two threads");
    assert_unbound(&auto(&topology, 2), 2, "more ranks than the quota of 1.5 CPUs holds");

    let machine = quota_of_one_and_a_half();
    machine.file("sys/fs/cgroup/box/cpu.max", "400000 100000\n");
    let topology = machine.read();
    assert_eq!(siblings(&auto(&topology, 2)), [Some(4), Some(5)]);
    assert_eq!(siblings(&auto(&topology, 3)), [None; 3]);
    assert_eq!(cpus(&auto(&topology, 4)), [0, 1, 2, 3]);
    assert!(auto(&topology, 5).unbound().is_some());
}

#[test]
fn a_sibling_outside_the_mask_is_not_spare() {
    let plan = auto(&cpuset_of_two().read(), 2);
    assert_eq!(cpus(&plan), [2, 3]);
    assert_eq!(siblings(&plan), [None, None]);
    let plan = auto(&confined(&laptop(), "4-5,1"), 2);
    assert_eq!(cpus(&plan), [4, 1]);
    assert_eq!(siblings(&plan), [None, Some(5)]);
}

#[test]
fn the_empty_plan() {
    let topology = laptop().read();
    assert!(auto(&topology, 0).is_empty());
    assert!(list(&topology, 0, &[]).unwrap().is_empty());
}

#[test]
fn no_binding_when_asked() {
    let plan = Plan::for_ranks(&laptop().read(), 3, &Bind::None).unwrap();
    assert_unbound(&plan, 3, "no binding asked for");
}

#[test]
fn a_list_is_taken_as_it_is() {
    let topology = laptop().read();
    let plan = list(&topology, 3, &[6, 0, 1, 4]).unwrap();
    assert_eq!(cpus(&plan), [6, 0, 1]);
    assert_eq!(siblings(&plan), [Some(2), Some(4), Some(5)]);
    assert_eq!(siblings(&list(&topology, 2, &[0, 4]).unwrap()), [None, None]);
    let bound = list(&quota_of_one_and_a_half().read(), 2, &[0, 1]).unwrap();
    assert_eq!(cpus(&bound), [0, 1], "a list binds whatever the quota");
}

#[test]
fn a_list_that_cannot_be_taken_names_what_is_wrong() {
    let topology = confined(&one_offline(), "0-1");
    let error = list(&topology, 1, &[0, 9, 2, 3, 2, 7]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot bind to CPUs 7,9, which the machine does not have; CPU 2, offline; \
         CPU 3, outside the affinity mask; choose among the usable CPUs 0-1"
    );
    let error = list(&topology, 2, &[0, 1, 1]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot bind two ranks to one CPU: CPU 1 named more than once; name each once"
    );
    let error = list(&topology, 3, &[0, 1]).unwrap_err();
    assert!(matches!(error, Error::BindTooShort { ranks: 3, cpus: 2 }), "{error}");
    assert!(matches!(list(&topology, 1, &[]), Err(Error::BindTooShort { .. })));
    assert!(matches!(list(&topology, 1, &[usize::MAX]), Err(Error::BindUnavailable { .. })));
}

#[test]
fn bindings_are_parsed_and_shown() {
    for (text, bind) in [
        ("auto", Bind::Auto),
        ("none", Bind::None),
        ("3", Bind::List(vec![3])),
        ("0,2-5", Bind::List(vec![0, 2, 3, 4, 5])),
        ("7,0-1", Bind::List(vec![7, 0, 1])),
    ] {
        assert_eq!(text.parse::<Bind>().unwrap(), bind);
        assert_eq!(bind.to_string().parse::<Bind>().unwrap(), bind);
    }
    for text in ["", "Auto", "all", "0-", "5-2", "0,,1", "0;1", "-1", "0-99999999", "auto,1"] {
        let error = text.parse::<Bind>().unwrap_err();
        assert!(matches!(error, Error::Bind { .. }) && error.to_string().contains(text));
    }
    assert_eq!(Bind::default(), Bind::Auto);
}

static MACHINES: LazyLock<Vec<Topology>> = LazyLock::new(|| {
    let machines = [laptop(), hybrid(), server(2, 3, 2, "1024K"), one_offline(), one_core()];
    machines.iter().map(Machine::read).collect()
});

proptest! {
    #[test]
    fn automatic_plans_keep_their_promises(
        machine in 0usize..5,
        mask in prop::collection::btree_set(0usize..24, 1..24),
        ranks in 0usize..26,
    ) {
        let machine = &MACHINES[machine];
        let Ok(topology) = machine.confined_to(&mask.into_iter().collect()) else {
            return Ok(());
        };
        let usable = topology.usable_cpus();
        let plan = auto(&topology, ranks);
        prop_assert_eq!(plan.len(), ranks);
        if ranks > usable.len() {
            prop_assert!(plan.unbound().is_some());
            return Ok(());
        }
        let ranks_on = cpus(&plan);
        let helpers: Vec<usize> = siblings(&plan).into_iter().flatten().collect();
        let mut all: BTreeSet<usize> = ranks_on.iter().copied().collect();
        all.extend(&helpers);
        prop_assert_eq!(all.len(), ranks_on.len() + helpers.len(), "no CPU serves two");
        prop_assert!(all.iter().all(|&cpu| usable.contains(cpu)));
        for place in plan.places() {
            if let Some(sibling) = place.sibling {
                prop_assert_eq!(topology.core_of(sibling), topology.core_of(place.cpu.unwrap()));
            }
        }
        let cores: BTreeSet<_> = ranks_on.iter().map(|&cpu| topology.core_of(cpu)).collect();
        prop_assert_eq!(cores.len(), ranks.min(topology.usable_cores()), "cores before siblings");

        // A slower kind is used only if all usable cores of the faster kinds are used.
        let kinds = ranks_on.iter().take(cores.len()).map(|&cpu| {
            topology.cores()[topology.core_of(cpu).unwrap()].kind
        });
        prop_assert!(kinds.is_sorted());

        // Among cores of one kind, ranks never return to a complex that they have left.
        let visits: Vec<(CoreKind, usize)> = ranks_on.iter().take(cores.len()).map(|&cpu| {
            let core = &topology.cores()[topology.core_of(cpu).unwrap()];
            (core.kind, core.complex)
        }).collect();
        let runs = visits.chunk_by(|one, other| one == other).count();
        prop_assert_eq!(runs, visits.iter().collect::<BTreeSet<_>>().len());

        // The same CPUs, given as a list, result in the same plan.
        prop_assert_eq!(list(&topology, ranks, &ranks_on).unwrap(), plan);
    }

    #[test]
    fn lists_never_panic(cpus in prop::collection::vec(0usize..12, 0..6), ranks in 0usize..6) {
        if let Ok(plan) = list(&MACHINES[0], ranks, &cpus) {
            prop_assert_eq!(self::cpus(&plan), &cpus[..ranks]);
        }
    }
}
