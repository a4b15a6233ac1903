//! Where communication threads run, and which of them serves which rank: the allocation policies
//! of Buono et al., sections V.A and V.B, on any machine.
//!
//! A *communication thread* (KT, as in the paper) copies messages that ranks delegate to it. It costs a hardware
//! thread: beside a rank on the same core it takes a part of that core's time; on a core of its own it takes none.
//! [`KtPlan`] says where the KTs of a world go. It is data, and moves nothing itself.
//!
//! | file | what it is |
//! |---|---|
//! | `plan` | a plan, and what is asked of it |
//! | `layout` | which hardware threads are taken, and which spare one suits best |
//! | `policies` | the policies, each as a few lines about groups of ranks |
//! | `show` | plans as text |

mod layout;
mod plan;
mod policies;
mod show;

pub use plan::{Inline, Kt, KtPlacement, KtPlan, Role};

use super::{Bind, Error, Topology};

impl KtPlan {
    /// Places ranks as `bind` asks and `placement` needs, and their KTs on hardware threads that
    /// no rank has.
    ///
    /// The ranks go where [`Plan`](super::Plan) puts them, except that [`KtPlacement::Specialized`] with [`Bind::Auto`]
    /// keeps a core for the emitter and one for the collector. With [`Bind::None`] nothing is bound and threads are
    /// only counted. A quota counts as that many CPUs, rounded down.
    ///
    /// # Errors
    /// Those of [`Plan::for_ranks`](super::Plan::for_ranks). If the machine is too small for the policy:
    /// [`Error::NoSibling`], [`Error::TooFewThreads`], [`Error::NoDedicatedCores`]. For arguments that make no sense on
    /// any machine: [`Error::Roles`], [`Error::NoKts`], [`Error::TooManyKts`]. [`KtPlacement::Automatic`] fails for
    /// none of these.
    pub fn new(
        topology: &Topology,
        roles: &[Role],
        bind: &Bind,
        placement: KtPlacement,
    ) -> Result<Self, Error> {
        policies::plan(topology, roles, bind, placement, false)
    }

    /// Plans like [`new`](Self::new), but KTs that find no spare hardware thread share one with a rank or with each
    /// other. Use this to measure the cost of sharing, and to run the same program on a smaller machine.
    ///
    /// # Errors
    /// Those of [`Plan::for_ranks`](super::Plan::for_ranks), [`Error::Roles`], [`Error::NoKts`]
    /// and [`Error::TooManyKts`].
    pub fn forced(
        topology: &Topology,
        roles: &[Role],
        bind: &Bind,
        placement: KtPlacement,
    ) -> Result<Self, Error> {
        policies::plan(topology, roles, bind, placement, true)
    }
}
