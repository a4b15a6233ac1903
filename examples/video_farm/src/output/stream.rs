//! Raw gray bytes to standard output.

use std::io::{self, StdoutLock, Write};

use super::Sink;
use crate::error::StreamError;

/// A writer of frames with nothing around them.
#[derive(Debug)]
pub struct StandardOutput {
    stdout: StdoutLock<'static>,
    next: u64,
}

impl StandardOutput {
    /// Takes standard output for as long as the sink lives.
    pub fn new() -> Self {
        Self { stdout: io::stdout().lock(), next: 0 }
    }
}

impl Default for StandardOutput {
    fn default() -> Self {
        Self::new()
    }
}

impl Sink for StandardOutput {
    fn write(&mut self, gray: &[u8]) -> Result<(), StreamError> {
        self.stdout
            .write_all(gray)
            .map_err(|error| StreamError::at("standard output", self.next, error))?;
        self.next += 1;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), StreamError> {
        self.stdout.flush().map_err(|error| StreamError::new("standard output", error))
    }
}
