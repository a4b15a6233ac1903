//! Programs on real lines: threads and processes that run what the searches have found, and the same program in virtual
//! time.

use mp_core::memory::Region;
use mp_core::names::Namespace;
use mp_model::cla::{
    Barrier, Line, Machine, Pattern, Placement, Program, Tree, best_barrier, best_tree,
};
use onchip::{Rank, Result, World};
use onchip_research::cla::baselines;
use onchip_research::cla::lines::Lines;
use onchip_research::cla::patterns;
use onchip_research::cla::run::{Begin, Options, Order, run_from};
use onchip_research::cla::words::{CONTENTS, own_data};

use crate::statements::{sandy_bridge, xeon_phi};

/// The worlds, each with the machine that it stands for. Processes come first, and are few on few machines: each of them
/// makes all programs of the worlds before its own once more.
fn worlds() -> impl Iterator<Item = (World, Machine)> {
    let few = [1, 2, 3, 5, 8];
    let few = few.map(sandy_bridge).into_iter().chain(few.map(xeon_phi)).chain([sandy_bridge(12)]);
    // As many as threads of a small computer can stand for.
    let many = (1..=16).map(sandy_bridge).chain([2, 3, 7, 9, 16, 24].map(xeon_phi));
    let in_processes = few.map(|machine| (World::processes(machine.ranks()), machine));
    in_processes.chain(many.map(|machine| (World::threads(machine.ranks()), machine)))
}

/// Returns words that differ by rank and place.
fn filled(rank: usize, lines: u64) -> Vec<u64> {
    (0..CONTENTS as u64 * lines).map(|word| (rank as u64 + 1) * 10_000 + word).collect()
}

fn sums(ranks: usize, lines: u64) -> Vec<u64> {
    let each = (0..ranks).map(|rank| filled(rank, lines));
    each.reduce(|sum, of| sum.iter().zip(&of).map(|(sum, of)| sum + of).collect()).unwrap()
}

/// A program, whose ranks begin with data of so many lines.
struct Case {
    program: Program,
    lines: u64,
    /// Contents in the end, by the number of their line.
    expected: Vec<(usize, Vec<u64>)>,
}

impl Case {
    /// Every rank gets what the root has.
    fn broadcast(program: Program, root: usize, lines: u64) -> Case {
        let own = own_data(&program).into_iter();
        let expected = own.map(|line| (line.index(), filled(root, lines))).collect();
        Case { program, lines, expected }
    }

    /// A line gets the sum of all.
    fn reduction(program: Program, line: usize, lines: u64) -> Case {
        let expected = vec![(line, sums(program.ranks(), lines))];
        Case { program, lines, expected }
    }

    /// Runs the program as a rank of a world. Returns all contents in the end, by line.
    fn run(&self, rank: &Rank, number: usize) -> Result<Vec<Vec<u64>>> {
        let all = Barrier::Central.program(&Placement::one_group(self.program.ranks()).unwrap());
        let lines = Lines::open(rank, &format!("program {number}"), &self.program)?;
        let done = Lines::open(rank, &format!("done {number}"), &all)?;
        lines.fill(own_data(&self.program)[rank.id()], &filled(rank.id(), self.lines));
        lines.run()?;
        done.run()?;
        Ok((0..self.program.line_count()).map(|line| lines.words(Line::at(line))).collect())
    }

    /// Does the same in virtual time.
    fn in_virtual_time(&self, machine: &Machine, order: Order) -> Vec<Vec<u64>> {
        let mut words = vec![Vec::new(); self.program.line_count()];
        for (rank, line) in own_data(&self.program).into_iter().enumerate() {
            words[line.index()] = filled(rank, self.lines);
        }
        let options = Options { order, ..Options::default() };
        let begin = Begin { words, ..Begin::default() };
        run_from(&self.program, machine, options, &begin).unwrap().words
    }
}

/// Runs programs in every world and in virtual time. All lines must have the same contents in the end, and some of them
/// those that are expected.
fn check(programs: impl Fn(&Machine) -> Vec<Case>) {
    for (world, machine) in worlds() {
        let (ranks, cases) = (machine.ranks(), programs(&machine));
        let name = format!("{world:?}");
        let real = world.run(|rank| -> Result<Vec<_>> {
            cases.iter().enumerate().map(|(number, case)| case.run(rank, number)).collect()
        });
        let real = real.unwrap();
        for (number, case) in cases.iter().enumerate() {
            for order in [Order::Fifo, Order::Random(ranks as u64)] {
                let simulated = case.in_virtual_time(&machine, order);
                for (line, expected) in &case.expected {
                    assert_eq!(simulated[*line], *expected, "{ranks} ranks, program {number}");
                }
                let same = real.iter().all(|of_one| of_one[number] == simulated);
                assert!(same, "{name}, program {number}, {order:?}");
            }
        }
    }
}

/// Algorithm 6, and section 4.2: every rank has what the root had.
#[test]
fn broadcasts_along_the_best_trees() {
    check(|machine| {
        let (placement, root) = (&machine.placement, machine.ranks() / 2);
        let tree = |pattern| best_tree(machine, root, pattern).unwrap().tree;
        let mut cases: Vec<Case> = [1, 2, 128]
            .map(|lines| {
                let pattern = Pattern::Broadcast { lines };
                Case::broadcast(pattern.program(&tree(pattern), placement), root, lines)
            })
            .into();
        let [told, gathered] = [Pattern::OneToMany, Pattern::ManyToOne].map(tree);
        let program = patterns::pulled_broadcast(&told, &gathered, placement, 128);
        cases.push(Case::broadcast(program, root, 128));
        cases
    });
}

/// Algorithm 7, and section 5.2: the root has the sum.
#[test]
fn reductions_along_the_best_trees() {
    check(|machine| {
        let placement = &machine.placement;
        let tree = best_tree(machine, 0, Pattern::Reduction).unwrap().tree;
        let programs = [
            (1, Pattern::Reduction.program(&tree, placement)),
            (1, patterns::pushed_reduction(&tree)),
            (64, patterns::binomial_reduction(placement, 0, 64)),
            (1, baselines::two_sided_reduction(placement, 0, 1).unwrap()),
        ];
        let case = |(lines, program)| {
            let root = own_data(&program)[0].index();
            Case::reduction(program, root, lines)
        };
        programs.map(case).into()
    });
}

/// What the algorithms are compared with does the same.
#[test]
fn baselines_do_the_same() {
    check(|machine| {
        let (ranks, placement) = (machine.ranks(), &machine.placement);
        let barrier = best_barrier(machine).barrier;
        let tree = Tree::k_ary(0, 3, placement).unwrap();
        let mut cases = vec![Case::broadcast(patterns::pushed_broadcast(&tree), 0, 1)];
        for lines in [1, 5] {
            let sent = baselines::two_sided_broadcast(placement, 0, lines).unwrap();
            let flat = baselines::broadcast_between_barriers(placement, 0, lines, &barrier);
            cases.extend([sent, flat].map(|program| Case::broadcast(program, 0, lines)));
        }
        // The place that all add to comes after their data.
        let added =
            [baselines::accumulation(placement, 0), baselines::locked_accumulation(placement, 0)];
        cases.extend(added.map(|program| Case::reduction(program, ranks, 1)));
        cases
    });
}

/// Runs programs in every world. Before each, the ranks that `comes` accepts have themselves counted, and the ranks that
/// `sees` accepts must find all of them counted when they are done.
fn check_counts(
    programs: impl Fn(&Machine) -> Vec<Program>,
    comes: impl Fn(usize, usize) -> bool + Sync,
    sees: impl Fn(usize, usize) -> bool,
) {
    for (world, machine) in worlds() {
        let (name, programs) = (format!("{world:?}"), programs(&machine));
        let counts = world.run(|rank| -> Result<Vec<u64>> {
            let come = Region::open(rank, Namespace::new("come"), "come", programs.len(), 0)?;
            let count = |(number, program)| {
                let lines = Lines::open(rank, &format!("program {number}"), program)?;
                if comes(number, rank.id()) {
                    come.words()[number].fetch_add(1);
                }
                lines.run()?;
                Ok(come.words()[number].load())
            };
            programs.iter().enumerate().map(count).collect()
        });
        for (rank, seen) in counts.unwrap().into_iter().enumerate() {
            for (number, seen) in seen.into_iter().enumerate().filter(|&(of, _)| sees(of, rank)) {
                let all = (0..machine.ranks()).filter(|&rank| comes(number, rank)).count();
                assert_eq!(seen, all as u64, "rank {rank} of {name}, program {number}");
            }
        }
    }
}

/// No rank goes on before the last one has come, in the barriers that are chosen and in those they are compared with.
#[test]
fn barriers_hold_ranks_back() {
    let programs = |machine: &Machine| {
        let placement = &machine.placement;
        vec![
            best_barrier(machine).barrier.program(placement),
            Barrier::Central.program(placement),
            baselines::plain_dissemination(placement),
            baselines::tournament_barrier(placement).unwrap(),
        ]
    };
    check_counts(programs, |_, _| true, |_, _| true);
}

/// Notifications go to all ranks, and from all.
#[test]
fn notification_trees_reach_all() {
    let programs = |machine: &Machine| {
        let tree = |pattern| best_tree(machine, 0, pattern).unwrap().tree;
        let patterns = [Pattern::OneToMany, Pattern::ManyToOne];
        patterns.map(|pattern| pattern.program(&tree(pattern), &machine.placement)).into()
    };
    let (to_many, to_one) = (0, 1);
    let comes = |number, rank| number == to_one || rank == 0;
    let sees = |number, rank| number == to_many || rank == 0;
    check_counts(programs, comes, sees);
}
