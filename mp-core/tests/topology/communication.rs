//! Where communication threads (KTs) go.

use crate::machines::*;
use mp_core::topology::*;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::LazyLock;

const GENERALIZED: KtPlacement = KtPlacement::Generalized { kts: None };

fn workers(ranks: usize) -> Vec<Role> {
    vec![Role::Worker; ranks]
}

fn plan(topology: &Topology, roles: &[Role], placement: KtPlacement) -> KtPlan {
    KtPlan::new(topology, roles, &Bind::Auto, placement).unwrap()
}

fn refused(topology: &Topology, roles: &[Role], placement: KtPlacement) -> String {
    KtPlan::new(topology, roles, &Bind::Auto, placement).unwrap_err().to_string()
}

fn skt(group: usize) -> KtPlacement {
    KtPlacement::Skt { group }
}

fn joined(numbers: impl IntoIterator<Item = usize>) -> String {
    numbers.into_iter().collect::<CpuSet>().to_string()
}

fn cpu(cpu: Option<usize>) -> String {
    cpu.map_or("-".to_owned(), |cpu| cpu.to_string())
}

/// Returns the ranks' CPUs, and then each KT's CPU and the ranks that it serves.
fn shape(plan: &KtPlan) -> String {
    let ranks: Vec<String> = plan.cpus().iter().copied().map(cpu).collect();
    let kts = plan.kts().iter().map(|kt| {
        let crowded = if kt.crowded { "!" } else { "" };
        format!(" {}{crowded}:{}", cpu(kt.cpu), joined(kt.ranks.iter().copied()))
    });
    format!("{} |{}", ranks.join(" "), kts.collect::<String>())
}

#[track_caller]
fn assert_shape(plan: &KtPlan, expected: &str) {
    assert_eq!(shape(plan), expected, "\n{plan}");
}

#[test]
fn kt_w_is_beside_its_rank() {
    let laptop = laptop().read();
    assert_shape(&plan(&laptop, &workers(3), KtPlacement::KtW), "0 1 2 | 4:0 5:1 6:2");
    assert_eq!(
        refused(&laptop, &workers(5), KtPlacement::KtW),
        "kt-w needs 10 hardware threads, for 5 ranks and 5 communication threads; usable: 8; ask for fewer, \
         or choose auto"
    );
    let hybrid = hybrid().read();
    assert_shape(&plan(&hybrid, &workers(2), KtPlacement::KtW), "0 2 | 1:0 3:1");
    assert_eq!(
        refused(&hybrid, &workers(8), KtPlacement::KtW),
        "kt-w needs a spare hardware thread on each rank's core; ranks 6-7 of 8 have none; \
         choose skt or auto"
    );
    assert_eq!(
        refused(&one_offline().read(), &workers(1), KtPlacement::KtW),
        "kt-w needs a spare hardware thread on each rank's core; rank 0 of 1 has none; \
         choose skt or auto"
    );
    let server = plan(&two_socket_server().read(), &workers(10), KtPlacement::KtW);
    let kts: Vec<_> = server.kts().iter().map(|kt| kt.cpu.unwrap()).collect();
    assert_eq!(kts, (16..26).collect::<Vec<_>>());
    assert_eq!(plan(&epyc().read(), &workers(128), KtPlacement::KtW).kts()[127].cpu, Some(255));
}

#[test]
fn kt_w_uses_the_threads_of_cores_that_have_four() {
    // The paper's machine has four hardware threads on each core, so two workers and two KTs fit on each.
    let machine = Machine::of((0..2).map(|core| NewCore {
        cpus: (4 * core..4 * core + 4).collect(),
        package: 0,
        node: 0,
        caches: vec![],
    }));
    let machine = machine.read();
    let two_a_core = plan(&machine, &workers(4), KtPlacement::KtW);
    assert_shape(&two_a_core, "0 4 1 5 | 2:0 6:1 3:2 7:3");
    // Three workers and one KT on each: the best configuration of the paper's table II.
    let three_a_core = plan(&machine, &workers(6), GENERALIZED);
    assert_shape(&three_a_core, "0 4 1 5 2 6 | 3:0,2,4 7:1,3,5");
}

#[test]
fn skt_is_near_its_group_and_off_its_cores_where_possible() {
    // KTs go to idle cores first.
    assert_shape(&plan(&laptop().read(), &workers(2), skt(2)), "0 1 | 2:0-1");
    // Then a KT goes beside a rank that it serves.
    assert_shape(&plan(&laptop().read(), &workers(4), skt(2)), "0 1 2 3 | 4:0-1 6:2-3");
    assert_shape(&plan(&laptop().read(), &workers(5), skt(3)), "0 1 2 3 4 | 5:0-2 7:3-4");
    // A place under the same last-level cache is preferred to an idle core elsewhere. Groups don't span caches.
    let server = two_socket_server().read();
    let expected = "0 1 2 3 4 5 6 7 8 9 | 16:0-3 20:4-7 10:8-9";
    assert_shape(&plan(&server, &workers(10), skt(4)), expected);
    let epyc = epyc().read();
    let expected = "0 1 2 3 4 5 6 7 8 9 10 | 128:0-7 11:8-10";
    assert_shape(&plan(&epyc, &workers(11), KtPlacement::SKT), expected);
    // Groups have equal sizes, as 3 and 3 and not 5 and 1. But they are 8 and 1 if the caches require that.
    assert_shape(&plan(&laptop().read(), &workers(6), skt(5)), "0 1 2 3 4 5 | 6:0-2 7:3-5");
    let expected = "0 1 2 3 4 5 6 7 8 | 128:0-7 9:8";
    assert_shape(&plan(&epyc, &workers(9), skt(8)), expected);
    // Performance cores come before efficiency cores, whether they have a rank or not.
    let hybrid = hybrid().read();
    assert_shape(&plan(&hybrid, &workers(2), skt(2)), "0 2 | 4:0-1");
    assert_shape(&plan(&hybrid, &workers(6), skt(6)), "0 2 4 6 8 10 | 1:0-5");
    let expected = "0 2 4 6 8 10 12 13 | 1:0 3:1 5:2 7:3 9:4 11:5 14:6 15:7";
    assert_shape(&plan(&hybrid, &workers(8), skt(1)), expected);
    assert_shape(&plan(&one_offline().read(), &workers(2), skt(9)), "0 1 | 3:0-1");
}

#[test]
fn ranks_out_of_order_are_grouped_by_cache() {
    let server = two_socket_server().read();
    let bind = Bind::List(vec![0, 8, 1, 9]);
    let plan = KtPlan::new(&server, &workers(4), &bind, skt(4)).unwrap();
    assert_shape(&plan, "0 8 1 9 | 2:0,2 10:1,3");
    assert_eq!(plan.bind(), bind);
}

#[test]
fn specialized_keeps_cores_for_emitter_and_collector() {
    // This is a small version of the paper's machine. It has spare cores, so every KT has one.
    let server = two_socket_server().read();
    let farm = plan(&server, &Role::farm(4), KtPlacement::SPECIALIZED);
    assert_shape(&farm, "0 2 3 4 5 1 | 6:0 7:1-5");
    // Without spare cores, the KTs are on the hardware threads that emitter and collector leave on their cores.
    let laptop = laptop().read();
    let farm = plan(&laptop, &Role::farm(2), KtPlacement::SPECIALIZED);
    assert_shape(&farm, "0 2 3 1 | 4:0 5:1-3");
    assert_eq!(farm.chosen(), Some(KtPlacement::Specialized { emitter_kts: Some(1), group: 10 }));
    let farm = plan(&laptop, &Role::farm(4), KtPlacement::SPECIALIZED);
    assert_shape(&farm, "0 2 3 6 7 1 | 4:0 5:1-5");
    assert_eq!(
        refused(&laptop, &Role::farm(5), KtPlacement::SPECIALIZED),
        "kt-specialized keeps a core for the emitter and one for the collector, which leaves 4 \
         hardware threads for 5 workers; ask for fewer workers, or choose auto"
    );
    assert_eq!(
        refused(&two_socket_server().read(), &Role::farm(27), KtPlacement::SPECIALIZED),
        "kt-specialized needs 36 hardware threads, for 29 ranks and 7 communication threads; \
         usable: 32; ask for fewer, or choose auto"
    );
    let hybrid = hybrid().read();
    let farm = plan(&hybrid, &Role::farm(5), KtPlacement::SPECIALIZED);
    assert_shape(&farm, "0 4 6 8 10 12 2 | 1:0 3:1-6");
}

#[test]
fn specialized_has_the_papers_numbers() {
    let epyc = epyc().read();
    let counts = |workers: usize| {
        let plan = plan(&epyc, &Role::farm(workers), KtPlacement::SPECIALIZED);
        (plan.sends_of(0).len(), plan.kts().len() - plan.sends_of(0).len())
    };
    // Six workers are under the cache of emitter and collector, eight under each of the others.
    assert_eq!(counts(1), (1, 1));
    assert_eq!(counts(12), (1, 2));
    assert_eq!(counts(13), (2, 2));
    assert_eq!(counts(48), (4, 7));

    let given = KtPlacement::SPECIALIZED.with_kts(3, 14).unwrap();
    let plan = plan(&epyc, &Role::farm(12), given);
    assert_eq!(plan.sends_of(0), [0, 1, 2]);
    assert_eq!(plan.serving(0, 5), [0, 1, 2], "all share the distribution");
    assert_eq!(plan.serving(5, 13), plan.sends_of(5), "results go through the worker's own");
    assert_eq!(plan.sends_of(13), plan.sends_of(12), "the collector has none of its own");
}

#[test]
fn specialized_is_for_farms() {
    let topology = epyc().read();
    for roles in [
        vec![],
        workers(4),
        Role::farm(0),
        vec![Role::Emitter, Role::Worker],
        vec![Role::Emitter, Role::Worker, Role::Collector, Role::Collector],
    ] {
        let error = KtPlan::forced(&topology, &roles, &Bind::Auto, KtPlacement::SPECIALIZED);
        assert!(matches!(error, Err(Error::Roles { .. })), "{roles:?}: {error:?}");
    }
    assert_eq!(
        refused(&topology, &Role::farm(0), KtPlacement::SPECIALIZED),
        "kt-specialized is for one emitter, at least one worker and one collector, not for 1 + 0 + 1 of them; choose \
         kt-w, skt or auto for other ranks"
    );
}

#[test]
fn generalized_is_one_a_core_for_both_directions() {
    let laptop = laptop().read();
    let farm = plan(&laptop, &Role::farm(2), GENERALIZED);
    assert_shape(&farm, "0 1 2 3 | 4:0 5:1 6:2 7:3");
    assert_eq!(farm.serving(0, 2), [2], "what the emitter sends: by the receiver's core");
    assert_eq!(farm.serving(2, 3), [2], "what a worker sends: by its own");
    let equals = plan(&laptop, &workers(4), GENERALIZED);
    assert_eq!(equals.serving(0, 2), [0]);
    // Cores that are full of ranks are served from the nearest core with room.
    let six = plan(&laptop, &workers(6), GENERALIZED);
    assert_shape(&six, "0 1 2 3 4 5 | 6:0,2,4 7:1,3,5");
    // With one hardware thread on each core, the nearest spare one is on an idle core.
    assert_shape(&plan(&one_offline().read(), &workers(2), GENERALIZED), "0 1 | 3:0-1");
    let two = GENERALIZED.with_kts(2, 4).unwrap();
    assert_shape(&plan(&laptop, &workers(4), two), "0 1 2 3 | 4:0-1 6:2-3");
    let many = GENERALIZED.with_kts(99, 4).unwrap();
    assert_eq!(plan(&laptop, &workers(4), many).kts().len(), 4);
    let hybrid = plan(&hybrid().read(), &workers(7), GENERALIZED);
    assert_shape(&hybrid, "0 2 4 6 8 10 12 | 1:0 3:1 5:2 7:3 9:4 11:5 13:6");
}

/// A communication thread on a core of its own takes a fiftieth of the time of the rank for which it copies. On a
/// sibling of the rank's thread, it takes a third.
#[test]
fn automatic_takes_whole_cores_before_siblings() {
    let auto =
        |machine: &Machine, ranks| plan(&machine.read(), &workers(ranks), KtPlacement::Automatic);
    assert_shape(&auto(&laptop(), 1), "0 | 1:0");
    let plan = auto(&laptop(), 2);
    assert_shape(&plan, "0 1 | 2:0 3:1");
    assert_eq!((plan.asked(), plan.chosen()), (KtPlacement::Automatic, Some(skt(1))));
    // If there is one idle core, it has one KT for all ranks.
    assert_shape(&auto(&laptop(), 3), "0 1 2 | 3:0-2");
    // Ranks under a full cache have KTs on siblings. The other ranks have KTs on idle cores under their cache.
    let plan = auto(&epyc(), 11);
    let expected = "0 1 2 3 4 5 6 7 8 9 10 | 128:0 129:1 130:2 131:3 132:4 133:5 134:6 135:7 11:8 \
                    12:9 13:10";
    assert_shape(&plan, expected);
    assert_eq!(plan.chosen(), Some(skt(1)));
    // A slow idle core counts as an idle core.
    let plan = auto(&hybrid(), 8);
    assert_shape(&plan, "0 2 4 6 8 10 12 13 | 14:0-1 15:2-3 16:4-5 17:6-7");
    assert_shape(&auto(&hybrid(), 2), "0 2 | 4:0 6:1");
    // One idle core is not enough for more ranks than a KT can serve.
    let crowd = server(1, 1, 16, "32768K");
    assert_shape(&auto(&crowd, 12), "0 1 2 3 4 5 6 7 8 9 10 11 | 12:0-2 13:3-5 14:6-8 15:9-11");
    let plan = auto(&crowd, 15);
    assert_eq!(plan.kts().len(), 15);
    assert_eq!(plan.kts()[0].cpu, Some(15), "{plan}");
    assert_eq!(plan.kts()[14].cpu, Some(30), "{plan}");
    let bound =
        |ranks| KtPlan::new(&laptop().read(), &workers(ranks), &Bind::None, KtPlacement::Automatic);
    assert_shape(&bound(2).unwrap(), "- - | -:0 -:1");
    assert_shape(&bound(3).unwrap(), "- - - | -:0-2");
}

#[test]
fn automatic_takes_siblings_where_no_core_is_idle_then_spare_threads_then_none() {
    let auto =
        |machine: &Machine, ranks| plan(&machine.read(), &workers(ranks), KtPlacement::Automatic);
    let plan = auto(&laptop(), 4);
    assert_shape(&plan, "0 1 2 3 | 4:0 5:1 6:2 7:3");
    assert_eq!((plan.asked(), plan.chosen()), (KtPlacement::Automatic, Some(KtPlacement::KtW)));
    let plan = auto(&laptop(), 5);
    assert_shape(&plan, "0 1 2 3 4 | 5:0-1 6:2-3 7:4");
    assert_eq!(plan.chosen(), Some(skt(2)));
    let plan = auto(&one_offline(), 2);
    assert_shape(&plan, "0 1 | 3:0-1");
    // There is one KT for two caches.
    let server = two_socket_server().read().confined_to(&"0-1,8".parse().unwrap()).unwrap();
    let split = Bind::List(vec![0, 8]);
    let plan = KtPlan::new(&server, &workers(2), &split, KtPlacement::Automatic).unwrap();
    assert_shape(&plan, "0 8 | 1:0-1");

    for (machine, ranks, reason) in [
        (laptop(), 8, "no spare hardware thread: 8 ranks on 8 CPUs"),
        (laptop(), 9, "no spare hardware thread: 9 ranks on 8 CPUs"),
        (cpuset_of_two(), 2, "no spare hardware thread: 2 ranks on 2 CPUs"),
        (one_core(), 1, "no spare hardware thread: 1 rank on 1 CPU"),
        (
            quota_of_one_and_a_half(),
            1,
            "no spare hardware thread: 1 rank on 8 CPUs with a quota of 1.5",
        ),
    ] {
        let plan = auto(&machine, ranks);
        assert_eq!(plan.inline().unwrap().to_string(), reason);
        assert_eq!(plan.to_string(), format!("none: {reason}; sends are inline"));
        assert!(plan.kts().is_empty() && plan.chosen().is_none());
        assert!(plan.serving(0, 1).is_empty());
    }
}

#[test]
fn a_quota_counts_as_fewer_threads() {
    let machine = quota_of_one_and_a_half();
    let topology = machine.read();
    assert_eq!(
        refused(&topology, &workers(1), KtPlacement::KtW),
        "kt-w needs 2 hardware threads, for 1 rank and 1 communication thread; usable: 8, with a \
         quota of 1.5 CPUs; ask for fewer, or choose auto"
    );
    assert!(refused(&topology, &workers(1), GENERALIZED).contains("quota of 1.5"));
    machine.file("sys/fs/cgroup/box/cpu.max", "490000 100000\n");
    let topology = machine.read();
    assert_shape(&plan(&topology, &workers(2), KtPlacement::Automatic), "0 1 | 2:0 3:1");
    assert_shape(&plan(&topology, &workers(3), KtPlacement::Automatic), "0 1 2 | 3:0-2");
    assert_shape(&plan(&topology, &workers(3), GENERALIZED), "0 1 2 | 4:0-2");
    assert!(plan(&topology, &workers(4), KtPlacement::Automatic).inline().is_some());
    let forced = KtPlan::forced(&topology, &workers(4), &Bind::Auto, KtPlacement::KtW).unwrap();
    assert_shape(&forced, "0 1 2 3 | 4:0 5:1 6:2 7:3");
}

#[test]
fn small_machines_refuse_what_does_not_fit() {
    for placement in [KtPlacement::KtW, KtPlacement::SKT, GENERALIZED] {
        let error = refused(&one_core().read(), &workers(1), placement);
        let wanted = format!(
            "{placement} needs 2 hardware threads, for 1 rank and 1 communication thread; usable: 1; \
             ask for fewer, or choose auto"
        );
        assert_eq!(error, wanted);
        let cpuset = cpuset_of_two().read();
        assert!(KtPlan::new(&cpuset, &workers(2), &Bind::Auto, placement).is_err());
    }
    assert_eq!(
        refused(&one_core().read(), &Role::farm(1), KtPlacement::SPECIALIZED),
        "kt-specialized keeps a core for the emitter and one for the collector, which leaves 0 \
         hardware threads for 1 worker; ask for fewer workers, or choose auto"
    );
    assert_shape(&plan(&cpuset_of_two().read(), &workers(1), KtPlacement::SKT), "2 | 3:0");
}

#[test]
fn forced_plans_crowd() {
    let forced = |machine: &Machine, roles: &[Role], placement| {
        KtPlan::forced(&machine.read(), roles, &Bind::Auto, placement).unwrap()
    };
    let plan = forced(&cpuset_of_two(), &workers(2), KtPlacement::KtW);
    assert_shape(&plan, "2 3 | 2!:0 3!:1");
    assert!(plan.is_crowded());
    assert!(plan.to_string().contains("forced"), "{plan}");
    assert_shape(&forced(&laptop(), &workers(3), KtPlacement::KtW), "0 1 2 | 4:0 5:1 6:2");
    assert_shape(&forced(&cpuset_of_two(), &workers(2), GENERALIZED), "2 3 | 2!:0 3!:1");
    assert_shape(&forced(&one_core(), &workers(1), KtPlacement::SKT), "0 | 0!:0");
    // There are more ranks than CPUs, so nothing is bound, but all ranks are served.
    let plan = forced(&cpuset_of_two(), &Role::farm(2), KtPlacement::SPECIALIZED);
    assert_shape(&plan, "- - - - | -:0 -:1-3");
    assert_eq!(plan.unbound(), Some("more ranks than the 2 usable CPUs"));
    assert_eq!(plan.bind(), Bind::None);
    assert!(forced(&one_core(), &workers(1), KtPlacement::Automatic).inline().is_some());
}

#[test]
fn without_binding_threads_are_counted() {
    let unbound =
        |ranks, placement| KtPlan::new(&laptop().read(), &workers(ranks), &Bind::None, placement);
    assert_shape(&unbound(2, KtPlacement::KtW).unwrap(), "- - | -:0 -:1");
    assert_shape(&unbound(5, skt(2)).unwrap(), "- - - - - | -:0-1 -:2-3 -:4");
    assert_shape(&unbound(3, GENERALIZED).unwrap(), "- - - | -:0 -:1 -:2");
    assert_shape(&unbound(5, KtPlacement::Automatic).unwrap(), "- - - - - | -:0-1 -:2-3 -:4");
    assert!(matches!(unbound(5, KtPlacement::KtW), Err(Error::TooFewThreads { .. })));
    assert!(unbound(8, KtPlacement::Automatic).unwrap().inline().is_some());
    assert_eq!(unbound(2, skt(2)).unwrap().unbound(), Some("no binding asked for"));
}

#[test]
fn a_world_of_nobody_has_no_kts() {
    for placement in [KtPlacement::KtW, KtPlacement::SKT, GENERALIZED, KtPlacement::Automatic] {
        let plan = plan(&laptop().read(), &[], placement);
        assert!(plan.kts().is_empty() && plan.inline().is_none(), "{plan:?}");
        assert_eq!(plan.to_string(), "none: no ranks");
    }
}

#[test]
fn placements_are_parsed_and_shown() {
    for placement in KtPlacement::ALL {
        assert_eq!(placement.to_string().parse::<KtPlacement>().unwrap(), placement);
    }
    assert_eq!("specialized".parse::<KtPlacement>().unwrap(), KtPlacement::SPECIALIZED);
    assert_eq!("generalized".parse::<KtPlacement>().unwrap(), GENERALIZED);
    for text in ["", "w", "kt-", "kt-skt", "KT-W", "automatic", "kt-auto", "skt:4"] {
        let error = text.parse::<KtPlacement>().unwrap_err();
        assert!(error.to_string().starts_with(&format!("{text:?} is no placement")), "{error}");
    }
    assert_eq!(KtPlacement::SKT.with_kts(3, 8).unwrap(), skt(3));
    assert_eq!(KtPlacement::SKT.with_kts(9, 8).unwrap(), skt(1));
    assert_eq!(KtPlacement::SKT.with_kts(1, 0).unwrap(), skt(1));
    assert!(matches!(GENERALIZED.with_kts(0, 8), Err(Error::NoKts { .. })));
    assert!(matches!(KtPlacement::KtW.with_kts(1, 8), Err(Error::FixedKts { .. })));
    let none = KtPlacement::Specialized { emitter_kts: Some(0), group: 10 };
    assert!(refused(&laptop().read(), &Role::farm(1), none).contains("at least one"));
    assert!(refused(&laptop().read(), &workers(1), skt(0)).contains("at least one"));
    for kts in [1 << 16, usize::MAX] {
        let many = KtPlacement::SPECIALIZED.with_kts(kts, 3).unwrap();
        let error = KtPlan::forced(&laptop().read(), &Role::farm(1), &Bind::Auto, many);
        assert!(matches!(error, Err(Error::TooManyKts { .. })), "{error:?}");
        let many = GENERALIZED.with_kts(kts, 3).unwrap();
        assert_eq!(plan(&laptop().read(), &workers(3), many).kts().len(), 3);
        assert_eq!(plan(&laptop().read(), &workers(3), skt(kts)).kts().len(), 1);
    }
}

#[test]
fn plans_explain_themselves() {
    let epyc = epyc().read();
    let all = plan(&epyc, &workers(128), KtPlacement::Automatic);
    assert_eq!(
        all.explain(),
        [
            "128, kt-w: one for each rank; chosen automatically",
            "k0 to k127 on CPUs 128-255: the ranks of these numbers",
        ]
    );
    let farm = plan(&two_socket_server().read(), &Role::farm(12), KtPlacement::SPECIALIZED);
    assert_eq!(
        farm.explain(),
        [
            "3, kt-specialized: 1 for the emitter, one for up to 10 workers",
            "emitter r0 on CPU 0, collector r13 on CPU 1",
            "k0 on CPU 16: rank 0",
            "k1 on CPU 17: ranks 1-6",
            "k2 on CPU 14: ranks 7-13",
        ]
    );
    let unbound = KtPlan::new(&epyc, &workers(2), &Bind::None, skt(2)).unwrap();
    assert_eq!(unbound.explain()[1], "k0: ranks 0-1");
}

static MACHINES: LazyLock<Vec<Topology>> = LazyLock::new(|| {
    let machines = [
        laptop(),
        two_socket_server(),
        epyc(),
        hybrid(),
        one_offline(),
        cpuset_of_two(),
        quota_of_one_and_a_half(),
        one_core(),
    ];
    machines.iter().map(Machine::read).collect()
});

fn placements() -> impl Strategy<Value = KtPlacement> {
    prop_oneof![
        Just(KtPlacement::KtW),
        (0usize..12).prop_map(skt),
        (prop::option::of(0usize..6), 0usize..12)
            .prop_map(|(emitter_kts, group)| KtPlacement::Specialized { emitter_kts, group }),
        prop::option::of(0usize..20).prop_map(|kts| KtPlacement::Generalized { kts }),
        Just(KtPlacement::Automatic),
    ]
}

proptest! {
    #[test]
    fn plans_keep_their_promises(
        machine in 0usize..8,
        mask in prop::collection::btree_set(0usize..40, 1..40),
        ranks in 0usize..30,
        is_farm: bool,
        binds: bool,
        forced: bool,
        placement in placements(),
    ) {
        let machine = &MACHINES[machine];
        let Ok(topology) = machine.confined_to(&mask.into_iter().collect()) else {
            return Ok(());
        };
        let roles = if is_farm && ranks > 1 { Role::farm(ranks - 2) } else { workers(ranks) };
        let bind = if binds { Bind::Auto } else { Bind::None };
        let planned = if forced { KtPlan::forced } else { KtPlan::new };
        let plan = match planned(&topology, &roles, &bind, placement) {
            Ok(plan) => plan,
            Err(error) => {
                prop_assert!(placement != KtPlacement::Automatic, "{}", error);
                if forced {
                    let expected = matches!(error, Error::Roles { .. } | Error::NoKts { .. });
                    prop_assert!(expected, "{}", error);
                }
                return Ok(());
            }
        };
        prop_assert_eq!(plan.ranks(), ranks);
        prop_assert_eq!(plan.kts().is_empty(), ranks == 0 || plan.inline().is_some());

        // Either all ranks are served or none is, and both tables agree.
        for rank in 0..ranks {
            prop_assert_eq!(plan.sends_of(rank).is_empty(), plan.kts().is_empty());
            for (index, kt) in plan.kts().iter().enumerate() {
                prop_assert_eq!(kt.ranks.contains(&rank), plan.sends_of(rank).contains(&index));
            }
            for peer in 0..ranks {
                prop_assert_eq!(plan.serving(rank, peer).is_empty(), plan.kts().is_empty());
            }
        }
        prop_assert!(plan.kts().iter().all(|kt| !kt.ranks.is_empty() && kt.ranks.is_sorted()));

        // All threads are on usable hardware threads, and no two share one, unless the plan is forced.
        let on: Vec<usize> =
            plan.cpus().iter().copied().chain(plan.kts().iter().map(|kt| kt.cpu)).flatten().collect();
        let distinct: BTreeSet<usize> = on.iter().copied().collect();
        prop_assert!(on.iter().all(|&cpu| topology.usable_cpus().contains(cpu)));
        prop_assert_eq!(plan.is_crowded(), distinct.len() < on.len());
        prop_assert!(forced || !plan.is_crowded());
        let threads = ranks + plan.kts().len();
        if !forced && !plan.kts().is_empty() {
            prop_assert!(threads <= topology.usable_cpus().len());
            if let Some(quota) = &topology.allowance().quota {
                prop_assert!(quota.covers(threads));
            }
        }
        let bound = plan.cpus().iter().all(Option::is_some);
        prop_assert!(plan.kts().iter().all(|kt| kt.cpu.is_some() == bound));
        prop_assert!(ranks == 0 || plan.unbound().is_none() == bound);
        let core = |cpu: usize| topology.core_of(cpu).unwrap();
        if bound {
            match plan.chosen() {
                Some(KtPlacement::KtW) => for kt in plan.kts() {
                    let rank = plan.cpus()[kt.ranks[0]].unwrap();
                    prop_assert_eq!(core(kt.cpu.unwrap()), core(rank), "an SMT sibling");
                },
                Some(KtPlacement::Generalized { .. }) => {
                    let cores: BTreeSet<usize> =
                        plan.kts().iter().map(|kt| core(kt.cpu.unwrap())).collect();
                    prop_assert_eq!(cores.len(), plan.kts().len(), "at most one a core");
                }
                Some(KtPlacement::Specialized { .. }) if !forced => {
                    let cores: Vec<usize> =
                        plan.cpus().iter().map(|cpu| core(cpu.unwrap())).collect();
                    for lonely in [0, ranks - 1] {
                        let others = cores.iter().filter(|&&core| core == cores[lonely]);
                        prop_assert_eq!(others.count(), 1, "a core to itself");
                    }
                }
                _ => {}
            }
        }
        match plan.chosen() {
            Some(KtPlacement::Skt { group }) => {
                prop_assert!(plan.kts().iter().all(|kt| kt.ranks.len() <= group));
            }
            Some(KtPlacement::Generalized { kts: Some(most) }) => {
                prop_assert!(plan.kts().len() <= most);
            }
            _ => {}
        }

        // The plan can be serialized and read again, and it can be drawn.
        let bytes = postcard::to_stdvec(&plan).unwrap();
        prop_assert_eq!(postcard::from_bytes::<KtPlan>(&bytes).unwrap(), plan.clone());
        let drawing = topology.draw_kts(&plan).to_string();
        let widest = drawing.lines().map(|line| line.chars().count()).max();
        prop_assert!(widest <= Some(80), "{}", drawing);
    }
}
