//! OpenMP threads: `benches/peers/openmp.c`, compiled by gcc for the processor of this machine, with libgomp.

use std::path::{Path, PathBuf};
use std::process::Command;

use example_support::peers::{self, PATIENCE, within};
use onchip_benches::cpus;

use crate::plan::{Collective, Stencil};
use crate::rivals::contest::{Contest, Entrant, Shown};
use crate::rivals::run::figures;
use crate::rivals::{failed, last_words, stencil};
use crate::row::{Setup, Side, Trouble};

const BUILT: &str = env!("CARGO_TARGET_TMPDIR");

type Setting = (&'static str, &'static [(&'static str, &'static str)]);

const ACTIVE: Setting = ("active", &[("OMP_WAIT_POLICY", "active")]);
/// The settings to try when threads share cores.
const SHARED_CORES: [Setting; 6] = [
    ("default", &[]),
    ACTIVE,
    ("passive", &[("OMP_WAIT_POLICY", "passive")]),
    ("spin count 10", &[("GOMP_SPINCOUNT", "10")]),
    ("spin count 100", &[("GOMP_SPINCOUNT", "100")]),
    ("spin count 10000", &[("GOMP_SPINCOUNT", "10000")]),
];

/// Two threads with one core each, back to back.
pub fn barrier(plan: Collective) -> Side {
    let arguments = vec!["barrier".into(), plan.batches.to_string(), plan.calls.to_string()];
    Side::new("libgomp", "spin", move |setup| {
        run(setup, Pinned::EachItsOwn, ACTIVE, &arguments).map(Shown::into_sample)
    })
}

/// Threads that share two cores, back to back.
pub fn crowd(threads: usize, plan: Collective) -> Contest {
    let arguments =
        vec!["crowd".into(), threads.to_string(), plan.batches.to_string(), "60".into()];
    Contest::new("libgomp", "any", false, move || {
        program()?;
        let entrant = |setting: Setting| {
            let arguments = arguments.clone();
            Entrant::new("libgomp".into(), setting.0, move |setup| {
                run(setup, Pinned::AllToBoth, setting, &arguments)
            })
        };
        Ok(SHARED_CORES.map(entrant).into())
    })
}

/// All steps, by two threads with one core each. The first time, the result is compared.
pub fn stencil(plan: Stencil) -> Side {
    let mut checked = false;
    Side::new("OpenMP", "spin", move |setup| {
        program()?;
        let folder = tempfile::tempdir().map_err(failed)?;
        let [first, last] = ["first", "last"].map(|name| folder.path().join(name));
        std::fs::write(&first, bytes(&stencil::first(plan)?)).map_err(failed)?;
        let numbers =
            [plan.size, plan.steps, plan.runs, plan.workers].map(|number| number.to_string());
        let mut arguments = vec!["stencil".into(), first.display().to_string()];
        arguments.extend(numbers);
        if !checked {
            arguments.push(last.display().to_string());
        }
        let shown = run(setup, Pinned::EachItsOwn, ACTIVE, &arguments)?;
        if !checked {
            checked = true;
            let last = std::fs::read(&last).map_err(failed)?;
            if last != bytes(&stencil::last(plan)?) {
                return Err(failed("the matrix is not that of the sequential stencil"));
            }
        }
        Ok(shown.into_sample())
    })
}

fn bytes(cells: &[f64]) -> &[u8] {
    bytemuck::cast_slice(cells)
}

#[derive(Clone, Copy, PartialEq)]
enum Pinned {
    EachItsOwn,
    AllToBoth,
}

fn program() -> Result<PathBuf, Trouble> {
    peers::openmp(Path::new(BUILT))
}

fn run(
    setup: &Setup,
    pinned: Pinned,
    (_, environment): Setting,
    arguments: &[String],
) -> Result<Shown, Trouble> {
    let mut command = Command::new(program()?);
    for variable in ["OMP_NUM_THREADS", "OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"] {
        command.env_remove(variable);
    }
    command.envs(environment.iter().copied()).args(arguments);
    match pinned {
        Pinned::EachItsOwn => {
            command.env("ONCHIP_CPUS", setup.cpus.map(|cpu| cpu.to_string()).join(","))
        }
        Pinned::AllToBoth => command.env_remove("ONCHIP_CPUS"),
    };
    let output = cpus::confined(&setup.cpus, || within(&mut command, PATIENCE))?;
    if !output.status.success() {
        return Err(failed(last_words(&output.stderr)));
    }
    figures(&String::from_utf8_lossy(&output.stdout), 1)
}
