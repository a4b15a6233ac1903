//! Bounded channels that programs in Rust use today, between two pinned threads. Their threads sleep after a long wait,
//! which does not occur in a stream that flows.

use onchip_benches::cpus;

use crate::plan::Stream;
use crate::rivals::{Checked, failed};
use crate::row::{Setup, Side, Trouble};
use crate::stats::median;

#[derive(Clone, Copy)]
pub enum Library {
    Std,
    Crossbeam,
    Kanal,
    Flume,
}

impl Library {
    pub const ALL: [Library; 4] =
        [Library::Std, Library::Crossbeam, Library::Kanal, Library::Flume];

    /// Returns the name in names of rows.
    pub fn key(self) -> &'static str {
        match self {
            Library::Std => "std",
            Library::Crossbeam => "crossbeam",
            Library::Kanal => "kanal",
            Library::Flume => "flume",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Library::Std => "std sync_channel",
            Library::Crossbeam | Library::Kanal | Library::Flume => self.key(),
        }
    }

    /// Messages of 8 bytes one after the other, in a channel with as many places as the plan's degree.
    pub fn stream(self, plan: Stream) -> Side {
        Side::new(self.name(), "adaptive", move |setup| self.take(setup, plan).map(Into::into))
    }

    fn take(self, setup: &Setup, plan: Stream) -> Result<f64, Trouble> {
        let places = plan.degree as usize;
        match self {
            Library::Std => {
                let (to, from) = std::sync::mpsc::sync_channel(places);
                take(setup, plan, move |number| to.send(number), move || from.recv())
            }
            Library::Crossbeam => {
                let (to, from) = crossbeam_channel::bounded(places);
                take(setup, plan, move |number| to.send(number), move || from.recv())
            }
            Library::Kanal => {
                let (to, from) = kanal::bounded(places);
                take(setup, plan, move |number| to.send(number), move || from.recv())
            }
            Library::Flume => {
                let (to, from) = flume::bounded(places);
                take(setup, plan, move |number| to.send(number), move || from.recv())
            }
        }
    }
}

fn take<S, R>(
    setup: &Setup,
    plan: Stream,
    send: impl Fn(u64) -> Result<(), S> + Send,
    receive: impl Fn() -> Result<u64, R> + Send,
) -> Result<f64, Trouble>
where
    S: std::fmt::Display,
    R: std::fmt::Display,
{
    let send = move || (0..plan.all_messages()).try_for_each(&send).map_err(failed);
    let receive = move || {
        let mut checked = Checked::default();
        let mut number = 0;
        let rates = plan.timed(|| -> Result<(), R> {
            checked.equal(receive()?, number);
            number += 1;
            Ok(())
        });
        checked.finish()?;
        Ok(median(&rates.map_err(failed)?))
    };
    let (sent, rate) = cpus::side_by_side(setup.cpus, send, receive);
    sent.and(rate)
}
