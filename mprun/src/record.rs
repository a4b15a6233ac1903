//! `mprun --trace FILE`: the calls of MPI that the ranks have recorded, as one trace or as a picture.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs::{self, File},
    io::{self, Write},
    os::{fd::AsRawFd, unix::fs::FileExt},
    path::{Path, PathBuf},
    process,
};

use nix::sys::memfd::{MFdFlags, memfd_create};
use onchip::trace::now;
use serde_json::{Map, Value, json};

use crate::trace_svg;

/// The environment variable by which ranks find where to write their calls.
const VARIABLE: &str = "ONCHIP_TRACE";

// What a rank has written. `mp-abi/src/trace/place.rs` says what it means.
const MARK: u64 = 0x6f6e_6368_6970_0001;
const HEAD: usize = 4096;
const SLOTS: usize = 1 << 16;
const SLOT: usize = 320;
const PART: usize = HEAD + SLOTS * SLOT;

/// A file in memory, in which each rank writes its calls to a part of its own, and where the trace goes.
#[derive(Debug)]
pub struct Record {
    to: PathBuf,
    parts: File,
    /// When each rank was found to have ended.
    ends: BTreeMap<usize, u64>,
}

/// How a rank has ended.
pub struct End {
    pub rank: usize,
    /// What is to be said of it after MPI_Finalize, and without it.
    pub with: String,
    pub without: String,
}

/// A call, in which the rank is still if it has no end.
struct Call {
    start: u64,
    end: Option<u64>,
    event: Map<String, Value>,
}

/// What a rank has recorded.
struct Part {
    calls: Vec<Call>,
    dropped: u64,
    is_finalized: bool,
}

impl Record {
    /// Creates the files, so that one that can't be written is found before the program starts.
    pub fn begin(to: &Path) -> Result<Record, String> {
        let made = File::options().create(true).append(true).open(to);
        made.map_err(|error| format!("{}: {error}", to.display()))?;
        let parts = memfd_create("onchip trace", MFdFlags::MFD_CLOEXEC)
            .map_err(|error| format!("memory for what the ranks record: {error}"))?;
        Ok(Record { to: to.to_owned(), parts: parts.into(), ends: BTreeMap::new() })
    }

    /// Returns the assignment that the environment of the ranks needs.
    pub fn assignment(&self) -> OsString {
        format!("{VARIABLE}=/proc/{}/fd/{}", process::id(), self.parts.as_raw_fd()).into()
    }

    /// Notes that these ranks have ended, if that is not known yet.
    pub fn note_ends(&mut self, ended: impl Iterator<Item = usize>) {
        for rank in ended {
            self.ends.entry(rank).or_insert_with(now);
        }
    }

    /// Writes the trace of all ranks, which have ended. Returns what is to be said about it, if anything is.
    pub fn finish(&self, ends: &[End]) -> Result<Option<String>, String> {
        let at = self.to.display();
        let mut parts = Vec::new();
        for end in ends {
            let part = Part::read(&self.parts, end.rank).map_err(|error| {
                format!("what rank {} has recorded can't be read: {error}", end.rank)
            })?;
            parts.extend(part.map(|part| (end, part)));
        }
        if parts.iter().all(|(_, part)| part.calls.is_empty()) {
            return Err(format!(
                "{at} is not written, because no rank has recorded a call: only programs for MPI do so; a program in \
                 Rust writes its own trace"
            ));
        }
        self.write(&parts).map_err(|error| format!("{at}: {error}"))?;
        let lacks = (parts.len() < ends.len()).then(|| {
            let (count, ranks) = (parts.len(), ends.len());
            format!("{at} shows {count} of {ranks} ranks: the others did not come to MPI_Init")
        });
        Ok(lacks)
    }

    /// Writes a picture if that is what the name of the file asks for, and else Chrome's trace-event format.
    fn write(&self, parts: &[(&End, Part)]) -> io::Result<()> {
        let mut json = Vec::new();
        self.write_chrome(parts, &mut json)?;
        if self.to.extension().is_none_or(|extension| extension != "svg") {
            return fs::write(&self.to, json);
        }
        fs::write(&self.to, trace_svg::picture_of(&json).map_err(io::Error::other)?)
    }

    /// Writes the trace in Chrome's trace-event format, as `onchip::trace` does.
    fn write_chrome(&self, parts: &[(&End, Part)], to: &mut Vec<u8>) -> io::Result<()> {
        let calls = parts.iter().flat_map(|(_, part)| &part.calls);
        let origin = calls.map(|call| call.start).min().unwrap_or(0);
        let micros = |from: u64, to: u64| to.saturating_sub(from) as f64 / 1000.0;
        let (mut dropped, mut ends) = (Map::new(), Map::new());
        to.write_all(b"{\"traceEvents\":[")?;
        let mut separator = "";
        let mut put = |event: &Value| {
            let written = write!(to, "{separator}\n{event}");
            separator = ",";
            written
        };
        for (end, part) in parts {
            let (rank, name) = (end.rank, format!("rank {}", end.rank));
            let process = format!("process of {name}");
            for (what, text) in [("process_name", &process), ("thread_name", &name)] {
                put(&json!({
                    "ph": "M", "name": what, "pid": rank, "tid": rank, "args": { "name": text }
                }))?;
            }
            let ended = self.ends.get(&rank).copied().unwrap_or_else(now);
            for call in &part.calls {
                let mut event = call.event.clone();
                let length = micros(call.start, call.end.unwrap_or(ended));
                let start = micros(origin, call.start);
                for (name, value) in [
                    ("ph", "X".into()),
                    ("pid", rank.into()),
                    ("tid", rank.into()),
                    ("ts", start.into()),
                    ("dur", length.into()),
                ] {
                    event.insert(name.to_owned(), value);
                }
                if call.end.is_none()
                    && let Some(Value::Object(args)) = event.get_mut("args")
                {
                    args.insert("unfinished".to_owned(), true.into());
                }
                put(&Value::Object(event))?;
            }
            let how = if part.is_finalized { &end.with } else { &end.without };
            if !part.is_finalized {
                put(&json!({
                    "ph": "i", "s": "t", "cat": "end", "name": how, "pid": rank, "tid": rank,
                    "ts": micros(origin, ended),
                }))?;
            }
            ends.insert(name.clone(), how.as_str().into());
            if part.dropped > 0 {
                dropped.insert(name, part.dropped.into());
            }
        }
        let other = json!({
            "begins_at_monotonic_ns": origin, "dropped_spans": dropped, "ends": ends
        });
        writeln!(to, "\n],\"displayTimeUnit\":\"ns\",\"otherData\":{other}}}")
    }
}

impl Drop for Record {
    /// Removes the file if there is nothing in it.
    fn drop(&mut self) {
        if fs::metadata(&self.to).is_ok_and(|about| about.is_file() && about.len() == 0) {
            let _ = fs::remove_file(&self.to);
        }
    }
}

impl Part {
    /// Reads what a rank has recorded, if it has begun to.
    fn read(from: &File, rank: usize) -> io::Result<Option<Part>> {
        let at = (rank * PART) as u64;
        if from.metadata()?.len() < at + PART as u64 {
            return Ok(None);
        }
        let mut head = [0; 24];
        from.read_exact_at(&mut head, at)?;
        let count = number(&head[8..]);
        if number(&head) != MARK {
            return Ok(None);
        }
        let kept = count.min(SLOTS as u64);
        let mut slots = vec![0; kept as usize * SLOT];
        from.read_exact_at(&mut slots, at + HEAD as u64)?;
        let mut calls: Vec<Call> = slots.chunks_exact(SLOT).filter_map(Call::read).collect();
        // Viewers want a call before those within it, and the last calls are in a ring.
        calls.sort_by_key(|call| (call.start, std::cmp::Reverse(call.end.unwrap_or(u64::MAX))));
        Ok(Some(Part { calls, dropped: count - kept, is_finalized: number(&head[16..]) > 0 }))
    }
}

impl Call {
    /// Reads a call, if the rank has come to write it.
    fn read(slot: &[u8]) -> Option<Call> {
        let (start, end, text) = (number(slot), number(&slot[8..]), &slot[16..]);
        let text = text.split(|&byte| byte == 0).next()?;
        let event = serde_json::from_slice(text).ok().filter(|_| start > 0)?;
        Some(Call { start, end: Some(end).filter(|&end| end > 0), event })
    }
}

/// Returns the number that bytes begin with.
fn number(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |&bytes| u64::from_ne_bytes(bytes))
}
