//! A plan for communication threads, and what is asked of it.

use super::super::{Bind, Error};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The role of a rank in a task farm (Buono et al., section V.A). In other programs every rank is a worker.
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
    /// Each KT is near the ranks that it serves: on an idle core, as in the paper; or else on another hardware thread
    /// of the emitter's or the collector's core; or else beside workers. The collector, which only receives, has no KT
    /// of its own. If it sends, its messages go through the KT of the last workers.
    Specialized {
        /// The number of the emitter's KTs. `None` means one for 12 workers, rounded up: with more workers, the paper's
        /// emitter became the bottleneck.
        emitter_kts: Option<usize>,
        /// The most workers that share a KT. Not 0.
        group: usize,
    },
    /// At most one KT on each core, for all messages that this core's ranks send, and for those that the emitter sends
    /// to them (*KT-generalized*, section V.A.2).
    ///
    /// A core without a spare hardware thread is served from the nearest core that has one. In a world of processes,
    /// the KTs can send only shared buffers.
    Generalized {
        /// The largest number of KTs. `None` means one for each core that has ranks.
        kts: Option<usize>,
    },
    /// KTs on idle cores, if each rank's last-level cache has enough idle cores that no KT serves more than
    /// [10](Self::WORKERS_PER_KT) ranks. There are as many KTs as fit there, at most one for each rank. Idle cores of
    /// any kind count, because a KT on a rank's core takes much more of the rank's time than a KT on any other core.
    ///
    /// Otherwise, KTs are on spare hardware threads, first on idle cores under the same cache: one for each rank (KT-W,
    /// if all are on their ranks' cores), or as many as there are threads, each for a group of ranks. If there is no
    /// spare thread, there are no KTs, and [`KtPlan::inline`] says why.
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
    /// [`Error::NoKts`] for 0, [`Error::FixedKts`] if the policy determines the number itself.
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
        // The full names suit options of a program that has other modes as well. The names without `kt-` answer the
        // question "which KTs?".
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
    /// The ranks whose sends the KT carries out, in ascending order. For [`KtPlacement::Generalized`], it also carries
    /// out the emitter's sends to these ranks.
    pub ranks: Vec<usize>,
    /// Whether a rank or another KT has the same hardware thread, which only
    /// [forced](KtPlan::forced) plans allow.
    pub crowded: bool,
}

/// The reason why sends are not delegated.
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

/// Where the ranks of a world and their communication threads (KTs) run, and which KT carries out which sends.
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
    /// For each rank, the KTs for its sends.
    pub(super) sends: Vec<Vec<usize>>,
    /// For each rank, the KTs for the emitter's sends to it, if these are not the emitter's own KTs.
    pub(super) receives: Vec<Vec<usize>>,
    pub(super) inline: Option<Inline>,
}

impl KtPlan {
    /// Returns the policy that was asked for.
    pub fn asked(&self) -> KtPlacement {
        self.asked
    }

    /// Returns the policy that is carried out, with its numbers; `None` if no send is delegated. The policy differs
    /// from the one that was asked for only for [`KtPlacement::Automatic`].
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

    /// Returns the role of each rank.
    pub fn roles(&self) -> &[Role] {
        &self.roles
    }

    /// Returns the binding that puts the ranks into the places of the plan, for `World::bind`.
    pub fn bind(&self) -> Bind {
        let cpus: Option<Vec<usize>> = self.cpus.iter().copied().collect();
        cpus.map_or(Bind::None, Bind::List)
    }

    /// Returns why ranks and KTs are not bound; `None` if they are.
    pub fn unbound(&self) -> Option<&str> {
        self.unbound.as_deref()
    }

    /// Returns the KTs. The other methods of the plan name a KT by its index here.
    pub fn kts(&self) -> &[Kt] {
        &self.kts
    }

    /// Returns the KTs for a rank's sends; none if the rank sends inline, or if there is no such rank.
    pub fn sends_of(&self, rank: usize) -> &[usize] {
        self.sends.get(rank).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the KTs for a channel between two ranks; none if its sends are inline.
    ///
    /// They are the sender's KTs, except that under [`KtPlacement::Generalized`] the receiver's KT carries out the
    /// sends of a farm's emitter.
    pub fn serving(&self, sender: usize, receiver: usize) -> &[usize] {
        let of_receiver = self.receives.get(receiver).map(Vec::as_slice).unwrap_or_default();
        if self.roles.get(sender) == Some(&Role::Emitter) && !of_receiver.is_empty() {
            of_receiver
        } else {
            self.sends_of(sender)
        }
    }

    /// Returns why no sends are delegated; `None` if some are, or if there are no ranks.
    pub fn inline(&self) -> Option<Inline> {
        self.inline
    }

    /// Returns whether KTs share hardware threads with ranks or each other, as [`forced`](Self::forced) allows.
    pub fn is_crowded(&self) -> bool {
        self.kts.iter().any(|kt| kt.crowded)
    }
}
