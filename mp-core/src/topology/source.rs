//! Files of `/sys` and `/proc`, below a root that tests can replace.

use super::{CpuSet, Error};
use std::fs;
use std::path::{Path, PathBuf};

/// A file tree in place of `/`. Paths are given without the leading slash.
pub(super) struct Source<'a> {
    root: &'a Path,
}

impl<'a> Source<'a> {
    pub(super) fn new(root: &'a Path) -> Self {
        Self { root }
    }

    pub(super) fn path(&self, file: impl AsRef<Path>) -> PathBuf {
        self.root.join(file)
    }

    /// Returns the content of a file, or `None` if it cannot be read for any reason, because the kernel has half a
    /// dozen different errors for a file that has no value.
    pub(super) fn text(&self, file: impl AsRef<Path>) -> Option<String> {
        let bytes = fs::read(self.path(file)).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim_end().to_owned())
    }

    /// Returns the content of a file, parsed by `parse`. Returns `None` if the file cannot be read.
    pub(super) fn value<T>(
        &self,
        file: impl AsRef<Path>,
        expected: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some(text) = self.text(&file) else { return Ok(None) };
        match parse(&text) {
            Some(value) => Ok(Some(value)),
            None => Err(Error::malformed(&self.path(file), expected, &text)),
        }
    }

    pub(super) fn cpus(&self, file: impl AsRef<Path>) -> Result<Option<CpuSet>, Error> {
        self.value(file, "a list of CPUs", |text| text.parse().ok())
    }

    pub(super) fn number(&self, file: impl AsRef<Path>) -> Result<Option<u64>, Error> {
        self.value(file, "a number", |text| text.parse().ok())
    }

    /// Returns the numbers N of the entries `prefixN` of a directory, in ascending order.
    pub(super) fn numbered(&self, directory: &str, prefix: &str) -> Vec<usize> {
        let Ok(entries) = fs::read_dir(self.path(directory)) else { return Vec::new() };
        let mut numbers: Vec<usize> = entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.strip_prefix(prefix)?.parse().ok())
            .collect();
        numbers.sort_unstable();
        numbers
    }
}
