//! How ranks wait in operations between nodes: in their calls, or so that their threads are free for something else.

use std::sync::Arc;

use mp_core::Result;
use mp_core::mpb::{AsMpb, Mpb};

use crate::nonblocking::{PolledMpb, Waits};

/// The MPBs of the ranks of a node, which determine how a rank waits, also for other nodes.
pub(crate) trait Waiting: AsMpb + Sized {
    /// Returns where the operations of a rank wait, if that is not in its calls. `open` opens MPBs for them.
    fn waits(open: impl FnOnce() -> Result<Mpb>) -> Result<Option<Arc<Waits>>>;

    /// Converts MPBs of operations that wait in this place.
    fn of(mpb: Mpb, waits: Option<&Arc<Waits>>) -> Self;
}

impl Waiting for Mpb {
    fn waits(_: impl FnOnce() -> Result<Mpb>) -> Result<Option<Arc<Waits>>> {
        Ok(None)
    }

    fn of(mpb: Mpb, _: Option<&Arc<Waits>>) -> Self {
        mpb
    }
}

impl Waiting for PolledMpb {
    fn waits(open: impl FnOnce() -> Result<Mpb>) -> Result<Option<Arc<Waits>>> {
        Ok(Some(Arc::clone(PolledMpb::new(open()?).waits())))
    }

    fn of(mpb: Mpb, waits: Option<&Arc<Waits>>) -> Self {
        match waits {
            Some(waits) => PolledMpb::among(mpb, waits),
            None => PolledMpb::new(mpb),
        }
    }
}
