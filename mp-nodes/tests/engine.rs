//! The interconnect by an installed MPI library, under the `mpiexec` of each one that is there: in the folder that
//! `benches/peers/install.sh` writes, or that ONCHIP_PEERS names. This program runs itself as the nodes' program.

mod support;

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode, Output},
};

use mp_nodes::{Engine, Error, Interconnect, Result};
use onchip::{Channel, Communicator, Endpoints};

use support::watchdog::Watchdog;

/// The variable that makes this program a node, and says of which kind.
const NODE: &str = "ONCHIP_TESTS_NODE";

fn main() -> ExitCode {
    if let Ok(kind) = std::env::var(NODE) {
        return match node(&kind) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    let _watchdog = Watchdog::start("a program of several nodes");
    let mut ran = 0;
    refused("/nowhere/libmpi_abi.so", "can't be loaded");
    refused("/nowhere/libmpi_abi.so", "Set ONCHIP_MPI to the path of the file libmpi_abi.so");
    refused(
        "libc.so.6",
        "no MPI library with the standard ABI of MPI 5.0: it has no function MPI_Abi_get_version",
    );
    // Where cargo has put Onchip's own library, if it was built.
    let own = std::env::current_exe().unwrap().with_file_name("../libmpi_abi.so");
    if own.exists() {
        refused(own.to_str().expect("a path in UTF-8"), "is Onchip's own MPI library");
    }
    for home in ["mpich", "impi"].map(|name| peers().join(name)) {
        let library = home.join("lib/libmpi_abi.so.1");
        if !library.exists() || !home.join("bin/mpiexec").exists() {
            println!("skipped: there is no {}", library.display());
            continue;
        }
        for nodes in [1, 2, 3, 4] {
            succeeds(&run(&home, &library, nodes, "storm"));
            succeeds(&run(&home, &library, nodes, "world"));
            ran += 2;
        }
        let lengths = succeeds(&run(&home, &library, 2, "lengths"));
        assert_eq!(
            lengths.matches("all nodes must gather the same number").count(),
            2,
            "{lengths}"
        );
        let aborted = run(&home, &library, 3, "abort");
        let text = String::from_utf8_lossy(&aborted.stdout);
        assert!(!aborted.status.success() && text.contains("node 1 aborts"), "{aborted:?}");
        assert!(!text.contains("goes on"), "{aborted:?}");
        let own = home.join("lib/libmpi.so.12");
        refused(own.to_str().expect("a path in UTF-8"), "no MPI library with the standard ABI");
    }
    println!("{ran} programs of several nodes ran as they should");
    ExitCode::SUCCESS
}

fn peers() -> PathBuf {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../peers-work");
    std::env::var_os("ONCHIP_PEERS").map_or_else(beside, PathBuf::from)
}

/// Runs a node without any `mpiexec`, which must fail with these words.
fn refused(library: &str, words: &str) {
    let mut node = Command::new(std::env::current_exe().unwrap());
    let output = node.env(NODE, "storm").env("ONCHIP_MPI", library).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.contains(words), "{library}: {text}");
}

fn run(home: &Path, library: &Path, nodes: usize, kind: &str) -> Output {
    let mut command = Command::new(home.join("bin/mpiexec"));
    command.args(["-n", &nodes.to_string()]).arg(std::env::current_exe().unwrap());
    command.env(NODE, kind).env("ONCHIP_MPI", library);
    // What Intel's library needs to find its own parts, and to use memory.
    let libraries = [home.join("lib"), home.join("lib/libfabric")];
    command.env("LD_LIBRARY_PATH", std::env::join_paths(libraries).unwrap());
    // If they hang, `mpiexec` ends them before the watchdog ends this program.
    command.env("I_MPI_FABRICS", "shm").env("MPIEXEC_TIMEOUT", "100").output().unwrap()
}

fn succeeds(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{}: {out}\n{err}", output.status);
    format!("{out}{err}")
}

/// Ranks of all nodes exchange messages of many lengths with all others, by channels and by tags. Then each sends to rank 0
/// through a shared channel, and meets it.
fn world(engine: Box<Engine>) -> Result<()> {
    let (node, ranks) = (engine.node(), 1 + engine.node() % 2);
    let outcomes = mp_nodes::run(engine, ranks, |rank| {
        let others: Vec<_> = (0..rank.size()).filter(|&other| other != rank.id()).collect();
        let channel = Channel::degree(3).max_len(100_000);
        let mut to = Vec::new();
        let mut from = Vec::new();
        for &other in &others {
            to.push(rank.sender::<[u32]>("words", other, channel)?);
            from.push((other, rank.receiver::<[u32]>("words", other, channel)?));
        }
        let comm = Communicator::world(rank);
        for len in [0, 1, 5, 1000, 100_000] {
            let words = |from: usize| -> Vec<u32> { (0..len).map(|at| at ^ from as u32).collect() };
            for to in &mut to {
                to.send(&words(rank.id()))?;
            }
            for (other, from) in &from {
                assert!(*from.receive()? == words(*other), "{len} words from rank {other}");
            }
            for &other in &others {
                let mut got = vec![0; len as usize];
                comm.send_receive(&words(rank.id()), other, len, &mut got, other, len)?;
                assert!(got == words(other), "{len} tagged words from rank {other}");
            }
        }
        let (ends, channel) = (Endpoints::new(1..=others.len(), [0]), Channel::degree(2));
        if rank.id() > 0 {
            let mut all = rank.shared_sender::<u64>("all", &ends, channel)?;
            (0..20).try_for_each(|number| all.send(&number))?;
            rank.sender::<u64>("meeting", 0, Channel::degree(0))?.send(&7)?;
        } else if !others.is_empty() {
            let all = rank.shared_receiver::<u64>("all", &ends, channel)?;
            let numbers = all.iter().take(20 * others.len()).map(|number| Ok(*number?));
            let sum = numbers.sum::<mp_core::Result<u64>>()?;
            assert_eq!(sum, 190 * others.len() as u64);
            for &other in &others {
                let meeting = rank.receiver::<u64>("meeting", other, Channel::degree(0))?;
                assert_eq!(*meeting.receive()?, 7);
            }
        }
        Ok(rank.node())
    })?;
    assert!(outcomes.len() == ranks && outcomes.iter().all(|of| *of == Ok(node)), "{outcomes:?}");
    Ok(())
}

/// What a node does.
fn node(kind: &str) -> Result<()> {
    let mut engine = Engine::start()?;
    assert!(matches!(Engine::start(), Err(Error::InUse)));
    match kind {
        "world" => return world(engine),
        "storm" => {
            for seed in 0..4 {
                support::storm(&mut *engine, seed)?;
            }
            // A node can end although nobody has received these messages.
            for len in [1, 1 << 20] {
                engine.send((engine.node() + 1) % engine.nodes(), 1, Box::new(vec![1; len]))?;
            }
        }
        "lengths" => {
            let words = vec![0; 1 + engine.node()];
            let failed = engine.all_gather(&words).unwrap_err();
            println!("{failed}");
        }
        "abort" if engine.node() == 1 => {
            println!("node 1 aborts");
            engine.abort(3)?;
            println!("node 1 goes on");
        }
        "abort" => {
            engine.all_gather(&[])?;
            println!("node {} goes on", engine.node());
        }
        _ => unreachable!("no such kind of a node"),
    }
    engine.end()
}
