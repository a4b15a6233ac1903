//! probe
use mp_delegate::critical::{Backoff, Scheme, Section, simulated::*};
fn main() {
    for (name, chip) in
        [("snb", Chip::sandy_bridge(16).unwrap()), ("phi", Chip::xeon_phi(60).unwrap())]
    {
        for (hw, chip) in [
            ("cc", chip.clone()),
            ("msg", chip.clone().with_messages()),
            ("pf", chip.with_prefetcher(Prefetcher::default())),
        ] {
            let most = chip.cores() - 1;
            for scheme in Scheme::ALL {
                let t = std::time::Instant::now();
                match Experiment::new(chip.clone(), scheme, most).run() {
                    Ok(m) => println!(
                        "{name} {hw} {scheme:?}: {:.2} Mops lat {:.0} ns unfair {:.2} serving {} x {:.2} RMR {:.0} ns (late {:.2}); handing {} x {:.2} RMR {:.0} ns, inside {:.2} RMR {:.0}ns row {:.1} [{:?}]",
                        m.rate() / 1e6,
                        m.latency(),
                        m.unfairness(),
                        m.sections.serving.times,
                        m.sections.serving.remote(),
                        m.sections.serving.nanos(),
                        m.sections.serving.counts.late as f64 / m.sections.serving.times as f64,
                        m.sections.handing_over.times,
                        m.sections.handing_over.remote(),
                        m.sections.handing_over.nanos(),
                        m.sections.inside.remote(),
                        m.sections.inside.nanos(),
                        m.sections.in_a_row(),
                        t.elapsed()
                    ),
                    Err(e) => println!("{name} {hw} {scheme:?} {e}"),
                }
            }
            for b in [Backoff::Fixed(20), Backoff::Fixed(100), Backoff::Fixed(400), Backoff::Tuned]
            {
                for st in [false, true] {
                    let s = Section::new(Scheme::SlotServer).in_flight(1).backoff(b).streaming(st);
                    let m = Experiment::new(chip.clone(), Way::Section(s), most).run().unwrap();
                    println!(
                        "{name} {hw} {b:?} {st}: {:.2} Mops lat {:.0} serving {:.2} RMR {:.0} ns late {:.2}",
                        m.rate() / 1e6,
                        m.latency(),
                        m.sections.serving.remote(),
                        m.sections.serving.nanos(),
                        m.sections.serving.counts.late as f64 / m.sections.serving.times as f64
                    );
                }
            }
        }
    }
}
