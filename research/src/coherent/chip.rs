//! Machines, and what their cores have in addition to caches.
//!
//! The costs of lines on the thesis' own machines are those that David, Guerraoui and Trigonakis measured on machines
//! of the same three types (*Everything You Always Wanted to Know about Synchronization but Were Afraid to Ask*, SOSP
//! 2013, table 2), in cycles. The thesis refers to that paper, and prints no costs of lines itself. The numbers are quoted
//! from memory of it. Three were found again elsewhere (Xeon: 109, 289 and 355), and no conclusion depends on the others
//! (`figures/critical/costs.rs`).

use mp_model::Time;
use mp_model::cla::{
    Implausible, Invalidation, Link, Machine, Parameters, Placement, PlacementError,
};
use thiserror::Error;

use super::core_set::MOST_CORES;
use super::prefetch::Prefetcher;

/// The most streaming stores that a core has under way unless a chip says otherwise: the number of fill buffers of the
/// paper's Sandy Bridge, and of the thesis' Xeon.
const WRITE_BUFFERS: usize = 10;

/// A machine, and what its cores have in addition to caches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chip {
    /// The costs, and the places of the cores.
    pub machine: Machine,
    /// When a core goes on after a store.
    pub stores: Stores,
    /// The cost of taking a line away from several cores. `None` is what Ramos and Hoefler say about their machines.
    pub taking: Option<Taking>,
    /// Whether a socket's own cache answers for all lines that its cores have. Otherwise the line's home is always asked
    /// (rule 4 of section 2.4 of Ramos and Hoefler; T 7.2.1).
    pub inclusive: bool,
    /// Tiles that are the homes of lines.
    pub mesh: Option<Mesh>,
    /// Hardware that passes messages.
    pub messages: Option<Messages>,
    /// Hardware that fetches lines ahead.
    pub prefetcher: Option<Prefetcher>,
    /// The most streaming stores of a core that can be under way. A core waits with the next one.
    pub write_buffers: usize,
    /// How many times longer a streaming store takes if another core polls the line: 3 on the thesis' Xeon, 1 on its
    /// Opteron (T 7.2.2).
    pub obstruction: u64,
    /// For atomic instructions that are executed at the line's home: for how long each keeps the line busy. With `None`
    /// the line is brought to the core instead.
    pub atomics_at_home: Option<Time>,
    /// For how long a home is busy when it is asked for a line: a tile, or a socket.
    pub home_busy: Time,
    /// What the instructions of an operation take in addition to its lines.
    pub operation: Time,
}

/// When a core goes on after a store to a line that it doesn't have alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stores {
    /// When the store is done, as in the models of both papers.
    Waited,
    /// At once, as long as the store buffer has room. Stores are done one after another, so that others see them in
    /// order, as on x86. An atomic instruction waits for them.
    InOrder,
    /// At once, as long as the store buffer has room. Only a fence waits for stores, as on the TILE-Gx (T 6.2.1).
    AnyOrder,
}

/// The number of stores in a core's store buffer: that of both x86 processors of the thesis.
pub(super) const STORE_BUFFER: usize = 32;

/// The cost of a store to a line that several cores have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taking {
    /// If all of them are in the core's group.
    pub near: Time,
    /// If any is not.
    pub far: Time,
}

/// A square of tiles. Each line has one as its home, which is found by a hash of its address. Whoever needs a line asks
/// there, and whoever writes one tells it, because caches write through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mesh {
    /// The number of tiles in a row.
    pub columns: usize,
    /// What each hop between a core and a home adds to an access, there and back.
    pub hop: Time,
    /// What a store takes until the home has it, if the core has the line alone. Only a fence waits for that.
    pub through: Time,
}

impl Mesh {
    /// Returns the home of a line.
    pub(super) fn home(&self, line: usize, tiles: usize) -> usize {
        // Multiplication by the golden ratio.
        let mixed = (line as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        mixed as usize % tiles
    }

    /// Returns what the hops between two tiles add.
    pub(super) fn way(&self, from: usize, to: usize) -> Time {
        let across = (from % self.columns).abs_diff(to % self.columns);
        let down = (from / self.columns).abs_diff(to / self.columns);
        (across + down) as u64 * self.hop
    }
}

/// The costs of messages that hardware passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Messages {
    /// The time until the sender goes on.
    pub send: Time,
    /// The time from then until the message has arrived.
    pub delivery: Time,
}

/// The reason why a chip can't be simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ChipError {
    /// Too many cores.
    #[error("{cores} cores: there can be {MOST_CORES}")]
    Cores {
        /// The number of cores.
        cores: usize,
    },
    /// Implausible costs.
    #[error(transparent)]
    Costs(#[from] Implausible),
    /// An invalid placement.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// There are no write buffers, so streaming stores are impossible.
    #[error("no buffer for streaming stores")]
    WriteBuffers,
}

/// A processor's clock.
struct Clock {
    mhz: u64,
}

impl Clock {
    const fn cycles(&self, cycles: u64) -> Time {
        Time::from_picos(cycles * 1_000_000 / self.mhz)
    }

    /// Returns costs of lines.
    fn parameters(&self, local: u64, near: (u64, u64), far: (u64, u64)) -> Parameters {
        let link = |(transfer, memory), link: Link| Link {
            transfer: self.cycles(transfer),
            memory: self.cycles(memory),
            ..link
        };
        let other = Parameters::SANDY_BRIDGE;
        let (near, far) = (link(near, other.near), link(far, other.far));
        Parameters {
            local: self.cycles(local),
            near,
            far,
            invalidation: Invalidation::Once,
            ..other
        }
    }
}

/// The clock of the TILE-Gx8036 (T 6.2.1).
const TILE_GX: Clock = Clock { mhz: 1200 };
/// The clock of the Xeon E7-L8867 (T 7.2.1).
const XEON: Clock = Clock { mhz: 2130 };
/// The clock of the Opteron 6176 (T 7.2.1).
const OPTERON: Clock = Clock { mhz: 2300 };

/// In tenths of cycles. Fitted on figure 6.6a: `HybComb` reaches 88 Mops with `MAX_OPS` 5000.
const OPERATION: u64 = 80;
/// In cycles. Fitted on figure 7.5: a server does 20 Mops at best on both x86 processors (T 7.3).
const HOME_BUSY: u64 = 25;

impl Chip {
    /// Creates a chip with caches and nothing else, as the paper's machines and others.
    pub fn new(machine: Machine) -> Chip {
        Chip {
            machine,
            stores: Stores::Waited,
            taking: None,
            inclusive: false,
            mesh: None,
            messages: None,
            prefetcher: None,
            write_buffers: WRITE_BUFFERS,
            obstruction: 1,
            atomics_at_home: None,
            home_busy: Time::ZERO,
            operation: Time::ZERO,
        }
    }

    /// Creates a chip with so many of the 16 cores of [`Machine::sandy_bridge`].
    ///
    /// # Errors
    /// [`PlacementError`].
    pub fn sandy_bridge(cores: usize) -> Result<Chip, PlacementError> {
        Machine::sandy_bridge(cores).map(Chip::new)
    }

    /// Creates a chip with so many of the 60 cores of [`Machine::xeon_phi`].
    ///
    /// # Errors
    /// [`PlacementError`].
    pub fn xeon_phi(cores: usize) -> Result<Chip, PlacementError> {
        Machine::xeon_phi(cores).map(Chip::new)
    }

    /// Creates a chip with so many of the 160 hardware threads of the thesis' eight Xeons (T 7.2.1). As there, threads
    /// are dealt out to the sockets one after another. Each has caches of its own here: that two threads share a core's
    /// is left out.
    ///
    /// # Errors
    /// [`PlacementError`].
    pub fn xeon(threads: usize) -> Result<Chip, PlacementError> {
        // Of seven other sockets three are one hop away, and four are two.
        let parameters = XEON.parameters(5, (109, 355), ((3 * 289 + 4 * 400) / 7, 547));
        let machine = Machine { parameters, placement: dealt(threads, 8)? };
        let (near, far) = (XEON.cycles(116), XEON.cycles((3 * 318 + 4 * 428) / 7));
        Ok(Chip {
            stores: Stores::InOrder,
            taking: Some(Taking { near, far }),
            prefetcher: Some(Prefetcher::default()),
            inclusive: true,
            obstruction: 3,
            home_busy: XEON.cycles(HOME_BUSY),
            operation: XEON.cycles(OPERATION) / 10,
            ..Chip::new(machine)
        })
    }

    /// Creates a chip with so many of the 48 cores of the thesis' four Opterons (T 7.2.1), each of which has two dies
    /// of six cores. Threads are dealt out to the sockets one after another.
    ///
    /// # Errors
    /// [`PlacementError`].
    pub fn opteron(cores: usize) -> Result<Chip, PlacementError> {
        // Of seven other dies one is in the same package, three are one hop away, and three are two.
        let parameters = OPTERON.parameters(
            3,
            (81, 136),
            ((161 + 3 * 172 + 3 * 252) / 7, (237 + 3 * 247 + 3 * 327) / 7),
        );
        let machine = Machine { parameters, placement: dealt(cores, 8)? };
        let (near, far) = (OPTERON.cycles(246), OPTERON.cycles((255 + 3 * 286 + 3 * 296) / 7));
        Ok(Chip {
            stores: Stores::InOrder,
            taking: Some(Taking { near, far }),
            prefetcher: Some(Prefetcher::default()),
            home_busy: OPTERON.cycles(HOME_BUSY),
            operation: OPTERON.cycles(OPERATION) / 10,
            ..Chip::new(machine)
        })
    }

    /// Creates a chip of so many tiles of the thesis' TILE-Gx (T 6.2.1): homes of lines, atomic instructions that are
    /// executed there, stores that are not waited for, and messages in hardware.
    ///
    /// # Errors
    /// [`PlacementError`].
    pub fn tiles(cores: usize) -> Result<Chip, PlacementError> {
        let placement = Placement::one_group(cores)?;
        // A line from the next tile takes 45 cycles, and one from ten hops away 65.
        let parameters = TILE_GX.parameters(2, (43, 116), (43, 116));
        let taking = TILE_GX.cycles(84);
        let busy = TILE_GX.cycles(6);
        Ok(Chip {
            stores: Stores::AnyOrder,
            taking: Some(Taking { near: taking, far: taking }),
            mesh: Some(Mesh { columns: 6, hop: TILE_GX.cycles(2), through: TILE_GX.cycles(55) }),
            // 61 cycles for a message to the next tile, there and taken.
            messages: Some(Messages { send: TILE_GX.cycles(2), delivery: TILE_GX.cycles(59) }),
            atomics_at_home: Some(busy),
            home_busy: busy,
            operation: TILE_GX.cycles(OPERATION) / 10,
            ..Chip::new(Machine { parameters, placement })
        })
    }

    /// Adds hardware for messages: a message takes as long as a line, R_R, and costs its sender R_L.
    #[must_use]
    pub fn with_messages(self) -> Chip {
        let Parameters { local, near, .. } = self.machine.parameters;
        Chip { messages: Some(Messages { send: local, delivery: near.transfer }), ..self }
    }

    /// Adds hardware that fetches lines ahead.
    #[must_use]
    pub fn with_prefetcher(self, prefetcher: Prefetcher) -> Chip {
        Chip { prefetcher: Some(prefetcher), ..self }
    }

    /// Returns the number of cores.
    pub fn cores(&self) -> usize {
        self.machine.ranks()
    }

    /// Checks whether the chip can be simulated.
    ///
    /// # Errors
    /// The first problem that is found.
    pub fn check(&self) -> Result<(), ChipError> {
        if self.cores() > MOST_CORES {
            return Err(ChipError::Cores { cores: self.cores() });
        }
        if self.write_buffers == 0 {
            return Err(ChipError::WriteBuffers);
        }
        Ok(self.machine.parameters.check()?)
    }
}

/// Deals cores out to groups, one after another.
fn dealt(cores: usize, groups: usize) -> Result<Placement, PlacementError> {
    Placement::new((0..cores).map(|core| core % groups).collect::<Vec<_>>())
}
