//! YUV4MPEG2 (`.y4m`), in every form with 8 bits a sample.
//!
//! Written here because the reader that crates.io has cannot tell a truncated file from one that
//! ends, and knows neither 4:1:1 nor 4:4:4 with alpha.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use example_support::{Error, Result};

use super::source::{Source, read_up_to, truncated};
use crate::frame::{Format, Rate, Size, fault};
use crate::yuv::{self, Chroma, Range};

/// No header line is as long as this; a file of something else may have no line end at all.
const MAX_LINE: u64 = 4096;
const MAGIC: &str = "YUV4MPEG2";
const FRAME: &[u8] = b"FRAME";

/// A reader of y4m frames from a file or a pipe.
#[derive(Debug)]
pub struct Y4m<R> {
    reader: BufReader<R>,
    place: String,
    header: Header,
    header_len: u64,
    frames: Option<u64>,
    /// The planes of one frame, as they are in the file.
    planes: Vec<u8>,
    next: u64,
}

#[derive(Debug, PartialEq, Eq)]
struct Header {
    size: Size,
    rate: Rate,
    chroma: Chroma,
    alpha: bool,
    range: Range,
}

impl Header {
    /// Returns the number of bytes of one frame in the file, without its own header line.
    fn frame_len(&self) -> usize {
        let (width, height) = self.chroma.plane(self.size);
        let alpha = if self.alpha { self.size.gray_len() } else { 0 };
        self.size.gray_len() + 2 * width * height + alpha
    }

    fn parse(line: &str) -> Result<Self, String> {
        let mut tags = line.split(' ');
        if tags.next() != Some(MAGIC) {
            return Err(format!("not a y4m file: it does not begin with {MAGIC}"));
        }
        let (mut width, mut height) = (None, None);
        let mut rate = Rate::default();
        let mut form = "420jpeg";
        let mut range = Range::Limited;
        for tag in tags.filter(|tag| !tag.is_empty()) {
            let malformed = || format!("malformed header tag `{tag}`");
            let (letter, value) = tag.split_at_checked(1).ok_or_else(malformed)?;
            match letter {
                "W" => width = Some(value.parse().map_err(|_| malformed())?),
                "H" => height = Some(value.parse().map_err(|_| malformed())?),
                "F" => rate = parse_rate(value).ok_or_else(malformed)?.unwrap_or(rate),
                "C" => form = value,
                "X" if value == "COLORRANGE=FULL" => range = Range::Full,
                "X" if value == "COLORRANGE=LIMITED" => range = Range::Limited,
                // Interlacing and pixel aspect change nothing about a pixel's colour.
                _ => {}
            }
        }
        let (Some(width), Some(height)) = (width, height) else {
            return Err("the header does not tell the width and height".to_owned());
        };
        let size = Size::new(width, height).map_err(|error| error.to_string())?;
        let (chroma, alpha) = parse_form(form)?;
        Ok(Self { size, rate, chroma, alpha, range })
    }
}

/// Returns `None` for text that is no fraction, and `Some(None)` for the fraction that stands for "unknown".
fn parse_rate(text: &str) -> Option<Option<Rate>> {
    let (frames, seconds) = text.split_once(':')?;
    let rate = Rate { frames: frames.parse().ok()?, seconds: seconds.parse().ok()? };
    Some((rate.frames != 0 && rate.seconds != 0).then_some(rate))
}

fn parse_form(form: &str) -> Result<(Chroma, bool), String> {
    let blocks = |across, down| Chroma::Blocks { across, down };
    Ok(match form {
        "mono" => (Chroma::Mono, false),
        "420" | "420jpeg" | "420mpeg2" | "420paldv" => (blocks(2, 2), false),
        "411" => (blocks(4, 1), false),
        "422" => (blocks(2, 1), false),
        "444" => (blocks(1, 1), false),
        "444alpha" => (blocks(1, 1), true),
        _ => {
            return Err(format!(
                "colour form `{form}` is not one of those with 8 bits a sample (mono, 420, \
                 420jpeg, 420mpeg2, 420paldv, 411, 422, 444, 444alpha)"
            ));
        }
    })
}

impl Y4m<File> {
    /// Opens a file.
    ///
    /// # Errors
    /// A file that cannot be opened or does not begin with a y4m header.
    pub fn open(path: &Path) -> Result<Self> {
        let place = path.display().to_string();
        let fault = |error| Error::at(&place, error);
        let file = File::open(path).map_err(fault)?;
        let data = file.metadata().map_err(fault)?;
        let mut y4m = Self::new(file, place)?;
        if data.is_file() {
            // Exact when no frame has tags of its own.
            let frame = FRAME.len() as u64 + 1 + y4m.header.frame_len() as u64;
            y4m.frames = Some(data.len().saturating_sub(y4m.header_len) / frame);
        }
        Ok(y4m)
    }
}

impl<R: Read> Y4m<R> {
    /// Reads the header from `reader`; `place` names it in errors.
    ///
    /// # Errors
    /// A stream that is empty or does not begin with a y4m header.
    pub fn new(reader: R, place: String) -> Result<Self> {
        let mut reader = BufReader::with_capacity(1 << 16, reader);
        let fault = |reason: String| Error::at(&place, reason);
        let line = read_line(&mut reader).map_err(fault)?;
        let line = line.ok_or_else(|| fault("empty".to_owned()))?;
        let header = Header::parse(&String::from_utf8_lossy(&line)).map_err(fault)?;
        let header_len = line.len() as u64 + 1;
        let planes = vec![0; header.frame_len()];
        Ok(Self { reader, place, header, header_len, frames: None, planes, next: 0 })
    }

    /// Returns how many frames have been read whole.
    pub fn frames_read(&self) -> u64 {
        self.next
    }
}

impl<R: Read> Source for Y4m<R> {
    fn format(&self) -> Format {
        Format { size: self.header.size, rate: self.header.rate, frames: self.frames }
    }

    fn read(&mut self, rgb: &mut [u8]) -> Result<bool> {
        let fault = |reason: String| fault(&self.place, self.next, reason);
        let Some(line) = read_line(&mut self.reader).map_err(fault)? else {
            return Ok(false);
        };
        if !matches!(line.strip_prefix(FRAME), Some([] | [b' ', ..])) {
            return Err(fault("it does not begin with FRAME".to_owned()));
        }
        let got = read_up_to(&mut self.reader, &mut self.planes)
            .map_err(|error| fault(error.to_string()))?;
        if got < self.planes.len() {
            return Err(truncated(&self.place, self.next, got, self.planes.len()));
        }
        let Header { size, chroma, range, .. } = self.header;
        yuv::to_rgb(&self.planes, size, chroma, range, rgb);
        self.next += 1;
        Ok(true)
    }
}

/// Reads the next line, without its end. Returns `None` at the end of the stream.
fn read_line(reader: &mut impl BufRead) -> Result<Option<Vec<u8>>, String> {
    let mut line = Vec::new();
    reader.take(MAX_LINE).read_until(b'\n', &mut line).map_err(|error| error.to_string())?;
    match line.pop() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(line)),
        Some(_) if line.len() as u64 + 1 == MAX_LINE => {
            Err("not y4m: a header line does not end".to_owned())
        }
        Some(_) => Err("truncated in a header line".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frames(bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut y4m = Y4m::new(bytes, "test".to_owned())?;
        let mut rgb = vec![0; y4m.format().size.rgb_len()];
        let mut frames = Vec::new();
        while y4m.read(&mut rgb)? {
            frames.push(rgb.clone());
        }
        Ok(frames)
    }

    fn file(header: &str, frame: &[u8], count: usize) -> Vec<u8> {
        let frame = [b"FRAME\n", frame].concat();
        [header.as_bytes(), b"\n", &frame.repeat(count)].concat()
    }

    #[test]
    fn every_8_bit_form_has_its_frame_length() {
        for (form, len) in [
            ("mono", 15),
            ("420", 15 + 2 * 6),
            ("420jpeg", 15 + 2 * 6),
            ("420mpeg2", 15 + 2 * 6),
            ("420paldv", 15 + 2 * 6),
            ("411", 15 + 2 * 6),
            ("422", 15 + 2 * 9),
            ("444", 45),
            ("444alpha", 60),
        ] {
            let bytes = file(&format!("YUV4MPEG2 W5 H3 C{form}"), &vec![128; len], 3);
            let got = frames(&bytes).unwrap();
            assert_eq!(got, vec![vec![130; 45]; 3], "{form}");
        }
        let default = file("YUV4MPEG2 W5 H3", &[128; 27], 2);
        assert_eq!(frames(&default).unwrap().len(), 2);
    }

    #[test]
    fn the_range_tag_counts() {
        for (tag, want) in [
            ("", [0, 255]),
            (" XCOLORRANGE=LIMITED", [0, 255]),
            (" XCOLORRANGE=FULL", [16, 235]),
            (" XYSCSS=420 XCOLORRANGE=FULL A1:1 Ip", [16, 235]),
        ] {
            let bytes = file(&format!("YUV4MPEG2 W2 H1 Cmono{tag}"), &[16, 235], 1);
            let want = want.map(|gray| [gray; 3]).concat();
            assert_eq!(frames(&bytes).unwrap(), [want], "{tag}");
        }
    }

    #[test]
    fn the_rate_is_read() {
        let rate = |tag: &str| {
            let bytes = format!("YUV4MPEG2 W1 H1 {tag}\n");
            Y4m::new(bytes.as_bytes(), "test".to_owned()).map(|y4m| y4m.format().rate)
        };
        assert_eq!(rate("F30000:1001").unwrap(), Rate { frames: 30000, seconds: 1001 });
        assert_eq!(rate("F0:0").unwrap(), Rate::default());
        assert_eq!(rate("").unwrap(), Rate::default());
        assert!(rate("F30").is_err());
    }

    #[test]
    fn frame_tags_are_allowed() {
        let bytes = b"YUV4MPEG2 W1 H1 Cmono\nFRAME Ip XA=1\n\x80FRAME\n\x80";
        assert_eq!(frames(bytes).unwrap().len(), 2);
    }

    #[test]
    fn malformed_headers_are_named() {
        for (bytes, reason) in [
            (&b""[..], "empty"),
            (b"YUV4MPEG2 W1 H1", "truncated in a header line"),
            (b"RIFF\n", "does not begin with YUV4MPEG2"),
            (b"YUV4MPEG2X W1 H1\n", "does not begin with YUV4MPEG2"),
            (b"YUV4MPEG2 W1\n", "does not tell the width and height"),
            (b"YUV4MPEG2 W0 H1\n", "no pixels"),
            (b"YUV4MPEG2 W-1 H1\n", "malformed header tag `W-1`"),
            (b"YUV4MPEG2 W1 H1 \xff1\n", "malformed header tag"),
            (b"YUV4MPEG2 W4294967296 H4294967296\n", "larger than"),
            (b"YUV4MPEG2 W99999999999999999999 H1\n", "malformed header tag"),
            (b"YUV4MPEG2 W4 H4 C420p10\n", "`420p10` is not one of those with 8 bits"),
        ] {
            let error = frames(bytes).unwrap_err().to_string();
            assert!(
                error.contains(reason) && !error.starts_with("test: frame "),
                "{error} for {reason}"
            );
        }
        let endless = vec![b'a'; 10_000];
        assert!(frames(&endless).unwrap_err().to_string().contains("does not end"));
    }

    #[test]
    fn malformed_frames_are_named() {
        let whole = file("YUV4MPEG2 W4 H4 Cmono", &[7; 16], 2);
        for (bytes, reason) in [
            (whole[..whole.len() - 1].to_vec(), "truncated: 15 of 16 bytes"),
            (whole[..whole.len() - 16].to_vec(), "truncated: 0 of 16 bytes"),
            (whole[..whole.len() - 17].to_vec(), "truncated in a header line"),
            ([&whole[..whole.len() - 22], b"FRAMEX\n"].concat(), "does not begin with FRAME"),
            ([&whole[..whole.len() - 22], b"\n"].concat(), "does not begin with FRAME"),
        ] {
            let error = frames(&bytes).unwrap_err().to_string();
            assert!(error.contains("frame 1: ") && error.contains(reason), "{error} for {reason}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_end_without_a_panic(
            tail in proptest::collection::vec(any::<u8>(), 0..200),
            header in "(YUV4MPEG2)?( [WHFCXAI][0-9:a-z=]{0,4}){0,6}\n?",
        ) {
            let _ = frames(&[header.as_bytes(), &tail].concat());
        }
    }
}
