//! `mprun topo`: the machine, and where ranks and communication threads would go.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use onchip::topology::{Bind, Plan, Topology};

use super::{Shown, USAGE};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// How many ranks to place [default: as many as can run at the same time]
    #[arg(short = 'n', long = "ranks", value_name = "N")]
    ranks: Option<usize>,
    /// How to place them: auto, none, or a list of CPUs such as 0,2-5
    #[arg(long, value_name = "HOW", default_value = "auto")]
    bind: Bind,
}

pub fn run(args: &Args) -> Shown {
    let topology = Topology::read()?;
    let ranks = args.ranks.unwrap_or_else(|| topology.usable_parallelism());
    let plan = match Plan::for_ranks(&topology, ranks, &args.bind) {
        Ok(plan) => plan,
        Err(error) => {
            eprintln!("mprun: {error}");
            return Ok(ExitCode::from(USAGE));
        }
    };
    write!(io::stdout(), "{}", topology.draw(Some(&plan)))?;
    Ok(ExitCode::SUCCESS)
}
