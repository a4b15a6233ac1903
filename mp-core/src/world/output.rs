//! Output of process ranks, in whole lines.

/// The largest number of bytes of an unfinished line that are held back.
const LONGEST: usize = 1 << 20;

/// Assembles the pieces that come through pipes into lines, so that no line of one rank appears within a line of
/// another. A line that is too long to be held back is written in pieces. If another source writes in between, its line
/// begins on a new line, and so does the rest of the long line.
#[derive(Debug)]
pub struct LineMixer {
    /// For each source, the bytes after its last line end.
    pending: Vec<Vec<u8>>,
    longest: usize,
    /// The source whose last line was written without a line end, if it was the last to write.
    torn: Option<usize>,
}

impl LineMixer {
    /// Makes a mixer for `sources` pipes.
    pub fn new(sources: usize) -> Self {
        Self { pending: vec![Vec::new(); sources], longest: LONGEST, torn: None }
    }

    /// Takes bytes from a source. Passes to `write`, with the source, what may be written now: whole lines, or a piece
    /// of a very long line.
    pub fn push(&mut self, source: usize, bytes: &[u8], write: impl FnMut(usize, &[u8])) {
        let whole = bytes.iter().rposition(|&b| b == b'\n').map_or(0, |end| end + 1);
        let (lines, rest) = bytes.split_at(whole);
        let pending = &mut self.pending[source];
        if whole == 0 && pending.len() + rest.len() <= self.longest {
            pending.extend_from_slice(rest);
            return;
        }
        let mut ready = std::mem::take(pending);
        if whole == 0 {
            ready.extend_from_slice(rest);
        } else {
            ready.extend_from_slice(lines);
            pending.extend_from_slice(rest);
        }
        self.write(source, &ready, write);
    }

    /// Ends a source: passes its last line to `write`, if that had no line end.
    pub fn finish(&mut self, source: usize, write: impl FnMut(usize, &[u8])) {
        let rest = std::mem::take(&mut self.pending[source]);
        if !rest.is_empty() {
            self.write(source, &rest, write);
        }
    }

    /// Adds a line end if the last line was written by another source without one, and then writes the bytes.
    fn write(&mut self, source: usize, bytes: &[u8], mut write: impl FnMut(usize, &[u8])) {
        if let Some(torn) = self.torn.take().filter(|&torn| torn != source) {
            write(torn, b"\n");
        }
        write(source, bytes);
        self.torn = (!bytes.ends_with(b"\n")).then_some(source);
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
        mixer.push(0, b"one", |_, b| out.extend_from_slice(b));
        mixer.push(1, b"two\nth", |_, b| out.extend_from_slice(b));
        mixer.push(0, b" half\n", |_, b| out.extend_from_slice(b));
        mixer.push(1, b"ree", |_, b| out.extend_from_slice(b));
        mixer.finish(1, |_, b| out.extend_from_slice(b));
        mixer.finish(0, |_, b| out.extend_from_slice(b));
        assert_eq!(out, b"two\none half\nthree");
    }

    #[test]
    fn a_last_line_without_an_end_gets_one_when_another_follows() {
        let mut mixer = LineMixer::new(3);
        let mut out = Vec::new();
        mixer.push(0, b"a", |_, b| out.extend_from_slice(b));
        mixer.push(1, b"b", |_, b| out.extend_from_slice(b));
        mixer.finish(0, |_, b| out.extend_from_slice(b));
        mixer.finish(2, |_, b| out.extend_from_slice(b));
        assert_eq!(out, b"a");
        mixer.finish(1, |_, b| out.extend_from_slice(b));
        assert_eq!(out, b"a\nb");
        mixer.push(2, &vec![b'c'; LONGEST + 1], |_, b| out.extend_from_slice(b));
        assert!(out.starts_with(b"a\nb\nccc"));
        mixer.finish(2, |_, b| out.extend_from_slice(b));
        mixer.push(0, b"d\n", |_, b| out.extend_from_slice(b));
        assert!(out.ends_with(b"ccc\nd\n"));
        assert_eq!(out.iter().filter(|&&b| b == b'\n').count(), 4);
    }

    #[test]
    fn a_very_long_line_keeps_nobody_waiting() {
        let mut mixer = LineMixer::new(3);
        let mut out = Vec::new();
        let mut take = |source, bytes: &[u8]| out.push((source, bytes.len()));
        mixer.push(1, &vec![b'x'; LONGEST], &mut take);
        mixer.push(0, b"one\ntwo", &mut take);
        mixer.push(1, b"x", &mut take);
        // If no other source writes in between, the long line continues where it stopped.
        mixer.push(1, &vec![b'x'; LONGEST + 1], &mut take);
        mixer.push(2, b"three\n", &mut take);
        mixer.push(1, b"end\n", &mut take);
        mixer.finish(0, &mut take);
        let long = (1, LONGEST + 1);
        assert_eq!(out, [(0, 4), long, long, (1, 1), (2, 6), (1, 4), (0, 3)]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn lines_come_out_whole_and_in_order(pieces in prop::collection::vec((0usize..3, 0usize..20), 0..100)) {
            let mut mixer = LineMixer { longest: 1_000, ..LineMixer::new(3) };
            let mut sent: Vec<Vec<u8>> = vec![Vec::new(); 3];
            let mut out = Vec::new();
            for (source, len) in pieces {
                // Every line of a source consists of its digit. Some lines are too long to be held back.
                let len = if len == 19 { 1_001 } else { len };
                let mut piece = vec![b'0' + source as u8; len];
                if len.is_multiple_of(3) {
                    piece.push(b'\n');
                }
                sent[source].extend_from_slice(&piece);
                mixer.push(source, &piece, |_, b| out.extend_from_slice(b));
            }
            for (source, text) in sent.iter_mut().enumerate() {
                mixer.push(source, b"\n", |_, b| out.extend_from_slice(b));
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
