//! The table of loans between ranks.

use std::{collections::HashMap, sync::Arc};

use super::slot::Slot;
use crate::sync::Mutex;

/// The loans of a world of threads, by lender, borrower, and a number on which they agree. A slot is made when it is
/// first needed, because there could be a million pairs.
#[derive(Debug, Default)]
pub(crate) struct Loans(Mutex<HashMap<(u32, u32, u64), Arc<Slot>>>);

impl Loans {
    pub(super) fn slot(&self, from: u32, to: u32, number: u64) -> Option<Arc<Slot>> {
        let mut slots = self.0.lock().ok()?;
        Some(Arc::clone(slots.entry((from, to, number)).or_insert_with(|| Arc::new(Slot::new()))))
    }
}
