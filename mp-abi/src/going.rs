//! Operations that are under way.

use mp_core::Pending;

use crate::completed::Completed;

/// What is under way. It may have several parts, which become done in any order.
pub(crate) trait Going {
    /// Returns a part that is not done.
    fn pending(&mut self) -> Option<&mut dyn Pending>;

    /// Waits until all is done, and returns what there is to say.
    fn finish(self: Box<Self>) -> Completed;
}

/// Something that is complete from the beginning.
impl Going for Completed {
    fn pending(&mut self) -> Option<&mut dyn Pending> {
        None
    }

    fn finish(self: Box<Self>) -> Completed {
        *self
    }
}
