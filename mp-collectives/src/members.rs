//! The ranks that take part in an operation: all ranks of the world, or some of them.

use mp_core::mpb::{Mpb, Mpbs};
use mp_core::names::Namespace;
use mp_core::{ErrorKind, Rank, Result};

/// The ranks that do something together, as seen by one of them: all ranks of its world, which a [`Rank`] stands for,
/// or [some](Members::of).
///
/// ```
/// use onchip::Members;
/// use onchip::barrier::{Barriers, Settings};
/// use onchip::World;
///
/// World::threads(5).run(|rank| {
///     let mut all = Barriers::open(rank, "all", Settings::default())?;
///     let half: Vec<usize> = (0..5).filter(|other| other % 2 == rank.id() % 2).collect();
///     let mut half = Barriers::open(Members::of(rank, &half), "half", Settings::default())?;
///     half.wait()?;
///     all.wait()
/// })?;
/// # Ok::<(), onchip::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Members<'a> {
    rank: &'a Rank,
    /// The ranks, or `None` for all.
    ranks: Option<&'a [usize]>,
    /// The namespace of the buffers that they open, if these belong to something whose names are not those given by
    /// programs.
    within: Option<Namespace>,
}

impl<'a> Members<'a> {
    /// Names these ranks of the world, in this order, which gives them their numbers. `rank` is one of them, and all
    /// must name the same ranks in the same order.
    pub fn of(rank: &'a Rank, ranks: &'a [usize]) -> Self {
        Members { rank, ranks: Some(ranks), within: None }
    }

    /// Returns the rank that names them.
    pub fn rank(self) -> &'a Rank {
        self.rank
    }

    /// Returns the ranks of the world that take part, or `None` for all.
    pub fn named(self) -> Option<&'a [usize]> {
        self.ranks
    }

    /// Returns the number of ranks.
    pub fn count(self) -> usize {
        // A list without even this rank is refused when buffers are opened.
        self.ranks.map_or(self.rank.size(), |ranks| ranks.len().max(1))
    }

    /// Returns the number of cores that these ranks may use at the same time. Where the world has more ranks than
    /// cores, the other ranks use their share of the cores.
    pub fn cores(self) -> usize {
        let (cores, world) = (self.rank.cores(), self.rank.size());
        if world > cores { (cores * self.count() / world).max(1) } else { cores }
    }

    /// Opens their message passing buffers of this name. See [`Rank::mpb_of`].
    ///
    /// # Errors
    /// The same as there.
    pub fn mpb(self, name: &str, mpbs: Mpbs) -> Result<Mpb> {
        match self.ranks {
            Some(ranks) => self.rank.mpb_of(name, ranks, mpbs),
            None => self.rank.mpb(name, mpbs),
        }
    }

    /// Makes what these ranks open part of something with names in this namespace, unless that is itself part of
    /// something else.
    pub(crate) fn within(self, namespace: Namespace) -> Self {
        Self { within: Some(self.namespace_or(namespace)), ..self }
    }

    /// Returns the namespace in which these ranks open something of this kind, if it is not part of anything else.
    pub(crate) fn namespace_or(self, kind: Namespace) -> Namespace {
        self.within.unwrap_or(kind)
    }

    /// Opens the buffers of one kind of operations, whose names are separate from those of all others.
    pub(crate) fn private_mpb(self, kind: Namespace, name: &str, mpbs: Mpbs) -> Result<Mpb> {
        let opened = self.mpb(name, self.namespace_or(kind).mpbs(mpbs));
        opened.map_err(|error| match error.kind() {
            &ErrorKind::OnAnotherNode { rank, .. } => {
                let what = "collective operations that are opened by a name";
                ErrorKind::OnAnotherNode { rank, what }.into()
            }
            _ => error,
        })
    }
}

/// The namespaces of everything that this crate opens.
pub(crate) mod names {
    use mp_core::names::Namespace;

    pub(crate) const BARRIERS: Namespace = Namespace::new("barriers");
    pub(crate) const BROADCASTS: Namespace = Namespace::new("bcasts");
    pub(crate) const ASYNCHRONOUS: Namespace = Namespace::new("async-bc");
    pub(crate) const REDUCTIONS: Namespace = Namespace::new("reduces");
    pub(crate) const EXCHANGES: Namespace = Namespace::new("exchange");
    /// The namespace of everything that is part of nonblocking operations.
    pub(crate) const NONBLOCKING: Namespace = Namespace::new("nonbl");
    /// The namespace of everything that is part of a communicator. The names say what each thing is.
    pub(crate) const COMMUNICATORS: Namespace = Namespace::new("comm");
}

/// All ranks of the world.
impl<'a> From<&'a Rank> for Members<'a> {
    fn from(rank: &'a Rank) -> Self {
        Members { rank, ranks: None, within: None }
    }
}
