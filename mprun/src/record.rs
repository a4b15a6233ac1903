//! `mprun --trace FILE`: the calls of MPI that the ranks have recorded, as one trace or as a picture.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, Read, Seek},
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    process,
};

use onchip::trace::Trace;

use crate::trace_svg;

/// The environment variable by which ranks find where to add their records.
const VARIABLE: &str = "ONCHIP_TRACE";

/// A file without a name, to which each rank adds its record as a line of JSON at its end, and where the trace goes.
#[derive(Debug)]
pub struct Record {
    to: PathBuf,
    parts: File,
}

impl Record {
    /// Creates the files, so that one that can't be written is found before the program starts.
    pub fn begin(to: &Path) -> Result<Record, String> {
        File::create(to).map_err(|error| format!("{}: {error}", to.display()))?;
        let parts = tempfile::tempfile().map_err(|error| format!("a temporary file: {error}"))?;
        Ok(Record { to: to.to_owned(), parts })
    }

    /// Returns the assignment that the environment of the ranks needs.
    pub fn assignment(&self) -> OsString {
        format!("{VARIABLE}=/proc/{}/fd/{}", process::id(), self.parts.as_raw_fd()).into()
    }

    /// Writes the trace of all ranks that have come to their ends. Returns what is to be said about it, if anything is.
    pub fn finish(mut self, ranks: usize) -> Result<Option<String>, String> {
        let at = self.to.display().to_string();
        let mut text = Vec::new();
        let read = self.parts.rewind().and_then(|()| self.parts.read_to_end(&mut text));
        read.map_err(|error| format!("what the ranks have recorded can't be read: {error}"))?;
        // A rank that was killed while it wrote has left a part of a line.
        let lines = text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        let parts: Vec<Trace> =
            lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
        let count = parts.len();
        if count == 0 {
            let _ = fs::remove_file(&self.to);
            return Err(format!(
                "{at} is not written, because no rank has recorded a call: only programs for MPI that come to \
                 MPI_Finalize do so; a program in Rust writes its own trace"
            ));
        }
        write(&Trace::merge(parts), &self.to).map_err(|error| format!("{at}: {error}"))?;
        let lacks = (count < ranks).then(|| {
            format!("{at} shows {count} of {ranks} ranks: the others did not come to MPI_Finalize")
        });
        Ok(lacks)
    }
}

/// Writes a picture if that is what the name of the file asks for, and else Chrome's trace-event format.
fn write(trace: &Trace, to: &Path) -> io::Result<()> {
    let mut json = Vec::new();
    trace.write_chrome(&mut json)?;
    if to.extension().is_none_or(|extension| extension != "svg") {
        return fs::write(to, json);
    }
    fs::write(to, trace_svg::picture_of(&json).map_err(io::Error::other)?)
}
