//! `mprun --nodes`: the thread that connects this `mprun` to those of the other nodes.
//!
//! All calls of the MPI library are made in that thread. It carries what ranks of several nodes send each other, while the
//! main thread watches the ranks of this node. When all ranks of all nodes have ended, it waits for the main thread, which
//! says what there is to say first: `mpiexec` may end the other processes when one exits with a status that is not 0.

use std::{
    fmt,
    io::{self, PipeReader},
    os::fd::{AsFd, BorrowedFd},
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    thread::JoinHandle,
};

use mp_nodes::{Bridge, Engine, Nodes};

use crate::{shown::OWN_FAILURE, signals::delivered_meanwhile};

type Outcome<T> = Result<T, mp_nodes::Error>;

/// What this node is among the nodes.
#[derive(Debug)]
pub struct Place {
    pub node: usize,
    /// The first rank of each node, and at the end the number of all ranks.
    pub first: Arc<[u32]>,
    /// How many threads work on this node, and how many on all nodes that have the same cores.
    pub working: [usize; 2],
}

/// The other nodes, as the main thread knows them.
#[derive(Debug)]
pub struct Between {
    /// Takes the bridge to the ranks of this node, or nothing if they could not be started.
    bridge: Sender<Option<Bridge>>,
    /// The first node that is not ready.
    ready: Receiver<Outcome<Option<usize>>>,
    /// What has come of the service.
    served: Receiver<Outcome<()>>,
    /// Can be read when the service is over, however it has ended.
    over: PipeReader,
    end: Sender<()>,
    thread: JoinHandle<Outcome<()>>,
}

/// Why the ranks can't be served.
#[derive(Debug)]
pub enum Failed {
    /// What connects the nodes has failed.
    Nodes(mp_nodes::Error),
    /// This mprun is alone, and this variable says of how many it is one.
    Alone(&'static str, usize),
    /// Another node has not started its ranks.
    NotReady(usize),
    /// The thread has panicked or could not be started.
    Thread(io::Error),
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nodes(error) => error.fmt(f),
            Self::Alone(variable, processes) => write!(
                f,
                "this mprun has found no other one, although {variable} says that it is one of {processes}: the MPI \
                 library is not that of the mpiexec or srun that has started it. Set ONCHIP_MPI to the file libmpi_abi.so \
                 of that one"
            ),
            Self::NotReady(node) => write!(
                f,
                "node {node} could not start its ranks, and has said why: the ranks of this node were ended"
            ),
            Self::Thread(error) => {
                write!(f, "the thread that serves the other nodes failed: {error}")
            }
        }
    }
}

impl From<mp_nodes::Error> for Failed {
    fn from(error: mp_nodes::Error) -> Self {
        Self::Nodes(error)
    }
}

impl Between {
    /// Joins this node, with so many ranks, with all others.
    pub fn join(ranks: usize) -> Result<(Self, Place), Failed> {
        let (joined_to, joined) = channel();
        let (bridge, bridge_of) = channel();
        let (ready_to, ready) = channel();
        let (served_to, served) = channel();
        let (end, ended) = channel();
        let (over, over_to) = io::pipe().map_err(Failed::Thread)?;
        let thread = move || {
            let nodes = Engine::start().and_then(|engine| Nodes::join(engine, ranks));
            let mut nodes = match nodes {
                Ok(nodes) => nodes,
                Err(error) => {
                    let _ = joined_to.send(Err(error));
                    return Ok(());
                }
            };
            let (node, first, working) = (nodes.node(), nodes.first(), nodes.working());
            let _ = joined_to.send(Ok(Place { node, first, working }));
            let bridge: Option<Bridge> = bridge_of.recv().ok().flatten();
            let all = nodes.are_ready(bridge.is_some());
            let (are_ready, mut is_well) = (matches!(all, Ok(None)), all.is_ok());
            let _ = ready_to.send(all);
            if let Some(bridge) = bridge.filter(|_| are_ready) {
                let served;
                (nodes, served) = nodes.serve(bridge);
                is_well = served.is_ok();
                let _ = served_to.send(served);
            }
            // Its end is what the main thread hears of.
            drop(over_to);
            let _ = ended.recv();
            match is_well {
                true => nodes.end(),
                false => nodes.abort(OWN_FAILURE.into()),
            }
        };
        let thread = std::thread::Builder::new().name("nodes".into()).spawn(thread);
        let thread = thread.map_err(Failed::Thread)?;
        let between = Self { bridge, ready, served, over, end, thread };
        // Another node may never come.
        match delivered_meanwhile(|| joined.recv()) {
            Ok(place) => {
                let place = place?;
                let started =
                    COUNTS.into_iter().find_map(count_of).filter(|_| place.first.len() == 2);
                let Some((variable, processes)) = started else { return Ok((between, place)) };
                between.give_up();
                between.end()?;
                Err(Failed::Alone(variable, processes))
            }
            Err(_) => Err(between.panicked()),
        }
    }

    /// Tells the other nodes that this one has started its ranks. From then on, they are served.
    pub fn serve(&self, bridge: Bridge) -> Result<(), Failed> {
        let _ = self.bridge.send(Some(bridge));
        match self.ready.recv() {
            Ok(Ok(None)) => Ok(()),
            Ok(Ok(Some(node))) => Err(Failed::NotReady(node)),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(panicked()),
        }
    }

    /// Tells the other nodes that this one could not start its ranks.
    pub fn give_up(&self) {
        let _ = self.bridge.send(None);
        // The others' answers do not matter.
        let _ = self.ready.recv();
    }

    /// Returns what can be read when the service is over, however it has ended.
    pub fn over(&self) -> BorrowedFd<'_> {
        self.over.as_fd()
    }

    /// Waits until the ranks of all nodes have ended.
    pub fn finish(&self) -> Result<(), Failed> {
        self.served.recv().map_err(|_| panicked())?.map_err(Failed::from)
    }

    /// Ends together with the other nodes.
    pub fn end(self) -> Result<(), Failed> {
        let _ = self.end.send(());
        self.thread.join().map_err(|_| panicked())?.map_err(Failed::from)
    }

    fn panicked(self) -> Failed {
        // The message of the panic was written.
        let _ = self.thread.join();
        panicked()
    }
}

/// The variables in which MPICH's `mpiexec`, Open MPI's and Slurm's `srun` say how many processes they start.
const COUNTS: [&str; 3] = ["PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"];

/// Returns the variable and its number, if it is more than one.
fn count_of(variable: &'static str) -> Option<(&'static str, usize)> {
    let count = std::env::var(variable).ok()?.parse().ok()?;
    (count > 1).then_some((variable, count))
}

fn panicked() -> Failed {
    Failed::Thread(io::Error::other("it panicked"))
}
