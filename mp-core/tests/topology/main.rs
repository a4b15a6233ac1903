//! Topologies that are read from file trees of other machines, and from this machine.

mod communication;
mod drawing;
mod garbage;
mod limits;
mod machines;
mod placement;
mod reading;
