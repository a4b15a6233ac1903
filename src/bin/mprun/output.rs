//! The ranks' output on its way out.
//!
//! Writing may block, on a pager say, and signals, deaths and time limits must be seen meanwhile:
//! a thread of its own writes. When it is far behind, the ranks' output is left in their pipes,
//! so that they wait as they would have done for the pager itself.

use std::{
    io::{self, PipeReader, PipeWriter, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    thread::JoinHandle,
};

use onchip::launch::Stream;

/// Bytes that may wait for the writer.
const ROOM: usize = 1 << 20;

#[derive(Debug, Default)]
struct Progress {
    /// Bytes on their way.
    queued: AtomicUsize,
    /// Nobody reads standard output any more.
    closed: AtomicBool,
}

/// Where output goes. Dropping it does not wait for the writer: see [`Output::finish`].
#[derive(Debug)]
pub struct Output {
    queue: mpsc::Sender<(Stream, Vec<u8>)>,
    writer: JoinHandle<()>,
    progress: Arc<Progress>,
    tags: Option<Tags>,
}

impl Output {
    /// Output of `ranks` ranks; with `tags`, each line tells from which. The other thing
    /// returned becomes readable when there is room again, or no reader any more.
    pub fn start(ranks: usize, tags: bool) -> io::Result<(Self, PipeReader)> {
        let (queue, pieces) = mpsc::channel();
        let (news, told) = io::pipe()?;
        let progress = Arc::new(Progress::default());
        let its = Arc::clone(&progress);
        let writer = std::thread::Builder::new()
            .name("output".into())
            .spawn(move || write(pieces, &its, told))?;
        Ok((Self { queue, writer, progress, tags: tags.then(|| Tags::new(ranks)) }, news))
    }

    /// Takes a piece of a rank's output.
    pub fn take(&mut self, rank: usize, stream: Stream, bytes: &[u8]) {
        match &mut self.tags {
            Some(tags) => {
                let tagged = tags.tag(rank, stream, bytes);
                self.send(stream, tagged);
            }
            None => self.send(stream, bytes.to_vec()),
        }
    }

    /// A message of `mprun`'s own, behind the output taken so far.
    pub fn say(&mut self, message: &str) {
        self.send(Stream::Err, format!("mprun: {message}\n").into_bytes());
    }

    fn send(&self, stream: Stream, bytes: Vec<u8>) {
        self.progress.queued.fetch_add(bytes.len(), Ordering::Relaxed);
        // The writer ends after this sender only.
        let _ = self.queue.send((stream, bytes));
    }

    /// Whether more output should be taken now.
    pub fn has_room(&self) -> bool {
        self.progress.queued.load(Ordering::Relaxed) < ROOM
    }

    /// Whether standard output has lost its reader.
    pub fn closed(&self) -> bool {
        self.progress.closed.load(Ordering::Relaxed)
    }

    /// Waits until everything is written.
    pub fn finish(self) {
        drop(self.queue);
        let _ = self.writer.join();
    }
}

fn write(pieces: mpsc::Receiver<(Stream, Vec<u8>)>, progress: &Progress, mut told: PipeWriter) {
    for (stream, bytes) in pieces {
        let written = match stream {
            Stream::Out if progress.closed.load(Ordering::Relaxed) => Ok(()),
            Stream::Out => {
                let mut out = io::stdout().lock();
                out.write_all(&bytes).and_then(|()| out.flush())
            }
            // Without standard error there is nobody to tell anything.
            Stream::Err => {
                let _ = io::stderr().write_all(&bytes);
                Ok(())
            }
        };
        let before = progress.queued.fetch_sub(bytes.len(), Ordering::Relaxed);
        if written.is_err() {
            progress.closed.store(true, Ordering::Relaxed);
        }
        if written.is_err() || before >= ROOM && before - bytes.len() < ROOM {
            // Nobody listens any more once the ranks have ended.
            let _ = told.write_all(&[0]);
        }
    }
}

/// Puts `[rank]` before every line.
#[derive(Debug)]
struct Tags {
    width: usize,
    /// By stream: the last piece ended in the middle of a line.
    open: [bool; 2],
}

impl Tags {
    fn new(ranks: usize) -> Self {
        Self { width: ranks.saturating_sub(1).to_string().len(), open: [false; 2] }
    }

    fn tag(&mut self, rank: usize, stream: Stream, bytes: &[u8]) -> Vec<u8> {
        let open = &mut self.open[stream as usize];
        let mut tagged = Vec::with_capacity(bytes.len() + 64);
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            if !*open {
                tagged.extend_from_slice(format!("[{rank:>0$}] ", self.width).as_bytes());
            }
            tagged.extend_from_slice(line);
            *open = !line.ends_with(b"\n");
        }
        tagged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_gets_one_tag_however_it_comes() {
        let mut tags = Tags::new(11);
        let mut text = Vec::new();
        for (rank, piece) in
            [(3, "a\n\nb"), (3, "c"), (3, "d\n"), (10, "\n"), (10, ""), (10, "e\n")]
        {
            text.extend(tags.tag(rank, Stream::Out, piece.as_bytes()));
        }
        text.extend(tags.tag(0, Stream::Err, b"other stream\n"));
        let expected = "[ 3] a\n[ 3] \n[ 3] bcd\n[10] \n[10] e\n[ 0] other stream\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
        assert_eq!(Tags::new(1).tag(0, Stream::Out, b"x"), b"[0] x");
    }
}
