//! The ranks that are no clients: one that serves, and one that stands by.

use onchip::critical::{Protected, Server};
use serde::{Deserialize, Serialize};

use crate::client::{Store, Together, die};
use crate::plan::{Limit, Plan, Victim};

/// How a server took over from another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenOver {
    /// Whether the other server was killed in the middle of an operation, so that the store had to be repaired.
    pub cut_short: bool,
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
        // The server must not leave before that.
        std::thread::sleep(time);
        return Ok(());
    }
    server.serve()?;
    // The channels stay open until now, because the first client tells all ranks to begin.
    drop(together);
    Ok(())
}

/// Waits for the end of the server, and takes over. If the server was killed in the middle of an operation, the library
/// repairs the store before it executes another one.
///
/// # Errors
/// The errors of the world.
pub fn stand_by<const N: usize>(
    store: Protected<Store<N>>,
    mut together: Together,
) -> onchip::Result<TakenOver> {
    let mut server = Server::new();
    server.add(store)?;
    together.begin()?;
    server.serve()?;
    Ok(TakenOver { cut_short: server.cut_short() > 0 })
}
