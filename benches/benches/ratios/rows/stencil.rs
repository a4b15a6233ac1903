//! The five-point stencil with messages, beside threads that share the matrix.

use std::process::Command;
use std::rc::Rc;

use example_support::peers::{PATIENCE, within};
use onchip_benches::cpus;
use stencil::modes::{Job, Mode, Ranks, run};

use crate::plan::Stencil;
use crate::rivals::contest::Contest;
use crate::rivals::{failed, last_words, openmp, stencil as rivals};
use crate::row::{Bound, Row, Side, Taken, Trouble, Unit};
use crate::stats::median;

/// The word after `--child` that makes this program a stencil: as the farm, a program of its own.
pub const STENCIL: &str = "stencil";

const PLAN: Stencil = Stencil::PAPER;
const BOTH: [Ranks; 2] = [Ranks::Threads, Ranks::Processes];

pub fn rows() -> Vec<Row> {
    let rayon = Rc::new(rivals::rayon(PLAN));
    let row = |name: String, what, ranks, reference, bound| Row {
        name: format!("stencil.{name}"),
        what,
        unit: Unit::Nanoseconds,
        ours: side("onchip", Mode::NoKt, ranks),
        reference,
        bound: Bound::at_most(bound),
        by_distance: true,
    };
    let mut rows = Vec::new();
    for ranks in BOTH {
        rows.push(row(
            format!("openmp.{ranks}"),
            "1080 × 1080 doubles, 100 steps, 2 workers, beside OpenMP with active waiting",
            ranks,
            openmp::stencil(PLAN),
            1.0,
        ));
        rows.push(row(
            format!("rayon.{ranks}"),
            "1080 × 1080 doubles, 100 steps, 2 workers, beside rayon",
            ranks,
            Contest::side(&rayon, 0),
            1.0,
        ));
        rows.push(row(
            format!("sh-mem.{ranks}"),
            "1080 × 1080 doubles, 100 steps, 2 workers, beside its own mode of shared memory",
            ranks,
            side("sh-mem", Mode::ShMem, Ranks::Threads),
            1.03,
        ));
    }
    rows.push(row(
        "processes.threads".into(),
        "1080 × 1080 doubles, 100 steps, 2 workers, processes beside threads",
        Ranks::Processes,
        side("threads", Mode::NoKt, Ranks::Threads),
        1.03,
    ));
    rows
}

/// A world of its own for every run. The first time, what comes of it is compared.
fn side(name: &str, mode: Mode, ranks: Ranks) -> Side {
    let mut checked = false;
    Side::new(name, "adaptive", move |setup| {
        cpus::confined(&setup.cpus, || {
            if !checked {
                start(true, mode, ranks)?;
                checked = true;
            }
            start(false, mode, ranks)
        })
    })
}

fn start(checked: bool, mode: Mode, ranks: Ranks) -> Taken {
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    let what = serde_json::to_string(&(checked, mode, ranks)).map_err(failed)?;
    command.args(["--child", STENCIL, &what]);
    let output = within(&mut command, PATIENCE)?;
    if !output.status.success() {
        return Err(failed(last_words(&output.stderr)));
    }
    let ns: f64 = String::from_utf8_lossy(&output.stdout).trim().parse().map_err(failed)?;
    Ok(ns.into())
}

/// The stencil itself: `arguments` are those after [`STENCIL`].
pub fn child(arguments: &[String]) -> Result<(), Trouble> {
    let [what] = arguments else { return Err(failed("expected what to do")) };
    let (checked, mode, ranks): (bool, Mode, Ranks) = serde_json::from_str(what).map_err(failed)?;
    let job = Job { keep: checked, ..rivals::job(PLAN, PLAN.workers) };
    let mut took = Vec::new();
    for _ in 0..if checked { 1 } else { PLAN.runs } {
        let run = run(&job, mode, ranks).map_err(failed)?;
        if checked && run.cells != rivals::last(PLAN)? {
            return Err(failed("the matrix is not that of the sequential stencil"));
        }
        took.push(run.seconds * 1e9);
    }
    println!("{}", median(&took));
    Ok(())
}
