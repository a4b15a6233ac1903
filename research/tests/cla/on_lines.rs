//! Programs on real lines: threads that run what the searches have found, and the same program in virtual time.

use std::sync::atomic::{AtomicUsize, Ordering};

use mp_model::cla::{
    Barrier, Line, Machine, Pattern, Placement, Program, Tree, best_barrier, best_tree,
};
use onchip::World;
use onchip_research::cla::baselines;
use onchip_research::cla::lines::Lines;
use onchip_research::cla::patterns;
use onchip_research::cla::run::{Begin, Options, Order, run_from};
use onchip_research::cla::words::{CONTENTS, own_data};

use crate::statements::{sandy_bridge, xeon_phi};

/// Returns words that differ by rank and place.
fn filled(rank: usize, lines: u64) -> Vec<u64> {
    (0..CONTENTS as u64 * lines).map(|word| (rank as u64 + 1) * 10_000 + word).collect()
}

/// Runs a program on threads, each of which begins with its own data. Returns all contents in the end, by line.
fn on_threads(program: &Program, data: &[Line], lines: u64) -> Vec<Vec<u64>> {
    let barrier = Barrier::Central.program(&Placement::one_group(program.ranks()).unwrap());
    let of_each = World::threads(program.ranks()).run(|rank| {
        let real = Lines::open(rank, "program", program)?;
        let all_done = Lines::open(rank, "all done", &barrier)?;
        real.fill(data[rank.id()], &filled(rank.id(), lines));
        real.run()?;
        all_done.run()?;
        Ok((0..program.line_count()).map(|line| real.words(Line::at(line))).collect::<Vec<_>>())
    });
    let of_each = of_each.unwrap();
    assert!(of_each.windows(2).all(|pair| pair[0] == pair[1]));
    of_each.into_iter().next().unwrap()
}

/// Does the same in virtual time.
fn in_virtual_time(
    machine: &Machine,
    program: &Program,
    data: &[Line],
    lines: u64,
    order: Order,
) -> Vec<Vec<u64>> {
    let mut begin = Begin { words: vec![Vec::new(); program.line_count()], ..Begin::default() };
    for (rank, line) in data.iter().enumerate() {
        begin.words[line.index()] = filled(rank, lines);
    }
    run_from(program, machine, Options { order, ..Options::default() }, &begin).unwrap().words
}

/// Runs a program both ways, and checks that all lines have the same contents.
fn both(machine: &Machine, program: &Program, lines: u64) -> Vec<Vec<u64>> {
    let data = own_data(program);
    let real = on_threads(program, &data, lines);
    for order in [Order::Fifo, Order::Random(machine.ranks() as u64)] {
        assert_eq!(in_virtual_time(machine, program, &data, lines, order), real, "{order:?}");
    }
    real
}

/// Returns whether all ranks have what one of them had.
fn all_have_that_of(root: usize, program: &Program, all: &[Vec<u64>], lines: u64) -> bool {
    own_data(program).iter().all(|line| all[line.index()] == filled(root, lines))
}

/// The machines, with numbers of ranks up to what threads of a small computer can stand for.
fn machines() -> impl Iterator<Item = Machine> {
    (1..=16).map(sandy_bridge).chain([2, 3, 7, 9, 16, 24].map(xeon_phi))
}

fn sums(ranks: usize, lines: u64) -> Vec<u64> {
    let each = (0..ranks).map(|rank| filled(rank, lines));
    each.reduce(|sum, of| sum.iter().zip(&of).map(|(sum, of)| sum + of).collect()).unwrap()
}

/// Algorithm 6, and section 4.2: every rank has what the root had.
#[test]
fn broadcasts_along_the_best_trees() {
    for machine in machines() {
        let root = machine.ranks() / 2;
        for lines in [1, 2, 128] {
            let pattern = Pattern::Broadcast { lines };
            let tree = best_tree(&machine, root, pattern).unwrap().tree;
            let program = pattern.program(&tree, &machine.placement);
            let got = both(&machine, &program, lines);
            assert!(all_have_that_of(root, &program, &got, lines), "{lines} over {tree}");
        }
        let [told, gathered] = [Pattern::OneToMany, Pattern::ManyToOne]
            .map(|pattern| best_tree(&machine, root, pattern).unwrap().tree);
        let program = patterns::pulled_broadcast(&told, &gathered, &machine.placement, 128);
        let got = both(&machine, &program, 128);
        assert!(all_have_that_of(root, &program, &got, 128), "{told}{gathered}");
    }
}

/// Algorithm 7, and section 5.2: the root has the sum.
#[test]
fn reductions_along_the_best_trees() {
    for machine in machines() {
        let (ranks, placement) = (machine.ranks(), &machine.placement);
        let tree = best_tree(&machine, 0, Pattern::Reduction).unwrap().tree;
        for (lines, program) in [
            (1, Pattern::Reduction.program(&tree, placement)),
            (1, patterns::pushed_reduction(&tree)),
            (64, patterns::binomial_reduction(placement, 0, 64)),
            (1, baselines::two_sided_reduction(placement, 0, 1).unwrap()),
        ] {
            let root = own_data(&program)[0].index();
            assert_eq!(both(&machine, &program, lines)[root], sums(ranks, lines), "{tree}");
        }
    }
}

/// What the algorithms are compared with does the same.
#[test]
fn baselines_do_the_same() {
    for machine in machines() {
        let (ranks, placement) = (machine.ranks(), &machine.placement);
        let barrier = best_barrier(&machine).barrier;
        for lines in [1, 5] {
            let tree = Tree::k_ary(0, 3, placement).unwrap();
            let mut programs = vec![
                baselines::two_sided_broadcast(placement, 0, lines).unwrap(),
                baselines::broadcast_between_barriers(placement, 0, lines, &barrier),
            ];
            if lines == 1 {
                programs.push(patterns::pushed_broadcast(&tree));
            }
            for program in programs {
                let got = both(&machine, &program, lines);
                assert!(all_have_that_of(0, &program, &got, lines), "{ranks} {lines}");
            }
        }
        for program in
            [baselines::accumulation(placement, 0), baselines::locked_accumulation(placement, 0)]
        {
            // The place that all add to comes after their data.
            assert_eq!(both(&machine, &program, 1)[ranks], sums(ranks, 1), "{ranks}");
        }
    }
}

/// No thread goes on before the last one has come, in the barriers that are chosen and in those they are compared with.
#[test]
fn barriers_hold_threads_back() {
    for machine in machines() {
        let (ranks, placement) = (machine.ranks(), &machine.placement);
        for program in [
            best_barrier(&machine).barrier.program(placement),
            Barrier::Central.program(placement),
            baselines::plain_dissemination(placement),
            baselines::counter_barrier(placement),
            baselines::tournament_barrier(placement).unwrap(),
        ] {
            let come = AtomicUsize::new(0);
            let seen = World::threads(ranks).run(|rank| {
                let lines = Lines::open(rank, "barrier", &program)?;
                come.fetch_add(1, Ordering::Relaxed);
                lines.run()?;
                Ok(come.load(Ordering::Relaxed))
            });
            assert_eq!(seen.unwrap(), vec![ranks; ranks]);
        }
    }
}

/// Notifications go to all ranks, and from all.
#[test]
fn notification_trees_reach_all() {
    for machine in machines() {
        let (ranks, placement) = (machine.ranks(), &machine.placement);
        for pattern in [Pattern::OneToMany, Pattern::ManyToOne] {
            let tree = best_tree(&machine, 0, pattern).unwrap().tree;
            let program = pattern.program(&tree, placement);
            let come = AtomicUsize::new(0);
            let seen = World::threads(ranks).run(|rank| {
                let lines = Lines::open(rank, "notified", &program)?;
                if pattern == Pattern::ManyToOne || rank.id() == 0 {
                    come.fetch_add(1, Ordering::Relaxed);
                }
                lines.run()?;
                Ok(come.load(Ordering::Relaxed))
            });
            let seen = seen.unwrap();
            match pattern {
                Pattern::OneToMany => assert_eq!(seen, vec![1; ranks]),
                _ => assert_eq!(seen[0], ranks),
            }
        }
    }
}
