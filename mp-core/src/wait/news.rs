//! A number that changes when something happens in the world that concerns all waits.

use std::{ptr::NonNull, sync::Arc};

use crate::{
    context::Context,
    sync::{AtomicU32, Ordering},
};

/// The news of a world: that a rank was lost, or that message passing buffers were [revoked](crate::Rank::revoke_mpbs).
/// A rank that relies on ranks with which it has no channel reads the news number before each call, which costs about a
/// nanosecond, and [ends](crate::Wait::until_news) its waits when the number changes.
#[derive(Debug)]
pub struct News {
    /// `None` if the segment is broken.
    number: Option<NonNull<AtomicU32>>,
    /// Keeps the segment mapped.
    _context: Arc<Context>,
}

// SAFETY: the pointer leads to an atomic in the segment that the context keeps mapped.
unsafe impl Send for News {}
// SAFETY: shared references give access to the word only, which is an atomic.
unsafe impl Sync for News {}

impl News {
    pub(crate) fn of(context: &Arc<Context>) -> Self {
        let number = context.world().ok().map(|world| NonNull::from(&*world.news));
        Self { number, _context: Arc::clone(context) }
    }

    /// Returns the number of the news. A thread that sees a new number also sees what has happened.
    #[inline(always)]
    pub fn number(&self) -> u32 {
        // SAFETY: the number lies in the segment, which stays mapped at the same address as long as the context lives.
        let number = self.number.map(|number| unsafe { number.as_ref() });
        // Acquire: pairs with the Release in `WorldControl::tell_news`.
        number.map_or(0, |number| number.load(Ordering::Acquire))
    }
}
