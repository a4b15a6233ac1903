//! The MPIs: `benches/peers/rivals.c` compiled with each and started by its own launcher.

use std::ffi::OsStr;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use example_support::peers::{Library, PATIENCE, source, within};
use nix::sys::signal::Signal;
use onchip_benches::cpus;

use crate::plan::{Collective, Large, PingPong, Requests, Tagged, Timing};
use crate::rivals::contest::{Contest, Entrant, Shown};
use crate::rivals::run::figures;
use crate::rivals::{failed, last_words};
use crate::row::{Sample, Setup, Side, Taken, Trouble, Unit};

const BUILT: &str = env!("CARGO_TARGET_TMPDIR");

/// One way to run a library: the launcher's options, and the environment.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    name: &'static str,
    options: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
}

impl Setting {
    const DEFAULT: Setting = Setting { name: "default", options: &[], environment: &[] };

    const fn options(name: &'static str, options: &'static [&'static str]) -> Setting {
        Setting { name, options, environment: &[] }
    }

    const fn environment(
        name: &'static str,
        environment: &'static [(&'static str, &'static str)],
    ) -> Setting {
        Setting { name, options: &[], environment }
    }

    /// Returns the settings to try when two ranks have one core each.
    fn own_cores(library: Library) -> &'static [Setting] {
        const OPEN_MPI: &[Setting] =
            &[Setting::DEFAULT, Setting::options("smsc ^cma", &["--mca", "smsc", "^cma"])];
        const DEBIAN_OPEN_MPI: &[Setting] = &[
            Setting::DEFAULT,
            Setting::options(
                "no single copy",
                &["--mca", "btl_vader_single_copy_mechanism", "none"],
            ),
        ];
        const MPICH: &[Setting] = &[
            Setting::DEFAULT,
            Setting::environment("no CMA", &[("MPIR_CVAR_CH4_CMA_ENABLE", "0")]),
        ];
        const INTEL_MPI: &[Setting] =
            &[Setting::DEFAULT, Setting::environment("shm only", &[("I_MPI_FABRICS", "shm")])];
        const DEBIAN_MPICH: &[Setting] =
            &[Setting::DEFAULT, Setting::environment("UCX self,sysv", &[("UCX_TLS", "self,sysv")])];
        match library {
            Library::OpenMpi => OPEN_MPI,
            Library::DebianOpenMpi => DEBIAN_OPEN_MPI,
            Library::Mpich => MPICH,
            Library::IntelMpi => INTEL_MPI,
            Library::DebianMpich => DEBIAN_MPICH,
        }
    }

    /// Returns the settings to try when ranks share cores.
    fn shared_cores(library: Library) -> &'static [Setting] {
        const OPEN_MPI: &[Setting] = &[
            Setting::DEFAULT,
            Setting::options("yield when idle", &["--mca", "mpi_yield_when_idle", "1"]),
            Setting::options("no yield when idle", &["--mca", "mpi_yield_when_idle", "0"]),
        ];
        const MPICH: &[Setting] = &[
            Setting::DEFAULT,
            Setting::environment("yield after 1", &[("MPIR_CVAR_POLLS_BEFORE_YIELD", "1")]),
            Setting::environment(
                "heavy yield after 1",
                &[("MPIR_CVAR_ENABLE_HEAVY_YIELD", "1"), ("MPIR_CVAR_POLLS_BEFORE_YIELD", "1")],
            ),
        ];
        const INTEL_MPI: &[Setting] = &[
            Setting::DEFAULT,
            Setting::environment("wait mode", &[("I_MPI_WAIT_MODE", "1")]),
            Setting::environment("thread yield 2", &[("I_MPI_THREAD_YIELD", "2")]),
            Setting::environment("thread yield 3", &[("I_MPI_THREAD_YIELD", "3")]),
        ];
        match library {
            Library::OpenMpi | Library::DebianOpenMpi => OPEN_MPI,
            Library::Mpich | Library::DebianMpich => MPICH,
            Library::IntelMpi => INTEL_MPI,
        }
    }
}

/// 8 bytes to and fro between two processes; half of the round trip.
pub fn pingpong(library: Library, plan: PingPong) -> Side {
    let arguments = ["pingpong".into(), plan.batches.to_string(), plan.trips.to_string()];
    measured(library, 2, Pinned::EachItsOwn, Setting::own_cores(library), &arguments)
}

/// A large message that is rewritten and read every time.
pub fn large(library: Library, plan: Large) -> Side {
    let [bytes, batches, trips] =
        [plan.bytes as u64, plan.batches as u64, plan.trips].map(|n| n.to_string());
    let arguments = ["large".into(), bytes, batches, trips];
    measured(library, 2, Pinned::EachItsOwn, Setting::own_cores(library), &arguments)
}

/// Pairs that ping-pong at the same time on two cores.
pub fn pairs(library: Library, pairs: usize) -> Side {
    let arguments = ["pairs".into(), "3".into(), "60".into()];
    measured(library, 2 * pairs, Pinned::AllToBoth, Setting::shared_cores(library), &arguments)
}

/// A collective operation of two ranks with one core each, timed in all three ways.
pub fn collective(plan: Collective) -> Contest {
    let [bytes, batches, calls, singles] =
        [plan.bytes as u64, plan.batches as u64, plan.calls, plan.singles()].map(|n| n.to_string());
    let arguments =
        ["collective".into(), plan.operation.name().into(), bytes, batches, calls, singles];
    contest(2, Pinned::EachItsOwn, Setting::own_cores, Timing::ALL.len(), arguments.into())
}

/// A collective operation of ranks that share two cores.
pub fn crowd(ranks: usize, plan: Collective) -> Contest {
    let [bytes, batches] = [plan.bytes, plan.batches].map(|n| n.to_string());
    let arguments = ["crowd".into(), plan.operation.name().into(), bytes, batches, "60".into()];
    contest(ranks, Pinned::AllToBoth, Setting::shared_cores, 1, arguments.into())
}

/// Stamped messages to and fro; half of the round trip.
pub fn tagged(plan: Tagged) -> Contest {
    messages("tagged", plan)
}

/// Messages one way, as many under way as the plan says: the time for one message.
pub fn tagged_rate(plan: Tagged) -> Contest {
    messages("rate", plan)
}

/// Windows of `MPI_Isend` to posted `MPI_Irecv`, ended by `MPI_Waitall`: the time for one message.
pub fn requests(plan: Requests) -> Contest {
    messages("requests", plan.blocking())
}

/// The same, but some requests of each window are waited for by `MPI_Waitany`: the time of such a call.
pub fn any(plan: Requests) -> Contest {
    messages("any", plan.blocking())
}

fn messages(mode: &str, plan: Tagged) -> Contest {
    let [bytes, batches, trips, window] =
        [plan.bytes as u64, plan.batches as u64, plan.trips, plan.window].map(|n| n.to_string());
    let arguments = [mode.into(), bytes, batches, trips, window];
    contest(2, Pinned::EachItsOwn, Setting::own_cores, 1, arguments.into())
}

/// Returns a contest of all installed libraries, each with all of its `settings`.
fn contest(
    ranks: usize,
    pinned: Pinned,
    settings: fn(Library) -> &'static [Setting],
    values: usize,
    arguments: Vec<String>,
) -> Contest {
    let by_distance = matches!(pinned, Pinned::EachItsOwn);
    Contest::new("best MPI", "polls", by_distance, move || {
        let mut entrants = Vec::new();
        for library in Library::ALL {
            let program = match program(library) {
                Ok(program) => program,
                Err(Trouble::Absent(_)) => continue,
                Err(failed) => return Err(failed),
            };
            let version = library.version()?;
            for &setting in settings(library) {
                let (program, arguments) = (program.clone(), arguments.clone());
                entrants.push(Entrant::new(
                    format!("{} {version}", library.name()),
                    setting.name,
                    move |setup| {
                        run(setup, library, &program, ranks, pinned, setting, &arguments)
                            .and_then(|output| figures(&output, values))
                    },
                ));
            }
        }
        Ok(entrants)
    })
}

/// The start and the end of a world of `ranks` that does nothing.
pub fn start(library: Library, ranks: usize) -> Side {
    Side::new(library.name(), "-", move |setup| {
        let program = program(library)?;
        let start = Instant::now();
        run(
            setup,
            library,
            &program,
            ranks,
            Pinned::AllToBoth,
            Setting::DEFAULT,
            &["start".into()],
        )?;
        Ok((start.elapsed().as_nanos() as f64).into())
    })
}

#[derive(Clone, Copy)]
enum Pinned {
    EachItsOwn,
    AllToBoth,
}

/// Returns a side that finds the best of `settings` at its first sample and keeps it.
fn measured(
    library: Library,
    ranks: usize,
    pinned: Pinned,
    settings: &'static [Setting],
    arguments: &[String],
) -> Side {
    let arguments = arguments.to_vec();
    let mut best = None;
    Side::new(library.name(), "polls", move |setup| {
        let program = program(library)?;
        let take = |setting| {
            run(setup, library, &program, ranks, pinned, setting, &arguments)
                .and_then(|output| figures(&output, 1))
                .map(Shown::into_sample)
        };
        let Some(setting) = best else {
            let (setting, mut sample) = choose(settings, take)?;
            best = Some(setting);
            let chosen = sample.remark.unwrap_or_default();
            sample.remark = Some(format!("version {}, {chosen}", library.version()?));
            return Ok(sample);
        };
        take(setting)
    })
}

fn choose(
    settings: &[Setting],
    take: impl Fn(Setting) -> Taken,
) -> Result<(Setting, Sample), Trouble> {
    let mut tried = Vec::new();
    for &setting in settings {
        // The median of three samples, so that a lucky single run does not decide which setting the rows compare with.
        let mut samples = vec![take(setting)?, take(setting)?, take(setting)?];
        samples.sort_by(|a, b| a.value.total_cmp(&b.value));
        tried.push((setting, samples.swap_remove(1)));
    }
    let all: Vec<String> = tried
        .iter()
        .map(|(setting, sample)| {
            format!("{} {}", setting.name, Unit::Nanoseconds.show(sample.value))
        })
        .collect();
    let (setting, mut sample) = tried
        .into_iter()
        .min_by(|(_, a), (_, b)| a.value.total_cmp(&b.value))
        .ok_or_else(|| failed("no settings to try"))?;
    sample.remark = Some(format!("took \"{}\" of {}", setting.name, all.join(", ")));
    Ok((setting, sample))
}

/// Returns the path of `rivals.c` compiled with `library`.
fn program(library: Library) -> Result<PathBuf, Trouble> {
    library.program(&source("rivals.c"), &["-O3"], Path::new(BUILT))
}

fn run(
    setup: &Setup,
    library: Library,
    program: &Path,
    ranks: usize,
    pinned: Pinned,
    setting: Setting,
    arguments: &[String],
) -> Result<String, Trouble> {
    let mut command = library.launch();
    if matches!(library, Library::OpenMpi | Library::DebianOpenMpi) && ranks > setup.cpus.len() {
        command.arg("--oversubscribe");
    }
    command.args(setting.options).envs(setting.environment.iter().copied());
    command.args([OsStr::new("-n"), OsStr::new(&ranks.to_string())]).arg(program).args(arguments);
    match pinned {
        Pinned::EachItsOwn => {
            command.env("ONCHIP_CPUS", setup.cpus.map(|c| c.to_string()).join(","))
        }
        Pinned::AllToBoth => command.env_remove("ONCHIP_CPUS"),
    };
    // The launcher and its ranks inherit the two CPUs.
    let mut launch = || cpus::confined(&setup.cpus, || within(&mut command, PATIENCE));
    let mut output = launch()?;
    // Intel's launcher is sometimes killed by a pipe that its helper has closed, so it is started once more. Failing
    // ranks end it with a status instead.
    if output.status.signal() == Some(Signal::SIGPIPE as i32) {
        output = launch()?;
    }
    if !output.status.success() {
        return Err(failed(format!(
            "{} ended with {}: {}",
            library.launcher().display(),
            output.status,
            last_words(&output.stderr)
        )));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
