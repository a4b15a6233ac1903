//! Standard output of process ranks, one whole line at a time.

/// More than this of one line is not held back: the rank then owns the output until its line ends.
const LONGEST: usize = 64 << 10;

/// Puts the pieces that come through pipes together to lines, so that no line of one rank stands
/// inside another's.
#[derive(Debug, Default)]
pub struct LineMixer {
    /// By source: what came after the last line end.
    pending: Vec<Vec<u8>>,
    /// The source in the middle of a line that was too long to hold back.
    open: Option<usize>,
}

impl LineMixer {
    /// For `sources` pipes.
    pub fn new(sources: usize) -> Self {
        Self { pending: vec![Vec::new(); sources], open: None }
    }

    /// Whether more from this source could be forwarded now. A source that is not ready should
    /// not be read: its pipe holds it back.
    pub fn ready(&self, source: usize) -> bool {
        self.open.is_none_or(|open| open == source)
    }

    /// Whether the source is in the middle of a line that is too long to be held back.
    pub(crate) fn is_open(&self, source: usize) -> bool {
        self.open == Some(source)
    }

    /// Takes what came from a source and hands on what may be written now. Everything handed on
    /// ends with a line end, except pieces of a very long line.
    pub fn push(&mut self, source: usize, bytes: &[u8], mut write: impl FnMut(&[u8])) {
        let pending = &mut self.pending[source];
        let whole = bytes.iter().rposition(|&b| b == b'\n').map_or(0, |end| end + 1);
        if whole > 0 {
            if pending.is_empty() {
                write(&bytes[..whole]);
            } else {
                pending.extend_from_slice(&bytes[..whole]);
                write(pending);
                pending.clear();
            }
            self.open = None;
        }
        pending.extend_from_slice(&bytes[whole..]);
        if pending.len() > LONGEST || self.open == Some(source) && !pending.is_empty() {
            write(pending);
            pending.clear();
            self.open = Some(source);
        }
    }

    /// The source has ended: hands on what it left without a line end, as it is.
    pub fn finish(&mut self, source: usize, mut write: impl FnMut(&[u8])) {
        let pending = std::mem::take(&mut self.pending[source]);
        if !pending.is_empty() {
            write(&pending);
        }
        if self.open == Some(source) {
            self.open = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_is_written_when_it_is_whole() {
        let mut mixer = LineMixer::new(2);
        let mut out = Vec::new();
        mixer.push(0, b"one", |b| out.extend_from_slice(b));
        mixer.push(1, b"two\nth", |b| out.extend_from_slice(b));
        mixer.push(0, b" half\n", |b| out.extend_from_slice(b));
        mixer.push(1, b"ree", |b| out.extend_from_slice(b));
        mixer.finish(1, |b| out.extend_from_slice(b));
        mixer.finish(0, |b| out.extend_from_slice(b));
        assert_eq!(out, b"two\none half\nthree");
    }

    #[test]
    fn a_very_long_line_holds_the_others_back_instead_of_growing() {
        let mut mixer = LineMixer::new(2);
        let mut out = Vec::new();
        let long = vec![b'x'; LONGEST + 1];
        mixer.push(0, &long, |b| out.extend_from_slice(b));
        assert_eq!(out.len(), long.len());
        assert!(mixer.ready(0) && !mixer.ready(1));
        mixer.push(0, b"end\nnext", |b| out.extend_from_slice(b));
        assert!(mixer.ready(1));
        assert!(out.ends_with(b"end\n"));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn lines_come_out_whole_and_in_order(pieces in prop::collection::vec((0usize..3, 0usize..20), 0..100)) {
            let mut mixer = LineMixer::new(3);
            let mut sent: Vec<Vec<u8>> = vec![Vec::new(); 3];
            let mut out = Vec::new();
            for (source, len) in pieces {
                // Every line of a source consists of its digit.
                let mut piece = vec![b'0' + source as u8; len];
                if len % 3 == 0 {
                    piece.push(b'\n');
                }
                sent[source].extend_from_slice(&piece);
                mixer.push(source, &piece, |b| out.extend_from_slice(b));
            }
            for (source, text) in sent.iter_mut().enumerate() {
                mixer.push(source, b"\n", |b| out.extend_from_slice(b));
                text.push(b'\n');
            }
            for line in out.split(|&b| b == b'\n') {
                prop_assert!(line.windows(2).all(|pair| pair[0] == pair[1]));
            }
            for (source, text) in sent.iter().enumerate() {
                let digit = b'0' + source as u8;
                let count = |bytes: &[u8]| bytes.iter().filter(|&&b| b == digit).count();
                prop_assert_eq!(count(&out), count(text));
            }
        }
    }
}
