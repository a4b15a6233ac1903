//! The thread would count its references beside the caller.
use mp_delegate::comm::Delegated;
use std::rc::Rc;

fn send(to: &mut Delegated<[u8]>, row: Rc<[u8]>) {
    drop(to.send(row));
}

fn main() {}
