//! Files and folders that appear under their name only when they are whole.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::error::StreamError;

/// A path beside `target` that no one takes for it: `movie.y4m` gives `.movie.y4m.4711.partial`.
fn beside(target: &Path) -> Result<PathBuf, StreamError> {
    let name = target
        .file_name()
        .ok_or_else(|| StreamError::new(target.display(), "not the name of a file or folder"))?;
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}.partial", std::process::id()));
    Ok(target.with_file_name(hidden))
}

/// A file that is renamed to its name by [`PartialFile::finish`] and removed when dropped before.
#[derive(Debug)]
pub struct PartialFile {
    target: PathBuf,
    temporary: PathBuf,
    writer: Option<BufWriter<File>>,
}

impl PartialFile {
    /// Creates the file beside `target`; what is at `target` stays until the end.
    ///
    /// # Errors
    /// A folder that does not exist or may not be written, or a folder in the file's place.
    pub fn create(target: &Path) -> Result<Self, StreamError> {
        let fault = |error| StreamError::new(target.display(), error);
        if target.is_dir() {
            return Err(StreamError::new(target.display(), "is a folder"));
        }
        let temporary = beside(target)?;
        let file = File::create(&temporary).map_err(fault)?;
        let writer = Some(BufWriter::with_capacity(1 << 16, file));
        Ok(Self { target: target.to_owned(), temporary, writer })
    }

    /// Appends bytes; `frame` is named in the error.
    ///
    /// # Errors
    /// A full disk, for one.
    pub fn write(&mut self, frame: Option<u64>, bytes: &[u8]) -> Result<(), StreamError> {
        let Some(writer) = &mut self.writer else {
            return Ok(());
        };
        writer.write_all(bytes).map_err(|error| StreamError {
            frame,
            ..StreamError::new(self.target.display(), error)
        })
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// Bytes that cannot be written, or a name that cannot be taken; the file is removed then.
    pub fn finish(mut self) -> Result<(), StreamError> {
        let fault = |error| StreamError::new(self.target.display(), error);
        if let Some(mut writer) = self.writer.take() {
            let done = writer.flush().and_then(|()| fs::rename(&self.temporary, &self.target));
            if let Err(error) = done {
                let _ = fs::remove_file(&self.temporary);
                return Err(fault(error));
            }
        }
        Ok(())
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if self.writer.take().is_some() {
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// A folder that is renamed to its name by [`PartialFolder::finish`] and removed, with what is in
/// it, when dropped before.
#[derive(Debug)]
pub struct PartialFolder {
    target: PathBuf,
    temporary: Option<PathBuf>,
}

impl PartialFolder {
    /// Creates the folder beside `target`.
    ///
    /// # Errors
    /// Something at `target` that is no empty folder, or a place that may not be written.
    pub fn create(target: &Path) -> Result<Self, StreamError> {
        let fault = |error| StreamError::new(target.display(), error);
        match fs::read_dir(target).map(|mut entries| entries.next().is_some()) {
            Ok(true) => {
                let reason = "the folder is not empty, and its files would mix with the frames";
                return Err(StreamError::new(target.display(), reason));
            }
            Ok(false) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(fault(error)),
        }
        let temporary = beside(target)?;
        // Left behind by a process of the same id that was killed.
        let _ = fs::remove_dir_all(&temporary);
        fs::create_dir(&temporary).map_err(fault)?;
        Ok(Self { target: target.to_owned(), temporary: Some(temporary) })
    }

    /// The name the folder will have.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Where a file of the folder is for the time being.
    pub fn file(&self, name: &str) -> PathBuf {
        self.temporary.as_deref().unwrap_or(&self.target).join(name)
    }

    /// Gives the folder its name.
    ///
    /// # Errors
    /// A name that cannot be taken; the folder is removed then.
    pub fn finish(mut self) -> Result<(), StreamError> {
        if let Some(temporary) = &self.temporary {
            fs::rename(temporary, &self.target)
                .map_err(|error| StreamError::new(self.target.display(), error))?;
            self.temporary = None;
        }
        Ok(())
    }
}

impl Drop for PartialFolder {
    fn drop(&mut self) {
        if let Some(temporary) = self.temporary.take() {
            let _ = fs::remove_dir_all(temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_appears_when_finished() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("a.y4m");
        fs::write(&target, "old").unwrap();
        let mut file = PartialFile::create(&target).unwrap();
        file.write(None, b"new").unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"old");
        file.finish().unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"new");
        assert_eq!(names(folder.path()), ["a.y4m"]);
    }

    #[test]
    fn nothing_stays_when_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = PartialFile::create(&folder.path().join("a.y4m")).unwrap();
        file.write(None, &vec![1; 1 << 20]).unwrap();
        assert!(names(folder.path())[0].ends_with(".partial"));
        drop(file);
        let frames = PartialFolder::create(&folder.path().join("frames")).unwrap();
        fs::write(frames.file("0.png"), "x").unwrap();
        assert!(names(folder.path())[0].ends_with(".partial"));
        drop(frames);
        assert_eq!(names(folder.path()), [""; 0]);
    }

    #[test]
    fn a_folder_may_be_there_when_empty() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("frames");
        for _ in 0..2 {
            let frames = PartialFolder::create(&target).unwrap();
            fs::write(frames.file("0.png"), "x").unwrap();
            frames.finish().unwrap();
            assert_eq!(names(&target), ["0.png"]);
            fs::remove_file(target.join("0.png")).unwrap();
        }
        fs::write(target.join("mine"), "x").unwrap();
        let error = PartialFolder::create(&target).unwrap_err();
        assert!(error.reason.contains("not empty"), "{error}");
        assert_eq!(names(&target), ["mine"]);
    }

    #[test]
    fn places_that_cannot_be_written_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "x").unwrap();
        for target in [folder.path().to_owned(), file.join("a"), folder.path().join("no/a")] {
            let error = PartialFile::create(&target).unwrap_err();
            assert_eq!(error.place, target.display().to_string());
        }
        for target in [file.clone(), file.join("a"), folder.path().join("no/a"), "/..".into()] {
            let error = PartialFolder::create(&target).unwrap_err();
            assert_eq!(error.place, target.display().to_string());
        }
        assert_eq!(names(folder.path()), ["file"]);
    }
}
