//! Files that appear under their name only when they are whole.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::error::StencilError;

/// A file that is created beside its place, so that one that cannot be written is known before the
/// work is done. It is removed when dropped before [`finish`](Self::finish).
#[derive(Debug)]
pub struct NewFile {
    target: PathBuf,
    temporary: PathBuf,
    file: Option<File>,
}

impl NewFile {
    /// Creates the file beside `target`; what is at `target` stays until the end.
    ///
    /// # Errors
    /// A folder that does not exist or may not be written, or a folder in the file's place.
    pub fn create(target: &Path) -> Result<Self, StencilError> {
        let fault = |reason: &dyn std::fmt::Display| StencilError::file(target.display(), reason);
        let name = target.file_name().filter(|_| !target.is_dir());
        let mut hidden = OsString::from(".");
        hidden.push(name.ok_or_else(|| fault(&"not the name of a file"))?);
        hidden.push(format!(".{}.partial", std::process::id()));
        let temporary = target.with_file_name(hidden);
        let file = File::create(&temporary).map_err(|error| fault(&error))?;
        Ok(Self { target: target.to_owned(), temporary, file: Some(file) })
    }

    /// Writes all of the file, and gives it its name.
    ///
    /// # Errors
    /// A full disk, or a name that cannot be taken; the file is removed then.
    pub fn finish(mut self, bytes: &[u8]) -> Result<(), StencilError> {
        let Some(mut file) = self.file.take() else { return Ok(()) };
        let written =
            file.write_all(bytes).and_then(|()| fs::rename(&self.temporary, &self.target));
        written.map_err(|error| {
            let _ = fs::remove_file(&self.temporary);
            StencilError::file(self.target.display(), error)
        })
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_whole_or_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("a");
        fs::write(&target, "old").unwrap();
        drop(NewFile::create(&target).unwrap());
        assert_eq!(fs::read(&target).unwrap(), b"old");
        NewFile::create(&target).unwrap().finish(b"new").unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        for bad in [folder.path().to_owned(), target.join("a"), folder.path().join("no/a")] {
            assert!(NewFile::create(&bad).is_err());
        }
    }
}
