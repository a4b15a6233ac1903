//! Descriptions of messages for reports. The texts are made only when a wait is recorded.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::communicator::{members::Members, messages::store::Pattern};

/// The communicators of an engine that are not dropped, by context. Threads that wait in a channel of the engine look
/// up here what their messages are for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Communicators(Arc<Mutex<ByContext>>);

type ByContext = Vec<(u32, Weak<Members>)>;

impl Communicators {
    pub(crate) fn add(&self, context: u32, members: &Arc<Members>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(_, members)| members.strong_count() > 0);
        all.push((context, Arc::downgrade(members)));
    }

    fn members(&self, context: u32) -> Option<Arc<Members>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().find(|(other, _)| *other == context)?.1.upgrade()
    }

    /// Returns the description of a receive, or of another call named by `verb`.
    pub(crate) fn receive(&self, verb: &str, pattern: Pattern) -> Option<String> {
        let members = self.members(pattern.context() >> 1)?;
        let tag = pattern.tag().map_or("any tag".to_owned(), |tag| format!("tag {tag}"));
        let from = pattern.source().map_or("any rank".to_owned(), |rank| named(&members, rank));
        Some(told(&members, pattern.context(), format!("{verb} of {tag} from {from}")))
    }

    /// Returns the description of a send to a rank of the world. The tag may be unknown.
    pub(crate) fn send(&self, context: u32, tag: Option<u32>, to: u32) -> Option<String> {
        let members = self.members(context >> 1)?;
        let tag = tag.map_or(String::new(), |tag| format!(" of tag {tag}"));
        Some(told(&members, context, format!("send{tag} to {}", named(&members, to))))
    }
}

/// The bit in a message's context that marks messages of a joint operation.
const TOGETHER: u32 = 1;

/// Returns the description of a call in the communicator of these members. For messages of a joint operation, it
/// describes the operation instead, if that is known.
fn told(members: &Members, context: u32, call: String) -> String {
    let title = &members.title;
    if context & TOGETHER == 0 {
        return title.told(call);
    }
    match title.noted() {
        Some(joint) => title.told(joint),
        None => title.told(format!("joint operation ({call})")),
    }
}

/// Returns the name of a rank of the world among the members.
fn named(members: &Members, world: u32) -> String {
    match members.local(world) {
        Some(local) if local != world as usize => format!("rank {local} (world rank {world})"),
        _ => format!("rank {world}"),
    }
}
