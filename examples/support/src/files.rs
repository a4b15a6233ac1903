//! Files that appear under their name only when they are whole.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use onchip::trace::Trace;
use serde::Serialize;
use tempfile::{Builder, NamedTempFile};

use crate::error::{Error, Result};

/// A file that gets its name when it is finished, and is removed when it is dropped before.
#[derive(Debug)]
pub struct NewFile {
    target: PathBuf,
    file: BufWriter<NamedTempFile>,
}

impl NewFile {
    /// Creates the file beside `target`; what is at `target` stays until the end.
    ///
    /// # Errors
    /// A folder that does not exist or may not be written, or a folder in the file's place.
    pub fn create(target: &Path) -> Result<Self> {
        if target.is_dir() {
            return Err(Error::at(target.display(), "is a folder"));
        }
        let file = beside(target, |path| File::create_new(path))?;
        Ok(Self { target: target.to_owned(), file: BufWriter::with_capacity(1 << 16, file) })
    }

    /// Returns the name that the file will have.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// Bytes that cannot be written, or a name that cannot be taken; the file is removed then.
    pub fn finish(self) -> Result<()> {
        let Self { target, file } = self;
        let file = file.into_inner().map_err(|error| error.into_error());
        let named = file.and_then(|file| file.persist(&target).map_err(|error| error.error));
        named.map(drop).map_err(|error| Error::at(target.display(), error))
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Creates a file or a folder in the folder of `target`, by `create`, under a temporary name.
///
/// # Errors
/// A target that has no name, or what `create` fails with.
pub fn beside<T>(
    target: &Path,
    create: impl FnMut(&Path) -> io::Result<T>,
) -> Result<NamedTempFile<T>> {
    let folder = match (target.file_name(), target.parent()) {
        (Some(_), Some(folder)) if !folder.as_os_str().is_empty() => folder,
        (Some(_), _) => Path::new("."),
        (None, _) => return Err(Error::at(target.display(), "not the name of a file or folder")),
    };
    let made = Builder::new().prefix(".").suffix(".partial").make_in(folder, create);
    made.map_err(|error| Error::at(target.display(), error))
}

/// The file that an option names, if it is given.
///
/// It is created before the work begins, so that the user learns early of a file that can't be written. A rank that
/// is a process has none, because it must not touch the file.
#[derive(Debug)]
pub struct ResultFile(Option<NewFile>);

impl ResultFile {
    /// Creates the file beside its place.
    ///
    /// # Errors
    /// As [`NewFile::create`].
    pub fn create(path: &Option<PathBuf>) -> Result<Self> {
        let path = path.as_deref().filter(|_| onchip::caller());
        Ok(Self(path.map(NewFile::create).transpose()?))
    }

    /// Writes all of the file, if there is one, and gives it its name.
    ///
    /// # Errors
    /// What `write` fails with, or as [`NewFile::finish`].
    pub fn write(self, write: impl FnOnce(&mut NewFile) -> io::Result<()>) -> Result<()> {
        let Some(mut file) = self.0 else { return Ok(()) };
        write(&mut file).map_err(|error| Error::at(file.target().display(), error))?;
        file.finish()
    }

    /// Writes a report as JSON.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_json(self, report: &impl Serialize) -> Result<()> {
        self.write(|file| {
            serde_json::to_writer_pretty(&mut *file, report)?;
            file.write_all(b"\n")
        })
    }

    /// Writes a trace as Chrome reads it.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_trace(self, trace: &Trace) -> Result<()> {
        self.write(|file| trace.write_chrome(file))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
        fs::read_dir(folder).unwrap().map(|entry| name(entry.unwrap())).collect()
    }

    #[test]
    fn a_file_appears_when_finished() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("a.y4m");
        fs::write(&target, "old").unwrap();
        let mut file = NewFile::create(&target).unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"old");
        file.finish().unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"new");
        assert_eq!(names(folder.path()), ["a.y4m"]);
    }

    #[test]
    fn nothing_stays_when_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("a.y4m");
        let mut file = NewFile::create(&target).unwrap();
        file.write_all(&vec![1; 1 << 20]).unwrap();
        assert!(names(folder.path())[0].ends_with(".partial"));
        drop(file);
        assert_eq!(names(folder.path()), [""; 0]);
    }

    #[test]
    fn places_that_cannot_be_written_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "x").unwrap();
        for (target, reason) in [
            (folder.path().to_owned(), "is a folder"),
            (file.join("a"), "Not a directory (os error 20)"),
            (folder.path().join("no/a"), "No such file or directory (os error 2)"),
            (folder.path().join("no/.."), "not the name of a file or folder"),
        ] {
            let error = NewFile::create(&target).unwrap_err();
            assert_eq!(error, Error::at(target.display(), reason));
        }
        assert_eq!(names(folder.path()), ["file"]);
    }
}
