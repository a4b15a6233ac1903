//! Its answer holds a borrow that ends with the scope.
use mp_delegate::comm::{self, Delegated};

fn send(to: &mut Delegated<[u8]>) {
    let row = [1, 2, 3];
    let request = comm::scope(|scope| scope.send(to, &row[..]));
    drop(request.wait());
}

fn main() {}
