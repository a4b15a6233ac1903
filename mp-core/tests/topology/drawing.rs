//! The drawings that `mprun topo` shows.

use crate::machines::*;
use mp_core::topology::*;

fn draw(machine: &Machine, ranks: usize) -> String {
    let topology = machine.read();
    let plan = Plan::for_ranks(&topology, ranks, &Bind::Auto).unwrap();
    let drawing = topology.draw(Some(&plan)).to_string();
    drawing.replace(machine.root().to_str().unwrap(), "")
}

/// Compares with a drawing that begins at the left border of the test's source.
fn assert_drawn(drawing: &str, expected: &str) {
    assert!(drawing == expected.trim_start_matches('\n'), "drawn:\n{drawing}\nexpected:{expected}");
}

#[test]
fn a_laptop_with_fewer_ranks_than_threads() {
    assert_drawn(
        &draw(&laptop(), 6),
        "
machine   1 package, 4 cores, 8 CPUs (hardware threads)
caches    L1d 48 KiB, L1i 32 KiB, L2 1.25 MiB per core; L3 8 MiB per 4 cores
usable    8 of 8 CPUs on 4 cores; no quota
ranks     6 on CPUs 0-5, some sharing a core; communication threads on CPUs 6-7

package 0
  ┌─ L3 8 MiB ──┬──────┬──────┐
  │ 0 r0 │ 1 r1 │ 2 r2 │ 3 r3 │
  │ 4 r4 │ 5 r5 │ 6 k2 │ 7 k3 │
  └──────┴──────┴──────┴──────┘

r rank   k its communication thread
",
    );
}

#[test]
fn a_machine_without_ranks() {
    let drawing = laptop().read().draw(None).to_string();
    assert_drawn(
        &drawing,
        "
machine   1 package, 4 cores, 8 CPUs (hardware threads)
caches    L1d 48 KiB, L1i 32 KiB, L2 1.25 MiB per core; L3 8 MiB per 4 cores
usable    8 of 8 CPUs on 4 cores; no quota

package 0
  ┌─ L3 8 MiB ┬───┐
  │ 0 │ 1 │ 2 │ 3 │
  │ 4 │ 5 │ 6 │ 7 │
  └───┴───┴───┴───┘
",
    );
}

#[test]
fn a_server_of_two_packages() {
    assert_drawn(
        &draw(&two_socket_server(), 10),
        "
machine   2 packages, 16 cores, 32 CPUs (hardware threads), 2 NUMA nodes
caches    L1d 48 KiB, L1i 32 KiB, L2 1 MiB per core; L3 32 MiB per 8 cores
usable    32 of 32 CPUs on 16 cores; no quota
ranks     10 on CPUs 0-9; communication threads on CPUs 16-25

package 0, node 0
  ┌─ L3 32 MiB ───┬───────┬───────┬───────┬───────┬───────┬───────┐
  │  0 r0 │  1 r1 │  2 r2 │  3 r3 │  4 r4 │  5 r5 │  6 r6 │  7 r7 │
  │ 16 k0 │ 17 k1 │ 18 k2 │ 19 k3 │ 20 k4 │ 21 k5 │ 22 k6 │ 23 k7 │
  └───────┴───────┴───────┴───────┴───────┴───────┴───────┴───────┘

package 1, node 1
  ┌─ L3 32 MiB ───┬───────┬───────┬───────┬───────┬───────┬───────┐
  │  8 r8 │  9 r9 │ 10 ·  │ 11 ·  │ 12 ·  │ 13 ·  │ 14 ·  │ 15 ·  │
  │ 24 k8 │ 25 k9 │ 26 ·  │ 27 ·  │ 28 ·  │ 29 ·  │ 30 ·  │ 31 ·  │
  └───────┴───────┴───────┴───────┴───────┴───────┴───────┴───────┘

r rank   k its communication thread   · free
",
    );
}

#[test]
fn complexes_that_look_alike_are_counted() {
    assert_drawn(
        &draw(&epyc(), 11),
        "
machine   2 packages, 128 cores, 256 CPUs (hardware threads), 2 NUMA nodes
caches    L1d 48 KiB, L1i 32 KiB, L2 1 MiB per core; L3 32 MiB per 8 cores
usable    256 of 256 CPUs on 128 cores; no quota
ranks     11 on CPUs 0-10; communication threads on CPUs 128-138

package 0, node 0
  ┌─ L3 32 MiB ─────┬────────┬────────┬────────┬────────┬────────┬────────┐
  │  0 r0  │  1 r1  │  2 r2  │  3 r3  │  4 r4  │  5 r5  │  6 r6  │  7 r7  │
  │128 k0  │129 k1  │130 k2  │131 k3  │132 k4  │133 k5  │134 k6  │135 k7  │
  └────────┴────────┴────────┴────────┴────────┴────────┴────────┴────────┘
  ┌─ L3 32 MiB ─────┬────────┬────────┬────────┬────────┬────────┬────────┐
  │  8 r8  │  9 r9  │ 10 r10 │ 11 ·   │ 12 ·   │ 13 ·   │ 14 ·   │ 15 ·   │
  │136 k8  │137 k9  │138 k10 │139 ·   │140 ·   │141 ·   │142 ·   │143 ·   │
  └────────┴────────┴────────┴────────┴────────┴────────┴────────┴────────┘
  ┌─ L3 32 MiB ─────┬────────┬────────┬────────┬────────┬────────┬────────┐
  │ 16 ·   │ 17 ·   │ 18 ·   │ 19 ·   │ 20 ·   │ 21 ·   │ 22 ·   │ 23 ·   │
  │144 ·   │145 ·   │146 ·   │147 ·   │148 ·   │149 ·   │150 ·   │151 ·   │
  └────────┴────────┴────────┴────────┴────────┴────────┴────────┴────────┘
  + 5 more like this: CPUs 24-63,152-191

package 1, node 1
  ┌─ L3 32 MiB ─────┬────────┬────────┬────────┬────────┬────────┬────────┐
  │ 64 ·   │ 65 ·   │ 66 ·   │ 67 ·   │ 68 ·   │ 69 ·   │ 70 ·   │ 71 ·   │
  │192 ·   │193 ·   │194 ·   │195 ·   │196 ·   │197 ·   │198 ·   │199 ·   │
  └────────┴────────┴────────┴────────┴────────┴────────┴────────┴────────┘
  + 7 more like this: CPUs 72-127,200-255

r rank   k its communication thread   · free
",
    );
}

#[test]
fn a_full_server_fits_on_a_screen() {
    assert_drawn(
        &draw(&epyc(), 128),
        "
machine   2 packages, 128 cores, 256 CPUs (hardware threads), 2 NUMA nodes
caches    L1d 48 KiB, L1i 32 KiB, L2 1 MiB per core; L3 32 MiB per 8 cores
usable    256 of 256 CPUs on 128 cores; no quota
ranks     128 on CPUs 0-127; communication threads on CPUs 128-255

package 0, node 0
  ┌─ L3 32 MiB ─────┬────────┬────────┬────────┬────────┬────────┬────────┐
  │  0 r0  │  1 r1  │  2 r2  │  3 r3  │  4 r4  │  5 r5  │  6 r6  │  7 r7  │
  │128 k0  │129 k1  │130 k2  │131 k3  │132 k4  │133 k5  │134 k6  │135 k7  │
  └────────┴────────┴────────┴────────┴────────┴────────┴────────┴────────┘
  + 7 more like this: CPUs 8-63,136-191; ranks 8-63

package 1, node 1
  ┌─ L3 32 MiB ─────┬────────┬────────┬────────┬────────┬────────┬────────┐
  │ 64 r64 │ 65 r65 │ 66 r66 │ 67 r67 │ 68 r68 │ 69 r69 │ 70 r70 │ 71 r71 │
  │192 k64 │193 k65 │194 k66 │195 k67 │196 k68 │197 k69 │198 k70 │199 k71 │
  └────────┴────────┴────────┴────────┴────────┴────────┴────────┴────────┘
  + 7 more like this: CPUs 72-127,200-255; ranks 72-127

r rank   k its communication thread
",
    );
}

#[test]
fn rows_that_look_alike_are_counted() {
    assert_drawn(
        &draw(&server(1, 1, 64, "98304K"), 40),
        "
machine   1 package, 64 cores, 128 CPUs (hardware threads)
caches    L1d 48 KiB, L1i 32 KiB, L2 1 MiB per core; L3 96 MiB per 64 cores
usable    128 of 128 CPUs on 64 cores; no quota
ranks     40 on CPUs 0-39; communication threads on CPUs 64-103

package 0
  ┌─ L3 96 MiB ─────┬────────┬────────┬────────┬────────┬────────┬────────┐
  │  0 r0  │  1 r1  │  2 r2  │  3 r3  │  4 r4  │  5 r5  │  6 r6  │  7 r7  │
  │ 64 k0  │ 65 k1  │ 66 k2  │ 67 k3  │ 68 k4  │ 69 k5  │ 70 k6  │ 71 k7  │
  ├────────┴────────┴────────┴────────┴────────┴────────┴────────┴────────┤
  │ + 4 more rows like this: CPUs 8-39,72-103; ranks 8-39                 │
  ├────────┬────────┬────────┬────────┬────────┬────────┬────────┬────────┤
  │ 40 ·   │ 41 ·   │ 42 ·   │ 43 ·   │ 44 ·   │ 45 ·   │ 46 ·   │ 47 ·   │
  │104 ·   │105 ·   │106 ·   │107 ·   │108 ·   │109 ·   │110 ·   │111 ·   │
  ├────────┴────────┴────────┴────────┴────────┴────────┴────────┴────────┤
  │ + 2 more rows like this: CPUs 48-63,112-127                           │
  └───────────────────────────────────────────────────────────────────────┘

r rank   k its communication thread   · free
",
    );
}

#[test]
fn packages_that_look_alike_are_counted() {
    assert_drawn(
        &draw(&server(8, 1, 1, "1024K"), 8),
        "
machine   8 packages, 8 cores, 16 CPUs (hardware threads), 8 NUMA nodes
caches    L1d 48 KiB, L1i 32 KiB, L2 1 MiB, L3 1 MiB per core
usable    16 of 16 CPUs on 8 cores; no quota
ranks     8 on CPUs 0-7; communication threads on CPUs 8-15

package 0, node 0
  ┌─ L3 1 MiB ─┐
  │  0 r0      │
  │  8 k0      │
  └────────────┘

+ 7 more packages like this: CPUs 1-7,9-15; ranks 1-7

r rank   k its communication thread
",
    );
}

#[test]
fn kinds_of_core_have_rows_of_their_own() {
    assert_drawn(
        &draw(&hybrid(), 9),
        "
machine   1 package, 14 cores (6 performance, 8 efficiency), 20 CPUs (hardware
          threads)
caches P  L1d 48 KiB, L1i 32 KiB, L2 1.25 MiB per core; L3 24 MiB per 14 cores
caches E  L1d 32 KiB, L1i 64 KiB per core; L2 2 MiB per 4 cores; L3 24 MiB per
          14 cores
usable    20 of 20 CPUs on 14 cores; no quota
ranks     9 on CPUs 0,2,4,6,8,10,12-14; communication threads on CPUs 1,3,5,7,9,
          11

package 0
  ┌─ L3 24 MiB ─────┬───────┬───────┬───────┬───────┬───────┬───────┐
  │P│  0 r0 │  2 r1 │  4 r2 │  6 r3 │  8 r4 │ 10 r5 │       │       │
  │ │  1 k0 │  3 k1 │  5 k2 │  7 k3 │  9 k4 │ 11 k5 │       │       │
  ├─┼───────┼───────┼───────┼───────┼───────┼───────┼───────┼───────┤
  │E│ 12 r6 │ 13 r7 │ 14 r8 │ 15 ·  │ 16 ·  │ 17 ·  │ 18 ·  │ 19 ·  │
  └─┴───────┴───────┴───────┴───────┴───────┴───────┴───────┴───────┘

r rank   k its communication thread   · free
",
    );
}

#[test]
fn offline_cores_are_marked() {
    assert_drawn(
        &draw(&one_offline(), 2),
        "
machine   1 package, 3 cores, 3 CPUs
caches    L1d 48 KiB, L1i 32 KiB, L2 512 KiB per core; L3 6 MiB per 3 cores
usable    3 of 3 CPUs on 3 cores; no quota
offline   CPU 2
ranks     2 on CPUs 0-1; no hardware thread to spare for communication threads

package 0
  ┌─ L3 6 MiB ──┬──────┐
  │ 0 r0 │ 1 r1 │ 3 ·  │
  └──────┴──────┴──────┘

  ┌─ offline ─┐
  │ 2 ○       │
  └───────────┘

r rank   · free   ○ offline
",
    );
}

#[test]
fn cpus_outside_the_mask_are_marked() {
    assert_drawn(
        &draw(&cpuset_of_two(), 2),
        "
machine   1 package, 4 cores, 8 CPUs (hardware threads)
caches    L1d 48 KiB, L1i 32 KiB, L2 1.25 MiB per core; L3 8 MiB per 4 cores
usable    2 of 8 CPUs on 2 cores: CPUs 2-3 (cpuset 2-3); no quota
ranks     2 on CPUs 2-3; no hardware thread to spare for communication threads

package 0
  ┌─ L3 8 MiB ──┬──────┬──────┐
  │ 0 ×  │ 1 ×  │ 2 r0 │ 3 r1 │
  │ 4 ×  │ 5 ×  │ 6 ×  │ 7 ×  │
  └──────┴──────┴──────┴──────┘

r rank   × outside the affinity mask
",
    );
}

#[test]
fn a_quota_is_told_with_its_file() {
    assert_drawn(
        &draw(&quota_of_one_and_a_half(), 2),
        "
machine   1 package, 4 cores, 8 CPUs (hardware threads)
caches    L1d 48 KiB, L1i 32 KiB, L2 1.25 MiB per core; L3 8 MiB per 4 cores
usable    8 of 8 CPUs on 4 cores; quota of 1.5 CPUs in
          /sys/fs/cgroup/box/cpu.max
ranks     2, not bound: more ranks than the quota of 1.5 CPUs holds

package 0
  ┌─ L3 8 MiB ┬───┐
  │ 0 │ 1 │ 2 │ 3 │
  │ 4 │ 5 │ 6 │ 7 │
  └───┴───┴───┴───┘
",
    );
}

#[test]
fn one_core_and_one_rank() {
    assert_drawn(
        &draw(&one_core(), 1),
        "
machine   1 package, 1 core, 1 CPU
caches    L1d 48 KiB, L1i 32 KiB, L2 512 KiB, L3 4 MiB per core
usable    1 of 1 CPU on 1 core; no quota
ranks     1 on CPU 0; no hardware thread to spare for communication threads

package 0
  ┌─ L3 4 MiB ─┐
  │ 0 r0       │
  └────────────┘

r rank
",
    );
}

#[test]
fn complexes_of_several_nodes_name_theirs() {
    let machine = Machine::of((0..12).map(|cpu| NewCore {
        cpus: vec![cpu],
        package: 3,
        node: cpu / 6,
        caches: vec![(2, "Unified", "", format!("{}-{}", cpu / 6 * 6, cpu / 6 * 6 + 5))],
    }));
    for cpu in 0..12 {
        machine.remove(&format!("sys/devices/system/cpu/cpu{cpu}/cache/index0/size"));
    }
    assert_drawn(
        &machine.read().draw(None).to_string(),
        "
machine   1 package, 12 cores, 12 CPUs, 2 NUMA nodes
caches    L2 per 6 cores
usable    12 of 12 CPUs on 12 cores; no quota

package 3
  ┌─ L2, node 0 ─┬────┬────┬────┐
  │  0 │  1 │  2 │  3 │  4 │  5 │
  └────┴────┴────┴────┴────┴────┘
  ┌─ L2, node 1 ─┬────┬────┬────┐
  │  6 │  7 │  8 │  9 │ 10 │ 11 │
  └────┴────┴────┴────┴────┴────┘
",
    );
}

#[test]
fn rows_are_of_equal_length() {
    let machine = Machine::new();
    machine.online("0-9\n");
    assert_drawn(
        &machine.read().draw(None).to_string(),
        "
machine   1 package, 10 cores, 10 CPUs
usable    10 of 10 CPUs on 10 cores; no quota

package 0
  ┌─ 10 cores ┬───┬───┐
  │ 0 │ 1 │ 2 │ 3 │ 4 │
  │ 5 │ 6 │ 7 │ 8 │ 9 │
  └───┴───┴───┴───┴───┘
",
    );
}

#[test]
fn many_offline_cpus_are_only_listed() {
    let machine = one_core();
    machine.present("0-127");
    let drawing = draw(&machine, 1);
    assert!(drawing.contains("offline   CPUs 1-127\n"), "{drawing}");
    assert!(!drawing.contains('○'), "{drawing}");
}

#[test]
fn no_line_is_wider_than_a_terminal() {
    let scattered = epyc().read().confined_to(&(0..256).step_by(2).collect()).unwrap();
    let high = Machine::new();
    high.online("60000-60063\n");
    let machines = [laptop(), two_socket_server(), hybrid(), one_offline(), cpuset_of_two(), high];
    for topology in machines.iter().map(Machine::read).chain([scattered]) {
        for ranks in [0, 1, 2, 7, 8, 9, 20, 64, 128, 129] {
            let plan = Plan::for_ranks(&topology, ranks, &Bind::Auto).unwrap();
            let drawing = topology.draw(Some(&plan)).to_string();
            for line in drawing.lines() {
                assert!(line.chars().count() <= 80, "{drawing}");
                assert_eq!(line, line.trim_end(), "{drawing}");
            }
            assert_eq!(drawing.contains(" r0"), !plan.is_empty() && plan.unbound().is_none());
        }
    }
}

#[test]
fn communication_threads_have_numbers() {
    let topology = laptop().read();
    let farm = Role::farm(3);
    let plan = KtPlan::new(&topology, &farm, &Bind::Auto, KtPlacement::SPECIALIZED).unwrap();
    assert_drawn(
        &topology.draw_kts(&plan).to_string(),
        "
machine   1 package, 4 cores, 8 CPUs (hardware threads)
caches    L1d 48 KiB, L1i 32 KiB, L2 1.25 MiB per core; L3 8 MiB per 4 cores
usable    8 of 8 CPUs on 4 cores; no quota
ranks     5 on CPUs 0-3,6, some sharing a core
KTs       2, kt-specialized: 1 for the emitter, one for up to 10 workers
          emitter r0 on CPU 0, collector r4 on CPU 1
          k0 on CPU 4: rank 0
          k1 on CPU 5: ranks 1-4

package 0
  ┌─ L3 8 MiB ──┬──────┬──────┐
  │ 0 r0 │ 1 r4 │ 2 r1 │ 3 r2 │
  │ 4 k0 │ 5 k1 │ 6 r3 │ 7 ·  │
  └──────┴──────┴──────┴──────┘

r rank   k communication thread   · free
",
    );
}

#[test]
fn forced_communication_threads_are_marked() {
    let topology = cpuset_of_two().read();
    let plan = KtPlan::forced(&topology, &[Role::Worker; 2], &Bind::Auto, KtPlacement::KtW);
    let drawing = topology.draw_kts(&plan.unwrap()).to_string();
    assert!(drawing.contains("│ 2 r0+ │ 3 r1+ │"), "{drawing}");
    assert!(
        drawing.ends_with("r rank   + with communication threads   × outside the affinity mask\n")
    );
    let plan = KtPlan::new(&topology, &[Role::Worker; 3], &Bind::Auto, KtPlacement::Automatic);
    let drawing = topology.draw_kts(&plan.unwrap()).to_string();
    assert!(drawing.contains("KTs       none: no spare hardware thread: 3 ranks on 2 CPUs;"));
    assert!(drawing.contains("ranks     3, not bound: more ranks than the 2 usable CPUs\n"));
}
