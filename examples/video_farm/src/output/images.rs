//! A folder of gray PNG files, `frame-000000.png` and so on.

use std::fs::{self, File};
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use example_support::files::beside;
use example_support::{Error, Result};
use image::codecs::png::PngEncoder;
use image::{ExtendedColorType, ImageEncoder, ImageError};

use super::Sink;
use crate::frame::{Format, Size, fault};

/// A writer of gray PNG files.
#[derive(Debug)]
pub struct Images {
    folder: NewFolder,
    size: Size,
    next: u64,
}

impl Images {
    /// Begins a folder.
    ///
    /// # Errors
    /// A folder that holds something already or cannot be created.
    pub fn create(path: &Path, format: Format) -> Result<Self> {
        Ok(Self { folder: NewFolder::create(path)?, size: format.size, next: 0 })
    }
}

impl Sink for Images {
    fn write(&mut self, gray: &[u8]) -> Result<()> {
        let (width, height) = (self.size.width() as u32, self.size.height() as u32);
        let path = self.folder.temporary.join(format!("frame-{:06}.png", self.next));
        let written = File::create(path).map_err(ImageError::from).and_then(|file| {
            let mut writer = BufWriter::new(file);
            let encoder = PngEncoder::new(&mut writer);
            encoder.write_image(gray, width, height, ExtendedColorType::L8)?;
            Ok(writer.flush()?)
        });
        written.map_err(|error| fault(self.folder.target.display(), self.next, error))?;
        self.next += 1;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<()> {
        self.folder.finish()
    }
}

/// A folder that gets its name when it is finished, and is removed with what is in it when it is
/// dropped before.
#[derive(Debug)]
struct NewFolder {
    target: PathBuf,
    temporary: PathBuf,
}

impl NewFolder {
    /// Creates the folder beside `target`, where there may be an empty one.
    fn create(target: &Path) -> Result<Self> {
        match fs::read_dir(target).map(|mut entries| entries.next().is_some()) {
            Ok(true) => {
                let reason = "the folder is not empty, and its files would mix with the frames";
                return Err(Error::at(target.display(), reason));
            }
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(Error::at(target.display(), error));
            }
            Ok(false) | Err(_) => {}
        }
        let temporary = beside(target, |path| fs::create_dir(path))?.into_temp_path().keep();
        let temporary = temporary.map_err(|error| Error::at(target.display(), error))?;
        Ok(Self { target: target.to_owned(), temporary })
    }

    fn finish(self) -> Result<()> {
        fs::rename(&self.temporary, &self.target)
            .map_err(|error| Error::at(self.target.display(), error))
    }
}

impl Drop for NewFolder {
    fn drop(&mut self) {
        // After it has got its name, nothing is there.
        let _ = fs::remove_dir_all(&self.temporary);
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

    fn names(folder: &Path) -> Vec<String> {
        let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
        fs::read_dir(folder).unwrap().map(|entry| name(entry.unwrap())).collect()
    }

    #[test]
    fn nothing_stays_when_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let frames = NewFolder::create(&folder.path().join("frames")).unwrap();
        fs::write(frames.temporary.join("0.png"), "x").unwrap();
        assert!(names(folder.path())[0].ends_with(".partial"));
        drop(frames);
        assert_eq!(names(folder.path()), [""; 0]);
    }

    #[test]
    fn a_folder_may_be_there_when_empty() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("frames");
        for _ in 0..2 {
            let frames = NewFolder::create(&target).unwrap();
            fs::write(frames.temporary.join("0.png"), "x").unwrap();
            frames.finish().unwrap();
            assert_eq!(names(&target), ["0.png"]);
            fs::remove_file(target.join("0.png")).unwrap();
        }
        fs::write(target.join("mine"), "x").unwrap();
        let error = NewFolder::create(&target).unwrap_err();
        assert!(error.to_string().contains("not empty"), "{error}");
        assert_eq!(names(&target), ["mine"]);
        assert_eq!(names(folder.path()), ["frames"]);
    }

    #[test]
    fn places_that_cannot_be_written_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "x").unwrap();
        for target in [file.clone(), file.join("a"), folder.path().join("no/a"), "/..".into()] {
            let error = NewFolder::create(&target).unwrap_err();
            assert!(error.to_string().starts_with(&format!("{}: ", target.display())), "{error}");
        }
        assert_eq!(names(folder.path()), ["file"]);
    }
}
