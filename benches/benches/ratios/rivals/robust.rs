//! Processes that share a robust mutex of the system, which is the lock made for processes: `benches/peers/mutex.c`.

use std::path::Path;
use std::process::Command;

use example_support::peers::{PATIENCE, compile, in_path, within};
use onchip_benches::cpus;
use onchip_benches::load::Load;

use crate::rivals::contest::Shown;
use crate::rivals::run::figures;
use crate::rivals::{failed, last_words};
use crate::row::{Setup, Side, Trouble};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/mutex.c");
const BUILT: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/mutex");

/// Measures how many operations this many processes complete in a second, on the two CPUs.
pub fn mutex(clients: usize, load: Load) -> Side {
    Side::new("robust pthread mutex", "adaptive", move |setup| {
        run(setup, clients, load).map(Shown::into_sample)
    })
}

fn run(setup: &Setup, clients: usize, load: Load) -> Result<Shown, Trouble> {
    let gcc = Path::new("gcc");
    if !in_path(gcc) {
        return Err(Trouble::Absent("not installed (no gcc)".into()));
    }
    compile(gcc, Path::new(SOURCE), Path::new(BUILT), &["-O2", "-pthread"], std::iter::empty())?;
    let plan = [load.every, load.warm_up_us, load.window_us, load.windows as u64];
    let mut command = Command::new(BUILT);
    command.arg(clients.to_string()).args(plan.map(|number| number.to_string()));
    let output = cpus::confined(&setup.cpus, || within(&mut command, PATIENCE))?;
    if !output.status.success() {
        return Err(failed(last_words(&output.stderr)));
    }
    figures(&String::from_utf8_lossy(&output.stdout), 1)
}
