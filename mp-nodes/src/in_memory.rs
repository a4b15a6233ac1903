//! An interconnect of threads, for tests.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

use crate::{
    error::{Error, Result},
    interconnect::{Arrived, Bytes, Interconnect, check, check_lengths},
};

/// A message on its way.
#[derive(Debug)]
struct Letter {
    from: usize,
    tag: u32,
    bytes: Vec<u8>,
}

/// What the nodes share.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Runs,
    Ended,
    /// It was dropped without its end.
    Lost,
}

#[derive(Debug)]
struct State {
    /// The messages to each node.
    letters: Vec<VecDeque<Letter>>,
    /// The number of rounds of [`Interconnect::all_gather`] that are complete.
    rounds: u64,
    /// What each node gives to the current round.
    given: Vec<Option<Vec<u64>>>,
    /// What the nodes gave to the last complete round.
    gathered: Vec<Vec<u64>>,
    stages: Vec<Stage>,
    /// The node that has called `abort`, and the status.
    aborted: Option<(usize, i32)>,
}

/// Messages that are longer than this belong to the interconnect until they are received, as with an MPI library.
const LONG: usize = 4096;

/// One of several nodes that are threads of a process. A node that is dropped without [`end`](Interconnect::end) is lost.
///
/// ```
/// use mp_nodes::{Arrived, InMemory, Interconnect};
///
/// let mut nodes = InMemory::connect(2);
/// nodes[0].send(1, 7, Box::new(b"hello"))?;
/// assert_eq!(nodes[1].probe()?, Some(Arrived { from: 0, tag: 7, len: 5 }));
/// let mut text = [0; 5];
/// nodes[1].receive_into(&mut text)?;
/// assert_eq!(&text, b"hello");
/// # Ok::<(), mp_nodes::Error>(())
/// ```
#[derive(Debug)]
pub struct InMemory {
    node: usize,
    nodes: usize,
    /// Whether the next message was probed.
    probed: bool,
    /// The lost nodes that `probe` has told.
    told: Vec<usize>,
    shared: Arc<Shared>,
}

impl InMemory {
    /// Connects this many nodes.
    ///
    /// # Panics
    /// If there are to be no nodes.
    pub fn connect(nodes: usize) -> Vec<Self> {
        assert!(nodes > 0, "no nodes to connect");
        let state = State {
            letters: (0..nodes).map(|_| VecDeque::new()).collect(),
            rounds: 0,
            given: vec![None; nodes],
            gathered: Vec::new(),
            stages: vec![Stage::Runs; nodes],
            aborted: None,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        (0..nodes)
            .map(|node| Self {
                node,
                nodes,
                probed: false,
                told: Vec::new(),
                shared: Arc::clone(&shared),
            })
            .collect()
    }

    /// Returns the state, unless the nodes were aborted.
    fn state(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.locked();
        match state.aborted {
            Some((node, status)) => Err(Error::Aborted { node, status }),
            None => Ok(state),
        }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Interconnect for InMemory {
    fn node(&self) -> usize {
        self.node
    }

    fn nodes(&self) -> usize {
        self.nodes
    }

    fn send(&mut self, to: usize, tag: u32, bytes: Bytes) -> Result<()> {
        check(to, self.nodes, tag)?;
        let mut state = self.state()?;
        if state.stages[to] != Stage::Runs {
            return Err(Error::NodeLost { node: to });
        }
        let bytes = (*bytes).as_ref().to_vec();
        state.letters[to].push_back(Letter { from: self.node, tag, bytes });
        Ok(())
    }

    fn progress(&mut self) -> Result<usize> {
        let state = self.state()?;
        let is_pending = |letter: &&Letter| letter.from == self.node && letter.bytes.len() > LONG;
        Ok(state.letters.iter().flatten().filter(is_pending).count())
    }

    fn probe(&mut self) -> Result<Option<Arrived>> {
        let state = self.state()?;
        let arrived = state.letters[self.node].front().map(|letter| Arrived {
            from: letter.from,
            tag: letter.tag,
            len: letter.bytes.len(),
        });
        let new = |node: &usize| state.stages[*node] == Stage::Lost && !self.told.contains(node);
        let lost = (0..self.nodes).find(new);
        drop(state);
        self.probed = arrived.is_some();
        match lost {
            Some(node) if arrived.is_none() => {
                self.told.push(node);
                Err(Error::NodeLost { node })
            }
            _ => Ok(arrived),
        }
    }

    fn receive_into(&mut self, buffer: &mut [u8]) -> Result<()> {
        let mut state = self.state()?;
        let letters = &mut state.letters[self.node];
        let next = letters.front().filter(|_| self.probed).ok_or(Error::NothingArrived)?;
        let len = next.bytes.len();
        if len != buffer.len() {
            return Err(Error::WrongLength { len, buffer: buffer.len() });
        }
        buffer.copy_from_slice(&next.bytes);
        letters.pop_front();
        drop(state);
        self.probed = false;
        Ok(())
    }

    fn all_gather(&mut self, words: &[u64]) -> Result<Vec<u64>> {
        let mut state = self.state()?;
        let round = state.rounds;
        state.given[self.node] = Some(words.to_vec());
        if state.given.iter().all(Option::is_some) {
            state.gathered = state.given.iter_mut().filter_map(Option::take).collect();
            state.rounds += 1;
            self.shared.changed.notify_all();
        }
        while state.rounds == round {
            if let Some(node) = (0..self.nodes).find(|&node| state.stages[node] != Stage::Runs) {
                return Err(Error::NodeLost { node });
            }
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            if let Some((node, status)) = state.aborted {
                return Err(Error::Aborted { node, status });
            }
        }
        let lengths: Vec<u64> = state.gathered.iter().map(|words| words.len() as u64).collect();
        check_lengths(self.node, &lengths)?;
        Ok(state.gathered.concat())
    }

    /// Makes all further calls of all nodes return [`Aborted`](Error::Aborted), because threads can't be ended.
    fn abort(&mut self, status: i32) -> Result<()> {
        self.locked().aborted.get_or_insert((self.node, status));
        self.shared.changed.notify_all();
        Ok(())
    }

    fn end(mut self: Box<Self>) -> Result<()> {
        self.all_gather(&[])?;
        self.locked().stages[self.node] = Stage::Ended;
        Ok(())
    }
}

impl Drop for InMemory {
    fn drop(&mut self) {
        let stage = &mut self.locked().stages[self.node];
        if *stage == Stage::Runs {
            *stage = Stage::Lost;
        }
        self.shared.changed.notify_all();
    }
}
