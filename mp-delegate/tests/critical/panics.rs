//! Operations that panic, and operations within operations.

use std::{
    cell::RefCell,
    sync::atomic::{AtomicBool, Ordering},
};

use mp_core::World;
use mp_delegate::critical::{Error, Object, Protected, Scheme, Section, Server};

use crate::{
    objects::{Counter, Touchy, expect, with},
    support::{Together, Watchdog, on_all},
};

#[test]
fn whoever_asked_gets_the_panic() {
    on_all(2, |rank| {
        for scheme in Scheme::ALL {
            for poison in [false, true] {
                let section = Section::new(scheme).poison(poison);
                with::<Touchy, _>(rank, section, |touchy| panics(touchy, poison))?;
            }
        }
        Ok(())
    });
}

fn panics(touchy: &mut Protected<Touchy>, poison: bool) -> mp_core::Result<()> {
    // The other one may poison it, too.
    match touchy.apply(7) {
        Err(Error::Panicked { object, message }) => {
            expect((object.as_str(), message.as_str()), ("object", "7 is odd"))?;
        }
        Err(Error::Poisoned { .. }) if poison => {}
        other => return expect(format!("{other:?}"), "7 is odd".into()),
    }
    match touchy.apply(2) {
        Err(Error::Poisoned { .. }) if poison => {}
        Ok(sum) if !poison => expect(sum >= 9, true)?,
        other => return expect(format!("{other:?}"), format!("{poison}")),
    }
    expect(touchy.is_poisoned(), poison)
}

#[test]
fn poison_can_be_cleared() {
    let _watchdog = Watchdog::start();
    let result = World::threads(2).run(|rank| {
        Scheme::ALL.into_iter().try_for_each(|scheme| {
            with::<Touchy, _>(rank, scheme.into(), |touchy| {
                if rank.id() != 1 {
                    return Ok(());
                }
                expect(touchy.apply(1).is_err(), true)?;
                expect(touchy.apply(2).is_err(), true)?;
                touchy.clear_poison();
                expect(touchy.apply(2)?, 3)
            })
        })
    });
    result.unwrap();
}

#[test]
fn some_of_those_in_flight_panic() {
    on_all(2, |rank| {
        [Scheme::SlotServer, Scheme::MpServer(0), Scheme::Mcs].into_iter().try_for_each(|scheme| {
            let section = Section::new(scheme).poison(false);
            with::<Touchy, _>(rank, section, |touchy| {
                let requests: Vec<_> =
                    (0..20).map(|by| touchy.submit(by)).collect::<Result<_, _>>()?;
                for (by, request) in requests.into_iter().enumerate() {
                    expect(touchy.wait(request).is_err(), by % 2 == 1)?;
                }
                Ok(())
            })
        })
    });
}

/// Panics with something that panics when it is dropped.
struct Nasty;

struct Again;

impl Drop for Again {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("again");
        }
    }
}

impl Object for Nasty {
    type State = u64;
    type Op = u64;
    type Ret = u64;

    fn apply(sum: &mut u64, by: u64) -> u64 {
        *sum += by;
        if by == 1 {
            std::panic::panic_any(Again);
        }
        *sum
    }
}

#[test]
fn what_a_panic_carries_harms_nobody() {
    on_all(2, |rank| {
        Scheme::ALL.into_iter().try_for_each(|scheme| {
            let section = Section::new(scheme).poison(false);
            with::<Nasty, _>(rank, section, |nasty| {
                expect(matches!(nasty.apply(1), Err(Error::Panicked { .. })), true)?;
                expect(nasty.apply(2)? >= 3, true)
            })
        })
    });
}

thread_local! {
    static INNER: RefCell<Option<Protected<Counter>>> = const { RefCell::new(None) };
}

/// Asks for an operation on another object, which the executing thread has at hand.
struct Outer;

impl Object for Outer {
    type State = u64;
    type Op = u64;
    /// 1 where the other operation was refused, 2 where it was executed, 0 where there is none.
    type Ret = u64;

    fn apply(_: &mut u64, by: u64) -> u64 {
        INNER.with_borrow_mut(|inner| match inner.as_mut().map(|inner| inner.apply(by)) {
            None => 0,
            Some(Err(Error::Nested { .. })) => 1,
            Some(Ok(_)) => 2,
            Some(Err(error)) => panic!("{error}"),
        })
    }
}

/// Within an operation of a server nobody waits for a server; everything else is allowed.
#[test]
fn nested_operations_are_executed_or_refused() {
    let _watchdog = Watchdog::start();
    for outer in Scheme::ALL {
        for inner in Scheme::ALL {
            let done = AtomicBool::new(false);
            let found = World::threads(2).run(|rank| {
                let mut others = Together::new(rank)?;
                let mut outer_object = Protected::<Outer>::open(rank, "outer", outer, |_| ())?;
                let inner_object = Protected::<Counter>::open(rank, "inner", inner, |_| ())?;
                let mut server = Server::new();
                if rank.id() == 0 {
                    if inner.needs_server() {
                        let more = inner_object.another();
                        server.add(inner_object)?;
                        INNER.set(more.ok());
                    } else {
                        INNER.set(Some(inner_object));
                    }
                    if outer.needs_server() {
                        server.add(outer_object)?;
                    } else {
                        drop(outer_object);
                    }
                    others.wait()?;
                    // Its own handle would keep it serving.
                    while !done.load(Ordering::Acquire) {
                        server.round()?;
                    }
                    INNER.take();
                    return Ok(0);
                }
                INNER.set(Some(inner_object));
                others.wait()?;
                let found = outer_object.apply(1)?;
                done.store(true, Ordering::Release);
                INNER.take();
                Ok(found)
            });
            let wanted = match (outer, inner) {
                // Its server has no handle of its own.
                (Scheme::SlotServer | Scheme::MpServer(_), Scheme::MpServer(_)) => 0,
                _ if outer.needs_server() && inner.needs_server() => 1,
                _ => 2,
            };
            assert_eq!(found.unwrap()[1], wanted, "{inner:?} within {outer:?}");
        }
    }
}

thread_local! {
    static ITSELF: RefCell<Option<Protected<Inward>>> = const { RefCell::new(None) };
}

/// Asks for another operation on itself.
struct Inward;

impl Object for Inward {
    type State = u64;
    type Op = u64;
    type Ret = u64;

    fn apply(count: &mut u64, op: u64) -> u64 {
        *count += 1;
        if op == 0 {
            return *count;
        }
        let refused = ITSELF.with_borrow_mut(|itself| match itself {
            Some(itself) => matches!(itself.apply(0), Err(Error::Nested { .. })),
            None => false,
        });
        u64::from(refused)
    }
}

#[test]
fn an_operation_that_would_wait_for_itself_is_refused() {
    let _watchdog = Watchdog::start();
    for scheme in Scheme::ALL.into_iter().filter(|scheme| !matches!(scheme, Scheme::MpServer(_))) {
        let done = AtomicBool::new(false);
        let found = World::threads(2).run(|rank| {
            let mut object = Protected::<Inward>::open(rank, "inward", scheme, |_| ())?;
            // Of this rank's further handles, which share a seat.
            ITSELF.set(Some(object.another()?));
            let mut another = object.another()?;
            if rank.id() == 0 {
                let mut server = Server::new();
                if scheme.needs_server() {
                    server.add(object)?;
                }
                while !done.load(Ordering::Acquire) {
                    server.round()?;
                }
                ITSELF.take();
                return Ok(1);
            }
            let refused = object.apply(1)? & another.apply(1)?;
            done.store(true, Ordering::Release);
            ITSELF.take();
            Ok(refused)
        });
        assert_eq!(found.unwrap(), [1, 1], "{scheme}");
    }
}
