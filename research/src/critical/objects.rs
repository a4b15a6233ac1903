//! Protected objects in simulated words: each access to an object costs what its line costs the core that executes the
//! operation.

use mp_delegate::critical::internals::{AnyWord, BLOCK};
use mp_model::Time;

use super::cores::{Core, LINE};

/// The kind of object that is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// A counter. Each operation returns its value and adds 1 to it.
    Counter,
    /// 64 counters. An operation adds 1 to one counter after another, this many times (T 6.2.3, 7.2.2).
    Counters {
        /// The number of increments.
        times: u32,
    },
    /// A linked list; clients alternate between push and pop.
    Stack,
    /// Michael's and Scott's queue; clients alternate between enqueue and dequeue, in one critical section.
    Queue,
    /// The same queue with a critical section at each end.
    TwoLockQueue,
}

/// Stands for the operation that takes a value out. Any other number puts itself in.
pub(super) const TAKE: u64 = 0;

/// The number of counters of an array (T 6.2.3).
const COUNTERS: usize = 64;

impl Task {
    /// Returns how many critical sections the object has.
    pub(super) fn sections(self) -> usize {
        if self == Task::TwoLockQueue { 2 } else { 1 }
    }

    /// Returns in which critical section a client's operation number `number` is executed, and its argument.
    pub(super) fn operation(self, client: usize, number: u64) -> (usize, u64) {
        let value = (client as u64 + 1) << 24 | (number + 1);
        match self {
            Task::Counter | Task::Counters { .. } => (0, 1),
            _ if number % 2 == 1 => (self.sections() - 1, TAKE),
            _ => (0, value),
        }
    }

    /// Returns the object's number of words, for so many elements at once.
    pub(super) fn words(self, elements: usize) -> usize {
        match self {
            Task::Counter => BLOCK,
            Task::Counters { .. } => COUNTERS,
            Task::Stack | Task::Queue | Task::TwoLockQueue => NODES + elements * LINE,
        }
    }

    /// Executes an operation.
    pub(super) fn execute(self, place: &Place<'_>, op: u64) -> u64 {
        match self {
            Task::Counter => place.word(0).increase(op),
            Task::Counters { times } => {
                for time in 0..times as usize {
                    place.word(time % COUNTERS).increase(op);
                    place.core.engine.compute(place.increment);
                }
                0
            }
            Task::Stack => place.stack(op),
            Task::Queue | Task::TwoLockQueue => place.queue(op),
        }
    }

    /// Returns the values in the object, each once. No client may use it at the same time.
    pub(super) fn content(self, place: impl Fn(usize) -> u64) -> Vec<u64> {
        let field = |node: u64, field| place(NODES + node as usize * LINE + field);
        let mut node = match self {
            Task::Counter | Task::Counters { .. } => return Vec::new(),
            Task::Stack => place(TOP),
            Task::Queue | Task::TwoLockQueue => field(place(HEAD), NEXT),
        };
        let mut values = Vec::new();
        while node != 0 {
            values.push(field(node, VALUE));
            node = field(node, NEXT);
        }
        values
    }
}

/// A stack's words: its first node, the first free node, and the nodes that were never used.
const TOP: usize = 0;
const FREE: usize = 1;
const USED: usize = 2;
/// A queue's words: its first node, whose value was taken, its last one, and the nodes that were used.
const HEAD: usize = 0;
const TAIL: usize = BLOCK;
const MADE: usize = BLOCK + 1;
/// The nodes, which have a line each. Number 0 is a stack's end, and a queue's first dummy.
const NODES: usize = 2 * BLOCK;
const VALUE: usize = 0;
const NEXT: usize = 1;

/// The place of the object, and the core that uses it.
pub(super) struct Place<'e> {
    pub(super) core: Core<'e>,
    pub(super) first: usize,
    pub(super) elements: usize,
    /// The cost of an increment in addition to its line.
    pub(super) increment: Time,
}

impl<'e> Place<'e> {
    fn word(&self, index: usize) -> &'e super::cores::SimulatedWord<'e> {
        self.core.at(self.first + index)
    }

    fn node(&self, node: u64, field: usize) -> &'e super::cores::SimulatedWord<'e> {
        self.word(NODES + node as usize * LINE + field)
    }

    fn stack(&self, op: u64) -> u64 {
        let top = self.word(TOP).load();
        if op == TAKE {
            if top == 0 {
                return 0;
            }
            let value = self.node(top, VALUE).load();
            self.word(TOP).store(self.node(top, NEXT).load());
            self.node(top, NEXT).store(self.word(FREE).load());
            self.word(FREE).store(top);
            return value;
        }
        let mut node = self.word(FREE).load();
        if node == 0 {
            node = self.word(USED).increase(1) + 1;
        } else {
            self.word(FREE).store(self.node(node, NEXT).load());
        }
        self.node(node, VALUE).store(op);
        self.node(node, NEXT).store(top);
        self.word(TOP).store(node);
        0
    }

    /// The nodes are used in a circle that is longer than the queue ever becomes, so they become free in the same
    /// order.
    fn queue(&self, op: u64) -> u64 {
        if op == TAKE {
            let dummy = self.word(HEAD).load();
            let first = self.node(dummy, NEXT).load();
            if first == 0 {
                return 0;
            }
            let value = self.node(first, VALUE).load();
            self.word(HEAD).store(first);
            return value;
        }
        let node = self.word(MADE).increase(1) % (self.elements as u64 - 1) + 1;
        self.node(node, VALUE).store(op);
        self.node(node, NEXT).store(0);
        self.node(self.word(TAIL).load(), NEXT).store(node);
        self.word(TAIL).store(node);
        0
    }

    /// Adds with the processor's own instruction, without a critical section.
    pub(super) fn fetch_add(&self) -> u64 {
        self.word(0).fetch_add(1)
    }
}
