//! A request could be leaked, and the thread read what is gone.
use mp_delegate::comm::Delegated;

fn send(to: &mut Delegated<[u8]>) {
    let local = [1, 2, 3];
    drop(to.send(&local[..]));
}

fn main() {}
