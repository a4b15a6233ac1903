//! Where a matrix comes from.

use std::f64::consts::PI;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

use example_support::{Error, Result};
use image::ImageReader;
use image::imageops::{self, FilterType};

/// The most rows that a matrix can have: one of 8 GiB.
pub const LARGEST: usize = 1 << 15;

/// The size of a matrix when nothing says another: the smaller one of the paper.
pub const USUAL: usize = 1080;

/// Values up to this can be added five at a time.
const LARGEST_VALUE: f64 = f64::MAX / 5.0;

/// Returns the matrix before the first step.
#[derive(Clone, Debug, PartialEq)]
pub struct Init {
    size: usize,
    origin: Origin,
}

#[derive(Clone, Debug, PartialEq)]
enum Origin {
    Pattern,
    Raw(PathBuf),
    /// With its grey levels, from 0 for black to 1 for white.
    Picture(PathBuf, Vec<f64>),
}

impl Init {
    /// Returns the waves around two centres, from 0 to 1.
    pub fn pattern(size: usize) -> Self {
        Self { size, origin: Origin::Pattern }
    }

    /// Opens a picture (PNG, PPM), or a file of raw little-endian doubles. A picture is stretched to `size` rows and
    /// columns, or to the length of its shorter side without `size`. Doubles must be `size` by `size`; without `size`,
    /// their number must be a square.
    ///
    /// # Errors
    /// If the file can't be read, is no picture, or has another number of doubles.
    pub fn open(path: &Path, size: Option<usize>) -> Result<Self> {
        let start = |file: File| {
            let (mut start, bytes) = (Vec::new(), file.metadata()?.len());
            file.take(8).read_to_end(&mut start)?;
            Ok((start, bytes))
        };
        let fault = |error| Error::at(path.display(), error);
        let (start, bytes) = File::open(path).and_then(start).map_err(fault)?;
        if is_picture(path, &start) {
            return Self::picture(path, size);
        }
        let size = raw_size(bytes, size).map_err(|reason| Error::at(path.display(), reason))?;
        Ok(Self { size, origin: Origin::Raw(path.to_owned()) })
    }

    fn picture(path: &Path, size: Option<usize>) -> Result<Self> {
        let picture = ImageReader::open(path)
            .and_then(ImageReader::with_guessed_format)
            .map_err(image::ImageError::from)
            .and_then(ImageReader::decode)
            .map_err(|error| Error::at(path.display(), error))?
            .into_luma16();
        let size = size.unwrap_or(picture.width().min(picture.height()) as usize);
        if !(1..=LARGEST).contains(&size) {
            return Err(Error::at(path.display(), format!("{size} rows, not 1 to {LARGEST}")));
        }
        let picture = match picture.dimensions() == (size as u32, size as u32) {
            true => picture,
            false => imageops::resize(&picture, size as u32, size as u32, FilterType::Triangle),
        };
        let cells = picture.into_raw().into_iter().map(|level| f64::from(level) / 65535.0);
        Ok(Self { size, origin: Origin::Picture(path.to_owned(), cells.collect()) })
    }

    /// Returns the number of rows of the matrix, which is that of its columns.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns a block of the matrix, row by row.
    ///
    /// # Errors
    /// If the file cannot be read any more, or has values that are no numbers, or too large to add five of them.
    pub fn block(&self, rows: Range<usize>, columns: Range<usize>) -> Result<Vec<f64>> {
        let mut block = Vec::with_capacity(rows.len() * columns.len());
        match &self.origin {
            _ if columns.is_empty() => {}
            Origin::Pattern => {
                for i in rows {
                    block.extend(columns.clone().map(|j| waves(self.place(i), self.place(j))));
                }
            }
            Origin::Picture(_, cells) => {
                for i in rows {
                    block.extend_from_slice(&cells[i * self.size..][columns.clone()]);
                }
            }
            Origin::Raw(path) => {
                let fault = |error| Error::at(path.display(), error);
                let mut file = File::open(path).map_err(fault)?;
                let mut bytes = vec![0; 8 * columns.len()];
                for i in rows {
                    let first = i * self.size + columns.start;
                    file.seek(SeekFrom::Start(8 * first as u64)).map_err(fault)?;
                    file.read_exact(&mut bytes).map_err(fault)?;
                    let (doubles, _) = bytes.as_chunks::<8>();
                    block.extend(doubles.iter().map(|&double| f64::from_le_bytes(double)));
                    let values = &block[block.len() - columns.len()..];
                    let bad = values.iter().position(|v| v.is_nan() || v.abs() > LARGEST_VALUE);
                    if let Some(bad) = bad {
                        let reason = format!(
                            "element {}, {} is {}: five of it have no sum",
                            i + 1,
                            columns.start + bad + 1,
                            values[bad]
                        );
                        return Err(Error::at(path.display(), reason));
                    }
                }
            }
        }
        Ok(block)
    }

    /// Returns where a row or column lies, from -1 to 1.
    fn place(&self, index: usize) -> f64 {
        (2 * index + 1) as f64 / self.size as f64 - 1.0
    }
}

/// Returns the number of rows, and of columns, of a square matrix of doubles that has this many bytes.
fn raw_size(bytes: u64, size: Option<usize>) -> Result<usize, String> {
    match size {
        Some(size) if bytes == 8 * (size * size) as u64 => Ok(size),
        Some(size) => Err(format!(
            "no picture, and {bytes} bytes are not the {} of {size} by {size} doubles",
            8 * size * size
        )),
        None => match (bytes / 8).isqrt() {
            size @ 1.. if bytes == 8 * size * size && size <= LARGEST as u64 => Ok(size as usize),
            _ => Err(format!(
                "no picture, and {bytes} bytes are no square of doubles with 1 to {LARGEST} rows"
            )),
        },
    }
}

/// Returns whether a file that begins like this is a picture: by its name, or by its content.
fn is_picture(path: &Path, start: &[u8]) -> bool {
    let extension = path.extension().unwrap_or_default();
    ["png", "ppm", "pgm", "pnm"].iter().any(|known| extension.eq_ignore_ascii_case(known))
        || start == b"\x89PNG\r\n\x1a\n"
}

fn waves(y: f64, x: f64) -> f64 {
    let wave = |x0: f64, y0: f64| (8.0 * PI * (x - x0).hypot(y - y0)).cos();
    (2.0 + wave(-0.5, -0.3) + wave(0.5, 0.3)) / 4.0
}

impl std::fmt::Display for Init {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.origin {
            Origin::Pattern => f.write_str("built-in waves"),
            Origin::Raw(path) | Origin::Picture(path, _) => path.display().fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        (folder, path)
    }

    fn doubles(values: &[f64]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    #[test]
    fn blocks_are_parts_of_the_whole() {
        let values: Vec<f64> = (0..25).map(f64::from).collect();
        let (_folder, path) = file("m", &doubles(&values));
        for init in [Init::pattern(5), Init::open(&path, None).unwrap()] {
            let whole = init.block(0..5, 0..5).unwrap();
            assert_eq!(whole.len(), 25);
            let part = init.block(1..3, 2..5).unwrap();
            assert_eq!(part, [&whole[7..10], &whole[12..15]].concat());
            assert!(init.block(5..5, 0..5).unwrap().is_empty());
            assert!(init.block(0..5, 5..5).unwrap().is_empty());
        }
        assert_eq!(Init::open(&path, Some(5)).unwrap().block(0..5, 0..5).unwrap(), values);
    }

    #[test]
    fn pictures_become_grey_levels_of_any_size() {
        let (_folder, path) = file("p.pgm", b"P5\n3 2\n255\n\x00\xff\x00\xff\x00\xff");
        let init = Init::open(&path, None).unwrap();
        assert_eq!(init.size(), 2);
        let init = Init::open(&path, Some(7)).unwrap();
        let cells = init.block(0..7, 0..7).unwrap();
        assert!(cells.len() == 49 && cells.iter().all(|cell| (0.0..=1.0).contains(cell)));
        let (_folder, path) = file("p.pgm", b"P5\n2 2\n255\n\x00\xff\x33\x00");
        assert_eq!(
            Init::open(&path, None).unwrap().block(0..2, 0..2).unwrap(),
            [0.0, 1.0, 0.2, 0.0]
        );
    }

    #[test]
    fn faults_are_named() {
        for (name, bytes, size, reason) in [
            ("empty", vec![], None, "no square"),
            ("odd", vec![0; 9], None, "no square"),
            ("three", vec![0; 24], None, "no square"),
            ("four", vec![0; 32], Some(3), "not the 72 of 3 by 3"),
            ("cut.png", b"\x89PNG\r\n\x1a\n".to_vec(), None, ""),
            ("no.png", b"not a picture".to_vec(), None, ""),
            ("zero.ppm", b"P6\n0 0\n255\n".to_vec(), None, ""),
        ] {
            let (_folder, path) = file(name, &bytes);
            let error = Init::open(&path, size).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(reason), "{error}");
        }
        assert!(Init::open(Path::new("no such file"), None).is_err());
        for bad in [f64::NAN, f64::INFINITY, -1e308] {
            let (_folder, path) = file("m", &doubles(&[1.0, 2.0, bad, 4.0]));
            let init = Init::open(&path, None).unwrap();
            let error = init.block(0..2, 0..2).unwrap_err().to_string();
            assert!(error.contains("element 2, 1 is"), "{error}");
        }
    }
}
