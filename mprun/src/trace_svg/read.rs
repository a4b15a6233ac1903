//! A reader of Chrome's trace-event format, as far as the format says which thread did what and when.
//!
//! It reads both forms: an array of events, whose closing bracket may be missing if a program was stopped while it
//! wrote, and an object with `traceEvents`. It reads complete events (`X`), begin and end (`B`, `E`), names and order
//! of threads and processes (`M`), flows (`s`, `t`, `f`), and of moments (`i`) the ends of ranks. It skips other events.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
};

use onchip::trace::Kind;
use serde_json::Value;

/// The spans of all threads. Times are in nanoseconds from the first span's beginning.
#[derive(Debug, Default, PartialEq)]
pub struct Timeline {
    /// Threads, in the order in which they are shown.
    pub rows: Vec<Row>,
    /// Flows from one row to another, in the order of their ends.
    pub arrows: Vec<Arrow>,
    /// Ends of ranks that a text tells of.
    pub marks: Vec<Mark>,
    /// The number of spans that the writer had no room for.
    pub dropped: u64,
}

/// The spans of one thread.
#[derive(Debug, PartialEq)]
pub struct Row {
    pub process: String,
    pub name: String,
    /// The spans in the order of their beginnings, outer before inner.
    pub bars: Vec<Bar>,
}

#[derive(Debug, PartialEq)]
pub struct Bar {
    pub name: String,
    pub start: i64,
    pub end: i64,
    /// The number of other spans that this one is within.
    pub depth: usize,
}

/// The two ends of a flow, each as row and time.
#[derive(Debug, PartialEq)]
pub struct Arrow {
    pub from: (usize, i64),
    pub to: (usize, i64),
}

/// A moment, as row and time, and what is said of it.
#[derive(Debug, PartialEq)]
pub struct Mark {
    pub at: (usize, i64),
    pub text: String,
}

impl Timeline {
    /// Returns the nanoseconds from the first beginning to the last end; at least 1.
    pub fn length(&self) -> i64 {
        let ends = self.rows.iter().flat_map(|row| &row.bars).map(|bar| bar.end);
        ends.chain(self.marks.iter().map(|mark| mark.at.1)).max().unwrap_or(0).max(1)
    }
}

/// The limit of a time on either side of 0 in microseconds, 95 years. With lengths and differences of such times,
/// nanoseconds fit.
const LATEST: f64 = 3e15;

/// Reads a trace. The error says what is wrong with it, as the rest of a sentence.
pub fn timeline(bytes: &[u8]) -> Result<Timeline, String> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        // The file was cut off in the middle of a character.
        Err(error) if error.error_len().is_none() => {
            str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return Err("no trace: not even text".to_owned()),
    };
    let file = parse(text.trim_start_matches('\u{feff}'))?;
    let events = match &file {
        Value::Array(events) => events,
        Value::Object(fields) => match fields.get("traceEvents") {
            Some(Value::Array(events)) => events,
            Some(_) => return Err("no trace: \"traceEvents\" is no array".to_owned()),
            None => return Err("no trace: an object without \"traceEvents\"".to_owned()),
        },
        _ => return Err("no trace: neither an array nor an object".to_owned()),
    };
    let mut reader = Reader::default();
    let mut timed = Vec::new();
    for (index, value) in events.iter().enumerate() {
        let event = Event::of(value).map_err(|reason| format!("event {index} {reason}"))?;
        if event.phase == "M" {
            reader.describe(&event);
        } else if event.is_drawn() {
            let time = event.time().map_err(|reason| format!("event {index} {reason}"))?;
            timed.push((time, index, event));
        }
    }
    // The order in the file follows the threads, or the times at which their buffers were full.
    timed.sort_by_key(|&(time, index, _)| (time, index));
    for (time, index, event) in &timed {
        reader.take(event, *time).map_err(|reason| format!("event {index} {reason}"))?;
    }
    reader.finish(dropped(&file))
}

fn parse(text: &str) -> Result<Value, String> {
    if text.trim().is_empty() {
        return Err("empty".to_owned());
    }
    let error = match serde_json::from_str(text) {
        Ok(file) => return Ok(file),
        Err(error) => error,
    };
    if !error.is_eof() {
        return Err(format!("no JSON: {error}"));
    }
    let whole = text.trim_end().trim_end_matches(',');
    if text.trim_start().starts_with('[')
        && let Ok(file) = serde_json::from_str(&format!("{whole}]"))
    {
        return Ok(file);
    }
    Err(format!("truncated: {error}"))
}

/// Returns how many spans Onchip says it did not keep.
fn dropped(file: &Value) -> u64 {
    let counts = file.get("otherData").and_then(|other| other.get("dropped_spans"));
    let counts = counts.and_then(Value::as_object);
    counts.map_or(0, |counts| counts.values().filter_map(Value::as_u64).sum())
}

struct Event<'a> {
    phase: &'a str,
    fields: &'a Value,
}

impl<'a> Event<'a> {
    fn of(fields: &'a Value) -> Result<Self, String> {
        if !fields.is_object() {
            return Err("is no object".to_owned());
        }
        let phase = fields.get("ph").and_then(Value::as_str);
        phase.map(|phase| Self { phase, fields }).ok_or("has no \"ph\"".to_owned())
    }

    fn is_drawn(&self) -> bool {
        matches!(self.phase, "X" | "B" | "E" | "s" | "t" | "f") || self.is_mark()
    }

    /// Returns whether it says how a rank ended. Moments of other tools may be many, and are not drawn.
    fn is_mark(&self) -> bool {
        self.phase == "i" && self.text("cat") == Some("end")
    }

    fn text(&self, field: &str) -> Option<&'a str> {
        self.fields.get(field).and_then(Value::as_str)
    }

    /// Returns the time in a field, in nanoseconds.
    fn nanoseconds(&self, field: &str) -> Result<Option<i64>, String> {
        let Some(value) = self.fields.get(field) else { return Ok(None) };
        let micros = value.as_f64().or_else(|| value.as_str()?.parse().ok());
        match micros.filter(|micros| micros.abs() < LATEST) {
            Some(micros) => Ok(Some((micros * 1000.0).round() as i64)),
            None => Err(format!("has a \"{field}\" that is no time: {value}")),
        }
    }

    fn time(&self) -> Result<i64, String> {
        self.nanoseconds("ts")?.ok_or_else(|| "has no \"ts\"".to_owned())
    }

    fn name(&self) -> String {
        let name = self.text("name").filter(|name| !name.is_empty());
        name.unwrap_or("(unnamed)").to_owned()
    }

    /// Returns what a span is drawn as: a kind that Onchip records, if its category is one, or else its name.
    fn bar(&self) -> String {
        let is_kind = |name: &&str| Kind::ALL.iter().any(|kind| kind.name() == *name);
        self.text("cat").filter(is_kind).map_or_else(|| self.name(), str::to_owned)
    }

    fn id(&self, field: &str) -> Id {
        match self.fields.get(field) {
            None | Some(Value::Null) => Id::default(),
            Some(Value::String(text)) => Id { number: text.parse().ok(), text: text.clone() },
            Some(value) => Id { number: value.as_i64(), text: value.to_string() },
        }
    }

    fn thread(&self) -> Thread {
        (self.id("pid"), self.id("tid"))
    }

    /// Returns what the events of a flow have in common.
    fn flow(&self) -> (String, String, String) {
        let text = |field| self.fields.get(field).map(Value::to_string).unwrap_or_default();
        (text("cat"), text("name"), text("id"))
    }

    fn fact(&self, name: &str) -> Option<&'a Value> {
        self.fields.get("args")?.get(name)
    }
}

/// A number, or the string that some tools write instead. Numbers come first, by value.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Id {
    number: Option<i64>,
    text: String,
}

type Thread = (Id, Id);

/// The place of a row: processes and threads in the order that the trace says, then by number.
type Place = (i64, Id, i64, Id);

#[derive(Default)]
struct Reader {
    process_names: HashMap<Id, String>,
    process_order: HashMap<Id, i64>,
    thread_names: HashMap<Thread, String>,
    thread_order: HashMap<Thread, i64>,
    bars: HashMap<Thread, Vec<Bar>>,
    /// Spans that have begun and not ended.
    open: HashMap<Thread, Vec<(String, i64)>>,
    flows: HashMap<(String, String, String), (Thread, i64)>,
    arrows: Vec<((Thread, i64), (Thread, i64))>,
    marks: Vec<(Thread, i64, String)>,
    latest: i64,
}

impl Reader {
    fn describe(&mut self, event: &Event) {
        let (process, thread) = (event.id("pid"), event.thread());
        let name = || event.fact("name").and_then(Value::as_str).map(str::to_owned);
        let order = || event.fact("sort_index").and_then(Value::as_i64);
        match event.name().as_str() {
            "process_name" => self.process_names.extend(name().map(|name| (process, name))),
            "process_sort_index" => {
                self.process_order.extend(order().map(|order| (process, order)));
            }
            "thread_name" => self.thread_names.extend(name().map(|name| (thread, name))),
            "thread_sort_index" => self.thread_order.extend(order().map(|order| (thread, order))),
            _ => {}
        }
    }

    fn take(&mut self, event: &Event, time: i64) -> Result<(), String> {
        let thread = event.thread();
        let mut end = time;
        match event.phase {
            "X" => {
                let length = event.nanoseconds("dur")?.unwrap_or(0);
                if length < 0 {
                    return Err("has a negative \"dur\"".to_owned());
                }
                end = time.saturating_add(length);
                self.bar(thread, event.bar(), time, end);
            }
            "B" => self.open.entry(thread).or_default().push((event.bar(), time)),
            // An end without a beginning means that the recording began in the middle of the span.
            "E" => {
                if let Some((name, start)) = self.open.get_mut(&thread).and_then(Vec::pop) {
                    self.bar(thread, name, start, time);
                }
            }
            "i" => self.marks.push((thread, time, event.name())),
            "s" => {
                self.flows.insert(event.flow(), (thread, time));
            }
            step => {
                let flow = event.flow();
                if let Some(from) = self.flows.get(&flow).cloned() {
                    self.arrows.push((from, (thread.clone(), time)));
                }
                if step == "t" {
                    self.flows.insert(flow, (thread, time));
                }
            }
        }
        self.latest = self.latest.max(end);
        Ok(())
    }

    fn bar(&mut self, thread: Thread, name: String, start: i64, end: i64) {
        self.bars.entry(thread).or_default().push(Bar { name, start, end, depth: 0 });
    }

    fn finish(mut self, dropped: u64) -> Result<Timeline, String> {
        // Spans without an end were still running when the recording stopped.
        for (thread, open) in std::mem::take(&mut self.open) {
            for (name, start) in open {
                self.bar(thread.clone(), name, start, self.latest);
            }
        }
        let starts = self.bars.values().flatten().map(|bar| bar.start);
        let Some(origin) = starts.min() else {
            return Err("has no spans to draw".to_owned());
        };
        let mut rows: BTreeMap<Place, Row> = BTreeMap::new();
        for (thread, mut bars) in std::mem::take(&mut self.bars) {
            for bar in &mut bars {
                (bar.start, bar.end) = (bar.start - origin, bar.end - origin);
            }
            nest(&mut bars);
            let row = Row { process: self.process(&thread.0), name: self.thread(&thread), bars };
            rows.insert(self.place(&thread), row);
        }
        let places: HashMap<&Place, usize> =
            rows.keys().enumerate().map(|(index, place)| (place, index)).collect();
        let arrows = self.arrows.iter().filter_map(|(from, to)| {
            let end = |(thread, time): &(Thread, i64)| {
                Some((*places.get(&self.place(thread))?, time - origin))
            };
            Some(Arrow { from: end(from)?, to: end(to)? })
        });
        let arrows = arrows.collect();
        let marks = self.marks.iter().filter_map(|(thread, time, text)| {
            let row = *places.get(&self.place(thread))?;
            Some(Mark { at: (row, time - origin), text: text.clone() })
        });
        let marks = marks.collect();
        Ok(Timeline { arrows, marks, rows: rows.into_values().collect(), dropped })
    }

    fn place(&self, (process, thread): &Thread) -> Place {
        let both = (process.clone(), thread.clone());
        (
            self.process_order.get(process).copied().unwrap_or(0),
            process.clone(),
            self.thread_order.get(&both).copied().unwrap_or(0),
            thread.clone(),
        )
    }

    fn process(&self, process: &Id) -> String {
        let name = self.process_names.get(process).cloned();
        name.unwrap_or_else(|| format!("process {}", process.text))
    }

    fn thread(&self, thread: &Thread) -> String {
        let name = self.thread_names.get(thread).cloned();
        name.unwrap_or_else(|| format!("thread {}", thread.1.text))
    }
}

/// Sorts the bars of a row, and finds out which bars are within which others.
fn nest(bars: &mut [Bar]) {
    bars.sort_by_key(|bar| (bar.start, Reverse(bar.end)));
    let mut around: Vec<i64> = Vec::new();
    for bar in bars {
        while around.last().is_some_and(|&end| end <= bar.start) {
            around.pop();
        }
        bar.depth = around.len();
        around.push(bar.end);
    }
}
