//! A YUV4MPEG2 file with luma alone, in full range as the filter makes it.

use std::io::Write;
use std::path::Path;

use example_support::files::NewFile;
use example_support::{Error, Result};

use super::Sink;
use crate::frame::{Format, fault};

/// A writer of mono y4m.
#[derive(Debug)]
pub struct Y4m {
    file: NewFile,
    next: u64,
}

impl Y4m {
    /// Begins a file with the header of `format`.
    ///
    /// # Errors
    /// A file that cannot be created.
    pub fn create(path: &Path, format: Format) -> Result<Self> {
        let mut file = NewFile::create(path)?;
        let (width, height) = (format.size.width(), format.size.height());
        let (frames, seconds) = (format.rate.frames, format.rate.seconds);
        writeln!(
            file,
            "YUV4MPEG2 W{width} H{height} F{frames}:{seconds} Ip A1:1 Cmono XCOLORRANGE=FULL"
        )
        .map_err(|error| Error::at(path.display(), error))?;
        Ok(Self { file, next: 0 })
    }
}

impl Sink for Y4m {
    fn write(&mut self, gray: &[u8]) -> Result<()> {
        let written = self.file.write_all(b"FRAME\n").and_then(|()| self.file.write_all(gray));
        written.map_err(|error| fault(self.file.target().display(), self.next, error))?;
        self.next += 1;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<()> {
        self.file.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Rate, Size};
    use crate::input::{self, Source};

    #[test]
    fn what_is_written_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.y4m");
        let rate = Rate { frames: 30000, seconds: 1001 };
        let format = Format { size: Size::new(5, 3).unwrap(), rate, frames: None };
        let mut sink = Box::new(Y4m::create(&path, format).unwrap());
        let frames = [[0; 15], [255; 15], std::array::from_fn(|i| 17 * i as u8)];
        for frame in &frames {
            sink.write(frame).unwrap();
        }
        sink.finish().unwrap();

        let file = std::fs::File::open(&path).unwrap();
        let mut theirs = y4m::Decoder::new(file).unwrap();
        assert_eq!((theirs.get_width(), theirs.get_height()), (5, 3));
        assert_eq!((theirs.get_framerate().num, theirs.get_framerate().den), (30000, 1001));
        assert!(matches!(theirs.get_colorspace(), y4m::Colorspace::Cmono));
        for frame in &frames {
            assert_eq!(theirs.read_frame().unwrap().get_y_plane(), frame);
        }
        assert!(theirs.read_frame().is_err());

        // Gray is a fixed point of the filter, so a second pass changes nothing.
        let mut ours = input::y4m::Y4m::open(&path).unwrap();
        assert_eq!(ours.format(), Format { frames: Some(3), ..format });
        let (mut rgb, mut gray) = ([0; 45], [0; 15]);
        for frame in &frames {
            assert!(ours.read(&mut rgb).unwrap());
            crate::filter::gray(&rgb, &mut gray);
            assert_eq!(gray, *frame);
        }
        assert!(!ours.read(&mut rgb).unwrap());
    }
}
