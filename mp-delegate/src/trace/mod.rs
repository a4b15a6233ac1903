//! A record of what ranks and communication threads did, and when. It is for pictures, and for the report of
//! [overlap](crate::overlap).
//!
//! A [`Recording`] belongs to a process, and each thread of the process writes through a [`Recorder`] of its own. At
//! the end, [`Recording::take_trace`] returns a [`Trace`], which is plain data that a rank of a process world returns
//! as its result. [`Trace::merge`] puts such parts together. [`Trace::write_chrome`] writes what Perfetto and
//! `chrome://tracing` show, and what `mprun trace-svg` draws.
//!
//! ```
//! use onchip::trace::{Detail, Kind, Recording, Track};
//!
//! let recording = Recording::trace();
//! let rank = recording.recorder(Track::rank(0));
//! let kt = recording.recorder(Track::kt(0));
//!
//! let flow = rank.flow();
//! let delegating = rank.begin(Kind::Delegate);
//! // ... into the queue of a communication thread ...
//! delegating.end(Detail::message(0, 1, 1 << 20).of(flow));
//! let sum: u64 = rank.compute(1000.0, || (0..1000).sum());
//!
//! // In the other thread:
//! let copying = kt.begin(Kind::Copy);
//! // ... from the rank's buffer into the channel ...
//! copying.end(Detail::message(0, 1, 1 << 20).of(flow));
//!
//! let mut json = Vec::new();
//! recording.take_trace().write_chrome(&mut json)?;
//! println!("{}", recording.overlap());
//! # assert_eq!(sum, 499500);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! The waits of a rank's thread, for messages, room or requests or in collective operations, are recorded
//! automatically, from the first span that a recorder of the rank begins in that thread. A wait within another span of
//! communication is a part of that span. Computation is not recorded automatically: the program must say when it
//! computes.
//!
//! # What it costs
//!
//! When recording is off, which is the default, each span costs one look at a field of the recorder that is in the
//! cache, and no clock is read. When it is on, each span and each wait of more than some microseconds costs two clock
//! readings and two locks. No other thread wants these locks except in the moments in which results are gathered. A
//! computation costs two more readings, of the thread's clock.
//!
//! Memory is bounded: a track keeps its first [`SPANS`](Recording::SPANS) spans, and counts those that it drops. The
//! times for the overlap are summed up as they come, so that they stay exact however long a program runs.

mod chrome;
mod clock;
mod recorder;
mod recording;
mod span;
mod store;
#[cfg(test)]
mod tests;
mod waits;

pub use clock::now;
pub use recorder::{Open, Recorder};
pub use recording::Recording;
pub use span::{Detail, Flow, Kind, Lane, Name, Span, Trace, Track, TrackSpans};
