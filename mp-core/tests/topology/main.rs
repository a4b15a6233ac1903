//! The topology, read from file trees of machines that are not at hand, and from the one that is.

mod communication;
mod drawing;
mod garbage;
mod limits;
mod machines;
mod placement;
mod reading;
