//! What one line and several lines cost (section 2.2).

use mp_model::cla::{Line, Machine, Parameters, Placement, Program};

use super::curve::here;
use crate::cla::directory::Ring;
use crate::cla::equations;
use crate::figures::{Check, Figure, Plot, Result, Series};

/// Copies between pairs of ranks, each its own lines, from group 0 to group 1 or within group 0.
fn copies(
    parameters: Parameters,
    (pairs, lines, far): (usize, u64, bool),
    combine: bool,
) -> Result<f64> {
    let groups = (0..2 * pairs).map(|rank| usize::from(far && rank >= pairs));
    let machine = Machine { parameters, placement: Placement::new(groups.collect::<Vec<_>>())? };
    let mut program = Program::new(2 * pairs);
    for from in 0..pairs {
        let to = pairs + from;
        let (data, copy) = (program.data(from, lines), program.data(to, lines));
        if combine {
            program.combine(to, data, copy);
        } else {
            program.copy(to, data, copy);
        }
    }
    here(&machine, &program)
}

/// Returns the time for so many ranks to copy one line of another rank at the same time.
fn contended(parameters: Parameters, readers: usize) -> Result<f64> {
    let placement = Placement::one_group(readers + 1)?;
    let mut program = Program::new(readers + 1);
    let data: Vec<Line> = (0..=readers).map(|rank| program.data(rank, 1)).collect();
    (1..=readers).for_each(|rank| program.copy(rank, data[0], data[rank]));
    here(&Machine { parameters, placement }, &program)
}

fn curve(
    name: &'static str,
    range: impl Iterator<Item = usize>,
    value: impl Fn(usize) -> Result<f64>,
) -> Result<Series> {
    let points = range.map(|at| Ok((at as f64, value(at)?))).collect::<Result<Vec<_>>>()?;
    Ok(Series::line(name, points))
}

/// Returns the mean rise from one point to the next.
fn slope(series: &Series) -> f64 {
    let (first, last) = (series.points[0], series.points[series.points.len() - 1]);
    (last.1 - first.1) / (last.0 - first.0)
}

/// Figure 2: congestion, contention, and several lines.
pub(super) fn figure_2() -> Result<Figure> {
    let (sandy, phi) = (Parameters::SANDY_BRIDGE, Parameters::XEON_PHI);
    let contention = phi.contention.expect("table 2");
    let model = "published model";
    let across = [
        curve(model, 1..=8, |threads| Ok(sandy.far.lines.cost(threads as u64, 1).as_nanos()))?,
        curve("here", 1..=8, |threads| copies(sandy, (threads, 1, true), false))?,
    ];
    let first_half = equations::with_contention_of_equation_2(phi).contention.expect("table 1");
    let readers = [
        curve(model, 1..=59, |threads| Ok(contention.cost(threads as u64).as_nanos()))?,
        curve("here", 1..=59, |threads| contended(phi, threads))?,
        curve("R_L + R_R + c (n − 1)", 1..=59, |n| Ok(first_half.cost(n as u64).as_nanos()))?,
    ];
    let sizes = || (2..=128).step_by(2);
    let lines = [
        curve(model, sizes(), |lines| Ok(phi.near.lines.cost(1, lines as u64).as_nanos()))?,
        curve("here, added", sizes(), |lines| copies(phi, (1, lines as u64, false), true))?,
        curve("here, copied", sizes(), |lines| copies(phi, (1, lines as u64, false), false))?,
    ];
    let sandy_lines = |far| {
        let name = if far { "here, other socket" } else { "here, same socket" };
        curve(name, sizes(), move |lines| copies(sandy, (1, lines as u64, far), false))
    };
    let sandy_lines = [
        curve(model, sizes(), |n| Ok(sandy.near.lines.cost(1, n as u64).as_nanos()))?,
        curve(model, sizes(), |n| Ok(sandy.far.lines.cost(1, n as u64).as_nanos()))?,
        sandy_lines(false)?,
        sandy_lines(true)?,
    ];
    let eight = copies(sandy, (8, 16, true), false)?;
    let last = |series: &Series| series.points[series.points.len() - 1].1;
    let checks = vec![
        Check::value("table 3: c, one line to another socket", "ns", 3.0, slope(&across[1]), 0.001),
        Check::value("one thread copies a line to another socket", "ns", across[0].points[0].1, across[1].points[0].1, 0.05)
            .limit("a single line costs R_Q + R_L = 96.3 ns here, as in the equations of section 3; the model of figure 2a \
                    begins with the q of several lines"),
        Check::value("eight threads copy 16 lines each to another socket, T_m(8, 16)", "ns", sandy.far.lines.cost(8, 16).as_nanos(), eight, 0.001),
        Check::value("table 2: c, readers of one line (Xeon Phi)", "ns", 56.2, slope(&readers[1]), 0.001),
        Check::value("59 readers of one line, T_C(59)", "ns", last(&readers[0]), last(&readers[1]), 0.05),
        Check::value("one reader of a line, T_C(1)", "ns", readers[0].points[0].1, readers[1].points[0].1, 0.05)
            .limit("equation 2 has two forms: R_L + R_R + c (n − 1), which is what comes out here, and b + c n, whose b is \
                    fitted and 132.3 ns more"),
        Check::value("table 4: o, a line more of several (Xeon Phi)", "ns", 76.0, slope(&lines[2]), 0.001),
        Check::value("128 lines that are added, T_N (Xeon Phi)", "ns", last(&lines[0]), last(&lines[1]), 0.001),
        Check::value("128 lines that are copied, T_N (Xeon Phi)", "ns", last(&lines[0]), last(&lines[2]), 0.05)
            .limit("section 4.2.2 takes the b of contention instead of the q, “arbitrarily”, and so do copies here"),
        Check::value("128 lines, T_m(1, 128), same socket", "ns", last(&sandy_lines[0]), last(&sandy_lines[2]), 0.001),
        Check::value("128 lines, T_m(1, 128), other socket", "ns", last(&sandy_lines[1]), last(&sandy_lines[3]), 0.001),
    ];
    // What the paper has as formulas is drawn as dots, because most of it is on the curves.
    let plot = |part, caption: &str, across, series: &[Series]| {
        let dotted = |one: &Series| Series { dots: !one.name.starts_with("here"), ..one.clone() };
        Plot::new(part, caption, across, "ns", series.iter().map(dotted).collect())
    };
    Ok(Figure {
        title: "contention, congestion and transfers of several lines".to_owned(),
        about: "The costs of one transfer are the tables'. What transfers cost each other is what the simulated link and \
                the simulated line do, and that is checked here. 2d has the lines of table 3, which the paper does not \
                draw. The paper's measurements exist only as a picture."
            .to_owned(),
        plots: vec![
            plot("a", "one line to the other socket, Sandy Bridge", "copying threads", &across),
            plot("b", "readers of one line, Xeon Phi", "threads", &readers),
            plot("c", "several lines, Xeon Phi", "lines", &lines),
            plot("d", "several lines, Sandy Bridge", "lines", &sandy_lines),
        ],
        checks,
    })
}

/// Figure 3: directories on the ring.
pub(super) fn figure_3() -> Result<Figure> {
    let ring = Ring::xeon_phi();
    let of = |reader: usize| -> Vec<f64> {
        ring.transfers(0, reader as u64).into_iter().map(|time| time.as_nanos()).collect()
    };
    let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64;
    let deviation = |times: &[f64]| {
        let mean = mean(times);
        (times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / times.len() as f64).sqrt()
    };
    let readers = || 1..60;
    let distinct = |reader: usize| {
        let mut times = of(reader);
        times.dedup();
        times.into_iter().map(move |time| (reader as f64, time))
    };
    let dots = readers().flat_map(distinct);
    let means = curve("mean", readers(), |reader| Ok(mean(&of(reader))))?;
    let deviations = curve("standard deviation", readers(), |reader| Ok(deviation(&of(reader))))?;
    let (near, far) = (of(1), of(30));
    let first = &deviations.points[..30];
    let spread = |times: &[f64]| format!("{:.0} to {:.0} ns", times[0], times[times.len() - 1]);
    let least = means.points.iter().map(|point| point.1).fold(f64::MAX, f64::min);
    let most = means.points.iter().map(|point| point.1).fold(0.0, f64::max);
    Ok(Figure {
        title: "the effect of directories on the ring of the Xeon Phi".to_owned(),
        about: "A line of core 0, read by each other core, by way of each directory. The time of a hop and the rest are \
                fitted to R_R and to “up to a 5x variation in latency” (section 2.1.2); all else follows from the ring. \
                The programs of the other figures use the mean, as the paper does."
            .to_owned(),
        checks: vec![
            Check::statement("on average, it will be at a distance of 15 cores", "15.0 hops", {
                (0..60).map(|at| ring.hops(0, at)).sum::<u64>() == 15 * 60
            }),
            Check::statement(
                "the average does not vary with core distance",
                format!("{least:.1} to {most:.1} ns"),
                most - least < 0.1,
            ),
            Check::statement(
                "the closer the cores, the higher the standard deviation",
                format!("{:.0} ns between neighbours, {:.0} ns between opposite cores", first[0].1, first[29].1),
                first.is_sorted_by(|near, far| near.1 > far.1),
            ),
            Check::statement(
                "for closer cores, the DTD might be very close to both, but also very distant",
                format!("neighbours: {}; opposite cores: {}", spread(&near), spread(&far)),
                near[0] < far[0] && near[59] > far[59],
            ),
            Check::statement("the plot is not symmetric", "cores 1 and 59: the same times", of(1) != of(59))
                .limit("requests take the shorter way here, always"),
        ],
        plots: vec![Plot {
            caption: "a line of core 0, by way of each directory".to_owned(),
            across: "reading core",
            unit: "ns",
            series: vec![Series::dots("one directory", dots), means, deviations],
            ..Plot::default()
        }],
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn costs_are_those_of_the_tables() {
        super::figure_2().unwrap().assert();
        super::figure_3().unwrap().assert();
    }
}
