//! A folder of gray PNG files, `frame-000000.png` and so on.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use image::codecs::png::PngEncoder;
use image::{ExtendedColorType, ImageEncoder, ImageError};

use super::Sink;
use super::partial::PartialFolder;
use crate::error::StreamError;
use crate::frame::{Format, Size};

/// A writer of gray PNG files.
#[derive(Debug)]
pub struct Images {
    folder: PartialFolder,
    size: Size,
    next: u64,
}

impl Images {
    /// Begins a folder.
    ///
    /// # Errors
    /// A folder that holds something already or cannot be created.
    pub fn create(path: &Path, format: Format) -> Result<Self, StreamError> {
        Ok(Self { folder: PartialFolder::create(path)?, size: format.size, next: 0 })
    }
}

impl Sink for Images {
    fn write(&mut self, gray: &[u8]) -> Result<(), StreamError> {
        let (width, height) = (self.size.width() as u32, self.size.height() as u32);
        let path = self.folder.file(&format!("frame-{:06}.png", self.next));
        let written = File::create(path).map_err(ImageError::from).and_then(|file| {
            let mut writer = BufWriter::new(file);
            let encoder = PngEncoder::new(&mut writer);
            encoder.write_image(gray, width, height, ExtendedColorType::L8)?;
            Ok(writer.flush()?)
        });
        written
            .map_err(|error| StreamError::at(self.folder.target().display(), self.next, error))?;
        self.next += 1;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), StreamError> {
        self.folder.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Rate;

    #[test]
    fn frames_are_whole_pictures_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("frames");
        let format = Format { size: Size::new(3, 2).unwrap(), rate: Rate::default(), frames: None };
        let mut sink = Box::new(Images::create(&path, format).unwrap());
        for value in 0..11 {
            sink.write(&[value, 1, 2, 3, 4, 255]).unwrap();
        }
        assert!(!path.exists());
        sink.finish().unwrap();
        for value in 0..11 {
            let picture = image::open(path.join(format!("frame-{value:06}.png"))).unwrap();
            let gray = picture.as_luma8().unwrap();
            assert_eq!(gray.dimensions(), (3, 2));
            assert_eq!(gray.as_raw()[..], [value, 1, 2, 3, 4, 255]);
        }
        assert_eq!(std::fs::read_dir(path).unwrap().count(), 11);
    }
}
