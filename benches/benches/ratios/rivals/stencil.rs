//! The stencil with rayon: in every step a parallel loop over blocks of rows, with the same arithmetic. Also the matrix
//! that every side must arrive at.

use std::time::Instant;

use onchip_benches::cpus;
use rayon::prelude::*;
use stencil::init::Init;
use stencil::kernel;
use stencil::modes::{Job, Mode, Ranks, Run, run};

use crate::plan::Stencil;
use crate::probe::probe;
use crate::rivals::contest::{Contest, Entrant, Shown};
use crate::rivals::failed;
use crate::row::{Setup, Trouble};
use crate::stats::median;

/// The number of blocks that the rows are divided into. Fewer blocks mean less to hand out.
const BLOCKS: [(&str, usize); 3] = [("2 blocks", 2), ("8 blocks", 8), ("32 blocks", 32)];

pub fn job(plan: Stencil, workers: usize) -> Job {
    Job {
        init: Init::pattern(plan.size),
        steps: plan.steps,
        tolerance: None,
        grid: [workers, 1],
        trace: false,
        keep: true,
        checkpoint: 10,
        lose: Vec::new(),
    }
}

/// Returns the matrix before the first step.
pub fn first(plan: Stencil) -> Result<Vec<f64>, Trouble> {
    compute(Stencil { steps: 0, ..plan }).map(|run| run.cells)
}

/// Returns the matrix after the last step.
pub fn last(plan: Stencil) -> Result<Vec<f64>, Trouble> {
    compute(plan).map(|run| run.cells)
}

fn compute(plan: Stencil) -> Result<Run, Trouble> {
    run(&job(plan, 1), Mode::Sequential, Ranks::Threads).map_err(failed)
}

/// The nanoseconds for all steps.
pub fn rayon(plan: Stencil) -> Contest {
    Contest::new("rayon", "adaptive", true, move || {
        let (first, last) = (first(plan)?, last(plan)?);
        let entrant = |(setting, blocks)| {
            let (first, last) = (first.clone(), last.clone());
            Entrant::new("rayon".into(), setting, move |setup| {
                take(setup, plan, blocks, &first, &last)
            })
        };
        Ok(BLOCKS.map(entrant).into())
    })
}

fn take(
    setup: &Setup,
    plan: Stencil,
    blocks: usize,
    first: &[f64],
    last: &[f64],
) -> Result<Shown, Trouble> {
    let before = probe(setup.cpus);
    let took = cpus::confined(&setup.cpus, || -> Result<Vec<f64>, Trouble> {
        let pool =
            rayon::ThreadPoolBuilder::new().num_threads(plan.workers).build().map_err(failed)?;
        let mut took = Vec::with_capacity(plan.runs);
        let (mut now, mut next) = (first.to_vec(), first.to_vec());
        for _ in 0..plan.runs {
            now.copy_from_slice(first);
            let start = Instant::now();
            pool.install(|| {
                for _ in 0..plan.steps {
                    step(&now, &mut next, plan.size, blocks);
                    std::mem::swap(&mut now, &mut next);
                }
            });
            took.push(start.elapsed().as_nanos() as f64);
        }
        if now != last {
            return Err(failed("the matrix is not that of the sequential stencil"));
        }
        Ok(took)
    })?;
    Ok(Shown { values: vec![median(&took)], probes: Some([before, probe(setup.cpus)]) })
}

fn step(now: &[f64], next: &mut [f64], size: usize, blocks: usize) {
    let rows = size.div_ceil(blocks);
    let zeros = vec![0.0; size];
    let row = |row: Option<usize>| {
        row.and_then(|row| now.get(row * size..(row + 1) * size)).unwrap_or(&zeros)
    };
    next.par_chunks_mut(rows * size).enumerate().for_each(|(block, out)| {
        for (i, out) in (block * rows..).zip(out.chunks_exact_mut(size)) {
            kernel::row(row(i.checked_sub(1)), row(Some(i)), row(Some(i + 1)), out);
        }
    });
}
