//! The video farm, frames moved between processes, beside farms that pass pointers between threads.

use std::process::Command;

use clap::ValueEnum as _;
use example_support::peers::{PATIENCE, within};
use onchip_benches::cpus;
use video_farm::farm::{Job, Mode, Preload, Ranks, Run, Schedule};
use video_farm::output::Output;

use crate::plan::Farm;
use crate::rivals::{failed, farm, last_words};
use crate::row::{Bound, Row, Side, Taken, Trouble, Unit};

/// The word after `--child` that makes this program a video farm. A farm is a program of its own
/// here: when its ranks are processes they are that program, started again.
pub const FARM: &str = "farm";

const PLAN: Farm = Farm::TWO_WORKERS;

/// A farm of its own for every sample.
pub fn side(name: &str, mode: Mode, ranks: Ranks) -> Side {
    let mut checked = false;
    Side::new(name, "adaptive", move |setup| {
        cpus::confined(&setup.cpus, || {
            if !checked {
                run("checked", mode, ranks)?;
                checked = true;
            }
            run("measured", mode, ranks)
        })
    })
}

fn run(what: &str, mode: Mode, ranks: Ranks) -> Taken {
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.args(["--child", FARM, what, &mode.to_string(), &ranks.to_string()]);
    let output = within(&mut command, PATIENCE)?;
    if !output.status.success() {
        return Err(failed(last_words(&output.stderr)));
    }
    let run: Run = serde_json::from_slice(&output.stdout).map_err(failed)?;
    Ok((run.service_time() * 1e3).into())
}

/// The farm itself: `arguments` are those after [`FARM`].
pub fn child(arguments: &[String]) -> Result<(), Trouble> {
    let [what, mode, ranks] = arguments else {
        return Err(failed("expected what to do, a mode and a kind of ranks"));
    };
    let mode = Mode::from_str(mode, false).map_err(failed)?;
    let ranks = Ranks::from_str(ranks, false).map_err(failed)?;
    let input = farm::clip()?;
    let measured = what == "measured";
    let output = if measured { Output::Discard } else { Output::Check(input.clone()) };
    let job = Job {
        frames: Some(if measured { PLAN.measured() } else { PLAN.held } as u64),
        schedule: Schedule::OnDemand,
        degree: PLAN.degree,
        preload: measured.then_some(Preload { frames: PLAN.held, warm_up: 2 * PLAN.held as u64 }),
        ..Job::new(input, output, PLAN.workers)
    };
    let run = video_farm::farm::run(&job, mode, ranks).map_err(failed)?;
    println!("{}", serde_json::to_string(&run).map_err(failed)?);
    Ok(())
}

pub fn rows() -> Vec<Row> {
    let moved = || side("moved", Mode::Moved, Ranks::Processes);
    let row = |name: &str, what, reference, bound| Row {
        name: format!("farm.{name}"),
        what,
        unit: Unit::Nanoseconds,
        ours: moved(),
        reference,
        bound,
        by_distance: true,
    };
    vec![
        row(
            "sh-mem",
            "video farm `moved`, processes, 2 workers, time a frame, beside `sh-mem` threads",
            side("sh-mem", Mode::ShMem, Ranks::Threads),
            Bound::at_most(1.03),
        ),
        row(
            "rayon",
            "video farm `moved`, processes, 2 workers, beside a rayon loop on 2 threads",
            farm::rayon(PLAN),
            Bound::at_most(1.0),
        ),
        row(
            "crossbeam",
            "video farm `moved`, processes, 2 workers, beside pointers through crossbeam channels",
            farm::crossbeam(PLAN),
            Bound::at_most(1.0),
        ),
    ]
}
