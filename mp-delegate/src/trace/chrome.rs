//! Traces in Chrome's trace-event format, in its object form: complete events (`X`), names of
//! processes and threads (`M`), and an arrow (`s` to `f`) from each delegation to its execution.

use super::{Kind, Lane, Span, Trace, Track};
use serde_json::{Map, Value, json};
use std::cmp::Reverse;
use std::io::{self, Write};

/// Communication threads are numbered from here, ranks from 0.
const FIRST_KT: u64 = 1 << 20;

impl Trace {
    /// Writes the trace as JSON for Perfetto, `chrome://tracing`, and `mprun trace-svg`.
    ///
    /// Times count from the beginning of the first span. Spans that were dropped are counted in `otherData`.
    ///
    /// # Errors
    /// The errors of writing to `to`.
    pub fn write_chrome(&self, to: impl Write) -> io::Result<()> {
        let spans = self.tracks.iter().flat_map(|track| &track.spans);
        let origin = spans.map(|span| span.start).min().unwrap_or(0);
        let several = self.tracks.iter().any(|track| track.track.process > 0);
        let mut events = Events { to, separator: "" };
        let mut dropped = Map::new();
        events.to.write_all(b"{\"traceEvents\":[")?;
        for row in &self.tracks {
            let Track { process, lane } = row.track;
            let process =
                if several { format!("process of rank {process}") } else { "world".into() };
            events.fact(row.track, "process_name", json!({ "name": process }))?;
            events.fact(row.track, "thread_name", json!({ "name": lane.to_string() }))?;
            events.fact(row.track, "thread_sort_index", json!({ "sort_index": number(lane) }))?;
            if row.dropped > 0 {
                dropped.insert(format!("{process}, {lane}"), row.dropped.into());
            }
            // Viewers want a span before those within it.
            let mut spans: Vec<&Span> = row.spans.iter().collect();
            spans.sort_by_key(|span| (span.start, Reverse(span.end)));
            for span in spans {
                self.write_span(&mut events, row.track, span, origin)?;
            }
        }
        let other = json!({ "begins_at_monotonic_ns": origin, "dropped_spans": dropped });
        writeln!(events.to, "\n],\"displayTimeUnit\":\"ns\",\"otherData\":{other}}}")?;
        events.to.flush()
    }

    fn write_span<W: Write>(
        &self,
        events: &mut Events<W>,
        track: Track,
        span: &Span,
        origin: u64,
    ) -> io::Result<()> {
        let Span { kind, start, end, detail } = *span;
        let mut args = Map::new();
        let mut say = |name: &str, value: Option<Value>| {
            args.extend(value.map(|value| (name.to_owned(), value)));
        };
        say("from", detail.from.map(Value::from));
        say("to", detail.to.map(Value::from));
        let where_to = if kind == Kind::Collective { "operation" } else { "channel" };
        say(where_to, detail.channel.and_then(|name| self.name(name)).map(Value::from));
        say("bytes", detail.bytes.map(Value::from));
        say("units", detail.units.map(Value::from));
        say("cpu_ns", detail.cpu_ns.map(Value::from));
        let (pid, tid) = (track.process, number(track.lane));
        let begin = micros(start.saturating_sub(origin));
        events.put(&json!({
            "ph": "X", "name": kind.name(), "cat": category(track), "pid": pid, "tid": tid,
            "ts": begin, "dur": micros(end.saturating_sub(start)), "args": args,
        }))?;
        let Some(flow) = detail.flow else { return Ok(()) };
        let phase = if kind == Kind::Delegate { "s" } else { "f" };
        // As text: the number is beyond what a double holds.
        events.put(&json!({
            "ph": phase, "bp": "e", "id": format!("{:#x}", flow.0), "name": "delegation",
            "cat": "delegation", "pid": pid, "tid": tid, "ts": begin,
        }))
    }
}

/// The events of a file, one per line.
struct Events<W> {
    to: W,
    separator: &'static str,
}

impl<W: Write> Events<W> {
    fn put(&mut self, event: &Value) -> io::Result<()> {
        write!(self.to, "{}\n{event}", self.separator)?;
        self.separator = ",";
        Ok(())
    }

    fn fact(&mut self, track: Track, name: &str, args: Value) -> io::Result<()> {
        let (pid, tid) = (track.process, number(track.lane));
        self.put(&json!({ "ph": "M", "name": name, "pid": pid, "tid": tid, "args": args }))
    }
}

fn number(lane: Lane) -> u64 {
    match lane {
        Lane::Rank(rank) => rank.into(),
        Lane::Kt(kt) => FIRST_KT + u64::from(kt),
    }
}

fn category(track: Track) -> &'static str {
    match track.lane {
        Lane::Rank(_) => "rank",
        Lane::Kt(_) => "communication thread",
    }
}

/// Converts to microseconds, the unit of the format.
fn micros(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1000.0
}
