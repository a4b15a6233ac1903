//! OC-Bcast on the simulated SCC: how long it takes, beside the model and the measurements of the
//! thesis (chapters 3 and 4).

use mp_collectives::broadcast::{OcBcast, Options};
use mp_model::Time;
use mp_model::mpb::Mpb;
use mp_model::scc::{LINE_BYTES, Parameters, megabytes_per_second};
use mp_model::sim::{Layout, Machine, Port, Sharing, run};
use mp_model::tree::Shape;

/// What section 4.3 assumes: all distances are 1, and nobody disturbs anybody.
fn as_modelled(costs: Parameters) -> Machine {
    let levels = vec![Sharing { cores: 48, hops: 1 }];
    let layout = Layout::Caches { levels, memory_hops: 1 };
    Machine { layout, port: Port::UNLIMITED, costs, ..Machine::scc() }
}

fn scc() -> Machine {
    Machine { costs: Parameters::FITTED, ..Machine::scc() }
}

fn shape(degree: usize) -> Shape {
    Shape::new(48, degree).unwrap()
}

/// The mean latency of broadcasts from core 0, in microseconds: from its call to the last core's
/// return (section 3.3.1).
///
/// The others wait already when it calls, and it calls at many points of their polling.
fn latency(machine: &Machine, degree: usize, lines: usize) -> f64 {
    const ROUNDS: u64 = 16;
    // More than any of them takes, and no multiple of a look at a flag.
    let interval = Time::from_nanos(1_000_037);
    let run = run(machine.clone(), async |core| {
        let mut broadcasts = OcBcast::new(core, Options::scc(degree)).unwrap();
        let mut message = vec![0; lines * LINE_BYTES as usize];
        let mut returned = Vec::new();
        for round in 1..=ROUNDS {
            if core.rank() == 0 {
                core.sleep_until(round * interval);
            }
            broadcasts.broadcast(core, &mut message, 0).await.unwrap();
            returned.push(core.now() - round * interval);
        }
        returned
    });
    let returned = run.unwrap().outputs;
    let last = |round| returned.iter().map(|core| core[round]).max().unwrap_or_default();
    let sum: Time = (0..ROUNDS as usize).map(last).sum();
    sum.as_micros() / ROUNDS as f64
}

/// The throughput of `times` broadcasts in a row from core 0, in MB/s.
fn throughput(machine: &Machine, degree: usize, lines: usize, times: u64) -> f64 {
    let run = run(machine.clone(), async |core| {
        let mut broadcasts = OcBcast::new(core, Options::scc(degree)).unwrap();
        let mut message = vec![0; lines * LINE_BYTES as usize];
        for _ in 0..times {
            broadcasts.broadcast(core, &mut message, 0).await.unwrap();
        }
    });
    megabytes_per_second(times * lines as u64, run.unwrap().end())
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
        // With k = 47 and expensive flags the root's polling begins before the last child is done,
        // which the formula, adding one to the other, does not see.
        for degree in if costs == Parameters::TABLE_4_1 { &[2, 7, 47][..] } else { &[2, 7] } {
            for lines in [32, 64, 96, 97, 128, 192] {
                let formula = costs.oc_bcast_latency(shape(*degree), lines as u64).as_micros();
                let simulated = latency(&as_modelled(costs), *degree, lines);
                near(&format!("k = {degree}, {lines} lines"), simulated, formula, 0.06);
            }
        }
    }
}

#[test]
fn the_formula_is_a_bound_for_one_line() {
    // 4.21 takes each level of a notification tree at its second child's cost.
    for degree in [2, 7, 47] {
        let costs = Parameters::TABLE_4_1;
        let formula = costs.oc_bcast_latency(shape(degree), 1).as_micros();
        let simulated = latency(&as_modelled(costs), degree, 1);
        assert!((0.7..1.0).contains(&(simulated / formula)), "{degree}: {simulated}, {formula}");
    }
}

#[test]
fn throughput_is_what_formula_4_23_says() {
    for costs in [Parameters::TABLE_4_1, Parameters::TABLE_4_2] {
        for degree in [2, 7, 47] {
            let formula = costs.oc_bcast_mb_per_s(shape(degree));
            let simulated = throughput(&as_modelled(costs), degree, LONG, 1);
            near(&format!("k = {degree}"), simulated, formula, 0.015);
        }
    }
}

#[test]
fn table_3_1_as_measured() {
    // The first value is what the flags' cost was fitted to; the others follow.
    near("k = 47, 1 line", latency(&scc(), 47, 1), 44.1, 0.01);
    for (lines, measured) in [(32, 75.8), (64, 112.7), (128, 198.6)] {
        near(&format!("k = 47, {lines} lines"), latency(&scc(), 47, lines), measured, 0.12);
    }
}

#[test]
fn figure_3_2a_as_measured() {
    near("k = 7, 1 line", latency(&scc(), 7, 1), 16.6, 0.20);
    // "Between 96 and 192 cache lines, the latency with k = 7 is around 25% better than with k = 2."
    for lines in [97, 128, 160, 192] {
        let gain = 1.0 - latency(&scc(), 7, lines) / latency(&scc(), 2, lines);
        assert!((0.2..0.35).contains(&gain), "{lines} lines: {gain}");
    }
}

#[test]
fn figure_3_2b_as_measured() {
    // "The throughput [of k = 47] is about 16% lower than predicted" (section 4.3.2).
    let [two, seven, all] = [2, 7, 47].map(|degree| throughput(&scc(), degree, LONG, 1));
    near("k = 47", all, 0.84 * 35.88, 0.12);
    assert!(all < two && all < seven, "{two}, {seven}, {all}");
    // The drop after a chunk's length, and that it does not matter in the end.
    for degree in [2, 7, 47] {
        let [at, after] = [96, 97].map(|lines| throughput(&scc(), degree, lines, 30));
        assert!(after < 0.97 * at, "k = {degree}: {at}, {after}");
        let [at, after] = [96, 97].map(|lines| throughput(&scc(), degree, 96 * 100 + lines, 1));
        assert!(after > 0.99 * at, "k = {degree}: {at}, {after}");
    }
}
