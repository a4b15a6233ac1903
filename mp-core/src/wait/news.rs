//! A number that tells whether anything has happened in the world that concerns waits for no rank in
//! particular.

use std::sync::Arc;

use crate::{context::Context, sync::Ordering};

/// The news of a world: that a rank was lost, that message passing buffers were
/// [revoked](crate::Rank::revoke_mpbs). Who counts on ranks that it has no channel with looks at their number
/// before each call, which costs about a nanosecond, and [ends](crate::Wait::until_news) its waits when the
/// number changes.
#[derive(Debug)]
pub struct News {
    context: Arc<Context>,
}

impl News {
    pub(crate) fn of(context: &Arc<Context>) -> Self {
        Self { context: Arc::clone(context) }
    }

    /// Returns their number. Who sees it changed sees what has happened.
    #[inline(always)]
    pub fn number(&self) -> u32 {
        // Acquire: pairs with the Release in `WorldControl::tell_news`. Of a broken segment there are none.
        self.context.world().map_or(0, |world| world.news.load(Ordering::Acquire))
    }
}
