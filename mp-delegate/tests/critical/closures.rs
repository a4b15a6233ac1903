//! Operations that are closures, between ranks that are threads.

use mp_core::{Channel, Error, ErrorKind, World};
use mp_delegate::critical::{AnyValue, Scheme, Section, Server};

use crate::{
    objects::expect,
    support::{Together, Watchdog},
};

/// The values that closures borrow and return may own memory.
#[test]
fn closures_borrow_and_return_what_they_like() {
    let _watchdog = Watchdog::start();
    for scheme in Scheme::ALL {
        let value = AnyValue::new(Vec::<String>::new());
        let result = World::threads(3).run(|rank| {
            let caller = value.open(rank, "value", scheme)?;
            if scheme.needs_server() && rank.id() == 0 {
                let mut server = Server::new();
                caller.serve(&mut server)?;
                return server.serve();
            }
            for round in 0..100 {
                let name = format!("{} {round}", rank.id());
                let before: Vec<String> = caller.run(|names| {
                    let before = names.clone();
                    names.push(name.clone());
                    before
                })?;
                let own = format!("{} ", rank.id());
                let own = before.iter().filter(|name| name.starts_with(&own)).count();
                expect(own, round)?;
            }
            Ok(())
        });
        result.unwrap();
        let users = if scheme.needs_server() { 2 } else { 3 };
        assert_eq!(value.into_inner().unwrap().len(), users * 100);
    }
}

#[test]
fn a_closure_that_panics_is_told_of_and_dropped() {
    let _watchdog = Watchdog::start();
    for scheme in Scheme::ALL {
        let value = AnyValue::new(0);
        let held = std::sync::Arc::new(());
        let result = World::threads(2).run(|rank| {
            let caller = value.open(rank, "value", Section::new(scheme).poison(false))?;
            if scheme.needs_server() && rank.id() == 0 {
                let mut server = Server::new();
                caller.serve(&mut server)?;
                return server.serve();
            }
            let held = held.clone();
            let panicked: Result<(), Error> = caller.run(move |count| {
                let _held = held;
                *count += 1;
                panic!("{count}")
            });
            match panicked.map_err(Error::into_kind) {
                Err(ErrorKind::OperationPanicked { .. }) => {}
                other => return expect(format!("{other:?}"), "a panic".to_owned()),
            }
            expect(caller.run(|count| *count)? > 0, true)
        });
        result.unwrap();
        assert_eq!(std::sync::Arc::strong_count(&held), 1);
    }
}

#[test]
fn a_value_has_one_object_and_one_name() {
    let rank = World::solo().unwrap();
    let (one, two) = (AnyValue::new(1), AnyValue::new(2));
    let first = one.open(&rank, "one", Scheme::Mcs).unwrap();
    assert!(matches!(
        one.open(&rank, "other", Scheme::Mcs).as_ref().map_err(Error::kind),
        Err(ErrorKind::BadObject { .. })
    ));
    assert!(matches!(
        one.open(&rank, "one", Scheme::Mcs).as_ref().map_err(Error::kind),
        Err(ErrorKind::BadObject { .. })
    ));
    assert_eq!(first.run(|one| *one).unwrap(), 1);
    drop(first);
    assert_eq!(one.into_inner(), Some(1));
    let open = two.open(&rank, "two", Scheme::Mcs).unwrap();
    assert_eq!(two.into_inner(), None);
    drop(open);
    let result = World::threads(2).run(|rank| {
        let value = AnyValue::new(rank.id());
        let opened = value.open(rank, "same", Scheme::Mcs);
        Together::new(rank)?.wait()?;
        Ok(u8::from(opened.is_ok()))
    });
    let opened = result.unwrap();
    assert_eq!(opened[0] + opened[1], 1, "values of two ranks by one name");
}

/// A value can be opened again as soon as no rank has it open, in the same world or in another.
#[test]
fn a_value_can_be_opened_again() {
    let _watchdog = Watchdog::start();
    let value = AnyValue::new(0);
    for scheme in Scheme::ALL {
        let result = World::threads(3).run(|rank| {
            for name in ["one", "other"] {
                let mut others = Together::new(rank)?;
                let caller = value.open(rank, name, scheme)?;
                others.wait()?;
                if scheme.needs_server() && rank.id() == 0 {
                    let mut server = Server::new();
                    caller.serve(&mut server)?;
                    server.serve()?;
                } else {
                    caller.run(|value| *value += 1)?;
                    drop(caller);
                }
                others.wait()?;
            }
            Ok(())
        });
        result.unwrap();
    }
    let users: usize =
        Scheme::ALL.map(|scheme| if scheme.needs_server() { 2 } else { 3 }).iter().sum();
    assert_eq!(value.into_inner(), Some(2 * users));
}

/// Words that a program sends are never called as closures.
#[test]
fn closures_are_not_made_of_words() {
    let _watchdog = Watchdog::start();
    let value = AnyValue::new(0);
    let scheme = Scheme::MpServer(0);
    let result = World::threads(2).run(|rank| {
        let channel = Channel::degree(32).max_len(2);
        if rank.id() == 0 {
            let mut server = Server::new();
            value.open(rank, "value", scheme)?.serve(&mut server)?;
            return server.serve();
        }
        let mut ask = rank.sender::<[u64]>("value/ask", 0, channel)?;
        let words = [0xdead_beef_u64, 1];
        ask.send(&[std::ptr::from_ref(&words) as u64, 1])?;
        let caller = value.open(rank, "value", scheme)?;
        (0..100).try_for_each(|_| caller.run(|value| *value += 1))
    });
    result.unwrap();
    assert_eq!(value.into_inner(), Some(100));
}

#[test]
fn closures_do_not_go_to_processes() {
    let _watchdog = Watchdog::start();
    let result = World::processes(1).run(|rank| {
        match AnyValue::new(1).open(rank, "value", Scheme::Mcs).map_err(Error::into_kind) {
            Err(ErrorKind::BadObject { .. }) => Ok(()),
            other => expect(format!("{other:?}"), "refused".to_owned()),
        }
    });
    result.unwrap();
}
