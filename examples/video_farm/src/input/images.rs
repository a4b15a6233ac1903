//! A folder of PNG or PPM files, one a frame, in natural order: `9.png` before `10.png`.
//!
//! Gray, palette, 16-bit and transparent images are converted to 8-bit RGB; alpha is dropped.

use std::fs;
use std::path::{Path, PathBuf};

use example_support::{Error, Result};
use image::{ColorType, DynamicImage, ImageDecoder, ImageReader};

use super::Source;
use crate::frame::{Format, Rate, Size, fault};

/// A reader of image files.
#[derive(Debug)]
pub struct Images {
    files: Vec<PathBuf>,
    size: Size,
    next: usize,
}

impl Images {
    /// Lists the images of a folder, or takes one image file, and looks at the size of the first.
    ///
    /// # Errors
    /// A folder that cannot be read or holds no PNG or PPM file, or a first file that is none.
    pub fn open(path: &Path) -> Result<Self> {
        let fault = |error| Error::at(path.display(), error);
        let mut files = Vec::new();
        if path.is_dir() {
            for entry in fs::read_dir(path).map_err(fault)? {
                let file = entry.map_err(fault)?.path();
                if is_image(&file) {
                    files.push(file);
                }
            }
        } else {
            files.push(path.to_owned());
        }
        files.sort_unstable_by(|a, b| alphanumeric_sort::compare_path(a, b).then_with(|| a.cmp(b)));
        let first =
            files.first().ok_or_else(|| Error::at(path.display(), "holds no PNG or PPM files"))?;
        let size = size_of(&decoder(first, 0)?, first, 0)?;
        Ok(Self { files, size, next: 0 })
    }
}

impl Source for Images {
    fn format(&self) -> Format {
        let frames = Some(self.files.len() as u64);
        Format { size: self.size, rate: Rate::default(), frames }
    }

    fn read(&mut self, rgb: &mut [u8]) -> Result<bool> {
        let Some(file) = self.files.get(self.next) else {
            return Ok(false);
        };
        let frame = self.next as u64;
        let fault_here = |error| fault(file.display(), frame, error);
        let decoder = decoder(file, frame)?;
        let size = size_of(&decoder, file, frame)?;
        if size != self.size {
            let reason = format!("{size}, but the first frame is {}", self.size);
            return Err(fault(file.display(), frame, reason));
        }
        if decoder.color_type() == ColorType::Rgb8 {
            decoder.read_image(rgb).map_err(fault_here)?;
        } else {
            let image = DynamicImage::from_decoder(decoder).map_err(fault_here)?;
            rgb.copy_from_slice(image.into_rgb8().as_raw());
        }
        self.next += 1;
        Ok(true)
    }
}

fn is_image(path: &Path) -> bool {
    let extension = path.extension().unwrap_or_default();
    extension.eq_ignore_ascii_case("png") || extension.eq_ignore_ascii_case("ppm")
}

fn decoder(file: &Path, frame: u64) -> Result<impl ImageDecoder> {
    ImageReader::open(file)
        .and_then(ImageReader::with_guessed_format)
        .map_err(image::ImageError::from)
        .and_then(ImageReader::into_decoder)
        .map_err(|error| fault(file.display(), frame, error))
}

fn size_of(decoder: &impl ImageDecoder, file: &Path, frame: u64) -> Result<Size> {
    let (width, height) = decoder.dimensions();
    Size::new(width.into(), height.into()).map_err(|error| fault(file.display(), frame, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ppm(width: usize, height: usize, value: u8) -> Vec<u8> {
        [format!("P6\n{width} {height}\n255\n").as_bytes(), &vec![value; 3 * width * height]]
            .concat()
    }

    fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            fs::write(folder.path().join(name), bytes).unwrap();
        }
        folder
    }

    fn frames(path: &Path) -> Result<Vec<Vec<u8>>> {
        let mut images = Images::open(path)?;
        let mut rgb = vec![0; images.format().size.rgb_len()];
        let mut frames = Vec::new();
        while images.read(&mut rgb)? {
            frames.push(rgb.clone());
        }
        assert_eq!(images.format().frames, Some(frames.len() as u64));
        Ok(frames)
    }

    fn png(image: DynamicImage) -> Vec<u8> {
        let mut bytes = std::io::Cursor::new(Vec::new());
        image.write_to(&mut bytes, image::ImageFormat::Png).unwrap();
        bytes.into_inner()
    }

    #[test]
    fn natural_order_and_other_files_left_alone() {
        let folder = folder(&[
            ("f10.ppm", &ppm(2, 1, 10)),
            ("f9.PPM", &ppm(2, 1, 9)),
            ("f1.ppm", &ppm(2, 1, 1)),
            ("notes.txt", b"no frame"),
        ]);
        assert_eq!(frames(folder.path()).unwrap(), [[1; 6], [9; 6], [10; 6]]);
        assert_eq!(frames(&folder.path().join("f9.PPM")).unwrap(), [[9; 6]]);
    }

    #[test]
    fn other_pixel_formats_become_rgb() {
        let gray = png(DynamicImage::ImageLuma8(image::GrayImage::from_pixel(2, 1, [7].into())));
        let rgba = image::RgbaImage::from_pixel(2, 1, [1, 2, 3, 0].into());
        let deep = image::ImageBuffer::from_pixel(2, 1, image::Rgb([0u16, 0x8080, 0xffff]));
        let folder = folder(&[
            ("0.png", &gray),
            ("1.png", &png(DynamicImage::ImageRgba8(rgba))),
            ("2.png", &png(DynamicImage::ImageRgb16(deep))),
        ]);
        let want = [[7; 6], [1, 2, 3, 1, 2, 3], [0, 128, 255, 0, 128, 255]];
        assert_eq!(frames(folder.path()).unwrap(), want);
    }

    #[test]
    fn faults_name_the_file_and_the_frame() {
        let good = png(DynamicImage::new_rgb8(40, 30));
        for (name, second, reason) in [
            ("cut.png", &good[..good.len() / 2], ""),
            ("cut.ppm", &ppm(40, 30, 1)[..1000], ""),
            ("size.ppm", &ppm(40, 31, 1), "40x31, but the first frame is 40x30"),
            ("no.png", b"not an image", ""),
            ("empty.ppm", b"", ""),
            ("zero.ppm", b"P6\n0 0\n255\n", ""),
        ] {
            let folder = folder(&[("a.png", &good), (name, second)]);
            let error = frames(folder.path()).unwrap_err().to_string();
            let (_, why) = error.split_once(&format!("{name}: frame 1: ")).unwrap();
            assert!(why.contains(reason) && !why.is_empty(), "{error}");
        }
        let error = frames(folder(&[("a.txt", b"")]).path()).unwrap_err();
        assert!(error.to_string().contains("no PNG or PPM"), "{error}");
        assert!(frames(Path::new("no such folder/a.png")).is_err());
    }
}
