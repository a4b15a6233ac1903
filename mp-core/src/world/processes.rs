//! Worlds of processes that a program starts by executing itself again.

use std::{
    ffi::OsString,
    io::{self, Write},
    path::PathBuf,
};

use serde::{Serialize, de::DeserializeOwned};

use super::{
    harness,
    launch::{Briefing, Ending, Program, Stream},
    limits,
    outcome::{self, Outcome},
    pump::{self, Piece, RanksOutput},
    site::{self, Call, Turn},
    watch::Processes,
};
use crate::{
    context::Context,
    error::{Cause, Error, ErrorKind, Result},
    wait::WaitPolicy,
};

/// Starts this program again as every rank, hands the encoded input to each, and returns the outcomes of the ranks'
/// code. Returns an error if the ranks succeeded but the caller's standard output did not take all that they printed.
pub(crate) fn run<T: Serialize + DeserializeOwned>(
    context: Context,
    call: Call,
    args: Option<Vec<OsString>>,
    input: Vec<u8>,
    policy: WaitPolicy,
    cores: usize,
    cpus: Vec<Option<usize>>,
) -> Result<Vec<Outcome<T>>> {
    let test = harness::running_test()?;
    // Ranks with arguments of their own take the first call from the place, so they need no turn.
    let turn = args.is_none().then(|| Turn::take(&call.origin)).transpose()?;
    let briefing = Briefing {
        call: Some(call.clone()),
        test: test.is_some(),
        any_call: args.is_some(),
        past: site::past(&call, test.is_some()),
        input,
        policy: Some(policy.into()),
        cores: cores as u32,
        cpus,
        nodes: None,
        open_files: limits::make_room_for(context.size())?,
    };
    briefing.post(&context)?;
    let mut own = std::env::args_os();
    let name = own.next().unwrap_or_default();
    let program = Program {
        // This is the file that this process executes, even if it was renamed or replaced.
        path: PathBuf::from("/proc/self/exe"),
        name,
        args: args.unwrap_or_else(|| match &test {
            Some(test) => harness::arguments(test),
            None => own.collect(),
        }),
        folder: None,
        capture_errors: test.is_some(),
        any_program: false,
    };
    let size = context.size();
    let (to, pieces) = pump::output();
    let stop = turn.as_ref().map(|turn| turn.bell().try_clone_to_owned()).transpose();
    let stop = stop.map_err(|source| Error::from(ErrorKind::Os { call: "dup", source }))?;
    let mut processes = Processes::start(context, program, to.clone(), to, stop)?;
    let taken = if test.is_some() { give_to_harness(pieces) } else { write_out(pieces) };
    processes.finish()?;
    turn.as_ref().map_or(Ok(()), Turn::check)?;
    if let Some(test) = &test
        && (0..size).all(|rank| {
            !processes.entered(rank) && processes.ending(rank) == Some(Ending::Exited(0))
        })
    {
        return Err(harness::away_from_test(test));
    }

    let mut outcomes = Vec::new();
    for rank in 0..size {
        let posted = outcome::read::<T>(&processes.context, rank as u32)?;
        outcomes.push(
            posted.unwrap_or_else(|| {
                Err(processes.ending(rank).map_or(Cause::Vanished, Cause::from))
            }),
        );
    }
    site::remember(call, postcard::to_stdvec(&outcomes)?);
    // If a rank has written output that will not be read, the run must not seem to have succeeded.
    match taken {
        Err(source) if outcomes.iter().all(Outcome::is_ok) => {
            Err(ErrorKind::Os { call: "writing the ranks' standard output", source }.into())
        }
        _ => Ok(outcomes),
    }
}

/// Writes the ranks' output to this program's output. After an error, ranks that print get a broken pipe, as they would
/// without a launcher in between.
fn write_out(pieces: RanksOutput) -> io::Result<()> {
    for piece in pieces {
        let mut out = io::stdout().lock();
        out.write_all(&piece.bytes)?;
        out.flush()?;
    }
    Ok(())
}

/// Prints the output by macros, whose output the test harness captures as that of the test. Invalid UTF-8 is replaced.
fn give_to_harness(pieces: RanksOutput) -> io::Result<()> {
    for Piece { stream, bytes, .. } in pieces {
        match stream {
            Stream::Out => print!("{}", String::from_utf8_lossy(&bytes)),
            Stream::Err => eprint!("{}", String::from_utf8_lossy(&bytes)),
        }
    }
    Ok(())
}
