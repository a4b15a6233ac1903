//! The collector's side of every mode: the output, the clock and the progress bar.

use std::time::Instant;

use example_support::Result;
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};

use crate::farm::{Job, Recorded, Run};
use crate::frame::Format;
use crate::output::Sink;

/// Takes the gray frames in order.
pub(super) struct Collection {
    sink: Box<dyn Sink>,
    format: Format,
    warm_up: u64,
    frames: u64,
    since: Instant,
    progress: ProgressBar,
}

impl Collection {
    pub(super) fn open(job: &Job, format: Format) -> Result<Self> {
        let sink = job.output.open(format)?;
        let warm_up = job.preload.map_or(0, |preload| preload.warm_up);
        let progress =
            if job.progress { progress_bar(format.frames) } else { ProgressBar::hidden() };
        Ok(Self { sink, format, warm_up, frames: 0, since: Instant::now(), progress })
    }

    pub(super) fn take(&mut self, gray: &[u8]) -> Result<()> {
        self.sink.write(gray)?;
        self.frames += 1;
        if self.frames == self.warm_up {
            self.since = Instant::now();
        }
        self.progress.inc(1);
        Ok(())
    }

    /// Completes the output.
    pub(super) fn finish(self) -> Result<Run> {
        let seconds = self.since.elapsed().as_secs_f64();
        drop(self.progress);
        self.sink.finish()?;
        let frames = self.frames - self.warm_up;
        Ok(Run { size: self.format.size, frames, seconds, recorded: Recorded::default() })
    }
}

fn progress_bar(frames: Option<u64>) -> ProgressBar {
    let (bar, template) = match frames {
        Some(frames) => {
            (ProgressBar::new(frames), "{bar:40} {pos}/{len} frames, {per_sec}, {eta} left")
        }
        None => (ProgressBar::new_spinner(), "{spinner} {pos} frames, {per_sec}"),
    };
    bar.with_finish(ProgressFinish::AndClear).with_style(
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
    )
}
