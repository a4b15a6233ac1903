//! Communication threads through the public interface, on ranks of every kind.

#[path = "../../../mp-core/tests/support/mod.rs"]
#[macro_use]
mod support;

mod auto;
mod distribution;
mod ends;
mod farm;
mod order;
mod placements;
mod pool;
mod recording;
mod refused;
mod requests;
#[path = "../../../mp-core/tests/support/sandbox.rs"]
mod sandbox;
mod scopes;
mod stray;

/// Waits for several sends. Returns their results in the same order.
fn wait_each<S, U>(
    requests: impl IntoIterator<Item = mp_delegate::threads::Request<S, U>>,
) -> Vec<mp_core::Result<S, mp_core::SendError<U>>> {
    let mut requests: Vec<_> = requests.into_iter().collect();
    mp_core::wait_all(&mut requests).expect("they are of one rank");
    requests.into_iter().map(mp_core::Request::wait).collect()
}
