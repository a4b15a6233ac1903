//! Tagged messages: what goes over the channels of two ranks, and how receives and messages are matched.
//!
//! Between two ranks there is a channel of lines. The sender opens it with its first message, and the receiver when it
//! first asks for a message from that sender. A receive from any source opens the channels of those ranks that have
//! opened theirs (`listening.rs`). So there are only as many channels as pairs of ranks that exchange messages. The
//! channel tells the sender, and the context in each message the communicator.
//!
//! | bytes | how they travel |
//! |---|---|
//! | up to 40 | in the first line |
//! | up to 472 | in lines: a line with its own word costs no more than a slot whose word lies apart |
//! | more | in chunks of up to 32 KiB through a second channel, so that copying in and copying out overlap |
//! | 4 to 64 KiB, to a rank that sends in pieces, too | in cells (`cells.rs`), as far as there are any |
//! | from 4 KiB, between threads with a core each | as a loan, out of the sender's memory, if the receiver waits |
//! | from 16 KiB, in memory of the world, if the program wants it | the envelope in a line; the receiver copies the elements from their place (`direct.rs`) |
//! | a buffer that moves | as a buffer, through the second channel |
//! | more than the receiver accepts unasked | the envelope in a line, and the payload later (`eager.rs`) |
//!
//! **The buffer of a receive** never belongs to the engine. It belongs to the request, even if the request only borrows
//! it; the matching knows its type and length. A call that waits for requests brings their *landings*, into which
//! pieces are copied as they come. A piece that comes during another call is kept until the request is tested or waited
//! for. So a leaked request does no harm, and nothing here needs unsafe code. The buffer of a send that can't go at
//! once moves into the engine, which needs it in every call; therefore such buffers are owned. An exchange sends
//! borrowed data, because it ends before the borrow does.
//!
//! | file | what it is |
//! |---|---|
//! | `wire` | the layout of a message in the channels |
//! | `send_queue`, `receive_stream` | the way to a rank, and from a rank |
//! | `matching`, `posted`, `store` | where messages and receives meet; posted receives; messages without a receive |
//! | `direct` | messages that their receivers copy from the memory of their senders |
//! | `cells` | memory for pieces, which goes back and forth between two ranks |
//! | `eager` | which messages come unasked |
//! | `listening` | the ranks that may send to a receive from any source |
//! | `engine` | moves messages while a call lasts |
//! | `short_wait` | the short way of a wait for a posted receive |
//! | `call` | what a call lends to the engine |
//! | `owner`, `loan` | the rank's calls have the engine, or a communication thread does |
//! | `background` | the engine as a part of every wait of its rank |
//! | `communicators` | what messages are for, as reports tell it |
//! | `elements` | types of elements, and buffers |

pub(crate) mod background;
pub(crate) mod call;
pub(crate) mod cells;
pub(crate) mod channels;
pub(crate) mod communicators;
pub(crate) mod direct;
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
pub(crate) mod short_wait;
pub(crate) mod store;
pub(crate) mod wire;
