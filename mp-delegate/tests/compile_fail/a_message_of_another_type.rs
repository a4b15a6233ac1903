//! A channel carries one type.
use mp_delegate::comm::Delegated;

fn send(to: &mut Delegated<[u8]>) {
    drop(to.send(vec![1.5f64]));
}

fn main() {}
