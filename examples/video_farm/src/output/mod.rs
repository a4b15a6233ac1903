//! Where gray frames go.

pub mod check;
pub mod images;
mod sink;
pub mod y4m;

use std::io::{self, StdoutLock, Write};
use std::path::{Path, PathBuf};

use example_support::{Error, Result};

pub use sink::Sink;

use crate::frame::{Format, fault};
use crate::input::Input;

/// What to do with the gray frames; nothing is opened before [`Output::open`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Nothing.
    Discard,
    /// A YUV4MPEG2 file with luma alone.
    Y4m(PathBuf),
    /// A folder of gray PNG files.
    Images(PathBuf),
    /// Raw bytes to standard output.
    StandardOutput,
    /// Compare with an unhurried reading and filtering of this input.
    Check(Input),
}

impl Output {
    /// Returns the output that a path on the command line stands for, by the name.
    ///
    /// # Errors
    /// A name that ends like a file of a kind that is not written here.
    pub fn new(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else {
            return Ok(Output::Discard);
        };
        if path.as_os_str() == "-" {
            return Ok(Output::StandardOutput);
        }
        let names_a_folder = path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/");
        match path.extension() {
            Some(extension) if extension.eq_ignore_ascii_case("y4m") => {
                Ok(Output::Y4m(path.to_owned()))
            }
            Some(extension) if !names_a_folder => Err(Error::at(
                path.display(),
                format!(
                    "cannot write `.{}`: give a .y4m file, a folder for PNG frames, or - for raw \
                     bytes on standard output",
                    extension.to_string_lossy()
                ),
            )),
            _ => Ok(Output::Images(path.to_owned())),
        }
    }

    /// Opens the output for frames of `format`.
    ///
    /// # Errors
    /// What keeps the output from being written to.
    pub fn open(&self, format: Format) -> Result<Box<dyn Sink>> {
        Ok(match self {
            Output::Discard => Box::new(Discard),
            Output::Y4m(path) => Box::new(y4m::Y4m::create(path, format)?),
            Output::Images(path) => Box::new(images::Images::create(path, format)?),
            Output::StandardOutput => {
                Box::new(StandardOutput { stdout: io::stdout().lock(), next: 0 })
            }
            Output::Check(input) => Box::new(check::Check::new(input)?),
        })
    }
}

/// Raw bytes with nothing around them.
struct StandardOutput {
    stdout: StdoutLock<'static>,
    next: u64,
}

impl Sink for StandardOutput {
    fn write(&mut self, gray: &[u8]) -> Result<()> {
        let written = self.stdout.write_all(gray);
        written.map_err(|error| fault("standard output", self.next, error))?;
        self.next += 1;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.stdout.flush().map_err(|error| Error::at("standard output", error))
    }
}

struct Discard;

impl Sink for Discard {
    fn write(&mut self, _gray: &[u8]) -> Result<()> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_tells_the_kind() {
        let kind = |path: &str| Output::new(Some(Path::new(path)));
        assert_eq!(Output::new(None), Ok(Output::Discard));
        assert_eq!(kind("-"), Ok(Output::StandardOutput));
        assert_eq!(kind("a/b.Y4m"), Ok(Output::Y4m("a/b.Y4m".into())));
        assert_eq!(kind("a/b"), Ok(Output::Images("a/b".into())));
        assert_eq!(kind("a.b/"), Ok(Output::Images("a.b/".into())));
        let error = kind("movie.mp4").unwrap_err();
        assert!(error.to_string().starts_with("movie.mp4: cannot write `.mp4`"), "{error}");
    }
}
