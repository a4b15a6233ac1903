//! A stream of frames.

use std::io::{self, Read};

use example_support::{Error, Result};

use crate::frame::{Format, fault};

/// A stream of frames of one size, read one after the other.
pub trait Source {
    /// Returns the properties of all frames.
    fn format(&self) -> Format;

    /// Reads the next frame into `rgb`, which is `format().size.rgb_len()` bytes long. Returns `false` when there is
    /// none left. The content of `rgb` after `false` or an error is unspecified.
    ///
    /// # Errors
    /// If a frame is truncated, malformed or of another size than the first.
    fn read(&mut self, rgb: &mut [u8]) -> Result<bool>;
}

/// Reads until `buffer` is full or the stream ends; returns how many bytes there were.
pub(super) fn read_up_to(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// The error for a frame that ends too soon.
pub(super) fn truncated(place: &str, frame: u64, got: usize, expected: usize) -> Error {
    fault(place, frame, format!("truncated: {got} of {expected} bytes"))
}
