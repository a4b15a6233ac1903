//! `mprun` from outside: its output, its exit status, and what it leaves behind.
//!
//! This program is both sides: called with the tests' names it is a test harness, and with `--program` it is the
//! program that `mprun` launches.
#![forbid(unsafe_code)]

mod calibrating;
mod ending;
mod hanging;
mod harness;
mod joining;
mod launching;
mod nodes;
mod programs;
mod tracing;
mod watching;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() == Some("--program") {
        let name = args.next().unwrap_or_default();
        return programs::run(&name, &args.collect::<Vec<_>>());
    }
    let trials = [
        launching::tests(),
        ending::tests(),
        joining::tests(),
        watching::tests(),
        hanging::tests(),
        nodes::tests(),
        tracing::tests(),
        calibrating::tests(),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials.into_iter().flatten().collect()).exit_code()
}

/// Makes trials with the names of their functions.
macro_rules! trials {
    ($($name:ident),* $(,)?) => {
        pub fn tests() -> Vec<$crate::Trial> {
            vec![$($crate::Trial::test(stringify!($name), || { $name(); Ok(()) })),*]
        }
    };
}
use trials;
