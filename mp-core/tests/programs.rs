//! Programs that run worlds, seen from outside: their output, how they end, and what they leave behind.
//!
//! Each case executes this program again with the case's name. So it runs like a user's program, without the test
//! harness, which captures output and has threads of its own.

#[path = "support/mod.rs"]
mod support;

use std::{
    collections::HashMap,
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::atomic::{AtomicU8, Ordering},
    time::{Duration, Instant},
};

use memmap2::MmapRaw;

use mp_core::{
    Cause, Channel, Error, ErrorKind, Result, WaitPolicy, World,
    launch::{Ending, Launched, RanksOutput, Stream},
};
use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    sys::{
        resource::{Resource, getrlimit, setrlimit},
        signal::{Signal, kill},
    },
    unistd::Pid,
};

use support::{Watchdog, watchdog::children_of};

/// The name of a case, the program, and the function that checks it from outside.
type Case = (&'static str, fn() -> Result<()>, fn());

const CASES: [Case; 40] = [
    ("lines", lines, lines_stay_whole),
    ("long-lines", long_lines, long_lines_stay_whole),
    ("input", input, rank_0_has_the_input),
    ("before", before, what_comes_before_is_heard_once),
    ("statuses", statuses, statuses_reach_the_caller),
    ("told", told, a_failure_is_told_once_and_in_words),
    ("named", named, ranks_are_named),
    ("arguments", arguments, ranks_get_their_own_arguments),
    ("wait", wait, the_environment_names_the_policy),
    ("leftovers", leftovers, nothing_is_left_behind),
    ("orphans", orphans, ranks_die_with_their_launcher),
    ("hangs", hangs, the_watchdog_ends_what_hangs),
    ("takes-long", takes_long, the_watchdog_gives_more_time_to_what_moves),
    ("never-done", never_done, the_watchdog_ends_what_is_never_done),
    ("stopped", stopped, the_watchdog_leaves_alone_what_was_stopped),
    ("descendants", descendants, a_ranks_own_children_are_no_ranks),
    ("forged", forged, a_forged_assignment_is_refused),
    ("crash", crash, a_crash_is_heard_of_and_leaves_a_short_dump),
    ("limits", limits, limits_are_kept_or_named),
    ("closed-output", closed_output, a_closed_output_is_told_to_the_ranks),
    ("slow-start", slow_start, ranks_that_have_not_come_yet_die_with_their_launcher),
    ("late", late, a_rank_that_starts_after_its_launchers_death_is_none),
    ("wrapped", wrapped, a_rank_runs_through_a_shell),
    ("wrapped-orphans", wrapped_orphans, a_rank_in_a_shell_dies_with_its_launcher),
    ("killed-in-start", killed_in_start, a_launcher_killed_at_any_moment_leaves_nothing),
    ("members", members, a_launchers_rank_runs_one_world_at_a_time),
    ("cut-off", cut_off, a_rank_without_its_descriptors_is_an_error),
    ("outlives", outlives, what_outlives_a_launcher_can_make_worlds),
    ("inherited", inherited, what_a_rank_starts_has_none_of_its_descriptors),
    ("jobs", jobs, threads_with_names_run_their_own_worlds),
    ("rivals", rivals, threads_without_names_are_told_that_they_are_alike),
    ("replayed", replayed, earlier_worlds_are_not_run_again),
    ("slow-reader", slow_reader, a_slow_reader_delays_no_notice_of_a_death),
    ("endless-line", endless_line, a_line_without_end_keeps_nobody_waiting),
    ("moved", moved, a_launched_world_may_move_to_another_thread),
    ("launched-rank", launched_rank, || ()),
    ("dropped", dropped, a_dropped_world_leaves_nothing),
    ("deaf", deaf, deaths_are_seen_where_children_are_ignored),
    ("idle-cpu-threads", || wake_on_a_cpu_that_was_idle(World::threads(2)), || wakes("threads")),
    (
        "idle-cpu-processes",
        || wake_on_a_cpu_that_was_idle(World::processes(2)),
        || wakes("processes"),
    ),
];

fn main() {
    let mut args = std::env::args().skip(1);
    let first = args.next().unwrap_or_default();
    if let Some((_, program, _)) = CASES.iter().find(|(name, ..)| *name == first) {
        if let Err(error) = program() {
            eprintln!("{error}");
            std::process::exit(9);
        }
        return;
    }
    // As in the standard harness, words choose cases. Options are ignored.
    let words: Vec<String> = std::iter::once(first)
        .chain(args)
        .filter(|a| !a.is_empty() && !a.starts_with('-'))
        .collect();
    let mut ran = 0;
    for (name, _, check) in CASES {
        if words.is_empty() || words.iter().any(|word| name.contains(word.as_str())) {
            check();
            println!("program {name} ... ok");
            ran += 1;
        }
    }
    println!("{ran} of {} programs ran as they should", CASES.len());
}

fn program(name: &str) -> Command {
    let mut command = Command::new(executable());
    command.arg(name).stdin(Stdio::null());
    command
}

/// Returns a copy of this program outside the folder of test programs, so that it does not look like a test program.
fn executable() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    if own.parent() == Some(Path::new(env!("CARGO_TARGET_TMPDIR"))) {
        return own;
    }
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join(own.file_name().unwrap());
    let same = |a: fs::Metadata, b: fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
    if !copy.metadata().is_ok_and(|copy| same(copy, own.metadata().unwrap())) {
        let _ = fs::remove_file(&copy);
        fs::hard_link(&own, &copy).unwrap();
    }
    copy
}

/// Runs a program to its end. The watchdog ends the test if this takes too long.
fn run(command: &mut Command) -> Output {
    let _watchdog = Watchdog::start();
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("output in UTF-8")
}

fn succeeded(output: &Output) -> &str {
    assert!(output.status.success(), "{}: {}", output.status, text(&output.stderr));
    text(&output.stdout)
}

const LINES: usize = 3000;

fn lines() -> Result<()> {
    World::processes(8).run(|rank| {
        let mut random = support::Random::new(rank.id() as u64);
        for line in 0..LINES {
            // The line is written in pieces, so that the reader of the pipe gets half lines.
            print!("rank {} ", rank.id());
            if random.below(50) == 0 {
                let _ = std::io::stdout().flush();
            }
            println!("line {line} {}", "=".repeat(random.below(100) as usize));
        }
        println!("rank {} line {LINES} end", rank.id());
        Ok(())
    })?;
    println!("all ranks have ended");
    Ok(())
}

fn lines_stay_whole() {
    let output = run(&mut program("lines"));
    let text = succeeded(&output);
    let mut next: HashMap<usize, usize> = HashMap::new();
    let mut lines = text.lines();
    assert_eq!(lines.next_back(), Some("all ranks have ended"), "the caller's line comes last");
    for line in lines {
        let words: Vec<_> = line.split(' ').collect();
        let [rank_word, rank, line_word, number, rest] = words[..] else { panic!("{line:?}") };
        assert_eq!((rank_word, line_word), ("rank", "line"), "{line:?}");
        assert!(rest == "end" || rest.bytes().all(|b| b == b'='), "{line:?}");
        let next = next.entry(rank.parse().unwrap()).or_default();
        assert_eq!(number.parse(), Ok(*next), "{line:?}");
        *next += 1;
    }
    assert_eq!(next.len(), 8);
    assert!(next.values().all(|&lines| lines == LINES + 1), "{next:?}");
}

fn long_lines() -> Result<()> {
    World::processes(3)
        .run(|rank| {
            let letter = [b'a' + rank.id() as u8];
            for len in [1, 60_000, 65_535, 65_536, 65_537, 300_000, 2, 1_000_000, 3] {
                let mut line = letter.repeat(len);
                line.push(b'\n');
                std::io::stdout().write_all(&line)?;
            }
            Ok(())
        })
        .map(drop)
}

fn long_lines_stay_whole() {
    let output = run(&mut program("long-lines"));
    let mut lens: HashMap<u8, Vec<usize>> = HashMap::new();
    for line in succeeded(&output).lines() {
        let letter = line.as_bytes()[0];
        assert!(line.bytes().all(|b| b == letter), "a line of two ranks");
        lens.entry(letter).or_default().push(line.len());
    }
    assert_eq!(lens.len(), 3);
    for lens in lens.values() {
        assert_eq!(*lens, [1, 60_000, 65_535, 65_536, 65_537, 300_000, 2, 1_000_000, 3]);
    }
}

fn input() -> Result<()> {
    let read = World::processes(3).run(|_| {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text)?;
        Ok(text)
    })?;
    assert_eq!(read, ["what was typed\n", "", ""]);
    Ok(())
}

fn rank_0_has_the_input() {
    let _watchdog = Watchdog::start();
    let mut child = program("input")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"what was typed\n").unwrap();
    succeeded(&child.wait_with_output().unwrap());
}

fn before() -> Result<()> {
    println!("before");
    if mp_core::caller() {
        println!("only the caller");
    }
    let first = World::processes(2).run(|rank| {
        println!("first world");
        Ok(rank.id())
    })?;
    println!("between {first:?}");
    World::processes(2).run(|rank| {
        if rank.id() == 0 {
            println!("second world {first:?} {}", mp_core::caller());
        }
        Ok(())
    })?;
    println!("after");
    Ok(())
}

fn what_comes_before_is_heard_once() {
    let output = run(&mut program("before"));
    let expected = "before\nonly the caller\nfirst world\nfirst world\nbetween [0, 1]\n\
                    second world [0, 1] false\nafter\n";
    assert_eq!(succeeded(&output), expected);
}

fn statuses() -> Result<()> {
    let how = std::env::args().nth(2).unwrap_or_default();
    let world = World::processes(3).run(|rank| {
        if rank.id() != 1 {
            return Ok(());
        }
        match how.as_str() {
            "error" => Err(Error::other("it would not work")),
            "panic" => panic!("it could not be"),
            "exit" => std::process::exit(3),
            "exit-well" => std::process::exit(0),
            "abort" => std::process::abort(),
            _ => Ok(()),
        }
    });
    world.map(drop)
}

fn statuses_reach_the_caller() {
    let ends = |how: &str| {
        let output = run(program("statuses").arg(how));
        (output.status.code(), text(&output.stderr).to_owned())
    };
    assert_eq!(ends("well"), (Some(0), String::new()));
    assert_eq!(ends("error"), (Some(9), "rank 1: it would not work\n".to_owned()));
    assert_eq!(ends("exit"), (Some(9), "rank 1 ended early with exit status 3\n".to_owned()));
    assert_eq!(ends("exit-well"), (Some(9), "rank 1 ended early with exit status 0\n".to_owned()));
    assert_eq!(ends("abort"), (Some(9), "rank 1 was killed by SIGABRT\n".to_owned()));
    let (code, text) = ends("panic");
    assert_eq!(code, Some(9));
    // The rank's own message comes first, on the same standard error.
    assert!(text.ends_with("rank 1 panicked: it could not be\n"), "{text}");
}

/// Ends as a program does whose `main` returns the error.
fn told() -> Result<()> {
    let ranks = std::env::args().nth(2).map_or(0, |failing| failing.parse().unwrap());
    let world = World::processes(3).run(|rank| match rank.id() {
        id if id > ranks => Ok(()),
        2 => Err(Error::other("no such picture")),
        _ => std::process::exit(7),
    });
    if let Err(error) = world {
        eprintln!("Error: {error:?}");
        std::process::exit(1);
    }
    Ok(())
}

fn a_failure_is_told_once_and_in_words() {
    let errors = |ranks: &str| text(&run(program("told").arg(ranks)).stderr).to_owned();
    assert_eq!(errors("0"), "Error: rank 0 ended early with exit status 7\n");
    assert_eq!(
        errors("2"),
        "Error: 3 ranks failed:\n  rank 0 ended early with exit status 7\n  \
         rank 1 ended early with exit status 7\n  rank 2: no such picture\n"
    );
}

/// Returns the system's name of this thread.
fn comm() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/thread-self/comm")?.trim_end().to_owned())
}

/// Checks the system's names of ranks. Ranks that are processes panic.
fn named() -> Result<()> {
    let before = comm()?;
    let own_hook = std::env::args().nth(2).is_some();
    if own_hook {
        std::panic::set_hook(Box::new(|_| eprintln!("the program's own words")));
    }
    let threads = World::threads(2).run(|_| Ok(comm()?))?;
    assert_eq!(threads, ["rank 0", "rank 1"]);
    World::processes(2)
        .run(|rank| {
            // The name was the same before `run`.
            ensure!(comm()? == before, "{} is not {before}", comm()?);
            let program = executable();
            let program = program.file_name().unwrap().to_string_lossy().into_owned();
            let expected = format!("{}:{}", &program[..13], rank.id());
            ensure!(before == expected, "{before} is not {expected}");
            if rank.id() == 1 { panic!("on purpose") } else { Ok(()) }
        })
        .map(drop)
}

fn ranks_are_named() {
    let said = |command: &mut Command| {
        let output = run(command);
        assert_eq!(output.status.code(), Some(9));
        text(&output.stderr).to_owned()
    };
    let name = executable();
    let name = name.file_name().unwrap().to_string_lossy();
    let heard = said(&mut program("named"));
    assert!(heard.starts_with(&format!("rank 1 of {name}:\n")), "{heard}");
    assert!(heard.ends_with("rank 1 panicked: on purpose\n"), "{heard}");
    // If the program has a hook of its own, nothing else is printed.
    let heard = said(program("named").arg("hook"));
    assert_eq!(heard, "the program's own words\nrank 1 panicked: on purpose\n");
}

fn arguments() -> Result<()> {
    let mut args = std::env::args().skip(2);
    let given = args.next();
    if given.as_deref() != Some("straight") {
        // A rank must not reach this.
        assert!(mp_core::caller(), "a rank took the long way");
        println!("the long way");
    }
    // Each rank reaches this place in the source once, and the caller reaches it several times.
    for round in 0..3 {
        let results = World::processes(2)
            .args(["arguments", "straight", &round.to_string()])
            .run(|rank| Ok((rank.id(), std::env::args().nth(3))))?;
        assert_eq!(results, [0, 1].map(|id| (id, Some(round.to_string()))));
    }
    println!("done");
    Ok(())
}

fn ranks_get_their_own_arguments() {
    assert_eq!(succeeded(&run(&mut program("arguments"))), "the long way\ndone\n");
}

fn wait() -> Result<()> {
    let sum = |world: World| {
        world.run(|rank| {
            let peer = 1 - rank.id();
            let mut to = rank.sender::<u64>("x", peer, Channel::degree(1))?;
            let from = rank.receiver::<u64>("x", peer, Channel::degree(1))?;
            to.send(&(rank.id() as u64 + 1))?;
            Ok(*from.receive()?)
        })
    };
    assert_eq!(sum(World::threads(2))?, [2, 1]);
    assert_eq!(sum(World::processes(2))?, [2, 1]);
    World::solo().map(drop)
}

fn the_environment_names_the_policy() {
    for policy in ["spin", "adaptive", "park"] {
        succeeded(&run(program("wait").env(mp_core::WAIT_VARIABLE, policy)));
    }
    for wrong in ["", "Spin", "nap"] {
        let output = run(program("wait").env(mp_core::WAIT_VARIABLE, wrong));
        assert_eq!(output.status.code(), Some(9));
        let text = text(&output.stderr);
        assert!(text.contains(mp_core::WAIT_VARIABLE) && text.contains("adaptive"), "{text}");
    }
}

/// Returns what this process has because of worlds: processes, descriptors, mappings, and the number of threads.
fn possessions() -> (Vec<u32>, Vec<PathBuf>, Vec<String>, usize) {
    let descriptors = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    (
        children_of(std::process::id()),
        // The folder itself is left out, because it is open while it is read.
        descriptors
            .filter_map(|entry| fs::read_link(entry.path()).ok())
            .filter(|link| !link.starts_with("/proc"))
            .collect(),
        maps.lines().filter(|line| line.contains("memfd")).map(str::to_owned).collect(),
        fs::read_dir("/proc/self/task").unwrap().count(),
    )
}

/// Returns the names of this process's threads, to show which of them could hold something that is left.
fn thread_names() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok()).collect()
}

fn leftovers() -> Result<()> {
    // Process ranks execute this, too, but have other things.
    let check = |when: &str, before: &(Vec<u32>, Vec<PathBuf>, Vec<String>, usize)| {
        if mp_core::caller() {
            let now = possessions();
            assert_eq!(now, *before, "{when}");
            assert!(now.0.is_empty() && now.2.is_empty(), "{when}");
        }
    };
    let before = possessions();
    let busy = |rank: &mp_core::Rank| {
        let next = (rank.id() + 1) % rank.size();
        let previous = (rank.id() + rank.size() - 1) % rank.size();
        let mut to = rank.sender::<[u64]>("ring", next, Channel::degree(2))?;
        let from = rank.receiver::<[u64]>("ring", previous, Channel::degree(2))?;
        to.send_buffer(rank.buffer_zeroed(100_000)?)?;
        let taken = from.receive_buffer()?;
        Ok(taken.len())
    };
    World::processes(4).run(busy)?;
    check("processes", &before);
    let killed = World::processes(4).run(|rank| {
        busy(rank)?;
        match rank.id() {
            0 => match support::scenarios::die() {},
            1 => panic!("as well"),
            2 => Err(Error::other("as well")),
            _ => Ok(0),
        }
    });
    assert!(killed.is_err());
    check("killed processes", &before);
    for _ in 0..3 {
        assert!(World::processes(0).run(busy).is_err());
    }
    check("no processes", &before);
    World::threads(4).run(busy)?;
    World::threads_on_heap(4).run(busy)?;
    check("threads", &before);
    let panicked = World::threads(4).run(|rank| {
        busy(rank)?;
        if rank.id() == 0 { panic!("so be it") } else { Ok(0) }
    });
    assert!(panicked.is_err());
    check("panicked threads", &before);
    drop(World::solo()?.buffer::<u8>(1 << 20)?);
    check("a world of one", &before);
    Ok(())
}

fn nothing_is_left_behind() {
    let names = || -> Vec<PathBuf> {
        let folder = |path| fs::read_dir(path).into_iter().flatten().flatten();
        folder("/dev/shm").chain(folder("/tmp")).map(|entry| entry.path()).collect()
    };
    let ours = |paths: Vec<PathBuf>| {
        paths.into_iter().filter(|p| p.to_string_lossy().to_lowercase().contains("onchip")).count()
    };
    let before = ours(names());
    succeeded(&run(&mut program("leftovers")));
    assert_eq!(ours(names()), before, "files in /dev/shm or /tmp");
}

/// Ranks that never end: one waits for a message, one sleeps again and again, and one spins.
fn orphans() -> Result<()> {
    World::processes(3)
        .run(|rank| {
            println!("{}", std::process::id());
            match rank.id() {
                0 => rank.receiver::<u8>("never", 1, Channel::degree(1))?.receive().map(drop),
                1 => loop {
                    std::thread::sleep(Duration::from_secs(1));
                },
                _ => loop {
                    std::hint::spin_loop();
                },
            }
        })
        .map(drop)
}

fn gone(pid: u32) -> bool {
    let started = Instant::now();
    while fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z ")) {
        if started.elapsed() > Duration::from_secs(10) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

fn ranks_die_with_their_launcher() {
    let _watchdog = Watchdog::start();
    let mut child = program("orphans").stdout(Stdio::piped()).spawn().unwrap();
    let output = std::io::BufReader::new(child.stdout.take().unwrap());
    let pids: Vec<u32> = std::io::BufRead::lines(output)
        .take(3)
        .map(|line| line.unwrap().parse().unwrap())
        .collect();
    assert_eq!(pids.len(), 3);
    child.kill().unwrap();
    child.wait().unwrap();
    for pid in pids {
        assert!(gone(pid), "rank process {pid} lives on");
    }
}

fn hangs() -> Result<()> {
    let _watchdog = Watchdog::with_limit(Duration::from_millis(500));
    World::processes(2)
        .run(|rank| {
            println!("{}", std::process::id());
            rank.receiver::<u8>("never", 1 - rank.id(), Channel::degree(1))?.receive().map(drop)
        })
        .map(drop)
}

fn the_watchdog_ends_what_hangs() {
    let started = Instant::now();
    let output = run(&mut program("hangs"));
    assert!(started.elapsed() < Duration::from_secs(30));
    assert!(!output.status.success());
    let said = text(&output.stderr);
    assert!(said.contains("hangs: not done after 500ms"), "{said}");
    assert!(said.contains("rank 0 is Running: receive [\"never\"] of ranks [1]"), "{said}");
    let lies = "\"never\" from [1] to [0]: 0 messages in 1 slots, the receiver asks to be woken";
    assert!(said.contains(lies) && !said.contains("moved"), "{said}");
    let pids: Vec<u32> = text(&output.stdout).lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(pids.len(), 2);
    for pid in pids {
        assert!(said.contains(&format!("process {pid}:")), "{pid} in {said}");
        assert!(gone(pid), "rank process {pid} lives on");
    }
}

/// Two ranks answer each other at least so often, and for this time.
fn take_turns(least: u32, time: Duration) -> Result<()> {
    let began = Instant::now();
    let ran = World::threads(2).run(|rank| {
        let (other, one) = (1 - rank.id(), Channel::degree(1));
        let mut to = rank.sender::<u8>("turns", other, one)?;
        let from = rank.receiver::<u8>("turns", other, one)?;
        if rank.id() == 1 {
            while *from.receive()? == 0 {
                to.send(&0)?;
            }
            return Ok(());
        }
        let mut turns = 0;
        while turns < least || began.elapsed() < time {
            to.send(&0)?;
            std::thread::sleep(Duration::from_millis(2));
            from.receive()?;
            turns += 1;
        }
        to.send(&1)
    });
    ran.map(drop)
}

fn takes_long() -> Result<()> {
    let _watchdog = Watchdog::with_limit(Duration::from_secs(2));
    take_turns(0, Duration::from_secs(3))
}

fn the_watchdog_gives_more_time_to_what_moves() {
    let is_told = |_| {
        let output = run(&mut program("takes-long"));
        succeeded(&output);
        text(&output.stderr).contains("not done after 2s, but rank")
    };
    // The program ends without that if it was stopped meanwhile for longer than it takes.
    assert!((0..3).any(is_told));
}

fn never_done() -> Result<()> {
    let _watchdog = Watchdog::with_limit(Duration::from_millis(100));
    take_turns(u32::MAX, Duration::ZERO)
}

fn the_watchdog_ends_what_is_never_done() {
    let output = run(&mut program("never-done"));
    let said = text(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("hangs: not done after") && said.contains("world of Threads"), "{said}");
}

/// The limit of the watchdog of the program that is stopped.
const STOPPED: Duration = Duration::from_secs(3);

fn stopped() -> Result<()> {
    let _watchdog = Watchdog::with_limit(STOPPED);
    println!("begun");
    take_turns(100, Duration::ZERO)
}

/// The time in which a program was stopped counts for the limit, but it does not hang.
fn the_watchdog_leaves_alone_what_was_stopped() {
    let _watchdog = Watchdog::start();
    let mut child = program("stopped").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.as_mut().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut String::new()).unwrap();
    let send = |signal| kill(Pid::from_raw(child.id() as i32), signal).unwrap();
    send(Signal::SIGSTOP);
    std::thread::sleep(STOPPED * 3 / 2);
    send(Signal::SIGCONT);
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success(), "{said}");
}

/// A rank starts another program that uses the library.
fn descendants() -> Result<()> {
    let texts = World::processes(2).run(|_| {
        let output = run(&mut program("before"));
        Ok((output.status.success(), text(&output.stdout).to_owned()))
    })?;
    for (success, text) in texts {
        assert!(success && text.starts_with("before\nonly the caller\n"), "{text}");
    }
    Ok(())
}

fn a_ranks_own_children_are_no_ranks() {
    succeeded(&run(&mut program("descendants")));
}

fn forged() -> Result<()> {
    World::processes(2).run(|_| Ok(())).map(drop)
}

fn a_forged_assignment_is_refused() {
    let me = std::process::id();
    let variable = "ONCHIP_RANK";
    // These are values of the variable without a launcher's descriptors.
    for value in [
        "",
        "x",
        "0",
        "0:",
        ":1",
        "0:0:0",
        "-1:1",
        "0:99999999999",
        &format!("0:{me}"),
        &format!("0:{me}:3"),
        &format!("0:{me}:-3"),
    ] {
        let output = run(program("forged").env(variable, value));
        assert_eq!(output.status.code(), Some(9), "{value:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains("can't enter its world"), "{value:?}");
    }
}

/// Ranks print until they get an error because nobody reads.
fn closed_output() -> Result<()> {
    World::processes(2)
        .run(|rank| {
            let mut output = std::io::stdout();
            while writeln!(output, "rank {} speaks", rank.id()).is_ok() {}
            // The line is written by one call, because lines of standard error are not assembled.
            Ok(std::io::stderr().write_all(format!("rank {} knows\n", rank.id()).as_bytes())?)
        })
        .map(drop)
}

fn a_closed_output_is_told_to_the_ranks() {
    let _watchdog = Watchdog::start();
    let mut child =
        program("closed-output").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    // The run has not succeeded if nobody has read the lines.
    assert_eq!(output.status.code(), Some(9));
    let said = text(&output.stderr);
    assert!(said.contains("rank 0 knows\n") && said.contains("rank 1 knows\n"), "{said}");
    assert!(said.ends_with("Broken pipe (os error 32)\n"), "{said}");
}

/// Returns whether this process was started as a rank, according to its environment.
fn started_as_rank() -> bool {
    std::env::var("ONCHIP_RANK").is_ok()
}

fn say_pid() {
    // The line is written by one call, because lines of standard error are not assembled.
    let _ = std::io::stderr().write_all(format!("{}\n", std::process::id()).as_bytes());
}

/// Ranks that take their time before they first use the library.
fn slow_start() -> Result<()> {
    if started_as_rank() {
        say_pid();
        std::thread::sleep(Duration::from_secs(3600));
    }
    World::processes(3).run(|_| Ok(())).map(drop)
}

/// Kills a program when its three ranks have printed their process numbers, and waits until the ranks are gone.
fn its_ranks_die_with(name: &str) {
    let _watchdog = Watchdog::start();
    let mut child = program(name).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let pids: Vec<u32> = lines.take(3).map(|line| line.unwrap().parse().unwrap()).collect();
    assert_eq!(pids.len(), 3);
    child.kill().unwrap();
    child.wait().unwrap();
    for pid in pids {
        assert!(gone(pid), "rank process {pid} lives on");
    }
}

fn ranks_that_have_not_come_yet_die_with_their_launcher() {
    its_ranks_die_with("slow-start");
}

/// Launches a shell as every rank, and waits for the end of all shells.
fn launch_shells(ranks: usize, script: &str) -> Result<Vec<Option<mp_core::launch::Ending>>> {
    let shells = World::processes(ranks).args(["-c", script]).launch("sh", false)?;
    Ok(end_of(shells))
}

fn end_of(mut launched: Launched) -> Vec<Option<mp_core::launch::Ending>> {
    for piece in launched.take_output(Stream::Out).unwrap() {
        print!("{}: {}", piece.rank, text(&piece.bytes));
    }
    while launched.any_running() {
        launched.step(&[], None).unwrap();
    }
    (0..launched.size()).map(|rank| launched.ending(rank)).collect()
}

/// Shells as ranks that become a program of this library when their launcher is dead.
fn late() -> Result<()> {
    match std::env::args().nth(2) {
        None => {
            let exe = executable();
            let script = format!(
                "echo $$ >&2; launcher=${{ONCHIP_RANK#*:}}; \
                 while kill -0 ${{launcher%:*}} 2>&-; do sleep 0.01; done; \
                 exec {} late rank",
                exe.display()
            );
            launch_shells(3, &script).map(drop)
        }
        Some(_) => {
            eprintln!("in main");
            let ids = World::processes(3).run(|rank| Ok(rank.id()));
            eprintln!("{ids:?}");
            Ok(())
        }
    }
}

fn a_rank_that_starts_after_its_launchers_death_is_none() {
    let _watchdog = Watchdog::start();
    let mut child = program("late").stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(|line| line.unwrap());
    let pids: Vec<u32> = lines.by_ref().take(3).map(|line| line.parse().unwrap()).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    // The lines end when all processes that have this standard error are gone.
    let said: Vec<String> = lines.collect();
    assert!(!said.iter().any(|line| line.contains("main") || line.contains("Ok")), "{said:?}");
    for pid in pids {
        assert!(gone(pid), "rank process {pid} lives on");
    }
}

/// The first program that a shell starts is the rank.
fn wrapped() -> Result<()> {
    let exe = executable().display().to_string();
    match std::env::args().nth(2).as_deref() {
        None => {
            let endings = launch_shells(3, &format!("{exe} wrapped rank; true"))?;
            println!("{endings:?}");
            let endings = launch_shells(2, &format!("{exe} wrapped rank && {exe} wrapped rank"))?;
            println!("{endings:?}");
            // The shell is killed, and with it the rank.
            let script = format!("{exe} wrapped killed $$; true");
            println!("{:?}", launch_shells(3, &script)?);
            Ok(())
        }
        Some("rank") => {
            let ids = World::processes(1).any_size().run(|rank| Ok(rank.id()))?;
            if mp_core::caller() {
                println!("{ids:?}");
            }
            Ok(())
        }
        Some(_) => {
            let shell = std::env::args().nth(3).unwrap().parse().unwrap();
            World::processes(1)
                .any_size()
                .run(|rank| {
                    if rank.id() == 1 {
                        let shell = Pid::from_raw(shell);
                        let _ = kill(shell, Signal::SIGKILL);
                        std::thread::sleep(Duration::from_secs(3600));
                    }
                    match rank
                        .receiver::<u8>("never", 1, Channel::degree(1))?
                        .receive()
                        .map_err(Error::into_kind)
                    {
                        Err(ErrorKind::PeerLost { rank: 1, .. }) => Ok(()),
                        other => Err(Error::other(format!("{:?}", other.err()))),
                    }
                })
                .map(drop)
        }
    }
}

fn a_rank_runs_through_a_shell() {
    let output = run(&mut program("wrapped"));
    let said = text(&output.stderr);
    let lines: Vec<&str> = succeeded(&output).lines().collect();
    assert_eq!(
        lines,
        [
            "0: [0, 1, 2]",
            "[Some(Exited(0)), Some(Exited(0)), Some(Exited(0))]",
            "0: [0, 1]",
            "[Some(Exited(9)), Some(Exited(9))]",
            "[Some(Exited(0)), Some(Killed(9)), Some(Exited(0))]",
        ],
        "{said}"
    );
    // The second program of a shell is not the rank.
    assert_eq!(said.matches("the program that was started as the rank").count(), 2, "{said}");
}

/// Ranks that wait for ever, each in a shell.
fn wrapped_orphans() -> Result<()> {
    match std::env::args().nth(2) {
        None => {
            let script = format!("{} wrapped-orphans rank; true", executable().display());
            launch_shells(3, &script).map(drop)
        }
        Some(_) => World::processes(1)
            .any_size()
            .run(|_| -> Result<()> {
                say_pid();
                loop {
                    std::thread::sleep(Duration::from_secs(1));
                }
            })
            .map(drop),
    }
}

fn a_rank_in_a_shell_dies_with_its_launcher() {
    its_ranks_die_with("wrapped-orphans");
}

/// Each process prints its number before it uses the library.
fn killed_in_start() -> Result<()> {
    say_pid();
    World::processes(3)
        .run(|_| -> Result<()> {
            loop {
                std::thread::sleep(Duration::from_secs(1));
            }
        })
        .map(drop)
}

fn a_launcher_killed_at_any_moment_leaves_nothing() {
    let _watchdog = Watchdog::start();
    for round in 0..40 {
        let mut child = program("killed-in-start").stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let caller = lines.next().unwrap().unwrap();
        assert_eq!(caller, child.id().to_string());
        std::thread::sleep(Duration::from_micros(round * 250));
        child.kill().unwrap();
        child.wait().unwrap();
        // The lines end when all processes that have this standard error are gone.
        let ranks = lines.count();
        assert!(ranks <= 3, "{ranks} processes were started after {round} * 250 us");
    }
}

/// Two threads of each rank call `run` in a launched world.
fn members() -> Result<()> {
    if std::env::args().nth(2).is_none() {
        let exe = executable();
        let ranks = World::processes(2).args(["members", "rank"]).launch(exe, false)?;
        println!("{:?}", end_of(ranks));
        return Ok(());
    }
    std::thread::scope(|scope| {
        let first = scope.spawn(|| {
            World::processes(2).run(|rank| {
                // The other thread calls `run` while this code runs.
                let own = World::processes(2).run(|_| Ok(())).is_err();
                let other = std::thread::spawn(|| World::processes(2).run(|_| Ok(())));
                Ok((rank.id(), own, other.join().is_ok_and(|result| result.is_err())))
            })
        });
        assert_eq!(first.join().unwrap()?, [(0, true, true), (1, true, true)]);
        // Any thread may make the next call.
        let second = scope.spawn(|| World::processes(2).run(|rank| Ok(rank.id())));
        assert_eq!(second.join().unwrap()?, [0, 1]);
        Ok(())
    })
}

fn a_launchers_rank_runs_one_world_at_a_time() {
    assert_eq!(succeeded(&run(&mut program("members"))), "[Some(Exited(0)), Some(Exited(0))]\n");
}

fn cut_off() -> Result<()> {
    match std::env::args().nth(2) {
        None => {
            let script = format!("{} cut-off rank 3<&- 4<&- 5<&-", executable().display());
            println!("{:?}", launch_shells(2, &script)?);
            Ok(())
        }
        Some(_) => {
            assert!(!mp_core::caller());
            World::processes(1).run(|rank| Ok(rank.id())).map(drop)
        }
    }
}

fn a_rank_without_its_descriptors_is_an_error() {
    let output = run(&mut program("cut-off"));
    assert_eq!(succeeded(&output), "[Some(Exited(9)), Some(Exited(9))]\n");
    assert_eq!(text(&output.stderr).matches("the program in between must hand them on").count(), 2);
}

/// A rank starts a program that goes on when the launcher has ended.
fn outlives() -> Result<()> {
    if let Some(launcher) = std::env::args().nth(2) {
        let launcher: u32 = launcher.parse().unwrap();
        assert!(gone(launcher));
        let ids = World::processes(2).run(|rank| Ok(rank.id()))?;
        eprintln!("{ids:?}");
        return Ok(());
    }
    let me = std::process::id().to_string();
    World::processes(2)
        .args(["outlives"])
        .run(|rank| {
            if rank.id() == 0 {
                let mut program = program("outlives");
                program.arg(std::os::unix::process::parent_id().to_string());
                drop(program.stdout(Stdio::null()).spawn()?);
            }
            Ok(())
        })
        .map(drop)?;
    eprintln!("{me} ends");
    Ok(())
}

fn what_outlives_a_launcher_can_make_worlds() {
    let output = run(&mut program("outlives"));
    succeeded(&output);
    let said = text(&output.stderr);
    assert!(said.ends_with(" ends\n[0, 1]\n"), "{said}");
}

/// A rank starts another program before it calls `run`.
fn inherited() -> Result<()> {
    let open = || {
        let script = "for fd in /proc/$$/fd/*; do echo ${fd##*/} $(readlink $fd); done";
        let output = Command::new("sh").args(["-c", script]).output().unwrap();
        let mut names = Vec::new();
        for line in text(&output.stdout).lines() {
            let (number, file) = line.split_once(' ').unwrap();
            // Descriptors with which this process was started are passed on as by any other program.
            if number.parse::<u32>().is_ok_and(|number| number > 2) {
                names.push(format!("{number} {}", file.split('[').next().unwrap()));
            }
        }
        names
    };
    let before = open();
    let inside = World::processes(2).run(|_| Ok((before.clone(), open())))?;
    for in_rank in inside.into_iter().flat_map(|(before, inside)| [before, inside]) {
        assert_eq!(in_rank, before);
    }
    Ok(())
}

fn what_a_rank_starts_has_none_of_its_descriptors() {
    succeeded(&run(&mut program("inherited")));
    // The program gets all descriptors that the caller passes on, under their numbers.
    let exe = executable();
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec 3</dev/null 5</dev/zero; exec \"$0\" inherited"]).arg(exe);
    succeeded(&run(&mut shell));
}

/// Worlds of processes that run at the same time, from one place and from several.
fn jobs() -> Result<()> {
    let job = |k: usize| World::processes(2).run(move |rank| Ok(10 * k + rank.id()));
    for round in 0..3 {
        let threads: Vec<_> = (0..3)
            .map(|k| {
                let named = std::thread::Builder::new().name(format!("job {k}"));
                named.spawn(move || (job(k), job(k + 100))).unwrap()
            })
            .collect();
        for (k, thread) in threads.into_iter().enumerate() {
            let (first, second) = thread.join().unwrap();
            assert_eq!(first?, [10 * k, 10 * k + 1], "round {round}");
            assert_eq!(second?, [10 * k + 1000, 10 * k + 1001], "round {round}");
        }
    }
    // These threads have no names, and call from places of their own.
    let left = std::thread::spawn(|| World::processes(2).run(|rank| Ok(rank.id() + 100)));
    let right = std::thread::spawn(|| World::processes(3).run(|rank| Ok(rank.id() + 200)));
    assert_eq!(World::processes(1).run(|rank| Ok(rank.id() + 300))?, [300]);
    assert_eq!(left.join().unwrap()?, [100, 101]);
    assert_eq!(right.join().unwrap()?, [200, 201, 202]);
    // These threads call one after the other from the same place.
    for k in 0..3 {
        let ids = std::thread::spawn(move || job(k)).join().unwrap()?;
        assert_eq!(ids, [10 * k, 10 * k + 1]);
    }
    println!("done");
    Ok(())
}

fn threads_with_names_run_their_own_worlds() {
    assert_eq!(succeeded(&run(&mut program("jobs"))), "done\n");
}

/// Threads that a rank can't distinguish. All of them have started before any of them calls.
fn rivals() -> Result<()> {
    let barrier = std::sync::Arc::new(std::sync::Barrier::new(3));
    let threads: Vec<_> = (0..3)
        .map(|k| {
            let barrier = std::sync::Arc::clone(&barrier);
            std::thread::spawn(move || {
                barrier.wait();
                World::processes(2).run(move |rank| {
                    // In this time, the other threads make their calls.
                    std::thread::sleep(Duration::from_millis(300));
                    Ok(10 * k + rank.id())
                })
            })
        })
        .collect();
    for thread in threads {
        match thread.join().unwrap() {
            // If the ranks had begun, each of them says it in a line of its own.
            Err(error) => println!("{}", error.to_string().replace('\n', " ")),
            Ok(ids) => println!("{ids:?}"),
        }
    }
    Ok(())
}

fn threads_without_names_are_told_that_they_are_alike() {
    let output = run(&mut program("rivals"));
    let said = succeeded(&output);
    assert_eq!(said.lines().count(), 3, "{said}");
    for line in said.lines() {
        assert!(line.contains("give each thread a name of its own"), "{said}");
    }
}

/// Worlds of threads before worlds of processes.
fn replayed() -> Result<()> {
    const ROUNDS: u64 = 20;
    let mut sum = 0;
    for round in 0..ROUNDS {
        let threads = World::threads(3).run(|rank| {
            eprintln!("a thread");
            Ok(round + rank.id() as u64)
        })?;
        let failed = World::threads(1).run(|_| match round {
            0 => Err(Error::other("the first time")),
            _ => Ok(()),
        });
        sum += threads.iter().sum::<u64>() + u64::from(failed.is_err());
        let sums = World::processes(2).run(|_| {
            eprintln!("a process");
            Ok(sum)
        })?;
        assert_eq!(sums, [sum; 2]);
    }
    assert_eq!(sum, (0..ROUNDS).map(|round| 3 * round + 3).sum::<u64>() + 1);
    Ok(())
}

fn earlier_worlds_are_not_run_again() {
    let output = run(&mut program("replayed"));
    succeeded(&output);
    let said = text(&output.stderr);
    assert_eq!(said.matches("a thread\n").count(), 60);
    assert_eq!(said.matches("a process\n").count(), 40);
}

/// One rank crashes with much shared memory, and with as many MiB of its own as the argument says.
fn crash() -> Result<()> {
    let own = std::env::args().nth(2).map_or(64, |own| own.parse().unwrap());
    let (_, hard) = getrlimit(Resource::RLIMIT_CORE).unwrap();
    setrlimit(Resource::RLIMIT_CORE, hard, hard).unwrap();
    // A dump that included the segment would be as large as this.
    let ran = World::processes(2).segment_size(512 << 20).run(|rank| {
        let channel = Channel::degree(1);
        if rank.id() == 1 {
            let mut shared = rank.buffer::<u8>(256 << 20)?;
            shared.fill(1);
            let own = vec![1u8; own << 20];
            let mut sender = rank.sender::<u32>("process", 0, channel)?;
            sender.send(&std::process::id())?;
            std::hint::black_box(&own);
            std::process::abort();
        }
        let receiver = rank.receiver::<u32>("process", 1, channel)?;
        let process = *receiver.receive()?;
        let sent = Instant::now();
        let lost = receiver.receive().map(drop).unwrap_err();
        eprintln!("known after {:?}", sent.elapsed());
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        println!("{lost}; its core is being written: {}", status.contains("CoreDumping:\t1"));
        Ok(())
    });
    println!("{}", ran.unwrap_err());
    Ok(())
}

fn a_crash_is_heard_of_and_leaves_a_short_dump() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(program("crash").current_dir(folder.path()));
    let text = succeeded(&output);
    assert!(text.starts_with("rank 1 was lost (receive"), "{text}");
    assert!(text.contains("rank 1 was killed by SIGABRT"), "{text}");
    // It depends on the machine whether there is a dump, and in which place.
    for core in fs::read_dir(folder.path()).unwrap().flatten() {
        let bytes = 512 * core.metadata().unwrap().blocks();
        assert!(bytes < 200 << 20, "{bytes} bytes of {:?}", core.file_name());
    }
}

fn limits() -> Result<()> {
    let set = |limit, soft, hard| {
        // Ranks keep the limits that their launcher gives them.
        if mp_core::caller() {
            setrlimit(limit, soft, hard).unwrap();
        }
    };
    match std::env::args().nth(2).unwrap().as_str() {
        "files" => {
            let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
            set(Resource::RLIMIT_NOFILE, 40, hard);
            let theirs = World::processes(16)
                .run(|_| Ok(getrlimit(Resource::RLIMIT_NOFILE).map_err(io::Error::from)?))?;
            assert_eq!(theirs, [(40, hard); 16]);
            set(Resource::RLIMIT_NOFILE, 40, 40);
            println!("{}", World::processes(16).run(|_| Ok(())).unwrap_err());
        }
        "file-size" => {
            set(Resource::RLIMIT_FSIZE, 100 << 20, 100 << 20);
            World::processes(2).run(|rank| Ok(rank.buffer::<u8>(8 << 20)?.len()))?;
            let world = World::processes(2).segment_size(1 << 30);
            println!("{}", world.run(|_| Ok(())).unwrap_err());
        }
        _ => {
            set(Resource::RLIMIT_AS, 4 << 30, 4 << 30);
            World::processes(2).run(|rank| Ok(rank.buffer::<u8>(8 << 20)?.len()))?;
            let world = World::processes(2).segment_size(1 << 40);
            println!("{}", world.run(|_| Ok(())).unwrap_err());
        }
    }
    Ok(())
}

fn limits_are_kept_or_named() {
    let named = [
        ("files", "this process may have no more than 40: raise its limit (ulimit -Hn)"),
        ("file-size", "(ulimit -f), which is 104857600 bytes: raise the limit"),
        ("address-space", "(ulimit -v), which is 4294967296 bytes: raise the limit"),
    ];
    for (limit, name) in named {
        let output = run(program("limits").arg(limit));
        assert!(succeeded(&output).contains(name), "{limit}: {}", text(&output.stdout));
    }
}

/// Rank 0 writes more output than is read, rank 1 dies, and rank 2 waits for rank 1.
fn slow_reader() -> Result<()> {
    let failed = World::processes(3).run(|rank| match rank.id() {
        0 => {
            let line = [b"x".repeat(999), b"\n".to_vec()].concat();
            Ok((0..8_000).try_for_each(|_| std::io::stdout().write_all(&line))?)
        }
        1 => {
            let mut started = rank.sender::<u8>("started", 2, Channel::degree(1))?;
            started.send(&1)?;
            // In this time, rank 0 fills the buffers for its output.
            std::thread::sleep(Duration::from_millis(500));
            match support::scenarios::die() {}
        }
        _ => {
            rank.receiver::<u8>("started", 1, Channel::degree(1))?.receive()?;
            let end = rank.receiver::<u8>("never", 1, Channel::degree(1))?.receive().map(drop);
            std::io::stderr().write_all(b"rank 2 knows\n")?;
            match end.map_err(Error::into_kind) {
                Err(ErrorKind::PeerLost { rank: 1, .. }) => Ok(()),
                other => Err(Error::other(format!("{other:?}"))),
            }
        }
    });
    assert_eq!(failed.unwrap_err().to_string(), "rank 1 was killed by SIGKILL");
    println!("all lines");
    Ok(())
}

fn a_slow_reader_delays_no_notice_of_a_death() {
    let _watchdog = Watchdog::start();
    let mut child =
        program("slow-reader").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let mut said = [0; 13];
    err.read_exact(&mut said).unwrap();
    assert_eq!(text(&said), "rank 2 knows\n");
    // The output is read only now.
    let lines: Vec<String> =
        std::io::BufRead::lines(std::io::BufReader::new(out)).map(|line| line.unwrap()).collect();
    assert_eq!((lines.len(), lines.last().map(String::as_str)), (8_001, Some("all lines")));
    assert!(child.wait().unwrap().success());
}

/// A rank that has written a part of a line waits for a rank that writes before it answers.
fn endless_line() -> Result<()> {
    World::processes(2).run(|rank| {
        let letter = [b'a' + rank.id() as u8];
        let one = Channel::degree(1);
        if rank.id() == 0 {
            std::io::stdout().write_all(&letter.repeat(1_500_000))?;
            std::io::stdout().flush()?;
            rank.sender::<u8>("go", 1, one)?.send(&1)?;
            rank.receiver::<u8>("answer", 1, one)?.receive()?;
            return Ok(std::io::stdout().write_all(b"aaa\n")?);
        }
        rank.receiver::<u8>("go", 0, one)?.receive()?;
        let line = [letter.repeat(99_999), b"\n".to_vec()].concat();
        (0..30).try_for_each(|_| std::io::stdout().write_all(&line))?;
        rank.sender::<u8>("answer", 0, one)?.send(&1)
    })?;
    Ok(())
}

fn a_line_without_end_keeps_nobody_waiting() {
    let output = run(&mut program("endless-line"));
    let (mut long, mut lines) = (0, 0);
    for line in succeeded(&output).lines() {
        let letter = line.as_bytes()[0];
        assert!(line.bytes().all(|b| b == letter), "a line of two ranks");
        match letter {
            b'a' => long += line.len(),
            _ => {
                assert_eq!(line.len(), 99_999);
                lines += 1;
            }
        }
    }
    assert_eq!((long, lines), (1_500_003, 30));
}

/// The program that `moved` launches.
fn launched_rank() -> Result<()> {
    World::processes(2).run(|rank| {
        println!("rank {} runs", rank.id());
        // In this time, the thread that launched the rank ends.
        std::thread::sleep(Duration::from_millis(300));
        let mut to = rank.sender::<u64>("x", 1 - rank.id(), Channel::degree(1))?;
        to.send(&5)?;
        let from = rank.receiver::<u64>("x", 1 - rank.id(), Channel::degree(1))?;
        println!("rank {} has {}", rank.id(), *from.receive()?);
        Ok(())
    })?;
    Ok(())
}

fn moved() -> Result<()> {
    let program = std::env::current_exe()?;
    let launch = || -> Result<_> {
        let world = World::processes(2).args(["launched-rank"]);
        let mut launched = world.launch(program, false)?;
        let mut output = launched.take_output(Stream::Out).unwrap();
        let mut said = Vec::new();
        while said.iter().filter(|&&byte| byte == b'\n').count() < 2 {
            said.extend(output.next().unwrap().bytes);
        }
        Ok((launched, output, said))
    };
    let spawned = std::thread::scope(|scope| scope.spawn(launch).join());
    let (mut launched, output, mut said) = spawned.unwrap()?;
    said.extend(output.flat_map(|piece| piece.bytes));
    while launched.any_running() {
        launched.step(&[], None)?;
    }
    assert_eq!([0, 1].map(|rank| launched.ending(rank)), [Some(Ending::Exited(0)); 2]);
    assert!(launched.failure(true).is_none());
    std::io::stdout().write_all(&said)?;
    Ok(())
}

fn a_launched_world_may_move_to_another_thread() {
    let output = run(&mut program("moved"));
    let mut lines: Vec<_> = succeeded(&output).lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["rank 0 has 5", "rank 0 runs", "rank 1 has 5", "rank 1 runs"]);
}

/// Launched worlds, dropped at different times.
fn dropped() -> Result<()> {
    const LINES: usize = 40;
    let few =
        "i=0; while [ $i -lt 40 ]; do echo line; echo error >&2; i=$((i+1)); sleep 0.01; done";
    let before = possessions();
    let nothing_is_left = |when: &str| {
        let now = possessions();
        assert_eq!(
            (now.0, now.1, now.2),
            (before.0.clone(), before.1.clone(), before.2.clone()),
            "{when}, with these threads: {:?}",
            thread_names()
        );
        // The kernel still shows a thread for a moment after it was joined.
        while possessions().3 > before.3 {
            std::thread::yield_now();
        }
    };
    let launch = |script: &str| World::processes(3).args(["-c", script]).launch("sh", true);
    let wait_for_all = |launched: &mut Launched| -> Result<()> {
        while launched.any_running() {
            launched.step(&[], None)?;
        }
        Ok(())
    };
    let size = |output: RanksOutput| output.map(|piece| piece.bytes.len()).sum::<usize>();
    for _ in 0..20 {
        drop(launch("exec sleep 1000")?);
        nothing_is_left("ranks that run");
        wait_for_all(&mut launch("true")?)?;
        nothing_is_left("ranks that have ended");
        drop(launch("while :; do echo line; done")?);
        nothing_is_left("ranks that write, and nobody takes it");
    }

    let mut launched = launch("while :; do echo line; done")?;
    let [mut out, err] = [Stream::Out, Stream::Err].map(|of| launched.take_output(of).unwrap());
    out.next().unwrap();
    // In this time, the ranks write more than the library keeps for a slow reader.
    std::thread::sleep(Duration::from_millis(300));
    std::thread::scope(|scope| scope.spawn(|| drop(launched)).join()).unwrap();
    nothing_is_left("ranks that write, and nobody reads it");
    assert!(size(out) > 0);
    assert_eq!(size(err), 0);

    let mut launched = launch(few)?;
    let [out, err] = [Stream::Out, Stream::Err].map(|of| launched.take_output(of).unwrap());
    wait_for_all(&mut launched)?;
    drop(launched);
    nothing_is_left("ranks that have ended, and nobody has read it");
    // No output is lost.
    assert_eq!(size(out), 3 * LINES * "line\n".len());
    assert_eq!(size(err), 3 * LINES * "error\n".len());
    Ok(())
}

fn a_dropped_world_leaves_nothing() {
    succeeded(&run(&mut program("dropped")));
}

/// Ranks that die one after another, many of them while they hold the heap's lock.
fn deaf() -> Result<()> {
    use nix::sys::signal::{SigHandler, Signal, signal};
    const RANKS: usize = 5;
    // SAFETY: ignoring a signal runs no code.
    unsafe { signal(Signal::SIGCHLD, SigHandler::SigIgn) }.map_err(std::io::Error::from)?;
    for round in 0..20 {
        let failed = World::processes(RANKS).run(|rank| -> Result<()> {
            let mut random = support::Random::new(round * 100 + rank.id() as u64);
            let life = Duration::from_micros(1_000 + random.below(5_000));
            std::thread::spawn(move || {
                std::thread::sleep(life);
                match support::scenarios::die() {}
            });
            loop {
                drop(rank.buffer_zeroed::<u8>(64)?);
            }
        });
        let Err(ErrorKind::RanksFailed(failed)) = failed.as_ref().map_err(Error::kind) else {
            panic!("{failed:?}")
        };
        let causes: Vec<_> = failed.failures.iter().map(|failure| failure.cause.clone()).collect();
        assert_eq!(causes, [const { Cause::Vanished }; RANKS]);
    }
    // Ranks that succeed do not count as vanished.
    assert_eq!(World::processes(3).run(|rank| Ok(rank.id()))?, [0, 1, 2]);
    Ok(())
}

fn deaths_are_seen_where_children_are_ignored() {
    succeeded(&run(&mut program("deaf")));
}

/// The rounds in which one rank wakes the other.
const WAKES: u64 = 120_000;

/// Binds this thread to one CPU.
fn bind(cpu: usize) {
    let mut cpus = CpuSet::new();
    cpus.set(cpu).unwrap();
    sched_setaffinity(Pid::from_raw(0), &cpus).unwrap();
}

/// The variable that names a file for [`Dirt`].
const DIRT: &str = "ONCHIP_TESTS_DIRT";

/// Lines that the ranks write in turns, through a file that each of them has mapped. A rank that has just written them
/// all has stores on their way for a while, and the next ones come after these.
struct Dirt(MmapRaw);

impl Dirt {
    const LINES: usize = 48;
    const STRIDE: usize = 128;

    fn map() -> io::Result<Self> {
        let path = std::env::var_os(DIRT).ok_or(io::ErrorKind::NotFound)?;
        let file = fs::File::options().read(true).write(true).open(path)?;
        file.set_len((Self::LINES * Self::STRIDE) as u64)?;
        Ok(Self(MmapRaw::map_raw(&file)?))
    }

    fn write(&self, value: u8) {
        for line in 0..Self::LINES {
            // SAFETY: the line is in the mapping, and all ranks access it as this atomic only.
            let line = unsafe { AtomicU8::from_ptr(self.0.as_mut_ptr().add(line * Self::STRIDE)) };
            line.store(value, Ordering::Relaxed);
        }
    }
}

/// One rank answers the other, which sleeps, at various moments around its falling asleep. The process has worked on the
/// second one's CPU, and left it idle, before it made or entered the world. The kernel's fences among processes then do
/// not reach that CPU.
fn wake_on_a_cpu_that_was_idle(world: World) -> Result<()> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap();
    let cpus: Vec<usize> =
        (0..CpuSet::count()).filter(|&cpu| allowed.is_set(cpu).unwrap()).collect();
    let &[first, second, ..] = &cpus[..] else { return Ok(()) };
    bind(second);
    let started = Instant::now();
    while started.elapsed() < Duration::from_millis(30) {
        std::hint::spin_loop();
    }
    bind(first);
    // The other CPU finds nothing else to do.
    std::thread::sleep(Duration::from_millis(2));
    // The system leaves this thread where it is.
    sched_setaffinity(Pid::from_raw(0), &allowed).unwrap();
    let ran = world.wait(WaitPolicy::Park).run(|rank| {
        let (me, peer) = (rank.id(), 1 - rank.id());
        bind([first, second][me]);
        let dirt = Dirt::map().unwrap();
        let mut to = rank.sender::<u64>("to", peer, Channel::degree(4))?;
        let from = rank.receiver::<u64>("to", peer, Channel::degree(4))?;
        for round in 0..WAKES {
            if me == 0 {
                dirt.write(0);
                to.send(&round)?;
                from.receive()?;
            } else {
                from.receive_with(WaitPolicy::Spin)?;
                (0..round % 400).for_each(|_| std::hint::spin_loop());
                dirt.write(1);
                to.send(&round)?;
            }
        }
        Ok(())
    });
    ran.map(drop)
}

fn wakes(ranks: &str) {
    let dirt = tempfile::NamedTempFile::new().unwrap();
    succeeded(&run(program(&format!("idle-cpu-{ranks}")).env(DIRT, dirt.path())));
}
