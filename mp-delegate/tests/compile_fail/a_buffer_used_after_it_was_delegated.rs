//! It is the receiver's, or about to be.
use mp_core::SharedBuffer;
use mp_delegate::comm::Delegated;

fn send(to: &mut Delegated<[u8]>, buffer: SharedBuffer<u8>) {
    let request = to.send_buffer(buffer);
    assert_eq!(buffer.len(), 3);
    drop(request.wait());
}

fn main() {}
