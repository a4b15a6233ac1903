//! What a call waits for, as reports tell it. The texts are made only when a wait is recorded.

use std::sync::Arc;

use crate::communicator::{
    members::Members,
    messages::engine::{Engine, Handle, Local},
    messages::send_queue::Course,
    messages::store::Pattern,
    point_to_point::Stream,
    title::Title,
};

/// What a call of the message engine waits for.
#[derive(Clone, Copy)]
pub(crate) enum Waited<'a> {
    /// For the requests with these [numbers](Handle::number), and for sends that the call itself makes.
    Requests(&'a [usize], &'a [Local<'a>]),
    /// For room for a message to this rank of the world.
    Room(u32, &'a Course),
    /// For a message, to look at it.
    Probe(Pattern),
    /// For everything that is to be sent.
    Flush,
}

/// A communicator as a report tells it.
struct Place {
    members: Option<Arc<Members>>,
    /// Whether the message is one of a joint operation.
    together: bool,
}

impl Place {
    /// Returns the text of a call here. What is known of the joint operation stands in place of its messages.
    fn told(&self, call: String) -> String {
        let Some(members) = &self.members else { return call };
        let title: &Title = &members.title;
        match (self.together, title.noted()) {
            (true, Some(joint)) => title.told(joint),
            (true, None) => title.told(format!("joint operation ({call})")),
            (false, _) => title.told(call),
        }
    }

    /// Returns the name of a rank of the world in the communicator.
    fn rank(&self, world: u32) -> String {
        let members = self.members.as_ref();
        match members.and_then(|members| members.local(world)) {
            Some(local) if local != world as usize => format!("rank {local} (world rank {world})"),
            _ => format!("rank {world}"),
        }
    }

    fn receive(&self, verb: &str, pattern: Pattern) -> String {
        let tag = pattern.tag().map_or("any tag".to_owned(), |tag| format!("tag {tag}"));
        let from = pattern.source().map_or("any rank".to_owned(), |rank| self.rank(rank));
        self.told(format!("{verb} of {tag} from {from}"))
    }

    fn send(&self, tag: Option<u32>, to: u32) -> String {
        let tag = tag.map_or(String::new(), |tag| format!(" of tag {tag}"));
        self.told(format!("send{tag} to {}", self.rank(to)))
    }
}

impl Engine {
    fn place_of(&self, context: u32) -> Place {
        let together = context & 1 == Stream::Together as u32;
        Place { members: self.members_of(context >> 1), together }
    }

    /// Returns the call that a pending request waits in.
    pub(crate) fn call_of(&self, handle: Handle) -> Option<String> {
        match handle {
            Handle::Receive(place) => {
                let posted = self.matching.receives.get(place).filter(|it| !it.has_ended())?;
                let pattern = posted.pattern();
                Some(self.place_of(pattern.context()).receive("receive", pattern))
            }
            Handle::Send(place) => {
                let sending = self.matching.sends.get(place).filter(|it| !it.is_done())?;
                Some(self.place_of(sending.context).send(Some(sending.tag), sending.to))
            }
        }
    }

    /// Returns the calls that wait.
    pub(crate) fn calls_of(&self, waited: Waited<'_>) -> Vec<String> {
        let send = |to, course: &Course| self.place_of(course.context()).send(course.tag(), to);
        match waited {
            Waited::Requests(handles, locals) => {
                let handles = handles.iter().map(|&handle| Handle::from_number(handle));
                let locals = locals.iter().filter_map(Local::unfinished);
                let locals = locals.map(|(to, course)| send(to, course));
                handles.filter_map(|handle| self.call_of(handle)).chain(locals).collect()
            }
            Waited::Room(to, course) => vec![send(to, course)],
            Waited::Probe(pattern) => {
                vec![self.place_of(pattern.context()).receive("probe", pattern)]
            }
            Waited::Flush => vec!["sends that wait to go".to_owned()],
        }
    }
}
