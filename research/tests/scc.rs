//! OC-Bcast on the simulated SCC: its times, compared with the formulas of the thesis (chapter 4). The figures compare
//! them with the measurements.
#![cfg(not(loom))]

use mp_collectives::broadcast::{OcBcast, Options};
use mp_core::mpb::MpbAccess;
use mp_model::tree::Shape;
use onchip_research::experiments::{self, Algorithm, scc_with_rcce};
use onchip_research::scc::Parameters;
use onchip_research::sim::{Layout, Machine, Port, Sharing, run};

/// Returns a machine as assumed in section 4.3: all distances are 1, and cores do not disturb each other.
fn as_modelled(costs: Parameters) -> Machine {
    let levels = vec![Sharing { cores: 48, hops: 1 }];
    let layout = Layout::Caches { levels, memory_hops: 1 };
    Machine { layout, port: Port::UNLIMITED, costs, ..Machine::scc() }
}

fn shape(degree: usize) -> Shape {
    Shape::new(48, degree).unwrap()
}

fn oc_bcast(degree: usize) -> Algorithm {
    Algorithm::OcBcast(Options::scc(degree))
}

/// Returns the latency in microseconds.
fn latency(machine: &Machine, algorithm: Algorithm, lines: usize) -> f64 {
    experiments::latency(machine, algorithm, lines).unwrap().as_micros()
}

/// Returns the throughput in MB/s.
fn throughput(machine: &Machine, algorithm: Algorithm, lines: usize, times: usize) -> f64 {
    experiments::mb_per_s(machine, algorithm, lines, times).unwrap()
}

/// 1 MB, the longest message of the thesis.
const LONG: usize = 32_768;

#[track_caller]
fn near(what: &str, value: f64, expected: f64, tolerance: f64) {
    let off = value / expected - 1.0;
    println!("{what}: {value:.2}, expected {expected:.2} ({:+.1}%)", 100.0 * off);
    assert!(off.abs() <= tolerance, "{what}: {value} instead of {expected}");
}

#[test]
fn latency_is_what_formula_4_21_says() {
    for costs in [Parameters::TABLE_4_1, Parameters::TABLE_4_2] {
        // With k = 47 and expensive flags the root begins to poll before the last child is done. The formula adds both
        // times, so it does not apply.
        for degree in if costs == Parameters::TABLE_4_1 { &[2, 7, 47][..] } else { &[2, 7] } {
            for lines in [32, 64, 96, 97, 128, 192] {
                let formula = costs.oc_bcast_latency(shape(*degree), lines as u64).as_micros();
                let simulated = latency(&as_modelled(costs), oc_bcast(*degree), lines);
                near(&format!("k = {degree}, {lines} lines"), simulated, formula, 0.06);
            }
        }
    }
}

#[test]
fn the_formula_is_a_bound_for_one_line() {
    // 4.21 uses the cost of the second child for each level of a notification tree.
    for degree in [2, 7, 47] {
        let costs = Parameters::TABLE_4_1;
        let formula = costs.oc_bcast_latency(shape(degree), 1).as_micros();
        let simulated = latency(&as_modelled(costs), oc_bcast(degree), 1);
        assert!((0.7..1.0).contains(&(simulated / formula)), "{degree}: {simulated}, {formula}");
    }
}

#[test]
fn throughput_is_what_formula_4_23_says() {
    for costs in [Parameters::TABLE_4_1, Parameters::TABLE_4_2] {
        for degree in [2, 7, 47] {
            let formula = costs.oc_bcast_mb_per_s(shape(degree));
            let simulated = throughput(&as_modelled(costs), oc_bcast(degree), LONG, 1);
            near(&format!("k = {degree}"), simulated, formula, 0.015);
        }
    }
}

#[test]
fn two_sided_broadcasts_beside_the_formulas() {
    let machine = scc_with_rcce(as_modelled(Parameters::TABLE_4_1));
    let costs = machine.costs;
    for lines in [1, 32, 96, 192] {
        let formula = costs.binomial_latency(48, lines as u64).as_micros();
        let simulated = latency(&machine, Algorithm::Binomial, lines);
        near(&format!("binomial, {lines} lines"), simulated, formula, 0.03);
    }
    for slice in [96, 683] {
        let formula = costs.scatter_allgather_mb_per_s(48, slice);
        let simulated = throughput(&machine, Algorithm::ScatterAllgather, 48 * slice as usize, 1);
        near(&format!("scatter-allgather, slices of {slice}"), simulated, formula, 0.01);
    }
}

#[test]
fn a_thousand_cores() {
    let sharing = |cores, hops| Sharing { cores, hops };
    let levels = vec![sharing(8, 1), sharing(64, 4), sharing(1024, 12)];
    let layout = Layout::Caches { levels, memory_hops: 4 };
    let machine = Machine { layout, ..Machine::scc() };
    let run = run(machine, async |core| {
        let mut broadcasts = OcBcast::new(core, Options::scc(7)).unwrap();
        let byte = |index: usize| (index % 251) as u8;
        let mut message = vec![0; 10 * 96 * 32];
        if core.rank() == 600 {
            message.iter_mut().enumerate().for_each(|(index, place)| *place = byte(index));
        }
        broadcasts.broadcast(core, &mut message, 600).await.unwrap();
        message.iter().enumerate().all(|(index, &got)| got == byte(index))
    });
    assert_eq!(run.unwrap().outputs, [true; 1024]);
}
