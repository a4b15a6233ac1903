//! Delegated sends as requests that are waited for together with others.

use std::sync::Arc;

use super::Watch;
use crate::{channel::outline_of, lane::Untyped, wait::Operation, world::Rank};

impl Watch for Untyped {
    fn rank(&self) -> Rank {
        Rank::new(Arc::clone(self.context()))
    }

    fn is_done(&self) -> bool {
        self.is_done()
    }

    fn raise(&self) {
        self.raise();
    }

    fn lower(&self) {
        self.lower();
    }

    fn waited(&self) -> (Operation, Vec<u64>) {
        (Operation::Send, vec![self.channel()])
    }

    fn call(&self) -> Option<String> {
        let outline = outline_of(self.context(), self.channel()).ok()?;
        let to: Vec<_> = outline.receivers.members.iter().map(|to| format!("rank {to}")).collect();
        Some(format!("delegated send on \"{}\" to {}", outline.name, to.join(" or ")))
    }
}
