//! Launchers of nodes, as threads.

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use mp_nodes::{InMemory, Nodes};
use onchip::{
    RankFailure, World,
    launch::{Ending, RanksOutput, Stream},
};

const SIGKILL: i32 = 9;

/// What became of a world.
#[derive(Debug)]
pub struct Ran {
    /// How each rank's process ended.
    pub endings: Vec<Option<Ending>>,
    pub out: String,
    pub err: String,
    /// The first failed rank, as each node knows it, and how it failed.
    pub first_failed: Vec<Option<usize>>,
    pub failures: Vec<Option<RankFailure>>,
    /// What is among the arguments of all its processes.
    pub mark: String,
}

/// What happens to a world from outside.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Harm {
    None,
    /// This node is lost before its ranks have started.
    Lost(usize),
    /// This rank is killed after some time.
    Killed(usize, Duration),
}

/// Runs one of this crate's programs as the ranks of nodes with these numbers of ranks.
pub fn run(nodes: &[usize], program: &[&str]) -> Ran {
    run_nodes(nodes, Harm::None, program)
}

/// Does the same, except that a node is lost before its ranks have started.
pub fn run_beside_a_lost_node(nodes: &[usize], lost: usize, program: &[&str]) -> Ran {
    run_nodes(nodes, Harm::Lost(lost), program)
}

/// Does the same, except that a rank is killed after some time.
pub fn run_and_kill(nodes: &[usize], rank: usize, after: Duration, program: &[&str]) -> Ran {
    run_nodes(nodes, Harm::Killed(rank, after), program)
}

fn run_nodes(nodes: &[usize], harm: Harm, program: &[&str]) -> Ran {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let mark = format!("mark-{}-{count}", std::process::id());
    let args: Vec<&str> = [&["--program"], program, &[&mark]].concat();
    let (connected, args) = (InMemory::connect(nodes.len()), &args);
    let mut ran = Ran {
        endings: Vec::new(),
        out: String::new(),
        err: String::new(),
        first_failed: Vec::new(),
        failures: Vec::new(),
        mark: mark.clone(),
    };
    thread::scope(|scope| {
        let launchers = connected.into_iter().zip(nodes).enumerate();
        let launchers = launchers.map(|(node, (connection, &ranks))| {
            scope.spawn(move || {
                let mut nodes = Nodes::join(Box::new(connection), ranks).unwrap();
                assert_eq!(nodes.node(), node);
                match harm == Harm::Lost(node) {
                    true => {
                        nodes.are_ready(true).unwrap();
                        Ran {
                            endings: vec![None; ranks],
                            out: String::new(),
                            err: String::new(),
                            first_failed: Vec::new(),
                            failures: Vec::new(),
                            mark: String::new(),
                        }
                    }
                    false => launch(nodes, harm, args),
                }
            })
        });
        for launcher in launchers.collect::<Vec<_>>() {
            let one = launcher.join().unwrap();
            ran.endings.extend(one.endings);
            ran.out += &one.out;
            ran.err += &one.err;
            ran.first_failed.extend(one.first_failed);
            ran.failures.extend(one.failures);
        }
    });
    ran
}

/// Runs the ranks of one node.
fn launch(mut nodes: Nodes, harm: Harm, args: &[&str]) -> Ran {
    let this = std::env::current_exe().unwrap();
    let world = World::processes(nodes.ranks()).args(args);
    let mut ranks = world.launch_node(nodes.first(), nodes.node(), this, true).unwrap();
    assert_eq!(nodes.are_ready(true).unwrap(), None);
    let [out, err] = [Stream::Out, Stream::Err].map(|stream| ranks.take_output(stream).unwrap());
    let bridge = ranks.bridge();
    thread::scope(|scope| {
        let [out, err] = [out, err].map(|stream| scope.spawn(move || text(stream)));
        let watch = scope.spawn(move || {
            if let Harm::Killed(rank, after) = harm
                && ranks.here().contains(&rank)
            {
                thread::sleep(after);
                ranks.signal_rank(rank, SIGKILL);
            }
            while ranks.any_running() {
                ranks.step(&[], None).unwrap();
            }
            let endings = ranks.here().map(|rank| ranks.ending(rank)).collect();
            (endings, ranks.first_failed(), ranks.failure(true))
        });
        let (nodes, served) = nodes.serve(bridge);
        served.unwrap();
        nodes.end().unwrap();
        let (endings, first, failure) = watch.join().unwrap();
        let [out, err] = [out, err].map(|thread| thread.join().unwrap());
        Ran {
            endings,
            out,
            err,
            first_failed: vec![first],
            failures: vec![failure],
            mark: String::new(),
        }
    })
}

fn text(output: RanksOutput) -> String {
    output.map(|piece| String::from_utf8(piece.bytes).unwrap()).collect()
}

/// Returns the processes that have this among their arguments.
pub fn left_behind(mark: &str) -> Vec<i32> {
    let has = |pid: &i32| {
        fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|args| args.split(|&b| b == 0).any(|arg| arg == mark.as_bytes()))
    };
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(has).collect()
}

/// Kills this process.
pub fn kill_self() -> ! {
    let kill = format!("kill -KILL {}", std::process::id());
    let status = Command::new("sh").args(["-c", &kill]).status();
    unreachable!("it was killed: {:?}", status.map(|status| status.signal()))
}
