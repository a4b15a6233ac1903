//! A record of the calls in which a rank communicated, for `mprun --trace`.
//!
//! The launcher names a file by an environment variable. At its end, each rank adds a line to it: what it has recorded,
//! as JSON. A rank that does not come to its end adds nothing.

use std::{
    cell::{OnceCell, RefCell},
    collections::HashMap,
    env,
    fs::File,
    io::{self, Write},
    sync::OnceLock,
};

use mp_delegate::trace::{Detail, Kind, Name, Recorder, Recording, Track, now};

use crate::{
    error::{Class, Error},
    state,
};

/// The environment variable that names the file.
const VARIABLE: &str = "ONCHIP_TRACE";

static RECORDED: OnceLock<Recorded> = OnceLock::new();

struct Recorded {
    recording: Recording,
    track: Track,
}

/// What a thread records with.
struct Writer {
    recorder: Recorder,
    /// What is known of the calls that were made.
    known: RefCell<HashMap<&'static str, Known>>,
}

/// What a call does, and its name in the record. Calls that do not communicate are not recorded.
type Known = Option<(Kind, Option<Name>)>;

thread_local! {
    static WRITER: OnceCell<Writer> = const { OnceCell::new() };
}

/// Begins the record, if the launcher wants one.
pub(crate) fn begin() -> Result<(), Error> {
    if env::var_os(VARIABLE).is_some() {
        let rank = state::rank()?.id();
        let track = Track::rank(rank).in_process_of(rank);
        RECORDED.get_or_init(|| Recorded { recording: Recording::trace(), track });
        state::frame_calls();
    }
    Ok(())
}

/// Adds this rank's record to the launcher's file.
pub(crate) fn end() -> Result<(), Error> {
    let (Some(recorded), Some(path)) = (RECORDED.get(), env::var_os(VARIABLE)) else {
        return Ok(());
    };
    let add = || -> io::Result<()> {
        // What another rank has begun to write is not continued.
        let mut line = vec![b'\n'];
        serde_json::to_writer(&mut line, &recorded.recording.take_trace())?;
        line.push(b'\n');
        let mut file = File::options().append(true).open(&path)?;
        file.lock()?;
        file.write_all(&line)
    };
    add().map_err(|error| {
        let path = path.display();
        Error::new(Class::Io, format!("the record of calls can't be added to {path}: {error}"))
    })
}

/// A call, which is recorded when this is dropped.
#[must_use = "the call ends when this is dropped"]
pub(crate) struct Call {
    name: &'static str,
    start: u64,
}

/// Begins to record a call, if there is a record.
pub(crate) fn call(name: &'static str) -> Option<Call> {
    RECORDED.get().map(|_| Call { name, start: now() })
}

impl Drop for Call {
    fn drop(&mut self) {
        let Some(Recorded { recording, track }) = RECORDED.get() else { return };
        // At the end of a thread there is no writer any more.
        let _ = WRITER.try_with(|writer| {
            let new = || Writer { recorder: recording.recorder(*track), known: RefCell::default() };
            let Writer { recorder, known } = writer.get_or_init(new);
            let known = *known
                .borrow_mut()
                .entry(self.name)
                .or_insert_with(|| kind_of(self.name).map(|kind| (kind, recorder.name(self.name))));
            if let Some((kind, name)) = known {
                recorder.span(kind, self.start, now(), Detail::default().on(name));
            }
        });
    }
}

/// Returns what a call of this name does, if it communicates.
fn kind_of(name: &str) -> Option<Kind> {
    let name = name.strip_prefix("MPI_")?.to_lowercase();
    let name = name.strip_suffix("_c").unwrap_or(&name);
    let name = name.strip_prefix('i').unwrap_or(name);
    Some(match name {
        "send" | "bsend" | "ssend" | "rsend" | "start" | "startall" | "pready" | "pready_range"
        | "pready_list" | "put" | "rput" | "accumulate" | "raccumulate" => Kind::Send,
        "recv" | "mrecv" | "probe" | "mprobe" | "parrived" | "get" | "rget" => Kind::Receive,
        "sendrecv" | "sendrecv_replace" | "get_accumulate" | "rget_accumulate" | "fetch_and_op"
        | "compare_and_swap" => Kind::Messages,
        "barrier"
        | "bcast"
        | "gather"
        | "gatherv"
        | "scatter"
        | "scatterv"
        | "allgather"
        | "allgatherv"
        | "alltoall"
        | "alltoallv"
        | "alltoallw"
        | "reduce"
        | "allreduce"
        | "reduce_scatter"
        | "reduce_scatter_block"
        | "scan"
        | "exscan"
        | "comm_dup"
        | "comm_dup_with_info"
        | "comm_create"
        | "comm_create_group"
        | "comm_split"
        | "comm_split_type"
        | "comm_spawn"
        | "comm_spawn_multiple"
        | "comm_accept"
        | "comm_connect"
        | "comm_disconnect"
        | "cart_create"
        | "cart_sub"
        | "graph_create"
        | "dist_graph_create"
        | "dist_graph_create_adjacent"
        | "ntercomm_create"
        | "ntercomm_merge" => Kind::Collective,
        _ if name.starts_with("neighbor_") => Kind::Collective,
        _ if name.starts_with("file_") && (name.contains("_all") || name.contains("_ordered")) => {
            Kind::Collective
        }
        _ if name.starts_with("wait") || name.starts_with("test") => Kind::Wait,
        "win_create"
        | "win_allocate"
        | "win_allocate_shared"
        | "win_create_dynamic"
        | "win_free"
        | "win_fence" => Kind::Collective,
        "win_start"
        | "win_complete"
        | "win_post"
        | "win_wait"
        | "win_test"
        | "win_lock"
        | "win_lock_all"
        | "win_unlock"
        | "win_unlock_all"
        | "win_flush"
        | "win_flush_all"
        | "win_flush_local"
        | "win_flush_local_all" => Kind::Wait,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_communicate_are_known() {
        for (name, kind) in [
            ("MPI_Isend", Kind::Send),
            ("MPI_Recv_c", Kind::Receive),
            ("MPI_Waitall", Kind::Wait),
            ("MPI_Iallreduce", Kind::Collective),
            ("MPI_Intercomm_merge", Kind::Collective),
            ("MPI_Ineighbor_alltoallw_c", Kind::Collective),
            ("MPI_File_write_at_all", Kind::Collective),
            ("MPI_Sendrecv", Kind::Messages),
        ] {
            assert_eq!(kind_of(name), Some(kind), "{name}");
        }
        for name in
            ["MPI_Comm_rank", "MPI_Info_get", "MPI_Get_address", "MPI_File_get_size", "MPIX_Any"]
        {
            assert_eq!(kind_of(name), None, "{name}");
        }
    }
}
