//! Not an output but a check: every frame is compared with what the definition gives.

use example_support::Result;

use super::Sink;
use crate::filter::gray_reference;
use crate::frame::fault;
use crate::input::{Input, Source};

/// Reads the input again, filters it one pixel after the other, and compares.
pub struct Check {
    source: Box<dyn Source>,
    place: String,
    rgb: Vec<u8>,
    expected: Vec<u8>,
    next: u64,
}

impl Check {
    /// Opens `input` a second time.
    ///
    /// # Errors
    /// An input that cannot be opened again.
    pub fn new(input: &Input) -> Result<Self> {
        let source = input.open()?;
        let size = source.format().size;
        Ok(Self {
            source,
            place: input.to_string(),
            rgb: vec![0; size.rgb_len()],
            expected: vec![0; size.gray_len()],
            next: 0,
        })
    }
}

impl Sink for Check {
    fn write(&mut self, gray: &[u8]) -> Result<()> {
        let fault = |reason: String| fault(&self.place, self.next, reason);
        if !self.source.read(&mut self.rgb)? {
            return Err(fault("one frame more than there are".to_owned()));
        }
        gray_reference(&self.rgb, &mut self.expected);
        if gray.len() != self.expected.len() {
            return Err(fault(format!("{} of {} gray bytes", gray.len(), self.expected.len())));
        }
        if let Some(pixel) = (0..gray.len()).find(|&i| gray[i] != self.expected[i]) {
            let (got, expected) = (gray[pixel], self.expected[pixel]);
            return Err(fault(format!("pixel {pixel} is {got} and should be {expected}")));
        }
        self.next += 1;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clip::Clip;
    use crate::frame::Size;

    #[test]
    fn one_wrong_bit_is_seen() {
        let size = Size::new(20, 10).unwrap();
        let mut check = Check::new(&Input::Clip(size)).unwrap();
        let mut clip = Clip::new(size);
        let (mut rgb, mut gray) = (vec![0; size.rgb_len()], vec![0; size.gray_len()]);
        for frame in 0..3 {
            clip.read(&mut rgb).unwrap();
            gray_reference(&rgb, &mut gray);
            if frame < 2 {
                check.write(&gray).unwrap();
            }
        }
        assert!(check.write(&gray[1..]).is_err());
        gray[199] ^= 1;
        let mut check = Check::new(&Input::Clip(size)).unwrap();
        assert!(check.write(&gray).unwrap_err().to_string().contains("should be"));
    }
}
