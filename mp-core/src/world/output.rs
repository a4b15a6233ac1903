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
    /// The source whose last line was handed on without an end.
    torn: Option<usize>,
    /// Sources that ended while another one had the output to itself.
    finished: Vec<usize>,
}

impl LineMixer {
    /// For `sources` pipes.
    pub fn new(sources: usize) -> Self {
        Self { pending: vec![Vec::new(); sources], open: None, torn: None, finished: Vec::new() }
    }

    /// The source in the middle of a very long line, which keeps the others back.
    pub fn open(&self) -> Option<usize> {
        self.open
    }

    /// Whether more from this source could be forwarded now. A source that is not ready should
    /// not be read: its pipe holds it back.
    pub fn ready(&self, source: usize) -> bool {
        self.open.is_none_or(|open| open == source)
    }

    /// Takes what came from a source and hands on what may be written now, with its source.
    /// Everything handed on ends with a line end, except pieces of a very long line.
    pub fn push(&mut self, source: usize, bytes: &[u8], mut write: impl FnMut(usize, &[u8])) {
        self.pending[source].extend_from_slice(bytes);
        if self.ready(source) {
            self.hand_on(source, &mut write);
            self.catch_up(&mut write);
        }
    }

    /// The source has ended: hands on what it left without a line end, as it is. Should another
    /// source write after it, that one's line begins on a line of its own.
    pub fn finish(&mut self, source: usize, mut write: impl FnMut(usize, &[u8])) {
        self.end(source, &mut write);
    }

    fn end(&mut self, source: usize, write: &mut dyn FnMut(usize, &[u8])) {
        if !self.ready(source) {
            self.finished.push(source);
            return;
        }
        self.hand_on(source, write);
        let rest = std::mem::take(&mut self.pending[source]);
        if !rest.is_empty() {
            self.write(source, &rest, write);
            self.torn = Some(source);
        }
        if self.open.take_if(|open| *open == source).is_some() {
            self.torn = Some(source);
        }
        self.catch_up(write);
    }

    /// Hands on a source's whole lines, and the rest of a very long one.
    fn hand_on(&mut self, source: usize, write: &mut dyn FnMut(usize, &[u8])) {
        let mut pending = std::mem::take(&mut self.pending[source]);
        let mut whole = pending.iter().rposition(|&b| b == b'\n').map_or(0, |end| end + 1);
        if whole > 0 {
            self.open = None;
        }
        let rest = pending.len() - whole;
        if rest > LONGEST || self.open == Some(source) {
            whole = pending.len();
            self.open = Some(source);
        }
        if whole > 0 {
            self.write(source, &pending[..whole], write);
        }
        pending.drain(..whole);
        self.pending[source] = pending;
    }

    /// Hands on what was pushed while another source had the output to itself.
    fn catch_up(&mut self, write: &mut dyn FnMut(usize, &[u8])) {
        for source in 0..self.pending.len() {
            if self.ready(source) && self.pending[source].contains(&b'\n') {
                self.hand_on(source, write);
            }
        }
        while self.open.is_none()
            && let Some(source) = self.finished.pop()
        {
            self.end(source, write);
        }
    }

    /// Writes lines, behind the line end that another source's last one lacks.
    fn write(&mut self, source: usize, lines: &[u8], write: &mut dyn FnMut(usize, &[u8])) {
        if let Some(torn) = self.torn.take().filter(|&torn| torn != source) {
            write(torn, b"\n");
        }
        write(source, lines);
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
    fn what_comes_in_the_middle_of_a_long_line_waits_for_its_end() {
        let mut mixer = LineMixer::new(3);
        let mut out = Vec::new();
        let mut take = |source, bytes: &[u8]| out.push((source, bytes.len()));
        mixer.push(1, &vec![b'x'; LONGEST + 1], &mut take);
        mixer.push(0, b"one\ntwo", &mut take);
        mixer.finish(0, &mut take);
        mixer.push(2, b"three\n", &mut take);
        mixer.push(1, b"end\n", &mut take);
        assert_eq!(out, [(1, LONGEST + 1), (1, 4), (0, 4), (2, 6), (0, 3)]);
    }

    #[test]
    fn a_very_long_line_holds_the_others_back_instead_of_growing() {
        let mut mixer = LineMixer::new(2);
        let mut out = Vec::new();
        let long = vec![b'x'; LONGEST + 1];
        mixer.push(0, &long, |_, b| out.extend_from_slice(b));
        assert_eq!(out.len(), long.len());
        assert!(mixer.ready(0) && !mixer.ready(1));
        mixer.push(0, b"end\nnext", |_, b| out.extend_from_slice(b));
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
                // Some are too long to be held back.
                let len = if len == 19 { LONGEST + 1 } else { len };
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
