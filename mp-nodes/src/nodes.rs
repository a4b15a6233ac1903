//! The nodes of a world, as one of them knows them.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    os::unix::fs::MetadataExt,
    sync::Arc,
};

use mp_core::{bridge::Bridge, topology::Allowance};

use crate::{
    error::{Error, Result},
    interconnect::Interconnect,
    service,
};

/// A node that has joined the others of a world. `mprun --nodes` is built on this: it launches the ranks of its node, and
/// serves them until all ranks of all nodes have ended.
#[derive(Debug)]
pub struct Nodes {
    connection: Box<dyn Interconnect>,
    /// The first rank of each node, and at the end the number of all ranks.
    pub(crate) first: Arc<[u32]>,
    /// How many threads work on this node, and how many on all nodes that have the same cores.
    working: [usize; 2],
    /// Whether the ranks are threads of this process.
    threads: bool,
    /// Whether a node was lost.
    lost: bool,
}

impl Nodes {
    /// Joins this node, which is to have so many ranks that are processes, with all other nodes. All of them must call this.
    ///
    /// # Errors
    /// Those of the interconnect; [`NoRanks`](Error::NoRanks) and [`OtherVersion`](Error::OtherVersion), at all nodes.
    pub fn join(connection: Box<dyn Interconnect>, ranks: usize) -> Result<Self> {
        Self::join_with(false, connection, ranks)
    }

    /// Joins this node, whose ranks are threads of this process or processes. All nodes must have ranks of the same kind.
    pub(crate) fn join_with(
        threads: bool,
        mut connection: Box<dyn Interconnect>,
        ranks: usize,
    ) -> Result<Self> {
        let cores = cores(connection.node());
        let words = connection.all_gather(&[ranks as u64, version(threads), cores])?;
        if let Err(error) = check(&words, version(threads)) {
            // All nodes find the same.
            connection.end()?;
            return Err(error);
        }
        let mut first = vec![0];
        for words in words.chunks_exact(3) {
            let next =
                first.last().map_or(0, |&last: &u32| u64::from(last)).saturating_add(words[0]);
            first.push(u32::try_from(next).unwrap_or(u32::MAX));
        }
        // Unless ranks work the relay, another thread does.
        let working = |words: &[u64]| words[0] as usize + usize::from(!threads);
        let sharers = words.chunks_exact(3).filter(|words| words[2] == cores);
        let working = [working(&[ranks as u64]), sharers.map(working).sum()];
        Ok(Self { connection, first: first.into(), working, threads, lost: false })
    }

    /// Returns the number of this node.
    pub fn node(&self) -> usize {
        self.connection.node()
    }

    /// Returns the first rank of each node, and at the end the number of all ranks.
    pub fn first(&self) -> Arc<[u32]> {
        Arc::clone(&self.first)
    }

    /// Returns how many threads work on this node, and how many on all nodes that have the same cores, as nodes of one
    /// machine may have.
    pub fn working(&self) -> [usize; 2] {
        self.working
    }

    /// Returns the number of all ranks.
    pub fn ranks(&self) -> usize {
        self.first.last().map_or(0, |&size| size as usize)
    }

    /// Tells the other nodes whether this one is ready to serve its ranks. Returns the first node that is not. All nodes must
    /// call this.
    ///
    /// # Errors
    /// Those of the interconnect.
    pub fn are_ready(&mut self, ready: bool) -> Result<Option<usize>> {
        let words = self.connection.all_gather(&[ready.into()])?;
        Ok(words.iter().position(|&ready| ready == 0))
    }

    /// Carries what the ranks of this node and those of other nodes send each other, until all of them have ended. Also
    /// returns the nodes, which can then [end](Self::end) or [abort](Self::abort).
    ///
    /// # Errors
    /// Those of the interconnect; [`NoFrame`](Error::NoFrame); [`World`](Error::World) if the memory of the world is broken.
    /// The ranks of all other nodes are then lost to those of this one.
    pub fn serve(self, bridge: Bridge) -> (Self, Result<()>) {
        let (connection, served) = service::serve(self.connection, bridge, self.threads);
        let lost = self.lost || matches!(served, Ok(true));
        (Self { connection, lost, ..self }, served.map(drop))
    }

    /// Ends the connection, when all nodes call this.
    ///
    /// # Errors
    /// Those of the interconnect, unless a node was lost before, which the ranks know.
    pub fn end(self) -> Result<()> {
        match self.connection.end() {
            Err(Error::NodeLost { .. }) if self.lost => Ok(()),
            ended => ended,
        }
    }

    /// Ends the processes of all nodes, because this one can't go on.
    ///
    /// # Errors
    /// Those of the interconnect.
    pub fn abort(mut self, status: i32) -> Result<()> {
        self.connection.abort(status)
    }
}

/// Checks what the nodes have said: the number of their ranks, their version, and their cores.
fn check(words: &[u64], version: u64) -> Result<()> {
    for (node, words) in words.chunks_exact(3).enumerate() {
        if words[1] != version {
            return Err(Error::OtherVersion { node });
        }
        if words[0] == 0 {
            return Err(Error::NoRanks { node });
        }
    }
    Ok(())
}

/// Changes when relays no longer understand those of an older version.
const PROTOCOL: u32 = 7;

/// Returns a number that differs between versions whose relays do not understand each other, and between kinds of ranks.
fn version(threads: bool) -> u64 {
    let mut hash = DefaultHasher::new();
    (env!("CARGO_PKG_VERSION"), PROTOCOL, threads).hash(&mut hash);
    hash.finish()
}

/// Returns a number that is the same for nodes that have the same cores of a machine, and the same limit on their use, if
/// there is one. A node that does not know what it has counts as alone.
fn cores(node: usize) -> u64 {
    let mut hash = DefaultHasher::new();
    let machine = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    let allowance = Allowance::read().ok();
    let group = || {
        let names = std::fs::read_to_string("/proc/self/cgroup").ok();
        // In a container, the names of all groups may look the same.
        (names, std::fs::metadata("/sys/fs/cgroup").ok().map(|root| root.ino()))
    };
    match (machine, allowance.and_then(|of| Some((of.affinity?.to_string(), of.quota.is_some())))) {
        (Ok(machine), Some((cpus, limited))) => {
            (machine, cpus, limited.then(group)).hash(&mut hash)
        }
        _ => node.hash(&mut hash),
    }
    hash.finish()
}
