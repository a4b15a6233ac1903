//! The thread may be reading it.
use mp_delegate::comm::{self, Delegated};

fn send(to: &mut Delegated<[u8]>) {
    let mut row = [1, 2, 3];
    comm::scope(|scope| {
        scope.send(to, &row[..]);
        row[0] = 7;
    });
}

fn main() {}
