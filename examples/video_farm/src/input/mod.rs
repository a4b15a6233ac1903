//! Where frames come from.

pub mod ffmpeg;
pub mod images;
pub mod raw;
pub mod source;
pub mod y4m;

use std::fmt;
use std::path::{Path, PathBuf};

use example_support::{Error, Result};

pub use source::Source;

use crate::clip::Clip;
use crate::frame::Size;

/// Which frames to read; nothing is opened before [`Input::open`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The built-in moving clip, without end.
    Clip(Size),
    /// A YUV4MPEG2 file.
    Y4m(PathBuf),
    /// A folder of PNG or PPM frames in natural order, or one such file.
    Images(PathBuf),
    /// Raw interleaved RGB; `None` is standard input.
    Raw {
        /// The file.
        path: Option<PathBuf>,
        /// The size of every frame, which the file does not tell.
        size: Size,
    },
    /// Anything the `ffmpeg` program can decode.
    Ffmpeg(PathBuf),
}

impl Input {
    /// Returns the input for a path and a size on the command line.
    ///
    /// Without a path it is the clip; `-` is raw RGB from standard input; with a size, any file is raw.
    ///
    /// # Errors
    /// If raw RGB has no size, or a size is given for a file that contains its own.
    pub fn new(path: Option<&Path>, size: Option<Size>) -> Result<Self> {
        let Some(path) = path else {
            let (width, height) = Clip::SIZE;
            let size = size.or(Size::new(width, height).ok());
            return size.map(Input::Clip).ok_or_else(|| Error::at("clip", "no size"));
        };
        let place = path.display();
        let raw_needs_size =
            || Error::at(&place, "raw rgb24 does not tell the size of a frame: give --size WxH");
        let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        let tells_its_size = |input: Input| match size {
            None => Ok(input),
            Some(_) => Err(Error::at(
                &place,
                "this input tells the size of its frames, --size is for raw rgb24",
            )),
        };
        if path.as_os_str() == "-" {
            return Ok(Input::Raw { path: None, size: size.ok_or_else(raw_needs_size)? });
        }
        if path.is_dir() {
            return tells_its_size(Input::Images(path.to_owned()));
        }
        match extension.as_str() {
            "y4m" => tells_its_size(Input::Y4m(path.to_owned())),
            "png" | "ppm" => tells_its_size(Input::Images(path.to_owned())),
            "rgb" | "rgb24" | "raw" => Ok(Input::Raw {
                path: Some(path.to_owned()),
                size: size.ok_or_else(raw_needs_size)?,
            }),
            _ => Ok(match size {
                Some(size) => Input::Raw { path: Some(path.to_owned()), size },
                None => Input::Ffmpeg(path.to_owned()),
            }),
        }
    }

    /// Opens the input and reads as much of it as tells the size of a frame.
    ///
    /// # Errors
    /// A file that cannot be opened, or whose beginning is not what its kind begins with.
    pub fn open(&self) -> Result<Box<dyn Source>> {
        Ok(match self {
            Input::Clip(size) => Box::new(Clip::new(*size)),
            Input::Y4m(path) => Box::new(y4m::Y4m::open(path)?),
            Input::Images(path) => Box::new(images::Images::open(path)?),
            Input::Raw { path: Some(path), size } => Box::new(raw::Raw::open(path, *size)?),
            Input::Raw { path: None, size } => Box::new(raw::Raw::standard_input(*size)),
            Input::Ffmpeg(path) => Box::new(ffmpeg::Ffmpeg::open(path)?),
        })
    }

    /// Returns whether every `open` starts at the first frame again.
    pub fn is_repeatable(&self) -> bool {
        let path = match self {
            Input::Clip(_) => return true,
            Input::Raw { path: None, .. } => return false,
            Input::Raw { path: Some(path), .. }
            | Input::Y4m(path)
            | Input::Images(path)
            | Input::Ffmpeg(path) => path,
        };
        // A file that cannot be examined fails with a better reason when it is opened.
        path.metadata().map_or(true, |data| data.is_file() || data.is_dir())
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Input::Clip(_) => f.write_str("built-in clip"),
            Input::Raw { path: None, .. } => f.write_str("standard input"),
            Input::Raw { path: Some(path), .. }
            | Input::Y4m(path)
            | Input::Images(path)
            | Input::Ffmpeg(path) => path.display().fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_tells_the_kind() {
        let size = Size::new(4, 2).unwrap();
        let kind = |path: &str, size| Input::new(Some(Path::new(path)), size);
        assert_eq!(Input::new(None, None), Ok(Input::Clip(Size::new(1000, 1000).unwrap())));
        assert_eq!(Input::new(None, Some(size)), Ok(Input::Clip(size)));
        assert_eq!(kind("-", Some(size)), Ok(Input::Raw { path: None, size }));
        assert_eq!(kind("a.Y4M", None), Ok(Input::Y4m("a.Y4M".into())));
        assert_eq!(kind("a.ppm", None), Ok(Input::Images("a.ppm".into())));
        assert_eq!(kind(".", None), Ok(Input::Images(".".into())));
        assert_eq!(kind("a.mp4", None), Ok(Input::Ffmpeg("a.mp4".into())));
        let raw = Ok(Input::Raw { path: Some("a.bin".into()), size });
        assert_eq!(kind("a.bin", Some(size)), raw);
        for (path, size, reason) in [
            ("-", None, "--size WxH"),
            ("a.rgb", None, "--size WxH"),
            ("a.y4m", Some(size), "--size is for raw"),
            (".", Some(size), "--size is for raw"),
        ] {
            let error = kind(path, size).unwrap_err();
            let error = error.to_string();
            assert!(error.starts_with(&format!("{path}: ")) && error.contains(reason), "{error}");
        }
    }
}
