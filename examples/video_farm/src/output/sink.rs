//! What takes gray frames.

use example_support::Result;

/// Takes gray frames in order. What was written shows under its own name only after `finish`;
/// a sink that is dropped before leaves nothing behind that looks whole.
pub trait Sink {
    /// Takes the next frame, `size.gray_len()` bytes.
    ///
    /// # Errors
    /// What keeps the frame from being written.
    fn write(&mut self, gray: &[u8]) -> Result<()>;

    /// Completes the output after the last frame.
    ///
    /// # Errors
    /// What keeps the output from being completed.
    fn finish(self: Box<Self>) -> Result<()>;
}
