//! Ends a test that hangs, and prints the state of its processes, threads and ranks.
//!
//! A part of a test that is not done in time hangs if nothing in it moves. On a machine with much else to do, ranks that
//! share cores can be a hundred times slower: each time that a rank lets others run, it waits until all other programs
//! have had their turn. And somebody may have stopped the processes for a while. So a part that still moves gets more
//! time.

use std::{
    collections::BTreeMap,
    fmt::Write,
    fs,
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use mp_core::report::{ChannelReport, Found, RankReport, RankStage, worlds_of};

/// How long a part of a test may take if nothing in it moves any more.
const LIMIT: Duration = Duration::from_secs(240);
/// How many times as long a part may take that still moves.
const MOST: u32 = 5;
/// The part of the limit that passes between two looks at what moves, and how many looks must find nothing. One may find
/// nothing because somebody had stopped the processes since the look before.
const BETWEEN: u32 = 16;
const LOOKS: u32 = 3;
/// The part of the time that processes compute which do not just sleep, even if they get little of the processors.
const COMPUTES: u32 = 500;

/// Kills this process unless it is dropped in time. Rank processes die with this process.
#[derive(Debug)]
pub struct Watchdog {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Watches the part of the test up to the watchdog's drop.
    pub fn start() -> Self {
        Self::with_limit(LIMIT)
    }

    pub fn with_limit(limit: Duration) -> Self {
        Self::with(limit, String::new())
    }

    /// Starts a watchdog that also prints this text if the part hangs.
    pub fn telling(text: String) -> Self {
        Self::with(LIMIT, text)
    }

    fn with(limit: Duration, text: String) -> Self {
        let test = std::thread::current().name().unwrap_or("a thread without a name").to_owned();
        let (stop, stopped) = channel();
        let thread = std::thread::spawn(move || {
            if let Some((took, moved)) = hangs(&stopped, limit) {
                say(&text);
                report(&test, took, &moved);
                std::process::abort();
            }
        });
        Self { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Returns when the part is done, or hangs. In that case, returns how long it took, and what has moved last.
fn hangs(stopped: &Receiver<()>, limit: Duration) -> Option<(Duration, Vec<String>)> {
    let passes = |time| stopped.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
    for limits in 1..=MOST {
        let mut moved = Vec::new();
        let mut last = passes(limit).then(Look::now)?;
        for _ in 0..LOOKS {
            let look = passes(limit / BETWEEN).then(Look::now)?;
            moved = look.moved_since(&last);
            if !moved.is_empty() {
                break;
            }
            last = look;
        }
        if moved.is_empty() || limits == MOST {
            return Some((limit * limits, moved));
        }
        let took = limit * limits;
        say(&format!("\nnot done after {took:?}, but {} moved\n", moved.join(", ")));
    }
    None
}

/// What can move, at one moment.
struct Look {
    began: Instant,
    ended: Instant,
    /// The processor time of the processes at these times, in ticks of 10 ms. The look itself takes some.
    ticks: [u64; 2],
    /// The ranks, by the world's place among all and their number: how far each is, and how long it has waited.
    ranks: BTreeMap<(usize, usize), (RankStage, Option<Duration>)>,
}

impl Look {
    fn now() -> Self {
        let me = std::process::id();
        let ticks = || std::iter::once(me).chain(children_of(me)).filter_map(ticks_of).sum();
        let (began, before) = (Instant::now(), ticks());
        let mut ranks = BTreeMap::new();
        for (world, found) in worlds().into_iter().enumerate() {
            for RankReport { rank, stage, wait, .. } in
                found.report.into_iter().flat_map(|r| r.ranks)
            {
                ranks.insert((world, rank), (stage, wait.map(|wait| wait.since)));
            }
        }
        Self { began, ticks: [before, ticks()], ranks, ended: Instant::now() }
    }

    /// Returns the ranks that have begun or ended a wait since. If no rank has, but one runs or no world can be seen,
    /// it counts whether the processes have computed.
    fn moved_since(&self, first: &Self) -> Vec<String> {
        let between = self.began - first.ended;
        let mut moved = Vec::new();
        for (place @ (_, rank), &(stage, waits)) in &self.ranks {
            // A wait that the first look has seen is not younger than the time since.
            let is_new = waits.is_some_and(|since| since < between);
            let before = first.ranks.get(place).map(|&(stage, waits)| (stage, waits.is_some()));
            if is_new || before != Some((stage, waits.is_some())) {
                moved.push(format!("rank {rank}"));
            }
        }
        let runs =
            |&(stage, waits): &(_, Option<_>)| stage == RankStage::Running && waits.is_none();
        let ticks = self.ticks[0].saturating_sub(first.ticks[1]);
        let computes = Duration::from_millis(10 * ticks) > between / COMPUTES;
        if moved.is_empty() && computes && (self.ranks.is_empty() || self.ranks.values().any(runs))
        {
            moved.push("a thread".to_owned());
        }
        moved
    }
}

/// Returns the processor time of a process, in ticks.
fn ticks_of(process: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let times = stat.rsplit_once(')')?.1.split_whitespace().skip(11).take(2);
    times.map(|time| time.parse::<u64>().ok()).sum()
}

/// Writes directly to standard error, because the harness would keep the text of a test that never ends.
fn say(text: &str) {
    let _ = nix::unistd::write(std::io::stderr(), text.as_bytes());
}

fn report(test: &str, took: Duration, moved: &[String]) {
    let mut text = format!("\n{test} hangs: not done after {took:?}\n");
    if !moved.is_empty() {
        text += &format!("still moving: {}\n", moved.join(", "));
    }
    let me = std::process::id();
    for process in std::iter::once(me).chain(children_of(me)) {
        text += &format!("process {process}:\n");
        let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { continue };
        for thread in threads.flatten() {
            let read =
                |file: &str| fs::read_to_string(thread.path().join(file)).unwrap_or_default();
            let (stat, wait) = (read("stat"), read("wchan"));
            let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim().chars().next());
            text += &format!("  {:<24} {} {wait}\n", read("comm").trim(), state.unwrap_or('?'));
        }
    }
    say(&text);
    // This comes after the processes, because a look at a broken world might fail.
    say(&which_waits());
}

/// Returns all worlds of this process, including those of other tests.
fn worlds() -> Vec<Found> {
    worlds_of(std::process::id()).into_iter().flatten().collect()
}

/// Returns which rank waits for which in all worlds, in which call, and what lies in the channels that it waits for: a
/// rank that sleeps although a message lies there was not woken.
fn which_waits() -> String {
    let mut text = String::new();
    for found in worlds() {
        let report = match found.report {
            Ok(report) => report,
            Err(error) => {
                text += &format!("a world that can't be read: {error}\n");
                continue;
            }
        };
        text += &format!("world of {:?}, {:?} old:\n", report.kind, report.age);
        for rank in report.ranks {
            text += &format!("  rank {} is {:?}", rank.rank, rank.stage);
            let Some(wait) = rank.wait else {
                text.push('\n');
                continue;
            };
            let names: Vec<_> = wait.channels.iter().map(|channel| &channel.name).collect();
            let (operation, peers, since) = (wait.operation, wait.peers, wait.since);
            text += &format!(": {operation} {names:?} of ranks {peers:?} for {since:?}");
            text += if rank.stuck { ", stuck\n" } else { "\n" };
            let call = wait.call.into_iter().map(|call| format!("      in {call}\n"));
            let flag = wait.flag.map(|flag| format!("      flag {} of {}\n", flag.line, flag.mpbs));
            let channels = wait.channels.iter().map(|channel| format!("      {}\n", lies(channel)));
            let beside = wait.beside.iter().map(|b| format!("      beside it {}\n", lies(b)));
            text.extend(call.chain(flag).chain(channels).chain(beside));
            if wait.further_channels > 0 {
                text += &format!("      and {} more channels\n", wait.further_channels);
            }
        }
    }
    text
}

/// Returns the ends of a channel, and what lies in it.
fn lies(ChannelReport { name, senders, receivers, ring }: &ChannelReport) -> String {
    let mut text = format!("{name:?} from {senders:?} to {receivers:?}");
    if let Some(ring) = ring {
        let _ = write!(text, ": {} messages in {} slots", ring.messages, ring.slots);
        text += if ring.sender_asks { ", the sender asks to be woken" } else { "" };
        text += if ring.receiver_asks { ", the receiver asks to be woken" } else { "" };
    }
    text
}

/// Returns the processes whose parent is `parent`.
pub fn children_of(parent: u32) -> Vec<u32> {
    let of = |pid: u32| -> Option<u32> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
    };
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    processes
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|&pid| of(pid) == Some(parent))
        .collect()
}
