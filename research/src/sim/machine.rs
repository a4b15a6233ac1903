//! The machines that can be simulated.

use std::cmp::Ordering;

use thiserror::Error;

use crate::scc::{self, Parameters};
use mp_model::Time;

/// A machine: the places of its cores, and the costs of accesses.
///
/// The costs have the form of the SCC's (formulas 4.1–4.12): an overhead, and a cost for each hop. The layout defines
/// what a hop is: a router on a mesh, or a unit of distance between caches.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// The places of cores, MPBs and memory.
    pub layout: Layout,
    /// Returns the number of cache lines in each MPB.
    pub lines: usize,
    /// Bytes in a cache line, at least 8.
    pub line_bytes: usize,
    /// The costs of reading, writing and moving.
    pub costs: Parameters,
    /// The capacity of an MPB's port.
    pub port: Port,
    /// The costs of interrupts.
    pub interrupts: InterruptCosts,
    /// The size of a core's cache, which holds the private memory that the core put or got last. A put from there reads
    /// without cost (section 4.2). Like caches, it works by address.
    pub cache_bytes: usize,
}

/// The arrangement of cores, MPBs and memory.
#[derive(Clone, Debug, PartialEq)]
pub enum Layout {
    /// Tiles on a mesh with X-Y routing, row by row, several cores to a tile.
    Mesh {
        /// Tiles in a row.
        width: usize,
        /// Rows.
        height: usize,
        /// Cores on each tile.
        cores_per_tile: usize,
        /// The tiles (x, y) whose routers have a memory controller. A core's private memory is at the nearest of them,
        /// or at the first of several nearest ones.
        controllers: Vec<(usize, usize)>,
    },
    /// A hierarchy of caches.
    Caches {
        /// From the innermost level to the outermost, which is the whole machine.
        levels: Vec<Sharing>,
        /// The distance of private memory.
        memory_hops: u64,
    },
}

impl Layout {
    /// Returns the layout of a machine of any number of cores, which share one cache.
    pub fn shared(cores: usize) -> Layout {
        Layout::Caches { levels: vec![Sharing { cores, hops: 3 }], memory_hops: 2 }
    }
}

/// A level of a cache hierarchy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// The number of cores that share a cache of this level.
    pub cores: usize,
    /// The distance of these cores from each other's MPBs.
    pub hops: u64,
}

/// The capacity of an MPB: a rate of lines, and a number of lines at once.
///
/// Lines that arrive faster wait, first come first served. The number at once exists because accesses in the rhythm of
/// their own round trips often coincide, and on the SCC that delays no access until there are too many on average.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// The work for a line that is read.
    pub read: Time,
    /// The work for a line that is written.
    pub write: Time,
    /// The amount of unfinished work that an access may find without having to wait.
    pub slack: Time,
}

/// The costs of interrupts by a controller outside of the chip, as on the SCC (thesis, section 3.3.4).
///
/// Its registers are accessed one after another: once for each request of a sender, and once each time that an
/// interrupted core reads and resets its status. The rest is latency, which is the same for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterruptCosts {
    /// The time from the request to the arrival at the interrupted core, without other requests.
    pub delivery: Time,
    /// The controller's work for an access to its registers.
    pub access: Time,
    /// The amount of unfinished work that an access may find there without having to wait.
    pub slack: Time,
    /// The number of ranks that one request can interrupt, which is the number of bits of a mask.
    pub mask: usize,
    /// The software's cost of the way from the kernel's handler to the program's and back. It is paid once for any
    /// number of arrived interrupts.
    pub software: Time,
}

/// The reason why a machine can't be simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MachineError {
    /// It has no cores, or more than can be counted.
    #[error("a machine needs between 1 and usize::MAX cores")]
    Cores,
    /// It has a mesh without a memory controller.
    #[error("a mesh without a memory controller")]
    NoController,
    /// A controller that is not on the mesh.
    #[error("a memory controller at ({x}, {y}), on a mesh of {width} × {height} tiles")]
    ControllerOutside {
        /// Its column.
        x: usize,
        /// Its row.
        y: usize,
        /// Columns.
        width: usize,
        /// Rows.
        height: usize,
    },
    /// A level's groups do not consist of whole groups of the level below.
    #[error("{cores} cores share a cache, which is no multiple of {below}")]
    Levels {
        /// Cores of the level.
        cores: usize,
        /// Cores of the level below.
        below: usize,
    },
    /// A flag does not fit in a line.
    #[error("lines of {line_bytes} bytes; a flag needs 8")]
    LineTooShort {
        /// Bytes of a line.
        line_bytes: usize,
    },
    /// A request can't interrupt any rank, because masks have no bits.
    #[error("an interrupt's mask has no bits")]
    NoMask,
    /// The buffers are too large.
    #[error("buffers of {lines} lines of {line_bytes} bytes")]
    BufferTooLong {
        /// Lines of an MPB.
        lines: usize,
        /// Bytes of a line.
        line_bytes: usize,
    },
}

impl Machine {
    /// The Intel SCC (thesis, section 2.3): 48 cores on a mesh of 6 × 4 tiles, MPBs of 256 lines of
    /// 32 bytes, four memory controllers at the left and right ends of rows 0 and 2, the costs of
    /// table 4.1.
    pub fn scc() -> Machine {
        Machine {
            layout: Layout::Mesh {
                width: 6,
                height: 4,
                cores_per_tile: 2,
                controllers: vec![(0, 0), (5, 0), (0, 2), (5, 2)],
            },
            lines: scc::MPB_LINES as usize,
            line_bytes: scc::LINE_BYTES as usize,
            costs: Parameters::TABLE_4_1,
            port: Port::SCC,
            interrupts: InterruptCosts::SCC,
            // Half of a tile's L2 cache (section 4.2).
            cache_bytes: 128 << 10,
        }
    }

    /// Returns the number of cores.
    pub fn cores(&self) -> usize {
        match &self.layout {
            Layout::Mesh { width, height, cores_per_tile, .. } => {
                width.saturating_mul(*height).saturating_mul(*cores_per_tile)
            }
            Layout::Caches { levels, .. } => levels.last().map_or(0, |level| level.cores),
        }
    }

    /// Returns d, the distance of `core` from the MPB of `other`. On a mesh it is the number of routers passed: 1
    /// within a tile, including the own MPB.
    pub fn hops(&self, core: usize, other: usize) -> u64 {
        match &self.layout {
            Layout::Mesh { .. } => self.routers(self.tile(core), self.tile(other)),
            Layout::Caches { levels, .. } => levels
                .iter()
                .find(|level| core / level.cores == other / level.cores)
                .map_or(0, |level| level.hops),
        }
    }

    /// Returns the input of the router of `other` by which packets from `core` arrive: 0 is its own tile. With X-Y
    /// routing, packets from other rows come along the column. Without a mesh, there is one input.
    pub(super) fn input(&self, core: usize, other: usize) -> usize {
        let (from, to) = (self.tile(core), self.tile(other));
        match (from.0.cmp(&to.0), from.1.cmp(&to.1)) {
            (_, Ordering::Less) => 1,
            (_, Ordering::Greater) => 2,
            (Ordering::Less, _) => 3,
            (Ordering::Greater, _) => 4,
            (Ordering::Equal, Ordering::Equal) => 0,
        }
    }

    /// Returns d, the distance of `core` from its private memory.
    pub fn memory_hops(&self, core: usize) -> u64 {
        match &self.layout {
            Layout::Mesh { controllers, .. } => {
                let from = self.tile(core);
                controllers.iter().map(|&at| self.routers(from, at)).min().unwrap_or(0)
            }
            Layout::Caches { memory_hops, .. } => *memory_hops,
        }
    }

    fn tile(&self, core: usize) -> (usize, usize) {
        match &self.layout {
            Layout::Mesh { width, cores_per_tile, .. } => {
                let tile = core / cores_per_tile;
                (tile % width, tile / width)
            }
            Layout::Caches { .. } => (0, 0),
        }
    }

    /// Returns how many routers a packet passes with X-Y routing, including both ends.
    fn routers(&self, from: (usize, usize), to: (usize, usize)) -> u64 {
        (from.0.abs_diff(to.0) + from.1.abs_diff(to.1) + 1) as u64
    }

    /// Checks whether the description makes sense.
    ///
    /// # Errors
    /// Any [`MachineError`].
    pub fn check(&self) -> Result<(), MachineError> {
        let &Machine { lines, line_bytes, .. } = self;
        if line_bytes < size_of::<u64>() {
            return Err(MachineError::LineTooShort { line_bytes });
        }
        if self.interrupts.mask == 0 {
            return Err(MachineError::NoMask);
        }
        if lines.checked_mul(line_bytes).is_none() {
            return Err(MachineError::BufferTooLong { lines, line_bytes });
        }
        match &self.layout {
            &Layout::Mesh { width, height, cores_per_tile, ref controllers } => {
                let cores = width.checked_mul(height).and_then(|t| t.checked_mul(cores_per_tile));
                if matches!(cores, None | Some(0)) {
                    return Err(MachineError::Cores);
                }
                if controllers.is_empty() {
                    return Err(MachineError::NoController);
                }
                match controllers.iter().find(|&&(x, y)| x >= width || y >= height) {
                    Some(&(x, y)) => Err(MachineError::ControllerOutside { x, y, width, height }),
                    None => Ok(()),
                }
            }
            Layout::Caches { levels, .. } => {
                let mut below = 1;
                for &Sharing { cores, .. } in levels {
                    if cores == 0 || cores % below != 0 {
                        return Err(MachineError::Levels { cores, below });
                    }
                    below = cores;
                }
                if levels.is_empty() { Err(MachineError::Cores) } else { Ok(()) }
            }
        }
    }
}

impl Port {
    /// Any number of accesses at once.
    pub const UNLIMITED: Port = Port { read: Time::ZERO, write: Time::ZERO, slack: Time::ZERO };

    /// The SCC's port, from what section 4.1.3 says of cores that access the MPB of core 0 all the time.
    ///
    /// With long gets, each core reads about one line every C_mpb_r(4) + C_mpb_w(1) = 302 ns (and core 0 writes as
    /// well). Up to 24 cores do not disturb each other, so the port reads at least 24 lines in that time. With all 48,
    /// the slowest core takes more than twice as long as the fastest. The router lets its inputs take turns, and 36
    /// cores come by one of them, while the others do not wait; 36 are slowed down to half if they get 18 of 30 turns.
    /// So the port reads fewer than 30 lines, which we take as the value. With puts of one line, each core writes one
    /// every C_mpb_put(1, 4) = 371 ns, and 24 cores just fill the port. One access by each of the 24 cores at the same
    /// time does not have to wait.
    pub const SCC: Port = Port {
        read: Time::from_nanos(10),
        write: Time::from_nanos(15),
        slack: Time::from_nanos(24 * 15),
    };
}

impl InterruptCosts {
    /// As measured in the kernel (figure 3.3), without any cost of software beyond it. Without the registers it is
    /// 2,000 cycles of 533 MHz (figure 3.3b). With them, the last of 48 cores is at 6,000 and no difference shows with
    /// 20 cores (figure 3.3a and its text), so 28 accesses take 4,000. A mask has 32 bits.
    pub const SCC: InterruptCosts = InterruptCosts {
        delivery: Time::from_picos(2_000 * CYCLE),
        access: Time::from_picos(4_000 * CYCLE / 28),
        slack: Time::from_picos(20 * (4_000 * CYCLE / 28)),
        mask: 32,
        software: Time::ZERO,
    };

    /// The same with a context switch, and a signal to the program and its handler (section 3.2.4). They are fitted to
    /// one measured value, 40.2 µs for one line to all 47 children of the root (table 3.1), with asynchronous OC-Bcast
    /// and the flags of [`Parameters::FITTED`].
    pub const FITTED: InterruptCosts =
        InterruptCosts { software: Time::from_nanos(25_400), ..InterruptCosts::SCC };
}

/// The cycle of a core, at 533 MHz, in picoseconds.
const CYCLE: u64 = 1_876;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_on_the_scc() {
        let scc = Machine::scc();
        assert_eq!(scc.check(), Ok(()));
        assert_eq!(scc.cores(), 48);
        for (core, other, hops) in
            [(0, 0, 1), (0, 1, 1), (0, 2, 2), (1, 12, 2), (0, 47, 9), (36, 11, 9), (25, 22, 7)]
        {
            assert_eq!((scc.hops(core, other), scc.hops(other, core)), (hops, hops));
        }
        // Each quadrant has one controller, and its farthest core passes four routers.
        let memory: Vec<_> = (0..48).map(|core| scc.memory_hops(core)).collect();
        assert_eq!((memory[0], memory[5], memory[17], memory[36]), (1, 3, 4, 2));
        assert_eq!(memory.iter().max(), Some(&4));
        assert_eq!(memory.iter().filter(|&&hops| hops == 1).count(), 8);
    }

    #[test]
    fn distances_between_caches() {
        let sharing = |cores, hops| Sharing { cores, hops };
        let levels = vec![sharing(2, 1), sharing(8, 4), sharing(32, 20)];
        let machine =
            Machine { layout: Layout::Caches { levels, memory_hops: 9 }, ..Machine::scc() };
        assert_eq!(machine.check(), Ok(()));
        assert_eq!((machine.cores(), machine.memory_hops(31)), (32, 9));
        for (core, other, hops) in [(3, 3, 1), (2, 3, 1), (3, 4, 4), (7, 8, 20), (0, 31, 20)] {
            assert_eq!(machine.hops(core, other), hops);
        }
    }

    #[test]
    fn misfits() {
        let mesh =
            |width, controllers| Layout::Mesh { width, height: 2, cores_per_tile: 1, controllers };
        let caches = |sizes: &[usize]| Layout::Caches {
            levels: sizes.iter().map(|&cores| Sharing { cores, hops: 1 }).collect(),
            memory_hops: 1,
        };
        for (layout, error) in [
            (mesh(0, vec![(0, 0)]), MachineError::Cores),
            (mesh(usize::MAX, vec![(0, 0)]), MachineError::Cores),
            (mesh(3, vec![]), MachineError::NoController),
            (
                mesh(3, vec![(0, 0), (3, 1)]),
                MachineError::ControllerOutside { x: 3, y: 1, width: 3, height: 2 },
            ),
            (caches(&[]), MachineError::Cores),
            (caches(&[0]), MachineError::Levels { cores: 0, below: 1 }),
            (caches(&[2, 5]), MachineError::Levels { cores: 5, below: 2 }),
        ] {
            assert_eq!(Machine { layout, ..Machine::scc() }.check(), Err(error));
        }
        let short = Machine { line_bytes: 7, ..Machine::scc() };
        assert_eq!(short.check(), Err(MachineError::LineTooShort { line_bytes: 7 }));
        let interrupts = InterruptCosts { mask: 0, ..InterruptCosts::SCC };
        let none = Machine { interrupts, ..Machine::scc() };
        assert_eq!(none.check(), Err(MachineError::NoMask));
        let lines = usize::MAX;
        let long = Machine { lines, ..Machine::scc() };
        assert_eq!(long.check(), Err(MachineError::BufferTooLong { lines, line_bytes: 32 }));
    }
}
