//! A node that fails.

use mp_nodes::{Arrived, Bytes, InMemory, Interconnect, Result};

/// A connection that sends this number of messages and then fails, as if its node had crashed.
#[derive(Debug)]
pub struct Failing(pub InMemory, pub usize);

impl Interconnect for Failing {
    fn node(&self) -> usize {
        self.0.node()
    }

    fn nodes(&self) -> usize {
        self.0.nodes()
    }

    fn send(&mut self, to: usize, tag: u32, bytes: Bytes) -> Result<()> {
        let failed = || mp_nodes::Error::Engine { call: "MPI_Isend", text: "a test".to_owned() };
        self.1 = self.1.checked_sub(1).ok_or_else(failed)?;
        self.0.send(to, tag, bytes)
    }

    fn progress(&mut self) -> Result<usize> {
        self.0.progress()
    }

    fn probe(&mut self) -> Result<Option<Arrived>> {
        self.0.probe()
    }

    fn receive_into(&mut self, buffer: &mut [u8]) -> Result<()> {
        self.0.receive_into(buffer)
    }

    fn all_gather(&mut self, words: &[u64]) -> Result<Vec<u64>> {
        self.0.all_gather(words)
    }

    fn abort(&mut self, status: i32) -> Result<()> {
        self.0.abort(status)
    }

    fn end(self: Box<Self>) -> Result<()> {
        Box::new(self.0).end()
    }
}
