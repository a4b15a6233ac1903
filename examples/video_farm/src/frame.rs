//! What the ranks agree on about a frame: how large it is, and how fast frames are shown.

use std::fmt;
use std::str::FromStr;

use example_support::{Error, Result};
use serde::{Deserialize, Serialize};

/// Returns the error of a frame, counted from 0, of a file or stream.
pub fn fault(place: impl fmt::Display, frame: u64, reason: impl fmt::Display) -> Error {
    Error::at(place, format_args!("frame {frame}: {reason}"))
}

/// The width and height of a frame in pixels; neither is zero.
///
/// ```
/// use video_farm::frame::Size;
/// let size: Size = "1000x600".parse().unwrap();
/// assert_eq!((size.rgb_len(), size.gray_len()), (1_800_000, 600_000));
/// assert!("1000x0".parse::<Size>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    width: u32,
    height: u32,
}

impl Size {
    /// Larger frames are refused: a few bytes of a damaged header must not ask for all memory.
    pub const MAX_PIXELS: u64 = 1 << 28;

    /// The smallest frame.
    pub const ONE_PIXEL: Self = Self { width: 1, height: 1 };

    /// Creates the size of a frame of `width` by `height` pixels.
    ///
    /// # Errors
    /// A size of zero, or of more than [`Size::MAX_PIXELS`].
    pub fn new(width: u64, height: u64) -> Result<Self> {
        if width == 0 || height == 0 {
            return Err(Error::new(format_args!("a frame of {width}x{height} has no pixels")));
        }
        let pixels = width.checked_mul(height).filter(|&pixels| pixels <= Self::MAX_PIXELS);
        if pixels.is_none() {
            let most = Self::MAX_PIXELS;
            let reason = format!("a frame of {width}x{height} is larger than {most} pixels");
            return Err(Error::new(reason));
        }
        // Width and height are at most their product.
        Ok(Self { width: width as u32, height: height as u32 })
    }

    /// Returns the number of pixels in a row.
    pub fn width(self) -> usize {
        self.width as usize
    }

    /// Returns the number of rows.
    pub fn height(self) -> usize {
        self.height as usize
    }

    /// Returns the number of bytes of one plane of 8-bit gray, which is also the number of pixels.
    pub fn gray_len(self) -> usize {
        self.width() * self.height()
    }

    /// Returns the number of bytes of one frame of interleaved 8-bit RGB.
    pub fn rgb_len(self) -> usize {
        3 * self.gray_len()
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.width, self.height)
    }
}

impl FromStr for Size {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let sides =
            text.split_once(['x', 'X']).map(|(width, height)| (width.parse(), height.parse()));
        match sides {
            Some((Ok(width), Ok(height))) => Self::new(width, height),
            _ => Err(Error::new(format!("`{text}` is not WIDTHxHEIGHT, like 1000x1000"))),
        }
    }
}

/// Frames per second as a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// Frames …
    pub frames: u32,
    /// … in so many seconds.
    pub seconds: u32,
}

impl Default for Rate {
    /// 25 frames per second, for inputs that do not say.
    fn default() -> Self {
        Self { frames: 25, seconds: 1 }
    }
}

/// The properties of all frames of an input, which are known before the first one is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Format {
    /// The size of every frame.
    pub size: Size,
    /// How fast the frames are meant to be shown.
    pub rate: Rate,
    /// How many there are, where that is known ahead: a hint for progress, nothing more.
    pub frames: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_checked() {
        assert_eq!("3x2".parse::<Size>().unwrap().rgb_len(), 18);
        assert_eq!("3x2".parse::<Size>().unwrap().to_string(), "3x2");
        for text in ["", "x", "3", "3x", "x3", "-1x3", "3x2x1", "3.0x2", " 3x2"] {
            let error = text.parse::<Size>().unwrap_err().to_string();
            assert!(error.ends_with("is not WIDTHxHEIGHT, like 1000x1000"), "{text:?}");
        }
        assert_eq!(Size::new(0, 7), Err(Error::new("a frame of 0x7 has no pixels")));
        assert!(Size::new(1, Size::MAX_PIXELS).is_ok());
        for (width, height) in [(1, Size::MAX_PIXELS + 1), (u64::MAX, 2), (1 << 33, 1)] {
            let error = Size::new(width, height).unwrap_err().to_string();
            assert!(error.contains("is larger than 268435456 pixels"), "{error}");
        }
    }
}
