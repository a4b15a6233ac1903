//! The scope joins at its end; what is lent must live until then.
use mp_delegate::comm::{self, Delegated};

fn send(to: &mut Delegated<[u8]>) {
    comm::scope(|scope| {
        let local = [1, 2, 3];
        scope.send(to, &local[..]);
    });
}

fn main() {}
