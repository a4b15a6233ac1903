//! One handle that is used from several places of its thread.

use std::{cell::RefCell, rc::Rc};

use mp_core::{Error, ErrorKind, World};
use mp_delegate::critical::{
    AnyValue, Caller, Object, Protected, Scheme,
    objects::{Map, Queue, Stack},
};

use crate::{
    objects::{Counter, expect, with},
    support::{Watchdog, on_all},
};

/// Two closures use the handle at the same time, on more ranks than cores.
#[test]
fn a_handle_is_lent_to_several() {
    on_all(5, |rank| {
        Scheme::ALL.into_iter().try_for_each(|scheme| {
            with::<Counter, _>(rank, scheme.into(), |counter| {
                let up = || counter.apply(1);
                let twice = || Ok::<_, Error>((up()?, up()?));
                for _ in 0..50 {
                    let (first, second) = twice()?;
                    expect(first < second && second <= up()?, true)?;
                }
                Ok(())
            })
        })
    });
}

#[test]
fn objects_are_used_by_reference() {
    let _watchdog = Watchdog::start();
    let rank = World::solo().unwrap();
    for scheme in Scheme::ALL.into_iter().filter(|scheme| !scheme.needs_server()) {
        let section = || mp_delegate::critical::Section::new(scheme).len(4);
        let stack = &Stack::open(&rank, "stack", section()).unwrap();
        let queue = &Queue::open(&rank, "queue", section()).unwrap();
        let map = &Map::<u8, u8>::open(&rank, "map", section()).unwrap();
        stack.push(1).unwrap().unwrap();
        queue.enqueue(stack.pop().unwrap().unwrap()).unwrap().unwrap();
        map.insert(7, queue.dequeue().unwrap().unwrap() as u8).unwrap().unwrap();
        assert_eq!(map.get(7).unwrap(), Some(1));
    }
}

thread_local! {
    static SELF: RefCell<Option<Rc<Protected<Inward>>>> = const { RefCell::new(None) };
    static CALLER: RefCell<Option<Rc<Caller<u64>>>> = const { RefCell::new(None) };
}

/// Asks for another operation by the same handle. Returns how many calls were refused.
struct Inward;

impl Object for Inward {
    type State = u64;
    type Op = u64;
    type Ret = u64;

    fn apply(count: &mut u64, op: u64) -> u64 {
        *count += 1;
        let Some(handle) = SELF.with_borrow(Option::clone).filter(|_| op > 0) else { return 0 };
        let refused = [
            handle.apply(0).map(drop),
            handle.submit(0).map(drop),
            handle.lock().map(|mut count| *count += 100),
        ];
        refused
            .iter()
            .filter(|refused| {
                matches!(
                    refused.as_ref().map_err(Error::kind),
                    Err(ErrorKind::NestedOperation { .. })
                )
            })
            .count() as u64
    }
}

/// The same handle is used within its own operation, whichever thread executes it.
#[test]
fn an_operation_cannot_ask_by_its_own_handle() {
    let _watchdog = Watchdog::start();
    let rank = World::solo().unwrap();
    for scheme in Scheme::ALL.into_iter().filter(|scheme| !scheme.needs_server()) {
        let handle = Protected::<Inward>::open(&rank, "inward", scheme, |_| ()).unwrap();
        let handle = Rc::new(handle);
        SELF.set(Some(Rc::clone(&handle)));
        assert_eq!(handle.apply(1).unwrap(), 3, "{scheme}");
        SELF.set(None);
        // The refused call has no effect.
        assert_eq!(handle.apply(1).unwrap(), 0, "{scheme}");
    }
}

#[test]
fn a_handle_that_has_the_lock_gets_no_second_one() {
    let _watchdog = Watchdog::start();
    let rank = World::solo().unwrap();
    for scheme in Scheme::ALL.into_iter().filter(|scheme| scheme.is_lock()) {
        let counter = Protected::<Counter>::open(&rank, "counter", scheme, |_| ()).unwrap();
        let mut guard = counter.lock().unwrap();
        assert!(
            matches!(
                counter.lock().as_ref().map_err(Error::kind),
                Err(ErrorKind::NestedOperation { .. })
            ),
            "{scheme}"
        );
        assert!(
            matches!(
                counter.apply(1).as_ref().map_err(Error::kind),
                Err(ErrorKind::NestedOperation { .. })
            ),
            "{scheme}"
        );
        assert!(
            matches!(
                counter.submit(1).map(drop).as_ref().map_err(Error::kind),
                Err(ErrorKind::NestedOperation { .. })
            ),
            "{scheme}"
        );
        counter.flush().unwrap();
        *guard += 1;
        drop(guard);
        assert_eq!(*counter.lock().unwrap(), 1);
        assert_eq!(counter.apply(1).unwrap(), 1);
    }
}

#[test]
fn a_closure_cannot_call_its_own_caller() {
    let _watchdog = Watchdog::start();
    let value = AnyValue::new(0);
    let rank = World::solo().unwrap();
    for scheme in Scheme::ALL.into_iter().filter(|scheme| !scheme.needs_server()) {
        let caller = Rc::new(value.open(&rank, "value", scheme).unwrap());
        CALLER.set(Some(Rc::clone(&caller)));
        let within = |value: &mut u64| {
            *value += 1;
            let caller = CALLER.with_borrow(Option::clone);
            caller.map(|caller| {
                matches!(
                    caller.run(|value| *value += 100).as_ref().map_err(Error::kind),
                    Err(ErrorKind::NestedOperation { .. })
                )
            })
        };
        assert_eq!(caller.run(within).unwrap(), Some(true), "{scheme}");
        CALLER.set(None);
        assert_eq!(caller.run(within).unwrap(), None, "{scheme}");
    }
    assert_eq!(value.into_inner(), Some(2 * 7));
}
