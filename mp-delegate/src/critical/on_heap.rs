//! All schemes on threads whose world lies on the heap, with few operations, so that an interpreter that looks for
//! undefined behaviour can execute them.

use mp_core::{Error, ErrorKind, Rank, Result, World};

use super::{AnyValue, Caller, Object, Protected, Scheme, Section, Server};

/// Returns all schemes; under Miri, which is slow, one of each family.
fn schemes() -> impl Iterator<Item = Scheme> {
    let family = [Scheme::Mcs, Scheme::HSynch, Scheme::SlotServer, Scheme::MpServer(0)];
    Scheme::ALL.into_iter().filter(move |scheme| !cfg!(miri) || family.contains(scheme))
}

/// Adds to all elements of a slice, and returns what the first was.
struct Sums;

impl Object for Sums {
    type State = [u32];
    type Op = [u8; 3];
    type Ret = u32;

    fn apply(sums: &mut [u32], [by, ..]: [u8; 3]) -> u32 {
        let before = sums[0];
        sums.iter_mut().for_each(|sum| *sum += u32::from(by));
        assert!(by != 13, "unlucky");
        before
    }
}

fn small(scheme: Scheme) -> Section {
    Section::new(scheme).len(5).in_flight(2).max_ops(2).groups(1).poison(false)
}

fn serves(rank: &Rank, scheme: Scheme) -> bool {
    scheme.needs_server() && rank.id() == 0
}

fn fails(what: impl std::fmt::Debug) -> mp_core::Error {
    mp_core::Error::other(format!("{what:?}"))
}

#[test]
fn operations_are_executed_by_whomever() {
    for scheme in schemes() {
        let ran = World::threads_on_heap(2).run(|rank| {
            let sums = Protected::<Sums>::open(rank, "sums", small(scheme), |sums| {
                sums.fill(100);
            })?;
            if serves(rank, scheme) {
                let mut server = Server::new();
                server.add(sums)?;
                server.serve()?;
                return Ok(0);
            }
            let first = sums.submit([1, 0, 0])?;
            let second = sums.submit([2, 0, 0])?;
            let second = second.wait()?;
            if first.wait()? >= second {
                return Err(fails(second));
            }
            match sums.apply([13, 0, 0]).map_err(Error::into_kind) {
                Err(ErrorKind::OperationPanicked { message, .. }) if message == "unlucky" => {}
                other => return Err(fails(other)),
            }
            sums.apply([0; 3])
        });
        let users = if scheme.needs_server() { 1 } else { 2 };
        let last = ran.unwrap().into_iter().max();
        assert_eq!(last, Some(100 + 16 * users), "{scheme}");
    }
}

/// Looks at the value by several references at a time, and changes it by one.
#[test]
fn guards_lend_the_value() {
    for scheme in schemes().filter(|scheme| scheme.is_lock()) {
        let ran = World::threads_on_heap(2).run(|rank| {
            let sums = Protected::<Sums>::open(rank, "sums", small(scheme), |_| ())?;
            for _ in 0..2 {
                let mut value = sums.lock()?;
                let (one, other): (&[u32], &[u32]) = (&value, &value);
                let next = one[0].max(other[4]) + 1;
                value[0] = next;
                value[4] = next;
            }
            let value = sums.lock()?;
            Ok([value[0], value[1], value[4]])
        });
        assert_eq!(ran.unwrap().into_iter().max(), Some([4, 0, 4]), "{scheme}");
    }
}

/// Closures borrow from the caller, and what they return has an owner.
#[test]
fn closures_come_and_go() {
    for scheme in schemes() {
        let names = AnyValue::new(vec!["first".to_owned()]);
        let ran = World::threads_on_heap(2).run(|rank| {
            let mut caller = names.open(rank, "names", small(scheme).len(1))?;
            if serves(rank, scheme) {
                let mut server = Server::new();
                caller.serve(&mut server)?;
                return server.serve();
            }
            call(&mut caller, rank.id())
        });
        ran.unwrap();
        let users = if scheme.needs_server() { 1 } else { 2 };
        assert_eq!(names.into_inner().unwrap().len(), 1 + 2 * users, "{scheme}");
    }
}

fn call(caller: &mut Caller<Vec<String>>, me: usize) -> Result<()> {
    let mut seen = Vec::new();
    for round in 0..2 {
        let name = format!("{me} {round}");
        let last = caller.run(|names| {
            seen.push(names.len());
            names.push(name.clone());
            names.last().cloned()
        })?;
        if last.as_ref() != Some(&name) {
            return Err(fails(last));
        }
    }
    let panicked: Result<(), Error> = caller.run(|names| panic!("{}", names.len()));
    match panicked.map_err(Error::into_kind) {
        Err(ErrorKind::OperationPanicked { .. }) if seen.is_sorted() => Ok(()),
        other => Err(fails((seen, other))),
    }
}
