//! The task farm: tables I and II, figures 4 and 5.

use super::given::{COPY, CORES, SH_MEM, beside, limited, sharing};
use crate::figures::{Check, Figure, Plot, Result, Series};
use crate::smt::Micros;
use crate::smt::farm::{Farm, Version};

const WORKERS: &str = "workers";

fn farm(workers: usize, per_core: usize, version: Version) -> Farm {
    Farm { workers, per_core, version, calculation: SH_MEM, copy: COPY, degree: 2 }
}

/// Returns the service time.
fn time(workers: usize, per_core: usize, version: Version) -> Result<Micros> {
    Ok(farm(workers, per_core, version).service_time(sharing())?)
}

/// Returns the farm with the paper's numbers of communication threads: ⌈n/12⌉ for the emitter, and one for 10 workers.
fn specialized(workers: usize) -> Version {
    Version::Specialized { emitter: workers.div_ceil(12), group: 10 }
}

/// Returns the most workers that fit on the cores with the paper's numbers of communication threads.
fn most_specialized(per_core: usize) -> usize {
    let fit = |&workers: &usize| farm(workers, per_core, specialized(workers)).cores() <= CORES;
    (1..=58 * per_core).rev().find(fit).unwrap_or(0)
}

/// Returns service times by number of workers, one per core.
fn curve(
    workers: impl Iterator<Item = usize>,
    version: impl Fn(usize) -> Version,
) -> Result<Times> {
    workers.map(|workers| Ok((workers as f64, time(workers, 1, version(workers))?))).collect()
}

/// Times by number of workers.
type Times = Vec<(f64, Micros)>;

/// A version: its name, its times here, if there are any, and the paper's.
type Curve = (&'static str, Times, Times);

/// Returns the picture from so many workers on.
fn plot(caption: &str, least: f64, curves: impl IntoIterator<Item = Curve>) -> Plot {
    let both = |(name, mut line, mut dots): Curve| {
        line.retain(|point| point.0 >= least);
        dots.retain(|point| point.0 >= least);
        let line = (!line.is_empty()).then(|| Series::line(name, line));
        line.into_iter().chain([Series::dots(name, dots)])
    };
    Plot {
        caption: caption.to_owned(),
        across: WORKERS,
        unit: "µs between two images",
        logarithmic: true,
        series: curves.into_iter().flat_map(both).collect(),
        ..Plot::default()
    }
}

/// Table I and figure 4: communication threads beside workers.
pub(super) fn table_1() -> Result<Figure> {
    const PUBLISHED: [(usize, [Micros; 3]); 6] = [
        (1, [13_614.0, 14_789.0, 14_022.0]),
        (4, [3_407.0, 3_703.0, 3_515.0]),
        (8, [1_709.0, 1_856.0, 1_764.0]),
        (12, [1_141.0, 1_241.0, 1_193.0]),
        (16, [860.0, 1_229.0, 1_228.0]),
        (58, [247.0, 1_240.0, 1_239.0]),
    ];
    /// MPI is other software, which is not simulated.
    const MPI: [Micros; 6] = [16_558.0, 4_177.0, 2_200.0, 1_650.0, 1_665.0, 2_183.0];
    const VERSIONS: [(&str, Version); 3] =
        [("Sh-Mem", Version::ShMem), ("No-KT", Version::NoKt), ("KT-W", Version::KtW)];
    let curves = VERSIONS
        .iter()
        .map(|&(_, version)| curve(1..=58, |_| version))
        .collect::<Result<Vec<_>>>()?;
    let at = |version: usize, workers: usize| curves[version][workers - 1].1;
    let mut checks = Vec::new();
    // Row 1 is given.
    for (workers, times) in &PUBLISHED[1..] {
        for (version, (name, _)) in VERSIONS.iter().enumerate() {
            let what = format!("{name}, {workers} workers");
            checks.push(Check::value(what, "µs", times[version], at(version, *workers), 0.06));
        }
    }
    let gain = |workers| 1.0 - at(2, workers) / at(1, workers);
    checks.extend([4, 8].map(|workers| {
        let published = if workers == 4 { 5.07 } else { 4.97 };
        let ours = 100.0 * gain(workers);
        Check::value(format!("gain of KT-W, {workers} workers"), "%", published, ours, 0.06)
    }));
    // Up to 11 workers the emitter waits for workers, from 13 on these wait for it.
    let (least, most) =
        (1..=11).map(gain).fold((f64::MAX, 0.0_f64), |(a, b), g| (a.min(g), b.max(g)));
    let stops = (2..=58).find(|&n| at(1, n) >= at(1, n - 1) - 1e-6).unwrap_or(0);
    let limited_above = |version| (13..=58).all(|n| (at(version, n) / COPY - 1.0).abs() < 1e-6);
    let apart = (1..=12).map(|n| at(2, n) / at(0, n) - 1.0).fold(0.0, f64::max);
    checks.extend([
        Check::statement(
            "a constant improvement of ∼5% w.r.t the No-KT version",
            format!("{:.1}% to {:.1}% with 1 to 11 workers, {:.1}% with 12, none from 13 on",
                100.0 * least, 100.0 * most, 100.0 * gain(12)),
            least > 0.045 && most < 0.055 && (13..=58).all(|n| gain(n).abs() < 1e-6),
        ),
        Check::statement(
            "their service time stops to decrease with more than 12 Workers",
            format!("No-KT: {:.0} µs with 12, {:.0} with 13 to 58", at(1, 12), at(1, 13)),
            stops == 14 && limited_above(1),
        ),
        Check::statement(
            "the throughput of the message-passing versions is limited by the Emitter",
            format!("from 13 workers on, an image takes the {COPY:.0} µs of one copy"),
            limited_above(1) && limited_above(2),
        ),
        Check::statement(
            "Up to 12 Workers […] the KT-W version obtains very similar results to the shared-memory one",
            format!("at most {:.1}% longer", 100.0 * apart),
            apart < 0.05,
        ),
    ]);
    let mpi = || PUBLISHED.iter().zip(MPI).map(|(&(workers, _), mpi)| (workers, mpi));
    let longer = |version| {
        let of = mpi().map(|(workers, mpi)| 100.0 * (mpi / at(version, workers) - 1.0));
        of.fold((f64::MAX, f64::MIN), |(least, most), off| (off.min(least), off.max(most)))
    };
    let (no_kt, kt_w) = (longer(1), longer(2));
    checks.extend([
        Check::statement(
            "our library (KT-W and No-KT cases) offers better service times than MPI",
            format!(
                "the published MPI takes {:.0}% to {:.0}% longer than KT-W here, {:.0}% to {:.0}% longer than No-KT",
                kt_w.0, kt_w.1, no_kt.0, no_kt.1
            ),
            no_kt.0 > 0.0 && kt_w.0 > 0.0,
        ),
        Check::statement(
            "a lightweight support able to outperform MPI on very fine grain computations",
            format!("58 workers: {:.0} µs between two images, where MPI takes 2183", at(2, 58)),
            at(2, 58) < MPI[5],
        ),
        Check::statement(
            "with a limited number of Workers all the message-passing implementations perform quite similarly",
            format!(
                "1 to 8 workers: the published MPI takes up to {:.0}% longer than KT-W here, up to {:.0}% longer than \
                 No-KT; with 58 workers {:.0}%",
                100.0 * (MPI[2] / at(2, 8) - 1.0),
                100.0 * (MPI[2] / at(1, 8) - 1.0),
                100.0 * (MPI[5] / at(1, 58) - 1.0)
            ),
            mpi().take(3).all(|(workers, mpi)| mpi < 1.3 * at(2, workers)),
        ),
    ]);
    let degree_1 = Farm { degree: 1, ..farm(8, 1, Version::KtW) }.service_time(sharing())?;
    checks.push(Check::here(
        "the degree of asynchrony lets an image come while the worker still has the one before",
        format!("KT-W, 8 workers: {degree_1:.0} µs with degree 1, {:.0} with 2", at(2, 8)),
        degree_1 > 1.04 * at(2, 8),
    ));
    let rows: Vec<Vec<String>> = mpi()
        .map(|(workers, mpi)| {
            let times = [mpi, at(1, workers), at(2, workers)].map(|time| format!("{time:.0} µs"));
            [workers.to_string()].into_iter().chain(times).collect()
        })
        .collect();
    let table = beside(&["workers", "MPI, published", "No-KT, here", "KT-W, here"], &rows);
    let of_mpi = mpi().map(|(workers, mpi)| (workers as f64, mpi)).collect();
    let series = curves.into_iter().enumerate().map(|(version, curve)| {
        let dots = PUBLISHED.map(|(n, times)| (n as f64, times[version]));
        (VERSIONS[version].0, curve, dots.to_vec())
    });
    let series = series.chain([("MPI, published", Vec::new(), of_mpi)]);
    Ok(Figure {
        title: "service time of the task farm, with figure 4".to_owned(),
        about: format!(
            "Images of 1000 × 1000 pixels. Emitter and collector have a core each, and each worker has one. Dots are \
             the paper's. MPI is other software, which a simulation of this library's algorithms cannot run, so its \
             column is shown as published:\n{table}"
        ),
        plots: vec![plot("communication threads beside workers", 4.0, series)],
        checks,
    })
}

const NO_MEMORY: &str = "workers do not disturb each other in memory here";

/// A published time beside ours.
struct Point {
    workers: usize,
    published: Micros,
    ours: Micros,
    check: Check,
}

/// Returns the points of a version. A row has the workers on a core, all workers, the published time, and a limit.
fn points(
    name: &str,
    version: impl Fn(usize) -> Version,
    rows: &[(usize, usize, Micros, &'static str)],
) -> Result<Vec<Point>> {
    let point = |&(per_core, workers, published, limit): &(usize, usize, Micros, &'static str)| {
        let ours = time(workers, per_core, version(workers))?;
        let what = match per_core {
            1 => format!("{name}, {workers} workers"),
            _ => format!("{name}, {per_core} workers per core (here {workers})"),
        };
        let check = limited(Check::value(what, "µs", published, ours, 0.1), limit);
        Ok(Point { workers, published, ours, check })
    };
    rows.iter().map(point).collect()
}

/// Table II and figure 5: communication threads for the emitter.
pub(super) fn table_2() -> Result<Figure> {
    let generalized = |_| Version::Generalized;
    let shared = points(
        "Sh-Mem",
        |_| Version::ShMem,
        &[
            (1, 48, 295.0, ""),
            (2, 116, 169.7, ""),
            (3, 174, 156.2, NO_MEMORY),
            (4, 232, 151.3, NO_MEMORY),
        ],
    )?;
    let special = points(
        "KT-specialized",
        specialized,
        &[
            (1, 4, 3_416.0, ""),
            (1, 16, 862.0, ""),
            (1, 48, 298.0, ""),
            (2, most_specialized(2), 193.7, ""),
            (3, most_specialized(3), 177.0, ""),
            (4, most_specialized(4), 169.7, ""),
        ],
    )?;
    let general = points(
        "KT-generalized",
        generalized,
        &[
            (1, 4, 3_711.0, ""),
            (1, 16, 930.0, ""),
            (1, 48, 313.0, ""),
            (1, 58, 260.0, ""),
            (2, 116, 186.3, ""),
            (3, 174, 168.5, ""),
        ],
    )?;
    let sh_mem = curve(1..=58, |_| Version::ShMem)?;
    let specials = curve(1..=most_specialized(1), specialized)?;
    let generals = curve(1..=58, generalized)?;
    let apart = specials.iter().zip(&sh_mem).map(|(s, m)| s.1 / m.1 - 1.0).fold(0.0, f64::max);
    let of = |points: &[Point], per_core: usize| points[points.len() - 1 - per_core].ours;
    // By workers per core: 2 and 3.
    let shared_times = [of(&shared, 2), of(&shared, 1)];
    let special_times = [of(&special, 2), of(&special, 1)];
    let general_times = [of(&general, 1), of(&general, 0)];
    let loss = |times: [f64; 2]| [0, 1].map(|at| 100.0 * (times[at] / shared_times[at] - 1.0));
    let (special_loss, general_loss) = (loss(special_times), loss(general_times));
    let keeps_up = (1..=30).rev().find(|&group| group as f64 * COPY <= SH_MEM).unwrap_or(0);
    let statements = [
        Check::value(
            "the most workers of KT-specialized, one per core",
            "",
            48.0,
            most_specialized(1) as f64,
            0.0,
        ),
        Check::statement(
            "when we use up to one Worker per core, Sh-Mem and the KT-specialized versions are aligned",
            format!("at most {:.1}% longer with 1 to {} workers", 100.0 * apart, specials.len()),
            apart < 0.05,
        ),
        Check::statement(
            "The difference increases when we use multiple thread contexts to execute more Workers per core",
            format!("{:.0}% with 2 per core, {:.0}% with 3", special_loss[0], special_loss[1]),
            special_loss.iter().all(|&loss| loss > 100.0 * apart),
        ),
        Check::statement(
            "When we use higher parallelism degrees, KT-generalized provides slightly better results compared with \
             KT-specialized",
            format!(
                "2 and 3 per core: {general_times:.0?} µs generalized, {special_times:.0?} specialized"
            ),
            general_times[0] < special_times[0] && general_times[1] < special_times[1],
        ),
        Check::statement(
            "The performance loss w.r.t Sh-Mem is bounded by 10%",
            format!(
                "KT-generalized: {:.1}% with 2 per core, {:.1}% with 3",
                general_loss[0], general_loss[1]
            ),
            general_loss.iter().all(|&loss| loss <= 10.0),
        )
        .limit("Sh-Mem is too fast here with 2 and 3 per core: see its values"),
        Check::statement(
            "the best configuration uses one KT_W for each group of 10 Workers",
            format!("one keeps up with {keeps_up} workers"),
            (10..=11).contains(&keeps_up),
        ),
    ];
    let dots = |points: &[Point]| -> Times {
        points.iter().map(|point| (point.workers as f64, point.published)).collect()
    };
    let line = |mut line: Times, points: &[Point]| {
        let last = line.len();
        let further = points.iter().filter(|point| point.workers > last);
        line.extend(further.map(|point| (point.workers as f64, point.ours)));
        line
    };
    let series = [
        ("Sh-Mem", line(sh_mem, &shared), dots(&shared)),
        ("KT-specialized", line(specials, &special), dots(&special)),
        ("KT-generalized", line(generals, &general), dots(&general)),
    ];
    let points = shared.into_iter().chain(special).chain(general);
    Ok(Figure {
        title: "communication threads for the emitter, with figure 5".to_owned(),
        about: "The numbers of communication threads are the paper's: ⌈n/12⌉ for the emitter and one for 10 workers \
                (specialized), or one per core (generalized). With several workers per core, as many communication \
                threads share a core of their own. Specialized farms have as many workers as then fit on 60 cores. In \
                the paper, workers disturb each other more, the more there are: with 58, Sh-Mem needs 5% more than \
                1/58 of the time of one. Here they do not. Dots are the paper's."
            .to_owned(),
        plots: vec![plot("policies of communication threads", 16.0, series)],
        checks: points.map(|point| point.check).chain(statements).collect(),
    })
}
