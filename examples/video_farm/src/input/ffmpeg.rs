//! Any other video, decoded by the `ffmpeg` program.
//!
//! It delivers y4m with full chroma in the BT.601 matrix, which is the one [`crate::yuv`]
//! applies, so that high-definition material in BT.709 keeps its colours.

use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;

use example_support::{Error, Result};

use super::Source;
use super::y4m::Y4m;
use crate::frame::{Format, fault};

/// As much of what ffmpeg complains about as an error message can hold.
const MAX_COMPLAINT: usize = 2000;

/// A running decoder; ended when dropped.
#[derive(Debug)]
pub struct Ffmpeg {
    y4m: Y4m<ChildStdout>,
    program: Program,
}

#[derive(Debug)]
struct Program {
    child: Child,
    complaint: Option<JoinHandle<String>>,
    place: String,
}

impl Ffmpeg {
    /// Starts decoding a file.
    ///
    /// # Errors
    /// No such file, no `ffmpeg` program, or a file that it cannot decode.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_with("ffmpeg", path)
    }

    fn open_with(program: &str, path: &Path) -> Result<Self> {
        let place = path.display().to_string();
        // The file is asked for first, so that a missing file is not reported as a missing program.
        path.metadata().map_err(|error| Error::at(&place, error))?;
        // The prefix keeps a name with a colon from being taken for a protocol.
        let mut file = std::ffi::OsString::from("file:");
        file.push(path);
        let spawned = Command::new(program)
            .args(["-nostdin", "-hide_banner", "-loglevel", "error", "-xerror", "-i"])
            .arg(file)
            .args(["-map", "0:v:0", "-vf", "scale=out_color_matrix=bt601:out_range=tv"])
            .args(["-pix_fmt", "yuv444p", "-f", "yuv4mpegpipe", "-"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = spawned.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::at(
                &place,
                "this kind of file needs the `ffmpeg` program, which is not installed; install \
                 it, or give a .y4m file, a folder of PNG or PPM frames, or raw rgb24 with --size",
            ),
            _ => Error::at(&place, format!("cannot start ffmpeg: {error}")),
        })?;
        let stderr = child.stderr.take();
        let stdout = child.stdout.take();
        let complaint = stderr.map(|stderr| std::thread::spawn(move || collect(stderr)));
        let mut program = Program { child, complaint, place };
        let Some(stdout) = stdout else {
            return Err(Error::at(&program.place, "no pipe from ffmpeg"));
        };
        match Y4m::new(stdout, program.place.clone()) {
            Ok(y4m) => Ok(Self { y4m, program }),
            Err(error) => Err(program.end(None).err().unwrap_or(error)),
        }
    }
}

impl Source for Ffmpeg {
    fn format(&self) -> Format {
        self.y4m.format()
    }

    fn read(&mut self, rgb: &mut [u8]) -> Result<bool> {
        let more = self.y4m.read(rgb)?;
        if !more {
            self.program.end(Some(self.y4m.frames_read()))?;
        }
        Ok(more)
    }
}

impl Program {
    /// Waits for the program, whose output has ended, and passes on why it failed.
    fn end(&mut self, frame: Option<u64>) -> Result<()> {
        let status = self.child.wait();
        let complaint = self.complaint.take().and_then(|thread| thread.join().ok());
        let reason = match status {
            Ok(status) if status.success() => return Ok(()),
            Ok(status) => format!("ffmpeg: {status}"),
            Err(error) => format!("ffmpeg: {error}"),
        };
        let complaint = complaint.unwrap_or_default();
        let reason = format!("{reason}: {}", complaint.trim().replace('\n', "; "));
        Err(match frame {
            Some(frame) => fault(&self.place, frame, reason),
            None => Error::at(&self.place, reason),
        })
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may still be decoding frames that are not wanted. Both calls fail when it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads everything, so that ffmpeg never waits, and keeps the beginning.
fn collect(mut stderr: impl Read) -> String {
    let mut kept = Vec::new();
    let _ = (&mut stderr).take(MAX_COMPLAINT as u64).read_to_end(&mut kept);
    let _ = io::copy(&mut stderr, &mut io::sink());
    String::from_utf8_lossy(&kept).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_and_a_missing_file_are_told_apart() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = Ffmpeg::open_with("no-such-ffmpeg", file.path()).unwrap_err();
        assert!(error.to_string().contains("needs the `ffmpeg` program"), "{error}");
        let missing = Path::new("no such file.mp4");
        let error = Ffmpeg::open_with("no-such-ffmpeg", missing).unwrap_err();
        assert!(error.to_string().starts_with("no such file.mp4: No such file"), "{error}");
    }
}
