//! OC-Bcast on meshes of many more cores than the SCC has.

use super::machine::{name, oc_bcast, scc};
use crate::experiments::{self, Algorithm};
use crate::figures::{Check, Figure, Plot, Result, Series};
use crate::scc::megabytes_per_second;
use crate::sim::{Layout, Machine};
use mp_collectives::broadcast::asynchronous::AsyncOptions;

/// Returns an SCC with a mesh of this size, and as many lines in each MPB as flags and buffers need.
fn mesh(width: usize, height: usize) -> Machine {
    let (right, half) = (width - 1, height / 2);
    let controllers = vec![(0, 0), (right, 0), (0, half), (right, half)];
    let layout = Layout::Mesh { width, height, cores_per_tile: 2, controllers };
    let machine = Machine { layout, ..scc() };
    // With all others as children, a core has a flag for each.
    let flags = if machine.cores() <= 1_024 { machine.cores() } else { 0 };
    Machine { lines: machine.lines + flags, ..machine }
}

/// Returns the latency of 96 lines, in µs.
fn latency(machine: &Machine, degree: usize) -> Result<f64> {
    Ok(experiments::latency_of(machine, oc_bcast(degree), 96, 2)?.as_micros())
}

/// Latency and throughput from 48 to 16,384 cores.
pub(super) fn many_cores() -> Result<Figure> {
    let meshes = [(6, 4), (16, 8), (32, 16), (64, 32), (128, 64)].map(|(x, y)| mesh(x, y));
    let mut series = Vec::new();
    for degree in [2, 7, 47] {
        let point = |machine: &Machine| Ok((machine.cores() as f64, latency(machine, degree)?));
        let points = meshes.iter().map(point).collect::<Result<Vec<_>>>()?;
        series.push(Series::line(name(oc_bcast(degree)), points));
    }
    let one_level =
        |machine: &Machine| Ok((machine.cores() as f64, latency(machine, machine.cores() - 1)?));
    let points = meshes[..3].iter().map(one_level).collect::<Result<Vec<_>>>()?;
    series.push(Series::line("k = P − 1", points));
    let at = |curve: usize, place: usize| series[curve].points[place].1;
    let thousand = &meshes[2];
    let rate = |degree| -> Result<f64> {
        let algorithm: Algorithm = oc_bcast(degree);
        Ok(experiments::mb_per_s(thousand, algorithm, 4_096, 1)?)
    };
    let rates = [rate(2)?, rate(7)?, rate(47)?, rate(1_023)?];
    let asynchronous = experiments::async_mb_per_s(thousand, AsyncOptions::scc(7), 1, 128, 40)?;
    // Each of the other cores accesses the controller once for each message.
    let bound = megabytes_per_second(128, 1_023 * thousand.interrupts.access);
    let checks = vec![
        Check::statement(
            "large values of k might turn out to be inappropriate at large scale, since the gain in parallelism could \
             be paid by a more significant loss related to contention",
            format!(
                "1,024 cores: {:.0} µs with k = 7, {:.0} with k = 47, {:.0} with k = 1023; 48 cores: {:.0} with k = 7, \
                 {:.0} with k = 47",
                at(1, 2),
                at(2, 2),
                at(3, 2),
                at(1, 0),
                at(2, 0)
            ),
            at(3, 2) > 3.0 * at(1, 2) && at(2, 0) < 1.1 * at(1, 0),
        ),
        Check::here(
            "a tree of degree 7 serves 341 times as many cores with few more levels",
            format!("{:.0} µs on 48 cores, {:.0} µs on 16,384", at(1, 0), at(1, 4)),
            at(1, 4) < 4.0 * at(1, 0),
        ),
        Check::here(
            "so it is with throughput",
            format!("128 KB on 1,024 cores: {rates:.1?} MB/s with k = 2, 7, 47, 1023"),
            rates[3] < 0.5 * rates[1],
        ),
        Check::statement(
            "sequential access to the off-chip registers for interrupt handling slows down the whole process",
            format!(
                "asynchronous broadcasts of one source, 1,024 cores, k = 7: {asynchronous:.1} MB/s, where the \
                 controller alone admits {bound:.1}"
            ),
            asynchronous < bound && asynchronous > 0.8 * bound,
        ),
    ];
    let caption = "latency of 96 lines".to_owned();
    let (across, unit) = ("cores", "µs");
    Ok(Figure {
        title: "OC-Bcast with up to 16,384 cores (thesis, section 4.3.2)".to_owned(),
        about: "Meshes with the SCC's costs for each hop. The thesis has no figure of this; it expects what many \
                children cost on larger chips. The run of 16,384 cores takes less than 0.3 GB of memory. Each run of \
                the figures above takes seconds and up to 0.25 GB with 1,024 cores, with two exceptions: a message of 1 \
                MB (figure 3.2b) takes half a minute and 1.1 GB, because it is on each core, and 34 million lines are \
                copied one by one; and 5 or 48 sources (figure 3.4) take a quarter of a minute. Asynchronous broadcasts have a flag and a count for each pair of cores, so they end at a few thousand cores."
            .to_owned(),
        plots: vec![Plot { caption, across, unit, logarithmic: true, series, ..Plot::default() }],
        checks,
    })
}
