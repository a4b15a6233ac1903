//! Raw frames, one byte each of red, green and blue a pixel, nothing around them.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use example_support::{Error, Result};

use super::source::{Source, read_up_to, truncated};
use crate::frame::{Format, Rate, Size, fault};

/// A reader of raw rgb24.
#[derive(Debug)]
pub struct Raw<R> {
    reader: R,
    place: String,
    format: Format,
    next: u64,
}

impl Raw<File> {
    /// Opens a file with frames of `size`.
    ///
    /// # Errors
    /// A file that cannot be opened.
    pub fn open(path: &Path, size: Size) -> Result<Self> {
        let place = path.display().to_string();
        let fault = |error| Error::at(&place, error);
        let file = File::open(path).map_err(fault)?;
        let data = file.metadata().map_err(fault)?;
        let frames = data.is_file().then(|| data.len() / size.rgb_len() as u64);
        let mut raw = Self::new(file, place, size);
        raw.format.frames = frames;
        Ok(raw)
    }
}

impl Raw<io::StdinLock<'static>> {
    /// Frames of `size` from standard input.
    pub fn standard_input(size: Size) -> Self {
        Self::new(io::stdin().lock(), "standard input".to_owned(), size)
    }
}

impl<R: Read> Raw<R> {
    /// Frames of `size` from `reader`; `place` names it in errors.
    pub fn new(reader: R, place: String, size: Size) -> Self {
        let format = Format { size, rate: Rate::default(), frames: None };
        Self { reader, place, format, next: 0 }
    }
}

impl<R: Read> Source for Raw<R> {
    fn format(&self) -> Format {
        self.format
    }

    fn read(&mut self, rgb: &mut [u8]) -> Result<bool> {
        let got = read_up_to(&mut self.reader, rgb)
            .map_err(|error| fault(&self.place, self.next, error))?;
        if got == 0 {
            return Ok(false);
        }
        if got < rgb.len() {
            return Err(truncated(&self.place, self.next, got, rgb.len()));
        }
        self.next += 1;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one byte a time, as a pipe may.
    struct Dripping<'a>(&'a [u8]);

    impl Read for Dripping<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = buffer.len().min(1);
            self.0.read(&mut buffer[..count])
        }
    }

    #[test]
    fn frames_come_whole_or_not_at_all() {
        let size = Size::new(2, 1).unwrap();
        let bytes: Vec<u8> = (0..12).collect();
        for extra in [0, 1, 5] {
            let bytes = [&bytes[..], &bytes[..extra]].concat();
            let mut raw = Raw::new(Dripping(&bytes), "test".to_owned(), size);
            let mut rgb = [0; 6];
            assert!(raw.read(&mut rgb).unwrap());
            assert_eq!(rgb, [0, 1, 2, 3, 4, 5]);
            assert!(raw.read(&mut rgb).unwrap());
            assert_eq!(rgb, [6, 7, 8, 9, 10, 11]);
            match raw.read(&mut rgb) {
                Ok(more) => assert!(!more && extra == 0),
                Err(error) => assert_eq!(error, truncated("test", 2, extra, 6)),
            }
        }
    }
}
