//! The emitter's side of every mode: the stream of frames and whose turn it is.

use std::ops::DerefMut;

use example_support::{Error, Result};

use crate::farm::Job;
use crate::frame::Format;
use crate::input::Source;

/// The frames of a job, up to as many as were asked for.
pub(super) struct Feed {
    source: Box<dyn Source>,
    place: String,
    limit: u64,
    frames: u64,
}

impl Feed {
    pub(super) fn open(job: &Job) -> Result<Self> {
        let source = job.input.open()?;
        let limit = job.frames.unwrap_or(u64::MAX);
        Ok(Self { source, place: job.input.to_string(), limit, frames: 0 })
    }

    pub(super) fn format(&self) -> Format {
        let format = self.source.format();
        let limit = (self.limit < u64::MAX).then_some(self.limit);
        let frames = match (format.frames, limit) {
            (Some(frames), Some(limit)) => Some(frames.min(limit)),
            (frames, limit) => frames.or(limit),
        };
        Format { frames, ..format }
    }

    /// Reads the next frame into `rgb`. Returns `false` when there is none left.
    ///
    /// An input without a single frame is an error, because no player takes what would be written.
    pub(super) fn fill(&mut self, rgb: &mut [u8]) -> Result<bool> {
        if self.frames == self.limit {
            return Ok(false);
        }
        let more = self.source.read(rgb)?;
        if !more && self.frames == 0 {
            return Err(Error::at(&self.place, "holds no frames"));
        }
        self.frames += u64::from(more);
        Ok(more)
    }

    /// Returns the frames to send again and again, if the job asks for that, in memory of this rank.
    pub(super) fn preloaded(&mut self, job: &Job) -> Result<Vec<Vec<u8>>> {
        match job.preload {
            Some(preload) => self.preload(preload.frames, |len| Ok(vec![0; len])),
            None => Ok(Vec::new()),
        }
    }

    /// Reads up to `count` frames into buffers made by `buffer`.
    pub(super) fn preload<B: DerefMut<Target = [u8]>, E: From<Error>>(
        &mut self,
        count: usize,
        mut buffer: impl FnMut(usize) -> Result<B, E>,
    ) -> Result<Vec<B>, E> {
        // The job's number of frames counts what is sent, not what is different.
        self.limit = u64::MAX;
        let len = self.source.format().size.rgb_len();
        let mut frames = Vec::new();
        while frames.len() < count {
            let mut frame = buffer(len)?;
            if !self.fill(&mut frame)? {
                break;
            }
            frames.push(frame);
        }
        Ok(frames)
    }
}
