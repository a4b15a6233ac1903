//! Processes that keep the CPUs busy while a sample is taken, as other users' programs do.

use std::hint::black_box;
use std::os::unix::process::parent_id;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use onchip_benches::cpus;

use crate::rivals::failed;
use crate::row::{Setup, Side, Trouble};

/// The word after `--child` that makes this program one of these processes.
pub const BUSY: &str = "busy";

/// The time until each process runs, and the system has found places for all.
const SETTLE: Duration = Duration::from_millis(20);

/// Returns a side that measures the same beside this many such processes.
pub fn beside(processes: usize, mut side: Side) -> Side {
    let (name, waits) = (side.name.clone(), side.waits);
    Side::new(name, waits, move |setup| {
        let _load = Load::start(processes, setup)?;
        side.take(setup)
    })
}

/// The processes. They are ended when this is dropped.
struct Load(Vec<Child>);

impl Load {
    fn start(processes: usize, setup: &Setup) -> Result<Load, Trouble> {
        let program = std::env::current_exe().map_err(failed)?;
        let mut load = Load(Vec::new());
        for _ in 0..processes {
            let mut command = Command::new(&program);
            command.args(["--child", BUSY]).stdin(Stdio::null());
            load.0.push(cpus::confined(&setup.cpus, || command.spawn()).map_err(failed)?);
        }
        std::thread::sleep(SETTLE);
        Ok(load)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for process in &mut self.0 {
            // A process that can't be killed ends after its parent has ended.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Computes until the parent process has ended.
pub fn child() -> Result<(), Trouble> {
    let parent = parent_id();
    while parent_id() == parent {
        (0..10_000_000u64).for_each(|turn| {
            black_box(turn);
        });
    }
    Ok(())
}
