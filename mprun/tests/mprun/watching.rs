//! `mprun ps` and `mprun report` on running worlds.

use std::{io::Write as _, time::Duration};

use serde_json::Value;

use super::harness::{Run, Signal, alone, launch, mprun, until};

super::trials![
    cycles_are_named_in_worlds_of_all_kinds,
    flags_that_are_waited_for_are_named,
    a_cycle_with_a_way_out_is_none,
    what_goes_on_beside_a_wait_may_end_it,
    ranks_that_wait_for_each_other_in_turn_are_not_stuck,
    any_process_of_a_world_leads_to_it,
    worlds_are_listed,
    nothing_to_report_is_said,
    what_only_looks_like_a_world_is_listed_as_such,
];

/// Returns the worlds that the process is part of.
fn report(pid: u32) -> Vec<Value> {
    let done = mprun(&["report", "--json", &pid.to_string()]).done();
    let Value::Array(worlds) = serde_json::from_str(&done.out).unwrap() else {
        panic!("{done:#?}")
    };
    worlds
}

fn numbers(value: &Value) -> Vec<u64> {
    value.as_array().unwrap().iter().map(|number| number.as_u64().unwrap()).collect()
}

fn cycles(world: &Value) -> Vec<Vec<u64>> {
    world["world"]["cycles"].as_array().unwrap().iter().map(numbers).collect()
}

fn stuck(world: &Value) -> Vec<bool> {
    let ranks = world["world"]["ranks"].as_array().unwrap();
    ranks.iter().map(|rank| rank["stuck"].as_bool().unwrap()).collect()
}

/// Returns how many ranks wait.
fn waiting(world: &Value) -> usize {
    let ranks = world["world"]["ranks"].as_array().unwrap();
    ranks.iter().filter(|rank| !rank["wait"].is_null()).count()
}

/// Makes reports until `done` holds for the one world of the run.
#[track_caller]
fn report_until(run: &Run, what: &str, done: impl Fn(&Value) -> bool) -> Value {
    until(what, || {
        let mut worlds = report(run.pid());
        worlds.pop().filter(|world| worlds.is_empty() && done(world))
    })
}

fn cycles_are_named_in_worlds_of_all_kinds() {
    for ranks in [2, 3] {
        let count = ranks.to_string();
        let all: Vec<u64> = (0..ranks).collect();
        for operation in ["receive", "send"] {
            let program = |kind| ["cycle", kind, &count, operation];
            for run in [
                alone(&program("threads")),
                alone(&program("processes")),
                launch(&["-n", &count], &program("processes")),
            ] {
                let world = report_until(&run, "a deadlock", |world| !cycles(world).is_empty());
                assert_eq!(cycles(&world), std::slice::from_ref(&all), "{world:#}");
                assert_eq!(stuck(&world), vec![true; ranks as usize]);
                let wait = &world["world"]["ranks"][0]["wait"];
                assert_eq!(wait["operation"], operation);
                assert_eq!(numbers(&wait["peers"]), [1]);
                let name = if operation == "send" { "to next" } else { "from next" };
                assert_eq!(wait["channels"][0]["name"], name);

                let text = mprun(&["report", &run.pid().to_string()]).done().expect_code(0).out;
                let verb = if operation == "send" { "send" } else { "receive" };
                let to = if operation == "send" { "to" } else { "from" };
                let line = format!("waits to {verb} on \"{name}\" {to} rank 1, for ");
                assert!(text.contains(&line), "{text}");
                let links: Vec<String> = (1..ranks).map(|rank| format!("rank {rank}")).collect();
                let links = links.join(", which waits for ");
                let line = format!("deadlock: rank 0 waits for {links}, which waits for rank 0\n");
                assert!(text.contains(&line), "{text}");
            }
        }
    }
}

fn flags_that_are_waited_for_are_named() {
    for kind in ["threads", "processes"] {
        let run = alone(&["cycle", kind, "3", "flag"]);
        let world = report_until(&run, "a deadlock", |world| !cycles(world).is_empty());
        assert_eq!(cycles(&world), [[0, 1, 2]]);
        assert_eq!(stuck(&world), [true; 3]);
        let wait = &world["world"]["ranks"][2]["wait"];
        assert_eq!(wait["operation"], "flag");
        assert_eq!(numbers(&wait["peers"]), [0]);
        assert_eq!((&wait["flag"]["mpbs"], &wait["flag"]["line"]), (&"flags".into(), &5.into()));
        let text = mprun(&["report", &run.pid().to_string()]).done().expect_code(0).out;
        assert!(text.contains("waits for flag 5 of \"flags\" from rank 1, for "), "{text}");
    }
}

fn a_cycle_with_a_way_out_is_none() {
    // One of the two senders that rank 0 selects from sleeps, and may send later.
    let run = alone(&["select", "processes", "sleeps"]);
    let world = report_until(&run, "two waits", |world| waiting(world) == 2);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(cycles(&report(run.pid())[0]), Vec::<Vec<u64>>::new());
    let select = &world["world"]["ranks"][0]["wait"];
    assert_eq!(select["operation"], "select");
    assert_eq!(numbers(&select["peers"]), [1, 2], "both channels are known: {world:#}");

    // Now that sender waits for the other one, so no rank is left that could begin.
    let run = alone(&["select", "threads", "waits"]);
    let world = report_until(&run, "a deadlock", |world| stuck(world) == [true; 3]);
    assert_eq!(cycles(&world), [[0, 1]]);
    let text = mprun(&["report", &run.pid().to_string()]).done().out;
    assert!(text.contains("rank 2 waits for ranks that will never go on"), "{text}");

    // These waits have a time limit, so they end by themselves.
    let run = alone(&["cycle", "threads", "3", "limited"]);
    let world = report_until(&run, "three waits", |world| waiting(world) == 3);
    assert!(cycles(&world).is_empty());
    let left = world["world"]["ranks"][0]["wait"]["gives_up_in_seconds"].as_f64().unwrap();
    assert!(left > 400.0 && left <= 600.0, "{left}");
}

/// Ranks 0 and 1 wait for each other. Whether rank 2 can help them depends on what else rank 1 has pending: a tagged
/// send, together with a barrier that it waits in or has begun, or with a delegated send.
fn what_goes_on_beside_a_wait_may_end_it() {
    let names = |what: &str| {
        for kind in ["threads", "processes"] {
            let run = alone(&["beside", kind, what, "waits"]);
            let world = report_until(&run, what, |world| stuck(world) == [true; 3]);
            assert_eq!(cycles(&world), [[0, 1]], "{what}: {world:#}");
            let text = mprun(&["report", &run.pid().to_string()]).done().expect_code(0).out;
            let line = "deadlock: rank 0 waits for rank 1, which waits for rank 0\n";
            assert!(text.contains(line), "{what}: {text}");
        }
    };
    let names_none = |what: &str| {
        for kind in ["threads", "processes"] {
            let run = alone(&["beside", kind, what, "computes"]);
            // At the start, ranks 0 and 1 wait for each other as well, and for rank 2. That is not the wait that is
            // tested.
            let is_there = |world: &Value| {
                let [zero, one, two] = [0, 1, 2].map(|rank| &world["world"]["ranks"][rank]["wait"]);
                zero["channels"][0]["name"] == "later"
                    && one["peers"].as_array().is_some_and(|peers| peers.contains(&2.into()))
                    && two.is_null()
            };
            for _ in 0..3 {
                let world = report_until(&run, what, is_there);
                assert!(
                    cycles(&world).is_empty() && stuck(&world) == [false; 3],
                    "{what}: {world:#}"
                );
            }
        }
    };
    // The barrier is of ranks 0 and 1 alone.
    names("barrier");
    // The tagged send is to rank 2.
    names_none("barrier beside 2");
    // The barrier is of all ranks.
    for what in ["calls", "thread", "any"] {
        names_none(what);
        names(what);
    }
}

fn ranks_that_wait_for_each_other_in_turn_are_not_stuck() {
    for kind in ["threads", "processes"] {
        let run = alone(&["pingpong", kind]);
        report_until(&run, "a wait", |world| waiting(world) > 0);
        for _ in 0..20 {
            let world = &report(run.pid())[0];
            assert!(cycles(world).is_empty(), "{world:#}");
        }
    }
}

fn any_process_of_a_world_leads_to_it() {
    let mut run = launch(&["-n", "3"], &["hang"]);
    for rank in 0..3 {
        run.await_out(&format!("rank {rank} of"));
    }
    let world = &report(run.pid())[0];
    let pids = numbers(&world["pids"]);
    assert_eq!(pids.len(), 4);
    assert_eq!(world["world"]["launcher"], run.pid());
    for pid in pids {
        assert_eq!(numbers(&report(pid as u32)[0]["pids"]), numbers(&world["pids"]));
    }
    for rank in 0..3 {
        assert_eq!(world["world"]["ranks"][rank]["stage"], "running");
    }
}

fn worlds_are_listed() {
    let one = launch(&["-n", "3"], &["finish"]);
    let two = alone(&["cycle", "threads", "2", "receive"]);
    let listed = |pid: u32| -> Option<Vec<String>> {
        let out = mprun(&["ps"]).done().expect_code(0).out;
        let line = out.lines().find(|line| line.starts_with(&format!("{pid} ")))?;
        Some(
            line.split("  ").map(|cell| cell.trim().to_owned()).filter(|c| !c.is_empty()).collect(),
        )
    };
    until("both in the list", || {
        let (one, two) = (listed(one.pid())?, listed(two.pid())?);
        let wanted = one[3] == "2 running, 1 finished" && two[3] == "2 waiting, deadlock";
        wanted.then(|| {
            assert_eq!(one[1..3], ["3", "processes"]);
            assert_eq!(two[1..3], ["2", "threads"]);
            assert!(one[6].starts_with("mprun-"), "the test program's name: {one:?}");
        })
    });
    let all: Value =
        serde_json::from_str(&mprun(&["ps", "--json"]).done().expect_code(0).out).unwrap();
    let launchers: Vec<&Value> =
        all.as_array().unwrap().iter().map(|world| &world["world"]["launcher"]).collect();
    assert!(launchers.contains(&&one.pid().into()) && launchers.contains(&&two.pid().into()));
    let (one, pid) = (one, two.pid());
    one.signal(Signal::SIGTERM);
    one.done().expect_code(143);
    drop(two);
    assert_eq!(listed(pid), None);
}

fn nothing_to_report_is_said() {
    let mut run = alone(&["idle"]);
    run.await_out("idle");
    let pid = run.pid().to_string();
    mprun(&["report", &pid]).done().expect_code(1).expect_err("part of no world");
    mprun(&["report", "4194305"]).done().expect_code(125).expect_err("process 4194305");
    let done = mprun(&["report", "--json", &pid]).done().expect_code(1);
    assert_eq!(done.out.trim(), "[]");
}

fn what_only_looks_like_a_world_is_listed_as_such() {
    use nix::sys::memfd::{MFdFlags, memfd_create};
    let memfd = memfd_create("onchip-world", MFdFlags::MFD_CLOEXEC).unwrap();
    let mut file = std::fs::File::from(memfd);
    file.write_all(&[7; 100]).unwrap();
    let me = std::process::id().to_string();
    let done = mprun(&["report", &me]).done().expect_code(0);
    assert!(done.out.contains("can't be read") && done.out.contains("too small"), "{done:#?}");
    file.write_all(&[7; 1 << 22]).unwrap();
    let done = mprun(&["ps"]).done().expect_code(0);
    assert!(done.out.contains("not a segment"), "{done:#?}");
    let done = mprun(&["report", "--json", &me]).done().expect_code(0);
    assert!(done.out.contains("\"error\": \"not a segment"), "{done:#?}");
}
