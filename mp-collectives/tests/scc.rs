//! OC-Bcast on the simulated SCC: how long it takes, beside the model and the measurements.
use mp_collectives::broadcast::{OcBcast, Options};
use mp_model::Time;
use mp_model::scc::{Parameters, megabytes_per_second};
use mp_model::sim::{Layout, Machine, Port, Sharing, run};
use mp_model::tree::Shape;

fn flat(costs: Parameters) -> Machine {
    Machine {
        layout: Layout::Caches { levels: vec![Sharing { cores: 48, hops: 1 }], memory_hops: 1 },
        port: Port::UNLIMITED,
        costs,
        ..Machine::scc()
    }
}
fn bcast(machine: Machine, k: usize, lines: usize) -> Time {
    run(machine, async |core| {
        let mut oc = OcBcast::new(core, Options::scc(k)).unwrap();
        let mut m = vec![0; lines * 32];
        oc.broadcast(core, &mut m, 0).await.unwrap();
    })
    .unwrap()
    .end()
}
#[test]
fn look() {
    for p in [Parameters::TABLE_4_1, Parameters::TABLE_4_2] {
        let scc = Machine { costs: p, ..Machine::scc() };
        for k in [2, 7, 47] {
            for l in [1, 32, 64, 96, 97, 128, 192] {
                let model = p.oc_bcast_latency(Shape::new(48, k).unwrap(), l as u64);
                eprintln!(
                    "k {k} lines {l} model {model:.1} flat {:.1} scc {:.1}",
                    bcast(flat(p), k, l),
                    bcast(scc.clone(), k, l)
                );
            }
            let l = 96 * 300;
            let t = |m: Machine| megabytes_per_second(l as u64, bcast(m, k, l));
            eprintln!(
                "k {k} MB/s model {:.2} flat {:.2} scc {:.2}",
                p.oc_bcast_mb_per_s(Shape::new(48, k).unwrap()),
                t(flat(p)),
                t(scc.clone())
            );
        }
    }
}
#[test]
fn fit() {
    for ns in [330, 500, 600, 700, 720, 740, 760, 780, 800, 850] {
        let p = Parameters {
            flag_read: Time::from_nanos(ns),
            flag_set: Time::from_nanos(ns),
            ..Parameters::TABLE_4_1
        };
        let scc = Machine { costs: p, ..Machine::scc() };
        let l = |k, n| bcast(scc.clone(), k, n).as_micros();
        let t = |k| megabytes_per_second(96 * 300, bcast(scc.clone(), k, 96 * 300));
        eprintln!(
            "{ns}: 47: {:.1} (44.1) {:.1} (75.8) {:.1} (112.7) {:.1} (198.6)   7: {:.1} (16.6) {:.0} vs k2 {:.0}; {:.2} {:.2} {:.2}",
            l(47, 1),
            l(47, 32),
            l(47, 64),
            l(47, 128),
            l(7, 1),
            l(7, 144),
            l(2, 144),
            t(2),
            t(7),
            t(47)
        );
    }
}
