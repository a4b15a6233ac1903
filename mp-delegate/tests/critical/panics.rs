//! Operations that panic, and operations within operations.

use std::{
    cell::{Cell, RefCell},
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use mp_core::{Error, ErrorKind, Place, World, wait_all};
use mp_delegate::critical::{Object, Protected, Request, Scheme, Section, Server, TryApplyError};

use crate::{
    objects::{Counter, Touchy, expect, with},
    support::{Together, Watchdog, on_all, parts},
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

fn panics(touchy: &Protected<Touchy>, poison: bool) -> mp_core::Result<()> {
    // The other rank may poison it as well.
    match touchy.apply(7).map_err(Error::into_kind) {
        Err(ErrorKind::OperationPanicked { place: Place::Object(object), message }) => {
            expect((&*object, message.as_str()), ("object", "7 is odd"))?;
        }
        Err(ErrorKind::Poisoned { .. }) if poison => {}
        other => return expect(format!("{other:?}"), "7 is odd".into()),
    }
    match touchy.apply(2).map_err(Error::into_kind) {
        Err(ErrorKind::Poisoned { .. }) if poison => {}
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
                    expect(request.wait().is_err(), by % 2 == 1)?;
                }
                Ok(())
            })
        })
    });
}

/// Panics with a payload that panics when it is dropped.
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
                expect(
                    matches!(
                        nasty.apply(1).as_ref().map_err(Error::kind),
                        Err(ErrorKind::OperationPanicked { .. })
                    ),
                    true,
                )?;
                expect(nasty.apply(2)? >= 3, true)
            })
        })
    });
}

thread_local! {
    static INNER: RefCell<Option<Protected<Counter>>> = const { RefCell::new(None) };
}

/// Asks for an operation on another object, for which the executing thread has a handle.
struct Outer;

impl Object for Outer {
    type State = u64;
    type Op = u64;
    /// 1 if the other operation was refused, 2 if it was executed, 0 if there is no handle.
    type Ret = u64;

    fn apply(_: &mut u64, by: u64) -> u64 {
        INNER.with_borrow_mut(|inner| {
            match inner.as_mut().map(|inner| inner.apply(by).map_err(Error::into_kind)) {
                None => 0,
                Some(Err(ErrorKind::NestedOperation { .. })) => 1,
                Some(Ok(_)) => 2,
                Some(Err(error)) => panic!("{error}"),
            }
        })
    }
}

/// An operation of a server must not wait for a server. Everything else is allowed.
#[test]
fn nested_operations_are_executed_or_refused() {
    let _watchdog = Watchdog::start();
    for outer in Scheme::ALL {
        for inner in Scheme::ALL {
            let done = AtomicBool::new(false);
            let found = World::threads(2).run(|rank| {
                let mut others = Together::new(rank)?;
                let outer_object = Protected::<Outer>::open(rank, "outer", outer, |_| ())?;
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
                    // The server's own handle would keep it serving.
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
                // The thread of this server has no handle for the inner object.
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

/// Asks for another operation on the same object.
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
            Some(itself) => matches!(
                itself.apply(0).as_ref().map_err(Error::kind),
                Err(ErrorKind::NestedOperation { .. })
            ),
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
            let object = Protected::<Inward>::open(rank, "inward", scheme, |_| ())?;
            // One of this rank's further handles, which share a seat.
            ITSELF.set(Some(object.another()?));
            let another = object.another()?;
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

/// The thread that makes the value panics in the middle. The others get an error, and wait no longer.
#[test]
fn nobody_waits_for_a_value_whose_making_panicked() {
    on_all(3, |rank| {
        let mut others = Together::new(rank)?;
        if rank.id() > 0 {
            others.wait()?;
            let opened = Protected::<Counter>::open(rank, "counter", Scheme::Mcs, |count| {
                *count += 7;
            });
            let result = opened.and_then(|counter| counter.apply(0));
            others.wait()?;
            return expect(
                matches!(
                    result.as_ref().map_err(Error::kind),
                    Err(ErrorKind::PeerLost { rank: 0, .. })
                ),
                true,
            );
        }
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            Protected::<Counter>::open(rank, "counter", Scheme::Mcs, |count| {
                *count = 5;
                others.wait().unwrap();
                thread::sleep(Duration::from_millis(20));
                panic!("in the middle");
            })
        }));
        expect(panicked.is_err(), true)?;
        others.wait()
    });
}

/// Serves the counter, beginning a little after the others may ask for it.
fn serve_late(counter: Protected<Counter>, others: &mut Together) -> mp_core::Result<()> {
    let mut server = Server::new();
    server.add(counter)?;
    others.wait()?;
    thread::sleep(Duration::from_millis(20));
    server.serve()
}

thread_local! {
    static REFUSED: RefCell<Vec<bool>> = const { RefCell::new(Vec::new()) };
}

/// While a handle waits, progress of other work asks for an operation by another handle with the same seat. That would
/// wait for itself, so it is refused.
#[test]
fn a_wait_brings_on_no_wait_for_its_own_end() {
    on_all(2, |rank| {
        let section = Section::new(Scheme::SlotServer).seats(1);
        let counter = Protected::<Counter>::open(rank, "counter", section, |_| ())?;
        let mut others = Together::new(rank)?;
        if rank.id() == 0 {
            return serve_late(counter, &mut others);
        }
        let [outer, inner] = [counter.another()?, counter.another()?];
        let part = parts::calling(move || {
            let is_nested = |result: Result<(), Error>| {
                matches!(
                    result.as_ref().map_err(Error::kind),
                    Err(ErrorKind::NestedOperation { .. })
                )
            };
            let limit = Duration::from_millis(1);
            let tried = inner.try_apply(1).map(drop);
            let refused = [
                is_nested(inner.apply(1).map(drop)),
                is_nested(inner.submit(1).map(drop)),
                is_nested(inner.apply_with(1, limit).map(drop)),
                matches!(&tried, Err(TryApplyError::Failed(failed))
                    if matches!(failed.kind(), ErrorKind::NestedOperation { .. })),
            ];
            REFUSED.with_borrow_mut(|all| all.extend(refused));
        });
        others.wait()?;
        expect(parts::beside(rank, part, || outer.apply(1))?, 0)?;
        let refused = REFUSED.take();
        expect(!refused.is_empty() && refused.into_iter().all(|refused| refused), true)?;
        // By a handle with its own seat, or after the wait, the operation is executed.
        expect(counter.apply(1)? + outer.apply(1)?, 3)
    });
}

/// The same for a request of the waiting handle itself. No operation is lost.
#[test]
fn what_a_wait_brings_on_does_not_wait_for_a_request_of_its_handle() {
    for scheme in [Scheme::SlotServer, Scheme::MpServer(0)] {
        on_all(2, |rank| {
            let counter = Protected::<Counter>::open(rank, "counter", scheme, |_| ())?;
            let mut others = Together::new(rank)?;
            if rank.id() == 0 {
                return serve_late(counter, &mut others);
            }
            // The handle is leaked, because the part that makes progress lives as long as its thread.
            let counter: &'static Protected<Counter> = Box::leak(Box::new(counter));
            let request = Rc::new(RefCell::new(Some(counter.submit(1)?)));
            let refused = Rc::new(Cell::new(0));
            let part = {
                let (request, refused) = (Rc::clone(&request), Rc::clone(&refused));
                parts::calling(move || {
                    let mut request = request.borrow_mut();
                    let Some(request) = request.as_mut() else { return };
                    match (wait_all(&mut [&mut *request]), request.test()) {
                        (Err(error), Ok(false)) if error.to_string().contains("in the middle") => {
                            refused.set(refused.get() + 1);
                        }
                        other => panic!("{other:?}"),
                    }
                })
            };
            others.wait()?;
            expect(parts::beside(rank, part, || counter.apply(1))?, 1)?;
            expect(refused.get() > 0, true)?;
            let request = request.take();
            expect(request.map(Request::wait).transpose()?, Some(0))
        });
    }
}
