//! Tagged messages: what goes over the channels of two ranks, and how receives and messages are matched.

pub(crate) mod background;
pub(crate) mod eager;
pub(crate) mod elements;
pub(crate) mod engine;
pub(crate) mod listening;
pub(crate) mod loan;
pub(crate) mod matching;
pub(crate) mod owner;
pub(crate) mod posted;
pub(crate) mod receive_stream;
pub(crate) mod send_queue;
pub(crate) mod store;
pub(crate) mod wire;
