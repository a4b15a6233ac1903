//! The output of the ranks, and the messages of `mprun` itself.
//!
//! Writing may block, for example on a pager, and signals, deaths and time limits must be seen meanwhile. So separate
//! threads write. The messages of `mprun` do not wait for the ranks' output.

use std::{
    convert::Infallible,
    io::{self, Write},
    sync::mpsc::{self, Receiver, Sender},
    thread::JoinHandle,
    time::Duration,
};

use onchip::launch::{Launched, Piece, RanksOutput, Stream, come_soon};

/// The destination of output. Dropping it does not wait for the writers: see [`Output::finish`].
#[derive(Debug)]
pub struct Output {
    /// The name under which `mprun` says something.
    name: String,
    messages: Sender<String>,
    threads: Vec<JoinHandle<()>>,
    /// Closed when the ranks' output is written.
    written: Receiver<Infallible>,
}

impl Output {
    /// Starts writing the output of these ranks. With `tags`, each line says which rank it is from. `mprun` says what it has
    /// to say under this name.
    pub fn start(ranks: &mut Launched, tags: bool, name: String) -> io::Result<Self> {
        let (writing, written) = mpsc::channel();
        let mut threads = Vec::new();
        for stream in [Stream::Out, Stream::Err] {
            let Some(output) = ranks.take_output(stream) else { continue };
            let tags = tags.then(|| Tags::new(ranks.size()));
            let writing = writing.clone();
            threads.push(std::thread::Builder::new().name("output".into()).spawn(move || {
                write(output, tags);
                drop(writing);
            })?);
        }
        let (messages, to_say) = mpsc::channel::<String>();
        threads.push(std::thread::Builder::new().name("messages".into()).spawn(move || {
            come_soon();
            for message in to_say {
                // Without standard error there is no way to report anything.
                let _ = io::stderr().write_all(message.as_bytes());
            }
        })?);
        Ok(Self { name, messages, threads, written })
    }

    /// Writes a message in the name of `mprun`.
    pub fn say(&self, message: &str) {
        // The writer ends only after this sender is dropped, so the message arrives.
        let _ = self.messages.send(format!("{}: {message}\n", self.name));
    }

    /// Waits until all output of the ranks is written, but no longer than `limit`. The ranks must have ended.
    pub fn settle(&self, limit: Duration) {
        let _ = self.written.recv_timeout(limit);
    }

    /// Waits until all messages are written.
    pub fn finish(self) {
        drop(self.messages);
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

/// Writes the ranks' output up to its end, or until standard output has no reader any more. In that case the ranks see
/// the same closed pipe that they would see without `mprun`.
fn write(output: RanksOutput, mut tags: Option<Tags>) {
    for Piece { rank, stream, bytes } in output {
        let bytes = match &mut tags {
            Some(tags) => tags.tag(rank, &bytes),
            None => bytes,
        };
        let written = match stream {
            Stream::Out => {
                let mut out = io::stdout().lock();
                out.write_all(&bytes).and_then(|()| out.flush())
            }
            Stream::Err => {
                let _ = io::stderr().write_all(&bytes);
                Ok(())
            }
        };
        if written.is_err() {
            return;
        }
    }
}

/// Puts `[rank]` before every line of a stream.
#[derive(Debug)]
struct Tags {
    width: usize,
    /// Whether the last piece ended in the middle of a line.
    open: bool,
}

impl Tags {
    fn new(ranks: usize) -> Self {
        Self { width: ranks.saturating_sub(1).to_string().len(), open: false }
    }

    fn tag(&mut self, rank: usize, bytes: &[u8]) -> Vec<u8> {
        let open = &mut self.open;
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
            text.extend(tags.tag(rank, piece.as_bytes()));
        }
        let expected = "[ 3] a\n[ 3] \n[ 3] bcd\n[10] \n[10] e\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
        assert_eq!(Tags::new(1).tag(0, b"x"), b"[0] x");
    }
}
