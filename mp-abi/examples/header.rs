//! Writes `mpi.h` from the tables of functions and constants: `cargo run -p mp-abi --example header > include/mpi.h`.

#[path = "../tests/support/header.rs"]
mod header;

fn main() {
    print!("{}", header::text());
}
