//! `mprun trace-svg`: a trace as a picture.
//!
//! | file | what it is |
//! |---|---|
//! | `read` | from Chrome's trace-event format to rows of bars |
//! | `draw` | from rows of bars to SVG |
//! | `colours` | which kind of span has which colour |

mod colours;
mod draw;
mod read;
#[cfg(test)]
mod tests;

use std::{
    fs,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use crate::shown::{Shown, USAGE};

/// How wide a picture is, in pixels, unless its user says otherwise.
const WIDTH: u32 = 1000;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// A trace in Chrome's trace-event format, as Onchip and many other tools write it
    #[arg(value_name = "FILE")]
    trace: PathBuf,
    /// Where to write the picture [default: standard output]
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Draw from this time on, in milliseconds after the beginning of the trace
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    from: Option<i64>,
    /// Draw up to this time
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    to: Option<i64>,
    /// Draw an arrow from each delegation to its execution
    #[arg(long)]
    arrows: bool,
    /// A title over the picture
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Pixels from left to right
    #[arg(long, value_name = "PIXELS", default_value_t = WIDTH, value_parser = clap::value_parser!(u32).range(400..=20_000))]
    width: u32,
}

/// Returns the picture of a whole trace in Chrome's format.
pub fn picture_of(json: &[u8]) -> Result<String, String> {
    let timeline = read::timeline(json).map_err(|reason| reason.to_string())?;
    let to = timeline.length();
    let picture = draw::Picture {
        timeline: &timeline,
        from: 0,
        to,
        width: WIDTH,
        arrows: false,
        title: None,
    };
    Ok(picture.to_string())
}

pub fn run(args: &Args) -> Shown {
    let file = args.trace.display();
    let bytes = fs::read(&args.trace).map_err(|error| format!("{file}: {error}"))?;
    let timeline = read::timeline(&bytes).map_err(|reason| format!("{file}: {reason}"))?;
    let length = timeline.length();
    let (from, to) = (args.from.unwrap_or(0), args.to.unwrap_or(length).min(length));
    if from >= to {
        eprintln!(
            "mprun: nothing to draw from {} ms to {} ms: {file} is {} ms long",
            draw::in_ms(from),
            draw::in_ms(args.to.unwrap_or(length)),
            draw::in_ms(length)
        );
        return Ok(ExitCode::from(USAGE));
    }
    let picture = draw::Picture {
        timeline: &timeline,
        from,
        to,
        width: args.width,
        arrows: args.arrows,
        title: args.title.as_deref(),
    };
    let svg = picture.to_string();
    match &args.output {
        Some(path) => {
            fs::write(path, svg).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        None => io::stdout().write_all(svg.as_bytes())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Parses milliseconds with a fraction. Returns nanoseconds.
fn milliseconds(text: &str) -> Result<i64, String> {
    let number: f64 = text.parse().map_err(|_| "no number of milliseconds".to_owned())?;
    if (0.0..1e12).contains(&number) {
        Ok((number * 1e6).round() as i64)
    } else {
        Err("out of range".to_owned())
    }
}
