//! What there is to say about a call: with whom it communicates, and how much.
//!
//! It is found by the names that the parameters have in `calls`.

use std::{
    ffi::{c_int, c_void},
    ptr::null_mut,
};

use serde_json::{Map, Value, json};

use super::place::TEXT;
use crate::{
    boxed::Boxed,
    comm::Comm,
    constants::{MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_PROC_NULL, MPI_ROOT},
    datatype,
    handles::Handles,
    ints::Ints,
    types::{Handle, Status},
    window::Win,
};

/// The name of a parameter, and what the program has given for it.
pub type Argument = (&'static str, Given);

/// What a program has given for a parameter.
#[derive(Clone, Copy, Debug)]
pub enum Given {
    /// A number.
    Number(i64),
    /// An array of numbers.
    Numbers(Ints),
    /// A handle.
    Handle(Handle),
    /// An array of handles.
    Handles(Handles),
    /// The address of a buffer, or `MPI_IN_PLACE`.
    Buffer(*const c_void),
}

/// The most letters of a name that the program has given.
const NAME: usize = 40;

/// What there is to say about a call.
pub(crate) struct Facts {
    name: &'static str,
    kind: &'static str,
    args: Map<String, Value>,
    /// The communicator of the call, or null.
    comm: Handle,
}

impl Facts {
    /// Finds out what there is to say about a call of this name and kind.
    ///
    /// # Safety
    /// The program has given the arguments as the standard says.
    pub unsafe fn of(name: &'static str, kind: &'static str, given: &[Argument]) -> Self {
        let comm = handle(given, "comm").unwrap_or(null_mut());
        let mut facts = Self { name, kind, args: Map::new(), comm };
        let call = Call { name: plain(name), given };
        // SAFETY: the caller says so.
        unsafe { facts.fill(&call) };
        facts
    }

    /// # Safety
    /// As for [`of`](Self::of).
    unsafe fn fill(&mut self, call: &Call<'_>) {
        if let Some(requests) = call.requests() {
            return self.say("requests", requests);
        }
        // SAFETY: the caller says so.
        if let Some(window) = call.handle("window").and_then(|one| unsafe { Win::look(one) }.ok()) {
            let target = call.number("target").or(call.number("rank"));
            self.say_rank("target", target, &window.comm);
            self.say("ranks", window.comm.size);
            let name = window.name.borrow();
            if !name.is_empty() {
                self.say("window", shortened(&name));
            }
        }
        // SAFETY: the caller says so.
        if let Ok(comm) = unsafe { Comm::look(self.comm) } {
            self.say_rank("to", call.number("to"), comm);
            self.say_rank("from", call.number("source").or(call.number("from")), comm);
            self.say_rank("root", call.number("root"), comm);
            self.say_tag("tag", call.number("tag").or(call.number("send_tag")));
            self.say_tag("receive_tag", call.number("receive_tag"));
            self.say("ranks", comm.size);
            let name = comm.name();
            if !name.is_empty() {
                self.say("comm", shortened(&name));
            }
        }
        // SAFETY: the caller says so.
        unsafe {
            if let Some(bytes) = call.bytes(Comm::look(self.comm).ok()) {
                self.say("bytes", bytes);
            }
            if let Some(bytes) = call.product("receive_count", "receive_type") {
                self.say("receive_bytes", bytes);
            }
        }
    }

    fn say(&mut self, name: &str, value: impl Into<Value>) {
        self.args.insert(name.to_owned(), value.into());
    }

    /// Says which rank of the world another rank of a communicator is.
    fn say_rank(&mut self, name: &str, rank: Option<i64>, comm: &Comm) {
        let Some(rank) = rank.and_then(|rank| c_int::try_from(rank).ok()) else { return };
        match rank {
            MPI_ANY_SOURCE => self.say(name, "any"),
            MPI_PROC_NULL => self.say(name, "none"),
            MPI_ROOT => self.say(name, comm.world_rank(comm.rank)),
            _ => {
                if let Some(rank) = comm.world_peer(rank) {
                    self.say(name, rank);
                }
            }
        }
    }

    fn say_tag(&mut self, name: &str, tag: Option<i64>) {
        match tag {
            Some(tag) if tag == i64::from(MPI_ANY_TAG) => self.say(name, "any"),
            Some(tag) => self.say(name, tag),
            None => {}
        }
    }

    /// Says what the status says of the message that was received.
    ///
    /// # Safety
    /// The communicator of the call is still there.
    pub unsafe fn received(&mut self, status: &Status) {
        let (tag, bytes) = match self.args.contains_key("receive_tag") {
            true => ("receive_tag", "receive_bytes"),
            false => ("tag", "bytes"),
        };
        // SAFETY: the caller says so.
        if let Ok(comm) = unsafe { Comm::look(self.comm) } {
            self.say_rank("from", Some(status.source.into()), comm);
        }
        self.say_tag(tag, Some(status.tag.into()));
        self.say(bytes, status.bytes());
    }

    /// Returns the event of the trace but for its times, as JSON of at most [`TEXT`] bytes.
    pub fn text(&self) -> String {
        let text = |args: &Map<String, Value>| {
            json!({ "name": self.name, "cat": self.kind, "args": args }).to_string()
        };
        let whole = text(&self.args);
        if whole.len() <= TEXT {
            return whole;
        }
        // Letters that JSON writes as many may have made a name too long.
        let mut args = self.args.clone();
        args.retain(|name, _| !["comm", "window"].contains(&&**name));
        text(&args)
    }
}

/// The arguments of a call.
struct Call<'a> {
    /// The name in lower case, without the signs of its form.
    name: String,
    given: &'a [Argument],
}

impl Call<'_> {
    fn number(&self, name: &str) -> Option<i64> {
        find(self.given, name).and_then(|given| match given {
            Given::Number(number) => Some(number),
            _ => None,
        })
    }

    fn numbers(&self, name: &str) -> Option<Ints> {
        find(self.given, name).and_then(|given| match given {
            Given::Numbers(numbers) if !numbers.is_null() => Some(numbers),
            _ => None,
        })
    }

    fn handle(&self, name: &str) -> Option<Handle> {
        handle(self.given, name)
    }

    fn is_in_place(&self, name: &str) -> bool {
        // The standard's number of it.
        matches!(find(self.given, name), Some(Given::Buffer(at)) if at.addr() == 1)
    }

    /// Returns for how many requests the call waits, or how many it starts.
    fn requests(&self) -> Option<i64> {
        let beginnings = ["wait", "test", "start", "request_get_status"];
        let is_one = beginnings.iter().any(|start| self.name.starts_with(start));
        is_one.then(|| self.number("count").unwrap_or(1))
    }

    /// Returns how many bytes the elements of a type have.
    ///
    /// # Safety
    /// The type is valid, if it is given.
    unsafe fn size(&self, datatype: &str) -> Option<i64> {
        // SAFETY: the caller says so.
        Some(unsafe { datatype::look(self.handle(datatype)?) }.ok()?.size)
    }

    /// Returns how many bytes the elements have whose number and type are the arguments of these names.
    ///
    /// # Safety
    /// As for [`size`](Self::size).
    unsafe fn product(&self, count: &str, datatype: &str) -> Option<i64> {
        // SAFETY: the caller says so.
        Some(self.number(count)?.saturating_mul(unsafe { self.size(datatype)? }))
    }

    /// Returns how many bytes an array of counts says, at these places.
    ///
    /// # Safety
    /// As for [`size`](Self::size), and the array has these places.
    unsafe fn sum(
        &self,
        counts: &str,
        datatype: &str,
        mut places: impl Iterator<Item = usize>,
    ) -> Option<i64> {
        // SAFETY: the caller says so.
        let (counts, size) = unsafe { (self.numbers(counts)?, self.size(datatype)?) };
        // SAFETY: as above.
        let count =
            places.try_fold(0_i64, |sum, place| sum.checked_add(unsafe { counts.get(place) }));
        Some(count?.saturating_mul(size))
    }

    /// Returns how many bytes the call sends or, if it does not send, gets at most: of a message, for a target, or what
    /// this rank has in a collective operation.
    ///
    /// # Safety
    /// The program has given the arguments as the standard says.
    unsafe fn bytes(&self, comm: Option<&Comm>) -> Option<i64> {
        let root = self.number("root").and_then(|root| c_int::try_from(root).ok());
        let is_root = root == Some(MPI_ROOT) || comm.is_some_and(|comm| root == Some(comm.rank));
        let is_inter = comm.is_some_and(Comm::is_inter);
        // The root of one group gives or gets nothing of its own, and others of that group take no part.
        if root == Some(MPI_PROC_NULL) {
            return None;
        }
        // SAFETY: the caller says so, and only what the standard says is significant is used.
        unsafe {
            if let Some(bytes) = self.number("bytes") {
                return Some(bytes);
            }
            // What the origin has counts for nothing in some operations, which only get.
            if self.handle("target_type").is_some() {
                return self.product("target_count", "target_type");
            }
            if self.number("target").is_some() {
                return self.size("datatype");
            }
            if self.handle("send_type").is_some() {
                return self.product("send_count", "send_type");
            }
            if let Some(comm) = comm {
                if self.name.starts_with("reduce_scatter") {
                    let each =
                        self.product("each", "datatype").or(self.product("count", "datatype"));
                    let of_all = each.map(|each| each.saturating_mul(comm.size.into()));
                    return of_all.or(self.sum("counts", "datatype", 0..comm.size as usize));
                }
                if find(self.given, "sent").is_some() && self.handle("datatype").is_none() {
                    return match is_inter && root == Some(MPI_ROOT) {
                        true => None,
                        false => self.exchanged(comm, is_root),
                    };
                }
            }
            self.product("count", "datatype")
        }
    }

    /// Returns how many bytes this rank gives in an operation that sends some and receives some. In a scatter, it is
    /// what the rank gets.
    ///
    /// # Safety
    /// As for [`bytes`](Self::bytes), and the rank gives or gets something.
    unsafe fn exchanged(&self, comm: &Comm, is_root: bool) -> Option<i64> {
        let is_scatter = self.name.starts_with("scatter");
        let takes_received = match is_scatter {
            true => !(is_root && self.is_in_place("received")),
            false => self.is_in_place("sent"),
        };
        let [count, counts, datatype, types] = match takes_received {
            true => ["received_count", "received_counts", "received_type", "received_types"],
            false => ["sent_count", "sent_counts", "sent_type", "sent_types"],
        };
        let (me, is_alltoall) = (comm.rank as usize, self.name.contains("alltoall"));
        let others = match comm.topology.get() {
            Some(topology) if self.name.starts_with("neighbor") => topology.neighbours(me)[1].len(),
            _ => comm.peers as usize,
        };
        // SAFETY: the caller says so.
        unsafe {
            if let Some(Given::Handles(types)) = find(self.given, types) {
                let counts = self.numbers(counts)?;
                let of = |place| {
                    let size = datatype::look(types.get(place)).ok()?.size;
                    Some(counts.get(place).saturating_mul(size))
                };
                return (0..others).try_fold(0_i64, |sum, place| sum.checked_add(of(place)?));
            }
            match (self.product(count, datatype), is_alltoall) {
                (Some(each), true) => Some(each.saturating_mul(others as i64)),
                (Some(each), false) => Some(each),
                (None, true) => self.sum(counts, datatype, 0..others),
                (None, false) => self.sum(counts, datatype, me..me + 1),
            }
        }
    }
}

fn find(given: &[Argument], name: &str) -> Option<Given> {
    given.iter().find(|(known, _)| *known == name).map(|&(_, given)| given)
}

fn handle(given: &[Argument], name: &str) -> Option<Handle> {
    match find(given, name) {
        Some(Given::Handle(handle)) => Some(handle),
        _ => None,
    }
}

/// Returns the name of an operation: that of its function in lower case, without the signs of its form.
fn plain(name: &str) -> String {
    let name = name.trim_start_matches("MPI_").to_lowercase();
    let name = name.strip_suffix("_c").unwrap_or(&name);
    let name = name.strip_suffix("_init").unwrap_or(name);
    let is_begun = |rest: &&str| !rest.starts_with("ntercomm");
    name.strip_prefix('i').filter(is_begun).unwrap_or(name).to_owned()
}

fn shortened(name: &str) -> String {
    name.chars().take(NAME).collect()
}
