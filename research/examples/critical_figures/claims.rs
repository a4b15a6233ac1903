//! The thesis' claims, and the results here.

use mp_delegate::critical::{Backoff, Scheme, Section};
use onchip_research::critical::{Chip, Measured, Task, Way};

use crate::{
    chapter_7::PAUSE,
    figure::Result,
    machines::{combiner, experiment, slots, sockets, tiles},
};

/// Returns a table of the thesis' claims and the results here.
pub fn table() -> Result<String> {
    let mut out = format!("{:<78}{:>18}{:>12}\n", "claim", "thesis", "SIMULATED");
    let mut row = |claim: &str, thesis: &str, simulated: f64| {
        out += &format!("{claim:<78}{thesis:>18}{simulated:>12.2}\n");
    };
    hand_overs(&mut row)?;
    requests(&mut row)?;
    optimizations(&mut row)?;
    rates(&mut row)?;
    Ok(out)
}

/// Runs a counter with negligible pauses.
fn run(chip: &Chip, way: impl Into<Way>, clients: usize) -> Result<Measured> {
    Ok(experiment(chip, way, clients, Task::Counter).run()?)
}

fn hand_overs(row: &mut impl FnMut(&str, &str, f64)) -> Result<()> {
    let (tiles, sandy) = (tiles()?, Chip::sandy_bridge(16)?);
    for (scheme, thesis) in
        [(Scheme::Mcs, "2 (5.3.1)"), (Scheme::Clh, "2 (5.3.1)"), (Scheme::HybLock, "0 (6.1.1)")]
    {
        let costs = run(&tiles, scheme, 36)?.sections.handing_over;
        row(&format!("RMRs of a hand-over, {scheme}, tiles"), thesis, costs.remote());
    }
    for scheme in [Scheme::Mcs, Scheme::Clh, Scheme::HybLock] {
        let costs = run(&sandy, scheme, 16)?.sections.handing_over;
        let claim =
            format!("  the same where messages are lines of memory, {scheme}, Sandy Bridge");
        row(&claim, "", costs.remote());
    }
    Ok(())
}

fn requests(row: &mut impl FnMut(&str, &str, f64)) -> Result<()> {
    let baselines = [combiner(Scheme::CcSynch), slots()];
    let hybrids = [combiner(Scheme::HybComb), Section::new(Scheme::MpServer(0))];
    for (name, chip, thesis) in [
        ("Sandy Bridge", Chip::sandy_bridge(16)?, ["2 (5.3.2)", ""]),
        ("Xeon Phi", Chip::xeon_phi(60)?, ["2 (5.3.2)", ""]),
        ("tiles", tiles()?, ["2 (5.3.2)", "0 (6.1.2)"]),
    ] {
        for (sections, thesis) in [baselines, hybrids].into_iter().zip(thesis) {
            for section in sections {
                let serving = run(&chip, section, chip.cores() - 1)?.sections.serving;
                let claim = format!("RMRs of a request, {}, {name}", section.scheme());
                row(&claim, thesis, serving.remote());
            }
        }
    }
    Ok(())
}

fn optimizations(row: &mut impl FnMut(&str, &str, f64)) -> Result<()> {
    let (fetching, plain) = (sockets()?, Chip { prefetcher: None, ..sockets()? });
    for (name, section, thesis) in [
        ("no backoff", slots(), "1 (7.1.3)"),
        ("backoff of 2 µs", slots().backoff(Backoff::Fixed(400)), "0 (7.1.3)"),
        ("backoff tuned", slots().backoff(Backoff::Tuned), ""),
        ("streaming", slots().streaming(true), "0 (7.1.3)"),
    ] {
        for (chip, with, thesis) in [(&fetching, "with", thesis), (&plain, "without", "")] {
            let serving = run(chip, section, 79)?.sections.serving;
            let claim =
                format!("RMRs of a request, slot-server, {name}, 8 sockets {with} prefetcher");
            row(&claim, thesis, serving.remote());
        }
    }
    Ok(())
}

fn rates(row: &mut impl FnMut(&str, &str, f64)) -> Result<()> {
    let (tiles, fetching) = (tiles()?, sockets()?);
    let tile = |section: Section, clients| run(&tiles, section, clients).map(|run| run.rate());
    let locks = tile(Section::new(Scheme::HybLock), 36)? / tile(Section::new(Scheme::Mcs), 36)?;
    row("hyb-lock's throughput / mcs', tiles", "1.35 (6.2.3)", locks);
    let servers = tile(Section::new(Scheme::MpServer(0)), 35)? / tile(slots(), 35)?;
    row("mp-server / slot-server, tiles", "4.3 (6.2.3)", servers);
    let combiners = tile(combiner(Scheme::HybComb), 36)? / tile(combiner(Scheme::CcSynch), 36)?;
    row("hyb-comb / cc-synch, tiles", "2.5 (6.2.3)", combiners);
    let fair = run(&tiles, combiner(Scheme::HybComb), 36)?.unfairness();
    row("hyb-comb: most / fewest operations of a thread, tiles", "1.2 (6.2.3)", fair);

    let paused = |section: Section| -> Result<f64> {
        let experiment = experiment(&fetching, section, 79, Task::Counter).between(PAUSE);
        Ok(experiment.run()?.rate())
    };
    let base = paused(slots())?;
    let with = |section: Section| -> Result<f64> { Ok(paused(section)? / base) };
    let backoff = with(slots().backoff(Backoff::Fixed(400)))?;
    row("slot-server: backoff of 2 µs / none, 8 sockets", "up to 6 (7.2.2)", backoff);
    row("  tuned / none", "", with(slots().backoff(Backoff::Tuned))?);
    let streaming = with(slots().streaming(true))?;
    row("slot-server: streaming / ordinary stores, 8 sockets", "3.5 (7.2.2)", streaming);
    let groups = with(combiner(Scheme::HSynch))? / with(combiner(Scheme::CcSynch))?;
    row("h-synch / cc-synch, 8 sockets", "more (7.2.3)", groups);
    Ok(())
}
