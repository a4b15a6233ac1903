//! The ranks that are no clients: one that serves, and one that stands by.

use std::time::Duration;

use onchip::critical::objects::MapOp;
use onchip::critical::{Error, Protected, Server};
use onchip::prelude::*;
use serde::{Deserialize, Serialize};

use crate::client::{Store, Together, die};
use crate::plan::{Limit, Plan, Victim};

/// How a server followed another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenOver {
    /// Whether the other one was killed in the middle of an operation, so that the store had to be
    /// repaired; and how many entries were dropped then.
    pub repaired: Option<usize>,
}

/// Serves until all clients have left, or until it is killed.
///
/// # Errors
/// Those of the world.
pub fn serve<const N: usize>(
    plan: &Plan,
    store: Protected<Store<N>>,
    mut together: Together,
) -> onchip::Result<()> {
    let mut server = Server::new();
    server.add(store)?;
    if let (Some(Victim::Server), Limit::Time(time)) = (plan.kill, plan.limit) {
        std::thread::spawn(move || {
            if together.begin().is_ok() {
                std::thread::sleep(time / 2);
                die();
            }
        });
        server.serve()?;
        // It is not to leave before.
        std::thread::sleep(time);
        return Ok(());
    }
    server.serve()?;
    // Until now: the first client tells all ranks to begin.
    drop(together);
    Ok(())
}

/// Waits for the end of the server, and takes over.
///
/// The one that was killed may have left the store as no operation leaves it. Then the library
/// refuses all operations until [`Protected::clear_poison`] is called, and the first one after that
/// must be the repair: a server executes what ranks ask for in the ranks' order, and no client
/// comes before this rank.
///
/// # Errors
/// Those of the world.
pub fn stand_by<const N: usize>(
    rank: &Rank,
    store: Protected<Store<N>>,
    mut together: Together,
) -> onchip::Result<TakenOver> {
    let mut own = store.another()?;
    let mut server = Server::new();
    server.add(store)?;
    let server_lives = rank.receiver::<u8>("lives", 0, Channel::degree(1))?;
    together.begin()?;
    if server_lives.receive().is_ok() {
        return Err(onchip::Error::other("the server was to be killed"));
    }
    // From here on this thread alone executes operations.
    let look = own.submit(MapOp::len())?;
    own.flush()?;
    until(&mut server, || own.test(&look))?;
    let repaired = match own.wait(look) {
        Ok(_) => None,
        Err(Error::Poisoned { .. }) => {
            let repair = own.submit(MapOp::repair())?;
            own.flush()?;
            own.clear_poison();
            until(&mut server, || own.test(&repair))?;
            Some(own.wait(repair)?.number())
        }
        Err(error) => return Err(error.into()),
    };
    drop(own);
    server.serve()?;
    Ok(TakenOver { repaired })
}

/// Serves until something is done.
fn until(
    server: &mut Server,
    mut is_done: impl FnMut() -> onchip::critical::Result<bool>,
) -> onchip::Result<()> {
    while !is_done()? {
        // It does not take over before the other one is known to be dead.
        if !server.round()? {
            std::thread::sleep(Duration::from_micros(50));
        }
    }
    Ok(())
}
