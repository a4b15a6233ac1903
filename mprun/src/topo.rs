//! `mprun topo`: the machine, and where ranks and communication threads would go.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use onchip::topology::{Bind, Error, KtPlacement, KtPlan, Plan, Role, Topology};

use crate::shown::{Shown, USAGE};

/// The most ranks. The largest machine has fewer CPUs; a larger number is a mistake.
const MOST_RANKS: i64 = 1 << 16;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// How many ranks to place [default: as many as can run at the same time]
    #[arg(short = 'n', long = "ranks", value_name = "N", value_parser = clap::value_parser!(u32).range(..=MOST_RANKS))]
    ranks: Option<u32>,
    /// How to place them: auto, none, or a list of CPUs such as 0,2-5
    #[arg(long, value_name = "HOW", default_value = "auto")]
    bind: Bind,
    /// How to place communication threads: kt-w, skt, kt-specialized, kt-generalized or auto. For
    /// kt-specialized the first rank is an emitter, the last a collector
    #[arg(long, value_name = "POLICY")]
    placement: Option<KtPlacement>,
    /// How many communication threads: about so many for skt, at most so many for kt-generalized,
    /// those of the emitter for kt-specialized
    #[arg(long, value_name = "N", requires = "placement")]
    kts: Option<usize>,
    /// Place communication threads even where ranks use every hardware thread
    #[arg(long, requires = "placement")]
    force: bool,
}

pub fn run(args: &Args) -> Shown {
    let topology = Topology::read()?;
    match draw(&topology, args) {
        Ok(drawing) => {
            write!(io::stdout(), "{drawing}")?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            eprintln!("mprun: {error}");
            Ok(ExitCode::from(USAGE))
        }
    }
}

fn draw(topology: &Topology, args: &Args) -> Result<String, Error> {
    let ranks = args.ranks.map_or_else(|| topology.usable_parallelism(), |ranks| ranks as usize);
    let Some(mut placement) = args.placement else {
        let plan = Plan::for_ranks(topology, ranks, &args.bind)?;
        return Ok(topology.draw(Some(&plan)).to_string());
    };
    if let Some(kts) = args.kts {
        placement = placement.with_kts(kts, ranks)?;
    }
    let roles = match placement {
        KtPlacement::Specialized { .. } if ranks > 2 => Role::farm(ranks - 2),
        _ => vec![Role::Worker; ranks],
    };
    let plan = if args.force { KtPlan::forced } else { KtPlan::new };
    let plan = plan(topology, &roles, &args.bind, placement)?;
    Ok(topology.draw_kts(&plan).to_string())
}
