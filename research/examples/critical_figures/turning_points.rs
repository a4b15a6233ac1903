//! The point at which delegation begins to pay.

use mp_delegate::critical::{Scheme, Section};
use onchip_research::critical::{Chip, Task};

use crate::{
    figure::Result,
    machines::{combiner, experiment, slots, sockets, tiles},
};

const CLIENTS: [usize; 15] = [1, 2, 3, 4, 6, 8, 10, 12, 15, 20, 28, 35, 48, 59, 79];
const INCREMENTS: [u32; 5] = [0, 1, 8, 64, 256];
const LOCKS: [Scheme; 3] = [Scheme::Mcs, Scheme::Clh, Scheme::HybLock];

/// Returns from how many clients on delegation is as fast as the best of the queue locks.
pub fn table() -> Result<String> {
    let mut out = String::from(
        "Turning points, SIMULATED: from how many clients on an object is served faster than by the\n\
         best of mcs, clh and hyb-lock; -: never. A server's own core is not counted. Clients pause for\n\
         up to 50 ns.\n",
    );
    // The third element is the number of operations in flight.
    let named = |section: Section| (section.scheme().name(), section, 1);
    let ways: [(&str, Section, usize); 6] = [
        named(slots()),
        ("streaming", slots().streaming(true), 1),
        ("32 in flight", slots().in_flight(32), 32),
        named(Section::new(Scheme::MpServer(0))),
        named(combiner(Scheme::CcSynch)),
        named(combiner(Scheme::HybComb)),
    ];
    for (machine, chip) in [
        ("Sandy Bridge", Chip::sandy_bridge(16)?),
        ("Xeon Phi", Chip::xeon_phi(60)?),
        ("tiles", tiles()?),
        ("8 sockets", sockets()?),
    ] {
        out += &format!("{machine:<24}");
        out.extend(ways.iter().map(|(name, ..)| format!("{name:>14}")));
        out.push('\n');
        for times in INCREMENTS {
            out += &format!("{:<24}", format!("  {times} increments"));
            let locks = |clients| -> Result<f64> {
                let rates = LOCKS.map(|lock| rate(&chip, Section::new(lock), 1, clients, times));
                rates.into_iter().try_fold(0.0, |best: f64, rate| Ok(best.max(rate?)))
            };
            let counts = CLIENTS.into_iter().filter(|&clients| clients < chip.cores());
            let locks = counts
                .map(|clients| Ok((clients, locks(clients)?)))
                .collect::<Result<Vec<(usize, f64)>>>()?;
            for &(_, section, window) in &ways {
                // Delegation must stay ahead from the point on. Smaller numbers of clients do not matter.
                let mut point = None;
                for &(clients, lock) in locks.iter().rev() {
                    if rate(&chip, section, window, clients, times)? < lock {
                        break;
                    }
                    point = Some(clients);
                }
                let point = point.map_or("-".to_owned(), |point| point.to_string());
                out += &format!("{point:>14}");
            }
            out.push('\n');
        }
    }
    Ok(out)
}

fn rate(chip: &Chip, section: Section, window: usize, clients: usize, times: u32) -> Result<f64> {
    let experiment = experiment(chip, section, clients, Task::Counters { times });
    Ok(experiment.window(window).run()?.rate())
}
