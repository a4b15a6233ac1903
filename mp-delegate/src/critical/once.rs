//! Something that is done once, by the first seat that arrives.

use super::{
    site::{AnyWord, Seat, Site, someone, who},
    stop::Stop,
};

/// The value when it is done; before that, the word says which seat does it.
const DONE: u64 = u64::MAX;

/// Does it, if no seat has begun. Returns when it is done.
pub(super) fn once<S: Site>(
    site: &S,
    me: Seat,
    state: &S::Word,
    act: impl FnOnce(),
) -> Result<(), Stop> {
    // The seat registers in one step, so that others find out if it dies.
    if state.compare_exchange(0, someone(me)).is_ok() {
        act();
        state.store(DONE);
        site.wake_all();
        return Ok(());
    }
    site.wait(me, None, state, || {
        let seen = state.load();
        if seen == DONE {
            return Some(Ok(()));
        }
        let lost = site.gone(who(seen))?;
        // If the lost seat had finished, that is visible by now.
        Some(if state.load() == DONE { Ok(()) } else { Err(lost) })
    })?
}

#[cfg(all(test, loom))]
mod model {
    use super::once;
    use crate::critical::{
        model::{Ended, Model, at_every_store, each},
        site::Site,
        stop::Stop,
    };

    /// Whichever seat comes first, or dies in the middle: no seat continues before it is done, and none waits for a
    /// dead one.
    #[test]
    fn it_is_done_once_or_given_up() {
        at_every_store(3, |stores| {
            let model = Model::new(1, 2);
            let lived = each(&model, 2, move |me, model| {
                let act = || {
                    let done = once(model, me, model.word(0).unwrap(), || model.execute(me, 7));
                    match done {
                        Ok(()) => assert_eq!(model.counted(), 1),
                        Err(Stop::Lost(0)) => model.note(me as u64, Ended::Lost),
                        Err(other) => panic!("{other:?}"),
                    }
                };
                model.live_for(me, (me == 0).then_some(stores), act)
            });
            model.check();
            lived[0]
        });
    }
}
