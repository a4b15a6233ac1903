//! A plan for communication threads, and what is asked of it.

use super::super::{Bind, Error};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What a rank does in a task farm (Buono et al., section V.A). In other programs every rank is a
/// worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Role {
    /// Sends tasks to the workers.
    Emitter,
    /// Computes.
    #[default]
    Worker,
    /// Receives the results.
    Collector,
}

impl Role {
    /// Returns the roles of a farm: rank 0 is the emitter, the last rank is the collector, and `workers` workers are
    /// between them.
    pub fn farm(workers: usize) -> Vec<Self> {
        let mut roles = vec![Self::Worker; workers + 2];
        roles[0] = Self::Emitter;
        roles[workers + 1] = Self::Collector;
        roles
    }
}

/// A policy for placing communication threads (KTs).
///
/// It is parsed from the name alone, with the numbers of the paper: `kt-w`, `skt`, `kt-specialized` (or `specialized`),
/// `kt-generalized` (or `generalized`), `auto`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum KtPlacement {
    /// One KT for each rank, on a spare hardware thread of its core (*KT-W*, sections V.A.1 and
    /// V.B).
    KtW,
    /// One KT for a group of ranks, on a spare hardware thread near them (*SKT*, section V.B). Groups are within a
    /// last-level cache, and their sizes differ by at most one.
    Skt {
        /// The most ranks in a group. Not 0.
        group: usize,
    },
    /// Emitter and collector have a core each to themselves. The emitter's KTs share the distribution. Each of the
    /// workers' KTs serves a group of workers (*KT-specialized*, section V.A.2).
    ///
    /// Each KT is near the ranks it serves. It is on a core there that has nothing else to do, as in the paper; or else
    /// on another hardware thread of the emitter's or the collector's core; and beside workers last. The collector,
    /// which only receives, has no KT of its own. What it may have to send goes through the KT of the last workers.
    /// that of the last workers.
    Specialized {
        /// The number of the emitter's KTs. `None`: one for 12 workers, rounded up, which is where the paper's emitter
        /// became the bottleneck.
        emitter_kts: Option<usize>,
        /// The most workers that share a KT. Not 0.
        group: usize,
    },
    /// At most one KT on each core, for everything that this core's ranks send, and for what the emitter sends to them
    /// (*KT-generalized*, section V.A.2).
    ///
    /// A core without a spare hardware thread is served from the nearest core that has one. In a world of processes the
    /// KTs can serve only what is in shared buffers.
    Generalized {
        /// The most KTs. `None`: one for each core that has ranks.
        kts: Option<usize>,
    },
    /// KTs on idle cores, if each rank's last-level cache has enough idle cores that no KT serves more than
    /// [10](Self::WORKERS_PER_KT) ranks. There are as many KTs as fit there, at most one for each rank. A core counts
    /// whatever its kind, since a KT on a sibling takes much more of the rank's time than one on any core of its own.
    ///
    /// Otherwise KTs on spare hardware threads, idle cores of the same cache first: one for each rank (KT-W, if all are
    /// on their ranks' cores), or as many as there are, each for a group of ranks. Otherwise none, and
    /// [`KtPlan::inline`] says why.
    #[default]
    Automatic,
}

impl KtPlacement {
    /// Workers for each KT of the emitter: `n_kt_e(N) = ⌈N/12⌉` in section V.A.2.
    pub const WORKERS_PER_EMITTER_KT: usize = 12;

    /// The number of workers that share a KT: the best configuration of section V.A.2.
    pub const WORKERS_PER_KT: usize = 10;

    /// Shared KTs with the paper's group of 10.
    pub const SKT: Self = Self::Skt { group: Self::WORKERS_PER_KT };

    /// Specialized KTs with the paper's numbers.
    pub const SPECIALIZED: Self =
        Self::Specialized { emitter_kts: None, group: Self::WORKERS_PER_KT };

    /// The policies with the paper's numbers.
    pub const ALL: [Self; 5] =
        [Self::KtW, Self::SKT, Self::SPECIALIZED, Self::Generalized { kts: None }, Self::Automatic];

    /// Returns the same policy with a number of KTs: the emitter's for [`Specialized`](Self::Specialized), at most that
    /// many for [`Generalized`](Self::Generalized), and about that many for `ranks` ranks in groups of equal size for
    /// [`Skt`](Self::Skt).
    ///
    /// # Errors
    /// [`Error::NoKts`] for 0, [`Error::FixedKts`] if the policy itself fixes how many there are.
    pub fn with_kts(self, kts: usize, ranks: usize) -> Result<Self, Error> {
        if kts == 0 {
            return Err(Error::NoKts { placement: self.name() });
        }
        match self {
            Self::Skt { .. } => Ok(Self::Skt { group: ranks.div_ceil(kts).max(1) }),
            Self::Specialized { group, .. } => {
                Ok(Self::Specialized { emitter_kts: Some(kts), group })
            }
            Self::Generalized { .. } => Ok(Self::Generalized { kts: Some(kts) }),
            Self::KtW | Self::Automatic => Err(Error::FixedKts { placement: self.name() }),
        }
    }

    /// Returns the name that it is parsed from.
    pub fn name(&self) -> &'static str {
        match self {
            Self::KtW => "kt-w",
            Self::Skt { .. } => "skt",
            Self::Specialized { .. } => "kt-specialized",
            Self::Generalized { .. } => "kt-generalized",
            Self::Automatic => "auto",
        }
    }
}

impl FromStr for KtPlacement {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        // As options of a program that has other modes as well, or as the answer to "which KTs?".
        let found = Self::ALL.into_iter().find(|placement| match placement {
            Self::KtW => text == "kt-w",
            _ => text == placement.name() || placement.name().strip_prefix("kt-") == Some(text),
        });
        found.ok_or_else(|| Error::KtPlacement { text: text.to_owned() })
    }
}

impl fmt::Display for KtPlacement {
    /// Writes the [name](Self::name), without numbers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One communication thread of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Kt {
    /// Where it runs; `None` if ranks and KTs are not bound.
    pub cpu: Option<usize>,
    /// The ranks whose sends it does, in ascending order. For [`KtPlacement::Generalized`], also the ranks that the
    /// emitter sends to.
    pub ranks: Vec<usize>,
    /// Whether a rank or another KT has the same hardware thread, which only
    /// [forced](KtPlan::forced) plans allow.
    pub crowded: bool,
}

/// Why a rank's sends are not delegated.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Inline {
    /// The ranks need every hardware thread that there is.
    NoSpareThread {
        /// How many ranks there are.
        ranks: usize,
        /// How many CPUs can be used.
        cpus: usize,
        /// The quota in CPUs, if there is one.
        quota: Option<f64>,
    },
}

/// Where the ranks of a world and their communication threads (KTs) run, and which KT does which
/// sends.
///
/// ```
/// use onchip::topology::{Bind, KtPlacement, KtPlan, Role, Topology};
///
/// let topology = Topology::read()?;
/// let ranks = [Role::Worker; 2];
/// let plan = KtPlan::new(&topology, &ranks, &Bind::Auto, KtPlacement::Automatic)?;
/// println!("{plan}");
/// match plan.serving(0, 1) {
///     [] => println!("rank 0 sends to rank 1 itself: {}", plan.inline().unwrap()),
///     kts => println!("rank 0 delegates to any of {kts:?}"),
/// }
/// # Ok::<(), onchip::topology::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KtPlan {
    pub(super) asked: KtPlacement,
    pub(super) chosen: Option<KtPlacement>,
    pub(super) roles: Vec<Role>,
    pub(super) cpus: Vec<Option<usize>>,
    pub(super) unbound: Option<String>,
    pub(super) kts: Vec<Kt>,
    /// By rank: the KTs for what it sends.
    pub(super) sends: Vec<Vec<usize>>,
    /// By rank: the KTs for what the emitter sends to it, if these are not the emitter's own.
    pub(super) receives: Vec<Vec<usize>>,
    pub(super) inline: Option<Inline>,
}

impl KtPlan {
    /// Returns the policy that was asked for.
    pub fn asked(&self) -> KtPlacement {
        self.asked
    }

    /// Returns the policy that is carried out, with its numbers; `None` if no send is delegated. It differs from the
    /// one that was asked for only for [`KtPlacement::Automatic`].
    pub fn chosen(&self) -> Option<KtPlacement> {
        self.chosen
    }

    /// Returns the number of ranks.
    pub fn ranks(&self) -> usize {
        self.cpus.len()
    }

    /// Returns the CPU of each rank; `None` for all if they are not bound.
    pub fn cpus(&self) -> &[Option<usize>] {
        &self.cpus
    }

    /// Returns what each rank does.
    pub fn roles(&self) -> &[Role] {
        &self.roles
    }

    /// Returns the binding that puts the ranks where the plan has them, for `World::bind`.
    pub fn bind(&self) -> Bind {
        let cpus: Option<Vec<usize>> = self.cpus.iter().copied().collect();
        cpus.map_or(Bind::None, Bind::List)
    }

    /// Returns why ranks and KTs are not bound; `None` if they are.
    pub fn unbound(&self) -> Option<&str> {
        self.unbound.as_deref()
    }

    /// Returns the KTs. Elsewhere in the plan they are named by their index here.
    pub fn kts(&self) -> &[Kt] {
        &self.kts
    }

    /// Returns the KTs for what a rank sends; none if it sends inline, or if there is no such rank.
    pub fn sends_of(&self, rank: usize) -> &[usize] {
        self.sends.get(rank).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the KTs for a channel between two ranks; none if its sends are inline.
    ///
    /// They are the sender's, except that under [`KtPlacement::Generalized`] the receiver's KT does what the emitter of
    /// a farm sends.
    pub fn serving(&self, sender: usize, receiver: usize) -> &[usize] {
        let of_receiver = self.receives.get(receiver).map(Vec::as_slice).unwrap_or_default();
        if self.roles.get(sender) == Some(&Role::Emitter) && !of_receiver.is_empty() {
            of_receiver
        } else {
            self.sends_of(sender)
        }
    }

    /// Returns why nothing is delegated; `None` if something is, or if there are no ranks.
    pub fn inline(&self) -> Option<Inline> {
        self.inline
    }

    /// Returns whether KTs share hardware threads with ranks or each other, as [`forced`](Self::forced) allows.
    pub fn is_crowded(&self) -> bool {
        self.kts.iter().any(|kt| kt.crowded)
    }
}
