//! The same algorithms on real threads: MPBs of locked memory, operations that block inside `poll`.

use std::sync::{Condvar, Mutex};
use std::thread;

use mp_collectives::broadcast::{Leaves, OcBcast, Options, binomial, scatter_allgather};
use mp_collectives::two_sided::TwoSided;
use mp_model::mpb::{Line, Misfit, Mpb, check_lines, complete, lines_of};

const LINES: usize = 64;
const LINE_BYTES: usize = 64;

/// One rank's memory, and what is told of a change in it.
struct Buffer {
    bytes: Mutex<Vec<u8>>,
    changed: Condvar,
}

struct Locked<'a> {
    rank: usize,
    buffers: &'a [Buffer],
}

impl Locked<'_> {
    fn copy(&self, from: Line, count: usize, to: Line) -> Result<(), Misfit> {
        let mut bytes = vec![0; count * LINE_BYTES];
        self.read(from, &mut bytes)?;
        self.write(to, &bytes)
    }

    fn at(&self, at: Line, bytes: usize) -> Result<(&Buffer, std::ops::Range<usize>), Misfit> {
        let ranks = self.buffers.len();
        let buffer = self.buffers.get(at.rank).ok_or(Misfit::Rank { rank: at.rank, ranks })?;
        check_lines(at.line, lines_of(bytes, LINE_BYTES), LINES)?;
        let start = at.line * LINE_BYTES;
        Ok((buffer, start..start + bytes))
    }

    fn read(&self, from: Line, target: &mut [u8]) -> Result<(), Misfit> {
        let (buffer, range) = self.at(from, target.len())?;
        target.copy_from_slice(&buffer.bytes.lock().unwrap()[range]);
        Ok(())
    }

    fn write(&self, to: Line, source: &[u8]) -> Result<(), Misfit> {
        let (buffer, range) = self.at(to, source.len())?;
        buffer.bytes.lock().unwrap()[range].copy_from_slice(source);
        buffer.changed.notify_all();
        Ok(())
    }
}

impl Mpb for Locked<'_> {
    type Error = Misfit;

    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.buffers.len()
    }

    fn lines(&self) -> usize {
        LINES
    }

    fn line_bytes(&self) -> usize {
        LINE_BYTES
    }

    async fn put(&mut self, source: &[u8], to: Line) -> Result<(), Misfit> {
        self.write(to, source)
    }

    async fn put_own(&mut self, from: usize, count: usize, to: Line) -> Result<(), Misfit> {
        self.copy(Line { rank: self.rank, line: from }, count, to)
    }

    async fn get(&mut self, from: Line, target: &mut [u8]) -> Result<(), Misfit> {
        self.read(from, target)
    }

    async fn get_own(&mut self, from: Line, count: usize, to: usize) -> Result<(), Misfit> {
        self.copy(from, count, Line { rank: self.rank, line: to })
    }

    async fn set_flag(&mut self, flag: Line, value: u64) -> Result<(), Misfit> {
        self.write(flag, &value.to_le_bytes())
    }

    async fn flag(&mut self, line: usize) -> Result<u64, Misfit> {
        self.wait_flag(line, |_| true).await
    }

    async fn wait_flag(
        &mut self,
        line: usize,
        reached: impl Fn(u64) -> bool,
    ) -> Result<u64, Misfit> {
        let (buffer, range) = self.at(Line { rank: self.rank, line }, size_of::<u64>())?;
        let mut bytes = buffer.bytes.lock().unwrap();
        loop {
            let value = u64::from_le_bytes(bytes[range.clone()].try_into().unwrap());
            if reached(value) {
                return Ok(value);
            }
            bytes = buffer.changed.wait(bytes).unwrap();
        }
    }
}

fn on_threads(ranks: usize, algorithm: impl AsyncFn(&mut Locked<'_>) + Sync) {
    let buffer =
        |_| Buffer { bytes: Mutex::new(vec![0; LINES * LINE_BYTES]), changed: Condvar::new() };
    let buffers: Vec<_> = (0..ranks).map(buffer).collect();
    thread::scope(|scope| {
        for rank in 0..ranks {
            let (buffers, algorithm) = (&buffers[..], &algorithm);
            scope.spawn(move || complete(algorithm(&mut Locked { rank, buffers })));
        }
    });
}

#[test]
fn broadcasts_of_changing_roots() {
    for ranks in [1, 2, 3, 7] {
        for leaves in [Leaves::ByMpb, Leaves::Direct] {
            on_threads(ranks, async |mpb| {
                let degree = 2.min(ranks - 1).max(1);
                let options = Options { degree, chunk_lines: 4, buffers: 2, leaves, first_line: 0 };
                let mut oc_bcast = OcBcast::numbered_from(mpb, options, u32::MAX - 99).unwrap();
                let mut messages = TwoSided::new(mpb, 32, 8).unwrap();
                for round in 0..300 {
                    let (root, length) = ((round / 3) % ranks, (round * 131) % 2_500);
                    let sent: Vec<_> = (0..length).map(|index| (index + round) as u8).collect();
                    let start = |rank| if rank == root { sent.clone() } else { vec![0; length] };
                    let mut got = start(mpb.rank());
                    oc_bcast.broadcast(mpb, &mut got, root).await.unwrap();
                    assert_eq!(got, sent, "round {round}");
                    got = start(mpb.rank());
                    binomial(&mut messages, mpb, &mut got, root).await.unwrap();
                    assert_eq!(got, sent, "round {round}");
                    got = start(mpb.rank());
                    scatter_allgather(&mut messages, mpb, &mut got, root).await.unwrap();
                    assert_eq!(got, sent, "round {round}");
                }
            });
        }
    }
}
