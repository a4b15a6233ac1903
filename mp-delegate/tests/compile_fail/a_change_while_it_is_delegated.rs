//! The request owns it until `wait` gives it back.
use mp_delegate::comm::Delegated;

fn send(to: &mut Delegated<[u8]>, mut row: Vec<u8>) {
    let request = to.send(row);
    row[0] = 7;
    drop(request.wait());
}

fn main() {}
